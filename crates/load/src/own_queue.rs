//! Whether packets stood in the queues of this host's own device while a flow ran.
//!
//! A queue stands before the narrowest place of a way, and nowhere else: where it is this host's own, the way is no narrower than that. Queues that hold
//! packets back until their time has come (fq, etf, taprio) have a backlog without being narrow; with one of these, only what a shaper held back
//! counts; what fq's `maxrate` lets out of each flow is told apart. Where a path is emulated (netem), the queue is the path's.
//!
//! A policer has no queue: it drops. What the device's queues drop, and filters before them (`ingress`, `clsact`, which count both ways together), is
//! counted too.

use quell_netlink::core::{Protocol, Socket};
use quell_netlink::tc::dump_qdiscs;
use quell_netlink::{LinkName, Stack};
use quell_tc::observed::ObservedQdisc;
use quell_tc::{Handle, Qdisc};
use serde::Serialize;

/// A device's queues, looked at now and then.
pub struct OwnQueue {
    socket: Socket,
    ifindex: u32,
    overlimits: Option<u32>,
    /// What had been dropped when counting began: by the queues, by filters before them.
    before: Option<(u32, u32)>,
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
    /// Packets that the device's queues dropped; 0 where these are a path's.
    pub dropped: u64,
    /// Packets that filters before them dropped, going out or coming in.
    pub filtered: u64,
    /// The rate above which fq lets no flow out, in bits a second.
    #[serde(rename = "flow_bits_per_second")]
    pub flow_rate: Option<u64>,
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
        let mut own = Self { socket, ifindex, overlimits: None, before: None, standing };
        own.begin();
        Some(own)
    }

    /// Counting begins: what was dropped before does not count.
    pub fn begin(&mut self) {
        let queues = dump_qdiscs(&mut self.socket, self.ifindex);
        self.before = queues.ok().map(|queues| drops(&queues));
    }

    /// Looks once; `own` says whether this flow has packets on this host that have not left it ([`quell_sys::socket::bulk::on_this_host`]).
    pub fn look(&mut self, own: bool) {
        if let Ok(queues) = dump_qdiscs(&mut self.socket, self.ifindex) {
            self.note(&queues, own);
        }
    }

    /// What was seen so far.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    fn note(&mut self, queues: &[ObservedQdisc], own: bool) {
        let now = drops(queues);
        let before = *self.before.get_or_insert(now);
        self.standing.dropped = u64::from(now.0.wrapping_sub(before.0));
        self.standing.filtered = u64::from(now.1.wrapping_sub(before.1));
        self.standing.flow_rate = queues.iter().filter_map(flow_rate).min();
        // What stands below the root is counted by it too.
        let roots = || queues.iter().filter(|queue| queue.parent == Handle::ROOT);
        let waits: u64 = roots().map(|queue| u64::from(queue.stats.backlog_bytes)).sum();
        let overlimits = queues.iter().fold(0, |sum: u32, q| sum.wrapping_add(q.stats.overlimits));
        let held_back = self.overlimits.replace(overlimits).is_some_and(|last| last != overlimits);
        let waits_for_its_time =
            |q: &ObservedQdisc| matches!(q.kind.as_str(), "fq" | "etf" | "taprio");
        // What others send may wait in a class of their own.
        let stands = waits > 0
            && own
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

fn is_path(queue: &ObservedQdisc) -> bool {
    queue.kind == "netem"
}

/// What a device's queues dropped, and filters before them.
fn drops(queues: &[ObservedQdisc]) -> (u32, u32) {
    let sum = |of: &dyn Fn(&&ObservedQdisc) -> bool| {
        queues.iter().filter(of).fold(0, |sum: u32, q| sum.wrapping_add(q.stats.drops))
    };
    // What is dropped below the root is counted by it too.
    let own = !queues.iter().any(is_path);
    (sum(&|q| own && q.parent == Handle::ROOT), sum(&|q| q.parent == Handle::INGRESS))
}

/// What fq lets out of each flow at most, in bits a second.
fn flow_rate(queue: &ObservedQdisc) -> Option<u64> {
    match &queue.options {
        Some(Qdisc::Fq(fq)) => fq.maxrate.map(quell_units::Rate::bps),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_tc::observed::{Raw, Stats};

    /// A root queue of this kind, with so many bytes in it, which has held packets back so often.
    fn root(kind: &str, backlog_bytes: u32, overlimits: u32) -> ObservedQdisc {
        ObservedQdisc {
            ifindex: 2,
            handle: Handle::qdisc(1),
            parent: Handle::ROOT,
            kind: kind.into(),
            options: None,
            stats: Stats { backlog_bytes, overlimits, ..Stats::default() },
            extra: None,
            raw: Raw::default(),
        }
    }

    fn seen(looks: &[(ObservedQdisc, bool)]) -> Standing {
        let socket = Socket::open(Protocol::Route).unwrap();
        let standing = Standing { device: "eth0".into(), ..Standing::default() };
        let mut queue = OwnQueue { socket, ifindex: 2, overlimits: None, before: None, standing };
        looks.iter().for_each(|(root, own)| queue.note(std::slice::from_ref(root), *own));
        queue.standing
    }

    #[test]
    fn a_queue_stands_where_own_packets_wait_in_it_and_not_where_it_paces_or_is_the_paths() {
        let looks = |kind: &str, overlimits: u32, own: bool| -> Vec<_> {
            (0..10).map(|n| (root(kind, 3028, n * overlimits), own)).collect()
        };
        let shaped = seen(&looks("tbf", 7, true));
        assert!(shaped.stands() && shaped.is_shaped(), "{shaped:?}");
        let full = seen(&looks("pfifo_fast", 0, true));
        assert!(full.stands() && !full.is_shaped(), "the device itself: {full:?}");
        assert!(!seen(&looks("htb", 7, false)).stands(), "another's packets, in their own class");
        assert!(!seen(&looks("fq", 0, true)).stands(), "it paces");
        assert!(!seen(&looks("netem", 7, true)).stands(), "it is the path");
        let mut empty = looks("tbf", 7, true);
        empty.iter_mut().skip(4).for_each(|(root, _)| root.stats.backlog_bytes = 0);
        assert!(!seen(&empty).stands(), "at 4 of 10 looks");
    }

    #[test]
    fn what_the_own_queues_and_filters_drop_is_counted_from_the_beginning_and_a_paths_is_not() {
        let socket = Socket::open(Protocol::Route).unwrap();
        let standing = Standing::default();
        let mut own = OwnQueue { socket, ifindex: 2, overlimits: None, before: None, standing };
        let dropped = |kind: &str, parent, drops| ObservedQdisc {
            parent,
            stats: Stats { drops, ..Stats::default() },
            ..root(kind, 0, 0)
        };
        let queues = |kind: &str, queued, filtered| {
            [dropped(kind, Handle::ROOT, queued), dropped("clsact", Handle::INGRESS, filtered)]
        };
        own.note(&queues("prio", 100, u32::MAX), true);
        own.note(&queues("prio", 107, 4), true);
        assert_eq!((own.standing.dropped, own.standing.filtered), (7, 5));
        own.before = None;
        own.note(&queues("netem", 0, 0), true);
        own.note(&queues("netem", 30, 2), true);
        assert_eq!((own.standing.dropped, own.standing.filtered), (0, 2));
    }
}
