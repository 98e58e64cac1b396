//! A topology as a person writes it: hosts, routers, links, tunnels.
//!
//! ```toml
//! hosts   = ["a", "b", "server"]
//! routers = ["router", "modem"]
//!
//! [[link]]
//! name = "dsl"
//! ends = ["modem", "server"]            # up: from the first end to the second
//! up   = { rate = "2.5Mbit", delay = "10ms", buffer = "100p" }
//! down = { rate = "8Mbit",   delay = "10ms", buffer = "100p" }
//! ```
//!
//! A link's name is also the name of its network device on both of its ends, so `router:wan` means the device `wan` of the node
//! `router`.

use quell_series::LineSeries;
use quell_tc::Queue;
use quell_units::{Buffer, Bytes, Rate, Ratio, Span};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Topology {
    pub hosts: Vec<String>,
    #[serde(default)]
    pub routers: Vec<String>,
    /// What joins them. The links must form a tree, so that each pair of nodes has one path.
    #[serde(default)]
    pub link: Vec<Link>,
    #[serde(default)]
    pub tunnel: Vec<Tunnel>,
    /// Interfaces whose outgoing traffic gets the interface's own address (masquerade, IPv4 and IPv6), as `router:wan`.
    #[serde(default)]
    pub nat: Vec<String>,
}

/// A cable between two nodes, or a line with a rate, a delay and a buffer in each direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Link {
    /// The link's name, and that of its device on both ends.
    pub name: String,
    pub ends: [String; 2],
    /// Both directions alike; `up` and `down` must then be absent.
    pub both: Option<Line>,
    /// From the first end to the second.
    pub up: Option<Line>,
    /// From the second end to the first.
    pub down: Option<Line>,
    /// Instead of these: the file of a line that was measured (`quell twin learn`).
    pub line: Option<String>,
    /// Half duplex: one packet is on its way at a time, in either direction.
    #[serde(default)]
    pub shared: bool,
    /// Largest IP packet in bytes; 1500 where absent.
    pub mtu: Option<u32>,
    /// IP packets larger than this vanish on the way, and nobody is told: a path MTU black hole (RFC 2923, section 2.1).
    pub swallows_above: Option<u32>,
    /// Transmit queues of its devices, as a network card has them; one where absent.
    pub tx_queues: Option<u16>,
}

/// One direction of a link. What is absent does not limit: no rate is a very fast wire, no delay none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Line {
    /// Rate on the wire: IP packet, 14 bytes of Ethernet header and `overhead`. One packet at a time, each for its size / rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Files that say how rate, delay and loss change over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<LineFiles>,
    /// Propagation delay, from the last bit's leaving to its arrival.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Delay varies uniformly by up to this much either way; packets that overtake are reordered, as in netem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Ratio>,
    /// How many are lost in a row, on average; one by one where absent. Only with a loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_run: Option<f64>,
    /// Share of packets marked CE at random (RFC 3168); those that can't be marked are dropped, as in netem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Ratio>,
    /// Share of packets that skip the delay and so overtake others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Ratio>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<Ratio>,
    /// What waits in front of a link that is busy, beside the packet that is on it: `100p` or `256kB`. Only with a rate; 100 packets where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Buffer>,
    /// Bytes that each packet costs on the wire beyond its Ethernet frame. Only with a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<u16>,
    /// Each packet takes whole cells of 53 bytes, of which 48 are its own (ATM). Only with a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cells: Option<bool>,
    /// Packets leave at multiples of this time alone. Only with a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<Span>,
    /// Before the rate: what comes faster than this is dropped, and nothing delayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub police: Option<Policer>,
    /// A queue discipline in place of the plain buffer. Only with a rate, and not with `buffer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// Whether it takes turns with the other direction of its link, which says so.
    #[serde(skip)]
    pub shared: bool,
}

/// A bucket of tokens that fills at a rate; a packet that finds too few in it is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policer {
    /// Of IP packets and 14 bytes of Ethernet header.
    pub rate: Rate,
    pub burst: Bytes,
}

impl Line {
    /// Whether something is done to its packets between the two nodes ([`crate::line::middle`]).
    pub fn has_middle(&self) -> bool {
        self.rate.is_some() || self.reorder.is_some()
    }

