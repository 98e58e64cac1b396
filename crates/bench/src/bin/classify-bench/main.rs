//! What classifying a packet costs.
//!
//! ```text
//!   classify-bench [--rounds 15]
//!
//!   alone     the program by itself, on one packet again and again (BPF_PROG_TEST_RUN)
//!   in path   packets through HTB without a filter, with ours, with `flow` where the kernel has it, with u32
//! ```
//!
//! Rounds alternate between what is compared; printed are medians and quartiles.

mod alone;
#[path = "../../machine.rs"]
mod machine;
mod path;

use std::process::ExitCode;

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
    match alone::run(rounds).and_then(|()| path::run(rounds)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("classify-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Median and quartiles, as they are printed.
fn summed_up(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    format!("{:6.1} [{:.1} to {:.1}]", at(0.5), at(0.25), at(0.75))
}
