//! What comes over a connection of HTTP/2 that no test takes: heads and frames that steer, of which there is little, and data for streams that
//! are closed, of which there may be any amount: HTTP/2 reads it, throws it away and says at once that as much again may be sent.
//!
//! ```text
//!   read ──┬─ taken by uploads, and their frames
//!          ├─ what windows of downloads need, heads of requests      free
//!          └─ the rest: nobody asked for it                          waits for the rates, as all that moves; too much of it is the end
//! ```
//!
//! What is answered without a test, as probes are, waits as well when there is much of it: nothing more is read before that was let through.
//!
//! Who was answered with an error, or sends more than a stream's window, may have some of it under way. It is read, so that it hears why.

use crate::rate::{PIECE, Share};
use quell_load::bulk::Gate;

/// Free from the beginning: the frames of a handshake, and what was read but in part.
const FREE: u64 = 64 << 10;
/// Free with each request: a head, and the frames around it.
const FREE_OF_REQUEST: u64 = 2 << 10;
/// Of what uploads carry, as a divisor: frames of 72 bytes have 9 more (RFC 9113, section 4.1).
const FRAMES: u64 = 8;
/// Of what downloads carry, as a divisor: 26 bytes that open two windows for each piece of 512 (section 6.9).
const WINDOWS: u64 = 16;
/// What an answer's head and its frames have, and the frame around its body.
const ANSWER: u64 = 64;
/// So much of the rest is the end.
const MOST: u64 = 256 << 10;

/// What a connection moved since it began.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moved {
    /// Bytes that came, of any kind.
    pub read: u64,
    /// Bytes of uploads.
    pub up: u64,
    /// Bytes of downloads.
    pub down: u64,
    /// Requests.
    pub requests: u64,
}

impl Moved {
    /// Bytes that nobody asked for.
    fn unasked(&self) -> u64 {
        let carried = self.up + self.up / FRAMES + self.down / WINDOWS;
        self.read.saturating_sub(carried + FREE + FREE_OF_REQUEST * self.requests)
    }
}

/// It is too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it sent {} kB that no stream takes", MOST >> 10)]
pub struct TooMuch;

/// A connection's account of it.
pub struct Unasked<'h> {
    share: Share<'h>,
    paid: u64,
    /// Bytes of answers that were not let through yet.
    said: u64,
}

impl<'h> Unasked<'h> {
    /// Nothing came yet.
    pub fn new(share: Share<'h>) -> Self {
        Self { share, paid: 0, said: 0 }
    }

    /// A request is answered, with so many bytes.
    pub fn says(&mut self, bytes: usize) {
        self.said += ANSWER + bytes as u64;
    }

    /// Whether more may be read; where the rates don't let it, until when nothing is.
    pub fn may_read(&mut self, moved: &Moved, now: u64) -> Result<Option<u64>, TooMuch> {
        let unasked = moved.unasked();
        if unasked > MOST {
            return Err(TooMuch);
        }
        let most = self.share.most().map_or(PIECE, |most| most.min(PIECE)) as u64;
        while self.said > 0 {
            let piece = self.said.min(most);
            if let Err(at) = self.share.pass_answer(piece as usize, now) {
                return Ok(Some(at));
            }
            self.said -= piece;
        }
        while let Some(left @ 1..) = unasked.checked_sub(self.paid) {
            let piece = left.min(most);
            if let Err(at) = self.share.pass(piece as usize, now) {
                return Ok(Some(at));
            }
            self.paid += piece;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod stories {
    use super::*;
    use crate::places::Limits;
    use crate::rate::Governor;

    const RATE: u64 = 1_000_000;

    /// How long a client may send this that nobody takes, in nanoseconds; none where it is ended.
    fn lasts(governor: &Governor, moved: &Moved) -> Option<u64> {
        let ip = std::net::IpAddr::from([192, 0, 2, 7]);
        let mut unasked = Unasked::new(Share::new(governor, ip, None));
        let mut now = 1;
        while let Some(at) = unasked.may_read(moved, now).ok()? {
            now = at;
        }
        Some(now)
    }

    #[test]
    fn what_nobody_takes_waits_for_the_rates_and_ends_when_it_is_much() {
        let governor = Governor::new(&Limits { rate: Some(RATE), ..Limits::default() });
        let moved = |read| Moved { read, requests: 1, ..Moved::default() };
        assert_eq!(lasts(&governor, &moved(FREE)), Some(1), "heads and the like are free");
        let long = lasts(&governor, &moved(FREE + FREE_OF_REQUEST + 125_000));
        assert!(long.is_some_and(|ns| ns > 800_000_000), "a second's worth lasts {long:?}");
        assert_eq!(lasts(&governor, &moved(FREE + FREE_OF_REQUEST + MOST + 1)), None);
    }

    #[test]
    fn answers_wait_for_the_rates_when_they_are_many() {
        let governor = Governor::new(&Limits { rate: Some(RATE), ..Limits::default() });
        let ip = std::net::IpAddr::from([192, 0, 2, 7]);
        let mut unasked = Unasked::new(Share::new(&governor, ip, None));
        let moved = Moved { read: 1000, requests: 1, ..Moved::default() };
        unasked.says(100);
        assert_eq!(unasked.may_read(&moved, 1), Ok(None), "one goes at once");
        (0..1000).for_each(|_| unasked.says(61));
        let mut now = 1;
        while let Some(at) = unasked.may_read(&moved, now).expect("it is asked for") {
            now = at;
        }
        assert!(now > 850_000_000, "a second's worth took {now} ns");
    }

    #[test]
    fn who_is_sent_much_and_sends_much_is_never_ended() {
        let governor = Governor::new(&Limits { rate: Some(RATE), ..Limits::default() });
        let down = 1 << 40;
        let windows = Moved { read: down / 512 * 26, down, ..Moved::default() };
        assert_eq!(lasts(&governor, &windows), Some(1));
        let up = 1 << 40;
        let frames = Moved { read: up + up / 1400 * 9, up, ..Moved::default() };
        assert_eq!(lasts(&governor, &frames), Some(1));
        let probes = Moved { read: 300 * 10_000, requests: 10_000, ..Moved::default() };
        assert_eq!(lasts(&governor, &probes), Some(1));
    }
}
