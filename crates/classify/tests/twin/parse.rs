//! A packet's headers, outermost and innermost. The same in C is `../../src/bpf/headers.h` and `../../src/bpf/parse.h`, whose order this follows.

use std::net::IpAddr;

/// What of a packet the classifier is given.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Its ethertype, as the kernel has it beside the packet.
    pub protocol: u16,
    /// From the network header on.
    pub bytes: &'a [u8],
    /// The tag that the kernel has taken off and keeps beside the packet.
    pub vlan: Option<u16>,
    /// Its firewall mark.
    pub mark: u32,
}

impl<'a> Packet<'a> {
    /// A frame, whose Ethernet header is taken off; none if it has none.
    pub fn of_frame(frame: &'a [u8]) -> Option<Self> {
        let (header, bytes) = frame.split_at_checked(14)?;
        let length_or_type = u16::from_be_bytes([header[12], header[13]]);
        // Below is a length, and what follows is 802.2 (`eth_type_trans` of net/ethernet/eth.c).
        let protocol = if length_or_type < 0x600 { 4 } else { length_or_type };
        Some(Packet { protocol, bytes, vlan: None, mark: 0 })
    }

    fn read<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn be16(&self, at: usize) -> Option<u16> {
        self.read(at).map(u16::from_be_bytes)
    }
}

/// An address as two numbers, in their order on the wire; IPv4 is `::ffff:a.b.c.d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Address {
    /// The first eight bytes.
    pub high: u64,
    /// The last eight bytes.
    pub low: u64,
}

impl From<u128> for Address {
    fn from(bits: u128) -> Self {
        Address { high: (bits >> 64) as u64, low: bits as u64 }
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        let v6 = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        v6.to_bits().into()
    }
}

/// What is taken from an IP header and what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Headers {
    /// Source.
    pub src: Address,
    /// Destination.
    pub dst: Address,
    /// Source port, or 0.
    pub src_port: u16,
    /// Destination port, or 0.
    pub dst_port: u16,
    /// Protocol, after extension headers.
    pub proto: u8,
    /// The upper six bits of the TOS byte or traffic class.
    pub dscp: u8,
}

/// The headers of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parsed {
    /// The outermost.
    pub outer: Headers,
    /// The innermost; the outermost again without a tunnel.
    pub inner: Headers,
    /// How many tunnels were entered.
    pub tunnels: u32,
    /// The number in the outermost VLAN tag, or 0.
    pub vlan: u16,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const UDP: u8 = 17;

/// Tunnels within each other that are entered.
const MAX_TUNNELS: u32 = 2;
/// VLAN tags and PPPoE headers that are passed.
const MAX_TAGS: usize = 3;
/// IPv6 extension headers that are passed.
const MAX_EXTENSIONS: usize = 6;

/// A place behind headers of known size; reading there may fail.
type Offset = usize;

/// The headers; none if it is no IP packet.
pub fn parse(packet: &Packet<'_>, vxlan_port: u16) -> Option<Parsed> {
    let mut vlan = packet.vlan.unwrap_or(0) & 0xfff;
    let (ethertype, at) = pass_tags(packet, packet.protocol, 0, Some(&mut vlan))?;
    let (mut outer, at) = parse_ip(packet, ethertype, at)?;
    let mut next = at.and_then(|at| parse_payload(packet, vxlan_port, at, &mut outer, true));
    let (mut inner, mut tunnels) = (outer, 0);
    while let Some((ethertype, at)) = next {
        let Some((mut headers, at)) = parse_ip(packet, ethertype, at) else { break };
        tunnels += 1;
        let enter = tunnels < MAX_TUNNELS;
        next = at.and_then(|at| parse_payload(packet, vxlan_port, at, &mut headers, enter));
        inner = headers;
    }
    Some(Parsed { outer, inner, tunnels, vlan })
}

/// The outermost IP header and whether it is IPv4's; none if it is no IP packet.
pub(super) fn headers_of(packet: &Packet<'_>) -> Option<(Headers, bool)> {
    let (ethertype, at) = pass_tags(packet, packet.protocol, 0, None)?;
    let (headers, _) = parse_ip(packet, ethertype, at)?;
    Some((headers, ethertype == IPV4))
}

/// Passes VLAN tags and PPPoE: what follows, and where.
fn pass_tags(
    packet: &Packet<'_>,
    mut ethertype: u16,
    mut at: Offset,
    mut vlan: Option<&mut u16>,
) -> Option<(u16, Offset)> {
    for _ in 0..MAX_TAGS {
        match ethertype {
            IPV4 | IPV6 => break,
            0x8100 | 0x88a8 => {
                let tag: [u8; 4] = packet.read(at)?;
                if let Some(vlan) = vlan.as_deref_mut().filter(|vlan| **vlan == 0) {
                    *vlan = u16::from_be_bytes([tag[0], tag[1]]) & 0xfff;
                }
                ethertype = u16::from_be_bytes([tag[2], tag[3]]);
                at += 4;
            }
            0x8864 => {
                let session: [u8; 8] = packet.read(at)?;
                ethertype = match session[6..] {
                    [0, 0x21] => IPV4,
                    [0, 0x57] => IPV6,
                    _ => return None,
                };
                at += 8;
            }
            _ => return None,
        }
    }
    Some((ethertype, at))
}

