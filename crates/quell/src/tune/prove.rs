//! `--prove`: the lab or a `quell serve` measures whether the settings help.

use super::args::ProveArgs;
use crate::failure::Failure;
use crate::options::{Family, Guest};
use quell_act::Kernel;
use quell_experiment::run::{Carrier, Options};
use quell_experiment::spec::{check, load_file};
use quell_flow::{Amount, FlowError, FlowPlan, FlowReport, Senders};
use quell_model::metric::Metric;
use quell_report::analysis::Results;
use quell_store::Run;
use quell_sys::trusted::TemporaryFolder;
use quell_tuning::proof::{self, DirectionMeasurement, LabProof, Proof};
use quell_tuning::{CommandError, Goals, Tuner};
use quell_tuning::{HostFacts, Tuning};
use quell_units::Span;

/// What a test takes beside its time: the connection, what is still on its way.
const BESIDE: Span = Span::from_secs(60);

/// Measures with a server: as it is and set, in turn.
pub fn with_host(
    to: &str,
    kernel: &mut Kernel,
    args: &ProveArgs,
    tuner: &Tuner,
    goals: &Goals,
) -> Result<Proof, Failure> {
    let mut found = Family::default().server(to, quell_wire::iperf3::PORT)?;
    let stop = crate::interrupt::bell()?;
    let secret = args.secret.read()?;
    let mut measure = |up: bool| {
        let plan = FlowPlan {
            direction: if up { Senders::Up } else { Senders::Down },
            amount: Amount::Time(args.time),
            // While the window grows.
            omit: Span::from_nanos(args.time.nanos() / 2),
            secret: secret.clone(),
            ..FlowPlan::new(to, found.to)
        };
        let outcome = found
            .reached(FlowError::is_nobody, |to| {
                quell_flow::run(&FlowPlan { to, control: to, ..plan.clone() }, &stop, &mut |_| {})
            })
            .map_err(CommandError::system)?;
        if outcome.stopped {
            return Err(CommandError::check("stopped before it was over; all is as it was before"));
        }
        if let Some(broke) = &outcome.broke {
            return Err(CommandError::system(format!(
                "the test broke off: {broke}; all is as it was before"
            )));
        }
        let findings = FlowReport::of(&outcome);
        let way = if up { findings.up } else { findings.down };
        way.and_then(|way| way.bits_per_second).ok_or_else(|| {
            CommandError::system("how much arrived is unknown; all is as it was before")
        })
    };
    let each = Span::from_nanos(args.time.nanos().saturating_mul(4)) + BESIDE;
    let ways = tuner.prove(kernel, goals, args.rounds, each, &mut measure)?;
    let place =
        format!("with {to}, {} times each, in turn, {} in each direction", args.rounds, args.time);
    Ok(Proof { place, ways })
}

/// Measures in the lab.
pub fn in_lab(plan: &Tuning, host: &HostFacts, args: &ProveArgs) -> Result<Proof, Failure> {
    let lab = proof::in_lab(plan, host, args.rounds).map_err(Failure::usage)?;
    let LabProof { path, memory: needed, experiment: text } = lab;
    let experiment = load_file::parse("tune-proof", &text).map_err(Failure::system)?;
    let plans = check::check(&experiment).map_err(Failure::system)?;
    let memory = args.guest.memory.max(u32::try_from(needed).unwrap_or(u32::MAX));
    let guest = Guest { memory, ..args.guest.clone() };
    let options = crate::run::guest_options(&guest, &[])?;
    let release = options.kernel.version.parse().map_err(Failure::system)?;
    // The run goes with it.
    let folder = TemporaryFolder::new("quell-tune").map_err(Failure::system)?;
    // Each guest may have that much memory.
    let cpus = quell_sys::affinity::allowed_cpus().map_or(1, |c| c.len().max(1));
    let fit = usize::try_from((host.memory >> 20) / needed.max(1)).unwrap_or(1).max(1);
    let options = Options {
        base: folder.path().to_owned(),
        carrier: Carrier::Guest(options),
        jobs: cpus.min(fit),
        text,
        changes: Vec::new(),
        version: env!("CARGO_PKG_VERSION").into(),
        part: None,
    };
    let finished = crate::run::carry(&experiment, &plans, &options, &*crate::interrupt::bell()?)?;
    if finished.stopped {
        return Err(Failure::check("stopped before it was over; nothing was changed"));
    }
    let run = Run::read(&finished.folder).map_err(Failure::system)?;
    let results = Results::from(&run);
    let of = |scenario: &str| -> Vec<f64> {
        let all = results.values(Metric::Goodput);
        let ours = all
            .into_iter()
            .filter(|(cell, stream, _)| cell.scenario == scenario && *stream == "transfer");
        ours.filter_map(|(_, _, value)| value.map(|(bits, _)| bits)).collect()
    };
    let (now, then) = (of("now"), of("then"));
    drop(folder);
    if now.len() < 3 || then.len() < 3 {
        let why = finished.manifest.cells.iter().find_map(|cell| cell.reason.clone());
        return Err(Failure::system(format!(
            "the lab did not measure all of it{}",
            why.map(|why| format!(": {why}")).unwrap_or_default()
        )));
    }
    // The lab's kernel has a window fraction of its own.
    let guest = HostFacts { release, ..host.clone() };
    let predicted =
        [false, true].map(|then| plan.reach(&path, &guest, then).map(|r| r.bits_per_second));
    let predicted = predicted[0].zip(predicted[1]).map(|(now, then)| [now, then]);
    let place = format!(
        "in the lab ({}, {}, Linux {release}, {} seeds), one transfer, both ends alike",
        path.rate, path.rtt, args.rounds
    );
    Ok(Proof { place, ways: vec![DirectionMeasurement { way: "up", now, then, predicted }] })
}
