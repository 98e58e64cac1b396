//! The driver of echo-like probes: one thread, any number of streams. It sends when it is time, receives when something comes,
//! and sleeps in the kernel in between.
//!
//! ```text
//!   timerfd: next packet, next flush, end ─┐
//!   sockets: replies, errors from the path ─┼─► ppoll ─► StreamSocket (packets) ─► Ledger (what became of them) ─► rows, now and then
//!   bell: stop                              ─┘
//! ```
//!
//! A packet's time counts from the kernel's stamp before this host's own queue: what the program was late does not count, what the
//! queue held it up does. Where the kernel gives no such stamp it counts from the monotonic clock right before the call. A reply
//! counts to the kernel's receive stamp. Stamps are of the wall clock and are turned into monotonic time by the constant offset
//! between the two. When the wall clock is set in between, that offset changes: then the time at which we saw the reply counts, and
//! one-way delays are not given.

use crate::clocks::Clocks;
use crate::direction::Losses;
use crate::ledger::{EchoReply, Ledger, Refusal};
use crate::stream_socket::{
    CLOCKS_APART_NS, EchoAnswer, MOST_BATCHES, SocketEvent, StreamSocket, When,
};
use crate::{Emit, Patience, ProbeError};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use quell_model::{Event, Fact, Subject, Told};
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::{Pace, Window};
use quell_sys::socket::Inbox;
use quell_sys::wait::{Alarm, Bell, came, readable, wait, wake_exactly};
use quell_sys::wall::Wall;
use quell_units::Span;
use std::collections::BTreeMap;

/// How long after a stream's end packets that were held up may still leave.
const GRACE_NS: u64 = 200_000_000;
/// Rows are not handed on more often than this.
const LEAST_FLUSH_NS: u64 = 10_000_000;
const MICROSECOND_NS: u64 = 1_000;
const BATCH: usize = 16;

struct ProbeStream {
    name: String,
    line: Box<dyn StreamSocket + Send>,
    pace: Pace,
    ledger: Ledger,
    seen: Vec<SocketEvent>,
    clocks: Clocks,
    /// Errors by kind.
    errors: BTreeMap<String, u64>,
    /// Those of packets that may still be answered.
    blamed: BTreeMap<u64, Errno>,
    last_ns: u64,
}

pub(crate) struct StreamSpec {
    pub name: String,
    pub interval_ns: u64,
    pub patience: Patience,
    pub size: u32,
    pub seed: u64,
    pub count: Option<u64>,
    pub delay: Span,
}

impl ProbeStream {
    fn new(
        spec: StreamSpec,
        line: Box<dyn StreamSocket + Send>,
        window: &Window,
    ) -> Result<Self, ProbeError> {
        let start_ns = window.start_ns.saturating_add(spec.delay.nanos());
        let pace = Pace::new(start_ns, spec.interval_ns, window.duration_ns, spec.seed);
        let pace = pace.ok_or_else(|| ProbeError::Parameter {
            stream: spec.name.clone(),
            why: "the interval is zero; take at least 1us".into(),
        })?;
        Ok(Self {
            name: spec.name,
            line,
            pace: pace.at_most(spec.count.unwrap_or(u64::MAX)),
            seen: Vec::new(),
            clocks: Clocks::default(),
            errors: BTreeMap::new(),
            blamed: BTreeMap::new(),
            ledger: Ledger::new(spec.size, spec.patience),
            last_ns: window.start_ns,
        })
    }

    /// Sends what is due at `now_ns`; the time after that.
    fn send(&mut self, mut now_ns: u64, window: &Window, wall: &mut Wall) -> u64 {
        while let Some((seq, due)) = self.next(now_ns, window).filter(|(_, due)| *due <= now_ns) {
            let late_ns = now_ns - due;
            let sent = self.line.send(seq, wall.at(now_ns), &mut self.seen);
            self.last_ns = now_ns;
            self.pace.sent(now_ns);
            let before_ns = now_ns;
            if matches!(sent, Ok(Some(_))) || self.pace.next().is_some_and(|(_, due)| due <= now_ns)
            {
                now_ns = monotonic_ns();
            }
            match sent {
                Ok(stamp) => {
                    let at_ns = self.left_at(before_ns, now_ns, stamp, wall);
                    self.last_ns = self.last_ns.max(at_ns);
                    self.ledger.sent(window.t(at_ns), wall.steps(), late_ns);
                }
                Err(errno) => {
                    let why = Refusal::of(errno);
                    if why == Refusal::Error {
                        self.count(errno);
                    }
                    self.ledger.refused(window.t(before_ns), late_ns, why);
                    self.line.errors(self.ledger.next(), &mut self.seen);
                }
            }
            self.note(now_ns, window, wall);
        }
        now_ns
    }

