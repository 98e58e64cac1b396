//! One process of ours for an interface: a file beside its undo log, which the process keeps locked as long as it lives, with its number in it.

use crate::CommandError;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use quell_sys::pidfd;
use quell_sys::wait::{Alarm, readable, wait};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;

/// The process that keeps the file locked; none where none does.
pub fn holder(path: &Path) -> Option<u32> {
    let mut file = File::open(path).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Ok(_) => None,
        Err((_, errno)) => (errno == Errno::EWOULDBLOCK).then(|| text.trim().parse().unwrap_or(0)),
    }
}

/// Whether a process that had the file locked was killed, and not ended on purpose, and nobody has taken its place.
pub fn was_killed(path: &Path, process: u32) -> bool {
    let mut text = String::new();
    let read = File::open(path).and_then(|mut file| file.read_to_string(&mut text));
    read.is_ok() && text.trim() == process.to_string() && holder(path).is_none()
}

/// The lock of the process that calls this; with `stand_by` as soon as another one has ended.
pub fn lock(path: &Path, stand_by: bool) -> Result<Flock<File>, CommandError> {
    let failed = |e: std::io::Error| CommandError::system(format!("{}: {e}", path.display()));
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(nix::libc::O_NOFOLLOW);
    loop {
        let file = options.open(path).map_err(failed)?;
        let how = if stand_by { FlockArg::LockExclusive } else { FlockArg::LockExclusiveNonblock };
        let mut locked = match Flock::lock(file, how) {
            Ok(locked) => locked,
            Err((_, Errno::EINTR)) => continue,
            Err((mut file, Errno::EWOULDBLOCK)) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                return Err(CommandError::check(format!(
                    "process {} does that already; --stand-by waits until it ends",
                    text.trim()
                )));
            }
            Err((_, errno)) => return Err(failed(errno.into())),
        };
        // `off` may have taken the file away while this one waited.
        let same = std::fs::metadata(path)
            .is_ok_and(|there| locked.metadata().is_ok_and(|ours| ours.ino() == there.ino()));
        if same {
            let _ = locked.set_len(0);
            let _ = locked.seek(SeekFrom::Start(0));
            let _ = write!(locked, "{}", std::process::id());
            return Ok(locked);
        }
        if stand_by && !path.exists() {
            return Err(CommandError::check("what was in force is off".to_owned()));
        }
    }
}

/// Starts `quell shape COMMAND` for an interface, unless one is there already, and waits until it says that it is.
pub fn start(command: &str, path: &Path, folder: &Path, device: &str) -> Result<(), String> {
    if holder(path).is_some() {
        return Ok(());
    }
    let folder = std::path::absolute(folder).map_err(|e| e.to_string())?;
    // Also where the file was replaced since this process was started.
    let mut process = Command::new("/proc/self/exe");
    process.args(["shape", command, "--dev", device, "--state"]).arg(folder);
    match quell_act::start_apart(process) {
        Ok(_) => Ok(()),
        // Somebody else was faster.
        Err(_) if holder(path).is_some() => Ok(()),
        Err(why) => Err(why),
    }
}

/// Ends the process, which leaves everything as it is. Its number goes first: who watches over it sees that it was ended on purpose.
pub fn end(path: &Path) {
    let Some(process) = holder(path).and_then(|pid| pidfd::open(pid).ok()) else { return };
    let _ = File::options().write(true).open(path).and_then(|file| file.set_len(0));
    pidfd::kill(&process);
    await_end(&process);
}

fn await_end(process: &OwnedFd) {
    if let Ok(mut alarm) = Alarm::new() {
        let _ = alarm.set(Some(quell_sys::clock::monotonic_ns() + 2_000_000_000));
        let _ = wait(&mut [readable(process), readable(&alarm)]);
    }
}

/// Waits until the process whose work is over has ended, two seconds at most, and takes its file away.
pub fn ended(path: &Path) {
    if let Some(process) = holder(path).and_then(|pid| pidfd::open(pid).ok()) {
        await_end(&process);
    }
    let _ = std::fs::remove_file(path);
}
