//! Datagrams in one direction, as fast as a rate says: constant, flood, on-off, or a Poisson process.
//!
//! Each packet has its own time ([`Pace`], with its jitter); the sender sleeps until then, reads the clock and sends: three system
//! calls a packet. It reports what it handed to the kernel at round times of the measurement. A queue of this host that is full makes
//! it wait for room, as any program that sends UDP, until its time is over; it tells how often, and for how long.
//!
//! What it sent last is still under way when it has sent it all: it stays for as long as that may take, since the cell, and with it
//! the sink, ends with the last of its clients.

use crate::{Emit, FLUSH_NS, LoadError};
use nix::errno::Errno;
use quell_model::task::UdpSend;
use quell_model::{Event, Fact, FlowSample, Side, Subject, Told, When};
use quell_sys::SysError;
use quell_sys::clock::{monotonic_ns, sleep_until};
use quell_sys::pace::{Pace, Window};
use quell_sys::socket::Udp;
use quell_sys::wait::{Alarm, Bell, came, readable, wait, wake_exactly, writable};
use quell_sys::wall::Wall;
use quell_wire::LARGEST_PAYLOAD;
use quell_wire::oneway::{self, OneWay};

/// Up to this many packets a second the sink reports each packet; faster flows are counted only.
const EACH_UP_TO: u64 = 2_000;
/// Sleeps longer than this can be cut short by a stop.
const LONG_NS: u64 = 50_000_000;
/// How long after the end packets that were held up may still leave.
const GRACE_NS: u64 = 200_000_000;

#[derive(Debug)]
pub struct Sender {
    spec: UdpSend,
    seed: u64,
    socket: Udp,
    packet: Vec<u8>,
}

impl Sender {
    /// Opens the socket. Errors when a parameter can't be, or there is no route.
    pub fn prepare(spec: &UdpSend, seed: u64) -> Result<Self, LoadError> {
        let wrong = |why: String| LoadError::Parameter { flow: spec.stream.clone(), why };
        if spec.rate.bps() == 0 {
            return Err(wrong("the rate is zero".into()));
        }
        if spec.report.is_zero() {
            return Err(wrong("the time between reports is zero; take at least 1ms".into()));
        }
        if spec.on_off.is_some_and(|p| p.on.is_zero()) {
            return Err(wrong("it is on for no time at all".into()));
        }
        if spec.size > u32::from(LARGEST_PAYLOAD) {
            return Err(wrong(format!(
                "{} bytes don't fit in a packet; at most {LARGEST_PAYLOAD}",
                spec.size
            )));
        }
        let each = spec.rate.bps() / (u64::from(spec.size.max(1)) * 8) <= EACH_UP_TO;
        let packet = OneWay::template(&spec.stream, each, spec.size as usize).ok_or_else(|| {
            wrong(format!(
                "{} bytes can't hold its name and numbers; take at least {}, and a name of at most {} bytes",
                spec.size,
                oneway::least_size(&spec.stream),
                oneway::LONGEST_NAME
            ))
        })?;
        let socket = Udp::sending(spec.to, spec.tos.byte())?;
        Ok(Self { spec: spec.clone(), seed, socket, packet })
    }

    /// Sends from the window's start to its end and waits for what is under way, or until the bell rings.
    pub fn run(mut self, window: &Window, stop: &Bell, emit: Emit<'_>) -> Result<(), LoadError> {
        wake_exactly();
        let mut alarm = Alarm::new()?;
        if stopped_before(window.start_ns, stop, &mut alarm)? {
            return Ok(());
        }
        // Of a run that is cut off, what was sent after that before its end is not settled.
        let waits = Subject::stream(&*self.spec.stream, Told::Waits);
        emit(Fact::new(When::Before, waits, crate::sink_flow::PATIENCE_NS.to_string()).into());
        let begun = window.start_ns.max(monotonic_ns());
        let mut report = Report::new(&self.spec, *window, begun, emit);
        let result = self.send_all(window, stop, &mut alarm, &mut report);
        let end = if matches!(result, Ok(false)) {
            stopped_before(window.end_ns(), stop, &mut alarm)?;
            monotonic_ns()
        } else {
            monotonic_ns()
        };
        report.until(end);
        report.finish(end);
        if !result? {
            stopped_before(end.saturating_add(self.spec.linger.nanos()), stop, &mut alarm)?;
        }
        Ok(())
    }

    /// All periods in which it is on; whether it was stopped.
    fn send_all(
        &mut self,
        window: &Window,
        stop: &Bell,
        alarm: &mut Alarm,
        report: &mut Report<'_>,
    ) -> Result<bool, LoadError> {
        let mut wall = Wall::new();
        let (on, off) = match self.spec.on_off {
            Some(periods) => (periods.on.nanos(), periods.off.nanos()),
            None => (window.duration_ns, 0),
        };
        let mut start = window.start_ns;
        let mut period = 0;
        while start < window.end_ns() {
            let duration = on.min(window.end_ns() - start);
            let (bps, size) = (self.spec.rate.bps(), u64::from(self.spec.size));
            let seed = self.seed.wrapping_add(period);
            let times = if self.spec.poisson { Pace::poisson } else { Pace::at_rate };
            let Some(mut pace) = times(start, bps, size, duration, seed) else { break };
            let end = start.saturating_add(duration);
            let over = end.saturating_add(GRACE_NS);
            let mut now = monotonic_ns();
            while let Some((_, due)) = pace.next().filter(|(_, due)| now.max(*due) <= over) {
                if due > now {
                    if due - now > LONG_NS {
                        if stopped_before(due, stop, alarm)? {
                            return Ok(true);
                        }
                    } else {
                        sleep_until(due)?;
                    }
                    now = monotonic_ns();
                }
                if report.until(now) {
                    wall.look();
                    if stop.rings() {
                        return Ok(true);
                    }
                }
                oneway::restamp(&mut self.packet, report.packets, wall.at(now));
                match self.send(end, stop, alarm, report)? {
                    Handed::Over => {}
                    Handed::TimeIsUp => break,
                    Handed::Stopped => return Ok(true),
                }
                report.sent(u64::from(self.spec.size), now);
                pace.sent(now);
            }
            start = start.saturating_add(on).saturating_add(off);
            period += 1;
        }
        Ok(false)
    }

