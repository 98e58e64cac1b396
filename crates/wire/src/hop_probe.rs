//! What a probe of a path carries: the same flow for every packet, and a number to be known by.
//!
//! ```text
//!   UDP    ports: the flow's, always        payload: "QPTH", number (64 bit), zeros …
//!   ICMP   identifier: the flow's           sequence: the number's low 16 bits
//!          checksum: always the same, since a word of the payload takes back what the sequence number adds
//!          payload: !sequence, flow, "QP", zeros …
//! ```
//!
//! Routers that spread packets over several links look at addresses and ports, and of ICMP at identifier and checksum: where these stay the
//! same, so does the way ("Avoiding traceroute anomalies with Paris traceroute", Augustin et al., IMC 2006).

use crate::icmp;
use crate::read::{at, be16, be64};

/// Bytes of payload that a number needs.
pub const LEAST: usize = 12;
const WORD: [u8; 4] = *b"QPTH";

/// A UDP payload of `size` bytes; a size below [`LEAST`] is that.
pub fn datagram(number: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size.max(LEAST)];
    bytes[..4].copy_from_slice(&WORD);
    bytes[4..12].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The number in what is quoted or sent back of such a payload.
pub fn number(payload: &[u8]) -> Option<u64> {
    (at(payload, 0)? == WORD).then_some(be64(payload, 4)?)
}

/// An ICMP echo request with `size` bytes of payload, [`LEAST`] at least; its checksum depends on identifier, flow and size alone. For IPv6
/// the kernel fills it in.
pub fn echo(ipv6: bool, identifier: u16, flow: u16, number: u64, size: usize) -> Vec<u8> {
    let mut message = icmp::request(ipv6, identifier, 0, 0, size.max(LEAST));
    let sequence = number as u16;
    message[6..8].copy_from_slice(&sequence.to_be_bytes());
    message[8..10].copy_from_slice(&(!sequence).to_be_bytes());
    message[10..12].copy_from_slice(&flow.to_be_bytes());
    message[12..14].copy_from_slice(b"QP");
    message[14..].fill(0);
    if !ipv6 {
        message[2..4].fill(0);
        let sum = icmp::checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    message
}

/// Length and number that a UDP header tells of a quoted packet: the length of its payload, and the number if that is quoted too.
pub fn of_udp(rest: &[u8]) -> Option<(usize, Option<u64>)> {
    let payload = usize::from(be16(rest, 4)?).checked_sub(8)?;
    Some((payload, rest.get(8..).and_then(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_of_an_icmp_flow_has_the_same_checksum_and_each_flow_its_own() {
        let sum = |flow, number| {
            let message = echo(false, 0x1234, flow, number, 56);
            assert_eq!(icmp::checksum(&message), 0);
            assert_eq!(message.len(), 64);
            be16(&message, 2)
        };
        for number in [1, 2, 0xff, 0xfffe, 0xffff, 70_000] {
            assert_eq!(sum(1, number), sum(1, 0), "{number}");
        }
        assert_ne!(sum(1, 0), sum(2, 0));
        let quoted = icmp::quoted_request(false, &echo(false, 7, 1, 70_000, 0)).expect("a request");
        assert_eq!((quoted.identifier, quoted.short_seq), (7, 4464));
    }

    #[test]
    fn a_datagram_is_known_by_its_number_as_long_as_that_is_quoted() {
        let sent = datagram(70_000, 56);
        assert_eq!((sent.len(), number(&sent)), (56, Some(70_000)));
        assert_eq!(number(&sent[..11]), None);
        assert_eq!(number(&[0; 56]), None);
        let mut rest = vec![0x80, 0xe8, 0x82, 0x9a, 0, 64, 0, 0];
        assert_eq!(of_udp(&rest), Some((56, None)));
        rest.extend(&sent);
        assert_eq!(of_udp(&rest), Some((56, Some(70_000))));
        assert_eq!(of_udp(&[0; 8]), None, "no UDP header counts less than itself");
    }
}
