//! Any program as a load: started without a shell, in a process group of its own, its output line by line, ended at its time.
//!
//! ```text
//!   ppoll over   stdout   stderr   pidfd (it ended)   timerfd (its time is over)   bell (stop)
//! ```
//!
//! At its time the group gets SIGTERM, two seconds later SIGKILL; when the program ends, whatever it left behind in its group is killed
//! at once. Should we die, the kernel kills the program.

use crate::{Emit, LoadError};
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use quell_model::Event;
use quell_sys::SysError;
use quell_sys::child::ends_with_us;
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::pidfd;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};

const GRACE_NS: u64 = 2_000_000_000;
/// How long output is still read after the program has ended, from a descendant that left its group.
const DRAIN_NS: u64 = 200_000_000;
/// A longer line is cut into several.
const LONGEST_LINE: usize = 64 * 1024;

#[derive(Debug)]
pub struct PreparedCommand {
    task: String,
    path: PathBuf,
    argv: Vec<String>,
}

impl PreparedCommand {
    /// Finds the program. Errors when there is none of this name.
    pub fn prepare(task: &str, argv: &[String]) -> Result<Self, LoadError> {
        let program =
            argv.first().ok_or_else(|| LoadError::Program("no program was named".into()))?;
        let path = find(program).ok_or_else(|| {
            LoadError::Program(format!(
                "there is no program `{program}` here; install it, or name it with its path"
            ))
        })?;
        Ok(Self { task: task.into(), path, argv: argv.to_vec() })
    }

    /// Runs it from the window's start until it ends, the window's end, or the bell.
    ///
    /// Errors when it can't be started, or ends by itself with a status other than 0 or by a signal.
    pub fn run(self, window: &Window, stop: &Bell, emit: Emit<'_>) -> Result<(), LoadError> {
        let mut alarm = Alarm::new()?;
        alarm.set(Some(window.start_ns))?;
        let mut fds = [readable(stop), readable(&alarm)];
        wait(&mut fds)?;
        if came(&fds[0]) {
            return Ok(());
        }
        let mut running = Running::start(&self)?;
        let status = running.oversee(window, stop, &mut alarm, &self.task, emit)?;
        match status {
            // We ended it: however it took that.
            _ if running.told_to_end => Ok(()),
            status if status.success() => Ok(()),
            status => Err(LoadError::Program(self.complaint(status, &running.last_words))),
        }
    }

    fn complaint(&self, status: ExitStatus, last_words: &VecDeque<String>) -> String {
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with status {code}"),
            (None, Some(signal)) => match Signal::try_from(signal) {
                Ok(signal) => format!("was ended by {signal}"),
                Err(_) => format!("was ended by signal {signal}"),
            },
            (None, None) => "ended in an unknown way".to_owned(),
        };
        let words: Vec<&str> = last_words.iter().map(String::as_str).collect();
        match words.is_empty() {
            true => format!("`{}` {how} and said nothing", self.argv.join(" ")),
            false => format!("`{}` {how}; it said: {}", self.argv.join(" "), words.join(" / ")),
        }
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let runs = |path: &Path| {
        nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok() && path.is_file()
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| runs(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into());
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| runs(path))
}

struct Running {
    child: Child,
    group: Pid,
    ended: OwnedFd,
    told_to_end: bool,
    last_words: VecDeque<String>,
    reaped: bool,
}

struct Pipe<R> {
    from: Option<R>,
    stderr: bool,
    line: Vec<u8>,
}

