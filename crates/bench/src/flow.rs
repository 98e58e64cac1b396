//! How fast Quell moves data, beside iperf3 and nuttcp, in the same run on the same machine.
//!
//! ```text
//!   near (10.9.0.1) ═══ veth ═══ (10.9.0.2) far        two namespaces that end with this program
//!     client                          server           processes of their own, alternating: ours, theirs, ours, theirs …
//! ```
//!
//! Parts for `--only`: tcp, udp1400, udp100, gaps. Printed are medians, the spread between quartiles, and the ratio to the peer's median. CPU is what
//! both processes used (getrusage), and beside it what the machine was busy in that time (/proc/stat), which counts the kernel's work on nobody's
//! account, and other programs' too: trust the latter on a quiet machine only.

use crate::options::BenchOptions;
use crate::stats::{busy, children, median, quantile, spread};
use crate::veth::{BenchHost, ChildGuard, FAR, FAR_DEVICE, VethPair, watch};
use std::io::Read;
use std::process::Command;
use std::time::{Duration, Instant};

/// What is measured.
#[derive(Debug, Clone, Copy)]
enum Transport {
    /// One connection, as fast as it goes.
    Tcp,
    /// Datagrams of `size` bytes of payload, as many as go or at a rate in bits of payload a second.
    Udp { size: u64, rate: Option<u64> },
}

