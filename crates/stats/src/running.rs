//! The figures of a stream of values that has no end, in bounded memory.
//!
//! ```text
//!   values ──► the first 4096, or all, as they are         quantiles are exact
//!          ──► then buckets: each octave in 256 parts,     quantiles are within 0.4 %, and nearly always much nearer:
//!              count, least and greatest of each           each bucket knows where its values really are
//!          ──► count, minimum, maximum, mean, deviation    exact all the way (Welford's recurrence)
//! ```
//!
//! Values are whole numbers from 0, as nanoseconds are. A stream of one value has that value as each of its quantiles, exactly.

use crate::sample::Summary;
use std::collections::BTreeMap;

/// So many values are kept as they are where nobody asks for more.
const KEPT: usize = 4096;
/// An octave is divided into two to the power of this.
const PART_BITS: u32 = 8;
const PARTS: usize = 1 << PART_BITS;

#[derive(Debug, Clone)]
pub struct Running {
    most: usize,
    count: u64,
    mean: f64,
    squares: f64,
    min: u64,
    max: u64,
    first: Vec<u64>,
    octaves: BTreeMap<u32, Box<[Bucket]>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    count: u64,
    low: u64,
    high: u64,
}

impl Bucket {
    fn push(&mut self, value: u64) {
        if self.count == 0 {
            (self.low, self.high) = (value, value);
        }
        self.low = self.low.min(value);
        self.high = self.high.max(value);
        self.count += 1;
    }
}

impl Default for Running {
    fn default() -> Self {
        Self::new()
    }
}

impl Running {
    pub fn new() -> Self {
        Self::keeping(KEPT)
    }

    /// The same, with so many values kept as they are: the memory is theirs.
    pub fn keeping(most: usize) -> Self {
        Self {
            most,
            count: 0,
            mean: 0.0,
            squares: 0.0,
            min: 0,
            max: 0,
            first: Vec::new(),
            octaves: BTreeMap::new(),
        }
    }

    pub fn push(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        let before = value as f64 - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value as f64 - self.mean);
        if self.octaves.is_empty() && self.first.len() < self.most {
            self.first.push(value);
            return;
        }
        for value in std::mem::take(&mut self.first) {
            self.file(value);
        }
        self.file(value);
    }

    fn file(&mut self, value: u64) {
        // Octave 0 holds what is below the number of parts, each value by itself.
        let octave = (u64::BITS - value.leading_zeros()).saturating_sub(PART_BITS);
        let part = (value >> octave.saturating_sub(1)) as usize % PARTS;
        let buckets = self.octaves.entry(octave);
        buckets.or_insert_with(|| vec![Bucket::default(); PARTS].into())[part].push(value);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The sample standard deviation (divisor n-1); none for a single value.
    pub fn sd(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt())
    }

    /// The quantile at `p`, as [`crate::Sample::quantile`] defines it; none when there is no value or `p` is not within 0..=1.
    pub fn quantile(&self, p: f64) -> Option<f64> {
        self.quantiles([p]).map(|[value]| value)
    }

    /// Several quantiles, ascending, for the price of one.
    pub fn quantiles<const N: usize>(&self, ps: [f64; N]) -> Option<[f64; N]> {
        if self.count == 0 || !ps.iter().all(|p| (0.0..=1.0).contains(p)) {
            return None;
        }
        let sorted = self.sorted();
        Some(ps.map(|p| {
            if let Some(sorted) = &sorted {
                return crate::sample::quantile_of(sorted, p);
            }
            let position = (self.count - 1) as f64 * p;
            let below = position as u64;
            let share = position - below as f64;
            let low = self.at(below);
            let high = if share > 0.0 { self.at(below + 1) } else { low };
            low + share * (high - low)
        }))
    }

    /// The values themselves, ascending, as long as they are kept.
    fn sorted(&self) -> Option<Vec<f64>> {
        self.octaves.is_empty().then(|| {
            let mut sorted = self.first.clone();
            sorted.sort_unstable();
            sorted.into_iter().map(|v| v as f64).collect()
        })
    }

    /// The value at a place of the buckets, from 0: exact at the ends of each bucket, evenly spread in between.
    fn at(&self, place: u64) -> f64 {
        let mut passed = 0;
        for bucket in self.octaves.values().flat_map(|parts| parts.iter()).filter(|b| b.count > 0) {
            if place < passed + bucket.count {
                let (low, high) = (bucket.low as f64, bucket.high as f64);
                let share = match bucket.count {
                    1 => 0.0,
                    count => (place - passed) as f64 / (count - 1) as f64,
                };
                return low + share * (high - low);
            }
            passed += bucket.count;
        }
        self.max as f64
    }

    /// All the figures at once, in `unit` values to one (1e6 makes milliseconds of nanoseconds).
    pub fn summary(&self, unit: f64) -> Option<Summary> {
        let [p50, p90, p95, p99] = self.quantiles([0.5, 0.9, 0.95, 0.99])?;
        Some(Summary {
            n: usize::try_from(self.count).unwrap_or(usize::MAX),
            min: self.min as f64 / unit,
            mean: self.mean / unit,
            p50: p50 / unit,
            p90: p90 / unit,
            p95: p95 / unit,
            p99: p99 / unit,
            max: self.max as f64 / unit,
            sd: self.sd().map(|sd| sd / unit),
        })
    }
}

