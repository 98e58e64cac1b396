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

use super::around::Took;
use super::order::{Clues, Filler, Order};
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

/// A probe for the tail of what was sent waits no less: Linux's timers need two ticks.
const PROBE: Span = Span::from_millis(2);

/// ACKs that are remembered, to tell which of them the sender had when it sent something again.
const MOST_HEARD: usize = 32;

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
    /// It filled a gap that this had left, which was sent after what was sent there first.
    left: Option<Clues>,
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
    /// How long that is, and how long the gap was that it left.
    lengths: (i64, i64),
}

impl Hole {
    /// Whether a segment that fills a part of it may have been sent in another one first: it is less than a full one, and the gap is neither its
    /// own place nor those of several like it and the one behind.
    fn may_be_a_piece(&self, length: i64, full: u32) -> bool {
        let (later, gap) = self.lengths;
        let fits = length == gap || length == later && gap.checked_rem(length) == Some(0);
        length < i64::from(full) && !fits
    }
}

/// An ACK of the other end.
#[derive(Debug, Clone, Copy)]
struct Heard {
    time: Time,
    /// Its timestamp.
    stamp: Option<u32>,
    /// It acknowledged something new, and so set the timers back.
    new: bool,
}

/// What was so when something was sent again.
#[derive(Debug, Clone, Copy)]
struct Moment {
    now: Time,
    /// Since the segment was sent before.
    since: Option<Span>,
    /// How often it had been sent.
    times: u32,
    /// Since anything was sent.
    silence: Span,
    /// The timestamp of the other end that it echoes.
    echo: Option<u32>,
    paths: Paths,
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
    /// What had been sent when the other end told of the gap that is being filled.
    repairing: Option<i64>,
    /// The other end's last ACKs.
    heard: VecDeque<Heard>,
    /// The other end uses SACK.
    selective: bool,
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
    /// Overtaken, or sent again: it fills a gap, and nothing tells which it was.
    Filler { fresh: u64 },
    /// Sent again.
    Again(Again),
    /// Sent first, and overtaken by what was sent again for it, in this packet.
    Late { start: i64, end: i64, overtaken_by: u64 },
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
    /// It is what had passed that was sent again: this was sent first, and comes late.
    pub(super) overtook: bool,
    /// Bytes of it that no packet had carried here.
    pub(super) fresh: u64,
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
    /// What this took, from the newest segment's passing.
    pub(super) took: Option<Took>,
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

    /// Takes IPv4's identification of any packet of this end.
    pub(super) fn counted(&mut self, id: u16) {
        self.order.counted(id);
    }

