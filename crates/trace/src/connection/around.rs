//! Whether the other end was late with an ACK, or the path: what other ACKs took around it.
//!
//! ```text
//!   ACK took  ▪ ▪ ▪▪▪▪▪▪▪▪ ▪ ▪      as soon before and after: no queue stood there, but one may have come and gone
//!             ▪▪▪▪▪▪ ▪▪▪▪▪▪▪▪ ▪▪▪▪▪▪▪  all took long: a queue on the path, or the other end each time; nobody knows
//! ```
//!
//! What an ACK took holds the path's time, that of a queue on it, that of the segment itself on a slow line, and the other end's delay. So
//! each is the most that the path took just then: where the ones before and after a late ACK came sooner, a queue must have come and gone between
//! them, or the other end was late. Wherever there is a path, queues do: calls fall into step with bursts. The least time of all says nothing
//! of a queue. A longer segment takes longer on a slow line: by no more than its bytes at the best pace that the path ever showed.
//!
//! Where the capture was made on the other end's own network, no router between, no path is left that could hold a packet up.

use quell_units::Span;
use std::collections::VecDeque;

/// Answers before a wait that tell what the path took: of a path whose delay varies one alone may be fast by chance.
const ANSWERS: usize = 4;

/// Headers of IP and TCP, at least.
const HEADERS: u32 = 40;

/// From a segment's passing to that of the ACK that told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Took {
    pub(super) time: Span,
    /// The segment's payload, in bytes.
    pub(super) length: u32,
}

/// What the ACKs of one sender's data took.
#[derive(Debug, Default)]
pub(super) struct Around {
    last: Option<Took>,
    /// The last that came with data: no ACK is delayed that has something to come with.
    answers: VecDeque<Took>,
    /// The least time for a byte, in nanoseconds.
    pace: Option<f64>,
}

/// What is known of the path when a wait begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Before {
    /// The last ACK before it.
    last: Option<Took>,
    /// The slowest of the last answers.
    slowest: Option<Took>,
}

impl Around {
    /// An ACK came; with data or alone.
    pub(super) fn took(&mut self, took: Took, carried: bool) {
        self.last = Some(took);
        if carried {
            if self.answers.len() >= ANSWERS {
                self.answers.pop_front();
            }
            self.answers.push_back(took);
        }
        let pace = took.time.nanos() as f64 / f64::from(took.length.saturating_add(HEADERS));
        self.pace = Some(self.pace.map_or(pace, |least| least.min(pace)));
    }

    /// What is known by now.
    pub(super) fn so_far(&self) -> Before {
        Before { last: self.last, slowest: self.answers.iter().max_by_key(|a| a.time).copied() }
    }

    /// The most that the path can have taken for a segment of `length` bytes between the ACKs before it and the one `after` it; `None` if
    /// there were none.
    pub(super) fn most(&self, length: u32, before: Before, after: Option<Took>) -> Option<Span> {
        let all = [before.last, before.slowest, after];
        all.into_iter().flatten().map(|took| self.scaled(took, length)).max()
    }

    fn scaled(&self, took: Took, length: u32) -> Span {
        let longer = f64::from(length.saturating_sub(took.length));
        took.time + Span::from_nanos((self.pace.unwrap_or_default() * longer) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn took(ms: u64, length: u32) -> Took {
        Took { time: Span::from_millis(ms), length }
    }

    #[test]
    fn the_path_took_no_longer_than_its_slowest_neighbour() {
        let mut around = Around::default();
        assert_eq!(around.most(100, around.so_far(), None), None);
        around.took(took(10, 100), false);
        let before = around.so_far();
        assert_eq!(around.most(100, before, None), Some(Span::from_millis(10)));
        assert_eq!(around.most(100, before, Some(took(50, 100))), Some(Span::from_millis(50)));
    }

    #[test]
    fn a_longer_segment_may_take_longer_on_a_slow_line() {
        let mut around = Around::default();
        around.took(took(10, 60), false);
        let most = around.most(1060, around.so_far(), None);
        assert_eq!(most, Some(Span::from_millis(110)), "10 ms for 100 bytes");
        around.took(took(15, 1460), false);
        let most = around.most(1460, around.so_far(), None);
        assert_eq!(most, Some(Span::from_millis(15)));
    }

    #[test]
    fn one_fast_answer_of_a_path_that_varies_is_not_enough() {
        let mut around = Around::default();
        around.took(took(60, 100), true);
        around.took(took(10, 100), true);
        assert_eq!(around.most(100, around.so_far(), None), Some(Span::from_millis(60)));
        (0..4).for_each(|_| around.took(took(10, 100), true));
        assert_eq!(around.most(100, around.so_far(), None), Some(Span::from_millis(10)));
    }
}
