//! What a client tells the server first, once a connection, in the same segment as its first request: 32 bytes.
//!
//! ```text
//!    0          8         12        16        17         18      32
//!   ┌──────────┬─────────┬─────────┬─────────┬──────────┬───────┐
//!   │ QUELLRR1 │ request │ reply   │ no delay│ quick ACK│ zero  │   big endian; bytes of each request and reply
//!   └──────────┴─────────┴─────────┴─────────┴──────────┴───────┘
//! ```
//!
//! A reply is never larger than its request: a server is of no use to an attacker.

use quell_model::task::QuickAck;

/// The size of a hello.
pub const SIZE: usize = 32;

const MAGIC: &[u8; 8] = b"QUELLRR1";

/// A client's wishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Bytes of each request, at least 1.
    pub request: u32,
    /// Bytes of each reply: at least 1, at most those of a request.
    pub reply: u32,
    /// Whether the server sets `TCP_NODELAY`.
    pub nodelay: bool,
    /// When the server sets `TCP_QUICKACK`.
    pub quickack: Option<QuickAck>,
}

impl Hello {
    /// As bytes.
    pub fn write(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&self.request.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.reply.to_be_bytes());
        bytes[16] = u8::from(self.nodelay);
        bytes[17] = match self.quickack {
            None => 0,
            Some(QuickAck::Once) => 1,
            Some(QuickAck::Rearmed) => 2,
        };
        bytes
    }

    /// Reads one; none when it is not from a Quell of this version, or asks for more than it gives.
    pub fn read(bytes: &[u8; SIZE]) -> Option<Self> {
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (request, reply) = (word(8), word(12));
        let quickack = match bytes[17] {
            0 => None,
            1 => Some(QuickAck::Once),
            2 => Some(QuickAck::Rearmed),
            _ => return None,
        };
        let good = bytes[..8] == *MAGIC
            && bytes[16] <= 1
            && reply >= 1
            && reply <= request
            && bytes[18..].iter().all(|b| *b == 0);
        good.then_some(Self { request, reply, nodelay: bytes[16] == 1, quickack })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Hello =
        Hello { request: 1446, reply: 723, nodelay: true, quickack: Some(QuickAck::Rearmed) };

    #[test]
    fn a_hello_comes_out_as_it_went_in() {
        for quickack in [None, Some(QuickAck::Once), Some(QuickAck::Rearmed)] {
            let hello = Hello { quickack, ..HELLO };
            assert_eq!(Hello::read(&hello.write()), Some(hello));
        }
    }

    #[test]
    fn one_that_asks_for_more_than_it_gives_or_is_foreign_is_none() {
        for hello in [Hello { reply: 1447, ..HELLO }, Hello { reply: 0, ..HELLO }] {
            assert_eq!(Hello::read(&hello.write()), None);
        }
        for at in [0, 7, 16, 17, 18, 31] {
            let mut bytes = HELLO.write();
            bytes[at] = 0x7f;
            assert_eq!(Hello::read(&bytes), None, "byte {at}");
        }
    }
}
