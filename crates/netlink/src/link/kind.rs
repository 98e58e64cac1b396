//! The kinds of interface that can be made, and what each needs to be told.

use crate::core::AttrWriter;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What sort of interface to make. (A veth pair has its own operation, because it makes two.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkKind {
    /// Swallows what is sent to it.
    Dummy,
    /// Intermediate functional block: gives ingress traffic a queue.
    Ifb,
    /// Ethernet bridge; without STP and multicast snooping, so that it sends nothing by itself and
    /// forwards at once.
    Bridge,
    /// A VLAN on another interface.
    Vlan {
        parent: u32,
        id: VlanId,
    },
    Tunnel(Tunnel),
    /// WireGuard; keys and peers are set afterwards, see [`crate::wireguard`].
    Wireguard,
}

/// A VLAN tag: 1 to 4094 (IEEE 802.1Q; 0 and 4095 are reserved).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VlanId(u16);

impl VlanId {
    /// The tag of this number, if it is one.
    pub fn new(number: u16) -> Option<Self> {
        (1..=4094).contains(&number).then_some(Self(number))
    }

    pub fn get(self) -> u16 {
        self.0
    }
}

/// A tunnel between two addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tunnel {
    /// IPv4 in IPv4 (RFC 2003), device kind `ipip`.
    Ipip(TunnelEnds<Ipv4Addr>),
    /// IPv6 in IPv4 (RFC 4213, protocol 41), device kind `sit`.
    Sit(TunnelEnds<Ipv4Addr>),
    /// IPv4, IPv6 or both in IPv6 (RFC 2473), device kind `ip6tnl`. Without the encapsulation limit
    /// option, so that the inner packet follows the outer header directly.
    Ip6Tnl(TunnelEnds<Ipv6Addr>, TunnelPayload),
    /// GRE over IPv4 (RFC 2784), carrying IP.
    Gre {
        ends: TunnelEnds<Ipv4Addr>,
        /// The key of both directions (RFC 2890), if any.
        key: Option<u32>,
    },
    /// GRE over IPv6, carrying IP. Without the encapsulation limit option.
    Ip6Gre {
        ends: TunnelEnds<Ipv6Addr>,
        /// The key of both directions (RFC 2890), if any.
        key: Option<u32>,
    },
}

/// What an [`Tunnel::Ip6Tnl`] carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TunnelPayload {
    /// IPv4 only (4in6).
    V4,
    /// IPv6 only (6in6).
    V6,
    Any,
}

/// The two ends of a tunnel as seen from here, and the outer header's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunnelEnds<A> {
    pub local: A,
    /// The other end's outer address.
    pub remote: A,
    /// Outer TTL or hop limit; 0 copies the inner one.
    pub ttl: u8,
    /// Outer TOS or traffic class.
    pub tos: OuterTos,
}

impl<A> TunnelEnds<A> {
    /// TunnelEnds with a TTL of 64 and the inner packet's TOS.
    pub fn new(local: A, remote: A) -> Self {
        Self { local, remote, ttl: 64, tos: OuterTos::Inherit }
    }
}

/// What goes into the outer header's TOS or traffic class byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OuterTos {
    Inherit,
    /// Always this one. 1 can't be asked for: to the kernel it means "inherit", and so it does
    /// here.
    Fixed(u8),
}

/// `IPTUNNEL`'s and GRE's way to say "the inner packet's".
const TOS_INHERIT: u8 = 1;
/// Flags of ip6tnl and ip6gre (`include/uapi/linux/ip6_tunnel.h`).
const IGNORE_ENCAP_LIMIT: u32 = 0x1;
const USE_INNER_TRAFFIC_CLASS: u32 = 0x2;
/// What iproute2 sends as limit; [`IGNORE_ENCAP_LIMIT`] keeps it from being used.
const DEFAULT_ENCAP_LIMIT: u8 = 4;
/// `TUNNEL_ENCAP_FLAG_CSUM6`, which iproute2 sends although there is no further encapsulation.
const ENCAP_FLAG_CSUM6: u16 = 2;

