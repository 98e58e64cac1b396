//! How much of a round-trip time is the instrument's own: Quell beside fping and irtt, in the same run on the same machine.
//!
//! ```text
//!   near (10.9.0.1) ═══ veth ═══ (10.9.0.2) far       two namespaces that end with this program
//!     fping, quell ping │                             the far kernel answers ICMP
//!     irtt, quell ping --method udp                   irtt server, quell serve
//!                       └─ packet socket: the kernel's own stamps of the same packets on the same wire
//! ```
//!
//! The excess of a packet is the round-trip time that the program reports less the time between the kernel's stamps of the request on
//! its way out of the near device and of the reply on its way in. Over UDP both programs leave out what their servers in user space take
//! to answer; so does the reference, by the kernel's stamps at the far device. Packets are matched by order, and a round in which one was
//! lost is measured again.
//! irtt leaves packets out when its timer was late; those count for nobody.
//!
//! Parts for `--only`: idle, busy. Rounds alternate between the programs. *Busy* is a burner for each CPU beside them, which ends by itself.

use crate::options::BenchOptions;
use crate::stats::{children, median, quantile, spread};
use crate::veth::{BenchHost, ChildGuard, FAR, FAR_DEVICE, NEAR_DEVICE, VethPair, watch};
use std::fmt::Write;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Payload of the UDP packets: a voice packet, and unlike those with which irtt opens and closes.
const UDP_BYTES: usize = 172;

pub fn bench(options: &BenchOptions) -> Result<(), String> {
    let pair = VethPair::new()?;
    println!(
        "RTT excess over the kernel's own stamps, µs: {} rounds of {} packets every {} ms, alternating",
        options.rounds, options.packets, options.interval_ms
    );
    println!("median over the rounds [first quartile .. third]\n");
    for busy in [false, true] {
        let name = if busy { "busy" } else { "idle" };
        if options.has(name) {
            condition(options, &pair, busy)?;
        }
    }
    Ok(())
}

/// All programs, with or without burners beside them.
fn condition(options: &BenchOptions, pair: &VethPair, busy: bool) -> Result<(), String> {
    let programs: Vec<PingPeer> =
        PingPeer::ALL.into_iter().filter(|p| p.is_there(options)).collect();
    let mut rounds: Vec<Vec<PingRound>> = vec![Vec::new(); programs.len()];
    for _ in 0..options.rounds {
        for (program, rounds) in programs.iter().zip(&mut rounds) {
            rounds.push(once_more(options, pair, *program, busy)?);
        }
    }
    println!("{}", if busy { "every CPU busy with a burner" } else { "idle" });
    println!(
        "  {:<15} {:>25} {:>25} {:>11} {:>17}",
        "", "excess p50", "excess p99", "wire p50", "CPU ms a packet"
    );
    for (program, rounds) in programs.iter().zip(&rounds) {
        println!(
            "  {:<15} {:>25} {:>25} {:>11.1} {:>17.4}",
            program.name(),
            spread(&of(rounds, 0.50), 1.0, 1),
            spread(&of(rounds, 0.99), 1.0, 1),
            median(&each(rounds, |r| quantile(&r.wire_us, 0.5))),
            median(&each(rounds, |r| r.cpu_s * 1e3 / options.packets as f64)),
        );
    }
    for (ours, theirs) in
        [(PingPeer::QuellIcmp, PingPeer::Fping), (PingPeer::QuellUdp, PingPeer::Irtt)]
    {
        let rounds_of = |program| programs.iter().position(|p| *p == program).map(|at| &rounds[at]);
        let (Some(a), Some(b)) = (rounds_of(ours), rounds_of(theirs)) else { continue };
        let ratio = |q: f64| median(&of(a, q)) / median(&of(b, q));
        println!(
            "  {} / {}: p50 {:.3}, p99 {:.3}",
            ours.name(),
            theirs.name(),
            ratio(0.50),
            ratio(0.99)
        );
    }
    println!();
    Ok(())
}

