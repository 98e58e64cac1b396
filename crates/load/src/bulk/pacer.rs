//! When a TCP sender with a rate hands over what. Pure.
//!
//! ```text
//!   written by time t ≤ rate · t + one piece        from the first byte on: nothing is lent, and no buffer is filled ahead of its time
//! ```
//!
//! The kernel alone would not do (`SO_MAX_PACING_RATE`): it lets the first ten segments go unpaced (`tcp_update_skb_after_send`), which are
//! 655 kB on the loopback interface; it paces by whole segments; and a queue that paces counts headers as well (fq). So the writes keep
//! the rate, and the kernel, at a rate with room for headers, spreads each piece. A sender that was held up catches up, as iperf3
//! does.

use super::schedule::Schedule;

/// A piece is what is due in this time, where that is more than a segment …
const PIECE_NS: u64 = 1_000_000;
/// … and a segment that takes longer than this to be due is not waited for …
const LONGEST_NS: u64 = 10_000_000;
/// … unless it is one of an Ethernet's size: smaller ones would carry headers above all.
const ETHERNET: usize = 1448;

/// What a queue that paces counts beside a segment's payload: Ethernet, IPv6, TCP with all its options.
pub const HEADERS: u32 = 14 + 40 + 60;

#[derive(Debug, Clone)]
pub(super) struct Pacer {
    schedule: Schedule,
    piece: usize,
    segment: usize,
    rate: u64,
    next: u64,
}

impl Pacer {
    /// At `rate` bits a second from `start_ns` on, in segments of `mss` bytes and at most `most` bytes a write.
    pub fn new(start_ns: u64, rate: u64, mss: usize, most: usize) -> Self {
        let due_in = |ns: u64| {
            let bytes = u128::from(rate) * u128::from(ns) / 8_000_000_000;
            usize::try_from(bytes).unwrap_or(usize::MAX)
        };
        let segment = mss.max(1).min(ETHERNET.max(due_in(LONGEST_NS)));
        let piece = (due_in(PIECE_NS) / segment).max(1).saturating_mul(segment).min(most).max(1);
        let segment = segment.min(piece);
        Self { schedule: Schedule::new(start_ns, piece, rate), piece, segment, rate, next: 0 }
    }

    pub fn piece(&self) -> usize {
        self.piece
    }

    /// Whether pieces make segments that are not full by the pacer's choice, which must not be kept waiting for an ACK (Nagle).
    pub fn cuts(&self, mss: usize, most: usize) -> bool {
        self.piece < mss.min(most)
    }

    /// What the kernel may send, in bytes a second with headers: enough for the rate in any queue.
    pub fn kernel(&self) -> u64 {
        let segment = self.segment as u128;
        let bytes = u128::from(self.rate) * (segment + u128::from(HEADERS)) / (segment * 8);
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }

    /// Takes the next piece at this time of the clock its start is of, or says when it is due.
    ///
    /// # Errors
    ///
    /// The time in nanoseconds.
    pub fn take(&mut self, now_ns: u64) -> Result<(), u64> {
        let due = self.schedule.due(self.next);
        if due > now_ns {
            return Err(due);
        }
        self.next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const BLOCK: usize = 128 << 10;

    /// Bytes written until `end`, each piece as soon as it is due; at no time more than the rate and one piece.
    fn written(mut pacer: Pacer, from: u64, end: u64) -> u64 {
        let (mut now, mut bytes) = (from, 0);
        loop {
            match pacer.take(now) {
                Ok(()) => {
                    bytes += pacer.piece() as u64;
                    // The clock has whole nanoseconds.
                    let due = u128::from(pacer.rate) * u128::from(now + 1) / u128::from(8 * S);
                    assert!(u128::from(bytes) <= due + pacer.piece() as u128, "{bytes} at {now}");
                }
                Err(due) if due >= end => return bytes,
                Err(due) => now = due,
            }
        }
    }

    #[test]
    fn no_more_than_the_rate_and_one_piece_is_ever_written_and_no_less_than_the_rate() {
        for mss in [536, 1448, 8948, 65_483] {
            for rate in [1_000, 100_000, 5_000_000, 1_000_000_000, 40_000_000_000] {
                let pacer = Pacer::new(0, rate, mss, BLOCK);
                let (bytes, due) = (written(pacer.clone(), 0, 3 * S), rate * 3 / 8);
                let piece = pacer.piece() as u64;
                assert!((due..=due + piece).contains(&bytes), "{rate} bit/s, {mss}: {bytes}");
            }
        }
    }

    #[test]
    fn pieces_are_whole_segments_and_small_beside_the_rate() {
        let piece = |rate, mss, most| Pacer::new(0, rate, mss, most).piece();
        assert_eq!(piece(5_000_000, 1448, BLOCK), 1448);
        assert_eq!(piece(1_000_000_000, 1448, BLOCK), 86 * 1448, "a millisecond");
        assert_eq!(piece(5_000_000, 65_483, BLOCK), 6250, "10 ms: a tenth of the segment");
        assert_eq!(piece(1_000, 65_483, BLOCK), 1448);
        assert_eq!(piece(5_000_000, 1448, 100), 100, "what was asked for in one write");
        assert_eq!(piece(0, 0, 0), 1);
    }

    #[test]
    fn only_what_the_pacer_cuts_may_leave_in_small_segments() {
        let cuts = |mss, most| Pacer::new(0, 5_000_000, mss, most).cuts(mss, most);
        assert!(cuts(65_483, BLOCK) && !cuts(1448, BLOCK) && !cuts(1448, 100));
    }

    #[test]
    fn a_sender_that_was_held_up_catches_up_and_the_kernel_has_room_for_headers() {
        let pacer = Pacer::new(0, 5_000_000, 1448, BLOCK);
        assert_eq!(pacer.kernel(), 625_000 * (1448 + 114) / 1448);
        let late = written(pacer.clone(), 2 * S, 3 * S);
        assert_eq!(late, written(pacer, 0, 3 * S));
    }
}
