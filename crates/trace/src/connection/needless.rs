//! Of what was sent again: which of it the other end had already.
//!
//! ```text
//!   sent      A ×   B ──►   C ──►                  A was lost, B was needed, C was needless
//!   told                "A to B"    "twice"        a DSACK tells of the duplicate that just arrived (RFC 2883, 4)
//!                          └─ an answer to B: what was sent before it is not what arrives now
//! ```
//!
//! A DSACK names positions, not packets. What can't be its cause is left out, in this order:
//!
//! - what it names a part of only: the other part was needed;
//! - what passed less than the path's time ago;
//! - what arrived first, as an ACK told by its echoed timestamp (RFC 7323, 4.3) or by coming when nothing else can have arrived, and what a
//!   DSACK told of before;
//! - on a path that keeps the order, what was sent before something that had arrived earlier, as ACKs, SACK and the echoed timestamp tell.
//!
//! If more than one is left, nobody knows which it was, until as many DSACKs came as there are candidates.

use crate::remark::Need;
use crate::time::Time;
use std::collections::VecDeque;

/// Retransmissions that may still turn out to have been needless.
const REMEMBERED: usize = 32;

/// A retransmission whose mark may still change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeat {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) time: Time,
    pub(super) stamp: Option<u32>,
    /// The timestamp of what was sent before it.
    pub(super) stamp_before: Option<u32>,
    /// When it was sent first, at the latest.
    pub(super) first: Option<Time>,
    /// How many retransmissions of it had passed before; the most there is where that is forgotten.
    pub(super) earlier: u32,
    /// The place of its mark; none of what the network doubled, and of what was only counted.
    pub(super) mark: Option<usize>,
    /// The sender sent it; if not, the network doubled it.
    pub(super) was_sent: bool,
    /// It was acknowledged before it passed.
    pub(super) acked: bool,
}

#[derive(Debug, Clone, Copy)]
struct Remembered {
    repeat: Repeat,
    /// An ACK came for it that told of nothing twice.
    answered: bool,
    /// It arrived before all others of its positions.
    came_first: bool,
    /// A DSACK told of it.
    told: bool,
    /// What passed before it arrived first, as its timestamp told.
    forestalled: bool,
    /// DSACKs that are of it or of another one.
    doubts: u32,
}

impl Remembered {
    fn touches(&self, start: i64, end: i64) -> bool {
        self.repeat.start < end && start < self.repeat.end
    }

    fn is_within(&self, start: i64, end: i64) -> bool {
        start <= self.repeat.start && self.repeat.end <= end
    }

    fn is_needless(&self) -> bool {
        self.told || self.forestalled
    }
}

/// What is known when an ACK comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// What passed later can't be what arrived.
    pub(super) latest: Time,
    /// Something that was sent then, or later, had arrived before.
    pub(super) arrived: Option<Time>,
    /// The timestamp that it echoes.
    pub(super) echo: Option<u32>,
}

/// The retransmissions of one end.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    all: VecDeque<Remembered>,
}

impl Repeats {
    /// Remembers a retransmission.
    pub(super) fn remember(&mut self, repeat: Repeat) {
        if self.all.len() >= REMEMBERED {
            self.all.pop_front();
        }
        self.all.push_back(Remembered {
            repeat,
            answered: false,
            came_first: false,
            told: false,
            forestalled: false,
            doubts: 0,
        });
    }

    /// Takes an ACK that went on from one position to another; `twice` says that it tells of a duplicate as well.
    pub(super) fn acknowledged(
        &mut self,
        (before, position): (i64, i64),
        twice: bool,
        known: Known,
    ) {
        for i in 0..self.all.len() {
            let Some(one) = self.all.get(i).copied() else { continue };
            let Repeat { start, end, .. } = one.repeat;
            if end <= before || position < end || !one.repeat.was_sent {
                continue;
            }
            let came_first = match twice {
                false => self.is_named(i, before, known.echo) || self.is_alone(i, known),
                // An end that echoes the duplicate would name the last.
                true => {
                    let in_time = |later: &Remembered| {
                        later.touches(start, end) && later.repeat.time <= known.latest
                    };
                    self.all.iter().skip(i + 1).any(in_time) && self.is_named(i, before, known.echo)
                }
            };
            if let Some(one) = self.all.get_mut(i) {
                one.answered |= !twice && !one.repeat.acked;
                one.came_first |= came_first;
            }
        }
    }

    /// Whether an ACK for all below the end of this one echoes it and no other: an ACK that fills a gap echoes what filled it.
    fn is_named(&self, i: usize, before: i64, echo: Option<u32>) -> bool {
        let Some(Remembered { repeat, .. }) = self.all.get(i) else { return false };
        let same = |later: &Remembered| {
            later.touches(repeat.start, repeat.end) && later.repeat.stamp == echo
        };
        repeat.start <= before
            && echo.is_some()
            && repeat.stamp == echo
            && repeat.stamp_before != echo
            && !self.all.iter().skip(i + 1).any(same)
    }

    /// Whether only this one can have brought its first ACK about.
    fn is_alone(&self, i: usize, known: Known) -> bool {
        let Some(Remembered { repeat, .. }) = self.all.get(i) else { return false };
        let overtaken = |sent: Time| known.arrived.is_some_and(|arrived| sent < arrived);
        let possible = |other: &&Remembered| {
            let time = other.repeat.time;
            other.touches(repeat.start, repeat.end) && time <= known.latest && !overtaken(time)
        };
        repeat.first.is_some_and(overtaken)
            && repeat.time <= known.latest
            && !overtaken(repeat.time)
            && self.all.iter().filter(possible).count() == 1
    }

