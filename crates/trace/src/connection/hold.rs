//! Senders that hold data until an ACK comes: Nagle's rule, and delayed ACKs that make it hurt.
//!
//! ```text
//!   sender                                 receiver
//!     | small segment  ------------------->  |   in flight
//!     |   (has more, holds it)               |   (waits for more, delays the ACK)
//!     |  <-----------------------  ACK alone |   answered, after the path's time or later
//!     | what was held  ------------------->  |   at once: a wait
//! ```
//!
//! An ACK without data wakes no program, so what a sender sends right upon one was lying ready: its TCP held it.
//! Cause comes before effect: what left before the ACK reached its sender was not held for it. The sender's timestamps prove which of
//! the two it was (RFC 7323: it echoes the newest that it has); without them it takes the path's time from the ACK's passing to
//! the sender and back, and where that is not known nothing is said.
//!
//! Not so if an ACK comes with data (the program may have answered it), or if the sender had two small segments in flight
//! before: then Nagle's rule is off. So too if it sends another small one before the ACK of the one that seemed held: a sender that waits
//! with small segments would have waited with that one. (Path MTU discovery cuts a full segment into two such.)

use crate::time::Time;
use quell_units::Span;

/// Delay of an ACK, beyond what the path takes, from which it is called delayed. Linux waits 40 ms or more (HZ/25), 2.2 waited
/// 20 ms; a busy machine is late by a few.
pub(super) const DELAYED: Span = Span::from_millis(10);

/// No ACK may be delayed for longer (RFC 1122, 4.2.3.2).
const LONGEST_DELAY: Span = Span::from_millis(500);

/// Waits for an ACK that are shorter are not worth a mark.
const SHORTEST: Span = Span::from_millis(1);

/// What follows an ACK by more than this, and the path's time, was not waiting for it.
const RIGHT_AWAY: Span = Span::from_millis(2);

/// Waits that are kept until the path's time is known.
const MOST_UNDECIDED: usize = 16;

/// One direction's sender, as a machine: [`Hold::sent`] and [`Hold::acked`] move it.
#[derive(Debug, Default)]
pub(super) struct Hold {
    state: State,
    /// Where the last small segment ends that was sent.
    small_end: Option<i64>,
    /// Nagle's rule was seen to be off.
    off: bool,
    /// Shortest time from a segment's passing to its ACK's.
    path: Option<Span>,
    /// The last wait, until the next ACK or segment shows whether the rule is on.
    latest: Option<Wait>,
    /// Waits that are to be judged by the path's time.
    undecided: Vec<Wait>,
    decided: Vec<Wait>,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    #[default]
    Idle,
    /// Data is on its way.
    Flying(Flight),
    /// All of it was acknowledged by an ACK without data.
    Answered { flight: Flight, time: Time, packet: u64, stamp: Option<Stamp> },
}

/// What an ACK's timestamp tells of who had seen it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    /// Its value.
    pub(super) value: u32,
    /// The other end had not sent this value before: who echoes it, or a later one, has this ACK.
    pub(super) fresh: bool,
}

/// Whether an ACK had reached a sender when that sent something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    Yes,
    No,
    Unknown,
}

#[derive(Debug, Clone, Copy)]
struct Flight {
    segments: u32,
    /// The last of them.
    time: Time,
    packet: u64,
    length: u32,
}

/// A new segment of a sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) time: Time,
    pub(super) packet: u64,
    pub(super) length: u32,
    pub(super) end: i64,
    pub(super) fin: bool,
    /// Shorter than a full one.
    pub(super) small: bool,
    /// Up to where everything was acknowledged.
    pub(super) acked: i64,
    /// What the path takes from here to this sender and back.
    pub(super) turn: Option<Span>,
    /// The timestamp of the other end that it echoes.
    pub(super) echo: Option<u32>,
}

/// An ACK that told something new.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acked {
    pub(super) time: Time,
    pub(super) packet: u64,
    /// It acknowledges all that was sent.
    pub(super) all: bool,
    /// It came with data.
    pub(super) carried: bool,
    /// Its timestamp.
    pub(super) stamp: Option<Stamp>,
}

/// Whether an ACK with this timestamp had reached the sender of this echo.
fn reached(stamp: Option<Stamp>, echo: Option<u32>) -> Reached {
    let Some((stamp, echo)) = stamp.zip(echo) else { return Reached::Unknown };
    match echo.wrapping_sub(stamp.value).cast_signed() {
        ..0 => Reached::No,
        0.. if stamp.fresh => Reached::Yes,
        _ => Reached::Unknown,
    }
}

