//! What programs on a node find in the file system: a /sys of the node's devices, an /etc/hosts with the names of the nodes, and an
//! /etc/resolv.conf without servers, since no name server is there to be waited for.
//!
//! ```text
//!   a thread's own mounts ── tmpfs on /sys ── hosts, resolv.conf ──bind──► /etc
//!                         └─ tmpfs off, sysfs on /sys
//! ```

use crate::topology::Network;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use quell_sys::SysError;
use quell_sys::netns::NetNs;
use std::fmt::Write;
use std::path::Path;

/// The folder that is there on every system, and is mounted on last.
const SCRATCH: &str = "/sys";

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
                own_etc(&hosts);
                let _ = mount(Some("sysfs"), SCRATCH, Some("sysfs"), MsFlags::empty(), none);
            }
        }
        work()
    })
}

/// Puts the files in the place of the system's; on a system that lacks one, or does not let us, that one is left out.
fn own_etc(hosts: &str) {
    let none = None::<&str>;
    if mount(Some("tmpfs"), SCRATCH, Some("tmpfs"), MsFlags::empty(), Some("mode=0755")).is_err() {
        return;
    }
    for (name, text) in [("hosts", hosts), ("resolv.conf", NO_SERVERS)] {
        let own = Path::new(SCRATCH).join(name);
        if std::fs::write(&own, text).is_ok() {
            let place = Path::new("/etc").join(name);
            let _ = mount(Some(&own), &place, none, MsFlags::MS_BIND, none);
        }
    }
    // The files stay for as long as they are seen in /etc.
    let _ = umount2(SCRATCH, MntFlags::MNT_DETACH);
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
