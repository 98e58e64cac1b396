//! Jitter of what was new and in order, of such transits alone as can be: anybody may write a datagram with any time of sending. Pure.
//!
//! ```text
//!   transit = arrival − sending, by two clocks
//!
//!   sent before the last one ──┐                          ┌─► counted
//!   sent after it arrived    ──┴─► can't be ── no, it can ┘
//!                                   │ yes
//!                                   └─► held ── the next one agrees: a clock was set; compared from there on, and no jitter
//!                                            └─ it does not: forgotten
//! ```

use quell_stats::Jitter;

/// So much before the last one a datagram may seem to have been sent, in nanoseconds: its stamp is rounded, clocks are slewed.
const ROUNDED_NS: f64 = 10e6;

/// So much faster than the fastest before it one may have come, in nanoseconds: the first may have waited in a queue that others passed by.
const FASTER_NS: f64 = 1e9;

/// A datagram that came.
#[derive(Debug, Clone, Copy)]
struct Came {
    transit_ns: f64,
    stamp_ns: u64,
    /// The shortest transit until then.
    least_ns: f64,
}

impl Came {
    /// The one that comes next, if it can.
    fn then(self, transit_ns: f64, stamp_ns: u64) -> Option<Self> {
        let latest = self.transit_ns + stamp_ns.saturating_sub(self.stamp_ns) as f64 + ROUNDED_NS;
        let can_be = (self.least_ns - FASTER_NS..=latest).contains(&transit_ns);
        let least_ns = self.least_ns.min(transit_ns);
        can_be.then_some(Self { transit_ns, stamp_ns, least_ns })
    }
}

/// The transits of a flow.
#[derive(Debug, Default)]
pub(super) struct Transits {
    jitter: Jitter,
    last: Option<Came>,
    held: Option<Came>,
}

impl Transits {
    /// The next in order came then, and was sent then by the sender's clock.
    pub fn push(&mut self, stamp_ns: u64, sent_ns: u64) {
        // A constant offset of the clocks cancels.
        let transit_ns = stamp_ns.wrapping_sub(sent_ns) as i64 as f64;
        let came = Came { transit_ns, stamp_ns, least_ns: transit_ns };
        let held = self.held.take();
        let next = |before: Option<Came>| before.and_then(|one| one.then(transit_ns, stamp_ns));
        self.last = match (self.last, next(self.last), next(held)) {
            (None, ..) => Some(came),
            (Some(_), Some(next), _) => Some(next),
            (Some(_), None, Some(next)) => {
                self.jitter.interrupt();
                Some(next)
            }
            (last, None, None) => {
                self.held = Some(came);
                self.last = last;
                return;
            }
        };
        self.jitter.push(transit_ns);
    }

    /// This host's clock was set: what comes can't be compared with what came.
    pub fn interrupt(&mut self) {
        (self.last, self.held) = (None, None);
        self.jitter.interrupt();
    }

    /// RFC 3550's estimate without its start from 0, in nanoseconds.
    pub fn settled(&self) -> f64 {
        self.jitter.settled().unwrap_or(0.0)
    }

    /// The estimate itself.
    pub fn estimate(&self) -> f64 {
        self.jitter.last().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A datagram each 10 ms, 20 ms on its way, with a clock that is an hour ahead; the n-th as `other` says.
    fn flow(other: impl Fn(u64, u64) -> Option<(u64, u64)>) -> Transits {
        let mut flow = Transits::default();
        for n in 0..200 {
            let stamp = 3_600_000 * MS + n * 10 * MS;
            let (stamp, sent) = other(n, stamp).unwrap_or((stamp, stamp - 20 * MS));
            flow.push(stamp, sent + 3_600_000 * MS);
        }
        flow
    }

    #[test]
    fn a_time_of_sending_that_can_not_be_moves_no_jitter() {
        for sent in [0, 1_000, 3_600_000 * MS / 2, 3_700_000 * MS, u64::MAX / 2] {
            let forged = flow(|n, stamp| (n % 40 == 30).then_some((stamp, sent)));
            assert_eq!((forged.settled(), forged.estimate()), (0.0, 0.0), "{sent}");
            // As the first.
            let forged = flow(|n, stamp| (n == 0).then_some((stamp, sent)));
            assert_eq!(forged.settled(), 0.0, "{sent}");
        }
    }

    #[test]
    fn a_senders_clock_that_is_set_is_no_jitter_and_what_comes_then_counts() {
        let swing = |n: u64| 20 * MS + n % 2 * MS;
        let set = flow(|n, stamp| {
            let ahead = if n >= 100 { 60_000 * MS } else { 0 };
            Some((stamp, stamp + ahead - swing(n)))
        });
        assert!((set.settled() - 1e6).abs() < 1.0, "{}", set.settled());
    }

    #[test]
    fn a_stall_is_a_long_transit_and_counts() {
        // From 1 s to 1.5 s nothing comes, and then all at once what waited.
        let stall = flow(|n, stamp| {
            let begun = 3_600_000 * MS;
            let waits = (100..150).contains(&n).then_some(begun + 1500 * MS);
            waits.map(|came| (came, stamp - 20 * MS))
        });
        assert!(stall.estimate() > 0.0);
        let mut first = Transits::default();
        first.push(10 * MS, 10 * MS);
        first.push(520 * MS, 20 * MS);
        assert_eq!(first.estimate(), 500e6 / 16.0);
    }
}
