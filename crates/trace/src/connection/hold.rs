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
//! Behind several segments, of which one was small, the ACK of that one is what Nagle's rule waits for, though others are under way still
//! (`tcp_minshall_check`, net/ipv4/tcp_output.c). A small segment that leaves right upon it may have been held for it, or by a window:
//!
//! ```text
//!     | small, full, full   ------------->   |
//!     |  <--------- ACK of the small one ----|
//!     | small  -------------------------->   |  at once, as the first: perhaps a wait
//! ```
//!
//! Not so if an ACK comes with data (the program may have answered it), or if the sender had two small segments in flight
//! before: then Nagle's rule is off. So too if it sends another small one before the ACK of the one that seemed held: a sender that waits
//! with small segments would have waited with that one. (Path MTU discovery cuts a full segment into two such.)

use super::around::{Around, Before, Took};
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

/// Waits that are kept until it is known what the path took around them.
const MOST_UNDECIDED: usize = 16;

/// One direction's sender, as a machine: [`Hold::sent`] and [`Hold::acked`] move it.
#[derive(Debug, Default)]
pub(super) struct Hold {
    state: State,
    /// Where the last small segment ends that was sent.
    small_end: Option<i64>,
    /// The same segment.
    small: Option<Flight>,
    /// It was acknowledged while others were under way, and nothing was sent since.
    freed: Option<Freed>,
    /// Nagle's rule was seen to be off.
    off: bool,
    /// Shortest time from a segment's passing to its ACK's.
    path: Option<Span>,
    /// The last wait, until the next ACK or segment shows whether the rule is on.
    latest: Option<Wait>,
    /// What ACKs took.
    around: Around,
    /// The capture was made where the other end is.
    there: bool,
    /// Waits that are to be judged by what the path took around them.
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
    Answered(Answered),
}

/// A flight that an ACK without data was for.
#[derive(Debug, Clone, Copy)]
struct Answered {
    flight: Flight,
    time: Time,
    packet: u64,
    stamp: Option<Stamp>,
    /// What the path was known to take before.
    before: Before,
    /// The ACK may have been delayed, and no window of the other end's held anything.
    free: bool,
}

/// An ACK of a small segment, with others under way.
#[derive(Debug, Clone, Copy)]
struct Freed {
    small: Flight,
    time: Time,
    packet: u64,
    stamp: Option<Stamp>,
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
    /// From where to where it goes on.
    pub(super) reach: (i64, i64),
    /// It came with data.
    pub(super) carried: bool,
    /// Its timestamp.
    pub(super) stamp: Option<Stamp>,
    /// What it took, of the newest segment that it told of, if that was sent once.
    pub(super) took: Option<Took>,
    /// It acknowledges two full segments, for which no ACK is delayed (RFC 1122, 4.2.3.2), or the other end's window was full: its program
    /// had not read what came.
    pub(super) unread: bool,
}

/// Who an ACK was late for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Late {
    /// Nobody: the path takes that long.
    No,
    /// The other end delayed it: nothing is left of the path that could have taken the time.
    Delayed,
    /// The ACKs around it came sooner, so no queue stood: the other end delayed it, unless there is a path on which a queue may have come and
    /// gone, or whose delay varies.
    Alone,
    /// The other end delayed it, or a queue on the path held it or its segment.
    Unknown,
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
    /// More was under way than what the ACK is for: a window may have held it as well.
    pub(super) perhaps: bool,
    /// Who was late.
    pub(super) late: Late,
    /// What the path took before, …
    before: Before,
    /// … and after, once that is known.
    after_it: Option<Took>,
    /// See [`Answered::free`].
    free: bool,
}

impl Wait {
    /// What was sent upon the ACK of a flight, by its time and packet, as if that were the path's doing.
    fn of(flight: Flight, (acked, ack): (Time, u64), sent: &Sent, path: Option<Span>) -> Self {
        let Flight { segments, time, packet, length } = flight;
        Wait {
            time,
            packet,
            length,
            segments,
            waited: acked.since(time),
            ack,
            next: sent.packet,
            held: sent.length,
            fin: sent.fin,
            small: sent.small,
            after: sent.time.since(acked),
            path,
            perhaps: false,
            late: Late::No,
            before: Before::default(),
            after_it: None,
            free: true,
        }
    }

