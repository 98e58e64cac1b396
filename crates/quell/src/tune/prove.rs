//! Whether the settings help, measured.
//!
//! ```text
//!   lab    here ═══ rate, RTT ═══ there     one transfer over seeds: with the settings as they are, with those planned
//!   HOST   as it is, set, as it is, set …   `quell flow` to a `quell serve` there, up and down each time
//! ```

mod lab;
mod real;

use crate::flow::figures::rate;
pub use lab::in_lab;
use quell_stats::{Interval, mean};
pub use real::with_host;
use serde_json::{Value, json};

/// What was measured of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Which.
    pub way: &'static str,
    /// Bits a second with the settings as they are.
    pub now: Vec<f64>,
    /// And with those planned.
    pub then: Vec<f64>,
    /// What was predicted of both.
    pub predicted: Option<[f64; 2]>,
}

/// Whether it helps.
#[derive(Debug, Clone, PartialEq)]
pub struct Proof {
    /// Where it was measured.
    pub place: String,
    /// What.
    pub ways: Vec<Measured>,
}

/// What came out of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Faster,
    Slower,
    Unknown,
}

impl Measured {
    /// More or less only where the intervals do not touch.
    fn verdict(&self) -> Verdict {
        match (Interval::of_mean(&self.now), Interval::of_mean(&self.then)) {
            (Some(now), Some(then)) if then.low > now.high => Verdict::Faster,
            (Some(now), Some(then)) if then.high < now.low => Verdict::Slower,
            _ => Verdict::Unknown,
        }
    }

    fn text(&self) -> String {
        let one = |name: &str, values: &[f64], predicted: Option<f64>| {
            let spread = Interval::of_mean(values)
                .map(|i| format!(", 95 % within {} to {}", rate(i.low), rate(i.high)));
            let predicted = predicted.map(|p| format!("; predicted {}", rate(p)));
            format!(
                "  {} {name:<10}  {}{}{}\n",
                self.way,
                rate(mean(values).unwrap_or(0.0)),
                spread.unwrap_or_default(),
                predicted.unwrap_or_default()
            )
        };
        let [now, then] = self.predicted.map_or([None, None], |both| both.map(Some));
        let word = match self.verdict() {
            Verdict::Faster => "faster",
            Verdict::Slower => "SLOWER",
            Verdict::Unknown => "no difference is certain",
        };
        let lines = one("as it is", &self.now, now) + &one("as planned", &self.then, then);
        lines + &format!("  {} {word}\n", self.way)
    }
}

impl Proof {
    /// Whether one direction is faster and none slower.
    pub fn helped(&self) -> bool {
        let verdicts: Vec<Verdict> = self.ways.iter().map(Measured::verdict).collect();
        verdicts.contains(&Verdict::Faster) && !verdicts.contains(&Verdict::Slower)
    }

    /// For people.
    pub fn text(&self) -> String {
        let ways: String = self.ways.iter().map(Measured::text).collect();
        let word = if self.helped() { "it helps" } else { "that it helps is not shown" };
        format!("measured {}:\n{ways}{word}\n", self.place)
    }

    /// For programs.
    pub fn document(&self) -> Value {
        let interval = |values: &[f64]| Interval::of_mean(values).map(|i| [i.low, i.high]);
        let way = |m: &Measured| {
            json!({
                "way": m.way,
                "now_bits_per_second": m.now,
                "then_bits_per_second": m.then,
                "now_interval": interval(&m.now),
                "then_interval": interval(&m.then),
                "predicted_bits_per_second": m.predicted,
            })
        };
        json!({ "place": self.place, "ways": self.ways.iter().map(way).collect::<Vec<Value>>(), "helped": self.helped() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(now: [f64; 3], then: [f64; 3]) -> Measured {
        Measured { way: "up", now: now.to_vec(), then: then.to_vec(), predicted: None }
    }

    #[test]
    fn a_gain_is_one_only_where_the_intervals_part() {
        let gain = way([1e6, 1.01e6, 0.99e6], [2e6, 2.01e6, 1.99e6]);
        let loss = way([2e6, 2.01e6, 1.99e6], [1e6, 1.01e6, 0.99e6]);
        let noise = way([1e6, 2e6, 1.5e6], [1.6e6, 2.1e6, 1.4e6]);
        let helped = |ways: &[&Measured]| {
            let ways = ways.iter().map(|w| (*w).clone()).collect();
            Proof { place: String::new(), ways }.helped()
        };
        assert!(helped(&[&gain]) && helped(&[&gain, &noise]));
        assert!(!helped(&[&gain, &loss]) && !helped(&[&noise]) && !helped(&[]));
    }
}