/// A sender waited for an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    /// When the last segment passed that the ACK is for; its packet and length.
    pub(super) time: Time,
    pub(super) packet: u64,
    pub(super) length: u32,
    pub(super) segments: u32,
    /// How long its ACK took, and in which packet it came.
    pub(super) waited: Span,
    pub(super) ack: u64,
    /// What was held.
    pub(super) next: u64,
    pub(super) held: u32,
    pub(super) fin: bool,
    pub(super) small: bool,
    pub(super) after: Span,
    /// What the path takes, if it is known.
    pub(super) path: Option<Span>,
}

impl Wait {
    /// Whether the other end was late with its ACK; else the path took the time.
    pub(super) fn delayed(&self) -> bool {
        self.waited.saturating_sub(self.path.unwrap_or_default()) >= DELAYED
    }

    /// Whether it is worth telling. Segments that are full were held by a window, which is of interest only if few were in
    /// flight and their ACK was delayed: else every ACK of a bulk transfer would do.
    fn counts(&self) -> bool {
        self.waited <= LONGEST_DELAY.saturating_mul(2)
            && if self.small {
                self.waited >= SHORTEST
            } else {
                self.delayed() && self.segments <= 2
            }
    }
}

impl Hold {
    /// The path takes no longer than this.
    pub(super) fn path_is(&mut self, path: Span) {
        self.path = Some(self.path.map_or(path, |known| known.min(path)));
    }

    /// What the path takes.
    pub(super) fn path(&self) -> Option<Span> {
        self.path
    }

    /// Something else is going on, as a retransmission: what follows is no wait for an ACK.
    pub(super) fn disturbed(&mut self) {
        self.state = State::Idle;
    }

    /// The other end sent data, which may wake this end's program.
    pub(super) fn spoken_to(&mut self) {
        if let State::Answered { flight, time, .. } = self.state {
            // Nobody waited for that ACK, so what it took tells of the path.
            self.path_is(time.since(flight.time));
            self.state = State::Idle;
        }
    }

    /// A new segment was sent. It, or what it tells of the one before, may be a wait.
    pub(super) fn sent(&mut self, sent: Sent) {
        let wait = self.wait(&sent);
        if sent.small && sent.length > 0 {
            let flying = self.small_end.is_some_and(|end| end > sent.acked);
            // The last one before a FIN goes out at once whatever the rule.
            if flying && !sent.fin {
                self.off = true;
                self.latest = self.latest.take().filter(|wait| !wait.small);
            }
            self.small_end = Some(sent.end);
        }
        let segments = match self.state {
            State::Flying(flight) => flight.segments.saturating_add(1),
            _ => 1,
        };
        let Sent { time, packet, length, .. } = sent;
        self.state = State::Flying(Flight { segments, time, packet, length });
        self.keep_latest();
        self.latest = wait;
    }

    /// Nothing can speak against the last wait any more.
    fn keep_latest(&mut self) {
        let Some(wait) = self.latest.take() else { return };
        if wait.path.is_some() || !wait.delayed() {
            self.decided.push(wait);
        } else if self.undecided.len() < MOST_UNDECIDED {
            self.undecided.push(wait);
        }
    }

    fn wait(&mut self, sent: &Sent) -> Option<Wait> {
        let State::Answered { flight, time, packet, stamp } = self.state else { return None };
        let waited = time.since(flight.time);
        let after = sent.time.since(time);
        let slack = RIGHT_AWAY.min(Span::from_nanos(waited.nanos() / 4));
        let wait = Wait {
            time: flight.time,
            packet: flight.packet,
            length: flight.length,
            segments: flight.segments,
            waited,
            ack: packet,
            next: sent.packet,
            held: sent.length,
            fin: sent.fin,
            small: sent.small,
            after,
            path: self.path,
        };
        let at_once = match (reached(stamp, sent.echo), sent.turn) {
            (Reached::No, _) => false,
            (Reached::Yes, turn) => after <= turn.unwrap_or_default() + slack,
            (Reached::Unknown, Some(turn)) => after <= turn + slack && after + slack >= turn,
            (Reached::Unknown, None) => false,
        };
        if !at_once || (self.off && sent.small) || !wait.counts() || flight.length == 0 {
            // Nobody waited for that ACK, so what it took tells of the path.
            self.path_is(waited);
            return None;
        }
        Some(wait)
    }

