//! A figure over repeats.

use quell_stats::{Batch, Interval, mean};

/// Fewest repeats that an interval is drawn from: two could lie anywhere.
const FEWEST: usize = 3;

/// Mean over repeats with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its 95 % interval, as (low, high); none with fewer than three repeats.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// The mean of these values, one for each repeat; none of none. The values are of a kind that is never below 0, so neither is the
    /// interval.
    pub fn of(values: &[f64]) -> Option<Self> {
        let interval = if values.len() < FEWEST { None } else { Interval::of_mean(values) };
        Some(Self { mean: mean(values)?, interval: interval.map(|i| (i.low, i.high)) })
    }

    /// The mean of these ratios of loss, one for each repeat, with the packets that they are of.
    pub fn of_loss(ratios: &[f64], packets: &[Vec<Batch>]) -> Option<Self> {
        let interval = if ratios.len() < FEWEST { None } else { Interval::of_loss(packets) };
        Some(Self { mean: mean(ratios)?, interval: interval.map(|i| (i.low, i.high)) })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_repeats_give_an_interval_and_two_give_none() {
        let (low, high) = Estimate::of(&[19.0, 20.0, 21.0]).unwrap().interval.unwrap();
        assert!(low < 19.0 && 21.0 < high, "{low} {high}");
        assert_eq!(Estimate::of(&[19.0, 21.0]).unwrap().interval, None);
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn a_share_is_not_above_the_whole() {
        let of = Estimate::of(&[1.0, 1.0, 0.97]).unwrap().at_most_all();
        assert_eq!(of.interval.unwrap().1, 1.0);
    }

    #[test]
    fn no_loss_in_three_repeats_has_an_upper_bound() {
        let clean = vec![vec![Batch { sent: 1700.0, lost: 0.0 }]; 3];
        let of = Estimate::of_loss(&[0.0; 3], &clean).unwrap();
        let (low, high) = of.interval.unwrap();
        assert!(of.mean == 0.0 && low == 0.0 && (0.0007..0.0008).contains(&high), "{of:?}");
    }
}
