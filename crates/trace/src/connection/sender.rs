//! What one end sent: which of it is on its way, what was sent again and why, and what came late.
//!
//! ```text
//!   position  0 ........ acked ........ top
//!                          |  flight  |        sent and not acknowledged: when, in which packet, how often
//!                            hole              sent, or so ACKs and later data tell, but never captured
//! ```
//!
//! A segment above `top` is new. Below it, one that fills a hole was either overtaken or lost before the capture, see
//! [`order`](super::order); one that was captured before was sent again, or the network doubled it.

use super::order::{Clues, Order};
use super::seq::Positions;
use crate::packet::{Packet, Segment};
use crate::remark::Cause;
use crate::time::Time;
use quell_units::Span;
use std::collections::VecDeque;

/// Segments in flight that are remembered; of longer flights the oldest are forgotten.
const MOST_IN_FLIGHT: usize = 512;

/// Segments that are remembered after they were acknowledged.
const MOST_LANDED: usize = 32;

/// Holes that are remembered.
const MOST_HOLES: usize = 256;

/// Silence from which a retransmission is the timer's: Linux's RTO is 200 ms at least, timers are early by a tick.
const TIMER: Span = Span::from_millis(180);

/// Captures on several CPUs swap packets that are no further apart than this.
const SWAPPED: Span = Span::from_millis(3);

/// Positions that are further off are nonsense, or of another connection.
const FAR: i64 = 1 << 30;

/// So many in a row are no nonsense: the capture missed a gigabyte.
const STRANGERS: u32 = 4;

/// A segment that was sent and not yet acknowledged.
#[derive(Debug, Clone, Copy)]
struct Flying {
    start: i64,
    end: i64,
    packet: u64,
    /// First and last time of sending, with the values of the timestamp option.
    first: (Time, Option<u32>),
    last: (Time, Option<u32>),
    times: u32,
    /// IPv4's identification of the first.
    id: Option<u16>,
}

impl Flying {
    /// What tells when it was sent first.
    fn clues(&self) -> Clues {
        Clues { time: self.first.0, stamp: self.first.1, id: self.id }
    }
}

#[derive(Debug, Clone, Copy)]
struct Hole {
    start: i64,
    end: i64,
    /// What was sent later, and when it passed.
    later: Clues,
}

/// What is known of the path when a segment passes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Paths {
    /// What the whole path takes, there and back.
    pub(super) whole: Option<Span>,
    /// What it takes at least.
    pub(super) least: Option<Span>,
    /// What it takes at least from here to the sender and back.
    pub(super) turn: Option<Span>,
}

/// One end as a sender.
#[derive(Debug, Default)]
pub(super) struct Sender {
    line: Positions,
    top: i64,
    acked: i64,
    flight: VecDeque<Flying>,
    /// The last that were acknowledged.
    landed: VecDeque<Flying>,
    holes: Vec<Hole>,
    /// Duplicate ACKs in a row.
    duplicates: u32,
    /// The highest that was selectively acknowledged.
    sacked: Option<i64>,
    /// Something that was sent then, or later, arrived.
    arrived: Option<Time>,
    /// Since when the other end has told of a gap.
    gap_told: Option<Time>,
    /// What tells the order in which this end sent.
    order: Order,
    /// When data was last sent.
    spoke: Option<Time>,
    /// What had been sent when the timer last ran out.
    recovery: Option<i64>,
    /// Segments in a row that were too far off.
    strangers: u32,
    /// Bytes that the other end acknowledged and the capture does not hold.
    pub(super) missed: u64,
}

/// What a segment with data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// New data, behind all other. `end` is its position's end.
    New { end: i64 },
    /// Overtaken by data that was sent after it.
    OutOfOrder,
    /// Sent again.
    Again(Again),
    /// Captured before: the network doubled it, or the capture did.
    Copy { start: i64, end: i64 },
    /// A byte or none that was acknowledged already, to hear from the other end.
    KeepAlive,
    /// Nonsense, or of another connection.
    Strange,
}

/// Something that was sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Again {
    pub(super) cause: Cause,
    pub(super) start: i64,
    pub(super) end: i64,
    /// When and in which packet it was sent before, if the capture holds that.
    pub(super) before: Option<(Time, u64)>,
    /// It fills a hole: what was sent first did not pass.
    pub(super) is_missing: bool,
    /// Its timestamp, and that of what was sent before.
    pub(super) stamps: (Option<u32>, Option<u32>),
    /// When it was sent first, at the latest.
    pub(super) first: Option<Time>,
    /// How often it had passed again before; the most there is where that is forgotten.
    pub(super) earlier: u32,
}

