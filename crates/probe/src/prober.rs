//! The driver of echo-like probes: one thread, any number of streams. It sends when it is time, receives when something comes,
//! and sleeps in the kernel in between.
//!
//! ```text
//!   timerfd: next packet, next flush, end ─┐
//!   sockets: replies, errors from the path ─┼─► ppoll ─► Line (packets) ─► Ledger (what became of them) ─► rows, once a second
//!   bell: stop                              ─┘
//! ```
//!
//! Sending is stamped by the monotonic clock right before; a reply by the kernel's receive stamp, which is of the wall clock and
//! is turned into monotonic time by the constant offset between the two. When the wall clock is set in between, that offset
//! changes: then the time at which we saw the reply counts, and one-way delays are not given.

use crate::ledger::{Ledger, Reply};
use crate::{Emit, ProbeError};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use quell_model::Event;
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::{Pace, Window};
use quell_sys::socket::errors::path_errors;
use quell_sys::socket::{Arrival, Inbox, PathError};
use quell_sys::wait::{Alarm, Bell, came, readable, wait, wake_exactly};
use quell_sys::wall::Wall;
use std::os::fd::BorrowedFd;

/// How often rows are handed on.
const FLUSH_NS: u64 = 1_000_000_000;
/// How long after a stream's end packets that were held up may still leave.
const GRACE_NS: u64 = 200_000_000;
/// A reply is awaited at least this long.
const LEAST_PATIENCE_NS: u64 = 1_000_000_000;
/// Replies taken in one call.
const BATCH: usize = 16;

/// What a reply says beside its times.
pub(crate) struct Answer {
    pub seq: u64,
    /// The reflector's count.
    pub up_order: Option<u64>,
    /// The reflector's wall clock when it received and when it sent.
    pub reflected_ns: Option<(u64, u64)>,
}

/// What differs between kinds of probes: the packets.
pub(crate) trait Line {
    fn fd(&self) -> BorrowedFd<'_>;
    /// Sends packet `seq`; `sent_ns` is the wall clock now.
    fn send(&mut self, seq: u64, sent_ns: u64) -> Result<(), Errno>;
    /// Reads what came; none when it is not a reply of this stream. `next` is the first number not sent yet.
    fn read(&mut self, arrival: &Arrival, bytes: &[u8], next: u64) -> Option<Answer>;
    /// Which packet an error is about.
    fn blamed(&self, error: &PathError, next: u64) -> Option<u64>;
}

/// One stream of a probe.
pub(crate) struct Stream<L> {
    name: String,
    line: L,
    pace: Pace,
    ledger: Ledger,
    linger_ns: u64,
    /// When the last packet was sent.
    last_ns: u64,
}

/// What all streams have.
pub(crate) struct StreamSpec {
    pub name: String,
    pub interval_ns: u64,
    pub linger_ns: u64,
    pub size: u32,
    pub seed: u64,
}

impl<L: Line> Stream<L> {
    pub fn new(spec: StreamSpec, line: L, window: &Window) -> Result<Self, ProbeError> {
        let pace = Pace::new(window.start_ns, spec.interval_ns, window.duration_ns, spec.seed);
        let pace = pace.ok_or_else(|| ProbeError::Parameter {
            stream: spec.name.clone(),
            why: "the interval is zero; take at least 1us".into(),
        })?;
        Ok(Self {
            name: spec.name,
            line,
            pace,
            ledger: Ledger::new(spec.size, spec.linger_ns.max(LEAST_PATIENCE_NS)),
            linger_ns: spec.linger_ns,
            last_ns: window.start_ns,
        })
    }

    /// Sends what is due at `now_ns`; the time after that.
    fn send(&mut self, mut now_ns: u64, window: &Window, wall: &Wall) -> u64 {
        while let Some((seq, _)) = self.next(now_ns, window).filter(|(_, due)| *due <= now_ns) {
            let t_ns = window.t(now_ns);
            match self.line.send(seq, wall.at(now_ns)) {
                Ok(()) => self.ledger.sent(t_ns, wall.steps()),
                Err(errno) => {
                    self.ledger.refused(t_ns, errno == Errno::ENOBUFS);
                    self.collect_errors();
                }
            }
            self.last_ns = now_ns;
            self.pace.sent(now_ns);
            if self.pace.next().is_some_and(|(_, due)| due <= now_ns) {
                now_ns = monotonic_ns();
            }
        }
        now_ns
    }

    /// The next packet and when it is due. What was held up so long that the end came is not sent any more.
    fn next(&self, now_ns: u64, window: &Window) -> Option<(u64, u64)> {
        let over = window.end_ns().saturating_add(GRACE_NS);
        self.pace.next().filter(|(_, due)| now_ns.max(*due) <= over)
    }

