//! The part of a goal that is tried first: of thousands of classes that are alike, a few.
//!
//! ```text
//!   htb 1: ─ 1:1 ┬ 1:17  another ceiling     ─►  htb 1: ─ 1:1 ┬ 1:17
//!                ├ 1:18  as it was                            ├ 1:18
//!                └ … 1:2727, all as it was                    └ … 1:21
//! ```
//!
//! What a kernel refuses of a class it refuses of each that is asked for with the same options in the same place; and each class that it makes takes
//! it the longer the more there are (`tc_bind_tclass`, net/sched/sch_api.c, walks over all of them). Where only their number is too much, that
//! shows in the steps themselves, of which each prefix can be taken back.

use crate::steps::Now;
use crate::{Before, DeviceBefore, DeviceGoal, Goal};
use quell_tc::{Handle, Place, Seen, Step, Thing};
use std::collections::{BTreeMap, BTreeSet};

/// An interface with fewer things is tried whole.
const MANY: usize = 300;

/// Classes of one sort that are tried.
const OF_A_SORT: usize = 4;

/// What is to be tried, of what there was and of a goal.
pub(crate) fn of(before: &Before, goal: &Goal, now: &Now) -> (Before, Goal) {
    let (mut before, mut goal) = (before.clone(), goal.clone());
    for wanted in &mut goal.devices {
        let same = |had: &&mut DeviceBefore| had.is(&wanted.name, wanted.index);
        let mut had = before.devices.iter_mut().find(same);
        let there = had.as_ref().map_or(0, |had| had.things.len());
        if wanted.things.len().max(there) < MANY {
            continue;
        }
        let names = classes_named(now, wanted);
        let tried = Tried::of(had.as_deref(), wanted);
        wanted.things.retain(|thing| match thing {
            Thing::Step(Step::Filter { parent, filter }) => tried.filter(*parent, filter.class),
            Thing::Seen(Seen { place: place @ Place::Filter { parent, .. }, .. }) => {
                tried.filter(*parent, names.get(place).copied())
            }
            other => tried.holds(other.place()),
        });
        if let Some(had) = &mut had {
            had.things.retain(|seen| match seen.place {
                Place::Filter { parent, .. } => {
                    tried.filter(parent, names.get(&seen.place).copied())
                }
                place => tried.holds(place),
            });
        }
    }
    (before, goal)
}

/// The classes that the filters of an interface name.
fn classes_named(now: &Now, device: &DeviceGoal) -> BTreeMap<Place, Handle> {
    let index = now.target(device).and_then(|target| target.index);
    let filters = index.and_then(|index| now.queues.get(&index)).map(|there| &there.filters);
    let named = filters.into_iter().flatten();
    named.filter_map(|f| Some((f.place(), f.filter.as_ref()?.class?))).collect()
}

/// The classes that are tried, and all that are known.
struct Tried {
    tried: BTreeSet<Handle>,
    known: BTreeSet<Handle>,
    /// Where each queue hangs.
    queues: BTreeMap<Handle, Handle>,
}

/// What a class is like: where it is, its options and those of the queue in it.
#[derive(Default)]
struct Look {
    parent: Option<Handle>,
    options: String,
    leaf: String,
}

