//! What classifying a packet costs.
//!
//! ```text
//!   classify-bench [--rounds 15]
//!
//!   alone     the program by itself, on one packet again and again (BPF_PROG_TEST_RUN)
//!   found     the same where it finds hosts: from an address that it knows, from one that it never saw
//!   in path   packets through HTB without a filter, with ours, with `flow` where the kernel has it, with u32
//! ```
//!
//! Rounds alternate between what is compared; printed are medians and quartiles.

mod alone;
mod found;
#[path = "../../machine.rs"]
mod machine;
mod path;

use std::process::ExitCode;

use quell_classify::{Classifier, ClassifyError, Config};

fn main() -> ExitCode {
    let mut rounds = 15;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), arguments.next().and_then(|n| n.parse().ok())) {
            ("--rounds", Some(number)) => rounds = std::cmp::max(number, 1),
            _ => {
                eprintln!("usage: classify-bench [--rounds N]");
                return ExitCode::from(2);
            }
        }
    }
    println!("{}", machine::described());
    // Asked first, so that a machine that lets nobody load programs goes on with other benches.
    if let Some(error) = refusal().filter(ClassifyError::proves_no_program_loads) {
        println!("left out: {error}");
        return ExitCode::SUCCESS;
    }
    match alone::run(rounds).and_then(|()| found::run(rounds)).and_then(|()| path::run(rounds)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("classify-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Why the classifier can't be loaded here.
fn refusal() -> Option<ClassifyError> {
    Classifier::load(&Config::flows(1, 1).expect("one flow fits")).err()
}

/// Median and quartiles, as they are printed.
fn summed_up(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    format!("{:6.1} [{:.1} to {:.1}]", at(0.5), at(0.25), at(0.75))
}
