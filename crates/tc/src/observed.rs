//! What the kernel reports: queues, classes and filters with their counters.

use quell_units::{Bytes, Rate, Span};
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
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Snapshot {
    /// Its queues.
    pub qdiscs: Vec<ObservedQdisc>,
    /// Their classes.
    pub classes: Vec<ObservedClass>,
    /// The filters of all queues, classes and hooks.
    pub filters: Vec<ObservedFilter>,
}

/// A queue as the kernel has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObservedQdisc {
    /// The interface.
    pub ifindex: u32,
    /// Its name; 0: for one that the kernel made by itself.
    pub handle: Handle,
    /// Where it hangs.
    pub parent: Handle,
    /// Its kind, as the kernel spells it.
    pub kind: String,
    /// Its options with all defaults filled in; `None` for kinds that Quell does not know.
    #[serde(serialize_with = "options_as_fields")]
    pub options: Option<Qdisc>,
    /// What passed through it.
    pub stats: Stats,
    /// What only its kind counts.
    pub extra: Option<ExtraStats>,
    /// All of it as the kernel showed it.
    #[serde(skip)]
    pub raw: Raw,
}

/// A class as the kernel has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObservedClass {
    /// The interface.
    pub ifindex: u32,
    /// Its name.
    pub id: Handle,
    /// The class or queue above it.
    pub parent: Handle,
    /// The handle of the queue at its leaf, if it has one of its own.
    pub leaf: Option<Handle>,
    /// Its queue's kind, as the kernel spells it.
    pub kind: String,
    /// Its options; `None` for kinds that Quell does not know.
    #[serde(serialize_with = "class_as_fields")]
    pub options: Option<ClassKind>,
    /// What passed through it.
    pub stats: Stats,
    /// What only its kind counts.
    pub extra: Option<ExtraStats>,
    /// All of it as the kernel showed it.
    #[serde(skip)]
    pub raw: Raw,
}

/// A filter as the kernel has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObservedFilter {
    /// The interface.
    pub ifindex: u32,
    /// The queue, class or hook it hangs on.
    pub parent: Handle,
    /// Its kind, as the kernel spells it.
    pub kind: String,
    /// Lower ones are tried first.
    pub prio: u16,
    /// Packets it looks at.
    #[serde(skip)]
    pub protocol: Protocol,
    /// The chain it is in; 0 for all that is not asked for by `goto chain`.
    #[serde(skip)]
    pub chain: u32,
    /// The kernel's name for it among those of one priority.
    pub handle: u32,
    /// What it matches and does; `None` for kinds and forms that Quell does not know.
    pub filter: Option<Filter>,
    /// The kernel's number for its BPF program.
    #[serde(skip)]
    pub program: Option<u32>,
    /// All of it as the kernel showed it.
    #[serde(skip)]
    pub raw: Raw,
}

fn options_as_fields<S: serde::Serializer>(value: &Option<Qdisc>, s: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(Qdisc::fields).serialize(s)
}

fn class_as_fields<S: serde::Serializer>(
    value: &Option<ClassKind>,
    s: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().map(ClassKind::fields).serialize(s)
}

/// Counters that every queue and class has (`gnet_stats_basic`, `gnet_stats_queue`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Stats {
    /// Bytes sent, link header included.
    pub bytes: u64,
    /// Packets sent; the kernel counts a super-packet as its segments.
    pub packets: u64,
    /// Packets lost here.
    pub drops: u32,
    /// Times that the rate held packets back.
    pub overlimits: u32,
    /// Packets that the device gave back.
    pub requeues: u32,
    /// Bytes waiting.
    pub backlog_bytes: u32,
    /// Packets waiting.
    pub backlog_packets: u32,
}

/// Counters of one kind of queue or class.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ExtraStats {
    /// An HTB class.
    Htb(HtbStats),
    /// fq_codel.
    FqCodel(FqCodelStats),
    /// codel.
    Codel(CodelStats),
    /// CAKE.
    Cake(CakeStats),
    /// red.
    Red(RedStats),
    /// pie.
    Pie(PieStats),
    /// fq_pie.
    FqPie(FqPieStats),
    /// fq.
    Fq(FqStats),
}

impl ExtraStats {
    /// Packets marked CE instead of dropped; `None` for kinds that don't mark.
    pub fn ecn_marks(&self) -> Option<u64> {
        Some(match self {
            ExtraStats::FqCodel(stats) => u64::from(stats.ecn_marks) + u64::from(stats.ce_marks),
            ExtraStats::Codel(stats) => u64::from(stats.ecn_marks) + u64::from(stats.ce_marks),
            ExtraStats::Cake(stats) => stats.tins.iter().map(|tin| u64::from(tin.ecn_marks)).sum(),
            ExtraStats::Red(stats) => stats.marked.into(),
            ExtraStats::Pie(stats) => stats.ecn_marks.into(),
            ExtraStats::FqPie(stats) => stats.ecn_marks.into(),
            ExtraStats::Fq(stats) => stats.ce_marks,
            ExtraStats::Htb(_) => return None,
        })
    }
}

/// An HTB class's counters (`tc_htb_xstats`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct HtbStats {
    /// Packets sent at its own rate.
    pub lends: u32,
    /// Packets sent at its parents' expense.
    pub borrows: u32,
    /// Packets longer than the rate table.
    pub giants: u32,
    /// Time saved up for its rate, in ticks of 64 ns; negative when overdrawn.
    pub tokens: i32,
    /// The same for its ceiling.
    pub ctokens: i32,
}

