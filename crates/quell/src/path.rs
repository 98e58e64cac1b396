//! `quell path`: the hops to a host. Arguments and text; the rest is in `crates/path`.

mod live;
mod text;

use crate::failure::Failure;
use crate::host;
use crate::keeping::Keeping;
use crate::options::{Family, choice};
use crate::ping::{seconds, way};
use crate::results;
use crate::screen;
use crate::text::{columns, say};
use clap::Args;
use quell_cause::Cause;
use quell_model::Event;
use quell_path::{
    PathError, PathHops, PathReport, PathSession, PathSink, PathWishes, ProbeMethod, UDP_PORT,
    findings,
};
use quell_store::Run;
use quell_store::{About, End, Keep, Origin, command_line};
use quell_units::{Ecn, Span, Tos};
use std::path::Path;
use std::process::ExitCode;

/// Where nearly every host answers, be it with a refusal.
const TCP_PORT: u16 = 443;
/// Hops are routers of other people: who is not root asks each at most so often.
const LEAST_INTERVAL: Span = Span::from_millis(100);

#[derive(Debug, Args)]
pub struct PathArgs {
    /// Where to: HOST, ADDRESS; with --method udp or tcp also HOST:PORT, [IPv6]:PORT
    #[arg(required_unless_present = "read")]
    pub host: Option<String>,
    /// What is sent [default: icmp, or udp where there are several flows or ICMP is not allowed]
    #[arg(short, long, value_parser = choice([
        ("icmp", "ICMP echo", ProbeMethod::Icmp),
        ("udp", "UDP datagrams to a port where nobody should listen", ProbeMethod::Udp),
        ("tcp", "SYNs of TCP; an open or closed port answers", ProbeMethod::Tcp),
    ]))]
    pub method: Option<ProbeMethod>,
    /// Port at the other end [default: 33434 for udp, 443 for tcp]
    #[arg(short, long)]
    pub port: Option<u16>,
    /// Flows, each with a port of its own: shows routers that spread traffic over several links
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub flows: u16,
    /// Own port of the first flow; the others use the next ones
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub from_port: Option<u16>,
    /// Time between probes of a hop
    #[arg(short, long, value_name = "TIME", default_value = "1", value_parser = seconds, allow_negative_numbers = true)]
    pub interval: Span,
    /// Probes of each hop and flow; without it, until Ctrl-C
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// How long probes are sent; without it, until Ctrl-C
    #[arg(short, long, value_name = "TIME", value_parser = seconds)]
    pub duration: Option<Span>,
    /// Bytes of payload, 12 at least
    #[arg(short, long, value_name = "BYTES", default_value_t = 56, value_parser = clap::value_parser!(u32).range(12..=65_000))]
    pub size: u32,
    /// TOS byte or traffic class: a number, or a name: EF, CS1, low-delay …
    #[arg(long, value_name = "TOS", default_value = "0")]
    pub tos: Tos,
    /// The two ECN bits of the TOS byte
    #[arg(long, value_parser = crate::options::ecn())]
    pub ecn: Option<Ecn>,
    /// Most hops
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u8).range(1..))]
    pub max_hops: u8,
    /// Do not measure the MTU and whether marks arrive: send nothing but equal probes
    #[arg(long)]
    pub no_survey: bool,
    #[command(flatten)]
    pub family: Family,
    /// Own address to send from, or device to send by
    #[arg(short = 'I', long = "from", value_name = "ADDRESS|DEVICE")]
    pub from: Option<String>,
    /// How long an answer is awaited [default: 3s, or twice the longest RTT so far, up to 60s]
    #[arg(short = 'W', long, value_name = "TIME", value_parser = seconds)]
    pub wait: Option<Span>,
    #[command(flatten)]
    pub keeping: Keeping,
    /// Sum up a run that was kept: its name, a part of it, or `last`
    #[arg(short, long, value_name = "RUN", conflicts_with_all = ["host", "save", "write", "plain", "count", "duration"])]
    pub read: Option<String>,
    /// Only the summary, also on a terminal
    #[arg(short = 'q', long = "quiet", alias = "plain")]
    pub plain: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The seed that a kept run names
    #[arg(long, default_value_t = 1, hide = true)]
    pub seed: u64,
}

