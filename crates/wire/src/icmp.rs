//! ICMP echo for IPv4 (RFC 792) and IPv6 (RFC 4443, section 4).
//!
//! ```text
//!    0        1        2                 4                 6                 8            16          24
//!   ┌────────┬────────┬─────────────────┬─────────────────┬─────────────────┬────────────┬───────────┬─────────
//!   │ type   │ code 0 │ checksum        │ identifier      │ sequence        │ stream     │ sequence  │ zeros …
//!   └────────┴────────┴─────────────────┴─────────────────┴─────────────────┴────────────┴───────────┴─────────
//!     8 → 0 (v4), 128 → 129 (v6)                                             └── payload, from 16 bytes on: 64 bit each
//! ```
//!
//! The sequence number of the header wraps after 65,536 packets, so that a late reply could be taken for a new one; the payload
//! carries all 64 bits, and which stream the packet is of. Payloads below 16 bytes have the header's only.

use crate::read::{be16, be64};

/// Bytes before the payload.
pub const HEADER: usize = 8;
/// From this payload size on, the whole sequence number and the stream are in it.
pub const FULL: usize = 16;

const V4_REQUEST: u8 = 8;
const V4_REPLY: u8 = 0;
const V6_REQUEST: u8 = 128;
const V6_REPLY: u8 = 129;

/// Which packet of which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EchoReply {
    /// The identifier in the header.
    pub identifier: u16,
    /// The sequence number in the header.
    pub short_seq: u16,
    /// Stream and whole sequence number, where the payload is long enough.
    pub full: Option<(u64, u64)>,
}

/// An echo request with `size` bytes of payload. The checksum is filled in for IPv4; for IPv6 the kernel does it (it covers the
/// addresses, RFC 3542 section 3.1).
pub fn request(ipv6: bool, identifier: u16, stream: u64, seq: u64, size: usize) -> Vec<u8> {
    let mut message = vec![0; HEADER + size];
    message[0] = if ipv6 { V6_REQUEST } else { V4_REQUEST };
    message[4..6].copy_from_slice(&identifier.to_be_bytes());
    message[6..8].copy_from_slice(&(seq as u16).to_be_bytes());
    if size >= FULL {
        message[8..16].copy_from_slice(&stream.to_be_bytes());
        message[16..24].copy_from_slice(&seq.to_be_bytes());
    }
    if !ipv6 {
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    message
}

/// Reads an echo reply; none for anything else. Whether it is ours, the caller decides by stream and identifier.
pub fn reply(ipv6: bool, message: &[u8]) -> Option<EchoReply> {
    echo(if ipv6 { V6_REPLY } else { V4_REPLY }, message)
}

/// Reads our own request where an ICMP error quotes it; the quotation may be cut after the header.
pub fn quoted_request(ipv6: bool, message: &[u8]) -> Option<EchoReply> {
    echo(if ipv6 { V6_REQUEST } else { V4_REQUEST }, message)
}

fn echo(kind: u8, message: &[u8]) -> Option<EchoReply> {
    if *message.first()? != kind || *message.get(1)? != 0 {
        return None;
    }
    Some(EchoReply {
        identifier: be16(message, 4)?,
        short_seq: be16(message, 6)?,
        full: be64(message, 8).zip(be64(message, 16)),
    })
}

/// The Internet checksum (RFC 1071).
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u64 = bytes
        .chunks(2)
        .map(|pair| u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A sequence number of which only the low 16 bits came back: the newest one with these bits among those sent, `next` being the
/// first not sent yet. None when none of them was sent.
pub fn widen16(short: u16, next: u64) -> Option<u64> {
    let behind = (next as u16).wrapping_sub(short);
    let behind = if behind == 0 { 0x1_0000 } else { u64::from(behind) };
    next.checked_sub(behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_what_ping_sends() {
        // By hand: 0800 + 1234 + 0001 = 1a35, complement e5ca.
        assert_eq!(request(false, 0x1234, 0, 1, 0), [8, 0, 0xe5, 0xca, 0x12, 0x34, 0, 1]);
        // For IPv6 the checksum is left to the kernel.
        assert_eq!(request(true, 0x1234, 0, 1, 0), [128, 0, 0, 0, 0x12, 0x34, 0, 1]);
    }

    #[test]
    fn a_checksum_over_a_message_with_its_checksum_is_zero_also_of_odd_length() {
        for size in [0, 1, 15, 16, 17, 1472] {
            assert_eq!(checksum(&request(false, 99, 1 << 60, 70_000, size)), 0, "{size}");
        }
    }

    #[test]
    fn a_reply_says_stream_and_whole_sequence_number() {
        for ipv6 in [false, true] {
            let mut message = request(ipv6, 7, 0xabcdef, 70_000, 56);
            assert_eq!(reply(ipv6, &message), None, "a request is no reply");
            assert!(quoted_request(ipv6, &message).is_some());
            message[0] = if ipv6 { 129 } else { 0 };
            let wanted =
                EchoReply { identifier: 7, short_seq: 4464, full: Some((0xabcdef, 70_000)) };
            assert_eq!(reply(ipv6, &message), Some(wanted));
            assert_eq!(reply(ipv6, &message[..20]).map(|r| r.full), Some(None));
        }
    }

    #[test]
    fn a_short_number_is_the_newest_that_was_sent() {
        assert_eq!(widen16(4, 10), Some(4));
        assert_eq!(widen16(4464, 70_001), Some(70_000));
        assert_eq!(widen16(4465, 70_001), Some(4465), "70001 was not sent yet");
        assert_eq!(widen16(10, 10), None, "neither 10 nor one a round before");
        assert_eq!(widen16(0, 0x1_0000), Some(0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            for ipv6 in [false, true] {
                let _ = (reply(ipv6, &bytes), quoted_request(ipv6, &bytes));
            }
        }

        #[test]
        fn widening_finds_each_of_the_last_65536(next in 0u64..1 << 40, back in 1u64..=0x1_0000) {
            if let Some(seq) = next.checked_sub(back) {
                prop_assert_eq!(widen16(seq as u16, next), Some(seq));
            }
        }
    }
}