impl Tried {
    fn of(had: Option<&DeviceBefore>, wanted: &DeviceGoal) -> Self {
        let mut looks: BTreeMap<Handle, [Look; 2]> = BTreeMap::new();
        let (mut above, mut queues) = (BTreeMap::new(), BTreeMap::new());
        let mut take = |side: usize, place: Place, options: String| match place {
            Place::Class { parent, id } => {
                above.insert(id, parent);
                let look = &mut looks.entry(id).or_default()[side];
                (look.parent, look.options) = (Some(parent), options);
            }
            Place::Qdisc { parent, handle } => {
                above.insert(handle, parent);
                queues.insert(handle, parent);
                looks.entry(parent).or_default()[side].leaf = options;
            }
            Place::Filter { .. } => {}
        };
        let seen = |seen: &Seen| format!("{} {:x}", seen.kind, seen.raw.fingerprint());
        for thing in had.iter().flat_map(|had| &had.things) {
            take(0, thing.place, seen(thing));
        }
        for thing in &wanted.things {
            let options = match thing {
                Thing::Seen(thing) => seen(thing),
                Thing::Step(Step::Class { kind, .. }) => format!("{kind:?}"),
                Thing::Step(Step::Qdisc { qdisc, .. }) => format!("{qdisc:?}"),
                Thing::Step(_) => String::new(),
            };
            take(1, thing.place(), options);
        }
        let mut sorts = BTreeMap::new();
        let mut left = Vec::new();
        for (id, looks) in &looks {
            let sort = looks.each_ref().map(|look| (look.parent, &look.options, &look.leaf));
            let count = sorts.entry(sort).or_insert(0);
            *count += 1;
            if *count <= OF_A_SORT {
                left.push(*id);
            }
        }
        let known = looks.keys().copied().collect();
        let mut tried = BTreeSet::new();
        while let Some(at) = left.pop() {
            if tried.insert(at) {
                left.extend(above.get(&at));
            }
        }
        Tried { tried, known, queues }
    }

    fn holds(&self, place: Place) -> bool {
        match place {
            Place::Class { id, .. } => self.tried.contains(&id),
            Place::Qdisc { parent, handle } => {
                self.tried.contains(&parent) || self.tried.contains(&handle)
            }
            Place::Filter { .. } => true,
        }
    }

