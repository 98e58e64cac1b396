//! One thread that drives what is polled: connections of HTTP/2, its streams, the handshake before them.
//!
//! ```text
//!   step ──► Done
//!     ▲ ├──► woken meanwhile: once more
//!     │ └──► Until, Rest ──► ppoll(2): the socket, the time, bells ──┐
//!     └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! What is polled says by its waker that it can go on; what only the kernel knows is waited for there. So nothing is registered anywhere,
//! and nothing is polled that nobody moved.

use crate::socket::Beneath;
use nix::poll::{PollFd, PollFlags};
use quell_sys::SysError;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

#[derive(Debug)]
pub enum DriveStep<T> {
    Done(T),
    /// It goes on when the socket moves, at this time of the monotonic clock (in nanoseconds) at the latest.
    Until(u64),
    /// It goes on at this time and not before: what comes until then stays where it is.
    Rest(u64),
}

/// Why a drive stopped before it was done.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    #[error("it was called off")]
    Rang(usize),
    /// The kernel refused something.
    #[error("{0}")]
    System(#[from] SysError),
}

/// Drives what belongs to one socket.
#[derive(Debug)]
pub struct Drive {
    line: Rc<Beneath>,
    alarm: Alarm,
    woken: Arc<Woken>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Drive {
    /// Of the connection that this line belongs to.
    ///
    /// # Errors
    /// When there is no timer to be had.
    pub fn new(line: Rc<Beneath>) -> Result<Self, SysError> {
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        Ok(Self { line, alarm: Alarm::new()?, woken, waker })
    }

    /// Steps until it is done. Bells are looked at between any two steps, and while it waits.
    ///
    /// # Errors
    /// When a bell rings, or the kernel lets nobody wait.
    pub fn run<T>(
        &mut self,
        bells: &[&Bell],
        mut step: impl FnMut(&mut Context<'_>) -> DriveStep<T>,
    ) -> Result<T, Halt> {
        let mut context = Context::from_waker(&self.waker);
        loop {
            self.woken.0.store(false, Ordering::Relaxed);
            self.line.refresh();
            let (until, rests) = match step(&mut context) {
                DriveStep::Done(result) => return Ok(result),
                DriveStep::Until(ns) => (ns, false),
                DriveStep::Rest(ns) => (ns, true),
            };
            if !rests && self.woken.0.load(Ordering::Relaxed) {
                if let Some(rings) = bells.iter().position(|bell| bell.rings()) {
                    return Err(Halt::Rang(rings));
                }
                continue;
            }
            self.alarm.set(Some(until))?;
            let mut fds: Vec<PollFd<'_>> = bells.iter().map(|bell| readable(*bell)).collect();
            fds.push(readable(&self.alarm));
            if !rests {
                let mut events = PollFlags::POLLIN;
                events.set(PollFlags::POLLOUT, self.line.wants_room());
                fds.push(PollFd::new(self.line.tcp.as_fd(), events));
            }
            wait(&mut fds)?;
            if let Some(rings) = fds[..bells.len()].iter().position(came) {
                return Err(Halt::Rang(rings));
            }
        }
    }
}
