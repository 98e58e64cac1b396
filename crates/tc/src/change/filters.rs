//! The filters of one queue, class or hook.

use std::collections::{BTreeMap, BTreeSet};

use super::compare::is_filter;
use super::step::Change;
use super::thing::{Place, Seen, Thing};
use crate::Step;
use crate::observed::ObservedFilter;

/// The filters of one priority: wanted, and there.
type FilterGroup<'a> = (Vec<&'a Thing>, Vec<&'a ObservedFilter>);

/// What leads from the filters of a place to those wanted there. In between no packet misses its filter, but where the kernel allows no
/// other way: filters of another kind or protocol at one priority.
pub(super) fn changes(wanted: &[&Thing], here: &[&ObservedFilter]) -> Vec<Change> {
    let mut groups: BTreeMap<(u32, u16), FilterGroup<'_>> = BTreeMap::new();
    for thing in wanted {
        let Place::Filter { chain, prio, .. } = thing.place() else { continue };
        groups.entry((chain, prio)).or_default().0.push(thing);
    }
    for filter in here {
        groups.entry((filter.chain, filter.prio)).or_default().1.push(filter);
    }
    let prios: BTreeSet<u16> = groups.keys().map(|(_, prio)| *prio).collect();
    let mut steps = Vec::new();
    let mut late = Vec::new();
    for ((_, prio), (wanted, here)) in groups {
        let bridge = (1..u16::MAX).map(|by| prio.wrapping_add(by)).find(|p| !prios.contains(p));
        group(&wanted, &here, bridge.filter(|p| *p > prio), &mut steps, &mut late);
    }
    steps.extend(late);
    steps
}

/// The filters of one priority; `bridge` is a free one behind it.
fn group(
    wanted: &[&Thing],
    here: &[&ObservedFilter],
    bridge: Option<u16>,
    steps: &mut Vec<Change>,
    late: &mut Vec<Change>,
) {
    let (mut free, mut new) = (vec![true; here.len()], Vec::new());
    let mut last = None;
    let mut in_order = true;
    for thing in wanted {
        let fits = |at: &usize| free.get(*at) == Some(&true) && same(thing, here[*at]);
        // Nearly always it is the next one, or the one behind: of thousands not all are looked at.
        let next = last.map_or(0, |last: usize| last + 1);
        let found = [next, next + 1].into_iter().find(fits);
        let found = found.or_else(|| (0..here.len()).find(fits));
        match found {
            Some(at) => {
                free[at] = false;
                in_order &= new.is_empty() && last.is_none_or(|last| last < at);
                last = Some(at);
            }
            None => new.push(*thing),
        }
    }
    let old: Vec<&ObservedFilter> =
        here.iter().zip(&free).filter(|(_, free)| **free).map(|(f, _)| *f).collect();
    let remove = |f: &&ObservedFilter| Change::Remove { place: f.place(), kind: f.kind.clone() };
    if new.is_empty() && old.is_empty() && (in_order || !ordered(here)) {
        return;
    }
    let one_sort = |sort: (&str, u16)| {
        wanted.iter().all(|thing| sort_of(thing) == Some(sort))
            && here.iter().all(|f| (f.kind.as_str(), f.protocol.0) == sort)
    };
    let fits = wanted.first().and_then(|thing| sort_of(thing)).is_none_or(one_sort);
    if wanted.is_empty() || !fits {
        let to = if wanted.is_empty() { &mut *late } else { &mut *steps };
        to.extend(removal_of_all(here));
        steps.extend(wanted.iter().map(|thing| Change::Make((*thing).clone())));
        return;
    }
    if !in_order && ordered(here) {
        steps.extend(here.iter().map(remove));
        steps.extend(wanted.iter().map(|thing| Change::Make((*thing).clone())));
        return;
    }
    if here.first().is_some_and(|f| f.kind == "matchall") {
        // There can be one of a priority only.
        if let (Some(thing), Some(bridge)) = (new.first(), bridge) {
            let beside = Change::Make((*thing).clone().named(0).at_prio(bridge));
            let Place::Filter { parent, chain, protocol, .. } = thing.place() else { return };
            // The kernel calls it 1 where nobody does.
            let place = Place::Filter { parent, chain, prio: bridge, protocol, handle: 1 };
            steps.push(beside);
            steps.extend(old.iter().map(remove));
            steps.push(Change::Make((*thing).clone()));
            steps.push(Change::Remove { place, kind: "matchall".into() });
            return;
        }
        steps.extend(old.iter().map(remove));
        steps.extend(new.iter().map(|thing| Change::Make((*thing).clone())));
        return;
    }
    let mut old: Vec<Option<&ObservedFilter>> = old.into_iter().map(Some).collect();
    for thing in new {
        let of = old.iter_mut().find(|f| f.is_some_and(|f| same_match(thing, f)));
        match of.and_then(Option::take) {
            Some(f) if replaceable(f) => {
                steps.push(Change::Alter(thing.clone().named(f.handle)));
            }
            Some(f) => {
                steps.push(remove(&f));
                steps.push(Change::Make(thing.clone()));
            }
            None => steps.push(Change::Make(thing.clone())),
        }
    }
    late.extend(old.iter().flatten().map(remove));
}

