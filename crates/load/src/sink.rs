//! Receives datagrams of [`crate::udp`] and counts them, flow by flow; what a flow's rows mean stands at `SinkFlow`.
//!
//! Each datagram has the kernel's receive stamp, so that the sink need not be there when it comes: it sleeps for a tenth of a second
//! and then takes all that wait, which saves nearly all of its system calls. That needs a large receive buffer; where it is not granted,
//! the sink wakes for each datagram.

use crate::sink_flow::{Datagram, SinkFlow};
use crate::{Emit, FLUSH_NS, LoadError};
use quell_model::{Event, Fact, FlowSample, Side, Subject, Told, When};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::socket::option::grow_receive_buffer;
use quell_sys::socket::{Inbox, Udp};
use quell_sys::wait::{Alarm, Bell, came, readable, wait, wake_exactly};
use quell_sys::wall::Wall;
use quell_units::Span;
use quell_wire::oneway::{HEADER, LONGEST_NAME, OneWay};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// The receive buffer that is asked for, and what is enough to sleep on.
const BUFFER: usize = 16 << 20;
const ENOUGH: usize = 8 << 20;
/// How long it sleeps at most while datagrams come.
const NAP_NS: u64 = 100_000_000;
/// After this long without a datagram it sleeps until the next one.
const QUIET_NS: u64 = 5_000_000_000;
const BATCH: usize = 64;
/// Flows that are kept apart; datagrams of more are not counted.
const MOST_FLOWS: usize = 1000;

#[derive(Debug)]
pub struct Sink {
    task: String,
    socket: Udp,
    report: Span,
    lazy: bool,
}

struct Live {
    flow: SinkFlow,
    stream: String,
    samples: Vec<FlowSample>,
}

impl Sink {
    /// Listens; `task` is for messages. Errors when the port is in use.
    pub fn prepare(task: &str, bind: SocketAddr, report: Span) -> Result<Self, LoadError> {
        if report.is_zero() {
            let why = "the time between reports is zero; take at least 1ms".into();
            return Err(LoadError::Parameter { flow: task.into(), why });
        }
        let socket = Udp::listening(bind)?;
        let lazy = grow_receive_buffer(socket.as_fd(), BUFFER) >= ENOUGH;
        Ok(Self { task: task.into(), socket, report, lazy })
    }

    pub fn local(&self) -> Result<SocketAddr, LoadError> {
        Ok(self.socket.local()?)
    }

    pub fn run(self, window: &Window, stop: &Bell, emit: Emit<'_>) -> Result<(), LoadError> {
        wake_exactly();
        let mut alarm = Alarm::new()?;
        let mut book = Book {
            window: *window,
            wall: Wall::new(),
            inbox: Inbox::new(BATCH, HEADER + LONGEST_NAME),
            flows: BTreeMap::new(),
            last_ns: monotonic_ns(),
        };
        let (report, nap) = (self.report.nanos(), self.report.nanos().min(NAP_NS));
        let mut now = monotonic_ns();
        let mut flush = now.saturating_add(FLUSH_NS);
        let mut look = window.next_tick(now, report);
        let mut awake = false;
        loop {
            alarm.set(awake.then(|| window.next_tick(now, nap).min(look)))?;
            let stopped = self.sleep(stop, &alarm, awake)?;
            now = monotonic_ns();
            book.receive(&self.socket, now);
            if now >= look || stopped {
                book.look(now);
                look = window.next_tick(now, report);
            }
            awake = now.saturating_sub(book.last_ns) < QUIET_NS && !book.flows.is_empty();
            if stopped || now >= flush || !awake {
                book.flush(now, stopped, emit);
                flush = now.saturating_add(FLUSH_NS);
            }
            if stopped {
                for live in book.flows.values() {
                    let subject = Subject::stream(&*live.stream, Told::ReceivedBefore);
                    let early = live.flow.early().to_string();
                    emit(Fact::new(When::After, subject, early).into());
                    let line = format!("{}: {}", live.stream, live.flow.summary());
                    emit(Event::Output { task: self.task.clone(), stderr: false, line });
                }
                return Ok(());
            }
        }
    }

    /// Until there is something to do; whether that is to stop.
    fn sleep(&self, stop: &Bell, alarm: &Alarm, awake: bool) -> Result<bool, SysError> {
        let mut fds = vec![readable(stop), readable(alarm)];
        if !(awake && self.lazy) {
            fds.push(readable(&self.socket));
        }
        wait(&mut fds)?;
        Ok(came(&fds[0]))
    }
}

struct Book {
    window: Window,
    wall: Wall,
    inbox: Inbox,
    flows: BTreeMap<(SocketAddr, String), Live>,
    last_ns: u64,
}

impl Book {
    fn receive(&mut self, socket: &Udp, now_ns: u64) {
        loop {
            // What waits may be older than a step of the wall clock that shows now: delays across it are not given.
            let steps = self.wall.steps();
            self.wall.look();
            let stepped = self.wall.steps() != steps;
            let got = self.inbox.receive(socket.as_fd()).unwrap_or(0);
            for (arrival, bytes) in self.inbox.iter() {
                let (Some(from), Some(packet)) = (arrival.from, OneWay::read(bytes)) else {
                    continue;
                };
                self.last_ns = now_ns;
                let key = (from, packet.name.to_owned());
                if self.flows.len() >= MOST_FLOWS && !self.flows.contains_key(&key) {
                    continue;
                }
                let live = self.flows.entry(key).or_insert_with(|| Live {
                    flow: SinkFlow::new(packet.each),
                    stream: packet.name.to_owned(),
                    samples: Vec::new(),
                });
                let stamp = arrival.stamp_ns.filter(|_| !stepped);
                live.flow.arrive(Datagram {
                    seq: packet.seq,
                    t_ns: self.window.t(self.wall.monotonic(packet.sent_ns)),
                    up_ns: stamp.map(|stamp| stamp.wrapping_sub(packet.sent_ns) as i64),
                    bytes: arrival.size as u32,
                });
            }
            if got < self.inbox.capacity() {
                return;
            }
        }
    }

    fn look(&mut self, now_ns: u64) {
        let t_ns = self.window.t(now_ns);
        for live in self.flows.values_mut() {
            live.samples.push(FlowSample {
                t_ns,
                side: Side::Receiver,
                bytes: live.flow.bytes(),
                packets: live.flow.packets(),
                tcp: None,
            });
        }
    }

    fn flush(&mut self, now_ns: u64, all: bool, emit: Emit<'_>) {
        let now = (!all).then(|| self.window.t(now_ns));
        for live in self.flows.values_mut() {
            live.flow.give_up(now);
            let (rows, samples) = (live.flow.take(), std::mem::take(&mut live.samples));
            if !rows.is_empty() {
                emit(Event::Echo { stream: live.stream.clone(), samples: rows });
            }
            if !samples.is_empty() {
                emit(Event::Flow { stream: live.stream.clone(), samples });
            }
        }
    }
}
