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
//!
//! That no answer can have come proves nothing of pieces: a router that is nearer than the receiver may have said that a packet is too big, upon
//! which its data is sent again in smaller ones at once (RFC 1191; RFC 8201).
//!
//! ```text
//!   sender     A A A  B      a a A'a …     A' in pieces, as soon as the router spoke
//!   router     × × ×  B
//! ```

use crate::time::Time;
use quell_units::Span;

/// A gap that is filled this soon was left by what overtook, where nothing is known of the path.
const SOON: Span = Span::from_millis(3);

/// A clock's tick is believed once the timestamps went on by so much.
const ENOUGH_TICKS: u32 = 10;

/// Identifications are taken for a counter after so many steps in a row that are as near, upward or back to what was overtaken: of three random
/// ones, one in a quarter of a million times.
const ENOUGH_STEPS: u32 = 2;

/// Longest step of a counter of identifications: a large segment takes one for each packet that it becomes.
const LONGEST_STEP: i16 = 64;

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

/// What a segment that fills a gap is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filler {
    /// It was sent before what left the gap.
    Overtaken,
    /// It was sent after that.
    Again,
    /// Nothing tells.
    Unknown,
}

/// How one sender marks the order of what it sends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Order {
    /// The first and the newest timestamp.
    first: Option<(Time, u32)>,
    newest: Option<(Time, u32)>,
    /// The newest identification.
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
    }

    /// A packet passed, with data or not.
    pub(super) fn counted(&mut self, id: u16) {
        let step = self.id.map(|before| id.wrapping_sub(before).cast_signed());
        self.steps = match step {
            Some(1..=LONGEST_STEP) => self.steps.saturating_add(1),
            Some(0) => return,
            // It was overtaken.
            Some(step) if (-LONGEST_STEP..0).contains(&step) => {
                self.steps = self.steps.saturating_add(1);
                return;
            }
            _ => 0,
        };
        self.id = Some(id);
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

    /// What a segment is that fills a gap, which the `later` one left. `is_piece` says that it may be a part of a larger one. `least` is what the
    /// whole path takes at least; after a timeout everything is sent again without an answer being waited for.
    pub(super) fn filler(
        &self,
        own: Clues,
        later: Clues,
        is_piece: bool,
        after_timeout: bool,
        least: Option<Span>,
    ) -> Filler {
        let stamps = own.stamp.zip(later.stamp);
        let ids = own.id.zip(later.id).filter(|_| self.steps >= ENOUGH_STEPS);
        let age = own.time.since(later.time);
        let unasked = if is_piece { Filler::Unknown } else { Filler::Overtaken };
        match (stamps.map(|(own, later)| own.wrapping_sub(later).cast_signed()), ids) {
            (Some(..0), _) => Filler::Overtaken,
            (Some(1..), _) => Filler::Again,
            (_, Some((own, later))) if own != later => {
                let is_older = own.wrapping_sub(later).cast_signed() < 0;
                if is_older { Filler::Overtaken } else { Filler::Again }
            }
            (Some(0), _) if self.clock_tells(least) => unasked,
            _ if after_timeout => Filler::Again,
            _ if age <= least.map_or(SOON, |_| super::nearly(least)) => unasked,
            _ => Filler::Again,
        }
    }

    /// Whether a segment was sent before another for certain.
    pub(super) fn is_older(&self, own: Clues, than: Clues) -> bool {
        let ids = own.id.zip(than.id).filter(|_| self.steps >= ENOUGH_STEPS);
        let by_id = ids.is_some_and(|(own, than)| own.wrapping_sub(than).cast_signed() < 0);
        match own.stamp.zip(than.stamp).map(|(own, than)| own.wrapping_sub(than).cast_signed()) {
            Some(0) | None => by_id,
            Some(step) => step < 0,
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
        for i in 0..20 {
            order.counted(100 + i as u16);
            order.went_on(clues(i, Some(i as u32), Some(100 + i as u16)));
        }
        order
    }

    const RTT: Option<Span> = Some(Span::from_millis(40));

    #[test]
    fn timestamps_prove_either() {
        let order = Order::default();
        let overtaken = |own| {
            let (own, later) = (clues(60, Some(own), None), clues(20, Some(9), None));
            order.filler(own, later, true, false, RTT)
        };
        assert_eq!((overtaken(8), overtaken(10)), (Filler::Overtaken, Filler::Again));
    }

    #[test]
    fn identifications_prove_either_where_they_are_counted() {
        let at = |order: &Order, ms, id| {
            let (own, later) = (clues(ms, None, Some(id)), clues(20, None, Some(121)));
            order.filler(own, later, true, false, RTT)
        };
        assert_eq!(at(&counting(), 90, 120), Filler::Overtaken);
        assert_eq!(at(&counting(), 21, 122), Filler::Again);
        let random = Order::default();
        assert_eq!(at(&random, 90, 120), Filler::Again);
        assert_eq!(at(&random, 21, 122), Filler::Unknown);
    }

    #[test]
    fn three_packets_show_a_counter_and_what_was_overtaken_does_not_hide_it() {
        let steps = |ids: &[u16]| {
            let mut order = Order::default();
            ids.iter().for_each(|id| order.counted(*id));
            order.steps
        };
        assert_eq!(steps(&[42923, 42924, 42927]), 2);
        assert_eq!(steps(&[65534, 65535, 2, 1, 4]), 4, "it begins anew");
        assert_eq!(steps(&[36534, 36528, 36535]), 2, "all of which the path swaps");
        assert_eq!(steps(&[7, 7, 7]), 0, "always the same one");
        assert_eq!(steps(&[17, 41_201, 9_022, 30_555]), 0, "random ones");
    }

    #[test]
    fn a_clock_that_stood_still_leaves_no_time_for_an_answer() {
        let equal = |order: &Order, rtt| {
            let (own, later) = (clues(75, Some(20), None), clues(20, Some(20), None));
            order.filler(own, later, false, false, rtt)
        };
        assert_eq!(equal(&counting(), RTT), Filler::Overtaken);
        let within_a_tick = equal(&counting(), Some(Span::from_micros(900)));
        assert_eq!(within_a_tick, Filler::Again);
        assert_eq!(equal(&Order::default(), RTT), Filler::Again, "nobody knows its clock");
    }

    #[test]
    fn sooner_than_a_round_trip_nothing_is_sent_again_but_after_a_timeout_or_in_pieces() {
        let at = |ms, is_piece, timeout, rtt| {
            let order = Order::default();
            let (own, later) = (clues(ms, None, None), clues(0, None, None));
            order.filler(own, later, is_piece, timeout, rtt)
        };
        assert_eq!(at(30, false, false, RTT), Filler::Overtaken);
        assert_eq!(at(30, true, false, RTT), Filler::Unknown);
        assert_eq!(at(41, false, false, RTT), Filler::Again);
        assert_eq!(at(30, false, true, RTT), Filler::Again);
        assert_eq!(at(2, false, false, None), Filler::Overtaken);
        assert_eq!(at(4, false, false, None), Filler::Again);
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
