//! How fast Quell is, beside its peers in the same run on the same machine.
//!
//! ```text
//!   quell-bench NAME|all [--quell PROGRAM] [--rounds N] [--seconds N] [--only A,B] …
//!
//!   classify   what classifying a packet costs           BPF_PROG_TEST_RUN; packets through HTB
//!   shape      what shaping costs                        beside no queue, and tc -batch
//!   peers      how much of a round trip is the program's beside fping and irtt
//!   flow       how fast data moves                       beside iperf3 and nuttcp
//!   lab        how fast the lab is                       beside another Quell
//!   arena      what leads a shaper over a line that varies   beside fixed rates, cake-autorate, QoSmate
//!   twin       how well a line is told that nobody knows  beside the truth
//!   choose     how good the queues are that are chosen      beside all candidates
//! ```

#![allow(missing_docs)] // Nobody uses it as a library.

mod arena;
mod choose;
mod classify;
mod flow;
mod hidden_line;
mod lab;
mod options;
mod peers;
mod shape;
mod stats;
mod twin;
mod veth;

use options::{BenchOptions, USAGE};
use quell_wire::text;
use std::process::ExitCode;

/// A bench: its name, what it does, and how many rounds it has unless told.
type Bench = (&'static str, fn(&BenchOptions) -> Result<(), String>, usize);

const BENCHES: [Bench; 8] = [
    ("classify", classify::bench, 15),
    ("shape", shape::bench, 5),
    ("peers", peers::bench, 10),
    ("flow", flow::bench, 10),
    ("lab", lab::bench, 3),
    ("arena", arena::bench, 50),
    ("twin", twin::bench, 4),
    ("choose", choose::bench, 1),
];

/// What is started by a bench beside it, as a process of its own.
type Helper = (&'static str, fn(&[String]) -> Result<(), String>);

const HELPERS: [Helper; 3] =
    [("gaps", flow::print_gaps), ("stamps", peers::print_stamps), ("burner", peers::burn)];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quell-bench: {}", text::line(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let (name, rest) = arguments.split_first().ok_or(USAGE)?;
    if let Some((_, helper)) = HELPERS.iter().find(|(helper, _)| helper == name) {
        return helper(rest);
    }
    let benches: Vec<&Bench> =
        BENCHES.iter().filter(|bench| name == "all" || name == bench.0).collect();
    if benches.is_empty() {
        return Err(USAGE.into());
    }
    println!("{}", machine());
    for (_, bench, rounds) in benches {
        bench(&BenchOptions::parse(rest, *rounds)?)?;
    }
    Ok(())
}

/// `2 × AMD EPYC …, Linux 6.18.5`: what the figures hold for.
fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let (cpus, release) = (read("/proc/cpuinfo"), read("/proc/sys/kernel/osrelease"));
    let names = cpus.lines().filter(|l| l.starts_with("model name"));
    let names: Vec<&str> = names.filter_map(|l| l.split_once(": ")).map(|(_, n)| n).collect();
    let name = names.first().copied().unwrap_or("CPU of no name");
    format!("{} × {name}, Linux {}", names.len().max(1), release.trim())
}
