//! The answering end: a thread a connection, blocked in the kernel until a request is there.
//!
//! It gives nobody more than it gets: replies are no larger than requests, and connections, their length in time, their idleness and the
//! size of requests are limited. A client that breaks a limit, sends what is no hello, or does not know the server's secret, is reset; the
//! others go on.

use crate::RrError;
use crate::client::{SOONEST_NS, goes_on, info, no_delay, patience, quick_ack, unheard};
use crate::counters::{ConnectionCounters, Counters};
use crate::protocol::{self, Hello, Resent, ServerReport};
use nix::errno::Errno;
use quell_model::task::QuickAck;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::exchange::Exchange;
use quell_sys::socket::preface;
use quell_sys::socket::stream::{TcpSocket, accept, listen};
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_units::Span;
use quell_wire::auth::Secret;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

/// How long the server rests when the system has no descriptor for a new connection.
const REST_NS: u64 = 100_000_000;

/// Bytes of a reply that are written in one call.
const CHUNK: usize = 64 * 1024;

/// A reply of so many bytes fits into any send buffer (`tcp_wmem`, 16 KiB at first): one write of it ends without waiting, and of one
/// write Nagle's rule holds nothing (`tcp_minshall_check`, net/ipv4/tcp_output.c: a small segment waits only for an earlier small one).
const ONE_WRITE: usize = 16 * 1024;

/// Larger requests come in parts whoever holds them.
const LONGEST_COUNTED: u32 = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub connections: usize,
    pub request: u32,
    pub time: Span,
    pub idle: Span,
    /// Most bytes that are taken or sent in one call.
    pub piece: usize,
    /// Longest time from connecting to the whole hello, the proof of a secret included.
    pub handshake: Span,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            request: 2 << 20,
            time: Span::from_secs(3600),
            idle: Span::from_secs(10),
            piece: CHUNK,
            handshake: Span::from_secs(5),
        }
    }
}

#[derive(Debug)]
pub struct RrServer {
    listener: TcpListener,
    limits: Limits,
    secret: Option<Secret>,
}

type Open = Mutex<BTreeMap<u64, Arc<TcpSocket>>>;

impl RrServer {
    /// Listens. Errors when the port is in use.
    pub fn prepare(bind: SocketAddr, limits: Limits) -> Result<Self, RrError> {
        Ok(Self { listener: listen(bind)?, limits, secret: None })
    }

    /// Answers only clients that prove to know the secret, if there is one.
    #[must_use]
    pub fn with_secret(mut self, secret: Option<Secret>) -> Self {
        self.secret = secret;
        self
    }

    pub fn local(&self) -> Result<SocketAddr, RrError> {
        let failed = |e| quell_sys::SysError::io("read a listener's address", &e);
        Ok(self.listener.local_addr().map_err(failed)?)
    }

    pub fn run(&self, stop: &Bell) -> Result<(), RrError> {
        let open = Open::default();
        let mut alarm = Alarm::new()?;
        std::thread::scope(|scope| {
            let result = (|| {
                for number in 0.. {
                    let mut fds = [readable(stop), readable(&self.listener)];
                    wait(&mut fds)?;
                    if came(&fds[0]) {
                        break;
                    }
                    match accept(&self.listener) {
                        Ok(Some((stream, _))) => {
                            if !self.admit(&open, number, stream, stop, scope) {
                                continue;
                            }
                        }
                        Ok(None) => {}
                        Err(_) => {
                            // No descriptor is left: it stays readable, and asking again at once would spin.
                            alarm.set(Some(monotonic_ns().saturating_add(REST_NS)))?;
                            wait(&mut [readable(stop), readable(&alarm)])?;
                        }
                    }
                }
                Ok(())
            })();
            // Whoever is blocked wakes with an end of the connection.
            lock(&open).values().for_each(|stream| stream.abort());
            result
        })
    }

    fn admit<'s>(
        &'s self,
        open: &'s Open,
        number: u64,
        stream: TcpSocket,
        stop: &'s Bell,
        scope: &'s std::thread::Scope<'s, '_>,
    ) -> bool {
        let stream = Arc::new(stream);
        let full = {
            let mut open = lock(open);
            let full = open.len() >= self.limits.connections;
            if !full {
                open.insert(number, Arc::clone(&stream));
            }
            full
        };
        if full {
            stream.abort();
            return false;
        }
        let work = move || {
            // How it ended is the client's affair, which learns it from the reset.
            let _ = self.serve(&stream, stop);
            stream.abort();
            lock(open).remove(&number);
        };
        let thread = std::thread::Builder::new().name("rr".into()).stack_size(256 * 1024);
        let started = thread.spawn_scoped(scope, work).is_ok();
        if !started {
            lock(open).remove(&number);
        }
        started
    }
}