    /// New data was acknowledged.
    pub(super) fn acked(&mut self, acked: Acked) {
        self.keep_latest();
        let State::Flying(flight) = self.state else { return };
        let took = acked.time.since(flight.time);
        match (acked.all, acked.carried) {
            (true, false) => {
                if took < DELAYED {
                    self.path_is(took);
                }
                let Acked { time, packet, stamp, .. } = acked;
                self.state = State::Answered { flight, time, packet, stamp };
            }
            (true, true) => {
                self.path_is(took);
                self.state = State::Idle;
            }
            (false, _) => {}
        }
    }

    /// Waits that are certain by now, each once; when all is `over`, those too whose path never showed.
    pub(super) fn decided(&mut self, over: bool) -> Vec<Wait> {
        if over {
            self.keep_latest();
        }
        let mut decided = std::mem::take(&mut self.decided);
        if self.path.is_some() || over {
            let path = self.path;
            let waits = self.undecided.drain(..);
            decided.extend(waits.map(|wait| Wait { path, ..wait }).filter(Wait::counts));
        }
        decided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: i64) -> Time {
        Time(ms * 1_000_000)
    }

    fn small(time: Time, packet: u64, end: i64, acked: i64) -> Sent {
        Sent {
            time,
            packet,
            length: 100,
            end,
            fin: false,
            small: true,
            acked,
            turn: Some(Span::ZERO),
            echo: None,
        }
    }

    /// Sends, and nothing follows: the wait that it shows.
    fn last(hold: &mut Hold, sent: Sent) -> Option<Wait> {
        hold.sent(sent);
        hold.keep_latest();
        hold.decided(false).pop()
    }

    fn bare_ack(time: Time, packet: u64) -> Acked {
        Acked { time, packet, all: true, carried: false, stamp: None }
    }

    #[test]
    fn what_follows_a_late_ack_at_once_was_held() {
        let mut hold = Hold::default();
        hold.path_is(Span::from_micros(50));
        assert_eq!(last(&mut hold, small(ms(0), 1, 100, 0)), None);
        hold.acked(bare_ack(ms(40), 2));
        let wait = last(&mut hold, small(ms(40), 3, 200, 100)).expect("a wait");
        assert!(wait.delayed());
        assert_eq!(
            (wait.waited, wait.packet, wait.ack, wait.next),
            (Span::from_millis(40), 1, 2, 3)
        );
    }

    #[test]
    fn what_follows_later_was_not_held() {
        let mut hold = Hold::default();
        hold.path_is(Span::from_micros(50));
        hold.sent(small(ms(0), 1, 100, 0));
        hold.acked(bare_ack(ms(40), 2));
        assert_eq!(last(&mut hold, small(ms(55), 3, 200, 100)), None);
    }

    #[test]
    fn what_left_before_the_ack_came_was_not_held_for_it() {
        let next_of = |fresh, turn, echo| {
            let mut hold = Hold::default();
            hold.path_is(Span::from_micros(50));
            hold.sent(small(ms(0), 1, 100, 0));
            let stamp = Some(Stamp { value: 500, fresh });
            hold.acked(Acked { stamp, ..bare_ack(ms(20), 2) });
            let turn = Some(Span::from_millis(turn));
            last(&mut hold, Sent { turn, echo, ..small(ms(25), 3, 200, 100) }).is_some()
        };
        let next = |turn, echo| next_of(true, turn, echo);
        assert!(!next(20, None), "5 ms after an ACK that takes 20 there and back");
        assert!(next(5, None));
        assert!(!next(5, Some(499)), "it echoes what came before the ACK");
        assert!(next(20, Some(500)), "it echoes the ACK: the path was faster this time");
        assert!(!next_of(false, 20, Some(500)), "or what was stamped before it in the same tick");
    }

    #[test]
    fn where_nothing_tells_the_path_to_the_sender_nothing_is_said() {
        let mut hold = Hold::default();
        hold.path_is(Span::from_micros(50));
        hold.sent(small(ms(0), 1, 100, 0));
        hold.acked(bare_ack(ms(40), 2));
        assert_eq!(last(&mut hold, Sent { turn: None, ..small(ms(40), 3, 200, 100) }), None);
    }

