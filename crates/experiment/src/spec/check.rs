//! What fits together in an experiment, beyond what each field can say by itself.

use super::{Experiment, Load, Probe};
use crate::expect::Claim;
use crate::nearest;
use crate::plan::{self, PlanError};
use quell_lab::cell::CellPlan;
use std::collections::BTreeSet;

/// Why an experiment is refused; each problem by itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", problems.join("\n"))]
pub struct CheckError {
    /// What is wrong.
    pub problems: Vec<String>,
}

/// Most cells of one experiment.
const MOST_CELLS: u64 = 10_000;

/// Checks everything and gives the plans of the cells.
pub fn check(experiment: &Experiment) -> Result<Vec<CellPlan>, CheckError> {
    let mut problems = Vec::new();
    names(experiment, &mut problems);
    times(experiment, &mut problems);
    references(experiment, &mut problems);
    claims(experiment, &mut problems);
    sizes(experiment, &mut problems);
    if !problems.is_empty() {
        return Err(CheckError { problems });
    }
    plan::plan(experiment).map_err(|e: PlanError| CheckError { problems: vec![e.to_string()] })
}

fn names(experiment: &Experiment, problems: &mut Vec<String>) {
    let lists: [(&str, Vec<&str>); 4] = [
        ("scenario", experiment.scenario.iter().map(|s| s.name.as_str()).collect()),
        ("probe", experiment.probe.iter().map(Probe::name).collect()),
        ("load", experiment.load.iter().map(Load::name).collect()),
        ("queue", experiment.queue.iter().map(|q| q.name.as_str()).collect()),
    ];
    let good = |n: &str| {
        !n.is_empty()
            && n.len() <= 40
            && n.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    if !good(&experiment.name) {
        problems.push(format!("name = \"{}\": use 1 to 40 letters, digits, - and _", experiment.name));
    }
    for (what, names) in lists {
        let mut seen = BTreeSet::new();
        for name in names {
            if !good(name) {
                problems.push(format!("{what} `{name}`: a name has 1 to 40 letters, digits, - and _"));
            }
            // Queues may share a name: a scenario then gets all of them.
            if !seen.insert(name) && what != "queue" {
                problems.push(format!("the {what} `{name}` is there twice; give each its own name"));
            }
        }
    }
    for load in &experiment.load {
        if experiment.probe.iter().any(|p| p.name() == load.name()) {
            problems.push(format!("`{}` is both a load and a probe; results need different names", load.name()));
        }
    }
    for (what, none) in [("scenario", experiment.scenario.is_empty()), ("probe", experiment.probe.is_empty())] {
        if none {
            problems.push(format!("there is no {what}; an experiment needs at least one"));
        }
    }
}

fn times(experiment: &Experiment, problems: &mut Vec<String>) {
    let seconds = experiment.duration.as_secs_f64();
    if !(0.1..=86_400.0).contains(&seconds) {
        problems.push(format!("duration = \"{}\": give 100ms to 24h", experiment.duration));
    }
    if experiment.warm_up.as_secs_f64() > 3_600.0 {
        problems.push(format!("warm-up = \"{}\": give at most 1h", experiment.warm_up));
    }
    if experiment.sample_queues.nanos() < 1_000_000 {
        problems.push(format!("sample-queues = \"{}\": give at least 1ms", experiment.sample_queues));
    }
    for change in &experiment.timeline {
        if change.at >= experiment.duration {
            problems.push(format!(
                "timeline at {} is after the end of the measurement ({})",
                change.at, experiment.duration
            ));
        }
    }
    if experiment.repeat == 0 {
        problems.push("repeat = 0 measures nothing; give at least 1".into());
    }
    for probe in &experiment.probe {
        if let Probe::Ping(ping) = probe
            && ping.interval.nanos() < 100_000
        {
            problems.push(format!("probe `{}`: an interval of {} is a flood; give at least 100us", ping.name, ping.interval));
        }
    }
    for load in &experiment.load {
        let (name, start, duration) = match load {
            Load::Tcp(l) => (&l.name, l.start, l.duration),
            Load::Udp(l) => (&l.name, l.start, l.duration),
            Load::Command(l) => (&l.name, l.start, l.duration),
        };
        if start.is_some_and(|s| s >= experiment.duration) {
            problems.push(format!("load `{name}` starts after the end of the measurement"));
        }
        if duration.is_some_and(|d| d.nanos() == 0) {
            problems.push(format!("load `{name}`: a duration of 0 does nothing"));
        }
    }
}

fn references(experiment: &Experiment, problems: &mut Vec<String>) {
    let loads: Vec<&str> = experiment.load.iter().map(Load::name).collect();
    let queues: Vec<&str> = experiment.queue.iter().map(|q| q.name.as_str()).collect();
    let scenarios: Vec<&str> = experiment.scenario.iter().map(|s| s.name.as_str()).collect();
    let nodes: Vec<&str> = experiment
        .topology
        .hosts
        .iter()
        .chain(&experiment.topology.routers)
        .map(String::as_str)
        .collect();
    let mut look = |place: String, what: &str, name: &str, known: &[&str]| {
        if !known.contains(&name) {
            let hint = nearest::hint(name, known);
            problems.push(format!("{place} names the {what} `{name}`, which is not there{hint}"));
        }
    };
    for scenario in &experiment.scenario {
        let place = || format!("scenario `{}`", scenario.name);
        scenario.loads.iter().for_each(|l| look(place(), "load", l, &loads));
        scenario.queues.iter().for_each(|q| look(place(), "queue", q, &queues));
        scenario.sysctl.keys().for_each(|n| look(place(), "node", n, &nodes));
    }
    for change in &experiment.timeline {
        let place = || format!("timeline at {}", change.at);
        change.scenarios.iter().for_each(|s| look(place(), "scenario", s, &scenarios));
    }
    for load in &experiment.load {
        let place = || format!("load `{}`", load.name());
        let named = match load {
            Load::Tcp(l) => vec![&l.from, &l.to],
            Load::Udp(l) => vec![&l.from, &l.to],
            Load::Command(l) => vec![&l.on],
        };
        named.into_iter().for_each(|n| look(place(), "host", n, &nodes));
    }
    for probe in &experiment.probe {
        let place = || format!("probe `{}`", probe.name());
        let named = match probe {
            Probe::Ping(p) => [&p.from, &p.to],
            Probe::Udp(p) => [&p.from, &p.to],
            Probe::Tcp(p) => [&p.from, &p.to],
        };
        named.into_iter().for_each(|n| look(place(), "host", n, &nodes));
    }
}

fn claims(experiment: &Experiment, problems: &mut Vec<String>) {
    let scenarios: Vec<&str> = experiment.scenario.iter().map(|s| s.name.as_str()).collect();
    let probes: Vec<&str> = experiment
        .probe
        .iter()
        .map(Probe::name)
        .chain(experiment.load.iter().map(Load::name))
        .collect();
    for text in &experiment.expect {
        match Claim::parse(text) {
            Err(error) => problems.push(error.to_string()),
            Ok(claim) => {
                for source in claim.sources() {
                    let scenario = source.scenario.as_deref().unwrap_or_default();
                    if !scenario.is_empty() && !scenarios.contains(&scenario) {
                        let hint = nearest::hint(scenario, &scenarios);
                        problems.push(format!("expect \"{text}\": no scenario `{scenario}`{hint}"));
                    }
                    if !probes.contains(&source.probe.as_str()) {
                        let hint = nearest::hint(&source.probe, &probes);
                        problems.push(format!("expect \"{text}\": no probe or load `{}`{hint}", source.probe));
                    }
                }
            }
        }
    }
}

fn sizes(experiment: &Experiment, problems: &mut Vec<String>) {
    let groups = match experiment.probes_run {
        super::ProbesRun::Apart => experiment.probe.len() as u64,
        super::ProbesRun::Together => 1,
    };
    let cells = experiment.scenario.len() as u64 * groups * u64::from(experiment.repeat);
    if cells > MOST_CELLS {
        problems.push(format!("{cells} cells (scenarios × probes × repeats) are too many; at most {MOST_CELLS}"));
    }
    for load in &experiment.load {
        match load {
            Load::Tcp(l) if l.connections == 0 || l.connections > 1000 => {
                problems.push(format!("load `{}`: {} connections can't be; give 1 to 1000", l.name, l.connections));
            }
            Load::Udp(l) if l.size.get() < 32 || l.size.get() > 65_507 => {
                problems.push(format!("load `{}`: a payload of {} can't be; give 32 to 65507 bytes", l.name, l.size));
            }
            Load::Command(l) if l.run.is_empty() => {
                problems.push(format!("load `{}`: `run` names no program", l.name));
            }
            _ => {}
        }
    }
    for probe in &experiment.probe {
        if let Probe::Udp(udp) = probe
            && !(44..=65_507).contains(&udp.size.get())
        {
            problems.push(format!(
                "probe `{}`: a payload of {} can't be; a measuring packet (RFC 8762) has 44 to 65507 bytes",
                udp.name, udp.size
            ));
        }
    }
}
