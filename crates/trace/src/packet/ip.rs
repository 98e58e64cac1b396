//! IPv4 (RFC 791) and IPv6 (RFC 8200), as far as it takes to find TCP.

use super::skip::{NotTcp, Skip};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// More extension headers in a row than any sender writes.
const MOST_EXTENSIONS: usize = 16;

/// The fields of an IPv4 header where they lie. At least 20 bytes are there.
#[derive(Debug, Clone, Copy)]
pub struct Ipv4View<'a>(&'a [u8]);

impl<'a> Ipv4View<'a> {
    /// A view, if 20 bytes are there.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() >= 20).then_some(Self(bytes))
    }

    fn word(&self, at: usize) -> u16 {
        u16_at(self.0, at).unwrap_or_default()
    }

    fn address(&self, at: usize) -> Ipv4Addr {
        let octets: Option<&[u8; 4]> = self.0.get(at..).and_then(|b| b.first_chunk());
        octets.copied().unwrap_or_default().into()
    }

    /// The header's length in bytes, as it says.
    pub fn header_length(&self) -> usize {
        usize::from(self.0.first().map_or(0, |b| b & 0xf)) * 4
    }

    /// Header and payload, in bytes, as it says; 0 where a sender leaves segmenting to its card.
    pub fn total_length(&self) -> u16 {
        self.word(2)
    }

    /// The identification.
    pub fn identification(&self) -> u16 {
        self.word(4)
    }

    /// Whether this is only a part of a datagram.
    pub fn is_fragment(&self) -> bool {
        self.word(6) & 0x3fff != 0
    }

    /// How many hops it may still take.
    pub fn hops_left(&self) -> u8 {
        u8_at(self.0, 8).unwrap_or_default()
    }

    /// What the payload is.
    pub fn protocol(&self) -> u8 {
        u8_at(self.0, 9).unwrap_or_default()
    }

    /// The source.
    pub fn source(&self) -> Ipv4Addr {
        self.address(12)
    }

    /// The destination.
    pub fn destination(&self) -> Ipv4Addr {
        self.address(16)
    }
}

/// The fields of an IPv6 header where they lie. At least 40 bytes are there.
#[derive(Debug, Clone, Copy)]
pub struct Ipv6View<'a>(&'a [u8]);

impl<'a> Ipv6View<'a> {
    /// A view, if 40 bytes are there.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() >= 40).then_some(Self(bytes))
    }

    fn address(&self, at: usize) -> Ipv6Addr {
        let octets: Option<&[u8; 16]> = self.0.get(at..).and_then(|b| b.first_chunk());
        octets.copied().unwrap_or_default().into()
    }

    /// What stands behind this header, in bytes, as it says; 0 in jumbograms, which carry large segments.
    pub fn payload_length(&self) -> u16 {
        u16_at(self.0, 4).unwrap_or_default()
    }

    /// How many hops it may still take.
    pub fn hops_left(&self) -> u8 {
        u8_at(self.0, 7).unwrap_or_default()
    }

    /// What comes next.
    pub fn next_header(&self) -> u8 {
        u8_at(self.0, 6).unwrap_or_default()
    }

    /// The source.
    pub fn source(&self) -> Ipv6Addr {
        self.address(8)
    }

    /// The destination.
    pub fn destination(&self) -> Ipv6Addr {
        self.address(24)
    }
}

/// An IP packet, of either version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The source.
    pub source: IpAddr,
    /// The destination.
    pub destination: IpAddr,
    /// IPv4's identification.
    pub identification: Option<u16>,
    /// How many hops it may still take.
    pub hops_left: u8,
    /// What the payload is.
    pub protocol: u8,
    /// What was captured of the payload.
    pub payload: &'a [u8],
    /// The payload's length on the wire, in bytes.
    pub length: u64,
    /// Whether this is only a part of a datagram.
    pub fragment: bool,
}

impl<'a> Datagram<'a> {
    /// What the bytes mean; `length` is how many there were on the wire, padding included.
    ///
    /// # Errors
    ///
    /// If this is not IP, or too little of it.
    pub fn read(bytes: &'a [u8], length: u64) -> Result<Self, Skip> {
        match bytes.first().ok_or(Skip::CutShort)? >> 4 {
            4 => Self::read_v4(bytes, length),
            6 => Self::read_v6(bytes, length),
            other => Err(Skip::NotIp(NotTcp::Version(other))),
        }
    }

    fn read_v4(bytes: &'a [u8], length: u64) -> Result<Self, Skip> {
        let view = Ipv4View::new(bytes).ok_or(Skip::CutShort)?;
        let header = view.header_length();
        let total = match view.total_length() {
            0 => length,
            total => total.into(),
        };
        if header < 20 || total < header as u64 || total > length {
            return Err(Skip::Malformed);
        }
        Ok(Datagram {
            source: view.source().into(),
            destination: view.destination().into(),
            identification: Some(view.identification()),
            hops_left: view.hops_left(),
            protocol: view.protocol(),
            payload: between(bytes, header, total),
            length: total - header as u64,
            fragment: view.is_fragment(),
        })
    }

