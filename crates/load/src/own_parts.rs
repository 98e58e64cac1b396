//! Which of a device's classes packets waited in: where a queue divides what leaves into classes, one of them stands while another is empty. Pure.
//!
//! What is told is each class that has none below it, with the queue at its leaf; a queue that shares one rate among its flows (fq_codel, cake) has none.

use quell_tc::observed::{ObservedClass, ObservedQdisc};
use quell_tc::{ClassKind, Handle, Qdisc};
use std::collections::{BTreeMap, BTreeSet};

/// One class of a device, as it was seen at the looks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// Its name.
    pub class: String,
    /// Bytes that left it, with their headers.
    pub left: u64,
    /// Packets that it dropped.
    pub dropped: u64,
    /// Looks at which packets waited in it.
    pub stood: u64,
    /// Most bytes that waited.
    pub most: u64,
    /// Whether its queue lets each flow have its turn: what of a flow waits there waits for that flow's own.
    pub fair: bool,
    /// The rate to which it, or its queue, shapes what leaves, in bits a second.
    pub rate: Option<u64>,
}

/// The classes of a device, since counting began.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    before: BTreeMap<Handle, (u64, u32)>,
    seen: BTreeMap<Handle, Part>,
}

impl Parts {
    /// Counting begins with these.
    pub fn begin(&mut self, leaves: &[Leaf]) {
        self.before = leaves.iter().map(|leaf| (leaf.class, (leaf.left, leaf.dropped))).collect();
    }

    /// Counts what left and was dropped; at a look what waits, too, but what waits for its time only where a rate `held_back` packets.
    pub fn note(&mut self, leaves: &[Leaf], looked: bool, held_back: bool) {
        for leaf in leaves {
            let (left, dropped) = self.before.get(&leaf.class).copied().unwrap_or_default();
            let part = self.seen.entry(leaf.class).or_default();
            part.class = leaf.class.to_string();
            part.fair = leaf.fair;
            part.left = leaf.left.saturating_sub(left);
            part.dropped = u64::from(leaf.dropped.wrapping_sub(dropped));
            // What plays a path is not looked at.
            part.rate = part.rate.or(leaf.rate.filter(|_| looked));
            if looked && leaf.waits > 0 && (held_back || !leaf.paces) {
                part.stood += 1;
                part.most = part.most.max(leaf.waits);
            }
        }
    }

    /// All of them.
    pub fn seen(&self) -> Vec<Part> {
        self.seen.values().cloned().collect()
    }
}

/// A class that has none below it, now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    class: Handle,
    left: u64,
    dropped: u32,
    waits: u64,
    /// Its queue lets packets wait for their time.
    paces: bool,
    /// Its queue lets each flow have its turn.
    fair: bool,
    /// What it, or its queue, lets out at most, in bits a second.
    rate: Option<u64>,
}

/// Whether this kind gives each of its classes a queue of its own.
pub(crate) fn divides(kind: &str) -> bool {
    matches!(
        kind,
        "htb" | "hfsc" | "prio" | "drr" | "ets" | "qfq" | "mq" | "mqprio" | "multiq" | "cbq"
    )
}

/// Those of these classes that have none below them.
pub(crate) fn leaves(queues: &[ObservedQdisc], classes: &[ObservedClass]) -> Vec<Leaf> {
    let divided: Vec<_> = classes.iter().filter(|class| divides(&class.kind)).collect();
    let below = queues.iter().filter(|queue| divides(&queue.kind)).map(|queue| queue.parent);
    let above: BTreeSet<Handle> = divided.iter().map(|class| class.parent).chain(below).collect();
    let at: BTreeMap<Handle, &ObservedQdisc> =
        queues.iter().map(|queue| (queue.parent, queue)).collect();
    let leaves = divided.iter().filter(|class| !above.contains(&class.id));
    let leaf = |class: &&&ObservedClass| {
        // What the queue drops when a packet leaves, its class does not count; a queue of the kernel's own is not shown.
        let queue = at.get(&class.id);
        let of_queue = |of: fn(&ObservedQdisc) -> u32| queue.map_or(0, |queue| of(queue));
        let waits = class.stats.backlog_bytes.max(of_queue(|q| q.stats.backlog_bytes));
        Leaf {
            class: class.id,
            left: class.stats.bytes,
            dropped: class.stats.drops.max(of_queue(|q| q.stats.drops)),
            waits: waits.into(),
            paces: queue.is_some_and(|queue| waits_for_its_time(queue)),
            fair: queue.is_some_and(|queue| is_fair(&queue.kind)),
            rate: ceiling(class).into_iter().chain(queue.and_then(|queue| shaped_to(queue))).min(),
        }
    };
    leaves.map(|class| leaf(&class)).collect()
}

