//! What lies inside what: from a link's first header to the innermost IP packet.
//!
//! ```text
//!   Ethernet ─ VLAN… ─ MPLS… ─ PPPoE, PPP ─┐
//!      ▲                                   ▼
//!      └── GRE, VXLAN, GENEVE, EtherIP ◄── IP ──► IP (4in6, 6in4, …), L2TP (PPP), TCP
//! ```
//!
//! Each step takes bytes off the front and says what comes next; after [`DEEPEST`] steps nobody goes on.

use super::ip::{Datagram, u8_at, u16_at};
use super::link::{self, Next};
use super::skip::{NotTcp, Skip};

/// More headers inside each other than any network writes.
const DEEPEST: usize = 24;

/// More MPLS labels in a row than any network has.
const MOST_LABELS: usize = 16;

/// A tunnel that packets were read out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tunnel {
    /// An IP packet in an IP packet (RFC 2003, 2473, 4213).
    Ip(Version, Version),
    /// Generic routing encapsulation (RFC 2784, 2890; PPTP's RFC 2637).
    Gre,
    /// PPP over Ethernet (RFC 2516).
    Pppoe,
    /// Labels (RFC 3032).
    Mpls,
    /// Ethernet in UDP (RFC 7348).
    Vxlan,
    /// Anything in UDP (RFC 8926).
    Geneve,
    /// PPP in UDP (RFC 2661).
    L2tp,
    /// Ethernet in IP (RFC 3378).
    EtherIp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    V4,
    V6,
}

impl Tunnel {
    /// Its usual name: what is inside, then what is around it.
    pub fn name(self) -> &'static str {
        match self {
            Tunnel::Ip(Version::V4, Version::V4) => "IPv4 in IPv4",
            Tunnel::Ip(Version::V4, Version::V6) => "IPv4 in IPv6",
            Tunnel::Ip(Version::V6, Version::V4) => "IPv6 in IPv4",
            Tunnel::Ip(Version::V6, Version::V6) => "IPv6 in IPv6",
            Tunnel::Gre => "GRE",
            Tunnel::Pppoe => "PPPoE",
            Tunnel::Mpls => "MPLS",
            Tunnel::Vxlan => "VXLAN",
            Tunnel::Geneve => "GENEVE",
            Tunnel::L2tp => "L2TP",
            Tunnel::EtherIp => "EtherIP",
        }
    }
}

/// The rest of a packet that is not yet read.
struct Rest<'a> {
    bytes: &'a [u8],
    /// How many there were on the wire.
    length: u64,
    /// The outermost tunnel.
    tunnel: Option<Tunnel>,
}

/// The innermost IP packet with TCP in a frame, and the outermost tunnel around it.
pub(super) fn innermost(
    kind: u32,
    bytes: &[u8],
    length: u64,
) -> Result<(Datagram<'_>, Option<Tunnel>), Skip> {
    let (at, mut next) = link::network_header(kind, bytes)?;
    let mut rest = Rest { bytes, length, tunnel: None };
    rest.take(at);
    for _ in 0..DEEPEST {
        next = match next {
            Next::Ethernet => {
                let kind = rest.u16(12)?;
                rest.take(14);
                Next::Type(kind)
            }
            Next::Type(kind) => rest.of_type(kind)?,
            Next::Ppp => rest.ppp()?,
            Next::Ip => {
                let datagram = Datagram::read(rest.bytes, rest.length)?;
                if datagram.fragment {
                    return Err(Skip::Fragment);
                }
                if i32::from(datagram.protocol) == libc::IPPROTO_TCP {
                    return Ok((datagram, rest.tunnel));
                }
                let around = if datagram.source.is_ipv4() { Version::V4 } else { Version::V6 };
                (rest.bytes, rest.length) = (datagram.payload, datagram.length);
                rest.of_protocol(datagram.protocol, around)?
            }
        };
    }
    Err(Skip::NotTcp(NotTcp::TooDeep))
}

