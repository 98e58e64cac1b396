//! The rest of a test's datagrams: those that are still on their way when their sender is done. Both ends wait for them alike.
//!
//! ```text
//!   sender is done ──┬── all came ───────────────────────────────────────────────────► All
//!                    ├── twice the longest round trip has passed, and it is quiet ───► Lost: what is missing will not come
//!                    └── somebody rings, or patience is at its end ──────────────────► Unknown
//!
//!   quiet   nothing came for twice the longest time between two arrivals, 50 ms at least
//! ```
//!
//! A queue lets through what it holds one by one, so that it is not quiet before it is empty.

use crate::arrivals::Arrivals;
use crate::lane::Lane;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};

/// Quiet is nothing for so long at least.
const QUIET_NS: u64 = 50_000_000;
/// How often it is looked at whether the last one came.
pub const LOOK_NS: u64 = 5_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    All,
    Lost,
    /// They were not waited for as long as the path shows to be needed.
    Unknown,
}

/// Lanes that receive datagrams, and what is known of what they wait for.
pub struct Awaited<'a> {
    /// Each with how many were sent to it in all, where that is known.
    pub lanes: Vec<(&'a Lane, Option<u64>)>,
    /// When the sender was done at the latest, in nanoseconds of the monotonic clock.
    pub done_ns: u64,
    pub until_ns: u64,
}

impl Awaited<'_> {
    /// Waits for the rest; `round_trip_ns` is the longest that was seen of the path so far.
    pub fn wait(&self, round_trip_ns: &dyn Fn() -> u64, stop: &Bell) -> Result<Rest, SysError> {
        let mut alarm = Alarm::new()?;
        loop {
            let now = monotonic_ns();
            let all: Vec<(Arrivals, Option<u64>)> = self
                .lanes
                .iter()
                .filter_map(|(lane, sent)| Some((lane.arrivals()?, *sent)))
                .collect();
            if all.iter().all(|(arrivals, sent)| sent.is_some_and(|sent| arrivals.packets >= sent))
            {
                return Ok(Rest::All);
            }
            let needed = round_trip_ns().saturating_mul(2);
            if now >= self.done_ns.saturating_add(needed)
                && all.iter().all(|(a, _)| quiet(a, self.done_ns, now))
            {
                return Ok(Rest::Lost);
            }
            if now >= self.until_ns {
                return Ok(Rest::Unknown);
            }
            alarm.set(Some(now.saturating_add(LOOK_NS)))?;
            let mut fds = [readable(stop), readable(&alarm)];
            wait(&mut fds)?;
            if came(&fds[0]) {
                return Ok(Rest::Unknown);
            }
        }
    }
}

fn quiet(arrivals: &Arrivals, done_ns: u64, now: u64) -> bool {
    let last = if arrivals.packets > 0 { arrivals.last_ns } else { done_ns };
    now.saturating_sub(last) >= arrivals.longest_ns.saturating_mul(2).max(QUIET_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::tests::{MS, arrivals};

    #[test]
    fn it_is_quiet_only_when_nothing_came_for_longer_than_ever_before() {
        let slow = Arrivals { longest_ns: 200 * MS, ..arrivals(100, 900, (1, 5), 5) };
        assert!(!quiet(&slow, 0, 1299 * MS) && quiet(&slow, 0, 1300 * MS));
        let fast = arrivals(100, 900, (1, 800), 800);
        assert!(!quiet(&fast, 0, 949 * MS) && quiet(&fast, 0, 950 * MS));
        assert!(!quiet(&Arrivals::default(), 900 * MS, 949 * MS), "nothing came yet");
    }
}