    fn count(&mut self, errno: Errno) {
        *self.errors.entry(format!("{errno:?}")).or_default() += 1;
    }

    /// When a packet left: by the kernel's stamp, unless that is not between before and after the call: then the clock was set.
    fn left_at(&mut self, before_ns: u64, after_ns: u64, stamp: Option<u64>, wall: &Wall) -> u64 {
        let range = before_ns.saturating_sub(CLOCKS_APART_NS)..=after_ns + CLOCKS_APART_NS;
        match stamp.map(|stamp| wall.monotonic(stamp)).filter(|at| range.contains(at)) {
            Some(at_ns) => {
                self.clocks.sent_by_kernel += 1;
                at_ns
            }
            None => {
                self.clocks.sent_by_program += 1;
                before_ns
            }
        }
    }

    /// The next packet and when it is due. What was held up so long that the end came is not sent any more.
    fn next(&self, now_ns: u64, window: &Window) -> Option<(u64, u64)> {
        let over = window.end_ns().saturating_add(GRACE_NS);
        self.pace.next().filter(|(_, due)| now_ns.max(*due) <= over)
    }

    /// When it next has something to do; none when it is over.
    fn due(&self, now_ns: u64, window: &Window) -> Option<u64> {
        match self.next(now_ns, window) {
            Some((_, due)) => Some(due),
            None => {
                let is_awaited = self.ledger.waiting() > self.line.undecided();
                let last_ns = self.last_ns.saturating_add(self.ledger.patience_ns());
                let late = self.ledger.late_until();
                let late_ns = late.map(|at| window.origin_ns.saturating_add_signed(at));
                let awaited = is_awaited.then_some(last_ns).max(late_ns)?;
                (now_ns < awaited).then_some(awaited)
            }
        }
    }

    fn receive(&mut self, has_errors: bool, inbox: &mut Inbox, window: &Window, wall: &mut Wall) {
        if has_errors {
            self.line.errors(self.ledger.next(), &mut self.seen);
        }
        // What is left then wakes it again: who floods it with replies does not keep it from sending, nor from its end.
        for _ in 0..MOST_BATCHES {
            let more = self.line.receive(inbox, self.ledger.next(), &mut self.seen);
            let now_ns = wall.look();
            self.note(now_ns, window, wall);
            if !more {
                return;
            }
        }
    }

    /// Enters what was seen until `now_ns`.
    fn note(&mut self, now_ns: u64, window: &Window, wall: &Wall) {
        let mut seen = std::mem::take(&mut self.seen);
        for seen in seen.drain(..) {
            match seen {
                SocketEvent::Reply { answer, when } => {
                    self.reply(answer, when, now_ns, window, wall)
                }
                SocketEvent::Failed { seq, errno, from_path: true } => {
                    if self.ledger.blamed(seq) {
                        self.blamed.insert(seq, errno);
                    }
                }
                SocketEvent::Failed { seq, errno, from_path: false } => {
                    self.blamed.remove(&seq);
                    if self.ledger.error(seq) {
                        self.count(errno);
                    }
                }
                SocketEvent::Left { seq, queued_ns } => self.ledger.queued(seq, queued_ns),
                SocketEvent::Abandoned { seq } => self.ledger.abandoned(seq),
                SocketEvent::Undecided { took_ns } => self.ledger.saw(took_ns),
                SocketEvent::Lost { seq } => self.ledger.lost(seq),
                SocketEvent::Unsure { seq, took_ns } => self.ledger.unsure(seq, took_ns),
            }
        }
        self.seen = seen;
    }

