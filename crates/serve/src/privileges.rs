//! Giving up root's rights once the ports are open: another user, no groups, no capabilities, and no way to get any back.
//!
//! ```text
//!   root ── listen ── hand the UDP port over ── bounding set empty ── setgroups, setresgid, setresuid ── capset none ── no_new_privs
//! ```
//!
//! To be done before the process has threads: the kernel keeps these per thread (capabilities(7), credentials(7)).

use crate::limits::SERVER;
use nix::errno::Errno;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Gid, Uid, User, geteuid, setgroups, setresgid, setresuid};
use quell_sys::SysError;

/// The last capability that the kernel may know (`CAP_LAST_CAP` is 40 in Linux 6; asking for one beyond is refused harmlessly).
const LAST_CAPABILITY: libc::c_ulong = 63;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    uid: u32,
    gid: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrivilegeError {
    #[error("there is no user `{0}` on this host: give another with --user")]
    NoUser(String),
    #[error(
        "this user namespace has no user `{0}` to become, and its root is the machine's. Start it outside of the \
         namespace, in one with more users (unshare --map-auto), or not as root"
    )]
    Root(String),
    #[error("{0}")]
    System(#[from] SysError),
}

pub fn is_root() -> bool {
    geteuid().is_root()
}

impl Account {
    pub fn find(name: &str) -> Result<Self, PrivilegeError> {
        let failed = |errno| SysError::new(format!("look up the user `{name}`"), errno);
        let user = match name.parse() {
            Ok(number) => User::from_uid(Uid::from_raw(number)),
            Err(_) => User::from_name(name),
        };
        let user = user.map_err(failed)?.ok_or_else(|| PrivilegeError::NoUser(name.into()))?;
        Ok(Self { name: user.name, uid: user.uid.as_raw(), gid: user.gid.as_raw() })
    }

    pub fn uid(&self) -> u32 {
        self.uid
    }
}

/// Becomes that user for good, without groups and capabilities. Only the calling thread's capabilities are taken; call it while it is the
/// only one.
pub fn drop_to(account: &Account) -> Result<(), PrivilegeError> {
    let failed = |what: &str, errno| {
        SysError::new(format!("{what} (user `{}`)", account.name), errno).advise(
            "in a namespace of its own only users that it maps can be taken: give one of them with --user",
        )
    };
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    for capability in 0..=LAST_CAPABILITY {
        // EINVAL: the kernel knows no such capability. Without CAP_SETPCAP the set stays; nothing can be got from it, since setresuid
        // below empties the others and no_new_privs keeps programs from adding to them.
        prctl(libc::PR_CAPBSET_DROP, capability);
    }
    prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong);
    setgroups(&[]).map_err(|errno| failed("leave all groups", errno))?;
    setresgid(gid, gid, gid).map_err(|errno| failed("change the group", errno))?;
    setresuid(uid, uid, uid).map_err(|errno| failed("change the user", errno))?;
    capset(0).map_err(|errno| failed("give up all capabilities", errno))?;
    Ok(())
}

/// Whether the user namespace has this user and lets go of groups (user_namespaces(7)). Where that can't be read, the attempt tells.
pub fn can_become(account: &Account) -> bool {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}"));
    let has = |map: &str, id: u32| read(map).map_or(true, |text| maps(&text, id));
    has("uid_map", account.uid)
        && has("gid_map", account.gid)
        && read("setgroups").map_or(true, |text| text.trim() != "deny")
}

/// Whether a map (`inside outside count`, a line each) has this id.
fn maps(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|n| n.parse::<u64>().unwrap_or(0));
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(inside), Some(_), Some(count)) => {
                (inside..inside.saturating_add(count)).contains(&id.into())
            }
            _ => false,
        }
    })
}

