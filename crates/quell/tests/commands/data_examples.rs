//! The examples of docs/data.md, run as they stand there on a run of Quell's own, where Python has the package.

use crate::support::left_out;
use crate::support::{TestFolder, says};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// The first block of Python below a heading.
fn example(heading: &str) -> String {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/data.md");
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

/// What an example prints of an imported run; none where Python or its packages are missing.
fn printed(heading: &str, packages: &str) -> Option<String> {
    let python = |arguments: &[&str], dir: &TestFolder| {
        let mut command = Command::new(interpreter());
        command.args(arguments).current_dir(dir.path(".")).stdin(Stdio::null());
        command.output().ok()
    };
    let dir = TestFolder::new();
    let there = python(&["-c", &format!("import {packages}")], &dir);
    if !there.is_some_and(|said| said.status.success()) {
        left_out::for_want_of(format!("Python has no {packages}"));
        return None;
    }
    dir.write("both.json", include_bytes!("../../../foreign/tests/data/iperf3-bidir.json"));
    dir.write("pings.json.gz", include_bytes!("../../../foreign/tests/data/irtt.json.gz"));
    dir.write("example.py", example(heading));
    let file = if heading == "DuckDB" { "pings.json.gz" } else { "both.json" };
    dir.quell(&["import", file]).fine();
    let run = std::fs::read_dir(dir.path("runs")).expect("runs").next().expect("one");
    let run = run.expect("it can be read").path();
    let said = python(&["example.py", run.to_str().expect("UTF-8")], &dir).expect("it was there");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let (out, error) = (text(said.stdout), text(said.stderr));
    assert!(said.status.success(), "{out}{error}");
    Some(out)
}

#[test]
fn duckdb_reads_the_packets_and_what_their_columns_mean() {
    if let Some(out) = printed("DuckDB", "duckdb") {
        // 25 of 30 packets were answered, in 10.2 ms.
        says(&out, &["irtt", "25", "16.7", "10.", "ns: round-trip time"]);
    }
}

#[test]
fn pandas_reads_the_flows() {
    if let Some(out) = printed("pandas", "pandas, pyarrow") {
        // 671872 bytes in 2.01 s.
        says(&out, &["up-2", "2.67"]);
    }
}
