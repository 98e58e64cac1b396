//! A line that nobody knows, drawn from a seed, and whether what is told of it is right.

use quell_series::access_class::CLASSES;
use quell_series::measured_line::{MeasuredDirection, Property, QueueKind, value};
use quell_series::{Format, LineSeries, Steps};
use quell_stats::Rng;
use quell_units::{Buffer, Rate, Span};

/// A told series is looked for in the hidden one at each multiple of this.
const LOOK: Span = Span::from_millis(5);
/// How long a hidden series is, in seconds.
const LONG_S: u64 = 120;

/// One direction, as it really is.
#[derive(Debug)]
pub struct HiddenLine {
    rate: f64,
    delay_s: f64,
    loss: f64,
    overhead: f64,
    queue: HiddenQueue,
    /// Where the rate varies; and the same as a file, with its name.
    series: Option<Steps<Rate>>,
    file: Option<(String, Vec<u8>)>,
}

#[derive(Debug)]
enum HiddenQueue {
    Packets(u64),
    Bytes(u64),
    Named(QueueKind, &'static str),
    /// A policer's burst in bytes.
    Policer(u64),
}

const NAMED: [(QueueKind, &str); 4] = [
    (QueueKind::Codel, "codel"),
    (QueueKind::Pie, "pie"),
    (QueueKind::FqCodel, "fq_codel"),
    (QueueKind::Cake, "cake"),
];

impl HiddenLine {
    /// Both directions of the line of a seed.
    pub fn both(seed: u64) -> [Self; 2] {
        let mut rng = Rng::new(seed);
        ["up", "down"].map(|way| Self::new(&mut rng, seed, way))
    }

    fn new(rng: &mut Rng, seed: u64, way: &str) -> Self {
        // 0.5 to 300 Mbit/s, each size as likely.
        let mut rate = (0.5e6 * 600_f64.powf(rng.f64()) / 1000.0).round() * 1000.0;
        let delay_s = (2000.0 + rng.below(48_000) as f64) / 1e6;
        let mut loss = if rng.below(10) < 7 { 0.0 } else { (1 + rng.below(10)) as f64 / 1000.0 };
        let mut overhead = [0.0, 0.0, 8.0, 18.0, 22.0, 44.0][rng.below(6) as usize];
        let kind = rng.below(9) as usize;
        let queue = match kind {
            1 => HiddenQueue::Bytes(((rate / 8.0 * (0.02 + 0.38 * rng.f64())) as u64).max(15_000)),
            2..6 => HiddenQueue::Named(NAMED[kind - 2].0, NAMED[kind - 2].1),
            // 20 to 200 ms, and some packets.
            6 => {
                HiddenQueue::Policer(((rate / 8.0 * (0.02 + 0.18 * rng.f64())) as u64).max(15_000))
            }
            _ => HiddenQueue::Packets(20 + rng.below(480)),
        };
        let series = ["lte", "leo"].get(kind.wrapping_sub(7)).and_then(|class| {
            let class = CLASSES.iter().find(|known| known.name == *class)?;
            let made = class.make(seed, Span::from_secs(LONG_S));
            let of = if way == "up" { made.up } else { made.down };
            let series = LineSeries { rate: of?.rate, ..LineSeries::default() };
            let mut csv = Vec::new();
            Format::Csv.write(&series, &mut csv).ok()?;
            let steps = series.rate?;
            rate = steps.mean().bps() as f64;
            Some((steps, (format!("{seed}-{way}.csv"), csv)))
        });
        if kind > 5 {
            (loss, overhead) = (0.0, 0.0);
        }
        let (series, file) = series.unzip();
        Self { rate, delay_s, loss, overhead, queue, series, file }
    }

    /// Name and bytes of the file that the line needs.
    pub fn file(&self) -> Option<&(String, Vec<u8>)> {
        self.file.as_ref()
    }

    pub fn toml(&self) -> String {
        let rate = match &self.file {
            Some((file, _)) => format!("series = \"{file}\""),
            None => format!("rate = \"{}bit\"", self.rate),
        };
        let queue = match &self.queue {
            HiddenQueue::Packets(count) => format!("{rate}, buffer = \"{count}p\""),
            HiddenQueue::Bytes(bytes) => format!("{rate}, buffer = \"{bytes}B\""),
            HiddenQueue::Named(_, name) => format!("{rate}, queue = \"{name}\""),
            HiddenQueue::Policer(burst) => {
                format!("police = {{ rate = \"{}bit\", burst = \"{burst}B\" }}", self.rate)
            }
        };
        let delay_us = (self.delay_s * 1e6).round();
        let mut toml = format!("{{ {queue}, delay = \"{delay_us}us\"");
        if self.overhead > 0.0 {
            toml += &format!(", overhead = {}", self.overhead);
        }
        if self.loss > 0.0 {
            toml += &format!(", loss = \"{}\"", self.loss);
        }
        toml + " }"
    }

