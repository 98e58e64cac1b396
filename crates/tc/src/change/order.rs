//! Which steps lead from what is there to what is wanted, and in which order.
//!
//! Traffic flows all the time: what is new is made beside what is there, then filters switch, then what is left over goes. A queue
//! stays, with the packets in it, where its place, name and kind are the same and its options can be changed where it is.

use std::collections::{BTreeMap, BTreeSet};

use super::compare::{Difference, KnownSteps};
use super::filters;
use super::step::Change;
use super::thing::{Place, Thing, above};
use crate::observed::{ObservedClass, ObservedFilter, ObservedQdisc, Snapshot};
use crate::{Handle, Plan, Step};

/// Which places of an interface are looked at. The others stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// The root queue with all below it.
    pub root: bool,
    /// The ingress or clsact qdisc with its filters.
    pub ingress: bool,
}

impl Places {
    /// All of an interface.
    pub const ALL: Places = Places { root: true, ingress: true };

    /// Those that a plan takes.
    pub fn of(plan: &Plan) -> Self {
        let any = |is: fn(&Step) -> bool| plan.steps.iter().any(is);
        Places {
            root: any(|step| matches!(step, Step::Qdisc { .. })),
            ingress: any(|step| matches!(step, Step::Ingress { .. })),
        }
    }

    /// Whether a thing is in one of them.
    pub fn hold(self, place: Place) -> bool {
        let hook = match place {
            Place::Qdisc { parent, .. } => parent == Handle::INGRESS,
            Place::Class { .. } => false,
            Place::Filter { parent, .. } => parent.major == u16::MAX,
        };
        if hook { self.ingress } else { self.root }
    }
}

impl Plan {
    /// The plan's steps as things that are to be there, for [`changes`].
    pub fn things(&self) -> Vec<Thing> {
        self.steps.iter().cloned().map(Thing::Step).collect()
    }
}

/// What leads from `there` to `wanted`: only what differs. Nothing where all is as wanted.
///
/// `wanted` has parents before children, as [`Plan::things`] and [`seen`](super::seen) have them.
pub fn changes(wanted: &[Thing], places: Places, there: &Snapshot) -> Vec<Change> {
    let wanted: Vec<&Thing> = wanted.iter().filter(|thing| places.hold(thing.place())).collect();
    let mut order = Order::new(wanted, places, there);
    while order.part_with_conflicts() {}
    order.early();
    order.make();
    order.late();
    order.steps
}

/// Wanted and there, each by its place.
struct Order<'a> {
    wanted: Vec<&'a Thing>,
    wanted_queues: BTreeMap<Handle, &'a Thing>,
    wanted_classes: BTreeMap<Handle, &'a Thing>,
    wanted_filters: BTreeMap<Handle, Vec<&'a Thing>>,
    queues: BTreeMap<Handle, &'a ObservedQdisc>,
    classes: BTreeMap<Handle, &'a ObservedClass>,
    filters: BTreeMap<Handle, Vec<&'a ObservedFilter>>,
    inner: BTreeSet<Handle>,
    /// Majors of queues that can't stay, since the kernel would not take the way from one to the other.
    parted: BTreeSet<u16>,
    /// Majors of queues that stay.
    kept: BTreeSet<u16>,
    known: KnownSteps<'a>,
    steps: Vec<Change>,
}

impl<'a> Order<'a> {
    fn new(wanted: Vec<&'a Thing>, places: Places, there: &'a Snapshot) -> Self {
        let mut order = Order {
            wanted_queues: BTreeMap::new(),
            wanted_classes: BTreeMap::new(),
            wanted_filters: BTreeMap::new(),
            queues: BTreeMap::new(),
            classes: BTreeMap::new(),
            filters: BTreeMap::new(),
            inner: BTreeSet::new(),
            parted: BTreeSet::new(),
            kept: BTreeSet::new(),
            known: KnownSteps::default(),
            steps: Vec::new(),
            wanted,
        };
        for &thing in &order.wanted {
            match thing.place() {
                Place::Qdisc { parent, .. } => drop(order.wanted_queues.insert(parent, thing)),
                Place::Class { id, .. } => drop(order.wanted_classes.insert(id, thing)),
                Place::Filter { parent, .. } => {
                    order.wanted_filters.entry(parent).or_default().push(thing);
                }
            }
        }
        for queue in there.qdiscs.iter().filter(|q| q.is_made() && places.hold(q.place())) {
            order.queues.insert(queue.parent, queue);
        }
        for class in there.classes.iter().filter(|c| c.is_made() && places.root) {
            order.classes.insert(class.id, class);
            order.inner.insert(above(class.parent, class.id));
        }
        for filter in there.filters.iter().filter(|f| places.hold(f.place())) {
            order.filters.entry(filter.parent).or_default().push(filter);
        }
        order.kept = order.keep();
        order
    }

