//! Somebody alive who leads back when the one who changes things dies, hangs, or is not confirmed.
//!
//! ```text
//!   applier ── a pipe ──► watchdog: a process and a session of its own, no terminal
//!      Begun in the log      ready ──► waits for the pipe's end, or too long
//!      steps                 the log says: nothing of this applier's ──► ends
//!      Applied in the log                  unfinished ──► back; until a time ──► waits for it or a word in the log; confirmed ──► ends
//! ```
//!
//! Which of the two took the steps back does not matter: both do it under the lock, and a second time does nothing.

use crate::steps::Machine;
use crate::{ActError, Lock, Log, Standing, Who, roll_back};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use quell_sys::pidfd;
use quell_sys::wait::{Alarm, came, readable, wait};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// A running watchdog. It takes action when this is dropped, unless the log says that all is well.
#[derive(Debug)]
pub struct Watchdog {
    _pipe: ChildStdin,
    child: Child,
}

impl Watchdog {
    /// Starts one, and waits until it watches. The command is one that calls [`watch`].
    pub fn start(command: Command) -> Result<Self, ActError> {
        let started = start_apart(command);
        let failed =
            |why: String| ActError::NoWatchdog(format!("could not start the watchdog: {why}"));
        started.map(|(pipe, child)| Watchdog { _pipe: pipe, child }).map_err(failed)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Leaves it to what the log says.
    pub fn leave(self) {}

    /// Lets it lead back at once, and waits for that.
    pub(crate) fn lead_back(self) {
        let Watchdog { _pipe: pipe, mut child } = self;
        drop(pipe);
        // How it ended, the log says.
        let _ = child.wait();
    }

    pub fn lives(log: &Log) -> bool {
        Watchdog::holds(&place(log.path(), log.begun.who.pid, log.begun.who.at))
    }

    /// Whether a watchdog keeps this file locked.
    pub(crate) fn holds(path: &Path) -> bool {
        let Ok(file) = File::open(path) else { return false };
        match Flock::lock(file, FlockArg::LockSharedNonblock) {
            Ok(_) => false,
            Err((_, errno)) => errno == nix::errno::Errno::EWOULDBLOCK,
        }
    }
}

impl Log {
    /// How it stands, for people, and whether somebody has to do something: with which command of a tool, as `quell shape`.
    pub fn standing_words(&self, now_ns: u64, tool: &str) -> (String, bool) {
        match self.standing {
            Standing::Confirmed => ("in force".to_owned(), false),
            Standing::Unfinished => {
                let at_work = if Watchdog::lives(self) { ", its watchdog is at it" } else { "" };
                (format!("unfinished{at_work}: {tool} recover"), true)
            }
            Standing::Awaiting(until) if !Watchdog::lives(self) => {
                let gone = until <= now_ns;
                let why = if gone { "not confirmed in time" } else { "its watchdog is gone" };
                (format!("{why}: {tool} recover"), true)
            }
            Standing::Awaiting(until) => {
                let left = until.saturating_sub(now_ns).div_ceil(1_000_000_000);
                (format!("in force for {left}s, unless: {tool} confirm"), false)
            }
        }
    }
}

/// The command of this program that calls [`watch`].
pub const WATCHDOG: &str = "shape-watchdog";

/// This program as a watchdog over a change whose steps must have been taken at `limit_ns` of the monotonic clock.
pub fn own_watchdog(log: &Log, limit_ns: u64) -> Result<Watchdog, ActError> {
    // It changes to another folder; the log itself is not there yet.
    let path = std::path::absolute(log.path()).map_err(|e| ActError::NoWatchdog(e.to_string()))?;
    // Also where the file was replaced since this process was started.
    let mut command = Command::new("/proc/self/exe");
    let who = &log.begun.who;
    let numbers = [who.pid.to_string(), who.at.to_string(), limit_ns.to_string()];
    command.arg(WATCHDOG).arg(path).args(numbers);
    Watchdog::start(command)
}

/// Starts a process that outlives this one: in a session of its own, without a terminal, its input a pipe that ends with the value. It is waited
/// for until it says something on its standard output, that it watches.
pub fn start_apart(mut command: Command) -> Result<(ChildStdin, Child), String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).current_dir("/");
    // SAFETY: setsid(2) is async-signal-safe and allocates nothing.
    unsafe {
        command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(Into::into));
    }
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let (pipe, ready) = (child.stdin.take(), child.stdout.take());
    let (Some(pipe), Some(mut ready)) = (pipe, ready) else {
        return Err("it has no pipes".into());
    };
    match ready.read_exact(&mut [0]) {
        Ok(()) => Ok((pipe, child)),
        Err(_) => {
            let _ = child.wait();
            Err("it ended before it watched".into())
        }
    }
}

