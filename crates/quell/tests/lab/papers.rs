//! What papers and standards published, beside what the lab measures: the files of `papers/`, each with five seeds.
//!
//! ```text
//!   papers/x.toml ──► quell run --json ──► of each `expect`: the mean of its repeats, Student's interval, whether it holds ──► Markdown
//! ```
//!
//! `make papers` prints the whole table, as docs/papers.md has it. QUELL_PAPERS_ONLY names one file.

use super::support::TestFolder;
use quell_stats::Interval;
use serde_json::Value;
use std::path::PathBuf;

/// Those that take a second or so.
const QUICK: [&str; 3] = ["initial-window", "policer", "reno"];

/// What all flows of a scenario carry together, at least, in Mbit/s: an `expect` speaks of single flows.
const TOTALS: [(&str, &str, f64); 1] = [("buffers", "hundred-35p", 46.9)];

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
    let mut held = run.status.success();
    for (_, scenario, least) in TOTALS.iter().filter(|total| total.0 == paper) {
        let ours = of_repeats(&json, &format!("{scenario}..goodput"));
        let (mean, low, high) = ours.unwrap_or_else(|| panic!("{paper}: no flows in {scenario}"));
        held &= low > *least;
        let agrees = if low > *least { "yes" } else { "no" };
        rows += &format!(
            "| {paper} | {scenario}, goodput of all > {least}Mbit | {mean:.3} | {low:.3}–{high:.3} | {agrees} |\n"
        );
    }
    (rows, held)
}

/// The mean of `scenario.stream.metric` over the repeats, in the JSON's unit, with its interval.
fn of_repeats(json: &Value, path: &str) -> Option<(f64, f64, f64)> {
    let mut parts = path.splitn(3, '.');
    let (scenario, stream, metric) = (parts.next()?, parts.next()?, parts.next()?);
    let (key, factor) = match metric {
        "goodput" => ("/goodput_mbps".to_owned(), 1.0),
        "loss" => ("/loss_ratio".to_owned(), 100.0),
        "share" => ("/share".to_owned(), 100.0),
        "retransmits" => ("/retransmits".to_owned(), 1.0),
        rtt => (format!("/rtt_ms/{}", rtt.strip_prefix("rtt.")?), 1.0),
    };
    let rows = json["results"].as_array()?.iter();
    let rows = rows.filter(|row| {
        let name = row["stream"].as_str().unwrap_or_default();
        row["scenario"] == scenario
            && (stream.is_empty() || name == stream || name.starts_with(&format!("{stream}-")))
            && row.pointer(&key).is_some_and(Value::is_number)
    });
    let mut values = std::collections::BTreeMap::<u64, f64>::new();
    for row in rows {
        *values.entry(row["repeat"].as_u64()?).or_default() +=
            row.pointer(&key)?.as_f64()? * factor;
    }
    let values: Vec<f64> = values.into_values().collect();
    let interval = Interval::of_mean(&values)?;
    Some((values.iter().sum::<f64>() / values.len() as f64, interval.low, interval.high))
}
