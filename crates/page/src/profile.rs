//! A browser's folder: for its user alone, and gone with the browser, also where whoever started it was killed.
//!
//! ```text
//!   $TMPDIR/quell-page-XXXXXX/        0700
//!                └─ owner             locked by who made it as long as he lives
//!   the next one ──► whose owner is free, and of this user ──► removed
//! ```
//!
//! In a guest it lies in /run: through /tmp a guest sees what lies in the machine's, which is another at each time, and no lock of it.

use nix::fcntl::{Flock, FlockArg, OFlag};
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use tempfile::TempDir;

const PREFIX: &str = "quell-page-";

/// What who made it keeps locked.
const OWNER: &str = "owner";

/// Longest path of a folder: a browser binds a socket in a folder within it, and a socket's path has 107 bytes (unix(7)).
const LONGEST: usize = 60;

/// Where it lies in a guest: a folder of the guest's own.
const OF_GUESTS: &str = "/run";

/// How often what a browser wrote as it was killed is cleared away.
const TRIES: usize = 100;

/// A folder of a browser's own.
#[derive(Debug)]
pub(crate) struct Profile {
    folder: TempDir,
    _owner: Flock<File>,
}

impl Profile {
    /// Makes one, and removes those whose owners are no more. Where time is virtual, we are in a guest.
    ///
    /// # Errors
    /// In words: nowhere is room for it, or the temporary folder's path is too long.
    pub fn new(is_virtual: bool) -> Result<Self, String> {
        let within = match is_virtual {
            true => OF_GUESTS.into(),
            false => std::env::temp_dir(),
        };
        if within.as_os_str().len() + 1 + PREFIX.len() + 6 > LONGEST {
            return Err(format!(
                "the path of {} is too long for a browser's sockets: set TMPDIR to a shorter one, as /tmp",
                within.display()
            ));
        }
        Self::within(&within).map_err(|e| format!("making a folder for it: {e}"))
    }

    fn within(within: &Path) -> io::Result<Self> {
        sweep(within);
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).permissions(PermissionsExt::from_mode(0o700));
        let folder = builder.tempdir_in(within)?;
        // It has its name only when it is locked: nobody takes a young folder for one that was left.
        let unnamed = folder.path().join("owner.new");
        let mut options = std::fs::OpenOptions::new();
        let owner = options.write(true).create_new(true).mode(0o600).open(&unnamed)?;
        let owner = Flock::lock(owner, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| io::Error::from(errno))?;
        std::fs::rename(&unnamed, folder.path().join(OWNER))?;
        Ok(Self { folder, _owner: owner })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        // A process that is killed ends what it has just begun, be it a new file.
        let gone = |_: &usize| match std::fs::remove_dir_all(self.folder.path()) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        let _ = (0..TRIES).find(gone);
    }
}

/// Removes the folders of this user here whose owners are no more.
fn sweep(within: &Path) {
    let Ok(all) = std::fs::read_dir(within) else { return };
    let ours = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(PREFIX);
    for folder in all.flatten().filter(|entry| ours(&entry.file_name())) {
        let _ = orphan(&folder.path());
    }
}

/// Removes this folder if its owner is no more. What is no folder of this user alone, or has no owner yet, stays; so do links.
fn orphan(folder: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(folder)?;
    let is_ours = found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw();
    if !is_ours || found.mode() & 0o077 != 0 {
        return Ok(());
    }
    let owner = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(folder.join(OWNER))?;
    // Held until the folder is gone: nobody else removes it meanwhile. The file goes last: where what the owner left still writes, the next
    // one tries again.
    let _owner = Flock::lock(owner, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| io::Error::from(errno))?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => std::fs::remove_dir_all(entry.path())?,
            false if entry.file_name() == OWNER => {}
            false => std::fs::remove_file(entry.path())?,
        }
    }
    std::fs::remove_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::DirBuilderExt;
    use std::path::PathBuf;

    fn named(within: &Path, name: &str, mode: u32) -> PathBuf {
        let folder = within.join(format!("{PREFIX}{name}"));
        std::fs::DirBuilder::new().mode(mode).create(&folder).expect("a folder");
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(mode)).expect("its mode");
        folder
    }

    fn owned(folder: &Path) {
        std::fs::write(folder.join(OWNER), "").expect("a file");
    }

    #[test]
    fn it_is_for_its_user_alone_and_gone_with_its_owner() {
        let within = tempfile::tempdir().expect("a folder");
        let one = Profile::within(within.path()).expect("a folder");
        let mode = std::fs::metadata(one.path()).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o700);
        let other = Profile::within(within.path()).expect("another");
        assert!(one.path().is_dir(), "its owner lives");
        let path = one.path().to_owned();
        drop((one, other));
        assert!(!path.exists());
    }

    #[test]
    fn what_somebody_left_who_was_killed_is_removed_and_nothing_else() {
        let (within, elsewhere) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let left = named(within.path(), "left", 0o700);
        owned(&left);
        std::fs::write(left.join("Cookies"), "").expect("a file");
        std::fs::create_dir(left.join("Cache")).expect("a folder");
        std::os::unix::fs::symlink(elsewhere.path(), left.join("link")).expect("a link");
        // Of somebody who has not locked it yet; one that others may write to; a link; one whose owner is a link.
        let young = named(within.path(), "young", 0o700);
        let open = named(within.path(), "open", 0o777);
        owned(&open);
        owned(elsewhere.path());
        let link = within.path().join(format!("{PREFIX}link"));
        std::os::unix::fs::symlink(elsewhere.path(), &link).expect("a link");
        let linked = named(within.path(), "linked", 0o700);
        std::os::unix::fs::symlink(elsewhere.path().join(OWNER), linked.join(OWNER)).expect("one");
        drop(Profile::within(within.path()).expect("a folder"));
        assert!(!left.exists(), "its owner is no more");
        for stays in [&young, &open, &link, &linked, &elsewhere.path().join(OWNER)] {
            assert!(std::fs::symlink_metadata(stays).is_ok(), "{}", stays.display());
        }
    }
}
