//! The examples of docs/data.md and of the scientist's page, run as they stand there on a run of `home-link`: what they print is what `quell show --json` has.

use super::support::{TestFolder, near};
use crate::left_out;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// The first block of Python below a heading.
fn example(document: &str, heading: &str) -> String {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    let document = std::fs::read_to_string(document).expect("the document is there");
    let (_, rest) =
        document.split_once(&format!("\n## {heading}\n")).expect("the heading is there");
    let (_, rest) = rest.split_once("```python\n").expect("an example in Python");
    rest.split_once("```").expect("it ends").0.to_owned()
}

/// The Python that `make test` made with these packages; else that of the system, which may have them.
fn interpreter() -> OsString {
    let made = std::env::var_os("QUELL_TEST_PYTHON").filter(|path| Path::new(path).exists());
    made.unwrap_or_else(|| "python3".into())
}

/// What a Python program prints, its words line by line.
fn printed(folder: &TestFolder, arguments: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new(interpreter());
    command.args(arguments).current_dir(folder.path()).stdin(Stdio::null());
    let said = command.output().expect("Python can be started");
    let error = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{arguments:?}: {error}");
    let out = String::from_utf8(said.stdout).expect("UTF-8");
    let words =
        |line: &str| line.split([' ', '│']).filter(|w| !w.is_empty()).map(str::to_owned).collect();
    out.lines().map(words).collect()
}

#[test]
fn what_the_examples_in_python_print_is_what_the_results_say() {
    let packages = "import duckdb, pandas, pyarrow";
    let there = Command::new(interpreter()).args(["-c", packages]).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        return left_out::for_want_of("Python has no duckdb, pandas and pyarrow");
    }
    let folder = TestFolder::new();
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/home-link.toml");
    let home = std::fs::read_to_string(home).expect("the experiment is there");
    let (results, _) = folder.run_to(0, &home, &[]);
    let run = folder.only_run();
    let run = run.to_str().expect("UTF-8");

    folder.file("rtt.py", &example("docs/data.md", "DuckDB"));
    let rows = printed(&folder, &["rtt.py", run]);
    let is_probe = |row: &&Vec<String>| row.len() == 6 && ["ping", "udp"].contains(&&*row[1]);
    assert_eq!(rows.iter().filter(is_probe).count(), 12, "{rows:?}");
    for row in rows.iter().filter(is_probe) {
        let number = |at: usize| row[at].parse::<f64>().expect("a number");
        let result = |figure| results.number(&row[0], &row[1], figure);
        near(number(3), 100.0 * result("loss_ratio"), 0.051);
        near(number(4), result("rtt_ms.p50"), 0.051);
        near(number(5), result("rtt_ms.p99"), 0.051);
    }
    assert!(rows.iter().any(|row| row.join(" ").contains("ns: round-trip time")), "{rows:?}");

    // A scenario and a probe stand in the first of their rows alone.
    folder.file("rate.py", &example("docs/data.md", "pandas"));
    let (mut scenario, mut probe, mut flows) = (String::new(), String::new(), 0);
    for row in printed(&folder, &["rate.py", run]).into_iter().skip(1) {
        if row.len() == 4 {
            scenario.clone_from(&row[0]);
        }
        if row.len() >= 3 {
            probe.clone_from(&row[row.len() - 3]);
        }
        let [.., stream, rate] = &*row else { continue };
        let all = results.json["results"].as_array().expect("results");
        let of = |r: &&serde_json::Value| {
            r["scenario"] == *scenario && r["probe"] == *probe && r["stream"] == **stream
        };
        let wanted = all.iter().find(of).and_then(|r| r["goodput_mbps"].as_f64());
        let wanted = wanted.unwrap_or_else(|| panic!("no {scenario} {probe} {stream}"));
        near(rate.parse().expect("a number"), wanted, 0.02 * wanted + 0.006);
        flows += 1;
    }
    assert_eq!(flows, 30);

    let pings = example("docs/start/scientist.md", "The data").replace("runs/RUN", run);
    folder.file("pings.py", &pings);
    let rows = printed(&folder, &["pings.py"]);
    let medians: Vec<_> =
        rows.iter().filter(|r| r.len() == 2 && r[1].parse::<f64>().is_ok()).collect();
    assert_eq!(medians.len(), 6, "{rows:?}");
    for row in medians {
        let median: f64 = row[1].parse().expect("a number");
        near(median, results.number(&row[0], "ping", "rtt_ms.p50"), 0.051);
    }
}
