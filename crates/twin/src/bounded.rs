//! A figure between the least and the most that it can be.

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounded {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Bounded {
    pub fn new(value: f64, (one, other): (f64, f64)) -> Self {
        Self { value, low: one.min(other).min(value), high: one.max(other).max(value) }
    }

    pub fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Self::new(of(self.value), (of(self.low), of(self.high)))
    }
}
