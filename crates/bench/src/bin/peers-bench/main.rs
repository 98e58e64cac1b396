//! How much of a round-trip time is the instrument's own: Quell beside fping and irtt, in the same run on the same machine.
//!
//! ```text
//!   peers-bench QUELL [--rounds 10] [--packets 400] [--interval-ms 4] [--only idle,busy]
//!
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
//! Rounds alternate between the programs. *Busy* is a burner for each CPU beside them, which ends by itself.

mod burner;
#[path = "../flow-bench/cpu.rs"]
#[allow(dead_code)]
mod cpu;
#[path = "../../machine.rs"]
mod machine;
#[path = "../flow-bench/place.rs"]
#[allow(dead_code)]
mod place;
mod program;
mod watch;

use place::Place;
use program::{Peer, Round};
use std::path::PathBuf;
use std::process::ExitCode;

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    quell: PathBuf,
    rounds: usize,
    packets: usize,
    interval_ms: u64,
    only: Vec<String>,
}

/// Payload of the UDP packets: a voice packet, and unlike those with which irtt opens and closes.
const UDP_BYTES: usize = 172;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.first().map(String::as_str) {
        Some("watch") => watch::run(&arguments[1..]),
        Some("burn") => burner::run(&arguments[1..]),
        _ => ask(&arguments).and_then(|asked| bench(&asked)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn ask(arguments: &[String]) -> Result<Asked, String> {
    let (quell, rest) = arguments.split_first().ok_or("usage: peers-bench QUELL [--rounds N] …")?;
    let mut asked =
        Asked { quell: quell.into(), rounds: 10, packets: 400, interval_ms: 4, only: Vec::new() };
    for option in rest.chunks(2) {
        let [name, value] = option else { return Err(format!("{} needs a value", option[0])) };
        let number = || match value.parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("{name} {value}: not a number above 0")),
        };
        match name.as_str() {
            "--rounds" => asked.rounds = number()? as usize,
            "--packets" => asked.packets = number()? as usize,
            "--interval-ms" => asked.interval_ms = number()?,
            "--only" => asked.only = value.split(',').map(str::to_owned).collect(),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(asked)
}

fn bench(asked: &Asked) -> Result<(), String> {
    let place = Place::new().map_err(|e| e.to_string())?;
    println!("{}", machine::described());
    println!(
        "RTT excess over the kernel's own stamps, µs: {} rounds of {} packets every {} ms, alternating",
        asked.rounds, asked.packets, asked.interval_ms
    );
    println!("median over the rounds [first quartile .. third]\n");
    for busy in [false, true] {
        let name = if busy { "busy" } else { "idle" };
        if asked.only.is_empty() || asked.only.iter().any(|o| o == name) {
            condition(asked, &place, busy)?;
        }
    }
    Ok(())
}

/// All programs, with or without burners beside them.
fn condition(asked: &Asked, place: &Place, busy: bool) -> Result<(), String> {
    let programs: Vec<Peer> = Peer::ALL.into_iter().filter(|p| p.is_there(asked)).collect();
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); programs.len()];
    for _ in 0..asked.rounds {
        for (program, rounds) in programs.iter().zip(&mut rounds) {
            rounds.push(once_more(asked, place, *program, busy)?);
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
            spread(rounds, |r| r.excess(0.50)),
            spread(rounds, |r| r.excess(0.99)),
            median(rounds, |r| r.wire(0.50)),
            median(rounds, |r| r.cpu_s * 1e3 / asked.packets as f64),
        );
    }
    for (ours, theirs) in [(Peer::QuellIcmp, Peer::Fping), (Peer::QuellUdp, Peer::Irtt)] {
        let of = |program| programs.iter().position(|p| *p == program).map(|at| &rounds[at]);
        let (Some(a), Some(b)) = (of(ours), of(theirs)) else { continue };
        let ratio = |q: f64| median(a, |r| r.excess(q)) / median(b, |r| r.excess(q));
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
fn once_more(asked: &Asked, place: &Place, program: Peer, busy: bool) -> Result<Round, String> {
    let mut last = String::new();
    for _ in 0..3 {
        match program.round(asked, place, busy) {
            Ok(round) => return Ok(round),
            Err(error) => last = error,
        }
    }
    Err(format!("{}: {last}", program.name()))
}

fn sorted(rounds: &[Round], of: impl Fn(&Round) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(rounds: &[Round], of: impl Fn(&Round) -> f64) -> f64 {
    program::quantile(&sorted(rounds, of), 0.5)
}

fn spread(rounds: &[Round], of: impl Fn(&Round) -> f64) -> String {
    let values = sorted(rounds, of);
    let at = |q| program::quantile(&values, q);
    format!("{:.1} [{:.1} .. {:.1}]", at(0.5), at(0.25), at(0.75))
}
