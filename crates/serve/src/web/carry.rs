//! A test's data, over one connection: as fast as the rates let it, and not after the test.

use super::http1::{ConnectionEnd, Http1Connection, heading};
use super::measurement::{Carrying, WebTest};
use crate::limits::{Throttle, WEB};
use nix::errno::Errno;
use quell_load::bulk::Gate;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::bulk_stream::{discard_some, send_some};
use quell_sys::socket::option::set;
use quell_sys::wait::{Alarm, Bell, came, readable, wait, writable};
use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};

/// What is sent, over and over: no two bytes near each other are alike, so that nothing on the way makes it smaller.
pub fn payload() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        std::iter::repeat_with(next).take(WEB.payload).collect()
    })
}

pub fn down(
    talk: &mut Http1Connection<'_, '_>,
    test: &Arc<WebTest<'_>>,
    bytes: u64,
) -> Result<(), ConnectionEnd> {
    let stream = &talk.guest.stream;
    let Some(carrying) = test.line(stream, true) else { return Err(too_many()) };
    // Without it more waits in the socket, and no figure is wrong.
    let _ = set(
        stream.as_fd(),
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        WEB.kernel_unsent,
        "TCP_NOTSENT_LOWAT",
    );
    talk.send(&heading(200, "application/octet-stream", Some(bytes), false))?;
    let stop = talk.web.hub.stop;
    let (stream, payload) = (&talk.guest.stream, payload());
    let mut pace = Pace::new(&carrying)?;
    let mut left = bytes;
    while left > 0 {
        let piece = pace.piece(left, stop)?;
        match send_some(stream.as_fd(), payload, piece) {
            Ok(sent) => {
                pace.went(sent);
                left -= sent as u64;
            }
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => pace.wait_for(writable(stream), stop)?,
            Err(_) => return Err(ConnectionEnd::Gone),
        }
    }
    Ok(())
}

pub fn up(
    talk: &mut Http1Connection<'_, '_>,
    test: &Arc<WebTest<'_>>,
    bytes: u64,
) -> Result<(), ConnectionEnd> {
    let Some(carrying) = test.line(&talk.guest.stream, false) else { return Err(too_many()) };
    let first = talk.take_unread(usize::try_from(bytes).unwrap_or(usize::MAX));
    let stop = talk.web.hub.stop;
    let stream = &talk.guest.stream;
    let mut pace = Pace::new(&carrying)?;
    pace.went(first);
    let mut left = bytes - first as u64;
    while left > 0 {
        let piece = pace.piece(left, stop)?;
        match discard_some(stream.as_fd(), piece) {
            Ok(0) => return Err(ConnectionEnd::Gone),
            Ok(got) => {
                pace.went(got);
                left -= got as u64;
            }
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => pace.wait_for(readable(stream), stop)?,
            Err(_) => return Err(ConnectionEnd::Gone),
        }
    }
    pace.piece(0, stop).map(drop)
}

fn too_many() -> ConnectionEnd {
    ConnectionEnd::Bad("its test has as many connections as it may, or is over".into())
}

#[derive(Debug, Default)]
pub struct Budget {
    /// Let through, and not moved yet.
    allowed: usize,
    /// Moved and not let through yet: it came with a head, or as a whole frame that is longer than a piece.
    owed: usize,
}

impl Budget {
    /// When the rates let the next of so many bytes move, in pieces of `most`, where they don't now: first they let through what is owed.
    pub fn held(
        &mut self,
        throttle: &Throttle<'_>,
        left: u64,
        most: usize,
        now_ns: u64,
    ) -> Option<u64> {
        let most = throttle.most().unwrap_or(most).min(most);
        while self.owed > 0 {
            let piece = most.min(self.owed);
            if let Err(at) = throttle.pass(piece, now_ns) {
                return Some(at);
            }
            self.owed -= piece;
        }
        if self.allowed == 0 && left > 0 {
            let want = most.min(usize::try_from(left).unwrap_or(most));
            if let Err(at) = throttle.pass(want, now_ns) {
                return Some(at);
            }
            self.allowed = want;
        }
        None
    }

    pub fn allowed(&self) -> usize {
        self.allowed
    }

    pub fn went(&mut self, bytes: usize) {
        self.owed += bytes.saturating_sub(self.allowed);
        self.allowed = self.allowed.saturating_sub(bytes);
    }
}

struct Pace<'c, 'h> {
    carrying: &'c Carrying<'h>,
    alarm: Alarm,
    budget: Budget,
}

impl<'c, 'h> Pace<'c, 'h> {
    fn new(carrying: &'c Carrying<'h>) -> Result<Self, ConnectionEnd> {
        Ok(Self { carrying, alarm: Alarm::new()?, budget: Budget::default() })
    }

    /// How many of so many bytes may move now; waits for them, and for what moved already.
    fn piece(&mut self, left: u64, stop: &Bell) -> Result<usize, ConnectionEnd> {
        let Carrying { test, throttle, .. } = self.carrying;
        while let Some(at) = self.budget.held(throttle, left, WEB.most_at_once, monotonic_ns()) {
            self.alarm.set(Some(at.min(test.end_ns)))?;
            let mut fds = [readable(&self.alarm), readable(&test.gone), readable(stop)];
            wait(&mut fds)?;
            self.is_on(came(&fds[1]), came(&fds[2]))?;
        }
        Ok(self.budget.allowed())
    }

    fn went(&mut self, bytes: usize) {
        self.budget.went(bytes);
        self.carrying.add(bytes);
    }

    fn wait_for(
        &mut self,
        stream: nix::poll::PollFd<'_>,
        stop: &Bell,
    ) -> Result<(), ConnectionEnd> {
        let test = &self.carrying.test;
        // What moves nothing for long may lose its place to others, and hears of it here.
        test.moved().map_err(|_| ConnectionEnd::Crowded)?;
        self.alarm.set(Some(test.end_ns))?;
        let mut fds = [stream, readable(&self.alarm), readable(&test.gone), readable(stop)];
        wait(&mut fds)?;
        self.is_on(came(&fds[2]), came(&fds[3]))
    }

    fn is_on(&self, gone: bool, stopped: bool) -> Result<(), ConnectionEnd> {
        match () {
            () if stopped => Err(ConnectionEnd::Stopped),
            () if gone || monotonic_ns() >= self.carrying.test.end_ns => Err(ConnectionEnd::Gone),
            () => Ok(()),
        }
    }
}
