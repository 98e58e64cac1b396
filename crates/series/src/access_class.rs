//! Lines of the usual kinds of access, made by a model: no recording, and alike for the same seed everywhere.
//!
//! ```text
//!   seed ──► a line of its class: rate and delay, uniform within the class's bounds
//!        ──► rate over time = rate × x, where each step  x ← 1 + (x − 1)·memory + noise   (an AR(1) process, within 0.05 to 2)
//!            now and then nothing passes (outages: exponential gaps and lengths)
//!            at each round (LEO: 15 s) x and the delay are drawn anew
//! ```
//!
//! docs/lab.md names the source of each class.

use crate::measured_line::{
    Estimate, LineOverTime, MeasuredDirection, MeasuredLine, MeasuredTogether, Property, QueueKind,
};
use crate::{LineSeries, Steps};
use quell_stats::Rng;
use quell_units::{Buffer, Bytes, Rate, Ratio, Span};

pub struct AccessClass {
    pub name: &'static str,
    pub about: &'static str,
    up: DirectionModel,
    down: DirectionModel,
    /// Half duplex.
    shared: bool,
}

/// Of one direction; what is 0 is not there.
struct DirectionModel {
    /// Mbit/s, at least and at most.
    rate: [f64; 2],
    /// Standard deviation of the rate over time, as a part of its mean.
    spread: f64,
    /// How long the rate remembers, and its step.
    memory_ms: u64,
    step_ms: u64,
    round_ms: u64,
    /// Mean time between two outages, and how long one lasts.
    outage_ms: [f64; 2],
    /// At least and at most, one way.
    delay_ms: [f64; 2],
    loss: f64,
    buffer: Buffer,
    queue: QueueKind,
    overhead: u64,
    grid_ms: u64,
    /// A policer's burst lasts so long at its rate.
    burst_ms: u64,
}

const CONSTANT: DirectionModel = DirectionModel {
    rate: [1.0, 1.0],
    spread: 0.0,
    memory_ms: 0,
    step_ms: 0,
    round_ms: 0,
    outage_ms: [0.0, 0.0],
    delay_ms: [1.0, 1.0],
    loss: 0.0,
    buffer: Buffer::Packets(1000),
    queue: QueueKind::TailDrop,
    overhead: 0,
    grid_ms: 0,
    burst_ms: 0,
};

const LTE: DirectionModel = DirectionModel {
    rate: [5.0, 40.0],
    spread: 0.5,
    memory_ms: 1000,
    step_ms: 20,
    outage_ms: [20_000.0, 300.0],
    delay_ms: [15.0, 30.0],
    ..CONSTANT
};

const NR: DirectionModel = DirectionModel {
    rate: [50.0, 300.0],
    spread: 0.6,
    memory_ms: 500,
    step_ms: 10,
    outage_ms: [15_000.0, 200.0],
    delay_ms: [7.0, 15.0],
    buffer: Buffer::Packets(3000),
    ..CONSTANT
};

const LEO: DirectionModel = DirectionModel {
    rate: [50.0, 250.0],
    spread: 0.25,
    memory_ms: 1000,
    step_ms: 20,
    round_ms: 15_000,
    delay_ms: [12.0, 30.0],
    loss: 0.002,
    buffer: Buffer::Packets(2000),
    ..CONSTANT
};

const WIFI: DirectionModel = DirectionModel {
    rate: [20.0, 200.0],
    spread: 0.3,
    memory_ms: 200,
    step_ms: 10,
    delay_ms: [1.0, 2.0],
    ..CONSTANT
};

const DSL: DirectionModel = DirectionModel {
    rate: [16.0, 100.0],
    delay_ms: [4.0, 10.0],
    // PPPoE over PTM.
    overhead: 16,
    ..CONSTANT
};

const DOCSIS: DirectionModel = DirectionModel {
    rate: [50.0, 400.0],
    spread: 0.05,
    memory_ms: 10_000,
    step_ms: 100,
    delay_ms: [3.0, 6.0],
    ..CONSTANT
};

const POLICED: DirectionModel = DirectionModel {
    rate: [10.0, 100.0],
    delay_ms: [2.0, 8.0],
    queue: QueueKind::Policer,
    burst_ms: 100,
    ..CONSTANT
};

