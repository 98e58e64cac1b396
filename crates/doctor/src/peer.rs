//! What the other end tells of the path, where a `quell serve` runs there: probes of several flows, and how each came back.
//!
//! ```text
//!   port 40001 ─ TTL 64, class EF, ECT(0) ──► arrives with TTL 61 ──► answer of the same class, with that TTL in it ──► arrives with TTL 60
//!   port 40002 ─ …
//! ```
//!
//! Over a connection of their own both ends tell each other how they see it ([`quell_wire::ends`]): what each told the other when it was opened,
//! which sizes get through each way, from which address the other sees us, how long a flow may be idle.
//!
//! The other end answers with the class of what came (RFC 8762 leaves that open; `quell serve` and `quell` do so), a mark "congestion
//! experienced" as ECT(0). So a class that comes back as it was sent survived both ways.

use quell_wire::ends::EndView;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The other end of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Peer {
    /// Who was asked, as "192.0.2.7:5201".
    pub host: String,
    /// The flows, each with a source port of its own.
    pub flows: Vec<Probed>,
    /// What both ends told each other, or why they did not.
    #[serde(serialize_with = "ends_or_why")]
    pub ends: Result<Ends, String>,
}

/// What both ends of a path see of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Ends {
    /// This end's view of the connection.
    pub here: EndView,
    /// The other end's.
    pub there: EndView,
    /// Own address of a UDP flow, and where the other end sees it come from. None where no hello got there and back.
    pub udp: Option<(SocketAddr, SocketAddr)>,
    /// What gets there.
    pub to_there: Way,
    /// What gets here.
    pub to_here: Way,
    /// What of ICMP echo gets there and back; none where this end may not ask, or nothing of any size comes back.
    pub echo: Option<Way>,
    /// How long flows of UDP lived that nobody used; none where that was not asked.
    pub idle: Option<Idle>,
    /// How long connections of TCP did; none where that was not asked, or the other end does not know the question.
    pub idle_tcp: Option<Idle>,
}

/// What gets through one way.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Way {
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
    /// Why what did not come says nothing of the path; none where it does.
    pub doubt: Option<String>,
}

/// Why nothing is known of a way whose sender does not tell what it sent.
const UNTOLD: &str = "the other end does not tell what it sent: it is older than this program";
/// The same where what it tells can't be.
const CONTRADICTS: &str = "what the other end tells of what it sent can't be: it is not what was asked for, or not what came";
/// The same of what it tells that it got.
const NEVER_SENT: &str = "the other end tells of packets that it got and that were never sent";

/// How long flows were idle, in milliseconds, before the other end sent again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Idle {
    /// Idle for so long, they lived.
    pub lived: Vec<u32>,
    /// What was sent after so long did not arrive.
    pub died: Vec<u32>,
    /// Nobody knows: the other end did not say its word after so long, over a connection that lives, or that it had ended itself.
    pub unknown: Vec<u32>,
    /// Whether the other end told of each that it sent it. Only what it sent is among them then.
    pub told: bool,
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
    /// How many of those sent went before the first that was answered: they may have waited for a neighbour's hardware address, here or on the
    /// way, in a queue that drops the oldest when it is full (`neigh_resolve_output`, net/core/neighbour.c). Where none was answered, 0.
    pub before_first: u32,
    /// How many were sent from the first that was answered to the last, and how many of these the other end says it got; none where it does not
    /// say, or counted another's.
    pub arrived: Option<(u32, u32)>,
    /// How many of these it says it left unanswered, as `--max-rate` has it do; none where it does not know how many.
    pub unanswered: Option<u32>,
}

/// As everywhere where something could not be seen.
fn ends_or_why<S: Serializer>(ends: &Result<Ends, String>, to: S) -> Result<S::Ok, S::Error> {
    match ends {
        Ok(ends) => ends.serialize(to),
        Err(why) => BTreeMap::from([("could_not_look", why)]).serialize(to),
    }
}

impl Peer {
    /// Whether anything came back at all.
    pub fn answers(&self) -> bool {
        self.flows.iter().any(|flow| flow.answered > 0)
    }
}

