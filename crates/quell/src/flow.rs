//! `quell flow`: throughput to a server, and what it does to a ping beside it.
//!
//! ```text
//!   FlowArgs ──► FlowPlan (quell_flow) ──► run ──┬─► text: live lines, headline, working
//!                                            ├─► JSON, or iperf3's
//!                                            └─► a run (--save)
//! ```

mod amounts;
mod elsewhere;
pub mod figures;
mod lines;
mod live;
pub mod text;
mod web;

use crate::failure::Failure;
use crate::host::{self, Found, Usual};
use crate::live_view::TerminalSize;
use crate::options::{Family, Place};
use crate::screen::{self, Screen};
use amounts::{bits, bits_in_bursts, milliseconds, seconds, size};
use clap::Args;
use quell_flow::{
    Amount, FailedFlow, FlowDocument, FlowError, FlowPlan, FlowReport, Progress, Senders,
    Transport, headline,
};
use quell_sys::socket::Way;
use quell_units::{Dscp, Ecn, Span, Tos};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct FlowArgs {
    /// The server: HOST, HOST:PORT, ADDRESS, [IPv6]:PORT
    #[arg(required_unless_present_any = ["client", "server", "daemon"])]
    pub host: Option<String>,
    /// The same, as iperf3 has it
    #[arg(short = 'c', long = "client", value_name = "HOST", hide = true, conflicts_with = "host")]
    pub client: Option<String>,
    /// Port of the server
    #[arg(short, long, default_value_t = quell_wire::iperf3::PORT)]
    pub port: u16,
    /// UDP instead of TCP; exit code 1 where no datagram gets through
    #[arg(short, long)]
    pub udp: bool,
    /// The server sends
    #[arg(short = 'R', long, conflicts_with = "bidir")]
    pub reverse: bool,
    /// Both send at once
    #[arg(long)]
    pub bidir: bool,
    /// Streams in each direction
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1)]
    pub parallel: u32,
    /// How long: 10, 500ms, 2min
    #[arg(short, long, value_name = "TIME", default_value = "10", value_parser = seconds)]
    pub time: Span,
    /// Number of bytes instead of a time, of all streams together: 100M, 1GiB
    #[arg(short = 'n', long, value_name = "SIZE", value_parser = size, conflicts_with = "time")]
    pub bytes: Option<u64>,
    /// Number of blocks or datagrams (-l) instead of a time: 1000, 10K
    #[arg(short = 'k', long = "blockcount", value_name = "N", value_parser = size, conflicts_with_all = ["time", "bytes"])]
    pub blocks: Option<u64>,
    /// Time at the start that does not count
    #[arg(short = 'O', long, value_name = "TIME", default_value = "0", value_parser = seconds)]
    pub omit: Span,
    /// Bits a second of each stream: 100M, 2.5Gbit; 0 is unlimited; /N: in bursts of N datagrams [default: unlimited for TCP, 1M for UDP]
    #[arg(short = 'b', long, value_name = "RATE[/BURST]", value_parser = bits_in_bursts)]
    pub bitrate: Option<(u64, Option<u32>)>,
    /// Most bits a second that the sender's kernel lets out of each stream, packet by packet (TCP)
    #[arg(long, visible_alias = "fq-rate", value_name = "RATE", value_parser = bits, conflicts_with = "udp")]
    pub pacing: Option<u64>,
    /// Bytes of each write or datagram [default: 1M for TCP, what fits in a packet for UDP]
    #[arg(short, long, value_name = "SIZE", value_parser = size)]
    pub length: Option<u64>,
    /// Size of the socket buffers, which limits the window: 256K, 4M
    #[arg(short, long, value_name = "SIZE", value_parser = size)]
    pub window: Option<u64>,
    /// Maximum segment size of TCP in bytes, of the connection to the server too
    #[arg(short = 'M', long, value_name = "BYTES", conflicts_with = "udp")]
    pub set_mss: Option<u32>,
    /// TCP_NODELAY
    #[arg(short = 'N', long)]
    pub no_delay: bool,
    /// Congestion control; a list gives each stream its own: cubic,bbr
    #[arg(short = 'C', long, value_name = "NAME[,NAME]", value_delimiter = ',')]
    pub congestion: Vec<String>,
    /// DSCP: a number (0x2e is hexadecimal, 056 octal), or a name: EF, CS1, AF41 …
    #[arg(long, value_name = "DSCP", conflicts_with = "tos")]
    pub dscp: Option<Dscp>,
    /// TOS byte: a number (0x10 is hexadecimal, 020 octal), or a name: EF, low-delay …
    #[arg(short = 'S', long, value_name = "TOS")]
    pub tos: Option<Tos>,
    /// The two ECN bits of each datagram (for TCP they are negotiated: sysctl net.ipv4.tcp_ecn)
    #[arg(long, value_parser = crate::options::ecn(), requires = "udp")]
    pub ecn: Option<Ecn>,
    /// The payload is not copied on its way out
    #[arg(short = 'Z', long)]
    pub zerocopy: bool,
    /// Time between reports; 0 for none but the last
    #[arg(short, long, value_name = "TIME", default_value = "1", value_parser = seconds)]
    pub interval: Span,
    /// Show which window the rate needs, and whether the socket got it (TCP)
    #[arg(long, conflicts_with = "udp")]
    pub bdp: bool,
    /// No pings beside the load
    #[arg(long)]
    pub no_latency: bool,
    /// Where both ends talk about the test, if not at the server's address: HOST[:PORT]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub control: Option<String>,
    /// Own address to send from, and device to send by
    #[arg(short = 'B', long, value_name = "ADDRESS[%DEVICE]")]
    pub bind: Option<Bound>,
    /// Device to send by
    #[arg(long, value_name = "DEVICE")]
    pub bind_dev: Option<String>,
    /// Own port of the first stream; the others use the next ones
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub cport: Option<u16>,
    /// Datagrams are not fragmented (DF); what is larger than the path's MTU is refused
    #[arg(long, requires = "udp")]
    pub dont_fragment: bool,
    /// The payload is repeated digits instead of random bytes, so that a link can compress it
    #[arg(long)]
    pub repeating_payload: bool,
    /// Datagrams have 64-bit numbers, for more than 2^32 of them
    #[arg(long = "udp-counters-64bit", requires = "udp")]
    pub udp_counters_64bit: bool,
    /// How long connecting may take; a bare number is milliseconds [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub connect_timeout: Option<Span>,
    /// End when the server sent nothing for this time; a bare number is milliseconds
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub rcv_timeout: Option<Span>,
    /// End when nothing was acknowledged for this time (TCP); a bare number is milliseconds
    #[arg(long, value_name = "TIME", value_parser = milliseconds, conflicts_with = "udp")]
    pub snd_timeout: Option<Span>,
    /// CPU to run on; a second one is for an iperf3 server
    #[arg(short = 'A', long, value_name = "CPU[,CPU]", value_delimiter = ',', num_args = 1)]
    pub affinity: Vec<u16>,
    /// Unit of rates: k, m, g, t for bits, K, M, G, T for bytes a second
    #[arg(short = 'f', long, value_name = "UNIT")]
    pub format: Option<figures::Unit>,
    /// Print version, host and kernel first
    #[arg(short = 'V', long)]
    pub verbose: bool,
    /// A text before each line
    #[arg(short = 'T', long, value_name = "TEXT")]
    pub title: Option<String>,
    /// The time before each line, in a format of strftime(3) [default format: "%c "]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = lines::STAMP, value_name = "FORMAT")]
    pub timestamps: Option<String>,
    /// Append the output to this file
    #[arg(long, value_name = "FILE")]
    pub logfile: Option<PathBuf>,
    /// Print also what the server printed
    #[arg(long)]
    pub get_server_output: bool,
    /// A text that is part of the results (-J)
    #[arg(long, value_name = "TEXT")]
    pub extra_data: Option<String>,
    #[command(flatten)]
    pub elsewhere: elsewhere::Elsewhere,
    #[command(flatten)]
    pub family: Family,
    #[command(flatten)]
    pub secret: crate::options::SecretFile,
    /// Only iperf3's own protocol
    #[arg(long, conflicts_with = "secret_file")]
    pub iperf3: bool,
    /// Keep it as a run, for `quell show`, `plot` and `open`
    #[arg(long)]
    pub save: bool,
    #[command(flatten)]
    pub place: Place,
    /// Measure responsiveness instead: round trips a minute while the line is full. HOST may be http://HOST or https://HOST
    #[arg(long)]
    pub rpm: bool,
    /// With --rpm: accept this certificate, or those of this authority (PEM)
    #[arg(long, value_name = "FILE", requires = "rpm", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// With --rpm: accept any certificate, for example that of `quell serve --web`
    #[arg(long, requires = "rpm")]
    pub insecure: bool,
    /// Send the figures to the page of the server (`quell serve --web`), beside those of browsers
    #[arg(long)]
    pub web: bool,
    /// Also CPU, counters, times between arrivals
    #[arg(long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print the JSON that `iperf3 -J` prints
    #[arg(short = 'J', conflicts_with = "json")]
    pub iperf3_json: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    address: IpAddr,
    device: Option<String>,
}