/// What an ACK told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Told {
    /// It acknowledged something new.
    pub(super) new: bool,
    /// All that was sent is acknowledged.
    pub(super) all: bool,
    /// From the newest segment's passing to this.
    pub(super) rtt: Option<Span>,
    /// A duplicate of the one before.
    pub(super) duplicate: bool,
    /// Positions that the other end got twice, as DSACK or its timestamps tell.
    pub(super) twice: Option<(i64, i64)>,
    /// Its timestamps told, which name what they answer.
    pub(super) by_stamp: bool,
}

impl Sender {
    /// Up to where everything was acknowledged.
    pub(super) fn acked_to(&self) -> i64 {
        self.acked
    }

    /// Something that was sent then, or later, is known to have arrived.
    pub(super) fn arrived(&self) -> Option<Time> {
        self.arrived
    }

    /// Up to where everything was acknowledged, and up to where it has sent.
    pub(super) fn extent(&self) -> (i64, i64) {
        (self.acked, self.top)
    }

    /// Whether something is on its way.
    pub(super) fn flying(&self) -> bool {
        self.begun() && self.top > self.acked
    }

    fn begun(&self) -> bool {
        self.line.begun()
    }

    /// Whether a segment without data stands one below what was acknowledged, as keep-alives and probes of Linux do.
    pub(super) fn is_behind(&self, segment: &Segment) -> bool {
        self.begun() && self.line.place(segment.seq) == self.acked - 1
    }

    /// How far an ACK is beyond the highest so far: negative if that had overtaken it.
    pub(super) fn progress(&self, ack: u32) -> i64 {
        if self.begun() { self.line.place(ack) - self.acked } else { 0 }
    }

    /// Takes a segment of this end that has an extent.
    pub(super) fn sent(&mut self, now: Time, packet: u64, whole: &Packet, paths: Paths) -> Kind {
        let segment = &whole.segment;
        if !self.begun() {
            self.line.settle(segment.seq);
        }
        let mut start = self.line.place(segment.seq);
        if start - self.top > FAR || self.top - start > FAR {
            self.strangers += 1;
            if self.strangers < STRANGERS {
                return Kind::Strange;
            }
            *self = Sender { missed: self.missed, ..Sender::default() };
            self.line.settle(segment.seq);
            start = 0;
        }
        self.strangers = 0;
        let end = start + i64::from(segment.extent());
        let stamp = segment.options.timestamps.map(|(value, _)| value);
        let silence = self.spoke.replace(now).map(|before| now.since(before)).unwrap_or_default();
        let is_new = start >= self.top;
        let id = whole.identification.filter(|id| *id != 0);
        let clues = Clues { time: now, stamp, id };
        let (first, last) = ((now, stamp), (now, stamp));
        let flying = Flying { start, end, packet, first, last, times: 1, id };
        if is_new {
            if start > self.top {
                self.open_hole(Hole { start: self.top, end: start, later: clues });
            }
            self.order.went_on(clues);
            self.rise(segment.seq, segment.extent(), end);
            self.fly(flying);
            return Kind::New { end };
        }
        if end <= self.acked
            && segment.length <= 1
            && segment.extent() == segment.length
            && end == self.top
        {
            return Kind::KeepAlive;
        }
        if let Some(hole) = self.fill(start, end) {
            if end > self.acked {
                self.insert(flying);
            }
            let after_timeout = self.recovery.is_some_and(|top| start < top);
            if self.order.was_overtaken(clues, hole.later, after_timeout, paths.least) {
                return Kind::OutOfOrder;
            }
            let (age, before) = (now.since(hole.later.time), None);
            let cause = self.why(now, (start, end), Some(age), 1, silence, paths);
            // What did not pass was sent before what left the hole.
            let first = Some(hole.later.time.before(Span::from_nanos(1)));
            let (stamps, earlier, is_missing) = ((stamp, None), 0, true);
            let again = Again { cause, start, end, before, first, stamps, earlier, is_missing };
            return Kind::Again(again);
        }
        let same = |f: &&Flying| (f.start, f.end) == (start, end);
        let first = self.flight.iter().chain(&self.landed).find(same);
        if first.is_some_and(|first| self.order.is_copy(clues, first.clues(), paths.least)) {
            return Kind::Copy { start, end };
        }
        // What was acknowledged here may be sent again: the ACK has not reached the sender, and may never.
        let mut seen = self.flight.iter_mut().chain(self.landed.iter_mut().rev());
        let known = seen.find(|f| f.start < end && start < f.end);
        let first = known.as_ref().map(|known| known.first.0);
        let earlier = known.as_ref().map_or(u32::MAX, |known| known.times - 1);
        let (before, times, stamp_before) = match known {
            Some(known) => {
                let (before, stamp_before) = ((known.last.0, known.packet), known.last.1);
                known.last = (now, stamp);
                known.times = known.times.saturating_add(1);
                (Some(before), known.times - 1, stamp_before)
            }
            None => (None, 1, None),
        };
        let since = before.map(|(time, _)| now.since(time));
        let cause = self.why(now, (start, end), since, times, silence, paths);
        if end > self.top {
            self.rise(segment.seq, segment.extent(), end);
            self.fly(Flying { times: 2, ..flying });
        }
        let (stamps, is_missing) = ((stamp, stamp_before), false);
        Kind::Again(Again { cause, start, end, before, first, stamps, earlier, is_missing })
    }

