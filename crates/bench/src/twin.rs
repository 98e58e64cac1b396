//! How well `quell twin learn` tells lines that it can't know: of each, rate, delay, loss, overhead, buffer and queue come from a seed.
//!
//! ```text
//!   seed ──► hidden line ──► quell lab exec (serve at b, twin learn at a) ──► what it tells ──► right, wrong or unknown, a property
//! ```

use crate::options::BenchOptions;
use crate::stats::Scratch;
use quell_series::MeasuredLine;
use quell_series::measured_line::{MeasuredDirection, Property, QueueKind, value};
use quell_stats::Rng;
use quell_units::Buffer;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The seed of the first line; `--only N` begins with another.
const SEED: u64 = 30_000;
/// Lines that are learnt at once.
const JOBS: usize = 2;

/// One direction, as it really is.
#[derive(Debug)]
struct HiddenLine {
    rate: f64,
    delay_s: f64,
    loss: f64,
    overhead: f64,
    queue: HiddenQueue,
}

#[derive(Debug)]
enum HiddenQueue {
    Packets(u64),
    Bytes(u64),
    Named(QueueKind, &'static str),
}

const NAMED: [(QueueKind, &str); 4] = [
    (QueueKind::Codel, "codel"),
    (QueueKind::Pie, "pie"),
    (QueueKind::FqCodel, "fq_codel"),
    (QueueKind::Cake, "cake"),
];

impl HiddenLine {
    fn new(rng: &mut Rng) -> Self {
        // 0.5 to 300 Mbit/s, each size as likely.
        let rate = (0.5e6 * 600_f64.powf(rng.f64()) / 1000.0).round() * 1000.0;
        let delay_s = (2000.0 + rng.below(48_000) as f64) / 1e6;
        let loss = if rng.below(10) < 7 { 0.0 } else { (1 + rng.below(10)) as f64 / 1000.0 };
        let overhead = [0.0, 0.0, 8.0, 18.0, 22.0, 44.0][rng.below(6) as usize];
        let queue = match rng.below(6) {
            0 => HiddenQueue::Packets(20 + rng.below(480)),
            // 20 to 400 ms, and room for some packets.
            1 => HiddenQueue::Bytes(((rate / 8.0 * (0.02 + 0.38 * rng.f64())) as u64).max(15_000)),
            kind => {
                let (kind, name) = NAMED[kind as usize - 2];
                HiddenQueue::Named(kind, name)
            }
        };
        Self { rate, delay_s, loss, overhead, queue }
    }

    fn toml(&self) -> String {
        let queue = match &self.queue {
            HiddenQueue::Packets(count) => format!("buffer = \"{count}p\""),
            HiddenQueue::Bytes(bytes) => format!("buffer = \"{bytes}B\""),
            HiddenQueue::Named(_, name) => format!("queue = \"{name}\""),
        };
        let loss = match self.loss {
            0.0 => String::new(),
            loss => format!(", loss = \"{loss}\""),
        };
        format!(
            "{{ rate = \"{}bit\", delay = \"{}us\", overhead = {}, {queue}{loss} }}",
            self.rate,
            (self.delay_s * 1e6).round(),
            self.overhead
        )
    }
}

/// What became of a property: whether the value is right, and whether the truth is between low and high.
type Verdict = (&'static str, Option<bool>, Option<bool>);

fn figure<T: Copy>(
    name: &'static str,
    told: &Option<Property<T>>,
    number: impl Fn(T) -> f64,
    truth: f64,
    within: f64,
) -> Verdict {
    let Some(told) = told.as_ref().and_then(Property::estimate) else { return (name, None, None) };
    let right = (number(told.value) - truth).abs() <= within;
    let covers = told.low.zip(told.high).map(|(low, high)| {
        let slack = truth.abs() * 1e-9;
        number(low) - slack <= truth && truth <= number(high) + slack
    });
    (name, Some(right), covers)
}

fn verdicts(told: &MeasuredDirection, truth: &HiddenLine) -> Vec<Verdict> {
    let mut all = vec![
        figure("rate ±1 %", &told.rate, |rate| rate.bps() as f64, truth.rate, truth.rate * 0.01),
        figure("delay ±0.2 ms", &told.delay, |d| d.as_secs_f64(), truth.delay_s, 2e-4),
        figure("loss ±0.2 points", &told.loss, |loss| loss.as_f64(), truth.loss, 0.002),
        figure("overhead exact", &told.overhead, |o| o.get() as f64, truth.overhead, 0.1),
    ];
    let kind = match truth.queue {
        HiddenQueue::Named(kind, _) => kind,
        _ => QueueKind::TailDrop,
    };
    all.push(("queue", value(&told.queue).map(|told| told == kind), None));
    let apart = matches!(kind, QueueKind::FqCodel | QueueKind::Cake);
    let fair = value(&told.fair).map(|fair| (fair.name() != "none") == apart);
    all.push(("flows apart", fair, None));
    let size = |buffer: Buffer, packets: bool| match (buffer, packets) {
        (Buffer::Packets(count), true) => f64::from(count),
        (Buffer::Bytes(bytes), false) => bytes.get() as f64,
        _ => f64::NAN,
    };
    match truth.queue {
        HiddenQueue::Packets(count) => {
            let truth = count as f64;
            let size = |buffer| size(buffer, true);
            all.push(figure("buffer ±5 %, unit", &told.buffer, size, truth, truth * 0.05));
        }
        HiddenQueue::Bytes(bytes) => {
            let truth = bytes as f64;
            let size = |buffer| size(buffer, false);
            all.push(figure("buffer ±5 %, unit", &told.buffer, size, truth, truth * 0.05));
        }
        HiddenQueue::Named(..) if value(&told.buffer).is_some() => {
            all.push(("buffer ±5 %, unit", Some(false), None));
        }
        HiddenQueue::Named(..) => {}
    }
    all
}

/// Learns a hidden line in the lab.
fn told(
    options: &BenchOptions,
    folder: &Scratch,
    seed: u64,
    ways: &[HiddenLine; 2],
) -> Result<MeasuredLine, String> {
    let network = format!(
        "name = \"hidden\"\nduration = \"120s\"\n[topology]\nhosts = [\"a\", \"b\"]\n[[topology.link]]\nname = \"line\"\n\
         ends = [\"a\", \"b\"]\nup = {}\ndown = {}\n[[scenario]]\nname = \"s\"\n\
         [[probe]]\nname = \"p\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\n",
        ways[0].toml(),
        ways[1].toml()
    );
    let file = folder.path().join(format!("{seed}.toml"));
    std::fs::write(&file, network).map_err(|e| format!("{}: {e}", file.display()))?;
    let quell = options.quell.to_string_lossy();
    let output = Command::new(&options.quell)
        .args(["lab", "exec"])
        .arg(&file)
        .args(["a", "--scenario", "s", "--wall-limit", "10min", "--with"])
        .arg(format!("b: {quell} serve --bind 0.0.0.0"))
        .args(["--", &quell, "twin", "learn", "{b}", "-o", "/tmp/line.toml", "--json"])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{quell}: {e}"))?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rev().find(|line| line.starts_with("quell: "));
        last.unwrap_or("it said nothing").to_owned()
    })
}