    /// Whether what was sent after the ACK passed left its sender right upon it.
    fn is_followed_at_once(&self, sent: &Sent, stamp: Option<Stamp>) -> bool {
        let after = self.after;
        let slack = RIGHT_AWAY.min(Span::from_nanos(self.waited.nanos() / 4));
        match (reached(stamp, sent.echo), sent.turn) {
            (Reached::No, _) => false,
            (Reached::Yes, turn) => after <= turn.unwrap_or_default() + slack,
            (Reached::Unknown, Some(turn)) => after <= turn + slack && after + slack >= turn,
            (Reached::Unknown, None) => false,
        }
    }

    /// Whether the ACK took longer than the path at its best.
    fn is_long(&self) -> bool {
        self.waited.saturating_sub(self.path.unwrap_or_default()) >= DELAYED
    }

    /// Whether it may be worth telling. Segments that are full were held by a window, which is of interest only if few were in
    /// flight and their ACK was delayed: else every ACK of a bulk transfer would do.
    fn counts(&self) -> bool {
        self.waited <= LONGEST_DELAY.saturating_mul(2)
            && if self.small {
                self.waited >= SHORTEST
            } else {
                self.is_long() && self.segments <= 2 && self.free
            }
    }
}

impl Hold {
    /// An opening took so long.
    pub(super) fn opened(&mut self, time: Span) {
        self.path_is(time);
        self.around.took(Took { time, length: 0 }, true);
    }

