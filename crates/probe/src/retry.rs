//! Whether a connect that was answered after its SYN had been sent again lost its first exchange. Pure.
//!
//! ```text
//!   SYN ──── answer                                 certain: the answer came before the SYN was sent again
//!   SYN ─────────────────── SYN again ──── answer   to which of the two? Time alone does not tell (Karn)
//! ```
//!
//! - An answer that comes sooner than a second and the least round trip is one to the first SYN: to the second it would be too quick.
//! - One that none overtook of four or more that were begun in the second behind it is one to the first SYN: the path keeps their order.
//! - Where none is certain, the quickest of eight or more is one to a first SYN: else all of them were lost.
//! - Where one of the three begun before it is certain, and certain times lie closer together than what is left of the second, an answer whose
//!   timestamp is that of a later SYN, or that comes a number of seconds after such a time, is one to what was sent again: the first was lost.
//! - Of all others nobody can know.

use std::collections::{BTreeMap, VecDeque};

/// The kernel sends a SYN again after so long (`TCP_TIMEOUT_INIT`, include/net/tcp.h), and a server its answer …
pub(crate) const REPEAT_NS: u64 = 1_000_000_000;
/// … sooner by a tick, of which there are a hundred a second at least, …
const EARLY_NS: u64 = 10_000_000;
/// … or later by a step of its timers of a second: eight ticks, or 64 where there are a thousand a second (kernel/time/timer.c).
const SLACK_NS: u64 = 80_000_000;
/// So many answers after a second, and none before it, are no losses alone.
const FEW: u32 = 8;
/// So many that were begun behind one, and did not overtake it, show that the path keeps their order.
const FOLLOWERS: usize = 4;
/// So many begun before one tell how slow the path was then.
const BEFORE: usize = 3;
/// Connects that are remembered: more than begin until one is judged.
const REMEMBERED: usize = 8192;

/// What became of the first exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstSyn {
    /// It was answered; its time is the round trip.
    Answered,
    /// It was answered late, or its SYN or its answer was lost.
    Unsure,
    /// Its SYN or the answer was lost.
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connect {
    /// When its first SYN was sent, in nanoseconds.
    pub begun_ns: u64,
    /// How long after that the answer came, in nanoseconds.
    pub took_ns: u64,
    /// Whether it is the answer to the first SYN, as its timestamp says; none where it has none.
    pub is_to_first: Option<bool>,
}

impl Connect {
    /// Whether the answer may be to the first SYN, as far as its timestamp says.
    pub fn may_be_to_first(&self) -> bool {
        self.is_to_first != Some(false)
    }

    fn ended_ns(&self) -> u64 {
        self.begun_ns.saturating_add(self.took_ns)
    }
}

/// How long connects to one place took, in nanoseconds.
#[derive(Debug, Default)]
pub struct ConnectTimes {
    /// The least and the most of those that are certain.
    certain: Option<(u64, u64)>,
    /// The least of those that may be to a first SYN that was sent again, and how many these are.
    again: Option<(u64, u32)>,
    /// As they were begun, and whether each is certain.
    answered: VecDeque<(Connect, bool)>,
}

impl ConnectTimes {
    /// A connect that was answered before its SYN was sent again: its time is a round trip.
    pub fn certain(&mut self, begun_ns: u64, took_ns: u64) {
        let (least, most) = self.certain.unwrap_or((took_ns, took_ns));
        self.certain = Some((least.min(took_ns), most.max(took_ns)));
        self.remember(Connect { begun_ns, took_ns, is_to_first: Some(true) }, true);
    }

    /// An answer to a SYN that was sent again.
    pub fn again(&mut self, connect: &Connect) {
        if connect.may_be_to_first() {
            let (least, count) = self.again.unwrap_or((connect.took_ns, 0));
            self.again = Some((least.min(connect.took_ns), count.saturating_add(1)));
        }
        self.remember(*connect, false);
    }

