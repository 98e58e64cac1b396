//! The classifier in plain Rust, without a kernel: the same classes from the same packets. Tests hold the program against it, and the fuzzer
//! drives it.

mod hash;
mod hosts;
mod parse;
mod roster;

pub use hash::{flow_hash, host_hash, scale};
pub use parse::{Address, Headers, Packet, Parsed, parse};
pub use roster::RosterTwin;

use crate::config::Config;
use crate::raw::RawConfig;
use hosts::Table;
use std::collections::HashMap;

/// A classifier with its memory of hosts.
#[derive(Debug, Clone)]
pub struct Twin {
    config: RawConfig,
    table: Table,
    neighbours: HashMap<Address, u64>,
}

/// What came of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The class id as the kernel has it; 0 is no match.
    pub class: u32,
    /// The packet's new priority, where it gets one.
    pub priority: Option<u32>,
}

impl Twin {
    /// One that has not seen a host yet.
    pub fn new(config: &Config) -> Self {
        let config = RawConfig::from(config);
        Twin { table: Table::new(config.hosts), config, neighbours: HashMap::new() }
    }

    /// Goes on with another configuration, as the program does.
    pub fn configure(&mut self, config: &Config) {
        let next = RawConfig::from(config);
        if !next.has_hosts_of(&self.config) {
            self.table = Table::new(next.hosts);
        }
        self.config = next;
    }

    /// Takes all hosts their classes.
    pub fn forget_hosts(&mut self) {
        self.table = Table::new(self.config.hosts);
    }

    /// Enters addresses of hosts, in place of those that were there.
    pub fn set_neighbours(&mut self, addresses: impl IntoIterator<Item = (std::net::IpAddr, u64)>) {
        self.neighbours = addresses.into_iter().map(|(a, host)| (a.into(), host)).collect();
    }

    /// The class of a packet that arrives `now`, in ns of any clock that does not go back and is not 0.
    pub fn classify(&mut self, packet: &Packet<'_>, now: u64) -> Verdict {
        let c = &self.config;
        let Some(parsed) = parse(packet, c.vxlan_port) else {
            return Verdict { class: c.other, priority: None };
        };
        let host = match c.host {
            0 => 0,
            _ => {
                let host = hosts::host_of(c, &self.neighbours, packet, &parsed);
                self.table.class_of(c, host, now)
            }
        };
        let tunnel = c.flags & crate::raw::TIER_TUNNEL != 0;
        let dscp = if tunnel { parsed.inner.dscp } else { parsed.outer.dscp };
        let tier = u32::from(c.tiers[usize::from(dscp & 63)]);
        let flow = match c.keys {
            0 => 0,
            _ => scale(flow_hash(c.seed, crate::Keys::from_bits(c.keys), packet, &parsed), c.flows),
        };
        let minor = c.base + host * c.host_step + tier * c.tier_step + flow * c.flow_step;
        let major = match c.flags & crate::raw::HOST_IS_MAJOR != 0 {
            true if c.host != 0 => host + 1,
            true => 0,
            false => c.major,
        };
        let priority = (c.tin_major != 0).then_some((c.tin_major << 16) | (tier + 1));
        Verdict { class: (major << 16) | (minor & 0xffff), priority }
    }

    /// Packets of hosts that had to share a class.
    pub fn sharing(&self) -> u64 {
        self.table.sharing
    }

    /// Host classes that are held.
    pub fn held(&self) -> usize {
        self.table.held()
    }
}
