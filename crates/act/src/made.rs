//! What was there when all steps had been taken: of each queue, class and filter its place and a number for its options.

use crate::guests::classes;
use crate::place::{is_hook, same_device, settled};
use crate::steps::Now;
use crate::{DeviceBefore, DeviceGoal, Goal, Guests};
use quell_tc::{Place, Seen, Thing};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What an interface had when all steps were taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    pub(crate) name: String,
    pub(crate) index: Option<u32>,
    pub(crate) things: Vec<Print>,
    /// Classes that come and go beside them.
    pub(crate) guests: Vec<Guests>,
}

/// A queue, class or filter, and a number for its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Print {
    pub place: Place,
    pub kind: String,
    pub options: u64,
}

impl Made {
    /// All that is there of what a goal names.
    pub(crate) fn of(goal: &Goal, now: &Now) -> Vec<Made> {
        let print = |seen: &Seen| Print {
            place: settled(seen.place, &seen.kind),
            kind: seen.kind.clone(),
            options: seen.raw.fingerprint(),
        };
        let made = |device: DeviceBefore| Made {
            things: device.things.iter().map(print).collect(),
            name: device.name,
            index: device.index,
            guests: Vec::new(),
        };
        let made = now.before(goal).devices.into_iter().map(made);
        let own = |device: &DeviceGoal| device.things.iter().map(Thing::place).collect::<Vec<_>>();
        let owns = goal.devices.iter().map(own);
        made.zip(owns).map(|(made, own)| made.with_guests(&goal.guests, own.into_iter())).collect()
    }
}

impl Made {
    /// Without guests, which are noted as such; at `own` places is what is not theirs.
    fn with_guests(mut self, guests: &[Guests], own: impl Iterator<Item = Place>) -> Self {
        let of = guests.iter().filter(|guests| guests.device == self.name);
        self.guests = of.cloned().collect();
        let own = classes(own);
        let guests = &self.guests;
        self.things.retain(|print| !guests.iter().any(|g| g.hold(print.place, &own)));
        self
    }

    /// Those things that an earlier change made as well, as they are now.
    pub(crate) fn of_those_in(mut self, earlier: &[Made]) -> Made {
        let same = earlier.iter().find(|made| made.name == self.name);
        let known = same.map_or(&[][..], |made| &made.things).iter();
        let known: BTreeSet<(Place, &str)> = known.map(|p| (p.place, p.kind.as_str())).collect();
        self.things.retain(|print| known.contains(&(print.place, print.kind.as_str())));
        self
    }

    /// But for a root queue, or filters, that are somebody else's.
    pub(crate) fn without(&self, their_root: bool, their_hooks: &[Seen]) -> Made {
        let theirs = |print: &Print| {
            let same =
                |s: &Seen| (settled(s.place, &s.kind), &s.kind) == (print.place, &print.kind);
            their_hooks.iter().any(same) || (their_root && !is_hook(print.place))
        };
        let things = self.things.iter().filter(|print| !theirs(print)).cloned().collect();
        Made { things, ..self.clone() }
    }

    /// Whether it is about the interface of which something was found.
    pub(crate) fn is_of(&self, found: &DeviceBefore) -> bool {
        same_device((&self.name, self.index), (&found.name, found.index))
    }
}
