//! Waiting, always in the kernel: for descriptors, for a time, for somebody who rings.
//!
//! ```text
//!   ppoll(2), without a time-out, over   sockets   Alarm (timerfd)   Bell (eventfd)
//! ```
//!
//! Times go through a timerfd and not through ppoll's own time-out: the kernel lets that one be late by a thousandth of itself
//! (`select_estimate_accuracy`, fs/select.c), which in virtual time it always is; a timerfd is exact.

use crate::SysError;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::os::fd::{AsFd, BorrowedFd};

/// Becomes readable at a time of the monotonic clock.
#[derive(Debug)]
pub struct Alarm {
    timer: TimerFd,
    set: Option<u64>,
}

impl Alarm {
    pub fn new() -> Result<Self, SysError> {
        let timer = TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK,
        )
        .map_err(|errno| SysError::new("make a timer", errno))?;
        Ok(Self { timer, set: None })
    }

    /// Sets it to a time in nanoseconds of the monotonic clock, at once if that is past; none unsets it. It stays readable from
    /// then until it is set anew.
    pub fn set(&mut self, deadline_ns: Option<u64>) -> Result<(), SysError> {
        // It went off perhaps, and only setting makes it quiet again; but a time to come that is set already stands.
        if deadline_ns == self.set && deadline_ns.is_none() {
            return Ok(());
        }
        let failed = |errno| SysError::new("set a timer", errno);
        match deadline_ns {
            Some(ns) => {
                // Zero would unset it.
                let ns = ns.max(1);
                let when = TimeSpec::new((ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64);
                self.timer
                    .set(Expiration::OneShot(when), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
                    .map_err(failed)?;
            }
            None => self.timer.unset().map_err(failed)?,
        }
        self.set = deadline_ns;
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

/// Becomes readable when somebody rings.
#[derive(Debug)]
pub struct Bell(EventFd);

impl Bell {
    pub fn new() -> Result<Self, SysError> {
        EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map(Self)
            .map_err(|errno| SysError::new("make an event descriptor", errno))
    }

    /// Rings; everybody who waits for it wakes, until it is silenced.
    pub fn ring(&self) {
        // The one possible failure is that it was rung 2^64 times: then it rings already.
        let _ = self.0.write(1);
    }

    /// Makes it quiet again; whether it rang.
    pub fn silence(&self) -> bool {
        self.0.read().is_ok()
    }

    /// Whether it rings, without making it quiet.
    pub fn rings(&self) -> bool {
        let mut fds = [readable(self)];
        let none = TimeSpec::new(0, 0);
        matches!(ppoll(&mut fds, Some(none), None), Ok(1..))
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits for something to read, or an error, of `source`.
pub fn readable<F: AsFd + ?Sized>(source: &F) -> PollFd<'_> {
    PollFd::new(source.as_fd(), PollFlags::POLLIN)
}

/// Waits for room to write, or an error, of `source`.
pub fn writable<F: AsFd + ?Sized>(source: &F) -> PollFd<'_> {
    PollFd::new(source.as_fd(), PollFlags::POLLOUT)
}

/// Waits until the other end of the connection has sent all that it will, or an error, whatever of it lies unread.
pub fn ending<F: AsFd + ?Sized>(source: &F) -> PollFd<'_> {
    PollFd::new(source.as_fd(), PollFlags::from_bits_retain(libc::POLLRDHUP))
}

/// Waits until the connection is broken: reset, or closed both ways.
pub fn breaking<F: AsFd + ?Sized>(source: &F) -> PollFd<'_> {
    PollFd::new(source.as_fd(), PollFlags::empty())
}

/// Blocks until one of the descriptors has what is waited for. Signals do not cut it short.
pub fn wait(fds: &mut [PollFd<'_>]) -> Result<(), SysError> {
    loop {
        match ppoll(fds, None, None) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(SysError::new("wait for descriptors", errno)),
        }
    }
}

/// Whether what was waited for is there, or an error.
pub fn came(fd: &PollFd<'_>) -> bool {
    // None stands for events that the library has no name for.
    fd.revents().is_none_or(|events| !events.is_empty())
}

/// Lets the calling thread's sleeps end as exactly as the kernel can, instead of up to 50 µs late (`PR_SET_TIMERSLACK`). In
/// virtual time they end at the nanosecond.
pub fn wake_exactly() {
    // It can't fail for a slack above zero; and if it did, sleeps were just a little late.
    let _ = nix::sys::prctl::set_timerslack(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic_ns;

    #[test]
    fn an_alarm_goes_off_at_its_time_and_not_before() {
        let mut alarm = Alarm::new().unwrap();
        let deadline = monotonic_ns() + 2_000_000;
        alarm.set(Some(deadline)).unwrap();
        wait(&mut [readable(&alarm)]).unwrap();
        assert!(monotonic_ns() >= deadline);
    }

    #[test]
    fn an_alarm_that_went_off_is_quiet_after_it_was_set_anew() {
        let mut alarm = Alarm::new().unwrap();
        let bell = Bell::new().unwrap();
        alarm.set(Some(0)).unwrap();
        wait(&mut [readable(&alarm)]).unwrap();
        alarm.set(Some(monotonic_ns() + 3_600_000_000_000)).unwrap();
        bell.ring();
        let mut fds = [readable(&alarm), readable(&bell)];
        wait(&mut fds).unwrap();
        assert_eq!((came(&fds[0]), came(&fds[1])), (false, true));
    }

    #[test]
    fn a_bell_rings_until_it_is_silenced() {
        let bell = Bell::new().unwrap();
        assert!(!bell.rings());
        bell.ring();
        assert!(bell.rings() && bell.rings());
        assert!(bell.silence());
        assert!(!bell.rings() && !bell.silence());
    }
}
