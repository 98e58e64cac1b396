//! The sockets of one flow: what is sent has a TTL of its own, what comes back is told in one form.

use crate::stream_socket::MOST_BATCHES;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::hops::{self, SynEnd};
use quell_sys::socket::option::{set_tos, set_ttl};
use quell_sys::socket::{EchoSocket, ErrorQueue, Inbox, PathError, Syn, Udp, Way, errors};
use quell_wire::hop_probe::{EchoFlow, Quote, UdpFlow};
use quell_wire::icmp_error::{self, IcmpError, Label, Meaning};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// So long after a SYN the kernel sends it again soon: then it is looked whether anything came for it, and one to a hop that keeps silent is given up.
pub const BEFORE_AGAIN_NS: u64 = 950_000_000;
/// Of paths that take no longer, all that comes for the first SYN has come by then.
pub const QUICK_NS: u64 = BEFORE_AGAIN_NS / 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopPacket {
    pub number: u64,
    pub ttl: u8,
    pub tos: u8,
    pub size: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HopReply {
    pub about: Quote,
    /// Who sent it; none where this host itself said so.
    pub from: Option<IpAddr>,
    pub what: ReplyKind,
    /// The MTU that a message about a packet that was too big tells.
    pub mtu: u32,
    pub ttl: Option<u8>,
    pub stamp_ns: Option<u64>,
    pub labels: Vec<Label>,
    /// Where the kernel had sent its SYN again: whether the first was answered, if that is known. None where only the first can be what was answered.
    pub again: Option<RepeatedSyn>,
}

/// An answer to a SYN that the kernel had sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepeatedSyn {
    /// Whether it is the answer to the first, as its timestamp says; none where it has none.
    pub is_to_first: Option<bool>,
    /// Whether it says nothing of the first, since that may have met the connection before it, of which the other end did not hear that it is over: then it is sent
    /// again at once (`tcp_rcv_synsent_state_process`, net/ipv4/tcp_input.c).
    pub is_disturbed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyKind {
    Answer,
    Error(Meaning),
}

/// What of a SYN met the connection before it, of which the other end did not hear that it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynCollision {
    Nothing,
    /// Only when it was sent again, where the path [is quick](QUICK_NS).
    SentAgain,
    Any,
}

#[derive(Debug)]
pub enum FlowSocket {
    Udp { socket: Udp, flow: UdpFlow },
    Echo { socket: EchoSocket, flow: EchoFlow },
    Tcp(Syns),
}

/// The SYNs of a flow, one at a time from the same port.
#[derive(Debug)]
pub struct Syns {
    to: SocketAddr,
    way: Way,
    port: u16,
    open: Option<OpenSyn>,
}

#[derive(Debug)]
struct OpenSyn {
    number: u64,
    sent_ns: u64,
    syn: Syn,
    /// Whether nothing had come when that was looked at; none before.
    was_quiet: Option<bool>,
}

impl FlowSocket {
    /// `secret` is what answers bring back.
    pub fn udp(to: SocketAddr, way: &Way, port: u16, secret: u64) -> Result<Self, SysError> {
        let socket = hops::udp(to, way, port)?;
        hops::trace(socket.as_fd(), to.is_ipv6())?;
        let flow = UdpFlow { from: socket.local()?, to, secret };
        Ok(Self::Udp { socket, flow })
    }