    /// In the order in which they were begun.
    fn remember(&mut self, connect: Connect, is_certain: bool) {
        let at = self.answered.partition_point(|(other, _)| other.begun_ns <= connect.begun_ns);
        self.answered.insert(at, (connect, is_certain));
        if self.answered.len() > REMEMBERED {
            self.answered.pop_front();
        }
    }

    /// Whether all that is certain, and something is, took less than this.
    pub fn are_below(&self, ns: u64) -> bool {
        self.certain.is_some_and(|(_, most)| most < ns)
    }

    /// What became of the first exchange of a connect whose SYN was sent again.
    pub fn judge(&self, connect: &Connect) -> FirstSyn {
        let again = self.again.filter(|(_, count)| *count >= FEW).map(|(least, _)| least);
        let least = self.certain.map(|(least, _)| least).or(again);
        let is_quick = |least: u64| connect.took_ns + EARLY_NS < least + REPEAT_NS;
        if connect.may_be_to_first() && (least.is_some_and(is_quick) || self.is_in_step(connect)) {
            return FirstSyn::Answered;
        }
        let Some((least, most)) = self.certain.filter(|_| self.was_quick_before(connect)) else {
            return FirstSyn::Unsure;
        };
        let is_narrow = most + (most - least) < REPEAT_NS;
        // A certain one that took so long, and a number of seconds: a timer of the kernel's may be early by a tick.
        let is_repeat = (1..=(connect.took_ns + EARLY_NS) / REPEAT_NS).any(|n| {
            let took_ns = connect.took_ns + EARLY_NS - n * REPEAT_NS;
            (least..=most + EARLY_NS + SLACK_NS).contains(&took_ns)
        });
        match is_narrow && (!connect.may_be_to_first() || is_repeat) {
            true => FirstSyn::Lost,
            false => FirstSyn::Unsure,
        }
    }

    /// Whether enough were begun in the second behind it, and none of them overtook it.
    fn is_in_step(&self, connect: &Connect) -> bool {
        let from = self.answered.partition_point(|(other, _)| other.begun_ns <= connect.begun_ns);
        let until_ns = connect.begun_ns.saturating_add(REPEAT_NS);
        let behind = self.answered.range(from..).take_while(|(other, _)| other.begun_ns < until_ns);
        let mut followers = 0;
        for (follower, _) in behind {
            if follower.ended_ns() < connect.ended_ns() {
                return false;
            }
            followers += 1;
        }
        followers >= FOLLOWERS
    }

    fn was_quick_before(&self, connect: &Connect) -> bool {
        let to = self.answered.partition_point(|(other, _)| other.begun_ns < connect.begun_ns);
        self.answered.range(to.saturating_sub(BEFORE)..to).any(|(_, is_certain)| *is_certain)
    }
}

/// A SYN of a hop, by its number among those to that hop of that flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SynProbe {
    pub flow: u16,
    pub ttl: u8,
    pub seq: u64,
}

/// Of each hop the times that are certain, and SYNs that were answered after they had been sent again.
#[derive(Debug, Default)]
pub struct HopConnects {
    times: BTreeMap<u8, ConnectTimes>,
    undecided: Vec<(SynProbe, Connect)>,
}

impl HopConnects {
    /// What is certain of a hop.
    pub fn times(&mut self, ttl: u8) -> &mut ConnectTimes {
        self.times.entry(ttl).or_default()
    }

    pub fn undecided(&mut self, probe: SynProbe, connect: Connect) {
        self.times(probe.ttl).again(&connect);
        self.undecided.push((probe, connect));
    }

