//! Counting whole numbers over many decades, with bounded memory and a bounded relative error.
//!
//! ```text
//!   value    0 1 2 … 31 │ 32 34 36 … 62 │ 64 68 … 124 │ …      sixteen buckets for each doubling
//!   width         1     │       2       │      4      │ …      so at most 1/16 of the value
//! ```

use std::fmt;

/// Buckets for each doubling.
const PER_DOUBLING: u64 = 16;
const SHIFT: u32 = PER_DOUBLING.trailing_zeros();

/// How many buckets there are: every `u64` has one.
pub const BUCKETS: usize = ((64 - SHIFT as usize) + 1) * PER_DOUBLING as usize;

/// The bucket of a value.
pub const fn bucket(value: u64) -> usize {
    if value < PER_DOUBLING {
        return value as usize;
    }
    let exponent = value.ilog2() - SHIFT;
    ((exponent as u64 + 1) * PER_DOUBLING + ((value >> exponent) - PER_DOUBLING)) as usize
}

/// The smallest value of a bucket, below [`BUCKETS`].
pub const fn lowest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PER_DOUBLING {
        return bucket;
    }
    let exponent = bucket / PER_DOUBLING - 1;
    (PER_DOUBLING + bucket % PER_DOUBLING) << exponent
}

/// The largest value of a bucket, below [`BUCKETS`].
pub const fn highest(bucket: usize) -> u64 {
    if bucket + 1 >= BUCKETS { u64::MAX } else { lowest(bucket + 1) - 1 }
}

/// How many values fell into each bucket.
#[derive(Clone, PartialEq, Eq)]
pub struct LogHistogram {
    counts: Vec<u64>,
    total: u64,
}

impl LogHistogram {
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }

    /// One with so many values in each bucket; buckets beyond the last are left out.
    pub fn from_counts(counts: impl IntoIterator<Item = (usize, u64)>) -> Self {
        let mut histogram = Self::new();
        for (bucket, count) in counts {
            if let Some(place) = histogram.counts.get_mut(bucket) {
                *place = place.saturating_add(count);
                histogram.total = histogram.total.saturating_add(count);
            }
        }
        histogram
    }

    pub fn record(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.total += 1;
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
        self.total = self.total.saturating_add(other.total);
    }

    /// What came since `earlier`, which is an earlier state of this one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.counts.iter().zip(&earlier.counts);
        Self::from_counts(pairs.map(|(now, then)| now.saturating_sub(*then)).enumerate())
    }

    /// The buckets that have values, ascending: number, and how many.
    pub fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    /// The value below which this share of all lies, within 1/16 of it: the middle of its bucket. None without values.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        if self.total == 0 {
            return None;
        }
        let rank = (share.clamp(0.0, 1.0) * (self.total - 1) as f64).round() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts() {
            seen += count;
            if seen > rank {
                let low = lowest(bucket);
                return Some(low + (highest(bucket) - low) / 2);
            }
        }
        None
    }

    /// The end of the highest bucket that has values.
    pub fn max(&self) -> Option<u64> {
        self.counts().last().map(|(bucket, _)| highest(bucket))
    }
}

impl Default for LogHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LogHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts().map(|(bucket, count)| (lowest(bucket), count));
        f.debug_map().entries(counts).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_adjoin_and_hold_every_number() {
        assert_eq!((lowest(0), highest(0)), (0, 0));
        for bucket in 1..BUCKETS {
            assert_eq!(lowest(bucket), highest(bucket - 1) + 1, "{bucket}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_quantiles_of_a_thousand_gaps_are_known_within_a_sixteenth() {
        let mut gaps = LogHistogram::new();
        (1..=1000u64).for_each(|n| gaps.record(n * 1000));
        let within = |share: f64, wanted: f64| {
            let got = gaps.quantile(share).unwrap() as f64;
            assert!((got / wanted - 1.0).abs() < 1.0 / 16.0, "{share}: {got}");
        };
        within(0.5, 500_000.0);
        within(0.99, 990_000.0);
        within(1.0, 1_000_000.0);
        assert_eq!(gaps.total(), 1000);
        assert_eq!(LogHistogram::new().quantile(0.5), None);
    }

    #[test]
    fn what_came_since_is_told_apart_from_what_was_before() {
        let mut gaps = LogHistogram::new();
        gaps.record(5);
        let before = gaps.clone();
        gaps.record(5);
        gaps.record(70);
        assert_eq!(gaps.since(&before).counts().collect::<Vec<_>>(), [(5, 1), (bucket(70), 1)]);
        let mut both = before;
        both.merge(&gaps);
        assert_eq!(both.total(), 4);
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket_which_is_narrow(value: u64) {
            let bucket = bucket(value);
            prop_assert!(lowest(bucket) <= value && value <= highest(bucket));
            prop_assert!(highest(bucket) - lowest(bucket) <= value / PER_DOUBLING);
        }
    }
}
