//! One at a time: a lock for each network namespace. The kernel lets it go when its holder ends, however that was.

use crate::ActError;
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Held as long as it lives.
#[derive(Debug)]
pub struct Lock {
    file: Flock<File>,
}

impl Lock {
    /// Takes the lock of a namespace. Errors when somebody else has it, and says who.
    pub fn take(folder: &Path, namespace: u64, who: &str) -> Result<Self, ActError> {
        match Flock::lock(open(folder, namespace)?, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Lock { file }.signed(who)),
            Err((mut file, nix::errno::Errno::EWOULDBLOCK)) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let holder = holder.trim();
                let known = if holder.is_empty() { "another quell" } else { holder };
                Err(ActError::Busy { holder: known.to_owned() })
            }
            Err((_, errno)) => Err(ActError::System(format!("could not take a lock: {errno}"))),
        }
    }

    /// Waits until nobody else has it.
    pub fn wait(folder: &Path, namespace: u64, who: &str) -> Result<Self, ActError> {
        let mut file = open(folder, namespace)?;
        loop {
            match Flock::lock(file, FlockArg::LockExclusive) {
                Ok(file) => return Ok(Lock { file }.signed(who)),
                Err((again, nix::errno::Errno::EINTR)) => file = again,
                Err((_, errno)) => {
                    return Err(ActError::System(format!("could not wait for a lock: {errno}")));
                }
            }
        }
    }

    /// Who holds it can be read in the file. On a full disk it can't: then the holder is not named, and locked it is all the same.
    fn signed(mut self, who: &str) -> Self {
        let _ = self.file.set_len(0);
        let _ = self.file.seek(SeekFrom::Start(0));
        let _ = self.file.write_all(who.as_bytes());
        self
    }
}

fn open(folder: &Path, namespace: u64) -> Result<File, ActError> {
    let failed =
        |e: std::io::Error| ActError::NoLog(format!("could not use {}: {e}", folder.display()));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    let path = folder.join(format!("{namespace}.lock"));
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(nix::libc::O_NOFOLLOW).open(path).map_err(failed)
}