pub fn bench(options: &BenchOptions) -> Result<(), String> {
    let first = match options.only.first() {
        Some(seed) => seed.parse().map_err(|_| format!("--only {seed}: not a seed"))?,
        None => SEED,
    };
    let folder = Scratch::new()?;
    let (next, table) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    println!("{} hidden lines, seeds from {first}", options.rounds);
    std::thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                while let Some(at) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < options.rounds)
                {
                    let seed = first + at as u64;
                    let mut rng = Rng::new(seed);
                    let ways = [HiddenLine::new(&mut rng), HiddenLine::new(&mut rng)];
                    match told(options, &folder, seed, &ways) {
                        Ok(line) => count(&table, seed, &ways, &line),
                        Err(why) => println!("{seed}: {why}: {ways:?}"),
                    }
                }
            });
        }
    });
    println!("{:<20}{:>7}{:>7}{:>9}{:>14}", "", "right", "wrong", "unknown", "in interval");
    for (name, [right, wrong, unknown, inside, outside]) in table.into_inner().unwrap_or_default() {
        let covered = match inside + outside {
            0 => "–".to_owned(),
            all => format!("{:.0} %", 100.0 * f64::from(inside) / f64::from(all)),
        };
        println!("{name:<20}{right:>7}{wrong:>7}{unknown:>9}{covered:>14}");
    }
    Ok(())
}

fn count(
    table: &Mutex<BTreeMap<&'static str, [u32; 5]>>,
    seed: u64,
    ways: &[HiddenLine; 2],
    line: &MeasuredLine,
) {
    let Ok(mut table) = table.lock() else { return };
    for (way, told, truth) in [("up", &line.up, &ways[0]), ("down", &line.down, &ways[1])] {
        for (name, right, covers) in verdicts(told, truth) {
            let row = table.entry(name).or_insert([0; 5]);
            row[match right {
                Some(true) => 0,
                Some(false) => 1,
                None => 2,
            }] += 1;
            if let Some(covers) = covers {
                row[if covers { 3 } else { 4 }] += 1;
            }
            let what = match (right, covers) {
                (Some(false), _) => "wrong",
                (None, _) => "unknown",
                (_, Some(false)) => "outside its interval",
                _ => continue,
            };
            let key = name.split([' ', '±']).next().unwrap_or(name);
            let texts = told.texts();
            let told = texts.iter().find(|(word, _)| *word == key).map(|(_, told)| told);
            println!("{seed} {way}: {name} {what}: {}; {told:?}", truth.toml());
        }
    }
}