    /// Nothing is left of the path between the capture and the other end that could hold a packet up.
    pub(super) fn stands_there(&mut self, there: bool) {
        self.there = there;
    }

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
        self.freed = None;
    }

    /// The other end sent data, which may wake this end's program.
    pub(super) fn spoken_to(&mut self) {
        self.freed = None;
        if let State::Answered(Answered { flight, time, .. }) = self.state {
            // Nobody waited for that ACK, so what it took tells of the path.
            self.path_is(time.since(flight.time));
            self.state = State::Idle;
        }
    }

    /// A new segment was sent. It, or what it tells of the one before, may be a wait.
    pub(super) fn sent(&mut self, sent: Sent) {
        let wait = self.wait(&sent).or_else(|| self.perhaps(&sent));
        self.freed = None;
        if sent.small && sent.length > 0 {
            let flying = self.small_end.is_some_and(|end| end > sent.acked);
            // The last one before a FIN goes out at once whatever the rule.
            if flying && !sent.fin {
                self.off = true;
                self.latest = self.latest.take().filter(|wait| !wait.small);
            }
            self.small_end = Some(sent.end);
            let Sent { time, packet, length, .. } = sent;
            self.small = Some(Flight { segments: 1, time, packet, length });
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
        if wait.perhaps || !wait.is_long() {
            self.decided.push(wait);
        } else if self.undecided.len() < MOST_UNDECIDED {
            self.undecided.push(wait);
        }
    }

    fn wait(&mut self, sent: &Sent) -> Option<Wait> {
        let State::Answered(answered) = self.state else { return None };
        let Answered { flight, time, packet, stamp, before, free } = answered;
        let wait = Wait { before, free, ..Wait::of(flight, (time, packet), sent, self.path) };
        let at_once = wait.is_followed_at_once(sent, stamp);
        if !at_once || (self.off && sent.small) || !wait.counts() || flight.length == 0 {
            // Nobody waited for that ACK, so what it took tells of the path.
            self.path_is(wait.waited);
            return None;
        }
        Some(wait)
    }

    /// Whether a small segment left right upon the ACK of an earlier one, with others under way.
    fn perhaps(&self, sent: &Sent) -> Option<Wait> {
        let Freed { small, time, packet, stamp } = self.freed?;
        let wait = Wait { perhaps: true, ..Wait::of(small, (time, packet), sent, self.path) };
        let is_held = sent.small && sent.length > 0 && !sent.fin && !self.off && wait.counts();
        (is_held && wait.is_followed_at_once(sent, stamp)).then_some(wait)
    }

    /// New data was acknowledged.
    pub(super) fn acked(&mut self, acked: Acked) {
        self.keep_latest();
        let Acked { reach: (from, to), time, packet, stamp, .. } = acked;
        let is_of_small = self.small_end.is_some_and(|end| from < end && end <= to);
        self.freed = self
            .small
            .filter(|_| is_of_small && !acked.all && !acked.carried)
            .map(|small| Freed { small, time, packet, stamp });
        let before = self.around.so_far();
        if let Some(took) = acked.took {
            self.around.took(took, acked.carried);
            self.undecided.iter_mut().for_each(|wait| {
                wait.after_it.get_or_insert(took);
            });
        }
        let State::Flying(flight) = self.state else { return };
        let took = acked.time.since(flight.time);
        match (acked.all, acked.carried) {
            (true, false) => {
                if took < DELAYED {
                    self.path_is(took);
                }
                let Acked { time, packet, stamp, unread, .. } = acked;
                let free = !unread;
                self.state =
                    State::Answered(Answered { flight, time, packet, stamp, before, free });
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
        let undecided = std::mem::take(&mut self.undecided);
        let (ready, rest): (Vec<_>, Vec<_>) = undecided.into_iter().partition(|wait| {
            over || self.path.is_some() && (wait.after_it.is_some() || self.there)
        });
        self.undecided = rest;
        decided.extend(ready.into_iter().filter_map(|wait| self.judged(wait)));
        decided
    }

    /// A wait with who was late for it, if it is worth telling.
    fn judged(&self, wait: Wait) -> Option<Wait> {
        let wait = Wait { path: wait.path.or(self.path), ..wait };
        let most = self.around.most(wait.length, wait.before, wait.after_it);
        let late = if !wait.is_long() {
            Late::No
        } else if self.there {
            Late::Delayed
        } else if most.is_some_and(|most| most + DELAYED <= wait.waited) {
            Late::Alone
        } else {
            Late::Unknown
        };
        // What a window held, and perhaps the path: so it is with every transfer.
        let tells = wait.small || late == Late::Delayed;
        (tells && wait.counts()).then_some(Wait { late, ..wait })
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
        hold.decided(true).pop()
    }

    fn bare_ack(time: Time, packet: u64) -> Acked {
        Acked {
            time,
            packet,
            all: true,
            reach: (0, 0),
            carried: false,
            stamp: None,
            took: None,
            unread: false,
        }
    }

    #[test]
    fn what_follows_a_late_ack_at_once_was_held() {
        let mut hold = Hold::default();
        hold.opened(Span::from_micros(50));
        assert_eq!(last(&mut hold, small(ms(0), 1, 100, 0)), None);
        hold.acked(bare_ack(ms(40), 2));
        let wait = last(&mut hold, small(ms(40), 3, 200, 100)).expect("a wait");
        assert_eq!(wait.late, Late::Alone);
        assert_eq!(
            (wait.waited, wait.packet, wait.ack, wait.next),
            (Span::from_millis(40), 1, 2, 3)
        );
    }

    #[test]
    fn what_follows_later_was_not_held() {
        let mut hold = Hold::default();
        hold.opened(Span::from_micros(50));
        hold.sent(small(ms(0), 1, 100, 0));
        hold.acked(bare_ack(ms(40), 2));
        assert_eq!(last(&mut hold, small(ms(55), 3, 200, 100)), None);
    }

    #[test]
    fn what_left_before_the_ack_came_was_not_held_for_it() {
        let next_of = |fresh, turn, echo| {
            let mut hold = Hold::default();
            hold.opened(Span::from_micros(50));
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
        hold.opened(Span::from_micros(50));
        hold.sent(small(ms(0), 1, 100, 0));
        hold.acked(bare_ack(ms(40), 2));
        assert_eq!(last(&mut hold, Sent { turn: None, ..small(ms(40), 3, 200, 100) }), None);
    }

    #[test]
    fn a_path_that_takes_that_long_is_no_delayed_ack() {
        let mut hold = Hold::default();
        hold.opened(Span::from_millis(39));
        hold.sent(small(ms(0), 1, 100, 0));
        hold.acked(bare_ack(ms(40), 2));
        let wait = last(&mut hold, small(ms(40), 3, 200, 100)).expect("Nagle's wait");
        assert_eq!(wait.late, Late::No);
    }

    #[test]
    fn an_ack_that_comes_with_an_answer_held_nobody_up() {
        let mut hold = Hold::default();
        hold.opened(Span::ZERO);
        hold.sent(small(ms(0), 1, 100, 0));
        hold.acked(Acked { carried: true, ..bare_ack(ms(40), 2) });
        assert_eq!(last(&mut hold, small(ms(40), 3, 200, 100)), None);
    }

    #[test]
    fn a_question_between_ack_and_answer_explains_the_answer() {
        let mut hold = Hold::default();
        hold.opened(Span::ZERO);
        hold.sent(small(ms(0), 1, 100, 0));
        hold.acked(bare_ack(ms(40), 2));
        hold.spoken_to();
        assert_eq!(last(&mut hold, small(ms(40), 4, 200, 100)), None);
    }

    #[test]
    fn two_small_segments_in_flight_show_that_nagles_rule_is_off() {
        let mut hold = Hold::default();
        hold.opened(Span::ZERO);
        hold.sent(small(ms(0), 1, 100, 0));
        hold.sent(small(ms(1), 2, 200, 0));
        hold.acked(bare_ack(ms(41), 3));
        assert_eq!(last(&mut hold, small(ms(41), 4, 300, 200)), None);
    }

    #[test]
    fn who_sends_another_small_segment_at_once_did_not_wait_with_the_first() {
        let waits = |second: Option<Sent>| {
            let mut hold = Hold::default();
            hold.opened(Span::ZERO);
            hold.sent(small(ms(0), 1, 100, 0));
            hold.acked(bare_ack(ms(40), 2));
            hold.sent(small(ms(40), 3, 200, 100));
            second.into_iter().for_each(|second| hold.sent(second));
            hold.acked(bare_ack(ms(80), 5));
            hold.decided(true).len()
        };
        assert_eq!(waits(None), 1);
        assert_eq!(waits(Some(small(ms(40), 4, 300, 100))), 0);
        assert_eq!(waits(Some(Sent { small: false, ..small(ms(50), 4, 1648, 100) })), 1);
        assert_eq!(waits(Some(Sent { fin: true, ..small(ms(41), 4, 300, 100) })), 1, "a FIN");
    }

    /// Sends at 0, is answered alone at 40 ms and goes on at once; the next ACK takes so long.
    fn judged(before: Option<u64>, after: u64) -> Option<Late> {
        let mut hold = Hold::default();
        let took = |ms| Took { time: Span::from_millis(ms), length: 100 };
        if let Some(before) = before {
            hold.opened(Span::ZERO);
            hold.sent(small(ms(-90), 1, 100, 0));
            let acked = bare_ack(ms(-90 + before as i64), 2);
            hold.acked(Acked { carried: true, took: Some(took(before)), ..acked });
        }
        hold.sent(small(ms(0), 3, 200, 100));
        hold.acked(Acked { took: Some(took(40)), ..bare_ack(ms(40), 4) });
        hold.sent(small(ms(40), 5, 300, 200));
        assert_eq!(hold.decided(false), [], "nobody knows yet");
        let acked = bare_ack(ms(40 + after as i64), 6);
        hold.acked(Acked { carried: true, took: Some(took(after)), ..acked });
        hold.decided(false).pop().map(|wait| wait.late)
    }

    #[test]
    fn an_ack_is_late_alone_if_those_before_and_after_it_were_not() {
        assert_eq!(judged(Some(1), 1), Some(Late::Alone));
        assert_eq!(judged(None, 1), Some(Late::Alone));
        assert_eq!(judged(Some(35), 1), Some(Late::Unknown));
        assert_eq!(judged(Some(1), 35), Some(Late::Unknown));
    }

    #[test]
    fn acks_of_a_bulk_transfer_hold_nothing() {
        let mut hold = Hold::default();
        hold.opened(Span::from_millis(1));
        let full = |time, packet, end| Sent { small: false, ..small(time, packet, end, 0) };
        for packet in 0..4 {
            hold.sent(full(ms(0), packet, 0));
        }
        hold.acked(bare_ack(ms(60), 5));
        assert_eq!(last(&mut hold, full(ms(60), 6, 0)), None);
    }
}
