//! Running a program of the build: its output line by line, its end with ours.
//!
//! It has a process group of its own, which ends with it: nothing that it started and left there outlives it. It also gets a signal
//! when we are killed; `make` hands that on to its children.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use quell_sys::child::ends_with_us;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_sys::{clock, pidfd};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("starting {program}: {error}")]
    Start { program: String, error: std::io::Error },
    #[error("{program} ended with {status}")]
    Status { program: String, status: ExitStatus },
    #[error("it took longer than {0:?}")]
    TooLong(Duration),
    #[error("waiting for it: {0}")]
    Wait(String),
    #[error("it was stopped")]
    Cancelled,
}

/// What a job gets to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// Runs a program to its end and gives each line of its two outputs. Standard input is empty.
pub(crate) fn run(
    mut command: Command,
    limit: Duration,
    cancel: Option<&Bell>,
    line: &mut dyn FnMut(&str),
) -> Result<(), JobError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let started = |error| JobError::Start { program: program.clone(), error };
    let (mut output, input) = std::io::pipe().map_err(started)?;
    let errors = input.try_clone().map_err(started)?;
    command.stdin(Stdio::null()).stdout(input).stderr(errors).process_group(0);
    ends_with_us(&mut command, Signal::SIGTERM);
    let child = command.spawn().map_err(started)?;
    // It holds our ends of the pipe.
    drop(command);
    let mut job = Job { child, limit, cancel, over: false };
    let ended = pidfd::open(job.child.id()).map_err(started)?;
    let mut alarm = alarm_in(limit).map_err(started)?;
    let (mut buffer, mut rest) = ([0; 16 * 1024], Vec::new());
    loop {
        job.until(&output, &mut alarm)?;
        let count = match output.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read.unwrap_or(0),
        };
        rest.extend_from_slice(&buffer[..count]);
        while let Some(end) = rest.iter().position(|b| *b == b'\n') {
            line(&String::from_utf8_lossy(&rest[..end]));
            rest.drain(..=end);
        }
        if count == 0 {
            break;
        }
    }
    if !rest.is_empty() {
        line(&String::from_utf8_lossy(&rest));
    }
    // It may have closed its output and gone on.
    job.until(&ended, &mut alarm)?;
    let status = job.end().map_err(started)?;
    if status.success() { Ok(()) } else { Err(JobError::Status { program, status }) }
}

/// An alarm for so long after now.
fn alarm_in(span: Duration) -> std::io::Result<Alarm> {
    let mut alarm = Alarm::new().map_err(std::io::Error::other)?;
    let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let deadline = clock::monotonic_ns().saturating_add(span).min(i64::MAX as u64);
    alarm.set(Some(deadline)).map_err(std::io::Error::other)?;
    Ok(alarm)
}

/// A process group that ends when it is dropped.
struct Job<'a> {
    child: Child,
    limit: Duration,
    cancel: Option<&'a Bell>,
    /// Whether it was waited for, after which its number may be another's.
    over: bool,
}

impl Job<'_> {
    /// Ends by force what there is of the group, and waits for the job.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        if !self.over {
            // Nobody may be left in it.
            let _ = killpg(self.group(), Signal::SIGKILL);
        }
        self.over = true;
        self.child.wait()
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Waits until the descriptor has something, but not longer than the job may take, and not if it is to stop.
    fn until(&self, wanted: &impl AsFd, alarm: &mut Alarm) -> Result<(), JobError> {
        let mut fds = vec![readable(wanted), readable(alarm)];
        fds.extend(self.cancel.map(readable));
        wait(&mut fds).map_err(|e| JobError::Wait(e.to_string()))?;
        if fds.get(2).is_some_and(came) {
            return Err(JobError::Cancelled);
        }
        if came(&fds[1]) { Err(JobError::TooLong(self.limit)) } else { Ok(()) }
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        // It may end at this moment by itself.
        let _ = killpg(self.group(), Signal::SIGTERM);
        if let (Ok(ended), Ok(alarm)) = (pidfd::open(self.child.id()), alarm_in(GRACE)) {
            let _ = wait(&mut [readable(&ended), readable(&alarm)]);
        }
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::time::Instant;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_of_both_outputs_arrive_and_failure_is_told() {
        let mut seen = Vec::new();
        let script = shell("echo a; echo b >&2; exit 3");
        let result = run(script, Duration::from_secs(60), None, &mut |l| seen.push(l.to_string()));
        assert_eq!(seen, ["a", "b"]);
        assert!(matches!(result, Err(JobError::Status { status, .. }) if status.code() == Some(3)));
    }

    /// A script whose job starts another process, says its number and goes on with `then`. The other one ends with this test at the latest.
    fn with_another(then: &str) -> Command {
        let pid = std::process::id();
        shell(&format!("tail --pid={pid} -f /dev/null >/dev/null 2>&1 & echo $!; {then}"))
    }

    /// Waits until the other process has ended.
    fn ends(other: OwnedFd) {
        let alarm = alarm_in(Duration::from_secs(60)).unwrap();
        let mut fds = [readable(&other), readable(&alarm)];
        wait(&mut fds).unwrap();
        assert!(came(&fds[0]), "it lives on");
    }

    #[test]
    fn a_stopped_job_takes_its_children_with_it() {
        let cancel = Bell::new().unwrap();
        let mut other = None;
        let result = run(with_another("wait"), Duration::from_secs(60), Some(&cancel), &mut |l| {
            other = Some(pidfd::open(l.parse().unwrap()).unwrap());
            cancel.ring();
        });
        assert!(matches!(result, Err(JobError::Cancelled)));
        ends(other.unwrap());
    }

    #[test]
    fn what_a_job_leaves_behind_ends_with_it_however_it_ends() {
        for (then, status) in [("exit 0", None), ("exit 3", Some(3))] {
            let mut other = None;
            let result = run(with_another(then), Duration::from_secs(60), None, &mut |l| {
                other = Some(pidfd::open(l.parse().unwrap()).unwrap());
            });
            let failed = match result {
                Err(JobError::Status { status, .. }) => status.code(),
                other => other.map(|()| None).unwrap(),
            };
            assert_eq!(failed, status);
            ends(other.unwrap());
        }
    }

    #[test]
    fn a_job_that_takes_too_long_is_ended() {
        let began = Instant::now();
        let result = run(shell("exec sleep 1000"), Duration::from_millis(200), None, &mut |_| {});
        assert!(matches!(result, Err(JobError::TooLong(_))));
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_job_that_closed_its_output_and_goes_on_is_ended_too() {
        let script = shell("exec >&- 2>&-; exec sleep 1000");
        let result = run(script, Duration::from_millis(200), None, &mut |_| {});
        assert!(matches!(result, Err(JobError::TooLong(_))), "{result:?}");
    }
}
