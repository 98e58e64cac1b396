//! A figure over repeats.

use quell_stats::{Batch, Interval, Pooled, PooledQuantile, mean};

/// Fewest repeats that an interval is drawn from: two could lie anywhere.
pub(crate) const FEWEST: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean of the repeats' figures; of a quantile far out, that of the packets of all repeats.
    pub value: f64,
    /// Its 95 % interval; none with fewer than three repeats.
    pub interval: Option<IntervalEnds>,
}

/// The ends of an interval. Where the packets are too few to have one of them, it is open to that side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IntervalEnds {
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl IntervalEnds {
    fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Self { low: self.low.map(&of), high: self.high.map(&of) }
    }
}

impl From<Interval> for IntervalEnds {
    fn from(interval: Interval) -> Self {
        Self { low: Some(interval.low), high: Some(interval.high) }
    }
}

impl Estimate {
    /// The mean of these values, one for each repeat; none of none. The values are of a kind that is never below 0, so neither is the
    /// interval.
    pub fn of(values: &[f64]) -> Option<Self> {
        let interval = if values.len() < FEWEST { None } else { Interval::of_mean(values) };
        Some(Self { value: mean(values)?, interval: interval.map(IntervalEnds::from) })
    }

    pub fn of_loss(ratios: &[f64], packets: &[Vec<Batch>]) -> Option<Self> {
        let interval = if ratios.len() < FEWEST { None } else { Interval::of_loss(packets) };
        Some(Self { value: mean(ratios)?, interval: interval.map(IntervalEnds::from) })
    }

    pub fn of_quantile(packets: &Pooled, p: f64) -> Option<Self> {
        let PooledQuantile { value, low, high } = packets.quantile(p)?;
        Some(Self {
            value,
            interval: (packets.repeats() >= FEWEST).then_some(IntervalEnds { low, high }),
        })
    }

    /// Of a share: the interval does not reach above the whole.
    pub(crate) fn at_most_all(self) -> Self {
        Self { interval: self.interval.map(|ends| ends.map(|end| end.min(1.0))), ..self }
    }

    pub(crate) fn scaled(self, factor: f64) -> Self {
        let interval = self.interval.map(|ends| ends.map(|end| end * factor));
        Self { value: self.value * factor, interval }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_repeats_give_an_interval_and_two_give_none() {
        let ends = Estimate::of(&[19.0, 20.0, 21.0]).unwrap().interval.unwrap();
        assert!(ends.low < Some(19.0) && Some(21.0) < ends.high, "{ends:?}");
        assert_eq!(Estimate::of(&[19.0, 21.0]).unwrap().interval, None);
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn a_share_is_not_above_the_whole() {
        let of = Estimate::of(&[1.0, 1.0, 0.97]).unwrap().at_most_all();
        assert_eq!(of.interval.unwrap().high, Some(1.0));
    }

    #[test]
    fn no_loss_in_three_repeats_has_an_upper_bound() {
        let clean = vec![vec![Batch { sent: 1700.0, lost: 0.0 }]; 3];
        let of = Estimate::of_loss(&[0.0; 3], &clean).unwrap();
        let IntervalEnds { low, high } = of.interval.unwrap();
        assert!(of.value == 0.0 && low == Some(0.0), "{of:?}");
        assert!(high.is_some_and(|high| (0.0007..0.0008).contains(&high)), "{of:?}");
    }
    #[test]
    fn a_p99_of_few_packets_is_at_least_so_much_whatever_the_number_of_repeats() {
        let packets: Vec<f64> = (0..30).map(|n| f64::from((n * 7) % 30)).collect();
        let of = |repeats: usize, p| {
            let pooled = Pooled::new(vec![&*packets; repeats]).unwrap();
            Estimate::of_quantile(&pooled, p).unwrap()
        };
        assert_eq!(of(2, 0.99).interval, None);
        let p99 = of(10, 0.99);
        assert_eq!((p99.value, p99.interval.unwrap().high), (29.0, None), "300 packets");
        let median = of(10, 0.5).interval.unwrap();
        assert!(median.low < Some(14.5) && Some(14.5) < median.high, "{median:?}");
    }
}
