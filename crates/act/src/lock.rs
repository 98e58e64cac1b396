//! One at a time: a lock for each network namespace. The kernel lets it go when its holder ends, however that was.
//!
//! ```text
//!   NAMESPACE.lock     a change, from its last look to its end; who comes second is told who the first is
//!   NAMESPACE.classes  whoever makes or takes off classes beside changes, for as long; each change waits for it, and holds it too
//! ```

use crate::ActError;
use crate::undo_log::unread;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use quell_sys::clock::monotonic_ns;
use quell_sys::trusted::TrustedFolder;
use quell_sys::wait::{Alarm, came, readable, wait};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// How long a holder who is about to let go is waited for.
const MOMENT_NS: u64 = 2_000_000_000;

#[derive(Debug)]
pub struct Lock {
    file: Flock<File>,
    _beside: Option<Flock<File>>,
}

impl Lock {
    /// Takes the lock of a namespace. Who has it for a moment, as a watchdog that reads its log, is waited for, two seconds at most.
    pub fn take(folder: &Path, namespace: u64, who: &str) -> Result<Self, ActError> {
        let file = open(folder, namespace, "lock")?;
        let until = monotonic_ns() + MOMENT_NS;
        let path = path_of(folder, namespace, "lock");
        match awaited(file, &path, FlockArg::LockExclusiveNonblock, until)? {
            Ok(file) => Lock::with_dynamic(file, folder, namespace, who),
            Err(holder) => Err(ActError::Busy { holder }),
        }
    }

    /// Keeps changes waiting while logs and kernel are read together; none where nobody ever changed anything. Or who changes something for
    /// longer than anybody waits.
    pub fn shared(folder: &Path, namespace: u64) -> Result<Result<Option<Self>, String>, ActError> {
        let until = monotonic_ns() + MOMENT_NS;
        let mut held = Vec::new();
        for ending in ["lock", "classes"] {
            let path = path_of(folder, namespace, ending);
            // Opened to be written, though it is not: who waits for the lock hears that it is closed.
            let mut options = std::fs::OpenOptions::new();
            let options = options.read(true).write(true).custom_flags(nix::libc::O_NOFOLLOW);
            let file = match options.open(&path) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                other => other.map_err(|e| unread(&path, &e))?,
            };
            match awaited(file, &path, FlockArg::LockSharedNonblock, until)? {
                Ok(file) => held.push(file),
                Err(holder) => return Ok(Err(holder)),
            }
        }
        let beside = held.pop();
        Ok(Ok(held.pop().map(|file| Lock { file, _beside: beside })))
    }

    pub fn wait(folder: &Path, namespace: u64, who: &str) -> Result<Self, ActError> {
        let file = waited_for(open(folder, namespace, "lock")?)?;
        Lock::with_dynamic(file, folder, namespace, who)
    }

    /// Waits until no change is under way, and keeps any from its last look until this is dropped: for classes that come and go beside changes
    /// ([`DynamicClasses`](crate::DynamicClasses)). Nobody is told that it is held, since it is for milliseconds only.
    pub fn beside(folder: &Path, namespace: u64) -> Result<Self, ActError> {
        Ok(Lock { file: waited_for(open(folder, namespace, "classes")?)?, _beside: None })
    }

    fn with_dynamic(
        file: Flock<File>,
        folder: &Path,
        namespace: u64,
        who: &str,
    ) -> Result<Self, ActError> {
        let lock = Lock { file, _beside: None }.signed(who);
        let beside = waited_for(open(folder, namespace, "classes")?)?;
        Ok(Lock { _beside: Some(beside), ..lock })
    }

    /// Who holds it can be read in the file. On a full disk it can't: then the holder is not named, and locked it is all the same.
    fn signed(mut self, who: &str) -> Self {
        let _ = self.file.set_len(0);
        let _ = self.file.seek(SeekFrom::Start(0));
        let _ = self.file.write_all(who.as_bytes());
        self
    }
}

/// The lock, or who has it still at a time of the monotonic clock.
fn awaited(
    mut file: File,
    path: &Path,
    how: FlockArg,
    until: u64,
) -> Result<Result<Flock<File>, String>, ActError> {
    let system = |why: String| ActError::System(format!("could not take a lock: {why}"));
    // Before the first try, so that nobody lets it go unseen.
    let closed = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
        .map_err(|errno| system(errno.to_string()))?;
    closed
        .add_watch(path, AddWatchFlags::IN_CLOSE_WRITE)
        .map_err(|errno| system(errno.to_string()))?;
    let mut patience = Alarm::new().map_err(|e| system(e.to_string()))?;
    patience.set(Some(until)).map_err(|e| system(e.to_string()))?;
    loop {
        file = match Flock::lock(file, how) {
            Ok(file) => return Ok(Ok(file)),
            Err((again, Errno::EWOULDBLOCK | Errno::EINTR)) => again,
            Err((_, errno)) => return Err(system(errno.to_string())),
        };
        let mut fds = [readable(&patience), readable(&closed)];
        wait(&mut fds).map_err(|e| system(e.to_string()))?;
        if came(&fds[0]) {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let holder = holder.trim();
            let known = if holder.is_empty() { "another quell" } else { holder };
            return Ok(Err(known.to_owned()));
        }
        let _ = closed.read_events();
    }
}

fn path_of(folder: &Path, namespace: u64, ending: &str) -> PathBuf {
    folder.join(format!("{namespace}.{ending}"))
}

fn waited_for(mut file: File) -> Result<Flock<File>, ActError> {
    loop {
        match Flock::lock(file, FlockArg::LockExclusive) {
            Ok(file) => return Ok(file),
            Err((again, Errno::EINTR)) => file = again,
            Err((_, errno)) => {
                return Err(ActError::System(format!("could not wait for a lock: {errno}")));
            }
        }
    }
}

fn open(folder: &Path, namespace: u64, ending: &str) -> Result<File, ActError> {
    let failed =
        |e: std::io::Error| ActError::NoLog(format!("could not use {}: {e}", folder.display()));
    TrustedFolder::make(folder, 0o700).map_err(|e| failed(e.into()))?;
    let path = path_of(folder, namespace, ending);
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(nix::libc::O_NOFOLLOW).open(path).map_err(failed)
}
