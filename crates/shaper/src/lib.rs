//! Shaping: a **policy** says what a person wants of a queue; a plan is the tc tree that brings it about.
//!
//! ```text
//!   policy (rate, hosts, tiers) ──plan──► quell_tc::Tree ──► netlink
//! ```
//!
//! Pure: nothing here talks to a kernel.

pub mod host_fair;

use quell_tc::{Filter, Tree};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

pub use host_fair::HostFair;

/// What a person wants of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub enum Policy {
    /// Below the link's rate, fair between hosts, three tiers in each host, fair between flows in each tier.
    HostFair(HostFair),
}

/// A host that is served, by all its addresses: they share one bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name, for messages.
    pub name: String,
    /// Its addresses, IPv4 and IPv6.
    pub addresses: Vec<IpAddr>,
}

/// How a queue can tell hosts apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tell {
    /// By the packet's source address: packets that leave towards the internet.
    Source,
    /// By the packet's destination address: packets that come from it.
    Destination,
    /// By a firewall mark that was put on where the packets came in: the only way behind address translation, which happens
    /// before a packet meets the queue.
    Mark,
}

/// What a policy asks of the network.
#[derive(Debug, Clone, PartialEq)]
pub struct Shaped {
    /// The queue for the interface.
    pub tree: Tree,
    /// For [`Tell::Mark`]: filters that mark packets, for the ingress of each interface on the hosts' side.
    pub marking: Vec<Filter>,
}

/// Why a policy can't be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Too slow to divide.
    #[error("policy host-fair: a rate of {rate} can't be divided; give at least {least}")]
    RateTooLow {
        /// The rate.
        rate: String,
        /// The least that works.
        least: String,
    },
    /// No buckets, or more than there can be.
    #[error("policy host-fair: {0} buckets can't be; give 1 to 1024")]
    Buckets(u16),
    /// Nobody to serve.
    #[error(
        "policy host-fair: no host is behind this interface; put it on the one that leads to the internet"
    )]
    NoHosts,
    /// The floors leave nothing.
    #[error(
        "policy host-fair: the floors of the tiers, {0} together, must leave something: give less than 100%"
    )]
    Floors(String),
}

impl Policy {
    /// The plan for an interface with these hosts behind it.
    pub fn plan(&self, hosts: &[Host], tell: Tell) -> Result<Shaped, PolicyError> {
        match self {
            Policy::HostFair(policy) => policy.plan(hosts, tell),
        }
    }
}
