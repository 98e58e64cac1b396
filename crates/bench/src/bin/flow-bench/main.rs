//! How fast Quell moves data, beside iperf3 and nuttcp, in the same run on the same machine.
//!
//! ```text
//!   flow-bench [--rounds 10] [--seconds 2] [--only tcp,udp1400,udp100,gaps] [--quell PROGRAM]
//!
//!   near (10.9.0.1) ═══ veth ═══ (10.9.0.2) far        two namespaces that end with this program
//!     client                          server           processes of their own, alternating: ours, theirs, ours, theirs …
//! ```
//!
//! Printed are medians, the spread between quartiles, and the ratio to the peer's median. CPU is what both processes used (getrusage), and
//! beside it what the machine was busy in that time (/proc/stat), which counts the kernel's work on nobody's account, and other programs'
//! too: trust the latter on a quiet machine only.
//!
//! Without `--quell` the data movers (`quell_load::bulk`) run by themselves; with it `quell flow` and `quell serve` do.

mod capture;
mod cpu;
mod mover;
mod peer;
mod place;

use peer::{Kind, Outcome, Peer};
use place::Place;
use std::path::PathBuf;
use std::process::ExitCode;

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    rounds: usize,
    seconds: u64,
    only: Vec<String>,
    quell: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.first().map(String::as_str) {
        Some("mover") => mover::run(&arguments[1..]),
        Some("capture") => capture::run(&arguments[1..]),
        _ => ask(&arguments).and_then(|asked| bench(&asked)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flow-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn ask(arguments: &[String]) -> Result<Asked, String> {
    let mut asked = Asked { rounds: 10, seconds: 2, only: Vec::new(), quell: None };
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{option} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{option} {value}: not a number"));
        match option.as_str() {
            "--rounds" => asked.rounds = number()?.max(1) as usize,
            "--seconds" => asked.seconds = number()?.max(1),
            "--only" => asked.only = value.split(',').map(str::to_owned).collect(),
            "--quell" => asked.quell = Some(value.into()),
            _ => return Err(format!("unknown option {option}")),
        }
    }
    Ok(asked)
}

fn bench(asked: &Asked) -> Result<(), String> {
    let place = Place::new().map_err(|e| e.to_string())?;
    let wanted = |name: &str| asked.only.is_empty() || asked.only.iter().any(|o| o == name);
    println!(
        "{} rounds of {} s each, alternating; median [quartiles]",
        asked.rounds, asked.seconds
    );
    if wanted("tcp") {
        let peers = [
            Peer::Quell("copied"),
            Peer::Iperf3(""),
            Peer::Nuttcp,
            Peer::Quell("sendfile"),
            Peer::Iperf3("-Z"),
        ];
        compare(asked, &place, "TCP, one stream", Kind::Tcp, &peers)?;
    }
    let mut theirs = 250_000.0;
    for (name, size) in [("udp1400", 1400), ("udp100", 100)] {
        if wanted(name) {
            let peers = [Peer::Quell("trains"), Peer::Iperf3(""), Peer::Quell("single")];
            let title = format!("UDP, {size} bytes, as many as go");
            let rates = compare(asked, &place, &title, Kind::Udp { size, rate: None }, &peers)?;
            if size == 1400 {
                theirs = rates[1];
            }
        }
    }
    if wanted("gaps") {
        // Half of what iperf3 can; and a rate at which a timer can wake for each packet.
        for packets in [(theirs / 2.0) as u64, 20_000, 1000] {
            let kind = Kind::Udp { size: 1400, rate: Some(packets * 1400 * 8) };
            let title = format!("UDP, 1400 bytes, {packets} packets/s asked for");
            gaps(asked, &place, &title, kind)?;
        }
    }
    Ok(())
}

/// Each peer's rounds, alternating; the medians of their rates.
fn compare(
    asked: &Asked,
    place: &Place,
    title: &str,
    kind: Kind,
    peers: &[Peer],
) -> Result<Vec<f64>, String> {
    println!("\n{title}");
    let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); peers.len()];
    for _ in 0..asked.rounds {
        for (peer, outcomes) in peers.iter().zip(&mut outcomes) {
            outcomes.push(peer.run(asked, place, kind)?);
        }
    }
    let (unit, scale) = match kind {
        Kind::Tcp => ("Gbit/s", 1e9),
        Kind::Udp { .. } => ("kpackets/s", 1e3),
    };
    let of = |n: usize, pick: fn(&Outcome) -> f64| Spread::of(outcomes[n].iter().map(pick));
    let rates: Vec<f64> = (0..peers.len()).map(|n| of(n, |o| o.rate).median).collect();
    let each: Vec<f64> = (0..peers.len()).map(|n| of(n, Outcome::per_cpu).median).collect();
    let base = peers.iter().position(|p| matches!(p, Peer::Iperf3("")));
    for (n, peer) in peers.iter().enumerate() {
        let (rate, cpu) = (of(n, |o| o.rate / 1.0), of(n, Outcome::per_cpu));
        let machine = of(n, Outcome::per_busy);
        let lost = of(n, |o| o.lost * 100.0);
        let ratio = base.map_or(String::new(), |b| {
            format!("  x{:.2}, x{:.2} a CPU s", rates[n] / rates[b], each[n] / each[b])
        });
        println!(
            "  {:18} {} {unit}  {} {unit} a CPU s (machine's: {:.2})  lost {:.2} %{ratio}",
            peer.name(asked),
            rate.show(scale),
            cpu.show(scale),
            machine.median / scale,
            lost.median,
        );
    }
    Ok(rates)
}

/// How far the gaps between packets are from what the rate asks for, by a capture at the receiver.
fn gaps(asked: &Asked, place: &Place, title: &str, kind: Kind) -> Result<(), String> {
    println!("\n{title}: |gap - asked gap| at the receiver, by capture");
    let peers = [Peer::Quell("single"), Peer::Iperf3("")];
    let mut errors = vec![Vec::new(); peers.len()];
    for _ in 0..asked.rounds {
        for (peer, errors) in peers.iter().zip(&mut errors) {
            let capture = capture::Capture::start(place, kind)?;
            let outcome = peer.run(asked, place, kind)?;
            errors.push((capture.end()?, outcome));
        }
    }
    for (peer, errors) in peers.iter().zip(&errors) {
        let of =
            |pick: &dyn Fn(&(capture::Gaps, Outcome)) -> f64| Spread::of(errors.iter().map(pick));
        println!(
            "  {:18} p50 {} us  p99 {} us  p99.9 {} us  {} kpackets/s  {} CPU s a second",
            peer.name(asked),
            of(&|e| e.0.p50).show(1e3),
            of(&|e| e.0.p99).show(1e3),
            of(&|e| e.0.p999).show(1e3),
            of(&|e| e.0.rate).show(1e3),
            of(&|e| e.1.cpu / e.1.seconds).show(1.0),
        );
    }
    Ok(())
}

/// Median and quartiles.
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (values.len().max(1) - 1) as f64;
            let (low, high) = (place.floor() as usize, place.ceil() as usize);
            let pick = |n: usize| values.get(n).copied().unwrap_or(f64::NAN);
            pick(low) + (pick(high) - pick(low)) * place.fract()
        };
        Self { low: at(0.25), median: at(0.5), high: at(0.75) }
    }

    fn show(&self, scale: f64) -> String {
        format!("{:.2} [{:.2} {:.2}]", self.median / scale, self.low / scale, self.high / scale)
    }
}
