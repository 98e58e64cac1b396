//! A queue, class or filter: as it is wanted, or as the kernel once showed it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::observed::{ObservedClass, ObservedFilter, ObservedQdisc, Raw, Snapshot};
use crate::plan::place as hook;
use crate::{Handle, Protocol, Step};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Place {
    Qdisc {
        /// Where it hangs: [`Handle::ROOT`], [`Handle::INGRESS`] or a class.
        #[serde(with = "as_number")]
        parent: Handle,
        #[serde(with = "as_number")]
        handle: Handle,
    },
    Class {
        /// The class or queue above it.
        #[serde(with = "as_number")]
        parent: Handle,
        #[serde(with = "as_number")]
        id: Handle,
    },
    Filter {
        /// The queue, class or hook it hangs on.
        #[serde(with = "as_number")]
        parent: Handle,
        chain: u32,
        /// Lower ones are tried first.
        prio: u16,
        /// The packets it looks at (an ethertype).
        protocol: u16,
        /// The kernel's name for it among those of one priority; 0 where the kernel is to name it.
        handle: u32,
    },
}

/// Handles as the kernel's numbers: a log is not read by people.
mod as_number {
    use super::Handle;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(handle: &Handle, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(handle.to_u32())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Handle, D::Error> {
        u32::deserialize(deserializer).map(Handle::from_u32)
    }
}

/// Something as the kernel showed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub place: Place,
    /// Its kind, as the kernel spells it.
    pub kind: String,
    pub raw: Raw,
}

/// Something that is to be on an interface.
#[allow(clippy::large_enum_variant, reason = "nearly all are of the larger one")]
#[derive(Debug, Clone, PartialEq)]
pub enum Thing {
    Step(Step),
    Seen(Seen),
}

impl Thing {
    pub fn place(&self) -> Place {
        match self {
            Thing::Seen(seen) => seen.place,
            Thing::Step(Step::Qdisc { parent, handle, .. }) => {
                Place::Qdisc { parent: *parent, handle: *handle }
            }
            Thing::Step(Step::Ingress { .. }) => {
                Place::Qdisc { parent: Handle::INGRESS, handle: Handle::INGRESS_QDISC }
            }
            Thing::Step(Step::Class { parent, id, .. }) => {
                Place::Class { parent: *parent, id: *id }
            }
            Thing::Step(Step::Filter { parent, filter }) => Place::Filter {
                parent: *parent,
                chain: 0,
                prio: filter.prio.unwrap_or(0),
                protocol: filter.protocol.0,
                handle: filter.handle.unwrap_or(0),
            },
        }
    }

    /// Its kind, as the kernel spells it.
    pub fn kind(&self) -> &str {
        match self {
            Thing::Seen(seen) => &seen.kind,
            Thing::Step(Step::Qdisc { qdisc, .. }) => qdisc.kind(),
            Thing::Step(Step::Ingress { clsact: true }) => "clsact",
            Thing::Step(Step::Ingress { clsact: false }) => "ingress",
            Thing::Step(Step::Class { kind, .. }) => kind.name(),
            Thing::Step(Step::Filter { filter, .. }) => filter.kind.kernel_name(),
        }
    }

    /// The same filter at another priority; anything else as it is.
    pub(super) fn at_prio(mut self, to: u16) -> Self {
        match &mut self {
            Thing::Step(Step::Filter { filter, .. }) => filter.prio = Some(to),
            Thing::Seen(Seen { place: Place::Filter { prio, .. }, .. }) => *prio = to,
            _ => {}
        }
        self
    }

    /// The same filter under the kernel's name for it; anything else as it is.
    pub(super) fn named(mut self, name: u32) -> Self {
        match &mut self {
            Thing::Step(Step::Filter { filter, .. }) => filter.handle = Some(name),
            Thing::Seen(Seen { place: Place::Filter { handle, .. }, .. }) => *handle = name,
            _ => {}
        }
        self
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Thing::Step(step) => step.fmt(f),
            Thing::Seen(seen) => f.write_str(&words(&seen.place, &seen.kind)),
        }
    }
}

pub(super) fn words(place: &Place, kind: &str) -> String {
    match *place {
        Place::Qdisc { parent: Handle::ROOT, handle } => format!("root queue {handle} ({kind})"),
        Place::Qdisc { parent: Handle::INGRESS, .. } => format!("{kind} qdisc"),
        Place::Qdisc { parent, handle } => format!("queue {handle} ({kind}) in class {parent}"),
        Place::Class { parent, id } => format!("{kind} class {id} under {parent}"),
        Place::Filter { parent, prio, handle: 0, .. } => {
            format!("{kind} filter {prio} at {}", hook(parent))
        }
        Place::Filter { parent, prio, handle, .. } => {
            format!("{kind} filter {prio} ({handle:#x}) at {}", hook(parent))
        }
    }
}

