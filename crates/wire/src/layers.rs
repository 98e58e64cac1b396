//! Packets built of layers, one inside the other: what tests and benchmarks send through a classifier.
//!
//! ```text
//!   [Ethernet, Ipv4, Gre, Ipv6, Udp, Bytes]  ──►  one frame
//! ```
//!
//! A layer names what follows it (ethertype, protocol, next header) and how long that is, unless a [`Layer::Bytes`] that says something
//! else follows. Checksums are left zero: nobody here looks at them.

use std::net::{Ipv4Addr, Ipv6Addr};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layer {
    Ethernet,
    /// A VLAN tag (IEEE 802.1Q); `service` for the outer tag of two (802.1ad).
    Vlan {
        id: u16,
        service: bool,
    },
    /// A PPPoE session and the protocol field of PPP (RFC 2516).
    Pppoe,
    Ipv4 {
        src: Ipv4Addr,
        dst: Ipv4Addr,
        tos: u8,
        /// Words of options, at most 10.
        options: u8,
        /// Flags and fragment offset, as they lie in the header.
        fragment: u16,
    },
    /// IPv6 (RFC 8200).
    Ipv6 {
        src: Ipv6Addr,
        dst: Ipv6Addr,
        class: u8,
        label: u32,
    },
    /// An IPv6 extension header of eight bytes each (0 hop by hop, 43 routing, 60 destination, 51 authentication …).
    Extension {
        kind: u8,
        /// Eight-byte units beyond the first; for authentication four-byte units beyond two.
        more: u8,
    },
    /// An IPv6 fragment header.
    Fragment {
        /// Offset in eight-byte units.
        offset: u16,
        more: bool,
    },
    /// TCP with a header of 20 bytes.
    Tcp {
        src: u16,
        dst: u16,
    },
    Udp {
        src: u16,
        dst: u16,
    },
    /// ICMP or ICMPv6, an echo request, by what it lies in.
    Icmp,
    /// GRE with what it may have (RFC 2784, RFC 2890).
    Gre {
        checksum: bool,
        key: bool,
        sequence: bool,
    },
    /// VXLAN with its network's number (RFC 7348).
    Vxlan {
        network: u32,
    },
    /// These bytes, of this protocol where an IP header stands before them.
    Bytes {
        /// What an IP header before them says.
        proto: u8,
        bytes: Vec<u8>,
    },
}

use Layer::*;

impl Layer {
    /// IPv4 without anything special.
    pub fn v4(src: [u8; 4], dst: [u8; 4]) -> Self {
        Ipv4 { src: src.into(), dst: dst.into(), tos: 0, options: 0, fragment: 0 }
    }

    /// IPv6 without anything special.
    pub fn v6(src: Ipv6Addr, dst: Ipv6Addr) -> Self {
        Ipv6 { src, dst, class: 0, label: 0 }
    }

    pub fn payload(length: usize) -> Self {
        Bytes { proto: 253, bytes: vec![0; length] }
    }

    fn ethertype(&self) -> u16 {
        match self {
            Vlan { service: false, .. } => 0x8100,
            Vlan { service: true, .. } => 0x88a8,
            Pppoe => 0x8864,
            Ipv4 { .. } => 0x0800,
            Ipv6 { .. } => 0x86dd,
            Ethernet => 0x6558,
            _ => 0x88b5,
        }
    }

    /// What a PPP protocol field before it says.
    fn ppp(&self) -> u16 {
        match self {
            Ipv4 { .. } => 0x0021,
            Ipv6 { .. } => 0x0057,
            _ => 0xc021,
        }
    }

    /// What an IP header before it says.
    fn proto(&self, in_v6: bool) -> u8 {
        match self {
            Ipv4 { .. } => 4,
            Ipv6 { .. } => 41,
            Extension { kind, .. } => *kind,
            Fragment { .. } => 44,
            Tcp { .. } => 6,
            Udp { .. } => 17,
            Icmp if in_v6 => 58,
            Icmp => 1,
            Gre { .. } => 47,
            Bytes { proto, .. } => *proto,
            Ethernet | Vlan { .. } | Pppoe | Vxlan { .. } => 253,
        }
    }
}

/// The packet that these layers make, outermost first.
pub fn packet(layers: &[Layer]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, layer) in layers.iter().enumerate().rev() {
        let next = layers.get(at + 1);
        let in_v6 = layers[..=at].iter().rev().find_map(|l| match l {
            Ipv4 { .. } => Some(false),
            Ipv6 { .. } => Some(true),
            _ => None,
        });
        let mut header = header(layer, next, in_v6 == Some(true), bytes.len());
        header.append(&mut bytes);
        bytes = header;
    }
    bytes
}

