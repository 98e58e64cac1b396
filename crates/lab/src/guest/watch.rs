//! Watching over a guest: a thread that waits for its end, or ends it when its time is over.
//!
//! The thread starts the kernel process and stays until that has ended, because the kernel process is killed with the *thread* that
//! started it (PR_SET_PDEATHSIG), and so with the whole program.

use super::{BootError, GuestSpec};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use quell_sys::wait::{Alarm, came, readable, wait};
use quell_sys::{clock, pidfd};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestExit {
    /// It powered off, and its program was content.
    Clean,
    /// Its program gave up and said why.
    Failed {
        why: String,
    },
    /// It powered off without its program having said how it went.
    Silent,
    /// The kernel panicked: a fault of the kernel's, or its first process ended.
    Panicked {
        /// The kernel's last words.
        console: String,
    },
    /// The kernel process gave up before it had booted.
    Broke {
        code: i32,
        console: String,
    },
    Killed {
        signal: i32,
    },
    /// It was still running at its limit, and was ended.
    TimedOut {
        limit: Duration,
    },
}

impl std::fmt::Display for GuestExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GuestExit::Clean => f.write_str("the guest powered off"),
            GuestExit::Failed { why } => f.write_str(why),
            GuestExit::Silent => f.write_str("the guest powered off before its program was done"),
            GuestExit::Panicked { console } => {
                write!(f, "the guest kernel panicked: {}", last_words(console))
            }
            GuestExit::Broke { code, console } => {
                write!(f, "the guest kernel ended with {code}: {}", last_words(console))?;
                match is_untraced(console) {
                    true => f.write_str(PTRACE),
                    false => Ok(()),
                }
            }
            GuestExit::Killed { signal } => match Signal::try_from(*signal) {
                Ok(signal) => write!(f, "the guest was killed by {signal}"),
                Err(_) => write!(f, "the guest was killed by signal {signal}"),
            },
            GuestExit::TimedOut { limit } => write!(
                f,
                "the guest still ran after {} s and was ended; does a program in it spin instead of waiting? \
                 Virtual time does not pass while a program computes. Or it lacks memory: --memory gives it more",
                limit.as_secs_f64()
            ),
        }
    }
}

/// Whether a kernel process gave up because it may not trace (`check_ptrace`, arch/um/os-Linux/start_up.c).
fn is_untraced(console: &str) -> bool {
    console.contains("check_ptrace") || console.contains("ptrace: ")
}

/// What to do where a kernel process could not start since it may not trace: it runs each program of the guest that way.
const PTRACE: &str = "\na user-mode kernel needs ptrace(2), and this system forbids it. In a container, allow it: \
     --cap-add SYS_PTRACE, or a seccomp profile with ptrace. Elsewhere, look at /proc/sys/kernel/yama/ptrace_scope: \
     0 and 1 allow it, 2 and 3 do not, 3 until the next boot. Or do without the guest: --kernel host";

/// The line that says why, or else the last one.
fn last_words(console: &str) -> &str {
    let mut lines = console.lines().map(str::trim).filter(|l| !l.is_empty());
    let panic = lines.clone().find(|l| l.contains("Kernel panic"));
    panic.or_else(|| lines.next_back()).unwrap_or("it said nothing")
}

/// A guest that runs. It is ended when this is dropped.
#[derive(Debug)]
pub struct Guest {
    process: Arc<OwnedFd>,
    pid: i32,
    end: Receiver<io::Result<GuestExit>>,
    exit: Option<GuestExit>,
}

impl Guest {
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits for its end; at the latest at its limit it is over.
    pub fn wait(&mut self) -> io::Result<GuestExit> {
        if let Some(exit) = &self.exit {
            return Ok(exit.clone());
        }
        let exit = self.end.recv().map_err(|_| lost())??;
        Ok(self.exit.insert(exit).clone())
    }

    /// Ends it and everything in it, and waits until that is done.
    pub fn kill(&mut self) {
        pidfd::kill(&*self.process);
        // What is left to learn is that it has ended.
        let _ = self.wait();
    }
}

