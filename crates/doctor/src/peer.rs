//! What the other end tells of the path, where a `quell serve` runs there: probes of several flows, and how each came back.
//!
//! ```text
//!   port 40001 ─ TTL 64, class EF, ECT(0) ──► arrives with TTL 61 ──► answer of the same class, with that TTL in it ──► arrives with TTL 60
//!   port 40002 ─ …
//! ```
//!
//! Over a connection of their own both ends tell each other how they see it ([`quell_wire::ends`]): what each told the other when it was opened,
//! which sizes get through each way, from which address the other sees us.
//!
//! The other end answers with the class of what came (RFC 8762 leaves that open; `quell serve` and `quell` do so), a mark "congestion
//! experienced" as ECT(0). So a class that comes back as it was sent survived both ways.

use quell_cause::SizeFacts;
use quell_wire::ends::EndView;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// The other end of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PeerReport {
    /// Who was asked, as "192.0.2.7:5201".
    pub host: String,
    /// The flows, each with a source port of its own.
    pub flows: Vec<StampFlow>,
    /// What both ends told each other, or why they did not.
    #[serde(serialize_with = "or_why")]
    pub ends: Result<BothEnds, String>,
}

/// What both ends of a path see of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct BothEnds {
    /// This end's view of the connection.
    pub here: EndView,
    pub there: EndView,
    /// Own address of a UDP flow, and where the other end sees it come from. None where no hello got there and back.
    pub udp: Option<(SocketAddr, SocketAddr)>,
    pub to_there: PacketSizes,
    pub to_here: PacketSizes,
    /// What of ICMP echo gets there and back; none where this end may not ask, or nothing of any size comes back.
    pub echo: Option<PacketSizes>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PacketSizes {
    /// Sizes of the IP packets of UDP that were sent, unfragmented, each several times; ascending.
    pub sent: Vec<u32>,
    /// Those of which one came, at least.
    pub came: Vec<u32>,
    /// MTUs that somebody named when a packet was too big.
    pub too_big: Vec<u32>,
    /// Whether 64 kB of TCP got through; none where that was not tried.
    pub bulk: Option<bool>,
    /// The largest IP packets of that, in bytes.
    pub segment: u32,
}

/// What became of the probes of one flow.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct StampFlow {
    pub port: u16,
    /// The TOS or traffic class byte with which they were sent.
    pub tos: u8,
    pub sent: u32,
    pub answered: u32,
    /// The TOS bytes with which they came back, and how many with each.
    pub returned: BTreeMap<u8, u32>,
    /// With which TTL the last arrived there; 0 where the other end does not know.
    pub ttl_there: Option<u8>,
    /// With which TTL its answer arrived here.
    pub ttl_here: Option<u8>,
    /// How many of those sent went before the first that was answered: they may have waited for a neighbour's hardware address, here or on the
    /// way, in a queue that drops the oldest when it is full (`neigh_resolve_output`, net/core/neighbour.c). Where none was answered, 0.
    pub before_first: u32,
    /// How many were sent from the first that was answered to the last, and how many of these the other end says it got; none where it does not
    /// say, or counted another's.
    pub arrived: Option<(u32, u32)>,
    /// How many of these it says it left unanswered, as `--max-rate` has it do; none where it does not know how many.
    pub unanswered: Option<u32>,
}

/// A value, or under "could_not_look" why there is none.
pub(crate) fn or_why<T: Serialize, S: Serializer>(
    value: &Result<T, String>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Ok(value) => value.serialize(to),
        Err(why) => BTreeMap::from([("could_not_look", why)]).serialize(to),
    }
}

impl PeerReport {
    /// Whether anything came back at all.
    pub fn answers(&self) -> bool {
        self.flows.iter().any(|flow| flow.answered > 0)
    }
}

impl PacketSizes {
    /// Of what was sent, each size several times, what arrived; both ascending, each size once. What was never sent is left out.
    pub fn of(sent: &[u32], arrived: &[u32]) -> Self {
        let once = |sizes: &mut dyn Iterator<Item = u32>| sizes.collect::<BTreeSet<_>>();
        let sent = once(&mut sent.iter().copied());
        let came = once(&mut arrived.iter().copied().filter(|size| sent.contains(size)));
        Self {
            sent: sent.into_iter().collect(),
            came: came.into_iter().collect(),
            ..Self::default()
        }
    }

    /// The largest that came, and the smallest that did not: where all above some size are lost, and nobody says so.
    pub fn swallows(&self) -> Option<(u32, u32)> {
        let named = self.too_big.iter().min().copied();
        SizeFacts { sent: &self.sent, arrived: &self.came, named }.gap()
    }

    /// The largest IP packet that gets through.
    pub fn mtu(&self) -> Option<u32> {
        self.came.iter().max().copied()
    }
}

impl BothEnds {
    /// Bytes of the headers of IP and TCP without options.
    pub fn headers(&self) -> u32 {
        if self.here.remote.is_none_or(|remote| remote.ip().to_canonical().is_ipv4()) {
            40
        } else {
            60
        }
    }
}

impl StampFlow {
    /// Of those from the first that was answered to the last, how many were lost on the way there and on the way back.
    pub fn lost_by_way(&self) -> Option<(u32, u32)> {
        let (sent, arrived) = self.arrived?;
        let back = arrived.checked_sub(self.answered)?.checked_sub(self.unanswered?)?;
        Some((sent.checked_sub(arrived)?, back))
    }

    /// How many did not come back though the other end does not say that it left them unanswered.
    pub fn lost(&self) -> u32 {
        self.tried().saturating_sub(self.answered).saturating_sub(self.unanswered.unwrap_or(0))
    }

    /// How many were sent when the path was open.
    pub fn tried(&self) -> u32 {
        self.sent.saturating_sub(self.before_first)
    }

    /// The share that did not come back, those not counted that the other end left unanswered.
    pub fn loss(&self) -> f64 {
        let asked = self.sent.saturating_sub(self.unanswered.unwrap_or(0));
        1.0 - f64::from(self.answered) / f64::from(asked.max(1))
    }
}

/// Hops that a packet took, from the TTL with which it arrived: systems begin with 64, 128 or 255.
pub fn hops(ttl: u8) -> u8 {
    [64, 128].into_iter().find(|first| ttl <= *first).unwrap_or(255) - ttl
}
