//! What an interface is like after a change: what the kernel does, without one. Tests of transactions have it too.

use quell_tc::observed::{ObservedClass, ObservedFilter, ObservedQdisc, Raw, Snapshot, Stats};
use quell_tc::{Change, Filter, Handle, Place, Protocol, Qdisc, Step, Thing};

/// What a thing is to be, taken apart.
struct SnapshotParts {
    kind: String,
    raw: Raw,
    step: Option<Step>,
}

/// An interface as a model of the kernel has it.
pub trait KernelModel {
    /// Carries a change out on what is known of an interface.
    fn carry_out(&mut self, change: &Change);
}

impl KernelModel for Snapshot {
    fn carry_out(&mut self, change: &Change) {
        match change {
            Change::Make(thing) => make(self, thing),
            Change::Alter(thing) => alter(self, thing),
            Change::Remove { place, .. } => remove(self, *place),
        }
    }
}

fn make(now: &mut Snapshot, thing: &Thing) {
    let parts = SnapshotParts::of(thing);
    match thing.place() {
        Place::Qdisc { parent, handle } => {
            if let Some(old) = now.qdiscs.iter().find(|q| q.parent == parent) {
                let place = old.place();
                remove(now, place);
            }
            now.qdiscs.push(parts.qdisc(parent, handle));
        }
        Place::Class { parent, id } => now.classes.push(parts.class(parent, id)),
        Place::Filter { parent, chain, prio, protocol, handle } => {
            let handle = if handle == 0 { free_name(now, parent, prio) } else { handle };
            let place = (parent, chain, prio, handle);
            now.filters.push(parts.filter(place, protocol));
        }
    }
}

/// As the kernel counts on from the last.
fn free_name(now: &Snapshot, parent: Handle, prio: u16) -> u32 {
    let here = now.filters.iter().filter(|f| f.parent == parent && f.prio == prio);
    here.map(|f| f.handle).max().unwrap_or(0) + 1
}

fn alter(now: &mut Snapshot, thing: &Thing) {
    let parts = SnapshotParts::of(thing);
    let place = thing.place();
    if let Some(queue) = now.qdiscs.iter_mut().find(|q| q.place() == place) {
        if let Place::Qdisc { parent, handle } = place {
            let new = parts.qdisc(parent, handle);
            (queue.options, queue.raw) = (new.options, new.raw);
        }
    } else if let Some(class) = now.classes.iter_mut().find(|c| c.place() == place) {
        if let Place::Class { parent, id } = place {
            let new = parts.class(parent, id);
            (class.options, class.raw) = (new.options, new.raw);
        }
    } else if let Some(filter) = now.filters.iter_mut().find(|f| f.place() == place)
        && let Place::Filter { parent, chain, prio, protocol, handle } = place
    {
        let new = parts.filter((parent, chain, prio, handle), protocol);
        (filter.filter, filter.raw) = (new.filter, new.raw);
    }
}

fn remove(now: &mut Snapshot, place: Place) {
    match place {
        Place::Qdisc { handle, .. } => {
            now.qdiscs.retain(|q| q.place() != place);
            now.filters.retain(|f| f.parent.major != handle.major || handle.major == 0);
            let classes: Vec<Place> = now
                .classes
                .iter()
                .filter(|c| c.id.major == handle.major && handle.major != 0)
                .map(ObservedClass::place)
                .collect();
            classes.into_iter().for_each(|class| remove(now, class));
            // In what are no classes of their own, bands.
            let inner: Vec<Place> = now
                .qdiscs
                .iter()
                .filter(|q| q.parent.major == handle.major && handle.major != u16::MAX)
                .map(ObservedQdisc::place)
                .collect();
            inner.into_iter().for_each(|queue| remove(now, queue));
        }
        Place::Class { id, .. } => {
            now.classes.retain(|c| c.id != id);
            now.filters.retain(|f| f.parent != id);
            let inner = now.qdiscs.iter().filter(|q| q.parent == id).map(ObservedQdisc::place);
            for queue in inner.collect::<Vec<_>>() {
                remove(now, queue);
            }
        }
        Place::Filter { parent, chain, prio, handle, .. } => now.filters.retain(|f| {
            let name = handle == 0 || name(&f.kind, f.handle) == name(&f.kind, handle);
            !(f.parent == parent && f.chain == chain && f.prio == prio && name)
        }),
    }
}

/// The kernel's name for a filter without what it made up: u32's hash table is numbered as it comes.
fn name(kind: &str, handle: u32) -> u32 {
    if kind == "u32" { handle & 0xfff } else { handle }
}

impl SnapshotParts {
    fn of(thing: &Thing) -> Self {
        let kind = thing.kind().to_owned();
        match thing {
            Thing::Seen(seen) => SnapshotParts { kind, raw: seen.raw.clone(), step: None },
            // What bytes the kernel would show is not known here; that they are others is.
            Thing::Step(step) => {
                let options = Some(format!("{step:?}").into_bytes());
                SnapshotParts {
                    kind,
                    raw: Raw { options, ..Raw::default() },
                    step: Some(step.clone()),
                }
            }
        }
    }

    fn qdisc(self, parent: Handle, handle: Handle) -> ObservedQdisc {
        let options: Option<Qdisc> = match self.step {
            Some(Step::Qdisc { qdisc, .. }) => Some(qdisc),
            _ => None,
        };
        let (kind, raw) = (self.kind, self.raw);
        let (stats, extra) = (Stats::default(), None);
        ObservedQdisc { ifindex: 0, handle, parent, kind, options, stats, extra, raw }
    }

    fn class(self, parent: Handle, id: Handle) -> ObservedClass {
        let options = match self.step {
            Some(Step::Class { kind, .. }) => Some(kind),
            _ => None,
        };
        let (kind, raw, stats, leaf) = (self.kind, self.raw, Stats::default(), None);
        ObservedClass { ifindex: 0, id, parent, leaf, kind, options, stats, extra: None, raw }
    }

    fn filter(
        self,
        (parent, chain, prio, handle): (Handle, u32, u16, u32),
        protocol: u16,
    ) -> ObservedFilter {
        let filter: Option<Filter> = match self.step {
            Some(Step::Filter { filter, .. }) => Some(filter),
            _ => None,
        };
        let (kind, raw, protocol) = (self.kind, self.raw, Protocol(protocol));
        let (ifindex, program, link, flags) = (0, None, None, 0);
        ObservedFilter {
            ifindex,
            parent,
            kind,
            prio,
            protocol,
            chain,
            handle,
            filter,
            program,
            link,
            flags,
            raw,
        }
    }
}
