//! The wall clock beside the monotonic one.
//!
//! The kernel stamps packets by `CLOCK_REALTIME`. That is the monotonic clock plus an offset which is constant (both are slewed
//! together, kernel/time/timekeeping.c) until somebody *sets* the clock: then it jumps. So one measured offset turns a stamp
//! into monotonic time exactly, and a changed offset tells that the clock was set.

use crate::clock::monotonic_ns;
use nix::time::{ClockId, clock_gettime};

/// A measured offset that differs by less is the same: two readings of clocks are never at one instant.
const SAME_NS: u64 = 20_000;

pub fn realtime_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_REALTIME)
        .expect("CLOCK_REALTIME exists on every Linux, and the pointer is valid");
    let seconds = u64::try_from(now.tv_sec()).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec()).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Whether something keeps this machine's clocks right (NTP, PTP), by the kernel's own word, and how far it takes them to be wrong at most, in
/// microseconds; none where it does not say (adjtimex(2), which needs no rights to ask).
pub fn discipline() -> Option<(bool, u64)> {
    // SAFETY: all zeroes is a `timex`, whose `modes` of zero change nothing; the pointer is to a value that lives here.
    let (state, asked) = unsafe {
        let mut asked: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&raw mut asked), asked)
    };
    (state >= 0).then(|| {
        let is_kept = state != libc::TIME_ERROR && asked.status & libc::STA_UNSYNC == 0;
        (is_kept, u64::try_from(asked.maxerror).unwrap_or(0))
    })
}

/// The next midnight here after a second since 1970, also where a day has 23 or 25 hours.
pub fn next_midnight_s(after_s: u64) -> u64 {
    let seconds = i64::try_from(after_s).unwrap_or(i64::MAX);
    // SAFETY: the pointers are to values that live here.
    let midnight = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const seconds, &raw mut parts);
        parts.tm_mday += 1;
        (parts.tm_hour, parts.tm_min, parts.tm_sec, parts.tm_isdst) = (0, 0, 0, -1);
        libc::mktime(&raw mut parts)
    };
    // Where there is no such time, a day has 24 hours.
    u64::try_from(midnight).ok().filter(|at| *at > after_s).unwrap_or(after_s + 86_400)
}

/// The time of now and here as text, in a format of strftime(3); at most 256 bytes, nothing where it makes more.
pub fn local_time(format: &str) -> String {
    let seconds = i64::try_from(realtime_ns() / 1_000_000_000).unwrap_or(i64::MAX);
    time_text(seconds, format)
}

/// The same of a second since 1970.
pub fn time_text(seconds: i64, format: &str) -> String {
    let Ok(format) = std::ffi::CString::new(format) else { return String::new() };
    let mut text = [0u8; 256];
    // SAFETY: the pointers are to values that live here, `text` has as many bytes as is said, and `format` ends with a zero.
    let length = unsafe {
        // As wide as `time_t` is here; musl's is known by another name soon.
        let seconds: i64 = seconds;
        let mut parts: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const seconds, &raw mut parts);
        libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &raw const parts)
    };
    String::from_utf8_lossy(&text[..length.min(text.len())]).into_owned()
}

/// Knows the wall clock's offset, and sees when it was set.
#[derive(Debug, Clone, Copy)]
pub struct Wall {
    offset_ns: i64,
    steps: u64,
}

impl Wall {
    pub fn new() -> Self {
        Self { offset_ns: measure(), steps: 0 }
    }

    pub fn at(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_add_signed(self.offset_ns)
    }

    pub fn monotonic(&self, realtime_ns: u64) -> u64 {
        realtime_ns.saturating_add_signed(-self.offset_ns)
    }

    /// How often the clock was set so far. Stamps from before and after a step can't be compared.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Reads both clocks; the monotonic time. Notes when the wall clock was set.
    pub fn look(&mut self) -> u64 {
        let real = realtime_ns();
        let now = monotonic_ns();
        let offset = real as i64 - now as i64;
        if offset.abs_diff(self.offset_ns) > SAME_NS {
            // Set, or this thread was held up between the two readings: look more closely.
            self.correct(measure());
        }
        now
    }

    fn correct(&mut self, offset_ns: i64) {
        if offset_ns.abs_diff(self.offset_ns) > SAME_NS {
            self.offset_ns = offset_ns;
            self.steps += 1;
        }
    }
}

impl Default for Wall {
    fn default() -> Self {
        Self::new()
    }
}

/// The offset from the pair of readings that were closest together.
fn measure() -> i64 {
    let pair = || {
        let before = monotonic_ns();
        let real = realtime_ns();
        let after = monotonic_ns();
        (after - before, real as i64 - (before + (after - before) / 2) as i64)
    };
    (0..5).map(|_| pair()).min().map_or(0, |(_, offset)| offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_as_the_format_says_and_never_beyond_its_room() {
        assert_eq!(time_text(1_000_000_000, "%Y x"), "2001 x");
        assert_eq!(time_text(0, &"%Y".repeat(100)), "");
        assert_eq!(time_text(0, "a\0b"), "");
    }

    #[test]
    fn midnight_is_within_a_day_and_begins_another_date() {
        for after in (0..400).map(|n| 1_790_000_000 + n * 86_413) {
            let midnight = next_midnight_s(after);
            assert!(midnight > after && midnight <= after + 25 * 3600, "{after}: {midnight}");
            let date = |at: u64| time_text(at as i64, "%F");
            assert_eq!(date(midnight - 1), date(after), "{after}");
            assert_ne!(date(midnight), date(after), "{after}");
        }
    }

    /// Whether it tells the time of now, to a second, however long it takes between two looks.
    fn is_right(wall: &Wall) -> bool {
        let before = realtime_ns();
        let at = wall.at(monotonic_ns());
        (before - 1_000_000_000..=realtime_ns() + 1_000_000_000).contains(&at)
    }

    #[test]
    fn times_turn_into_each_other_and_back() {
        let wall = Wall::new();
        let now = monotonic_ns();
        assert_eq!(wall.monotonic(wall.at(now)), now);
        assert!(is_right(&wall));
    }

    #[test]
    fn a_clock_that_was_set_is_noticed_and_one_that_was_not_is_no_step() {
        let mut wall = Wall::new();
        for _ in 0..100 {
            wall.look();
        }
        assert_eq!(wall.steps(), 0);
        // As if it had been a minute ahead until now.
        wall.offset_ns += 60_000_000_000;
        wall.look();
        assert_eq!(wall.steps(), 1);
        assert!(is_right(&wall));
    }
}
