//! Classes that come and go while a change is in force: whoever makes them and takes them off does so beside it.
//!
//! ```text
//!   htb 1: ─ 1:1 ┬ 1:fffe   the change's own: made, compared, brought back
//!                ├ 1:17     a dynamic class: no step is about it, nobody calls it foreign,
//!                └ 1:18     and it goes with the queue that it is in
//! ```

use quell_tc::observed::Snapshot;
use quell_tc::{Handle, Place};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The numbers of classes of a queue that come and go, with what is in them. One that is a change's own is none of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DynamicClasses {
    /// The interface, as the goal or what was there names it.
    pub device: String,
    pub queue: u16,
    /// The first class's minor.
    pub from: u16,
    pub to: u16,
}

impl DynamicClasses {
    /// The class in which a place is, if that is one that may come and go.
    fn class_of(&self, place: Place) -> Option<Handle> {
        let class = match place {
            Place::Class { id, .. } => id,
            Place::Qdisc { parent, .. } | Place::Filter { parent, .. } => parent,
        };
        let held = class.major == self.queue && (self.from..=self.to).contains(&class.minor);
        held.then_some(class)
    }

    /// Whether a place is in a dynamic class, where these classes are the change's own.
    pub(crate) fn hold(&self, place: Place, own: &BTreeSet<Handle>) -> bool {
        self.class_of(place).is_some_and(|class| !own.contains(&class))
    }
}

pub(crate) fn classes(places: impl Iterator<Item = Place>) -> BTreeSet<Handle> {
    let class = |place| match place {
        Place::Class { id, .. } => Some(id),
        _ => None,
    };
    places.filter_map(class).collect()
}

/// What is there on an interface of this name, without classes that come and go; at `own` places are what is the change's own.
pub(crate) fn without_dynamic<'a>(
    dynamic: &[DynamicClasses],
    device: &str,
    own: impl Iterator<Item = Place>,
    snapshot: &'a Snapshot,
) -> Cow<'a, Snapshot> {
    let of: Vec<&DynamicClasses> =
        dynamic.iter().filter(|dynamic| dynamic.device == device).collect();
    if of.is_empty() {
        return Cow::Borrowed(snapshot);
    }
    let own = classes(own);
    let stays = |place: Place| !of.iter().any(|dynamic| dynamic.hold(place, &own));
    let mut left = snapshot.clone();
    left.classes.retain(|class| stays(class.place()));
    left.qdiscs.retain(|queue| stays(queue.place()));
    left.filters.retain(|filter| stays(filter.place()));
    Cow::Owned(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_guests_class_is_the_guests_and_what_is_in_ones_own_is_not() {
        let dynamic = DynamicClasses { device: "eth0".into(), queue: 1, from: 0x10, to: 0x20 };
        let own = BTreeSet::from([Handle::class(1, 0x11)]);
        let class =
            |minor| Place::Class { parent: Handle::class(1, 1), id: Handle::class(1, minor) };
        let leaf =
            |minor| Place::Qdisc { parent: Handle::class(1, minor), handle: Handle::qdisc(minor) };
        for (minor, is) in [(0xf, false), (0x10, true), (0x11, false), (0x20, true), (0x21, false)]
        {
            assert_eq!(dynamic.hold(class(minor), &own), is, "{minor:x}");
            assert_eq!(dynamic.hold(leaf(minor), &own), is, "{minor:x}");
        }
        let root = Place::Qdisc { parent: Handle::ROOT, handle: Handle::qdisc(1) };
        assert!(!dynamic.hold(root, &own));
    }
}
