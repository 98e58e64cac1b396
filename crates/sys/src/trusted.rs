//! A folder that only root and this user can change: what stands in it was written by one of the two.
//!
//! ```text
//!   / ─► home ─► me ─► runs     each opened within the one before (openat(2), O_NOFOLLOW), never by its whole path
//!    └──────┴─────┴──────┴────  owner: root or this user;  writable by nobody else
//!   /tmp                        others may make names there, and not take ours away (the sticky bit): fine on the way, not at the end
//! ```
//!
//! Whoever can write to a folder on the way can put another one in its place.

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, mkdirat, umask};
use nix::unistd::{getegid, geteuid, mkdtemp};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// Why a folder or a program is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error(
        "{} belongs to another user (uid {owner}), who could change what is done with it; take a folder of your own",
        .path.display()
    )]
    Owner { path: PathBuf, owner: u32 },
    #[error("other users may write to {} (mode {mode:o}); take another folder{}", .path.display(), way_out(.path, *.mode))]
    Writable { path: PathBuf, mode: u32 },
    #[error("could not use {}: {error}", .path.display())]
    System { path: PathBuf, error: io::Error },
}

/// A sticky folder is meant for all. What is in another one may be of others by now.
fn way_out(path: &Path, mode: u32) -> String {
    match mode & 0o1000 {
        0 => format!(", or look at all that is in it, and run: chmod go-w {}", path.display()),
        _ => String::new(),
    }
}

impl From<TrustError> for io::Error {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::System { error, .. } => error,
            other => io::Error::other(other),
        }
    }
}

/// Its path, without links and relative parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedFolder(PathBuf);

impl TrustedFolder {
    /// One that is there, or a file that is.
    pub fn open(path: &Path) -> Result<Self, TrustError> {
        walk(path, None, Sticky::OnTheWay).map(|(path, _)| TrustedFolder(path))
    }

    /// The same, made with this mode where it is not there, with all that leads to it.
    pub fn make(path: &Path, mode: u32) -> Result<Self, TrustError> {
        walk(path, Some(mode), Sticky::OnTheWay).map(|(path, _)| TrustedFolder(path))
    }

