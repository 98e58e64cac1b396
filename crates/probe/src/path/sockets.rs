//! The sockets of one flow: what is sent has a TTL of its own, what comes back is told in one form.

use crate::stream_socket::MOST_BATCHES;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::hops::{self, SynEnd};
use quell_sys::socket::option::{set_tos, set_ttl};
use quell_sys::socket::{EchoSocket, ErrorQueue, Inbox, PathError, Syn, Udp, Way, errors};
use quell_wire::icmp_error::{self, IcmpError, Label, Meaning};
use quell_wire::{hop_probe, icmp};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// What is sent to a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    pub number: u64,
    pub ttl: u8,
    pub tos: u8,
    /// Bytes of payload.
    pub size: usize,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Came {
    /// Of which packet, where that is known.
    pub number: Option<u64>,
    /// Who sent it; none where this host itself said so.
    pub from: Option<IpAddr>,
    pub what: What,
    /// The MTU that a message about a packet that was too big tells.
    pub mtu: u32,
    /// Its TTL when it arrived.
    pub ttl: Option<u8>,
    /// When it arrived, in nanoseconds of the wall clock.
    pub stamp_ns: Option<u64>,
    pub labels: Vec<Label>,
}

/// What it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The other end answered.
    Answer,
    /// An error.
    Error(Meaning),
}

/// A flow's socket.
#[derive(Debug)]
pub enum FlowSocket {
    Udp(Udp),
    Echo { socket: EchoSocket, flow: u16 },
    Tcp(Syns),
}

/// The SYNs of a flow, one at a time from the same port.
#[derive(Debug)]
pub struct Syns {
    to: SocketAddr,
    way: Way,
    port: u16,
    open: Option<(u64, Syn)>,
}

impl FlowSocket {
    pub fn udp(to: SocketAddr, way: &Way, port: u16) -> Result<Self, SysError> {
        let udp = hops::udp(to, way, port)?;
        hops::trace(udp.as_fd(), to.is_ipv6())?;
        Ok(Self::Udp(udp))
    }

    pub fn echo(to: IpAddr, way: &Way, flow: u16, identifier: u16) -> Result<Self, SysError> {
        let socket = EchoSocket::open_by(to, 0, identifier, way)?;
        hops::trace(socket.as_fd(), to.is_ipv6())?;
        Ok(Self::Echo { socket, flow })
    }

    /// A free port is found by a datagram socket, which tells too whether there is a route.
    pub fn tcp(to: SocketAddr, way: &Way, port: u16) -> Result<Self, SysError> {
        let found = hops::udp(to, way, port)?.local()?;
        let port = if port == 0 { found.port() } else { port };
        Ok(Self::Tcp(Syns { to, way: way.clone(), port, open: None }))
    }

    /// The port or identifier by which routers know the flow.
    pub fn port(&self) -> u16 {
        match self {
            Self::Udp(udp) => udp.local().map_or(0, |own| own.port()),
            Self::Echo { socket, .. } => socket.identifier(),
            Self::Tcp(syns) => syns.port,
        }
    }

