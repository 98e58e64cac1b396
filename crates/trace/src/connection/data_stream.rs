//! What one end sent: which of it is on its way, and what was sent again and why.
//!
//! ```text
//!   position  0 ........ acked ........ top
//!                          |  flight  |        sent and not acknowledged: when, in which packet, how often
//!                            hole              never captured, though later data or an ACK of it was
//! ```
//!
//! A segment above `top` is new. Below it, one that fills a hole was overtaken, or sent again for one that was lost before the capture; one
//! that was captured before was sent again.

use crate::packet::{Segment, TcpPacket};
use crate::time::Time;
use quell_units::Span;
use std::collections::{BTreeMap, VecDeque};

/// Segments in flight that are remembered; of longer flights the oldest are forgotten.
const MOST_IN_FLIGHT: usize = 512;

/// Holes that are remembered, and lengths of segments that timers sent again.
const MOST_HOLES: usize = 256;

/// Captures on several CPUs swap packets that are no further apart than this.
const SWAPPED: Span = Span::from_millis(3);

/// Silence from which on what is sent again was sent by a timer, where the path is shorter: the least of Linux (`TCP_RTO_MIN`), less a tick.
const TIMER: Span = Span::from_millis(180);

/// A probe for the tail of what was sent waits no less: Linux's timers need two ticks.
const PROBE: Span = Span::from_millis(2);

/// Positions that are further off are nonsense, or of another connection.
const FAR: i64 = 1 << 30;

/// So many in a row are no nonsense: the capture missed a gigabyte.
const STRANGERS: u32 = 4;

/// Identifications of IPv4 that are nearer than this are of one counter.
const NEAR_ID: i16 = 64;

/// Turns sequence numbers of 32 bits into positions that don't wrap, each as near as possible to the one before.
#[derive(Debug, Clone, Copy, Default)]
struct Positions {
    near: Option<(u32, i64)>,
}

impl Positions {
    /// The position of a number. The first one ever is at 0.
    fn place(&self, seq: u32) -> i64 {
        let Some((near, position)) = self.near else { return 0 };
        // The difference wraps as TCP's comparisons do (RFC 9293, 3.4).
        position.saturating_add(seq.wrapping_sub(near).cast_signed().into())
    }

    fn settle(&mut self, seq: u32) {
        self.near = Some((seq, self.place(seq)));
    }
}

/// A segment that was sent and not yet acknowledged.
#[derive(Debug, Clone, Copy)]
struct Flying {
    start: i64,
    end: i64,
    packet: u64,
    first: Time,
    last: Time,
    times: u32,
}

/// What tells when a segment was sent.
#[derive(Debug, Clone, Copy)]
struct SendingOrder {
    time: Time,
    /// Its timestamp (RFC 7323).
    stamp: Option<u32>,
    /// IPv4's identification, if it is not zero.
    id: Option<u16>,
}

#[derive(Debug, Clone, Copy)]
struct Hole {
    start: i64,
    end: i64,
    /// What was sent later, and when it passed; of a hole that an ACK told of, that ACK.
    later: SendingOrder,
    by_ack: bool,
}

/// One end as a sender.
#[derive(Debug, Default)]
pub(super) struct DataStream {
    positions: Positions,
    top: i64,
    acked: i64,
    flight: VecDeque<Flying>,
    holes: Vec<Hole>,
    /// Duplicate ACKs in a row.
    duplicates: u32,
    /// The highest that was selectively acknowledged.
    sacked: Option<i64>,
    /// The other end uses SACK.
    selective: bool,
    /// When data was last sent, and when something new was acknowledged.
    sent: Option<Time>,
    heard: Option<Time>,
    /// What had been sent when a timer last ran out, …
    recovery: Option<i64>,
    /// … and when the other end told of the gap that is being filled.
    repairing: Option<i64>,
    /// Segments in a row that were too far off.
    strangers: u32,
    /// What was sent again and not acknowledged since.
    again: VecDeque<(i64, i64)>,
    /// How often timers sent again segments of each length.
    lengths: BTreeMap<u32, u64>,
    pub(super) largest_arrived: u32,
    /// Bytes that the other end acknowledged and the capture does not hold.
    pub(super) missed: u64,
}