impl LinkKind {
    /// The kernel's name for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Dummy => "dummy",
            Self::Ifb => "ifb",
            Self::Bridge => "bridge",
            Self::Vlan { .. } => "vlan",
            Self::Wireguard => "wireguard",
            Self::Tunnel(Tunnel::Ipip(_)) => "ipip",
            Self::Tunnel(Tunnel::Sit(_)) => "sit",
            Self::Tunnel(Tunnel::Ip6Tnl(..)) => "ip6tnl",
            Self::Tunnel(Tunnel::Gre { .. }) => "gre",
            Self::Tunnel(Tunnel::Ip6Gre { .. }) => "ip6gre",
        }
    }

    /// Whether the kind takes settings (`IFLA_INFO_DATA`).
    pub(super) fn has_settings(&self) -> bool {
        matches!(self, Self::Bridge | Self::Vlan { .. } | Self::Tunnel(_))
    }

    /// Writes the kind's settings, in iproute2's order.
    pub(super) fn write_settings(&self, to: &mut AttrWriter) {
        match self {
            Self::Dummy | Self::Ifb | Self::Wireguard => {}
            Self::Bridge => {
                const STP_STATE: u16 = 5;
                const FORWARD_DELAY: u16 = 1;
                const MCAST_SNOOPING: u16 = 23;
                to.u32(FORWARD_DELAY, 0).u32(STP_STATE, 0).u8(MCAST_SNOOPING, 0);
            }
            Self::Vlan { id, .. } => {
                const ID: u16 = 1;
                to.u16(ID, id.get());
            }
            Self::Tunnel(Tunnel::Ipip(ends)) => write_ip_in_v4(ends, to),
            Self::Tunnel(Tunnel::Sit(ends)) => {
                const FLAGS: u16 = 8;
                write_ip_in_v4(ends, to);
                to.u16(FLAGS, 0);
            }
            Self::Tunnel(Tunnel::Ip6Tnl(ends, payload)) => write_ip_in_v6(ends, *payload, to),
            Self::Tunnel(Tunnel::Gre { ends, key }) => write_gre_v4(ends, *key, to),
            Self::Tunnel(Tunnel::Ip6Gre { ends, key }) => write_gre_v6(ends, *key, to),
        }
    }
}

/// `IFLA_IPTUN_*`, shared by ipip, sit and ip6tnl.
mod iptun {
    pub const LINK: u16 = 1;
    pub const LOCAL: u16 = 2;
    pub const REMOTE: u16 = 3;
    pub const TTL: u16 = 4;
    pub const TOS: u16 = 5;
    pub const ENCAP_LIMIT: u16 = 6;
    pub const FLOWINFO: u16 = 7;
    pub const FLAGS: u16 = 8;
    pub const PROTO: u16 = 9;
    pub const PMTUDISC: u16 = 10;
    pub const ENCAP_TYPE: u16 = 15;
    pub const FWMARK: u16 = 20;
}

/// `IFLA_GRE_*`.
mod gre {
    pub const IFLAGS: u16 = 2;
    pub const OFLAGS: u16 = 3;
    pub const IKEY: u16 = 4;
    pub const OKEY: u16 = 5;
    pub const LOCAL: u16 = 6;
    pub const REMOTE: u16 = 7;
    pub const TTL: u16 = 8;
    pub const TOS: u16 = 9;
    pub const PMTUDISC: u16 = 10;
    pub const ENCAP_LIMIT: u16 = 11;
    pub const FLOWINFO: u16 = 12;
    pub const FLAGS: u16 = 13;
    pub const ENCAP_TYPE: u16 = 14;
    pub const FWMARK: u16 = 20;
    /// `GRE_KEY`: the header has a key.
    pub const HAS_KEY: u16 = 0x2000;
}

fn write_ip_in_v4(ends: &TunnelEnds<Ipv4Addr>, to: &mut AttrWriter) {
    // Protocol 0: any. The device kind itself decides what is carried.
    to.u8(iptun::PROTO, 0)
        .bytes(iptun::LOCAL, &ends.local.octets())
        .bytes(iptun::REMOTE, &ends.remote.octets())
        .u8(iptun::PMTUDISC, 1)
        .u8(iptun::TOS, v4_tos(ends.tos))
        .u8(iptun::TTL, ends.ttl)
        .u32(iptun::LINK, 0)
        .u32(iptun::FWMARK, 0);
    write_no_further_encapsulation(iptun::ENCAP_TYPE, 0, to);
}

