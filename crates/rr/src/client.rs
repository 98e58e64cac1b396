//! The calling end: one call after the other, each with what TCP says of it.
//!
//! ```text
//!   request-response   connect ─ call ─ call ─ call …         a call: write, read
//!   write-write-read   connect ─ call ─ call ─ call …         a call: write, write, read
//!   connect            (connect ─ write ─ read ─ reset) …     all of it is the call
//! ```
//!
//! Where a connection serves many calls, a first one, with the hello in the same segment, opens it and is not counted.

use crate::RrError;
use crate::counters::{ConnectionCounters, Counters};
use crate::protocol::{self, Hello, ServerReport};
use nix::errno::Errno;
use quell_cause::calls::Retransmissions;
use quell_model::task::{QuickAck, RrPattern};
use quell_netlink::sock_diag::TcpInfo;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::exchange::Exchange;
use quell_sys::socket::option::{set, set_bytes, waiting as waiting_bytes};
use quell_sys::socket::preface;
use quell_sys::socket::stream::{Connected, StreamOptions, TcpSocket};
use quell_sys::wait::Bell;
use quell_units::Span;
use quell_wire::auth::Secret;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// How long nothing of a call may move, or a connection attempt is waited for: beyond every delayed ACK and several retransmission
/// timeouts.
const PATIENCE_NS: u64 = 5_000_000_000;

/// How long a call of which more and more arrives is waited for.
const MOST_NS: u64 = 60_000_000_000;

/// The longest tick of a kernel's clock (`CONFIG_HZ`=100).
const TICK_NS: u64 = 10_000_000;

/// No ACK is delayed for less on any Linux, and no retransmission timer runs out sooner.
pub(crate) const SOONEST_NS: u64 = 5_000_000;

/// After how long a SYN is sent again at first (`TCP_TIMEOUT_INIT`, include/net/tcp.h; RFC 6298).
const SYN_TIMER_NS: u64 = 1_000_000_000;

pub const LARGEST: u32 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallShape {
    pub pattern: RrPattern,
    /// Bytes of each write, and of the reply.
    pub size: u32,
    /// `TCP_NODELAY` at both ends: no small segment is held back.
    pub nodelay: bool,
    /// Several writes become one of the same bytes.
    pub one_write: bool,
    pub quickack: Option<QuickAck>,
}

impl CallShape {
    pub fn request(&self) -> u32 {
        match self.pattern {
            RrPattern::WriteWriteRead => self.size * 2,
            RrPattern::RequestResponse | RrPattern::Connect => self.size,
        }
    }

    fn each(&self) -> u32 {
        if self.one_write { self.request() } else { self.size }
    }

    /// Whether Nagle's rule can hold no part of a request: it is off, or a request is one write, with no earlier small segment in flight
    /// (`tcp_minshall_check`, net/ipv4/tcp_output.c).
    fn held_never(&self) -> bool {
        self.nodelay || self.each() == self.request()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    /// When it began: nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// How long it took in nanoseconds; none when no reply came.
    pub latency_ns: Option<u64>,
    /// How much of it was the connection's handshake; 0 where the connection stood.
    pub connecting_ns: u64,
    /// Bytes that Nagle's rule held right after the last write: less than a segment, unsent behind what was not acknowledged.
    pub held: u32,
    /// From the first part of the reply to its last, in nanoseconds.
    pub gathering_ns: u64,
    /// The longest time between two parts of the reply, in nanoseconds.
    pub gap_ns: u64,
    /// ACKs whose delay was over on this host during the call; looked at only where the call took long enough for one.
    pub delayed_acks: u64,
    /// A part of the request was unacknowledged, or not even sent, when the reply was there.
    pub early: bool,
    /// What the server says of the call, if it can be true.
    pub report: Option<ServerReport>,
    /// The least round-trip time that the kernel saw, in microseconds.
    pub min_rtt_us: Option<u32>,
    /// What this end sent again, as far as it was known when the call was over. A SYN that the server had is not among it.
    pub again: Retransmissions,
    /// What the server sent again, as it said in this call: of the time since its last report.
    pub again_there: Retransmissions,
    /// Packets were seen to overtake each other, or to come twice though sent once.
    pub disordered: bool,
    pub lost: Option<String>,
}

impl Call {
    /// Whether a timer may have run out between the request and the whole reply: what it took beyond the server's own time and two round
    /// trips.
    pub(crate) fn may_have_waited_for_a_timer(&self) -> bool {
        let own_ns = self.report.map_or(0, |report| report.own_ns);
        let rtt_ns = u64::from(self.min_rtt_us.unwrap_or(0)) * 1000;
        let took_ns = self.latency_ns.unwrap_or(0).saturating_sub(self.connecting_ns);
        took_ns.saturating_sub(own_ns).saturating_sub(2 * rtt_ns) >= SOONEST_NS
    }

