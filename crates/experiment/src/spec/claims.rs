//! Whether the claims of an experiment can be checked at all: they can be read, and what they speak of is measured.

use super::{Experiment, Scenario};
use crate::expect::{Claim, ClaimSource};
use crate::kinds::{Measured, Role};
use crate::nearest;
use quell_model::Metric;

/// Tells of each claim that no run could ever hold or break.
pub fn check(experiment: &Experiment, problems: &mut Vec<String>) {
    for text in &experiment.expect {
        match Claim::parse(text) {
            Err(error) => problems.push(error.to_string()),
            Ok(claim) => {
                let wrong = claim.sources().into_iter().filter_map(|s| source(experiment, s));
                problems.extend(wrong.map(|why| format!("expect \"{text}\": {why}")));
            }
        }
    }
}

fn source(experiment: &Experiment, source: &ClaimSource) -> Option<String> {
    let scenarios: Vec<&str> = experiment.scenario.iter().map(|s| s.name.as_str()).collect();
    if let Some(scenario) = source.scenario.as_deref()
        && !scenarios.contains(&scenario)
    {
        return Some(format!("no scenario `{scenario}`{}", nearest::hint(scenario, &scenarios)));
    }
    let Some(Measured { role, word, kind }) = experiment.find(&source.probe) else {
        let names: Vec<&str> = experiment.measured().map(|it| it.kind.name()).collect();
        let hint = nearest::hint(&source.probe, &names);
        return Some(format!("no probe or load `{}`{hint}", source.probe));
    };
    let (name, metrics) = (kind.name(), kind.metrics());
    if source.metric == Metric::Jitter && metrics.contains(&Metric::JitterUp) {
        return Some(format!(
            "`jitter` of the {word} {role} `{name}` could mean three things: say `jitter.up`, `jitter.down` or `jitter.rtt`"
        ));
    }
    if !metrics.contains(&source.metric) {
        // In the order in which the reference has them.
        let all = Metric::NAMES.into_iter().filter(|(_, metric, _)| metrics.contains(metric));
        let names: Vec<&str> = all.map(|(name, ..)| name).collect();
        let there = match names.is_empty() {
            true => "nothing is measured of it".into(),
            false => format!("there are: {}", names.join(", ")),
        };
        return Some(format!("the {word} {role} `{name}` has no such value; {there}"));
    }
    if let Some(stream) = &source.stream
        && !kind.streams().any(|own| own == *stream)
    {
        let names: Vec<String> = kind.streams().take(8).collect();
        let more = if kind.streams().nth(8).is_some() { " …" } else { "" };
        return Some(format!(
            "`{name}` has no stream `{stream}`; there are: {}{more}",
            names.join(", ")
        ));
    }
    let runs = |scenario: &Scenario| role == Role::Probe || scenario.loads.contains(&source.probe);
    let mut meant = experiment
        .scenario
        .iter()
        .filter(|s| source.scenario.as_deref().is_none_or(|name| name == s.name));
    if !meant.any(runs) {
        let place = match &source.scenario {
            Some(name) => format!("the scenario `{name}` does not"),
            None => "no scenario does".into(),
        };
        return Some(format!("the load `{}` would have to run, but {place} name it", source.probe));
    }
    None
}
