//! What was there when all steps had been taken: of each queue, class and filter its place and a number for its options.

use crate::dynamic::classes;
use crate::goal::same_device;
use crate::steps::Now;
use crate::{DeviceBefore, DeviceGoal, DynamicClasses, Goal};
use quell_tc::{Handle, Place, Seen, Thing};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A place without what the kernel makes up: u32's hash table is numbered as it comes.
pub(crate) fn settled(mut place: Place, kind: &str) -> Place {
    if let (Place::Filter { handle, .. }, "u32") = (&mut place, kind) {
        *handle &= 0xfff;
    }
    place
}

pub(crate) fn is_hook(place: Place) -> bool {
    match place {
        Place::Qdisc { parent, .. } => parent == Handle::INGRESS,
        Place::Class { .. } => false,
        Place::Filter { parent, .. } => parent.major == u16::MAX,
    }
}

/// What an interface had when all steps were taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    pub(crate) name: String,
    pub(crate) index: Option<u32>,
    pub(crate) things: Vec<Fingerprint>,
    /// Classes that come and go beside them.
    pub(crate) dynamic: Vec<DynamicClasses>,
}

/// A queue, class or filter, and a number for its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    pub place: Place,
    pub kind: String,
    pub options: u64,
}

impl Installed {
    pub(crate) fn of(goal: &Goal, now: &Now) -> Vec<Installed> {
        let print = |seen: &Seen| Fingerprint {
            place: settled(seen.place, &seen.kind),
            kind: seen.kind.clone(),
            options: seen.raw.fingerprint(),
        };
        let made = |device: DeviceBefore| Installed {
            things: device.things.iter().map(print).collect(),
            name: device.name,
            index: device.index,
            dynamic: Vec::new(),
        };
        let made = now.before(goal).devices.into_iter().map(made);
        let own = |device: &DeviceGoal| device.things.iter().map(Thing::place).collect::<Vec<_>>();
        let owns = goal.devices.iter().map(own);
        made.zip(owns)
            .map(|(made, own)| made.with_dynamic(&goal.dynamic, own.into_iter()))
            .collect()
    }
}

impl Installed {
    /// Without classes that come and go, which are noted as such; at `own` places is what is not theirs.
    fn with_dynamic(
        mut self,
        dynamic: &[DynamicClasses],
        own: impl Iterator<Item = Place>,
    ) -> Self {
        let of = dynamic.iter().filter(|dynamic| dynamic.device == self.name);
        self.dynamic = of.cloned().collect();
        let own = classes(own);
        let dynamic = &self.dynamic;
        self.things.retain(|print| !dynamic.iter().any(|g| g.hold(print.place, &own)));
        self
    }

    /// Those things that an earlier change made as well, as they are now.
    pub(crate) fn of_those_in(mut self, earlier: &[Installed]) -> Installed {
        let same = earlier.iter().find(|made| made.name == self.name);
        let known = same.map_or(&[][..], |made| &made.things).iter();
        let known: BTreeSet<(Place, &str)> = known.map(|p| (p.place, p.kind.as_str())).collect();
        self.things.retain(|print| known.contains(&(print.place, print.kind.as_str())));
        self
    }

    /// But for a root queue, or filters, that are somebody else's.
    pub(crate) fn without(&self, their_root: bool, their_hooks: &[Seen]) -> Installed {
        let theirs = |print: &Fingerprint| {
            let same =
                |s: &Seen| (settled(s.place, &s.kind), &s.kind) == (print.place, &print.kind);
            their_hooks.iter().any(same) || (their_root && !is_hook(print.place))
        };
        let things = self.things.iter().filter(|print| !theirs(print)).cloned().collect();
        Installed { things, ..self.clone() }
    }

    /// Whether it is about the interface of which something was found.
    pub(crate) fn is_of(&self, found: &DeviceBefore) -> bool {
        same_device((&self.name, self.index), (&found.name, found.index))
    }
}
