//! How fast the lab is.
//!
//! ```text
//!   by rate   one TCP transfer over a line of 1, 2.5, 10, 50, 100 Mbit/s, 20 ms: virtual seconds and packets in a wall second
//!   fast      6 s of the same over a line of 100 Mbit/s and 1 Gbit/s, 5 ms, 1000 packets of buffer
//!   home-link all 18 cells of 20 s, side by side
//!   peer      iperf3 in place of Quell's own load, same line, same kernel: the ratio of wall times
//! ```
//!
//! Everything runs the `quell` program as a user would. Medians over the rounds; the rounds alternate between what is compared. With
//! `--before`, another `quell`, the fast lines and `home-link` are run with both in turn. Of these CPU time and changes between processes are
//! told too (getrusage of all that was started), since wall time is what a busy machine makes of it.

use crate::options::BenchOptions;
use crate::stats::{Scratch, children, median};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const RATES: [(&str, f64); 5] =
    [("1Mbit", 1e6), ("2.5Mbit", 2.5e6), ("10Mbit", 1e7), ("50Mbit", 5e7), ("100Mbit", 1e8)];

/// Measured time of each cell in virtual seconds.
const SECONDS: f64 = 20.0;

/// And of a cell with a fast line.
const FAST_SECONDS: u32 = 6;

/// Bytes of a full frame on the line, Ethernet header included.
const FRAME: f64 = 1514.0;

pub fn bench(options: &BenchOptions) -> Result<(), String> {
    // The runs are only made to be timed.
    let out = Scratch::new()?;
    let (quell, rounds) = (options.quell.as_path(), options.rounds);
    match &options.before {
        Some(before) => compare(&[before, quell], rounds, out.path()),
        None => all(quell, rounds, out.path()),
    }
}

fn all(quell: &Path, rounds: usize, out: &Path) -> Result<(), String> {
    println!("lab speed, medians of {rounds} rounds; one guest at a time unless said otherwise\n");
    println!("{:>9}  {:>12}  {:>14}  {:>14}", "line", "wall", "virtual/wall", "packets/wall s*");
    for (rate, bps) in RATES {
        let file = out.join(format!("{rate}.toml"));
        write(&file, &experiment(&BenchLine::slow(rate), None))?;
        let mut times = Vec::new();
        for _ in 0..rounds {
            times.push(run(quell, &file, out, &["--jobs", "1"])?.wall);
        }
        let wall = median(&times);
        // Calculated, not counted: full frames one way and an acknowledgement for each second one back.
        let packets = bps / 8.0 / FRAME * SECONDS * 1.5;
        println!("{rate:>9}  {wall:>10.2} s  {:>14.1}  {:>14.0}", SECONDS / wall, packets / wall);
    }
    println!(
        "* calculated from the rate: full frames, and an acknowledgement for each second one\n"
    );
    compare(&[quell], rounds, out)?;
    peer(quell, rounds, out)
}

/// What is fast or many, each program in its turn.
fn compare(programs: &[&Path], rounds: usize, out: &Path) -> Result<(), String> {
    let mut jobs: Vec<(String, PathBuf, &[&str])> = Vec::new();
    for rate in ["100Mbit", "1Gbit"] {
        let file = out.join(format!("fast-{rate}.toml"));
        write(&file, &experiment(&BenchLine::fast(rate), None))?;
        let name = format!("{FAST_SECONDS} s at {rate}/s, 5 ms, 1000 packets of buffer, one guest");
        jobs.push((name, file, &["--jobs", "1"]));
    }
    let name = "home-link: 18 cells of 20 s (428 virtual s), all CPUs".to_owned();
    jobs.push((name, "home-link".into(), &[]));
    for (name, file, options) in jobs {
        let mut costs = vec![Vec::new(); programs.len()];
        for _ in 0..rounds {
            for (program, costs) in programs.iter().zip(&mut costs) {
                costs.push(run(program, &file, out, options)?);
            }
        }
        println!("{name}");
        let medians: Vec<RunCost> = costs.iter().map(|c| RunCost::median(c)).collect();
        for (cost, which) in medians.iter().zip(["before", "now"].iter().skip(2 - medians.len())) {
            let RunCost { wall, cpu, changes } = cost;
            println!(
                "{which:>9}  {wall:>7.2} s wall  {cpu:>7.2} s CPU  {changes:>8.0} changes between processes"
            );
        }
        if let [before, now] = &medians[..] {
            let (wall, cpu) = (before.wall / now.wall, before.cpu / now.cpu);
            println!("{:>9}  {wall:>7.1}         {cpu:>7.1}", "times");
        }
    }
    Ok(())
}