pub fn path(args: &PathArgs) -> Result<ExitCode, Failure> {
    args.keeping.check()?;
    if let Some(name) = &args.read {
        return read(name, args);
    }
    let (mut session, wishes) = session(args)?;
    let probe = session.prepare(&wishes, args.method.is_some()).map_err(refused)?;
    // Before the run's folder is made, which would stay behind half made.
    let stop = crate::interrupt::bell()?;
    let keep = match args.keeping.is_wanted() {
        true => Some(begin(args, &session)?),
        false => None,
    };
    let is_live = !args.json && !args.plain && screen::is_live();
    let mut view = Terminal { session: &session, is_live, keep, screen: screen::Screen::new() };
    let ended = quell_path::run(&session, probe, args.duration, &stop, &mut view);
    let ended = ended.map_err(Failure::system)?;
    if is_live {
        screen::Screen::show(&view.screen.clear(screen::size().0));
    }
    let end = End::of(ended.failed.as_deref(), stop.rings());
    let run = view.keep.map(|keep| keep.finish(end)).transpose()?;
    tell(&session, &ended.hops, args.json, run.as_deref());
    if let Some(why) = ended.failed {
        return Err(Failure::system(why));
    }
    if let Some(folder) = run.as_deref().filter(|_| args.keeping.output.is_some()) {
        args.keeping.draw(&results::read(folder)?)?;
    }
    verdict(&session, &ended.hops)
}

struct Terminal<'a> {
    session: &'a PathSession,
    is_live: bool,
    keep: Option<Keep>,
    screen: screen::Screen,
}

impl PathSink for Terminal<'_> {
    fn keep(&mut self, event: Event) -> Result<(), String> {
        let Some(keep) = &mut self.keep else { return Ok(()) };
        keep.event(&event).map_err(|error| {
            // What was kept so far stays readable.
            self.keep = None;
            error.to_string()
        })
    }

    fn is_live(&self) -> bool {
        self.is_live
    }

    fn draw(&mut self, hops: &PathHops, elapsed_ns: u64) {
        let (width, height) = screen::size();
        let lines = live::lines(self.session, hops, elapsed_ns, width, height);
        screen::Screen::show(&self.screen.frame(&lines, width));
    }
}

fn refused(error: PathError) -> Failure {
    match error {
        PathError::Wrong(why) => Failure::usage(why),
        PathError::System(error) => Failure::system(error),
        PathError::Forbidden => Failure::system(
            "ICMP is not allowed to this user. One of these helps:\n  \
             sudo sysctl net.ipv4.ping_group_range='0 2147483647'   (ping sockets for everybody)\n  \
             quell path --method udp HOST, or --method tcp          (need no rights)",
        ),
    }
}

fn read(name: &str, args: &PathArgs) -> Result<ExitCode, Failure> {
    let folder = results::located(&args.keeping.place.base, name)?;
    let run = Run::read(&folder).map_err(Failure::unusable)?;
    let (session, hops) = quell_path::read(&run).ok_or_else(|| {
        let run = &run.manifest.run;
        Failure::unusable(format!("{run} is no run of `quell path`; see `quell show {run}`"))
    })?;
    tell(&session, &hops, args.json, Some(&run.folder));
    args.keeping.draw(&run)?;
    Ok(ExitCode::SUCCESS)
}

fn tell(session: &PathSession, hops: &PathHops, json: bool, run_folder: Option<&Path>) {
    let run = run_folder.map(|folder| folder.display().to_string());
    if json {
        let report = PathReport::new(session, hops, run.as_deref());
        println!("{}", crate::text::document(&serde_json::json!(report)));
        return;
    }
    print!("{}", text::summary(session, hops, columns()));
    if let Some(run) = run_folder {
        say(&format!("\nkept as {}\n", results::shown(run)));
    }
}

