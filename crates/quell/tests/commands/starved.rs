//! A machine that has no CPU for the program that measures.

use crate::support::program;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long the program is held up.
const HELD_UP: Duration = Duration::from_millis(300);

#[test]
fn a_prober_that_got_no_cpu_says_so_and_its_round_trips_stay_right() {
    // It waits for answers for longer than a busy machine has no CPU for it.
    let arguments = ["ping", "-i", "10ms", "-c", "60", "-W", "20s", "127.0.0.1", "--json=lines"];
    let mut child = program(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut values = Vec::new();
    let mut next = |values: &mut Vec<Value>| match lines.next() {
        Some(line) => {
            let line = line.expect("text");
            values.push(serde_json::from_str::<Value>(&line).expect("each line is an object"));
            true
        }
        None => false,
    };
    // The kernel does not let every user ping; that refusal has its own story.
    while values.len() < 5 {
        if !next(&mut values) {
            assert_eq!(child.wait().expect("it ends").code(), Some(3));
            return;
        }
    }
    let pid = Pid::from_raw(child.id() as i32);
    kill(pid, Signal::SIGSTOP).expect("it is ours");
    let stopped = waitpid(pid, Some(WaitPidFlag::WUNTRACED));
    assert_eq!(stopped, Ok(WaitStatus::Stopped(pid, Signal::SIGSTOP)));
    let until = Instant::now() + HELD_UP;
    while let Some(rest) = until.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(rest);
    }
    kill(pid, Signal::SIGCONT).expect("it is ours");
    while next(&mut values) {}
    assert!(child.wait().expect("it ends").success());

    let packets: Vec<&Value> = values.iter().filter(|v| v["status"] == "ok").collect();
    assert_eq!(packets.len(), 60);
    let end = values.last().expect("an end");
    let stream = &end["streams"][0];
    let late = &stream["left_late"];
    assert!(late["packets"].as_u64() >= Some(1), "{stream:#}");
    assert!(late["max_ms"].as_f64() >= Some(280.0), "{stream:#}");
    // By the kernel's stamps at both ends no packet was on its way while the prober was stopped.
    let worst = stream["rtt_ms"]["max"].as_f64().expect("a round trip");
    assert!(worst < 100.0, "{worst} ms is the prober's wait, not the path's");
}
