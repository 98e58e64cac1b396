//! The connections of a capture: found by their ends, in bounded memory.
//!
//! ```text
//!   packet ──ends──► live connection ──finished, or quiet for longest──► summary (kept, or only counted)
//! ```

use crate::connection::{Connection, ConnectionSummary};
use crate::packet::TcpPacket;
use crate::sighting::Sightings;
use crate::time::Time;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

/// What is kept in memory at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceLimits {
    /// Connections that are followed at a time. When there are more, the one that was quiet for longest is given up.
    pub live: usize,
    /// Connections that are listed; those beyond are only counted.
    pub listed: usize,
    /// Moments that are listed of a connection; those beyond are only counted.
    pub moments: usize,
    /// Moments that are listed of all connections.
    pub all_moments: usize,
}

impl Default for TraceLimits {
    fn default() -> Self {
        TraceLimits { live: 4096, listed: 10_000, moments: 200, all_moments: 50_000 }
    }
}

/// The lesser address first: both directions have the same ends.
type AddressPair = (SocketAddr, SocketAddr);

fn ends(packet: &TcpPacket) -> AddressPair {
    (packet.from.min(packet.to), packet.from.max(packet.to))
}

#[derive(Debug)]
struct LiveConnection {
    number: u64,
    used: u64,
    connection: Connection,
}

/// All connections so far.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    limits: TraceLimits,
    /// Only this one is listed.
    only: Option<u64>,
    live: HashMap<AddressPair, LiveConnection>,
    /// By the number of the packet that used them last.
    quiet: BTreeMap<u64, AddressPair>,
    pub(crate) finished: Vec<(u64, ConnectionSummary)>,
    pub(crate) begun: u64,
    pub(crate) given_up: u64,
    /// Packets that were there before.
    pub(crate) twice: u64,
    sightings: Sightings,
    moments: usize,
}

impl ConnectionTable {
    pub(crate) fn new(limits: TraceLimits, only: Option<u64>) -> Self {
        ConnectionTable {
            limits,
            only,
            live: HashMap::new(),
            quiet: BTreeMap::new(),
            finished: Vec::new(),
            begun: 0,
            given_up: 0,
            twice: 0,
            sightings: Sightings::default(),
            moments: 0,
        }
    }

    /// Takes a packet; numbers rise from packet to packet.
    pub(crate) fn packet(&mut self, now: Time, number: u64, packet: &TcpPacket) {
        let ends = ends(packet);
        let before = self.sightings.before(now, number, packet);
        if self.live.get(&ends).is_some_and(|live| live.connection.is_succeeded_by(packet)) {
            self.end(&ends);
        }
        if !self.live.contains_key(&ends) && self.live.len() >= self.limits.live.max(1) {
            self.give_up_quietest();
        }
        let (begun, most) = (&mut self.begun, self.limits.moments);
        let live = self.live.entry(ends).or_insert_with(|| {
            *begun += 1;
            LiveConnection {
                number: *begun,
                used: number,
                connection: Connection::new(now, packet, most),
            }
        });
        self.quiet.remove(&live.used);
        live.used = number;
        self.quiet.insert(number, ends);
        let twice = live.connection.copies();
        live.connection.packet(now, number, packet, before);
        self.twice += live.connection.copies() - twice;
    }

    fn give_up_quietest(&mut self) {
        if let Some((_, ends)) = self.quiet.first_key_value() {
            let ends = *ends;
            let open = self.live.get(&ends).is_some_and(|live| live.connection.is_open());
            self.given_up += u64::from(open);
            self.end(&ends);
        }
    }

    fn end(&mut self, ends: &AddressPair) {
        let Some(live) = self.live.remove(ends) else { return };
        self.quiet.remove(&live.used);
        self.keep(live);
    }

    fn keep(&mut self, live: LiveConnection) {
        let wanted = match self.only {
            Some(only) => live.number == only,
            None => self.finished.len() < self.limits.listed,
        };
        if wanted {
            let mut summary = live.connection.finish();
            summary.moments.truncate(self.limits.all_moments.saturating_sub(self.moments));
            self.moments += summary.moments.len();
            self.finished.push((live.number, summary));
        }
    }

    /// The capture is over. Connections come in the order of their first packets.
    pub(crate) fn finish(&mut self) -> Vec<(u64, ConnectionSummary)> {
        let mut live: Vec<LiveConnection> = self.live.drain().map(|(_, live)| live).collect();
        live.sort_by_key(|live| live.number);
        live.into_iter().for_each(|live| self.keep(live));
        let mut finished = std::mem::take(&mut self.finished);
        finished.sort_by_key(|(number, _)| *number);
        finished
    }
}