/// What a segment with data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentKind {
    /// Behind all other; `end` is its position's end.
    New {
        end: i64,
    },
    /// Overtaken by data that was sent after it.
    OutOfOrder,
    /// The capture recorded its ACK first.
    BehindItsAck,
    Again(SentAgain),
    /// A byte or none that was acknowledged already, to hear from the other end.
    KeepAlive,
    /// Nonsense, or of another connection.
    Strange,
}

/// Why something was sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    Timer,
    AfterTimer,
    Gap,
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SentAgain {
    pub(super) trigger: Trigger,
    /// When and in which packet it was sent before, if the capture holds that.
    pub(super) before: Option<(Time, u64)>,
    /// For how long the sender had been silent.
    pub(super) silence: Span,
    /// Bytes of it that no packet had carried here.
    pub(super) fresh: u64,
}

/// What an ACK told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct AckEffect {
    /// It acknowledged something new.
    pub(super) new: bool,
    /// All that was sent is acknowledged.
    pub(super) all: bool,
    /// What this took, from the passing of the newest segment, if that was sent once.
    pub(super) took: Option<Span>,
    /// A duplicate of the one before.
    pub(super) duplicate: bool,
    /// The receiver had something twice (DSACK), …
    pub(super) twice: bool,
    /// … and this is the first answer to it that passes here.
    pub(super) first_answer: bool,
    /// It is for data that the capture does not hold, or not yet.
    pub(super) ahead: bool,
}

impl DataStream {
    /// Up to where everything was acknowledged, and up to where it has sent.
    pub(super) fn extent(&self) -> (i64, i64) {
        (self.acked, self.top)
    }

    fn begun(&self) -> bool {
        self.positions.near.is_some()
    }

    /// Whether something is on its way.
    pub(super) fn flying(&self) -> bool {
        self.begun() && self.top > self.acked
    }

    /// Whether a segment without data stands one below what was acknowledged, as keep-alives and probes of Linux do.
    pub(super) fn is_behind(&self, segment: &Segment) -> bool {
        self.begun() && self.positions.place(segment.seq) == self.acked - 1
    }

    /// How far an ACK is beyond the highest so far: negative if that had overtaken it.
    pub(super) fn progress(&self, ack: u32) -> i64 {
        if self.begun() { self.positions.place(ack) - self.acked } else { 0 }
    }

    /// How often a timer sent again what is longer than all that arrived.
    pub(super) fn too_large(&self) -> u64 {
        self.lengths.range(self.largest_arrived.saturating_add(1)..).map(|(_, times)| times).sum()
    }

    /// Takes a segment of this end that has an extent; `path` is what the whole path takes at least, `full` the longest segment that it may send.
    pub(super) fn sent(
        &mut self,
        now: Time,
        packet: u64,
        whole: &TcpPacket,
        path: Option<Span>,
        full: u32,
    ) -> SegmentKind {
        let segment = &whole.segment;
        if !self.begun() {
            self.positions.settle(segment.seq);
        }
        let mut start = self.positions.place(segment.seq);
        if start - self.top > FAR || self.top - start > FAR {
            self.strangers += 1;
            if self.strangers < STRANGERS {
                return SegmentKind::Strange;
            }
            *self = Self { missed: self.missed, ..Self::default() };
            self.positions.settle(segment.seq);
            start = 0;
        }
        self.strangers = 0;
        let end = start + i64::from(segment.extent());
        let order = SendingOrder {
            time: now,
            stamp: segment.options.timestamps.map(|(value, _)| value),
            id: whole.identification.filter(|id| *id != 0),
        };
        let quiet_since = self.sent.max(self.heard);
        let silence = quiet_since.map_or(Span::ZERO, |since| now.since(since));
        let flying = Flying { start, end, packet, first: now, last: now, times: 1 };
        if start >= self.top {
            self.sent = Some(now);
            if start > self.top {
                self.open_hole(Hole { start: self.top, end: start, later: order, by_ack: false });
            }
            self.rise(segment, end);
            self.fly(flying);
            return SegmentKind::New { end };
        }
        if end <= self.acked && segment.length <= 1 && !segment.flags.fin() && end == self.top {
            return SegmentKind::KeepAlive;
        }
        let (hole, fresh) = self.fill(start, end);
        if let Some(hole) = hole {
            if hole.by_ack && now.since(hole.later.time) <= SWAPPED {
                // The ACK may be for a part of what a card cut into segments.
                if end > self.top {
                    self.rise(segment, end);
                    self.fly(Flying { times: 2, ..flying });
                }
                return SegmentKind::BehindItsAck;
            }
            self.insert(Flying { times: 2, ..flying });
            if is_overtaken(order, hole.later, path) {
                return SegmentKind::OutOfOrder;
            }
        }
        let known = self.flight.iter_mut().find(|f| f.start < end && start < f.end);
        let before = known.filter(|_| hole.is_none()).map(|known| {
            let before = (known.last, known.packet);
            known.last = now;
            known.times = known.times.saturating_add(1);
            before
        });
        let trigger = self.trigger(start, end, silence, path);
        self.sent = Some(now);
        if trigger == Trigger::Timer && self.lengths.len() < MOST_HOLES {
            *self.lengths.entry(segment.length.min(full)).or_default() += 1;
        }
        if self.again.len() >= MOST_HOLES {
            self.again.pop_front();
        }
        if end > self.acked {
            self.again.push_back((start, end));
        }
        if end > self.top {
            self.rise(segment, end);
            self.fly(Flying { times: 2, ..flying });
        }
        SegmentKind::Again(SentAgain { trigger, before, silence, fresh })
    }

