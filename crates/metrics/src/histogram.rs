//! A histogram with the classic buckets of Prometheus: bounds that never change, counts that never go back.

/// Upper bounds for round-trip times, in seconds.
pub const RTT_SECONDS: &[f64] =
    &[1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];

#[derive(Debug, Clone)]
pub struct MetricHistogram {
    bounds: &'static [f64],
    /// Of each bound, and of what is above the last.
    counts: Vec<u64>,
    sum: f64,
}

impl MetricHistogram {
    /// One with these upper bounds, ascending.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    pub fn observe(&mut self, value: f64) {
        self.counts[self.bounds.partition_point(|bound| *bound < value)] += 1;
        self.sum += value;
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Each bound, the last infinite, and how many values are no larger.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }))
    }
}
