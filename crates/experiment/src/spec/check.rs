//! What fits together in an experiment, beyond what each field can say by itself.

use super::{Experiment, Load, Probe, RrProbe, TcpFlow, claims, place};
use crate::nearest;
use crate::plan::{self, PlanError};
use quell_lab::cell::CellPlan;
use quell_model::CellId;
use quell_units::{Rate, Span};
use std::collections::BTreeSet;

/// Why an experiment is refused; each problem by itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", problems.join("\n"))]
pub struct CheckError {
    /// What is wrong.
    pub problems: Vec<String>,
}

impl CheckError {
    /// The problems, each in a line with the name of the file and, where it can be found in its text, the line.
    pub fn told(&self, name: &str, text: &str) -> String {
        let told = self.problems.iter().map(|problem| match place::of_problem(text, problem) {
            Some(line) => format!("{name}, line {line}: {problem}"),
            None => format!("{name}: {problem}"),
        });
        told.collect::<Vec<_>>().join("\n")
    }
}

/// Least time between the packets of a stream. A kernel carries fewer; no time at all would never end.
const LEAST_GAP: Span = Span::from_micros(1);

/// Least and largest segment sizes that the kernel takes (`TCP_MIN_MSS`, `MAX_TCP_WINDOW`, include/net/tcp.h).
const SEGMENTS: std::ops::RangeInclusive<u32> = 88..=32_767;

/// Longest name of a congestion control (`TCP_CA_NAME_MAX` - 1, include/net/tcp.h).
const LONGEST_CONGESTION: usize = 15;

/// Least receive buffer: half of `SOCK_MIN_RCVBUF` (include/net/sock.h), since the kernel doubles what it is given.
const LEAST_WINDOW: u64 = 1_152;

/// Largest receive buffer that the window scale of RFC 7323 can tell of.
const LARGEST_WINDOW: u64 = 1 << 30;

/// Least retransmission timeouts, in nanoseconds: from the kernel's unit to its `TCP_RTO_MAX` (include/net/tcp.h).
const RTO_MINS: std::ops::RangeInclusive<u64> = 1_000_000..=120_000_000_000;

/// Most cells of one experiment.
const MOST_CELLS: u64 = 10_000;

