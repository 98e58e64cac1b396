//! Sharing between flows or classes.

use quell_units::{Bytes, Rate, Ratio, Span};
use serde::{Deserialize, Serialize};

/// Stochastic fairness queueing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sfq {
    /// Packets in all queues together; default 127.
    pub limit: Option<u32>,
    /// Time after which the hash is changed, in whole seconds; default never.
    pub perturb: Option<Span>,
    /// Bytes that a flow may send in its turn; default the device's MTU with its header.
    pub quantum: Option<Bytes>,
    /// Packets a flow may have waiting; default 127.
    pub depth: Option<u32>,
    /// Drop from the head of a queue instead of its tail; default off.
    pub headdrop: Option<bool>,
    /// Size of the hash table, a power of two up to 65536; default 1024.
    pub divisor: Option<u32>,
    /// Flows that may wait at once; default 127.
    pub flows: Option<u32>,
    /// Turns RED on in each flow, with this many bytes at most. The other RED options need it.
    pub redflowlimit: Option<Bytes>,
    /// RED: average length at which dropping begins.
    pub min: Option<Bytes>,
    /// RED: average length at which the probability is reached.
    pub max: Option<Bytes>,
    /// RED: size of an average packet.
    pub avpkt: Option<Bytes>,
    /// RED: packets that may come at once.
    pub burst: Option<u32>,
    /// RED: probability at `max`; default 2 %.
    pub probability: Option<Ratio>,
    /// RED: mark instead of dropping.
    pub ecn: Option<bool>,
    /// RED: drop even ECN-capable packets above `max`.
    pub harddrop: Option<bool>,
}

/// Deficit round robin; everything is in its classes, and filters must put every packet into one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Drr {}

/// Enhanced transmission selection: strict bands first, the rest share by quanta.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ets {
    /// Bands, 1 to 16; default as many as `strict` and `quanta` name.
    pub bands: Option<u8>,
    /// How many of them are served strictly first; default 0.
    pub strict: Option<u8>,
    /// Bytes in a turn for each sharing band.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quanta: Vec<Bytes>,
    /// Band of each of the 16 packet priorities; default the last band for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub priomap: Vec<u8>,
}

/// Flow queues with pacing, made for the host where the flows begin.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fq {
    /// Packets in all queues together; default 10000.
    pub limit: Option<u32>,
    /// Packets a flow may have waiting; default 100.
    pub flow_limit: Option<u32>,
    /// Bytes that a flow may send in its turn; default two MTUs.
    pub quantum: Option<Bytes>,
    /// Bytes that a new flow may send at first; default ten MTUs.
    pub initial_quantum: Option<Bytes>,
    /// A ceiling for each flow's pacing.
    pub maxrate: Option<Rate>,
    /// Under this rate each packet waits by itself; default 550 kbit/s.
    pub low_rate_threshold: Option<Rate>,
    /// Hash buckets, a power of two; default 1024.
    pub buckets: Option<u32>,
    /// Obey the sockets' pacing rates; default on.
    pub pacing: Option<bool>,
    /// Idle time after which a flow gets its initial quantum again; default 40 ms.
    pub refill_delay: Option<Span>,
    /// Mask for the hash of packets without a socket; default 1023.
    pub orphan_mask: Option<u32>,
    /// Mark every ECN-capable packet that waited longer than this.
    pub ce_threshold: Option<Span>,
    /// Slack that the timer may take; default 10 µs.
    pub timer_slack: Option<Span>,
    /// How far in the future a packet's departure may lie; default 10 s.
    pub horizon: Option<Span>,
    /// Drop packets beyond the horizon (default) or send them at it.
    pub horizon_drop: Option<bool>,
}
