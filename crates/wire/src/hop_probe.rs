//! What a probe of a path carries: the same flow for every packet, and a number to be known by.
//!
//! ```text
//!   UDP    ports: the flow's, always        payload: the path's secret (64 bit), number (32 bit), zeros …
//!   ICMP   identifier: the flow's           sequence: the number's low 16 bits
//!          checksum: always the same, since a word of the payload takes back what the sequence number adds
//!          payload: !sequence, flow, the path's secret (64 bit), zeros …
//!   SYN    ports: the flow's                one at a time
//! ```
//!
//! Routers that spread packets over several links look at addresses and ports, and of ICMP at identifier and checksum: where these stay the
//! same, so does the way ("Avoiding traceroute anomalies with Paris traceroute", Augustin et al., IMC 2006).

use crate::icmp;
use crate::read::be32;
use crate::stamp::widen32;
use std::net::SocketAddr;

/// Bytes of payload that secret and number need.
pub const LEAST: usize = 12;
const SECRET: usize = size_of::<u64>();

/// Which packet it is that somebody quotes or sends back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quote {
    Number(u64),
    /// It holds too little to tell.
    Short,
    /// None of ours: what it holds was never sent.
    Wrong,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpFlow {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub secret: u64,
}

impl UdpFlow {
    /// A payload of `size` bytes, [`LEAST`] at least.
    pub fn datagram(&self, number: u64, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size.max(LEAST)];
        bytes[..SECRET].copy_from_slice(&self.secret.to_be_bytes());
        bytes[SECRET..LEAST].copy_from_slice(&(number as u32).to_be_bytes());
        bytes
    }

    /// Which packet so much of a payload is of, `next` being the number of the first that was not sent yet.
    pub fn quoted(&self, payload: &[u8], next: u64) -> Quote {
        let secret = self.secret.to_be_bytes();
        let held = payload.len().min(SECRET);
        if payload[..held] != secret[..held] {
            return Quote::Wrong;
        }
        match be32(payload, SECRET) {
            Some(number) => widen32(number, next).map_or(Quote::Wrong, Quote::Number),
            None => Quote::Short,
        }
    }

    /// The same of what an ICMP error quotes. Before an extension it may be filled up with zeros (RFC 4884, section 3).
    pub fn quoted_before(&self, payload: &[u8], extended: bool, next: u64) -> Quote {
        let is_filled = extended && payload.iter().all(|byte| *byte == 0);
        if is_filled { Quote::Short } else { self.quoted(payload, next) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EchoFlow {
    pub ipv6: bool,
    pub identifier: u16,
    pub flow: u16,
    pub secret: u64,
}

impl EchoFlow {
    /// A request with `size` bytes of payload, [`LEAST`] at least; its checksum is that of all of the flow. For IPv6 the kernel fills it in.
    pub fn request(&self, number: u64, size: usize) -> Vec<u8> {
        let mut message = icmp::request(self.ipv6, self.identifier, 0, 0, size.max(LEAST));
        let sequence = number as u16;
        message[6..8].copy_from_slice(&sequence.to_be_bytes());
        message[8..10].copy_from_slice(&(!sequence).to_be_bytes());
        message[10..12].copy_from_slice(&self.flow.to_be_bytes());
        message[12..20].copy_from_slice(&self.secret.to_be_bytes());
        if !self.ipv6 {
            message[2..4].fill(0);
            let sum = icmp::checksum(&message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        message
    }

    /// The number of the newest packet that this message answers, `next` being the first that was not sent yet.
    pub fn answered(&self, message: &[u8], next: u64) -> Option<u64> {
        let echo = icmp::reply(self.ipv6, message)?;
        let number = icmp::widen16(echo.short_seq, next)?;
        echo.answers(&self.request(number, LEAST)).then_some(number)
    }

    /// The number of the newest packet that an error quotes so.
    pub fn quoted(&self, quoted: &[u8], next: u64) -> Option<u64> {
        let echo = icmp::quoted_request(self.ipv6, quoted)?;
        let number = icmp::widen16(echo.short_seq, next)?;
        echo.quotes(&self.request(number, LEAST)).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::be16;

    fn flow(flow: u16) -> EchoFlow {
        EchoFlow { ipv6: false, identifier: 0x1234, flow, secret: 0xfeed_beef_0102_0304 }
    }

    #[test]
    fn every_packet_of_an_icmp_flow_has_the_same_checksum_and_each_flow_its_own() {
        let sum = |flow_number, number| {
            let message = flow(flow_number).request(number, 56);
            assert_eq!(icmp::checksum(&message), 0);
            assert_eq!(message.len(), 64);
            be16(&message, 2)
        };
        for number in [1, 2, 0xff, 0xfffe, 0xffff, 70_000] {
            assert_eq!(sum(1, number), sum(1, 0), "{number}");
        }
        assert_ne!(sum(1, 0), sum(2, 0));
        let other = EchoFlow { secret: 5, ..flow(1) };
        assert_ne!(be16(&other.request(1, 56), 2), sum(1, 1), "of another path");
    }

    #[test]
    fn only_what_brings_back_the_paths_secret_is_an_answer() {
        for ipv6 in [false, true] {
            let flow = EchoFlow { ipv6, ..flow(1) };
            let mut message = flow.request(70_000, 56);
            assert_eq!(flow.quoted(&message, 70_001), Some(70_000));
            let header = (!ipv6).then_some(70_000);
            assert_eq!(flow.quoted(&message[..8], 70_001), header, "by its checksum");
            assert_eq!(flow.quoted(&[8, 0, 0, 0, 0x12, 0x34, 0x11, 0x70], 70_001), None);
            let forged = [message[..8].to_vec(), vec![0; 56]].concat();
            assert_eq!(flow.quoted(&forged, 70_001), None);
            message[0] = if ipv6 { 129 } else { 0 };
            assert_eq!(flow.answered(&message, 70_001), Some(70_000));
            assert_eq!(flow.answered(&message[..8], 70_001), None, "no payload");
            message[8..].fill(0xa5);
            assert_eq!(flow.answered(&message, 70_001), None, "any payload");
        }
    }

    fn udp() -> UdpFlow {
        UdpFlow {
            from: ([192, 0, 2, 7], 33_000).into(),
            to: ([198, 51, 100, 9], 33_434).into(),
            secret: 0xfeed_beef_0102_0304,
        }
    }

    #[test]
    fn a_datagram_is_known_by_its_secret_and_number_as_far_as_they_are_quoted() {
        let sent = udp().datagram(70_000, 56);
        assert_eq!((sent.len(), udp().datagram(1, 0).len()), (56, LEAST));
        for length in 0..=56 {
            let known = if length < LEAST { Quote::Short } else { Quote::Number(70_000) };
            assert_eq!(udp().quoted(&sent[..length], 70_001), known, "{length}");
        }
        let long_ago = u64::from(u32::MAX) + 70_001;
        assert_eq!(udp().quoted(&sent, long_ago), Quote::Number(70_000));
        assert_eq!(udp().quoted(&sent, 70_000), Quote::Wrong, "not sent yet");
    }

    /// Somebody who sees no packet knows addresses, ports, lengths and numbers.
    #[test]
    fn what_a_stranger_can_make_up_is_nobodys_and_not_merely_too_short() {
        let forged = UdpFlow { secret: 0, ..udp() };
        for length in 1..=56 {
            for made_up in [forged.datagram(70_000, 56), vec![0; 56], vec![0xa5; 56]] {
                let quote = udp().quoted(&made_up[..length], 70_001);
                assert_eq!(quote, Quote::Wrong, "{length}");
            }
        }
        assert_eq!(udp().quoted(&[], 70_001), Quote::Short);
        // Zeros stand before an extension where the packet is not quoted so far.
        assert_eq!(udp().quoted_before(&[0; 100], true, 9), Quote::Short);
        assert_eq!(udp().quoted_before(&[0; 100], false, 9), Quote::Wrong);
        assert_eq!(udp().quoted_before(&[7; 100], true, 9), Quote::Wrong);
    }
}
