//! What the classifier is to do: parsed into this once, so that the program never meets a value that makes no sense.

use quell_units::Span;
use serde::{Deserialize, Serialize};

use super::keys::{Keys, named};
use crate::Handle;

/// Host classes at most (`MAX_HOSTS` of the program): so far it looks for a free one.
pub const MAX_HOSTS: u16 = 1024;
/// Tiers at most.
pub const MAX_TIERS: u16 = 16;
/// Queues of CAKE, and so its flow and host classes.
pub const CAKE_QUEUES: u16 = 1024;
/// The port of VXLAN (RFC 7348).
pub const VXLAN_PORT: u16 = 4789;

named! {
    /// What a host is told by: an address of the packet itself or, in a tunnel, of the innermost packet; the firewall mark, for hosts behind NAT
    /// which a rule before the NAT marks; the number of the VLAN.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    HostKey: 6 {
        Src "src",
        Dst "dst",
        TunnelSrc "tunnel-src",
        TunnelDst "tunnel-dst",
        Mark "mark",
        Vlan "vlan",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hosts {
    pub by: HostKey,
    /// How many classes there are, 1 to [`MAX_HOSTS`].
    pub classes: u16,
    /// A host that was silent for so long gives its class back.
    pub idle: Span,
    /// Bits of an IPv4 address that count.
    pub v4_prefix: u8,
    /// Bits of an IPv6 address that count: with 64, all addresses of a network are one host, which is right for customers and wrong for the
    /// hosts of one network.
    pub v6_prefix: u8,
    /// Whether all addresses of a neighbour that the kernel knows are one host.
    pub neighbours: bool,
    /// Whether an IPv4 packet's mark, where it has one, is the host's address in the order of bytes on the wire: what it was before
    /// addresses were translated.
    pub translated: bool,
}

impl Hosts {
    /// Each address is a host, and gives its class back after a minute.
    pub const fn new(by: HostKey, classes: u16) -> Self {
        let idle = Span::from_secs(60);
        let (neighbours, translated) = (false, false);
        Hosts { by, classes, idle, v4_prefix: 32, v6_prefix: 128, neighbours, translated }
    }
}

/// Which header's DSCP tells the tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TierBy {
    /// The outermost IP header's.
    #[default]
    Outer,
    /// The innermost IP header's.
    Tunnel,
}

/// Tiers: which DSCP belongs to which. Nothing is written into the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiers {
    /// The tier of each of the 64 DSCPs, from 0; below [`MAX_TIERS`].
    pub of: [u8; 64],
    /// Whose DSCP.
    pub by: TierBy,
    /// Where packets go to a CAKE: its handle. CAKE then takes tin `tier + 1` instead of looking at the outer header.
    pub cake_tins: Option<u16>,
}

impl Tiers {
    pub fn count(&self) -> u16 {
        u16::from(self.of.iter().copied().fold(0, u8::max)) + 1
    }
}

impl Default for Tiers {
    fn default() -> Self {
        Tiers { of: [0; 64], by: TierBy::Outer, cake_tins: None }
    }
}

/// How host, tier and flow become a class id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `major : base + host × host_step + tier × tier_step + flow × flow_step`, each counted from 0.
    ///
    /// HTB and DRR look for this class; fq_codel and SFQ take the minor as the number of the queue, from 1.
    Classes {
        major: u16,
        base: u16,
        /// Classes from one host to the next.
        host_step: u16,
        /// Classes from one tier to the next.
        tier_step: u16,
        /// Classes from one flow to the next.
        flow_step: u16,
    },
    /// For CAKE: the major is the host, from 1, the minor the flow, from 1. Without hosts the major is 0, and CAKE finds hosts by itself.
    Cake,
}

/// What the classifier is to do; made by [`Config::new`], which refuses what makes no sense.
///
/// Printed it is the filter's name in the kernel, from which it can be read again; as TOML it is a filter of a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    parts: Parts,
}

