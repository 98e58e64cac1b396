//! What a kernel process may do on the host: read what its caller can, and write to one folder.
//!
//! ```text
//!   fork ── mounts of its own: read-only, but the folder and a fresh /dev/shm ── of root's rights only reading ── exec
//! ```
//!
//! Whoever is root in a guest can mount the host's files writable, and its kernel process would write; the host refuses it then. That takes
//! Linux 5.12, and root or user namespaces. Where the host has neither, a guest can do to files what its caller can.

use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use nix::unistd::{chdir, getegid, geteuid, write};
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// CAP_DAC_READ_SEARCH (capabilities(7)): root's view of files that are not its own.
const READ_ALL: libc::c_ulong = 2;

const SHM: &CStr = c"/dev/shm";

#[derive(Debug)]
pub(super) struct Confinement {
    dir: CString,
    /// What is written to which file to stay who one is, in a user namespace (user_namespaces(7)).
    identity: [(&'static CStr, String); 3],
}

impl Confinement {
    /// For a kernel process that works in this folder.
    pub fn to(dir: &Path) -> io::Result<Self> {
        let (uid, gid) = (geteuid(), getegid());
        let identity = [
            (c"/proc/self/setgroups", "deny".to_owned()),
            (c"/proc/self/uid_map", format!("{uid} {uid} 1")),
            (c"/proc/self/gid_map", format!("{gid} {gid} 1")),
        ];
        Ok(Self { dir: CString::new(dir.canonicalize()?.as_os_str().as_bytes())?, identity })
    }

    /// Between fork and exec: makes system calls only, and allocates nothing.
    pub fn enter(&self) -> io::Result<()> {
        let is_root = geteuid().is_root();
        let mut flags = CloneFlags::CLONE_NEWNS;
        flags.set(CloneFlags::CLONE_NEWUSER, !is_root);
        if unshare(flags).is_ok() {
            if !is_root {
                self.identify();
            }
            self.keep_from_writing()?;
        }
        if is_root {
            // What exec gives root is in the bounding set. Where there is no right to shrink it, there is little in it.
            for capability in (0..64).filter(|capability| *capability != READ_ALL) {
                prctl(libc::PR_CAPBSET_DROP, capability);
            }
        }
        prctl(libc::PR_SET_NO_NEW_PRIVS, 1);
        Ok(())
    }

    /// Without it files are still its user's; only its name is unknown then.
    fn identify(&self) {
        for (file, text) in &self.identity {
            let _ = open(*file, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())
                .and_then(|file| write(file, text.as_bytes()));
        }
    }

    fn keep_from_writing(&self) -> io::Result<()> {
        const NONE: Option<&CStr> = None;
        let dir = self.dir.as_c_str();
        let own = mount(NONE, c"/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)
            .and_then(|()| mount(Some(dir), dir, NONE, MsFlags::MS_BIND, NONE));
        if own.is_err() {
            return Ok(());
        }
        // For the memory of kernels without our edits; those with them need none.
        let shm = mount(Some(c"tmpfs"), SHM, Some(c"tmpfs"), MsFlags::empty(), NONE);
        if set_attributes(c"/", libc::AT_RECURSIVE, libc::MOUNT_ATTR_RDONLY, 0).is_err() {
            return Ok(());
        }
        if shm.is_ok() {
            set_attributes(SHM, 0, 0, libc::MOUNT_ATTR_RDONLY)?;
        }
        set_attributes(dir, 0, 0, libc::MOUNT_ATTR_RDONLY)?;
        Ok(chdir(dir)?)
    }
}

/// mount_setattr(2), Linux 5.12.
fn set_attributes(at: &CStr, flags: libc::c_int, set: u64, clear: u64) -> io::Result<()> {
    // The third and fourth are propagation and user namespace, which stay.
    let attributes = [set, clear, 0, 0];
    // SAFETY: the path ends with a zero, and the structure has the size that is said.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            at.as_ptr(),
            flags as libc::c_uint,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn prctl(option: libc::c_int, value: libc::c_ulong) {
    let none: libc::c_ulong = 0;
    // SAFETY: neither option has an argument that points to memory. What is refused was not there.
    unsafe {
        libc::prctl(option, value, none, none, none);
    }
}