    /// Takes a segment of this end that has an extent; `full` is the most that it may carry.
    pub(super) fn sent(
        &mut self,
        now: Time,
        packet: u64,
        whole: &Packet,
        full: u32,
        paths: Paths,
    ) -> Kind {
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
        let echo = segment.options.timestamps.map(|(_, echo)| echo);
        let silence = self.spoke.replace(now).map(|before| now.since(before)).unwrap_or_default();
        let is_new = start >= self.top;
        let id = whole.identification.filter(|id| *id != 0);
        let clues = Clues { time: now, stamp, id };
        let (first, last) = ((now, stamp), (now, stamp));
        let flying = Flying { start, end, packet, first, last, times: 1, id, left: None };
        if is_new {
            if start > self.top {
                let lengths = (end - start, start - self.top);
                self.open_hole(Hole { start: self.top, end: start, later: clues, lengths });
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
        if let Some((hole, fresh)) = self.fill(start, end) {
            if end > self.acked {
                self.insert(Flying { left: Some(hole.later), ..flying });
            }
            let after_timeout = self.recovery.is_some_and(|top| start < top);
            let piece = hole.may_be_a_piece(end - start, full);
            match self.order.filler(clues, hole.later, piece, after_timeout, paths.least) {
                Filler::Overtaken => return Kind::OutOfOrder,
                Filler::Unknown => return Kind::Filler { fresh },
                Filler::Again => {}
            }
            let (age, before) = (now.since(hole.later.time), None);
            let since = Some(age);
            let moment = Moment { now, since, times: 1, silence, echo, paths };
            let cause = self.why(start, end, &moment);
            // What did not pass was sent before what left the hole.
            let first = Some(hole.later.time.before(Span::from_nanos(1)));
            let (stamps, earlier, is_missing, overtook) = ((stamp, None), 0, true, false);
            return Kind::Again(Again {
                cause,
                start,
                end,
                before,
                is_missing,
                overtook,
                fresh,
                stamps,
                first,
                earlier,
            });
        }
        let same = |f: &&Flying| (f.start, f.end) == (start, end);
        let first = self.flight.iter().chain(&self.landed).find(same);
        if first.is_some_and(|first| self.order.is_copy(clues, first.clues(), paths.least)) {
            return Kind::Copy { start, end };
        }
        // What was acknowledged here may be sent again: the ACK has not reached the sender, and may never.
        let mut seen = self.flight.iter_mut().chain(self.landed.iter_mut().rev());
        let known = seen.find(|f| f.start < end && start < f.end);
        let older = |than: Clues| self.order.is_older(clues, than);
        let is_first = known.as_ref().is_some_and(|known| older(known.clues()));
        if let Some(known) = known.as_ref().filter(|_| is_first)
            && known.left.is_some_and(older)
        {
            return Kind::Late { start, end, overtaken_by: known.packet };
        }
        // What passed as new was not: it had overtaken this, and all else.
        let overtook = is_first && known.as_ref().is_some_and(|k| k.left.is_none() && k.times == 1);
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
        let cause = self.why(start, end, &Moment { now, since, times, silence, echo, paths });
        if end > self.top {
            self.rise(segment.seq, segment.extent(), end);
            self.fly(Flying { times: 2, ..flying });
        }
        let (stamps, is_missing, fresh) = ((stamp, stamp_before), false, 0);
        Kind::Again(Again {
            cause,
            start,
            end,
            before,
            is_missing,
            overtook,
            fresh,
            stamps,
            first,
            earlier,
        })
    }

    fn why(&mut self, start: i64, end: i64, moment: &Moment) -> Cause {
        let Moment { now, times, silence, paths, .. } = *moment;
        let rtt = paths.whole;
        // What the other end told has not reached the sender, or this was sent before it did: no cause of this.
        let on_its_way = |told| now.since(told) < super::nearly(paths.turn);
        let gap_known = (self.duplicates >= 3 || self.sacked.is_some_and(|sacked| sacked >= end))
            && !self.gap_told.is_some_and(on_its_way);
        let since = moment.since.unwrap_or(silence);
        let patient = rtt.map_or(TIMER, |rtt| TIMER.max(rtt));
        // What comes upon an ACK is no timer's doing: that starts anew with each that tells something new (RFC 6298, 5.3).
        let timer = silence >= patient && since >= patient && self.quiet(moment, true) >= patient;
        if timer && (!gap_known || times > 1) {
            // A probe for the tail comes after two round trips (RFC 8985, 7.2), once; on long paths that is beyond the timer's least.
            let probe = rtt.is_some_and(|rtt| since.saturating_mul(2) < rtt.saturating_mul(5));
            if probe && times == 1 && end == self.top && !gap_known {
                return Cause::TailProbe;
            }
            // One segment under way: the probe is that one, and waits as long as the timer. Behind a timeout none is sent.
            let recovers = self.recovery.is_some_and(|top| start < top);
            let lone = start <= self.acked && end == self.top;
            if lone && times == 1 && !recovers {
                return Cause::TimeoutOrProbe;
            }
            self.recovery = Some(self.top);
            return Cause::Timeout;
        }
        if gap_known && times == 1 {
            self.repairing.get_or_insert(self.top);
            return Cause::FastRetransmit;
        }
        if self.recovery.is_some_and(|top| start < top) {
            return Cause::AfterTimeout;
        }
        // An ACK for a part of what was under way tells of the next gap (RFC 6582; RFC 6675).
        let partial = self.repairing.is_some_and(|top| start < top);
        if gap_known || partial {
            self.repairing.get_or_insert(self.top);
            return Cause::FastRetransmit;
        }
        let probing = super::nearly(paths.least).saturating_mul(2).max(PROBE);
        let unasked = [silence, since, self.quiet(moment, false)];
        match end == self.top && unasked.iter().all(|span| *span >= probing) {
            true => Cause::TailProbe,
            false => Cause::Retransmission,
        }
    }

    /// For how long the sender had heard nothing, or nothing `new`, when it sent.
    fn quiet(&self, moment: &Moment, new: bool) -> Span {
        let turn = moment.paths.turn;
        let had = |heard: &&Heard| {
            let later = heard
                .stamp
                .zip(moment.echo)
                .is_some_and(|(stamp, echo)| stamp.wrapping_sub(echo).cast_signed() > 0);
            !later && moment.now.since(heard.time) >= super::nearly(turn)
        };
        let last = self.heard.iter().rev().filter(|heard| heard.new || !new).find(had);
        match last {
            Some(last) => moment.now.since(last.time).saturating_sub(turn.unwrap_or_default()),
            None if self.heard.len() >= MOST_HEARD => Span::ZERO,
            None => Span::MAX,
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

    /// Takes what a segment covers out of the holes; gives the first hole that it touched, and how much of them it covered.
    fn fill(&mut self, start: i64, end: i64) -> Option<(Hole, u64)> {
        let touches = |h: &&Hole| h.start < end && start < h.end;
        let touched = *self.holes.iter().find(touches)?;
        let covered = |h: &Hole| (h.end.min(end) - h.start.max(start)).unsigned_abs();
        let fresh = self.holes.iter().filter(touches).map(covered).sum();
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
        Some((touched, fresh))
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
            let lengths = (0, position - self.top);
            self.open_hole(Hole { start: self.top, end: position, later, lengths });
            self.top = position;
            self.line.settle(ack);
        }
        let (twice, gap) = self.selective(position, segment);
        let mut told = Told { twice, ..Told::default() };
        if self.heard.len() >= MOST_HEARD {
            self.heard.pop_front();
        }
        let stamp = segment.options.timestamps.map(|(value, _)| value);
        self.heard.push_back(Heard { time: now, stamp, new: position > self.acked });
        if position > self.acked {
            told.new = true;
            let before = std::mem::replace(&mut self.acked, position);
            self.duplicates = 0;
            self.sacked = self.sacked.filter(|sacked| *sacked > position);
            self.recovery = self.recovery.filter(|top| *top > position);
            self.repairing = self.repairing.filter(|top| *top > position);
            let echo = segment.options.timestamps.map(|(_, echo)| echo);
            let (took, twice) = self.land(now, before, position, echo);
            told.took = took;
            told.by_stamp = told.twice.is_none() && twice.is_some();
            told.twice = told.twice.or(twice);
            if self.sacked.is_none() {
                self.gap_told = None;
            }
            self.forget_holes(now, position);
        } else if bare && position == self.acked && self.flying() {
            // Who uses SACK tells of a gap with it; of what came twice too, and that is none (RFC 6675, section 2).
            self.duplicates = self.duplicates.saturating_add(u32::from(gap));
            told.duplicate = true;
        }
        if told.duplicate && gap || self.sacked.is_some() {
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
    ) -> (Option<Took>, Option<(i64, i64)>) {
        let (mut took, mut twice) = (None, None);
        while let Some(landed) = self.flight.front().filter(|f| f.end <= position).copied() {
            self.flight.pop_front();
            if self.landed.len() >= MOST_LANDED {
                self.landed.pop_front();
            }
            self.landed.push_back(landed);
            self.arrived = self.arrived.max(Some(landed.first.0));
            // What was sent twice has two times (Karn), unless the echoed timestamp tells which one it answers.
            took = match (landed.times, echo) {
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
            }
            .map(|time| {
                let length = u32::try_from(landed.end - landed.start).unwrap_or(u32::MAX);
                Took { time, length }
            });
        }
        (took, twice)
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

    /// Reads SACK; gives what the other end says that it got twice (RFC 2883: a first block below the ACK or within the second), and whether
    /// a duplicate ACK of this kind tells of a gap.
    fn selective(&mut self, ack: i64, segment: &Segment) -> (Option<(i64, i64)>, bool) {
        let sack = segment.options.sack();
        let block = |&(start, end): &(u32, u32)| (self.line.place(start), self.line.place(end));
        let blocks =
            || sack.iter().map(block).filter(|(start, end)| start < end && *end <= self.top);
        self.selective |= blocks().next().is_some();
        let Some(first) = blocks().next() else { return (None, !self.selective) };
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
        (twice.then_some(first), highest.is_some())
    }

    /// The capture is over: what is missing stays missing.
    pub(super) fn finish(&mut self) {
        let acked = self.acked;
        for hole in self.holes.drain(..).filter(|hole| hole.end <= acked) {
            self.missed += (hole.end - hole.start).unsigned_abs();
        }
    }
}
