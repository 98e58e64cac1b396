//! Shapers: holding traffic to a rate.

use quell_units::{Bytes, Rate, Span};
use serde::{Deserialize, Serialize};

use crate::Handle;

/// How the link below frames packets, for shapers that count its overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkLayer {
    /// As long as the packet.
    Ethernet,
    /// 53-byte cells that carry 48.
    Atm,
    /// The same cells; what ADSL has.
    Adsl,
}

/// Hierarchical token buckets. All rates are in its classes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Htb {
    /// Class for packets that no filter matches; without it they pass **unshaped**.
    pub default: Option<Handle>,
    /// A class's rate divided by this is its quantum, unless it names one; default 10.
    pub r2q: Option<u32>,
    /// Packets that the unshaped queue may hold; default the device's transmit queue length.
    pub direct_qlen: Option<u32>,
}

/// One token bucket with one queue (a FIFO unless it has a child).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tbf {
    /// The rate; must be given.
    pub rate: Option<Rate>,
    /// The bucket, at least rate / HZ; must be given.
    pub burst: Option<Bytes>,
    /// Bytes that may wait. This or `latency` must be given.
    pub limit: Option<Bytes>,
    /// The longest that a packet may wait: a limit by time.
    pub latency: Option<Span>,
    /// A second bucket's rate, for bursts; needs `mtu`.
    pub peakrate: Option<Rate>,
    /// The second bucket's size; at least a packet.
    pub mtu: Option<Bytes>,
    /// Bytes added to each packet.
    pub overhead: Option<u16>,
    /// The least that a packet counts as.
    pub mpu: Option<u16>,
    /// Framing of the link.
    pub linklayer: Option<LinkLayer>,
}

/// Hierarchical fair service curves. All curves are in its classes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hfsc {
    /// Class for packets that no filter matches; without it they are **dropped**.
    pub default: Option<Handle>,
}