    /// What to wait for; none while nothing can come.
    pub fn awaits(&self) -> Option<PollFd<'_>> {
        match self {
            Self::Udp(udp) => Some(PollFd::new(udp.as_fd(), PollFlags::POLLIN)),
            Self::Echo { socket, .. } => Some(PollFd::new(socket.as_fd(), PollFlags::POLLIN)),
            Self::Tcp(Syns { open, .. }) => {
                open.as_ref().map(|(_, syn)| PollFd::new(syn.as_fd(), PollFlags::POLLOUT))
            }
        }
    }

    /// Sends; right before that is told, in nanoseconds of the monotonic clock.
    pub fn send(&mut self, ipv6: bool, packet: Packet) -> Result<u64, Errno> {
        let Packet { number, ttl, tos, size } = packet;
        match self {
            Self::Udp(udp) => {
                prepare(udp.as_fd(), ipv6, ttl, tos)?;
                let payload = hop_probe::datagram(number, size);
                let now_ns = monotonic_ns();
                udp.send(&payload).map(|()| now_ns)
            }
            Self::Echo { socket, flow } => {
                prepare(socket.as_fd(), ipv6, ttl, tos)?;
                let message = hop_probe::echo(ipv6, socket.identifier(), *flow, number, size);
                let now_ns = monotonic_ns();
                socket.send(&message).map(|()| now_ns)
            }
            Self::Tcp(syns) => {
                syns.open = None;
                let now_ns = monotonic_ns();
                let syn = Syn::send(syns.to, syns.port, ttl, tos, &syns.way)
                    .map_err(|error| error.errno)?;
                syns.open = Some((number, syn));
                Ok(now_ns)
            }
        }
    }

    /// Nobody waits for this packet any more.
    pub fn give_up(&mut self, number: u64) {
        if let Self::Tcp(syns) = self
            && syns.open.as_ref().is_some_and(|(open, _)| *open == number)
        {
            syns.open = None;
        }
    }

    /// Whether its end is known though nothing was waited for.
    pub fn ended_at_once(&self) -> bool {
        matches!(self, Self::Tcp(Syns { open: Some((_, syn)), .. }) if syn.ended_at_once())
    }

    /// Takes all that came; `next` is the number of the next packet.
    pub fn take(&mut self, queue: &mut ErrorQueue, inbox: &mut Inbox, next: u64) -> Vec<Came> {
        let mut came = Vec::new();
        let mut errors = |fd: BorrowedFd<'_>| {
            let mut errors = Vec::new();
            queue.take(fd, |told| {
                if let errors::Told::Error(error) = told {
                    errors.push(error);
                }
            });
            errors
        };
        match self {
            Self::Udp(udp) => {
                let found = errors(udp.as_fd());
                came.extend(found.iter().map(|e| error(e, hop_probe::number(&e.quoted))));
                for _ in 0..MOST_BATCHES {
                    let Ok(1..) = inbox.receive(udp.as_fd()) else { break };
                    came.extend(inbox.iter().map(|(arrival, bytes)| Came {
                        number: hop_probe::number(bytes),
                        from: arrival.from.map(|from| from.ip()),
                        ttl: arrival.ttl,
                        stamp_ns: arrival.stamp_ns,
                        ..Came::answer()
                    }));
                }
            }
            Self::Echo { socket, .. } => {
                let (ipv6, own) = (socket.is_ipv6(), socket.identifier());
                for found in errors(socket.as_fd()) {
                    let quoted = icmp::quoted_request(ipv6, &found.quoted);
                    let quoted = quoted.filter(|quoted| quoted.identifier == own);
                    let number = quoted.and_then(|q| icmp::widen16(q.short_seq, next));
                    // A raw socket is told of others' errors too.
                    if number.is_some() || !found.from_path {
                        came.push(error(&found, number));
                    }
                }
                for _ in 0..MOST_BATCHES {
                    let Ok(1..) = inbox.receive(socket.as_fd()) else { break };
                    for (arrival, bytes) in inbox.iter() {
                        let reply = socket.message(bytes).and_then(|m| icmp::reply(ipv6, m));
                        let reply = reply.filter(|reply| reply.identifier == own);
                        let Some(reply) = reply else { continue };
                        came.push(Came {
                            number: icmp::widen16(reply.short_seq, next),
                            from: arrival.from.map(|from| from.ip()),
                            ttl: arrival.ttl,
                            stamp_ns: arrival.stamp_ns,
                            ..Came::answer()
                        });
                    }
                }
            }
            Self::Tcp(syns) => {
                let Some((number, syn)) = syns.open.take() else { return came };
                let found = errors(syn.as_fd());
                let first = found.iter().find(|error| error.from_path);
                came.push(match (first, syn.end()) {
                    // Taking it from the queue clears the socket's own (`sock_dequeue_err_skb`, net/core/skbuff.c).
                    (Some(found), _) => error(found, Some(number)),
                    (None, SynEnd::Reached | SynEnd::Failed(Errno::ECONNREFUSED)) => {
                        let from = Some(syns.to.ip());
                        Came { number: Some(number), from, ..Came::answer() }
                    }
                    (None, SynEnd::Failed(_)) => Came {
                        number: Some(number),
                        what: What::Error(Meaning::Other),
                        ..Came::answer()
                    },
                });
            }
        }
        came
    }

    /// The number of the packet of this flow that a raw socket saw quoted; the length of its payload where it is known by that alone.
    pub fn recognise(&self, ipv6: bool, error: &IcmpError<'_>, next: u64) -> Option<Known> {
        let rest = error.quoted.rest;
        match (self, error.quoted.protocol) {
            (Self::Udp(_), 17) if error.quoted.ports()?.0 == self.port() => {
                Some(match hop_probe::of_udp(rest)? {
                    (_, Some(number)) => Known::Number(number),
                    (length, None) => Known::Length(length),
                })
            }
            (Self::Echo { socket, .. }, 1 | 58) => {
                let quoted = icmp::quoted_request(ipv6, rest)?;
                let ours = quoted.identifier == socket.identifier();
                ours.then_some(Known::Number(icmp::widen16(quoted.short_seq, next)?))
            }
            (Self::Tcp(syns), 6) if error.quoted.ports()?.0 == syns.port => {
                syns.open.as_ref().map(|(number, _)| Known::Number(*number))
            }
            _ => None,
        }
    }
}

/// How a quoted packet is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// By its number.
    Number(u64),
    /// By the length of its payload.
    Length(usize),
}

impl Came {
    fn answer() -> Self {
        let labels = Vec::new();
        Self {
            number: None,
            from: None,
            what: What::Answer,
            mtu: 0,
            ttl: None,
            stamp_ns: None,
            labels,
        }
    }
}

fn error(error: &PathError, number: Option<u64>) -> Came {
    let report = error.report;
    let ipv6 = report.from.is_some_and(|from| from.is_ipv6());
    let meaning = match (error.from_path, error.errno) {
        (true, _) => icmp_error::meaning(ipv6, report.kind, report.code),
        (false, Errno::EMSGSIZE) => Meaning::TooBig,
        (false, _) => Meaning::Other,
    };
    let extension = report.extension.and_then(|place| error.quoted.get(place..));
    Came {
        number,
        from: report.from,
        what: What::Error(meaning),
        mtu: report.mtu,
        ttl: report.ttl,
        stamp_ns: report.stamp_ns,
        labels: extension.map(icmp_error::labels).unwrap_or_default(),
    }
}

fn prepare(fd: BorrowedFd<'_>, ipv6: bool, ttl: u8, tos: u8) -> Result<(), Errno> {
    set_ttl(fd, ipv6, ttl).and_then(|()| set_tos(fd, ipv6, tos)).map_err(|e| e.errno)
}