impl Rest<'_> {
    fn take(&mut self, count: usize) {
        self.bytes = self.bytes.get(count..).unwrap_or_default();
        self.length = self.length.saturating_sub(count as u64);
    }

    /// What lies beyond this is padding.
    fn end_at(&mut self, length: u16) {
        self.bytes = self.bytes.get(..length.into()).unwrap_or(self.bytes);
        self.length = self.length.min(length.into());
    }

    fn u8(&self, at: usize) -> Result<u8, Skip> {
        u8_at(self.bytes, at).ok_or(Skip::CutShort)
    }

    fn u16(&self, at: usize) -> Result<u16, Skip> {
        u16_at(self.bytes, at).ok_or(Skip::CutShort)
    }

    fn through(&mut self, tunnel: Tunnel) {
        self.tunnel.get_or_insert(tunnel);
    }

    fn of_type(&mut self, kind: u16) -> Result<Next, Skip> {
        match i32::from(kind) {
            libc::ETH_P_IP | libc::ETH_P_IPV6 => Ok(Next::Ip),
            // A whole Ethernet frame ("transparent bridging").
            libc::ETH_P_TEB => Ok(Next::Ethernet),
            // PPP by GRE (RFC 2637).
            0x880b => Ok(Next::Ppp),
            libc::ETH_P_8021Q | libc::ETH_P_8021AD | libc::ETH_P_QINQ1 => {
                let inner = self.u16(2)?;
                self.take(4);
                Ok(Next::Type(inner))
            }
            libc::ETH_P_PPP_SES => {
                let length = self.u16(4)?;
                self.take(6);
                self.end_at(length);
                self.through(Tunnel::Pppoe);
                Ok(Next::Ppp)
            }
            libc::ETH_P_MPLS_UC | libc::ETH_P_MPLS_MC => self.mpls(),
            // Up to 1500 it is the length of an 802.3 frame and no type: a logical link header with a type behind it (SNAP, RFC 1042).
            ..=1500 if self.bytes.starts_with(&[0xaa, 0xaa, 3, 0, 0, 0]) => {
                let inner = self.u16(6)?;
                self.take(8);
                Ok(Next::Type(inner))
            }
            ..=1500 => Err(Skip::NotIp(NotTcp::Llc)),
            _ => Err(Skip::NotIp(NotTcp::Type(kind))),
        }
    }

    fn mpls(&mut self) -> Result<Next, Skip> {
        self.through(Tunnel::Mpls);
        for _ in 0..MOST_LABELS {
            let bottom = self.u8(2)? & 1 != 0;
            self.take(4);
            if !bottom {
                continue;
            }
            // Nothing tells what a label carries: IP by its version, else Ethernet, behind a control word if that begins with 0
            // (RFC 4928, RFC 4385).
            return Ok(match self.u8(0)? >> 4 {
                4 | 6 => Next::Ip,
                0 => {
                    self.take(4);
                    Next::Ethernet
                }
                _ => Next::Ethernet,
            });
        }
        Err(Skip::NotIp(NotTcp::TooDeep))
    }

    /// RFC 1661 in the framing of RFC 1662, the address and control fields left out or not.
    fn ppp(&mut self) -> Result<Next, Skip> {
        if self.bytes.starts_with(&[0xff, 3]) {
            self.take(2);
        }
        let first = self.u8(0)?;
        // A protocol of one byte is odd, the first of two is even.
        let protocol = if first & 1 == 1 {
            self.take(1);
            first.into()
        } else {
            let protocol = self.u16(0)?;
            self.take(2);
            protocol
        };
        match protocol {
            0x0021 | 0x0057 => Ok(Next::Ip),
            0x0281 => self.mpls(),
            other => Err(Skip::NotIp(NotTcp::Ppp(other))),
        }
    }

    /// What an IP packet carries that is not TCP.
    fn of_protocol(&mut self, protocol: u8, around: Version) -> Result<Next, Skip> {
        let other = Skip::NotTcp(NotTcp::Protocol(protocol));
        match i32::from(protocol) {
            libc::IPPROTO_IPIP => {
                self.through(Tunnel::Ip(Version::V4, around));
                Ok(Next::Ip)
            }
            libc::IPPROTO_IPV6 => {
                self.through(Tunnel::Ip(Version::V6, around));
                Ok(Next::Ip)
            }
            libc::IPPROTO_MPLS => self.mpls(),
            // EtherIP, version 3.
            97 if self.u8(0)? >> 4 == 3 => {
                self.take(2);
                self.through(Tunnel::EtherIp);
                Ok(Next::Ethernet)
            }
            libc::IPPROTO_GRE => self.gre()?.ok_or(other),
            libc::IPPROTO_UDP => self.udp()?.ok_or(other),
            _ => Err(other),
        }
    }

    /// Nothing if it is of a kind that is not read (routing, RFC 1701; an unknown version).
    fn gre(&mut self) -> Result<Option<Next>, Skip> {
        let flags = self.u16(0)?;
        let kind = self.u16(2)?;
        let (checksum, routing) = (flags & 0x8000 != 0, flags & 0x4000 != 0);
        let (key, sequence) = (flags & 0x2000 != 0, flags & 0x1000 != 0);
        let (acknowledged, version) = (flags & 0x0080 != 0, flags & 7);
        if routing || version > 1 {
            return Ok(None);
        }
        let more = [checksum, key, sequence, acknowledged && version == 1];
        self.take(4 + 4 * more.iter().filter(|there| **there).count());
        if self.length == 0 {
            // An acknowledgement or a keep-alive: nothing is inside.
            return Ok(None);
        }
        self.through(Tunnel::Gre);
        Ok(Some(match kind {
            // ERSPAN, types I and II.
            0x88be => {
                // Type I has neither a sequence number nor a header of its own.
                self.take(if sequence { 8 } else { 0 });
                Next::Ethernet
            }
            // ERSPAN III.
            0x22eb => {
                let more = self.u16(10)? & 1 != 0;
                self.take(if more { 20 } else { 12 });
                Next::Ethernet
            }
            kind => Next::Type(kind),
        }))
    }

    /// Nothing if it is no tunnel.
    fn udp(&mut self) -> Result<Option<Next>, Skip> {
        let (Ok(from), Ok(to)) = (self.u16(0), self.u16(2)) else { return Ok(None) };
        match to {
            // VXLAN.
            4789 if u8_at(self.bytes, 8) == Some(0x08) => {
                self.take(16);
                self.through(Tunnel::Vxlan);
                Ok(Some(Next::Ethernet))
            }
            // GENEVE.
            6081 if u8_at(self.bytes, 8).is_some_and(|first| first >> 6 == 0) => {
                let options = usize::from(self.u8(8)? & 0x3f) * 4;
                let kind = self.u16(10)?;
                self.take(16 + options);
                self.through(Tunnel::Geneve);
                Ok(Some(Next::Type(kind)))
            }
            // L2TP.
            _ if to == 1701 || from == 1701 => {
                let Ok(flags) = self.u16(8) else { return Ok(None) };
                let has = |bit: u16| flags & bit != 0;
                // Control messages carry nothing; version 3 does not say how long its cookie is.
                if has(0x8000) || flags & 0xf != 2 {
                    return Ok(None);
                }
                let mut at = 14 + if has(0x4000) { 2 } else { 0 } + if has(0x0800) { 4 } else { 0 };
                if has(0x0200) {
                    at += 2 + usize::from(self.u16(at)?);
                }
                self.take(at);
                self.through(Tunnel::L2tp);
                Ok(Some(Next::Ppp))
            }
            _ => Ok(None),
        }
    }
}
