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
//! carries all 64 bits, and which stream the packet is of. A smaller payload has as much of that as fits.
//!
//! Who knows the stream can answer, nobody else: it is a number that only the request told. An ICMP error of IPv4 may quote the header alone
//! (RFC 792). Its checksum is over the payload too, and so tells as well whether it is of our request.

use crate::read::{be16, be64};

/// Bytes before the payload.
pub const HEADER: usize = 8;
/// From this payload size on, the whole sequence number and the stream are in it.
pub const FULL: usize = 16;

/// Types of request and reply, of either version.
const V4: [u8; 2] = [8, 0];
const V6: [u8; 2] = [128, 129];

/// An echo reply, or a request as it is quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo<'a> {
    pub identifier: u16,
    /// The sequence number in the header.
    pub short_seq: u16,
    pub checksum: u16,
    pub payload: &'a [u8],
}

impl Echo<'_> {
    /// Whether it answers this request, or the longer one that begins so: all of its payload is here.
    pub fn answers(&self, request: &[u8]) -> bool {
        self.has_header_of(request)
            && request.get(HEADER..).is_some_and(|sent| self.payload.starts_with(sent))
    }

    /// Whether it quotes this request, or the longer one that has nothing but zeros behind it: where the payload was cut, by the checksum. That of IPv6 is
    /// not known here; but there as much is quoted as fits (RFC 4443, section 3.1).
    pub fn quotes(&self, request: &[u8]) -> bool {
        let is_cut = self.payload.len() + HEADER < request.len();
        let by_checksum = || {
            request.first() == Some(&V4[0])
                && be16(request, 2) == Some(self.checksum)
                && self.has_header_of(request)
        };
        if is_cut { by_checksum() } else { self.answers(request) }
    }

    /// The whole sequence number, where the payload of a [`request`] is long enough.
    pub fn whole_number(&self) -> Option<u64> {
        be64(self.payload, 8)
    }

    fn has_header_of(&self, request: &[u8]) -> bool {
        (be16(request, 4), be16(request, 6)) == (Some(self.identifier), Some(self.short_seq))
    }
}

/// An echo request with `size` bytes of payload. The checksum is filled in for IPv4; for IPv6 the kernel does it (it covers the
/// addresses, RFC 3542 section 3.1).
pub fn request(ipv6: bool, identifier: u16, stream: u64, seq: u64, size: usize) -> Vec<u8> {
    let mut message = vec![0; HEADER + size];
    message[0] = if ipv6 { V6[0] } else { V4[0] };
    message[4..6].copy_from_slice(&identifier.to_be_bytes());
    message[6..8].copy_from_slice(&(seq as u16).to_be_bytes());
    let known_by = stream.to_be_bytes().into_iter().chain(seq.to_be_bytes());
    for (place, byte) in message[HEADER..].iter_mut().zip(known_by) {
        *place = byte;
    }
    if !ipv6 {
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    message
}

/// Reads an echo reply; none for anything else. Whether it is ours, [`Echo::answers`] says.
pub fn reply(ipv6: bool, message: &[u8]) -> Option<Echo<'_>> {
    echo(if ipv6 { V6[1] } else { V4[1] }, message)
}

/// Reads a request where an ICMP error quotes it; the quotation may be cut after the header. Whether it is ours, [`Echo::quotes`] says.
pub fn quoted_request(ipv6: bool, message: &[u8]) -> Option<Echo<'_>> {
    echo(if ipv6 { V6[0] } else { V4[0] }, message)
}

fn echo(kind: u8, message: &[u8]) -> Option<Echo<'_>> {
    if *message.first()? != kind || *message.get(1)? != 0 {
        return None;
    }
    Some(Echo {
        checksum: be16(message, 2)?,
        identifier: be16(message, 4)?,
        short_seq: be16(message, 6)?,
        payload: message.get(HEADER..)?,
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
    fn only_who_has_the_request_can_answer_it() {
        for (ipv6, size) in
            [false, true].into_iter().flat_map(|v| [1, 8, 15, 16, 56].map(|n| (v, n)))
        {
            let sent = request(ipv6, 7, 0xabcd_ef01_0203_0405, 70_000, size);
            let mut message = sent.clone();
            assert_eq!(reply(ipv6, &message), None, "a request is no reply");
            message[0] = if ipv6 { 129 } else { 0 };
            let answers = |message: &[u8]| reply(ipv6, message).is_some_and(|r| r.answers(&sent));
            assert!(answers(&message));
            assert!(!answers(&message[..HEADER]), "of {size} bytes none came back");
            let mut forged = message.clone();
            forged[HEADER..].fill(0);
            assert!(!answers(&forged), "{size} bytes that were never sent");
            message[7] ^= 1;
            assert!(!answers(&message), "another packet's");
        }
    }

    #[test]
    fn an_error_is_about_the_request_that_it_quotes_though_it_quotes_only_the_header() {
        let sent = request(false, 7, 0xabcd_ef01_0203_0405, 70_000, FULL);
        let whole = request(false, 7, 0xabcd_ef01_0203_0405, 70_000, 56);
        let quotes = |quoted: &[u8]| quoted_request(false, quoted).is_some_and(|q| q.quotes(&sent));
        for length in [HEADER, HEADER + 3, HEADER + FULL, 64] {
            assert!(quotes(&whole[..length]), "{length}");
            let mut forged = whole[..length].to_vec();
            forged[2] ^= 1;
            assert_eq!(quotes(&forged), length >= HEADER + FULL, "the payload says it, else this");
            let mut forged = whole[..length].to_vec();
            forged[7] ^= 1;
            assert!(!quotes(&forged), "another packet's");
            if length > HEADER {
                forged[7] ^= 1;
                (forged[2], forged[HEADER]) = (0, 0);
                assert!(!quotes(&forged));
            }
        }
        let sent = request(true, 7, 1 << 60, 1, FULL);
        let quotes = |quoted: &[u8]| quoted_request(true, quoted).is_some_and(|q| q.quotes(&sent));
        assert!(quotes(&sent) && !quotes(&sent[..HEADER]), "IPv6 quotes all of it");
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
