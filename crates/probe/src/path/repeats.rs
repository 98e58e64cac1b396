//! SYNs that were answered after the kernel had sent them again: what became of the first. Pure.
//!
//! ```text
//!   SYN ────── answer                             certain: how long this hop takes
//!   SYN ─────────────────── SYN again ── answer   to which of them? what is certain tells (Retries), or many that are alike:
//!                                  ├───►│          each took a second longer than what is certain: those are answers to what was sent again
//! ```
//!
//! A late answer comes at any time; that all of several come at this one is no chance. Where nobody can know, it is unsure.
//!
//! A router quotes the timestamp of the SYN that it answers; a host that listens sends it back. Which SYN of a flow a quoted one is tells its time too.

use crate::retry::{Exchange, First, REPEAT_NS, Retries};
use std::collections::{BTreeMap, VecDeque};

/// What is sent again after [`REPEAT_NS`] may be so sooner by a tick, of which there are a hundred a second at least, …
const EARLY_NS: u64 = 10_000_000;
/// … or later by a step of its timers of a second: eight ticks, or 64 where there are a thousand a second (kernel/time/timer.c).
const SLACK_NS: u64 = 80_000_000;
/// Chance of a verdict that would be wrong, where late answers come at any time.
const CHANCE: f64 = 1e-4;
/// So many of those of a hop are remembered.
const REMEMBERED: usize = 64;
/// Timestamps count milliseconds; by so much may differ what two of them tell.
const STAMP_NS: u64 = 3_000_000;

/// A SYN of a hop, by its number among those to that hop of that flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SynProbe {
    pub flow: u16,
    pub ttl: u8,
    pub seq: u64,
}

/// What is known of a hop's answers.
#[derive(Debug, Default)]
struct Hop {
    retries: Retries,
    /// The least and the most time of those that are certain.
    certain: Option<(u64, u64)>,
    /// How long those took last that were answered after the SYN was sent again, and are not known by a timestamp to be to which.
    again: VecDeque<u64>,
}

/// All hops' answers.
#[derive(Debug, Default)]
pub struct Repeats {
    hops: BTreeMap<u8, Hop>,
    undecided: Vec<(SynProbe, Exchange)>,
}

impl Repeats {
    /// An answer to a first SYN, for certain.
    pub fn certain(&mut self, ttl: u8, exchange: Exchange) {
        let hop = self.hops.entry(ttl).or_default();
        hop.retries.answered(exchange);
        hop.certain(exchange);
    }

    /// An answer after the SYN was sent again.
    pub fn undecided(&mut self, probe: SynProbe, exchange: Exchange) {
        let hop = self.hops.entry(probe.ttl).or_default();
        hop.retries.answered(exchange);
        if exchange.may_be_to_first() {
            hop.again.push_back(exchange.took_ns);
            if hop.again.len() > REMEMBERED {
                hop.again.pop_front();
            }
        }
        self.undecided.push((probe, exchange));
    }

    /// Whether all that is certain of a hop, and something is, took less than this.
    pub fn is_quick(&self, ttl: u8, than_ns: u64) -> bool {
        let certain = self.hops.get(&ttl).and_then(|hop| hop.certain);
        certain.is_some_and(|(_, most_ns)| most_ns < than_ns)
    }

    /// What became of the first SYNs of those that are due.
    pub fn decide(
        &mut self,
        is_due: impl Fn(&SynProbe) -> bool,
    ) -> Vec<(SynProbe, Exchange, First)> {
        let all = std::mem::take(&mut self.undecided);
        let (mut due, open): (Vec<_>, Vec<_>) = all.into_iter().partition(|(p, _)| is_due(p));
        self.undecided = open;
        // The quickest tell of the others.
        due.sort_unstable_by_key(|(_, exchange)| exchange.took_ns);
        let decide = |(probe, exchange): (SynProbe, Exchange)| {
            let hop = self.hops.entry(probe.ttl).or_default();
            (probe, exchange, hop.judge(exchange))
        };
        due.into_iter().map(decide).collect()
    }
}

impl Hop {
    fn certain(&mut self, exchange: Exchange) {
        self.retries.certain(exchange);
        let took_ns = exchange.took_ns;
        let (least, most) = self.certain.unwrap_or((took_ns, took_ns));
        self.certain = Some((least.min(took_ns), most.max(took_ns)));
    }

    /// Whether it took as long as those that are certain, and a number of seconds.
    fn is_in_time(&self, took_ns: u64) -> bool {
        let Some((least, most)) = self.certain else { return false };
        (1..=(took_ns + EARLY_NS) / REPEAT_NS).any(|n| {
            let took_ns = took_ns + EARLY_NS - n * REPEAT_NS;
            (least..=most + EARLY_NS + SLACK_NS).contains(&took_ns)
        })
    }