    /// What was sent first of these positions came after what was sent again: that came first, and its mark is given.
    pub(super) fn overtook(&mut self, start: i64, end: i64) -> Option<usize> {
        let one = self.all.iter_mut().find(|one| one.repeat.was_sent && one.touches(start, end))?;
        one.came_first = true;
        one.repeat.mark
    }

    /// What passed first of these positions arrived before all others, as its timestamp told: none of the others was needed. It may be a
    /// retransmission itself. Gives the marks that change, and how many retransmissions are now known to have been needless.
    pub(super) fn forestalled(
        &mut self,
        start: i64,
        end: i64,
        echo: Option<u32>,
    ) -> (u64, Vec<(usize, Need)>) {
        let before = self.count();
        for one in self.all.iter_mut().filter(|one| one.touches(start, end)) {
            let is_it = one.repeat.stamp == echo;
            one.came_first |= is_it && one.repeat.was_sent;
            one.forestalled |= !is_it;
        }
        (self.count() - before, self.needs(start, end))
    }

    /// The other end got these positions twice. Gives what [`forestalled`](Self::forestalled) does.
    pub(super) fn twice(
        &mut self,
        start: i64,
        end: i64,
        known: Known,
    ) -> (u64, Vec<(usize, Need)>) {
        let before = self.count();
        let possible = |one: &Remembered| {
            one.is_within(start, end)
                && one.repeat.time <= known.latest
                && !one.told
                && !one.came_first
        };
        let mut left: Vec<usize> =
            (0..self.all.len()).filter(|i| self.all.get(*i).is_some_and(possible)).collect();
        // One DSACK may tell of neighbours that arrived together.
        while let Some(last) = left.last().and_then(|i| self.all.get(*i)).copied() {
            let (start, end) = (last.repeat.start, last.repeat.end);
            let same = |i: &usize| self.all.get(*i).is_some_and(|one| one.touches(start, end));
            let (group, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(same);
            left = rest;
            self.decide(&group, known);
        }
        (self.count() - before, self.needs(start, end))
    }

    /// One of these, by place, arrived as a duplicate.
    fn decide(&mut self, group: &[usize], known: Known) {
        let in_order = |i: &&usize| {
            self.all.get(**i).is_some_and(|one| {
                let overtaken = known.arrived.is_some_and(|arrived| one.repeat.time < arrived);
                let older = one
                    .repeat
                    .stamp
                    .zip(known.echo)
                    .is_some_and(|(stamp, echo)| stamp.wrapping_sub(echo).cast_signed() < 0);
                !overtaken && !older
            })
        };
        let fit: Vec<usize> = group.iter().filter(in_order).copied().collect();
        // Of a path that swaps packets all that is known is that it was one of them.
        let fit = if fit.is_empty() { group } else { &fit };
        if let [one] = fit {
            let doubts = self.all.get(*one).map_or(0, |one| one.doubts);
            self.tell(*one);
            let others: Vec<usize> = group.iter().filter(|i| *i != one).copied().collect();
            self.settle(&others, doubts);
            return;
        }
        for i in fit {
            if let Some(one) = self.all.get_mut(*i) {
                one.doubts += 1;
            }
        }
        let doubts = fit.iter().filter_map(|i| self.all.get(*i)).map(|one| one.doubts).min();
        self.settle(fit, doubts.unwrap_or(0));
    }

    /// So many DSACKs are of those among these that are in doubt: if there are no more of them, it is all of them.
    fn settle(&mut self, group: &[usize], doubts: u32) {
        let doubtful = |i: &&usize| self.all.get(**i).is_some_and(|one| one.doubts > 0);
        let doubtful: Vec<usize> = group.iter().filter(doubtful).copied().collect();
        if doubtful.len() <= doubts as usize {
            doubtful.into_iter().for_each(|i| self.tell(i));
        }
    }

    fn tell(&mut self, i: usize) {
        if let Some(one) = self.all.get_mut(i) {
            one.told = true;
            one.doubts = 0;
        }
    }

    /// How many are needless that the sender sent.
    fn count(&self) -> u64 {
        self.all.iter().filter(|one| one.repeat.was_sent && one.is_needless()).count() as u64
    }

    /// What is known of each retransmission of these positions.
    fn needs(&self, start: i64, end: i64) -> Vec<(usize, Need)> {
        let touched = self.all.iter().enumerate().filter(|(_, one)| one.touches(start, end));
        touched.filter_map(|(i, one)| Some((one.repeat.mark?, self.need(i, one)))).collect()
    }

    fn need(&self, i: usize, one: &Remembered) -> Need {
        if !one.is_needless() {
            return if one.doubts > 0 { Need::OneOfSeveral } else { Need::Needed };
        }
        let Repeat { start, end, .. } = one.repeat;
        let earlier = || {
            let before = self.all.iter().take(i);
            before.filter(|other| other.touches(start, end) && other.repeat.was_sent)
        };
        // With each of several a duplicate, all arrived that were sent before.
        let all = earlier().count() as u32 >= one.repeat.earlier
            && earlier().all(Remembered::is_needless);
        match (all, one.answered || one.forestalled) {
            (false, _) => Need::Needless,
            (true, false) => Need::FirstArrived,
            (true, true) => Need::FirstAnswered,
        }
    }
}