impl AsFd for Guest {
    /// Readable once the kernel process has ended; [`Guest::wait`] then does not wait long.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}

fn lost() -> io::Error {
    io::Error::other("nobody watches over the guest any more")
}

pub(super) fn start(
    command: Command,
    kernel: PathBuf,
    spec: &GuestSpec,
    console: Option<File>,
    word: PathBuf,
) -> Result<Guest, BootError> {
    let limit = spec.wall_limit;
    let (tell, told) = mpsc::channel();
    let (send, end) = mpsc::channel();
    let watch = move || {
        let mut command = command;
        let spawned = command.spawn().and_then(|mut child| match pidfd::open(child.id()) {
            Ok(process) => Ok((child, Arc::new(process))),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        });
        // It holds descriptors that only the child needs.
        drop(command);
        let (mut child, process) = match spawned {
            Ok(spawned) => spawned,
            Err(error) => {
                let _ = tell.send(Err(error));
                return;
            }
        };
        let _ = tell.send(Ok((child.id().cast_signed(), Arc::clone(&process))));
        let exit = watch(&mut child, &process, limit).map(|(status, timed_out)| {
            if timed_out {
                return GuestExit::TimedOut { limit };
            }
            let console = console.map(tail).unwrap_or_default();
            judge(status, console, &word)
        });
        let _ = send.send(exit);
    };
    std::thread::Builder::new().name("guest".into()).spawn(watch).map_err(BootError::Watch)?;
    match told.recv() {
        Ok(Ok((pid, process))) => Ok(Guest { process, pid, end, exit: None }),
        Ok(Err(error)) => Err(BootError::Start { path: kernel, error }),
        Err(_) => Err(BootError::Watch(lost())),
    }
}

/// Waits for the process until the limit; then ends it. Says whether the limit was reached.
fn watch(child: &mut Child, process: &OwnedFd, limit: Duration) -> io::Result<(ExitStatus, bool)> {
    let waited = until(process, limit);
    if !matches!(waited, Ok(true)) {
        pidfd::kill(process);
    }
    wait(&mut [readable(process)]).map_err(io::Error::other)?;
    // Its processes end with it, but for one that was just being forked: nobody traced it yet. They are a group of their own, whose number
    // nobody else gets before the child is waited for.
    let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
    let status = child.wait()?;
    Ok((status, !waited?))
}

/// Whether the process ended before the limit.
fn until(process: &OwnedFd, limit: Duration) -> io::Result<bool> {
    let mut alarm = Alarm::new().map_err(io::Error::other)?;
    let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    // A timer counts up to the largest signed number.
    let deadline = clock::monotonic_ns().saturating_add(limit).min(i64::MAX as u64);
    alarm.set(Some(deadline)).map_err(io::Error::other)?;
    let mut fds = [readable(process), readable(&alarm)];
    wait(&mut fds).map_err(io::Error::other)?;
    Ok(came(&fds[0]))
}

fn judge(status: ExitStatus, console: String, word: &Path) -> GuestExit {
    match (status.code(), status.signal()) {
        (Some(0), _) => match std::fs::read_to_string(word) {
            Ok(why) if why.is_empty() => GuestExit::Clean,
            Ok(why) => GuestExit::Failed { why },
            Err(_) => GuestExit::Silent,
        },
        // A user-mode kernel that panics aborts.
        (_, Some(signal)) if signal == Signal::SIGABRT as i32 => GuestExit::Panicked { console },
        (Some(_), _) if console.contains("Kernel panic") => GuestExit::Panicked { console },
        (Some(code), _) => GuestExit::Broke { code, console },
        (None, signal) => GuestExit::Killed { signal: signal.unwrap_or(0) },
    }
}

/// The end of what the kernel process wrote.
fn tail(mut console: File) -> String {
    const LENGTH: u64 = 16 * 1024;
    let mut bytes = Vec::new();
    let length = console.metadata().map_or(0, |m| m.len());
    if console.seek(SeekFrom::Start(length.saturating_sub(LENGTH))).is_ok() {
        // Half a message is better than none.
        let _ = console.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc;
    use std::process::Stdio;

    #[test]
    fn what_a_guest_leaves_in_its_group_ends_with_it() {
        use std::os::unix::process::CommandExt;
        // Should it live on, it ends with the pipe to it, and so with this test.
        let mut leader = Command::new("sh");
        leader.args(["-c", "exec 3<&0; cat <&3 &"]).process_group(0);
        leader.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = leader.spawn().unwrap();
        let _held = child.stdin.take();
        let left = OwnedFd::from(child.stdout.take().unwrap());
        let process = pidfd::open(child.id()).unwrap();
        let (_, timed_out) = watch(&mut child, &process, Duration::from_secs(600)).unwrap();
        assert!(!timed_out);
        // The pipe ends with the last who could write to it.
        assert!(until(&left, Duration::from_secs(60)).unwrap(), "the one left behind lives on");
    }

    #[test]
    fn a_panic_is_told_by_its_line() {
        let console = "a\nKernel panic - not syncing: Attempted to kill init!\nCPU: 0\n";
        let exit = GuestExit::Panicked { console: console.into() };
        assert!(exit.to_string().ends_with("Attempted to kill init!"), "{exit}");
        let exit = GuestExit::Broke { code: 1, console: "no memory\n\n".into() };
        assert!(exit.to_string().ends_with("no memory"), "{exit}");
    }

    #[test]
    fn exit_statuses_are_told_apart() {
        let word = std::env::temp_dir().join(format!("quell-word-{}", std::process::id()));
        let of = |raw| judge(ExitStatus::from_raw(raw), String::new(), &word);
        assert_eq!(of(0), GuestExit::Silent);
        std::fs::write(&word, "").unwrap();
        assert_eq!(of(0), GuestExit::Clean);
        std::fs::write(&word, "no such host").unwrap();
        assert_eq!(of(0), GuestExit::Failed { why: "no such host".into() });
        assert_eq!(of(libc::SIGABRT), GuestExit::Panicked { console: String::new() });
        assert_eq!(of(libc::SIGKILL), GuestExit::Killed { signal: libc::SIGKILL });
        assert_eq!(of(1 << 8), GuestExit::Broke { code: 1, console: String::new() });
        std::fs::remove_file(&word).unwrap();
    }
}
