//! What papers and standards published, beside what the lab measures: the files of `papers/`, each with five seeds.
//!
//! ```text
//!   papers/x.toml ──► quell run --json ──► of each `expect`: the mean of its repeats, Student's interval, whether it holds ──► Markdown
//! ```
//!
//! `make papers` prints the whole table, as docs/papers.md has it. QUELL_PAPERS_ONLY names one file.

use super::support::TestFolder;
use quell_stats::{Interval, Rng};
use serde_json::Value;
use std::path::PathBuf;

/// Those that take a second or so.
const QUICK: [&str; 4] = ["incast", "initial-window", "policer", "reno"];

#[test]
fn what_takes_a_second_is_as_published() {
    for paper in QUICK {
        let (rows, held) = measured(paper);
        assert!(held, "{paper}\n{rows}");
    }
}

#[test]
#[ignore = "takes minutes: `make papers`"]
fn the_whole_table() {
    let only = std::env::var("QUELL_PAPERS_ONLY").ok();
    let files = std::fs::read_dir(folder()).expect("the folder is there");
    let name = |path: PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
    let mut papers: Vec<String> = files.filter_map(|f| name(f.ok()?.path())).collect();
    papers.retain(|paper| only.as_ref().is_none_or(|only| only == paper));
    papers.sort();
    println!("| file | published | ours | 95 % interval | agrees |\n|---|---|---|---|---|");
    papers.iter().for_each(|paper| print!("{}", measured(paper).0));
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../papers"))
}

/// A line of the table for each thing that a file expects, and whether all hold.
fn measured(paper: &str) -> (String, bool) {
    let file = folder().join(format!("{paper}.toml"));
    let run = TestFolder::new().quell(&["run", &file.to_string_lossy(), "--json"]);
    let said = String::from_utf8_lossy(&run.stderr);
    let json: Value =
        serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("{paper}: {e}: {said}"));
    assert_eq!(json["complete"], true, "{paper}: {said}");
    let mut rows = String::new();
    for expectation in json["expectations"].as_array().expect("a list") {
        let text = expectation["expect"].as_str().expect("a text");
        let ours = of_repeats(&json, text.split(' ').next().unwrap_or_default());
        let (mean, low, high) = ours.unwrap_or_else(|| panic!("{paper}: no figure for {text}"));
        let agrees = if expectation["held"] == true { "yes" } else { "no" };
        rows += &format!("| {paper} | {text} | {mean:.3} | {low:.3}–{high:.3} | {agrees} |\n");
    }
    (rows, run.status.success())
}

/// The mean of `scenario.stream.metric` over the repeats, in the JSON's unit, with its interval.
fn of_repeats(json: &Value, path: &str) -> Option<(f64, f64, f64)> {
    let mut parts = path.splitn(3, '.');
    let (scenario, stream, metric) = (parts.next()?, parts.next()?, parts.next()?);
    let (key, factor) = match metric {
        "goodput" => ("/goodput_mbps".to_owned(), 1.0),
        "goodput.all" => ("/together_mbps".to_owned(), 1.0),
        "loss" => ("/loss_ratio".to_owned(), 100.0),
        "share" => ("/share".to_owned(), 100.0),
        "retransmits" => ("/retransmits".to_owned(), 1.0),
        rtt => (format!("/rtt_ms/{}", rtt.strip_prefix("rtt.")?), 1.0),
    };
    let rows = json["results"].as_array()?.iter();
    let rows = rows.filter(|row| {
        let name = row["stream"].as_str().unwrap_or_default();
        row["scenario"] == scenario
            && (name == stream || name.starts_with(&format!("{stream}-")))
            && row.pointer(&key).is_some_and(Value::is_number)
    });
    let mut values = std::collections::BTreeMap::<u64, f64>::new();
    for row in rows {
        let value = row.pointer(&key)?.as_f64()? * factor;
        let of_all = values.entry(row["repeat"].as_u64()?).or_default();
        *of_all = if metric == "goodput.all" { value } else { *of_all + value };
    }
    let values: Vec<f64> = values.into_values().collect();
    let interval = Interval::of_mean(&values)?;
    Some((values.iter().sum::<f64>() / values.len() as f64, interval.low, interval.high))
}

/// What a flow of CUBIC carries in the mean at a round trip of 100 ms by RFC 9438's equations, in Mbit/s, where so many packets pass between two losses.
fn cubic(mut distance: impl FnMut() -> f64) -> f64 {
    let (c, rtt, rounds) = (0.4, 0.1, 100_000);
    let (mut window, mut peak, mut start, mut since) = (100.0_f64, 0.0_f64, 100.0, 0.0);
    let (mut left, mut sent) = (distance(), 0.0);
    for _ in 0..rounds {
        sent += window;
        left -= window;
        since += rtt;
        if left <= 0.0 {
            while left <= 0.0 {
                left += distance();
            }
            // Fast convergence: what is below the last peak makes room.
            peak = if window < peak { window * 0.85 } else { window };
            (start, since) = (window * 0.7, 0.0);
            window = start;
            continue;
        }
        let origin = peak.max(start);
        let curve = origin + c * (since - ((origin - start) / c).cbrt()).powi(3);
        // As Reno would grow with CUBIC's back-off.
        let reno = start + since / rtt * 9.0 / 17.0;
        window = window.max(curve).max(reno).min(window * 1.5);
    }
    sent * 1448.0 * 8.0 / (f64::from(rounds) * rtt) / 1e6
}

#[test]
fn cubic_is_as_fast_as_its_equations_say_of_random_losses_not_of_even_ones() {
    let file = folder().join("cubic.toml");
    let args = ["run", &file.to_string_lossy(), "--only", "cubic-0_1_", "--json"];
    let run = TestFolder::new().quell(&args);
    let json: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let (linux, ..) = of_repeats(&json, "cubic-0_1_.bulk.goodput").expect("it was measured");
    let mut seeded = Rng::new(1);
    let (random, even) = (cubic(|| seeded.exp(1000.0)), cubic(|| 1000.0));
    let figures = format!("Linux {linux}, random {random}, even {even}");
    assert!((linux / random - 1.0).abs() < 0.05, "{figures}");
    assert!((even / 4.40 - 1.0).abs() < 0.05 && linux > 1.1 * even, "{figures}");
}