    /// Sends the packet, as soon as the own queue has room for it, if that is before the end.
    fn send(
        &self,
        end_ns: u64,
        stop: &Bell,
        alarm: &mut Alarm,
        report: &mut Report<'_>,
    ) -> Result<Handed, SysError> {
        let mut full_ns = None;
        let handed = loop {
            match self.socket.send(&self.packet) {
                // Nobody listens there: the datagrams go out all the same.
                Ok(()) | Err(Errno::ECONNREFUSED) => break Handed::Over,
                Err(Errno::EAGAIN) => {}
                Err(errno) => {
                    return Err(SysError::new(format!("send to UDP {}", self.spec.to), errno));
                }
            }
            full_ns.get_or_insert_with(monotonic_ns);
            alarm.set(Some(end_ns))?;
            let mut fds = [readable(stop), readable(&*alarm), writable(&self.socket)];
            wait(&mut fds)?;
            match fds.each_ref().map(came) {
                [true, ..] => break Handed::Stopped,
                [_, true, _] => break Handed::TimeIsUp,
                _ => {}
            }
        };
        if let Some(full_ns) = full_ns {
            // What has no room behind the end has nothing to wait for.
            report.held_back(monotonic_ns().min(end_ns).saturating_sub(full_ns));
        }
        Ok(handed)
    }
}

enum Handed {
    Over,
    /// There was no room for it until its time was over: it was not sent.
    TimeIsUp,
    Stopped,
}

fn stopped_before(deadline_ns: u64, stop: &Bell, alarm: &mut Alarm) -> Result<bool, SysError> {
    alarm.set(Some(deadline_ns))?;
    let mut fds = [readable(stop), readable(&*alarm)];
    wait(&mut fds)?;
    Ok(came(&fds[0]))
}

struct Report<'a> {
    stream: String,
    window: Window,
    every_ns: u64,
    tick_ns: u64,
    flush_ns: u64,
    bytes: u64,
    packets: u64,
    early: u64,
    /// Packets for which the own queue had no room at first, and for how long.
    held_back: (u64, u64),
    samples: Vec<FlowSample>,
    emit: Emit<'a>,
}

impl<'a> Report<'a> {
    fn new(spec: &UdpSend, window: Window, begun_ns: u64, emit: Emit<'a>) -> Self {
        let mut report = Self {
            stream: spec.stream.clone(),
            window,
            every_ns: spec.report.nanos(),
            tick_ns: window.next_tick(begun_ns, spec.report.nanos()),
            flush_ns: begun_ns.saturating_add(FLUSH_NS),
            bytes: 0,
            packets: 0,
            early: 0,
            held_back: (0, 0),
            samples: Vec::new(),
            emit,
        };
        report.look(begun_ns);
        // That nothing has arrived yet is true whether or not the sink will ever hear of the flow.
        let mut nothing = report.samples.clone();
        nothing.iter_mut().for_each(|s| s.side = Side::Receiver);
        emit(Event::Flow { stream: report.stream.clone(), samples: nothing });
        report
    }

    fn sent(&mut self, bytes: u64, at_ns: u64) {
        self.bytes += bytes;
        self.packets += 1;
        self.early += u64::from(self.window.t(at_ns) < 0);
    }

    fn held_back(&mut self, ns: u64) {
        self.held_back.0 += 1;
        self.held_back.1 += ns;
    }

    /// Catches up with the ticks up to now: nothing was sent since the last packet. Whether there was one.
    fn until(&mut self, now_ns: u64) -> bool {
        let mut ticked = false;
        while self.tick_ns <= now_ns {
            self.look(self.tick_ns);
            self.tick_ns = self.tick_ns.saturating_add(self.every_ns);
            ticked = true;
        }
        if ticked && self.flush_ns <= now_ns {
            self.flush();
            self.flush_ns = now_ns.saturating_add(FLUSH_NS);
        }
        ticked
    }

    fn look(&mut self, at_ns: u64) {
        self.samples.push(FlowSample {
            t_ns: self.window.t(at_ns),
            side: Side::Sender,
            bytes: self.bytes,
            packets: self.packets,
            tcp: None,
        });
    }

    fn flush(&mut self) {
        let samples = std::mem::take(&mut self.samples);
        (self.emit)(Event::Flow { stream: self.stream.clone(), samples });
    }

    fn finish(&mut self, end_ns: u64) {
        self.look(end_ns);
        self.flush();
        let subject = Subject::stream(&*self.stream, Told::SentBefore);
        (self.emit)(Fact::new(When::After, subject, self.early.to_string()).into());
        let (packets, ns) = self.held_back;
        if packets > 0 {
            let subject = Subject::stream(&*self.stream, Told::HeldBack);
            let value = format!("{{\"packets\":{packets},\"ns\":{ns}}}");
            (self.emit)(Fact::new(When::After, subject, value).into());
        }
    }
}
