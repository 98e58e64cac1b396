//! `--prove HOST`: as it is and set, in turn, between here and a `quell serve` there.
//!
//! Each time that it is set it is a transaction of its own that nobody confirms: whatever happens to this process, it is taken back.

use super::{Measured, Proof};
use crate::failure::Failure;
use crate::host::Found;
use crate::shape::{failure, watchdog};
use crate::tune::asked::{ApplyArgs, found};
use crate::tune::files::CHANGE;
use crate::tune::settled::{Settled, act};
use quell_act::{Goal, Kernel};
use quell_flow::{Amount, Findings, FlowError, FlowPlan, Senders};
use quell_sys::wait::Bell;
use quell_tune::Record;
use quell_units::Span;
use std::sync::Arc;

/// What a test takes beside its time: the connection, what is still on its way.
const BESIDE: Span = Span::from_secs(30);

/// Measures with a server.
pub fn with_host(
    to: &str,
    kernel: &mut Kernel,
    args: &ApplyArgs,
    settled: &Settled,
    record: &Record,
    goal: &Goal,
) -> Result<Proof, Failure> {
    if settled.earlier.is_some() {
        return Err(Failure::check(
            "quell tune is in force already; to compare with what was before: quell tune revert first",
        ));
    }
    let mut found = found(to)?;
    let stop = Arc::new(Bell::new().map_err(Failure::system)?);
    crate::interrupt::listen(&stop)?;
    let mut ways = [("up", Senders::Up), ("down", Senders::Down)].map(|(way, senders)| {
        (senders, Measured { way, now: Vec::new(), then: Vec::new(), predicted: None })
    });
    let each = Span::from_nanos(args.prove.time.nanos().saturating_mul(4)) + BESIDE + BESIDE;
    for _ in 0..args.prove.rounds {
        for (senders, measured) in &mut ways {
            measured.now.push(flow(to, &mut found, *senders, args, &stop)?);
        }
        act(kernel, &args.places, goal.clone(), record, Some(each))?;
        let rates: Result<Vec<f64>, Failure> =
            ways.iter().map(|(senders, _)| flow(to, &mut found, *senders, args, &stop)).collect();
        // Whether it was measured or not.
        let before = |log: Option<&quell_act::Log>| Ok(settled.files.before(record, log, &[]));
        let command = "quell tune apply";
        quell_act::take_off(kernel, &args.places.state, CHANGE, command, &watchdog, &before)
            .map_err(failure)?;
        for ((_, measured), rate) in ways.iter_mut().zip(rates?) {
            measured.then.push(rate);
        }
    }
    let place = format!(
        "with {to}, {} times each, in turn, {} each way",
        args.prove.rounds, args.prove.time
    );
    Ok(Proof { place, ways: ways.map(|(_, measured)| measured).to_vec() })
}

/// One test: bits a second that arrived.
fn flow(
    to: &str,
    found: &mut Found,
    direction: Senders,
    args: &ApplyArgs,
    stop: &Bell,
) -> Result<f64, Failure> {
    let plan = FlowPlan {
        direction,
        amount: Amount::Time(args.prove.time),
        // While the window grows.
        omit: Span::from_nanos(args.prove.time.nanos() / 2),
        secret: args.prove.secret.read()?,
        ..FlowPlan::new(to, found.to)
    };
    let outcome = found
        .reached(FlowError::is_nobody, |to| {
            quell_flow::run(&FlowPlan { to, control: to, ..plan.clone() }, stop, &mut |_| {})
        })
        .map_err(Failure::system)?;
    if outcome.stopped {
        return Err(Failure::check("stopped before it was over; all is as it was before"));
    }
    if let Some(broke) = &outcome.broke {
        return Err(Failure::system(format!(
            "the test broke off: {broke}; all is as it was before"
        )));
    }
    let findings = Findings::of(&outcome);
    let way = if direction == Senders::Up { findings.up } else { findings.down };
    way.and_then(|way| way.bits_per_second)
        .ok_or_else(|| Failure::system("how much arrived is unknown; all is as it was before"))
}