    /// The same for whoever makes a name in it that nobody has (mkdir(2)), and reads no other: it may be sticky itself.
    pub fn for_new_names(path: &Path, mode: u32) -> Result<Self, TrustError> {
        walk(path, Some(mode), Sticky::Anywhere).map(|(path, _)| TrustedFolder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// A file of root or this user that nobody else can change, opened for reading; no link, no pipe, no device.
pub fn file(path: &Path) -> Result<File, TrustError> {
    let failed = |error: io::Error| TrustError::System { path: path.to_owned(), error };
    // Without waiting for a pipe's writer (fifo(7)).
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let stat = fstat(&file).map_err(|errno| failed(errno.into()))?;
    if kind(&stat) != SFlag::S_IFREG {
        return Err(failed(io::Error::other("it is no regular file")));
    }
    refuse_others(path, &stat, false)?;
    Ok(file)
}

/// A program that is named for later: nobody else can change it, or put another one there when it is gone. So it is in no sticky folder.
pub fn program(path: &Path) -> Result<PathBuf, TrustError> {
    walk(path, None, Sticky::Nowhere).map(|(path, _)| path)
}

/// A folder of mode 0700 with a name that nobody knew before. It goes with the value.
#[derive(Debug)]
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    pub fn new(prefix: &str) -> Result<Self, TrustError> {
        let within = std::env::temp_dir();
        let path = within.join(format!("{prefix}-XXXXXX"));
        mkdtemp(&path)
            .map(TemporaryFolder)
            .map_err(|errno| TrustError::System { path: within, error: errno.into() })
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// From now on nothing that this process makes can be written by others, whatever whoever started it had asked for.
pub fn keep_others_from_writing() {
    let asked = umask(Mode::from_bits_truncate(0o022));
    umask(asked | Mode::from_bits_truncate(0o022));
}

/// Links that are followed, as many as the kernel does (`MAXSYMLINKS`, linux/namei.h).
const MOST_LINKS: usize = 40;

/// Whom the kernel names where an owner is not of this user namespace (`/proc/sys/kernel/overflowuid`).
pub const NOBODY: u32 = 65_534;

/// Where folders may be in which others may make names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sticky {
    Nowhere,
    OnTheWay,
    Anywhere,
}

/// Goes from `/` to what a path names, and looks at all on the way. `make`: with which mode folders are made that are missing.
fn walk(path: &Path, make: Option<u32>, sticky: Sticky) -> Result<(PathBuf, FileStat), TrustError> {
    let failed = |errno: Errno| TrustError::System { path: path.to_owned(), error: errno.into() };
    let absolute = std::path::absolute(path)
        .map_err(|error| TrustError::System { path: path.to_owned(), error })?;
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let open = |within: &OwnedFd, name: &OsStr| openat(within, name, flags, Mode::empty());
    let root = || openat(AT_FDCWD, "/", flags, Mode::empty()).map_err(failed);
    let mut left: VecDeque<OsString> = names(&absolute).collect();
    let mut way: Vec<(OwnedFd, PathBuf)> = vec![(root()?, PathBuf::from("/"))];
    let mut links = 0;
    loop {
        let (here, at) = way.last().expect("the root is never taken off");
        let there = fstat(here).map_err(failed)?;
        let may_be_sticky = match sticky {
            Sticky::Nowhere => false,
            Sticky::OnTheWay => !left.is_empty(),
            Sticky::Anywhere => true,
        };
        refuse_others(at, &there, may_be_sticky && kind(&there) == SFlag::S_IFDIR)?;
        let Some(name) = left.pop_front() else { return Ok((at.clone(), there)) };
        if name == ".." {
            if way.len() > 1 {
                way.pop();
            }
            continue;
        }
        let found = match (open(here, &name), make) {
            (Err(Errno::ENOENT), Some(mode)) => {
                match mkdirat(here, name.as_os_str(), Mode::from_bits_truncate(mode)) {
                    Ok(()) | Err(Errno::EEXIST) => open(here, &name),
                    Err(errno) => Err(errno),
                }
            }
            (found, _) => found,
        };
        let found = found.map_err(failed)?;
        let named = at.join(&name);
        let stat = fstat(&found).map_err(failed)?;
        if kind(&stat) != SFlag::S_IFLNK {
            way.push((found, named));
            continue;
        }
        // A link has no mode: who made it is all that counts.
        refuse_owner(&named, &stat)?;
        links += 1;
        if links > MOST_LINKS {
            return Err(failed(Errno::ELOOP));
        }
        let target = PathBuf::from(readlinkat(&found, "").map_err(failed)?);
        if target.is_absolute() {
            way.truncate(1);
        }
        names(&target).rev().for_each(|name| left.push_front(name));
    }
}

fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        _ => None,
    })
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

fn refuse_owner(path: &Path, stat: &FileStat) -> Result<(), TrustError> {
    let owner = stat.st_uid;
    // Who is who outside of a user namespace can't be told from within.
    let unknown = owner == NOBODY && in_user_namespace();
    if owner == 0 || owner == geteuid().as_raw() || unknown {
        return Ok(());
    }
    Err(TrustError::Owner { path: path.to_owned(), owner })
}

/// `may_be_sticky`: others may make names there, if they can't take away those of others.
fn refuse_others(path: &Path, stat: &FileStat, may_be_sticky: bool) -> Result<(), TrustError> {
    refuse_owner(path, stat)?;
    let mode = stat.st_mode & 0o7777;
    // Many systems give each user a group of his own.
    let (own, group) = (geteuid().as_raw(), stat.st_gid);
    let by_group = mode & 0o020 != 0 && group != 0 && (group != own || getegid().as_raw() != own);
    let sticky = may_be_sticky && mode & 0o1000 != 0;
    if (by_group || mode & 0o002 != 0) && !sticky {
        return Err(TrustError::Writable { path: path.to_owned(), mode });
    }
    Ok(())
}

/// Whether root here is not the machine's.
pub fn in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    !map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    /// Somebody else on this machine.
    const OTHER: u32 = 4711;

