//! Who moves bytes next where many want to: who is behind goes before who is ahead. Pure.
//!
//! ```text
//!   server ──┬── network ──┬── client ──┬── test ──┬── stream      at each level each as many bytes as its siblings; no more than
//!            └── network   └── client   └── test   └── stream      AHEAD, and one piece, before any of them that waits
//! ```
//!
//! Threads ask, and come again when they were told to. So one that has just moved its piece wants the next but can't say so for a moment. It is
//! waited for as long as it took to come back the last time, if it had to wait for that piece and is quick. On a busy machine the moment is long: the
//! others then move what the rate has. That is not forgiven: it stays behind by as much, up to `owed`, and goes first when it is back. One that comes
//! anew, or was away for long, is owed nothing: it stands where those stand that wait.
//!
//! Compared is where one would stand *behind* its next piece: a large datagram is no reason to go before a small call.

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
    /// Until when it waits; 0 where it does not.
    waits_ns: u64,
    /// The piece that it waits for, in bytes; of several the least.
    wants: u64,
    /// When it moved last, if it has not asked since.
    moved_ns: Option<u64>,
    /// How long it took from there until it asked again.
    back_ns: u64,
    parts: BTreeMap<u128, Party>,
}

impl Turns {
    /// Of so many bits a second.
    pub fn new(rate: u64) -> Self {
        let byte_ns = 8e9 / rate.max(1) as f64;
        let owed = (WANTS_NS as f64 / byte_ns) as u64 + LARGEST + AHEAD;
        Self { byte_ns, owed, all: Party::default() }
    }

    /// Whether it is its turn.
    pub fn may(&mut self, path: &Path, bytes: usize, now: u64) -> bool {
        self.all.come(path, now, self.owed);
        self.all.is_next(path, bytes as u64, now)
    }