/// The parts of a [`Config`].
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// From what flows are told apart.
    pub keys: Keys,
    /// Into how many classes flows are hashed.
    pub flows: u16,
    pub hosts: Option<Hosts>,
    pub tiers: Tiers,
    /// How all this becomes a class id.
    pub layout: Layout,
    /// The class of what is no IP packet. None is for CAKE alone, which then looks for itself.
    pub other: Option<Handle>,
    /// Begins each hash; the same seed, the same classes, on every machine.
    pub seed: u64,
    /// The UDP port in which VXLAN is looked for.
    pub vxlan_port: u16,
    /// Of CAKE alone: what is in no tunnel gets no class, and CAKE looks for itself.
    pub tunnels_only: bool,
}

/// Why there is no such configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("{what} is {is}, but must be from {least} to {most}")]
    Range { what: &'static str, is: u64, least: u64, most: u64 },
    #[error(
        "{hosts} hosts, {tiers} tiers and {flows} flows from {major:x}:{base:x} on would reach minor {last:#x}, but \
         there are none above 0xffff: take fewer hosts or flows, or smaller steps"
    )]
    TooManyClasses { major: u16, base: u16, hosts: u16, tiers: u16, flows: u16, last: u64 },
    #[error(
        "no class was given for what is no IP packet (ARP, for one): name one, since most queues drop what no filter \
         gives a class"
    )]
    NoOther,
    #[error("what is no IP packet can't go to {0}: name a class of the queue, as 1:1")]
    BadOther(Handle),
    #[error("what is in no tunnel can be left to CAKE alone: leave out tunnels_only, or base")]
    TunnelsOnly,
}

impl Config {
    /// Checks the parts.
    pub fn new(parts: Parts) -> Result<Self, ConfigError> {
        let range = |what, is: u64, least, most| {
            let fits = (least..=most).contains(&is);
            if fits { Ok(()) } else { Err(ConfigError::Range { what, is, least, most }) }
        };
        let cake = parts.layout == Layout::Cake;
        let most_flows = if cake { CAKE_QUEUES.into() } else { 0xffff };
        range("the number of flow classes", parts.flows.into(), 1, most_flows)?;
        if let Some(hosts) = &parts.hosts {
            range("the number of host classes", hosts.classes.into(), 1, MAX_HOSTS.into())?;
            range("the IPv4 prefix of a host", hosts.v4_prefix.into(), 0, 32)?;
            range("the IPv6 prefix of a host", hosts.v6_prefix.into(), 0, 128)?;
            // The program's clock ticks some hundred times a second.
            let most = Span::from_secs(365 * 86400).nanos();
            range("a host's idle time in ns", hosts.idle.nanos(), 100_000_000, most)?;
        }
        if parts.tunnels_only && !cake {
            return Err(ConfigError::TunnelsOnly);
        }
        let tiers = parts.tiers.count();
        range("the number of tiers", tiers.into(), 1, MAX_TIERS.into())?;
        if let Some(handle) = parts.tiers.cake_tins {
            range("the handle of the CAKE with tins", handle.into(), 1, 0xfffe)?;
        }
        if let Layout::Classes { major, base, host_step, tier_step, flow_step } = parts.layout {
            range("the major of the classes", major.into(), 1, 0xfffe)?;
            range("the minor of the first class", base.into(), 1, 0xffff)?;
            let hosts = parts.hosts.map_or(1, |hosts| hosts.classes);
            let flows = if parts.keys == Keys::NONE { 1 } else { parts.flows };
            let reach = |count: u16, step: u16| u64::from(count - 1) * u64::from(step);
            let last = u64::from(base)
                + reach(hosts, host_step)
                + reach(tiers, tier_step)
                + reach(flows, flow_step);
            if last > 0xffff {
                return Err(ConfigError::TooManyClasses { major, base, hosts, tiers, flows, last });
            }
        }
        match parts.other {
            None if !cake => Err(ConfigError::NoOther),
            // 0 is no match, ffff:ffff the filter's own class.
            Some(other) if other.minor == 0 || other.major == 0xffff => {
                Err(ConfigError::BadOther(other))
            }
            _ => Ok(Config { parts }),
        }
    }

