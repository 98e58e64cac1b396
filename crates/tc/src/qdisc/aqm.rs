//! Active queue management: queues that drop or mark before they are full.

use quell_units::{Bytes, Rate, Ratio, Span};
use serde::{Deserialize, Serialize};

/// Flow queues, each under CoDel (RFC 8290).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FqCodel {
    /// Packets in all queues together; the kernel's default is 10240.
    pub limit: Option<u32>,
    /// Hash buckets, 1 to 65536; default 1024. Can't be changed in place.
    pub flows: Option<u32>,
    /// Acceptable standing delay; default 5 ms.
    pub target: Option<Span>,
    /// Window in which the minimum is taken, about the worst round-trip time; default 100 ms.
    pub interval: Option<Span>,
    /// Bytes that a flow may send in its turn; default the device's MTU with its header.
    pub quantum: Option<Bytes>,
    /// Mark ECN-capable packets instead of dropping them; default on.
    pub ecn: Option<bool>,
    /// Mark every ECN-capable packet that waited longer than this.
    pub ce_threshold: Option<Span>,
    /// Memory for all packets together; default 32 MB.
    pub memory_limit: Option<Bytes>,
    /// Packets dropped at once when the limits are passed; default 64.
    pub drop_batch: Option<u32>,
}

/// Controlled delay on one queue (RFC 8289).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Codel {
    /// Packets; default 1000.
    pub limit: Option<u32>,
    /// Acceptable standing delay; default 5 ms.
    pub target: Option<Span>,
    /// Window in which the minimum is taken; default 100 ms.
    pub interval: Option<Span>,
    /// Mark instead of dropping; default off.
    pub ecn: Option<bool>,
    /// Mark every ECN-capable packet that waited longer than this.
    pub ce_threshold: Option<Span>,
}

/// Proportional integral controller, enhanced (RFC 8033).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pie {
    /// Packets; default 1000.
    pub limit: Option<u32>,
    /// Wanted delay; default 15 ms.
    pub target: Option<Span>,
    /// Time between updates of the drop probability; default 15 ms. The kernel rounds it to its jiffies.
    pub tupdate: Option<Span>,
    /// Weight of the delay's distance from the target, 0 to 32; default 2.
    pub alpha: Option<u32>,
    /// Weight of the delay's trend, 0 to 32; default 20.
    pub beta: Option<u32>,
    /// Mark instead of dropping while the probability is low; default off.
    pub ecn: Option<bool>,
    /// Scale the probability by the packet's size; default off.
    pub bytemode: Option<bool>,
    /// Estimate the delay from the departure rate instead of timestamps; default off.
    pub dq_rate_estimator: Option<bool>,
}

/// Flow queues, each under PIE.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FqPie {
    /// Packets in all queues together; default 10240.
    pub limit: Option<u32>,
    /// Hash buckets, 1 to 65536; default 1024.
    pub flows: Option<u32>,
    /// Wanted delay; default 15 ms.
    pub target: Option<Span>,
    /// Time between updates of the drop probability; default 15 ms. The kernel rounds it to its jiffies.
    pub tupdate: Option<Span>,
    /// Weight of the delay's distance from the target, 0 to 32; default 2.
    pub alpha: Option<u32>,
    /// Weight of the delay's trend, 0 to 32; default 20.
    pub beta: Option<u32>,
    /// Bytes that a flow may send in its turn; default the device's MTU with its header.
    pub quantum: Option<Bytes>,
    /// Memory for all packets together; default 32 MB.
    pub memory_limit: Option<Bytes>,
    /// Drop probability in percent up to which packets are marked instead; default 10.
    pub ecn_prob: Option<u32>,
    /// Mark instead of dropping while the probability is low; default off.
    pub ecn: Option<bool>,
    /// Scale the probability by the packet's size; default off.
    pub bytemode: Option<bool>,
    /// Estimate the delay from the departure rate instead of timestamps; default off.
    pub dq_rate_estimator: Option<bool>,
}

/// Random early detection. `limit` and `avpkt` must be given; the rest follows from them as in `tc`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Red {
    /// The real length of the queue.
    pub limit: Option<Bytes>,
    /// Average length at which dropping begins; default a third of `max`.
    pub min: Option<Bytes>,
    /// Average length at which the probability is reached; default a quarter of `limit`.
    pub max: Option<Bytes>,
    /// Size of an average packet, for the ageing of the average; 1000 is usual.
    pub avpkt: Option<Bytes>,
    /// Packets that may come at once; default (2·min + max) / (3·avpkt).
    pub burst: Option<u32>,
    /// Probability at `max`; default 2 %.
    pub probability: Option<Ratio>,
    /// The link's rate, for ageing the average while idle; default 10 Mbit/s.
    pub bandwidth: Option<Rate>,
    /// Mark instead of dropping; default off.
    pub ecn: Option<bool>,
    /// Drop even ECN-capable packets above `max`; default off.
    pub harddrop: Option<bool>,
    /// Adapt the probability to keep the average in the middle; default off.
    pub adaptive: Option<bool>,
    /// Queue packets that are not ECN-capable instead of dropping them early; needs `ecn`. Default off.
    pub nodrop: Option<bool>,
}
