//! A reflector's counts: how many packets of each session it received (RFC 8762, section 4.1, stateful mode). Pure.
//!
//! ```text
//!   room for 16,384 sessions, 512 of them for one source (an IPv4 address, an IPv6 /64)
//!
//!   a packet of a new session ──► room? ──────────────────────────► counted
//!                                   │ no: one that was silent for a minute goes, the oldest first ──► counted
//!                                   └ none was: answered without a count
//! ```
//!
//! A session that lives is never forgotten for another one: its count would begin anew, and whoever measures would take that for losses.
//! What finds no room is answered in the stateless mode of the RFC, which says that nothing was counted.
//!
//! A packet that a limit leaves unanswered was lost on no way. A count can't say so: with it the packet would have been lost on the way back,
//! without it on the way there. So the next answers of its session have no count, and then it begins anew: of the losses about that time the
//! asker knows no direction. How many they were is counted apart ([`Sessions::unanswered`]), for askers that understand it.
//!
//! What the socket had no room for was lost on no way either, and nobody knows whose it was: it may have been of each session that lives, or of
//! the packets that one had sent before its first came through, and counts as left unanswered in each.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

const MOST: usize = 16_384;
/// Of these, for one source: twice as many streams as one `quell ping` may have.
const MOST_OF_ONE: usize = 512;
/// So many answers have no count behind a packet that was left unanswered: more than are lost one after another.
const UNCOUNTED: u32 = 16;
/// A session that was silent for so long makes room.
const IDLE_NS: u64 = 60_000_000_000;

type SessionKey = (SocketAddr, u16);

#[derive(Debug, Clone, Copy)]
struct Session {
    received: u32,
    /// So many answers of it have no count still.
    uncounted: u32,
    /// Packets of it that were left unanswered; none where there was no room to count the first ones.
    unanswered: Option<u32>,
    /// What the socket had had no room for by then, in all.
    dropped: u32,
    /// Which packet of all it was that came last, and when.
    touched: (u64, u64),
}

impl Session {
    /// So many more of it were left unanswered, or may have been.
    fn left(self, many: u32) -> Self {
        let unanswered = self.unanswered.map(|n| n.saturating_add(many));
        Self { uncounted: UNCOUNTED, received: 0, unanswered, ..self }
    }
}

/// The sessions that a reflector knows.
#[derive(Debug, Default)]
pub struct Sessions {
    sessions: HashMap<SessionKey, Session>,
    /// The same by the numbers of their last packets, the one that was silent longest first.
    by_age: BTreeMap<u64, SessionKey>,
    of_source: HashMap<IpAddr, usize>,
    packets: u64,
    /// What the socket had no room for, in all (it wraps), and when that was seen to be more.
    dropped: (u32, u64),
}

impl Sessions {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The socket had no room for so many packets, in all; it wraps.
    pub fn dropped(&mut self, in_all: u32, now_ns: u64) {
        if in_all != self.dropped.0 {
            self.dropped = (in_all, now_ns);
        }
    }

    /// Whether the socket had room for each packet.
    pub fn none_dropped(&self) -> bool {
        self.dropped.0 == 0
    }

    /// Packets of this session that were left unanswered; none where there was no room to count them.
    pub fn unanswered(&self, from: SocketAddr, ssid: u16) -> Option<u32> {
        self.sessions.get(&(from, ssid))?.unanswered
    }

    /// A packet of a session came at `now_ns` of the monotonic clock: how many came before, which wraps after 2^32. None when there is no
    /// room to count it, or one shortly before it was left unanswered.
    pub fn number(&mut self, from: SocketAddr, ssid: u16, now_ns: u64) -> Option<u32> {
        self.number_behind(0, (from, ssid), now_ns)
    }

    /// The same of a packet behind so many that its sender had sent.
    pub fn number_behind(
        &mut self,
        sent: u32,
        (from, ssid): (SocketAddr, u16),
        now_ns: u64,
    ) -> Option<u32> {
        self.packets += 1;
        let key = (from, ssid);
        let known = self.sessions.get(&key).copied();
        match known {
            Some(session) => self.forget(key, session.touched.0),
            None if !self.makes_room(from, now_ns) => return None,
            None => {}
        }
        let touched = (self.packets, now_ns);
        let (dropped, at_ns) = self.dropped;
        let session = known.unwrap_or_else(|| {
            // Of those before its first one, as many may have found no room a moment ago.
            let lately = dropped > 0 && now_ns.saturating_sub(at_ns) < IDLE_NS;
            let before = if lately { sent.min(dropped) } else { 0 };
            let dropped = dropped.wrapping_sub(before);
            Session { received: 0, uncounted: 0, unanswered: Some(0), dropped, touched }
        });
        let session = match dropped.wrapping_sub(session.dropped) {
            0 => session,
            more => Session { dropped, ..session.left(more) },
        };
        let (number, received, uncounted) = match session.uncounted.checked_sub(1) {
            Some(left) => (None, 0, left),
            None => (Some(session.received), session.received.wrapping_add(1), 0),
        };
        self.enter(key, Session { received, uncounted, touched, ..session });
        number
    }

