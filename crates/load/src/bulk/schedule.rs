//! When datagrams at a rate are due. Pure.
//!
//! ```text
//!   due(n) = start + n · size / rate        exact over any time: errors don't add up
//! ```
//!
//! The sender sleeps until the next one is due and then sends what is due. How late it wakes is the kernel's affair: a few µs on bare metal, 10 to
//! 16 µs in a virtual machine whose timer is the host's (measured at real-time priority). Where packets are due faster than that, two
//! or three go at a wake-up. Only a program that spins could do better, which Quell never does. Measured and given up: waiting
//! for a fixed number to be due, and waking early by the usual lateness; both made larger gaps rarer in no case, and the 99th percentile
//! worse.

/// A sender that is later than this forgets what it owes.
const MOST_DEBT_NS: u64 = 20_000_000;

#[derive(Debug, Clone)]
pub(super) struct Schedule {
    start_ns: u64,
    /// Packets that were due before `start_ns`.
    before: u64,
    interval: (u128, u128),
}

impl Schedule {
    /// Datagrams of `size` bytes at `rate` bits a second, the first at `start_ns`.
    pub fn new(start_ns: u64, size: usize, rate: u64) -> Self {
        let interval = (size as u128 * 8 * 1_000_000_000, u128::from(rate.max(1)));
        Self { start_ns, before: 0, interval }
    }

    /// When the n-th is due, counted from 0.
    pub fn due(&self, n: u64) -> u64 {
        let (numerator, denominator) = self.interval;
        let steps = u128::from(n.saturating_sub(self.before));
        let after = steps.saturating_mul(numerator) / denominator;
        self.start_ns.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }

    /// How many are due at `now_ns` from the n-th on, at most `most`.
    pub fn due_now(&self, n: u64, now_ns: u64, most: u64) -> u64 {
        let mut many = 0;
        while many < most && self.due(n.saturating_add(many)) <= now_ns {
            many += 1;
        }
        many
    }

    /// Where the n-th is overdue by too much at `now_ns`, it is due now and those before it are forgotten.
    pub fn forgive(&mut self, n: u64, now_ns: u64) {
        if now_ns.saturating_sub(self.due(n)) > MOST_DEBT_NS {
            (self.start_ns, self.before) = (now_ns, n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_rate_without_a_whole_interval_is_exact_after_an_hour() {
        // 8 Mbit/s of 1400 bytes: 714.28… packets a second.
        let schedule = Schedule::new(5, 1400, 8_000_000);
        assert_eq!(schedule.due(0), 5);
        assert_eq!(schedule.due(3600 * 1_000_000 / 1400), 5 + 3_599_999_200_000);
    }

    #[test]
    fn all_that_are_due_by_now_go_and_no_more() {
        // Every 5 us.
        let schedule = Schedule::new(0, 1250, 2_000_000_000);
        assert_eq!(schedule.due_now(7, 34_999, 64), 0);
        assert_eq!(schedule.due_now(7, 45_000, 64), 3);
        assert_eq!(schedule.due_now(0, u64::MAX, 64), 64);
    }

    #[test]
    fn a_sender_that_was_held_up_for_long_forgets_what_it_owes() {
        let mut schedule = Schedule::new(0, 1250, 10_000_000);
        schedule.forgive(10, 29 * MS);
        assert_eq!(schedule.due(10), 10 * MS, "19 ms late: it catches up");
        schedule.forgive(10, 110 * MS);
        assert_eq!((schedule.due(10), schedule.due(11)), (110 * MS, 111 * MS));
    }
}
