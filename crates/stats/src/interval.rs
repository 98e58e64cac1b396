//! How far a figure could be off, from the repeats alone: 95 % intervals whose coverage is known.
//!
//! ```text
//!   one value a repeat ──► Interval::of_mean    Student's t, or a lognormal's where that reaches further
//!   packets sent and lost, in batches of time ──► Interval::of_loss
//!                          Clopper and Pearson on as many packets as these are worth, or the repeats' where that reaches further
//! ```
//!
//! The unit is the repeat: packets of one stream hang together, so that a thousand of them say less than a thousand would. How
//! often the intervals hold the truth was measured; `docs/adr/0013-*.md` has the table, `tests/coverage.rs` repeats it.

use crate::beta::{self, TAIL};
use crate::sample::{mean_of, sd};

/// A range that holds the truth in 95 of 100 cases, as far as the repeats can tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Batch {
    pub sent: f64,
    /// Of these, lost.
    pub lost: f64,
}

/// Fewest groups of batches from which it is told whether losses come in clumps.
const FEWEST_GROUPS: usize = 8;

/// How many times the mean an interval of three values reaches at most where Student's does not: what three can say ends there.
const FURTHEST: f64 = 30.0;

impl Interval {
    /// Whether it holds this value, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    fn and(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// Of the mean of values that are never below 0, one a repeat. None of fewer than three, which could lie anywhere, or where one is NaN,
    /// infinite or negative.
    ///
    /// Student's t holds 95 % where values spread evenly around their mean, and as little as 82 % where a few are far above the
    /// others, as loss and delay often are. So the interval of a lognormal's mean is taken with it: on the logarithm, ± t √(s²/n + k
    /// s⁴/(n−1)), where s² = ln(1 + variance/mean²). Cox has k = 1/2 (Land 1972); few values show too little of the spread, which
    /// k = 1/2 + 45/(n+8) makes up for. Where values lie close together both are the same.
    pub fn of_mean(values: &[f64]) -> Option<Self> {
        Self::of_mean_beyond(values, TAIL)
    }

    /// The same with this part of the cases, above 0 and below a half, beyond either end: 0.025 makes it a 95 % interval.
    pub fn of_mean_beyond(values: &[f64], tail: f64) -> Option<Self> {
        if values.len() < 3 || !values.iter().all(|v| v.is_finite() && *v >= 0.0) {
            return None;
        }
        let (n, mean, sd) = (values.len() as f64, mean_of(values), sd(values)?);
        let t = beta::student(values.len() - 1, tail);
        let half = t * sd / n.sqrt();
        let student = Self { low: (mean - half).max(0.0), high: mean + half };
        if mean <= 0.0 {
            return Some(student);
        }
        let s2 = (1.0 + (sd / mean).powi(2)).ln();
        let k = 0.5 + 45.0 / (n + 8.0);
        let factor = (t * (s2 / n + k * s2 * s2 / (n - 1.0)).sqrt()).exp().min(FURTHEST);
        Some(student.and(Self { low: mean / factor, high: mean * factor }))
    }

    /// Of a ratio of loss, 0 to 1. Each repeat is cut into batches of the same length of time, in their order. None where nothing was
    /// sent.
    ///
    /// Losses come in clumps. By how much batches differ more than independent losses would (the design effect, Kish 1965, at the
    /// length of batches where it is largest), packets count for less; of these, Clopper and Pearson's interval (1934), which is never
    /// too narrow: no loss among n packets leaves 3.7 ÷ n possible. With three repeats or more, what these differ by counts as well.
    /// Clumps of which the repeats saw none are not known of.
    pub fn of_loss(repeats: &[Vec<Batch>]) -> Option<Self> {
        Self::of_loss_beyond(repeats, TAIL)
    }

    /// The least that a loss can be of which so many of so many packets tell, 0 to 1; 0 of none.
    pub fn least_loss(lost: f64, sent: f64) -> f64 {
        Self::of_loss(&[vec![Batch { sent, lost }]]).map_or(0.0, |interval| interval.low)
    }

    /// The same with this part of the cases beyond either end.
    pub fn of_loss_beyond(repeats: &[Vec<Batch>], tail: f64) -> Option<Self> {
        let total = sum(repeats.iter().flatten());
        if total.sent <= 0.0 {
            return None;
        }
        let effect = design_effect(repeats, total);
        let (sent, lost) = (total.sent / effect, total.lost.clamp(0.0, total.sent) / effect);
        let kept = sent - lost;
        let low = if lost > 0.0 { beta::quantile(tail, lost, kept + 1.0) } else { 0.0 };
        let high = if kept > 0.0 { beta::quantile(1.0 - tail, lost + 1.0, kept) } else { 1.0 };
        let pooled = Self { low, high };
        let ratios: Vec<f64> = repeats
            .iter()
            .map(sum)
            .filter(|r| r.sent > 0.0)
            .map(|r| (r.lost / r.sent).clamp(0.0, 1.0))
            .collect();
        let between = if ratios.len() > 2 { Self::of_mean_beyond(&ratios, tail) } else { None };
        let both = between.map_or(pooled, |between| pooled.and(between));
        Some(Self { low: both.low.max(0.0), high: both.high.min(1.0) })
    }
}