    fn read_v6(bytes: &'a [u8], length: u64) -> Result<Self, Skip> {
        let view = Ipv6View::new(bytes).ok_or(Skip::CutShort)?;
        let total = match view.payload_length() {
            0 => length,
            payload => u64::from(payload) + 40,
        };
        if total > length {
            return Err(Skip::Malformed);
        }
        let mut next = view.next_header();
        let mut at = 40_usize;
        let mut fragment = false;
        for _ in 0..MOST_EXTENSIONS {
            let extension = bytes.get(at..).unwrap_or_default();
            let units = |extension| u8_at(extension, 1).map(usize::from).ok_or(Skip::CutShort);
            let size = match i32::from(next) {
                // The last is Shim6 (RFC 5533).
                libc::IPPROTO_HOPOPTS
                | libc::IPPROTO_ROUTING
                | libc::IPPROTO_DSTOPTS
                | libc::IPPROTO_MH
                | 140 => units(extension)? * 8 + 8,
                libc::IPPROTO_AH => units(extension)? * 4 + 8,
                libc::IPPROTO_FRAGMENT => {
                    // A fragment that is all of its datagram (RFC 6946) is none.
                    let place = u16_at(extension, 2).ok_or(Skip::CutShort)?;
                    fragment |= place & 0xfff9 != 0;
                    8
                }
                _ => break,
            };
            next = u8_at(extension, 0).ok_or(Skip::CutShort)?;
            at += size;
        }
        if at as u64 > total {
            return Err(Skip::Malformed);
        }
        Ok(Datagram {
            source: view.source().into(),
            destination: view.destination().into(),
            identification: None,
            hops_left: view.hops_left(),
            protocol: next,
            payload: between(bytes, at, total),
            length: total - at as u64,
            fragment,
        })
    }
}

/// What was captured between two places; the rest is padding of the link.
fn between(bytes: &[u8], from: usize, to: u64) -> &[u8] {
    let to = usize::try_from(to).unwrap_or(usize::MAX).min(bytes.len());
    bytes.get(from..to).unwrap_or_default()
}

/// Numbers in network order at a place, or nothing where the bytes end before it.
pub(super) fn u8_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_be_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(total: u16, place: u16) -> Vec<u8> {
        let mut bytes = vec![0x45, 0];
        bytes.extend(total.to_be_bytes());
        bytes.extend([0, 9]);
        bytes.extend(place.to_be_bytes());
        bytes.extend([64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes
    }

    fn v6(payload: u16, next: u8) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend(payload.to_be_bytes());
        bytes.extend([next, 64]);
        bytes.extend([0; 32]);
        bytes
    }

    #[test]
    fn padding_of_the_link_is_no_payload() {
        let mut bytes = v4(24, 0x4000);
        bytes.extend([1, 2, 3, 4, 0, 0]);
        let datagram = Datagram::read(&bytes, 26).expect("a whole packet");
        assert_eq!((datagram.payload, datagram.length), (&[1, 2, 3, 4][..], 4));
        assert_eq!(datagram.identification, Some(9));
    }

    #[test]
    fn a_large_segment_without_a_length_is_as_long_as_its_frame() {
        let bytes = v4(0, 0);
        let datagram = Datagram::read(&bytes, 70_000).expect("a header is all that is needed");
        assert_eq!(datagram.length, 69_980);
    }

    #[test]
    fn a_packet_that_claims_more_than_its_frame_is_refused() {
        assert_eq!(Datagram::read(&v4(1500, 0), 60), Err(Skip::Malformed));
        assert_eq!(Datagram::read(&v6(1500, 6), 60), Err(Skip::Malformed));
        assert_eq!(Datagram::read(&v4(8, 0), 60), Err(Skip::Malformed));
    }

    #[test]
    fn fragments_are_noted() {
        assert!(Datagram::read(&v4(20, 0x2000), 20).expect("whole").fragment);
        assert!(Datagram::read(&v4(20, 7), 20).expect("whole").fragment);
        let mut bytes = v6(8, 44);
        bytes.extend([6, 0, 0, 1, 0, 0, 0, 5]);
        let datagram = Datagram::read(&bytes, 48).expect("whole");
        assert!(datagram.fragment && datagram.protocol == 6);
    }

    #[test]
    fn extension_headers_are_passed_over() {
        let mut bytes = v6(8 + 16 + 2, 0);
        bytes.extend([60, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([7, 8]);
        let datagram = Datagram::read(&bytes, 66).expect("whole");
        assert_eq!((datagram.protocol, datagram.payload), (6, &[7, 8][..]));
        assert_eq!(Datagram::read(&bytes[..41], 66), Err(Skip::CutShort));
    }
}