impl std::str::FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, device) = match text.split_once('%') {
            Some((_, "")) => return Err("the device behind % is missing".into()),
            Some((address, device)) => (address, Some(device.to_owned())),
            None => (text, None),
        };
        let address = address.parse().map_err(|e| format!("{e}; a device alone: --bind-dev"))?;
        Ok(Self { address, device })
    }
}

pub fn flow(args: &FlowArgs) -> Result<ExitCode, Failure> {
    args.elsewhere.answer()?;
    let host = args.host.as_ref().or(args.client.as_ref());
    let host = host.ok_or_else(|| Failure::usage("the server is missing: quell flow HOST"))?;
    if let Some(unit) = args.format {
        figures::show_in(unit);
    }
    if let Some(cpu) = args.affinity.first() {
        quell_sys::affinity::run_on((*cpu).into()).map_err(Failure::usage)?;
    }
    if args.save {
        args.place.can_be_written()?;
    }
    let to = found(host, args.port, args)?;
    let plan = plan(args, host, &to)?;
    plan.check().map_err(|e| refused(&e, &to))?;
    let stop = crate::interrupt::bell()?;
    let shown = !args.json && !args.iperf3_json;
    let (title, stamps) = (args.title.as_deref(), args.timestamps.as_deref());
    let (title, stamps) = (title.filter(|_| shown), stamps.filter(|_| shown));
    let mut lines = lines::Lines::new(args.logfile.as_deref(), title, stamps)?;
    let width = lines.width();
    let mut table = live::Live::new(&plan, width);
    if shown && args.verbose {
        lines.put(&crate::version::long())?;
    }
    let mut unwritten = None;
    // Below plain lines of a terminal alone.
    let draws = shown && screen::is_live() && args.logfile.is_none() && args.timestamps.is_none();
    let mut chart = Screen::new();
    let mut tell = |progress: Progress<'_>| {
        let place = TerminalSize::now();
        if draws && matches!(progress, Progress::Interval(_) | Progress::Ending) {
            Screen::show(&chart.clear(place.width));
        }
        if shown && let Some(text) = table.lines(&progress) {
            unwritten = lines.put(&text).err().or(unwritten.take());
        }
        if draws && matches!(progress, Progress::Interval(_)) {
            Screen::show(&chart.frame(&table.chart(place), place.width));
        }
    };
    let outcome = quell_flow::run(&plan, &stop, &mut tell).map_err(|error| {
        // Programs that read iperf3's JSON find the error in it.
        if args.iperf3_json {
            println!("{}", crate::text::document(&FailedFlow::of(&plan, &error)));
        }
        refused(&error, &to)
    })?;
    let findings = FlowReport::of(&outcome);
    quell_doctor::reported::tell(&findings.causes(&outcome));
    let headline = headline(&outcome, &findings, figures::rate);
    if args.json {
        let document = FlowDocument::of(headline.clone(), &outcome, &findings);
        lines.put(&(crate::text::document(&document) + "\n"))?;
    } else if args.iperf3_json {
        let document = quell_flow::iperf_json::document(&outcome);
        lines.put(&(crate::text::document(&document) + "\n"))?;
    } else {
        lines.put(&text::summary(&outcome, &findings, (args.bdp, args.all), width))?;
    }
    if shown
        && let Some(said) =
            outcome.theirs.as_ref().and_then(|theirs| text::server_output(theirs, width))
    {
        lines.put(&said)?;
    }
    if let Some(failure) = unwritten {
        return Err(failure);
    }
    if args.save {
        let folder = quell_flow::save(&args.place.base, &outcome, &findings, headline)?;
        if shown {
            let said = format!("\nkept as {}; see `quell show`, `quell plot`\n", folder.display());
            lines.put(&crate::text::fitted(&said, width))?;
        } else {
            eprintln!("kept as {}", folder.display());
        }
    }
    if args.web {
        web::send(&outcome, &findings, &stop)?;
        if shown {
            println!("\nsent to the page at http://{}/", outcome.plan.to);
        }
    }
    findings.verdict(&outcome).map_err(Failure::check)?;
    Ok(ExitCode::SUCCESS)
}

