//! ICMP errors (RFC 792; RFC 4443, section 3) and what they quote; their extensions (RFC 4884), of which MPLS labels (RFC 4950) are read.
//!
//! ```text
//!    0      1      2          4        8
//!   ┌──────┬──────┬──────────┬────────┬─────────────────────────────────────┬───────────────────────────────
//!   │ type │ code │ checksum │ …  MTU │ the packet that it is about:        │ extension: version 2, checksum,
//!   └──────┴──────┴──────────┴────────┤ IP header, 8 bytes or more behind it │ objects: length, class, type …
//!                       words in byte 5 (IPv4) or 8-byte words in byte 4 (IPv6) of the quoted part, where an extension follows
//! ```
//!
//! What is quoted is the packet as it came to whoever sends the error: its TOS byte there, its TTL there.

use crate::icmp::{HEADER, checksum};
use crate::read::{at, be16, be32};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Labels that are kept of a stack; more than four have hardly been seen.
pub const MOST_LABELS: usize = 16;
/// What an extension may follow at the earliest (RFC 4884, section 4).
const LEAST_QUOTED: usize = 128;
const MPLS_STACK: (u8, u8) = (1, 1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Meaning {
    /// Its TTL or hop limit was over: a router on the way.
    Expired,
    /// It came to its host, where nobody has the port.
    NoPort,
    /// It is too large for the next link.
    TooBig,
    /// It goes no further: the code says why.
    Unreachable(u8),
    Other,
}

pub fn meaning(ipv6: bool, kind: u8, code: u8) -> Meaning {
    match (ipv6, kind, code) {
        (false, 11, 0) | (true, 3, 0) => Meaning::Expired,
        (false, 3, 3) | (true, 1, 4) => Meaning::NoPort,
        (false, 3, 4) | (true, 2, _) => Meaning::TooBig,
        (false, 3, code) | (true, 1, code) => Meaning::Unreachable(code),
        _ => Meaning::Other,
    }
}

/// Why a packet went no further, as traceroute marks it and in words (RFC 792, RFC 1812 section 5.2.7.1; RFC 4443, section 3.1).
pub fn why_unreachable(ipv6: bool, code: u8) -> (&'static str, &'static str) {
    match (ipv6, code) {
        (false, 0) | (true, 0) => ("!N", "has no route there"),
        (false, 1) | (true, 3) => ("!H", "can't reach the host behind it"),
        (false, 2) => ("!P", "the host does not know the protocol"),
        (false, 9 | 10 | 13) | (true, 1) => ("!X", "forbids it (a firewall)"),
        (true, 5 | 6) => ("!X", "forbids it by its routes or policy"),
        _ => ("!", "says that it can't be reached"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError<'a> {
    pub meaning: Meaning,
    pub mtu: Option<u32>,
    pub quoted: Quoted<'a>,
    pub extension: Option<&'a [u8]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoted<'a> {
    /// TOS or traffic class byte, as it arrived where it was quoted.
    pub tos: u8,
    /// TTL or hop limit there.
    pub ttl: u8,
    /// What follows the IP header: 6 TCP, 17 UDP, 1 or 58 ICMP.
    pub protocol: u8,
    pub source: IpAddr,
    pub destination: IpAddr,
    /// What follows the IP header, as far as it is quoted.
    pub rest: &'a [u8],
}

/// Reads an ICMP message; none for what is no error, or quotes no whole IP header.
pub fn read(ipv6: bool, message: &[u8]) -> Option<IcmpError<'_>> {
    let [kind, code]: [u8; 2] = at(message, 0)?;
    let errors: &[u8] = if ipv6 { &[1, 2, 3, 4] } else { &[3, 11, 12] };
    if !errors.contains(&kind) {
        return None;
    }
    let meaning = meaning(ipv6, kind, code);
    let mtu = match (ipv6, meaning) {
        (false, Meaning::TooBig) => be16(message, 6).map(u32::from),
        (true, Meaning::TooBig) => be32(message, 4),
        _ => None,
    };
    let body = message.get(HEADER..)?;
    let length = match ipv6 {
        true => usize::from(message[4]) * 8,
        false => usize::from(message[5]) * 4,
    };
    // Of a packet that is too big, IPv6 has the MTU in that place.
    let extended = length >= LEAST_QUOTED && length < body.len() && mtu.is_none();
    let (quoted, extension) = match extended {
        true => (&body[..length], Some(&body[length..])),
        false => (body, None),
    };
    Some(IcmpError { meaning, mtu, quoted: quote(ipv6, quoted)?, extension })
}

fn quote(ipv6: bool, packet: &[u8]) -> Option<Quoted<'_>> {
    let first = *packet.first()?;
    if ipv6 {
        let [high, low]: [u8; 2] = at(packet, 0)?;
        let address = |place| at(packet, place).map(|octets: [u8; 16]| Ipv6Addr::from(octets));
        return (first >> 4 == 6).then_some(Quoted {
            tos: high << 4 | low >> 4,
            protocol: *packet.get(6)?,
            ttl: *packet.get(7)?,
            source: address(8)?.into(),
            destination: address(24)?.into(),
            rest: packet.get(40..)?,
        });
    }
    let header = usize::from(first & 0xf) * 4;
    let address = |place| at(packet, place).map(|octets: [u8; 4]| Ipv4Addr::from(octets));
    (first >> 4 == 4 && header >= 20).then_some(Quoted {
        tos: *packet.get(1)?,
        ttl: *packet.get(8)?,
        protocol: *packet.get(9)?,
        source: address(12)?.into(),
        destination: address(16)?.into(),
        rest: packet.get(header..)?,
    })
}

impl Quoted<'_> {
    pub fn ports(&self) -> Option<(u16, u16)> {
        matches!(self.protocol, 6 | 17).then_some((be16(self.rest, 0)?, be16(self.rest, 2)?))
    }
}

/// An MPLS label as a router saw it (RFC 3032, section 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    /// The label, 20 bits.
    pub label: u32,
    /// The traffic class, 3 bits (RFC 5462).
    pub class: u8,
    pub ttl: u8,
}