impl ObservedQdisc {
    pub fn place(&self) -> Place {
        Place::Qdisc { parent: self.parent, handle: self.handle }
    }

    /// Whether somebody made it: one without a handle is the kernel's own, a default or a child of `mq`.
    pub fn is_made(&self) -> bool {
        self.handle != Handle::default()
    }
}

impl ObservedClass {
    pub fn place(&self) -> Place {
        Place::Class { parent: above(self.parent, self.id), id: self.id }
    }

    /// Whether somebody made it: bands, flows inside a queue and a queue as its own class come by themselves.
    pub fn is_made(&self) -> bool {
        self.raw.options.is_some() && self.id.minor != 0 && self.kind != "ets"
    }
}

impl ObservedFilter {
    pub fn place(&self) -> Place {
        let Protocol(protocol) = self.protocol;
        let (parent, chain, prio, handle) = (self.parent, self.chain, self.prio, self.handle);
        Place::Filter { parent, chain, prio, protocol, handle }
    }
}

/// All that somebody made on an interface, in an order in which it can be made again.
pub fn seen(snapshot: &Snapshot) -> Vec<Thing> {
    let mut things = Vec::new();
    let made = snapshot.qdiscs.iter().filter(|q| q.is_made());
    let (hooks, queues): (Vec<&ObservedQdisc>, Vec<_>) =
        made.partition(|q| q.parent == Handle::INGRESS);
    let there = There::of(snapshot, &queues);
    for root in queues.iter().filter(|q| q.parent == Handle::ROOT) {
        there.below(root, &mut things);
    }
    let at_hook = |f: &&ObservedFilter| f.parent.major == u16::MAX;
    for hook in hooks {
        things.push(Thing::Seen(of_qdisc(hook)));
    }
    things.extend(snapshot.filters.iter().filter(at_hook).map(|f| Thing::Seen(of_filter(f))));
    things
}

/// What there is, by the major of the queue that it belongs to: there may be a queue for each of thousands of classes.
#[derive(Default)]
struct There<'a> {
    queues: BTreeMap<u16, Vec<&'a ObservedQdisc>>,
    classes: BTreeMap<u16, Vec<&'a ObservedClass>>,
    filters: BTreeMap<u16, Vec<&'a ObservedFilter>>,
}

impl<'a> There<'a> {
    fn of(snapshot: &'a Snapshot, queues: &[&'a ObservedQdisc]) -> Self {
        let mut there = There::default();
        for queue in queues {
            there.queues.entry(queue.parent.major).or_default().push(queue);
        }
        for class in snapshot.classes.iter().filter(|c| c.is_made()) {
            there.classes.entry(class.id.major).or_default().push(class);
        }
        for filter in &snapshot.filters {
            there.filters.entry(filter.parent.major).or_default().push(filter);
        }
        there
    }

    /// A queue, its classes, what is in these, then the filters, which may name any of them.
    fn below(&self, queue: &ObservedQdisc, things: &mut Vec<Thing>) {
        things.push(Thing::Seen(of_qdisc(queue)));
        let major = queue.handle.major;
        let mut classes = self.classes.get(&major).cloned().unwrap_or_default();
        // Parents first; the kernel lists them by hash.
        let mut level = BTreeSet::from([queue.handle]);
        while !level.is_empty() {
            let (now, later): (Vec<_>, Vec<_>) =
                classes.into_iter().partition(|c| level.contains(&above(c.parent, c.id)));
            level = now.iter().map(|c| c.id).collect();
            things.extend(now.into_iter().map(|c| Thing::Seen(of_class(c))));
            classes = later;
        }
        let inner = self.queues.get(&major).into_iter().flatten();
        for inner in inner.filter(|q| q.handle != queue.handle) {
            self.below(inner, things);
        }
        let filters = self.filters.get(&major).into_iter().flatten();
        things.extend(filters.map(|f| Thing::Seen(of_filter(f))));
    }
}

fn of_qdisc(queue: &ObservedQdisc) -> Seen {
    Seen { place: queue.place(), kind: queue.kind.clone(), raw: queue.raw.clone() }
}

fn of_class(class: &ObservedClass) -> Seen {
    Seen { place: class.place(), kind: class.kind.clone(), raw: class.raw.clone() }
}

fn of_filter(filter: &ObservedFilter) -> Seen {
    Seen { place: filter.place(), kind: filter.kind.clone(), raw: filter.raw.clone() }
}

/// The class or queue above a class, as both sides say it: the kernel says "root" for a class directly under its queue.
pub(super) fn above(parent: Handle, id: Handle) -> Handle {
    if parent == Handle::ROOT { Handle::qdisc(id.major) } else { parent }
}
