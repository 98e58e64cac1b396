//! How far a figure could be off, from the repeats alone.
//!
//! The percentile bootstrap (Efron and Tibshirani 1993, chapter 13): draw as many values as there are,
//! with replacement; calculate the figure; do so some thousand times; the middle 95 % of the results is
//! the interval. With a handful of repeats it is somewhat too narrow; it is never a promise.

use crate::rng::Rng;
use crate::sample::{Sample, mean_of, quantile_of};

/// A figure and the range that it plausibly lies in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The figure of the values themselves.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether the interval holds this value, ends included: zero in the interval of a difference says
    /// that none was shown.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// How intervals are drawn: confidence, number of resamples and seed. The same settings and values give
/// the same interval, in the same order of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Bootstrap {
    rng: Rng,
    confidence: f64,
    resamples: u32,
}

impl Bootstrap {
    /// 95 % confidence from 2000 resamples, which repeats the ends to within some per cent of the width.
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed).derive("bootstrap"), confidence: 0.95, resamples: 2000 }
    }

    /// With another confidence, above 0 and below 1; `None` otherwise.
    pub fn with_confidence(self, confidence: f64) -> Option<Self> {
        (confidence > 0.0 && confidence < 1.0).then_some(Self { confidence, ..self })
    }

    /// With another number of resamples, at least 100; `None` below.
    pub fn with_resamples(self, resamples: u32) -> Option<Self> {
        (resamples >= 100).then_some(Self { resamples, ..self })
    }

    /// The mean of `values`. `None` with fewer than two of them, or if one is NaN or infinite.
    pub fn mean(&self, values: &[f64]) -> Option<Interval> {
        let values = usable(values)?;
        Some(self.interval(mean_of(values), |rng, drawn| {
            resample(rng, values, drawn);
            mean_of(drawn)
        }))
    }

    /// The median of `values`; `None` as in [`Bootstrap::mean`].
    pub fn median(&self, values: &[f64]) -> Option<Interval> {
        let values = usable(values)?;
        Some(self.interval(median_of(&mut values.to_vec()), |rng, drawn| {
            resample(rng, values, drawn);
            median_of(drawn)
        }))
    }

    /// The mean of `after` minus the mean of `before`, each group resampled by itself; `None` as in
    /// [`Bootstrap::mean`] for either group.
    pub fn difference_of_means(&self, before: &[f64], after: &[f64]) -> Option<Interval> {
        let (before, after) = (usable(before)?, usable(after)?);
        Some(self.interval(mean_of(after) - mean_of(before), |rng, drawn| {
            resample(rng, before, drawn);
            let mean_before = mean_of(drawn);
            resample(rng, after, drawn);
            mean_of(drawn) - mean_before
        }))
    }

    fn interval(
        &self,
        estimate: f64,
        mut draw: impl FnMut(&mut Rng, &mut Vec<f64>) -> f64,
    ) -> Interval {
        let mut rng = self.rng.clone();
        let mut drawn = Vec::new();
        let mut figures: Vec<f64> =
            (0..self.resamples).map(|_| draw(&mut rng, &mut drawn)).collect();
        figures.sort_unstable_by(f64::total_cmp);
        let tail = (1.0 - self.confidence) / 2.0;
        Interval {
            estimate,
            low: quantile_of(&figures, tail),
            high: quantile_of(&figures, 1.0 - tail),
        }
    }
}

fn usable(values: &[f64]) -> Option<&[f64]> {
    (values.len() > 1 && values.iter().all(|value| value.is_finite())).then_some(values)
}

fn resample(rng: &mut Rng, values: &[f64], drawn: &mut Vec<f64>) {
    drawn.clear();
    drawn.extend((0..values.len()).map(|_| values[rng.below(values.len() as u64) as usize]));
}

fn median_of(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    quantile_of(values, 0.5)
}

/// One figure over the repeats of an experiment, as a table shows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repeats {
    /// How many repeats had the figure.
    pub n: usize,
    /// The median of the repeats.
    pub median: f64,
    /// The smallest repeat.
    pub min: f64,
    /// The largest repeat.
    pub max: f64,
    /// The interval of the median; `None` with a single repeat.
    pub interval: Option<Interval>,
}