/// A round; once more when it lost a packet, twice at most.
fn once_more(
    options: &BenchOptions,
    pair: &VethPair,
    program: PingPeer,
    busy: bool,
) -> Result<PingRound, String> {
    let mut last = String::new();
    for _ in 0..3 {
        match program.round(options, pair, busy) {
            Ok(round) => return Ok(round),
            Err(error) => last = error,
        }
    }
    Err(format!("{}: {last}", program.name()))
}

fn each(rounds: &[PingRound], of: impl Fn(&PingRound) -> f64) -> Vec<f64> {
    rounds.iter().map(of).collect()
}

/// The excess of each round of which such a share of its packets have no more.
fn of(rounds: &[PingRound], share: f64) -> Vec<f64> {
    each(rounds, |r| quantile(&r.excess_us, share))
}

/// A program that tells round-trip times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PingPeer {
    /// `quell ping`.
    QuellIcmp,
    /// `fping`.
    Fping,
    /// `quell ping --method udp` against `quell serve`.
    QuellUdp,
    /// `irtt`.
    Irtt,
}

/// What came out of a round.
#[derive(Debug, Clone)]
struct PingRound {
    /// Of each packet, in microseconds.
    excess_us: Vec<f64>,
    wire_us: Vec<f64>,
    /// CPU seconds of the program, its start and end included, without its server.
    cpu_s: f64,
}

impl PingPeer {
    /// All of them, those that are compared beside each other.
    const ALL: [Self; 4] = [Self::QuellIcmp, Self::Fping, Self::QuellUdp, Self::Irtt];

