//! On which way a packet was lost, by the reflector's count.
//!
//! The reflector numbers what it receives. Between two answered packets, the difference of their numbers at the sender says how many
//! packets were sent in between, and the difference of their numbers at the reflector how many of these arrived there:
//!
//! ```text
//!   sent        10   11   12   13          11, 12 have no answer: 2 missing
//!   reflected    7              8          none arrived in between    → both were lost on the way up
//!   reflected    7              10         two arrived in between     → both were lost on the way down
//!   reflected    7              9          one of the two arrived     → it can't be told which
//! ```
//!
//! Behind the last answer nothing can be told. Where packets overtook each other on the way up, the stretch from the first to the
//! last of them is taken as one. A reflector that does not count (stateless mode, RFC 8762 section 4) makes every loss look like one on
//! the way down; Quell's own counts.

use std::collections::{BTreeMap, VecDeque};

/// Where a packet was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Before the reflector.
    Up,
    /// Behind it.
    Down,
    /// It can't be told.
    Unknown,
}

/// What is known of the packets that were answered.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Everything up to these numbers at sender and reflector is settled.
    settled: Option<(u64, u64)>,
    /// The reflector's number → the sender's.
    answers: BTreeMap<u64, u64>,
    /// Packets that were given up and are not settled yet, ascending: they still count as missing in their stretch.
    given_up: VecDeque<u64>,
}

/// A stretch of sender's numbers, exclusive, in which the reflector received `arrived` packets that were not answered.
struct Stretch {
    after: Option<u64>,
    before: u64,
    arrived: u64,
}

impl Counts {
    /// Nothing was answered.
    pub fn new() -> Self {
        Self::default()
    }

    /// Packet `seq` was answered, and was the reflector's number `order`.
    pub fn answered(&mut self, seq: u64, order: u64) {
        if self.settled.is_none_or(|(_, settled)| order > settled) {
            self.answers.entry(order).or_insert(seq);
        }
    }

    /// Packet `seq` was not answered and is not asked for any more. Call it in ascending order.
    pub fn gave_up(&mut self, seq: u64) {
        self.given_up.push_back(seq);
    }

    /// The directions of losses. `unanswered` are all packets without an answer so far, ascending, those included that may still get
    /// one, but not those given up before, and not those that are known not to have been sent; the result is in the same order.
    pub fn directions(&self, unanswered: &[u64]) -> Vec<Direction> {
        let mut found = vec![Direction::Unknown; unanswered.len()];
        for stretch in self.stretches() {
            let from = match stretch.after {
                Some(after) => unanswered.partition_point(|seq| *seq <= after),
                None => 0,
            };
            let to = unanswered.partition_point(|seq| *seq < stretch.before).max(from);
            let gone = self.given_up.iter().filter(|seq| {
                stretch.after.is_none_or(|after| **seq > after) && **seq < stretch.before
            });
            let missing = (to - from) as u64 + gone.count() as u64;
            let direction = match stretch.arrived {
                0 => Direction::Up,
                arrived if arrived == missing => Direction::Down,
                _ => Direction::Unknown,
            };
            found[from..to].fill(direction);
        }
        found
    }

    /// All packets below `seq` are settled and will not be asked for again: what only they needed is forgotten.
    pub fn settle(&mut self, seq: u64) {
        let mut anchor = self.settled;
        for (newest, _, order) in self.clean_cuts() {
            if newest < seq {
                anchor = Some((newest, order));
            }
        }
        self.settled = anchor;
        if let Some((newest, order)) = anchor {
            self.answers = self.answers.split_off(&order.saturating_add(1));
            while self.given_up.front().is_some_and(|gone| *gone <= newest) {
                self.given_up.pop_front();
            }
        }
    }

    /// Places where all packets the reflector got before are older than all it got after: (newest before, oldest after, the
    /// reflector's number before).
    fn clean_cuts(&self) -> Vec<(u64, Option<u64>, u64)> {
        let points: Vec<(u64, u64)> = self.answers.iter().map(|(o, s)| (*o, *s)).collect();
        let mut oldest_after = vec![None; points.len()];
        let mut oldest = None;
        for (place, (_, seq)) in points.iter().enumerate().rev() {
            oldest_after[place] = oldest;
            oldest = Some(oldest.map_or(*seq, |o: u64| o.min(*seq)));
        }
        let mut newest = self.settled.map_or(0, |(seq, _)| seq);
        let mut cuts = Vec::new();
        for ((order, seq), after) in points.iter().zip(oldest_after) {
            newest = newest.max(*seq);
            if after.is_none_or(|after| newest < after) {
                cuts.push((newest, after, *order));
            }
        }
        cuts
    }

    fn stretches(&self) -> Vec<Stretch> {
        let mut stretches = Vec::new();
        let mut edge = self.settled;
        let mut run: Vec<(u64, u64)> = Vec::new();
        let cuts: Vec<u64> = self.clean_cuts().into_iter().map(|(.., order)| order).collect();
        let mut cuts = cuts.into_iter().peekable();
        for (order, seq) in &self.answers {
            run.push((*order, *seq));
            if cuts.next_if_eq(order).is_none() {
                continue;
            }
            // From one clean cut to the next: the gap before the run, and the run itself.
            let oldest = run.iter().map(|(_, s)| *s).min().unwrap_or(*seq);
            let newest = run.iter().map(|(_, s)| *s).max().unwrap_or(*seq);
            let first_order = run.first().map_or(*order, |(o, _)| *o);
            let before = edge.map_or(first_order, |(_, o)| first_order.saturating_sub(o + 1));
            stretches.push(Stretch {
                after: edge.map(|(s, _)| s),
                before: oldest,
                arrived: before,
            });
            let inside = (order - first_order + 1).saturating_sub(run.len() as u64);
            stretches.push(Stretch { after: Some(oldest), before: newest, arrived: inside });
            edge = Some((newest, *order));
            run.clear();
        }
        stretches
    }
}

