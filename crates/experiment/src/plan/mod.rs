//! From an experiment to the plans of its cells: names become addresses, loads and probes become tasks, policies become queues.
//!
//! Pure: the same experiment and seed give the same plans.

mod shapers;
mod waits;

pub use shapers::{NotBelow, not_below};

use crate::kinds::{Maker, Probe, Role};
use crate::spec::{
    Experiment, ProbesRun, QueueAt, QueueDirection, Route, Scenario, Serves, TimedChange,
};
use quell_lab::cell::{CellPlan, ChangeWhat, PlacedChange, PlacedQueue, RouteSettings};
use quell_lab::topology::{Interface, Network, TopologyError};
use quell_model::{CellId, Task, TaskKind};
use quell_policy::{Host, PolicyError, Tell};
use quell_stats::rng::Rng;
use quell_tc::{Ingress, Tree};
use quell_units::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error("queue `{queue}`: {error}")]
    Policy { queue: String, error: PolicyError },
    #[error("queue `{queue}`: {error}")]
    Tree { queue: String, error: String },
    #[error("{0}")]
    Other(String),
}

/// Every cell of the experiment, in the order in which they are shown: scenarios, then probes, then repeats.
pub fn plan(experiment: &Experiment) -> Result<Vec<CellPlan>, PlanError> {
    let mut network = experiment.topology.parse()?;
    if let Some(machines) = &experiment.machines {
        network.reach_at(&machines.addresses());
    }
    // What no scenario uses yet should be right too: a person who adds it later expects no surprise.
    let managed = experiment.managed();
    for queue in &experiment.queue {
        place(&network, managed, queue, &mut Vec::new())?;
    }
    for change in &experiment.timeline {
        timeline(&network, managed, change)?;
    }
    let mut cells = Vec::new();
    for scenario in &experiment.scenario {
        let groups: Vec<(String, Vec<&Probe>)> = match experiment.probes_run {
            ProbesRun::Apart => {
                experiment.probe.iter().map(|p| (p.name().to_string(), vec![p])).collect()
            }
            ProbesRun::Together => {
                vec![(CellId::TOGETHER.to_string(), experiment.probe.iter().collect())]
            }
        };
        for (name, probes) in groups {
            for repeat in 0..experiment.repeat {
                let id = CellId { scenario: scenario.name.clone(), probe: name.clone(), repeat };
                cells.push(cell(experiment, &network, scenario, &probes, id)?);
            }
        }
    }
    Ok(cells)
}

fn cell(
    experiment: &Experiment,
    network: &Network,
    scenario: &Scenario,
    probes: &[&Probe],
    id: CellId,
) -> Result<CellPlan, PlanError> {
    let seed = Rng::new(experiment.seed).derive(&id.to_string()).u64();
    let mut queues = Vec::new();
    for name in &scenario.queues {
        for queue in experiment.queue.iter().filter(|q| q.name == *name) {
            place(network, experiment.managed(), queue, &mut queues)?;
        }
    }
    alone(scenario, &queues)?;
    let mut changes = Vec::new();
    for change in &experiment.timeline {
        if change.scenarios.is_empty() || change.scenarios.contains(&scenario.name) {
            changes.extend(timeline(network, experiment.managed(), change)?);
        }
    }
    changes.sort_by_key(|c| c.at);
    lines(experiment, network, &changes)?;
    let linger = waits::longest(network, &queues, &changes);
    let mut tasks = tasks(experiment, network, scenario, probes, linger, seed)?;
    tasks.extend(sampling(experiment, network, &queues));
    match &experiment.machines {
        None => tasks.extend(socket_sampling(experiment, &tasks)),
        Some(machines) => {
            let more = linger.nanos() + 2 * machines.lost_after.nanos();
            let measured = experiment.warm_up.nanos() + experiment.duration.nanos();
            let lasts = Span::from_nanos(measured + more);
            tasks.splice(
                0..0,
                managing(std::mem::take(&mut queues), std::mem::take(&mut changes), lasts),
            );
        }
    }
    let mut node_sysctl = scenario.sysctl.clone();
    ecn(experiment, scenario, probes, &mut node_sysctl);
    Ok(CellPlan {
        id,
        seed,
        // Of several each has its plans: see the module `sweep`.
        kernel: experiment.kernels.first().cloned(),
        topology: experiment.topology.clone(),
        sysctl: experiment.sysctl.clone(),
        node_sysctl,
        routes: scenario.routes.iter().map(route).collect(),
        queues,
        changes,
        tasks,
        warm_up: experiment.warm_up,
        duration: experiment.duration,
    })
}