    fn hear(&mut self, report: Option<ServerReport>) {
        self.disordered |= report.is_some_and(|report| report.overtaken);
        if let Some(resent) = report.and_then(|report| report.resent) {
            self.again_there.add(Retransmissions {
                segments: resent.segments,
                needless: resent.needless,
                timers: u32::from(resent.timers.is_some_and(|timers| timers > 0)),
            });
        }
    }
}

/// What is changed in a call to compare others with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallChange {
    /// This end delays no ACK of a reply's parts.
    QuickAckHere,
    NoDelay,
}

#[derive(Debug, Clone, Copy, Default)]
struct SynsAgain {
    syns: u32,
    /// The first had arrived, by the timestamp that came back with the SYN-ACK (RFC 7323).
    first_arrived: bool,
}

impl SynsAgain {
    /// As the kernel tells right after the handshake, when it took so long: what it measured begins where the SYN was sent that was answered.
    fn of(info: &TcpInfo, took_ns: u64) -> Self {
        let rtt_ns = u64::from(info.rtt) * 1000;
        // TCPI_OPT_TIMESTAMPS.
        let told = info.options & 1 != 0 && rtt_ns > 0;
        let first_arrived = !told || took_ns.saturating_sub(rtt_ns) < SYN_TIMER_NS / 2;
        Self { syns: info.total_retrans, first_arrived }
    }
}

#[derive(Debug)]
pub struct Caller {
    to: SocketAddr,
    shape: CallShape,
    bytes: Vec<u8>,
    secret: Option<Secret>,
    open: Option<TcpSocket>,
    /// What the kernel had counted of the connection when the last call was over.
    connection: ConnectionCounters,
    counted: Option<Counters>,
    handshake_ns: Option<u64>,
    syns_again: SynsAgain,
    /// The longest time that a handshake or a call took so far.
    longest_ns: u64,
    /// The ACK of each part of a reply is sent at once.
    ack_at_once: bool,
    /// How long a reply, or a connection, is waited for.
    patience_ns: u64,
    /// A call over a connection of its own that may have waited for a timer is followed by others, which tell of it.
    asks_after: bool,
    aside_ns: u64,
    /// How much longer than the patience calls may still take in all.
    spare_ns: u64,
}

impl Caller {
    /// One that has not called yet. Errors when the size can't be.
    pub fn new(to: SocketAddr, shape: CallShape) -> Result<Self, RrError> {
        if !(1..=LARGEST).contains(&shape.size) {
            let size = shape.size;
            return Err(RrError::Parameter(format!("a size has 1 to {LARGEST} bytes, not {size}")));
        }
        let mut bytes = hello_of(shape).write().to_vec();
        bytes.resize(protocol::SIZE + shape.request() as usize, b'q');
        Ok(Self {
            to,
            shape,
            bytes,
            secret: None,
            open: None,
            connection: ConnectionCounters::default(),
            counted: None,
            handshake_ns: None,
            syns_again: SynsAgain::default(),
            longest_ns: 0,
            ack_at_once: false,
            patience_ns: PATIENCE_NS,
            asks_after: false,
            aside_ns: 0,
            spare_ns: u64::MAX,
        })
    }