/// The same transfer by iperf3 in the same guest kernel.
fn peer(quell: &Path, rounds: usize, out: &Path) -> Result<(), String> {
    let has = Command::new("iperf3").arg("--version").stdout(Stdio::null()).status();
    if !has.is_ok_and(|s| s.success()) {
        println!("\niperf3 is not installed; no comparison");
        return Ok(());
    }
    let ours = out.join("ours.toml");
    let theirs = out.join("theirs.toml");
    let line = BenchLine::slow("10Mbit");
    write(&ours, &experiment(&line, None))?;
    write(&theirs, &experiment(&line, Some(&line.seconds.to_string())))?;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        a.push(run(quell, &ours, out, &["--jobs", "1"])?.wall);
        b.push(run(quell, &theirs, out, &["--jobs", "1"])?.wall);
    }
    let (a, b) = (median(&a), median(&b));
    println!(
        "\nthe same 20 s at 10 Mbit/s: Quell's load {a:.2} s, iperf3 {b:.2} s of wall time; ratio {:.2}",
        b / a
    );
    Ok(())
}

/// A line, and how long it is measured.
struct BenchLine<'a> {
    rate: &'a str,
    delay: &'a str,
    buffer: &'a str,
    seconds: u32,
}

impl<'a> BenchLine<'a> {
    fn slow(rate: &'a str) -> Self {
        Self { rate, delay: "10ms", buffer: "100p", seconds: SECONDS as u32 }
    }

    fn fast(rate: &'a str) -> Self {
        Self { rate, delay: "5ms", buffer: "1000p", seconds: FAST_SECONDS }
    }
}

fn experiment(line: &BenchLine<'_>, iperf3: Option<&str>) -> String {
    let BenchLine { rate, delay, buffer, seconds } = line;
    let load = match iperf3 {
        None => "[[load]]\nname = \"bulk\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\n".to_string(),
        Some(seconds) => format!(
            "[[load]]\nname = \"bulk\"\nkind = \"command\"\non = \"a\"\nrun = [\"iperf3\", \"-c\", \"{{b}}\", \"-t\", \"{seconds}\"]\n\
             start = \"100ms\"\n\
             [[load]]\nname = \"server\"\nkind = \"command\"\non = \"b\"\nrun = [\"iperf3\", \"-s\", \"-1\"]\n"
        ),
    };
    format!(
        "name = \"bench\"\nduration = \"{seconds}s\"\n\
         [topology]\nhosts = [\"a\", \"b\"]\n\
         [[topology.link]]\nname = \"line\"\nends = [\"a\", \"b\"]\n\
         both = {{ rate = \"{rate}\", delay = \"{delay}\", buffer = \"{buffer}\" }}\n\
         {load}\
         [[scenario]]\nname = \"bulk\"\nloads = [\"bulk\"{}]\n\
         [[probe]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\ninterval = \"1s\"\n",
        if iperf3.is_some() { ", \"server\"" } else { "" }
    )
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// What a run took, of the program and all that it started.
#[derive(Clone, Copy)]
struct RunCost {
    /// Seconds.
    wall: f64,
    /// Seconds of all CPUs.
    cpu: f64,
    /// How often a process gave the CPU away.
    changes: f64,
}

impl RunCost {
    /// The median of each.
    fn median(costs: &[RunCost]) -> RunCost {
        let of = |part: fn(&RunCost) -> f64| median(&costs.iter().map(part).collect::<Vec<_>>());
        RunCost { wall: of(|c| c.wall), cpu: of(|c| c.cpu), changes: of(|c| c.changes) }
    }
}

fn run(quell: &Path, experiment: &Path, out: &Path, options: &[&str]) -> Result<RunCost, String> {
    let before = children();
    let begun = Instant::now();
    let done = Command::new(quell)
        .arg("run")
        .arg(experiment)
        .arg("--out")
        .arg(out.join("runs"))
        .args(options)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{}: {e}", quell.display()))?;
    let wall = begun.elapsed().as_secs_f64();
    let after = children();
    if done.status.success() {
        return Ok(RunCost { wall, cpu: after.0 - before.0, changes: after.1 - before.1 });
    }
    Err(format!("{}: {}", experiment.display(), String::from_utf8_lossy(&done.stderr)))
}
