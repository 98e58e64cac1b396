//! `quell ping`: arguments and text; the rest is in `crates/ping`.

mod hosts;
pub mod hours;
pub mod live;
pub mod text;
mod view;

use crate::failure::Failure;
use crate::host::Usual;
use crate::keeping::Keeping;
use crate::options::{Family, Metrics, choice};
use crate::results;
use crate::screen;
use crate::text::{columns, say};
use clap::Args;
use quell_ping::{DayRuns, DiskBound, PingKeeper};
use quell_ping::{Method, PingError, PingReport, PingSession, StreamDefaults, StreamSpec, Tally};
use quell_store::Run;
use quell_sys::socket::Way;
use quell_units::{Bytes, Dscp, Ecn, Span, Tos};
use std::path::Path;
use std::process::ExitCode;
use view::{JsonForm, PingDisplay, PingView};

/// Where nearly every host answers, be it with a refusal.
const TCP_PORT: u16 = 443;
/// Packets of each host that is only asked whether it answers, as many as fping sends.
const LISTED: u64 = 4;

#[derive(Debug, Args)]
pub struct PingArgs {
    /// What to ping: HOST, ADDRESS; with --method udp or tcp also HOST:PORT, [IPv6]:PORT
    #[arg(required_unless_present_any = ["streams", "read", "file", "generate"])]
    pub hosts: Vec<String>,
    #[command(flatten)]
    pub more: hosts::Hosts,
    /// A stream with a name, and a TOS byte and size of its own: -t voip,example.org,EF,160 (repeatable)
    #[arg(short = 't', long = "stream", value_name = "ID,HOST[,TOS[,SIZE]]")]
    pub streams: Vec<StreamSpec>,
    /// Time between packets of a stream: 200ms, or 0.2 for seconds
    #[arg(short, long, value_name = "TIME", default_value = "0.2", value_parser = seconds, allow_negative_numbers = true)]
    pub interval: Span,
    /// Packets of each stream; without it, until Ctrl-C
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// How long packets are sent; without it, until Ctrl-C
    #[arg(short, long, value_name = "TIME", value_parser = seconds)]
    pub duration: Option<Span>,
    /// Bytes of payload (UDP: at least 44)
    #[arg(short, long, value_name = "BYTES", default_value = "56", value_parser = quell_ping::size)]
    pub size: u32,
    /// TOS byte or traffic class: a number, or a name: EF, CS1, low-delay …
    #[arg(long, value_name = "TOS", default_value = "0")]
    pub tos: Tos,
    /// The same by its DSCP: a number from 0 to 63, or a name: EF, CS1, AF41 …
    #[arg(long, value_name = "DSCP", conflicts_with = "tos")]
    pub dscp: Option<Dscp>,
    /// How many hops packets may take (TTL)
    #[arg(short = 'H', long, value_name = "HOPS", value_parser = clap::value_parser!(u8).range(1..))]
    pub ttl: Option<u8>,
    /// Packets are not fragmented (DF); what is larger than the path's MTU is refused
    #[arg(short = 'M', long)]
    pub dont_fragment: bool,
    /// The two ECN bits of the TOS byte
    #[arg(long, value_parser = crate::options::ecn())]
    pub ecn: Option<Ecn>,
    /// What is sent
    #[arg(short, long, default_value = "icmp", value_parser = choice([
        ("icmp", "ICMP echo", Method::Icmp),
        ("udp", "STAMP over UDP, to `quell serve` or another reflector; shows the direction of losses and one-way delays", Method::Udp),
        ("tcp", "The handshake of a TCP connection; an open or closed port answers", Method::Tcp),
    ]))]
    pub method: Method,
    /// Port at the other end [default: 5201 for udp, 443 for tcp]
    #[arg(short, long)]
    pub port: Option<u16>,
    #[command(flatten)]
    pub family: Family,
    /// Own address to send from, or device to send by
    #[arg(short = 'I', long = "from", value_name = "ADDRESS|DEVICE")]
    pub from: Option<String>,
    /// The other ends have this machine's clock (containers, namespaces, the lab): one-way delays are exact
    #[arg(long)]
    pub one_clock: bool,
    /// How long a reply is awaited; what comes later is late, not lost [default: 3s, or twice the longest RTT so far, up to 60s]
    #[arg(short = 'W', long, value_name = "TIME", value_parser = seconds)]
    pub wait: Option<Span>,
    #[command(flatten)]
    pub keeping: Keeping,
    /// Sum up a run that was kept, instead of pinging: its name, a part of it, or `last`
    #[arg(short, long, value_name = "RUN", conflicts_with_all = ["hosts", "streams", "save", "write", "plain", "quiet", "count", "duration", "file", "generate"])]
    pub read: Option<String>,
    /// Print only the hosts that answered, one per line; without -c, 4 packets each
    #[arg(short, long, conflicts_with_all = ["json", "plain", "read"])]
    pub alive: bool,
    /// Print only the hosts that did not
    #[arg(short, long, conflicts_with_all = ["json", "plain", "read", "alive"])]
    pub unreachable: bool,
    /// One line per stream at this interval instead of one per packet; a bare number is seconds
    #[arg(short = 'Q', long, value_name = "TIME", value_parser = seconds, conflicts_with_all = ["json", "plain", "quiet", "alive", "unreachable"])]
    pub summaries: Option<Span>,
    /// The wall clock before each line, in seconds since 1970
    #[arg(short = 'D', long)]
    pub wall_clock: bool,
    /// Show for how long in all a host did not answer
    #[arg(long)]
    pub outage: bool,
    /// Keep measuring into the folder of that name (-w), a run for each day: each packet for so many days, as 30d, and then each minute
    #[arg(long, value_name = "DAYS", value_parser = days, conflicts_with_all = ["read", "output", "alive", "unreachable"])]
    pub keep: Option<u32>,
    /// Most that this may take on the disk: packets go first, oldest first, then minutes
    #[arg(long, value_name = "SIZE", default_value = "1GB", requires = "keep")]
    pub max_size: Bytes,
    #[command(flatten)]
    pub metrics: Metrics,
    /// One line per packet also on a terminal
    #[arg(long)]
    pub plain: bool,
    /// Only the summary
    #[arg(short, long, conflicts_with_all = ["plain", "json"])]
    pub quiet: bool,
    /// Print JSON: one document at the end, or with =lines an object for each packet as it comes
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "document", value_name = "FORM")]
    pub json: Option<JsonForm>,
    /// From this come the exact sending times
    #[arg(long, default_value_t = 1, hide = true)]
    pub seed: u64,
}

