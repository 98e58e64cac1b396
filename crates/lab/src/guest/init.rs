//! What a guest's first process does first and last: mount what programs expect, and power off.

use nix::errno::Errno;
use nix::libc;
use nix::mount::{MsFlags, mount};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Where the guest finds the host's folder that was shared with it.
pub const SHARED: &str = "/mnt";

/// The folders of a guest's own, which hide this machine's: whoever works in one of them here finds none or another there.
pub const OWN: [&str; 5] = [SHARED, "/dev", "/proc", "/run", "/sys"];

/// The file in the shared folder in which the program says how it went.
pub(super) const END: &str = "end";

#[derive(Debug, thiserror::Error)]
pub enum InitError {
    #[error("mounting {what} on {at} in the guest: {errno}")]
    Mount { what: &'static str, at: &'static str, errno: Errno },
    #[error("making {at} in the guest: {error}")]
    Folder { at: &'static str, error: io::Error },
    #[error("bringing up the guest's loopback device: {0}")]
    Loopback(io::Error),
}

/// Mounts what programs expect on the host's read-only files, and the shared folder on [`SHARED`]; brings up the loopback device;
/// makes sleeps exact. Call it once, as the first process of a guest.
///
/// The folders /run, /tmp and /dev are the guest's own. In /tmp the host's files are seen too, and what the guest writes there is
/// lost with it.
pub fn mount_all() -> Result<(), InitError> {
    put("proc", "/proc", None)?;
    // The kernel process, which resolves this on the host, works in the shared folder.
    put("hostfs", SHARED, Some("/proc/self/cwd"))?;
    put("sysfs", "/sys", None)?;
    match put("devtmpfs", "/dev", None) {
        // The kernel has mounted it by itself (CONFIG_DEVTMPFS_MOUNT).
        Err(InitError::Mount { errno: Errno::EBUSY, .. }) => {}
        result => result?,
    }
    folder("/dev/pts")?;
    put("devpts", "/dev/pts", Some("ptmxmode=0666,mode=0620"))?;
    folder("/dev/shm")?;
    put("tmpfs", "/dev/shm", Some("mode=1777"))?;
    put("tmpfs", "/run", Some("mode=0755"))?;
    own_tmp()?;
    exact_sleeps();
    loopback_up().map_err(InitError::Loopback)
}

fn put(what: &'static str, at: &'static str, options: Option<&str>) -> Result<(), InitError> {
    match mount(Some(what), at, Some(what), MsFlags::empty(), options) {
        // Our kernels mount /dev by themselves.
        Err(nix::errno::Errno::EBUSY) if what == "devtmpfs" => Ok(()),
        other => other.map_err(|errno| InitError::Mount { what, at, errno }),
    }
}

fn folder(at: &'static str) -> Result<(), InitError> {
    match std::fs::create_dir(at) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(InitError::Folder { at, error })
        }
        _ => Ok(()),
    }
}

/// A layer over the host's /tmp, because Quell itself or what a person runs may lie there.
fn own_tmp() -> Result<(), InitError> {
    const WORK: &str = "/run/quell-tmp/work";
    folder("/run/quell-tmp")?;
    folder(UPPER)?;
    folder(WORK)?;
    let layers = format!("lowerdir=/tmp,upperdir={UPPER},workdir={WORK}");
    put("overlay", "/tmp", Some(&layers)).or_else(|_| put("tmpfs", "/tmp", Some("mode=1777")))
}

/// By default a sleep may last 50 µs longer; programs inherit this setting.
fn exact_sleeps() {
    // SAFETY: takes numbers. Without it, sleeps are as long as on a host.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}

fn loopback_up() -> io::Result<()> {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    // SAFETY: takes numbers; a descriptor that it gives is ours.
    let socket = unsafe {
        match libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) {
            -1 => return Err(io::Error::last_os_error()),
            fd => OwnedFd::from_raw_fd(fd),
        }
    };
    // SAFETY: zeroes are a valid request, which is then filled with a name that ends in zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is one for this ioctl and lives longer than the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Says how it went and powers the guest off. `error` is what [`GuestExit::Failed`](super::GuestExit::Failed) tells the host.
pub fn power_off(error: Option<&str>) -> ! {
    // Without it the host learns that the guest ended silently, which is true then.
    let _ = std::fs::write(Path::new(SHARED).join(END), error.unwrap_or(""));
    nix::unistd::sync();
    // Its last line, "System halted", is no news for whoever left a shell; nor is anything else from here on.
    let _ = std::fs::write("/proc/sys/kernel/printk", "0 0 0 0");
    // SAFETY: takes a number. It returns only if this is not the first process of a guest.
    unsafe {
        libc::reboot(libc::RB_POWER_OFF);
    }
    std::process::exit(1)
}

/// Brings what was written to a file to the host, so that it outlives the guest.
///
/// The guest's view of the host's files writes through: what write(2) took, the host has. Only what was changed through a mapping
/// waits, and is sent on its way here, without making the host's disk work as fsync(2) would.
pub fn push(file: &File) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: takes an open descriptor and numbers.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// What lies over the host's /tmp: all that was written there.
const UPPER: &str = "/run/quell-tmp/upper";
/// Most entries that are looked at: who leaves so many has others to be told of.
const MOST: usize = 10_000;

/// A file that was left where it vanishes, as programs named it; none on a host's own kernel, where nothing does.
pub(crate) fn left_file() -> Option<PathBuf> {
    if !Path::new(UPPER).exists() {
        return None;
    }
    let in_tmp = file_in(Path::new(UPPER))
        .map(|file| Path::new("/tmp").join(file.strip_prefix(UPPER).unwrap_or(&file)));
    in_tmp.or_else(|| file_in(Path::new("/dev/shm")))
}

/// The first file with something in it.
fn file_in(folder: &Path) -> Option<PathBuf> {
    let (mut folders, mut looked_at) = (vec![folder.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            looked_at += 1;
            // What was removed stays as a device, and is nothing.
            match entry.metadata() {
                Ok(about) if about.is_dir() => folders.push(entry.path()),
                Ok(about) if about.is_file() && about.len() > 0 => return Some(entry.path()),
                _ if looked_at >= MOST => return None,
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_wherever_it_lies_and_empty_ones_are_no_loss() {
        let folder = std::env::temp_dir().join(format!("quell-vanishing-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("a/b")).expect("a folder");
        std::fs::write(folder.join("a/lock"), "").expect("a file");
        assert_eq!(file_in(&folder), None);
        let file = folder.join("a/b/trace.pcap");
        std::fs::write(&file, "packets").expect("a file");
        assert_eq!(file_in(&folder), Some(file));
        std::fs::remove_dir_all(folder).expect("it is ours");
    }
}