impl RrServer {
    fn serve(&self, stream: &TcpSocket, stop: &Bell) -> Result<u64, RrError> {
        let deadline = monotonic_ns().saturating_add(self.limits.handshake.nanos());
        let mut exchange = Exchange::new(stream, Some(deadline), stop)?;
        if let Some(secret) = &self.secret {
            preface::demand_all(&mut exchange, secret).map_err(RrError::Preface)?;
        }
        answer(stream, &mut exchange, &[], &self.limits, &mut |_| Ok(()))
    }
}

fn lock(open: &Open) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<TcpSocket>>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asked before so many bytes are sent, and after so many were taken and before more are: blocks until they may move. With 0 after each
/// call: nothing is to be done until the next. Errors end the connection.
pub type Gate<'a> = &'a mut dyn FnMut(usize) -> Result<(), Errno>;

/// Answers one client to the end of its connection, after `begun` bytes of its hello were read already (at most [`protocol::SIZE`]); gives
/// how many calls it made. Errors when it sends what is no hello, or one that asks for more than the limits.
pub fn answer(
    stream: &TcpSocket,
    exchange: &mut Exchange<'_>,
    begun: &[u8],
    limits: &Limits,
    gate: Gate<'_>,
) -> Result<u64, RrError> {
    let deadline = monotonic_ns().saturating_add(limits.time.nanos());
    let mut bytes = [0; protocol::SIZE];
    let begun = &begun[..begun.len().min(bytes.len())];
    bytes[..begun.len()].copy_from_slice(begun);
    exchange.read(&mut bytes[begun.len()..])?;
    let hello = Hello::read(&bytes)
        .ok_or_else(|| RrError::Parameter("this is no hello of quell rr".into()))?;
    if hello.request > limits.request {
        let (asked, most) = (hello.request, limits.request);
        return Err(RrError::Parameter(format!("requests of {asked} bytes; at most {most}")));
    }
    patience(stream, limits.idle.nanos())?;
    let mut calls = 0;
    match calls_of(stream, &hello, (deadline, limits), &mut calls, gate) {
        // The usual end: the client has what it wanted.
        Errno::EPIPE | Errno::ECONNRESET => Ok(calls),
        Errno::ETIMEDOUT => Err(RrError::Parameter("its time was up".into())),
        Errno::ECANCELED => Err(RrError::Parameter("the server was stopped".into())),
        Errno::EAGAIN => Err(RrError::Parameter("it was idle for too long".into())),
        errno => Err(SysError::new("answer a call", errno).into()),
    }
}

fn calls_of(
    stream: &TcpSocket,
    hello: &Hello,
    bounds: (u64, &Limits),
    calls: &mut u64,
    gate: Gate<'_>,
) -> Errno {
    match answer_calls(stream, hello, bounds, calls, gate) {
        Ok(never) => match never {},
        Err(errno) => errno,
    }
}

fn answer_calls(
    stream: &TcpSocket,
    hello: &Hello,
    (deadline, limits): (u64, &Limits),
    calls: &mut u64,
    gate: Gate<'_>,
) -> Result<std::convert::Infallible, Errno> {
    if hello.nodelay {
        no_delay(stream).map_err(|e| e.errno)?;
    }
    if hello.quickack.is_some() {
        quick_ack(stream);
    }
    let piece = limits.piece.clamp(1, CHUNK);
    let within = || waits_until(stream, deadline, limits.idle);
    let mut reply = vec![b'a'; (hello.reply as usize).min(piece)];
    let one_write = hello.reply as usize <= reply.len().min(ONE_WRITE);
    let mut resends = Resends::default();
    loop {
        let mut left = hello.request as usize;
        let mut parts = RequestParts::default();
        let mut so_far = 0;
        while left > 0 {
            within()?;
            let got = match some(stream.discard(left.min(piece)), deadline) {
                // The client is not idle: the last reply is on its way to it still.
                Err(Errno::EAGAIN)
                    if info(stream).as_ref().is_some_and(unheard)
                        && goes_on(stream, &mut so_far) =>
                {
                    continue;
                }
                got => got?.min(left),
            };
            left -= got;
            parts.came(left, hello.request);
            gate(got)?;
            if hello.quickack == Some(QuickAck::Rearmed) {
                quick_ack(stream);
            }
        }
        if let Some(first) = reply.first_chunk_mut::<{ protocol::SIZE }>() {
            let (resent, overtaken) = resends.since_last(stream).unzip();
            let held_never = hello.nodelay || one_write;
            let overtaken = overtaken == Some(true);
            *first = ServerReport { resent, held_never, overtaken, ..parts.report() }.write();
        }
        let mut left = hello.reply as usize;
        while left > 0 {
            let part = left.min(reply.len());
            gate(part)?;
            let mut bytes = &reply[..part];
            while !bytes.is_empty() {
                within()?;
                bytes = &bytes[some(stream.write(bytes), deadline)?.min(bytes.len())..];
            }
            left -= part;
            if let Some(first) = reply.first_chunk_mut::<{ protocol::SIZE }>() {
                first.fill(b'a');
            }
        }
        *calls += 1;
        if reply.len() >= protocol::SIZE {
            resends.begin();
        }
        gate(0)?;
    }
}

