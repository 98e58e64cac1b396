//! IPv4 (RFC 791) and IPv6 (RFC 8200), as far as it takes to find TCP.

use super::skip::{NotTcp, Skip};
use std::net::IpAddr;

/// More extension headers in a row than any sender writes.
const MOST_EXTENSIONS: usize = 16;

/// An IP packet, of either version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// IPv4's.
    pub identification: Option<u16>,
    pub hops_left: u8,
    pub protocol: u8,
    /// What was captured of it.
    pub payload: &'a [u8],
    /// The payload's length on the wire, in bytes.
    pub length: u64,
    /// This is only a part of a datagram.
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
        let view: &[u8; 20] = bytes.first_chunk().ok_or(Skip::CutShort)?;
        let word = |at: usize| u16::from_be_bytes([view[at], view[at + 1]]);
        let header = usize::from(view[0] & 0xf) * 4;
        // A sender that leaves segmenting to its card writes 0.
        let total = if word(2) == 0 { length } else { word(2).into() };
        if header < 20 || total < header as u64 || total > length {
            return Err(Skip::Malformed);
        }
        let [.., a, b, c, d, e, f, g, h] = *view;
        Ok(Datagram {
            source: IpAddr::from([a, b, c, d]),
            destination: IpAddr::from([e, f, g, h]),
            identification: Some(word(4)),
            hops_left: view[8],
            protocol: view[9],
            payload: between(bytes, header, total),
            length: total - header as u64,
            fragment: word(6) & 0x3fff != 0,
        })
    }

    fn read_v6(bytes: &'a [u8], length: u64) -> Result<Self, Skip> {
        let view: &[u8; 40] = bytes.first_chunk().ok_or(Skip::CutShort)?;
        // Jumbograms, which carry large segments, say 0.
        let total = match u16::from_be_bytes([view[4], view[5]]) {
            0 => length,
            payload => u64::from(payload) + 40,
        };
        if total > length {
            return Err(Skip::Malformed);
        }
        let mut next = view[6];
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
        let address = |at: usize| {
            let octets: Option<&[u8; 16]> = view[at..].first_chunk();
            IpAddr::from(octets.copied().unwrap_or_default())
        };
        Ok(Datagram {
            source: address(8),
            destination: address(24),
            identification: None,
            hops_left: view[7],
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
