//! `quell show --follow`: a run that is watched from another terminal while it is measured.

use crate::support::{TestFolder, says};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};

/// A program that runs, and what it prints.
struct Running(Child, BufReader<ChildStdout>);

impl Running {
    fn begin(dir: &TestFolder, arguments: &[&str]) -> Self {
        let mut command = dir.command(arguments);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped"));
        Running(child, lines)
    }

    /// The next line as an object.
    fn object(&mut self) -> Value {
        let mut line = String::new();
        self.1.read_line(&mut line).expect("it can be read");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).expect("it runs");
    }

    /// The rest of its output and its complaints, once it has ended well.
    fn rest(mut self) -> (String, String) {
        let (mut out, mut error) = (String::new(), String::new());
        self.1.read_to_string(&mut out).expect("it can be read");
        let stderr = self.0.stderr.as_mut().expect("it is piped");
        stderr.read_to_string(&mut error).expect("it can be read");
        assert_eq!(self.0.wait().expect("it ends").code(), Some(0), "{out}{error}");
        (out, error)
    }
}

/// A ping without end that is kept, after its first packets.
fn endless(dir: &TestFolder) -> Running {
    let arguments =
        ["ping", "-m", "tcp", "-i", "20ms", "-t", "a,127.0.0.1:1", "-w", "long", "--json=lines"];
    let mut ping = Running::begin(dir, &arguments);
    for _ in 0..10 {
        ping.object();
    }
    ping
}

#[test]
fn who_follows_is_told_of_a_cells_end_and_of_the_runs_with_what_show_says() {
    let dir = TestFolder::new();
    let ping = endless(&dir);
    let mut show = Running::begin(&dir, &["show", "long", "--follow", "--json"]);
    let start = show.object();
    assert_eq!(
        (&start["event"], &start["measurements"], &start["ended"]),
        (&"start".into(), &1.into(), &0.into())
    );
    ping.signal(Signal::SIGINT);
    let end_of_ping = ping.rest().0;
    let (out, error) = show.rest();
    assert_eq!(error, "");
    let objects: Vec<Value> =
        out.lines().map(|l| serde_json::from_str(l).expect("each line is an object")).collect();
    let [cell, end] = &objects[..] else { panic!("a cell and an end: {out}") };
    assert_eq!(
        (&cell["event"], &cell["status"]),
        (&"measurement".into(), &"stopped".into()),
        "{out}"
    );
    assert_eq!((&end["event"], &end["why"]), (&"end".into(), &"finished".into()), "{out}");
    let mut shown: Value =
        serde_json::from_str(&dir.quell(&["show", "long", "--json"]).fine()).expect("JSON");
    assert_eq!(cell["results"], shown["results"], "{out}");
    (shown["event"], shown["why"]) = ("end".into(), "finished".into());
    assert_eq!(*end, shown);
    // And what the ping itself said of its packets.
    let ping: Value =
        serde_json::from_str(end_of_ping.lines().last().expect("an end")).expect("JSON");
    for figure in ["sent", "received", "jitter_rtt_ms"] {
        let (one, other) = (&ping["streams"][0][figure], &shown["results"][0][figure]);
        let (one, other) = (one.as_f64().expect("a figure"), other.as_f64().expect("a figure"));
        assert!((one - other).abs() <= one.abs() * 1e-11, "{figure}: {one} is not {other}");
    }
}

#[test]
fn in_a_pipe_a_line_tells_of_each_cell_and_the_tables_come_last() {
    let dir = TestFolder::new();
    let ping = endless(&dir);
    let show = Running::begin(&dir, &["show", "long", "-f"]);
    ping.signal(Signal::SIGINT);
    ping.rest();
    let (out, error) = show.rest();
    assert_eq!(error, "");
    let tables = dir.quell(&["show", "long"]).fine();
    assert_eq!(out.strip_suffix(&tables), Some("tcp.ping.0: stopped\n\n"), "{out}");
}

#[test]
fn a_program_that_is_killed_is_told_to_be_gone() {
    let dir = TestFolder::new();
    let ping = endless(&dir);
    let mut show = Running::begin(&dir, &["show", "long", "--follow", "--json"]);
    show.object();
    ping.signal(Signal::SIGKILL);
    let end = show.object();
    assert_eq!((&end["why"], &end["complete"]), (&"writer-gone".into(), &false.into()), "{end:#}");
    assert!(end["results"][0]["sent"].as_u64() >= Some(9), "{end:#}");
    let (_, error) = show.rest();
    assert_eq!(error, "");
    let shown = Running::begin(&dir, &["show", "long", "--follow"]);
    says(&shown.rest().1, &["the program that wrote runs/", "-long is gone"]);
}

#[test]
fn ctrl_c_ends_the_following_and_not_the_run() {
    let dir = TestFolder::new();
    let mut ping = endless(&dir);
    let mut show = Running::begin(&dir, &["show", "long", "--follow", "--json"]);
    show.object();
    show.signal(Signal::SIGINT);
    let end = show.object();
    assert_eq!((&end["event"], &end["why"]), (&"end".into(), &"stopped".into()), "{end:#}");
    show.rest();
    assert_eq!(ping.object()["event"], "packet", "it goes on");
    ping.signal(Signal::SIGINT);
    ping.rest();
}