    /// Whether packets may have to wait for others. What files say is known once they are read.
    pub fn has_rate(&self) -> bool {
        self.rate.is_some() || self.series.is_some() && self.varies().is_none()
    }

    /// How it changes over time; `rate` is then its mean.
    pub fn varies(&self) -> Option<&LineSeries> {
        match &self.series {
            Some(LineFiles::Read(series)) => Some(series),
            _ => None,
        }
    }
}

/// The files of a line that changes: as they are named, or what they say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LineFiles {
    One(String),
    Several(Vec<String>),
    #[serde(with = "shared_series")]
    Read(Arc<LineSeries>),
}

impl LineFiles {
    pub fn names(&self) -> &[String] {
        match self {
            LineFiles::One(name) => std::slice::from_ref(name),
            LineFiles::Several(names) => names,
            LineFiles::Read(_) => &[],
        }
    }
}

/// A series that many plans share, as a value.
mod shared_series {
    use quell_series::LineSeries;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    pub fn serialize<S: Serializer>(series: &Arc<LineSeries>, to: S) -> Result<S::Ok, S::Error> {
        LineSeries::serialize(series, to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<LineSeries>, D::Error> {
        LineSeries::deserialize(from).map(Arc::new)
    }
}

/// A tunnel between two nodes. Traffic between `from` and `to` takes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tunnel {
    /// The tunnel's name, and that of its device on both ends.
    pub name: String,
    pub kind: TunnelKind,
    pub ends: [String; 2],
    /// Hosts behind the first end whose traffic takes the tunnel; all that are behind it where empty.
    #[serde(default)]
    pub from: Vec<String>,
    /// Hosts behind the second end; all that are behind it where empty.
    #[serde(default)]
    pub to: Vec<String>,
    /// Largest inner packet in bytes; the kernel's own sum where absent.
    pub mtu: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TunnelKind {
    /// IPv4 in IPv4 (RFC 2003).
    #[serde(rename = "ipip", alias = "4in4")]
    Ipip,
    /// IPv6 in IPv4 (RFC 4213).
    #[serde(rename = "6in4", alias = "sit")]
    SixInFour,
    /// IPv4 in IPv6 (RFC 2473).
    #[serde(rename = "4in6")]
    FourInSix,
    /// IPv6 in IPv6 (RFC 2473).
    #[serde(rename = "6in6")]
    SixInSix,
    /// GRE over IPv4 (RFC 2784), carrying both.
    #[serde(rename = "gre")]
    Gre,
    /// WireGuard over IPv4, carrying both.
    #[serde(rename = "wireguard")]
    WireGuard,
}

impl TunnelKind {
    /// Whether the kernel takes two between the same addresses for one (`ip6_tnl_locate`, net/ipv6/ip6_tunnel.c, and its likes). WireGuard
    /// tells them by their keys.
    pub(crate) fn is_taken_for(self, other: TunnelKind) -> bool {
        let over_v6 = |kind| matches!(kind, TunnelKind::FourInSix | TunnelKind::SixInSix);
        (self == other && self != TunnelKind::WireGuard) || (over_v6(self) && over_v6(other))
    }

    pub fn carries_v4(self) -> bool {
        !matches!(self, TunnelKind::SixInFour | TunnelKind::SixInSix)
    }

    pub fn carries_v6(self) -> bool {
        !matches!(self, TunnelKind::Ipip | TunnelKind::FourInSix)
    }
}

/// A network device of a node, written `node:device`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Interface {
    pub node: String,
    /// The device: a link's or a tunnel's name.
    pub device: String,
}

impl std::fmt::Display for Interface {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.node, self.device)
    }
}

impl TryFrom<String> for Interface {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once(':') {
            Some((node, device)) if !node.is_empty() && !device.is_empty() => {
                Ok(Interface { node: node.into(), device: device.into() })
            }
            _ => {
                Err(format!("`{text}` is not an interface; write node:link, as in \"router:wan\""))
            }
        }
    }
}

impl From<Interface> for String {
    fn from(i: Interface) -> String {
        i.to_string()
    }
}
