//! What a server says of a call, in the first 32 bytes of a reply that has as many:
//!
//! ```text
//!    0          8               16             24             28       29         30       31           32
//!   ┌──────────┬───────────────┬──────────────┬──────────────┬────────┬──────────┬────────┬────────────┐
//!   │ QUELLRRT │ own time, ns  │ gathering, ns│ delayed ACKs │ resent │ needless │ timers │ marks      │   big endian
//!   └──────────┴───────────────┴──────────────┴──────────────┴────────┴──────────┴────────┴────────────┘
//! ```
//!
//! Own time goes from the request's last byte to the reply, gathering from its first byte to its last. Delayed ACKs are those
//! that the server's host sent meanwhile; 2³² - 1 says that it does not know. Resent, needless and timers are of the time since the last
//! such word, or of the connection's beginning; 255 says that it does not know. So a reply's own retransmissions stand in the next
//! one. Of the marks, 1 says that no part of the reply can be held for an ACK by Nagle's rule: `TCP_NODELAY` is set, or it is one write; 2 that its
//! host says which segments it had already (`net.ipv4.tcp_dsack`); 4 that its packets were seen to overtake each other since the last such word
//! (`tcpi_reord_seen`). Only differences of one clock, so that clocks need not agree.

/// Its size.
pub const SIZE: usize = 32;

const MAGIC: &[u8; 8] = b"QUELLRRT";

/// What a byte counts, and no further.
const MOST_COUNTED: u32 = 254;

/// Marks.
const HELD_NEVER: u8 = 1;
const DSACK: u8 = 2;
const OVERTAKEN: u8 = 4;
const ALL: u8 = HELD_NEVER | DSACK | OVERTAKEN;

/// What a server sent again between two of its replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resent {
    /// Segments, SYN-ACKs among them.
    pub segments: u32,
    /// Segments, sent again then or before, of which this end said meanwhile that it had them (DSACK, RFC 2883).
    pub needless: u32,
    /// Retransmission timers and loss probes that ran out on the server's host meanwhile, if it knows.
    pub timers: Option<u32>,
}

/// What a server says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Word {
    /// From the request's last byte to the reply, in nanoseconds.
    pub own_ns: u64,
    /// From the request's first byte to its last, in nanoseconds.
    pub gathering_ns: u64,
    /// ACKs whose delay was over meanwhile on its host (`DelayedACKs`), if it knows.
    pub delayed_acks: Option<u32>,
    /// What its TCP sent again since the reply before, if it knows.
    pub resent: Option<Resent>,
    /// Nagle's rule can hold no part of the reply: `TCP_NODELAY` is set, or it is one write.
    pub held_never: bool,
    /// Its host says of segments that it had them already (`net.ipv4.tcp_dsack` is on).
    pub dsack: bool,
    /// Since the reply before, this end was seen to have a segment of its before one that it had sent sooner, and not again.
    pub overtaken: bool,
}

/// As a byte; 255 is unknown.
fn byte(number: Option<u32>) -> u8 {
    number.map_or(u8::MAX, |n| n.min(MOST_COUNTED) as u8)
}

fn number(byte: u8) -> Option<u32> {
    (byte != u8::MAX).then_some(byte.into())
}

impl Word {
    /// Whether it can be true of a call that took so long. Clocks of two hosts differ by less than a thousandth.
    pub fn fits(&self, took_ns: u64) -> bool {
        let told_ns = self.own_ns.saturating_add(self.gathering_ns);
        told_ns <= took_ns.saturating_add(took_ns / 1000)
    }

    /// As bytes.
    pub fn write(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.own_ns.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.gathering_ns.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.delayed_acks.unwrap_or(u32::MAX).to_be_bytes());
        bytes[28] = byte(self.resent.map(|r| r.segments));
        bytes[29] = byte(self.resent.map(|r| r.needless));
        bytes[30] = byte(self.resent.and_then(|r| r.timers));
        let mark = |is: bool, mark: u8| if is { mark } else { 0 };
        bytes[31] = mark(self.held_never, HELD_NEVER)
            | mark(self.dsack, DSACK)
            | mark(self.overtaken, OVERTAKEN);
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
        (bytes[..8] == *MAGIC && bytes[31] <= ALL).then_some(Self {
            own_ns: long(8)?,
            gathering_ns: long(16)?,
            delayed_acks: delayed,
            resent: resent.map(|(segments, needless)| Resent {
                segments,
                needless,
                timers: number(bytes[30]),
            }),
            held_never: bytes[31] & HELD_NEVER != 0,
            dsack: bytes[31] & DSACK != 0,
            overtaken: bytes[31] & OVERTAKEN != 0,
        })
    }
}

/// What the server said that it sent again on a connection; none once it did not say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentThere(Option<(u32, u32)>);

impl SentThere {
    /// Of a connection that begins.
    pub(crate) fn begins() -> Self {
        Self(Some((0, 0)))
    }

    /// Takes what it says with its next reply.
    pub(crate) fn heard(&mut self, resent: Option<Resent>) {
        // Of 254 and more the number is not known.
        let known = resent.filter(|resent| resent.segments < MOST_COUNTED);
        self.0 = self.0.zip(known).map(|((segments, needless), more)| {
            (segments.saturating_add(more.segments), needless.saturating_add(more.needless))
        });
    }

    /// Whether more came twice than it had sent again.
    pub(crate) fn is_exceeded(self) -> bool {
        self.0.is_some_and(|(segments, needless)| needless > segments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_more_time_than_the_call_took_is_not_true() {
        let word = Word { own_ns: 30, gathering_ns: 10, ..Word::default() };
        assert!(word.fits(40) && !word.fits(39));
        assert!(!Word { own_ns: u64::MAX, ..word }.fits(1_000_000_000));
    }

    #[test]
    fn a_word_comes_out_as_it_went_in_and_a_plain_reply_has_none() {
        for delayed_acks in [None, Some(0), Some(7)] {
            let held_never = delayed_acks.is_none();
            for timers in [None, Some(0), Some(254)] {
                let resent = delayed_acks.map(|segments| Resent { segments, needless: 1, timers });
                let (own_ns, gathering_ns) = (1, u64::MAX);
                for (dsack, overtaken) in [(false, false), (true, false), (false, true)] {
                    let told = Word { delayed_acks, resent, held_never, ..Word::default() };
                    let word = Word { own_ns, gathering_ns, dsack, overtaken, ..told };
                    assert_eq!(Word::read(&word.write()), Some(word));
                    assert_eq!(Word::read(&word.write()[..31]), None);
                }
            }
        }
        assert_eq!(Word::read(&[b'a'; 64]), None);
    }

    #[test]
    fn of_a_connection_it_is_known_whether_more_came_twice_than_the_server_sent_again() {
        let mut sent = SentThere::begins();
        let resent = |segments, needless| Some(Resent { segments, needless, timers: None });
        sent.heard(resent(2, 1));
        sent.heard(resent(0, 1));
        assert!(!sent.is_exceeded(), "as many as it sent again");
        sent.heard(resent(0, 1));
        assert!(sent.is_exceeded());
        for not_said in [None, resent(254, 254)] {
            let mut sent = sent;
            sent.heard(not_said);
            sent.heard(resent(0, 9));
            assert!(!sent.is_exceeded(), "{not_said:?}");
        }
    }
}
