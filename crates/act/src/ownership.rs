//! What is ours on an interface, and what is somebody else's. A queue's kind and handle tell nobody apart: half of all scripts make an
//! `htb 1:`.
//!
//! ```text
//!   Log: Installed, all that was there when the last step was taken ─┐
//!                                                               ├─ the same, byte for byte: ours
//!   what is there now ──────────────────────────────────────────┘  else whoever changed it owns it
//! ```
//!
//! In the middle of a change nobody wrote down what was there. Then what may be there of it is known: what was there before, and what was
//! to be made, by their places and kinds.

use crate::dynamic::classes;
use crate::installed::Installed;
use crate::installed::{is_hook, settled};
use crate::steps::Now;
use crate::{Before, Change, DeviceBefore, DynamicClasses, Goal, Log, Standing};
use quell_tc::{Handle, Place, Seen, Thing};
use std::collections::{BTreeMap, BTreeSet};

fn root(things: &[Seen]) -> Option<&Seen> {
    let is_root = |s: &&Seen| matches!(s.place, Place::Qdisc { parent: Handle::ROOT, .. });
    things.iter().find(is_root)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// There is none, or it is as we left it.
    Ours,
    /// All that we made is there and nothing else, with other options: somebody tried one, or made the like.
    Changed(String),
    /// It has the name and kind of ours, and what is in it is something else.
    Unlike(String),
    Theirs(String),
}

/// Whose the root queue of `found` is, after a change that is in force. `name` is the interface's.
pub(crate) fn whose_root(log: Option<&Log>, found: &DeviceBefore, name: &str) -> Ownership {
    let Some(here) = root(&found.things) else { return Ownership::Ours };
    let Some(made) = log.and_then(|log| log.made_on(found)) else {
        return Ownership::Theirs(format!("{name}: {}", Thing::Seen(here.clone())));
    };
    let mut left: BTreeMap<(Place, &str), u64> = made
        .things
        .iter()
        .filter(|print| !is_hook(print.place))
        .map(|print| ((print.place, print.kind.as_str()), print.options))
        .collect();
    if !left.contains_key(&(here.place, here.kind.as_str())) {
        return Ownership::Theirs(format!("{name}: {}", Thing::Seen(here.clone())));
    }
    let (mut changed, mut new) = (None, None);
    for seen in found.things.iter().filter(|seen| !is_hook(seen.place)) {
        let thing = || Thing::Seen(seen.clone());
        match left.remove(&(settled(seen.place, &seen.kind), seen.kind.as_str())) {
            None => new = new.or_else(|| Some(format!("{} is new", thing()))),
            Some(options) if options != seen.raw.fingerprint() => {
                changed = changed.or_else(|| Some(format!("{} has other options", thing())));
            }
            Some(_) => {}
        }
    }
    let gone = left.first_key_value().map(|((place, kind), _)| {
        let (raw, kind) = (quell_tc::observed::Raw::default(), (*kind).to_owned());
        format!("{} is gone", Thing::Seen(Seen { place: *place, kind, raw }))
    });
    let unlike = |why| {
        let root = Thing::Seen(here.clone());
        format!("{name}: {root} is not as Quell left it: {why}")
    };
    match (new.or(gone), changed) {
        (Some(why), _) => Ownership::Unlike(unlike(why)),
        (None, Some(why)) => Ownership::Changed(unlike(why)),
        (None, None) => Ownership::Ours,
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ForeignQueues {
    /// The interface, and what it has.
    pub found: DeviceBefore,
    pub name: String,
    pub root: Ownership,
    /// Filters on the way in, and what they hang on.
    pub hooks: Vec<Seen>,
}

impl ForeignQueues {
    /// What is others' of all that was found, when a change is in force, or none.
    pub(crate) fn of(log: Option<&Log>, found: &Before, now: &Now) -> Vec<ForeignQueues> {
        let one = |found: &DeviceBefore| {
            let name = now.name_of(found);
            ForeignQueues {
                root: whose_root(log, found, &name),
                hooks: their_hooks(log, found).into_iter().cloned().collect(),
                name,
                found: found.clone(),
            }
        };
        found.devices.iter().map(one).collect()
    }

    pub(crate) fn has_root(&self) -> bool {
        matches!(self.root, Ownership::Unlike(_) | Ownership::Theirs(_))
    }

    pub(crate) fn words(&self) -> Vec<String> {
        let root = match &self.root {
            Ownership::Ours => None,
            Ownership::Changed(words) | Ownership::Unlike(words) | Ownership::Theirs(words) => {
                Some(format!("  {words}"))
            }
        };
        // What hangs on a hook that is not ours is nobody's news.
        let hook = |seen: &&Seen| matches!(seen.place, Place::Qdisc { .. });
        let whole = self.hooks.iter().any(|seen| hook(&seen));
        let hooks = self.hooks.iter().filter(|seen| !whole || hook(seen));
        let hooks = hooks.map(|seen| format!("  {}: {}", self.name, Thing::Seen(seen.clone())));
        root.into_iter().chain(hooks).collect()
    }
}

/// The filters on the way in that somebody else put there, after a change that is in force.
pub(crate) fn their_hooks<'a>(log: Option<&Log>, found: &'a DeviceBefore) -> Vec<&'a Seen> {
    let hooks = found.things.iter().filter(|seen| is_hook(seen.place));
    let Some(made) = log.and_then(|log| log.made_on(found)) else { return hooks.collect() };
    let ours = |seen: &&Seen| {
        made.things.iter().any(|print| {
            let same = (print.place, &print.kind) == (settled(seen.place, &seen.kind), &seen.kind);
            // Ours that sends packets nowhere was changed by whoever deleted the IFB.
            same && (print.options == seen.raw.fingerprint() || seen.raw.aims_at_nothing)
        })
    };
    hooks.filter(|seen| !ours(seen)).collect()
}

