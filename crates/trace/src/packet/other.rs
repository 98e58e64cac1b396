//! What a packet is that is no TCP, by the name that people know it by.

use std::fmt;

/// What a packet is that is no TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Other {
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

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Other::Type(0x0806) => "ARP",
            Other::Type(0x8035) => "RARP",
            Other::Type(0x8809) => "LACP",
            Other::Type(0x8863) => "PPPoE discovery",
            Other::Type(0x888e) => "EAPOL",
            Other::Type(0x88cc) => "LLDP",
            Other::Type(0x88e5) => "MACsec (encrypted)",
            Other::Type(0x88f7) => "PTP",
            Other::Type(kind) => return write!(f, "Ethernet type 0x{kind:04x}"),
            Other::Llc => "802.3",
            Other::Protocol(1) => "ICMP",
            Other::Protocol(2) => "IGMP",
            Other::Protocol(17) => "UDP",
            Other::Protocol(47) => "GRE without content",
            Other::Protocol(50) => "ESP (encrypted)",
            Other::Protocol(51) => "AH",
            Other::Protocol(58) => "ICMPv6",
            Other::Protocol(59) => "IPv6 without content",
            Other::Protocol(89) => "OSPF",
            Other::Protocol(103) => "PIM",
            Other::Protocol(112) => "VRRP",
            Other::Protocol(115) => "L2TPv3",
            Other::Protocol(132) => "SCTP",
            Other::Protocol(protocol) => return write!(f, "IP protocol {protocol}"),
            Other::Ppp(0x8021) => "IPCP",
            Other::Ppp(0x8057) => "IPV6CP",
            Other::Ppp(0xc021) => "LCP",
            Other::Ppp(0xc023) => "PAP",
            Other::Ppp(0xc223) => "CHAP",
            Other::Ppp(protocol) => return write!(f, "PPP protocol 0x{protocol:04x}"),
            Other::Family(family) => return write!(f, "address family {family}"),
            Other::Version(version) => return write!(f, "IP version {version}"),
            Other::TooDeep => "too many headers inside each other",
        };
        f.write_str(name)
    }
}
