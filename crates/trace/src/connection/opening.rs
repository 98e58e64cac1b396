//! SYNs and their answers, also those that pass again: whose timer ran out, and what the capture shows of it.
//!
//! ```text
//!   SYN ──►   SYN ──►                       nothing was heard: lost, dropped, or its answer lost: the capture does not tell
//!   SYN ──►   ◄── answer   SYN ──►          it had arrived: the answer was late or lost behind the capture
//!   SYN ──►   SYN ──►   ◄── answer          to the first, if its timestamp says so
//!   SYN ──►   SYN ──►   ◄── answer   ◄── answer           each SYN is answered: nobody waited for the second
//!   SYN ──►   ◄── answer   ACK ──►   ◄── answer           the server's timer: that ACK was on its way still, or, where it must have
//!                                                         arrived by then, lost behind the capture, or dropped there
//! ```

use super::nearly::nearly;
use crate::packet::Segment;
use crate::remark::{Cause, Need, Packets, Side};
use crate::time::Time;
use quell_units::Span;

/// SYNs without an answer that are remembered, and SYNs that were sent again whose marks may change.
const MOST_SYNS: usize = 16;

/// A SYN, or the answer to one: when it passed last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opening {
    pub(super) seq: u32,
    pub(super) time: Time,
    pub(super) packet: u64,
    /// How often.
    pub(super) times: u32,
    /// Its timestamp.
    stamp: Option<u32>,
}

/// One that passed again: what is to be marked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Again {
    /// When the one before passed.
    pub(super) time: Time,
    pub(super) cause: Cause,
    /// The one before, this one, and what it answers, or what had answered it.
    pub(super) packets: Packets,
    pub(super) need: Need,
    /// How long somebody waited for it.
    pub(super) waited: Option<Span>,
    /// Timestamps of a SYN and of the one before.
    stamps: Option<(u32, u32)>,
}

/// How a connection is opened, as far as it passed.
#[derive(Debug, Default)]
pub(super) struct Openings {
    /// The client's SYN.
    pub(super) syn: Option<Opening>,
    /// The server's answer.
    pub(super) answer: Option<Opening>,
    /// SYNs to which no answer passed: when, in which packet.
    open: Vec<(Time, u64)>,
    /// When the client's first ACK of an answer passed, and in which packet.
    acked: Option<(Time, u64)>,
    /// SYNs that were sent again: the place of the mark, and the timestamp of the one before.
    marked: Vec<(usize, u32)>,
}

impl Openings {
    /// A SYN or an answer passes; what is to be marked if it is not the first. `path` is what the path takes from here to the server and
    /// back, if that is known.
    pub(super) fn passed(
        &mut self,
        (now, packet): (Time, u64),
        side: Side,
        segment: &Segment,
        path: Option<Span>,
    ) -> Option<Again> {
        let known = match side {
            Side::Client => &mut self.syn,
            Side::Server => &mut self.answer,
        };
        let before = *known;
        let times = before.map_or(1, |known| known.times.saturating_add(1));
        let stamp = segment.options.timestamps.map(|(value, _)| value);
        *known = Some(Opening { seq: segment.seq, time: now, packet, times, stamp });
        let answered = match side {
            Side::Client if self.open.len() < MOST_SYNS => {
                self.open.push((now, packet));
                None
            }
            Side::Client => None,
            Side::Server => self.syn_that_it_may_answer(now, path),
        };
        let before = before?;
        let waited = Some(now.since(before.time));
        let by_timer = |third, need, waited| (third, need, waited, Cause::SynRetransmit);
        let (third, need, waited, cause) = match (side, answered, self.acked.zip(path)) {
            (Side::Client, ..) => match self.answer {
                Some(answer) => by_timer(Some(answer.packet), Need::FirstAnswered, waited),
                None => by_timer(None, Need::Needed, waited),
            },
            (Side::Server, Some(syn), _) => {
                (Some(syn), Need::Needed, None, Cause::SynAnsweredAgain)
            }
            // What was sent less than the path's time after the ACK passed was sent before it came.
            (Side::Server, None, Some(((acked, ack), path))) if now.since(acked) < path => {
                by_timer(Some(ack), Need::FirstAnswered, None)
            }
            (Side::Server, None, Some(((_, ack), _))) => {
                by_timer(Some(ack), Need::FirstArrived, waited)
            }
            (Side::Server, None, None) => by_timer(None, Need::Needed, waited),
        };
        Some(Again {
            time: before.time,
            cause,
            packets: [Some(before.packet), Some(packet), third],
            need,
            waited,
            stamps: stamp.zip(before.stamp).filter(|_| side == Side::Client),
        })
    }

    /// The first SYN that had no answer so far and may have this one: each that comes is answered, and none sooner than the path takes.
    fn syn_that_it_may_answer(&mut self, now: Time, path: Option<Span>) -> Option<u64> {
        let path = nearly(path);
        let place = self.open.iter().position(|(passed, _)| now.since(*passed) >= path)?;
        Some(self.open.remove(place).1)
    }

    /// The client acknowledges something, not with a SYN.
    pub(super) fn acknowledged(&mut self, now: Time, packet: u64, ack: u32) {
        if self.answer.is_some_and(|answer| ack == answer.seq.wrapping_add(1)) {
            self.acked.get_or_insert((now, packet));
        }
    }

    /// The mark of one that passed again is kept at this place.
    pub(super) fn kept(&mut self, again: &Again, place: usize) {
        if let Some((stamp, before)) = again.stamps
            && stamp != before
            && self.marked.len() < MOST_SYNS
        {
            self.marked.push((place, before));
        }
    }

    /// The marks of SYNs that were sent though one before had arrived: an answer echoes the timestamp of the one that did (RFC 7323, section
    /// 4.3).
    pub(super) fn arrived(&self, echo: u32) -> impl Iterator<Item = usize> + '_ {
        let later = move |(_, before): &&(usize, u32)| before.wrapping_sub(echo) < 1 << 31;
        self.marked.iter().filter(later).map(|(place, _)| *place)
    }
}
