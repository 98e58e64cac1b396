//! An ordinary user makes a network without touching the system's.
//!
//! The test becomes an ordinary user first when root runs it.

#[path = "../../quell/tests/support/left_out.rs"]
mod left_out;

use nix::errno::Errno;
use nix::unistd::{Gid, Uid, geteuid, setresgid, setresuid};
use quell_sys::netns::{Isolation, NetNs, enter_user_namespace};

fn main() {
    become_an_ordinary_user();
    let home = NetNs::current().unwrap();
    match enter_user_namespace(Isolation { network: true, mounts: true, processes: false }) {
        Err(error) if error.errno != Errno::EINVAL && switched_off() => {
            left_out::kernel_lacks(error);
            return;
        }
        result => result.unwrap(),
    }
    assert!(geteuid().is_root(), "root inside");
    assert_ne!(NetNs::current().unwrap(), home, "a network of its own");

    // Root's powers over what was made here: more namespaces, their settings, their low ports.
    let ns = NetNs::new().unwrap();
    ns.run(|| {
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        std::net::UdpSocket::bind("0.0.0.0:53").unwrap();
    })
    .unwrap();

    // But none over the system.
    let outside = std::fs::write("/proc/sys/kernel/hostname", "mine");
    assert!(outside.is_err(), "the system's name is not ours to change");

    // With a process namespace as well, the first child is its init.
    enter_user_namespace(Isolation { processes: true, ..Isolation::default() }).unwrap();
    let child = std::process::Command::new("/bin/sh").args(["-c", "exit $(($$ == 1))"]).status();
    assert_eq!(child.unwrap().code(), Some(1), "a child sees itself as process 1");
    println!("an ordinary user made a network");
}

fn become_an_ordinary_user() {
    if !geteuid().is_root() {
        return;
    }
    let nobody = 65534;
    setresgid(Gid::from_raw(nobody), Gid::from_raw(nobody), Gid::from_raw(nobody)).unwrap();
    setresuid(Uid::from_raw(nobody), Uid::from_raw(nobody), Uid::from_raw(nobody)).unwrap();
    // A process that changed its user may not write its own /proc files until it says that it has
    // no secrets.
    nix::sys::prctl::set_dumpable(true).unwrap();
}

/// The kernel's own word that it gives no user namespaces to ordinary users.
fn switched_off() -> bool {
    let is = |key: &str, value: &str| {
        std::fs::read_to_string(format!("/proc/sys/{key}")).is_ok_and(|text| text.trim() == value)
    };
    is("user/max_user_namespaces", "0")
        || is("kernel/unprivileged_userns_clone", "0")
        || is("kernel/apparmor_restrict_unprivileged_userns", "1")
        || !std::path::Path::new("/proc/self/ns/user").exists()
}