    /// What became of the first SYNs of those that are due.
    pub fn decide(
        &mut self,
        is_due: impl Fn(&SynProbe) -> bool,
    ) -> Vec<(SynProbe, Connect, FirstSyn)> {
        let all = std::mem::take(&mut self.undecided);
        let (due, open): (Vec<_>, Vec<_>) = all.into_iter().partition(|(probe, _)| is_due(probe));
        self.undecided = open;
        let judge = |(probe, connect): (SynProbe, Connect)| {
            (probe, connect, self.times.entry(probe.ttl).or_default().judge(&connect))
        };
        due.into_iter().map(judge).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// What is said of a connect that took so long, where others, each a second after the one before, took so long.
    fn judge(certain: &[u64], took: u64, is_to_first: Option<bool>) -> FirstSyn {
        let mut times = ConnectTimes::default();
        (0..).zip(certain).for_each(|(n, ms)| times.certain(n * REPEAT_NS, ms * MS));
        let begun_ns = certain.len() as u64 * REPEAT_NS;
        times.judge(&Connect { begun_ns, took_ns: took * MS, is_to_first })
    }

    #[test]
    fn an_answer_that_is_too_quick_for_the_second_syn_is_one_to_the_first() {
        assert_eq!(judge(&[720, 980], 1600, None), FirstSyn::Answered);
        assert_eq!(judge(&[720, 980], 1900, None), FirstSyn::Unsure);
        assert_eq!(judge(&[720, 980], 1600, Some(false)), FirstSyn::Unsure, "the second was first");
        assert_eq!(judge(&[], 1125, Some(true)), FirstSyn::Unsure, "nothing is certain");
    }

    #[test]
    fn of_many_that_all_come_after_a_second_the_quickest_tells_how_long_it_takes() {
        let mut times = ConnectTimes::default();
        let connect = |n: u64, took| Connect {
            begun_ns: n * REPEAT_NS,
            took_ns: took * MS,
            is_to_first: Some(true),
        };
        (0..7).for_each(|n| times.again(&connect(n, 1400 + n)));
        assert_eq!(times.judge(&connect(3, 1400)), FirstSyn::Unsure);
        times.again(&connect(7, 1410));
        assert_eq!(times.judge(&connect(3, 1400)), FirstSyn::Answered);
        assert_eq!(times.judge(&connect(3, 2400)), FirstSyn::Unsure);
    }

    /// A queue of a second and more: each waits as long as the one before.
    #[test]
    fn one_that_none_overtook_was_answered_and_one_that_others_did_was_not() {
        let mut times = ConnectTimes::default();
        let slow = Connect { begun_ns: 0, took_ns: 1500 * MS, is_to_first: None };
        times.certain(0, 20 * MS);
        for n in 1..10 {
            times.again(&Connect { begun_ns: n * 100 * MS, took_ns: 1450 * MS, is_to_first: None });
        }
        assert_eq!(times.judge(&slow), FirstSyn::Answered);
        times.certain(950 * MS, 400 * MS);
        assert_eq!(times.judge(&slow), FirstSyn::Unsure);
    }

    #[test]
    fn an_answer_to_a_later_syn_means_a_loss_where_the_path_is_quick() {
        for (took, stamp, first) in [
            (1040, Some(false), FirstSyn::Lost),
            (1045, None, FirstSyn::Lost),
            (3050, Some(true), FirstSyn::Lost),
            (1300, Some(true), FirstSyn::Unsure),
            (1300, Some(false), FirstSyn::Lost),
        ] {
            assert_eq!(judge(&[40, 60], took, stamp), first, "{took} {stamp:?}");
            let slow = judge(&[40, 700], took, stamp);
            assert_ne!(slow, FirstSyn::Lost, "a path that is slow now and then: {took} {stamp:?}");
        }
        assert_eq!(judge(&[560, 650], 1600, None), FirstSyn::Lost);
    }

    /// The delay falls by a second: the second SYN is there before the first.
    #[test]
    fn behind_slow_ones_nobody_knows_of_one_that_was_overtaken() {
        let mut times = ConnectTimes::default();
        let slow = |n: u64| Connect {
            begun_ns: n * REPEAT_NS,
            took_ns: 1400 * MS,
            is_to_first: Some(true),
        };
        (0..5).for_each(|n| times.again(&slow(n)));
        times.certain(6 * REPEAT_NS, 150 * MS);
        let overtaken = Connect { took_ns: 1150 * MS, is_to_first: Some(false), ..slow(5) };
        assert_eq!(times.judge(&overtaken), FirstSyn::Unsure);
    }
}