    /// A filter at a place, and the class that it names.
    fn filter(&self, parent: Handle, class: Option<Handle>) -> bool {
        let is = |handle: Handle| !self.known.contains(&handle) || self.tried.contains(&handle);
        let there = match self.queues.get(&parent) {
            Some(above) => self.holds(Place::Qdisc { parent: *above, handle: parent }),
            None => is(parent),
        };
        there && class.is_none_or(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_tc::observed::Raw;
    use quell_tc::{Places, Tree};

    fn things(ceilings: impl Fn(u16) -> &'static str) -> Vec<Thing> {
        let class = |n: u16| {
            let ceiling = ceilings(n);
            format!(
                r#"{{ id = "1:{n:x}", rate = "1Mbit", ceil = "{ceiling}", queue = {{ kind = "pfifo", handle = "{n:x}:" }} }}, "#
            )
        };
        let filter =
            |n: u16| format!(r#"{{ kind = "fw", handle = {n}, prio = 1, class = "1:{n:x}" }}, "#);
        let classes: String = (2..302).map(class).collect();
        let filters: String = (2..302).map(filter).collect();
        let text = format!(
            r#"queue = {{ kind = "htb", handle = "1:", class = [ {{ id = "1:1", rate = "9Mbit", class = [ {classes} ] }} ], filter = [ {filters} ] }}"#
        );
        toml::from_str::<Tree>(&text).unwrap().plan().unwrap().things()
    }

    fn goal(things: Vec<Thing>) -> Goal {
        let (name, index) = ("eth0".into(), Some(2));
        let device = DeviceGoal { name, index, places: Places::ALL, things };
        Goal { devices: vec![device], ..Goal::default() }
    }

    /// As a kernel would have shown it; options that differ have other bytes.
    fn before(things: &[Thing]) -> Before {
        let seen = |thing: &Thing| {
            let options = match thing {
                Thing::Step(Step::Class { kind, .. }) => format!("{kind:?}"),
                _ => String::new(),
            };
            let raw = Raw { options: Some(options.into_bytes()), ..Raw::default() };
            Seen { place: thing.place(), kind: thing.kind().to_owned(), raw }
        };
        let device = DeviceBefore {
            name: "eth0".into(),
            index: Some(2),
            root: true,
            ingress: true,
            things: things.iter().map(seen).collect(),
            ours: Vec::new(),
        };
        Before { devices: vec![device], ..Before::default() }
    }

    fn classes(goal: &Goal) -> Vec<u16> {
        let id = |thing: &Thing| match thing.place() {
            Place::Class { id, .. } => Some(id.minor),
            _ => None,
        };
        goal.devices[0].things.iter().filter_map(id).collect()
    }

    #[test]
    fn of_hundreds_that_are_alike_a_few_are_tried_and_each_that_is_not() {
        let odd = |n: u16| match n {
            7 => "2Mbit",
            200..300 => "3Mbit",
            _ => "4Mbit",
        };
        let (_, tried) = of(&Before::default(), &goal(things(odd)), &Now::default());
        assert_eq!(classes(&tried), [1, 2, 3, 4, 5, 7, 200, 201, 202, 203]);
        // The root, those ten, the queues of nine, and their filters.
        assert_eq!(tried.devices[0].things.len(), 1 + 10 + 9 + 9);
        tried.devices[0].things.iter().for_each(|thing| assert_ne!(thing.to_string(), ""));
    }

    #[test]
    fn another_ceiling_for_one_is_tried_beside_a_few_others() {
        let (was, wanted) =
            (things(|_| "4Mbit"), things(|n| if n == 300 { "5Mbit" } else { "4Mbit" }));
        let (before, tried) = of(&before(&was), &goal(wanted), &Now::default());
        assert_eq!(classes(&tried), [1, 2, 3, 4, 5, 300]);
        let had = &before.devices[0].things;
        let queues = had.iter().filter(|seen| matches!(seen.place, Place::Qdisc { .. })).count();
        assert_eq!(queues, 1 + 5);
    }

    #[test]
    fn what_goes_and_what_comes_is_tried() {
        let mut wanted = things(|_| "4Mbit");
        let was = before(&wanted);
        wanted.retain(|thing| match thing.place() {
            Place::Class { id, .. } => id.minor != 250,
            Place::Qdisc { handle, .. } => handle.major != 250,
            Place::Filter { handle, .. } => handle != 250,
        });
        let (before, tried) = of(&was, &goal(wanted), &Now::default());
        assert_eq!(classes(&tried), [1, 2, 3, 4, 5]);
        let gone = Handle::class(1, 250);
        let is = |seen: &Seen| matches!(seen.place, Place::Class { id, .. } if id == gone);
        assert!(before.devices[0].things.iter().any(is), "it would have to come back");
    }

    #[test]
    fn the_groups_of_those_that_are_tried_are_there() {
        // Six that are alike, fifty subscribers in each.
        let class = |n: u16| format!(r#"{{ id = "1:{n:x}", rate = "1Mbit" }}, "#);
        let group = |g: u16| {
            let inside: String = (0..50).map(|n| class(100 * g + n)).collect();
            format!(r#"{{ id = "1:{g:x}", rate = "9Mbit", class = [ {inside} ] }}, "#)
        };
        let groups: String = (1..=6).map(group).collect();
        let text = format!(r#"queue = {{ kind = "htb", handle = "1:", class = [ {groups} ] }}"#);
        let things = toml::from_str::<Tree>(&text).unwrap().plan().unwrap().things();
        let (_, tried) = of(&Before::default(), &goal(things), &Now::default());
        let classes = classes(&tried);
        assert!((1..=6).all(|group| classes.contains(&group)), "{classes:?}");
        assert_eq!(classes.len(), 6 + 6 * 4);
    }

    #[test]
    fn what_is_small_is_tried_whole() {
        let mut few = things(|_| "4Mbit");
        few.retain(|thing| !matches!(thing.place(), Place::Filter { .. }));
        few.truncate(250);
        let (_, tried) = of(&Before::default(), &goal(few.clone()), &Now::default());
        assert_eq!(tried, goal(few));
    }
}