fn route(route: &Route) -> RouteSettings {
    RouteSettings {
        on: route.on.clone(),
        to: route.to.clone(),
        quick_ack: route.quickack,
        rto_min: route.rto_min,
    }
}

/// Flows that ask for ECN need both of their hosts to negotiate it.
fn ecn(
    experiment: &Experiment,
    scenario: &Scenario,
    probes: &[&Probe],
    settings: &mut BTreeMap<String, BTreeMap<String, String>>,
) {
    let loads = experiment.load.iter().filter(|l| scenario.loads.iter().any(|n| n == l.name()));
    let flows = loads.map(|load| &**load).chain(probes.iter().map(|probe| &***probe));
    for flow in flows {
        let Some(ecn) = flow.ecn() else { continue };
        for node in flow.hosts() {
            settings
                .entry(node.to_owned())
                .or_default()
                .entry("net.ipv4.tcp_ecn".into())
                .or_insert_with(|| if ecn { "1" } else { "0" }.into());
        }
    }
}

/// The interface of the network, or of a real host that an experiment may manage.
fn interface(
    network: &Network,
    managed: &[Interface],
    place: &str,
    on: &Interface,
) -> Result<Interface, PlanError> {
    match managed.contains(on) {
        true => Ok(on.clone()),
        false => Ok(network.interface(place, &on.to_string())?),
    }
}

fn place(
    network: &Network,
    managed: &[Interface],
    queue: &QueueAt,
    placed: &mut Vec<PlacedQueue>,
) -> Result<(), PlanError> {
    let place = format!("queue `{}`", queue.name);
    let on = interface(network, managed, &place, &queue.on)?;
    let incoming = queue.direction == QueueDirection::In;
    let (tree, marking) = match (&queue.queue, &queue.policy) {
        (None, None) if !queue.filter.is_empty() && incoming => {
            let filters = queue.filter.clone();
            let tree = Tree { ingress: Some(Ingress { filters }), ..Tree::default() };
            tree.plan()
                .map_err(|e| PlanError::Tree { queue: queue.name.clone(), error: e.to_string() })?;
            placed.push(PlacedQueue { on, incoming: false, tree });
            return Ok(());
        }
        _ if !queue.filter.is_empty() => {
            return Err(PlanError::Other(format!(
                "{place}: `filter` is for what comes in, with direction = \"in\", and needs no queue; a queue has filters of its own"
            )));
        }
        (Some(tree), None) => (Tree::from(tree.clone()), Vec::new()),
        (None, Some(policy)) => {
            let ahead = queue.serves == Serves::Ahead;
            let translates = network.nat.contains(&on);
            let tell = match (incoming, ahead) {
                (true, _) if translates => {
                    return Err(PlanError::Other(format!(
                        "{place}: what comes in at `{on}` carries the router's own address, since it translates addresses there; \
                         put the policy with serves = \"ahead\" on the interface that leads to the hosts"
                    )));
                }
                (false, false) if translates => Tell::Mark,
                // Packets that leave come from those behind and go to those ahead; packets that come in, the other way round.
                (false, false) | (true, true) => Tell::Source,
                (false, true) | (true, false) => Tell::Destination,
            };
            let hosts = hosts(network, &on, ahead);
            let shaped = policy
                .plan(&hosts, tell)
                .map_err(|error| PlanError::Policy { queue: queue.name.clone(), error })?;
            (shaped.tree, shaped.marking)
        }
        _ => return Err(PlanError::Other(format!("{place}: give either `queue` or `policy`"))),
    };
    tree.plan().map_err(|e| PlanError::Tree { queue: queue.name.clone(), error: e.to_string() })?;
    if !marking.is_empty() {
        let node = network.find(&place, &on.node)?;
        for port in network.nodes[node].ports.iter().filter(|p| p.device != on.device) {
            placed.push(PlacedQueue {
                on: Interface { node: on.node.clone(), device: port.device.clone() },
                incoming: false,
                tree: Tree {
                    ingress: Some(Ingress { filters: marking.clone() }),
                    ..Tree::default()
                },
            });
        }
    }
    placed.push(PlacedQueue { on, incoming, tree });
    Ok(())
}

