//! Who moves bytes next where many want to: who is behind goes before who is ahead. Pure.
//!
//! ```text
//!   server ──┬── network ──┬── client ──┬── test ──┬── stream      at each level each as many bytes as its siblings; no more than
//!            └── network   └── client   └── test   └── stream      AHEAD, and one piece, before any of them that waits
//! ```
//!
//! Threads ask, and come again when they were told to. So one that has just moved its piece wants the next but can't say so for a moment. It is
//! waited for as long as it took to come back the last time, if it had to wait for that piece and is quick, and only while nothing of the rate is lost
//! by that: one who asks for little now and then would hold the others to as little. The others then move what the rate has. That is not forgiven: it
//! stays behind by as much, up to `owed`, and goes first when it is back. One that comes anew, or was away for long, is owed nothing: it stands where
//! those stand that wait.
//!
//! Compared is where one would stand *behind* its next piece: a large datagram is no reason to go before a small call. What a test, a client or a network
//! wants is what the next in it wants, and the next is who would stand least far behind its piece. So of all that wait there is always one who may:
//! at each level it, or what it is part of, would stand least far.
//!
//! One that comes anew stands no further back than the line has come: it moves on by what moved, divided by those who wait. Else newcomers
//! with little pieces, one after the other, would go before a large one for ever.

use crate::places::{client, wide};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Who was refused and has not come again for so long after it was to does not want any more.
const WANTS_NS: u64 = 50_000_000;

/// How far one may be ahead of another who waits, in bytes, and still go first.
const AHEAD: u64 = 16 << 10;

/// Who is back so soon is waited for, in nanoseconds …
const QUICK_NS: u64 = 10_000_000;

/// … and at least for so long.
const BLINK_NS: u64 = 1_000_000;

/// Who was told when to come again is on its way so long after that: it needs a CPU.
const LATE_NS: u64 = 2_000_000;

/// The largest datagram: one may come to be ahead by it at once.
const LARGEST: u64 = 64 << 10;

/// Longest that a stream is told to wait for those of its test before it, in nanoseconds: they may be gone before that.
const LONGEST_LINE_NS: u64 = 20_000_000;

/// Networks, clients, tests or streams beside each other that are kept in mind at once, unless more of them are there.
const KEPT: usize = 64;

/// A stream: its network, its client, its test and its number in that.
pub type Path = [u128; 4];

/// The path of a stream of a test.
pub fn path(ip: IpAddr, test: u64, stream: u64) -> Path {
    let one = client(ip);
    let number = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    [number(wide(one)), number(one), test.into(), stream.into()]
}

/// Whose turn it is, of all that move bytes.
#[derive(Debug)]
pub struct Turns {
    /// Nanoseconds that a byte takes.
    byte_ns: f64,
    owed: u64,
    all: Party,
}

/// The server, a network, a client, a test or a stream.
#[derive(Debug, Default)]
struct Party {
    /// What it moved, counted from where the others stood when it came.
    bytes: u64,
    /// Until when it is there, though it does nothing.
    there_ns: u64,
    /// What it wants, if only it comes for that.
    wants: Want,
    /// What it wants and comes for, as it was told to.
    comes: Want,
    /// Where its parts would stand if each had had the same.
    line: u64,
    /// When it moved last, if it has not asked since.
    moved_ns: Option<u64>,
    /// How long it took from there until it asked again.
    back_ns: u64,
    parts: BTreeMap<u128, Party>,
}

/// A piece that is waited for; of several that of the next.
#[derive(Debug, Default, Clone, Copy)]
struct Want {
    bytes: u64,
    /// Until when; 0 where none is.
    until_ns: u64,
}

impl Want {
    fn is(self, now: u64) -> bool {
        self.until_ns > now
    }
}

impl Turns {
    /// Of so many bits a second.
    pub fn new(rate: u64) -> Self {
        let byte_ns = 8e9 / rate.max(1) as f64;
        let owed = (WANTS_NS as f64 / byte_ns) as u64 + LARGEST + AHEAD;
        Self { byte_ns, owed, all: Party::default() }
    }

    /// Whether it is its turn. Those that may come are waited for where it is early: nothing of the rate is lost by that.
    pub fn may(&mut self, path: &Path, bytes: usize, now: u64, is_early: bool) -> bool {
        self.all.come(path, now, self.owed);
        let want = |part: &Party| if is_early { part.wants } else { part.comes };
        self.all.is_next(path, bytes as u64, now, &want)
    }

    /// It is to come again at `again`, and is waited for: when, if it is to stand in line behind others of its test.
    pub fn wait(&mut self, path: &Path, bytes: usize, now: u64, again: u64) -> u64 {
        self.all.come(path, now, self.owed);
        let before = self.all.before(path, now);
        let line = before as f64 * bytes as f64 * self.byte_ns;
        let again = again.saturating_add((line as u64).min(LONGEST_LINE_NS));
        self.all.wait(path, bytes as u64, now, again);
        again
    }

    /// So many bytes of it moved.
    pub fn moved(&mut self, path: &Path, bytes: usize, now: u64) {
        self.all.come(path, now, self.owed);
        self.all.moved(path, bytes as u64, now);
    }