/// What of a device may be there in the middle of a change: what was there before, and what was to be made.
struct Possible<'a> {
    device: &'a DeviceBefore,
    before: BTreeSet<(Place, &'a str)>,
    ours: BTreeSet<(Place, &'a str)>,
}

impl<'a> Possible<'a> {
    fn of(device: &'a DeviceBefore) -> Self {
        let before = device.things.iter();
        Possible {
            before: before.map(|s| (settled(s.place, &s.kind), s.kind.as_str())).collect(),
            ours: device.ours.iter().map(|(place, kind)| (*place, kind.as_str())).collect(),
            device,
        }
    }

    fn holds(&self, seen: &Seen) -> bool {
        let (place, kind) = (settled(seen.place, &seen.kind), seen.kind.as_str());
        // A filter that the kernel was to name, or to order.
        let unnamed = |of: &BTreeSet<(Place, &str)>| match place {
            Place::Filter { parent, chain, prio, protocol, .. } => [prio, 0].iter().any(|prio| {
                let prio = *prio;
                of.contains(&(Place::Filter { parent, chain, prio, protocol, handle: 0 }, kind))
            }),
            _ => false,
        };
        self.before.contains(&(place, kind))
            || self.ours.contains(&(place, kind))
            || unnamed(&self.ours)
    }

    /// What is there and can't be of this change.
    fn stranger<'b>(&self, found: &'b DeviceBefore) -> Option<&'b Seen> {
        let things = found.things.iter().filter(|seen| !is_hook(seen.place));
        let (mut things, root) = (things, root(&found.things)?);
        let is_ours = self.device.ours.iter().any(|(p, k)| (*p, k) == (root.place, &root.kind));
        let was = self.before.contains(&(root.place, root.kind.as_str()));
        if is_ours || was { things.find(|seen| !self.holds(seen)) } else { Some(root) }
    }
}

/// Takes out of the way back what somebody has put there since: a root queue that can't be of this change, and with it the IFB that it is
/// on; and filters on the way in. What there is to say of that.
pub(crate) fn leave_to_others(log: &Log, before: &mut Before, now: &Now) -> Vec<String> {
    // Until the time to confirm is over all of ours is there.
    let waits = matches!(log.standing, Standing::Awaiting(_));
    leave(before, now, |found| !waits || log.has_all_made(found))
}

/// The same in the middle of the way back, when only a part of ours may be there.
pub(crate) fn leave_strangers(before: &mut Before, now: &Now) -> Vec<String> {
    leave(before, now, |_| true)
}

fn leave(before: &mut Before, now: &Now, is_whole: impl Fn(&DeviceBefore) -> bool) -> Vec<String> {
    let mut found = now.before(&Goal::from(&*before));
    before.leave_dynamic_out_of(&mut found);
    let mut said = Vec::new();
    let mut kept = Vec::new();
    for (device, found) in before.devices.iter_mut().zip(&found.devices) {
        let name = now.name_of(found);
        let possible = Possible::of(device);
        let stranger = possible.stranger(found).is_some() || !is_whole(found);
        let hooks = found.things.iter().filter(|seen| is_hook(seen.place));
        let theirs: Vec<Seen> = hooks.filter(|seen| !possible.holds(seen)).cloned().collect();
        if let (true, Some(root)) = (stranger, root(&found.things)) {
            let root = Thing::Seen(root.clone());
            said.push(format!("{name}: somebody else has put {root} there since; it stays"));
            kept.push(device.leave_root());
        }
        said.extend(device.leave_hooks(theirs, found, &name));
    }
    before.links.retain(|link| !kept.contains(&link.name));
    said
}

impl Before {
    /// Leaves out the dynamic classes of what is in force, and notes that there may be some.
    pub(crate) fn leave_dynamic_out(&mut self, made: &[Installed]) {
        for device in &mut self.devices {
            let Some(made) = made.iter().find(|made| made.is_of(device)) else { continue };
            let name = &device.name;
            let renamed = |dynamic: &DynamicClasses| DynamicClasses {
                device: name.clone(),
                ..dynamic.clone()
            };
            let dynamic: Vec<DynamicClasses> = made.dynamic.iter().map(renamed).collect();
            device.drop_dynamic(&dynamic, &classes(made.things.iter().map(|print| print.place)));
            self.dynamic.extend(dynamic);
        }
    }