/// The MPLS labels in an extension structure, outermost first; none where it is broken.
pub fn labels(extension: &[u8]) -> Vec<Label> {
    let mut found = Vec::new();
    let whole = extension.first().is_some_and(|first| first >> 4 == 2);
    // A checksum of zero was not calculated (RFC 4884, section 7).
    let sound = be16(extension, 2).is_some_and(|sum| sum == 0 || checksum(extension) == 0);
    if !whole || !sound {
        return found;
    }
    let mut objects = extension.get(4..).unwrap_or_default();
    while let (Some(length), Some([class, kind])) = (be16(objects, 0), at(objects, 2)) {
        // The length counts these four bytes too.
        let Some(object) = objects.get(4..usize::from(length)) else { break };
        if (class, kind) == MPLS_STACK {
            let room = MOST_LABELS.saturating_sub(found.len());
            found.extend(object.chunks_exact(4).take(room).map(label));
        }
        objects = &objects[usize::from(length)..];
    }
    found
}

fn label(entry: &[u8]) -> Label {
    let word = be32(entry, 0).unwrap_or(0);
    Label { label: word >> 12, class: (word >> 9 & 7) as u8, ttl: word as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A router's answer to a UDP packet with TTL 1: from 192.0.2.7:33000 to 198.51.100.9:33434, TOS EF and ECT(0).
    fn quoted_v4() -> Vec<u8> {
        let mut packet = vec![0x45, 0xba, 0, 84, 0, 1, 0x40, 0, 1, 17, 0, 0];
        packet.extend([192, 0, 2, 7, 198, 51, 100, 9]);
        packet.extend([0x80, 0xe8, 0x82, 0x9a, 0, 64, 0, 0]);
        packet
    }

    #[test]
    fn a_router_quotes_the_packet_as_it_came_there() {
        let mut message = vec![11, 0, 0, 0, 0, 0, 0, 0];
        message.extend(quoted_v4());
        let error = read(false, &message).expect("an error");
        assert_eq!((error.meaning, error.mtu, error.extension), (Meaning::Expired, None, None));
        let quoted = error.quoted;
        assert_eq!((quoted.tos, quoted.ttl, quoted.protocol), (0xba, 1, 17));
        assert_eq!(quoted.ports(), Some((33_000, 33_434)));
        assert_eq!(quoted.destination, "198.51.100.9".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn a_packet_that_is_too_big_comes_back_with_what_fits() {
        let mut message = vec![3, 4, 0, 0, 0, 0, 0x05, 0x78];
        message.extend(quoted_v4());
        let error = read(false, &message).expect("an error");
        assert_eq!((error.meaning, error.mtu), (Meaning::TooBig, Some(1400)));
        let mut message = vec![2, 0, 0, 0, 0, 0, 0x05, 0xd0];
        message.extend([0x6b, 0xa0, 0, 0, 0, 44, 17, 3]);
        message.extend([0x20; 32]);
        message.extend([0; 8]);
        let error = read(true, &message).expect("an error");
        assert_eq!((error.meaning, error.mtu), (Meaning::TooBig, Some(1488)));
        assert_eq!((error.quoted.tos, error.quoted.ttl), (0xba, 3));
    }

    /// A label stack of two as a router puts it behind 128 quoted bytes (RFC 4950, section 3).
    fn extension() -> Vec<u8> {
        let mut bytes = vec![0x20, 0, 0, 0, 0, 12, 1, 1];
        bytes.extend((299_776u32 << 12 | 5 << 9 | 1).to_be_bytes());
        bytes.extend((16u32 << 12 | 1 << 8 | 254).to_be_bytes());
        let sum = checksum(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    #[test]
    fn labels_stand_behind_what_is_quoted() {
        let mut message = vec![11, 0, 0, 0, 0, 32, 0, 0];
        let mut quoted = quoted_v4();
        quoted.resize(128, 0);
        message.extend(quoted);
        message.extend(extension());
        let error = read(false, &message).expect("an error");
        assert_eq!(error.quoted.rest.len(), 108);
        let found = labels(error.extension.expect("an extension"));
        let wanted =
            [Label { label: 299_776, class: 5, ttl: 1 }, Label { label: 16, class: 0, ttl: 254 }];
        assert_eq!(found, wanted);
    }

    #[test]
    fn an_extension_that_is_broken_says_nothing() {
        let whole = extension();
        let mut wrong = whole.clone();
        wrong[9] ^= 1;
        assert_eq!(labels(&wrong), [], "the checksum is wrong");
        let mut other = whole.clone();
        (other[0], other[2], other[3]) = (0x10, 0, 0);
        assert_eq!(labels(&other), [], "version 1");
        let mut longer = whole.clone();
        (longer[2], longer[3], longer[5]) = (0, 0, 200);
        assert_eq!(labels(&longer), [], "an object beyond the end");
        let mut none = whole;
        (none[2], none[3], none[5]) = (0, 0, 0);
        assert_eq!(labels(&none), [], "an object of no length");
        let many: Vec<u8> = [0x20, 0, 0, 0, 0x10, 4, 1, 1].into_iter().chain([7; 4096]).collect();
        assert_eq!(labels(&many).len(), MOST_LABELS);
    }

    #[test]
    fn what_stops_a_packet_has_the_mark_that_traceroute_gives_it() {
        assert_eq!(meaning(false, 3, 13), Meaning::Unreachable(13));
        assert_eq!(why_unreachable(false, 13).0, "!X");
        assert_eq!(why_unreachable(true, 0).0, "!N");
        assert_eq!((meaning(false, 3, 3), meaning(true, 1, 4)), (Meaning::NoPort, Meaning::NoPort));
        assert_eq!(meaning(true, 4, 0), Meaning::Other);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            kind in prop::sample::select(vec![1u8, 2, 3, 4, 11, 12]),
            mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            for ipv6 in [false, true] {
                if let Some(error) = read(ipv6, &bytes) {
                    prop_assert!(error.quoted.rest.len() < bytes.len());
                    let _ = (error.quoted.ports(), error.extension.map(labels));
                }
            }
            prop_assert!(labels(&bytes).len() <= MOST_LABELS);
        }
    }
}