    fn reply(&mut self, answer: EchoAnswer, when: When, now_ns: u64, window: &Window, wall: &Wall) {
        let Some(sent) = self.ledger.sent_at(answer.seq) else { return };
        let sent_ns = window.origin_ns.saturating_add_signed(sent.t_ns);
        let reply = match when {
            When::Stamped { stamp_ns, wire_ns } => {
                let stamp_ns = stamp_ns.filter(|_| sent.epoch == wall.steps());
                let received_ns = stamp_ns.map_or(now_ns, |s| wall.monotonic(s)).min(now_ns);
                let away_ns = received_ns.saturating_sub(sent_ns);
                // What the reflector took is not the network's; but it can't have taken longer than all of it.
                let held_ns = answer.held_within(away_ns).unwrap_or(0);
                let rtt_ns = away_ns - held_ns;
                let delays = stamp_ns.and_then(|stamp| answer.delays(wall.at(sent_ns), stamp));
                // The device's clock may have been set too: then it says more than passed.
                let by_device = wire_ns
                    .map(|wire| {
                        wire.saturating_add(sent.queued_ns.unwrap_or(0)).saturating_sub(held_ns)
                    })
                    .filter(|device| *device <= rtt_ns);
                match (by_device, stamp_ns) {
                    (Some(_), _) => self.clocks.by_device += 1,
                    (None, Some(_)) => self.clocks.received_by_kernel += 1,
                    (None, None) => self.clocks.received_by_program += 1,
                }
                EchoReply {
                    rtt_ns: by_device.unwrap_or(rtt_ns),
                    up_ns: delays.map(|d| d.0),
                    down_ns: delays.map(|d| d.1),
                    up_order: answer.up_order,
                    seen_late_ns: stamp_ns.map(|_| now_ns - received_ns),
                    down_order: answer.down_order,
                }
            }
            When::Measured { rtt_ns, seen_ns } => {
                let by_us = seen_ns.saturating_sub(sent_ns);
                // The kernel's measure is of whole microseconds: where we saw it at once, ours is finer.
                let late = |rtt: u64| by_us.saturating_sub(rtt) > MICROSECOND_NS;
                let rtt = rtt_ns.filter(|rtt| late(*rtt)).unwrap_or(by_us);
                match rtt_ns {
                    Some(_) => self.clocks.measured += 1,
                    None => self.clocks.received_by_program += 1,
                }
                let seen_late_ns = rtt_ns.map(|_| by_us - rtt);
                let down_order = answer.down_order;
                EchoReply { rtt_ns: rtt, seen_late_ns, down_order, ..EchoReply::default() }
            }
        };
        self.ledger.reply(answer.seq, reply);
        self.blamed.remove(&answer.seq);
    }

    /// Counts the errors of packets before this number: they can't be answered any more.
    fn count_blamed(&mut self, before: u64) {
        let open = self.blamed.split_off(&before);
        for errno in std::mem::replace(&mut self.blamed, open).into_values() {
            self.count(errno);
        }
    }

    fn expire(&mut self, now_ns: u64, window: &Window, wall: &Wall) {
        let before = self.ledger.expiring_before(window.t(now_ns));
        self.decide(before, now_ns, window, wall);
        self.ledger.expire(window.t(now_ns));
        self.line.settled(self.ledger.first());
        self.count_blamed(self.ledger.first());
    }

    /// Enters what became of packets before this number that were answered, and of which it was not clear.
    fn decide(&mut self, before: u64, now_ns: u64, window: &Window, wall: &Wall) {
        self.line.decide(before, now_ns, &mut self.seen);
        self.note(now_ns, window, wall);
    }

    fn tell_facts(&self, emit: Emit<'_>) {
        let clock = (Told::Clock, self.clocks.to_string());
        let kinds: Vec<_> = self.errors.iter().map(|(kind, n)| format!("\"{kind}\":{n}")).collect();
        let errors =
            (!kinds.is_empty()).then(|| (Told::Errors, format!("{{{}}}", kinds.join(","))));
        let losses = self
            .ledger
            .more_losses()
            .map(|Losses { up, down }| (Told::Losses, format!("{{\"up\":{up},\"down\":{down}}}")));
        let facts = self.line.facts().into_iter().chain([clock]).chain(errors).chain(losses);
        for (what, value) in facts {
            let subject = Subject::stream(&*self.name, what);
            emit(Fact::new(quell_model::When::After, subject, value).into());
        }
    }

    /// Tells how long answers are waited for: of a run that is cut off, what was sent after that before its end is not settled.
    fn tell_patience(&self, emit: Emit<'_>) {
        let subject = Subject::stream(&*self.name, Told::Waits);
        let value = self.ledger.most_patience_ns().to_string();
        emit(Fact::new(quell_model::When::Before, subject, value).into());
    }

    fn flush(&mut self, emit: Emit<'_>) {
        let samples = self.ledger.take();
        if !samples.is_empty() {
            emit(Event::Echo { stream: self.name.clone(), samples });
        }
    }
}

/// Streams that are ready to be probed: their sockets are open.
pub struct Prober {
    streams: Vec<(StreamSpec, Box<dyn StreamSocket + Send>)>,
    largest: usize,
    flush: Span,
}

impl std::fmt::Debug for Prober {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prober of {} streams", self.streams.len())
    }
}

impl Prober {
    pub(crate) fn new(
        streams: Vec<(StreamSpec, Box<dyn StreamSocket + Send>)>,
        largest: usize,
    ) -> Self {
        Self { streams, largest, flush: Span::from_secs(1) }
    }

    /// Rows are handed on so often, instead of each second.
    pub fn flushing_every(self, flush: Span) -> Self {
        Self { flush, ..self }
    }

