//! Network namespaces: a network stack of one's own, with its interfaces, routes, queues and
//! counters.
//!
//! ```text
//!   NetNs::new()      this thread unshares, opens its own namespace, goes home ──▶ descriptor
//!   ns.enter()        this thread moves in                                     (setns)
//!   ns.visit(|| …)    this thread moves in, does it, goes home                 ──▶ its result
//!   ns.run(|| …)      a thread of its own moves in, does it, ends              ──▶ its result
//! ```
//!
//! A namespace belongs to a *thread*. A thread that entered one should not be given back to a pool.
//! Sockets stay in the namespace they were opened in. The namespace lives as long as a descriptor,
//! a process or a socket in it does: there is no name in `/run/netns` that could be left behind.

use crate::SysError;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getegid, geteuid};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

const OWN: &str = "/proc/thread-self/ns/net";

const NEEDS_ROOT: &str = "this needs CAP_SYS_ADMIN: be root, or enter a user namespace first";
const NEEDS_USERNS: &str = "user namespaces are switched off: see sysctl user.max_user_namespaces, \
     kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns, or be root";

/// Keeps a network namespace alive and says which one it is.
#[derive(Debug)]
pub struct NetNs {
    fd: OwnedFd,
    inode: u64,
}

impl NetNs {
    /// Makes a new namespace with nothing but a loopback interface that is down.
    ///
    /// Errors with `EPERM` without `CAP_SYS_ADMIN` in the user namespace, `ENOSPC` when
    /// `user.max_net_namespaces` is reached.
    pub fn new() -> Result<Self, SysError> {
        let tried = "make a network namespace";
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|errno| SysError::new(tried, errno).advise(NEEDS_ROOT))?;
            Self::current()
        };
        match Home::of_this_thread() {
            Some(_home) => make(),
            None => on_own_thread(tried, make)?,
        }
    }

    pub fn current() -> Result<Self, SysError> {
        Self::open(OWN)
    }

    /// A namespace that has a path: `/proc/PID/ns/net`, `/run/netns/NAME`.
    pub fn open(path: &str) -> Result<Self, SysError> {
        let failed = |e: std::io::Error| SysError::io(format!("open the namespace {path}"), &e);
        let file = File::open(path).map_err(failed)?;
        let inode = file.metadata().map_err(failed)?.ino();
        Ok(Self { fd: file.into(), inode })
    }

    /// The namespace's number, as `ls -l /proc/PID/ns/net` shows it. Unique while the namespace
    /// lives.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    pub fn enter(&self) -> Result<(), SysError> {
        setns(&self.fd, CloneFlags::CLONE_NEWNET).map_err(|errno| {
            SysError::new(format!("enter network namespace {}", self.inode), errno)
                .advise(NEEDS_ROOT)
        })
    }

    /// Runs `work` on a thread of its own inside the namespace and returns its result. A panic in
    /// `work` goes on in the caller.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, SysError> {
        on_own_thread("run something in a network namespace", || {
            self.enter()?;
            Ok(work())
        })?
    }

    /// Runs `work` inside the namespace, on this thread, which is at home again afterwards, also after a panic. What `work` changes
    /// of the thread but for its namespace stays changed. A tenth of the system calls that [`run`](Self::run) makes, and for
    /// whoever may not come back the same as it.
    pub fn visit<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, SysError> {
        let Some(_home) = Home::of_this_thread() else { return self.run(work) };
        self.enter()?;
        Ok(work())
    }

    pub fn try_clone(&self) -> Result<Self, SysError> {
        let fd = self.fd.try_clone().map_err(|e| {
            SysError::io(format!("keep network namespace {} a second time", self.inode), &e)
        })?;
        Ok(Self { fd, inode: self.inode })
    }
}

/// Where a thread came from: it goes back there when this is dropped.
struct Home(File);

