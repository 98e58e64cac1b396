//! What is left out, and why.

use std::fmt;

/// What a packet is that is no TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotTcp {
    Type(u16),
    /// A frame of 802.3 with a logical link header, as spanning trees send.
    Llc,
    Protocol(u8),
    Ppp(u16),
    Family(u32),
    Version(u8),
    /// More headers inside each other than are read.
    TooDeep,
}

impl fmt::Display for NotTcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            NotTcp::Type(0x0806) => "ARP",
            NotTcp::Type(0x888e) => "EAPOL",
            NotTcp::Type(0x88cc) => "LLDP",
            NotTcp::Type(kind) => return write!(f, "Ethernet type 0x{kind:04x}"),
            NotTcp::Llc => "802.3",
            NotTcp::Protocol(1) => "ICMP",
            NotTcp::Protocol(2) => "IGMP",
            NotTcp::Protocol(17) => "UDP",
            NotTcp::Protocol(50) => "ESP (encrypted)",
            NotTcp::Protocol(51) => "AH",
            NotTcp::Protocol(58) => "ICMPv6",
            NotTcp::Protocol(89) => "OSPF",
            NotTcp::Protocol(132) => "SCTP",
            NotTcp::Protocol(protocol) => return write!(f, "IP protocol {protocol}"),
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