/// Gives up what a user namespace's root can do, where there is nobody else to become: what is left is what the user outside may who
/// made the namespace. Refused where that is the machine's root.
pub fn stay(account: &Account) -> Result<(), PrivilegeError> {
    if !is_only_here_root() {
        return Err(PrivilegeError::Root(account.name.clone()));
    }
    for capability in 0..=LAST_CAPABILITY {
        prctl(libc::PR_CAPBSET_DROP, capability);
    }
    prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong);
    let failed = |errno| SysError::new("give up all capabilities", errno);
    Ok(capset(0).map_err(failed)?)
}

/// Whether this process's user is certainly another than the machine's root. Files of proc(5) that are of no process are that root's
/// (fs/proc/generic.c, `GLOBAL_ROOT_UID`), and seen from a namespace that does not map it they are nobody's.
fn is_only_here_root() -> bool {
    use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};
    use std::os::unix::fs::MetadataExt;
    const ROOTS: &str = "/proc/version";
    let is_proc = statfs(ROOTS).is_ok_and(|fs| fs.filesystem_type() == PROC_SUPER_MAGIC);
    let owner = std::fs::metadata(ROOTS).map(|file| file.uid());
    is_proc && owner.is_ok_and(|owner| owner != geteuid().as_raw())
}

/// What is done whoever runs it: no new rights from programs, no core file with the secret in it, a limit on descriptors.
pub fn harden() -> Result<(), PrivilegeError> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1);
    prctl(libc::PR_SET_DUMPABLE, 0);
    let failed = |errno| SysError::new("limit this process", errno);
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(failed)?;
    let (_, hard) = nix::sys::resource::getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    let most = hard.min(SERVER.most_files);
    setrlimit(Resource::RLIMIT_NOFILE, most, most).map_err(failed)?;
    Ok(())
}

fn prctl(option: libc::c_int, value: libc::c_ulong) -> bool {
    // SAFETY: none of the options used here has an argument that points to memory.
    unsafe {
        libc::prctl(option, value, 0 as libc::c_ulong, 0 as libc::c_ulong, 0 as libc::c_ulong) == 0
    }
}

/// Leaves this process CAP_NET_ADMIN and nothing else, as that user where there is one to become; it ends with its parent.
pub fn keep_net_admin(account: &Account) -> Result<(), PrivilegeError> {
    const NET_ADMIN: u32 = 1 << 12;
    let failed = |errno| SysError::new("give up all rights but one", errno);
    prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
    prctl(libc::PR_SET_KEEPCAPS, 1);
    if can_become(account) {
        let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
        setgroups(&[]).map_err(failed)?;
        setresgid(gid, gid, gid).map_err(failed)?;
        setresuid(uid, uid, uid).map_err(failed)?;
    }
    capset(NET_ADMIN).map_err(failed)?;
    // Changing the user takes the first of these back (prctl(2)).
    prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1);
    prctl(libc::PR_SET_DUMPABLE, 0);
    Ok(())
}

/// Sets the effective and permitted sets to these of the first 32, and empties the inheritable one (capset(2)).
fn capset(first: u32) -> Result<(), Errno> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    // _LINUX_CAPABILITY_VERSION_3 (linux/capability.h): two words for each of the three sets.
    let header = Header { version: 0x2008_0522, pid: 0 };
    let sets = [first, first, 0, 0, 0, 0u32];
    // SAFETY: the kernel reads a header and, for this version, two structures of three words.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) };
    Errno::result(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_tells_which_users_there_are() {
        assert!(maps("         0          0 4294967295\n", 65534));
        let lone = "         0       1000          1\n";
        assert!(maps(lone, 0) && !maps(lone, 1) && !maps(lone, 1000) && !maps("", 0));
        let two = "0 1000 1\n1 100000 65536\n";
        assert!(maps(two, 65534) && !maps(two, 70_000));
    }

    #[test]
    fn users_are_found_by_name_and_number_and_others_are_not() {
        let root = Account::find("root").unwrap();
        assert_eq!((root.uid(), root.gid), (0, 0));
        assert_eq!(Account::find("0").unwrap(), root);
        let error = Account::find("no-such-user-here").unwrap_err();
        assert_eq!(error, PrivilegeError::NoUser("no-such-user-here".into()));
    }
}
