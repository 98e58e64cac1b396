//! What is to be on a machine, and what was.

use crate::DynamicClasses;
use quell_tc::{Place, Places, Seen, Thing};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// What is to be. Only what is named here is looked at and touched.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Goal {
    /// Interfaces that are to be there or not.
    pub links: Vec<LinkGoal>,
    pub devices: Vec<DeviceGoal>,
    pub sysctls: Vec<SysctlGoal>,
    pub routes: Vec<RouteGoal>,
    pub files: Vec<FileGoal>,
    /// Tables that mark packets with their hosts.
    pub host_tables: Vec<HostTableGoal>,
    /// Classes that come and go beside all that, and are left alone.
    pub dynamic: Vec<DynamicClasses>,
    /// What such classes are like, by interface: it is tried with all else.
    pub likely: Vec<(String, Vec<Thing>)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkGoal {
    pub name: String,
    /// The address that it was or is made with, by which it is known to be ours.
    pub mac: [u8; 6],
    pub there: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeviceGoal {
    pub name: String,
    /// Its number, by which it is known also when it is renamed; none for one that is still to be made.
    pub index: Option<u32>,
    pub places: Places,
    /// What is to be there; nothing else is to be in those places.
    pub things: Vec<Thing>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SysctlGoal {
    pub key: String,
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteGoal {
    pub to: String,
    /// How it leads there; none where the prefix is to have no route of its own.
    pub route: Option<OwnRoute>,
}

/// How a prefix's own route leads there, and what TCP takes from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnRoute {
    pub via: Option<IpAddr>,
    pub device: String,
    pub quick_ack: Option<bool>,
    /// The first congestion window, in segments.
    pub initial_cwnd: Option<u32>,
    pub ecn: Option<bool>,
    pub congestion_control: Option<String>,
}

impl fmt::Display for OwnRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(via) = self.via {
            write!(f, "via {via} ")?;
        }
        write!(f, "dev {}", self.device)?;
        if let Some(name) = &self.congestion_control {
            write!(f, " congctl {name}")?;
        }
        if let Some(on) = self.quick_ack {
            write!(f, " quickack {}", u8::from(on))?;
        }
        if self.ecn == Some(true) {
            f.write_str(" features ecn")?;
        }
        match self.initial_cwnd {
            Some(segments) => write!(f, " initcwnd {segments}"),
            None => Ok(()),
        }
    }
}

/// A table of nftables by which hosts behind address translation are told apart on an interface; see `quell_netlink::hosts_table`. Its
/// name is ours alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTableGoal {
    pub device: String,
    pub there: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileGoal {
    pub path: PathBuf,
    /// What is in it, and who may do what; none for no file.
    pub content: Option<(Vec<u8>, u32)>,
}