    /// The queues that stay. Parents come before children.
    fn keep(&self) -> BTreeSet<u16> {
        let mut kept = BTreeSet::new();
        for &thing in &self.wanted {
            let Place::Qdisc { parent, handle } = thing.place() else { continue };
            let outermost = matches!(parent, Handle::ROOT | Handle::INGRESS);
            let stays = self.queues.get(&parent).copied().is_some_and(|here| {
                here.handle == handle
                    && here.kind == thing.kind()
                    && self.known.difference(thing, here) != Difference::Replace
            });
            if stays
                && (outermost || kept.contains(&parent.major))
                && !self.parted.contains(&handle.major)
            {
                kept.insert(handle.major);
            }
        }
        kept
    }

    /// Finds queues that stay, but in which the kernel would not take the way: a class under another parent or of another kind, a leaf
    /// that gets classes, an inner class that gets a queue. Whether there were any.
    fn part_with_conflicts(&mut self) -> bool {
        let before = self.parted.len();
        for (id, thing) in &self.wanted_classes {
            let Place::Class { parent, .. } = thing.place() else { continue };
            let moved = self.classes.get(id).is_some_and(|here| {
                here.kind != thing.kind() || above(here.parent, here.id) != parent
            });
            let leaf_had_queue = !parent.is_qdisc() && self.queues.contains_key(&parent);
            if self.kept.contains(&id.major) && (moved || leaf_had_queue) {
                self.parted.insert(id.major);
            }
        }
        for parent in self.wanted_queues.keys() {
            if self.kept.contains(&parent.major) && self.inner.contains(parent) {
                self.parted.insert(parent.major);
            }
        }
        let more = self.parted.len() > before;
        if more {
            self.kept = self.keep();
        }
        more
    }