    /// It is to come again at `again`, and is waited for: when, if it is to stand in line behind others of its test.
    pub fn wait(&mut self, path: &Path, bytes: usize, now: u64, again: u64) -> u64 {
        self.all.come(path, now, self.owed);
        let before = self.all.before(path, now);
        let line = before as f64 * bytes as f64 * self.byte_ns;
        let again = again.saturating_add((line as u64).min(LONGEST_LINE_NS));
        self.all.wait(path, bytes as u64, now, again.saturating_add(WANTS_NS));
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
        self.waits_ns > now
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
            (false, Some(front)) => waiting.unwrap_or(front),
        };
        part.there_ns = part.there_ns.max(now.saturating_add(WANTS_NS));
        if let Some(moved_ns) = part.moved_ns.take() {
            part.back_ns = now.saturating_sub(moved_ns);
        }
        part.come(rest, now, owed);
    }

    fn is_next(&self, path: &[u128], bytes: u64, now: u64) -> bool {
        let Some((first, rest)) = path.split_first() else { return true };
        let Some(part) = self.parts.get(first) else { return true };
        let behind = part.bytes.saturating_add(bytes);
        let others = self.parts.iter().filter(|(other, part)| *other != first && part.waits(now));
        let mut most = others.map(|(_, other)| other.bytes + other.wants + AHEAD);
        most.all(|most| behind <= most) && part.is_next(rest, bytes, now)
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

    fn wait(&mut self, path: &[u128], bytes: u64, now: u64, until_ns: u64) {
        self.wants = if self.waits(now) { self.wants.min(bytes) } else { bytes };
        self.waits_ns = self.waits_ns.max(until_ns);
        self.there_ns = self.there_ns.max(until_ns);
        let Some((first, rest)) = path.split_first() else { return };
        if let Some(part) = self.parts.get_mut(first) {
            part.wait(rest, bytes, now, until_ns);
        }
    }

    fn moved(&mut self, path: &[u128], bytes: u64, now: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        let Some((first, rest)) = path.split_first() else {
            let is_quick = self.waits(now) && self.back_ns <= QUICK_NS;
            self.waits_ns = if is_quick { now + (self.back_ns * 3 / 2).max(BLINK_NS) } else { 0 };
            (self.wants, self.moved_ns) = (bytes, Some(now));
            return;
        };
        if let Some(part) = self.parts.get_mut(first) {
            part.moved(rest, bytes, now);
        }
        // Others of it may wait still.
        self.waits_ns = self.parts.values().map(|part| part.waits_ns).max().unwrap_or(0);
        let waiting = self.parts.values().filter(|part| part.waits(now));
        self.wants = waiting.map(|part| part.wants).min().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 10_000_000;
    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// A thread that asks for pieces as soon as it may, and then again after so long.
    struct Mover {
        path: Path,
        piece: usize,
        /// How long it is about a piece that it may move: what a system call takes, or what a busy machine makes of that.
        takes_ns: u64,
        next_ns: u64,
        got: u64,
        longest_ns: u64,
        asked_ns: u64,
    }

    fn mover(ip: &str, test: u64, stream: u64, piece: usize, takes_ns: u64) -> Mover {
        let path = path(self::ip(ip), test, stream);
        Mover { path, piece, takes_ns, next_ns: 0, got: 0, longest_ns: 0, asked_ns: 0 }
    }

    /// These share a line for so many seconds: an account with a burst of 20 ms, as the server's.
    fn share(movers: &mut [Mover], rate: u64, seconds: u64) {
        let mut turns = Turns::new(rate);
        let (mut paid, burst, retry) = (0u64, 20 * MS, 500 * US);
        loop {
            let next = movers.iter_mut().min_by_key(|mover| mover.next_ns).unwrap();
            let now = next.next_ns;
            if now >= seconds * 1000 * MS {
                return;
            }
            let opens = paid.saturating_sub(burst);
            if opens > now {
                let again = opens.max(now + retry);
                next.next_ns = turns.wait(&next.path, next.piece, now, again);
            } else if !turns.may(&next.path, next.piece, now) {
                next.next_ns = turns.wait(&next.path, next.piece, now, now + retry);
            } else {
                turns.moved(&next.path, next.piece, now);
                paid = paid.max(now) + (next.piece as f64 * turns.byte_ns) as u64;
                next.got += next.piece as u64;
                next.longest_ns = next.longest_ns.max(now - next.asked_ns);
                next.next_ns = now + next.takes_ns;
                next.asked_ns = next.next_ns;
            }
        }
    }

    fn of_all(movers: &[Mover], of: impl Fn(&Mover) -> bool) -> f64 {
        let sum = |of: &dyn Fn(&Mover) -> bool| -> u64 {
            movers.iter().filter(|mover| of(mover)).map(|mover| mover.got).sum()
        };
        sum(&of) as f64 / sum(&|_| true) as f64
    }

    #[test]
    fn a_client_with_many_streams_has_its_networks_half_also_where_the_other_is_slow_to_ask_again()
    {
        for rate in [RATE, 3 * RATE, 10 * RATE] {
            for streams in [1, 16, 128] {
                for takes_ns in [20 * US, 2 * MS] {
                    let many = (0..streams).map(|n| mover("11.1.0.1", 1, n, 16 << 10, 20 * US));
                    let mut movers: Vec<_> = many.collect();
                    movers.push(mover("12.9.0.1", 2, 0, 16 << 10, takes_ns));
                    share(&mut movers, rate, 4);
                    let part = of_all(&movers, |mover| mover.path[2] == 2);
                    let what = format!("{part} beside {streams} streams, {takes_ns} ns, {rate}");
                    assert!((0.45..=0.55).contains(&part), "{what}");
                    let all: u64 = movers.iter().map(|mover| mover.got).sum();
                    assert!(all > rate / 8 * 4 * 95 / 100, "the rate is used: {all}");
                }
            }
        }
    }

    #[test]
    fn large_datagrams_neither_go_first_nor_starve() {
        for (rate, streams) in [(RATE, 1), (RATE, 128), (10 * RATE, 128)] {
            let many = (0..streams).map(|n| mover("11.1.0.1", 1, n, 65_507, 20 * US));
            let mut movers: Vec<_> = many.collect();
            movers.push(mover("12.9.0.1", 2, 0, 1_460, MS));
            share(&mut movers, rate, 8);
            let part = of_all(&movers, |mover| mover.path[2] == 2);
            assert!((0.45..=0.55).contains(&part), "{part} beside {streams} streams at {rate}");
        }
        let eight = (0..8u64).flat_map(|n| {
            (0..16).map(move |s| mover(&format!("11.{n}.0.1"), n, s, 65_000, 20 * US))
        });
        let mut movers: Vec<_> = eight.collect();
        share(&mut movers, RATE, 20);
        for n in 0..8 {
            let part = of_all(&movers, |mover| mover.path[2] == n);
            assert!((0.10..=0.15).contains(&part), "{part} of one of eight");
        }
        // Each stream of a test has its part of that.
        let streams = || movers.iter().filter(|mover| mover.path[2] == 3).map(|mover| mover.got);
        assert!(streams().max() <= streams().min().map(|least| least + 2 * 65_000));
    }

    #[test]
    fn a_small_call_waits_for_what_is_being_sent_and_not_for_the_others_turns() {
        let many = (0..128).map(|n| mover("11.1.0.1", 1, n, 65_507, 20 * US));
        let mut movers: Vec<_> = many.collect();
        movers.extend((0..16).map(|n| mover("12.9.0.1", 2, n, 16 << 10, 20 * US)));
        // One who calls ten times a second, and one who does so fifty times.
        movers.push(mover("12.55.0.1", 3, 0, 64, 100 * MS));
        movers.push(mover("13.55.0.1", 4, 0, 64, 20 * MS));
        share(&mut movers, RATE, 8);
        for caller in &movers[144..] {
            // A datagram takes 52 ms, and two pieces of 13 ms may be ahead.
            assert!(caller.longest_ns < 80 * MS, "{} ns", caller.longest_ns);
            assert!(caller.got > 64 * 50, "{} bytes", caller.got);
        }
    }

    #[test]
    fn who_waits_for_nothing_is_owed_little_and_who_comes_again_nothing() {
        let mut turns = Turns::new(RATE);
        let (one, other) = (path(ip("11.1.0.1"), 1, 0), path(ip("12.1.0.1"), 2, 0));
        turns.moved(&one, 1000, 0);
        turns.moved(&other, 1000, 0);
        // It is there all the time, and moves next to nothing.
        for ms in 0..1000 {
            turns.moved(&one, 2_500, ms * MS);
            if ms % 10 == 0 {
                turns.moved(&other, 1, ms * MS);
            }
        }
        let stands = |turns: &Turns, path: &Path| turns.all.parts[&path[0]].bytes;
        let behind = stands(&turns, &one) - stands(&turns, &other);
        assert!(behind <= turns.owed + 25_000, "{behind} bytes");
        turns.moved(&one, 2_500, 5000 * MS);
        assert!(turns.may(&other, 100, 5000 * MS));
        assert_eq!(stands(&turns, &one), stands(&turns, &other), "and nothing after a while");
    }

    #[test]
    fn who_is_gone_is_forgotten() {
        let mut turns = Turns::new(RATE);
        for n in 0..100_000u32 {
            let ip = IpAddr::from((0x0b00_0000 + (n << 8)).to_be_bytes());
            turns.moved(&path(ip, n.into(), 0), 1, u64::from(n) * 10 * MS);
        }
        assert!(turns.all.parts.len() <= KEPT + 1, "{}", turns.all.parts.len());
    }
}