impl Way {
    /// To this end: of what the other end was asked to send, each size several times, what it says that it sent, and what came. A size that it did
    /// not send as often as it was asked, and of which none came, was not sent.
    pub fn to_here(asked: &[u32], said: Option<&[u32]>, mut came: Vec<u32>) -> Self {
        let times = |all: &[u32], size: u32| all.iter().filter(|one| **one == size).count();
        let doubt = match said {
            None => Some(UNTOLD),
            Some(said) => {
                let more = said.iter().any(|size| times(said, *size) > times(asked, *size));
                let unsaid = came.iter().any(|size| asked.contains(size) && !said.contains(size));
                (more || unsaid).then_some(CONTRADICTS)
            }
        };
        came.retain(|size| asked.contains(size));
        // Where its word is none it is as if it had sent what it was asked for, and in doubt.
        let said = said.filter(|_| doubt.is_none()).unwrap_or(asked);
        let mut sent = asked.to_vec();
        sent.retain(|size| times(said, *size) == times(asked, *size) || came.contains(size));
        [&mut sent, &mut came].into_iter().for_each(sorted);
        Self { sent, came, doubt: doubt.map(str::to_owned), ..Self::default() }
    }

    /// From this end: of what was sent, each size several times, what the other end says that came.
    pub fn to_there(sent: &[u32], heard: &[u32]) -> Self {
        let doubt = heard.iter().any(|size| !sent.contains(size)).then(|| NEVER_SENT.to_owned());
        let (mut sent, mut came) = (sent.to_vec(), heard.to_vec());
        came.retain(|size| sent.contains(size));
        [&mut sent, &mut came].into_iter().for_each(sorted);
        Self { sent, came, doubt, ..Self::default() }
    }

    /// Why it is unknown whether sizes are swallowed, where it looks so.
    pub fn unsure(&self) -> Option<&str> {
        self.gap().and(self.doubt.as_deref())
    }

    /// The largest that came, and the smallest that did not: where all above some size are lost, and nobody says so.
    pub fn swallows(&self) -> Option<(u32, u32)> {
        self.gap().filter(|_| self.doubt.is_none())
    }

    /// As it looks, be it so or not.
    fn gap(&self) -> Option<(u32, u32)> {
        let most = *self.came.iter().max()?;
        let (passed, lost): (Vec<u32>, Vec<u32>) =
            self.sent.iter().partition(|size| **size <= most);
        // A path that loses now and then loses small ones too.
        let steady = passed.iter().all(|size| self.came.contains(size));
        (steady && self.too_big.is_empty()).then_some((most, *lost.iter().min()?))
    }

    /// The largest IP packet that gets through.
    pub fn mtu(&self) -> Option<u32> {
        self.came.iter().max().copied()
    }
}

/// Each once, ascending.
fn sorted(sizes: &mut Vec<u32>) {
    sizes.sort_unstable();
    sizes.dedup();
}

impl Idle {
    /// Of flows that the other end was to use again after so long, what it says of which it did, and what came. Where it did not, nothing is known.
    pub fn of(after_ms: &[u32], said: Option<&[u32]>, came: &[u32]) -> Self {
        let tried = after_ms
            .iter()
            .copied()
            .filter(|ms| said.is_none_or(|said| said.contains(ms)) || came.contains(ms));
        let (lived, died) = tried.partition(|ms| came.contains(ms));
        Self { lived, died, unknown: Vec::new(), told: said.is_some() }
    }

    /// The longest that a flow lived, and the shortest after which one was dead; none where that is no clear line, or none died.
    pub fn between(&self) -> Option<(u32, u32)> {
        let (lived, died) =
            (self.lived.iter().max().copied().unwrap_or(0), *self.died.iter().min()?);
        (lived < died).then_some((lived, died))
    }
}

impl Ends {
    /// Bytes of the headers of IP and TCP without options.
    pub fn headers(&self) -> u32 {
        if self.here.remote.is_none_or(|remote| remote.ip().to_canonical().is_ipv4()) {
            40
        } else {
            60
        }
    }
}

impl Probed {
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
