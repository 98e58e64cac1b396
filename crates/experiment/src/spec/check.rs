//! What fits together in an experiment, beyond what each field can say by itself.

use super::{Experiment, claims, error_line};
use crate::kinds::Measured;
use crate::nearest;
use crate::plan;
use quell_lab::cell::CellPlan;
use quell_lab::kernel::Series;
use quell_model::CellId;
use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", problems.iter().map(|p| &*p.text).collect::<Vec<_>>().join("\n"))]
pub struct CheckError {
    pub problems: Vec<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub text: String,
    /// The key that is wrong in the element that the text names first.
    key: Option<&'static str>,
}

impl Problem {
    fn new(text: &str, key: Option<&'static str>) -> Self {
        Self { text: error_line::one_line(text), key }
    }
}

impl CheckError {
    /// The problems, each in a line with the name of the file and, where it can be found in its text, the line.
    pub fn told(&self, name: &str, text: &str) -> String {
        let told =
            self.problems.iter().map(
                |Problem { text: problem, key }| match error_line::of_problem(text, problem, *key) {
                    Some(line) => format!("{name}, line {line}: {problem}"),
                    None => format!("{name}: {problem}"),
                },
            );
        told.collect::<Vec<_>>().join("\n")
    }
}

/// Least retransmission timeouts, in nanoseconds: from the kernel's unit to its `TCP_RTO_MAX` (include/net/tcp.h).
const RTO_MINS: std::ops::RangeInclusive<u64> = 1_000_000..=120_000_000_000;

const MOST_CELLS: u64 = 10_000;

pub fn check(experiment: &Experiment) -> Result<Vec<CellPlan>, CheckError> {
    whole(experiment)?;
    plan::plan(experiment)
        .map_err(|e| CheckError { problems: vec![Problem::new(&e.to_string(), None)] })
}

pub(crate) fn whole(experiment: &Experiment) -> Result<(), CheckError> {
    let mut problems = Vec::new();
    names(experiment, &mut problems);
    times(experiment, &mut problems);
    references(experiment, &mut problems);
    claims::check(experiment, &mut problems);
    sizes(experiment, &mut problems);
    kernels(experiment, &mut problems);
    settings(experiment, &mut problems);
    routes(experiment, &mut problems);
    managed(experiment, &mut problems);
    let mut problems: Vec<Problem> = problems.iter().map(|p| Problem::new(p, None)).collect();
    for Measured { role, kind, .. } in experiment.measured() {
        kind.check(&mut |key, why| {
            let text = format!("{role} `{}`: {why}", kind.name());
            problems.push(Problem::new(&text, Some(key)));
        });
    }
    if problems.is_empty() { Ok(()) } else { Err(CheckError { problems }) }
}