/// The file that the watchdog of a change keeps locked as long as it lives. Each has its own, so that none waits for another: a process that
/// changes something twice, too.
fn place(log: &Path, applier: u32, at: u64) -> PathBuf {
    log.with_extension(format!("{applier}-{at}.watch"))
}

/// The namespace of a log, of whose name that is the beginning.
fn namespace_of(log: &Path) -> Option<u64> {
    log.file_name()?.to_str()?.split('-').next()?.parse().ok()
}

/// Takes away what watchdogs left that were killed: files that nobody keeps locked. Nobody starts one while a change's lock is held.
pub(crate) fn sweep(folder: &Path, namespace: u64) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&format!("{namespace}-"))
            && name.ends_with(".watch")
            && !Watchdog::holds(&entry.path())
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// What a watchdog does: until the change of `applier` in the log that is to be at `path` is confirmed or taken back, or was never begun.
/// `at` is when the applier called itself [`Who`], `limit_ns` of the monotonic clock when its steps must have been taken.
pub fn watch(
    path: &Path,
    (applier, at): (u32, u64),
    limit_ns: u64,
    machine: &mut dyn Machine,
) -> Result<(), ActError> {
    let system = |why: String| ActError::System(why);
    let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
    let namespace = namespace_of(path)
        .ok_or_else(|| system(format!("{} is no name of an undo log", path.display())))?;
    let own = place(path, applier, at);
    let mine = |who: &Who| (who.pid, who.at) == (applier, at);
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&own).map_err(|e| system(format!("{}: {e}", own.display())))?;
    let _locked = Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| system(format!("could not lock: {errno}")))?;
    let _gone = Gone(&own);
    let process = pidfd::open(applier).map_err(|e| system(e.to_string()))?;
    let mut alarm = Alarm::new().map_err(|e| system(e.to_string()))?;
    alarm.set(Some(limit_ns)).map_err(|e| system(e.to_string()))?;
    let told = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
        .map_err(|e| system(e.to_string()))?;
    told.add_watch(
        &folder,
        AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_TO,
    )
    .map_err(|e| system(e.to_string()))?;
    let mut out = std::io::stdout();
    out.write_all(b"!").and_then(|()| out.flush()).map_err(|e| system(e.to_string()))?;
    let stdin = std::io::stdin();
    let wait_for = |fds: &mut [nix::poll::PollFd<'_>]| wait(fds).map_err(|e| system(e.to_string()));
    {
        // The pipe has an end when the applier has one, or has done its work.
        let mut fds = [readable(&stdin), readable(&alarm)];
        wait_for(&mut fds)?;
        if !came(&fds[0]) {
            pidfd::kill(&process);
            wait_for(&mut [readable(&stdin)])?;
        }
    }
    let of = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let of = of.split_once('-').map_or("", |(_, device)| device);
    let who = format!("the watchdog of {of} (process {})", std::process::id());
    loop {
        // Without the lock first: whoever has it may have begun another change, and waits for the watchdog of that one.
        if still_mine(path, mine)?.is_none() {
            return Ok(());
        }
        let lock = Lock::wait(&folder, namespace, &who)?;
        let Some(log) = still_mine(path, mine)? else { return Ok(()) };
        let until = match log.standing {
            Standing::Awaiting(until) if until > quell_sys::clock::monotonic_ns() => until,
            _ => return roll_back(machine, log).map(drop),
        };
        drop(lock);
        alarm.set(Some(until)).map_err(|e| system(e.to_string()))?;
        loop {
            let mut fds = [readable(&alarm), readable(&told)];
            wait_for(&mut fds)?;
            // The lock is written in the same folder.
            let events = told.read_events().unwrap_or_default();
            if came(&fds[0]) || events.iter().any(|e| e.name.as_deref() == path.file_name()) {
                break;
            }
        }
    }
}

/// The log, if it is about this change and somebody still has to watch.
fn still_mine(path: &Path, mine: impl Fn(&Who) -> bool) -> Result<Option<Log>, ActError> {
    let log = Log::read(path)?;
    Ok(log.filter(|log| mine(&log.begun.who) && log.standing != Standing::Confirmed))
}

struct Gone<'a>(&'a Path);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        // What is left over is empty, and locked by nobody.
        let _ = std::fs::remove_file(self.0);
    }
}
