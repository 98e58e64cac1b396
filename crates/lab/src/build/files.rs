//! What programs on a node find in the file system: a /sys of the node's devices, an /etc/hosts with the names of the nodes, and an
//! /etc/resolv.conf without servers, since no name server is there to be waited for.
//!
//! ```text
//!   a thread's own mounts ── ramfs on /sys ── hosts, resolv.conf ──laid over the system's /etc──► /etc
//!                         └─ sysfs on /sys
//! ```
//!
//! On a kernel without overlayfs, or whose overlayfs is not for user namespaces, /etc is as it is outside.

use crate::topology::Network;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use quell_sys::SysError;
use quell_sys::netns::NetNs;
use std::fmt::Write;
use std::path::Path;

/// The folder that is there on every system, and is mounted on last.
const SCRATCH: &str = "/sys";

/// Where the system keeps its settings.
const ETC: &str = "/etc";

/// Says that there are no name servers. The C library then asks this host itself, which refuses at once.
const NO_SERVERS: &str = "# Names are in /etc/hosts; there is no name server in this network.\n";

/// Runs something that starts a program in a node's namespace, with files of the node's own. What can't be mounted is as it is outside,
/// as under plain network namespaces.
pub(crate) fn with_own_files<T: Send>(
    network: &Network,
    space: &NetNs,
    work: impl FnOnce() -> T + Send,
) -> Result<T, SysError> {
    let hosts = hosts(network);
    space.run(|| {
        // The thread's own mounts; it ends after this.
        if nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).is_ok() {
            let none = None::<&str>;
            let apart = mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none);
            if apart.is_ok() {
                let _ = laid_over_etc(&[("hosts", &hosts), ("resolv.conf", NO_SERVERS)]);
                let _ = mount(Some("sysfs"), SCRATCH, Some("sysfs"), MsFlags::empty(), none);
            }
        }
        work()
    })
}

/// Lays the files over the system's /etc, which nobody can write to then: what is written there would be gone with the program. They lie in
/// a ramfs, whose files draw no random numbers as those of a tmpfs do.
fn laid_over_etc(files: &[(&str, &str)]) -> nix::Result<()> {
    mount(Some("ramfs"), SCRATCH, Some("ramfs"), MsFlags::empty(), Some("mode=0755"))?;
    let write = |(name, text): &(&str, &str)| std::fs::write(Path::new(SCRATCH).join(name), text);
    let layers = format!("lowerdir={SCRATCH}:{ETC}");
    let laid = files.iter().try_for_each(write).map_err(code).and_then(|()| {
        mount(Some("overlay"), ETC, Some("overlay"), MsFlags::empty(), Some(layers.as_str()))
    });
    // The files stay for as long as they are seen in /etc.
    umount2(SCRATCH, MntFlags::MNT_DETACH)?;
    laid
}

/// The number of what the system answered.
fn code(error: std::io::Error) -> nix::Error {
    nix::Error::from_raw(error.raw_os_error().unwrap_or(0))
}

/// The names of all nodes, in the form of hosts(5).
fn hosts(network: &Network) -> String {
    let mut text = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n".to_owned();
    for (index, node) in network.nodes.iter().enumerate() {
        // Writing to a text can't fail.
        if let Some(v4) = network.v4(index) {
            let _ = writeln!(text, "{v4} {}", node.name);
        }
        if let Some(v6) = network.v6(index) {
            let _ = writeln!(text, "{v6} {}", node.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::topology::Topology;
    use nix::mount::{MsFlags, mount};

    #[test]
    fn names_are_known_on_a_system_without_etc_hosts_too() {
        let none = None::<&str>;
        let seen = std::thread::spawn(move || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)
                .expect("tests need root, or: unshare --user --map-root-user cargo test");
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
            mount(Some("tmpfs"), "/etc", Some("tmpfs"), MsFlags::empty(), none).unwrap();
            std::fs::write("/etc/passwd", "the system's").unwrap();
            super::laid_over_etc(&[("hosts", "10.0.0.1 a\n"), ("resolv.conf", super::NO_SERVERS)])
                .unwrap();
            ["hosts", "resolv.conf", "passwd"].map(|name| {
                std::fs::read_to_string(format!("/etc/{name}")).unwrap_or_else(|e| e.to_string())
            })
        });
        assert_eq!(seen.join().unwrap(), ["10.0.0.1 a\n", super::NO_SERVERS, "the system's"]);
    }

    #[test]
    fn every_node_is_known_by_its_name_in_both_families() {
        let topology: Topology = toml::from_str(
            "hosts = [\"a\", \"b\"]\n[[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\n",
        )
        .unwrap();
        let text = super::hosts(&topology.parse().unwrap());
        for line in ["127.0.0.1 localhost", "10.0.0.1 a", "fd00::1 a", "10.0.0.2 b", "fd00::2 b"] {
            assert!(text.lines().any(|l| l == line), "{line} in {text}");
        }
    }
}