pub const CLASSES: [AccessClass; 7] = [
    AccessClass {
        name: "dsl",
        about: "VDSL with PPPoE: steady, a deep buffer in bytes up",
        up: DirectionModel { rate: [2.0, 20.0], buffer: Buffer::Bytes(Bytes::new(256_000)), ..DSL },
        down: DSL,
        shared: false,
    },
    AccessClass {
        name: "docsis",
        about: "DOCSIS 3.1: grants of 2 ms and PIE up",
        up: DirectionModel { rate: [5.0, 50.0], queue: QueueKind::Pie, grid_ms: 2, ..DOCSIS },
        down: DOCSIS,
        shared: false,
    },
    AccessClass {
        name: "lte",
        about: "LTE on the move: deep fades, outages, grants of 5 ms up",
        up: DirectionModel { rate: [2.0, 15.0], grid_ms: 5, ..LTE },
        down: LTE,
        shared: false,
    },
    AccessClass {
        name: "5g",
        about: "5G: faster, and varies more and sooner",
        up: DirectionModel { rate: [10.0, 50.0], grid_ms: 5, ..NR },
        down: NR,
        shared: false,
    },
    AccessClass {
        name: "leo",
        about: "Satellites in a low orbit: another rate and delay each 15 s",
        up: DirectionModel { rate: [5.0, 25.0], ..LEO },
        down: LEO,
        shared: false,
    },
    AccessClass {
        name: "wifi",
        about: "Wi-Fi: half duplex, varies within a second",
        up: WIFI,
        down: WIFI,
        shared: true,
    },
    AccessClass {
        name: "policed",
        about: "Fibre with a policer: no queue, what comes too fast is lost",
        up: POLICED,
        down: POLICED,
        shared: false,
    },
];

impl AccessClass {
    /// A line of this class, so long where it varies.
    pub fn make(&self, seed: u64, length: Span) -> LineOverTime {
        let rng = Rng::new(seed).derive(self.name);
        let how = format!("drawn by the model {}, seed {seed}", self.name);
        let (up, up_series) = self.up.make(&mut rng.derive("up"), length, &how);
        let (mut down, mut down_series) = self.down.make(&mut rng.derive("down"), length, &how);
        if self.shared {
            // One medium: it is as fast in both directions.
            down.clone_from(&up);
            down_series.clone_from(&up_series);
        }
        let both =
            MeasuredTogether { shared: is(self.shared, &how), ..MeasuredTogether::default() };
        let line =
            MeasuredLine { version: MeasuredLine::VERSION, up, down, both, ..Default::default() };
        LineOverTime { line, up: up_series, down: down_series }
    }
}

/// Its intervals are empty: a model knows what it made.
fn is<T>(value: T, how: &str) -> Option<Property<T>> {
    let (how, when) = (how.to_owned(), String::new());
    Some(Property::Measured(Estimate { value, low: None, high: None, how, when }))
}

fn between(rng: &mut Rng, [low, high]: [f64; 2]) -> f64 {
    low + (high - low) * rng.f64()
}

fn mbit(rate: f64) -> Rate {
    // Whole kbit/s, as a person would write it.
    Rate::from_bps((rate * 1000.0).round() as u64 * 1000)
}

fn ms(ms: f64) -> Span {
    Span::from_micros((ms * 1000.0).round() as u64)
}

impl DirectionModel {
    fn make(
        &self,
        rng: &mut Rng,
        length: Span,
        how: &str,
    ) -> (MeasuredDirection, Option<LineSeries>) {
        let rate = mbit(between(rng, self.rate));
        let delay = ms(between(rng, self.delay_ms));
        let series = self.series(rng, rate, length);
        let is_policed = self.queue == QueueKind::Policer;
        let burst = rate.bytes_in(Span::from_millis(self.burst_ms));
        let has_delay = series.as_ref().is_some_and(|series| series.delay.is_some());
        let line = MeasuredDirection {
            rate: is(rate, how).filter(|_| series.is_none() && !is_policed),
            delay: is(delay, how).filter(|_| !has_delay),
            loss: is(Ratio::from_ppb((self.loss * 1e9) as u64).unwrap_or_default(), how),
            buffer: is(self.buffer, how).filter(|_| !is_policed),
            queue: is(self.queue, how),
            police_rate: is(rate, how).filter(|_| is_policed),
            police_burst: is(burst, how).filter(|_| is_policed),
            overhead: is(Bytes::new(self.overhead), how),
            grid: is(Span::from_millis(self.grid_ms), how).filter(|_| self.grid_ms > 0),
            ..MeasuredDirection::default()
        };
        (line, series)
    }

