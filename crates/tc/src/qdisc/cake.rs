//! CAKE: shaper, isolation, DiffServ tins and AQM in one queue.

use quell_units::{Bytes, Rate, Span};
use serde::{Deserialize, Serialize};

/// Common Applications Kept Enhanced.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cake {
    /// The shaper's rate; without it CAKE does not shape.
    pub bandwidth: Option<Rate>,
    /// Estimate the rate from what arrives (ingress only).
    pub autorate: Option<bool>,
    /// Usual round-trip time to the far end; default 100 ms.
    pub rtt: Option<Span>,
    /// How DSCPs become tins; default `diffserv3`.
    pub diffserv: Option<Diffserv>,
    /// Between what CAKE is fair; default `triple-isolate`.
    pub isolation: Option<FlowIsolation>,
    /// Look through NAT for the inner addresses; default off.
    pub nat: Option<bool>,
    /// Clear the DSCP after use; default off.
    pub wash: Option<bool>,
    /// Split super-packets; default on.
    pub split_gso: Option<bool>,
    /// Count what the AQM drops too, for shaping on the far side of the bottleneck; default off.
    pub ingress: Option<bool>,
    /// Drop redundant TCP ACKs; default off.
    pub ack_filter: Option<AckFilter>,
    /// Bytes added to each packet, −64 to 256. Giving it makes CAKE count from the network header.
    pub overhead: Option<i16>,
    /// The least that a packet counts as, up to 256.
    pub mpu: Option<u16>,
    /// Cells of the link below.
    pub framing: Option<Framing>,
    /// Memory for all packets together; default by bandwidth and rtt.
    pub memlimit: Option<Bytes>,
    /// Mask of the firewall mark that chooses the tin; default none.
    pub fwmark: Option<u32>,
}

/// How DSCPs become tins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Diffserv {
    /// Bulk, best effort, voice.
    Diffserv3,
    /// Bulk, best effort, video, voice.
    Diffserv4,
    /// Eight tins.
    Diffserv8,
    /// One tin.
    BestEffort,
    /// By the old precedence bits.
    Precedence,
}

/// Between what CAKE is fair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowIsolation {
    /// Nothing.
    Flowblind,
    /// Source hosts only.
    Srchost,
    /// Destination hosts only.
    Dsthost,
    /// Pairs of hosts.
    Hosts,
    /// Flows only.
    Flows,
    /// Source hosts, then flows.
    DualSrchost,
    /// Destination hosts, then flows.
    DualDsthost,
    /// Hosts on both sides, then flows.
    TripleIsolate,
}

/// Which redundant TCP ACKs CAKE drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AckFilter {
    /// None.
    Off,
    /// Those that the next ACK makes useless.
    On,
    /// More of them, at the cost of some clocking.
    Aggressive,
}

/// Cells of the link below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    /// No cells.
    NoAtm,
    /// 53-byte cells that carry 48 (ADSL).
    Atm,
    /// 65-byte blocks that carry 64 (VDSL).
    Ptm,
}
