//! Counting values into bins of equal width.

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
        let usable = low.is_finite() && high.is_finite() && low < high;
        if !usable || !(1..=MAX_BINS).contains(&count) {
            return None;
        }
        let at = |edge| low + (high - low) * (edge as f64 / count as f64);
        let mut edges: Vec<f64> = (0..=count).map(at).collect();
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
    fn impossible_bins_are_refused() {
        assert_eq!(Bins::linear(1.0, 1.0, 4), None);
        assert_eq!(Bins::linear(2.0, 1.0, 4), None);
        assert_eq!(Bins::linear(0.0, f64::NAN, 4), None);
        assert_eq!(Bins::linear(0.0, f64::INFINITY, 4), None);
        assert_eq!(Bins::linear(0.0, 1.0, 0), None);
        assert_eq!(Bins::linear(0.0, 1.0, usize::MAX), None);
        assert_eq!(Bins::linear(1e16, 1e16 + 4.0, 1000), None);
        assert_eq!(Bins::linear(f64::MIN, f64::MAX, 4), None);
    }

    proptest! {
        #[test]
        fn every_value_of_a_sample_is_in_its_bins(
            values in proptest::collection::vec(0.001f64..1e6, 1..100),
            count in 1usize..50,
        ) {
            let sample = sample(&values);
            let bins = Bins::linear(sample.min() / 2.0, sample.max() * 2.0, count);
            let got = Histogram::new(&sample, bins.expect("a range wide enough"));
            prop_assert_eq!((got.below, got.above), (0, 0));
            prop_assert_eq!(got.counts.iter().sum::<u64>(), values.len() as u64);
        }
    }
}
