//! A cell's plan: all that the lab needs to carry out one scenario with one probe, once. It travels to the guest as JSON.

use crate::topology::{Interface, Line, Topology};
use quell_model::{CellId, Task};
use quell_tc::Tree;
use quell_units::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// More nodes than these take memory of their own: a namespace, devices and an agent, some 5 MiB each. Without it the guest does nothing but read its
/// programs again and again.
const SMALL_CELL: usize = 32;
const NODE_MIB: u32 = 8;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellPlan {
    pub id: CellId,
    /// From this comes all randomness of the cell: the kernel's, the tasks', the keys'.
    pub seed: u64,
    /// The series of the guest kernel, as `6.12`; the usual one where absent.
    pub kernel: Option<String>,
    pub topology: Topology,
    pub sysctl: BTreeMap<String, String>,
    /// Settings of single nodes, which come later.
    pub node_sysctl: BTreeMap<String, BTreeMap<String, String>>,
    /// Settings of the routes that hosts have to nodes.
    pub routes: Vec<RouteSettings>,
    /// Queues to put in place before the start.
    pub queues: Vec<PlacedQueue>,
    /// What changes, in order of time.
    pub changes: Vec<PlacedChange>,
    pub tasks: Vec<Task>,
    /// How long loads run before the measurement starts.
    pub warm_up: Span,
    pub duration: Span,
}

impl CellPlan {
    /// How long the cell takes by its own clock, about: for estimates and limits.
    pub fn length(&self) -> Span {
        let linger = self.tasks.iter().map(|t| t.kind.about().linger.nanos()).max().unwrap_or(0);
        Span::from_nanos(self.warm_up.nanos() + self.duration.nanos() + linger)
    }

    /// Memory that its nodes and tasks take beside what a small cell does, in MiB.
    pub fn memory_mib(&self) -> u32 {
        let nodes = self.topology.hosts.len() + self.topology.routers.len();
        let more = u32::try_from(nodes.saturating_sub(SMALL_CELL)).unwrap_or(u32::MAX);
        let nodes = more.saturating_mul(NODE_MIB);
        self.tasks.iter().fold(nodes, |sum, t| sum.saturating_add(t.kind.about().memory_mib))
    }
}

/// What a host's TCP takes from its route to a node, in both families.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouteSettings {
    pub on: String,
    pub to: String,
    /// Whether each segment is acknowledged at once.
    pub quick_ack: Option<bool>,
    /// Least time until an unacknowledged segment is sent again.
    pub rto_min: Option<Span>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacedQueue {
    pub on: Interface,
    /// Whether it serves the packets that come in, through an IFB device named `ifb-` and the device's name.
    pub incoming: bool,
    pub tree: Tree,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacedChange {
    /// When, from the start of the measurement.
    pub at: Span,
    pub what: ChangeWhat,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ChangeWhat {
    /// A link's direction gets other properties: what is given replaces what was.
    Line {
        /// The interface at which the direction begins.
        on: Interface,
        line: Line,
    },
    Queue(PlacedQueue),
}

impl Line {
    /// This line with the properties that another one names.
    pub fn changed_by(&self, other: &Line) -> Line {
        let buffer = if other.queue.is_some() { None } else { other.buffer.or(self.buffer) };
        let queue = if other.buffer.is_some() {
            None
        } else {
            other.queue.clone().or_else(|| self.queue.clone())
        };
        Line {
            rate: other.rate.or(self.rate),
            series: self.series.clone(),
            delay: other.delay.or(self.delay),
            jitter: other.jitter.or(self.jitter),
            loss: other.loss.or(self.loss),
            loss_run: other.loss_run.or(self.loss_run),
            mark: other.mark.or(self.mark),
            reorder: other.reorder.or(self.reorder),
            duplicate: other.duplicate.or(self.duplicate),
            buffer,
            overhead: other.overhead.or(self.overhead),
            cells: other.cells.or(self.cells),
            grid: other.grid.or(self.grid),
            police: other.police.or(self.police),
            queue,
            shared: self.shared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hundred_hosts_have_memory_and_three_change_nothing() {
        let memory = |hosts: u32| {
            let hosts = (0..hosts).map(|n| format!("h{n}")).collect();
            let topology = Topology { hosts, ..Topology::default() };
            let text = serde_json::json!({
                "id": {"scenario": "s", "probe": "p", "repeat": 0}, "seed": 1, "kernel": null, "topology": topology, "sysctl": {},
                "node_sysctl": {}, "routes": [], "queues": [], "changes": [], "tasks": [], "warm_up": "0s", "duration": "1s",
            });
            let plan: CellPlan = serde_json::from_value(text).expect("it is a plan");
            plan.memory_mib()
        };
        assert_eq!(memory(3), 0);
        assert!(
            memory(200) > 946 - 256,
            "200 hosts took 946 MiB in all, with a program that was not optimised"
        );
    }
}
