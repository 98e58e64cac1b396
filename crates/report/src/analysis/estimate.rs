//! A figure over repeats.

use quell_stats::{Bootstrap, mean};

/// Fewest repeats that an interval is drawn from: of two, the bootstrap knows nothing but the two.
const FEWEST: usize = 3;

/// Mean over repeats with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The 95 % bootstrap interval of the mean, as (low, high); none with fewer than three repeats.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// The mean of these values, one for each repeat; none of none.
    pub fn of(values: &[f64], seed: u64) -> Option<Self> {
        let enough = values.len() >= FEWEST;
        let interval = enough.then(|| Bootstrap::new(seed).mean(values)).flatten();
        Some(Self { mean: mean(values)?, interval: interval.map(|i| (i.low, i.high)) })
    }

    /// Half the width of the interval.
    pub fn half_width(&self) -> Option<f64> {
        self.interval.map(|(low, high)| (high - low) / 2.0)
    }
}