impl Running {
    fn start(program: &PreparedCommand) -> Result<Self, LoadError> {
        let mut command = std::process::Command::new(&program.path);
        command
            .arg0(&program.argv[0])
            .args(&program.argv[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        ends_with_us(&mut command, Signal::SIGKILL);
        let mut child = command.spawn().map_err(|e| {
            LoadError::Program(format!("starting `{}`: {e}", program.argv.join(" ")))
        })?;
        let pid = child.id() as libc::pid_t;
        let ended = pidfd::open(child.id()).map_err(|error| {
            // Without a way to see its end it can't be overseen.
            let _ = child.kill();
            let _ = child.wait();
            SysError::io("watch a program (pidfd_open needs Linux 5.3)", &error)
        })?;
        Ok(Self {
            child,
            group: Pid::from_raw(pid),
            ended,
            told_to_end: false,
            last_words: VecDeque::new(),
            reaped: false,
        })
    }

    fn oversee(
        &mut self,
        window: &Window,
        stop: &Bell,
        alarm: &mut Alarm,
        task: &str,
        emit: Emit<'_>,
    ) -> Result<ExitStatus, LoadError> {
        let mut out = Pipe { from: self.child.stdout.take(), stderr: false, line: Vec::new() };
        let mut err = Pipe { from: self.child.stderr.take(), stderr: true, line: Vec::new() };
        let mut deadline = window.end_ns();
        let mut status = None;
        loop {
            if status.is_some() && out.from.is_none() && err.from.is_none() {
                break;
            }
            alarm.set(Some(deadline))?;
            let (mut at_out, mut at_err) = (false, false);
            let (stopped, timed, ended);
            {
                let quiet = PollFlags::empty();
                let watch = |open| if open { PollFlags::POLLIN } else { quiet };
                let mut fds = vec![
                    PollFd::new(stop.as_fd(), watch(!self.told_to_end)),
                    readable(&*alarm),
                    PollFd::new(self.ended.as_fd(), watch(status.is_none())),
                ];
                fds.extend(out.from.as_ref().map(readable));
                let err_at = fds.len();
                fds.extend(err.from.as_ref().map(readable));
                wait(&mut fds)?;
                stopped = came(&fds[0]) && !self.told_to_end;
                timed = came(&fds[1]);
                ended = came(&fds[2]) && status.is_none();
                if out.from.is_some() {
                    at_out = came(&fds[3]);
                }
                if err.from.is_some() {
                    at_err = came(&fds[err_at]);
                }
            }
            let mut say = |line: String, stderr: bool| {
                if self.last_words.len() == 3 {
                    self.last_words.pop_front();
                }
                self.last_words.push_back(line.clone());
                emit(Event::Output { task: task.into(), stderr, line });
            };
            if at_out {
                out.read(&mut say);
            }
            if at_err {
                err.read(&mut say);
            }
            if ended {
                // Not waited for yet, so that the group's number can't be another's.
                let _ = killpg(self.group, Signal::SIGKILL);
                status = Some(self.reap()?);
                deadline = monotonic_ns().saturating_add(DRAIN_NS);
            } else if status.is_some() && timed {
                break;
            } else if stopped || (timed && !self.told_to_end) {
                self.told_to_end = true;
                let _ = killpg(self.group, Signal::SIGTERM);
                deadline = monotonic_ns().saturating_add(GRACE_NS);
            } else if timed {
                let _ = killpg(self.group, Signal::SIGKILL);
                deadline = u64::MAX / 2;
            }
        }
        let mut say = |line: String, stderr: bool| {
            emit(Event::Output { task: task.into(), stderr, line });
        };
        out.end(&mut say);
        err.end(&mut say);
        status.ok_or_else(|| LoadError::Program("a program's end was not seen".into()))
    }

    fn reap(&mut self) -> Result<ExitStatus, LoadError> {
        self.reaped = true;
        self.child.wait().map_err(|e| LoadError::Program(format!("waiting for a program: {e}")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = killpg(self.group, Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

impl<R: Read + AsRawFd> Pipe<R> {
    fn read(&mut self, say: &mut dyn FnMut(String, bool)) {
        let Some(from) = &mut self.from else { return };
        let mut bytes = [0; 16 * 1024];
        match from.read(&mut bytes) {
            Ok(0) => self.end(say),
            Ok(got) => {
                for byte in &bytes[..got] {
                    if *byte == b'\n' || self.line.len() >= LONGEST_LINE {
                        self.line_is_whole(say);
                    }
                    if *byte != b'\n' {
                        self.line.push(*byte);
                    }
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => self.end(say),
        }
    }

    fn end(&mut self, say: &mut dyn FnMut(String, bool)) {
        self.from = None;
        if !self.line.is_empty() {
            self.line_is_whole(say);
        }
    }

    fn line_is_whole(&mut self, say: &mut dyn FnMut(String, bool)) {
        let line = String::from_utf8_lossy(&self.line).trim_end_matches('\r').to_owned();
        self.line.clear();
        say(line, self.stderr);
    }
}
