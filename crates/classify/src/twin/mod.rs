//! The classifier in plain Rust, without a kernel: the same classes from the same packets. Tests hold the program against it, and the fuzzer
//! drives it.

mod hash;
mod hosts;
mod parse;
mod roster;
mod whose;

pub use hash::{flow_hash, host_hash, scale};
pub use parse::{Address, Headers, Packet, Parsed, parse};
pub use roster::RosterTwin;
pub use whose::{RouteAnswer, Routes};

use crate::config::Config;
use crate::raw::RawConfig;
use hosts::HostTable;
use whose::Owners;

/// A classifier with its memory of hosts.
#[derive(Debug, Clone)]
pub struct Twin {
    config: RawConfig,
    table: HostTable,
    owners: Owners,
}

/// What came of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TwinVerdict {
    /// The class id as the kernel has it; 0 is no match.
    pub class: u32,
    /// The packet's new priority, where it gets one.
    pub priority: Option<u32>,
}

impl Twin {
    /// One that has not seen a host yet.
    pub fn new(config: &Config) -> Self {
        let config = RawConfig::from(config);
        Twin { table: HostTable::new(config.hosts), config, owners: Owners::default() }
    }

    /// Goes on with another configuration, as the program does.
    pub fn configure(&mut self, config: &Config) {
        let next = RawConfig::from(config);
        if !next.has_hosts_of(&self.config) {
            self.table = HostTable::new(next.hosts);
        }
        self.config = next;
    }

    /// Takes all hosts their classes.
    pub fn forget_hosts(&mut self) {
        self.table = HostTable::new(self.config.hosts);
    }

    /// Enters addresses of hosts, in place of all that was known of addresses.
    pub fn set_neighbours(&mut self, addresses: impl IntoIterator<Item = (std::net::IpAddr, u64)>) {
        self.owners.enter(addresses);
    }

    /// What the kernel says of addresses from now on, where it is asked.
    pub fn set_routes(&mut self, routes: Routes) {
        self.owners.routes = routes;
    }

    /// The class of a packet that arrives `now`, in ns of any clock that does not go back and is not 0.
    pub fn classify(&mut self, packet: &Packet<'_>, now: u64) -> TwinVerdict {
        let c = &self.config;
        let Some(parsed) = parse(packet, c.vxlan_port) else {
            return TwinVerdict { class: c.other, priority: None };
        };
        if c.flags & crate::raw::TUNNELS_ONLY != 0 && parsed.tunnels == 0 {
            return TwinVerdict { class: 0, priority: None };
        }
        let host = match c.host {
            0 => 0,
            _ => {
                let host = hosts::host_of(c, &mut self.owners, packet, &parsed, now);
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
        TwinVerdict { class: (major << 16) | (minor & 0xffff), priority }
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