/// One queue a device: a second one would silently take the place of the first.
fn alone(scenario: &Scenario, queues: &[PlacedQueue]) -> Result<(), PlanError> {
    let mut seen = BTreeSet::new();
    for queue in queues.iter().filter(|q| q.tree.queue.is_some()) {
        let device = match queue.incoming {
            true => quell_lab::build::ifb_name(&queue.on.device),
            false => queue.on.device.clone(),
        };
        if !seen.insert((&queue.on.node, device)) {
            let way = if queue.incoming { "what comes in at" } else { "what leaves by" };
            return Err(PlanError::Other(format!(
                "scenario `{}` puts two queues on {way} `{}`; name one of them",
                scenario.name, queue.on
            )));
        }
    }
    Ok(())
}

/// Lines must make sense at every moment, also after each change.
fn lines(
    experiment: &Experiment,
    network: &Network,
    changes: &[PlacedChange],
) -> Result<(), PlanError> {
    let mut topology = experiment.topology.clone();
    for change in changes {
        let ChangeWhat::Line { on, line } = &change.what else { continue };
        let (Some(wire), Some(link)) = (
            network.wires.iter().find(|w| w.name == on.device),
            topology.link.iter_mut().find(|l| l.name == on.device),
        ) else {
            continue;
        };
        if let Some(both) = link.both.take() {
            (link.up, link.down) = (Some(both.clone()), Some(both));
        }
        let upward = network.nodes[wire.ends[0]].name == on.node;
        let direction = if upward { &mut link.up } else { &mut link.down };
        let before = direction.take().unwrap_or_default();
        // The kernel's bucket stays the line that it was made.
        let is_fixed = before.series.is_some() || before.grid.is_some() || link.shared;
        if line.grid.is_some() || is_fixed && line.rate.is_some() {
            return Err(PlanError::Other(format!(
                "timeline at {}: the rate and grid of `{}` stay as they are; let a `series` say how its rate changes",
                change.at, link.name
            )));
        }
        *direction = Some(before.changed_by(line));
        topology
            .parse()
            .map_err(|e| PlanError::Other(format!("timeline at {}: then {e}", change.at)))?;
    }
    Ok(())
}

fn hosts_ahead(network: &Network, on: &Interface) -> Vec<usize> {
    let behind = network.hosts_behind(on);
    (0..network.nodes.len())
        .filter(|n| network.nodes[*n].kind == quell_lab::topology::NodeKind::Host)
        .filter(|n| network.nodes[*n].name != on.node && !behind.contains(n))
        .collect()
}

fn hosts(network: &Network, on: &Interface, ahead: bool) -> Vec<Host> {
    let nodes = if ahead { hosts_ahead(network, on) } else { network.hosts_behind(on) };
    nodes
        .into_iter()
        .map(|n| Host {
            name: network.nodes[n].name.clone(),
            addresses: network.nodes[n]
                .ports
                .iter()
                .flat_map(|p| [IpAddr::V4(p.v4), IpAddr::V6(p.v6)])
                .collect(),
        })
        .collect()
}

fn timeline(
    network: &Network,
    managed: &[Interface],
    change: &TimedChange,
) -> Result<Vec<PlacedChange>, PlanError> {
    let place = format!("timeline at {}", change.at);
    let mut placed = Vec::new();
    match (&change.link, &change.on) {
        (Some(_), None) if change.queue.is_some() => {
            return Err(PlanError::Other(format!(
                "{place}: `queue` goes with `on`; to change a link's own queue, give it in `up` or `down`"
            )));
        }
        (None, Some(_)) if change.up.is_some() || change.down.is_some() => {
            return Err(PlanError::Other(format!("{place}: `up` and `down` go with `link`")));
        }
        (Some(link), None) => {
            let wire = network.wires.iter().find(|w| w.name == *link).ok_or_else(|| {
                let names: Vec<&str> = network.wires.iter().map(|w| w.name.as_str()).collect();
                PlanError::Other(format!(
                    "{place} names the link `{link}`, which is not there{}",
                    crate::nearest::hint(link, &names)
                ))
            })?;
            for (end, line) in [(0, &change.up), (1, &change.down)] {
                if let Some(line) = line {
                    let node = network.nodes[wire.ends[end]].name.clone();
                    placed.push(PlacedChange {
                        at: change.at,
                        what: ChangeWhat::Line {
                            on: Interface { node, device: link.clone() },
                            line: line.clone(),
                        },
                    });
                }
            }
            if placed.is_empty() {
                return Err(PlanError::Other(format!("{place}: give `up`, `down` or both")));
            }
        }
        (None, Some(on)) => {
            let on = interface(network, managed, &place, on)?;
            let queue = change
                .queue
                .clone()
                .ok_or_else(|| PlanError::Other(format!("{place}: `on` needs the new `queue`")))?;
            let tree = Tree::from(queue);
            tree.plan().map_err(|e| PlanError::Other(format!("{place}: {e}")))?;
            placed.push(PlacedChange {
                at: change.at,
                what: ChangeWhat::Queue(PlacedQueue { on, incoming: false, tree }),
            });
        }
        _ => {
            return Err(PlanError::Other(format!(
                "{place}: give either `link` with `up` or `down`, or `on` with `queue`"
            )));
        }
    }
    Ok(placed)
}

