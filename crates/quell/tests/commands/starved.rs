//! A machine that has no CPU for the program that measures.

use crate::support::{TestFolder, answer, irtt, program, says};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
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

/// A filter of system calls that answers clone3 with EPERM, as those of some containers do.
fn refuse_clone3() -> std::io::Result<()> {
    let step = |code: u32, jt: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        libc::sock_filter {
            jf: 1,
            ..step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, libc::SYS_clone3 as u32)
        },
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: prctl(2) reads the program, which lives until it returns; both calls are async-signal-safe.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn a_system_that_refuses_threads_is_named_and_nothing_panics() {
    let dir = TestFolder::new();
    for name in ["a.json", "b.json"] {
        dir.write(name, irtt([(1_000, 20), (1_020, 21)].into_iter()));
        dir.quell(&["data", "import", name]).fine();
    }
    let arguments = ["show", "a", "b"];
    let mut command = dir.command(&arguments);
    // SAFETY: between fork and exec it makes two system calls and allocates nothing.
    unsafe { command.pre_exec(refuse_clone3) };
    says(&answer(&mut command, &arguments).refused(3), &["could not start a thread", "clone3"]);
}