    /// Sends from the window's start on; ends by itself when every reply came or was waited for, or when the bell rings.
    pub fn run(self, window: &Window, stop: &Bell, emit: Emit<'_>) -> Result<(), ProbeError> {
        let streams = self.streams.into_iter();
        let mut streams = streams
            .map(|(spec, line)| ProbeStream::new(spec, line, window))
            .collect::<Result<Vec<_>, _>>()?;
        streams.iter().for_each(|stream| stream.tell_patience(emit));
        let every = self.flush.nanos().max(LEAST_FLUSH_NS);
        wake_exactly();
        let mut wall = Wall::new();
        let mut alarm = Alarm::new()?;
        let mut inbox = Inbox::new(BATCH, self.largest);
        let mut now = wall.look();
        let mut flush = window.start_ns.max(now).saturating_add(every);
        loop {
            for stream in &mut streams {
                now = stream.send(now, window, &mut wall);
            }
            let Some(due) = streams.iter().filter_map(|s| s.due(now, window)).min() else { break };
            alarm.set(Some(due.min(flush)))?;
            let (ready, stopped) = ready(&streams, &alarm, stop)?;
            // What came before the bell rang is there to be taken.
            for (index, has_errors) in ready {
                streams[index].receive(has_errors, &mut inbox, window, &mut wall);
            }
            if stopped {
                break;
            }
            now = monotonic_ns();
            if now >= flush {
                for stream in &mut streams {
                    stream.expire(now, window, &wall);
                    stream.flush(emit);
                }
                flush = now.saturating_add(every);
            }
        }
        let end = monotonic_ns();
        for stream in &mut streams {
            stream.decide(u64::MAX, end, window, &wall);
            stream.ledger.finish(window.t(end));
            stream.count_blamed(u64::MAX);
            stream.flush(emit);
            stream.tell_facts(emit);
        }
        Ok(())
    }
}

/// Waits; which streams have something, and whether that is errors; and whether the bell rang.
fn ready(
    streams: &[ProbeStream],
    alarm: &Alarm,
    stop: &Bell,
) -> Result<(Vec<(usize, bool)>, bool), ProbeError> {
    let mut fds = vec![readable(stop), readable(alarm)];
    fds.extend(streams.iter().map(|s| PollFd::new(s.line.fd(), PollFlags::POLLIN)));
    wait(&mut fds)?;
    let errors = |fd: &PollFd<'_>| fd.revents().is_some_and(|e| e.contains(PollFlags::POLLERR));
    let sockets = fds[2..].iter().enumerate().filter(|(_, fd)| came(fd));
    let ready = sockets.map(|(index, fd)| (index, errors(fd))).collect();
    Ok((ready, came(&fds[0])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream_socket::{EchoAnswer, When};
    use quell_model::EchoStatus;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::sync::Mutex;

    /// What it sends is answered before the call is back.
    struct AtOnce(Bell, Vec<u64>);

    impl StreamSocket for AtOnce {
        fn fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }

        fn send(
            &mut self,
            seq: u64,
            _: u64,
            _: &mut Vec<SocketEvent>,
        ) -> Result<Option<u64>, Errno> {
            self.1.push(seq);
            self.0.ring();
            Ok(None)
        }

        fn receive(&mut self, _: &mut Inbox, _: u64, seen: &mut Vec<SocketEvent>) -> bool {
            let when = When::Measured { rtt_ns: Some(7_000), seen_ns: monotonic_ns() };
            let answered = self.1.drain(..).map(|seq| EchoAnswer { seq, ..EchoAnswer::default() });
            seen.extend(answered.map(|answer| SocketEvent::Reply { answer, when }));
            false
        }

        fn errors(&mut self, _: u64, _: &mut Vec<SocketEvent>) {}
    }

    #[test]
    fn an_answer_that_is_there_when_the_bell_rings_is_taken() {
        // The first is due already.
        let start_ns = monotonic_ns() - 2_000_000;
        let window = Window { origin_ns: start_ns, start_ns, duration_ns: 3_600_000_000_000 };
        let spec = StreamSpec {
            name: "a".into(),
            interval_ns: 1_000_000,
            patience: Patience::usual(),
            size: 0,
            seed: 1,
            count: Some(1),
            delay: Span::ZERO,
        };
        let line = AtOnce(Bell::new().unwrap(), Vec::new());
        let stop = Bell::new().unwrap();
        stop.ring();
        let rows = Mutex::new(Vec::new());
        let emit = |event| {
            if let Event::Echo { samples, .. } = event {
                rows.lock().unwrap().extend(samples);
            }
        };
        Prober::new(vec![(spec, Box::new(line))], 1).run(&window, &stop, &emit).unwrap();
        let rows = rows.into_inner().unwrap();
        assert_eq!(rows.iter().map(|row| row.status).collect::<Vec<_>>(), [EchoStatus::Ok]);
    }
}
