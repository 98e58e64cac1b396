//! Who of thousands is there: who comes, who goes, and never more than so many.
//!
//! ```text
//!   a packet of one who has no class ──came()──► Make, and perhaps one who is silent makes room
//!   what a table says ──heard()──► still there          the clock ──left()──► silent for too long: its class goes
//! ```
//!
//! Pure: times are nanoseconds of one clock, handed in.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
pub struct ActiveSubscribers {
    idle_ns: u64,
    most: usize,
    here: BTreeMap<u16, u64>,
    /// The same, the longest silent first.
    order: BTreeSet<(u64, u16)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    Here,
    Make,
    /// It gets one when this one, who is silent, has gone.
    InsteadOf(u16),
    /// All classes are taken by those who were heard just now.
    Full,
}

/// Where there is no room, one who was silent for so long makes some.
const GIVES_WAY_NS: u64 = 10_000_000_000;

impl ActiveSubscribers {
    /// Nobody; who is silent for `idle_ns` goes, and more than `most` are never there.
    pub fn new(idle_ns: u64, most: usize) -> Self {
        ActiveSubscribers { idle_ns, most, here: BTreeMap::new(), order: BTreeSet::new() }
    }

    pub fn here(&self) -> impl Iterator<Item = u16> {
        self.here.keys().copied()
    }

    /// Somebody without a class was heard. Whoever is told to make one says [`entered`](Self::entered) when it is made.
    pub fn came(&self, who: u16, now: u64) -> Admission {
        if self.here.contains_key(&who) {
            return Admission::Here;
        }
        if self.here.len() < self.most {
            return Admission::Make;
        }
        match self.order.first() {
            Some((last, silent)) if now.saturating_sub(*last) >= GIVES_WAY_NS => {
                Admission::InsteadOf(*silent)
            }
            _ => Admission::Full,
        }
    }

    pub fn entered(&mut self, who: u16, last: u64) {
        self.gone(who);
        self.here.insert(who, last);
        self.order.insert((last, who));
    }

    pub fn heard(&mut self, who: u16, last: u64) {
        if self.here.get(&who).is_some_and(|known| *known < last) {
            self.entered(who, last);
        }
    }

    pub fn gone(&mut self, who: u16) {
        if let Some(last) = self.here.remove(&who) {
            self.order.remove(&(last, who));
        }
    }

    /// Who was silent for too long, as far as is known; whoever asks looks whether something newer is known, and says so by
    /// [`heard`](Self::heard).
    pub fn silent(&self, now: u64) -> Vec<u16> {
        let due = |(last, _): &&(u64, u16)| now.saturating_sub(*last) >= self.idle_ns;
        self.order.iter().take_while(due).map(|(_, who)| *who).collect()
    }

    /// When the first of them will have been silent for too long.
    pub fn next(&self) -> Option<u64> {
        self.order.first().map(|(last, _)| last.saturating_add(self.idle_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MINUTE: u64 = 60 * SECOND;

    #[test]
    fn who_comes_gets_a_class_and_who_is_silent_for_long_goes() {
        let mut presence = ActiveSubscribers::new(5 * MINUTE, 10);
        assert_eq!(presence.came(7, 0), Admission::Make);
        presence.entered(7, 0);
        assert_eq!(presence.came(7, SECOND), Admission::Here);
        presence.entered(8, MINUTE);
        assert_eq!(presence.next(), Some(5 * MINUTE));
        assert_eq!(presence.silent(5 * MINUTE - 1), [0; 0]);
        assert_eq!(presence.silent(5 * MINUTE), [7]);
        presence.heard(7, 4 * MINUTE);
        assert_eq!(presence.silent(5 * MINUTE), [0; 0]);
        assert_eq!(presence.next(), Some(6 * MINUTE));
        presence.heard(7, 3 * MINUTE);
        assert_eq!(presence.silent(8 * MINUTE), [8], "what is older changes nothing");
        presence.gone(8);
        assert_eq!(presence.here().collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn more_than_there_is_room_for_are_never_there_and_the_longest_silent_makes_room() {
        let mut presence = ActiveSubscribers::new(5 * MINUTE, 3);
        for (who, last) in [(1, 30), (2, 10), (3, 20)] {
            assert_eq!(presence.came(who, 40 * SECOND), Admission::Make);
            presence.entered(who, last * SECOND);
        }
        assert_eq!(presence.came(4, 20 * SECOND - 1), Admission::Full, "all were heard just now");
        assert_eq!(presence.came(4, 20 * SECOND), Admission::InsteadOf(2));
        presence.gone(2);
        presence.entered(4, 20 * SECOND);
        assert_eq!(presence.came(2, 29 * SECOND), Admission::Full);
        assert_eq!((presence.here.len(), presence.here.contains_key(&2)), (3, false));
        presence.gone(99);
        presence.heard(99, MINUTE);
        assert_eq!(presence.here.len(), 3, "nobody knows of 99");
    }

    #[test]
    fn with_no_room_at_all_nobody_comes() {
        assert_eq!(ActiveSubscribers::new(MINUTE, 0).came(1, MINUTE), Admission::Full);
    }
}
