//! Whether `quell twin choose` finds by halving what all candidates in its longest round would have told: what its choice is worth there, beside the
//! best.

use crate::options::BenchOptions;
use crate::stats::Scratch;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Rate and buffer, up and down.
const LINES: [[&str; 4]; 3] = [
    ["1 Mbit/s", "60 packets", "4 Mbit/s", "100 kB"],
    ["2 Mbit/s", "80 packets", "8 Mbit/s", "250 kB"],
    ["10 Mbit/s", "300 packets", "50 Mbit/s", "300 packets"],
];

/// The candidates of its last round, the best first.
fn tried(quell: &Path, folder: &Scratch, more: &[&str]) -> Result<Vec<Value>, String> {
    let output = Command::new(quell)
        .args(["twin", "choose", "--json"])
        .args(more)
        .current_dir(folder.path())
        .output()
        .map_err(|e| e.to_string())?;
    let said: Result<Value, _> = serde_json::from_slice(&output.stdout);
    let trials = said.ok().and_then(|said| said["best_first"].as_array().cloned());
    trials.ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

pub fn bench(options: &BenchOptions) -> Result<(), String> {
    let quell = std::fs::canonicalize(&options.quell).map_err(|e| e.to_string())?;
    for [up, up_buffer, down, down_buffer] in LINES {
        let folder = Scratch::new()?;
        let way = |rate, buffer| {
            format!(
                "rate = {{ value = \"{rate}\" }}\ndelay = {{ value = \"10 ms\" }}\nbuffer = {{ value = \"{buffer}\" }}\n"
            )
        };
        let (up_way, down_way) = (way(up, up_buffer), way(down, down_buffer));
        let line = format!("version = 1\n[up]\n{up_way}[down]\n{down_way}");
        std::fs::write(folder.path().join("line.toml"), line).map_err(|e| e.to_string())?;
        for purpose in ["call", "page", "bulk", "all"].into_iter().filter(|one| options.has(one)) {
            let begun = Instant::now();
            let few = tried(&quell, &folder, &["--for", purpose])?;
            let seconds = begun.elapsed().as_secs();
            let all = tried(&quell, &folder, &["--for", purpose, "--whole-grid"])?;
            let chosen = few.first().ok_or("nothing was chosen")?;
            let is_it = |one: &&Value| ["policy", "percent"].iter().all(|k| one[k] == chosen[k]);
            let worth = |one: &Value| one["worth"].as_f64().unwrap_or(0.0);
            let best = all.iter().map(worth).fold(0.0, f64::max);
            let share = 100.0 * all.iter().find(is_it).map_or(0.0, worth) / best;
            println!(
                "{up} up, {down} down, {purpose}: {} at {} %, worth {share:.1} % of the best of {}; {seconds} s",
                chosen["policy"].as_str().unwrap_or_default(),
                chosen["percent"],
                all.len()
            );
        }
    }
    Ok(())
}