fn names(experiment: &Experiment, problems: &mut Vec<String>) {
    let lists: [(&str, Vec<&str>); 4] = [
        ("scenario", experiment.scenario.iter().map(|s| s.name.as_str()).collect()),
        ("probe", experiment.probe.iter().map(|p| p.name()).collect()),
        ("load", experiment.load.iter().map(|l| l.name()).collect()),
        ("queue", experiment.queue.iter().map(|q| q.name.as_str()).collect()),
    ];
    let good = |n: &str| {
        !n.is_empty()
            && n.len() <= 40
            && n.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    if !good(&experiment.name) {
        problems
            .push(format!("name = \"{}\": use 1 to 40 letters, digits, - and _", experiment.name));
    }
    for (what, names) in lists {
        let mut seen = BTreeSet::new();
        for name in names {
            if !good(name) {
                problems
                    .push(format!("{what} `{name}`: a name has 1 to 40 letters, digits, - and _"));
            }
            // Queues may share a name: a scenario then gets all of them.
            if !seen.insert(name) && what != "queue" {
                problems
                    .push(format!("the {what} `{name}` is there twice; give each its own name"));
            }
        }
    }
    if experiment.probe.iter().any(|p| p.name() == CellId::TOGETHER) {
        problems.push(format!(
            "probe `{}`: this name means all probes together; give it another",
            CellId::TOGETHER
        ));
    }
    for load in &experiment.load {
        if experiment.probe.iter().any(|p| p.name() == load.name()) {
            problems.push(format!(
                "`{}` is both a load and a probe; results need different names",
                load.name()
            ));
        }
    }
    for (what, none) in
        [("scenario", experiment.scenario.is_empty()), ("probe", experiment.probe.is_empty())]
    {
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
        problems
            .push(format!("sample-queues = \"{}\": give at least 1ms", experiment.sample_queues));
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
    for Measured { role, kind, .. } in experiment.measured() {
        let (start, duration) = kind.times();
        let name = kind.name();
        if start.is_some_and(|s| s >= experiment.duration) {
            problems.push(format!("{role} `{name}` starts after the end of the measurement"));
        }
        if duration.is_some_and(|d| d.is_zero()) {
            problems.push(format!("{role} `{name}`: a duration of 0 does nothing"));
        }
    }
}

fn references(experiment: &Experiment, problems: &mut Vec<String>) {
    let loads: Vec<&str> = experiment.load.iter().map(|l| l.name()).collect();
    let queues: Vec<&str> = experiment.queue.iter().map(|q| q.name.as_str()).collect();
    let scenarios: Vec<&str> = experiment.scenario.iter().map(|s| s.name.as_str()).collect();
    let nodes: Vec<&str> = experiment
        .topology
        .hosts
        .iter()
        .chain(&experiment.topology.routers)
        .map(String::as_str)
        .collect();
    let mut again = Vec::new();
    let mut look = |place: String, what: &str, name: &str, known: &[&str]| {
        if !known.contains(&name) {
            let hint = nearest::hint(name, known);
            problems.push(format!("{place} names the {what} `{name}`, which is not there{hint}"));
        }
    };
    for scenario in &experiment.scenario {
        let place = || format!("scenario `{}`", scenario.name);
        scenario.against.iter().for_each(|s| look(place(), "scenario", s, &scenarios));
        scenario.loads.iter().for_each(|l| look(place(), "load", l, &loads));
        scenario.queues.iter().for_each(|q| look(place(), "queue", q, &queues));
        scenario.sysctl.keys().for_each(|n| look(place(), "node", n, &nodes));
        scenario.routes.iter().for_each(|r| look(place(), "node", &r.to, &nodes));
        scenario.routes.iter().for_each(|r| look(place(), "node", &r.on, &nodes));
        for (what, names) in [("load", &scenario.loads), ("queue", &scenario.queues)] {
            let mut seen = BTreeSet::new();
            if let Some(twice) = names.iter().find(|n| !seen.insert(n.as_str())) {
                again.push(format!("{} names the {what} `{twice}` twice; once is enough", place()));
            }
        }
    }
    for change in &experiment.timeline {
        let place = || format!("timeline at {}", change.at);
        change.scenarios.iter().for_each(|s| look(place(), "scenario", s, &scenarios));
    }
    for Measured { role, kind, .. } in experiment.measured() {
        let place = || format!("{role} `{}`", kind.name());
        kind.hosts().into_iter().for_each(|n| look(place(), "host", n, &nodes));
        if let [from, to] = kind.hosts()[..]
            && from == to
        {
            again.push(format!(
                "{} goes from `{from}` to itself, past the network; name two hosts",
                place()
            ));
        }
    }
    problems.append(&mut again);
}

/// A node's settings are those of its network namespace; others would be the whole machine's.
fn settings(experiment: &Experiment, problems: &mut Vec<String>) {
    let own = experiment
        .scenario
        .iter()
        .flat_map(|s| s.sysctl.values().map(move |keys| (format!("scenario `{}`", s.name), keys)));
    let places = std::iter::once(("sysctl".to_string(), &experiment.sysctl)).chain(own);
    for (place, keys) in places {
        for key in keys.keys() {
            let parts: Vec<&str> = key.split(['.', '/']).collect();
            if parts.len() < 2 || parts[0] != "net" || parts.iter().any(|p| p.is_empty()) {
                problems.push(format!(
                    "{place}: the setting `{key}` is not a node's own; those begin with net., as net.ipv4.tcp_ecn"
                ));
            }
        }
    }
}

/// Only what ends on a host takes its settings from a route.
fn routes(experiment: &Experiment, problems: &mut Vec<String>) {
    for scenario in &experiment.scenario {
        let mut seen = BTreeSet::new();
        for route in &scenario.routes {
            let place = format!(
                "scenario `{}`, the route of `{}` to `{}`",
                scenario.name, route.on, route.to
            );
            if experiment.topology.routers.contains(&route.on) {
                problems.push(format!(
                    "{place}: `{}` is a router, but connections end on hosts; name the host",
                    route.on
                ));
            }
            if route.on == route.to {
                problems.push(format!("{place} never leaves it; name two nodes"));
            }
            if !seen.insert((&route.on, &route.to)) {
                problems.push(format!("{place} is there twice; give all its settings in one"));
            }
            if route.quickack.is_none() && route.rto_min.is_none() {
                problems.push(format!("{place} sets nothing; give `quickack` or `rto-min`"));
            }
            if let Some(span) = route.rto_min
                && !(RTO_MINS.contains(&span.nanos()) && span.nanos() % RTO_MINS.start() == 0)
            {
                problems.push(format!(
                    "{place}: rto-min = \"{span}\": give whole milliseconds, 1ms to 120s"
                ));
            }
        }
    }
}

fn managed(experiment: &Experiment, problems: &mut Vec<String>) {
    let Some(machines) = &experiment.machines else { return };
    let hosts: Vec<&str> = machines.hosts.keys().map(String::as_str).collect();
    for on in machines.manage.iter().filter(|on| !machines.hosts.contains_key(&on.node)) {
        let hint = nearest::hint(&on.node, &hosts);
        problems.push(format!(
            "machines: manage = [\"{on}\"]: there is no machine `{}`{hint}",
            on.node
        ));
    }
}

fn kernels(experiment: &Experiment, problems: &mut Vec<String>) {
    for (at, name) in experiment.kernels.iter().enumerate() {
        if let Err(why) = name.parse::<Series>() {
            problems.push(format!("kernels: `{name}`: {why}"));
        }
        if experiment.kernels[..at].contains(name) {
            problems.push(format!("kernels: `{name}` is there twice"));
        }
    }
}

fn sizes(experiment: &Experiment, problems: &mut Vec<String>) {
    problems.extend(too_many(experiment, 1));
}

pub(crate) fn count(experiment: &Experiment, points: u64) -> Result<(), CheckError> {
    match too_many(experiment, points) {
        Some(why) => Err(CheckError { problems: vec![Problem::new(&why, None)] }),
        None => Ok(()),
    }
}

fn too_many(experiment: &Experiment, points: u64) -> Option<String> {
    let groups = match experiment.probes_run {
        super::ProbesRun::Apart => experiment.probe.len() as u64,
        super::ProbesRun::Together => 1,
    };
    let factors = [groups, u64::from(experiment.repeat), points];
    let cells = factors.into_iter().fold(experiment.scenario.len() as u64, u64::saturating_mul);
    let swept = if points > 1 { ", at each value of a sweep" } else { "" };
    (cells > MOST_CELLS).then(|| {
        format!(
            "{cells} measurements (scenarios × probes × repeats{swept}) are too many; at most {MOST_CELLS}"
        )
    })
}
