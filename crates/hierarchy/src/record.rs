//! What one line of `tc`, one object of its JSON or one message of the kernel says.

use quell_tc::{Handle, MatchKey};
use serde::{Serialize, Serializer};

use crate::settings::Setting;

/// A queue, a class or a filter, on its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub device: Option<String>,
    /// Where it was read: the line of the file, from 1; 0 for what the kernel said.
    pub line: usize,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub enum What {
    Queue(NodeRecord),
    Class(NodeRecord),
    Filter(FilterRecord),
    /// The filters of a queue were asked for, of the root where none is named; those that it has are records of their own.
    Asked(Option<Handle>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeRecord {
    /// The kind, as the kernel spells it.
    pub kind: String,
    /// Its name; `0:` for a queue that the kernel made by itself.
    pub handle: Handle,
    pub place: Attachment,
    /// The class for packets that no filter matches: its minor.
    pub default: Option<u16>,
    pub settings: Vec<Setting>,
    pub counters: Option<Counters>,
}

/// Where a queue or a class hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// On the device, on the way out; of a class: directly in its queue.
    Root,
    /// On the device, on the way in (and for clsact on both).
    Ingress,
    Under(Handle),
}

/// Counters of a queue or class since it was made, but for what waits now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counters {
    pub bytes: u64,
    pub packets: u64,
    /// Packets lost here.
    pub drops: u64,
    /// Times that a rate held packets back.
    pub overlimits: u64,
    /// Bytes waiting now.
    pub backlog_bytes: u64,
    pub backlog_packets: u64,
    /// Packets marked CE instead of dropped; `None` for kinds that don't mark.
    pub marks: Option<u64>,
    /// Packets that went past the classes, unshaped (htb).
    pub direct_packets: Option<u64>,
}

/// A place for filters that is no queue with classes: the hooks of ingress and clsact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Hook {
    Ingress,
    /// Packets that go out, before they are queued.
    Egress,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct FilterRecord {
    /// The queue or class that it hangs on, where that was said.
    #[serde(skip)]
    pub parent: Option<Handle>,
    pub hook: Option<Hook>,
    /// The protocol that it looks at, in `tc`'s word.
    pub protocol: String,
    /// Lower ones are tried first.
    pub prio: u32,
    /// The kind, as the kernel spells it.
    pub kind: String,
    /// Its name among those of one priority, as `tc` prints it.
    pub name: String,
    /// What it matches, in `tc`'s words; empty for every packet of its protocol, or for what is not known.
    pub matches: Vec<String>,
    /// Whether it matches every packet of its protocol; `None` where nobody can know.
    pub matches_all: Option<bool>,
    #[serde(serialize_with = "as_text_or_null")]
    pub class: Option<Handle>,
    /// How many classes it spreads packets over, from `class` on; `None` for one.
    #[serde(skip)]
    pub spread: Option<u32>,
    /// Whether it may choose classes that nobody can read off it (a program, marks, cgroups).
    #[serde(skip)]
    pub opaque: bool,
    /// What is done with a packet that matches.
    pub deeds: Vec<Deed>,
    /// Packets that it matched, where that is counted.
    pub hits: Option<u64>,
    /// The chain that it is in: 0, or one to which another filter leads.
    #[serde(skip_serializing_if = "is_zero")]
    pub chain: u32,
    /// What it has to do with the device's hardware: `skip_sw`, `in_hw`, `hw_tc 1`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hardware: Vec<String>,
    /// Of u32, where its matches lie in a packet.
    #[serde(skip)]
    pub keys: Vec<MatchKey>,
    /// Of u32, the table that is looked through where it matches.
    #[serde(skip)]
    pub link: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Deed {
    /// In `tc`'s words.
    pub words: String,
    /// The device that gets the packet or its copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Whether that is the packet itself, and not a copy.
    pub redirects: bool,
    /// The chain that is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goto: Option<u32>,
}

fn is_zero(chain: &u32) -> bool {
    *chain == 0
}

pub(crate) fn as_text<S: Serializer>(handle: &Handle, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(handle)
}

pub(crate) fn as_text_or_null<S: Serializer>(
    handle: &Option<Handle>,
    s: S,
) -> Result<S::Ok, S::Error> {
    match handle {
        Some(handle) => s.collect_str(handle),
        None => s.serialize_none(),
    }
}