    /// What became of each property.
    pub fn verdicts(&self, told: &MeasuredDirection, series: Option<&Steps<Rate>>) -> Vec<Verdict> {
        let near = |part: f64, truth: f64| (truth, truth * part);
        let rate = |rate: quell_units::Rate| rate.bps() as f64;
        let mut all = vec![
            figure("delay ±0.2 ms", &told.delay, |d| d.as_secs_f64(), (self.delay_s, 2e-4)),
            figure("loss ±0.2 points", &told.loss, |loss| loss.as_f64(), (self.loss, 0.002)),
        ];
        let kind = match self.queue {
            HiddenQueue::Named(kind, _) => kind,
            HiddenQueue::Policer(_) => QueueKind::Policer,
            _ => QueueKind::TailDrop,
        };
        all.push(("queue", value(&told.queue).map(|told| told == kind), None));
        if let HiddenQueue::Policer(burst) = self.queue {
            let bytes = |burst: quell_units::Bytes| burst.get() as f64;
            all.push(figure("police-rate ±2 %", &told.police_rate, rate, near(0.02, self.rate)));
            all.push(figure(
                "police-burst ±10 %",
                &told.police_burst,
                bytes,
                near(0.1, burst as f64),
            ));
            return all;
        }
        let steady = value(&told.stationary).map(|is| is == self.series.is_none());
        all.push(("stationary", steady, None));
        let apart = matches!(kind, QueueKind::FqCodel | QueueKind::Cake);
        let fair = value(&told.fair).map(|fair| (fair.name() != "none") == apart);
        all.push(("fair: flows apart", fair, None));
        if let Some(hidden) = &self.series {
            let fit = series.and_then(|series| fit(hidden, series));
            let is_near = fit.map(|(off, _)| off < 0.03);
            all.push(("series: median step ±3 %", is_near, None));
            // Of the seconds in which it was looked at.
            if let Some((_, mean)) = fit {
                all.push(figure("rate: mean ±1 %", &told.rate, rate, near(0.01, mean)));
            }
        } else {
            all.push(figure("rate ±1 %", &told.rate, rate, near(0.01, self.rate)));
            let bytes = |o: quell_units::Bytes| o.get() as f64;
            all.push(figure("overhead exact", &told.overhead, bytes, (self.overhead, 0.1)));
        }
        let in_unit = |buffer: Buffer| match (buffer, &self.queue) {
            (Buffer::Packets(count), HiddenQueue::Packets(_)) => f64::from(count),
            (Buffer::Bytes(bytes), HiddenQueue::Bytes(_)) => bytes.get() as f64,
            _ => f64::NAN,
        };
        match self.queue {
            HiddenQueue::Packets(size) | HiddenQueue::Bytes(size) => {
                all.push(figure(
                    "buffer ±5 %, unit",
                    &told.buffer,
                    in_unit,
                    near(0.05, size as f64),
                ));
            }
            _ if value(&told.buffer).is_some() => {
                all.push(("buffer ±5 %, unit", Some(false), None));
            }
            _ => {}
        }
        all
    }
}

/// Where a told series is most like the hidden one: by which part of it half of its steps are off at most, and the mean that the hidden one had there.
fn fit(hidden: &Steps<Rate>, told: &Steps<Rate>) -> Option<(f64, f64)> {
    let looks = |time: Span| (time.nanos() / LOOK.nanos()) as usize;
    let times = (0..).map(|at| LOOK.saturating_mul(at)).take(looks(Span::from_secs(LONG_S)));
    let bits: Vec<f64> = hidden.bits_at(times).map(|bits| bits as f64).collect();
    // Bits per second between two of them.
    let mean = |from: usize, to: usize| {
        (bits[to] - bits[from]).max(1.0) / ((to - from) as f64 * LOOK.as_secs_f64())
    };
    let begins = 0..bits.len().checked_sub(looks(told.end()))?;
    let at = begins.map(|begin| {
        let off = |(from, to, rate): (Span, Span, Rate)| {
            (rate.bps() as f64 / mean(begin + looks(from), begin + looks(to)) - 1.0).abs()
        };
        let offs: Vec<f64> = told.iter().map(off).collect();
        let off = quell_stats::median(&offs).unwrap_or(f64::MAX);
        (off, mean(begin, begin + looks(told.end())))
    });
    at.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// What became of a property: whether the value is right, and whether the truth is between low and high.
pub type Verdict = (&'static str, Option<bool>, Option<bool>);

fn figure<T: Copy>(
    name: &'static str,
    told: &Option<Property<T>>,
    number: impl Fn(T) -> f64,
    (truth, within): (f64, f64),
) -> Verdict {
    let Some(told) = told.as_ref().and_then(Property::estimate) else { return (name, None, None) };
    let right = (number(told.value) - truth).abs() <= within;
    let covers = told.low.zip(told.high).map(|(low, high)| {
        let slack = truth.abs() * 1e-9;
        number(low) - slack <= truth && truth <= number(high) + slack
    });
    (name, Some(right), covers)
}