    /// `secret` is what answers bring back; `identifier` counts where the kernel does not choose one.
    pub fn echo(
        to: IpAddr,
        way: &Way,
        (flow, identifier): (u16, u16),
        secret: u64,
    ) -> Result<Self, SysError> {
        let socket = EchoSocket::open_by(to, 0, identifier, way)?;
        hops::trace(socket.as_fd(), to.is_ipv6())?;
        let (ipv6, identifier) = (socket.is_ipv6(), socket.identifier());
        let flow = EchoFlow { ipv6, identifier, flow, secret };
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
            Self::Udp { flow, .. } => flow.from.port(),
            Self::Echo { socket, .. } => socket.identifier(),
            Self::Tcp(syns) => syns.port,
        }
    }

    /// What to wait for; none while nothing can come.
    pub fn awaits(&self) -> Option<PollFd<'_>> {
        match self {
            Self::Udp { socket, .. } => Some(PollFd::new(socket.as_fd(), PollFlags::POLLIN)),
            Self::Echo { socket, .. } => Some(PollFd::new(socket.as_fd(), PollFlags::POLLIN)),
            Self::Tcp(Syns { open, .. }) => {
                open.as_ref().map(|open| PollFd::new(open.syn.as_fd(), PollFlags::POLLOUT))
            }
        }
    }

    /// Sends; right before that is told, in nanoseconds of the monotonic clock.
    pub fn send(&mut self, ipv6: bool, packet: HopPacket) -> Result<u64, Errno> {
        let HopPacket { number, ttl, tos, size } = packet;
        match self {
            Self::Udp { socket, flow } => {
                prepare(socket.as_fd(), ipv6, ttl, tos)?;
                let payload = flow.datagram(number, size);
                let now_ns = monotonic_ns();
                socket.send(&payload).map(|()| now_ns)
            }
            Self::Echo { socket, flow } => {
                prepare(socket.as_fd(), ipv6, ttl, tos)?;
                let message = flow.request(number, size);
                let now_ns = monotonic_ns();
                socket.send(&message).map(|()| now_ns)
            }
            Self::Tcp(syns) => {
                syns.open = None;
                let now_ns = monotonic_ns();
                let syn = Syn::send(syns.to, syns.port, ttl, tos, &syns.way)
                    .map_err(|error| error.errno)?;
                syns.open = Some(OpenSyn { number, sent_ns: now_ns, syn, was_quiet: None });
                Ok(now_ns)
            }
        }
    }

    /// Nobody waits for this packet any more. What of it met the connection before it.
    pub fn give_up(&mut self, number: u64) -> SynCollision {
        let Self::Tcp(syns) = self else { return SynCollision::Nothing };
        match syns.open.take_if(|open| open.number == number) {
            Some(open) if open.syn.handshake().received > 0 => match open.was_quiet {
                Some(true) => SynCollision::SentAgain,
                _ => SynCollision::Any,
            },
            _ => SynCollision::Nothing,
        }
    }

    /// When to [look](Self::look) at what is under way; none where there is nothing to see then.
    pub fn look_ns(&self) -> Option<u64> {
        let Self::Tcp(Syns { open: Some(open), .. }) = self else { return None };
        open.was_quiet.is_none().then_some(open.sent_ns + BEFORE_AGAIN_NS)
    }

    /// Looks at what is under way, if it is time.
    pub fn look(&mut self, now_ns: u64) {
        let is_time = self.look_ns().is_some_and(|look_ns| now_ns >= look_ns);
        if let Self::Tcp(Syns { open: Some(open), .. }) = self
            && is_time
        {
            let handshake = open.syn.handshake();
            open.was_quiet = Some(handshake.received == 0 && handshake.repeated == 0);
        }
    }

    /// Whether its end is known though nothing was waited for.
    pub fn ended_at_once(&self) -> bool {
        matches!(self, Self::Tcp(Syns { open: Some(open), .. }) if open.syn.ended_at_once())
    }

    /// Takes all that came; `next` is the number of the next packet.
    pub fn take(&mut self, queue: &mut ErrorQueue, inbox: &mut Inbox, next: u64) -> Vec<HopReply> {
        let mut came = Vec::new();
        let mut errors = |fd: BorrowedFd<'_>| {
            let mut errors = Vec::new();
            queue.take(fd, |told| {
                if let errors::ErrorQueueEntry::Error(error) = told {
                    errors.push(error);
                }
            });
            errors
        };
        match self {
            Self::Udp { socket, flow } => {
                let found = errors(socket.as_fd());
                came.extend(found.iter().map(|error| {
                    let extension = error.report.extension;
                    let quoted = &error.quoted[..extension.unwrap_or(error.quoted.len())];
                    from_path(error, flow.quoted_before(quoted, extension.is_some(), next))
                }));
                for _ in 0..MOST_BATCHES {
                    let Ok(1..) = inbox.receive(socket.as_fd()) else { break };
                    came.extend(inbox.iter().map(|(arrival, bytes)| HopReply {
                        about: whole(flow.quoted(bytes, next)),
                        from: arrival.from.map(|from| from.ip()),
                        ttl: arrival.ttl,
                        stamp_ns: arrival.stamp_ns,
                        ..HopReply::answer()
                    }));
                }
            }
            Self::Echo { socket, flow } => {
                for found in errors(socket.as_fd()) {
                    let number = flow.quoted(&found.quoted, next);
                    // A raw socket is told of others' errors too, and anybody may make one up.
                    if number.is_some() || !found.from_path {
                        came.push(from_path(&found, number.map_or(Quote::Short, Quote::Number)));
                    }
                }
                for _ in 0..MOST_BATCHES {
                    let Ok(1..) = inbox.receive(socket.as_fd()) else { break };
                    for (arrival, bytes) in inbox.iter() {
                        let number = socket.message(bytes).and_then(|m| flow.answered(m, next));
                        let Some(number) = number else { continue };
                        came.push(HopReply {
                            about: Quote::Number(number),
                            from: arrival.from.map(|from| from.ip()),
                            ttl: arrival.ttl,
                            stamp_ns: arrival.stamp_ns,
                            ..HopReply::answer()
                        });
                    }
                }
            }
            Self::Tcp(syns) => {
                let Some(open) = syns.open.take() else { return came };
                let found = errors(open.syn.as_fd());
                let first = found.iter().find(|error| error.from_path);
                came.push(syns.read(&open, first, monotonic_ns()));
            }
        }
        came
    }

    /// Which packet of this flow a raw socket saw quoted, if any.
    pub fn recognise(&self, error: &IcmpError<'_>, next: u64) -> Option<u64> {
        let rest = error.quoted.rest;
        match (self, error.quoted.protocol) {
            (Self::Udp { flow, .. }, 17)
                if error.quoted.ports()? == (flow.from.port(), flow.to.port()) =>
            {
                match flow.quoted_before(rest.get(8..)?, error.extension.is_some(), next) {
                    Quote::Number(number) => Some(number),
                    Quote::Short | Quote::Wrong => None,
                }
            }
            (Self::Echo { flow, .. }, 1 | 58) => flow.quoted(rest, next),
            _ => None,
        }
    }
}

