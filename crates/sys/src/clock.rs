//! Time inside a run: `CLOCK_MONOTONIC`, in nanoseconds since the (guest) kernel booted.
//!
//! It never goes back and no clock adjustment makes it jump. In the lab's guest kernel it is
//! virtual time, which moves only when everything sleeps: hence [`sleep_until`] sleeps in the
//! kernel on an absolute time and never spins.

use crate::SysError;
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use std::sync::OnceLock;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .expect("CLOCK_MONOTONIC exists on every Linux, and the pointer is valid");
    nanos_of(now)
}

fn nanos_of(time: TimeSpec) -> u64 {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec()).unwrap_or(0);
    seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(nanos)
}

/// Whether time is that of the lab's guest kernel, where programs take none.
pub fn is_virtual() -> bool {
    static IS_VIRTUAL: OnceLock<bool> = OnceLock::new();
    // `show_cpuinfo`, arch/um/kernel/um_arch.c.
    *IS_VIRTUAL.get_or_init(|| {
        std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains("User Mode Linux"))
    })
}

/// CPU time of the calling thread so far, in nanoseconds; none in virtual time, of which programs take none.
pub fn thread_cpu_ns() -> Option<u64> {
    if is_virtual() {
        return None;
    }
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(nanos_of)
}

/// Sleeps until the monotonic clock shows `deadline_ns`; returns at once when it is past. Signals
/// do not cut it short.
///
/// How late one wakes is the kernel's timer slack (50 µs unless `PR_SET_TIMERSLACK` says less) plus
/// scheduling.
pub fn sleep_until(deadline_ns: u64) -> Result<(), SysError> {
    let seconds = i64::try_from(deadline_ns / NANOS_PER_SECOND).unwrap_or(i64::MAX);
    let nanos = i64::try_from(deadline_ns % NANOS_PER_SECOND).unwrap_or(0);
    let deadline = TimeSpec::new(seconds, nanos);
    loop {
        match clock_nanosleep(
            ClockId::CLOCK_MONOTONIC,
            ClockNanosleepFlags::TIMER_ABSTIME,
            &deadline,
        ) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => {
                return Err(SysError::new(
                    format!("sleep until {deadline_ns} ns of the monotonic clock"),
                    errno,
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_never_wakes_before_the_deadline() {
        let start = monotonic_ns();
        let deadline = start + 3_000_000;
        sleep_until(deadline).unwrap();
        assert!(monotonic_ns() >= deadline);
    }

    #[test]
    fn a_deadline_in_the_past_costs_nothing() {
        let start = monotonic_ns();
        sleep_until(start.saturating_sub(1_000_000_000)).unwrap();
        sleep_until(0).unwrap();
        assert!(monotonic_ns() - start < 60_000_000_000);
    }
}
