//! Marks: moments at which a connection waited, lost time or broke.

use crate::time::{Time, millis_or_null};
use quell_units::Span;
use serde::Serialize;

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Who opened it, or, if that was not captured, who was seen first.
    Client,
    /// The other one.
    Server,
}

impl Side {
    /// The other end.
    pub fn other(self) -> Self {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// Why a mark was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A sender held something until an ACK came, and the other end was late with that ACK (RFC 1122, 4.2.3.2).
    DelayedAck,
    /// A sender held a small segment until an earlier one was acknowledged (Nagle, RFC 1122, 4.2.3.4); the ACK came promptly, or nothing tells
    /// whether the other end delayed it ([`Held::perhaps_delayed`]).
    Nagle,
    /// A small segment left right upon the ACK of an earlier one while more was under way: Nagle's rule held it, or a window.
    PerhapsNagle,
    /// Nothing was heard until the retransmission timer ran out (RFC 6298).
    Timeout,
    /// The one segment that was under way, sent again for the first time when nothing was heard: by the retransmission timer, or as a probe for the
    /// tail, which for a lone segment waits as long (RFC 8985, 7.2; Linux, `tcp_schedule_loss_probe`). A capture does not tell these apart.
    TimeoutOrProbe,
    /// An ACK for several full segments left the other end long after the last of them had come there.
    LateAck,
    /// The receiver's buffer was full.
    ZeroWindow,
    /// The sender had sent all that the receiver's window lets it, for much of the time: the window is less than the path holds.
    FullWindow,
    /// Sent again after three duplicate ACKs, or after SACK told of a gap.
    FastRetransmit,
    /// The last segment, sent again before the timer ran out (RFC 8985, tail loss probe).
    TailProbe,
    /// Sent again in the wake of a timeout.
    AfterTimeout,
    /// Sent again, and nothing in the capture tells why.
    Retransmission,
    /// SYN, or SYN and ACK, sent again by a timer.
    SynRetransmit,
    /// SYN and ACK sent again behind a SYN that was: it answers that one, or a timer ran out.
    SynAnsweredAgain,
    /// Arrived behind data that was sent after it.
    OutOfOrder,
    /// It fills a gap, and was overtaken or, in pieces, sent again: nothing in the capture tells.
    PerhapsOutOfOrder,
    /// Broken off.
    Reset,
    /// Answered by a reset instead of being opened.
    Refused,
}

impl Cause {
    /// Its name, by which programs know it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::DelayedAck => "delayed-ack",
            Cause::Nagle => "nagle",
            Cause::PerhapsNagle => "perhaps-nagle",
            Cause::Timeout => "timeout",
            Cause::TimeoutOrProbe => "timeout-or-probe",
            Cause::LateAck => "late-ack",
            Cause::ZeroWindow => "zero-window",
            Cause::FullWindow => "full-window",
            Cause::FastRetransmit => "fast-retransmit",
            Cause::TailProbe => "tail-probe",
            Cause::AfterTimeout => "after-timeout",
            Cause::Retransmission => "retransmission",
            Cause::SynRetransmit => "syn-retransmit",
            Cause::SynAnsweredAgain => "syn-answered-again",
            Cause::OutOfOrder => "out-of-order",
            Cause::PerhapsOutOfOrder => "perhaps-out-of-order",
            Cause::Reset => "reset",
            Cause::Refused => "refused",
        }
    }

    /// Whether somebody waits for it to be over.
    pub(crate) fn is_wait(self) -> bool {
        matches!(
            self,
            Cause::DelayedAck
                | Cause::Nagle
                | Cause::Timeout
                | Cause::TimeoutOrProbe
                | Cause::ZeroWindow
                | Cause::FullWindow
                | Cause::SynRetransmit
        )
    }

    /// Whether something was sent again.
    pub fn is_retransmission(self) -> bool {
        matches!(
            self,
            Cause::Timeout
                | Cause::TimeoutOrProbe
                | Cause::FastRetransmit
                | Cause::TailProbe
                | Cause::AfterTimeout
                | Cause::Retransmission
                | Cause::SynRetransmit
                | Cause::SynAnsweredAgain
        )
    }
}

