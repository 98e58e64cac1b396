//! By how much two figures differ, and how far that could be off.
//!
//! ```text
//!   the same repeats measured twice ──► Difference::of_pairs   Student's t of the differences
//!   repeats of two that share nothing ──► Difference::of_means  Welch's t
//!   two figures with their intervals ──► Difference::of_two     what their ends leave open together
//! ```
//!
//! Pairs are repeats that began alike (the same seed): what both had in common falls out of their difference. How often the intervals hold
//! the truth is measured in `tests/differences.rs`.

use crate::beta;
use crate::interval::Interval;
use crate::quantile_interval::PooledQuantile;
use crate::sample::{mean_of, sd};

/// A figure, and between what the truth lies as far as anybody can tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranged {
    pub value: f64,
    /// The lower end; none where it is open.
    pub low: Option<f64>,
    /// The upper end, likewise.
    pub high: Option<f64>,
}

impl Ranged {
    /// A figure with its interval.
    pub fn new(value: f64, interval: Interval) -> Self {
        Self { value, low: Some(interval.low), high: Some(interval.high) }
    }
}

impl From<PooledQuantile> for Ranged {
    fn from(PooledQuantile { value, low, high }: PooledQuantile) -> Self {
        Self { value, low, high }
    }
}

/// The second figure less the first.
pub type Difference = Ranged;

impl Difference {
    /// Of values of the same repeats, the first and the second of each; `tail` of the cases lie beyond either end. None of fewer than two
    /// pairs, or where a value is NaN or infinite.
    pub fn of_pairs(pairs: &[(f64, f64)], tail: f64) -> Option<Self> {
        let differences: Vec<f64> = pairs.iter().map(|(first, second)| second - first).collect();
        let sd = sd(&differences)?;
        let value = mean_of(&differences);
        let half = beta::student(pairs.len() - 1, tail) * sd / (pairs.len() as f64).sqrt();
        Some(Self { value, low: Some(value - half), high: Some(value + half) })
    }

    /// Of the means of values that were measured apart, one a repeat; `tail` of the cases lie beyond either end (Welch 1947). None of fewer than
    /// two values on either side.
    pub fn of_means(first: &[f64], second: &[f64], tail: f64) -> Option<Self> {
        let [a, b] = [first, second].map(|v| Some(sd(v)?.powi(2) / v.len() as f64));
        let (a, b) = (a?, b?);
        let part = |of: f64, values: &[f64]| of.powi(2) / (values.len() - 1) as f64;
        let freedom = (a + b).powi(2) / (part(a, first) + part(b, second));
        let value = mean_of(second) - mean_of(first);
        let half = if a + b > 0.0 { beta::calculated(freedom, tail) * (a + b).sqrt() } else { 0.0 };
        Some(Self { value, low: Some(value - half), high: Some(value + half) })
    }

    /// Of two figures that were measured apart. Each end is as far away as the two ends that lead there are together, at right angles
    /// (Newcombe 1998 for shares; Zou and Donner 2008 for any two intervals): where both of these hold, so does it. It is open where one of them is.
    pub fn of_two(first: Ranged, second: Ranged) -> Self {
        let value = second.value - first.value;
        let reach =
            |a: Option<f64>, b: Option<f64>| Some((a? - first.value).hypot(b? - second.value));
        Self {
            value,
            low: reach(first.high, second.low).map(|reach| value - reach),
            high: reach(first.low, second.high).map(|reach| value + reach),
        }
    }

    /// Whether it is above so much for sure, as far as its interval tells.
    pub fn is_above(&self, least: f64) -> bool {
        self.low.is_some_and(|low| low > least)
    }

    /// Whether it is below so much for sure.
    pub fn is_below(&self, most: f64) -> bool {
        self.high.is_some_and(|high| high < most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pairs_have_in_common_falls_out() {
        // Repeats differ by tens, and each is two to four more the second time: mean 3, standard deviation 1, error 1/sqrt(3).
        let got = Difference::of_pairs(&[(10.0, 12.0), (50.0, 53.0), (90.0, 94.0)], 0.025).unwrap();
        let half = 4.302_653 / 3f64.sqrt();
        assert!((got.value - 3.0).abs() < 1e-12);
        assert!((got.low.unwrap() - (3.0 - half)).abs() < 1e-4, "{got:?}");
        assert!(got.is_above(0.5) && !got.is_above(0.6) && !got.is_below(5.0), "{got:?}");
        assert_eq!(Difference::of_pairs(&[(1.0, 2.0)], 0.025), None);
        assert_eq!(Difference::of_pairs(&[(1.0, 2.0), (f64::NAN, 2.0)], 0.025), None);
    }

    #[test]
    fn two_shares_differ_as_newcombe_has_it() {
        // Newcombe (1998), table II, case (a) with Wilson's ends in place of ours: 56 of 70 less 48 of 80.
        let share = |value, low, high| Ranged { value, low: Some(low), high: Some(high) };
        let (first, second) = (share(0.6, 0.4905, 0.7004), share(0.8, 0.6918, 0.8770));
        let got = Difference::of_two(first, second);
        assert!((got.low.unwrap() - 0.0524).abs() < 2e-4, "{got:?}");
        assert!((got.high.unwrap() - 0.3339).abs() < 2e-4, "{got:?}");
    }

    #[test]
    fn where_an_end_is_open_so_is_the_difference() {
        let first = Ranged { value: 10.0, low: Some(9.0), high: None };
        let second = Ranged { value: 12.0, low: Some(11.0), high: Some(13.0) };
        let got = Difference::of_two(first, second);
        assert_eq!((got.low, got.high), (None, Some(2.0 + 2f64.sqrt())));
        assert!(!got.is_above(-100.0), "nobody knows");
    }
}