impl Repeats {
    /// The figure over all repeats, given its value in each; `None` if there is none, or if one is NaN
    /// or infinite.
    pub fn new(values: &[f64], bootstrap: &Bootstrap) -> Option<Self> {
        let sample = Sample::new(values.iter().copied())?;
        Some(Self {
            n: sample.count(),
            median: sample.median(),
            min: sample.min(),
            max: sample.max(),
            interval: bootstrap.median(values),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(confidence: f64) -> Bootstrap {
        Bootstrap::new(1).with_confidence(confidence).expect("within 0 and 1")
    }

    #[test]
    fn the_mean_of_two_values_has_three_possible_resamples() {
        // By hand: of 0 and 1, the resampled mean is 0, 1/2 or 1 with probability 1/4, 1/2, 1/4. The
        // middle 95 % reaches both ends, the middle 40 % (0.3 to 0.7) is 1/2 alone.
        let wide = at(0.95).mean(&[0.0, 1.0]).expect("two values");
        assert_eq!(wide, Interval { estimate: 0.5, low: 0.0, high: 1.0 });
        let narrow = at(0.40).mean(&[0.0, 1.0]).expect("two values");
        assert_eq!(narrow, Interval { estimate: 0.5, low: 0.5, high: 0.5 });
    }

    #[test]
    fn the_median_of_three_values_by_hand() {
        // Of 0, 0, 1 the resampled median is 1 if at least two of three draws are the 1:
        // 3 * (1/9) * (2/3) + 1/27 = 7/27 = 0.26. So 0.1 to 0.9 reaches from 0 to 1, 0.3 to 0.7 does not.
        let wide = at(0.80).median(&[0.0, 1.0, 0.0]).expect("three values");
        assert_eq!(wide, Interval { estimate: 0.0, low: 0.0, high: 1.0 });
        let narrow = at(0.40).median(&[0.0, 1.0, 0.0]).expect("three values");
        assert_eq!(narrow, Interval { estimate: 0.0, low: 0.0, high: 0.0 });
    }

    #[test]
    fn a_difference_is_after_minus_before() {
        // By hand: 10 + {0, 1/2, 1} minus {0, 1/2, 1}: 9 and 11 with probability 1/16 each, 10 with 6/16.
        let got = at(0.95).difference_of_means(&[0.0, 1.0], &[10.0, 11.0]).expect("two groups");
        assert_eq!(got, Interval { estimate: 10.0, low: 9.0, high: 11.0 });
        assert!(!got.contains(0.0));
        let same = at(0.95).difference_of_means(&[0.0, 1.0], &[0.0, 1.0]).expect("two groups");
        assert!(same.contains(0.0));
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_true_mean() {
        // 400 sets of 40 uniform values, true mean 1/2. Coverage of the percentile interval at n = 40 is
        // near 0.94; its sd over 400 sets is 0.012.
        let mut rng = Rng::new(11);
        let held = (0..400u64)
            .filter(|seed| {
                let values: Vec<f64> = (0..40).map(|_| rng.f64()).collect();
                let bootstrap = Bootstrap::new(*seed).with_resamples(500).expect("enough");
                bootstrap.mean(&values).expect("values").contains(0.5)
            })
            .count();
        assert!((360..=395).contains(&held), "{held} of 400");
    }

    #[test]
    fn the_same_seed_gives_the_same_interval_and_another_seed_another() {
        let values: Vec<f64> = (0..30).map(|i| f64::from(i * i % 17)).collect();
        assert_eq!(Bootstrap::new(5).mean(&values), Bootstrap::new(5).mean(&values));
        assert_ne!(Bootstrap::new(5).mean(&values), Bootstrap::new(6).mean(&values));
    }

    #[test]
    fn one_repeat_has_a_median_and_no_interval() {
        let one = Repeats::new(&[20.0], &Bootstrap::new(1)).expect("one repeat");
        assert_eq!((one.n, one.median, one.interval), (1, 20.0, None));
        let three = Repeats::new(&[3.0, 1.0, 2.0], &Bootstrap::new(1)).expect("three repeats");
        assert_eq!((three.n, three.median, three.min, three.max), (3, 2.0, 1.0, 3.0));
        assert_eq!(three.interval, Some(Interval { estimate: 2.0, low: 1.0, high: 3.0 }));
        assert_eq!(Repeats::new(&[], &Bootstrap::new(1)), None);
    }

    #[test]
    fn nonsense_is_refused() {
        let bootstrap = Bootstrap::new(1);
        assert_eq!(bootstrap.mean(&[1.0]), None);
        assert_eq!(bootstrap.median(&[1.0, f64::NAN]), None);
        assert_eq!(bootstrap.difference_of_means(&[1.0, 2.0], &[1.0]), None);
        assert_eq!(bootstrap.clone().with_confidence(1.0), None);
        assert_eq!(bootstrap.clone().with_confidence(f64::NAN), None);
        assert_eq!(bootstrap.with_resamples(0), None);
    }
}