/// A time; a bare number is seconds, as ping has it.
pub fn seconds(text: &str) -> Result<Span, String> {
    if let Ok(seconds) = text.trim().parse::<f64>() {
        let nanos = seconds * 1e9;
        return match (0.0..=1e18).contains(&nanos) {
            true => Ok(Span::from_nanos(nanos.round() as u64)),
            false => Err(format!("`{text}` is no time; write 200ms, or 0.2 for seconds")),
        };
    }
    text.parse::<Span>().map_err(|e| e.to_string())
}

fn days(text: &str) -> Result<u32, String> {
    let days = text.trim().strip_suffix('d').unwrap_or(text.trim());
    let wrong = || format!("`{text}` is no number of days; write 30d");
    days.parse().ok().filter(|days| *days > 0).ok_or_else(wrong)
}

pub fn ping(args: &PingArgs) -> Result<ExitCode, Failure> {
    args.keeping.check()?;
    if let Some(name) = &args.read {
        return read(name, args);
    }
    let session = session(args)?;
    session.check()?;
    let prober = session.prepare()?;
    // Before the run's folder is made, which would stay behind half made.
    let stop = crate::interrupt::bell()?;
    let metrics = args.metrics.endpoint()?;
    let name = args.keeping.write.as_deref().unwrap_or("ping");
    let base = &args.keeping.place.base;
    let keep = match args.keep {
        Some(days) => {
            let bound = DiskBound { days, most: args.max_size };
            let tell = |line: &str| eprintln!("quell: {line}");
            let days = DayRuns::begin(base, name, &session, bound, tell)?;
            Some(PingKeeper::Days(Box::new(days)))
        }
        None if args.keeping.is_wanted() => {
            Some(PingKeeper::Run(Box::new(quell_ping::begin(base, name, &session)?)))
        }
        None => None,
    };
    let lists = args.alive || args.unreachable;
    let display = match (args.json, args.summaries) {
        (Some(form), _) => PingDisplay::Json(form),
        _ if args.quiet || lists => PingDisplay::Quiet,
        (None, Some(every)) => PingDisplay::Summaries(every),
        _ if args.wall_clock || args.plain || !screen::is_live() => PingDisplay::Lines,
        _ => PingDisplay::Live,
    };
    let mut view = PingView::new(&session, display, args.wall_clock);
    let ended = quell_ping::run(&session, prober, &stop, keep, &mut view, metrics.as_ref())?;
    view.end();
    if lists {
        print!("{}", text::names(&session, &ended.tallies, args.alive));
    } else {
        tell(&session, &ended.tallies, args, ended.run.as_deref());
    }
    if let Some(why) = ended.failed {
        return Err(Failure::system(why));
    }
    if let Some(folder) = ended.run.as_deref().filter(|_| args.keeping.output.is_some()) {
        args.keeping.draw(&results::read(folder)?)?;
    }
    if lists {
        // Who did not answer was asked for, or is what is missing.
        let silent = !text::names(&session, &ended.tallies, false).is_empty();
        return Ok(ExitCode::from(u8::from(silent)));
    }
    ended.verdict(&session)?;
    Ok(ExitCode::SUCCESS)
}

