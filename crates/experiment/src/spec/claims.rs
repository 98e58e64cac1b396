//! Whether the claims of an experiment can be checked at all: they can be read, and what they speak of is measured.

use super::{Experiment, Load, Probe, Scenario, TcpFlow};
use crate::expect::{Claim, Metric, Source};
use crate::nearest;

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

/// What is measured about something.
struct Measured<'a> {
    what: &'static str,
    metrics: &'static [Metric],
    /// Where it has several streams: its connections.
    flow: Option<&'a TcpFlow>,
}

const PING: &[Metric] = &[
    Metric::Loss,
    Metric::Jitter,
    Metric::JitterRtt,
    Metric::RttMin,
    Metric::RttMean,
    Metric::RttP50,
    Metric::RttP90,
    Metric::RttP99,
    Metric::RttMax,
    Metric::Sent,
    Metric::Received,
    Metric::Duplicates,
    Metric::Reordered,
];

const UDP: &[Metric] = &[
    Metric::Loss,
    Metric::LossUp,
    Metric::LossDown,
    Metric::JitterUp,
    Metric::JitterDown,
    Metric::JitterRtt,
    Metric::RttMin,
    Metric::RttMean,
    Metric::RttP50,
    Metric::RttP90,
    Metric::RttP99,
    Metric::RttMax,
    Metric::Sent,
    Metric::Received,
    Metric::Duplicates,
    Metric::Reordered,
    Metric::UpP50,
    Metric::DownP50,
    Metric::LostUp,
    Metric::LostDown,
];

const CALLS: &[Metric] = &[
    Metric::Loss,
    Metric::RttMin,
    Metric::RttMean,
    Metric::RttP50,
    Metric::RttP90,
    Metric::RttP99,
    Metric::RttMax,
    Metric::Sent,
    Metric::Received,
];

const TCP_FLOW: &[Metric] = &[Metric::Goodput, Metric::Share, Metric::Retransmits];

const UDP_FLOW: &[Metric] =
    &[Metric::Loss, Metric::Goodput, Metric::Share, Metric::Sent, Metric::Received];

fn measured<'a>(experiment: &'a Experiment, name: &str) -> Option<Measured<'a>> {
    let probe = experiment.probe.iter().find(|p| p.name() == name).map(|p| match p {
        Probe::Ping(_) => Measured { what: "a ping", metrics: PING, flow: None },
        Probe::TcpPing(_) => Measured { what: "a tcp-ping", metrics: PING, flow: None },
        Probe::Udp(_) => Measured { what: "a udp probe", metrics: UDP, flow: None },
        Probe::Tcp(f) => Measured { what: "a tcp probe", metrics: TCP_FLOW, flow: Some(f) },
        Probe::Rr(_) => Measured { what: "an rr probe", metrics: CALLS, flow: None },
    });
    let load = || {
        experiment.load.iter().find(|l| l.name() == name).map(|l| match l {
            Load::Tcp(f) => Measured { what: "a tcp load", metrics: TCP_FLOW, flow: Some(f) },
            Load::Udp(_) => Measured { what: "a udp load", metrics: UDP_FLOW, flow: None },
            Load::Command(_) => Measured { what: "a command", metrics: &[], flow: None },
        })
    };
    probe.or_else(load)
}

fn source(experiment: &Experiment, source: &Source) -> Option<String> {
    let scenarios: Vec<&str> = experiment.scenario.iter().map(|s| s.name.as_str()).collect();
    if let Some(scenario) = source.scenario.as_deref()
        && !scenarios.contains(&scenario)
    {
        return Some(format!("no scenario `{scenario}`{}", nearest::hint(scenario, &scenarios)));
    }
    let Some(measured) = measured(experiment, &source.probe) else {
        let probes = experiment.probe.iter().map(Probe::name);
        let names: Vec<&str> = probes.chain(experiment.load.iter().map(Load::name)).collect();
        let hint = nearest::hint(&source.probe, &names);
        return Some(format!("no probe or load `{}`{hint}", source.probe));
    };
    if source.metric == Metric::Jitter && measured.metrics.contains(&Metric::JitterUp) {
        return Some(format!(
            "`jitter` of `{}`, {}, could mean three things: say `jitter.up`, `jitter.down` or `jitter.rtt`",
            source.probe, measured.what
        ));
    }
    if !measured.metrics.contains(&source.metric) {
        let named = |(name, metric): (&'static str, Metric)| {
            measured.metrics.contains(&metric).then_some(name)
        };
        let names: Vec<&str> = Metric::NAMES.into_iter().filter_map(named).collect();
        let there = match names.is_empty() {
            true => "nothing is measured of it".into(),
            false => format!("there are: {}", names.join(", ")),
        };
        return Some(format!(
            "`{}` is {}, which has no such value; {there}",
            source.probe, measured.what
        ));
    }
    if let Some(stream) = &source.stream
        && let streams = streams(&source.probe, measured.flow)
        && !streams.contains(stream)
    {
        let names: Vec<&str> = streams.iter().map(String::as_str).take(8).collect();
        let more = if streams.len() > names.len() { " …" } else { "" };
        return Some(format!(
            "`{}` has no stream `{stream}`; there are: {}{more}",
            source.probe,
            names.join(", ")
        ));
    }
    let runs = |scenario: &Scenario| {
        experiment.probe.iter().any(|p| p.name() == source.probe)
            || scenario.loads.contains(&source.probe)
    };
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

/// The streams of a probe or load: one of its own name, or one a connection.
fn streams(name: &str, flow: Option<&TcpFlow>) -> Vec<String> {
    match flow {
        Some(flow) if flow.connections > 1 => {
            (1..=flow.connections.min(1000)).map(|n| format!("{name}-{n}")).collect()
        }
        _ => vec![name.to_string()],
    }
}