/// Values that may be negative and far from zero, as delays between clocks that are not in step: the same figures, exact to a part of the
/// distance from the first value and not from zero.
#[derive(Debug, Clone, Default)]
pub struct RunningAround {
    first: Option<i64>,
    /// Distances of those below the first value.
    below: Running,
    /// Of the others.
    above: Running,
}

impl RunningAround {
    /// Nothing was taken. Distances are from this value, or else from the first that comes, and kept as in `half`, which is empty.
    pub fn of(first: Option<i64>, half: Running) -> Self {
        Self { first, below: half.clone(), above: half }
    }

    pub fn push(&mut self, value: i64) {
        let first = *self.first.get_or_insert(value);
        let half = if value < first { &mut self.below } else { &mut self.above };
        half.push(value.abs_diff(first));
    }

    pub fn count(&self) -> u64 {
        self.below.count + self.above.count
    }

    /// All the figures at once, in `unit` values to one, of values that are so much less.
    pub fn summary(&self, less: i64, unit: f64) -> Option<Summary> {
        let first = self.first?.saturating_sub(less) as f64;
        let (below, above) = (&self.below, &self.above);
        let n = self.count();
        let last = n.checked_sub(1)?;
        let place = self.places();
        let quantile = |p: f64| (first + quantile(&place, last, p)) / unit;
        let mean = match below.count {
            0 => above.mean,
            _ => (above.mean * above.count as f64 - below.mean * below.count as f64) / n as f64,
        };
        let squares = |half: &Running, sign: f64| {
            half.squares + half.count as f64 * (sign * half.mean - mean).powi(2)
        };
        let variance = (squares(below, -1.0) + squares(above, 1.0)) / (n.max(2) - 1) as f64;
        Some(Summary {
            n: usize::try_from(n).unwrap_or(usize::MAX),
            min: quantile(0.0),
            mean: (first + mean) / unit,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: quantile(1.0),
            sd: (n > 1).then(|| variance.sqrt() / unit),
        })
    }

    /// The least and the most that the figures can be where `more` values, each `floor` or more, were taken or not: infinite where nothing
    /// bounds them. Of the deviation nothing is known.
    pub fn bounds(&self, more: u64, floor: i64, unit: f64) -> Option<[Summary; 2]> {
        let known = self.summary(0, unit)?;
        if more == 0 {
            return Some([known, known]);
        }
        let first = self.first? as f64;
        let (n, floor) = (self.count(), floor as f64 / unit);
        let place = self.places();
        let place = |at: u64| (first + place(at)) / unit;
        let below = {
            // How many are below the floor.
            let (mut from, mut to) = (0, n);
            while from < to {
                let middle = from.midpoint(to);
                match place(middle) < floor {
                    true => from = middle + 1,
                    false => to = middle,
                }
            }
            from
        };
        let last = n + more - 1;
        // With so many that are the floor.
        let with = |taken: u64, p: f64| {
            let place = |at: u64| match at {
                at if at < below => place(at),
                at if at < below + taken => floor,
                at => place(at - taken),
            };
            quantile(&place, n - 1 + taken, p)
        };
        // One more may come between two values that the quantile lay between; of more than one, below the floor each makes it greater, above it less.
        let least = |known: f64, p: f64| known.min(with(1, p)).min(with(more, p));
        let most = |p: f64| match (last as f64 * p).ceil() as u64 {
            at if at < n => quantile(&place, last, p),
            _ => f64::INFINITY,
        };
        let mean = match known.mean > floor {
            true => (known.mean * n as f64 + floor * more as f64) / (n + more) as f64,
            false => known.mean,
        };
        let none = f64::INFINITY;
        Some([
            Summary {
                min: known.min.min(floor),
                mean,
                p50: least(known.p50, 0.5),
                p90: least(known.p90, 0.9),
                p95: least(known.p95, 0.95),
                p99: least(known.p99, 0.99),
                sd: None,
                ..known
            },
            Summary {
                mean: none,
                p50: most(0.5),
                p90: most(0.9),
                p95: most(0.95),
                p99: most(0.99),
                max: none,
                sd: None,
                ..known
            },
        ])
    }

