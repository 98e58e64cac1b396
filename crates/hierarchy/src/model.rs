//! The hierarchy: devices with what hangs on them, and who leads packets where.
//!
//! Everything of a device lies in lists, and points at the others by their places in these; so no input, however it refers to itself, makes
//! anything endless.

use crate::record::{Counters, FilterRecord, as_text, as_text_or_null};
use crate::settings::Setting;
use quell_tc::Handle;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::Deref;

/// The devices, in the order in which they were told of.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Hierarchy {
    /// Each with its queues, classes and filters.
    pub devices: Vec<Device>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Device {
    pub name: String,
    /// Whether it is an IFB: what goes out of it comes in by another device.
    pub ifb: bool,
    pub nodes: Vec<Node>,
    /// Its filters, in the order in which they are tried at each place.
    pub filters: Vec<Filter>,
    /// Nodes that hang on the device itself, the way out first.
    pub tops: Vec<usize>,
    /// Nodes whose parent was not told of.
    pub adrift: Vec<usize>,
    /// The device and the filter of it that send packets here.
    pub fed_by: Vec<(usize, usize)>,
    /// What will go wrong here.
    pub findings: Vec<Finding>,
    /// Queues whose filters were told of, be there any or not.
    #[serde(skip)]
    pub filters_told: BTreeSet<Handle>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Node {
    pub class: bool,
    /// The kind, as the kernel spells it.
    pub kind: String,
    #[serde(serialize_with = "as_text")]
    pub handle: Handle,
    /// Whose it is, where somebody knows: a subscriber's, a host's.
    pub whose: Option<String>,
    /// Whether only something else speaks of it: a queue's parent that no output listed.
    pub implied: bool,
    pub parent: Option<usize>,
    /// What hangs in it: of a class its queue and its classes.
    pub children: Vec<usize>,
    pub settings: Vec<Setting>,
    /// Whether packets that no filter matches come here.
    pub is_default: bool,
    /// The class for packets that no filter matches.
    #[serde(serialize_with = "as_text_or_null")]
    pub default: Option<Handle>,
    pub counters: Option<Counters>,
    /// Active flows in it, of queues that show them as classes.
    pub flows: usize,
    pub chosen_by: Vec<usize>,
}

/// A filter with its place among the device's nodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Filter {
    #[serde(flatten)]
    pub record: FilterRecord,
    /// The queue or class that it hangs on.
    pub at: Option<usize>,
    pub target: Target,
    /// Devices among those told of to which it redirects.
    pub feeds: Vec<usize>,
    /// Of u32, the table that it is in, where that is tried only when another filter leads there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
}

impl Deref for Filter {
    type Target = FilterRecord;

    fn deref(&self) -> &FilterRecord {
        &self.record
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    None,
    Class(usize),
    Spread(Vec<usize>),
    /// To a flow inside a queue without classes of its own.
    Flow,
    Missing,
    /// To whichever class a program or a mark names.
    Opaque,
}

/// Something that will go wrong, in words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    pub trouble: Trouble,
    pub node: Option<usize>,
    pub filter: Option<usize>,
    pub words: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// Packets that match no filter are lost.
    DropsUnmatched,
    /// Packets that match no filter go past all classes.
    Unshaped,
    NoSuchClass,
    /// Nothing leads packets into a class.
    Unreachable,
    /// Packets are redirected to a device that has no queue, or that was not told of.
    NowhereQueued,
    /// A node's parent was not told of.
    Adrift,
    /// Which filters a queue has was not told.
    FiltersMissing,
    /// A class saves up less than one packet.
    SmallBurst,
}

impl Hierarchy {
    pub fn device(&self, name: &str) -> Option<usize> {
        self.devices.iter().position(|device| device.name == name)
    }

    /// The one device and the IFBs that it feeds, directly or through others.
    pub fn only(&self, index: usize) -> Vec<usize> {
        let mut wanted = vec![index];
        let mut next = 0;
        while let Some(&at) = wanted.get(next) {
            for filter in self.devices[at].filters.iter() {
                for &fed in filter.feeds.iter().filter(|fed| self.devices[**fed].ifb) {
                    if !wanted.contains(&fed) {
                        wanted.push(fed);
                    }
                }
            }
            next += 1;
        }
        wanted
    }
}

impl Device {
    /// The filters at a place, in the order in which they are tried.
    pub fn filters_at(&self, node: usize) -> impl Iterator<Item = (usize, &Filter)> {
        self.filters.iter().enumerate().filter(move |(_, filter)| filter.at == Some(node))
    }

    /// Whether it has nothing to show: no queue at all, or only the kernel's `noqueue`.
    pub fn is_bare(&self) -> bool {
        self.filters.is_empty() && self.nodes.iter().all(|node| node.kind == "noqueue")
    }
}

impl Filter {
    /// Whether packets meet it without another filter that leads there.
    pub fn is_met(&self) -> bool {
        self.chain == 0 && self.table.is_none()
    }

    /// Whether no packet of its protocol escapes it into the next filter, and it leads somewhere or acts.
    pub fn is_catch_all(&self) -> bool {
        self.matches_all == Some(true)
            && self.target != Target::Missing
            && self.is_met()
            && self.deeds.iter().all(|deed| deed.goto.is_none())
    }
}
