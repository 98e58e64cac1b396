//! For how long this program did not run, though it had asked to: it was stopped, or got no CPU. Pure.
//!
//! ```text
//!   asked to wake     │    │    │    │    │    │    │        every 20 ms
//!   woke              │    │    ├──── stopped ────────┤
//!   paused                      ▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔       a whole beat late, or more
//! ```
//!
//! The scheduler's clock tells nothing of that: to it a stopped thread sleeps. While a receiver does not run nobody reads, and its kernel acknowledges
//! late (net/ipv4/tcp_input.c, `__tcp_ack_snd_check`: the window does not move), so that its sender seems to be held up by the path.

/// How often it asks to run, in nanoseconds.
const BEAT_NS: u64 = 20_000_000;

/// A program that asks to run from time to time, and how much too late it did.
#[derive(Debug)]
pub struct Pauses {
    begun_ns: u64,
    due_ns: u64,
    noted_ns: u64,
    paused_ns: u64,
}

impl Pauses {
    /// Of a program that runs now, in nanoseconds of the monotonic clock.
    pub fn new(now_ns: u64) -> Self {
        let due_ns = now_ns.saturating_add(BEAT_NS);
        Self { begun_ns: now_ns, due_ns, noted_ns: now_ns, paused_ns: 0 }
    }

    /// When it is to run next.
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// It runs now. Being a little late is no pause.
    pub fn note(&mut self, now_ns: u64) {
        self.noted_ns = self.noted_ns.max(now_ns);
        if now_ns < self.due_ns {
            return;
        }
        let late_ns = now_ns - self.due_ns;
        if late_ns >= BEAT_NS {
            self.paused_ns += late_ns;
        }
        self.due_ns = now_ns.saturating_add(BEAT_NS);
    }

    /// The part of the time up to the last note in which it did not run, from 0 to 1.
    pub fn share(&self) -> Option<f64> {
        let passed = self.noted_ns - self.begun_ns;
        (passed > 0).then(|| self.paused_ns as f64 / passed as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stopped_is_late_for_as_long_and_what_is_a_little_late_is_not() {
        const MS: u64 = 1_000_000;
        let mut runs = Pauses::new(0);
        assert_eq!(runs.share(), None);
        let mut now = 0;
        while now < 10_000 * MS {
            now = runs.due_ns() + 3 * MS;
            runs.note(now - 10 * MS);
            runs.note(now);
        }
        assert_eq!(runs.share(), Some(0.0));
        // It runs for 100 ms, and is stopped for as long.
        let mut stopped = Pauses::new(0);
        let mut now = 0;
        while now < 10_000 * MS {
            now = stopped.due_ns();
            if now % (200 * MS) >= 100 * MS {
                now = now.next_multiple_of(200 * MS);
            }
            stopped.note(now);
        }
        let share = stopped.share().unwrap();
        assert!((0.4..=0.5).contains(&share), "{share}");
    }
}