    /// When it next has something to do; none when it is over.
    fn due(&self, now_ns: u64, window: &Window) -> Option<u64> {
        let awaited = self.last_ns.saturating_add(self.linger_ns);
        match self.next(now_ns, window) {
            Some((_, due)) => Some(due),
            None => (self.ledger.waiting() > 0 && now_ns < awaited).then_some(awaited),
        }
    }

    fn collect_errors(&mut self) {
        for error in path_errors(self.line.fd()) {
            if let Some(seq) = self.line.blamed(&error, self.ledger.next()) {
                self.ledger.error(seq);
            }
        }
    }

    /// Takes what came.
    fn receive(&mut self, inbox: &mut Inbox, window: &Window, wall: &mut Wall) {
        loop {
            let got = inbox.receive(self.line.fd());
            let now_ns = wall.look();
            let Ok(got) = got else {
                // The error itself stands in the queue, with its packet; datagrams behind it make the socket readable again.
                self.collect_errors();
                return;
            };
            for (arrival, bytes) in inbox.iter() {
                self.take(arrival, bytes, now_ns, window, wall);
            }
            if got < inbox.capacity() {
                return;
            }
        }
    }

    fn take(&mut self, arrival: &Arrival, bytes: &[u8], now_ns: u64, window: &Window, wall: &Wall) {
        let Some(answer) = self.line.read(arrival, bytes, self.ledger.next()) else { return };
        let Some((t_ns, epoch)) = self.ledger.sent_at(answer.seq) else { return };
        let sent_ns = window.origin_ns.saturating_add_signed(t_ns);
        let stamp = arrival.stamp_ns.filter(|_| epoch == wall.steps());
        let received_ns = stamp.map_or(now_ns, |stamp| wall.monotonic(stamp)).min(now_ns);
        let delays = stamp.zip(answer.reflected_ns).map(|(stamp, (there, back))| {
            (there as i64 - wall.at(sent_ns) as i64, stamp as i64 - back as i64)
        });
        let reply = Reply {
            rtt_ns: received_ns.saturating_sub(sent_ns),
            up_ns: delays.map(|d| d.0),
            down_ns: delays.map(|d| d.1),
            up_order: answer.up_order,
            seen_late_ns: stamp.map(|_| now_ns - received_ns),
        };
        self.ledger.reply(answer.seq, reply);
    }

    fn flush(&mut self, emit: Emit<'_>) {
        let samples = self.ledger.take();
        if !samples.is_empty() {
            emit(Event::Echo { stream: self.name.clone(), samples });
        }
    }
}

/// Runs all streams to their end, or until the bell rings.
pub(crate) fn run<L: Line>(
    mut streams: Vec<Stream<L>>,
    largest: usize,
    window: &Window,
    stop: &Bell,
    emit: Emit<'_>,
) -> Result<(), ProbeError> {
    wake_exactly();
    let mut wall = Wall::new();
    let mut alarm = Alarm::new()?;
    let mut inbox = Inbox::new(BATCH, largest);
    let mut now = wall.look();
    let mut flush = window.start_ns.max(now).saturating_add(FLUSH_NS);
    loop {
        for stream in &mut streams {
            now = stream.send(now, window, &wall);
        }
        let Some(due) = streams.iter().filter_map(|s| s.due(now, window)).min() else { break };
        alarm.set(Some(due.min(flush)))?;
        let sockets: Vec<(usize, bool)> = {
            let mut fds = vec![readable(stop), readable(&alarm)];
            fds.extend(streams.iter().map(|s| PollFd::new(s.line.fd(), PollFlags::POLLIN)));
            wait(&mut fds)?;
            if came(&fds[0]) {
                break;
            }
            let errs =
                |fd: &PollFd<'_>| fd.revents().is_some_and(|e| e.contains(PollFlags::POLLERR));
            let sockets = fds[2..].iter().enumerate();
            sockets.filter(|(_, fd)| came(fd)).map(|(i, fd)| (i, errs(fd))).collect()
        };
        for (index, has_errors) in sockets {
            if has_errors {
                streams[index].collect_errors();
            }
            streams[index].receive(&mut inbox, window, &mut wall);
        }
        now = monotonic_ns();
        if now >= flush {
            for stream in &mut streams {
                stream.ledger.expire(window.t(now));
                stream.flush(emit);
            }
            flush = now.saturating_add(FLUSH_NS);
        }
    }
    let end = window.t(monotonic_ns());
    for stream in &mut streams {
        stream.ledger.finish(end);
        stream.flush(emit);
    }
    Ok(())
}