pub(crate) fn sum<'a>(batches: impl IntoIterator<Item = &'a Batch>) -> Batch {
    batches
        .into_iter()
        .fold(Batch::default(), |sum, b| Batch { sent: sum.sent + b.sent, lost: sum.lost + b.lost })
}

/// By how many packets one independent one is to be replaced: the variance between groups of batches over that of independent losses,
/// at least 1, for groups of one, two, four … batches.
pub(crate) fn design_effect(repeats: &[Vec<Batch>], total: Batch) -> f64 {
    let p = total.lost / total.sent;
    if !(p > 0.0 && p < 1.0) {
        return 1.0;
    }
    let longest = repeats.iter().map(Vec::len).max().unwrap_or(0);
    let lengths = std::iter::successors(Some(1), |length| Some(length * 2));
    let effects = lengths.take_while(|length| *length <= longest).filter_map(|length| {
        let groups = repeats.iter().flat_map(|repeat| repeat.chunks(length)).map(sum);
        let (mut count, mut squares) = (0, 0.0);
        for group in groups.filter(|g| g.sent > 0.0) {
            count += 1;
            squares += (group.lost - group.sent * p).powi(2) / (group.sent * p * (1.0 - p));
        }
        (count >= FEWEST_GROUPS).then(|| squares / f64::from(count as u32 - 1))
    });
    effects.fold(1.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-3 * expected.abs(), "{found} is not {expected}");
    }

    /// A repeat of 16 batches of 100 packets, of which so many are lost in the first.
    fn repeat(lost: f64) -> Vec<Batch> {
        let batch = |n| Batch { sent: 100.0, lost: if n == 0 { lost } else { 0.0 } };
        (0..16).map(batch).collect()
    }

    #[test]
    fn values_close_together_have_students_interval() {
        // Mean 20, standard deviation 1, standard error 1/sqrt(3).
        let got = Interval::of_mean(&[19.0, 20.0, 21.0]).unwrap();
        near(got.low, 20.0 - 4.303 / 3f64.sqrt());
        assert!(got.high > 20.0 + 4.302 / 3f64.sqrt() && got.high < 22.9, "{got:?}");
        assert_eq!(Interval::of_mean(&[2.0; 5]), Some(Interval { low: 2.0, high: 2.0 }));
    }

    #[test]
    fn an_interval_of_what_can_t_be_negative_does_not_begin_below_0() {
        let got = Interval::of_mean(&[0.0, 0.0, 0.003]).unwrap();
        assert_eq!(got.low, 0.0);
        assert!(
            got.high > 0.005 && got.high < 0.1,
            "few values say little, but not nothing: {got:?}"
        );
    }

    #[test]
    fn more_repeats_of_the_same_spread_give_a_narrower_interval() {
        let width = |n: u32| {
            let values: Vec<f64> = (0..n).map(|i| 5.0 + f64::from(i % 2)).collect();
            let got = Interval::of_mean(&values).unwrap();
            assert!(got.contains(mean_of(&values)));
            got.high - got.low
        };
        for n in [4, 6, 8, 9, 10, 14, 30, 300] {
            assert!(width(n + 2) < width(n), "{n}");
        }
    }

    #[test]
    fn no_loss_among_five_thousand_packets_leaves_seven_in_ten_thousand_possible() {
        let got = Interval::of_loss(&[
            repeat(0.0),
            repeat(0.0),
            repeat(0.0),
            vec![Batch { sent: 200.0, lost: 0.0 }],
        ]);
        let got = got.unwrap();
        assert_eq!(got.low, 0.0);
        near(got.high, 3.689 / 5000.0);
        assert_eq!(Interval::of_loss(&[]), None);
        assert_eq!(Interval::of_loss(&[vec![Batch::default()]]), None);
    }

    #[test]
    fn losses_in_one_clump_say_less_than_losses_apart() {
        let mut apart = repeat(1.0);
        apart.iter_mut().for_each(|b| b.lost = 1.0);
        let apart = Interval::of_loss(&[apart]).unwrap();
        // Clopper and Pearson, 16 of 1600: 0.57 to 1.62 %.
        near(apart.low, 0.005_727);
        near(apart.high, 0.016_190);
        let clump = Interval::of_loss(&[repeat(16.0)]).unwrap();
        assert!(clump.low < 0.001 && clump.high > 0.05, "one clump of 16: {clump:?}");
    }

    #[test]
    fn repeats_that_differ_widen_the_interval_of_a_loss() {
        let all = |lost: f64| vec![Batch { sent: 1e6, lost }];
        let same = Interval::of_loss(&[all(1000.0), all(1001.0), all(999.0)]).unwrap();
        let differ = Interval::of_loss(&[all(500.0), all(1000.0), all(1500.0)]).unwrap();
        assert!(same.high - same.low < 0.1e-3, "{same:?}");
        assert!(differ.high - differ.low > 2e-3, "{differ:?}");
    }

    #[test]
    fn what_can_t_be_measured_has_no_interval() {
        for values in [&[1.0][..], &[], &[1.0, f64::NAN], &[1.0, -1.0]] {
            assert_eq!(Interval::of_mean(values), None, "{values:?}");
        }
    }
}
