//! The classifier in plain Rust, without a kernel: the same classes from the same packets. Tests hold the program against it, and the fuzzer
//! drives it.

#![allow(
    dead_code,
    unused_imports,
    missing_docs,
    reason = "each program that has it uses its own part"
)]

mod hash;
mod hosts;
mod parse;
mod roster;
mod whose;

pub use hash::{flow_hash, host_hash, scale};
pub use parse::{Address, Headers, Packet, Parsed, parse};
pub use roster::RosterTwin;
pub use whose::{RouteAnswer, Routes};

use hosts::HostTable;
use quell_classify::{Config, Hosts, Keys, Layout, Parts, TierBy};
use whose::Owners;

/// A classifier with its memory of hosts.
#[derive(Debug, Clone)]
pub struct Twin {
    parts: Parts,
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
        let parts = config.parts().clone();
        Twin { table: table(&parts), parts, owners: Owners::default() }
    }

    /// Goes on with another configuration, as the program does.
    pub fn configure(&mut self, config: &Config) {
        let next = config.parts().clone();
        let of = |h: Hosts| (h.by, h.classes, h.v4_prefix, h.v6_prefix, h.neighbours, h.translated);
        let hosts = |p: &Parts| (p.seed, p.hosts.map(of));
        if hosts(&next) != hosts(&self.parts) {
            self.table = table(&next);
        }
        self.parts = next;
    }

    /// Takes all hosts their classes.
    pub fn forget_hosts(&mut self) {
        self.table = table(&self.parts);
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
        let c = &self.parts;
        let Some(parsed) = parse(packet, c.vxlan_port) else {
            return TwinVerdict {
                class: c.other.map_or(0, |class| class.to_u32()),
                priority: None,
            };
        };
        if c.tunnels_only && parsed.tunnels == 0 {
            return TwinVerdict { class: 0, priority: None };
        }
        let host = c.hosts.as_ref().map_or(0, |hosts| {
            let host = hosts::host_of(hosts, &mut self.owners, packet, &parsed, now);
            self.table.class_of(c.seed, hosts, host, now)
        });
        let tunnel = c.tiers.by == TierBy::Tunnel;
        let dscp = if tunnel { parsed.inner.dscp } else { parsed.outer.dscp };
        let tier = u32::from(c.tiers.of[usize::from(dscp & 63)]);
        let flow = match c.keys {
            Keys::NONE => 0,
            keys => scale(flow_hash(c.seed, keys, packet, &parsed), c.flows.into()),
        };
        let (major, [base, host_step, tier_step, flow_step]) = match c.layout {
            Layout::Cake => (c.hosts.map_or(0, |_| host + 1), [1, 0, 0, 1]),
            Layout::Classes { major, base, host_step, tier_step, flow_step } => {
                (major.into(), [base, host_step, tier_step, flow_step].map(u32::from))
            }
        };
        let minor = base + host * host_step + tier * tier_step + flow * flow_step;
        let priority = c.tiers.cake_tins.map(|tins| (u32::from(tins) << 16) | (tier + 1));
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

fn table(parts: &Parts) -> HostTable {
    HostTable::new(parts.hosts.map_or(1, |hosts| hosts.classes).into())
}