/// Whether two are the same interface: by their numbers, where both have one.
pub(crate) fn same_device(a: (&str, Option<u32>), b: (&str, Option<u32>)) -> bool {
    match (a.1, b.1) {
        (Some(a), Some(b)) => a == b,
        _ => a.0 == b.0,
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Before {
    /// Interfaces; a goal's that was not there.
    pub links: Vec<LinkGoal>,
    /// Queues, classes and filters that somebody had made.
    pub devices: Vec<DeviceBefore>,
    pub sysctls: Vec<SysctlGoal>,
    pub routes: Vec<RouteGoal>,
    pub files: Vec<FileGoal>,
    /// Classes that came and went then.
    pub dynamic: Vec<DynamicClasses>,
    /// Classes that were to come and go.
    pub our_dynamic: Vec<DynamicClasses>,
    /// Tables that mark packets with their hosts.
    pub host_tables: Vec<HostTableGoal>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceBefore {
    pub name: String,
    /// Its number; none for one that was not there.
    pub index: Option<u32>,
    /// Whether its root queue was looked at.
    pub root: bool,
    /// Whether its ingress or clsact qdisc was looked at.
    pub ingress: bool,
    pub things: Vec<Seen>,
    /// All that was to be made, by place and kind.
    pub ours: Vec<(Place, String)>,
}

impl DeviceBefore {
    /// Whether both are about the same interface, whatever it is called now.
    pub(crate) fn is(&self, name: &str, index: Option<u32>) -> bool {
        same_device((&self.name, self.index), (name, index))
    }

    /// What in it can't be made again, with the reason.
    pub fn hidden(&self) -> impl Iterator<Item = String> {
        self.things.iter().filter_map(|seen| {
            let hidden = seen.raw.hidden.as_ref()?;
            Some(format!(
                "{} on {}: the kernel never shows {hidden}",
                Thing::Seen(seen.clone()),
                self.name
            ))
        })
    }
}

impl Goal {
    /// Takes in what an earlier change of ours touched and this goal does not name: it is to be as it was before us.
    pub fn cover(&mut self, origin: &Before) {
        let all = Goal::from(origin);
        let named = |goal: &Goal, link: &LinkGoal| goal.links.iter().any(|l| l.name == link.name);
        for link in all.links {
            if !named(self, &link) {
                self.links.push(LinkGoal { there: false, ..link });
            }
        }
        for device in all.devices {
            let same =
                |d: &&mut DeviceGoal| same_device((&d.name, d.index), (&device.name, device.index));
            match self.devices.iter_mut().find(same) {
                None => self.devices.push(device),
                Some(own) => own.take_in(device),
            }
        }
        add_missing(&mut self.sysctls, all.sysctls, |a, b| a.key == b.key);
        add_missing(&mut self.routes, all.routes, |a, b| a.to == b.to);
        add_missing(&mut self.host_tables, all.host_tables, |a, b| a.device == b.device);
        add_missing(&mut self.files, all.files, |a, b| a.path == b.path);
    }
}

/// Adds those that nothing of `own` is about.
fn add_missing<T>(own: &mut Vec<T>, others: Vec<T>, same: fn(&T, &T) -> bool) {
    let missing = others.into_iter().filter(|other| !own.iter().any(|one| same(one, other)));
    let missing: Vec<T> = missing.collect();
    own.extend(missing);
}

impl DeviceGoal {
    fn take_in(&mut self, other: DeviceGoal) {
        let missing = Places {
            root: other.places.root && !self.places.root,
            ingress: other.places.ingress && !self.places.ingress,
        };
        let of_missing = other.things.into_iter().filter(|thing| missing.hold(thing.place()));
        self.things.extend(of_missing);
        self.places.root |= missing.root;
        self.places.ingress |= missing.ingress;
    }
}

impl Before {
    /// What was there before an earlier change (`self`) and what `later` found that this one did not look at.
    pub fn and(mut self, later: &Before) -> Before {
        for link in &later.links {
            // By its address it is known whatever it is called now.
            let known = |l: &LinkGoal| l.name == link.name || l.mac == link.mac;
            if !self.links.iter().any(known) {
                self.links.push(link.clone());
            }
        }
        for device in &later.devices {
            let same = |d: &&mut DeviceBefore| d.is(&device.name, device.index);
            let Some(own) = self.devices.iter_mut().find(same) else {
                self.devices.push(device.clone());
                continue;
            };
            let missing =
                Places { root: device.root && !own.root, ingress: device.ingress && !own.ingress };
            own.things.extend(device.things.iter().filter(|t| missing.hold(t.place)).cloned());
            own.root |= device.root;
            own.ingress |= device.ingress;
            own.index = own.index.or(device.index);
            let ours = own.ours.iter().chain(&device.ours).cloned();
            own.ours = ours.collect::<BTreeSet<_>>().into_iter().collect();
        }
        let Before { sysctls, routes, host_tables, files, .. } = later.clone();
        add_missing(&mut self.sysctls, sysctls, |a, b| a.key == b.key);
        add_missing(&mut self.routes, routes, |a, b| a.to == b.to);
        add_missing(&mut self.host_tables, host_tables, |a, b| a.device == b.device);
        add_missing(&mut self.files, files, |a, b| a.path == b.path);
        self
    }
}

impl From<&Before> for Goal {
    fn from(before: &Before) -> Self {
        let device = |device: &DeviceBefore| DeviceGoal {
            name: device.name.clone(),
            index: device.index,
            places: Places { root: device.root, ingress: device.ingress },
            things: device.things.iter().cloned().map(Thing::Seen).collect(),
        };
        Goal {
            links: before.links.clone(),
            devices: before.devices.iter().map(device).collect(),
            sysctls: before.sysctls.clone(),
            routes: before.routes.clone(),
            // Undone in reverse: of two files the later one may rely on the earlier one.
            files: before.files.iter().rev().cloned().collect(),
            host_tables: before.host_tables.clone(),
            dynamic: before.dynamic.clone(),
            likely: Vec::new(),
        }
    }
}