    /// Leaves out of what was found just now the dynamic classes of this change, and of what was in force before it.
    fn leave_dynamic_out_of(&self, found: &mut Before) {
        for (device, found) in self.devices.iter().zip(&mut found.devices) {
            let all = self.dynamic.iter().chain(&self.our_dynamic);
            let dynamic: Vec<DynamicClasses> =
                all.filter(|g| g.device == device.name).cloned().collect();
            let had = device.things.iter().map(|seen| seen.place);
            let own = classes(had.chain(device.ours.iter().map(|(place, _)| *place)));
            found.drop_dynamic(&dynamic, &own);
        }
    }
}

impl Before {
    /// Without root queues and hooks that were not made, since these steps were not taken: what is there in such a place is not ours, whatever
    /// its name.
    pub(crate) fn without_those_of(&mut self, steps: &[Change]) {
        for step in steps {
            let Change::Queue { device: target, change: quell_tc::Change::Make(thing) } = step
            else {
                continue;
            };
            let Place::Qdisc { parent: parent @ (Handle::ROOT | Handle::INGRESS), .. } =
                thing.place()
            else {
                continue;
            };
            let meant = |d: &&mut DeviceBefore| d.is(&target.name, target.index);
            if let Some(device) = self.devices.iter_mut().find(meant) {
                device.ours.retain(|(place, _)| is_hook(*place) != (parent == Handle::INGRESS));
            }
        }
    }
}

impl DeviceBefore {
    fn drop_dynamic(&mut self, dynamic: &[DynamicClasses], own: &BTreeSet<Handle>) {
        let hold = |seen: &Seen| dynamic.iter().any(|dynamic| dynamic.hold(seen.place, own));
        self.things.retain(|seen| !hold(seen));
    }

    /// Leaves the root place alone. The interface's name.
    pub(crate) fn leave_root(&mut self) -> String {
        self.root = false;
        self.things.retain(|seen| is_hook(seen.place));
        self.name.clone()
    }

    /// Leaves these filters on the way in alone, and what they hang on.
    pub(crate) fn leave_hooks(
        &mut self,
        theirs: Vec<Seen>,
        found: &DeviceBefore,
        name: &str,
    ) -> Vec<String> {
        let said = theirs.iter().map(|seen| {
            let filter = Thing::Seen(seen.clone());
            format!("{name}: somebody else has put {filter} there since; it stays")
        });
        let said: Vec<String> = said.collect();
        if !theirs.is_empty() && self.ingress {
            let hook = |s: &&Seen| is_hook(s.place) && matches!(s.place, Place::Qdisc { .. });
            if let Some(hook) = found.things.iter().find(hook)
                && !self.things.iter().any(|seen| seen.place == hook.place)
            {
                self.things.push(hook.clone());
            }
            self.things
                .extend(theirs.into_iter().filter(|s| !matches!(s.place, Place::Qdisc { .. })));
        }
        said
    }
}

impl Before {
    /// Takes over what somebody has put there since, since that is what is to come back now: root queues of these interfaces, and filters
    /// on the way in.
    pub(crate) fn take_in(&mut self, found: &DeviceBefore, root: bool, hooks: Vec<Seen>) {
        let same = |d: &&mut DeviceBefore| d.is(&found.name, found.index);
        let Some(own) = self.devices.iter_mut().find(same) else { return };
        if root {
            own.things.retain(|seen| is_hook(seen.place));
            let theirs = found.things.iter().filter(|seen| !is_hook(seen.place));
            own.things.extend(theirs.cloned());
        }
        let _ = own.leave_hooks(hooks, found, "");
    }

    /// Without filters that send packets to an IFB that was deleted: they only drop them. What there is to say of that.
    pub(crate) fn without_aimless_hooks(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        for device in &mut self.devices {
            let name = &device.name;
            device.things.retain(|seen| {
                let aimless = seen.raw.aims_at_nothing && is_hook(seen.place);
                if aimless {
                    let filter = Thing::Seen(seen.clone());
                    said.push(format!(
                        "{name}: {filter} sent all packets to an interface that was deleted"
                    ));
                }
                !aimless
            });
        }
        said
    }
}

impl Log {
    fn made_on(&self, found: &DeviceBefore) -> Option<&Installed> {
        self.made.iter().find(|made| made.is_of(found))
    }

    /// Whether all that was made below a root queue is there, with whatever options.
    fn has_all_made(&self, found: &DeviceBefore) -> bool {
        let here: BTreeSet<(Place, &str)> =
            found.things.iter().map(|s| (settled(s.place, &s.kind), s.kind.as_str())).collect();
        let made = self.made_on(found).map_or(&[][..], |made| &made.things);
        let mut below = made.iter().filter(|print| !is_hook(print.place));
        below.all(|print| here.contains(&(print.place, print.kind.as_str())))
    }
}