    fn enter(&mut self, key: SessionKey, session: Session) {
        let last = session.touched.0;
        self.sessions.insert(key, session);
        self.by_age.insert(last, key);
        *self.of_source.entry(source(key.0)).or_default() += 1;
    }

    /// The packet of this session that came last is not answered.
    pub fn left_unanswered(&mut self, from: SocketAddr, ssid: u16) {
        if let Some(session) = self.sessions.get_mut(&(from, ssid)) {
            *session = session.left(1);
        }
    }

    /// Whether there is room for one more of a source, if need be where silent ones were.
    fn makes_room(&mut self, from: SocketAddr, now_ns: u64) -> bool {
        let whose = source(from);
        while self.sessions.len() >= MOST
            || self.of_source.get(&whose).is_some_and(|many| *many >= MOST_OF_ONE)
        {
            let Some((last, key)) = self.by_age.first_key_value().map(|(l, k)| (*l, *k)) else {
                return true;
            };
            let heard = self.sessions.get(&key).map_or(0, |session| session.touched.1);
            if now_ns.saturating_sub(heard) < IDLE_NS {
                return false;
            }
            self.sessions.remove(&key);
            self.forget(key, last);
        }
        true
    }

    /// Its last packet is no longer that.
    fn forget(&mut self, key: SessionKey, last: u64) {
        self.by_age.remove(&last);
        if let Entry::Occupied(mut many) = self.of_source.entry(source(key.0)) {
            *many.get_mut() -= 1;
            if *many.get() == 0 {
                many.remove();
            }
        }
    }
}