    /// Makes one more call, which is not counted, where one over a connection of its own may have waited for a timer: with the next reply the
    /// server says what it sent again.
    #[must_use]
    pub fn asking_after(mut self) -> Self {
        self.asks_after = true;
        self
    }

    /// How long the calls took that it made for that, in nanoseconds.
    pub fn aside_ns(&self) -> u64 {
        self.aside_ns
    }

    /// The server sends its ACKs at once (`TCP_QUICKACK`, again after each receive), if it does what it is asked; this end as before.
    #[must_use]
    pub fn with_acks_at_once_there(mut self) -> Self {
        let hello = Hello { quickack: Some(QuickAck::Rearmed), ..hello_of(self.shape) };
        self.bytes.splice(..protocol::SIZE, hello.write());
        self
    }

    /// Waits for connections and replies for so many nanoseconds, not 5 s.
    #[must_use]
    pub fn with_patience(mut self, nanos: u64) -> Self {
        self.patience_ns = nanos;
        self
    }

    /// Waits for all calls together only so many nanoseconds longer than its patience with each: of one that trickles something moves for ever.
    #[must_use]
    pub fn with_spare(mut self, nanos: u64) -> Self {
        self.spare_ns = nanos;
        self
    }

    pub fn spare_ns(&self) -> u64 {
        self.spare_ns
    }

    fn waited(&mut self, took_ns: u64) {
        let beyond = took_ns.saturating_sub(self.patience_ns);
        // What is less than a tick of the kernel's clock is no time to wait for anything.
        self.spare_ns =
            Some(self.spare_ns.saturating_sub(beyond)).filter(|ns| *ns > TICK_NS).unwrap_or(0);
    }

    /// Proves on each connection that it knows the secret, if there is one, and demands the same of the server. Where connecting is a
    /// part of the call, this costs it two round trips.
    #[must_use]
    pub fn with_secret(mut self, secret: Option<Secret>) -> Self {
        self.secret = secret;
        self
    }

    /// Connects and makes the first call, where connections stay; errors tell that nothing of the kind serves there.
    pub fn open(&mut self, stop: &Bell) -> Result<(), RrError> {
        if self.shape.pattern == RrPattern::Connect || self.open.is_some() {
            return Ok(());
        }
        let begun_ns = monotonic_ns();
        let stream = self.connect(stop)?;
        let deadline_ns = monotonic_ns().saturating_add(self.most_ns());
        let answered = self
            .write(&stream, &self.bytes, deadline_ns)
            .and_then(|()| self.read(&stream, moved(&stream), deadline_ns, stop));
        self.waited(monotonic_ns().saturating_sub(begun_ns));
        answered.map_err(|why| match stop.rings() {
            true => RrError::Stopped,
            false => RrError::NotServing { to: self.to, why },
        })?;
        self.connection = info(&stream).as_ref().map_or(self.connection, ConnectionCounters::of);
        self.open = Some(stream);
        Ok(())
    }

    /// What the last handshake took, in nanoseconds: the path, without any program at its other end.
    pub fn handshake_ns(&self) -> Option<u64> {
        self.handshake_ns
    }