fn read(name: &str, args: &PingArgs) -> Result<ExitCode, Failure> {
    let folder = results::located(&args.keeping.place.base, name)?;
    let run = Run::read(&folder).map_err(Failure::unusable)?;
    let (session, tallies) = quell_ping::reopen(&run).ok_or_else(|| {
        let run = &run.manifest.run;
        Failure::unusable(format!("{run} is no run of `quell ping`; see `quell show {run}`"))
    })?;
    tell(&session, &tallies, args, Some(&run.folder));
    args.keeping.draw(&run)?;
    Ok(ExitCode::SUCCESS)
}

fn tell(session: &PingSession, tallies: &[Tally], args: &PingArgs, folder: Option<&Path>) {
    let run = folder.map(|folder| folder.display().to_string());
    match args.json {
        Some(JsonForm::Lines) => {
            let event = Some("end");
            view::line(&PingReport { event, ..PingReport::of(session, tallies, run) });
        }
        Some(JsonForm::Document) => {
            println!("{}", crate::text::document(&PingReport::of(session, tallies, run)));
        }
        None => {
            print!("{}", text::summary(session, tallies, args.outage, columns()));
            if let Some(folder) = folder {
                say(&format!("\nkept as {}\n", results::shown(folder)));
            }
        }
    }
}

fn session(args: &PingArgs) -> Result<PingSession, Failure> {
    let port = match args.method {
        Method::Icmp if args.port.is_some() => {
            return Err(Failure::usage("--port: ICMP has no ports; take --method udp or tcp"));
        }
        Method::Icmp => None,
        Method::Udp => Some(args.port.unwrap_or(quell_wire::iperf3::PORT)),
        Method::Tcp => Some(args.port.unwrap_or(TCP_PORT)),
    };
    if args.interval.is_zero() {
        return Err(Failure::usage("-i 0: a packet at least every 10us; root may send that often"));
    }
    if args.summaries.is_some_and(|every| every < Span::from_millis(100)) {
        return Err(Failure::usage("-Q: a summary at most every 100ms"));
    }
    if args.wait.is_some_and(Span::is_zero) {
        return Err(Failure::usage("-W 0: no reply comes in no time; give a time, as 500ms"));
    }
    let way = Way { ttl: args.ttl, whole: args.dont_fragment, ..way(args.from.as_deref()) };
    let family = args.family.or_that_of(way.source);
    let own = way.source.map(|own| ("-I", own));
    let host = Usual { family, own, port, device: way.device.as_deref() };
    let tos = args.dscp.map_or(args.tos, |dscp| Tos::from_byte(dscp.tos_byte()));
    let usual = StreamDefaults { host, tos, size: args.size };
    let mut wanted = args.streams.clone();
    wanted.extend(args.hosts.iter().map(|h| StreamSpec::host(h)));
    wanted.extend(args.more.beside(&args.hosts)?.iter().map(|h| StreamSpec::host(h)));
    if wanted.is_empty() && !args.more.is_empty() {
        return Err(Failure::usage("-f: there is no host in the file"));
    }
    let endless = args.count.is_none() && args.duration.is_none();
    let lists = args.alive || args.unreachable;
    let mut targets = quell_ping::resolve(&wanted, usual)?;
    if let Some(ecn) = args.ecn {
        targets.iter_mut().for_each(|t| t.tos = t.tos.with_ecn(ecn));
    }
    Ok(PingSession {
        targets,
        method: args.method,
        interval: args.interval,
        count: if lists && endless { Some(LISTED) } else { args.count },
        duration: args.duration,
        wait: args.wait.or(if lists { Some(Span::from_secs(1)) } else { None }),
        way,
        one_clock: args.one_clock,
        seed: args.seed,
    })
}

/// An address to send from, or the device to send by.
pub fn way(from: Option<&str>) -> Way {
    let source = from.and_then(|f| f.parse().ok());
    let device = from.filter(|_| source.is_none()).map(str::to_owned);
    Way { source, device, ..Way::default() }
}

impl From<PingError> for Failure {
    fn from(error: PingError) -> Self {
        match error {
            PingError::Unusable(why) => Failure::usage(why),
            PingError::Silent(why) => Failure::check(why),
            error => Failure::system(error),
        }
    }
}