/// Who is compared; the word is a further option.
#[derive(Debug, Clone, Copy)]
enum FlowPeer {
    Quell(&'static str),
    Iperf3(&'static str),
    Nuttcp,
}

/// What came out of a round.
#[derive(Debug, Clone, Copy, Default)]
struct FlowRound {
    /// Bits or packets a second that were delivered.
    rate: f64,
    /// Share of packets that were lost.
    lost: f64,
    /// CPU seconds of both processes.
    cpu: f64,
    /// CPU seconds that the machine was busy.
    busy: f64,
    /// How long it took, with the processes' start and end.
    seconds: f64,
}

impl FlowRound {
    /// What was delivered for a CPU second of both processes.
    fn per_cpu(&self) -> f64 {
        self.rate * self.seconds / self.cpu
    }

    /// What was delivered for a second that a CPU of the machine was busy.
    fn per_busy(&self) -> f64 {
        self.rate * self.seconds / self.busy
    }
}

fn seconds(options: &BenchOptions) -> u64 {
    options.seconds.unwrap_or(2)
}

pub fn bench(options: &BenchOptions) -> Result<(), String> {
    let pair = VethPair::new()?;
    println!(
        "{} rounds of {} s each, alternating; median [quartiles]",
        options.rounds,
        seconds(options)
    );
    let (quell, iperf3) = (FlowPeer::Quell(""), FlowPeer::Iperf3(""));
    if options.has("tcp") {
        let peers =
            [quell, iperf3, FlowPeer::Nuttcp, FlowPeer::Quell("-Z"), FlowPeer::Iperf3("-Z")];
        compare(options, &pair, "TCP, one stream", Transport::Tcp, &peers)?;
    }
    let mut theirs = 250_000.0;
    for (name, size) in [("udp1400", 1400), ("udp100", 100)] {
        if options.has(name) {
            let title = format!("UDP, {size} bytes, as many as go");
            let udp = Transport::Udp { size, rate: None };
            let rates = compare(options, &pair, &title, udp, &[quell, iperf3])?;
            if size == 1400 {
                theirs = rates[1];
            }
        }
    }
    if options.has("gaps") {
        // Half of what iperf3 can; and a rate at which a timer can wake for each packet.
        for packets in [(theirs / 2.0) as u64, 20_000, 1000] {
            gaps(options, &pair, packets, &[quell, iperf3])?;
        }
    }
    Ok(())
}

/// Each peer's rounds, alternating; the medians of their rates.
fn compare(
    options: &BenchOptions,
    pair: &VethPair,
    title: &str,
    transport: Transport,
    peers: &[FlowPeer],
) -> Result<Vec<f64>, String> {
    println!("\n{title}");
    let mut rounds: Vec<Vec<FlowRound>> = vec![Vec::new(); peers.len()];
    for _ in 0..options.rounds {
        for (peer, rounds) in peers.iter().zip(&mut rounds) {
            rounds.push(peer.run(options, pair, transport)?);
        }
    }
    let (unit, scale) = match transport {
        Transport::Tcp => ("Gbit/s", 1e9),
        Transport::Udp { .. } => ("kpackets/s", 1e3),
    };
    let of = |n: usize, pick: fn(&FlowRound) -> f64| -> Vec<f64> {
        rounds[n].iter().map(pick).collect()
    };
    let rates: Vec<f64> = (0..peers.len()).map(|n| median(&of(n, |r| r.rate))).collect();
    let each: Vec<f64> = (0..peers.len()).map(|n| median(&of(n, FlowRound::per_cpu))).collect();
    let base = peers.iter().position(|p| matches!(p, FlowPeer::Iperf3("")));
    for (n, peer) in peers.iter().enumerate() {
        let ratio = base.map_or(String::new(), |b| {
            format!("  x{:.2}, x{:.2} a CPU s", rates[n] / rates[b], each[n] / each[b])
        });
        println!(
            "  {:18} {} {unit}  {} {unit} a CPU s (machine's: {:.2})  lost {:.2} %{ratio}",
            peer.name(),
            spread(&of(n, |r| r.rate), scale, 2),
            spread(&of(n, FlowRound::per_cpu), scale, 2),
            median(&of(n, FlowRound::per_busy)) / scale,
            median(&of(n, |r| r.lost * 100.0)),
        );
    }
    Ok(rates)
}

/// How far the gaps between packets are from what the rate asks for, by a capture at the receiver.
fn gaps(
    options: &BenchOptions,
    pair: &VethPair,
    packets: u64,
    peers: &[FlowPeer],
) -> Result<(), String> {
    const SIZE: u64 = 1400;
    println!(
        "\nUDP, {SIZE} bytes, {packets} packets/s asked for: |gap - asked gap| at the receiver, by capture"
    );
    let udp = Transport::Udp { size: SIZE, rate: Some(packets * SIZE * 8) };
    let gap_ns = (1e9 / packets as f64).to_string();
    let mut errors = vec![Vec::new(); peers.len()];
    for _ in 0..options.rounds {
        for (peer, errors) in peers.iter().zip(&mut errors) {
            let asked = ["gaps", &SIZE.to_string(), &gap_ns];
            let mut capture = pair.helper(BenchHost::Far, &asked)?;
            let output = capture.until(&["ready"])?;
            let round = peer.run(options, pair, udp)?;
            let text = capture.finish(output)?;
            let numbers: Vec<f64> =
                text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
            let gaps: [f64; 4] =
                numbers.try_into().map_err(|_| format!("the capture said `{text}`"))?;
            errors.push((gaps, round));
        }
    }
    for (peer, errors) in peers.iter().zip(&errors) {
        let of = |n: usize| spread(&errors.iter().map(|e| e.0[n]).collect::<Vec<_>>(), 1e3, 2);
        let cpu: Vec<f64> = errors.iter().map(|e| e.1.cpu / e.1.seconds).collect();
        println!(
            "  {:18} p50 {} us  p99 {} us  p99.9 {} us  {} kpackets/s  {} CPU s a second",
            peer.name(),
            of(0),
            of(1),
            of(2),
            of(3),
            spread(&cpu, 1.0, 2),
        );
    }
    Ok(())
}

/// The helper that captures; arguments are the payload's size and the gap asked for in nanoseconds. It prints p50, p99 and p99.9 of the errors in
/// nanoseconds, and packets a second.
pub fn print_gaps(arguments: &[String]) -> Result<(), String> {
    let number = |n: usize| arguments.get(n).and_then(|a| a.parse::<f64>().ok()).unwrap_or(0.0);
    let (size, asked) = (number(0) as usize, number(1));
    let mut stamps: Vec<u64> = Vec::with_capacity(1 << 20);
    watch(FAR_DEVICE, |frame, bytes, stamp| {
        // Ethernet, IPv4 without options, UDP.
        let is_udp = frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&17);
        if is_udp && bytes == 42 + size {
            stamps.push(stamp);
        }
    })?;
    // The start is everybody's own.
    let stamps = &stamps[stamps.len() / 10..];
    let errors: Vec<f64> =
        stamps.windows(2).map(|p| ((p[1] as f64 - p[0] as f64) - asked).abs()).collect();
    let span = match stamps {
        [first, .., last] => (last - first) as f64 / 1e9,
        _ => f64::NAN,
    };
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| quantile(&errors, share));
    println!("{p50} {p99} {p999} {}", stamps.len() as f64 / span);
    Ok(())
}

