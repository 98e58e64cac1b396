//! How long a reply is waited for, by the round trips seen so far. Pure.
//!
//! ```text
//!   least ──────── twice the longest round trip so far ──────── most
//!    3 s    a queue that fills makes each answer slower than the last: twice gives it room to grow
//! ```
//!
//! A packet whose reply has not come by then counts as lost. When the reply comes all the same, the packet was late, not lost: it is
//! told again as [`quell_model::EchoStatus::Late`], and that round trip makes the patience longer for those behind it.

use quell_units::Span;

/// As long as a modem's queue may be before anything was seen of it.
pub const LEAST: Span = Span::from_secs(3);
pub const MOST: Span = Span::from_secs(60);
/// Packets that may be waited for at once, beyond the least time.
const MOST_PACKETS: u64 = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    least_ns: u64,
    most_ns: u64,
    longest_ns: u64,
}

impl Patience {
    pub fn exactly(wait: Span) -> Self {
        Self::between(wait, wait)
    }

    /// As long as the path shows to be needed, within these bounds.
    pub fn between(least: Span, most: Span) -> Self {
        let (least_ns, most_ns) = (least.nanos(), most.nanos().max(least.nanos()));
        Self { least_ns, most_ns, longest_ns: 0 }
    }

    pub fn usual() -> Self {
        Self::between(LEAST, MOST)
    }

    /// The same for packets that come so often: not so long that more than 65,536 of them would have to be remembered, but never
    /// shorter than the least time.
    #[must_use]
    pub fn for_packets_every(self, interval: Span) -> Self {
        let room = interval.nanos().saturating_mul(MOST_PACKETS);
        Self { most_ns: self.most_ns.min(room).max(self.least_ns), ..self }
    }

    pub fn saw(&mut self, rtt_ns: u64) {
        self.longest_ns = self.longest_ns.max(rtt_ns);
    }

    pub fn wait_ns(&self) -> u64 {
        self.longest_ns.saturating_mul(2).clamp(self.least_ns, self.most_ns)
    }

    /// How long a reply is waited for at most, whatever will be seen.
    pub fn most_ns(&self) -> u64 {
        self.most_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn it_is_twice_the_longest_round_trip_within_its_bounds() {
        let mut patience = Patience::usual();
        assert_eq!(patience.wait_ns(), 3 * SECOND);
        for (rtt, wait) in [(SECOND, 3), (6 * SECOND, 12), (SECOND, 12), (90 * SECOND, 60)] {
            patience.saw(rtt);
            assert_eq!(patience.wait_ns(), wait * SECOND);
        }
        let mut exact = Patience::exactly(Span::from_millis(500));
        exact.saw(SECOND);
        assert_eq!(exact.wait_ns(), SECOND / 2);
    }

    /// A flood of eight times the rate fills a queue of 12 s: its answers come ever later, and no packet is given up.
    #[test]
    fn no_packet_in_a_filling_fifo_is_given_up_whatever_the_overload() {
        let ms = SECOND / 1000;
        for overload in [2u64, 3, 8, 100] {
            let rtt = |sent: u64| (20 * ms + (overload - 1) * sent).min(12 * SECOND);
            let mut patience = Patience::usual();
            let sent: Vec<u64> = (0..1500).map(|n| n * 20 * ms).collect();
            let mut answered = 0;
            for now in (0..50 * 1000).map(|n| n * ms) {
                while sent.get(answered).is_some_and(|s| s + rtt(*s) <= now) {
                    patience.saw(rtt(sent[answered]));
                    answered += 1;
                }
                if let Some(oldest) = sent.get(answered).filter(|s| **s < now) {
                    let age = now - oldest;
                    assert!(age <= patience.wait_ns(), "{overload}: {age} ns old at {now} ns");
                }
            }
            assert_eq!(answered, sent.len());
        }
    }

    #[test]
    fn packets_that_come_fast_are_not_all_remembered_for_a_minute() {
        let fast = Patience::usual().for_packets_every(Span::from_micros(100));
        let slow = Patience::usual().for_packets_every(Span::from_millis(200));
        let flood = Patience::usual().for_packets_every(Span::from_micros(10));
        for (mut patience, wait) in
            [(fast, 6_553_600_000), (slow, 60 * SECOND), (flood, 3 * SECOND)]
        {
            patience.saw(100 * SECOND);
            assert_eq!(patience.wait_ns(), wait);
        }
    }
}