fn refused(error: &FlowError, to: &Found) -> Failure {
    match error {
        FlowError::Parameter(_) => Failure::usage(error),
        // What was to be found out: nothing gets through. And who stops it has no result, but no system in the way.
        FlowError::NoUdp(_) | FlowError::Stopped => Failure::check(format!("{error}{}", to.hint())),
        _ => Failure::system(format!("{error}{}", to.hint())),
    }
}

fn plan(args: &FlowArgs, host: &str, to: &Found) -> Result<FlowPlan, Failure> {
    let to = to.to;
    let (asked, burst) = match args.bitrate {
        Some((rate, burst)) => (Some(rate), burst),
        None => (None, None),
    };
    if burst.is_some() && !args.udp {
        return Err(Failure::usage(
            "-b RATE/BURST: bursts are of datagrams (-u); over TCP -b RATE -l SIZE writes SIZE bytes at once",
        ));
    }
    if args.affinity.len() > 2 {
        return Err(Failure::usage("-A: one CPU, or two: the second is the server's"));
    }
    let control = match &args.control {
        Some(control) => found(control, to.port(), args)?.to,
        None => to,
    };
    let transport = if args.udp { Transport::Udp } else { Transport::Tcp };
    let rate = match (asked, transport) {
        (Some(0), _) | (None, Transport::Tcp) => None,
        (None, Transport::Udp) => Some(quell_flow::UDP_RATE),
        (rate, _) => rate,
    };
    let tos = match (args.dscp, args.tos) {
        (Some(dscp), _) => dscp.tos_byte(),
        (None, tos) => tos.unwrap_or_default().byte(),
    };
    let ecn = args.ecn.unwrap_or_else(|| Tos::from_byte(tos).ecn());
    // A plain iperf3 knows no such thing.
    let secret = if args.iperf3 { None } else { args.secret.read()? };
    Ok(FlowPlan {
        control,
        transport,
        direction: match (args.reverse, args.bidir) {
            (_, true) => Senders::Both,
            (true, _) => Senders::Down,
            _ => Senders::Up,
        },
        streams: args.parallel,
        amount: match (args.bytes, args.blocks) {
            (Some(bytes), _) => Amount::Bytes(bytes),
            // Until the path has said how long a block is.
            (None, Some(blocks)) => Amount::Bytes(blocks),
            (None, None) => Amount::Time(args.time),
        },
        blocks: args.blocks,
        burst: burst.unwrap_or(1),
        wide: args.udp_counters_64bit,
        repeating: args.repeating_payload,
        server_output: args.get_server_output,
        extra_data: args.extra_data.clone(),
        server_cpu: args.affinity.get(1).map(|cpu| i32::from(*cpu)),
        connect_within: args.connect_timeout.unwrap_or(FlowPlan::new(host, to).connect_within),
        receive_within: args.rcv_timeout,
        acknowledge_within: args.snd_timeout,
        own_port: args.cport,
        omit: args.omit,
        rate,
        pacing: args.pacing.filter(|rate| *rate > 0),
        block: args.length,
        window: args.window,
        mss: args.set_mss,
        congestion: args.congestion.clone(),
        tos: Tos::from_byte(tos).with_ecn(ecn).byte(),
        nodelay: args.no_delay,
        zero_copy: args.zerocopy,
        interval: if args.interval.is_zero() { live::NO_INTERVAL } else { args.interval },
        way: Way {
            source: args.bind.as_ref().map(|bound| bound.address),
            device: device(args).map(str::to_owned),
            whole: args.dont_fragment,
            ..Way::default()
        },
        plain: args.iperf3,
        latency: !args.no_latency,
        secret,
        ..FlowPlan::new(host, to)
    })
}

fn device(args: &FlowArgs) -> Option<&str> {
    let of_address = args.bind.as_ref().and_then(|bound| bound.device.as_deref());
    args.bind_dev.as_deref().or(of_address)
}

fn found(host: &str, port: u16, args: &FlowArgs) -> Result<Found, Failure> {
    let own = args.bind.as_ref().map(|bound| bound.address);
    let usual = Usual {
        family: args.family.or_that_of(own),
        own: own.map(|own| ("-B", own)),
        port: Some(port),
        device: device(args),
    };
    host::resolve(host, usual).map_err(Failure::usage)
}
