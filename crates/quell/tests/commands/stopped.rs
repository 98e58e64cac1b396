//! What was stopped by hand says so wherever it is told of; what was killed stays partial; old runs are read as they are.

use crate::server::Served;
use crate::support::{TestFolder, says};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

/// Starts what measures, sends the signal once it has told `lines` lines, and waits for its end.
fn ended_by(signal: Signal, dir: &TestFolder, arguments: &[&str], lines: usize) {
    let mut child = dir.command(arguments).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    for _ in 0..lines {
        let mut line = String::new();
        assert_ne!(out.read_line(&mut line).expect("it can be read"), 0, "it goes on");
    }
    kill(Pid::from_raw(child.id() as i32), signal).expect("it runs");
    out.read_to_string(&mut String::new()).expect("it can be read");
    child.wait().expect("it ends");
}

fn json(dir: &TestFolder, arguments: &[&str]) -> Value {
    serde_json::from_str(&dir.quell(arguments).fine()).expect("it is JSON")
}

/// A stopped run is told as such by every command that shows runs.
#[track_caller]
fn is_stopped(dir: &TestFolder) {
    says(&dir.quell(&["show", "--list"]).fine(), &["■ stopped"]);
    assert_eq!(json(dir, &["show", "--list", "--json"])[0]["state"], "stopped");
    let shown = json(dir, &["show", "--json"]);
    assert_eq!((&shown["state"], &shown["complete"]), (&"stopped".into(), &false.into()));
    // Packets of a ping, or bytes of a flow: on a busy machine none of a flow's pings may have been answered by then.
    let kept = |row: &Value| {
        row["sent"].as_u64().is_some_and(|n| n > 0)
            || row["carried_mbps"].as_f64().is_some_and(|rate| rate > 0.0)
    };
    assert!(shown["results"].as_array().expect("rows").iter().any(kept), "{shown:#}");
    says(&dir.quell(&["show"]).fine(), &["STOPPED", "it was stopped after"]);
    dir.quell(&["open", "--no-open", "-o", "page.html"]).fine();
    let page = std::fs::read_to_string(dir.path("page.html")).expect("it was written");
    says(&page, &["■ Stopped.", "<td>■ stopped</td>"]);
}

#[test]
fn a_ping_that_is_stopped_is_not_called_complete() {
    let dir = TestFolder::new();
    let ping = ["ping", "-m", "tcp", "-i", "20ms", "-t", "a,127.0.0.1:1", "-w", "long"];
    ended_by(Signal::SIGINT, &dir, &ping, 5);
    is_stopped(&dir);
}

#[test]
fn a_flow_that_is_stopped_is_not_called_complete() {
    let served = Served::new(&[]);
    let port = served.at.port().to_string();
    let dir = TestFolder::new();
    let flow = ["flow", "127.0.0.1", "-p", &port, "-b", "5M", "-t", "60", "-i", "0.2", "--save"];
    // Two lines of its head, and some intervals.
    ended_by(Signal::SIGTERM, &dir, &flow, 5);
    is_stopped(&dir);
}

#[test]
fn what_is_killed_stays_partial_and_what_came_to_its_end_complete() {
    let dir = TestFolder::new();
    let ping = ["ping", "-m", "tcp", "-i", "20ms", "-t", "a,127.0.0.1:1", "-w", "long"];
    ended_by(Signal::SIGKILL, &dir, &ping, 5);
    says(&dir.quell(&["show", "--list"]).fine(), &["◐ partial"]);
    assert_eq!(json(&dir, &["show", "--json"])["state"], "partial");
    let done = TestFolder::new();
    done.quell(&[&ping[..], &["-c", "3"]].concat()).fine();
    says(&done.quell(&["show", "--list"]).fine(), &["✓ complete"]);
    assert_eq!(json(&done, &["show", "--json"])["state"], "complete");
}

#[test]
fn the_latest_run_is_one_that_came_to_its_end_and_that_is_said() {
    let dir = TestFolder::new();
    let ping = ["ping", "-m", "tcp", "-i", "20ms", "-t", "a,127.0.0.1:1"];
    dir.quell(&[&ping[..], &["-c", "3", "-w", "whole"]].concat()).fine();
    let served = Served::new(&[]);
    let port = served.at.port().to_string();
    let flow = ["flow", "127.0.0.1", "-p", &port, "-b", "5M", "-t", "60", "-i", "0.2", "--save"];
    ended_by(Signal::SIGINT, &dir, &flow, 5);
    for named in [&["show", "--json"][..], &["show", "last", "--json"]] {
        let said = dir.quell(named);
        says(&said.error, &["-flow, did not come to its end", "-whole, the latest that did"]);
        says(&said.out, &["-whole\""]);
    }
    // A ping without an end is whole when somebody ends it.
    ended_by(Signal::SIGINT, &dir, &[&ping[..], &["-w", "open"]].concat(), 5);
    says(&json(&dir, &["show", "--json"])["run"].to_string(), &["-open"]);
}

#[test]
fn a_run_that_is_stopped_while_it_is_made_is_a_run_all_the_same() {
    let dir = TestFolder::new();
    std::fs::create_dir(dir.path("runs")).expect("a folder");
    let changes = Inotify::init(InitFlags::IN_CLOEXEC).expect("inotify");
    changes.add_watch(&dir.path("runs"), AddWatchFlags::IN_CREATE).expect("it is watched");
    let ping = ["ping", "-m", "tcp", "-i", "20ms", "-t", "a,127.0.0.1:1", "--save"];
    let mut child = dir.command(&ping).stdout(Stdio::null()).spawn().expect("it starts");
    // Its folder is there, and nothing is in it yet.
    changes.read_events().expect("its folder");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it runs");
    child.wait().expect("it ends");
    says(&dir.quell(&["show", "--list"]).fine(), &["■ stopped"]);
}
