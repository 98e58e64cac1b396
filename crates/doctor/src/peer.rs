//! What the other end tells of the path, where a `quell serve` runs there: probes of several flows, and how each came back.
//!
//! ```text
//!   port 40001 ─ TTL 64, class EF, ECT(0) ──► arrives with TTL 61 ──► answer of the same class, with that TTL in it ──► arrives with TTL 60
//!   port 40002 ─ …
//! ```
//!
//! The other end answers with the class of what came (RFC 8762 leaves that open; `quell serve` and `quell` do so), a mark "congestion
//! experienced" as ECT(0). So a class that comes back as it was sent survived both ways.

use serde::Serialize;
use std::collections::BTreeMap;

/// The other end of a path.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Peer {
    /// Who was asked, as "192.0.2.7:5201".
    pub host: String,
    /// The flows, each with a source port of its own.
    pub flows: Vec<Probed>,
}

/// What became of the probes of one flow.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Probed {
    /// Their source port.
    pub port: u16,
    /// The TOS or traffic class byte with which they were sent.
    pub tos: u8,
    /// How many were sent.
    pub sent: u32,
    /// How many came back.
    pub answered: u32,
    /// The TOS bytes with which they came back, and how many with each.
    pub returned: BTreeMap<u8, u32>,
    /// With which TTL the last arrived there; 0 where the other end does not know.
    pub ttl_there: Option<u8>,
    /// With which TTL its answer arrived here.
    pub ttl_here: Option<u8>,
}

impl Peer {
    /// Whether anything came back at all.
    pub fn answers(&self) -> bool {
        self.flows.iter().any(|flow| flow.answered > 0)
    }
}

impl Probed {
    /// The share that did not come back.
    pub fn loss(&self) -> f64 {
        1.0 - f64::from(self.answered) / f64::from(self.sent.max(1))
    }
}

/// Hops that a packet took, from the TTL with which it arrived: systems begin with 64, 128 or 255.
pub fn hops(ttl: u8) -> u8 {
    [64, 128].into_iter().find(|first| ttl <= *first).unwrap_or(255) - ttl
}
