//! Whether what fills a gap was overtaken on its way, or sent again.
//!
//! ```text
//!   sender     A  B  C            A was sent before B: an older timestamp, a lower identification
//!   here       B  C  A            A is out of order
//!
//!   sender     A  B  C  …  A'     A' was sent after B: a later timestamp, a higher identification, and no sooner than the
//!   here       B  C  …  A'        path's round trip after B passed here, since only an answer to B tells of the loss
//! ```
//!
//! What proves is asked first: timestamps, then identifications where this sender counts them, then a clock that stood still though a
//! round trip would have moved it. Only then the time.

use crate::time::Time;
use quell_units::Span;

/// A gap that is filled this soon was left by what overtook, where nothing is known of the path.
const SOON: Span = Span::from_millis(3);

/// A clock's tick is believed once the timestamps went on by so much.
const ENOUGH_TICKS: u32 = 10;

/// Identifications are taken for a counter after so many steps upward in a row.
const ENOUGH_STEPS: u32 = 8;

/// Longest step of a counter of identifications: a large segment takes one for each packet that it becomes.
const LONGEST_STEP: u16 = 64;

/// What tells when a segment was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clues {
    /// When it passed.
    pub(super) time: Time,
    /// Its timestamp.
    pub(super) stamp: Option<u32>,
    /// IPv4's identification, if it is not zero.
    pub(super) id: Option<u16>,
}

/// How one sender marks the order of what it sends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Order {
    /// The first and the newest timestamp.
    first: Option<(Time, u32)>,
    newest: Option<(Time, u32)>,
    id: Option<u16>,
    steps: u32,
}

impl Order {
    /// New data passed.
    pub(super) fn went_on(&mut self, clues: Clues) {
        if let Some(stamp) = clues.stamp {
            self.first.get_or_insert((clues.time, stamp));
            self.newest = Some((clues.time, stamp));
        }
        let step = clues.id.zip(self.id).map(|(id, before)| id.wrapping_sub(before));
        self.steps = match step {
            Some(1..=LONGEST_STEP) => self.steps.saturating_add(1),
            _ => 0,
        };
        self.id = clues.id;
    }

    /// How long one step of the sender's clock takes.
    fn tick(&self) -> Option<Span> {
        let ((begin, from), (end, to)) = self.first.zip(self.newest)?;
        let ticks = to.wrapping_sub(from);
        let counts = ticks >= ENOUGH_TICKS && ticks.cast_signed() > 0;
        counts.then(|| Span::from_nanos(end.since(begin).nanos() / u64::from(ticks)))
    }

    /// Whether a round trip moves the sender's clock for certain.
    fn clock_tells(&self, least: Option<Span>) -> bool {
        self.tick().zip(least).is_some_and(|(tick, least)| least >= tick + tick)
    }

    /// Whether a segment that fills a gap was sent before the `later` one that left the gap. `least` is what the whole path takes at
    /// least; after a timeout everything is sent again without an answer being waited for.
    pub(super) fn was_overtaken(
        &self,
        own: Clues,
        later: Clues,
        after_timeout: bool,
        least: Option<Span>,
    ) -> bool {
        let stamps = own.stamp.zip(later.stamp);
        let ids = own.id.zip(later.id).filter(|_| self.steps >= ENOUGH_STEPS);
        let age = own.time.since(later.time);
        match (stamps.map(|(own, later)| own.wrapping_sub(later).cast_signed()), ids) {
            (Some(..0), _) => true,
            (Some(1..), _) => false,
            (_, Some((own, later))) if own != later => own.wrapping_sub(later).cast_signed() < 0,
            (Some(0), _) if self.clock_tells(least) => true,
            _ if after_timeout => false,
            _ => age <= least.map_or(SOON, |_| super::nearly(least)),
        }
    }

    /// Whether a segment that passed before is here once more: nothing about it changed, and no answer to it can have come.
    pub(super) fn is_copy(&self, own: Clues, first: Clues, least: Option<Span>) -> bool {
        let soon = least.is_some() && own.time.since(first.time) < super::nearly(least);
        match (own.stamp.zip(first.stamp), own.id.zip(first.id)) {
            (Some((own, first)), _) if own != first => false,
            (_, Some((own, first))) if own != first => false,
            (_, Some(_)) => soon || self.steps > 0,
            (Some(_), None) => soon || self.clock_tells(least),
            (None, None) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clues(ms: i64, stamp: Option<u32>, id: Option<u16>) -> Clues {
        Clues { time: Time(ms * 1_000_000), stamp, id }
    }

    /// A sender whose clock ticks every millisecond and who counts its packets.
    fn counting() -> Order {
        let mut order = Order::default();
        (0..20).for_each(|i| order.went_on(clues(i, Some(i as u32), Some(100 + i as u16))));
        order
    }

    const RTT: Option<Span> = Some(Span::from_millis(40));

    #[test]
    fn timestamps_prove_either() {
        let order = Order::default();
        let overtaken = |own| {
            order.was_overtaken(clues(60, Some(own), None), clues(20, Some(9), None), false, RTT)
        };
        assert!(overtaken(8) && !overtaken(10));
    }

    #[test]
    fn identifications_prove_either_where_they_are_counted() {
        let at = |order: &Order, ms, id| {
            order.was_overtaken(clues(ms, None, Some(id)), clues(20, None, Some(121)), false, RTT)
        };
        assert!(at(&counting(), 90, 120) && !at(&counting(), 21, 122));
        assert!(!at(&Order::default(), 90, 120) && at(&Order::default(), 21, 122), "random ones");
    }

    #[test]
    fn a_clock_that_stood_still_leaves_no_time_for_an_answer() {
        let equal = |order: &Order, rtt| {
            order.was_overtaken(clues(75, Some(20), None), clues(20, Some(20), None), false, rtt)
        };
        assert!(equal(&counting(), RTT));
        assert!(!equal(&counting(), Some(Span::from_micros(900))), "an answer within a tick");
        assert!(!equal(&Order::default(), RTT), "nobody knows how fast its clock is");
    }

    #[test]
    fn sooner_than_a_round_trip_nothing_is_sent_again_but_after_a_timeout() {
        let at = |ms, timeout, rtt| {
            let order = Order::default();
            order.was_overtaken(clues(ms, None, None), clues(0, None, None), timeout, rtt)
        };
        assert!(at(30, false, RTT) && !at(41, false, RTT) && !at(30, true, RTT));
        assert!(at(2, false, None) && !at(4, false, None));
    }

    #[test]
    fn a_doubled_packet_is_the_same_in_all() {
        let first = clues(0, Some(7), Some(9));
        let copy = |own| counting().is_copy(own, first, RTT);
        assert!(copy(clues(20, Some(7), Some(9))));
        assert!(!copy(clues(20, Some(8), Some(9))) && !copy(clues(20, Some(7), Some(10))));
        assert!(!Order::default().is_copy(clues(1, None, None), clues(0, None, None), RTT));
    }
}
