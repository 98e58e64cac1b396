//! Words for parts of a packet: protocols, prefixes, hardware addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use quell_units::Dscp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Serialises by Display, deserialises by FromStr or, where that reads so, from a plain number.
macro_rules! as_text {
    ($($name:ident),+) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl de::Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(stringify!($name))
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<$name, E> {
                        number.to_string().parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }
    )+};
}

as_text!(Protocol, Prefix, Masked, MacAddress, IpProto);

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) if !hex.starts_with('+') => u32::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

/// The link layer's name for what a packet is (ethertype).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocol(pub u16);

impl Default for Protocol {
    fn default() -> Self {
        Protocol::ALL
    }
}

impl Protocol {
    /// Every packet (`ETH_P_ALL`).
    pub const ALL: Protocol = Protocol(0x0003);
    /// IPv4.
    pub const IP: Protocol = Protocol(0x0800);
    /// IPv6.
    pub const IPV6: Protocol = Protocol(0x86dd);
    /// ARP.
    pub const ARP: Protocol = Protocol(0x0806);
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Protocol::ALL => f.write_str("all"),
            Protocol::IP => f.write_str("ip"),
            Protocol::IPV6 => f.write_str("ipv6"),
            Protocol::ARP => f.write_str("arp"),
            Protocol(other) => write!(f, "{other:#x}"),
        }
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "all" => Protocol::ALL,
            "ip" | "ipv4" => Protocol::IP,
            "ipv6" | "ip6" => Protocol::IPV6,
            "arp" => Protocol::ARP,
            other => number(other)
                .and_then(|n| u16::try_from(n).ok())
                .map(Protocol)
                .ok_or_else(|| format!("\"{other}\" is not all, ip, ipv6, arp or an ethertype"))?,
        })
    }
}

/// The number of an IP protocol by its name or in digits.
pub(crate) fn protocol_number(text: &str) -> Option<u8> {
    Some(match text {
        "icmp" => 1,
        "ipip" => 4,
        "tcp" => 6,
        "udp" => 17,
        "ipv6" => 41,
        "gre" => 47,
        "esp" => 50,
        "icmpv6" => 58,
        "sctp" => 132,
        "udplite" => 136,
        other => u8::try_from(number(other)?).ok()?,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpProto(pub u8);

impl IpProto {
    /// True where packets have ports.
    pub fn has_ports(self) -> bool {
        matches!(self.0, 6 | 17 | 132)
    }
}

impl fmt::Display for IpProto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("icmp"),
            6 => f.write_str("tcp"),
            17 => f.write_str("udp"),
            58 => f.write_str("icmpv6"),
            132 => f.write_str("sctp"),
            other => write!(f, "{other}"),
        }
    }
}

impl FromStr for IpProto {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        protocol_number(text)
            .map(IpProto)
            .ok_or_else(|| format!("\"{text}\" is not tcp, udp, sctp, icmp, icmpv6 or a number"))
    }
}

/// An address and how many of its bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The address; bits beyond the length are zero.
    pub address: IpAddr,
    pub length: u8,
}

impl Prefix {
    /// A prefix; `None` if the length is more than the address has. Bits beyond the length are cleared.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let address: IpAddr = match address {
            IpAddr::V4(v4) if length <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                Ipv4Addr::from(u32::from(v4) & mask).into()
            }
            IpAddr::V6(v6) if length <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                Ipv6Addr::from(u128::from(v6) & mask).into()
            }
            _ => return None,
        };
        Some(Self { address, length })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let bad = || format!("\"{text}\" is not an address or a prefix like 10.0.0.0/8");
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            Some(digits) => number(digits).and_then(|n| u8::try_from(n).ok()).ok_or_else(bad)?,
            None => whole,
        };
        Prefix::new(address, length).ok_or_else(bad)
    }
}

/// A byte of which some bits count: `0x10/0xfc`, `EF`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Masked {
    pub value: u8,
    pub mask: u8,
}

impl fmt::Display for Masked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}/{:#x}", self.value, self.mask)
    }
}

impl FromStr for Masked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let byte = |text: &str| number(text).and_then(|n| u8::try_from(n).ok());
        let parsed = match text.split_once('/') {
            Some((value, mask)) => byte(value).zip(byte(mask)),
            None => byte(text)
                .map(|value| (value, 0xff))
                // A DSCP is the upper six bits; the lower two are ECN's and must not matter.
                .or_else(|| text.parse::<Dscp>().ok().map(|dscp| (dscp.tos_byte(), 0xfc))),
        };
        parsed
            .map(|(value, mask)| Masked { value, mask })
            .ok_or_else(|| format!("\"{text}\" is not a byte, BYTE/MASK or a DSCP like EF"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for MacAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes: Option<Vec<u8>> = text
            .split(':')
            .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2))
            .collect();
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map(MacAddress)
            .ok_or_else(|| format!("\"{text}\" is not a hardware address like 02:00:00:00:00:01"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_forgets_the_bits_beyond_its_length() {
        let prefix: Prefix = "10.1.2.3/8".parse().unwrap();
        assert_eq!(prefix.to_string(), "10.0.0.0/8");
        assert_eq!("::1".parse::<Prefix>().unwrap().to_string(), "::1/128");
        for text in ["10.0.0.0/33", "10.0.0/8", "10.0.0.0/", "10.0.0.0/+8"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_with_masks_and_dscps() {
        assert_eq!("0x10/0xfc".parse(), Ok(Masked { value: 0x10, mask: 0xfc }));
        assert_eq!("EF".parse(), Ok(Masked { value: 0xb8, mask: 0xfc }));
        assert!("256".parse::<Masked>().is_err());
        assert_eq!("02:00:00:00:00:0a".parse(), Ok(MacAddress([2, 0, 0, 0, 0, 10])));
        assert!("2:0:0:0:0:1".parse::<MacAddress>().is_err());
    }
}
