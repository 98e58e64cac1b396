//! Whether a connect that was answered after its SYN had been sent again lost its first exchange. Pure.
//!
//! ```text
//!   SYN ──── answer                                 certain: the answer came before the SYN was sent again
//!   SYN ─────────────────── SYN again ──── answer   to which of the two? Time alone does not tell (Karn)
//! ```
//!
//! - An answer that comes sooner than a second and the least round trip is one to the first SYN: to the second it would be too quick.
//! - Where certain round trips all took less than half a second, an answer whose timestamp is that of a later SYN, or that comes a number of
//!   seconds after one of them would, is one to what was sent again: the first exchange was lost.
//! - Where none is certain, the quickest of eight or more is one to a first SYN: else all of them were lost.
//! - Of all others nobody can know.

use std::collections::BTreeMap;

/// The kernel sends a SYN again after so long (`TCP_TIMEOUT_INIT`, include/net/tcp.h), and a server its answer …
pub(crate) const REPEAT_NS: u64 = 1_000_000_000;
/// … sooner by a tick, of which there are a hundred a second at least, …
const EARLY_NS: u64 = 10_000_000;
/// … or later by a step of its timers of a second: eight ticks, or 64 where there are a thousand a second (kernel/time/timer.c).
const SLACK_NS: u64 = 80_000_000;
/// So many answers after a second, and none before it, are no losses alone.
const FEW: u32 = 8;
/// Timestamps count milliseconds; by so much may differ what two of them tell.
const STAMP_NS: u64 = 3_000_000;

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
    /// How long after the first SYN the answer came, in nanoseconds.
    pub took_ns: u64,
    /// Whether it is the answer to the first SYN, as its timestamp says; none where it has none.
    pub is_to_first: Option<bool>,
}

impl Connect {
    /// Whether the answer may be to the first SYN, as far as its timestamp says.
    pub fn may_be_to_first(&self) -> bool {
        self.is_to_first != Some(false)
    }
}

/// How long connects to one place took, in nanoseconds.
#[derive(Debug, Default)]
pub struct ConnectTimes {
    /// The least and the most of those that are certain.
    certain: Option<(u64, u64)>,
    /// The least of those that may be to a first SYN that was sent again, and how many these are.
    again: Option<(u64, u32)>,
}

impl ConnectTimes {
    /// That this is a round trip is certain.
    pub fn certain(&mut self, took_ns: u64) {
        let (least, most) = self.certain.unwrap_or((took_ns, took_ns));
        self.certain = Some((least.min(took_ns), most.max(took_ns)));
    }

    /// An answer to a SYN that was sent again.
    pub fn again(&mut self, connect: &Connect) {
        if connect.may_be_to_first() {
            let (least, count) = self.again.unwrap_or((connect.took_ns, 0));
            self.again = Some((least.min(connect.took_ns), count.saturating_add(1)));
        }
    }

    fn least_ns(&self) -> Option<u64> {
        let again = self.again.filter(|(_, count)| *count >= FEW).map(|(least, _)| least);
        self.certain.map(|(least, _)| least).or(again)
    }

    /// Whether all that is certain, and something is, took less than this.
    pub fn are_below(&self, ns: u64) -> bool {
        self.certain.is_some_and(|(_, most)| most < ns)
    }

    /// What became of the first exchange of a connect whose SYN was sent again.
    pub fn judge(&self, connect: &Connect) -> FirstSyn {
        let is_quick = |least: u64| connect.took_ns + EARLY_NS < least + REPEAT_NS;
        if connect.may_be_to_first() && self.least_ns().is_some_and(is_quick) {
            return FirstSyn::Answered;
        }
        let Some((least, most)) = self.certain else { return FirstSyn::Unsure };
        // A certain one that took so long, and a number of seconds: a timer of the kernel's may be early by a tick.
        let is_repeat = (1..=(connect.took_ns + EARLY_NS) / REPEAT_NS).any(|n| {
            let took_ns = connect.took_ns + EARLY_NS - n * REPEAT_NS;
            (least..=most + EARLY_NS + SLACK_NS).contains(&took_ns)
        });
        if self.are_below(REPEAT_NS / 2) && (!connect.may_be_to_first() || is_repeat) {
            return FirstSyn::Lost;
        }
        FirstSyn::Unsure
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

    /// What is said of a connect that took so long, where certain ones took so long.
    fn judge(certain: &[u64], took: u64, is_to_first: Option<bool>) -> FirstSyn {
        let mut times = ConnectTimes::default();
        certain.iter().for_each(|ms| times.certain(ms * MS));
        times.judge(&Connect { took_ns: took * MS, is_to_first })
    }

    #[test]
    fn an_answer_that_is_too_quick_for_the_second_syn_is_one_to_the_first() {
        assert_eq!(judge(&[720, 980], 1600, None), FirstSyn::Answered);
        assert_eq!(judge(&[720, 980], 1900, None), FirstSyn::Unsure);
        assert_eq!(judge(&[720], 1600, Some(false)), FirstSyn::Unsure, "the second was first");
        assert_eq!(judge(&[], 1125, Some(true)), FirstSyn::Unsure, "nothing is certain");
    }

    #[test]
    fn of_many_that_all_come_after_a_second_the_quickest_tells_how_long_it_takes() {
        let mut times = ConnectTimes::default();
        let connect = |took| Connect { took_ns: took * MS, is_to_first: Some(true) };
        (0..7).for_each(|n| times.again(&connect(1400 + n)));
        assert_eq!(times.judge(&connect(1400)), FirstSyn::Unsure);
        times.again(&connect(1410));
        assert_eq!(times.judge(&connect(1400)), FirstSyn::Answered);
        assert_eq!(times.judge(&connect(2400)), FirstSyn::Unsure);
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
