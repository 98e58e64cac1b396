//! Telling a client how this end sees the path: `quell doctor --peer` (see [`quell_wire::ends`]).
//!
//! ```text
//!   question ─► bounded? ─► answer ─► the next, until the client has no more, nothing comes in time, its time is up, or 64 were asked
//! ```
//!
//! All of it is at rest: nothing moves but a few bytes a question, so that it gives its place to whoever finds none, and its time is that of a test
//! (`--max-time`).
//!
//! Nothing larger goes to an address than to the one that opened the connection, whose UDP sockets prove a token.

use crate::event::{ServeEvent, reason};
use crate::hub::{Accepted, Hub, Pass};
use crate::limits::{Full, TEST, Throttle};
use crate::waiting::{Opened, Streams};
use nix::errno::Errno;
use quell_host::end;
use quell_load::bulk::Gate;
use quell_load::connection_sample::tcp_info;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::exchange::{Exchange, ExchangeError};
use quell_sys::socket::{Inbox, Udp, errors, hops, option};
use quell_sys::wait::{Alarm, came, ending, readable, wait};
use quell_wire::ends::{self, Answer, Ask, LENGTH, MOST};
use quell_wire::iperf3::{Cookie, HelloToken};
use std::os::fd::AsFd;

#[derive(Debug, thiserror::Error)]
enum ConversationEnd {
    #[error("{0}")]
    Exchange(#[from] ExchangeError),
    #[error("{0}")]
    System(#[from] SysError),
    #[error("what it asks for is no question, or too long")]
    Strange,
    #[error("it asks too much")]
    TooMany,
    #[error("it took longer than a session may")]
    TooLong,
    #[error("{0}")]
    Full(#[from] Full),
}

/// Answers until the client has no more questions.
pub fn answer(hub: &Hub<'_>, guest: &Accepted) {
    let pass = match hub.begin(guest.peer.ip(), &guest.stream, false) {
        Ok(pass) => pass,
        Err(full) => {
            hub.refuse(guest.peer, full);
            return guest.stream.abort();
        }
    };
    let end_ns = monotonic_ns().saturating_add(hub.limits.time_ns);
    let throttle = Throttle::new(&hub.rates, guest.peer.ip(), 1);
    let flows = Vec::new();
    let mut talk = Conversation { hub, guest, pass: &pass, throttle, flows, end_ns };
    let ended = talk.run();
    guest.stream.abort();
    let why = match ended {
        // A connection that was sent away is broken off.
        Ok(())
        | Err(ConversationEnd::Exchange(ExchangeError::Closed) | ConversationEnd::System(_))
            if pass.lost() =>
        {
            Some(Full::SentAway.to_string())
        }
        Ok(()) | Err(ConversationEnd::Exchange(ExchangeError::Closed)) => None,
        Err(ConversationEnd::Exchange(ExchangeError::Late)) if monotonic_ns() >= end_ns => {
            Some(ConversationEnd::TooLong.to_string())
        }
        Err(why) => Some(why.to_string()),
    };
    let (session, client, why) = (pass.number, guest.peer, why.as_ref().map(reason));
    hub.tell_some(&ServeEvent::Told { session, client, why });
}

struct Conversation<'a> {
    hub: &'a Hub<'a>,
    guest: &'a Accepted,
    pass: &'a Pass<'a>,
    throttle: Throttle<'a>,
    flows: Vec<Udp>,
    end_ns: u64,
}

impl Conversation<'_> {
    fn run(&mut self) -> Result<(), ConversationEnd> {
        let mut exchange = Exchange::new(&self.guest.stream, None, self.hub.stop)?;
        for _ in 0..MOST.asks {
            let patience = self.hub.limits.handshake_ns;
            if monotonic_ns() >= self.end_ns {
                return Err(ConversationEnd::TooLong);
            }
            exchange.until(Some(self.soon(patience)))?;
            let mut head = [0; LENGTH];
            exchange.read(&mut head)?;
            let mut text = vec![0; ends::length(head).ok_or(ConversationEnd::Strange)?];
            exchange.read(&mut text)?;
            self.pass.active()?;
            let refused = |why: &str| Answer::Refused { why: why.to_owned() };
            match ends::read::<Ask>(&text) {
                None => exchange.write(&ends::framed(&refused("it does not know that")))?,
                Some(ask) => match ask.bounded() {
                    Err(why) => exchange.write(&ends::framed(&refused(why)))?,
                    Ok(()) => self.one(ask, &mut exchange)?,
                },
            }
        }
        Err(ConversationEnd::TooMany)
    }

    /// So long from now, or when its time is up.
    fn soon(&self, ns: u64) -> u64 {
        monotonic_ns().saturating_add(ns).min(self.end_ns)
    }

    fn one(&mut self, ask: Ask, exchange: &mut Exchange<'_>) -> Result<(), ConversationEnd> {
        let ready = ends::framed(&Answer::Ready);
        match ask {
            Ask::View => {
                let stream = &self.guest.stream;
                let view = end::view(tcp_info(stream).as_ref(), stream.local(), stream.peer());
                exchange.write(&ends::framed(&Answer::View(view)))?;
            }
            Ask::Give { bytes } => {
                exchange.write(&ready)?;
                self.pieces(bytes as usize, exchange, |piece, exchange| exchange.write(piece))?;
            }
            Ask::Take { bytes } => {
                self.pieces(bytes as usize, exchange, |piece, exchange| exchange.read(piece))?;
                exchange.write(&ready)?;
            }
            Ask::Flows { token, count } => {
                let from = self.gather(token, count as usize)?;
                exchange.write(&ends::framed(&Answer::Flows { from }))?;
            }
            Ask::Say { sizes, wait_ms } => {
                let said = self.say(&sizes, wait_ms)?;
                exchange.write(&ends::framed(&said))?;
            }
            Ask::Hear { wait_ms } => {
                exchange.write(&ready)?;
                let sizes = self.hear(wait_ms)?;
                exchange.write(&ends::framed(&Answer::Heard { sizes }))?;
            }
        }
        Ok(())
    }

    /// Waits for the sockets of a client; where those come from that came.
    fn gather(
        &mut self,
        token: HelloToken,
        count: usize,
    ) -> Result<Vec<std::net::SocketAddr>, ConversationEnd> {
        self.flows.clear();
        self.pass.streams(count)?;
        let ip = self.guest.peer.ip().to_canonical();
        // By its token it is known; the cookie is only what it is kept under.
        let random = quell_sys::secret::nonce()?;
        let cookie = Cookie::from_random(&std::array::from_fn(|at| random[at % random.len()]));
        let Some(entry) = self.hub.expect(cookie, ip, Streams::Udp(Some(token)), count)? else {
            return Ok(Vec::new());
        };
        let mut alarm = Alarm::new()?;
        alarm.set(Some(self.soon(TEST.gather_ns)))?;
        let mut from = Vec::new();
        while self.flows.len() < count {
            for opened in entry.waiting.take()? {
                if let Opened::Udp(socket) = opened {
                    from.extend(socket.peer());
                    self.flows.push(socket);
                }
            }
            let mut fds = [
                readable(&entry.waiting.came),
                readable(self.hub.stop),
                readable(&alarm),
                ending(&self.guest.stream),
            ];
            if self.flows.len() == count {
                break;
            }
            wait(&mut fds)?;
            if came(&fds[3]) {
                return Err(ExchangeError::Closed.into());
            }
            if came(&fds[1]) || came(&fds[2]) {
                break;
            }
        }
        Ok(from)
    }

    /// Sends datagrams over the first flow; which went, and the MTUs that were told of meanwhile.
    fn say(&self, sizes: &[u32], wait_ms: u32) -> Result<Answer, ConversationEnd> {
        let (mut too_big, mut sent) = (Vec::new(), Vec::new());
        let Some(socket) = self.flows.first() else {
            return Ok(Answer::Said { too_big, sent });
        };
        let ipv6 = self.guest.peer.ip().to_canonical().is_ipv6();
        option::observe(socket.as_fd(), ipv6)?;
        hops::trace(socket.as_fd(), ipv6)?;
        drop(errors::path_errors(socket.as_fd()));
        let payload = [0; MOST.datagram as usize];
        for size in sizes {
            self.pay(*size as usize)?;
            // What is too large for the own device, or was told to be for another, stands in the queue of errors.
            let bytes = &payload[..(*size as usize).min(payload.len())];
            if socket.send(bytes).or_else(|_| socket.send(bytes)).is_ok() {
                sent.push(*size);
            }
        }
        self.wait_on(socket, wait_ms, |socket| {
            let told = errors::path_errors(socket.as_fd());
            let told = told.iter().filter(|error| error.errno == nix::errno::Errno::EMSGSIZE);
            too_big.extend(told.map(|error| error.report.mtu));
            let _ = option::get(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR);
        })?;
        Ok(Answer::Said { too_big, sent })
    }

    /// Sizes of what comes over the first flow for so long.
    fn hear(&self, wait_ms: u32) -> Result<Vec<u32>, ConversationEnd> {
        let Some(socket) = self.flows.first() else { return Ok(Vec::new()) };
        let mut inbox = Inbox::new(8, MOST.datagram as usize);
        let mut sizes = Vec::new();
        self.wait_on(socket, wait_ms, |socket| {
            // Who floods it does not keep it from looking at the time.
            for _ in 0..4 * ends::MOST.datagrams {
                let Ok(1..) = inbox.receive(socket.as_fd()) else { break };
                sizes.extend(inbox.iter().map(|(arrival, _)| arrival.size as u32));
                sizes.truncate(4 * ends::MOST.datagrams);
            }
        })?;
        Ok(sizes)
    }

    /// Does something whenever there is news of a socket, for so long; for a client that has gone, or was sent away, no longer.
    fn wait_on(
        &self,
        socket: &Udp,
        wait_ms: u32,
        mut look: impl FnMut(&Udp),
    ) -> Result<(), ConversationEnd> {
        let end = self.soon(u64::from(wait_ms) * 1_000_000);
        let mut alarm = Alarm::new()?;
        alarm.set(Some(end))?;
        loop {
            look(socket);
            let mut fds = [
                readable(&alarm),
                readable(self.hub.stop),
                readable(socket),
                ending(&self.guest.stream),
            ];
            wait(&mut fds)?;
            if came(&fds[1]) {
                return Err(ExchangeError::Stopped.into());
            }
            if came(&fds[3]) {
                return Err(ExchangeError::Closed.into());
            }
            if came(&fds[0]) {
                look(socket);
                return Ok(());
            }
        }
    }

    /// Moves so many bytes a piece at a time, each when it may: who waits for its turn has not fallen silent.
    fn pieces<'e>(
        &self,
        bytes: usize,
        exchange: &mut Exchange<'e>,
        mut each: impl FnMut(&mut [u8], &mut Exchange<'e>) -> Result<(), ExchangeError>,
    ) -> Result<(), ConversationEnd> {
        for piece in vec![0; bytes].chunks_mut(self.throttle.most().unwrap_or(usize::MAX)) {
            self.pay(piece.len())?;
            exchange.until(Some(self.soon(self.hub.limits.handshake_ns)))?;
            each(piece, exchange)?;
        }
        Ok(())
    }

    /// Waits until so many bytes may move, while the client is there and has time.
    fn pay(&self, bytes: usize) -> Result<(), ConversationEnd> {
        match self.hub.pause(&self.guest.stream, &self.throttle, bytes, self.end_ns) {
            Ok(()) => Ok(()),
            Err(Errno::ECANCELED) => Err(ExchangeError::Stopped.into()),
            Err(Errno::ETIMEDOUT) => Err(ConversationEnd::TooLong),
            Err(_) => Err(ExchangeError::Closed.into()),
        }
    }
}
