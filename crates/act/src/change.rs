//! One step on a machine.

use crate::OwnRoute;
use std::fmt;
use std::path::PathBuf;

/// An interface that a step is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Its number; by name where there is none, since an earlier step makes it.
    pub index: Option<u32>,
}

/// One step.
#[allow(clippy::large_enum_variant, reason = "nearly all are of the larger one")]
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Makes an IFB, with an address by which it is known to be ours, and switches it on.
    MakeIfb {
        /// Its name.
        name: String,
        /// Its address.
        mac: [u8; 6],
        /// Its number, where it had one that packets are still to be sent to.
        index: Option<u32>,
    },
    /// Switches an IFB of ours on, which was made and no more.
    SwitchOn(Target),
    /// Deletes an IFB of ours.
    DeleteIfb(Target),
    /// A queue, class or filter.
    Queue {
        /// Of which interface.
        device: Target,
        /// What is done.
        change: quell_tc::Change,
    },
    /// Switches an offload.
    Offload {
        /// Of which interface.
        device: String,
        /// The kernel's name.
        feature: String,
        /// On or off.
        on: bool,
    },
    /// Sets a kernel setting.
    Sysctl {
        /// As net/ipv4/tcp_ecn.
        key: String,
        /// The value.
        value: String,
    },
    /// Gives a prefix a route of its own, or takes it away.
    Route {
        /// The prefix.
        to: String,
        /// How it leads there; none for no route.
        route: Option<OwnRoute>,
    },
    /// Makes the table that marks packets of an interface with their hosts, or takes it away.
    HostTable {
        /// The interface.
        device: String,
        /// Whether it is to be there.
        there: bool,
    },
    /// Writes a file, whole or not at all, or takes it away.
    File {
        /// Where.
        path: PathBuf,
        /// What is to be in it, with its mode.
        content: Option<(Vec<u8>, u32)>,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::MakeIfb { name, .. } => write!(f, "make the IFB {name}"),
            Change::SwitchOn(target) => write!(f, "switch {} on", target.name),
            Change::DeleteIfb(target) => write!(f, "delete the IFB {}", target.name),
            Change::Queue { device, change } => write!(f, "{}: {change}", device.name),
            Change::Offload { device, feature, on } => {
                write!(f, "{device}: switch {feature} {}", if *on { "on" } else { "off" })
            }
            Change::Sysctl { key, value } => write!(f, "set {key} to {value}"),
            Change::Route { to, route: Some(route) } => write!(f, "route {to} {route}"),
            Change::Route { to, route: None } => write!(f, "take the route to {to} away"),
            Change::HostTable { device, there: true } => {
                write!(
                    f,
                    "make the nftables table ip quell-hosts-{device}: what passes {device} is marked with its host"
                )
            }
            Change::HostTable { device, there: false } => {
                write!(f, "take the nftables table ip quell-hosts-{device} away")
            }
            Change::File { path, content: Some(_) } => write!(f, "write {}", path.display()),
            Change::File { path, content: None } => write!(f, "take {} away", path.display()),
        }
    }
}