/// Who it is that has all of these addresses: an IPv6 host has a whole /64.
fn source(from: SocketAddr) -> IpAddr {
    match from.ip().to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::{Losses, NumberedPacket, ReflectorCounts};

    const SECOND: u64 = 1_000_000_000;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn each_session_has_its_own_count() {
        let mut sessions = Sessions::new();
        let (a, b) = (at("10.0.0.1:5"), at("10.0.0.1:6"));
        let numbers = [(a, 1), (a, 1), (b, 1), (a, 2), (a, 1)]
            .map(|(from, ssid)| sessions.number(from, ssid, 0));
        assert_eq!(numbers, [0, 1, 0, 0, 2].map(Some));
    }

    #[test]
    fn a_stranger_with_ever_new_sessions_does_not_make_a_living_count_begin_anew() {
        let mut sessions = Sessions::new();
        let (slow, stranger) = (at("10.0.0.1:5"), at("10.9.9.9:7"));
        for n in 0..100u32 {
            // Ours sends a packet each 10 s, the stranger 5000 in between.
            let now = u64::from(n) * 10 * SECOND;
            assert_eq!(sessions.number(slow, 0, now), Some(n));
            for m in 0..5000u16 {
                sessions.number(stranger, m.wrapping_mul(13).wrapping_add(n as u16), now);
            }
        }
        assert!(sessions.sessions.len() <= MOST_OF_ONE + 1, "{}", sessions.sessions.len());
    }

    #[test]
    fn a_crowd_of_strangers_takes_bounded_memory_and_gets_no_count_before_others_are_silent() {
        let mut sessions = Sessions::new();
        let live = at("10.0.0.1:5");
        let host = |n: u32| SocketAddr::new([10, 1, (n >> 8) as u8, n as u8].into(), 9);
        let mut counted = 1;
        for n in 0..65_536 {
            assert_eq!(sessions.number(live, 0, SECOND), Some(n));
            counted += usize::from(sessions.number(host(n), 0, SECOND).is_some());
        }
        assert_eq!(counted, MOST);
        assert_eq!(sessions.sessions.len(), counted);
        assert_eq!(sessions.number(live, 0, 50 * SECOND), Some(65_536));
        // A minute later the silent ones make room, the oldest first, and the living one stays.
        assert_eq!(sessions.number(host(60_000), 0, 61 * SECOND), Some(0));
        assert_eq!(sessions.number(host(2), 0, 61 * SECOND), Some(1));
        assert_eq!(sessions.number(live, 0, 61 * SECOND), Some(65_537));
        assert_eq!(sessions.sessions.len(), sessions.by_age.len());
        assert_eq!(sessions.sessions.len(), sessions.of_source.values().sum::<usize>());
    }

    #[test]
    fn the_addresses_of_an_ipv6_host_are_one_source() {
        let mut sessions = Sessions::new();
        let counted = (0..2000).filter(|n| {
            let from = at(&format!("[2001:db8::{n:x}]:9"));
            sessions.number(from, 0, 0).is_some()
        });
        assert_eq!(counted.count(), MOST_OF_ONE);
        assert_eq!(sessions.number(at("[2001:db8:0:1::1]:9"), 0, 0), Some(0));
        assert_eq!(source(at("[::ffff:10.0.0.1]:9")), source(at("10.0.0.1:9")));
    }

    /// What a client with a ping each 10 ms knows of the directions, over an empty path that takes 1 ms, where the reflector leaves some
    /// packets unanswered and the network loses the answers of some.
    fn directions(refuses: impl Fn(u64) -> bool, loses: impl Fn(u64) -> bool) -> (Losses, u64) {
        let (mut sessions, mut counts) = (Sessions::new(), ReflectorCounts::new());
        let from = at("10.0.0.1:5");
        let mut lost = 0;
        for seq in 0..400 {
            let packet = NumberedPacket { seq, t_ns: seq as i64 * 10_000_000 };
            let number = sessions.number(from, 0, packet.t_ns as u64);
            if refuses(seq) {
                sessions.left_unanswered(from, 0);
            }
            match number {
                _ if refuses(seq) || loses(seq) => {
                    lost += 1;
                    counts.gave_up(&[packet], &[]);
                }
                Some(order) => counts.answered(packet, 1_000_000, u64::from(order)),
                None => counts.answered_uncounted(),
            }
        }
        (counts.losses(&[]), lost)
    }

    #[test]
    fn what_the_socket_had_no_room_for_may_have_been_of_each_session_that_lives() {
        let mut sessions = Sessions::new();
        let [old, new, later] = ["10.0.0.1:5", "10.0.1.1:5", "10.0.2.1:5"].map(at);
        assert_eq!(sessions.number_behind(3, (old, 0), 0), Some(0), "others were lost on the way");
        assert_eq!((sessions.unanswered(old, 0), sessions.none_dropped()), (Some(0), true));
        sessions.dropped(7, SECOND);
        let told = |sessions: &mut Sessions, sent, from, now| {
            let number = sessions.number_behind(sent, (from, 0), now);
            (number, sessions.unanswered(from, 0))
        };
        for _ in 0..UNCOUNTED {
            assert_eq!(told(&mut sessions, 4, old, SECOND), (None, Some(7)));
        }
        assert_eq!(told(&mut sessions, 20, old, SECOND), (Some(0), Some(7)), "then anew");
        // It had sent five before: they may have been among the seven, others may not.
        assert_eq!(told(&mut sessions, 5, new, 2 * SECOND), (None, Some(5)));
        let first = told(&mut sessions, 5, later, SECOND + IDLE_NS);
        assert_eq!(first, (Some(0), Some(0)), "that was long ago");
        sessions.dropped(9, SECOND + IDLE_NS);
        let all = [old, new, later].map(|from| told(&mut sessions, 99, from, SECOND + IDLE_NS).1);
        assert_eq!(all, [Some(9), Some(7), Some(2)]);
    }

    #[test]
    fn packets_that_a_limit_leaves_unanswered_were_lost_on_no_way() {
        let none = Losses::default();
        assert_eq!(directions(|n| n % 2 == 1, |_| false), (none, 200), "each second one");
        assert_eq!(directions(|n| n < 3, |_| false), (none, 3), "the first ones");
        assert_eq!(directions(|n| n == 100, |_| false), (none, 1), "a single one");
        let with_losses = directions(|n| n == 100, |n| (99..110).contains(&n));
        assert_eq!(with_losses, (none, 11), "and answers about it are lost");
        let (known, _) = directions(|n| n < 100, |n| n == 300);
        assert_eq!(known, Losses { up: 0, down: 1 }, "later the directions are known again");
    }
}