    fn trigger(&mut self, start: i64, end: i64, silence: Span, path: Option<Span>) -> Trigger {
        let path = path.unwrap_or_default();
        let gap = self.duplicates >= 3 || self.sacked.is_some_and(|sacked| sacked >= end);
        let long = silence >= TIMER.max(path);
        let tail = end == self.top && silence >= PROBE.max(path + path);
        if long || tail && !gap {
            self.recovery = Some(self.top);
            return Trigger::Timer;
        }
        if gap {
            self.repairing.get_or_insert(self.top);
            return Trigger::Gap;
        }
        if self.recovery.is_some_and(|top| start < top) {
            return Trigger::AfterTimer;
        }
        // An ACK for a part of what was under way tells of the next gap (RFC 6582; RFC 6675).
        match self.repairing.is_some_and(|top| start < top) {
            true => Trigger::Gap,
            false => Trigger::Unknown,
        }
    }

    fn rise(&mut self, segment: &Segment, end: i64) {
        self.top = end;
        self.positions.settle(segment.seq.wrapping_add(segment.extent()));
    }

    fn fly(&mut self, flying: Flying) {
        if self.flight.len() >= MOST_IN_FLIGHT {
            self.flight.pop_front();
        }
        self.flight.push_back(flying);
    }

    fn insert(&mut self, flying: Flying) {
        if flying.end <= self.acked {
            return;
        }
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
    fn fill(&mut self, start: i64, end: i64) -> (Option<Hole>, u64) {
        let (mut first, mut fresh) = (None, 0);
        let mut left = Vec::with_capacity(self.holes.len());
        for hole in self.holes.drain(..) {
            if hole.end <= start || end <= hole.start {
                left.push(hole);
                continue;
            }
            first.get_or_insert(hole);
            fresh += (hole.end.min(end) - hole.start.max(start)).unsigned_abs();
            let parts = [Hole { end: start, ..hole }, Hole { start: end, ..hole }];
            left.extend(parts.into_iter().filter(|part| part.start < part.end));
        }
        left.truncate(MOST_HOLES);
        self.holes = left;
        (first, fresh)
    }

    /// Takes an ACK of the other end. `bare` says that it has neither data nor SYN nor FIN and tells the same window as the one before.
    pub(super) fn acknowledged(
        &mut self,
        now: Time,
        ack: u32,
        segment: &Segment,
        bare: bool,
    ) -> AckEffect {
        let mut effect = AckEffect::default();
        if !self.begun() {
            // Only the other direction was captured until now.
            self.positions.settle(ack);
            return effect;
        }
        let position = self.positions.place(ack);
        if position - self.top > FAR || self.acked - position > FAR {
            return effect;
        }
        if position > self.top {
            // What is acknowledged was sent, though it was not captured, or not yet.
            let later = SendingOrder { time: now, stamp: None, id: None };
            self.open_hole(Hole { start: self.top, end: position, later, by_ack: true });
            self.top = position;
            self.positions.settle(ack);
            effect.ahead = true;
        }
        let gap = self.selective(position, segment, &mut effect);
        if position > self.acked {
            effect.new = true;
            self.acked = position;
            self.heard = Some(now);
            self.duplicates = 0;
            self.sacked = self.sacked.filter(|sacked| *sacked > position);
            self.recovery = self.recovery.filter(|top| *top > position);
            self.repairing = self.repairing.filter(|top| *top > position);
            self.again.retain(|(_, end)| *end > position);
            effect.took = self.land(now, position);
            self.forget_holes(now, position);
        } else if bare && position == self.acked && self.flying() {
            // Who uses SACK tells of a gap with it; of what came twice too, and that is none (RFC 6675, section 2).
            self.duplicates = self.duplicates.saturating_add(u32::from(gap));
            effect.duplicate = true;
        }
        effect.all = position >= self.top;
        effect
    }

    /// Takes what arrived out of the flight. What was sent twice has two times (Karn).
    fn land(&mut self, now: Time, position: i64) -> Option<Span> {
        let mut took = None;
        while let Some(landed) = self.flight.front().filter(|f| f.end <= position).copied() {
            self.flight.pop_front();
            took = (landed.times == 1).then(|| now.since(landed.first));
            if landed.times == 1 {
                let length = u32::try_from(landed.end - landed.start).unwrap_or(u32::MAX);
                self.largest_arrived = self.largest_arrived.max(length);
            }
        }
        took
    }

    /// Holes below an ACK: data that was not captured. Those that an ACK just opened may still be filled.
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

    /// Reads SACK: what came twice (RFC 2883: a first block below the ACK or within the second), and whether there is a gap.
    fn selective(&mut self, ack: i64, segment: &Segment, effect: &mut AckEffect) -> bool {
        let place = |seq: u32| self.positions.place(seq);
        let blocks: Vec<(i64, i64)> = segment
            .options
            .sack()
            .iter()
            .map(|&(start, end)| (place(start), place(end)))
            .filter(|(start, end)| start < end && *end <= self.top)
            .collect();
        self.selective |= !blocks.is_empty();
        let Some(&(start, end)) = blocks.first() else { return !self.selective };
        let within = blocks.get(1).is_some_and(|second| second.0 <= start && end <= second.1);
        if end <= ack || within {
            effect.twice = true;
            effect.first_answer = self.again.iter().any(|again| again.0 < end && start < again.1);
        }
        let highest = blocks.iter().map(|(_, end)| *end).max().filter(|end| *end > ack);
        self.sacked = self.sacked.max(highest);
        highest.is_some()
    }

    /// The capture is over: what is missing stays missing.
    pub(super) fn finish(&mut self) {
        let acked = self.acked;
        for hole in self.holes.drain(..).filter(|hole| hole.end <= acked) {
            self.missed += (hole.end - hole.start).unsigned_abs();
        }
    }
}

/// Whether what fills a gap was sent before what left it: an older timestamp, a lower identification of one counter, or sooner than an answer to
/// the later one can have come and gone.
fn is_overtaken(own: SendingOrder, later: SendingOrder, path: Option<Span>) -> bool {
    let stamps =
        own.stamp.zip(later.stamp).map(|(own, later)| own.wrapping_sub(later).cast_signed());
    let ids = own.id.zip(later.id).map(|(own, later)| own.wrapping_sub(later).cast_signed());
    match (stamps.filter(|step| *step != 0), ids) {
        (Some(step), _) => step < 0,
        (None, Some(step)) if step != 0 && step.unsigned_abs() <= NEAR_ID.unsigned_abs() => {
            step < 0
        }
        _ => {
            own.time.since(later.time)
                <= path.map_or(SWAPPED, |path| Span::from_nanos(path.nanos() / 10 * 9))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_go_on_where_sequence_numbers_wrap() {
        let mut positions = Positions::default();
        positions.settle(u32::MAX - 9);
        assert_eq!((positions.place(u32::MAX - 9), positions.place(10)), (0, 20));
        positions.settle(10);
        assert_eq!((positions.place(u32::MAX - 9), positions.place(1010)), (0, 1020));
    }

    #[test]
    fn what_fills_a_gap_was_overtaken_or_sent_again() {
        let at = |ms: i64, stamp, id| SendingOrder { time: Time(ms * 1_000_000), stamp, id };
        let path = Some(Span::from_millis(40));
        let later = at(20, Some(9), Some(121));
        for (own, overtaken) in [
            (at(60, Some(8), None), true),
            (at(21, Some(10), Some(120)), false),
            (at(90, Some(9), Some(120)), true),
            (at(21, None, Some(122)), false),
            (at(21, None, Some(40_000)), true),
            (at(90, None, None), false),
        ] {
            assert_eq!(is_overtaken(own, later, path), overtaken, "{own:?}");
        }
    }
}