    /// The distance from the first value of that at a place, ascending.
    fn places(&self) -> impl Fn(u64) -> f64 {
        let (below, above) = (&self.below, &self.above);
        let (low, high) = (below.sorted(), above.sorted());
        let of = |half: &Running, sorted: &Option<Vec<f64>>, place: u64| match sorted {
            Some(sorted) => sorted.get(place as usize).copied().unwrap_or(half.max as f64),
            None => half.at(place),
        };
        move |place: u64| match place < below.count {
            true => -of(below, &low, below.count - 1 - place),
            false => of(above, &high, place - below.count),
        }
    }
}

/// Between the two nearest of values from place 0 to `last`.
fn quantile(place: &impl Fn(u64) -> f64, last: u64, p: f64) -> f64 {
    let position = last as f64 * p;
    let (at, share) = (position as u64, position.fract());
    let (low, high) = (place(at), if share > 0.0 { place((at + 1).min(last)) } else { place(at) });
    low + share * (high - low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;
    use proptest::prelude::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Running {
        let mut running = Running::new();
        values.into_iter().for_each(|v| running.push(v));
        running
    }

    #[test]
    fn a_short_stream_has_the_exact_figures_of_a_sample() {
        let values = [9, 2, 4, 4, 5, 4, 7, 5];
        let sample = Sample::new(values.map(|v| v as f64)).expect("values").summary();
        let got = of(values).summary(1.0).expect("values");
        assert_eq!((got.n, got.min, got.p50, got.p90, got.max), (8, 2.0, 4.5, sample.p90, 9.0));
        assert!((got.mean - 5.0).abs() < 1e-12);
        assert!((got.sd.unwrap() - sample.sd.unwrap()).abs() < 1e-12);
    }

    proptest! {
        /// Whichever of the values that are not known were taken, and whatever they are, the figures lie between their bounds.
        #[test]
        fn figures_with_values_that_are_not_known_lie_within_bounds(
            known in prop::collection::vec(0u64..3000, 1..60),
            more in prop::collection::vec((1000u64..5000, any::<bool>()), 0..40),
        ) {
            let around = |values: &[u64]| {
                let mut found = RunningAround::of(Some(0), Running::new());
                values.iter().for_each(|v| found.push(*v as i64));
                found
            };
            let [least, most] = around(&known).bounds(more.len() as u64, 1000, 1.0).expect("values");
            let taken = more.iter().filter(|(_, taken)| *taken).map(|(value, _)| *value);
            let all: Vec<u64> = known.iter().copied().chain(taken).collect();
            let truth = around(&all).summary(0, 1.0).expect("values");
            let figures: [fn(&Summary) -> f64; 6] =
                [|s| s.min, |s| s.mean, |s| s.p50, |s| s.p90, |s| s.p99, |s| s.max];
            for of in figures {
                let (least, truth, most) = (of(&least), of(&truth), of(&most));
                prop_assert!(least <= truth + 1e-6 && truth <= most + 1e-6, "{least} {truth} {most}");
            }
            match more.is_empty() {
                true => prop_assert_eq!(least, most),
                false => prop_assert_eq!((least.sd, most.sd), (None, None)),
            }
        }
    }

    /// A quantile that lies between two values, and values that are not known between them, which may be taken or not.
    #[test]
    fn the_least_is_that_of_as_many_as_make_it_least() {
        let p99 = |known: &[i64], more: u64| {
            let mut around = RunningAround::of(Some(0), Running::new());
            known.iter().for_each(|v| around.push(*v));
            around.bounds(more, 1000, 1.0).expect("values")[0].p99
        };
        // None of them: 0.98 of the way from 0 to 1021. One: from 1000 to 1021.
        assert!((p99(&[0, 0, 1021], 1) - 1000.58).abs() < 1e-9);
        // All fifty: 0.48 of the way from 1000 to 9000, where none leave 8820 and one 8760.
        assert!((p99(&[0, 0, 9000], 50) - 4840.0).abs() < 1e-9);
    }

    #[test]
    fn a_long_stream_of_one_value_has_that_value_everywhere() {
        let running = of(std::iter::repeat_n(20_000_123, 50_000));
        let got = running.summary(1e6).expect("values");
        assert_eq!(
            (got.min, got.p50, got.p99, got.max),
            (20.000123, 20.000123, 20.000123, 20.000123)
        );
        assert!(got.sd.unwrap() < 1e-9);
    }

    #[test]
    fn nothing_and_one_value() {
        assert_eq!(Running::new().summary(1.0), None);
        assert_eq!((Running::new().min(), Running::new().mean()), (None, None));
        let one = of([7]);
        assert_eq!((one.quantile(0.3), one.sd()), (Some(7.0), None));
        assert_eq!((one.quantile(1.1), one.quantile(f64::NAN)), (None, None));
    }

    #[test]
    fn memory_is_that_of_the_range_not_of_the_stream() {
        let running = of((0..1_000_000u64).map(|n| 10_000_000 + n * 37 % 20_000_000));
        assert!(running.octaves.len() <= 3, "{} octaves", running.octaves.len());
        assert_eq!(running.first.capacity(), 0);
    }

    #[test]
    fn the_whole_range_of_numbers_has_its_place() {
        let mut running = of(std::iter::repeat_n(1, KEPT));
        for value in [0, 255, 256, 257, 511, 512, u64::MAX - 1, u64::MAX] {
            running.push(value);
        }
        assert_eq!((running.min(), running.max()), (Some(0), Some(u64::MAX)));
        assert_eq!(running.quantile(1.0), Some(u64::MAX as f64));
        assert_eq!(running.quantile(0.0), Some(0.0));
    }

    #[test]
    fn delays_between_clocks_that_are_an_hour_apart_keep_their_microseconds() {
        let hour = -3_600_000_000_000i64;
        let (mut around, mut values) = (RunningAround::default(), Vec::new());
        for n in 0..20_000i64 {
            let value = hour + 10_000_000 + (n * 7919) % 4_000_001 - 2_000_000;
            around.push(value);
            values.push(value as f64);
        }
        let exact = crate::summary(&values).expect("values");
        let got = around.summary(0, 1.0).expect("values");
        assert_eq!((got.n, got.min, got.max), (exact.n, exact.min, exact.max));
        for (got, exact) in [(got.p50, exact.p50), (got.p99, exact.p99), (got.mean, exact.mean)] {
            assert!((got - exact).abs() < 10_000.0, "{got} is not {exact}");
        }
        assert!((got.sd.unwrap() / exact.sd.unwrap() - 1.0).abs() < 1e-3);
        assert_eq!(RunningAround::default().summary(0, 1.0), None);
    }

    proptest! {
        #[test]
        fn quantiles_of_a_long_stream_are_within_a_bucket_of_the_true_ones(
            values in prop::collection::vec(0u64..200_000_000, 5000..5500),
            p in 0.0f64..=1.0,
        ) {
            let sample = Sample::new(values.iter().map(|v| *v as f64)).expect("values");
            let exact = sample.quantile(p).expect("p is within 0 and 1");
            let got = of(values).quantile(p).expect("there are values");
            // Both neighbours of the place are in buckets that are a 256th of their value wide.
            let place = (p * (sample.count() - 1) as f64) as usize;
            let next = (place + 1).min(sample.count() - 1);
            let slack = sample.values()[next] / 128.0 + 1.0;
            prop_assert!((got - exact).abs() <= slack, "{got} is not {exact}");
        }
    }
}