    /// One call. A reply that does not come is part of the result; errors tell that the server can't be reached at all.
    pub fn call(&mut self, stop: &Bell) -> Result<Call, RrError> {
        self.open(stop)?;
        self.counted = self.counted.or_else(Counters::now);
        let start_ns = monotonic_ns();
        let mut call = Call { start_ns, ..Call::default() };
        let (stream, request) = match self.open.take() {
            Some(stream) => (stream, &self.bytes[protocol::SIZE..]),
            None => {
                let stream = self.connect(stop)?;
                self.connection =
                    ConnectionCounters { again: self.syns_again.syns, ..Default::default() };
                call.connecting_ns = monotonic_ns().saturating_sub(start_ns);
                if self.syns_again.syns > 0 && !self.syns_again.first_arrived {
                    call.again = Retransmissions { segments: 1, needless: 0, timers: 1 };
                }
                (stream, &self.bytes[..])
            }
        };
        let deadline_ns = start_ns.saturating_add(self.most_ns());
        // Nothing was asked for yet.
        let answered_before = matches!(stream.read_now(&mut [0]), Ok(1..));
        // A new connection's hello travels with its first write.
        let first = request.len() - self.shape.request() as usize + self.shape.each() as usize;
        let written = self
            .write(&stream, &request[..first], deadline_ns)
            .and_then(|()| self.write(&stream, &request[first..], deadline_ns));
        let waiting = info(&stream);
        let so_far = waiting.as_ref().map_or(0, counted);
        let result = written.and_then(|()| self.read(&stream, so_far, deadline_ns, stop));
        let end_ns = monotonic_ns();
        // Over a connection that stays, the next call finds it: see `answered_before`.
        let more = self.shape.pattern == RrPattern::Connect && waiting_bytes(stream.as_fd()) > 0;
        let result = result.and_then(|reply| match more {
            true => Err(format!("its reply had more than {} bytes", self.shape.size)),
            false => Ok(reply),
        });
        let took_ns = end_ns.saturating_sub(start_ns);
        // One that was given up since nothing moved says nothing of the path.
        if result.is_ok() || end_ns + TICK_NS >= deadline_ns {
            self.longest_ns = self.longest_ns.max(took_ns);
        }
        self.waited(took_ns);
        let after = info(&stream);
        self.took_down(&mut call, after.as_ref(), took_ns >= SOONEST_NS);
        if let Ok(reply) = &result {
            call.latency_ns = Some(took_ns);
            call.gathering_ns = reply.gathering_ns;
            call.gap_ns = reply.gap_ns;
            call.report = reply.report.filter(|report| report.fits(took_ns));
        }
        call.hear(call.report);
        call.held = waiting.filter(|_| !self.shape.held_never()).map_or(0, |info| held(&info));
        // Whoever answers the whole request acknowledges the whole request with it.
        call.early = answered_before || result.is_ok() && after.as_ref().is_some_and(unheard);
        call.min_rtt_us = after.and_then(|info| info.min_rtt).filter(|rtt| *rtt != u32::MAX);
        call.lost = result.err();
        if self.shape.pattern == RrPattern::Connect {
            if self.asks_after && call.lost.is_none() && call.may_have_waited_for_a_timer() {
                self.ask_after(&mut call, &stream, stop);
            }
            // Reset, so that many calls do not use up the local ports in TIME-WAIT.
            stream.abort();
        } else if call.lost.is_none() {
            self.open = Some(stream);
        }
        Ok(call)
    }

    /// Adds to a call what the kernel counted since the last look; of this host's counters only where it is `worth` reading them.
    fn took_down(&mut self, call: &mut Call, info: Option<&TcpInfo>, worth: bool) {
        let now = info.map_or(self.connection, ConnectionCounters::of);
        let new = now.since(std::mem::replace(&mut self.connection, now));
        let counted = if worth || new.again > 0 { self.count() } else { None };
        let timers = counted.is_some_and(|counted| counted.timeouts + counted.loss_probes > 0);
        call.again.add(Retransmissions {
            segments: new.again,
            needless: new.twice,
            timers: u32::from(new.again > 0 && timers),
        });
        call.delayed_acks += counted.map_or(0, |counted| counted.delayed_acks);
        let outdated = counted.is_some_and(|counted| counted.outdated > 0);
        call.disordered |= new.overtakes > 0 || outdated || now.twice > now.again;
    }

    /// Learns what was sent again in the last call over the connection that still stands.
    pub(crate) fn ask_again(&mut self, call: &mut Call, stop: &Bell) {
        let Some(stream) = self.open.take() else { return };
        // One whose reply did not come would answer the next call with it.
        if self.ask_after(call, &stream, stop) {
            self.open = Some(stream);
        }
    }

