//! `quell flow`: throughput to a server, and what it does to a ping beside it.
//!
//! ```text
//!   FlowArgs ──► FlowPlan (quell_flow) ──► run ──┬─► text: live lines, headline, working
//!                                            ├─► JSON, or iperf3's
//!                                            └─► a run (--save)
//! ```

mod amounts;
pub mod figures;
mod json;
mod limits;
mod live;
mod save;
pub mod text;
mod web;

use crate::failure::Failure;
use crate::host::{self, Found, Usual};
use crate::options::{Family, Place};
use amounts::{bits, seconds, size};
use clap::{Args, ValueEnum};
use quell_flow::findings;
use quell_flow::{Amount, Findings, FlowError, FlowPlan, Outcome, Progress, Senders, Transport};
use quell_sys::socket::Way;
use quell_sys::wait::Bell;
use quell_units::{Dscp, Ecn, Span, Tos};
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;

/// Options of `quell flow`.
#[derive(Debug, Args)]
pub struct FlowArgs {
    /// The server: HOST, HOST:PORT, ADDRESS, [IPv6]:PORT
    pub host: String,
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
    /// So many bytes instead, all streams together: 100M, 1GiB
    #[arg(short = 'n', long, value_name = "SIZE", value_parser = size, conflicts_with = "time")]
    pub bytes: Option<u64>,
    /// Time at the start that does not count
    #[arg(short = 'O', long, value_name = "TIME", default_value = "0", value_parser = seconds)]
    pub omit: Span,
    /// Bits a second of each stream: 100M, 2.5Gbit; 0 is unlimited [default: unlimited for TCP, 1M for UDP]
    #[arg(short = 'b', long, value_name = "RATE", value_parser = bits)]
    pub bitrate: Option<u64>,
    /// Most bits a second that the sender's kernel lets out of each stream, packet by packet (TCP)
    #[arg(long, visible_alias = "fq-rate", value_name = "RATE", value_parser = bits, conflicts_with = "udp")]
    pub pacing: Option<u64>,
    /// Bytes of each write or datagram [default: 1M for TCP, what fits in a packet for UDP]
    #[arg(short, long, value_name = "SIZE", value_parser = size)]
    pub length: Option<u64>,
    /// Socket buffers, which bound the window: 256K, 4M
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
    /// DSCP: a number (0x2e is hexadecimal, 056 octal), or a name as EF, CS1, AF41
    #[arg(long, value_name = "DSCP", conflicts_with = "tos")]
    pub dscp: Option<Dscp>,
    /// TOS byte: a number (0x10 is hexadecimal, 020 octal), or a name as EF, low-delay
    #[arg(short = 'S', long, value_name = "TOS")]
    pub tos: Option<Tos>,
    /// The two ECN bits of each datagram (for TCP they are negotiated: sysctl net.ipv4.tcp_ecn)
    #[arg(long, value_parser = crate::mark::ecn(), requires = "udp")]
    pub ecn: Option<Ecn>,
    /// The payload is not copied on its way out
    #[arg(short = 'Z', long)]
    pub zerocopy: bool,
    /// Time between reports
    #[arg(short, long, value_name = "TIME", default_value = "1", value_parser = seconds)]
    pub interval: Span,
    /// Tell which window the rate needs, and whether the socket got it (TCP)
    #[arg(long, conflicts_with = "udp")]
    pub bdp: bool,
    /// No pings beside the load
    #[arg(long)]
    pub no_latency: bool,
    /// Where both ends talk about the test, if not at the server's address: HOST[:PORT]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub control: Option<String>,
    /// Own address to send from
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,
    /// Device to send by
    #[arg(long, value_name = "DEVICE")]
    pub bind_dev: Option<String>,
    #[command(flatten)]
    pub family: Family,
    #[command(flatten)]
    pub secret: crate::secret::SecretFile,
    /// Nothing on the wire but iperf3's own protocol
    #[arg(long, conflicts_with = "secret_file")]
    pub iperf3: bool,
    /// Keep it as a run, for `quell show`, `plot` and `report`
    #[arg(long)]
    pub save: bool,
    #[command(flatten)]
    pub place: Place,
    /// Send the figures to the page of the server (`quell serve --web`), where they stand among those of browsers
    #[arg(long)]
    pub web: bool,
    /// Print JSON: Quell's, or with =iperf3 what `iperf3 -J` prints
    #[arg(short = 'J', long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "quell", value_name = "SCHEMA")]
    pub json: Option<Schema>,
}

