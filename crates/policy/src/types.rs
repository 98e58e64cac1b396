//! What a policy is told of the network, what it asks of it, and why it can't be planned.

use quell_tc::{Filter, Handle, Tree};
use quell_units::{Rate, Ratio};
use std::net::IpAddr;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("policy {policy}: a rate of {rate} can't be divided; give at least {least}")]
    RateTooLow { policy: &'static str, rate: Rate, least: Rate },
    #[error("policy {policy}: no line carries {rate}; give at most {most}")]
    RateTooHigh { policy: &'static str, rate: Rate, most: Rate },
    #[error("policy host-fair: {hosts} hosts share {rate}, less than a packet a second for each")]
    TooThin { hosts: usize, rate: Rate },
    #[error("policy host-fair: {0} is given twice")]
    Twice(IpAddr),
    #[error("policy host-fair: {0} buckets can't be; give 1 to 1024")]
    Buckets(u16),
    #[error("policy host-fair: {0} places can't be; give 1 to 1024")]
    Places(u16),
    #[error("policy host-fair: {0}")]
    Found(String),
    #[error(
        "policy host-fair: no host is behind this interface; put it on the one that leads to the internet"
    )]
    NoHosts,
    #[error("policy host-fair: marks tell at most {0} hosts apart behind address translation")]
    TooManyHosts(usize),
    #[error(
        "policy {policy}: the floors of the tiers, {floors} together, must leave something: give less than 100%"
    )]
    Floors { policy: &'static str, floors: String },
    #[error("policy subscribers: {0}")]
    Subscribers(String),
}

/// Floors of tiers that leave something to give by priority.
pub fn leave_something(policy: &'static str, floors: (Ratio, Ratio)) -> Result<(), PolicyError> {
    let together = floors.0.as_f64() + floors.1.as_f64();
    if together >= 1.0 {
        let floors = format!("{:.0} %", together * 100.0);
        return Err(PolicyError::Floors { policy, floors });
    }
    Ok(())
}

/// A host that is served, by all its addresses: they share one bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    pub addresses: Vec<IpAddr>,
}

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

#[derive(Debug, Clone, PartialEq)]
pub struct Shaped {
    pub tree: Tree,
    /// For [`Tell::Mark`]: filters that mark packets, for the ingress of each interface on the hosts' side.
    pub marking: Vec<Filter>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinePart {
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