    /// None of a line that does not vary.
    fn series(&self, rng: &mut Rng, mean: Rate, length: Span) -> Option<LineSeries> {
        let count = length.nanos() / 1_000_000 / self.step_ms.max(1);
        if self.step_ms == 0 || count == 0 {
            return None;
        }
        let at = |step: u64| Span::from_millis(step * self.step_ms);
        let kept = 1.0 - self.step_ms as f64 / self.memory_ms as f64;
        let noise = self.spread * (1.0 - kept * kept).sqrt();
        let (mut rates, mut delays) = (Vec::new(), Vec::new());
        let mut level = 1.0 + self.spread * normal(rng);
        let gap = |rng: &mut Rng| match self.outage_ms[0] {
            0.0 => f64::INFINITY,
            mean => rng.exp(mean),
        };
        let (mut out, mut back) = (gap(rng), 0.0);
        for step in 0..count {
            let now = (step * self.step_ms) as f64;
            if self.round_ms > 0 && (step * self.step_ms).is_multiple_of(self.round_ms) {
                level = 1.0 + self.spread * normal(rng);
                delays.push((at(step), ms(between(rng, self.delay_ms))));
            }
            level = (1.0 + (level - 1.0) * kept + noise * normal(rng)).clamp(0.05, 2.0);
            if now >= out {
                back = now + rng.exp(self.outage_ms[1]);
                out = back + gap(rng);
            }
            let rate = if now < back { 0.0 } else { mean.bps() as f64 / 1e6 * level };
            rates.push((at(step), mbit(rate)));
        }
        let (rate, delay) = (Steps::new(rates, at(count)), Steps::new(delays, at(count)));
        Some(LineSeries { rate, delay, ..LineSeries::default() })
    }
}

/// Of mean 0 and deviation 1: the sum of twelve uniform numbers, since a logarithm differs in its last bit between machines.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Span = Span::from_secs(600);

    fn made(name: &str, seed: u64) -> LineOverTime {
        let class = CLASSES.iter().find(|class| class.name == name).expect("a class");
        class.make(seed, LONG)
    }

    #[test]
    fn a_line_of_a_class_is_the_same_for_the_same_seed_and_its_file_says_so() {
        for class in &CLASSES {
            let [one, again, other] = [7, 7, 8].map(|seed| made(class.name, seed));
            assert_eq!((&one.line, &one.up), (&again.line, &again.up));
            assert_ne!(one.line, other.line);
            let text = one.line.to_string();
            assert_eq!(MeasuredLine::parse(&text).expect(&text), one.line);
        }
    }

    #[test]
    fn what_varies_has_the_mean_the_spread_and_the_rounds_of_its_class() {
        for class in &CLASSES {
            let of = |seed: u64| Some((made(class.name, seed).down?, class.down.spread));
            let Some(made) = (0..20).map(of).collect::<Option<Vec<_>>>() else { continue };
            let mut spreads = Vec::new();
            for (series, spread) in &made {
                let rate = series.rate.as_ref().expect("a rate");
                let mean = rate.mean().bps() as f64;
                let parts = rate.iter().filter(|(.., rate)| rate.bps() > 0);
                let (sum, time) = parts.fold((0.0, 0.0), |(sum, time), (from, to, rate)| {
                    let lasts = (to.nanos() - from.nanos()) as f64;
                    (sum + lasts * (rate.bps() as f64 / mean - 1.0).powi(2), time + lasts)
                });
                spreads.push((sum / time).sqrt() / spread);
                if class.name == "leo" {
                    let delay = series.delay.as_ref().expect("a delay");
                    assert!(delay.iter().all(|(at, ..)| at.nanos() % 15_000_000_000 == 0));
                }
            }
            let mean = spreads.iter().sum::<f64>() / spreads.len() as f64;
            assert!((0.8..1.2).contains(&mean), "{}: {mean} of the spread", class.name);
        }
    }
}
