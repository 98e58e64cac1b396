//! A child process until its end: what it says on standard error is taken as it comes, so that it never waits for us, and only the last
//! of it is kept.
//!
//! ```text
//!                  pidfd ┐
//!   stop (eventfd), time ├─ ppoll ──► ended | stopped | late
//!         standard error ┘
//! ```

use quell_sys::last_words::LastWords;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_sys::{clock, pidfd};
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::time::Duration;

#[derive(Debug)]
pub(super) enum ChildEnd {
    /// It ended by itself, and said this last.
    Ended(ExitStatus, String),
    /// It was asked to stop, and ended by force.
    Stopped,
    /// It took too long, and was ended by force.
    Late,
}

/// Waits for a child whose standard error may be a pipe to us.
pub(super) fn attend(mut child: Child, stop: &Bell, limit: Duration) -> io::Result<ChildEnd> {
    let end = until_end(&mut child, stop, limit);
    if !matches!(end, Ok(ChildEnd::Ended(..))) {
        // The kernel ends everything in its namespaces with their first process.
        let _ = child.kill();
        let _ = child.wait();
    }
    end
}

fn until_end(child: &mut Child, stop: &Bell, limit: Duration) -> io::Result<ChildEnd> {
    let ended: OwnedFd = pidfd::open(child.id())?;
    let mut alarm = Alarm::new().map_err(io::Error::other)?;
    let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    let deadline = clock::monotonic_ns().saturating_add(limit).min(i64::MAX as u64);
    alarm.set(Some(deadline)).map_err(io::Error::other)?;
    let mut words = LastWords::of(child.stderr.take())?;
    loop {
        let mut fds = vec![readable(&ended), readable(stop), readable(&alarm)];
        fds.extend(words.pipe().map(readable));
        wait(&mut fds).map_err(io::Error::other)?;
        let came = [came(&fds[0]), came(&fds[1]), came(&fds[2])];
        words.read();
        match came {
            [true, ..] => return Ok(ChildEnd::Ended(child.wait()?, words.last())),
            [_, true, _] => return Ok(ChildEnd::Stopped),
            [_, _, true] => return Ok(ChildEnd::Late),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("every system has a shell")
    }

    #[test]
    fn a_child_that_says_a_megabyte_ends_and_its_last_words_are_kept() {
        let child =
            shell("head -c 1000000 /dev/zero | tr '\\0' x >&2; echo the reason >&2; exit 4");
        let end = attend(child, &Bell::new().unwrap(), Duration::from_secs(300)).unwrap();
        let ChildEnd::Ended(status, words) = end else { panic!("{end:?}") };
        assert_eq!(status.code(), Some(4));
        assert!(
            words.ends_with("xthe reason") && words.len() <= quell_sys::last_words::KEPT,
            "{} bytes",
            words.len()
        );
    }

    #[test]
    fn a_child_is_ended_when_it_is_to_stop_and_when_it_is_late() {
        let bell = Bell::new().unwrap();
        // It ends with this test at the latest.
        let long = format!("exec tail --pid={} -f /dev/null", std::process::id());
        let end = attend(shell(&long), &bell, Duration::from_millis(1)).unwrap();
        assert!(matches!(end, ChildEnd::Late), "{end:?}");
        bell.ring();
        let end = attend(shell(&long), &bell, Duration::from_secs(60)).unwrap();
        assert!(matches!(end, ChildEnd::Stopped), "{end:?}");
    }
}