/// Connections of foreign programs are watched on the hosts that run them; Quell's own loads and probes report theirs themselves. A real host has
/// connections of others, and nothing is watched there.
fn socket_sampling(experiment: &Experiment, tasks: &[Task]) -> Vec<Task> {
    let programs = tasks.iter().filter(|t| t.kind.about().is_foreign);
    let hosts: BTreeSet<&str> = programs.map(|t| t.host.as_str()).collect();
    hosts
        .into_iter()
        .map(|host| Task {
            id: format!("sockets/{host}"),
            host: host.into(),
            start_ns: 0,
            duration: experiment.duration,
            seed: 0,
            kind: TaskKind::SampleSockets { interval: experiment.sample_queues },
        })
        .collect()
}

/// Real hosts put their queues in place themselves, each all of its own.
fn managing(queues: Vec<PlacedQueue>, changes: Vec<PlacedChange>, lasts: Span) -> Vec<Task> {
    let mut hosts: BTreeMap<String, (Vec<PlacedQueue>, Vec<PlacedChange>)> = BTreeMap::new();
    for queue in queues {
        hosts.entry(queue.on.node.clone()).or_default().0.push(queue);
    }
    for change in changes {
        if let ChangeWhat::Queue(queue) = &change.what {
            hosts.entry(queue.on.node.clone()).or_default().1.push(change);
        }
    }
    let task = |(host, its): (String, (Vec<PlacedQueue>, Vec<PlacedChange>))| {
        let plan = serde_json::to_string(&its).unwrap_or_default();
        Task {
            id: format!("manage/{host}"),
            host,
            start_ns: 0,
            duration: lasts,
            seed: 0,
            kind: TaskKind::ManageQueues { plan, lasts },
        }
    };
    hosts.into_iter().map(task).collect()
}

/// Queues are watched where something can wait: on lines with a rate, and where the scenario put a queue.
fn sampling(experiment: &Experiment, network: &Network, queues: &[PlacedQueue]) -> Vec<Task> {
    let mut devices: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for wire in &network.wires {
        for (end, line) in [(0, &wire.up), (1, &wire.down)] {
            if line.has_rate() {
                let node = network.nodes[wire.ends[end]].name.clone();
                devices.entry(node).or_default().insert(wire.name.clone());
            }
        }
    }
    for queue in queues.iter().filter(|q| q.tree.queue.is_some()) {
        let device = match queue.incoming {
            true => quell_lab::build::ifb_name(&queue.on.device),
            false => queue.on.device.clone(),
        };
        devices.entry(queue.on.node.clone()).or_default().insert(device);
    }
    devices
        .into_iter()
        .map(|(node, devices)| Task {
            id: format!("queues/{node}"),
            host: node,
            start_ns: 0,
            duration: experiment.duration,
            seed: 0,
            kind: TaskKind::SampleQueues {
                devices: devices.into_iter().collect(),
                interval: experiment.sample_queues,
            },
        })
        .collect()
}

/// All tasks of a cell. `linger` is how long a packet may be under way: probes wait so long for replies, UDP loads for what they sent
/// last.
fn tasks(
    experiment: &Experiment,
    network: &Network,
    scenario: &Scenario,
    probes: &[&Probe],
    linger: Span,
    seed: u64,
) -> Result<Vec<Task>, PlanError> {
    let mut maker = Maker::new(network, experiment.warm_up, experiment.duration, linger, seed);
    if let Some(machines) = &experiment.machines {
        maker = maker.on_machines(machines.first_port);
    }
    for name in &scenario.loads {
        let load = experiment.load.iter().find(|l| l.name() == name).ok_or_else(|| {
            PlanError::Other(format!(
                "scenario `{}` names the load `{name}`, which is not there",
                scenario.name
            ))
        })?;
        maker.begin(Role::Load, name);
        load.plan(&mut maker)?;
    }
    for probe in probes {
        maker.begin(Role::Probe, probe.name());
        probe.plan(&mut maker)?;
    }
    Ok(maker.tasks())
}