#[cfg(test)]
mod tests {
    use super::Direction::{Down, Unknown, Up};
    use super::*;
    use proptest::prelude::*;

    /// A stream of `count` packets with losses both ways; the answered ones come to the reflector in order.
    fn counts(count: u64, lost_up: &[u64], lost_down: &[u64]) -> (Counts, Vec<u64>) {
        let mut counts = Counts::new();
        let mut order = 0;
        let mut unanswered = Vec::new();
        for seq in 0..count {
            if lost_up.contains(&seq) {
                unanswered.push(seq);
                continue;
            }
            if lost_down.contains(&seq) {
                unanswered.push(seq);
            } else {
                counts.answered(seq, order);
            }
            order += 1;
        }
        (counts, unanswered)
    }

    #[test]
    fn losses_on_either_way_are_told_apart_also_before_the_first_answer() {
        let (counts, unanswered) = counts(20, &[0, 1, 5, 6], &[10, 15, 16]);
        assert_eq!(unanswered, [0, 1, 5, 6, 10, 15, 16]);
        assert_eq!(counts.directions(&unanswered), [Up, Up, Up, Up, Down, Down, Down]);
    }

    #[test]
    fn neighbours_lost_on_different_ways_can_t_be_told_apart() {
        let (counts, unanswered) = counts(20, &[5, 12], &[6, 14]);
        assert_eq!(counts.directions(&unanswered), [Unknown, Unknown, Up, Down]);
    }

    #[test]
    fn behind_the_last_answer_nothing_is_known() {
        let (counts, unanswered) = counts(10, &[9], &[8]);
        assert_eq!(counts.directions(&unanswered), [Unknown, Unknown]);
        assert_eq!(Counts::new().directions(&[0, 1]), [Unknown, Unknown]);
    }

    #[test]
    fn packets_that_overtook_each_other_make_one_stretch() {
        // 0 1 3 2 5 at the reflector: 4 never came.
        let mut counts = Counts::new();
        for (order, seq) in [0, 1, 3, 2, 5].into_iter().enumerate() {
            counts.answered(seq, order as u64);
        }
        assert_eq!(counts.directions(&[4]), [Up]);
        // 0 4 1 3 5 with 2 between them at the reflector, its answer lost.
        let mut counts = Counts::new();
        for (order, seq) in [(0, 0), (1, 4), (2, 1), (4, 3), (5, 5)] {
            counts.answered(seq, order);
        }
        assert_eq!(counts.directions(&[2]), [Down]);
    }

    #[test]
    fn what_is_settled_is_forgotten_and_the_rest_stays_right() {
        let (mut counts, unanswered) = counts(1000, &[500, 900], &[700, 950]);
        assert_eq!(unanswered, [500, 700, 900, 950]);
        counts.gave_up(500);
        counts.gave_up(700);
        counts.settle(800);
        assert!(counts.answers.len() < 202, "{}", counts.answers.len());
        assert_eq!(counts.directions(&[900, 950]), [Up, Down]);
        // A late copy of what is settled changes nothing.
        counts.answered(10, 10);
        assert_eq!(counts.directions(&[900, 950]), [Up, Down]);
    }

    proptest! {
        /// Whatever is lost: what is said of a direction is true.
        #[test]
        fn a_direction_is_never_wrong(
            fates in prop::collection::vec(0u8..4, 1..60),
            settle in 0u64..60,
        ) {
            let of = |fate| {
                (0..fates.len() as u64).filter(|s| fates[*s as usize] == fate).collect::<Vec<_>>()
            };
            let (up, down) = (of(1), of(2));
            let (mut counts, unanswered) = counts(fates.len() as u64, &up, &down);
            for round in 0..2 {
                let asked: Vec<u64> =
                    unanswered.iter().copied().filter(|s| round == 0 || *s >= settle).collect();
                for (seq, direction) in asked.iter().zip(counts.directions(&asked)) {
                    match direction {
                        Up => prop_assert!(up.contains(seq), "{seq} was not lost up"),
                        Down => prop_assert!(down.contains(seq), "{seq} was not lost down"),
                        Unknown => {}
                    }
                }
                for gone in asked.into_iter().filter(|s| *s < settle) {
                    counts.gave_up(gone);
                }
                counts.settle(settle);
            }
        }

        #[test]
        fn a_reflector_that_counts_nonsense_makes_no_panic(
            answers in prop::collection::vec((any::<u64>(), any::<u64>()), 0..40),
            unanswered in prop::collection::btree_set(any::<u64>(), 0..40),
            settle in any::<u64>(),
        ) {
            let mut counts = Counts::new();
            for (seq, order) in answers {
                counts.answered(seq, order);
            }
            let unanswered: Vec<u64> = unanswered.into_iter().collect();
            counts.directions(&unanswered);
            counts.settle(settle);
            counts.directions(&unanswered);
        }
    }
}
