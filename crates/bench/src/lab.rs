//! How fast the lab is: `quell run` as a user would, medians over the rounds.
//!
//! ```text
//!   fast      6 s of one TCP transfer over a line of 100 Mbit/s and 1 Gbit/s, 5 ms, 1000 packets of buffer
//!   home-link all 18 cells of 20 s, side by side
//! ```
//!
//! With `--before`, another `quell`, both are run in turn. CPU time and changes between processes are told too (getrusage of all that was
//! started), since wall time is what a busy machine makes of it.

use crate::options::BenchOptions;
use crate::stats::{Scratch, children, median};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

pub fn bench(options: &BenchOptions) -> Result<(), String> {
    // The runs are only made to be timed.
    let scratch = Scratch::new()?;
    let (rounds, out) = (options.rounds, scratch.path());
    let programs: Vec<&Path> =
        options.before.iter().chain([&options.quell]).map(PathBuf::as_path).collect();
    println!("lab speed, medians of {rounds} rounds");
    let mut jobs: Vec<(String, PathBuf, &[&str])> = Vec::new();
    for rate in ["100Mbit", "1Gbit"] {
        let file = out.join(format!("fast-{rate}.toml"));
        std::fs::write(&file, experiment(rate)).map_err(|e| format!("{}: {e}", file.display()))?;
        let name = format!("6 s at {rate}/s, 5 ms, 1000 packets of buffer, one guest");
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

fn experiment(rate: &str) -> String {
    format!(
        r#"
name = "bench"
duration = "6s"
[topology]
hosts = ["a", "b"]
[[topology.link]]
name = "line"
ends = ["a", "b"]
both = {{ rate = "{rate}", delay = "5ms", buffer = "1000p" }}
[[load]]
name = "bulk"
kind = "tcp"
from = "a"
to = "b"
[[scenario]]
name = "bulk"
loads = ["bulk"]
[[probe]]
name = "ping"
kind = "ping"
from = "a"
to = "b"
interval = "1s"
"#
    )
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