    /// For fq_codel and SFQ: `flows` queues by addresses, protocol and ports, in tunnels too. `major` is the queue's handle.
    pub fn flows(major: u16, flows: u16) -> Result<Self, ConfigError> {
        Config::new(Parts::flows(major, flows))
    }

    /// For CAKE: hosts and flows, those in tunnels too.
    pub fn cake(by: HostKey) -> Result<Self, ConfigError> {
        Config::new(Parts::cake(by))
    }

    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// In a few words, for people.
    pub fn words(&self) -> String {
        let Parts { keys, flows, hosts, tiers, .. } = &self.parts;
        let mut words = Vec::new();
        if let Some(Hosts { by, classes, .. }) = hosts {
            words.push(format!("{classes} hosts by {}", by.name()));
        }
        if tiers.count() > 1 {
            words.push(format!("{} tiers", tiers.count()));
        }
        if *keys != Keys::NONE {
            words.push(format!("{flows} flows by {keys}"));
        }
        if self.parts.tunnels_only {
            words.push("of what is in tunnels".to_owned());
        }
        format!("quell classifier: {}", words.join(", "))
    }

    /// Where packets of a host and tier go, in this order; each flow's class. CAKE has none of its own.
    pub fn classes(&self) -> impl Iterator<Item = Handle> + '_ {
        let Parts { keys, flows, hosts, tiers, layout, other, .. } = &self.parts;
        let counts = match layout {
            Layout::Cake => [0; 3],
            Layout::Classes { .. } => {
                let flows = if *keys == Keys::NONE { 1 } else { *flows };
                [hosts.map_or(1, |hosts| hosts.classes), tiers.count(), flows]
            }
        };
        let one = move |host: u16, tier: u16, flow: u16| match *layout {
            Layout::Cake => Handle::ROOT,
            // Checked when this was made.
            Layout::Classes { major, base, host_step, tier_step, flow_step } => {
                Handle::class(major, base + host * host_step + tier * tier_step + flow * flow_step)
            }
        };
        let [hosts, tiers, flows] = counts;
        let all = (0..hosts).flat_map(move |host| {
            (0..tiers).flat_map(move |tier| (0..flows).map(move |flow| one(host, tier, flow)))
        });
        all.chain(*other)
    }
}

impl Parts {
    /// See [`Config::flows`].
    pub fn flows(major: u16, flows: u16) -> Self {
        Parts {
            keys: Keys::ALL_FLOWS,
            flows,
            hosts: None,
            tiers: Tiers::default(),
            layout: Layout::Classes { major, base: 1, host_step: 0, tier_step: 0, flow_step: 1 },
            other: Some(Handle::class(major, 1)),
            seed: 0,
            vxlan_port: VXLAN_PORT,
            tunnels_only: false,
        }
    }

    /// See [`Config::cake`].
    pub fn cake(by: HostKey) -> Self {
        Parts {
            hosts: Some(Hosts::new(by, CAKE_QUEUES)),
            layout: Layout::Cake,
            other: None,
            ..Parts::flows(1, CAKE_QUEUES)
        }
    }

    /// For HTB and DRR: a class for each host and tier, `host_step` classes from host to host, and no flows.
    pub fn hosts(major: u16, base: u16, hosts: Hosts, host_step: u16, other: Handle) -> Self {
        Parts {
            keys: Keys::NONE,
            flows: 1,
            hosts: Some(hosts),
            layout: Layout::Classes { major, base, host_step, tier_step: 1, flow_step: 0 },
            other: Some(other),
            ..Parts::flows(major, 1)
        }
    }
}