    #[test]
    fn a_path_that_takes_that_long_is_no_delayed_ack() {
        let mut hold = Hold::default();
        hold.path_is(Span::from_millis(39));
        hold.sent(small(ms(0), 1, 100, 0));
        hold.acked(bare_ack(ms(40), 2));
        let wait = last(&mut hold, small(ms(40), 3, 200, 100)).expect("Nagle's wait");
        assert!(!wait.delayed());
    }

    #[test]
    fn an_ack_that_comes_with_an_answer_held_nobody_up() {
        let mut hold = Hold::default();
        hold.path_is(Span::ZERO);
        hold.sent(small(ms(0), 1, 100, 0));
        hold.acked(Acked { carried: true, ..bare_ack(ms(40), 2) });
        assert_eq!(last(&mut hold, small(ms(40), 3, 200, 100)), None);
    }

    #[test]
    fn a_question_between_ack_and_answer_explains_the_answer() {
        let mut hold = Hold::default();
        hold.path_is(Span::ZERO);
        hold.sent(small(ms(0), 1, 100, 0));
        hold.acked(bare_ack(ms(40), 2));
        hold.spoken_to();
        assert_eq!(last(&mut hold, small(ms(40), 4, 200, 100)), None);
    }

    #[test]
    fn two_small_segments_in_flight_show_that_nagles_rule_is_off() {
        let mut hold = Hold::default();
        hold.path_is(Span::ZERO);
        hold.sent(small(ms(0), 1, 100, 0));
        hold.sent(small(ms(1), 2, 200, 0));
        hold.acked(bare_ack(ms(41), 3));
        assert_eq!(last(&mut hold, small(ms(41), 4, 300, 200)), None);
    }

    #[test]
    fn who_sends_another_small_segment_at_once_did_not_wait_with_the_first() {
        let waits = |second: Option<Sent>| {
            let mut hold = Hold::default();
            hold.path_is(Span::ZERO);
            hold.sent(small(ms(0), 1, 100, 0));
            hold.acked(bare_ack(ms(40), 2));
            hold.sent(small(ms(40), 3, 200, 100));
            second.into_iter().for_each(|second| hold.sent(second));
            hold.acked(bare_ack(ms(80), 5));
            hold.decided(false).len()
        };
        assert_eq!(waits(None), 1);
        assert_eq!(waits(Some(small(ms(40), 4, 300, 100))), 0);
        assert_eq!(waits(Some(Sent { small: false, ..small(ms(50), 4, 1648, 100) })), 1);
        assert_eq!(waits(Some(Sent { fin: true, ..small(ms(41), 4, 300, 100) })), 1, "a FIN");
    }

    #[test]
    fn a_wait_is_judged_once_the_path_is_known() {
        let mut hold = Hold::default();
        hold.sent(small(ms(0), 1, 100, 0));
        hold.acked(bare_ack(ms(40), 2));
        assert_eq!(last(&mut hold, small(ms(40), 3, 200, 100)), None);
        assert_eq!(hold.decided(false), []);
        hold.acked(Acked { carried: true, ..bare_ack(ms(41), 4) });
        let decided = hold.decided(false);
        assert!(decided.len() == 1 && decided[0].delayed(), "{decided:?}");
        assert_eq!(decided[0].path, Some(Span::from_millis(1)));
    }

    #[test]
    fn the_path_shows_in_acks_that_nobody_waited_for() {
        let mut hold = Hold::default();
        hold.sent(small(ms(0), 1, 100, 0));
        hold.acked(bare_ack(ms(60), 2));
        assert_eq!(last(&mut hold, small(ms(60), 3, 200, 100)), None);
        hold.acked(bare_ack(ms(80), 4));
        hold.spoken_to();
        let decided = hold.decided(false);
        assert!(decided.len() == 1 && decided[0].delayed(), "{decided:?}");
        assert_eq!(decided[0].path, Some(Span::from_millis(20)));
    }

    #[test]
    fn acks_of_a_bulk_transfer_hold_nothing() {
        let mut hold = Hold::default();
        hold.path_is(Span::from_millis(1));
        let full = |time, packet, end| Sent { small: false, ..small(time, packet, end, 0) };
        for packet in 0..4 {
            hold.sent(full(ms(0), packet, 0));
        }
        hold.acked(bare_ack(ms(60), 5));
        assert_eq!(last(&mut hold, full(ms(60), 6, 0)), None);
    }
}
