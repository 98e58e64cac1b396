//! Network emulation.
//!
//! Jitter is uniform: the tables for other distributions are not offered.

use quell_units::{Bytes, Rate, Ratio, Span};
use serde::{Deserialize, Serialize};

/// Delay, loss, duplication, corruption, reordering and a rate, in the order in which the kernel applies them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Netem {
    /// Packets that may wait; default 1000. It also bounds what is delayed: at least rate × delay is needed.
    pub limit: Option<u32>,
    /// Time added to each packet.
    pub delay: Option<Span>,
    /// Spread of the delay, ± uniform. It reorders packets unless `rate` is given too.
    pub jitter: Option<Span>,
    /// How much one packet's delay follows the last one's.
    pub delay_correlation: Option<Ratio>,
    /// Independent loss.
    pub loss: Option<Ratio>,
    /// How much one loss follows the last; the kernel's documents advise against it, see `gemodel`.
    pub loss_correlation: Option<Ratio>,
    /// Loss in bursts; not together with `loss`.
    pub gemodel: Option<GilbertElliott>,
    /// Mark ECN-capable packets instead of losing them.
    pub ecn: Option<bool>,
    /// Packets sent twice.
    pub duplicate: Option<Ratio>,
    /// How much one duplicate follows the last.
    pub duplicate_correlation: Option<Ratio>,
    /// Packets with one bit wrong.
    pub corrupt: Option<Ratio>,
    /// How much one corruption follows the last.
    pub corrupt_correlation: Option<Ratio>,
    /// Packets that skip the delay; needs `delay`.
    pub reorder: Option<Ratio>,
    /// How much one reordering follows the last.
    pub reorder_correlation: Option<Ratio>,
    /// Every how many packets one may skip the delay; default 1.
    pub gap: Option<u32>,
    /// The link's rate; packets then leave in order.
    pub rate: Option<Rate>,
    /// Bytes added to each packet (or taken, if negative) before the rate.
    pub packet_overhead: Option<i32>,
    /// Payload of a cell, 0 for none; 48 for ATM.
    pub cell_size: Option<u32>,
    /// Bytes added to each cell; 5 for ATM.
    pub cell_overhead: Option<i32>,
    /// Sends in bursts with pauses, as radio links do.
    pub slot: Option<Slot>,
}

/// The Gilbert-Elliott model: a good and a bad state, each with its own loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// From good to bad, at each packet.
    pub to_bad: Ratio,
    /// From bad to good, at each packet.
    pub to_good: Ratio,
    /// Loss in the bad state (`tc` writes 1-h); 100 % if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_in_bad: Option<Ratio>,
    /// Loss in the good state (`tc` writes 1-k); none if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_in_good: Option<Ratio>,
}

/// When netem lets packets go: at the start of a slot, at most so many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// Shortest time to the next slot.
    pub min: Span,
    /// Longest time to the next slot; default `min`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Span>,
    /// Packets in a slot at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Bytes in a slot at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
}