/// What the connection's TCP sent again, from one reply to the next.
#[derive(Debug, Default)]
struct Resends {
    connection: ConnectionCounters,
    /// What the host had counted then; of the handshake nothing is compared.
    counted: Option<Counters>,
}

impl Resends {
    /// After a reply, while nobody waits: from now on timers can be told.
    fn begin(&mut self) {
        self.counted = self.counted.or_else(Counters::now);
    }

    /// Those since the last look, and whether segments overtook each other meanwhile. The host's counters are read only where there are any.
    fn since_last(&mut self, stream: &TcpSocket) -> Option<(Resent, bool)> {
        let info = info(stream)?;
        let now = ConnectionCounters::of(&info);
        let new = now.since(std::mem::replace(&mut self.connection, now));
        let timers = match new.again {
            0 => Some(0),
            _ => self.counted.and_then(|before| {
                let now = Counters::now()?;
                self.counted = Some(now);
                let since = now.since(before);
                u32::try_from(since.timeouts + since.loss_probes).ok()
            }),
        };
        let resent = Resent { segments: new.again, needless: new.twice, timers };
        Some((resent, new.overtakes > 0))
    }
}

#[derive(Debug, Default)]
struct RequestParts {
    first_ns: u64,
    last_ns: u64,
    /// What the host had counted when a first part was there.
    before: Option<Counters>,
}

impl RequestParts {
    /// A part is here, and `left` bytes are not. Counters are looked at only while the rest is waited for anyway.
    fn came(&mut self, left: usize, request: u32) {
        self.last_ns = monotonic_ns();
        if self.first_ns == 0 {
            self.first_ns = self.last_ns;
            if left > 0 && request <= LONGEST_COUNTED {
                self.before = Counters::now();
            }
        }
    }

    fn report(&self) -> ServerReport {
        let gathering_ns = self.last_ns.saturating_sub(self.first_ns);
        let delayed_acks = match self.before {
            _ if gathering_ns < SOONEST_NS => Some(0),
            Some(before) => Counters::now()
                .map(|now| u32::try_from(now.since(before).delayed_acks).unwrap_or(u32::MAX - 1)),
            None => None,
        };
        let own_ns = monotonic_ns().saturating_sub(self.last_ns);
        ServerReport { own_ns, gathering_ns, delayed_acks, ..ServerReport::default() }
    }
}

/// Nothing is waited for beyond the time that the connection may last.
fn waits_until(stream: &TcpSocket, deadline_ns: u64, idle: Span) -> Result<(), Errno> {
    match deadline_ns.saturating_sub(monotonic_ns()) {
        0 => Err(Errno::ETIMEDOUT),
        left if left < idle.nanos() => patience(stream, left.max(1000)).map_err(|e| e.errno),
        _ => Ok(()),
    }
}

/// What was read or written: an error at the end of the connection, of patience, or of the time that it may last.
fn some(read: Result<usize, Errno>, deadline_ns: u64) -> Result<usize, Errno> {
    match read {
        _ if monotonic_ns() >= deadline_ns => Err(Errno::ETIMEDOUT),
        Ok(0) => Err(Errno::EPIPE),
        Ok(got) => Ok(got),
        Err(Errno::EINTR) => Ok(0),
        Err(errno) => Err(errno),
    }
}
