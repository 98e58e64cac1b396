//! Running a program of the build: its output line by line, its end with ours.
//!
//! It has a process group of its own, so that it can be ended with all that it started. It also gets a signal when we are
//! killed; `make` hands that on to its children.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Why a job did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// It could not be started.
    #[error("starting {program}: {error}")]
    Start {
        /// The program.
        program: String,
        /// What the system answered.
        error: std::io::Error,
    },
    /// It ended with another status than success.
    #[error("{program} ended with {status}")]
    Status {
        /// The program.
        program: String,
        /// Its exit status.
        status: ExitStatus,
    },
    /// It took longer than it may.
    #[error("it took longer than {0:?}")]
    TooLong(Duration),
    /// Somebody asked to stop.
    #[error("it was stopped")]
    Cancelled,
}

/// How often a request to stop is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// What a job gets to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// Runs a program to its end and gives each line of its two outputs. Standard input is empty.
pub(super) fn run(
    mut command: Command,
    limit: Duration,
    cancel: Option<&AtomicBool>,
    line: &mut dyn FnMut(&str),
) -> Result<(), JobError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let started = |error| JobError::Start { program: program.clone(), error };
    let (output, input) = std::io::pipe().map_err(started)?;
    let errors = input.try_clone().map_err(started)?;
    command.stdin(Stdio::null()).stdout(input).stderr(errors).process_group(0);
    // SAFETY: only an async-signal-safe system call between fork and exec.
    unsafe {
        command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?));
    }
    let child = command.spawn().map_err(started)?;
    // It holds our ends of the pipe.
    drop(command);
    let mut job = Job(child);
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(output);
        let mut buffer = Vec::new();
        while matches!(lines.read_until(b'\n', &mut buffer), Ok(count) if count > 0) {
            let text = String::from_utf8_lossy(&buffer).trim_end_matches('\n').to_string();
            buffer.clear();
            if send.send(text).is_err() {
                break;
            }
        }
    });
    let deadline = Instant::now() + limit;
    loop {
        if cancel.is_some_and(|c| c.load(Ordering::Relaxed)) {
            return Err(JobError::Cancelled);
        }
        if Instant::now() > deadline {
            return Err(JobError::TooLong(limit));
        }
        match receive.recv_timeout(LOOK) {
            Ok(text) => line(&text),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = job.0.wait().map_err(started)?;
    if status.success() { Ok(()) } else { Err(JobError::Status { program, status }) }
}

/// A process group that ends when it is dropped.
struct Job(Child);

impl Drop for Job {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(Some(_))) {
            return;
        }
        let group = Pid::from_raw(self.0.id().cast_signed());
        // It may end at this moment by itself.
        let _ = killpg(group, Signal::SIGTERM);
        let until = Instant::now() + GRACE;
        while Instant::now() < until && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_of_both_outputs_arrive_and_failure_is_told() {
        let mut seen = Vec::new();
        let script = shell("echo a; echo b >&2; exit 3");
        let result = run(script, Duration::from_secs(10), None, &mut |l| seen.push(l.to_string()));
        assert_eq!(seen, ["a", "b"]);
        assert!(matches!(result, Err(JobError::Status { status, .. }) if status.code() == Some(3)));
    }

    #[test]
    fn a_stopped_job_takes_its_children_with_it() {
        let cancel = AtomicBool::new(false);
        let mut child = None;
        let script = shell("sleep 1000 & echo $!; wait");
        let result = run(script, Duration::from_secs(60), Some(&cancel), &mut |l| {
            child = l.parse::<i32>().ok();
            cancel.store(true, Ordering::Relaxed);
        });
        assert!(matches!(result, Err(JobError::Cancelled)));
        let child = Pid::from_raw(child.unwrap());
        // Nobody may have fetched its status yet, but it does not run.
        let state = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    }

    #[test]
    fn a_job_that_takes_too_long_is_ended() {
        let began = Instant::now();
        let result = run(shell("sleep 1000"), Duration::from_millis(200), None, &mut |_| {});
        assert!(matches!(result, Err(JobError::TooLong(_))));
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}