    /// Queues that go and hang where something stays: with them all below them goes.
    fn doomed(&self) -> Vec<&'a ObservedQdisc> {
        let top = |parent: &Handle| {
            matches!(*parent, Handle::ROOT | Handle::INGRESS) || self.kept.contains(&parent.major)
        };
        let goes = |queue: &&&ObservedQdisc| {
            let stays = self.kept.contains(&queue.handle.major)
                && self
                    .wanted_queues
                    .get(&queue.parent)
                    .is_some_and(|t| t.place() == queue.place());
            top(&queue.parent) && !stays
        };
        self.queues.values().filter(goes).copied().collect()
    }

    /// Takes off what would be in the way of what is to be made.
    fn early(&mut self) {
        let made: BTreeSet<u16> = self
            .wanted_queues
            .values()
            .filter_map(|thing| match thing.place() {
                Place::Qdisc { handle, .. } => Some(handle.major),
                _ => None,
            })
            .filter(|major| !self.kept.contains(major))
            .collect();
        for queue in self.doomed() {
            let wanted = self.wanted_queues.get(&queue.parent).map(|thing| thing.place());
            let same_name = wanted == Some(queue.place());
            // A new root takes all below the old one along before anything else is made: only its own name counts.
            let in_the_way = self.majors_of(queue).iter().any(|major| match wanted {
                Some(Place::Qdisc { handle, .. }) if queue.parent == Handle::ROOT => {
                    handle.major == *major
                }
                _ => made.contains(major),
            });
            if same_name || in_the_way {
                self.steps.push(Change::Remove { place: queue.place(), kind: queue.kind.clone() });
                self.queues.remove(&queue.parent);
            }
        }
    }

    /// The majors of a queue and of all below it.
    fn majors_of(&self, queue: &ObservedQdisc) -> Vec<u16> {
        let mut majors = vec![queue.handle.major];
        let mut next = 0;
        while let Some(major) = majors.get(next).copied() {
            let from = Handle::qdisc(major);
            let to = Handle::class(major, u16::MAX);
            next += 1;
            // Under the hooks' number are the places of root and ingress themselves.
            if major == u16::MAX {
                continue;
            }
            majors.extend(self.queues.range(from..=to).map(|(_, q)| q.handle.major));
        }
        majors
    }

    /// Makes and changes, parents first.
    fn make(&mut self) {
        let mut done = BTreeSet::new();
        let mut hoisted: Vec<*const Thing> = Vec::new();
        for thing in self.wanted.clone() {
            if hoisted.iter().any(|other| std::ptr::eq(*other, thing)) {
                continue;
            }
            match thing.place() {
                Place::Qdisc { parent, handle } => {
                    let here = self.queues.get(&parent).copied();
                    let here = here.filter(|_| self.kept.contains(&handle.major));
                    match here.map(|here| self.known.difference(thing, here)) {
                        Some(Difference::None) => {}
                        Some(_) => self.steps.push(Change::Alter(thing.clone())),
                        None => {
                            self.steps.push(Change::Make(thing.clone()));
                            hoisted.extend(self.hoist(thing, handle));
                        }
                    }
                }
                Place::Class { id, .. } => {
                    let here = self.classes.get(&id).copied();
                    let here = here.filter(|_| self.kept.contains(&id.major));
                    match here {
                        Some(here) if self.known.is_class(thing, here) => {}
                        Some(_) => self.steps.push(Change::Alter(thing.clone())),
                        None => self.steps.push(Change::Make(thing.clone())),
                    }
                }
                Place::Filter { parent, .. } => {
                    if !self.kept.contains(&parent.major) {
                        self.steps.push(Change::Make(thing.clone()));
                    } else if done.insert(parent) {
                        let wanted = self.wanted_filters.get(&parent).map_or(&[][..], |w| w);
                        let here = self.filters.get(&parent).map_or(&[][..], |h| h);
                        self.steps.extend(filters::changes(wanted, here));
                    }
                }
            }
        }
    }

    /// A queue that loses what no filter matches gets its last filter first, and the class that this one names.
    fn hoist(&mut self, queue: &Thing, handle: Handle) -> Vec<*const Thing> {
        let Thing::Step(Step::Qdisc { qdisc, .. }) = queue else { return Vec::new() };
        if !qdisc.drops_unmatched() {
            return Vec::new();
        }
        let filters = self.wanted_filters.get(&handle).map_or(&[][..], |f| f);
        let catch_all = filters.iter().find_map(|thing| match thing {
            Thing::Step(Step::Filter { filter, .. }) if filter.is_catch_all() => {
                Some((*thing, filter.class?))
            }
            _ => None,
        });
        let Some((filter, class)) = catch_all else { return Vec::new() };
        let class = self.wanted_classes.get(&class).copied();
        // One below another class has to wait for that.
        let class = class.filter(|class| match class.place() {
            Place::Class { parent, .. } => parent == handle,
            _ => false,
        });
        let things: Vec<&Thing> = class.into_iter().chain([filter]).collect();
        self.steps.extend(things.iter().map(|thing| Change::Make((*thing).clone())));
        things.into_iter().map(std::ptr::from_ref).collect()
    }

    /// Takes off what is left over where something stays.
    fn late(&mut self) {
        let mut gone = Vec::new();
        for (parent, here) in &self.filters {
            if self.kept.contains(&parent.major) && !self.wanted_filters.contains_key(parent) {
                gone.extend(filters::changes(&[], here));
            }
        }
        let mut classes: Vec<&ObservedClass> = self
            .classes
            .values()
            .filter(|c| self.kept.contains(&c.id.major) && !self.wanted_classes.contains_key(&c.id))
            .copied()
            .collect();
        // The deepest first: the kernel takes no class off that holds others.
        classes.sort_by_key(|class| (std::cmp::Reverse(self.depth(class)), class.id));
        let without: BTreeSet<Handle> = classes.iter().map(|class| class.id).collect();
        let classes =
            classes.into_iter().map(|c| Change::Remove { place: c.place(), kind: c.kind.clone() });
        let queues = self.doomed().into_iter().filter(|queue| {
            !self.wanted_queues.contains_key(&queue.parent) && !without.contains(&queue.parent)
        });
        let queues = queues.map(|q| Change::Remove { place: q.place(), kind: q.kind.clone() });
        gone.extend(queues.collect::<Vec<_>>());
        gone.extend(classes);
        self.steps.extend(gone);
    }

    fn depth(&self, class: &ObservedClass) -> usize {
        let mut depth = 0;
        let mut at = class.parent;
        // No tree of the kernel's is deeper; a ring, which can't be, ends here too.
        while let (Some(up), true) = (self.classes.get(&at), depth < 64) {
            at = up.parent;
            depth += 1;
        }
        depth
    }
}