impl FlowPeer {
    fn name(&self) -> String {
        match self {
            Self::Quell(option) => format!("quell flow {option}"),
            Self::Iperf3(option) => format!("iperf3 {option}"),
            Self::Nuttcp => "nuttcp".into(),
        }
    }

    fn run(
        &self,
        options: &BenchOptions,
        pair: &VethPair,
        transport: Transport,
    ) -> Result<FlowRound, String> {
        let ((used, _), was_busy, begun) = (children(), busy(), Instant::now());
        let mut round = match self {
            Self::Quell(option) => {
                let mut server = Command::new(&options.quell);
                server.args(["serve", "--bind", FAR]);
                let mut client = Command::new(&options.quell);
                client.args(["flow", FAR, "-J"]).args(option.split_whitespace());
                iperf3(options, pair, transport, server, client)?
            }
            Self::Iperf3(option) => {
                let mut server = Command::new("iperf3");
                server.args(["-s", "-1", "--forceflush"]);
                let mut client = Command::new("iperf3");
                client.args(["-c", FAR, "-J"]).args(option.split_whitespace());
                iperf3(options, pair, transport, server, client)?
            }
            Self::Nuttcp => nuttcp(options, pair)?,
        };
        round.cpu = children().0 - used;
        round.busy = busy() - was_busy;
        // The time that data flowed: starting and ending takes a little more.
        round.seconds = (seconds(options) as f64).min(begun.elapsed().as_secs_f64());
        Ok(round)
    }
}

/// What a program prints until it ends.
fn printed(mut program: ChildGuard) -> Result<String, String> {
    let mut text = String::new();
    program.output()?.read_to_string(&mut text).map_err(|e| e.to_string())?;
    program.end()?;
    Ok(text)
}

/// Client and server that speak as iperf3 does.
fn iperf3(
    options: &BenchOptions,
    pair: &VethPair,
    transport: Transport,
    mut server: Command,
    mut client: Command,
) -> Result<FlowRound, String> {
    let mut server = pair.pipes(BenchHost::Far, &mut server)?;
    let _output = server.until(&["listening", "serving"])?;
    client.args(["-t", &seconds(options).to_string()]);
    if let Transport::Udp { size, rate } = transport {
        client.args(["-u", "-l", &size.to_string(), "-b", &rate.unwrap_or(0).to_string()]);
    }
    let json = printed(pair.pipes(BenchHost::Near, &mut client)?)?;
    // quell serve goes on until it is told; iperf3 -1 has ended.
    server.stop()?;
    let json: serde_json::Value =
        serde_json::from_str(&json).map_err(|e| format!("{e} in `{json:.200}`"))?;
    let number = |path: &str| {
        json.pointer(path)
            .and_then(serde_json::Value::as_f64)
            .ok_or_else(|| format!("no {path} in the client's report: {}", json["error"]))
    };
    Ok(match transport {
        Transport::Tcp => {
            FlowRound { rate: number("/end/sum_received/bits_per_second")?, ..FlowRound::default() }
        }
        Transport::Udp { .. } => {
            let (packets, lost) = (number("/end/sum/packets")?, number("/end/sum/lost_packets")?);
            FlowRound {
                rate: (packets - lost) / number("/end/sum/seconds")?,
                lost: lost / packets.max(1.0),
                ..FlowRound::default()
            }
        }
    })
}

fn nuttcp(options: &BenchOptions, pair: &VethPair) -> Result<FlowRound, String> {
    let mut server = Command::new("nuttcp");
    let server = pair.pipes(BenchHost::Far, server.args(["-1", "--nofork", "-P", "5101"]))?;
    let mut rate = None;
    // It does not say when it listens.
    for _ in 0..100 {
        let mut client = Command::new("nuttcp");
        let time = format!("-T{}", seconds(options));
        client.args(["-P", "5101", "-p", "5102", "-fparse", &time, FAR]);
        let text = printed(pair.pipes(BenchHost::Near, &mut client)?)?;
        let figure = |t: &str| t.strip_prefix("rate_Mbps=").and_then(|n| n.parse::<f64>().ok());
        rate = text.split_whitespace().find_map(figure);
        if rate.is_some() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    server.end()?;
    let rate = rate.ok_or("nuttcp gave no rate")? * 1e6;
    Ok(FlowRound { rate, ..FlowRound::default() })
}