    fn judge(&mut self, exchange: Exchange) -> First {
        let first = match self.retries.judge(&exchange) {
            // A timer of the kernel's may be early by a tick.
            First::Answered if self.is_in_time(exchange.took_ns) => First::Unsure,
            first => first,
        };
        if first == First::Answered {
            self.certain(exchange);
        }
        let is_repeat = exchange.may_be_to_first() && self.are_repeats();
        if first == First::Unsure && is_repeat { First::Lost } else { first }
    }

    /// Whether so many came at the time when answers to what was sent again do, and no other, that this is no chance; and the path never was so slow.
    fn are_repeats(&self) -> bool {
        let Some((least, most)) = self.certain else { return false };
        let part = (most - least + EARLY_NS + SLACK_NS) as f64 / REPEAT_NS as f64;
        let are_in_time = self.again.iter().all(|took_ns| self.is_in_time(*took_ns));
        most < REPEAT_NS && are_in_time && part.powi(self.again.len() as i32) < CHANCE
    }
}

/// Whether what left at this time is the SYN that was sent at that, and not the same sent again.
pub fn is_first(left_ns: u64, sent_ns: u64) -> bool {
    left_ns < sent_ns + STAMP_NS
}

/// Which of the SYNs of a flow, each with its number and when it was first sent, in order, is one that left at this time, be it again; none where two may be.
pub fn owner(sent: impl DoubleEndedIterator<Item = (u64, u64)>, left_ns: u64) -> Option<u64> {
    let mut before = sent.rev().skip_while(|(_, sent_ns)| *sent_ns > left_ns + STAMP_NS);
    let (number, sent_ns) = before.next()?;
    // Right after it began, it may be the one before too.
    let is_alone = left_ns > sent_ns + STAMP_NS
        || before.next().is_none_or(|(_, earlier_ns)| earlier_ns + STAMP_NS < left_ns);
    is_alone.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Answers to SYNs to a hop, each so long after them, in milliseconds, and what their timestamps tell; those of more than a second were sent again.
    fn fates(times: &[(u64, Option<bool>)]) -> Vec<First> {
        let mut repeats = Repeats::default();
        for (seq, (took, is_to_first)) in (0..).zip(times) {
            let exchange = Exchange {
                begun_ns: seq * 3000 * MS,
                took_ns: took * MS,
                is_to_first: *is_to_first,
            };
            match took * MS < REPEAT_NS {
                true => repeats.certain(4, exchange),
                false => repeats.undecided(SynProbe { flow: 0, ttl: 4, seq }, exchange),
            }
        }
        let mut decided = repeats.decide(|_| true);
        assert!(repeats.undecided.is_empty());
        decided.sort_unstable_by_key(|(probe, ..)| probe.seq);
        decided.into_iter().map(|(.., first)| first).collect()
    }

    #[test]
    fn a_second_syn_that_is_answered_where_the_first_was_not_means_a_loss() {
        let mut times = vec![(40, None); 20];
        times[7] = (1040, Some(false));
        assert_eq!(fates(&times), [First::Lost]);
        // Where it takes now 100 ms, now a second, nobody knows.
        for (n, time) in times.iter_mut().enumerate().filter(|(n, _)| *n != 7) {
            time.0 = 100 + n as u64 * 43;
        }
        assert_eq!(fates(&times), [First::Unsure]);
    }

    #[test]
    fn answers_that_all_come_a_second_later_are_to_what_was_sent_again() {
        for stamp in [Some(true), None] {
            let mut times = vec![(40, stamp); 30];
            for n in [0, 9, 15, 17] {
                times[n] = (1052 + n as u64, stamp);
            }
            times[9].0 = 1035;
            assert_eq!(fates(&times), [First::Lost; 4]);
            // One that came at another time: they are late, some of them or all.
            times[20] = (1300, stamp);
            assert_eq!(fates(&times), [First::Unsure; 5]);
            // One alone may be late by chance.
            assert_eq!(fates(&times[..8]), [First::Unsure]);
        }
    }

    #[test]
    fn what_can_only_be_an_answer_to_the_first_is_one() {
        let times: Vec<_> = (0..30).map(|n| (720 + n * 20, Some(true))).collect();
        assert_eq!(fates(&times), [First::Answered; 16]);
        // All are late, and none is certain: of eight or more one is an answer to a first SYN.
        assert_eq!(fates(&[(1125, Some(true)); 30]), [First::Answered; 30]);
        assert_eq!(fates(&[(1125, Some(true)); 3]), [First::Unsure; 3]);
    }

    #[test]
    fn a_quoted_syn_is_the_one_that_was_under_way_when_it_left() {
        let sent = || [(1, 100 * MS), (2, 400 * MS), (3, 401 * MS), (7, 3500 * MS)].into_iter();
        let at = |ms: u64| owner(sent(), ms * MS);
        assert_eq!([at(100), at(101), at(250)], [Some(1), Some(1), Some(1)]);
        assert_eq!(at(1402), Some(3), "sent again");
        assert_eq!([at(400), at(402)], [None, None], "the one or the other");
        assert_eq!([at(3501), at(9000), at(90)], [Some(7), Some(7), None]);
    }
}
