//! What is left out, and why.

use std::fmt;

/// What a packet is that is no TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotTcp {
    /// An Ethernet type.
    Type(u16),
    /// A frame of 802.3 with a logical link header, as spanning trees send.
    Llc,
    /// A protocol of IP.
    Protocol(u8),
    /// A protocol of PPP.
    Ppp(u16),
    /// An address family of a loopback capture.
    Family(u32),
    /// Neither version 4 nor 6 of IP.
    Version(u8),
    /// More headers inside each other than are read.
    TooDeep,
}

impl fmt::Display for NotTcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            NotTcp::Type(0x0806) => "ARP",
            NotTcp::Type(0x8035) => "RARP",
            NotTcp::Type(0x8809) => "LACP",
            NotTcp::Type(0x8863) => "PPPoE discovery",
            NotTcp::Type(0x888e) => "EAPOL",
            NotTcp::Type(0x88cc) => "LLDP",
            NotTcp::Type(0x88e5) => "MACsec (encrypted)",
            NotTcp::Type(0x88f7) => "PTP",
            NotTcp::Type(kind) => return write!(f, "Ethernet type 0x{kind:04x}"),
            NotTcp::Llc => "802.3",
            NotTcp::Protocol(1) => "ICMP",
            NotTcp::Protocol(2) => "IGMP",
            NotTcp::Protocol(17) => "UDP",
            NotTcp::Protocol(47) => "GRE without content",
            NotTcp::Protocol(50) => "ESP (encrypted)",
            NotTcp::Protocol(51) => "AH",
            NotTcp::Protocol(58) => "ICMPv6",
            NotTcp::Protocol(59) => "IPv6 without content",
            NotTcp::Protocol(89) => "OSPF",
            NotTcp::Protocol(103) => "PIM",
            NotTcp::Protocol(112) => "VRRP",
            NotTcp::Protocol(115) => "L2TPv3",
            NotTcp::Protocol(132) => "SCTP",
            NotTcp::Protocol(protocol) => return write!(f, "IP protocol {protocol}"),
            NotTcp::Ppp(0x8021) => "IPCP",
            NotTcp::Ppp(0x8057) => "IPV6CP",
            NotTcp::Ppp(0xc021) => "LCP",
            NotTcp::Ppp(0xc023) => "PAP",
            NotTcp::Ppp(0xc223) => "CHAP",
            NotTcp::Ppp(protocol) => return write!(f, "PPP protocol 0x{protocol:04x}"),
            NotTcp::Family(family) => return write!(f, "address family {family}"),
            NotTcp::Version(version) => return write!(f, "IP version {version}"),
            NotTcp::TooDeep => "too many headers inside each other",
        };
        f.write_str(name)
    }
}

/// Why a frame is not looked at further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// A kind of link that is not read; with its number.
    Link(u32),
    /// Neither IPv4 nor IPv6; what it is instead.
    NotIp(NotTcp),
    /// IP, but not TCP; what it is instead.
    NotTcp(NotTcp),
    /// A fragment: its parts are not put together.
    Fragment,
    /// Less was captured than the headers need.
    CutShort,
    /// It contradicts itself, as a header that is longer than its packet.
    Malformed,
}