    /// Learns what was sent again in a call, in two calls that are not counted; whether they were answered.
    ///
    /// ```text
    ///   call       ── request ──►  ◄── reply ──            what is late of it is on its way still, here and there
    ///   ask        ── request ──►  ◄── report, reply ──    what the server sent again; behind what it had twice (DSACK)
    ///   ask        ── request ──►  ◄── report, reply ──    how much of that this end had twice
    /// ```
    fn ask_after(&mut self, call: &mut Call, stream: &TcpSocket, stop: &Bell) -> bool {
        if call.report.is_none() && call.again.segments == 0 {
            return true;
        }
        let delayed_acks = call.delayed_acks;
        for _ in 0..2 {
            let begun_ns = monotonic_ns();
            let deadline_ns = begun_ns.saturating_add(self.most_ns());
            let written = self.write(stream, &self.bytes[protocol::SIZE..], deadline_ns);
            let reply = written.and_then(|()| self.read(stream, moved(stream), deadline_ns, stop));
            let took_ns = monotonic_ns().saturating_sub(begun_ns);
            self.aside_ns += took_ns;
            self.waited(took_ns);
            self.took_down(call, info(stream).as_ref(), true);
            let Ok(reply) = reply else { return false };
            call.hear(reply.report);
            if call.again_there.segments <= call.again_there.needless {
                break;
            }
        }
        call.delayed_acks = delayed_acks;
        true
    }

    /// What this host counted since it was last asked.
    fn count(&mut self) -> Option<Counters> {
        let now = Counters::now();
        let before = std::mem::replace(&mut self.counted, now);
        now.zip(before).map(|(now, before)| now.since(before))
    }

    /// A call in which one thing is changed; all else is as in the others.
    pub fn changed_call(&mut self, change: CallChange, stop: &Bell) -> Result<Call, RrError> {
        self.open(stop)?;
        let set = |caller: &mut Self, on: bool| match (change, &caller.open) {
            (CallChange::NoDelay, Some(stream)) => small_at_once(stream, on),
            (CallChange::NoDelay, None) => Ok(()),
            (CallChange::QuickAckHere, _) => {
                caller.ack_at_once = on;
                Ok(())
            }
        };
        set(self, true)?;
        let call = self.call(stop);
        set(self, false)?;
        call
    }

    fn connect(&mut self, stop: &Bell) -> Result<TcpSocket, RrError> {
        let stream = TcpSocket::new(self.to.is_ipv6(), &StreamOptions::default())?;
        if self.shape.nodelay {
            no_delay(&stream)?;
        }
        let begun_ns = monotonic_ns();
        let patience_ns = self.patience_to_connect_ns();
        match stream.connect(self.to, begun_ns.saturating_add(patience_ns), stop)? {
            Connected::Yes => {
                let took_ns = monotonic_ns().saturating_sub(begun_ns);
                self.longest_ns = self.longest_ns.max(took_ns);
                self.handshake_ns = Some(took_ns);
                let told = info(&stream);
                self.syns_again = told.map(|it| SynsAgain::of(&it, took_ns)).unwrap_or_default();
            }
            Connected::NoAnswer => {
                return Err(RrError::NoAnswer {
                    to: self.to,
                    waited: Span::from_nanos(patience_ns),
                    answered: self.handshake_ns.is_some(),
                });
            }
            Connected::Stopped => return Err(RrError::Stopped),
        }
        if let Some(secret) = &self.secret {
            let soon = monotonic_ns().saturating_add(self.patience_ns);
            let mut exchange = Exchange::new(&stream, Some(soon), stop)?;
            preface::prove(&mut exchange, secret).map_err(RrError::Preface)?;
        }
        patience(&stream, self.patience_ns)?;
        if self.shape.quickack.is_some() {
            quick_ack(&stream);
        }
        Ok(stream)
    }