/// Takes all filters of one priority off. Of u32 the kernel would leave the empty hash table, and with it the priority: it goes as a whole.
fn removal_of_all(here: &[&ObservedFilter]) -> Vec<Change> {
    let one = |f: &&ObservedFilter| Change::Remove { place: f.place(), kind: f.kind.clone() };
    match here.first() {
        Some(first) if first.kind == "u32" => {
            let mut whole = one(first);
            if let Change::Remove { place: Place::Filter { handle, .. }, .. } = &mut whole {
                *handle = WHOLE;
            }
            vec![whole]
        }
        _ => here.iter().map(one).collect(),
    }
}

/// In the place of a filter's name: all of its priority.
pub(super) const WHOLE: u32 = 0;

/// Kinds of which the kernel tries the filters of one priority in the order in which they were made.
fn ordered(here: &[&ObservedFilter]) -> bool {
    here.first().is_some_and(|f| !matches!(f.kind.as_str(), "flower" | "fw" | "matchall"))
}

/// Kinds of which a filter can be given another class or action where it is.
fn replaceable(here: &ObservedFilter) -> bool {
    matches!(here.kind.as_str(), "flower" | "fw")
}

/// What all filters of one priority have in common: kind and protocol.
fn sort_of(thing: &Thing) -> Option<(&str, u16)> {
    match thing.place() {
        Place::Filter { protocol, .. } => Some((thing.kind(), protocol)),
        _ => None,
    }
}

fn same(thing: &Thing, here: &ObservedFilter) -> bool {
    let Place::Filter { handle, .. } = thing.place() else { return false };
    let named = match thing {
        Thing::Seen(_) => name(&here.kind, handle) == name(&here.kind, here.handle),
        Thing::Step(_) => handle == 0 || name(&here.kind, handle) == name(&here.kind, here.handle),
    };
    sort_of(thing) == Some((here.kind.as_str(), here.protocol.0))
        && named
        && match thing {
            Thing::Seen(Seen { raw, .. }) => *raw == here.raw,
            Thing::Step(Step::Filter { filter, .. }) => is_filter(filter, here),
            Thing::Step(_) => false,
        }
}

/// Whether both match the same packets, so that they can't stand side by side.
fn same_match(thing: &Thing, here: &ObservedFilter) -> bool {
    let Place::Filter { handle, .. } = thing.place() else { return false };
    match thing {
        Thing::Seen(_) => name(&here.kind, handle) == name(&here.kind, here.handle),
        Thing::Step(Step::Filter { filter, .. }) => {
            let named = handle != 0 && handle == here.handle;
            named
                || here.filter.as_ref().is_some_and(|f| match (&filter.kind, &f.kind) {
                    (crate::FilterKind::Flower(a), crate::FilterKind::Flower(b)) => a == b,
                    _ => false,
                })
        }
        Thing::Step(_) => false,
    }
}

/// The kernel's name for a filter without what it made up: u32's hash table is numbered as it comes.
pub(super) fn name(kind: &str, handle: u32) -> u32 {
    if kind == "u32" { handle & 0xfff } else { handle }
}