/// Whether the other end needed a retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Need {
    /// Nothing says that it was not needed.
    #[default]
    Needed,
    /// It or another one was not.
    OneOfSeveral,
    /// The other end had it already, though perhaps not what was sent first.
    Needless,
    /// What was sent first had arrived; of its ACK nothing was seen.
    FirstArrived,
    /// What was sent first had arrived, and was acknowledged while this was under way.
    FirstAnswered,
}

impl Need {
    /// Whether the other end had it already, for certain.
    pub fn is_needless(self) -> bool {
        matches!(self, Need::Needless | Need::FirstArrived | Need::FirstAnswered)
    }

    /// Whether what was sent first arrived.
    pub fn first_arrived(self) -> bool {
        matches!(self, Need::FirstArrived | Need::FirstAnswered)
    }
}

/// What was held while an ACK was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Its payload, in bytes.
    pub bytes: u32,
    /// Whether it ended the direction (FIN).
    pub fin: bool,
    /// Whether Nagle's rule can have held it: it is smaller than a full segment. If not, a window did.
    pub small: bool,
    /// The time from the ACK to it.
    #[serde(rename = "after_ack_ms", serialize_with = "crate::time::millis")]
    pub after: Span,
    /// What an ACK takes at least from here to the other end and back, if anything told.
    #[serde(rename = "path_ms", serialize_with = "millis_or_null")]
    pub path: Option<Span>,
    /// The ACK took longer than the path at its best: the other end delayed it, or the path did, and nothing tells which.
    pub perhaps_delayed: bool,
    /// It alone took longer: the ACKs around it did not.
    #[serde(skip)]
    pub(crate) alone: bool,
}

/// A moment at which a connection waited, lost time or broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remark {
    /// When the waiting began, or, where nobody waited, when it happened.
    pub time: Time,
    /// Whose data waited, was sent again or came late; who reset.
    pub side: Side,
    /// Why.
    pub cause: Cause,
    /// How long, where somebody waited.
    pub waited: Option<Span>,
    /// Payload of the segment that it is about, in bytes.
    pub length: u32,
    /// The packets that show it, as tcpdump counts; the first is 0 if the capture does not hold it.
    pub packets: Packets,
    /// What was held, for [`Cause::DelayedAck`], [`Cause::Nagle`] and [`Cause::PerhapsNagle`].
    pub held: Option<Held>,
    /// For retransmissions: what the other end told of its need (DSACK, RFC 2883, or timestamps, RFC 3522).
    pub need: Need,
    /// For retransmissions: what was sent first did not pass where the capture was made.
    pub is_missing: bool,
    /// For [`Cause::ZeroWindow`]: it lasted until the capture or the connection ended.
    pub open: bool,
    /// For [`Cause::FullWindow`]: for how long anything was under way.
    pub busy: Option<Span>,
    /// For [`Cause::FullWindow`]: what the window was while it was full, all but the smallest and the largest for a tenth of the time each.
    /// Half of the time it was no larger than `length`.
    pub windows: Option<[u32; 2]>,
}

impl Remark {
    /// From when to when somebody waited.
    pub(crate) fn stretch(&self) -> Option<(Time, Time)> {
        let waited = self.waited?;
        match self.cause {
            // What was sent again is told when that was, unless all stood still until then.
            Cause::FastRetransmit
            | Cause::TailProbe
            | Cause::AfterTimeout
            | Cause::Retransmission => Some((self.time.before(waited), self.time)),
            _ => Some((self.time, self.time.after(waited))),
        }
    }
}

/// Up to three packets.
pub type Packets = [Option<u64>; 3];
