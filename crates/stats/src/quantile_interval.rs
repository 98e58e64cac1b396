//! A quantile of the packets of several repeats, and between which of them the path's own lies: order statistics.
//!
//! ```text
//!   packets of all repeats, sorted   ·  ·  · ·│· · · · · · ·  ·│·   ·       ·
//!                                             low    value    high: ranks by the binomial distribution
//!   a rank beyond the sample: no such end, for the packets are too few to tell
//! ```
//!
//! Packets hang together, and repeats differ: by how much the share of packets above the quantile differs more between stretches of time and
//! between repeats than that of independent packets would, packets count for less (Kish 1965), as in [`crate::Interval::of_loss`]. The
//! coverage was measured: `docs/adr/0013-*.md`, `tests/quantiles.rs`.

use crate::beta::{self, TAIL};
use crate::interval::{Batch, design_effect, sum};
use crate::sample::{Sample, quantile_of};

/// A quantile and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PooledQuantile {
    pub value: f64,
    /// The lower end; none where the packets are too few to have one.
    pub low: Option<f64>,
    /// The upper end, likewise.
    pub high: Option<f64>,
}

/// So many stretches of a repeat are compared.
const STRETCHES: usize = 16;

/// The values of all repeats.
#[derive(Debug, Clone)]
pub struct Pooled<'a> {
    repeats: Vec<&'a [f64]>,
    sorted: Vec<f64>,
}

impl<'a> Pooled<'a> {
    /// Of repeats, each with its values in the order in which they were measured. None where there are no values, or where one is NaN or
    /// infinite.
    pub fn new(repeats: impl IntoIterator<Item = &'a [f64]>) -> Option<Self> {
        let repeats: Vec<&[f64]> = repeats.into_iter().filter(|r| !r.is_empty()).collect();
        let sorted = Sample::new(repeats.iter().copied().flatten().copied())?.values().to_vec();
        Some(Self { repeats, sorted })
    }

    pub fn repeats(&self) -> usize {
        self.repeats.len()
    }

    /// The quantile at `p` with its interval; none if `p` is not between 0 and 1, both left out.
    pub fn quantile(&self, p: f64) -> Option<PooledQuantile> {
        self.quantile_beyond(p, TAIL)
    }

    /// The same with this part of the cases beyond either end.
    pub fn quantile_beyond(&self, p: f64, tail: f64) -> Option<PooledQuantile> {
        if !(p > 0.0 && p < 1.0) {
            return None;
        }
        let value = quantile_of(&self.sorted, p);
        // Where many packets took equally long, those at the quantile belong to either side.
        let above = effect(&self.repeats, tail, |v| v > value);
        let effect = above.max(effect(&self.repeats, tail, |v| v >= value));
        let (low, high) = ranks(self.sorted.len(), effect, p, tail);
        let at = |rank: usize| self.sorted[rank - 1];
        Some(PooledQuantile { value, low: low.map(at), high: high.map(at) })
    }
}

/// By how many packets one independent one is to be replaced.
fn effect(repeats: &[&[f64]], tail: f64, is_above: impl Fn(f64) -> bool) -> f64 {
    let batch = |values: &[f64]| Batch {
        sent: values.len() as f64,
        lost: values.iter().filter(|v| is_above(**v)).count() as f64,
    };
    let stretches = |values: &&[f64]| {
        let end = |n: usize| values.len() * n / STRETCHES;
        (0..STRETCHES).map(|n| batch(&values[end(n)..end(n + 1)])).collect()
    };
    let repeats: Vec<Vec<Batch>> = repeats.iter().map(stretches).collect();
    let total = sum(repeats.iter().flatten());
    design_effect(&repeats, total).max(between(&repeats, total, tail))
}

/// The same by what repeats differ, so large that the interval is at least as wide as Student's of their shares would be.
fn between(repeats: &[Vec<Batch>], total: Batch, tail: f64) -> f64 {
    let share = total.lost / total.sent;
    if repeats.len() < 3 || !(share > 0.0 && share < 1.0) {
        return 1.0;
    }
    let squares: f64 = repeats
        .iter()
        .map(sum)
        .map(|r| (r.lost - r.sent * share).powi(2) / (r.sent * share * (1.0 - share)))
        .sum();
    let freedom = repeats.len() - 1;
    squares / freedom as f64 * (beta::student(freedom, tail) / normal(tail)).powi(2)
}

/// Where the normal distribution has this part of its cases above it.
fn normal(tail: f64) -> f64 {
    const AT_TAIL: f64 = 1.959_964;
    // Student's t of so many degrees of freedom is no other any more.
    if tail == TAIL { AT_TAIL } else { beta::student(1_000_000, tail) }
}

