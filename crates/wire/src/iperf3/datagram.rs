//! UDP of iperf3: a hello each way, then data with a header.
//!
//! ```text
//!    0          4          8             12                   0          4          8                       16
//!   ┌──────────┬──────────┬─────────────┬──── …              ┌──────────┬──────────┬───────────────────────┬──── …
//!   │ seconds  │ µs       │ number      │ payload            │ seconds  │ µs       │ number                │ payload
//!   └──────────┴──────────┴─────────────┴──── …              └──────────┴──────────┴───────────────────────┴──── …
//!                                                              with `udp_counters_64bit`
//! ```
//!
//! Big endian. The time is of the sender's monotonic clock; numbers count from 1. Between two Quells a hello and its answer are 20 bytes: behind the four
//! comes the test's [`HelloToken`].

use super::token::{HelloToken, TOKEN};
use crate::read::{at, be32, be64};

pub const HELLO: usize = 4;
pub const LONG_HELLO: usize = HELLO + TOKEN;

/// What a client sends first, so that the server learns its address, and the answer: 4 bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hello {
    Client,
    Server,
}

impl Hello {
    /// As sent: a number in the byte order of the machines that most have.
    pub fn bytes(self) -> [u8; 4] {
        match self {
            Hello::Client => *b"9876",
            Hello::Server => *b"6789",
        }
    }

    /// Reads one, also of a machine with the other byte order, where the two look alike: so `Client` and `Server` only tell what
    /// it is on most machines. The number 987654321 of iperf3 before 3.10 counts too.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        const OLD_CLIENT: u32 = 123_456_789;
        const OLD_SERVER: u32 = 987_654_321;
        let bytes: [u8; 4] = bytes.try_into().ok()?;
        if bytes == Hello::Client.bytes() {
            return Some(Hello::Client);
        }
        if bytes == Hello::Server.bytes() {
            return Some(Hello::Server);
        }
        match (u32::from_le_bytes(bytes), u32::from_be_bytes(bytes)) {
            (OLD_CLIENT, _) | (_, OLD_CLIENT) => Some(Hello::Client),
            (OLD_SERVER, _) | (_, OLD_SERVER) => Some(Hello::Server),
            _ => None,
        }
    }
}

/// A hello as a datagram: alone, or with the test's token behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    pub hello: Hello,
    /// What only the two ends of the test know; iperf3 has nothing of the kind.
    pub token: Option<HelloToken>,
}

impl Greeting {
    pub fn bytes(&self) -> Vec<u8> {
        let token = self.token.as_ref().map_or(&[][..], |token| &token.bytes()[..]);
        [&self.hello.bytes()[..], token].concat()
    }

    /// Reads one; none of another length.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (hello, rest) = bytes.split_at_checked(HELLO)?;
        let token = match rest {
            [] => None,
            rest => Some(HelloToken::new(rest.try_into().ok()?)),
        };
        Some(Self { hello: Hello::read(hello)?, token })
    }
}

/// A hello with a token, by which an end that receives knows it from data. [`Greeting::bytes`] gives the same.
pub fn long_hello(hello: Hello, token: HelloToken) -> Option<[u8; LONG_HELLO]> {
    Greeting { hello, token: Some(token) }.bytes().try_into().ok()
}

/// The header of a data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// When it was sent: nanoseconds of the sender's monotonic clock, to the microsecond.
    pub sent_ns: u64,
    /// Its number, from 1; wraps where it has 32 bits.
    pub number: u64,
}

/// Bytes of the header: 12, or 16 with numbers of 64 bits.
pub const fn header_size(wide: bool) -> usize {
    if wide { 16 } else { 12 }
}

impl Datagram {
    /// Writes it over the start of a packet; nothing when that is too short.
    pub fn write(&self, bytes: &mut [u8], wide: bool) {
        let Some(header) = bytes.get_mut(..header_size(wide)) else { return };
        let micros = self.sent_ns / 1000;
        header[..4].copy_from_slice(&((micros / 1_000_000) as u32).to_be_bytes());
        header[4..8].copy_from_slice(&((micros % 1_000_000) as u32).to_be_bytes());
        if wide {
            header[8..].copy_from_slice(&self.number.to_be_bytes());
        } else {
            header[8..].copy_from_slice(&(self.number as u32).to_be_bytes());
        }
    }

    /// Reads one; none when it is too short.
    pub fn read(bytes: &[u8], wide: bool) -> Option<Self> {
        let (seconds, micros) = (be32(bytes, 0)?, be32(bytes, 4)?);
        let number =
            if wide { be64(bytes, 8)? } else { u64::from(u32::from_be_bytes(at(bytes, 8)?)) };
        Some(Self {
            sent_ns: u64::from(seconds) * 1_000_000_000 + u64::from(micros) * 1000,
            number,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos_are_known_by_their_bytes() {
        assert_eq!(Hello::read(&[0x39, 0x38, 0x37, 0x36]), Some(Hello::Client));
        assert_eq!(Hello::read(&[0x36, 0x37, 0x38, 0x39]), Some(Hello::Server));
        assert_eq!(Hello::read(&987_654_321u32.to_le_bytes()), Some(Hello::Server));
        assert_eq!(Hello::read(b"98765"), None);
        assert_eq!(Hello::read(&[0; 4]), None);
    }

    #[test]
    fn a_greeting_is_a_hello_alone_or_with_a_whole_token() {
        let token = HelloToken::new([7; 16]);
        for token in [None, Some(token)] {
            let greeting = Greeting { hello: Hello::Client, token };
            assert_eq!(Greeting::read(&greeting.bytes()), Some(greeting));
        }
        let bytes = Greeting { hello: Hello::Server, token: Some(token) }.bytes();
        assert_eq!((bytes.len(), &bytes[..4]), (20, &b"6789"[..]));
        for cut in [0, 3, 5, 19] {
            assert_eq!(Greeting::read(&bytes[..cut]), None, "{cut} bytes");
        }
        assert_eq!(Greeting::read(&[&bytes[..], &[7]].concat()), None);
        assert_eq!(Greeting::read(&[7; 20]), None, "no hello before it");
    }

    #[test]
    fn a_header_has_iperf3s_bytes() {
        let header = Datagram { sent_ns: 3_000_005_999, number: 0x0102 };
        let mut packet = [0xaa; 16];
        header.write(&mut packet, false);
        assert_eq!(packet, [0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 1, 2, 0xaa, 0xaa, 0xaa, 0xaa]);
        header.write(&mut packet, true);
        assert_eq!(packet[8..], [0, 0, 0, 0, 0, 0, 1, 2]);
        let read = Datagram { sent_ns: 3_000_005_000, ..header };
        assert_eq!(Datagram::read(&packet, true), Some(read));
        assert_eq!(Datagram::read(&packet[..15], true), None);
        header.write(&mut packet[..8], true);
    }
}
