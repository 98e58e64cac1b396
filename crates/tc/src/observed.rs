//! What the kernel reports: queues, classes and filters with their counters.

use quell_units::Span;
use serde::{Deserialize, Serialize};

use crate::{ClassKind, Filter, Handle, Protocol, Qdisc};

/// What the kernel showed of a queue, class or filter, byte for byte, so that it can be made again also where we don't know its kind.
/// Counters and what else changes by itself are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Raw {
    /// The payload of `TCA_OPTIONS`.
    pub options: Option<Vec<u8>>,
    /// Whether it was marked as attributes (`NLA_F_NESTED`).
    pub marked: bool,
    /// The payload of `TCA_STAB`, a queue's size table.
    pub stab: Option<Vec<u8>>,
    /// What the kernel has of it and never shows, if that is known: it can't be made again.
    pub hidden: Option<String>,
    /// It sends packets to an interface that is gone, and so drops them.
    pub aims_at_nothing: bool,
}

impl Raw {
    /// A number for all that is shown: two that differ have different ones, but once in 2^64.
    pub fn fingerprint(&self) -> u64 {
        let Raw { options, marked, stab, .. } = self;
        let parts = [options, stab];
        let length = |part: &&Option<Vec<u8>>| part.as_ref().map_or(u64::MAX, |p| p.len() as u64);
        let lengths = parts.iter().map(length).flat_map(u64::to_le_bytes);
        let bytes = parts.into_iter().flatten().flatten().copied();
        hash(lengths.chain([u8::from(*marked)]).chain(bytes))
    }
}

/// A number for bytes (FNV-1a): the same on each machine and in each version.
pub fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// All that one interface has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    pub qdiscs: Vec<ObservedQdisc>,
    pub classes: Vec<ObservedClass>,
    /// The filters of all queues, classes and hooks.
    pub filters: Vec<ObservedFilter>,
}

/// A queue as the kernel has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObservedQdisc {
    pub ifindex: u32,
    /// Its name; 0: for one that the kernel made by itself.
    pub handle: Handle,
    pub parent: Handle,
    /// Its kind, as the kernel spells it.
    pub kind: String,
    /// Its options with all defaults filled in; `None` for kinds that Quell does not know.
    #[serde(serialize_with = "options_as_fields")]
    pub options: Option<Qdisc>,
    pub stats: Stats,
    pub extra: Option<ExtraStats>,
    /// All of it as the kernel showed it.
    #[serde(skip)]
    pub raw: Raw,
}

/// A class as the kernel has it.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedClass {
    pub ifindex: u32,
    pub id: Handle,
    /// The class or queue above it.
    pub parent: Handle,
    /// The handle of the queue at its leaf, if it has one of its own.
    pub leaf: Option<Handle>,
    /// Its queue's kind, as the kernel spells it.
    pub kind: String,
    /// Its options; `None` for kinds that Quell does not know.
    pub options: Option<ClassKind>,
    pub stats: Stats,
    pub extra: Option<ExtraStats>,
    /// All of it as the kernel showed it.
    pub raw: Raw,
}

/// A filter as the kernel has it.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedFilter {
    pub ifindex: u32,
    /// The queue, class or hook it hangs on.
    pub parent: Handle,
    /// Its kind, as the kernel spells it.
    pub kind: String,
    /// Lower ones are tried first.
    pub prio: u16,
    pub protocol: Protocol,
    /// The chain it is in; 0 for all that is not asked for by `goto chain`.
    pub chain: u32,
    /// The kernel's name for it among those of one priority.
    pub handle: u32,
    /// What it matches and does; `None` for kinds and forms that Quell does not know.
    pub filter: Option<Filter>,
    /// The kernel's number for its BPF program.
    pub program: Option<u32>,
    /// Of u32, the number of the table that is looked through where it matches.
    pub link: Option<u32>,
    /// `TCA_CLS_FLAGS_*`: what the hardware was asked to do with it, and did.
    pub flags: u32,
    /// All of it as the kernel showed it.
    pub raw: Raw,
}

fn options_as_fields<S: serde::Serializer>(value: &Option<Qdisc>, s: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(Qdisc::fields).serialize(s)
}

/// Counters that every queue and class has (`gnet_stats_basic`, `gnet_stats_queue`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Stats {
    /// Bytes sent, link header included.
    pub bytes: u64,
    /// Packets sent; the kernel counts a super-packet as its segments.
    pub packets: u64,
    pub drops: u32,
    /// Times that the rate held packets back.
    pub overlimits: u32,
    /// Packets that the device gave back.
    pub requeues: u32,
    pub backlog_bytes: u32,
    pub backlog_packets: u32,
}

/// What of the counters that only one kind of queue has is of use.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtraStats {
    /// Packets marked CE instead of dropped.
    Marks(u64),
    /// CoDel's marks, and packets dropped since the queue held as many as it may.
    Codel { marks: u64, limit_drops: u64 },
    /// CAKE's tins, lowest priority first.
    Cake(Vec<CakeTin>),
}

impl ExtraStats {
    /// `drop_overlimit`, of kinds that tell it.
    pub fn limit_drops(&self) -> Option<u64> {
        match self {
            ExtraStats::Codel { limit_drops, .. } => Some(*limit_drops),
            _ => None,
        }
    }

    /// Packets marked CE instead of dropped.
    pub fn ecn_marks(&self) -> u64 {
        match self {
            ExtraStats::Marks(marks) | ExtraStats::Codel { marks, .. } => *marks,
            ExtraStats::Cake(tins) => tins.iter().map(|tin| u64::from(tin.ecn_marks)).sum(),
        }
    }
}

/// One of CAKE's tins (`TCA_CAKE_TIN_STATS_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CakeTin {
    pub sent_packets: u32,
    pub sent_bytes: u64,
    /// By the AQM or for want of memory.
    pub dropped_packets: u32,
    pub ecn_marks: u32,
    pub backlog_packets: u32,
    pub backlog_bytes: u32,
    pub average_delay: Span,
}