    fn name(self) -> &'static str {
        match self {
            Self::QuellIcmp => "quell, ICMP",
            Self::Fping => "fping",
            Self::QuellUdp => "quell, STAMP",
            Self::Irtt => "irtt",
        }
    }

    fn is_there(self, options: &BenchOptions) -> bool {
        let mut asking = match self {
            Self::QuellIcmp | Self::QuellUdp => Command::new(&options.quell),
            Self::Fping => Command::new("fping"),
            Self::Irtt => Command::new("irtt"),
        };
        asking.arg(if self == Self::Irtt { "version" } else { "--version" });
        let printed =
            asking.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let there = printed.is_ok_and(|s| s.success());
        if !there {
            println!("{} is not here, and left out", self.name());
        }
        there
    }

    /// One round. Errors when a packet was lost, or a program failed.
    fn round(
        self,
        options: &BenchOptions,
        pair: &VethPair,
        busy: bool,
    ) -> Result<PingRound, String> {
        let _server = self.server(options, pair)?;
        let burners = if busy { burners(pair)? } else { Vec::new() };
        let near = Stamps::start(pair, BenchHost::Near, self.is_udp())?;
        let far = self.is_udp().then(|| Stamps::start(pair, BenchHost::Far, true)).transpose()?;
        let (used, _) = children();
        let mut client = pair.start(BenchHost::Near, &mut self.client(options))?;
        let printed = output(client.child());
        client.end()?;
        let cpu_s = children().0 - used;
        drop(burners);
        let rtt_us = self.read(&printed?)?;
        let mut wire_us = near.apart(options.packets)?;
        if let Some(far) = far {
            let answering_us = far.apart(options.packets)?;
            if answering_us.len() != wire_us.len() {
                return Err("the two ends of the wire saw different packets".into());
            }
            wire_us.iter_mut().zip(answering_us).for_each(|(wire, answering)| *wire -= answering);
        }
        if rtt_us.len() != wire_us.len() {
            let (told, seen) = (rtt_us.len(), wire_us.len());
            return Err(format!("it told of {told} replies, and the wire carried {seen}"));
        }
        let excess_us: Vec<f64> = rtt_us.iter().zip(&wire_us).map(|(r, w)| r - w).collect();
        Ok(PingRound { excess_us, wire_us, cpu_s })
    }

    fn is_udp(self) -> bool {
        matches!(self, Self::QuellUdp | Self::Irtt)
    }

    /// What answers, where the kernel doesn't. It is there when this returns.
    fn server(self, options: &BenchOptions, pair: &VethPair) -> Result<Option<ChildGuard>, String> {
        let mut command = match self {
            Self::QuellIcmp | Self::Fping => return Ok(None),
            Self::QuellUdp => {
                let mut command = Command::new(&options.quell);
                command.args(["serve", "--bind", FAR]);
                command
            }
            Self::Irtt => {
                let mut command = Command::new("irtt");
                command.args(["server", "-b", FAR, "-i", "1ms"]);
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = pair.start(BenchHost::Far, &mut command)?;
        // Each says so when it listens, and irtt a line before that.
        let lines = if self == Self::Irtt { 2 } else { 1 };
        let mut printed = server.output()?;
        let mut line = String::new();
        for _ in 0..lines {
            printed.read_line(&mut line).map_err(|e| e.to_string())?;
        }
        server.child().stdout = Some(printed.into_inner());
        if line.is_empty() {
            return Err("its server ended at once".into());
        }
        Ok(Some(server))
    }

    fn client(self, options: &BenchOptions) -> Command {
        let (count, every) = (options.packets.to_string(), options.interval_ms);
        let mut command = match self {
            Self::QuellIcmp | Self::QuellUdp => Command::new(&options.quell),
            Self::Fping => Command::new("fping"),
            Self::Irtt => Command::new("irtt"),
        };
        match self {
            Self::QuellIcmp | Self::QuellUdp => {
                command.args(["ping", FAR, "-c", &count, "-i", &format!("{every}ms")]);
                command.arg("--json=lines");
                if self.is_udp() {
                    command.args(["--method", "udp", "-s", &UDP_BYTES.to_string()]);
                }
            }
            Self::Fping => {
                command.args(["-C", &count, "-p", &every.to_string(), "-q", FAR]);
            }
            Self::Irtt => {
                let long = format!("{}ms", every * options.packets as u64);
                command.args(["client", "-Q", "-i", &format!("{every}ms"), "-d", &long]);
                command.args(["-l", &UDP_BYTES.to_string(), "-o", "-", FAR]);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The round-trip times that it told, in microseconds, in order of sending.
    fn read(self, printed: &Printed) -> Result<Vec<f64>, String> {
        let nothing = || format!("it printed `{}{}`", printed.out, printed.error);
        let mut times: Vec<(u64, f64)> = Vec::new();
        match self {
            Self::Fping => {
                // `10.9.0.2 : 0.045 0.032 …`, in milliseconds, on standard error.
                let line = printed.error.lines().find_map(|l| l.split_once(" : "));
                let values = line.ok_or_else(nothing)?.1.split_whitespace();
                let values = values.map(|v| v.parse::<f64>().map(|ms| ms * 1e3));
                let values: Result<Vec<f64>, _> = values.collect();
                return values.map_err(|_| nothing());
            }
            Self::QuellIcmp | Self::QuellUdp => {
                for line in printed.out.lines() {
                    let value: serde_json::Value =
                        serde_json::from_str(line).map_err(|_| nothing())?;
                    let (seq, rtt) = (value["seq"].as_u64(), value["rtt_ns"].as_f64());
                    times.extend(seq.zip(rtt.map(|ns| ns / 1e3)));
                }
            }
            Self::Irtt => {
                let value: serde_json::Value =
                    serde_json::from_str(&printed.out).map_err(|_| nothing())?;
                for trip in value["round_trips"].as_array().ok_or_else(nothing)? {
                    let (seq, rtt) = (trip["seqno"].as_u64(), trip["delay"]["rtt"].as_f64());
                    times.extend(seq.zip(rtt.map(|ns| ns / 1e3)));
                }
            }
        }
        times.sort_by_key(|(seq, _)| *seq);
        Ok(times.into_iter().map(|(_, us)| us).collect())
    }
}

/// What a program printed on both of its outputs.
struct Printed {
    out: String,
    error: String,
}

/// Reads both to their ends; they are far smaller than a pipe takes, or come on one of them only.
fn output(child: &mut Child) -> Result<Printed, String> {
    let mut printed = Printed { out: String::new(), error: String::new() };
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut printed.out).map_err(|e| e.to_string())?;
    }
    if let Some(mut error) = child.stderr.take() {
        error.read_to_string(&mut printed.error).map_err(|e| e.to_string())?;
    }
    Ok(printed)
}

/// The stamps of a watcher at one end of the wire.
struct Stamps {
    watcher: ChildGuard,
    output: BufReader<ChildStdout>,
}

impl Stamps {
    /// It sees packets when this returns.
    fn start(pair: &VethPair, end: BenchHost, udp: bool) -> Result<Self, String> {
        let device = if end == BenchHost::Near { NEAR_DEVICE } else { FAR_DEVICE };
        let bytes = UDP_BYTES.to_string();
        let kind: &[&str] = if udp { &["udp", &bytes] } else { &["icmp"] };
        let mut watcher = pair.helper(end, &[&["stamps", device], kind].concat())?;
        let output = watcher.until(&["ready"])?;
        Ok(Stamps { watcher, output })
    }

    /// From request to reply, in microseconds. The n-th reply answers the n-th request where each has one.
    fn apart(self, packets: usize) -> Result<Vec<f64>, String> {
        let stamps = self.watcher.finish(self.output)?;
        let (mut requests, mut replies) = (Vec::new(), Vec::new());
        for line in stamps.lines() {
            let Some((direction, ns)) = line.split_once(' ') else { continue };
            let ns: u64 = ns.parse().map_err(|_| format!("the watcher printed `{line}`"))?;
            if direction == "out" { requests.push(ns) } else { replies.push(ns) }
        }
        // irtt leaves out packets for which its timer was late.
        if requests.len() != replies.len() || requests.len() * 2 < packets {
            let (out, back) = (requests.len(), replies.len());
            return Err(format!(
                "of {packets} packets {out} were seen to leave and {back} to return"
            ));
        }
        let apart = |(r, q): (&u64, &u64)| r.saturating_sub(*q) as f64 / 1e3;
        Ok(replies.iter().zip(&requests).map(apart).collect())
    }
}

const NEAR: [u8; 4] = [10, 9, 0, 1];

/// The helper that watches; arguments are the device, then `icmp`, or `udp` and the size of the payload. It prints a line for each stamp: `out` for a
/// request or `in` for a reply, and nanoseconds.
pub fn print_stamps(arguments: &[String]) -> Result<(), String> {
    let udp_bytes = arguments.get(2).and_then(|a| a.parse::<usize>().ok());
    let device = arguments.first().ok_or("no device is named")?;
    let mut lines = String::new();
    watch(device, |frame, size, stamp| {
        if let Some(out) = direction(frame, size, udp_bytes) {
            let _ = writeln!(lines, "{} {stamp}", if out { "out" } else { "in" });
        }
    })?;
    print!("{lines}");
    Ok(())
}

/// Whether a frame is a request (or a reply); none for all others. Ethernet (14), IPv4 without
/// options (20), then ICMP echo, or UDP with a payload of this size.
fn direction(frame: &[u8], size: usize, udp_bytes: Option<usize>) -> Option<bool> {
    let out = frame.get(26..30)? == NEAR;
    let protocol = *frame.get(23)?;
    let wanted = frame.get(12..14)? == [8, 0]
        && match udp_bytes {
            Some(bytes) => protocol == 17 && size == 42 + bytes,
            None => protocol == 1 && *frame.get(34)? == if out { 8 } else { 0 },
        };
    wanted.then_some(out)
}

const LONGEST: Duration = Duration::from_secs(20);

/// A process for each CPU that keeps it busy. They end when they are dropped, or by themselves.
fn burners(pair: &VethPair) -> Result<Vec<ChildGuard>, String> {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    (0..count).map(|_| pair.helper(BenchHost::Far, &["burner"])).collect()
}

pub fn burn(_: &[String]) -> Result<(), String> {
    let begun = Instant::now();
    let mut state = 1u64;
    while begun.elapsed() < LONGEST {
        for _ in 0..1_000_000 {
            state =
                std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
    Ok(())
}
