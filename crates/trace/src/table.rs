//! The connections of a capture: found by their ends, in bounded memory.
//!
//! ```text
//!   packet ──ends──► live connection ──finished, or quiet for longest──► summary (kept, or only counted)
//! ```

use crate::connection::{Connection, Summary};
use crate::looks::Looks;
use crate::packet::Packet;
use crate::time::Time;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

/// What is kept in memory at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections that are followed at a time. When there are more, the one that was quiet for longest is given up.
    pub live: usize,
    /// Connections that are listed; those beyond are only counted.
    pub listed: usize,
    /// Marks that are listed of a connection; those beyond are only counted.
    pub marks: usize,
    /// Marks that are listed of all connections.
    pub all_marks: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { live: 4096, listed: 10_000, marks: 200, all_marks: 50_000 }
    }
}

/// The lesser address first: both directions have the same ends.
type Ends = (SocketAddr, SocketAddr);

fn ends(packet: &Packet) -> Ends {
    (packet.from.min(packet.to), packet.from.max(packet.to))
}

#[derive(Debug)]
struct Live {
    number: u64,
    used: u64,
    connection: Connection,
}

/// All connections so far.
#[derive(Debug)]
pub(crate) struct Table {
    limits: Limits,
    /// Only this one is listed.
    only: Option<u64>,
    live: HashMap<Ends, Live>,
    /// By the number of the packet that used them last.
    quiet: BTreeMap<u64, Ends>,
    pub(crate) finished: Vec<(u64, Summary)>,
    pub(crate) begun: u64,
    pub(crate) given_up: u64,
    /// Packets that were there before.
    pub(crate) twice: u64,
    looks: Looks,
    marks: usize,
}

impl Table {
    pub(crate) fn new(limits: Limits, only: Option<u64>) -> Self {
        Table {
            limits,
            only,
            live: HashMap::new(),
            quiet: BTreeMap::new(),
            finished: Vec::new(),
            begun: 0,
            given_up: 0,
            twice: 0,
            looks: Looks::default(),
            marks: 0,
        }
    }

    /// Takes a packet; numbers rise from packet to packet.
    pub(crate) fn packet(&mut self, now: Time, number: u64, packet: &Packet) {
        let ends = ends(packet);
        let before = self.looks.before(now, number, packet);
        if self.live.get(&ends).is_some_and(|live| live.connection.is_succeeded_by(packet)) {
            self.end(&ends);
        }
        if !self.live.contains_key(&ends) && self.live.len() >= self.limits.live.max(1) {
            self.give_up_quietest();
        }
        let (begun, most) = (&mut self.begun, self.limits.marks);
        let live = self.live.entry(ends).or_insert_with(|| {
            *begun += 1;
            Live { number: *begun, used: number, connection: Connection::new(now, packet, most) }
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

    fn end(&mut self, ends: &Ends) {
        let Some(live) = self.live.remove(ends) else { return };
        self.quiet.remove(&live.used);
        self.keep(live);
    }

    fn keep(&mut self, live: Live) {
        let wanted = match self.only {
            Some(only) => live.number == only,
            None => self.finished.len() < self.limits.listed,
        };
        if wanted {
            let mut summary = live.connection.finish();
            summary.marks.truncate(self.limits.all_marks.saturating_sub(self.marks));
            self.marks += summary.marks.len();
            self.finished.push((live.number, summary));
        }
    }

    /// The capture is over. Connections come in the order of their first packets.
    pub(crate) fn finish(&mut self) -> Vec<(u64, Summary)> {
        let mut live: Vec<Live> = self.live.drain().map(|(_, live)| live).collect();
        live.sort_by_key(|live| live.number);
        live.into_iter().for_each(|live| self.keep(live));
        let mut finished = std::mem::take(&mut self.finished);
        finished.sort_by_key(|(number, _)| *number);
        finished
    }
}