    /// `mine` and `theirs`, `open` and `sticky` to all, as root makes and finds them.
    fn some_folders() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        for (name, mode) in
            [("mine", 0o755), ("theirs", 0o755), ("open", 0o777), ("sticky", 0o1777)]
        {
            fs::create_dir(at(name)).expect("a folder");
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).expect("its mode");
        }
        for name in ["theirs/root", "sticky/root", "sticky/theirs", "open/root"] {
            fs::create_dir(at(name)).expect("a folder");
        }
        for name in ["theirs", "sticky/theirs"] {
            chown(at(name), Some(OTHER), Some(OTHER)).expect("given away");
        }
        for (name, to) in [
            ("good", "mine"),
            ("bad", "theirs/root"),
            ("sticky/link", "../mine"),
            ("round", "round"),
        ] {
            symlink(to, at(name)).expect("a link");
        }
        nix::unistd::fchownat(
            AT_FDCWD,
            &at("sticky/link"),
            Some(OTHER.into()),
            None,
            nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW,
        )
        .expect("given away");
        dir
    }

    #[test]
    fn what_another_user_could_change_is_refused_wherever_it_stands_on_the_way() {
        if !geteuid().is_root() {
            eprintln!("left out: only root gives folders away");
            return;
        }
        let dir = some_folders();
        let said = |name: &str| match TrustedFolder::open(&dir.path().join(name)) {
            Ok(_) => "taken".to_owned(),
            Err(why) => why.to_string(),
        };
        for (name, words) in [
            ("mine", "taken"),
            ("good", "taken"),
            ("mine/../sticky/root", "taken"),
            ("theirs", "belongs to another user (uid 4711)"),
            ("theirs/root", "belongs to another user"),
            ("bad", "belongs to another user"),
            ("sticky/theirs", "belongs to another user"),
            ("sticky/link", "belongs to another user"),
            ("open", "other users may write"),
            ("open/root", "chmod go-w"),
            ("sticky", "other users may write"),
            ("round", "too many levels of symbolic links"),
            ("absent", "no such file"),
        ] {
            assert!(
                said(name).to_lowercase().contains(&words.to_lowercase()),
                "{name}: {}",
                said(name)
            );
        }
        // A folder that is meant for all stays so.
        assert!(!said("sticky").contains("chmod"), "{}", said("sticky"));
        let way = |name: &str| TrustedFolder::for_new_names(&dir.path().join(name), 0o755);
        assert!(way("sticky").is_ok() && way("sticky/new").is_ok() && way("theirs/new").is_err());
        // What is named for later must not be free for others once it is gone.
        let named = |name: &str| program(&dir.path().join(name)).map_err(|e| e.to_string());
        let why = named("sticky/root").expect_err("others could put one there");
        assert!(why.contains("other users may write"), "{why}");
    }

    #[test]
    fn what_is_made_is_for_others_neither_to_write_nor_to_guess() {
        let dir = tempfile::tempdir().expect("a folder");
        let made = TrustedFolder::make(&dir.path().join("a/b"), 0o700).expect("a folder");
        let mode =
            |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o7777;
        assert_eq!((mode(made.path()), mode(&dir.path().join("a"))), (0o700, 0o700));
        let one = TemporaryFolder::new("quell-test").expect("a folder");
        let other = TemporaryFolder::new("quell-test").expect("another");
        assert_eq!((mode(one.path()), one.path() == other.path()), (0o700, false));
        let gone = one.path().to_owned();
        drop(one);
        assert!(!gone.exists());
    }
}