/// fq_codel's counters (`tc_fq_codel_qd_stats`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FqCodelStats {
    /// The largest packet seen, in bytes.
    pub max_packet: u32,
    /// Packets dropped because the whole queue was full.
    pub drop_overlimit: u32,
    /// Packets marked by CoDel.
    pub ecn_marks: u32,
    /// Flows that came as new.
    pub new_flows: u32,
    /// Flows in the new list now.
    pub new_flows_len: u32,
    /// Flows in the old list now.
    pub old_flows_len: u32,
    /// Packets marked by `ce_threshold`.
    pub ce_marks: u32,
    /// Memory in use, in bytes.
    pub memory_usage: u32,
    /// Packets dropped because the memory was full.
    pub drop_overmemory: u32,
}

/// codel's counters (`tc_codel_xstats`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CodelStats {
    /// The largest packet seen, in bytes.
    pub max_packet: u32,
    /// Drops since the dropping state was entered.
    pub count: u32,
    /// The same when it was last left.
    pub last_count: u32,
    /// The last packet's time in the queue, in µs.
    pub last_delay_us: u32,
    /// Until the next drop, in µs.
    pub drop_next_us: i32,
    /// Packets dropped because the queue was full.
    pub drop_overlimit: u32,
    /// Packets marked.
    pub ecn_marks: u32,
    /// True while dropping.
    pub dropping: bool,
    /// Packets marked by `ce_threshold`.
    pub ce_marks: u32,
}

/// red's counters (`tc_red_xstats`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct RedStats {
    /// Early drops.
    pub early: u32,
    /// Drops because the queue was full.
    pub full: u32,
    /// Drops by other hands.
    pub other: u32,
    /// Packets marked.
    pub marked: u32,
}

/// pie's counters (`tc_pie_xstats`).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct PieStats {
    /// Probability of a drop now, 0 to 1.
    pub probability: f64,
    /// Estimated delay, in µs.
    pub delay_us: u32,
    /// Departure rate, in bytes per second; 0 while not estimated.
    pub dq_rate: u32,
    /// Packets that came in.
    pub packets_in: u32,
    /// Drops by PIE.
    pub dropped: u32,
    /// Drops because the queue was full.
    pub overlimit: u32,
    /// The longest that the queue was, in packets.
    pub max_queue: u32,
    /// Packets marked.
    pub ecn_marks: u32,
}

/// fq_pie's counters (`tc_fq_pie_xstats`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FqPieStats {
    /// Packets that came in.
    pub packets_in: u32,
    /// Drops by PIE.
    pub dropped: u32,
    /// Drops because the queue was full.
    pub overlimit: u32,
    /// Drops because the memory was full.
    pub overmemory: u32,
    /// Packets marked.
    pub ecn_marks: u32,
    /// Flows that came as new.
    pub new_flows: u32,
    /// Memory in use, in bytes.
    pub memory_usage: u32,
}

/// fq's counters (`tc_fq_qd_stats`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FqStats {
    /// Flows removed for their age.
    pub gc_flows: u64,
    /// High-priority packets.
    pub highprio_packets: u64,
    /// Packets held back by pacing.
    pub throttled: u64,
    /// Packets dropped because their flow was full.
    pub flows_plimit: u64,
    /// Packets longer than fq's pacing can hold.
    pub packets_too_long: u64,
    /// Flows known now.
    pub flows: u32,
    /// Of these without packets.
    pub inactive_flows: u32,
    /// Of these held back.
    pub throttled_flows: u32,
    /// Packets marked by `ce_threshold`.
    pub ce_marks: u64,
    /// Packets beyond the horizon, dropped.
    pub horizon_drops: u64,
    /// Packets beyond the horizon, sent at it.
    pub horizon_caps: u64,
}

/// CAKE's counters (`TCA_CAKE_STATS_*`).
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct CakeStats {
    /// Estimated rate of what arrives (with `autorate`).
    pub capacity_estimate: Option<Rate>,
    /// Memory that may be used.
    pub memory_limit: Bytes,
    /// Most memory that was used.
    pub memory_used: Bytes,
    /// Mean offset of the network header, in bytes.
    pub average_network_offset: u32,
    /// Least and largest network-layer length seen.
    pub network_length: (u32, u32),
    /// Least and largest length after overhead and framing.
    pub adjusted_length: (u32, u32),
    /// Its tins, lowest priority first as the kernel has them.
    pub tins: Vec<CakeTin>,
}

/// One of CAKE's tins (`TCA_CAKE_TIN_STATS_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CakeTin {
    /// Packets sent.
    pub sent_packets: u32,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets dropped by the AQM or for want of memory.
    pub dropped_packets: u32,
    /// Bytes of these.
    pub dropped_bytes: u64,
    /// ACKs dropped by the filter.
    pub acks_dropped: u32,
    /// Packets marked.
    pub ecn_marks: u32,
    /// Bytes of these.
    pub ecn_marked_bytes: u64,
    /// Packets waiting.
    pub backlog_packets: u32,
    /// Bytes waiting.
    pub backlog_bytes: u32,
    /// Its share before others may take it.
    pub threshold: Option<Rate>,
    /// CoDel's target.
    pub target: Span,
    /// CoDel's interval.
    pub interval: Span,
    /// Flows found in the second place of the hash.
    pub way_indirect_hits: u32,
    /// Flows that came as new.
    pub way_misses: u32,
    /// Flows that had to share a queue.
    pub way_collisions: u32,
    /// Longest delay lately.
    pub peak_delay: Span,
    /// Mean delay lately.
    pub average_delay: Span,
    /// Least delay lately.
    pub base_delay: Span,
    /// Flows that send little.
    pub sparse_flows: u32,
    /// Flows that send all they can.
    pub bulk_flows: u32,
    /// Flows that ignore CoDel.
    pub unresponsive_flows: u32,
    /// The largest packet seen, in bytes.
    pub max_packet: u32,
    /// Bytes in a flow's turn.
    pub flow_quantum: u32,
}
