//! A program that is killed with SIGKILL while it measures, as by the kernel when memory runs out.
#![allow(missing_docs)]

mod common;

use common::{cell, echo, manifest};
use quell_model::{CellStatus, EchoStatus, Event};
use quell_store::{Run, RunState, RunWriter, list};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const BASE: &str = "QUELL_TEST_RUNS";
const NAME: &str = "what_was_appended_before_a_kill_is_there_after_it";

#[test]
fn what_was_appended_before_a_kill_is_there_after_it() {
    if let Ok(base) = std::env::var(BASE) {
        measure_until_killed(Path::new(&base));
    }
    let base = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(BASE, base.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The child says how much it has appended; what it says must be there.
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told = lines.map_while(Result::ok).find_map(|l| l.strip_prefix("appended ")?.parse().ok());
    let told: usize = told.expect("the child appends");
    let running = &list(base.path()).unwrap()[0].state;
    assert!(matches!(running, RunState::Running { complete: 0, cells: 1 }), "{running:?}");
    child.kill().unwrap();
    child.wait().unwrap();

    let runs = list(base.path()).unwrap();
    assert!(matches!(runs[0].state, RunState::Partial { complete: 0, cells: 1 }), "{runs:?}");
    let run = Run::read(&runs[0].folder).unwrap();
    assert!(run.cells[0].echo("ping").unwrap().samples.len() >= told);
    assert_eq!(run.manifest.cells[0].status, CellStatus::Partial);
}

fn measure_until_killed(base: &Path) -> ! {
    let cell = cell("bulk", "ping");
    let writer = RunWriter::create(base, manifest(std::slice::from_ref(&cell))).unwrap();
    let mut journal = writer.journal(&cell).unwrap();
    journal.append(&Event::Begin { cell, seed: 1, kernel: "k".into() }).unwrap();
    for seq in 0..1000 {
        let samples = vec![echo(seq, EchoStatus::Ok)];
        journal.append(&Event::Echo { stream: "ping".into(), samples }).unwrap();
    }
    println!("\nappended 1000");
    // In the midst of measuring: until it is killed, or until the test is gone.
    let _ = std::io::stdin().read_line(&mut String::new());
    std::process::exit(1);
}
