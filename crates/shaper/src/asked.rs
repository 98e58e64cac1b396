//! What a policy is told of the network, and what it asks of it.

use quell_tc::{Filter, Handle, Tree};
use std::net::IpAddr;

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

/// A class that a line is divided into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinePart {
    /// The class.
    pub class: Handle,
    /// Whose it is: a host, a tier or a subscriber.
    pub name: String,
    /// Of a tier that each host has, the host.
    pub host: Option<String>,
    /// The number of the place, from 1, where hosts are found at run time.
    pub place: Option<u16>,
}

impl LinePart {
    pub(crate) fn of_line((class, name): (Handle, String)) -> Self {
        LinePart { class, name, host: None, place: None }
    }
}