fn header(layer: &Layer, next: Option<&Layer>, in_v6: bool, inside: usize) -> Vec<u8> {
    let ethertype = next.map_or(0x88b5, Layer::ethertype).to_be_bytes();
    let proto = next.map_or(59, |next| next.proto(in_v6));
    let length = |own: usize| ((own + inside).min(0xffff) as u16).to_be_bytes();
    match layer {
        Ethernet => [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], &ethertype[..]].concat(),
        Vlan { id, .. } => [&(id & 0xfff).to_be_bytes(), &ethertype[..]].concat(),
        Pppoe => {
            let ppp = next.map_or(0xc021, Layer::ppp).to_be_bytes();
            [&[0x11, 0, 0, 1], &length(2)[..], &ppp].concat()
        }
        Ipv4 { src, dst, tos, options, fragment } => {
            let words = 5 + options.min(&10);
            let mut h = vec![0x40 | words, *tos];
            h.extend(length(usize::from(words) * 4));
            h.extend([0, 1]);
            h.extend(fragment.to_be_bytes());
            h.extend([64, proto, 0, 0]);
            h.extend(src.octets());
            h.extend(dst.octets());
            h.resize(usize::from(words) * 4, 1);
            h
        }
        Ipv6 { src, dst, class, label } => {
            let first = (6 << 28) | (u32::from(*class) << 20) | (label & 0xf_ffff);
            let mut h = first.to_be_bytes().to_vec();
            h.extend(length(0));
            h.extend([proto, 64]);
            h.extend(src.octets());
            h.extend(dst.octets());
            h
        }
        Extension { kind: 51, more } => {
            let mut h = vec![proto, *more, 0, 0];
            h.resize((usize::from(*more) + 2) * 4, 0);
            h
        }
        Extension { more, .. } => {
            let mut h = vec![proto, *more, 1, 4];
            h.resize((usize::from(*more) + 1) * 8, 0);
            h
        }
        Fragment { offset, more } => {
            let place = ((offset << 3) | u16::from(*more)).to_be_bytes();
            [&[proto, 0], &place[..], &[0, 0, 0, 1]].concat()
        }
        Tcp { src, dst } => {
            let mut h = [src.to_be_bytes(), dst.to_be_bytes()].concat();
            h.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
            h
        }
        Udp { src, dst } => [src.to_be_bytes(), dst.to_be_bytes(), length(8), [0, 0]].concat(),
        Icmp => vec![if in_v6 { 128 } else { 8 }, 0, 0, 0, 0x12, 0x34, 0, 1],
        Gre { checksum, key, sequence } => {
            let flag = |set: &bool, bit: u8| if *set { bit } else { 0 };
            let mut h = vec![flag(checksum, 0x80) | flag(key, 0x20) | flag(sequence, 0x10), 0];
            h.extend(ethertype);
            let words = [checksum, key, sequence].into_iter().filter(|set| **set).count();
            h.resize(4 + words * 4, 7);
            h
        }
        Vxlan { network } => [&[8, 0, 0, 0], &(network << 8).to_be_bytes()[..]].concat(),
        Bytes { bytes, .. } => bytes.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_in_gre_is_what_the_rfcs_draw() {
        let frame = packet(&[
            Ethernet,
            Layer::v4([192, 0, 2, 1], [192, 0, 2, 2]),
            Gre { checksum: false, key: true, sequence: false },
            Layer::v6(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED),
            Udp { src: 7, dst: 9 },
            Layer::payload(3),
        ]);
        assert_eq!(frame.len(), 14 + 20 + 8 + 40 + 8 + 3);
        assert_eq!(frame[12..14], [0x08, 0x00]);
        // Total length and protocol of the outer packet.
        assert_eq!((&frame[16..18], frame[23]), (&[0, 79][..], 47));
        // GRE: a key, and IPv6 inside.
        assert_eq!(frame[34..38], [0x20, 0, 0x86, 0xdd]);
        // Version, payload length and next header of the inner one.
        assert_eq!((frame[42], &frame[46..49]), (0x60, &[0, 11, 17][..]));
        assert_eq!(frame[82..88], [0, 7, 0, 9, 0, 11]);
    }

    #[test]
    fn extension_headers_tell_what_follows_them() {
        let frame = packet(&[
            Layer::v6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST),
            Extension { kind: 0, more: 1 },
            Fragment { offset: 3, more: true },
            Icmp,
        ]);
        assert_eq!((frame[6], frame[40], frame[41]), (0, 44, 1));
        assert_eq!(frame[56..60], [58, 0, 0, 25]);
        assert_eq!(frame[64], 128);
    }
}