/// Checks everything and gives the plans of the cells.
pub fn check(experiment: &Experiment) -> Result<Vec<CellPlan>, CheckError> {
    let mut problems = Vec::new();
    names(experiment, &mut problems);
    times(experiment, &mut problems);
    references(experiment, &mut problems);
    claims::check(experiment, &mut problems);
    sizes(experiment, &mut problems);
    settings(experiment, &mut problems);
    routes(experiment, &mut problems);
    let plans = match problems.is_empty() {
        true => plan::plan(experiment).map_err(|e: PlanError| vec![e.to_string()]),
        false => Err(problems),
    };
    plans.map_err(|problems| CheckError {
        problems: problems.iter().map(|p| place::one_line(p)).collect(),
    })
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
            "probe `{}`: this name stands for all probes together; give it another",
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
    for probe in &experiment.probe {
        let (name, interval, least) = match probe {
            Probe::Ping(ping) => (&ping.name, ping.interval, Span::from_micros(100)),
            Probe::TcpPing(ping) => (&ping.name, ping.interval, Span::from_millis(1)),
            Probe::Udp(_) | Probe::Tcp(_) | Probe::Rr(_) => continue,
        };
        if interval < least {
            problems.push(format!(
                "probe `{name}`: an interval of {interval} is a flood; give at least {least}"
            ));
        }
    }
    let loads = experiment.load.iter().map(|load| match load {
        Load::Tcp(l) => ("load", &l.name, l.start, l.duration),
        Load::Udp(l) => ("load", &l.name, l.start, l.duration),
        Load::Command(l) => ("load", &l.name, l.start, l.duration),
    });
    let probes = experiment.probe.iter().filter_map(|probe| match probe {
        Probe::Tcp(p) => Some(("probe", &p.name, p.start, p.duration)),
        Probe::Ping(_) | Probe::TcpPing(_) | Probe::Udp(_) | Probe::Rr(_) => None,
    });
    for (what, name, start, duration) in loads.chain(probes) {
        if start.is_some_and(|s| s >= experiment.duration) {
            problems.push(format!("{what} `{name}` starts after the end of the measurement"));
        }
        if duration.is_some_and(|d| d.nanos() == 0) {
            problems.push(format!("{what} `{name}`: a duration of 0 does nothing"));
        }
    }
    for load in &experiment.load {
        if let Load::Udp(flow) = load
            && flow.on.is_some_and(|on| on.nanos() == 0)
        {
            problems.push(format!("load `{}`: with `on` = 0 it never sends", flow.name));
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
    let mut again = Vec::new();
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
            Probe::TcpPing(p) => [&p.from, &p.to],
            Probe::Udp(p) => [&p.from, &p.to],
            Probe::Tcp(p) => [&p.from, &p.to],
            Probe::Rr(p) => [&p.from, &p.to],
        };
        named.into_iter().for_each(|n| look(place(), "host", n, &nodes));
    }
    problems.append(&mut again);
    let loads = experiment.load.iter().filter_map(|load| match load {
        Load::Tcp(l) => Some(("load", &l.name, &l.from, &l.to)),
        Load::Udp(l) => Some(("load", &l.name, &l.from, &l.to)),
        Load::Command(_) => None,
    });
    let probes = experiment.probe.iter().map(|probe| match probe {
        Probe::Ping(p) => ("probe", &p.name, &p.from, &p.to),
        Probe::TcpPing(p) => ("probe", &p.name, &p.from, &p.to),
        Probe::Udp(p) => ("probe", &p.name, &p.from, &p.to),
        Probe::Tcp(p) => ("probe", &p.name, &p.from, &p.to),
        Probe::Rr(p) => ("probe", &p.name, &p.from, &p.to),
    });
    for (what, name, from, to) in loads.chain(probes) {
        if from == to {
            problems.push(format!(
                "{what} `{name}` goes from `{from}` to itself, past the network; name two hosts"
            ));
        }
    }
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

fn flow(what: &str, flow: &TcpFlow, problems: &mut Vec<String>) {
    let mut bad = |why: String| problems.push(format!("{what} `{}`: {why}", flow.name));
    if flow.connections == 0 || flow.connections > 1000 {
        bad(format!("{} connections can't be; give 1 to 1000", flow.connections));
    }
    if let Some(mss) = flow.mss.filter(|m| !SEGMENTS.contains(m)) {
        let (least, most) = (SEGMENTS.start(), SEGMENTS.end());
        bad(format!("an mss of {mss} can't be; the kernel takes {least} to {most} bytes"));
    }
    if let Some(window) = flow.window
        && !(LEAST_WINDOW..=LARGEST_WINDOW).contains(&window.get())
    {
        bad(format!("a window of {window} can't be; give {LEAST_WINDOW}B to 1GiB"));
    }
    if let Some(name) = &flow.congestion
        && !(1..=LONGEST_CONGESTION).contains(&name.len())
    {
        bad(format!(
            "`congestion` names a kernel's congestion control, as \"cubic\"; \"{name}\" can't be one"
        ));
    }
    if flow.bytes.is_some_and(|b| b.get() == 0) {
        bad("with 0 bytes it carries nothing; leave `bytes` out to send to the end".into());
    }
}

fn calls(probe: &RrProbe, problems: &mut Vec<String>) {
    let name = &probe.name;
    if !(1..=u64::from(quell_rr::client::LARGEST)).contains(&probe.size.get()) {
        problems
            .push(format!("probe `{name}`: a size of {} can't be; give 1B to 1MiB", probe.size));
    }
    if !(1..=1_000_000).contains(&probe.calls) {
        problems.push(format!("probe `{name}`: {} calls can't be; give 1 to 1000000", probe.calls));
    }
}

fn gap(what: &str, name: &str, rate: Rate, size: u64, problems: &mut Vec<String>) {
    if rate.time_for(size) < LEAST_GAP {
        problems.push(format!(
            "{what} `{name}`: {rate} in packets of {size} bytes is more than a million packets a second; give a lower rate or a larger size"
        ));
    }
}

fn sizes(experiment: &Experiment, problems: &mut Vec<String>) {
    let groups = match experiment.probes_run {
        super::ProbesRun::Apart => experiment.probe.len() as u64,
        super::ProbesRun::Together => 1,
    };
    let cells = experiment.scenario.len() as u64 * groups * u64::from(experiment.repeat);
    if cells > MOST_CELLS {
        problems.push(format!(
            "{cells} cells (scenarios × probes × repeats) are too many; at most {MOST_CELLS}"
        ));
    }
    for load in &experiment.load {
        match load {
            Load::Tcp(l) => flow("load", l, problems),
            Load::Udp(l) if l.size.get() < 32 || l.size.get() > 65_507 => {
                problems.push(format!(
                    "load `{}`: a payload of {} can't be; give 32 to 65507 bytes",
                    l.name, l.size
                ));
            }
            Load::Udp(l) => gap("load", &l.name, l.rate, l.size.get(), problems),
            Load::Command(l) if l.run.is_empty() => {
                problems.push(format!("load `{}`: `run` names no program", l.name));
            }
            _ => {}
        }
    }
    for probe in &experiment.probe {
        match probe {
            Probe::Tcp(p) => flow("probe", p, problems),
            Probe::Udp(p) => gap("probe", &p.name, p.rate, p.size.get(), problems),
            Probe::Rr(p) => calls(p, problems),
            Probe::Ping(_) | Probe::TcpPing(_) => {}
        }
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
