//! A program that is killed with SIGKILL while it measures, as by the kernel when memory runs out.

use crate::common::{cell, echo, manifest, read_until};
use quell_model::{CellStatus, EchoStatus, Event};
use quell_store::{Run, RunState, RunWriter, Standing, follow, list};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const BASE: &str = "QUELL_TEST_RUNS";
const NAME: &str = "killed::what_was_appended_before_a_kill_is_there_after_it";

/// A program in the midst of measuring, and how much it said it has appended.
fn measuring(base: &Path) -> (Child, usize) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(BASE, base)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told = lines.map_while(Result::ok).find_map(|l| l.strip_prefix("appended ")?.parse().ok());
    (child, told.expect("the child appends"))
}

#[test]
fn what_was_appended_before_a_kill_is_there_after_it() {
    if let Ok(base) = std::env::var(BASE) {
        measure_until_killed(Path::new(&base));
    }
    let base = tempfile::tempdir().unwrap();
    let (mut child, told) = measuring(base.path());
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

#[test]
fn who_follows_a_writer_that_is_killed_is_told_that_it_is_gone() {
    let base = tempfile::tempdir().unwrap();
    let (mut child, told) = measuring(base.path());
    let folder = list(base.path()).unwrap().remove(0).folder;
    let mut follower = follow(&folder).unwrap();
    assert_eq!(follower.read().unwrap(), Standing::Written);
    child.kill().unwrap();
    child.wait().unwrap();
    read_until(&mut follower, Standing::Left);
    assert_eq!(follower.run().cells[0].echo("ping").unwrap().samples.len(), told);
    assert_eq!(*follower.run(), Run::read(&folder).unwrap());
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