    fn why(
        &mut self,
        now: Time,
        (start, end): (i64, i64),
        since: Option<Span>,
        times: u32,
        silence: Span,
        paths: Paths,
    ) -> Cause {
        let rtt = paths.whole;
        // What the other end told has not reached the sender, or this was sent before it did: no cause of this.
        let on_its_way = |told| now.since(told) < super::nearly(paths.turn);
        let gap_known = (self.duplicates >= 3 || self.sacked.is_some_and(|sacked| sacked >= end))
            && !self.gap_told.is_some_and(on_its_way);
        let since = since.unwrap_or(silence);
        let patient = rtt.map_or(TIMER, |rtt| TIMER.max(rtt));
        let timer = silence >= patient && since >= patient;
        if timer && (!gap_known || times > 1) {
            // A probe for the tail comes after two round trips (RFC 8985, 7.2), once; on long paths that is beyond the timer's least.
            let probe = rtt.is_some_and(|rtt| since.saturating_mul(2) < rtt.saturating_mul(5));
            if probe && times == 1 && end == self.top && !gap_known {
                return Cause::TailProbe;
            }
            self.recovery = Some(self.top);
            return Cause::Timeout;
        }
        if gap_known && times == 1 {
            return Cause::FastRetransmit;
        }
        if self.recovery.is_some_and(|top| start < top) {
            return Cause::AfterTimeout;
        }
        match gap_known {
            true => Cause::FastRetransmit,
            false if end == self.top => Cause::TailProbe,
            false => Cause::Retransmission,
        }
    }

    fn rise(&mut self, seq: u32, extent: u32, end: i64) {
        self.top = end;
        self.line.settle(seq.wrapping_add(extent));
    }

    fn fly(&mut self, flying: Flying) {
        if self.flight.len() >= MOST_IN_FLIGHT {
            self.flight.pop_front();
        }
        self.flight.push_back(flying);
    }

    fn insert(&mut self, flying: Flying) {
        if self.flight.len() >= MOST_IN_FLIGHT {
            self.flight.pop_front();
        }
        let place = self.flight.partition_point(|f| f.start < flying.start);
        self.flight.insert(place, flying);
    }

    fn open_hole(&mut self, hole: Hole) {
        if self.holes.len() >= MOST_HOLES {
            let forgotten = self.holes.remove(0);
            self.missed += (forgotten.end - forgotten.start).unsigned_abs();
        }
        self.holes.push(hole);
    }

    /// Takes what a segment covers out of the holes; gives the first hole that it touched.
    fn fill(&mut self, start: i64, end: i64) -> Option<Hole> {
        let touched = *self.holes.iter().find(|h| h.start < end && start < h.end)?;
        let parts = |hole: Hole| {
            let left = Hole { end: hole.end.min(start), ..hole };
            let right = Hole { start: hole.start.max(end), ..hole };
            [left, right].into_iter().filter(|part| part.start < part.end)
        };
        self.holes = std::mem::take(&mut self.holes)
            .into_iter()
            .flat_map(|hole| {
                let apart = hole.end <= start || end <= hole.start;
                apart
                    .then_some(hole)
                    .into_iter()
                    .chain((!apart).then(|| parts(hole)).into_iter().flatten())
            })
            .take(MOST_HOLES)
            .collect();
        Some(touched)
    }