fn write_ip_in_v6(ends: &TunnelEnds<Ipv6Addr>, payload: TunnelPayload, to: &mut AttrWriter) {
    let protocol = match payload {
        TunnelPayload::V4 => libc::IPPROTO_IPIP as u8,
        TunnelPayload::V6 => libc::IPPROTO_IPV6 as u8,
        TunnelPayload::Any => 0,
    };
    let (flow, flags) = v6_class(ends.tos);
    to.u8(iptun::PROTO, protocol)
        .bytes(iptun::LOCAL, &ends.local.octets())
        .bytes(iptun::REMOTE, &ends.remote.octets())
        .u8(iptun::TTL, ends.ttl)
        .u8(iptun::ENCAP_LIMIT, DEFAULT_ENCAP_LIMIT)
        .be32(iptun::FLOWINFO, flow)
        .u32(iptun::FLAGS, flags)
        .u32(iptun::LINK, 0)
        .u32(iptun::FWMARK, 0);
    write_no_further_encapsulation(iptun::ENCAP_TYPE, ENCAP_FLAG_CSUM6, to);
}

fn write_gre_v4(ends: &TunnelEnds<Ipv4Addr>, key: Option<u32>, to: &mut AttrWriter) {
    write_gre_key(key, to);
    to.bytes(gre::LOCAL, &ends.local.octets())
        .bytes(gre::REMOTE, &ends.remote.octets())
        .u8(gre::PMTUDISC, 1)
        .u8(gre::TOS, v4_tos(ends.tos))
        .u8(gre::TTL, ends.ttl)
        .u32(gre::FWMARK, 0);
    write_no_further_encapsulation(gre::ENCAP_TYPE, 0, to);
}

fn write_gre_v6(ends: &TunnelEnds<Ipv6Addr>, key: Option<u32>, to: &mut AttrWriter) {
    let (flow, flags) = v6_class(ends.tos);
    write_gre_key(key, to);
    to.bytes(gre::LOCAL, &ends.local.octets())
        .bytes(gre::REMOTE, &ends.remote.octets())
        .u8(gre::TTL, ends.ttl)
        .u8(gre::ENCAP_LIMIT, DEFAULT_ENCAP_LIMIT)
        .be32(gre::FLOWINFO, flow)
        .u32(gre::FLAGS, flags)
        .u32(gre::FWMARK, 0);
    write_no_further_encapsulation(gre::ENCAP_TYPE, ENCAP_FLAG_CSUM6, to);
}

fn write_gre_key(key: Option<u32>, to: &mut AttrWriter) {
    let flags = if key.is_some() { gre::HAS_KEY } else { 0 };
    let key = key.unwrap_or(0);
    to.be32(gre::IKEY, key).be32(gre::OKEY, key).be16(gre::IFLAGS, flags).be16(gre::OFLAGS, flags);
}

/// Encapsulation in UDP: kind none, flags, no ports. Four attributes in a row, from `first` on.
fn write_no_further_encapsulation(first: u16, flags: u16, to: &mut AttrWriter) {
    to.u16(first, 0).u16(first + 1, flags).u16(first + 2, 0).u16(first + 3, 0);
}

fn v4_tos(tos: OuterTos) -> u8 {
    match tos {
        OuterTos::Inherit => TOS_INHERIT,
        OuterTos::Fixed(tos) => tos,
    }
}

/// The flow word (4 bits of version, 8 of traffic class, 20 of label) and the flags.
fn v6_class(tos: OuterTos) -> (u32, u32) {
    match tos {
        OuterTos::Inherit => (0, IGNORE_ENCAP_LIMIT | USE_INNER_TRAFFIC_CLASS),
        OuterTos::Fixed(tos) => (u32::from(tos) << 20, IGNORE_ENCAP_LIMIT),
    }
}
