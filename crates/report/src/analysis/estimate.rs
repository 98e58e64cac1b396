//! A figure over repeats.

use quell_stats::{Bootstrap, mean};

/// Fewest repeats that an interval is drawn from: two could lie anywhere.
const FEWEST: usize = 3;

/// Fewest repeats for the bootstrap: with a handful, it knows nothing but the handful, and its intervals are too narrow.
pub const MANY: usize = 10;

/// 97.5 % points of Student's t by degrees of freedom, from 2 on (Student 1908; any table of the distribution).
const STUDENT: [f64; 7] = [4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306];

/// Mean over repeats with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The 95 % interval of the mean, as (low, high); none with fewer than three repeats. Of fewer than [`MANY`] repeats by Student's t,
    /// else by the bootstrap.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// The mean of these values, one for each repeat; none of none. The values are of a kind that is never below 0, so neither is the
    /// interval.
    pub fn of(values: &[f64], seed: u64) -> Option<Self> {
        let mean = mean(values)?;
        let interval = match values.len() {
            0..FEWEST => None,
            FEWEST..MANY => student(values, mean),
            _ => Bootstrap::new(seed).mean(values).map(|i| (i.low, i.high)),
        };
        Some(Self { mean, interval })
    }

    /// Of a share: the interval does not reach above the whole.
    pub(crate) fn at_most_all(self) -> Self {
        let interval = self.interval.map(|(low, high)| (low.min(1.0), high.min(1.0)));
        Self { interval, ..self }
    }

    /// The mean and the interval of so many times as much.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        let interval = self.interval.map(|(low, high)| (low * factor, high * factor));
        Self { mean: self.mean * factor, interval }
    }
}

/// The mean give or take t times its standard error, not below 0.
fn student(values: &[f64], mean: f64) -> Option<(f64, f64)> {
    let count = values.len();
    let t = STUDENT.get(count.checked_sub(FEWEST)?)?;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let error = (squares / (count - 1) as f64 / count as f64).sqrt();
    let half = t * error;
    half.is_finite().then(|| ((mean - half).max(0.0), mean + half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_repeats_give_students_interval_and_two_give_none() {
        // Mean 20, standard deviation 1, standard error 1/sqrt(3).
        let of = Estimate::of(&[19.0, 20.0, 21.0], 1).unwrap();
        let (low, high) = of.interval.unwrap();
        assert!((low - (20.0 - 4.303 / 3f64.sqrt())).abs() < 1e-9, "{low}");
        assert!((high - (20.0 + 4.303 / 3f64.sqrt())).abs() < 1e-9, "{high}");
        assert_eq!(Estimate::of(&[19.0, 21.0], 1).unwrap().interval, None);
        assert_eq!(Estimate::of(&[], 1), None);
    }

    #[test]
    fn an_interval_of_what_can_t_be_negative_does_not_begin_below_0() {
        let (low, high) = Estimate::of(&[0.0, 0.0, 0.003], 1).unwrap().interval.unwrap();
        assert_eq!(low, 0.0);
        assert!(high > 0.003, "{high}");
    }

    #[test]
    fn a_share_is_not_above_the_whole() {
        let of = Estimate::of(&[1.0, 1.0, 0.97], 1).unwrap().at_most_all();
        assert_eq!(of.interval.unwrap().1, 1.0);
    }

    #[test]
    fn every_number_of_repeats_from_three_on_has_an_interval() {
        for count in 3..30u32 {
            let values: Vec<f64> = (0..count).map(|n| 5.0 + f64::from(n % 4)).collect();
            let of = Estimate::of(&values, 1).unwrap();
            let (low, high) = of.interval.unwrap();
            assert!(low < of.mean && of.mean < high, "{count}: {low} {high}");
        }
    }
}