fn pass_ethernet(packet: &Packet<'_>, at: Offset) -> Option<(u16, Offset)> {
    pass_tags(packet, packet.be16(at + 12)?, at + 14, None)
}

fn pass_gre(packet: &Packet<'_>, at: Offset) -> Option<(u16, Offset)> {
    let header: [u8; 4] = packet.read(at)?;
    let flags = u16::from_be_bytes([header[0], header[1]]);
    let ethertype = u16::from_be_bytes([header[2], header[3]]);
    // Routing, or a version that is not 0.
    if flags & 0x4007 != 0 {
        return None;
    }
    let words = (flags & 0xb000).count_ones() as usize;
    let at = at + 4 + 4 * words;
    if ethertype == 0x6558 { pass_ethernet(packet, at) } else { Some((ethertype, at)) }
}

fn pass_vxlan(packet: &Packet<'_>, at: Offset) -> Option<(u16, Offset)> {
    let [flags] = packet.read(at)?;
    if flags & 8 == 0 { None } else { pass_ethernet(packet, at + 8) }
}

fn is_extension(next: u8) -> bool {
    matches!(next, 0 | 43 | FRAGMENT | AUTHENTICATION | 60 | 135 | 139 | 140)
}

/// Where ports may be, behind the extension headers; none where there are none.
fn pass_extensions(packet: &Packet<'_>, headers: &mut Headers, mut at: Offset) -> Option<Offset> {
    for _ in 0..MAX_EXTENSIONS {
        let kind = headers.proto;
        if !is_extension(kind) {
            return Some(at);
        }
        let [next, length, a, b] = packet.read(at)?;
        headers.proto = next;
        at += match kind {
            FRAGMENT if a != 0 || b & 0xf9 != 0 => return None,
            FRAGMENT => 8,
            AUTHENTICATION => (usize::from(length) + 2) * 4,
            _ => (usize::from(length) + 1) * 8,
        };
    }
    (!is_extension(headers.proto)).then_some(at)
}

/// An IP header, and where what it carries begins; nowhere for a fragment.
fn parse_ip(packet: &Packet<'_>, ethertype: u16, at: Offset) -> Option<(Headers, Option<Offset>)> {
    match ethertype {
        IPV4 => {
            let h: [u8; 20] = packet.read(at)?;
            let ihl = usize::from(h[0] & 15);
            if h[0] >> 4 != 4 || ihl < 5 {
                return None;
            }
            let address = |at: usize| {
                let v4 = u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
                Address { high: 0, low: 0xffff_0000_0000 | u64::from(v4) }
            };
            let headers = Headers {
                src: address(12),
                dst: address(16),
                proto: h[9],
                dscp: h[1] >> 2,
                ..Headers::default()
            };
            let is_fragment = u16::from_be_bytes([h[6], h[7]]) & 0x3fff != 0;
            Some((headers, (!is_fragment).then_some(at + ihl * 4)))
        }
        IPV6 => {
            let h: [u8; 40] = packet.read(at)?;
            if h[0] >> 4 != 6 {
                return None;
            }
            let address = |at: usize| {
                let bytes: [u8; 16] = h[at..at + 16].try_into().expect("16 bytes");
                Address::from(u128::from_be_bytes(bytes))
            };
            let class = (h[0] << 4) | (h[1] >> 4);
            let mut headers = Headers {
                src: address(8),
                dst: address(24),
                proto: h[6],
                dscp: class >> 2,
                ..Headers::default()
            };
            let after = pass_extensions(packet, &mut headers, at + 40);
            Some((headers, after))
        }
        _ => None,
    }
}

/// Notes the ports; what is in the tunnel, and where, if it is one and may be entered.
fn parse_payload(
    packet: &Packet<'_>,
    vxlan_port: u16,
    at: Offset,
    headers: &mut Headers,
    enter: bool,
) -> Option<(u16, Offset)> {
    match headers.proto {
        6 | UDP | 33 | 132 | 136 => {
            let [a, b, c, d] = packet.read(at)?;
            headers.src_port = u16::from_be_bytes([a, b]);
            headers.dst_port = u16::from_be_bytes([c, d]);
            let vxlan = headers.proto == UDP && headers.dst_port == vxlan_port;
            if enter && vxlan { pass_vxlan(packet, at + 8) } else { None }
        }
        4 if enter => Some((IPV4, at)),
        41 if enter => Some((IPV6, at)),
        47 if enter => pass_gre(packet, at),
        _ => None,
    }
}