    /// How long a connection is waited for: as long as a call where half of the usual time was not enough before. What waits on the path then, as what
    /// is left of a reply that nobody waits for any more, holds a SYN up as well.
    fn patience_to_connect_ns(&self) -> u64 {
        let is_slow = self.longest_ns >= self.patience_ns / 2;
        if is_slow { self.most_ns() } else { self.patience_ns }
    }

    fn most_ns(&self) -> u64 {
        self.patience_ns.saturating_add(self.spare_ns).min(self.patience_ns.max(MOST_NS))
    }

    /// Writes all of it by the deadline of the call, unless nothing moves for longer than the patience.
    fn write(&self, stream: &TcpSocket, mut bytes: &[u8], deadline_ns: u64) -> Result<(), String> {
        let mut so_far = 0;
        while !bytes.is_empty() {
            match stream.write(bytes) {
                Ok(sent) => bytes = &bytes[sent.min(bytes.len())..],
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if goes_on(stream, &mut so_far) => {}
                Err(errno) => return Err(self.why(errno)),
            }
            if !bytes.is_empty() && monotonic_ns() >= deadline_ns {
                let most = seconds(self.most_ns());
                return Err(format!("it did not take the whole request within {most}"));
            }
        }
        Ok(())
    }

    /// Reads all of the reply by the deadline of the call, unless nothing moves for longer than the patience: `so_far` is what had when the
    /// request was written. The socket's limit is one of each read: the last is made shorter.
    fn read(
        &self,
        stream: &TcpSocket,
        mut so_far: u64,
        deadline_ns: u64,
        stop: &Bell,
    ) -> Result<CallReply, String> {
        let mut is_shorter = false;
        let rearm = self.ack_at_once || self.shape.quickack == Some(QuickAck::Rearmed);
        let size = self.shape.size as usize;
        let mut begin = [0; protocol::SIZE];
        let (mut done, mut last_ns, mut gap_ns, mut gathering_ns) = (0, 0, 0, 0);
        while done < size {
            let wanted = begin.len().min(size);
            let got = match begin.get_mut(done..wanted) {
                Some(begin) if done < wanted => stream.read(begin),
                _ => stream.discard(size - done),
            };
            match got {
                Ok(0) => return Err("it closed the connection".into()),
                Ok(got) => done += got,
                // A signal breaks off a read that has a limit (signal(7)): that is how a ring is heard here.
                Err(Errno::EINTR) if stop.rings() => return Err("it was stopped".into()),
                Err(Errno::EINTR) => continue,
                // The last wait is no longer than to the deadline, give or take a tick.
                Err(Errno::EAGAIN) if monotonic_ns() + TICK_NS >= deadline_ns => {
                    return Err(format!("no whole reply within {}", seconds(self.most_ns())));
                }
                // More of the request has arrived since, or of what waits for a lost part.
                Err(Errno::EAGAIN) if goes_on(stream, &mut so_far) => continue,
                Err(errno) => return Err(self.why(errno)),
            }
            let now_ns = monotonic_ns();
            if last_ns > 0 {
                let pause_ns = now_ns.saturating_sub(last_ns);
                gathering_ns += pause_ns;
                gap_ns = pause_ns.max(gap_ns);
            }
            last_ns = now_ns;
            let left_ns = deadline_ns.saturating_sub(now_ns);
            if done < size && left_ns < self.patience_ns {
                // Less than a microsecond would mean no limit.
                if left_ns < 1000 {
                    return Err(format!("no whole reply within {}", seconds(self.most_ns())));
                }
                patience(stream, left_ns).map_err(|error| error.to_string())?;
                is_shorter = true;
            }
            if rearm {
                quick_ack(stream);
            }
        }
        if is_shorter {
            patience(stream, self.patience_ns).map_err(|error| error.to_string())?;
        }
        let report = ServerReport::read(begin.get(..size.min(begin.len())).unwrap_or(&[]));
        Ok(CallReply { gathering_ns, gap_ns, report })
    }