/// The ranks, from 1, of the ends among `n` values that are worth `n / effect` independent ones; none where they are beyond these.
///
/// Of `m` independent values, the one of rank r is above the quantile with the probability that fewer than r are at or below it: that a
/// beta variable with r and m + 1 − r is above `p`. Each of them stands for `effect` values that are there: the first of these at the
/// lower end, the last at the upper.
fn ranks(n: usize, effect: f64, p: f64, tail: f64) -> (Option<usize>, Option<usize>) {
    let worth = n as f64 / effect;
    // The largest rank that is too high in at most this part of the cases.
    let low = rank(worth, |r| 1.0 - beta::below(p, r, worth + 1.0 - r) <= tail);
    let high = worth + 1.0 - rank(worth, |r| beta::below(p, worth + 1.0 - r, r) <= tail);
    let first = (1.0 + (low - 1.0) * effect + ROUNDING).floor();
    let last = (high * effect - ROUNDING).ceil();
    let low = (low + ROUNDING >= 1.0).then_some((first as usize).clamp(1, n));
    (low, (high <= worth + ROUNDING).then_some((last as usize).clamp(1, n)))
}

/// What halving leaves.
const ROUNDING: f64 = 1e-6;

/// The largest rank, from 0 to so many values, for which this holds as for all smaller ones: between whole ranks too.
fn rank(worth: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, worth + 1.0);
    while high - low > 1e-9 * worth.max(1.0) {
        let middle = 0.5 * (low + high);
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantile<V: AsRef<[f64]>>(repeats: &[V], p: f64) -> Option<PooledQuantile> {
        Pooled::new(repeats.iter().map(AsRef::as_ref))?.quantile(p)
    }

    fn counting(n: usize) -> Vec<f64> {
        // In an order without clumps: steps of a number that has no factor in common with n.
        (0..n).map(|i| ((i * 7919) % n + 1) as f64).collect()
    }

    #[test]
    fn ranks_are_those_of_the_binomial_distribution() {
        // By hand: of 10 values fewer than two are below the median in 11 of 1024 cases, fewer than three in 56. Of 20, fewer than six in
        // 2.07 % and fewer than seven in 5.77 %; of 100, fewer than 40 in 1.76 % and fewer than 41 in 2.84 %.
        for (n, low, high) in [(10, 2, 9), (20, 6, 15), (100, 40, 61)] {
            assert_eq!(ranks(n, 1.0, 0.5, TAIL), (Some(low), Some(high)), "{n}");
        }
        // The largest of five is below the median in 3.1 of 100 cases, of six in 1.6.
        assert_eq!(ranks(5, 1.0, 0.5, TAIL), (None, None));
        assert_eq!(ranks(6, 1.0, 0.5, TAIL), (Some(1), Some(6)));
        // 0.99 to the power of 367 is 2.501 %, of 368 less.
        assert_eq!(
            (ranks(367, 1.0, 0.99, TAIL).1, ranks(368, 1.0, 0.99, TAIL).1),
            (None, Some(368))
        );
    }

    #[test]
    fn packets_that_count_for_less_leave_more_open() {
        let (low, high) = ranks(1000, 4.0, 0.5, TAIL);
        // Of 250 the 110th and the 141st.
        assert_eq!((low, high), (Some(437), Some(564)));
        assert_eq!(ranks(1000, 4.0, 0.99, TAIL).1, None, "250 are too few");
    }

    #[test]
    fn a_p99_of_three_hundred_packets_is_at_least_so_much_and_nobody_knows_how_much_more() {
        let few = quantile(&[counting(100), counting(100), counting(100)], 0.99).unwrap();
        assert!(few.low.is_some_and(|low| (90.0..=99.0).contains(&low)), "{few:?}");
        assert_eq!((few.value.round(), few.high), (99.0, None));
        let many = quantile(&[counting(1000), counting(1000), counting(1000)], 0.99);
        let many = many.unwrap();
        assert!(many.low < Some(many.value) && Some(many.value) < many.high, "{many:?}");
    }

    #[test]
    fn clumps_and_repeats_that_differ_widen_the_interval() {
        let width = |repeats: &[Vec<f64>]| {
            let of = quantile(repeats, 0.5).unwrap();
            of.high.unwrap() - of.low.unwrap()
        };
        let mixed = width(&vec![counting(1000); 4]);
        let mut rising = counting(1000);
        rising.sort_unstable_by(f64::total_cmp);
        assert!(width(&vec![rising; 4]) > 2.0 * mixed);
        let shifted = [0.0, 100.0, 200.0, 300.0];
        let shifted = shifted.map(|by| counting(1000).iter().map(|v| v + by).collect::<Vec<_>>());
        assert!(width(&shifted) > 4.0 * mixed);
    }

    #[test]
    fn a_path_that_always_takes_the_same_time_has_that_time_at_both_ends() {
        let same = quantile(&vec![vec![20.0; 500]; 3], 0.99).unwrap();
        assert_eq!((same.low, same.value, same.high), (Some(20.0), 20.0, Some(20.0)));
    }

    #[test]
    fn what_was_not_measured_has_no_quantile() {
        assert_eq!(quantile::<Vec<f64>>(&[], 0.5), None);
        assert_eq!(quantile(&[vec![], vec![]], 0.5), None);
        assert_eq!(quantile(&[[1.0, f64::NAN]], 0.5), None);
        assert_eq!(quantile(&[[1.0, 2.0]], 1.0), None);
        let one = quantile(&[[7.0]], 0.5).unwrap();
        assert_eq!((one.low, one.value, one.high), (None, 7.0, None));
    }
}