impl Home {
    /// The namespace that the calling thread is in; none where it could not come back to it: one of a user namespace above its own.
    fn of_this_thread() -> Option<Self> {
        let home = File::open(OWN).ok()?;
        setns(&home, CloneFlags::CLONE_NEWNET).ok()?;
        Some(Home(home))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        setns(&self.0, CloneFlags::CLONE_NEWNET)
            .expect("who may enter a namespace that it is in may come back to it");
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for NetNs {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl PartialEq for NetNs {
    fn eq(&self, other: &Self) -> bool {
        self.inode == other.inode
    }
}

impl Eq for NetNs {}

/// What a process gets for itself beside its user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Isolation {
    pub network: bool,
    /// A mount namespace whose mounts do not spread to the system's.
    pub mounts: bool,
    /// A process namespace. It holds the *children* that are started from now on; the first of them
    /// is its init, and when that ends, the kernel ends all the others: nothing is left behind. The
    /// process itself stays outside, and may start no more threads (`EINVAL`): a thread can't be in
    /// another process namespace than its process. So the work goes into a child.
    pub processes: bool,
}

/// Moves this process into a new user namespace in which it is root, and into the others that
/// `isolation` names. So that an ordinary user can build networks, without touching the system's.
///
/// Call it before any thread is started: the kernel allows it only in a process of one thread
/// (`EINVAL`). Files are still accessed with the rights of the user who started the process. Only
/// that user and group exist inside.
pub fn enter_user_namespace(isolation: Isolation) -> Result<(), SysError> {
    let (uid, gid) = (geteuid(), getegid());
    let mut flags = CloneFlags::CLONE_NEWUSER;
    flags.set(CloneFlags::CLONE_NEWNET, isolation.network);
    flags.set(CloneFlags::CLONE_NEWNS, isolation.mounts);
    flags.set(CloneFlags::CLONE_NEWPID, isolation.processes);
    unshare(flags).map_err(|errno| {
        let error = SysError::new("enter a user namespace", errno);
        match errno {
            Errno::EINVAL => error.advise("the process has more than one thread: do this first"),
            _ => error.advise(NEEDS_USERNS),
        }
    })?;
    // A process without CAP_SETGID outside may map its group only after giving up setgroups(2),
    // user_namespaces(7).
    write_own("setgroups", "deny")?;
    write_own("uid_map", &format!("0 {uid} 1"))?;
    write_own("gid_map", &format!("0 {gid} 1"))?;
    if isolation.mounts {
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
            .map_err(|errno| SysError::new("keep mounts from spreading to the system", errno))?;
    }
    Ok(())
}

fn write_own(file: &str, text: &str) -> Result<(), SysError> {
    std::fs::write(format!("/proc/self/{file}"), text).map_err(|e| {
        SysError::io(format!("write \"{text}\" to /proc/self/{file}"), &e).advise(NEEDS_USERNS)
    })
}

fn on_own_thread<T: Send>(tried: &str, work: impl FnOnce() -> T + Send) -> Result<T, SysError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("namespace".into())
            .spawn_scoped(scope, work)
            .map_err(|e| SysError::io(format!("start a thread to {tried}"), &e))?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_new_namespace_is_another_one_and_the_caller_stays_at_home() {
        let home = NetNs::current().unwrap();
        let ns = NetNs::new().unwrap();
        assert_ne!(home, ns);
        assert_eq!(NetNs::current().unwrap(), home);
    }

    #[test]
    fn work_runs_inside_and_its_result_comes_out() {
        let ns = NetNs::new().unwrap();
        let seen = ns.run(|| NetNs::current().unwrap().inode()).unwrap();
        assert_eq!(seen, ns.inode());
        let interfaces = ns.run(|| std::fs::read_to_string("/proc/thread-self/net/dev")).unwrap();
        assert_eq!(interfaces.unwrap().lines().count(), 3, "two lines of heading, and lo");
    }

    #[test]
    fn a_visitor_is_at_home_again_afterwards_whatever_happens_there() {
        let home = NetNs::current().unwrap();
        let ns = NetNs::new().unwrap();
        let seen = ns.visit(|| NetNs::current().unwrap().inode()).unwrap();
        assert_eq!(seen, ns.inode());
        assert_eq!(NetNs::current().unwrap(), home);
        let panicked = std::panic::catch_unwind(|| ns.visit(|| panic!("inside")));
        assert!(panicked.is_err());
        assert_eq!(NetNs::current().unwrap(), home);
    }

    #[test]
    fn a_listener_in_one_namespace_is_not_reachable_from_another() {
        let ns = NetNs::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let refused = ns.run(|| TcpStream::connect(address).is_err()).unwrap();
        assert!(refused);
    }

    #[test]
    #[should_panic(expected = "inside")]
    fn a_panic_inside_is_not_swallowed() {
        let ns = NetNs::new().unwrap();
        let _ = ns.run(|| panic!("inside"));
    }

    #[test]
    fn a_threaded_process_is_told_to_enter_its_user_namespace_first() {
        // The test harness runs tests on threads, so this must be refused.
        let error = enter_user_namespace(Isolation::default()).unwrap_err();
        assert_eq!(error.errno, Errno::EINVAL);
        assert!(error.to_string().contains("more than one thread"));
    }
}