/// What a class of HTB lets out at most, in bits a second.
fn ceiling(class: &ObservedClass) -> Option<u64> {
    match &class.options {
        Some(ClassKind::Htb(htb)) => htb.ceil.or(htb.rate).map(quell_units::Rate::bps),
        _ => None,
    }
}

/// What a queue that shapes all that passes lets out, in bits a second.
pub(crate) fn shaped_to(queue: &ObservedQdisc) -> Option<u64> {
    match &queue.options {
        Some(Qdisc::Cake(cake)) => cake.bandwidth.map(quell_units::Rate::bps),
        Some(Qdisc::Tbf(tbf)) => tbf.rate.map(quell_units::Rate::bps),
        _ => None,
    }
}

/// Whether a queue holds packets back until their time has come, without being narrow.
pub(crate) fn waits_for_its_time(queue: &ObservedQdisc) -> bool {
    matches!(queue.kind.as_str(), "fq" | "etf" | "taprio")
}

/// Whether this kind lets each flow have its turn.
pub(crate) fn is_fair(kind: &str) -> bool {
    matches!(kind, "fq_codel" | "cake" | "fq_pie" | "fq" | "sfq")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_tc::observed::{Raw, Stats};

    fn class(
        kind: &str,
        id: (u16, u16),
        parent: (u16, u16),
        bytes: u64,
        waits: u32,
    ) -> ObservedClass {
        ObservedClass {
            ifindex: 2,
            id: Handle::class(id.0, id.1),
            parent: Handle::class(parent.0, parent.1),
            leaf: None,
            kind: kind.into(),
            options: None,
            stats: Stats { bytes, backlog_bytes: waits, ..Stats::default() },
            extra: None,
            raw: Raw::default(),
        }
    }

    fn queue(kind: &str, parent: Handle, drops: u32) -> ObservedQdisc {
        ObservedQdisc {
            ifindex: 2,
            handle: Handle::qdisc(7),
            parent,
            kind: kind.into(),
            options: None,
            stats: Stats { drops, ..Stats::default() },
            extra: None,
            raw: Raw::default(),
        }
    }

    #[test]
    fn each_class_with_none_below_it_is_looked_at_by_itself() {
        let queues = [
            queue("htb", Handle::ROOT, 9),
            queue("fq_codel", Handle::class(1, 0x10), 9),
            queue("prio", Handle::class(1, 0x20), 0),
        ];
        let classes = |n: u64, waits| {
            [
                class("htb", (1, 1), (0xffff, 0xffff), 900 * n, 0),
                class("htb", (1, 0x10), (1, 1), 500 * n, waits),
                class("htb", (1, 0x20), (1, 1), 400 * n, 0),
                class("prio", (7, 1), (7, 0), 300 * n, 0),
                class("prio", (7, 2), (7, 0), 100 * n, 0),
                class("fq_codel", (8, 77), (8, 0), 0, waits),
            ]
        };
        let mut parts = Parts::default();
        parts.begin(&leaves(&queues[2..], &classes(1, 0)));
        parts.note(&leaves(&queues, &classes(2, 3028)), true, true);
        parts.note(&leaves(&queues, &classes(3, 0)), true, true);
        parts.note(&leaves(&queues, &classes(4, 1514)), false, true);
        let seen = parts.seen();
        let told: Vec<_> =
            seen.iter().map(|part| (&*part.class, part.left, part.dropped)).collect();
        assert_eq!(told, [("1:10", 1500, 9), ("7:1", 900, 0), ("7:2", 300, 0)]);
        assert_eq!((seen[0].stood, seen[0].most), (1, 3028));
    }
}
