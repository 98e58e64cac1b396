//! Small segments that a sender held until an ACK came: Nagle's rule, and delayed ACKs that make it hurt.
//!
//! ```text
//!   sender                                 receiver
//!     | small segment  ------------------->  |   in flight
//!     |   (has more, holds it)               |   (waits for more, delays the ACK)
//!     |  <-----------------------  ACK alone |   answered, after the path's time or later
//!     | what was held  ------------------->  |   at once: a wait
//! ```
//!
//! An ACK without data wakes no program, so what leaves right upon one was lying ready. Not so where two small segments are in flight: then
//! Nagle's rule is off.

use super::rtt::Rtts;
use crate::time::Time;
use quell_units::Span;

/// Waits for an ACK that are shorter, or longer than any ACK may be delayed with a path (RFC 1122, 4.2.3.2), are none.
const SHORTEST: Span = Span::from_millis(1);
const LONGEST: Span = Span::from_secs(1);

/// What follows an ACK by more than this, and the path's time, was not waiting for it.
const RIGHT_AWAY: Span = Span::from_millis(2);

/// A flight that an ACK without data was for.
#[derive(Debug, Clone, Copy)]
struct AnsweredFlight {
    sent: (Time, u64),
    acked: (Time, u64),
}

/// One direction's small segments.
#[derive(Debug, Default)]
pub(super) struct HeldSegments {
    /// The last segment that was sent.
    last: Option<(Time, u64)>,
    /// Where the last small one ends.
    small_end: Option<i64>,
    answered: Option<AnsweredFlight>,
    /// What the ACKs took upon which a small segment left.
    pub(super) acks: Rtts,
    pub(super) waited: Span,
    pub(super) not_held: u64,
}

/// A new segment of a sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewSegment {
    pub(super) time: Time,
    pub(super) packet: u64,
    pub(super) end: i64,
    pub(super) fin: bool,
    /// Shorter than a full one, and with data.
    pub(super) small: bool,
    /// Up to where everything was acknowledged.
    pub(super) acked: i64,
    /// What the path takes from here to this sender and back.
    pub(super) turn: Span,
}

/// A small segment was held.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldWait {
    pub(super) begin: Time,
    /// Until the held segment passed.
    pub(super) waited: Span,
    /// The segment, its ACK, and what left upon that.
    pub(super) packets: [Option<u64>; 3],
}

impl HeldSegments {
    /// Something else is going on, as data of the other end or a retransmission: what follows is no wait for an ACK.
    pub(super) fn disturbed(&mut self) {
        self.answered = None;
    }

    pub(super) fn sent(&mut self, sent: NewSegment) -> Option<HeldWait> {
        let wait = self.wait(&sent);
        self.answered = None;
        if sent.small {
            // The last one before a FIN goes out at once whatever the rule.
            if self.small_end.is_some_and(|end| end > sent.acked) && !sent.fin {
                self.not_held += 1;
            }
            self.small_end = Some(sent.end);
        }
        self.last = Some((sent.time, sent.packet));
        wait
    }

    fn wait(&mut self, sent: &NewSegment) -> Option<HeldWait> {
        let AnsweredFlight { sent: (begin, packet), acked: (acked, ack) } = self.answered?;
        let (took, after) = (acked.since(begin), sent.time.since(acked));
        // Seen near the receiver, the ACK takes no time, and the way back does.
        let waited = sent.time.since(begin);
        let slack = RIGHT_AWAY.min(Span::from_nanos(waited.nanos() / 4));
        let at_once = after <= sent.turn + slack && after + slack >= sent.turn;
        if !sent.small || !at_once || waited < SHORTEST || waited > LONGEST {
            return None;
        }
        self.acks.add(begin, acked, took);
        self.waited += waited;
        let packets = [Some(packet), Some(ack), Some(sent.packet)];
        Some(HeldWait { begin, waited, packets })
    }

    /// An ACK told something new: for `all` that was sent or not, `alone` or with data.
    pub(super) fn acked(&mut self, time: Time, packet: u64, all: bool, alone: bool) {
        self.answered = match (self.last, all && alone) {
            (Some(sent), true) => Some(AnsweredFlight { sent, acked: (time, packet) }),
            _ => None,
        };
    }
}
