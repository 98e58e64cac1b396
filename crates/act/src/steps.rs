//! What is there, and the steps from there to a goal.

use crate::dynamic::without_dynamic;
use crate::{
    Before, DeviceBefore, DeviceGoal, FileGoal, Goal, HostTableGoal, LinkGoal, OwnRoute, Refusal,
    RouteGoal, SysctlGoal,
};
use quell_tc::observed::Snapshot;
use quell_tc::{Places, Thing, seen};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceTarget {
    pub name: String,
    /// Its number; by name where there is none, since an earlier step makes it.
    pub index: Option<u32>,
}

#[allow(clippy::large_enum_variant, reason = "nearly all are of the larger one")]
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Makes an IFB, with an address by which it is known to be ours, and switches it on.
    MakeIfb {
        name: String,
        mac: [u8; 6],
        /// Its number, where it had one that packets are still to be sent to.
        index: Option<u32>,
    },
    /// Switches an IFB of ours on, which was made and no more.
    SwitchOn(DeviceTarget),
    DeleteIfb(DeviceTarget),
    Queue {
        device: DeviceTarget,
        change: quell_tc::Change,
    },
    Sysctl(SysctlGoal),
    Route(RouteGoal),
    /// Makes the table that marks packets of an interface with their hosts, or takes it away.
    HostTable(HostTableGoal),
    /// Writes a file, whole or not at all, or takes it away.
    File(FileGoal),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::MakeIfb { name, .. } => write!(f, "make the IFB {name}"),
            Change::SwitchOn(target) => write!(f, "switch {} on", target.name),
            Change::DeleteIfb(target) => write!(f, "delete the IFB {}", target.name),
            Change::Queue { device, change } => write!(f, "{}: {change}", device.name),
            Change::Sysctl(SysctlGoal { key, value }) => write!(f, "set {key} to {value}"),
            Change::Route(RouteGoal { to, route: Some(route) }) => write!(f, "route {to} {route}"),
            Change::Route(RouteGoal { to, route: None }) => {
                write!(f, "take the route to {to} away")
            }
            Change::HostTable(HostTableGoal { device, there: true }) => {
                write!(
                    f,
                    "make the nftables table ip quell-hosts-{device}: what passes {device} is marked with its host"
                )
            }
            Change::HostTable(HostTableGoal { device, there: false }) => {
                write!(f, "take the nftables table ip quell-hosts-{device} away")
            }
            Change::File(FileGoal { path, content: Some(_) }) => {
                write!(f, "write {}", path.display())
            }
            Change::File(FileGoal { path, content: None }) => {
                write!(f, "take {} away", path.display())
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Now {
    pub links: BTreeMap<String, LinkNow>,
    /// Queues by the number of their interface.
    pub queues: BTreeMap<u32, Snapshot>,
    /// Settings; none where the kernel has no such.
    pub sysctls: BTreeMap<String, String>,
    /// Routes of their own, by prefix.
    pub routes: BTreeMap<String, OwnRoute>,
    pub files: BTreeMap<PathBuf, Option<(Vec<u8>, u32)>>,
    /// Interfaces with a table that marks packets with their hosts.
    pub host_tables: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkNow {
    pub index: u32,
    pub kind: Option<String>,
    pub mac: Option<[u8; 6]>,
    pub up: bool,
}

/// What can be read and changed: the kernel, or a test's model of it.
pub trait Machine {
    fn read(&mut self, goal: &Goal) -> Result<Now, Refusal>;
    fn carry_out(&mut self, change: &Change) -> Result<(), Refusal>;
    /// Takes steps, one after the other.
    fn carry_all_out(&mut self, changes: &[Change]) -> Result<(), (usize, Refusal)> {
        let mut numbered = changes.iter().enumerate();
        numbered
            .try_for_each(|(number, change)| self.carry_out(change).map_err(|why| (number, why)))
    }
}

impl Now {
    pub fn target(&self, device: &DeviceGoal) -> Option<DeviceTarget> {
        let (name, link) = match device.index {
            Some(index) => self.links.iter().find(|(_, link)| link.index == index)?,
            None => self.links.get_key_value(&device.name)?,
        };
        Some(DeviceTarget { name: name.clone(), index: Some(link.index) })
    }

    /// What the interface is called now of which something was found.
    pub(crate) fn name_of(&self, found: &DeviceBefore) -> String {
        let there = self.links.iter().find(|(_, link)| Some(link.index) == found.index);
        there.map_or(&found.name, |(name, _)| name).clone()
    }

    /// What is there of an interface; nothing where it is not there.
    fn snapshot(&self, target: Option<&DeviceTarget>) -> &Snapshot {
        static NOTHING: Snapshot =
            Snapshot { qdiscs: Vec::new(), classes: Vec::new(), filters: Vec::new() };
        let index = target.and_then(|target| target.index);
        index.and_then(|index| self.queues.get(&index)).unwrap_or(&NOTHING)
    }

    /// What is there of all that a goal names, so that it can be brought back.
    pub fn before(&self, goal: &Goal) -> Before {
        let link = |link: &LinkGoal| LinkGoal { there: self.ours(link).is_some(), ..link.clone() };
        let device = |device: &DeviceGoal| {
            let target = self.target(device);
            let snapshot = self.snapshot(target.as_ref());
            let ours = device.things.iter().filter_map(|thing| match thing {
                Thing::Step(_) => Some((thing.place(), thing.kind().to_owned())),
                Thing::Seen(_) => None,
            });
            let things = in_places(snapshot, device.places).filter_map(|thing| match thing {
                Thing::Seen(seen) => Some(seen),
                Thing::Step(_) => None,
            });
            DeviceBefore {
                name: device.name.clone(),
                index: target.and_then(|target| target.index),
                root: device.places.root,
                ingress: device.places.ingress,
                things: things.collect(),
                ours: ours.collect(),
            }
        };
        let sysctl = |sysctl: &SysctlGoal| {
            let value = self.sysctls.get(&sysctl.key)?.clone();
            Some(SysctlGoal { key: sysctl.key.clone(), value })
        };
        let route = |route: &RouteGoal| RouteGoal {
            to: route.to.clone(),
            route: self.routes.get(&route.to).cloned(),
        };
        let file = |file: &FileGoal| FileGoal {
            path: file.path.clone(),
            content: self.files.get(&file.path).cloned().flatten(),
        };
        let host_table = |table: &HostTableGoal| HostTableGoal {
            there: self.host_tables.contains(&table.device),
            ..table.clone()
        };
        // One of ours that got another name is a thing of its own, which others may send packets to.
        let renamed = goal.links.iter().flat_map(|link| {
            let all = self.all_ours(link).filter(|(name, _)| **name != link.name);
            all.map(|(name, _)| LinkGoal { name: name.clone(), there: true, ..link.clone() })
        });
        Before {
            links: goal.links.iter().map(link).chain(renamed).collect(),
            devices: goal.devices.iter().map(device).collect(),
            sysctls: goal.sysctls.iter().filter_map(sysctl).collect(),
            routes: goal.routes.iter().map(route).collect(),
            files: goal.files.iter().map(file).collect(),
            dynamic: Vec::new(),
            our_dynamic: goal.dynamic.clone(),
            host_tables: goal.host_tables.iter().map(host_table).collect(),
        }
    }

    /// All that were made as this one, whatever they are called now: they are known by their address.
    fn all_ours(&self, link: &LinkGoal) -> impl Iterator<Item = (&String, &LinkNow)> {
        let mac = Some(link.mac);
        self.links
            .iter()
            .filter(move |(_, there)| there.kind.as_deref() == Some("ifb") && there.mac == mac)
    }

    pub(crate) fn ours(&self, link: &LinkGoal) -> Option<&LinkNow> {
        let there = self.links.get(&link.name)?;
        (there.kind.as_deref() == Some("ifb") && there.mac == Some(link.mac)).then_some(there)
    }
}

fn in_places(snapshot: &Snapshot, places: Places) -> impl Iterator<Item = Thing> {
    seen(snapshot).into_iter().filter(move |thing| places.hold(thing.place()))
}

/// The steps from what is there to a goal; none where it is reached. What a goal names and is not there any more is left out.
///
/// Traffic flows all the time. What leads packets somewhere comes last and goes first:
///
/// ```text
///   IFBs, tables made ─► hooks that go ─► queues ─► hooks that come ─► IFBs, tables deleted ─► settings, routes, files
/// ```
pub fn steps(goal: &Goal, now: &Now) -> Vec<Change> {
    let mut steps = Vec::new();
    let mut deleted = Vec::new();
    for link in &goal.links {
        let target =
            |there: &LinkNow| DeviceTarget { name: link.name.clone(), index: Some(there.index) };
        if !link.there {
            let stays = |name: &str| goal.links.iter().any(|l| l.there && l.name == name);
            for (name, there) in now.all_ours(link).filter(|(name, _)| !stays(name)) {
                deleted.push(link.name.as_str());
                let target = DeviceTarget { name: name.clone(), index: Some(there.index) };
                steps.push(Change::DeleteIfb(target));
            }
            continue;
        }
        match now.ours(link) {
            None => {
                let of = |device: &&DeviceGoal| device.name == link.name;
                let index = goal.devices.iter().find(of).and_then(|device| device.index);
                let (name, mac) = (link.name.clone(), link.mac);
                steps.push(Change::MakeIfb { name, mac, index });
            }
            Some(there) if !there.up => steps.push(Change::SwitchOn(target(there))),
            Some(_) => {}
        }
    }
    let (mut made, gone): (Vec<_>, Vec<_>) =
        steps.into_iter().partition(|step| !matches!(step, Change::DeleteIfb(_)));
    let (mut hooks_gone, mut queues, mut hooks) = (Vec::new(), Vec::new(), Vec::new());
    for device in &goal.devices {
        // With the interface all on it goes.
        if deleted.contains(&device.name.as_str()) {
            continue;
        }
        let to_be_made = goal.links.iter().any(|link| link.there && link.name == device.name);
        let target = now.target(device).or_else(|| {
            to_be_made.then(|| DeviceTarget { name: device.name.clone(), index: None })
        });
        let Some(target) = target else { continue };
        let own = device.things.iter().map(Thing::place);
        let there = now.snapshot(Some(&target));
        let snapshot = without_dynamic(&goal.dynamic, &device.name, own, there);
        let lead = |places| {
            let all = quell_tc::changes(&device.things, places, &snapshot);
            let step = |change| Change::Queue { device: target.clone(), change };
            all.into_iter().map(step).collect::<Vec<_>>()
        };
        if device.places.root {
            queues.extend(lead(Places { root: true, ingress: false }));
        }
        if device.places.ingress {
            let all = lead(Places { root: false, ingress: true });
            let goes = |step: &Change| {
                matches!(step, Change::Queue { change: quell_tc::Change::Remove { .. }, .. })
            };
            // A hook that only goes, goes first; one that is changed keeps its order.
            if all.iter().all(goes) { hooks_gone.extend(all) } else { hooks.extend(all) }
        }
    }
    let tables = goal.host_tables.iter();
    let differing = tables.filter(|t| now.host_tables.contains(&t.device) != t.there);
    let (tables_made, tables_gone): (Vec<_>, Vec<_>) = differing
        .map(|table| Change::HostTable(table.clone()))
        .partition(|step| matches!(step, Change::HostTable(HostTableGoal { there: true, .. })));
    made.extend(tables_made);
    made.extend(hooks_gone);
    made.extend(queues);
    made.extend(hooks);
    made.extend(gone);
    made.extend(tables_gone);
    made.extend(others(goal, now));
    made
}

fn others(goal: &Goal, now: &Now) -> Vec<Change> {
    let sysctl = |s: &SysctlGoal| {
        let there = now.sysctls.get(&s.key)?;
        // The kernel writes tabs between numbers, people blanks.
        let same = there.split_whitespace().eq(s.value.split_whitespace());
        (!same).then(|| Change::Sysctl(s.clone()))
    };
    let file = |f: &FileGoal| {
        (now.files.get(&f.path) != Some(&f.content)).then(|| Change::File(f.clone()))
    };
    let route = |r: &RouteGoal| {
        (now.routes.get(&r.to) != r.route.as_ref()).then(|| Change::Route(r.clone()))
    };
    let sysctls = goal.sysctls.iter().filter_map(sysctl);
    let routes = goal.routes.iter().filter_map(route);
    sysctls.chain(routes).chain(goal.files.iter().filter_map(file)).collect()
}
