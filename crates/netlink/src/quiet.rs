//! An interface that sends nothing by itself.
//!
//! A fresh interface talks: it makes itself a link-local address, checks it for duplicates,
//! solicits routers, reports multicast groups. On a slow link in an experiment that is traffic
//! nobody asked for, and its timing is random.

use crate::core::NetlinkError;
use crate::link::{LinkChange, LinkName};
use crate::sysctl;
use nix::errno::Errno;

/// Settings of `net/ipv6/conf/IF/` (`Documentation/networking/ip-sysctl.rst`), why, and whether
/// every kernel has them.
const IPV6: &[(&str, &str)] = &[
    // No link-local address of its own (IN6_ADDR_GEN_MODE_NONE).
    ("addr_gen_mode", "1"),
    // Addresses are valid at once, nothing is sent to check them.
    ("accept_dad", "0"),
    ("dad_transmits", "0"),
    // Asks for no router and listens to none.
    ("router_solicitations", "0"),
    ("accept_ra", "0"),
    ("autoconf", "0"),
    // Reports of a group follow each other at once instead of within a random second
    // (milliseconds).
    ("mldv1_unsolicited_report_interval", "0"),
    ("mldv2_unsolicited_report_interval", "0"),
    ("ndisc_notify", "0"),
];

/// Settings of `net/ipv4/conf/IF/`.
const IPV4: &[(&str, &str)] = &[("arp_notify", "0"), ("send_redirects", "0")];

/// Changes that take the rest of an interface's own traffic away, to be made before it is brought
/// up and before forwarding is switched on (groups that were joined stay joined).
///
/// Without ARP the kernel neither resolves neighbours nor joins the groups that resolving needs;
/// without multicast a router does not join the routers' groups. So there is nothing to report, and
/// the interface sends what is sent through it and not one packet more. In exchange **every
/// neighbour has to be entered** ([`crate::Stack::set_neighbour`]); what is sent to another one is
/// lost.
pub const SILENT: [LinkChange; 2] = [LinkChange::Arp(false), LinkChange::Multicast(false)];

/// Quietens an interface of the calling thread's namespace. Call it before the interface is brought
/// up and gets addresses.
///
/// What remains (measured on Linux 6.18 with two ends of a veth pair): when the interface comes up,
/// two multicast listener reports for each IPv6 address's solicited-node group, within 20 ms
/// instead of a random second, and nothing after that. ARP and neighbour discovery speak only when
/// there is traffic, and not at all with permanent neighbours. To have not even the reports, see
/// [`SILENT`].
pub fn quiet(name: &LinkName) -> Result<(), NetlinkError> {
    let settings = |family: &'static str, table: &'static [(&'static str, &'static str)]| {
        table.iter().map(move |(key, value)| (format!("net/{family}/conf/{name}/{key}"), *value))
    };
    for (key, value) in settings("ipv6", IPV6).chain(settings("ipv4", IPV4)) {
        match sysctl::write(&key, value) {
            // A kernel without IPv6 has nothing to quieten there.
            Err(error) if error.errno() == Some(Errno::ENOENT) && !has_ipv6() => {}
            result => result?,
        }
    }
    Ok(())
}

fn has_ipv6() -> bool {
    std::path::Path::new("/proc/sys/net/ipv6").exists()
}
