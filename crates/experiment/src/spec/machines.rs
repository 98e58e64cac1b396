//! The machines behind an experiment's hosts, as a person writes them: `[machines]` in the experiment, or in a file of its own.
//!
//! ```toml
//! [machines]
//! laptop = "local"                                                         # where `quell run` runs
//! server = "ssh://ann@server.example.net"                                  # whatever `ssh` takes
//! vm     = { on = "ssh://vm", address = ["192.0.2.7", "2001:db8::7"] }     # how the others reach it
//! lost-host = "go-on"
//! manage = ["server:eth0"]                                                 # its queue is the experiment's while it runs
//! ```
//!
//! The network is there already. What an experiment has of a network of its own is taken out: its links, and scenarios that would change
//! lines or settings of hosts, or queues that are not managed.

use super::{Experiment, QueueAt, QueueDirection, Scenario, TimedChange};
use quell_lab::topology::{Interface, Link, Topology};
use quell_units::Span;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The node that stands for the network between machines.
const BETWEEN: &str = "network";

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Machines {
    /// What happens when a host is lost in the middle.
    #[serde(default)]
    pub lost_host: LostHost,
    /// Nothing was heard of it for so long.
    #[serde(default = "half_a_minute", deserialize_with = "silence")]
    pub lost_after: Span,
    /// The first of the ports at which the tests' servers listen; absent, 5201.
    #[serde(default, deserialize_with = "port")]
    pub first_port: Option<u16>,
    /// Interfaces of machines whose queues are the experiment's for the time of a run.
    #[serde(default)]
    pub manage: Vec<Interface>,
    /// What of the experiment real hosts can't have.
    #[serde(skip)]
    pub left_out: Vec<LeftOut>,
    #[serde(flatten, deserialize_with = "hosts")]
    pub hosts: BTreeMap<String, Machine>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LostHost {
    #[default]
    Stop,
    GoOn,
}

fn half_a_minute() -> Span {
    Span::from_secs(30)
}

/// Hosts are asked once a second: whoever may be silent for less is always lost.
fn silence<'de, D: Deserializer<'de>>(written: D) -> Result<Span, D::Error> {
    let span = Span::deserialize(written)?;
    match (2.0..=3600.0).contains(&span.as_secs_f64()) {
        true => Ok(span),
        false => Err(D::Error::custom(format!("{span} is not from 2s to 1h"))),
    }
}

/// Each server takes the next one, so some are left above it.
fn port<'de, D: Deserializer<'de>>(written: D) -> Result<Option<u16>, D::Error> {
    match u16::deserialize(written)? {
        port @ 1..=65_000 => Ok(Some(port)),
        port => Err(D::Error::custom(format!("{port} is not from 1 to 65000"))),
    }
}

fn hosts<'de, D: Deserializer<'de>>(written: D) -> Result<BTreeMap<String, Machine>, D::Error> {
    let hosts = BTreeMap::<String, Machine>::deserialize(written)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match hosts.keys().find(|host| host.is_empty() || !host.chars().all(fits)) {
        None => Ok(hosts),
        Some(host) => {
            Err(D::Error::custom(format!("machine `{host}`: use letters, digits, - _ and .")))
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WrittenMachine")]
pub struct Machine {
    /// What `ssh` is given as the destination; none for the machine on which `quell run` runs.
    pub ssh: Option<String>,
    /// How other hosts reach it, at most one address a family that counts; empty until that is found out.
    pub addresses: Vec<IpAddr>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenMachine {
    On(String),
    Reached { on: String, address: Vec<IpAddr> },
}

impl TryFrom<WrittenMachine> for Machine {
    type Error = String;

    fn try_from(written: WrittenMachine) -> Result<Self, String> {
        let (on, addresses) = match written {
            WrittenMachine::On(on) => (on, Vec::new()),
            WrittenMachine::Reached { on, address } => (on, address),
        };
        let named = on.strip_prefix("ssh://").is_some_and(|rest| !rest.is_empty());
        match on.as_str() {
            "local" => Ok(Machine { ssh: None, addresses }),
            _ if named => Ok(Machine { ssh: Some(on), addresses }),
            _ => Err(format!("`{on}` is no machine; write \"local\" or \"ssh://USER@HOST\"")),
        }
    }
}

impl Machines {
    pub fn addresses(&self) -> BTreeMap<String, Vec<IpAddr>> {
        self.hosts.iter().map(|(name, it)| (name.clone(), it.addresses.clone())).collect()
    }

    pub fn manages_host(&self, host: &str) -> bool {
        self.manage.iter().any(|interface| interface.node == host)
    }

    /// What of a queue's place keeps it from a real host.
    fn refuses(&self, queue: &QueueAt) -> Option<String> {
        let QueueAt { name, on, .. } = queue;
        if !self.manage.contains(on) {
            return Some(format!(
                "it puts the queue `{name}` on {on}, which [machines] does not name: manage = [\"{on}\"]"
            ));
        }
        let is_plain = queue.queue.is_some() && queue.direction == QueueDirection::Out;
        (!is_plain).then(|| {
            format!("the queue `{name}` on {on} has a policy or is for what comes in: use quell shape there")
        })
    }

    fn allows(&self, change: &TimedChange) -> bool {
        change.on.as_ref().is_some_and(|on| self.manage.contains(on))
    }
}

/// A scenario that real hosts can't have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub scenario: String,
    pub why: String,
}

impl Experiment {
    /// Interfaces of real hosts that it may put queues on.
    pub fn managed(&self) -> &[Interface] {
        self.machines.as_ref().map_or(&[], |machines| &machines.manage)
    }

    /// The hosts of its loads and probes, in the order in which they are written.
    pub fn hosts_at_work(&self) -> Vec<String> {
        let used: BTreeSet<&str> = self.measured().flat_map(|it| it.kind.hosts()).collect();
        self.topology.hosts.iter().filter(|host| used.contains(host.as_str())).cloned().collect()
    }

    /// Fits an experiment that has machines to them; nothing where it has none.
    pub(super) fn fit_to_machines(&mut self) {
        let Some(mut machines) = self.machines.take() else { return };
        let hosts: Vec<String> = machines.hosts.keys().cloned().collect();
        let link = |host: &String| Link {
            name: host.clone(),
            ends: [host.clone(), BETWEEN.into()],
            both: None,
            up: None,
            down: None,
            line: None,
            shared: false,
            mtu: None,
            swallows_above: None,
            tx_queues: None,
        };
        let all = self.needs_of_all();
        let needs = |s: &Scenario| all.clone().or_else(|| self.needs_own_network(s, &machines));
        let out = |s: &Scenario| Some(LeftOut { scenario: s.name.clone(), why: needs(s)? });
        machines.left_out = self.scenario.iter().filter_map(out).collect();
        let is_out = |name: &str| machines.left_out.iter().any(|out| out.scenario == name);
        self.scenario.retain(|s| !is_out(&s.name));
        for scenario in &mut self.scenario {
            scenario.against.take_if(|other| is_out(other));
        }
        self.topology = Topology {
            link: hosts.iter().map(link).collect(),
            hosts,
            routers: vec![BETWEEN.into()],
            ..Topology::default()
        };
        self.queue.retain(|queue| machines.refuses(queue).is_none());
        self.timeline.retain(|change| machines.allows(change));
        self.machines = Some(machines);
    }

    fn needs_of_all(&self) -> Option<String> {
        let setting = self.sysctl.keys().next();
        let settings = setting.map(|key| format!("it sets `{key}` on every host"));
        let kernel = self.kernels.first();
        settings.or_else(|| kernel.map(|series| format!("it asks for the lab's kernel {series}")))
    }

    /// What of this scenario needs a network of our own.
    fn needs_own_network(&self, scenario: &Scenario, machines: &Machines) -> Option<String> {
        let in_it =
            |scenarios: &[String]| scenarios.is_empty() || scenarios.contains(&scenario.name);
        let mut changes = self.timeline.iter().filter(|change| in_it(&change.scenarios));
        let changed = changes.find(|change| !machines.allows(change));
        let mut queues = self.queue.iter().filter(|queue| scenario.queues.contains(&queue.name));
        let node = scenario.sysctl.iter().find_map(|(node, it)| Some((node, it.keys().next()?)));
        let loads = self.load.iter().filter(|load| scenario.loads.iter().any(|n| n == load.name()));
        let flows = loads.map(|load| &**load).chain(self.probe.iter().map(|probe| &**probe));
        let mut ecn = flows.filter(|it| it.ecn().is_some());
        None.or_else(|| queues.find_map(|queue| machines.refuses(queue)))
            .or_else(|| Some(format!("the timeline changes its network at {}", changed?.at)))
            .or_else(|| node.map(|(node, key)| format!("it sets `{key}` on `{node}`")))
            .or_else(|| Some(format!("it changes routes of `{}`", scenario.routes.first()?.on)))
            .or_else(|| Some(format!("`{}` has both hosts set up for ECN", ecn.next()?.name())))
    }
}