fn session(args: &PathArgs) -> Result<(PathSession, PathWishes), Failure> {
    let is_plain = (args.flows, args.port) == (1, None);
    let method = args.method.unwrap_or(if is_plain { ProbeMethod::Icmp } else { ProbeMethod::Udp });
    if method == ProbeMethod::Icmp && args.port.is_some() {
        return Err(Failure::usage("--port: ICMP has no ports; take --method udp or tcp"));
    }
    if method == ProbeMethod::Icmp && args.from_port.is_some() {
        return Err(Failure::usage("--from-port: ICMP has no ports; take --method udp or tcp"));
    }
    let way = way(args.from.as_deref());
    let family = args.family.or_that_of(way.source);
    let port = match method {
        ProbeMethod::Icmp => None,
        ProbeMethod::Udp => Some(args.port.unwrap_or(UDP_PORT)),
        ProbeMethod::Tcp => Some(args.port.unwrap_or(TCP_PORT)),
    };
    let own = way.source.map(|own| ("-I", own));
    let usual = host::Usual { family, own, port, device: way.device.as_deref() };
    let name = args.host.as_deref().unwrap_or_default();
    let host::Found { to, others } = host::resolve(name, usual).map_err(Failure::usage)?;
    if args.interval.is_zero() {
        return Err(Failure::usage("-i 0: each hop is asked at least every 1ms; take 1s"));
    }
    let root = nix::unistd::geteuid().is_root();
    if args.interval < LEAST_INTERVAL && !root && !to.ip().is_loopback() {
        return Err(Failure::usage(format!(
            "-i {}: routers on the way are asked more often than every {LEAST_INTERVAL} only as root; most limit their answers to one a second",
            args.interval
        )));
    }
    if args.wait.is_some_and(Span::is_zero) {
        return Err(Failure::usage("-W 0: no answer comes in no time; give a time, as 500ms"));
    }
    let from_port = args.from_port.unwrap_or(0);
    if from_port.checked_add(args.flows - 1).is_none() {
        return Err(Failure::usage(format!(
            "--from-port {from_port}: {} flows count up beyond 65535",
            args.flows
        )));
    }
    let tos = args.ecn.map_or(args.tos, |ecn| args.tos.with_ecn(ecn));
    let session = PathSession {
        host: name.into(),
        to,
        others,
        method,
        ports: Vec::new(),
        interval_ns: args.interval.nanos(),
        size: args.size,
        tos: tos.byte(),
        survey: !args.no_survey,
        sees_marks: false,
    };
    let wishes = PathWishes {
        flows: args.flows,
        port: from_port,
        count: args.count,
        most_hops: args.max_hops,
        wait: args.wait,
        way,
        zone: host::zone(&to),
    };
    Ok((session, wishes))
}

fn begin(args: &PathArgs, session: &PathSession) -> Result<Keep, Failure> {
    let about = About {
        name: args.keeping.write.clone().unwrap_or_else(|| "path".into()),
        scenario: format!("{:?}", session.method).to_lowercase(),
        title: command_line(),
        task: "path".into(),
        clock: "CLOCK_MONOTONIC".into(),
        seed: args.seed,
        window_ns: None,
        origin: Origin::Here(std::time::Duration::ZERO),
    };
    let mut keep = Keep::begin(&args.keeping.place.base, &about)?;
    keep.event(&quell_path::session_fact(session))?;
    Ok(keep)
}

/// A path whose end did not answer, or on which large packets vanish, is a failed check.
fn verdict(session: &PathSession, hops: &PathHops) -> Result<ExitCode, Failure> {
    if hops.reached(session.to.ip()) {
        let black_hole = Cause::MtuBlackHole.name();
        let swallows = findings(session, hops).iter().any(|found| found.id == black_hole);
        return Ok(ExitCode::from(u8::from(swallows)));
    }
    let last = hops.hops().filter(|(_, hop, _)| !hop.responders.is_empty()).last();
    let far = match last {
        // As a router does, or with a refusal.
        Some((number, hop, _)) if hop.responders[0].address == session.to.ip() => {
            format!("what has its address answers at hop {number}, and is not reached there")
        }
        Some((number, hop, _)) => {
            format!("the last that answered is hop {number} ({})", hop.responders[0].address)
        }
        None => "nobody on the way did either".to_owned(),
    };
    let hint = match session.method {
        ProbeMethod::Icmp => "; --method tcp or udp may get through",
        ProbeMethod::Udp => "; hosts often keep silent about UDP: try --method tcp or icmp",
        ProbeMethod::Tcp => "; --method icmp may get through",
    };
    let others = host::hint(&session.to, &session.others);
    Err(Failure::check(format!("no answer from {}: {far}{hint}{others}", session.host)))
}
