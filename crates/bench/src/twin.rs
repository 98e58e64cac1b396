//! How well `quell twin learn` tells lines that it can't know: of each, rate, delay, loss, overhead, buffer and queue come from a seed.
//!
//! ```text
//!   seed ──► hidden line ──► quell lab exec (serve at b, twin learn at a) ──► what it tells ──► right, wrong or unknown, a property
//! ```

use crate::hidden_line::HiddenLine;
use crate::options::BenchOptions;
use crate::stats::Scratch;
use quell_series::measured_line::LineOverTime;
use quell_series::{Format, LineSeries};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The seed of the first line; `--only N` begins with another.
const SEED: u64 = 30_000;
/// Lines that are learnt at once.
const JOBS: usize = 2;

/// Learns a hidden line in the lab.
fn told(
    options: &BenchOptions,
    folder: &Scratch,
    seed: u64,
    ways: &[HiddenLine; 2],
) -> Result<LineOverTime, String> {
    let network = format!(
        "name = \"hidden\"\nduration = \"120s\"\n[topology]\nhosts = [\"a\", \"b\"]\n[[topology.link]]\nname = \"line\"\n\
         ends = [\"a\", \"b\"]\nup = {}\ndown = {}\n[[scenario]]\nname = \"s\"\n\
         [[probe]]\nname = \"p\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\n",
        ways[0].toml(),
        ways[1].toml()
    );
    for (name, bytes) in ways.iter().filter_map(HiddenLine::file) {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let file = folder.path().join(format!("{seed}.toml"));
    std::fs::write(&file, network).map_err(|e| format!("{}: {e}", file.display()))?;
    let quell = options.quell.to_string_lossy();
    let output = Command::new(&options.quell)
        .args(["lab", "exec"])
        .arg(&file)
        .args(["a", "--scenario", "s", "--wall-limit", "10min", "--with"])
        .arg(format!("b: {quell} serve --bind 0.0.0.0"))
        .args(["--", "sh", "-c"])
        .arg(format!(
            "{quell} twin learn {{b}} -o /tmp/line.toml --one-clock --json
             for way in up down; do echo @; cat /tmp/line-$way.csv; done"
        ))
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{quell}: {e}"))?;
    let told = String::from_utf8_lossy(&output.stdout);
    let mut parts = told.split("@\n");
    let line = serde_json::from_str(parts.next().unwrap_or_default()).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().find(|line| line.starts_with("quell: "));
        first.unwrap_or("it said nothing").to_owned()
    })?;
    let [up, down] = [(); 2].map(|()| series(parts.next()?));
    Ok(LineOverTime { line, up, down })
}

/// A file of one direction.
fn series(csv: &str) -> Option<LineSeries> {
    let file = Format::Csv.read(csv.as_bytes()).ok()?;
    file.up.or(file.down)
}

pub fn bench(options: &BenchOptions) -> Result<(), String> {
    let first = match options.only.first() {
        Some(seed) => seed.parse().map_err(|_| format!("--only {seed}: not a seed"))?,
        None => SEED,
    };
    let folder = Scratch::new()?;
    let (next, table) = (AtomicUsize::new(0), Mutex::new(Verdicts::default()));
    println!("{} hidden lines, seeds from {first}", options.rounds);
    std::thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                while let Some(at) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < options.rounds)
                {
                    let seed = first + at as u64;
                    let (ways, begun) = (HiddenLine::both(seed), Instant::now());
                    match told(options, &folder, seed, &ways) {
                        Ok(line) => count(&table, seed, &ways, &line),
                        Err(why) => {
                            println!("{seed}: {why}: {}; {}", ways[0].toml(), ways[1].toml());
                            if let Ok(mut table) = table.lock() {
                                table.wrong.insert(seed);
                            }
                        }
                    }
                    let seconds = begun.elapsed().as_secs();
                    eprintln!("line {} of {}: {seconds} s", at + 1, options.rounds);
                }
            });
        }
    });
    let Verdicts { rows, wrong } = table.into_inner().unwrap_or_default();
    println!("{:<26}{:>7}{:>7}{:>9}{:>14}", "", "right", "wrong", "unknown", "in interval");
    for (name, [right, wrong, unknown, inside, outside]) in rows {
        let covered = match inside + outside {
            0 => "–".to_owned(),
            all => format!("{:.0} %", 100.0 * f64::from(inside) / f64::from(all)),
        };
        println!("{name:<26}{right:>7}{wrong:>7}{unknown:>9}{covered:>14}");
    }
    println!("Of {} lines, {} had anything wrong: {wrong:?}", options.rounds, wrong.len());
    Ok(())
}

#[derive(Debug, Default)]
struct Verdicts {
    /// Right, wrong, unknown; inside its interval, outside.
    rows: BTreeMap<&'static str, [u32; 5]>,
    /// Lines of which anything was.
    wrong: BTreeSet<u64>,
}

fn count(table: &Mutex<Verdicts>, seed: u64, ways: &[HiddenLine; 2], told: &LineOverTime) {
    let Ok(mut table) = table.lock() else { return };
    let LineOverTime { line, up, down } = told;
    for (way, told, series, truth) in
        [("up", &line.up, up, &ways[0]), ("down", &line.down, down, &ways[1])]
    {
        for (name, right, covers) in
            truth.verdicts(told, series.as_ref().and_then(|series| series.rate.as_ref()))
        {
            if right == Some(false) {
                table.wrong.insert(seed);
            }
            let row = table.rows.entry(name).or_insert([0; 5]);
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
            let key = name.split([' ', ':']).next().unwrap_or(name);
            let texts = told.texts();
            let told = texts.iter().find(|(word, _)| *word == key).map(|(_, told)| told);
            println!("{seed} {way}: {name} {what}: {}; {told:?}", truth.toml());
        }
    }
}