    fn why(&self, errno: Errno) -> String {
        match errno {
            Errno::EAGAIN => format!("nothing moved for {}", seconds(self.patience_ns)),
            errno => errno.desc().to_lowercase(),
        }
    }
}

fn hello_of(shape: CallShape) -> Hello {
    Hello {
        request: shape.request(),
        reply: shape.size,
        nodelay: shape.nodelay,
        quickack: shape.quickack,
    }
}

fn seconds(nanos: u64) -> String {
    format!("{} s", (nanos as f64 / 1e6).round() / 1e3)
}

/// What grows while anything of calls moves: bytes that the other end acknowledged, and its segments of data, also those that wait for one
/// that was lost; 0 where the kernel does not count them.
fn counted(info: &TcpInfo) -> u64 {
    info.bytes_acked.unwrap_or(0) + u64::from(info.data_segs_in.unwrap_or(0))
}

/// Whether the other end has not acknowledged all that was written.
pub(crate) fn unheard(info: &TcpInfo) -> bool {
    info.unacked > 0 || info.notsent_bytes.is_some_and(|left| left > 0)
}

fn moved(stream: &TcpSocket) -> u64 {
    info(stream).as_ref().map_or(0, counted)
}

/// Whether more is [`counted`] than `so_far`, which is then all of it.
pub(crate) fn goes_on(stream: &TcpSocket, so_far: &mut u64) -> bool {
    let before = std::mem::replace(so_far, moved(stream));
    *so_far > before
}

#[derive(Debug, Clone, Copy)]
struct CallReply {
    gathering_ns: u64,
    gap_ns: u64,
    report: Option<ServerReport>,
}

/// Bytes that Nagle's rule holds: less than a full segment behind unacknowledged ones, though the window has room for it.
fn held(info: &TcpInfo) -> u32 {
    let bytes = info.notsent_bytes.unwrap_or(0);
    let small = info.snd_mss == 0 || bytes < info.snd_mss;
    let room = info.snd_cwnd == 0 || info.unacked < info.snd_cwnd;
    if small && room && info.unacked > 0 { bytes } else { 0 }
}

pub(crate) fn info(stream: &TcpSocket) -> Option<TcpInfo> {
    let mut bytes = [0; 256];
    let length = stream.info(&mut bytes).ok()?;
    TcpInfo::from_bytes(&bytes[..length]).ok()
}

/// Sends small segments at once (`TCP_NODELAY`, tcp(7)).
pub(crate) fn no_delay(stream: &TcpSocket) -> Result<(), SysError> {
    small_at_once(stream, true)
}

fn small_at_once(stream: &TcpSocket, on: bool) -> Result<(), SysError> {
    set(stream.as_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, on.into(), "TCP_NODELAY")
}

/// Acknowledges at once, until the kernel thinks better of it (`TCP_QUICKACK`, tcp(7)).
pub(crate) fn quick_ack(stream: &TcpSocket) {
    // Every Linux since 2.4.4 has it; and if it did not take, the figures would show.
    let _ = set(stream.as_fd(), libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1, "TCP_QUICKACK");
}

/// Reading and writing give up after this many nanoseconds (`SO_RCVTIMEO`, `SO_SNDTIMEO`, socket(7)).
pub(crate) fn patience(stream: &TcpSocket, nanos: u64) -> Result<(), SysError> {
    let seconds = i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX);
    let micros = (nanos % 1_000_000_000 / 1000) as i64;
    let time = [seconds.to_ne_bytes(), micros.to_ne_bytes()].concat();
    for (name, what) in
        [(libc::SO_RCVTIMEO, "a time limit on reading"), (libc::SO_SNDTIMEO, "one on writing")]
    {
        set_bytes(stream.as_fd(), libc::SOL_SOCKET, name, &time, what)?;
    }
    Ok(())
}
