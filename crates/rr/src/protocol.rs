//! What a client and a server tell each other beside the bytes of calls.
//!
//! A hello, once a connection, in the same segment as its first request. A reply is never larger than its request: a server is of no use to
//! an attacker.
//!
//! ```text
//!    0          8         12        16        17         18      32
//!   ┌──────────┬─────────┬─────────┬─────────┬──────────┬───────┐
//!   │ QUELLRR1 │ request │ reply   │ no delay│ quick ACK│ zero  │   big endian; bytes of each request and reply
//!   └──────────┴─────────┴─────────┴─────────┴──────────┴───────┘
//! ```
//!
//! A report of each call, in the first 32 bytes of a reply that has as many:
//!
//! ```text
//!    0          8               16             24             28       29         30       31      32
//!   ┌──────────┬───────────────┬──────────────┬──────────────┬────────┬──────────┬────────┬───────┐
//!   │ QUELLRRT │ own time, ns  │ gathering, ns│ delayed ACKs │ resent │ needless │ timers │ marks │   big endian
//!   └──────────┴───────────────┴──────────────┴──────────────┴────────┴──────────┴────────┴───────┘
//! ```
//!
//! Own time goes from the request's last byte to the reply, gathering from its first byte to its last. Delayed ACKs are those that the
//! server's host sent meanwhile; 2³² - 1 is unknown. Resent, needless and timers are of the time since the last report, or of the
//! connection's beginning; 255 is unknown. Mark 1: no part of the reply can be held for an ACK by Nagle's rule. Mark 4: the server's packets
//! overtook each other since the last report (`tcpi_reord_seen`).

use quell_model::task::QuickAck;

pub const SIZE: usize = 32;

const HELLO: &[u8; 8] = b"QUELLRR1";
const REPORT: &[u8; 8] = b"QUELLRRT";

const MOST_COUNTED: u32 = 254;

const HELD_NEVER: u8 = 1;
const OVERTAKEN: u8 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Bytes of each request, at least 1.
    pub request: u32,
    /// Bytes of each reply: at least 1, at most those of a request.
    pub reply: u32,
    pub nodelay: bool,
    pub quickack: Option<QuickAck>,
}

impl Hello {
    pub fn write(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(HELLO);
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
        let good = bytes[..8] == *HELLO
            && bytes[16] <= 1
            && reply >= 1
            && reply <= request
            && bytes[18..].iter().all(|b| *b == 0);
        good.then_some(Self { request, reply, nodelay: bytes[16] == 1, quickack })
    }
}

/// What a server sent again between two of its replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resent {
    pub segments: u32,
    /// Segments, sent again then or before, which this end said meanwhile that it had (DSACK, RFC 2883).
    pub needless: u32,
    /// Retransmission timers and loss probes that ran out on the server's host meanwhile, if it knows.
    pub timers: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerReport {
    pub own_ns: u64,
    pub gathering_ns: u64,
    /// ACKs whose delay was over meanwhile on its host (`DelayedACKs`), if it knows.
    pub delayed_acks: Option<u32>,
    /// What its TCP sent again since the reply before, if it knows.
    pub resent: Option<Resent>,
    /// Nagle's rule can hold no part of the reply: `TCP_NODELAY` is set, or it is one write.
    pub held_never: bool,
    /// Its packets overtook each other since the reply before.
    pub overtaken: bool,
}

/// As a byte; 255 is unknown.
fn byte(number: Option<u32>) -> u8 {
    number.map_or(u8::MAX, |n| n.min(MOST_COUNTED) as u8)
}

fn number(byte: u8) -> Option<u32> {
    (byte != u8::MAX).then_some(byte.into())
}

impl ServerReport {
    /// Whether it can be true of a call that took so long. Clocks of two hosts differ by less than a thousandth.
    pub fn fits(&self, took_ns: u64) -> bool {
        let told_ns = self.own_ns.saturating_add(self.gathering_ns);
        told_ns <= took_ns.saturating_add(took_ns / 1000)
    }

    pub fn write(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(REPORT);
        bytes[8..16].copy_from_slice(&self.own_ns.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.gathering_ns.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.delayed_acks.unwrap_or(u32::MAX).to_be_bytes());
        bytes[28] = byte(self.resent.map(|r| r.segments));
        bytes[29] = byte(self.resent.map(|r| r.needless));
        bytes[30] = byte(self.resent.and_then(|r| r.timers));
        bytes[31] = u8::from(self.held_never) * HELD_NEVER + u8::from(self.overtaken) * OVERTAKEN;
        bytes
    }

    /// Reads one; none from a server that says nothing.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; SIZE] = bytes.first_chunk()?;
        let long = |at: usize| {
            bytes.get(at..)?.first_chunk().map(|eight: &[u8; 8]| u64::from_be_bytes(*eight))
        };
        let delayed = u32::try_from(long(24)? >> 32).ok().filter(|n| *n != u32::MAX);
        let resent = number(bytes[28]).zip(number(bytes[29]));
        (bytes[..8] == *REPORT).then_some(Self {
            own_ns: long(8)?,
            gathering_ns: long(16)?,
            delayed_acks: delayed,
            resent: resent.map(|(segments, needless)| Resent {
                segments,
                needless,
                timers: number(bytes[30]),
            }),
            held_never: bytes[31] & HELD_NEVER != 0,
            overtaken: bytes[31] & OVERTAKEN != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISHES: Hello =
        Hello { request: 1446, reply: 723, nodelay: true, quickack: Some(QuickAck::Rearmed) };

    #[test]
    fn a_hello_comes_out_as_it_went_in() {
        for quickack in [None, Some(QuickAck::Once), Some(QuickAck::Rearmed)] {
            let hello = Hello { quickack, ..WISHES };
            assert_eq!(Hello::read(&hello.write()), Some(hello));
        }
    }

    #[test]
    fn one_that_asks_for_more_than_it_gives_or_is_foreign_is_none() {
        for hello in [Hello { reply: 1447, ..WISHES }, Hello { reply: 0, ..WISHES }] {
            assert_eq!(Hello::read(&hello.write()), None);
        }
        for at in [0, 7, 16, 17, 18, 31] {
            let mut bytes = WISHES.write();
            bytes[at] = 0x7f;
            assert_eq!(Hello::read(&bytes), None, "byte {at}");
        }
    }

    #[test]
    fn a_report_of_more_time_than_the_call_took_is_not_true() {
        let report = ServerReport { own_ns: 30, gathering_ns: 10, ..ServerReport::default() };
        assert!(report.fits(40) && !report.fits(39));
        assert!(!ServerReport { own_ns: u64::MAX, ..report }.fits(1_000_000_000));
    }

    #[test]
    fn a_report_comes_out_as_it_went_in_and_a_plain_reply_has_none() {
        for (delayed_acks, timers) in [(None, None), (Some(0), Some(0)), (Some(7), Some(254))] {
            let resent = delayed_acks.map(|segments| Resent { segments, needless: 1, timers });
            let (held_never, overtaken) = (delayed_acks.is_none(), timers.is_some());
            let report = ServerReport {
                own_ns: 1,
                gathering_ns: u64::MAX,
                delayed_acks,
                resent,
                held_never,
                overtaken,
            };
            assert_eq!(ServerReport::read(&report.write()), Some(report));
            assert_eq!(ServerReport::read(&report.write()[..31]), None);
        }
        assert_eq!(ServerReport::read(&[b'a'; 64]), None);
    }
}
