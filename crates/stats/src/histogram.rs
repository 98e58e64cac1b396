//! Counting values into bins of equal width or equal ratio.

use crate::Sample;

/// More bins than any picture shows; also bounds the memory that a wrong setting can ask for.
const MAX_BINS: usize = 1 << 16;

/// Ascending edges of adjoining bins, at least two.
#[derive(Debug, Clone, PartialEq)]
pub struct Bins {
    edges: Vec<f64>,
}

impl Bins {
    /// `count` bins of equal width from `low` to `high`. `None` unless `low < high`, both finite, and
    /// `count` is 1 to 65,536; or if the bins would be finer than floats are.
    pub fn linear(low: f64, high: f64, count: usize) -> Option<Self> {
        Self::between(low, high, count, |share| low + (high - low) * share)
    }

    /// `count` bins of equal ratio from `low` to `high`, for values over several decades. `None` as in
    /// [`Bins::linear`], and unless `low` is above zero.
    pub fn log(low: f64, high: f64, count: usize) -> Option<Self> {
        if low <= 0.0 {
            return None;
        }
        Self::between(low, high, count, |share| low * (high / low).powf(share))
    }

    /// Linear bins over all values. Where all are equal, half a unit to both sides of them.
    pub fn linear_over(sample: &Sample, count: usize) -> Option<Self> {
        let (low, high) = (sample.min(), sample.max());
        if low == high {
            Self::linear(low - 0.5, high + 0.5, count)
        } else {
            Self::linear(low, high, count)
        }
    }

    /// Bins of equal ratio over all values, which must be above zero. Where all are equal, from half to
    /// twice of them.
    pub fn log_over(sample: &Sample, count: usize) -> Option<Self> {
        let (low, high) = (sample.min(), sample.max());
        if low == high {
            Self::log(low / 2.0, high * 2.0, count)
        } else {
            Self::log(low, high, count)
        }
    }

    fn between(low: f64, high: f64, count: usize, at: impl Fn(f64) -> f64) -> Option<Self> {
        let usable = low.is_finite() && high.is_finite() && low < high;
        if !usable || !(1..=MAX_BINS).contains(&count) {
            return None;
        }
        let mut edges: Vec<f64> = (0..=count).map(|edge| at(edge as f64 / count as f64)).collect();
        // The ends are what was asked for, not what rounding made of it.
        edges[0] = low;
        edges[count] = high;
        edges.windows(2).all(|pair| pair[0] < pair[1]).then_some(Self { edges })
    }

    /// The edges, ascending, one more than there are bins.
    pub fn edges(&self) -> &[f64] {
        &self.edges
    }
}

/// How many values fell into each bin.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// The bins. A value on an edge belongs to the bin above it; on the last edge, to the last bin.
    pub bins: Bins,
    /// The count of each bin.
    pub counts: Vec<u64>,
    /// Values below the first edge.
    pub below: u64,
    /// Values above the last edge.
    pub above: u64,
}

impl Histogram {
    /// Counts the values of a sample into bins.
    pub fn new(sample: &Sample, bins: Bins) -> Self {
        let edges = bins.edges();
        let count = edges.len() - 1;
        let (mut counts, mut below, mut above) = (vec![0; count], 0, 0);
        for value in sample.values() {
            match edges.partition_point(|edge| edge <= value) {
                0 => below += 1,
                passed if passed <= count => counts[passed - 1] += 1,
                _ if *value == edges[count] => counts[count - 1] += 1,
                _ => above += 1,
            }
        }
        Self { bins, counts, below, above }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.iter().copied()).expect("values")
    }

    #[test]
    fn an_edge_belongs_to_the_bin_above_it_and_the_last_edge_to_the_last_bin() {
        // By hand: bins 0-1, 1-2, 2-3, 3-4.
        let bins = Bins::linear(0.0, 4.0, 4).expect("bins");
        let got = Histogram::new(&sample(&[-1.0, 0.0, 0.5, 1.0, 3.9, 4.0, 4.1, 9.0]), bins);
        assert_eq!((got.counts, got.below, got.above), (vec![2, 1, 0, 2], 1, 2));
    }

    #[test]
    fn log_bins_are_decades_where_decades_are_asked_for() {
        let bins = Bins::log(0.1, 1000.0, 4).expect("bins");
        for (edge, decade) in bins.edges().iter().zip([0.1, 1.0, 10.0, 100.0, 1000.0]) {
            assert!((edge / decade - 1.0).abs() < 1e-12, "{edge} is not {decade}");
        }
        let got = Histogram::new(&sample(&[0.2, 2.0, 3.0, 500.0]), bins);
        assert_eq!(got.counts, [1, 2, 0, 1]);
    }

    #[test]
    fn equal_values_fall_into_a_bin_with_a_width() {
        let equal = sample(&[20.0; 5]);
        let linear = Histogram::new(&equal, Bins::linear_over(&equal, 1).expect("bins"));
        assert_eq!((linear.bins.edges(), linear.counts), (&[19.5, 20.5][..], vec![5]));
        let log = Histogram::new(&equal, Bins::log_over(&equal, 1).expect("bins"));
        assert_eq!((log.bins.edges(), log.counts), (&[10.0, 40.0][..], vec![5]));
    }

    #[test]
    fn impossible_bins_are_refused() {
        assert_eq!(Bins::linear(1.0, 1.0, 4), None);
        assert_eq!(Bins::linear(2.0, 1.0, 4), None);
        assert_eq!(Bins::linear(0.0, f64::NAN, 4), None);
        assert_eq!(Bins::linear(0.0, f64::INFINITY, 4), None);
        assert_eq!(Bins::linear(0.0, 1.0, 0), None);
        assert_eq!(Bins::linear(0.0, 1.0, usize::MAX), None);
        assert_eq!(Bins::linear(1e16, 1e16 + 4.0, 1000), None);
        assert_eq!(Bins::linear(f64::MIN, f64::MAX, 4), None);
        assert_eq!(Bins::log(0.0, 1.0, 4), None);
        assert_eq!(Bins::log(f64::NAN, 1.0, 4), None);
    }

    proptest! {
        #[test]
        fn every_value_of_a_sample_is_in_its_bins(
            values in proptest::collection::vec(0.001f64..1e6, 1..100),
            count in 1usize..50,
        ) {
            let sample = sample(&values);
            for bins in [Bins::linear_over(&sample, count), Bins::log_over(&sample, count)] {
                let got = Histogram::new(&sample, bins.expect("a range wide enough"));
                prop_assert_eq!((got.below, got.above), (0, 0));
                prop_assert_eq!(got.counts.iter().sum::<u64>(), values.len() as u64);
            }
        }
    }
}