impl Syns {
    /// What became of a SYN, now that there is something to know: the error about it, or its end.
    fn read(&mut self, open: &OpenSyn, error: Option<&PathError>, now_ns: u64) -> HopReply {
        let OpenSyn { number, sent_ns, syn, was_quiet } = open;
        let handshake = syn.handshake();
        let again = |is_to_first, is_disturbed| {
            (handshake.repeated > 0).then_some(RepeatedSyn { is_to_first, is_disturbed })
        };
        // Taking it from the queue clears the socket's own (`sock_dequeue_err_skb`, net/core/skbuff.c). Which of them it quotes nobody knows.
        if let Some(found) = error {
            let again = again(None, handshake.received > 0);
            return HopReply { again, ..from_path(found, Quote::Number(*number)) };
        }
        let about = Quote::Number(*number);
        match syn.end() {
            SynEnd::Reached | SynEnd::Failed(Errno::ECONNREFUSED) => {
                let is_to_first = handshake.is_answer_to_first(now_ns.saturating_sub(*sent_ns));
                // What came for the first would have come by then. One is the answer.
                let is_quick = handshake.rtt_ns.is_some_and(|rtt_ns| rtt_ns < QUICK_NS);
                let was_quiet = was_quiet.unwrap_or(false) && is_quick;
                let is_disturbed = handshake.received > 1 && !was_quiet;
                HopReply {
                    about,
                    from: Some(self.to.ip()),
                    again: again(is_to_first, is_disturbed),
                    ..HopReply::answer()
                }
            }
            SynEnd::Failed(_) => {
                HopReply { about, what: ReplyKind::Error(Meaning::Other), ..HopReply::answer() }
            }
        }
    }
}

impl HopReply {
    pub fn answer() -> Self {
        let labels = Vec::new();
        Self {
            about: Quote::Wrong,
            from: None,
            what: ReplyKind::Answer,
            mtu: 0,
            ttl: None,
            stamp_ns: None,
            labels,
            again: None,
        }
    }
}

/// Which packet somebody sent back: who had it has all of it.
fn whole(quote: Quote) -> Quote {
    match quote {
        Quote::Short => Quote::Wrong,
        known => known,
    }
}

fn from_path(error: &PathError, about: Quote) -> HopReply {
    let report = error.report;
    let ipv6 = report.from.is_some_and(|from| from.is_ipv6());
    let meaning = match (error.from_path, error.errno) {
        (true, _) => icmp_error::meaning(ipv6, report.kind, report.code),
        (false, Errno::EMSGSIZE) => Meaning::TooBig,
        (false, _) => Meaning::Other,
    };
    let extension = report.extension.and_then(|place| error.quoted.get(place..));
    HopReply {
        about,
        from: report.from,
        what: ReplyKind::Error(meaning),
        mtu: report.mtu,
        ttl: report.ttl,
        stamp_ns: report.stamp_ns,
        labels: extension.map(icmp_error::labels).unwrap_or_default(),
        again: None,
    }
}

fn prepare(fd: BorrowedFd<'_>, ipv6: bool, ttl: u8, tos: u8) -> Result<(), Errno> {
    set_ttl(fd, ipv6, ttl).and_then(|()| set_tos(fd, ipv6, tos)).map_err(|e| e.errno)
}