    /// Takes an ACK of the other end. `bare` says that it has neither data nor SYN nor FIN and tells the same window as
    /// the one before.
    pub(super) fn acknowledged(
        &mut self,
        now: Time,
        ack: u32,
        segment: &Segment,
        bare: bool,
    ) -> Told {
        if !self.begun() {
            // Only the other direction was captured until now.
            self.line.settle(ack);
            return Told::default();
        }
        let position = self.line.place(ack);
        if position - self.top > FAR || self.acked - position > FAR {
            return Told::default();
        }
        if position > self.top {
            // What is acknowledged was sent, though it was not captured, or not yet.
            let later = Clues { time: now, stamp: None, id: None };
            self.open_hole(Hole { start: self.top, end: position, later });
            self.top = position;
            self.line.settle(ack);
        }
        let mut told = Told { twice: self.selective(position, segment), ..Told::default() };
        if position > self.acked {
            told.new = true;
            let before = std::mem::replace(&mut self.acked, position);
            self.duplicates = 0;
            self.sacked = self.sacked.filter(|sacked| *sacked > position);
            self.recovery = self.recovery.filter(|top| *top > position);
            let echo = segment.options.timestamps.map(|(_, echo)| echo);
            let (rtt, twice) = self.land(now, before, position, echo);
            told.rtt = rtt;
            told.by_stamp = told.twice.is_none() && twice.is_some();
            told.twice = told.twice.or(twice);
            if self.sacked.is_none() {
                self.gap_told = None;
            }
            self.forget_holes(now, position);
        } else if bare && position == self.acked && self.flying() {
            self.duplicates = self.duplicates.saturating_add(1);
            told.duplicate = true;
        }
        if told.duplicate || self.sacked.is_some() {
            self.gap_told.get_or_insert(now);
        }
        told.all = position >= self.top;
        told
    }

    /// Takes what arrived out of the flight.
    fn land(
        &mut self,
        now: Time,
        before: i64,
        position: i64,
        echo: Option<u32>,
    ) -> (Option<Span>, Option<(i64, i64)>) {
        let (mut rtt, mut twice) = (None, None);
        while let Some(landed) = self.flight.front().filter(|f| f.end <= position).copied() {
            self.flight.pop_front();
            if self.landed.len() >= MOST_LANDED {
                self.landed.pop_front();
            }
            self.landed.push_back(landed);
            self.arrived = self.arrived.max(Some(landed.first.0));
            // What was sent twice has two times (Karn), unless the echoed timestamp tells which one it answers.
            rtt = match (landed.times, echo) {
                (1, _) => Some(now.since(landed.first.0)),
                (_, Some(echo)) if landed.first.1 != landed.last.1 => {
                    if Some(echo) == landed.first.1 {
                        // A delayed ACK echoes the first that it answers (RFC 7323, 4.3).
                        if landed.start <= before {
                            twice = Some((landed.start, landed.end));
                        }
                        Some(now.since(landed.first.0))
                    } else if Some(echo) == landed.last.1 {
                        Some(now.since(landed.last.0))
                    } else {
                        None
                    }
                }
                _ => None,
            };
        }
        (rtt, twice)
    }

    /// Holes below an ACK: data that was not captured. Those that the ACK itself opened may still be filled: captures on
    /// several CPUs swap packets.
    fn forget_holes(&mut self, now: Time, position: i64) {
        let missed = &mut self.missed;
        self.holes.retain(|hole| {
            let gone = hole.end <= position && now.since(hole.later.time) > SWAPPED;
            if gone {
                *missed += (hole.end - hole.start).unsigned_abs();
            }
            !gone
        });
    }

    /// Reads SACK; gives what the other end says that it got twice (RFC 2883: a first block below the ACK or within the second).
    fn selective(&mut self, ack: i64, segment: &Segment) -> Option<(i64, i64)> {
        let sack = segment.options.sack();
        let block = |&(start, end): &(u32, u32)| (self.line.place(start), self.line.place(end));
        let blocks =
            || sack.iter().map(block).filter(|(start, end)| start < end && *end <= self.top);
        let first = blocks().next()?;
        let second = blocks().nth(1);
        let twice = first.1 <= ack
            || second.is_some_and(|second| second.0 <= first.0 && first.1 <= second.1);
        let highest = blocks().map(|(_, end)| end).max().filter(|end| *end > ack);
        self.sacked = self.sacked.max(highest);
        let newest = |(start, end): (i64, i64)| {
            let place = self.flight.partition_point(|f| f.end <= end);
            self.flight.get(place.checked_sub(1)?).filter(|f| f.start >= start).map(|f| f.first.0)
        };
        let newest = blocks().filter_map(newest).max();
        self.arrived = self.arrived.max(newest);
        twice.then_some(first)
    }

    /// The capture is over: what is missing stays missing.
    pub(super) fn finish(&mut self) {
        let acked = self.acked;
        for hole in self.holes.drain(..).filter(|hole| hole.end <= acked) {
            self.missed += (hole.end - hole.start).unsigned_abs();
        }
    }
}