/// Whose JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Schema {
    /// Quell's
    Quell,
    /// iperf3's
    Iperf3,
}

/// `quell flow`.
pub fn flow(args: &FlowArgs) -> Result<ExitCode, Failure> {
    let to = found(&args.host, args.port, args)?;
    let plan = plan(args, &to)?;
    plan.check().map_err(|e| refused(&e, &to))?;
    let stop = Arc::new(Bell::new().map_err(Failure::system)?);
    crate::interrupt::listen(&stop)?;
    let shown = args.json.is_none();
    let mut table = live::Live::new(&plan);
    let mut tell = |progress: Progress<'_>| {
        if shown && let Some(lines) = table.lines(&progress) {
            let _ = quell_sys::reader::print(std::io::stdout().lock(), lines.as_bytes());
        }
    };
    let outcome = quell_flow::run(&plan, &stop, &mut tell).map_err(|error| {
        if args.json.is_some() {
            println!("{:#}", json::nothing(&plan, &error));
        }
        refused(&error, &to)
    })?;
    let findings = Findings::of(&outcome);
    match args.json {
        Some(Schema::Quell) => println!("{:#}", json::document(&outcome, &findings)),
        Some(Schema::Iperf3) => {
            println!("{:#}", quell_flow::iperf_json::document(&outcome));
        }
        None => print!("{}", text::summary(&outcome, &findings, args.bdp)),
    }
    if args.save {
        let folder = save::save(&args.place.base, &outcome, &findings)?;
        if shown {
            println!("\nkept as {}; see `quell show`, `quell plot`", folder.display());
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
    verdict(&outcome, &findings)
}

fn verdict(outcome: &Outcome, findings: &Findings) -> Result<ExitCode, Failure> {
    if let Some(broke) = &outcome.broke {
        return Err(Failure::check(format!("{broke}; what was measured until then is above")));
    }
    let ways = [("up", &findings.up), ("down", &findings.down)];
    let unknown = |way: &findings::Way| way.is_unknown(outcome.plan.transport);
    if ways.iter().any(|(_, way)| way.as_ref().is_some_and(unknown)) && !outcome.stopped {
        return Err(Failure::check(
            "whether anything arrived is unknown: the server's count is impossible or missing",
        ));
    }
    let empty = |way: &Option<findings::Way>| {
        way.as_ref().is_some_and(|way| way.bits_per_second == Some(0.0))
    };
    let empty: Vec<_> = ways.iter().filter(|(_, way)| empty(way)).map(|(name, _)| *name).collect();
    match empty.is_empty() || outcome.stopped {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::check(format!("not one byte got through {}", empty.join(" or ")))),
    }
}

fn refused(error: &FlowError, to: &Found) -> Failure {
    match error {
        FlowError::Parameter(_) => Failure::usage(error),
        // What was to be found out: nothing gets through.
        FlowError::NoUdp(_) => Failure::check(format!("{error}{}", to.hint())),
        _ => Failure::system(format!("{error}{}", to.hint())),
    }
}

fn plan(args: &FlowArgs, to: &Found) -> Result<FlowPlan, Failure> {
    let to = to.to;
    let control = match &args.control {
        Some(control) => found(control, to.port(), args)?.to,
        None => to,
    };
    let transport = if args.udp { Transport::Udp } else { Transport::Tcp };
    let rate = match (args.bitrate, transport) {
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
        amount: args.bytes.map_or(Amount::Time(args.time), Amount::Bytes),
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
        interval: args.interval,
        way: Way { source: args.bind, device: args.bind_dev.clone() },
        plain: args.iperf3,
        latency: !args.no_latency,
        secret,
        ..FlowPlan::new(&args.host, to)
    })
}

/// Where a host is, as the options have it.
fn found(host: &str, port: u16, args: &FlowArgs) -> Result<Found, Failure> {
    let usual = Usual {
        family: args.family.or_that_of(args.bind),
        own: args.bind.map(|own| ("-B", own)),
        port: Some(port),
        device: args.bind_dev.as_deref(),
    };
    host::resolve(host, usual).map_err(Failure::usage)
}