    /// A test is over.
    pub fn leave(&mut self, path: &Path) {
        let client = self.all.parts.get_mut(&path[0]).and_then(|of| of.parts.get_mut(&path[1]));
        if let Some(client) = client {
            client.parts.remove(&path[2]);
        }
    }
}

impl Party {
    fn is_there(&self, now: u64) -> bool {
        self.there_ns > now
    }

    fn waits(&self, now: u64) -> bool {
        self.wants.is(now)
    }

    /// Notes that it is there. One who comes, or comes again, has not saved up for it; one who was there is owed no more than so much.
    fn come(&mut self, path: &[u128], now: u64, owed: u64) {
        let Some((first, rest)) = path.split_first() else { return };
        let others = || self.parts.iter().filter(|(other, _)| *other != first);
        let waiting =
            others().filter(|(_, part)| part.waits(now)).map(|(_, part)| part.bytes).min();
        let front =
            others().filter(|(_, part)| part.is_there(now)).map(|(_, part)| part.bytes).max();
        if self.parts.len() > KEPT && !self.parts.contains_key(first) {
            self.parts.retain(|_, part| part.is_there(now));
        }
        let part = self.parts.entry(*first).or_default();
        part.bytes = match (part.is_there(now), front) {
            (_, None) => part.bytes,
            (true, Some(front)) => part.bytes.max(front.saturating_sub(owed)),
            (false, Some(front)) => {
                let from = waiting.map_or(front, |least| least.max(self.line));
                // What it had too much of late it has had.
                part.bytes.clamp(from, from.saturating_add(LARGEST))
            }
        };
        part.there_ns = part.there_ns.max(now.saturating_add(WANTS_NS));
        if let Some(moved_ns) = part.moved_ns.take() {
            part.back_ns = now.saturating_sub(moved_ns);
        }
        part.come(rest, now, owed);
    }

    fn is_next(&self, path: &[u128], bytes: u64, now: u64, want: &impl Fn(&Self) -> Want) -> bool {
        let Some((first, rest)) = path.split_first() else { return true };
        let Some(part) = self.parts.get(first) else { return true };
        let behind = part.bytes.saturating_add(bytes);
        let others = self.parts.iter().filter(|(other, _)| *other != first);
        let others = others.map(|(_, other)| (other.bytes, want(other)));
        let mut others = others.filter(|(_, want)| want.is(now));
        others.all(|(stands, want)| behind <= stands + want.bytes + AHEAD)
            && part.is_next(rest, bytes, now, want)
    }

    /// How many streams of its test go first.
    fn before(&self, path: &[u128], now: u64) -> usize {
        let Some((first, rest)) = path.split_first() else { return 0 };
        let Some(part) = self.parts.get(first) else { return 0 };
        if !rest.is_empty() {
            return part.before(rest, now);
        }
        let stands = |bytes: u64, number: &u128| (bytes, *number);
        let own = stands(part.bytes, first);
        let waiting = self.parts.iter().filter(|(_, other)| other.waits(now));
        waiting.filter(|(number, other)| stands(other.bytes, number) < own).count()
    }

    fn wait(&mut self, path: &[u128], bytes: u64, now: u64, again: u64) {
        self.there_ns = self.there_ns.max(again.saturating_add(WANTS_NS));
        let Some((first, rest)) = path.split_first() else {
            // What it asked for before may have been less, and then nobody would be the next.
            let until = |more: u64| Want { bytes, until_ns: again.saturating_add(more) };
            (self.wants, self.comes) = (until(WANTS_NS), until(LATE_NS));
            return;
        };
        if let Some(part) = self.parts.get_mut(first) {
            part.wait(rest, bytes, now, again);
        }
        self.look(now);
    }

    /// Finds out what the next of its parts wants; where that one would stand then. Who waits comes again soon, and is looked at then.
    fn look(&mut self, now: u64) -> Option<u64> {
        let next = |want: fn(&Self) -> Want| {
            let wanting = || self.parts.values().filter(|part| want(part).is(now));
            let stands = |part: &&Self| part.bytes.saturating_add(want(part).bytes);
            let next = wanting().min_by_key(stands);
            let until_ns = wanting().map(|part| want(part).until_ns).max().unwrap_or(0);
            let bytes = next.map_or(0, |part| want(part).bytes);
            (Want { bytes, until_ns }, next.as_ref().map(stands))
        };
        let (wants, stands) = next(|part| part.wants);
        (self.wants, self.comes) = (wants, next(|part| part.comes).0);
        stands
    }

    fn moved(&mut self, path: &[u128], bytes: u64, now: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        let Some((first, rest)) = path.split_first() else {
            let is_quick = self.waits(now) && self.back_ns <= QUICK_NS;
            let until_ns = if is_quick { now + (self.back_ns * 3 / 2).max(BLINK_NS) } else { 0 };
            (self.wants, self.comes) = (Want { bytes, until_ns }, Want::default());
            self.moved_ns = Some(now);
            return;
        };
        let others = self.parts.iter().filter(|(other, part)| *other != first && part.waits(now));
        let line = self.line.saturating_add(bytes / (others.count() as u64 + 1));
        if let Some(part) = self.parts.get_mut(first) {
            part.moved(rest, bytes, now);
        }
        let next = self.look(now);
        self.line = next.map_or(line, |next| line.min(next));
    }
}

#[cfg(test)]
mod tests;
