//! A set of measured values, and the figures that describe it.

/// Finite values in ascending order, at least one: what quantiles are taken of.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    sorted: Vec<f64>,
}

/// The figures of a set of values, in their unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    pub n: usize,
    pub min: f64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
    /// The sample standard deviation; `None` for a single value.
    pub sd: Option<f64>,
}

impl Sample {
    /// The values in ascending order; `None` if there are none, or if one is NaN or infinite.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        if sorted.is_empty() || !sorted.iter().all(|value| value.is_finite()) {
            return None;
        }
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Self { sorted })
    }

    pub fn values(&self) -> &[f64] {
        &self.sorted
    }

    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    pub fn min(&self) -> f64 {
        self.sorted[0]
    }

    pub fn max(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }

    pub fn mean(&self) -> f64 {
        mean_of(&self.sorted)
    }

    /// The sample standard deviation (divisor n-1); `None` for a single value.
    pub fn sd(&self) -> Option<f64> {
        let n = self.sorted.len();
        let mean = self.mean();
        let squares: f64 = self.sorted.iter().map(|value| (value - mean).powi(2)).sum();
        (n > 1).then(|| (squares / (n - 1) as f64).sqrt())
    }

    /// The middle value, or the mean of the middle two.
    pub fn median(&self) -> f64 {
        quantile_of(&self.sorted, 0.5)
    }

    /// The quantile at `p` (0.99 for the 99th percentile): linear interpolation between the two nearest
    /// values, type 7 of Hyndman and Fan (1996), as in R and NumPy. The minimum at 0, the maximum at 1;
    /// `None` if `p` is not within 0..=1.
    pub fn quantile(&self, p: f64) -> Option<f64> {
        (0.0..=1.0).contains(&p).then(|| quantile_of(&self.sorted, p))
    }

    pub fn summary(&self) -> Summary {
        let at = |p| quantile_of(&self.sorted, p);
        Summary {
            n: self.count(),
            min: self.min(),
            mean: self.mean(),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            max: self.max(),
            sd: self.sd(),
        }
    }
}

/// Of values that need not be sorted: see [`Sample::quantile`].
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    Sample::new(values.iter().copied())?.quantile(p)
}

/// The arithmetic mean; `None` under the conditions of [`Sample::new`].
pub fn mean(values: &[f64]) -> Option<f64> {
    let usable = !values.is_empty() && values.iter().all(|value| value.is_finite());
    usable.then(|| mean_of(values))
}

/// The sample standard deviation; `None` also for a single value.
pub fn sd(values: &[f64]) -> Option<f64> {
    Sample::new(values.iter().copied())?.sd()
}

/// The median; `None` under the conditions of [`Sample::new`].
pub fn median(values: &[f64]) -> Option<f64> {
    Some(Sample::new(values.iter().copied())?.median())
}

/// All the figures at once; `None` under the conditions of [`Sample::new`].
pub fn summary(values: &[f64]) -> Option<Summary> {
    Some(Sample::new(values.iter().copied())?.summary())
}

pub(crate) fn mean_of(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Type 7 over sorted values, of which there is at least one; `p` within 0..=1.
pub(crate) fn quantile_of(sorted: &[f64], p: f64) -> f64 {
    let last = sorted.len() - 1;
    let position = last as f64 * p;
    let below = (position as usize).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (position - below as f64) * (sorted[above] - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_interpolate_between_neighbours() {
        // By hand, type 7 over 10, 20, 30, 40: position 3p. p = 0.25 is 0.75 of the way from 10 to 20.
        let values = [40.0, 10.0, 30.0, 20.0];
        for (p, expected) in [(0.0, 10.0), (0.25, 17.5), (0.5, 25.0), (1.0, 40.0)] {
            assert_eq!(quantile(&values, p), Some(expected), "{p}");
        }
        // Position 3 * 0.9 = 2.7: 30 + 0.7 * 10.
        assert!((quantile(&values, 0.9).expect("four values") - 37.0).abs() < 1e-12);
    }

    #[test]
    fn one_value_is_every_quantile_and_has_no_deviation() {
        let sample = Sample::new([20.0]).expect("one value");
        for p in [0.0, 0.3, 0.99, 1.0] {
            assert_eq!(sample.quantile(p), Some(20.0));
        }
        assert_eq!(sample.sd(), None);
    }

    #[test]
    fn what_was_not_measured_has_no_figures() {
        for values in [&[][..], &[1.0, f64::NAN], &[f64::INFINITY]] {
            assert_eq!(quantile(values, 0.5), None);
            assert_eq!(mean(values), None);
            assert_eq!(median(values), None);
            assert_eq!(sd(values), None);
            assert_eq!(summary(values), None);
        }
        for p in [-0.1, 1.1, 99.0, f64::NAN] {
            assert_eq!(quantile(&[1.0, 2.0], p), None, "{p}");
        }
    }

    #[test]
    fn a_summary_has_the_figures_of_a_table_row() {
        // By hand: 2, 4, 4, 4, 5, 5, 7, 9 has mean 5 and squared deviations 9+1+1+1+0+0+4+16 = 32, so
        // sd = sqrt(32/7). Positions 3.5, 6.3 and 6.93: 4.5, 7 + 0.3*2, 7 + 0.93*2.
        let got = summary(&[9.0, 2.0, 4.0, 4.0, 5.0, 4.0, 7.0, 5.0]).expect("eight values");
        assert_eq!((got.n, got.min, got.mean, got.p50, got.max), (8, 2.0, 5.0, 4.5, 9.0));
        assert!((got.p90 - 7.6).abs() < 1e-12);
        assert!((got.p99 - 8.86).abs() < 1e-12);
        assert!((got.sd.expect("eight values") - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn equal_values_have_no_spread_at_all() {
        let got = summary(&[20.000_001; 1000]).expect("values");
        assert_eq!(
            (got.min, got.p50, got.p99, got.max),
            (20.000_001, 20.000_001, 20.000_001, 20.000_001)
        );
        assert!(got.sd.expect("values") < 1e-12);
    }

    proptest! {
        #[test]
        fn quantiles_rise_with_p_and_stay_within_the_values(
            values in proptest::collection::vec(-1e9f64..1e9, 1..50),
            a in 0.0f64..=1.0,
            b in 0.0f64..=1.0,
        ) {
            let sample = Sample::new(values).expect("finite values");
            let low = sample.quantile(a.min(b)).expect("p within 0..=1");
            let high = sample.quantile(a.max(b)).expect("p within 0..=1");
            // Interpolation may be off by the last bit.
            let slack = 1e-6;
            prop_assert!(sample.min() <= low && low <= high + slack && high <= sample.max() + slack);
        }
    }
}
