//! Whether packets stood in the queues of this host's own device while a flow ran.
//!
//! A queue stands before the narrowest place of a way, and nowhere else: where it is this host's own, the way is no narrower than that. Queues that hold
//! packets back until their time has come (fq, etf, taprio) have a backlog without being narrow; with one of these, only what a shaper held back
//! counts. Where a path is emulated (netem), the queue is the path's.

use quell_netlink::core::{Protocol, Socket};
use quell_netlink::tc::dump_qdiscs;
use quell_netlink::{LinkName, Stack};
use quell_tc::Handle;
use quell_tc::observed::ObservedQdisc;
use serde::Serialize;

/// A device's queues, looked at now and then.
pub struct OwnQueue {
    socket: Socket,
    ifindex: u32,
    overlimits: Option<u32>,
    standing: Standing,
}

/// What was seen at the looks at a device's queues.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Standing {
    /// The device.
    pub device: String,
    /// Its queues' kinds, as the kernel spells them, the root's first.
    pub kinds: Vec<String>,
    /// Looks.
    pub looks: u64,
    /// Of these, at how many packets waited.
    pub stood: u64,
    /// Of those, at how many a rate had held packets back since the look before.
    pub held_back: u64,
    /// Most bytes that waited.
    #[serde(rename = "most_bytes")]
    pub most: u64,
}

impl Standing {
    /// Whether packets waited most of the time.
    pub fn stands(&self) -> bool {
        self.stood * 2 > self.looks
    }

    /// Whether a rate held them back meanwhile: a shaper, not the device.
    pub fn is_shaped(&self) -> bool {
        self.held_back * 2 > self.looks
    }
}

impl OwnQueue {
    /// Of this device; none where it can't be seen.
    pub fn of(device: &str) -> Option<Self> {
        let name: LinkName = device.parse().ok()?;
        let ifindex = Stack::open().ok()?.link(&name).ok()?.index;
        let socket = Socket::open(Protocol::Route).ok()?;
        let standing = Standing { device: device.into(), ..Standing::default() };
        Some(Self { socket, ifindex, overlimits: None, standing })
    }

    /// Looks once.
    pub fn look(&mut self) {
        if let Ok(queues) = dump_qdiscs(&mut self.socket, self.ifindex) {
            self.note(&queues);
        }
    }

    /// What was seen so far.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    fn note(&mut self, queues: &[ObservedQdisc]) {
        // What stands below the root is counted by it too.
        let roots = || queues.iter().filter(|queue| queue.parent == Handle::ROOT);
        let waits: u64 = roots().map(|queue| u64::from(queue.stats.backlog_bytes)).sum();
        let overlimits = queues.iter().fold(0, |sum: u32, q| sum.wrapping_add(q.stats.overlimits));
        let held_back = self.overlimits.replace(overlimits).is_some_and(|last| last != overlimits);
        let waits_for_its_time =
            |q: &ObservedQdisc| matches!(q.kind.as_str(), "fq" | "etf" | "taprio");
        let is_path = |q: &ObservedQdisc| q.kind == "netem";
        let stands = waits > 0
            && !queues.iter().any(is_path)
            && (held_back || !queues.iter().any(waits_for_its_time));
        let seen = &mut self.standing;
        if seen.kinds.is_empty() {
            let rest = queues.iter().filter(|queue| queue.parent != Handle::ROOT);
            seen.kinds = roots().chain(rest).map(|queue| queue.kind.clone()).collect();
            seen.kinds.dedup();
        }
        seen.looks += 1;
        seen.stood += u64::from(stands);
        seen.held_back += u64::from(stands && held_back);
        seen.most = seen.most.max(waits);
    }
}
