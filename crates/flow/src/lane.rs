//! One stream of a test at this end: its socket, what moves its data, and what was counted.

use crate::talk::{Talk, reach};
use crate::{FlowError, Plan, Transport};
use nix::errno::Errno;
use nix::sys::socket::{SockaddrStorage, getsockname};
use quell_load::bulk::{
    Copying, Ended, Limit, Tally, TcpReceiving, TcpSending, UdpReceiving, UdpSending, UdpTally,
    tcp_receive, tcp_send, udp_receive, udp_send,
};
use quell_load::look;
use quell_stats::LogHistogram;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::Udp;
use quell_sys::socket::bulk::prepare_receiving;
use quell_sys::socket::exchange::Exchange;
use quell_sys::socket::option::{get, set};
use quell_sys::socket::preface::prove;
use quell_sys::socket::stream::{Stream, StreamOptions};
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_wire::auth::{OPENING, PROOF};
use quell_wire::iperf3::{Hello, Moment, stream_id};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

/// How often a UDP server is greeted before it counts as unreachable, and how long each greeting waits.
const GREETINGS: u64 = 5;
const GREETING_NS: u64 = 1_000_000_000;

/// One stream.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Its number: 1, 3, 4 …
    pub id: u32,
    /// Whether this end sends.
    pub sends: bool,
    /// The own address.
    pub local: SocketAddr,
    pub remote: SocketAddr,
    socket: Socket,
    moved: Moved,
    /// What the kernel counted as acknowledged before the first byte of data.
    acked_before: u64,
    ended: Mutex<Option<Result<Ended, SysError>>>,
}

#[derive(Debug)]
enum Socket {
    Tcp(Stream),
    Udp(Udp),
}

#[derive(Debug)]
enum Moved {
    /// Over TCP, or datagrams sent.
    Bytes(Tally),
    /// Datagrams received.
    Datagrams(Box<UdpTally>),
}

/// What was counted up to a moment, from the stream's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark {
    /// Bytes (of a TCP sender those that the other end acknowledged), and what the kernel said of the connection.
    pub moment: Moment,
    /// Receiver of datagrams: numbers that were seen or skipped.
    pub expected: u64,
    /// Receiver of datagrams: jitter (RFC 3550) in nanoseconds.
    pub jitter_ns: u64,
    /// Arrived behind a later one.
    pub reordered: u64,
    /// Further copies.
    pub duplicates: u64,
    /// Dropped by this host's own socket.
    pub socket_dropped: u64,
    /// Sender of datagrams: refused by a queue of this host.
    pub refused: u64,
}

impl Mark {
    /// Counts since an earlier mark; states stay those of now.
    pub fn since(&self, before: &Self) -> Self {
        let less = u64::saturating_sub;
        let (now, then) = (&self.moment, &before.moment);
        Self {
            moment: Moment {
                bytes: less(now.bytes, then.bytes),
                packets: less(now.packets, then.packets),
                lost: less(self.expected, before.expected)
                    .saturating_sub(less(now.packets, then.packets)),
                retransmits: less(now.retransmits, then.retransmits),
                acked: less(now.acked, then.acked),
                busy_us: less(now.busy_us, then.busy_us),
                window_limited_us: less(now.window_limited_us, then.window_limited_us),
                buffer_limited_us: less(now.buffer_limited_us, then.buffer_limited_us),
                out_of_order: less(now.out_of_order, then.out_of_order),
                marked: less(now.marked, then.marked),
                ..*now
            },
            expected: less(self.expected, before.expected),
            reordered: less(self.reordered, before.reordered),
            duplicates: less(self.duplicates, before.duplicates),
            socket_dropped: less(self.socket_dropped, before.socket_dropped),
            refused: less(self.refused, before.refused),
            jitter_ns: self.jitter_ns,
        }
    }
}

/// What moves a lane's data.
pub(crate) struct Move<'a> {
    pub block: u64,
    pub limit: Limit,
    /// Rings when senders have to stop.
    pub halt: &'a Bell,
    /// Rings when all is over.
    pub over: &'a Bell,
}

impl Lane {
    /// Opens the stream with this place: connected and known to the server.
    pub fn open(place: usize, plan: &Plan, talk: &Talk, stop: &Bell) -> Result<Self, FlowError> {
        match plan.transport {
            Transport::Tcp => Self::tcp(place, plan, talk, stop),
            Transport::Udp => Self::udp(place, plan, stop),
        }
    }

    fn tcp(place: usize, plan: &Plan, talk: &Talk, stop: &Bell) -> Result<Self, FlowError> {
        let options = StreamOptions {
            tos: plan.tos,
            congestion: plan.congestion_of(place).cloned(),
            pacing: plan.pacing.map(|bits| (bits / 8).max(1)),
            window: plan.window.map(|w| u32::try_from(w).unwrap_or(u32::MAX)),
            mss: plan.mss,
        };
        let stream = Stream::new(plan.to.is_ipv6(), &options)?;
        plan.way.apply(stream.as_fd(), plan.to.is_ipv6())?;
        if let Some(window) = plan.window {
            send_buffer(stream.as_fd(), window)?;
        }
        if plan.nodelay {
            set(stream.as_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1, "TCP_NODELAY")?;
        }
        let stream = reach(stream, plan.to, stop)?;
        // The handshake counts as a byte on some kernels; then the cookie.
        let handshake = look::tcp_info(&stream).and_then(|info| info.bytes_acked).unwrap_or(0);
        let mut acked_before = handshake + talk.cookie.bytes().len() as u64;
        let deadline = monotonic_ns() + crate::talk::ANSWER_S * 1_000_000_000;
        let mut exchange = Exchange::new(&stream, Some(deadline), stop)?;
        if let Some(secret) = &plan.secret {
            // Who saw the cookie on its way shall not be taken for us.
            prove(&mut exchange, secret)?;
            acked_before += (OPENING + PROOF) as u64;
        }
        exchange.write(talk.cookie.bytes()).map_err(|e| {
            FlowError::from_exchange(e, plan.to, "when a stream was opened", crate::talk::ANSWER_S)
        })?;
        let lane = Self::new(place, plan, Socket::Tcp(stream), Moved::Bytes(Tally::new()));
        Ok(Self { acked_before, ..lane })
    }

    fn udp(place: usize, plan: &Plan, stop: &Bell) -> Result<Self, FlowError> {
        let socket = Udp::connected_by(plan.to, plan.tos, &plan.way)?;
        let sends = plan.sends(place);
        if let Some(window) = plan.window {
            send_buffer(socket.as_fd(), window)?;
        }
        if !sends {
            prepare_receiving(socket.as_fd(), UdpReceiving::default().buffer, true);
        }
        greet(&socket, plan.to, stop)?;
        let moved = match sends {
            true => Moved::Bytes(Tally::new()),
            false => Moved::Datagrams(Box::new(UdpTally::new())),
        };
        Ok(Self::new(place, plan, Socket::Udp(socket), moved))
    }

    fn new(place: usize, plan: &Plan, socket: Socket, moved: Moved) -> Self {
        let mut lane = Self {
            id: stream_id(place),
            sends: plan.sends(place),
            local: SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            remote: plan.to,
            socket,
            moved,
            acked_before: 0,
            ended: Mutex::default(),
        };
        if let Some(local) = local(lane.fd()) {
            lane.local = local;
        }
        lane
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Udp(socket) => socket.as_fd(),
        }
    }

    /// The descriptor's number, by which iperf3 names a stream.
    pub fn number(&self) -> i32 {
        self.fd().as_raw_fd()
    }

    /// Moves data until its limit, or until a bell of `how` rings. Blocks.
    pub fn work(&self, plan: &Plan, how: &Move<'_>) {
        let ended = self.moving(plan, how);
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
    }

    fn moving(&self, plan: &Plan, how: &Move<'_>) -> Result<Ended, SysError> {
        let limit = how.limit;
        match (&self.socket, &self.moved) {
            (Socket::Tcp(stream), Moved::Bytes(tally)) if self.sends => {
                let pacing = plan.pacing.map(|bits| (bits / 8).max(1));
                let copying = if plan.zero_copy { Copying::None } else { Copying::Once };
                let block = how.block as usize;
                let what = TcpSending { block, limit, rate: plan.rate, pacing, copying };
                tcp_send(stream, &what, tally, how.halt)
            }
            (Socket::Tcp(stream), Moved::Bytes(tally)) => {
                tcp_receive(stream, &TcpReceiving { limit }, tally, how.over)
            }
            (Socket::Udp(socket), Moved::Bytes(tally)) => {
                let what = UdpSending {
                    size: how.block as usize,
                    rate: plan.rate,
                    limit,
                    header: quell_load::bulk::UdpHeader::Bits32,
                    trains: plan.rate.is_none(),
                };
                udp_send(socket, &what, tally, how.halt)
            }
            (Socket::Udp(socket), Moved::Datagrams(tally)) => {
                let buffer = plan.window.map_or(UdpReceiving::default().buffer, |w| w as usize);
                let what = UdpReceiving { limit, buffer, ..UdpReceiving::default() };
                udp_receive(socket, &what, tally, how.over)
            }
            // Only sockets for datagrams are given a tally of datagrams.
            (Socket::Tcp(_), Moved::Datagrams(_)) => Ok(Ended::Done),
        }
    }

    /// How it ended, if it did.
    pub fn ended(&self) -> Option<Result<Ended, SysError>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was counted up to now; `t_ns` is now.
    pub fn mark(&self, t_ns: i64) -> Mark {
        match (&self.socket, &self.moved) {
            (Socket::Tcp(stream), Moved::Bytes(tally)) => {
                let mut moment = look::moment(stream, t_ns, tally.bytes());
                if self.sends && moment.acked > 0 {
                    // What waits in this host's buffer has gone nowhere yet.
                    let acked = moment.acked.saturating_sub(self.acked_before);
                    moment.bytes = moment.bytes.min(acked);
                }
                Mark { moment, ..Mark::default() }
            }
            (_, Moved::Bytes(tally)) => Mark {
                moment: Moment {
                    t_ns,
                    bytes: tally.bytes(),
                    packets: tally.packets(),
                    ..Moment::default()
                },
                expected: tally.packets(),
                refused: tally.refused(),
                ..Mark::default()
            },
            (_, Moved::Datagrams(tally)) => {
                let counts = tally.counts();
                Mark {
                    moment: Moment {
                        t_ns,
                        bytes: counts.bytes,
                        packets: counts.packets,
                        lost: counts.lost(),
                        ..Moment::default()
                    },
                    expected: counts.sent,
                    jitter_ns: counts.jitter_ns,
                    reordered: counts.reordered,
                    duplicates: counts.duplicates,
                    socket_dropped: counts.socket_drops,
                    refused: 0,
                }
            }
        }
    }

    /// Bytes and datagrams that were handed to the kernel, or received, acknowledged or not, from the stream's start.
    pub fn moved(&self) -> (u64, u64) {
        match &self.moved {
            Moved::Bytes(tally) => (tally.bytes(), tally.packets()),
            Moved::Datagrams(tally) => {
                let counts = tally.counts();
                (counts.bytes, counts.packets)
            }
        }
    }

    /// Times between arrivals up to now; none for TCP and for senders.
    pub fn gaps(&self) -> Option<LogHistogram> {
        match &self.moved {
            Moved::Datagrams(tally) => Some(tally.gaps()),
            Moved::Bytes(_) => None,
        }
    }

    /// Whether the other end has acknowledged everything; a connection that is gone will never.
    pub fn all_acknowledged(&self) -> bool {
        match &self.socket {
            Socket::Tcp(stream) => look::all_acknowledged(stream).unwrap_or(true),
            Socket::Udp(_) => true,
        }
    }

    /// Send and receive buffer that the socket got, in bytes as the kernel counts them.
    pub fn buffers(&self) -> (Option<u64>, Option<u64>) {
        look::buffers(self.fd())
    }

    /// The congestion control that it uses.
    pub fn congestion(&self) -> Option<String> {
        match &self.socket {
            Socket::Tcp(stream) => look::congestion(stream.as_fd()),
            Socket::Udp(_) => None,
        }
    }

    /// The segment size of its connection.
    pub fn mss(&self) -> Option<u32> {
        match &self.socket {
            Socket::Tcp(stream) => look::tcp_info(stream).map(|info| info.snd_mss),
            Socket::Udp(_) => None,
        }
    }

    /// Ends it at once: what waits to be sent is thrown away.
    pub fn close(&self) {
        if let Socket::Tcp(stream) = &self.socket {
            stream.abort();
        }
    }
}

fn send_buffer(fd: BorrowedFd<'_>, bytes: u64) -> Result<(), SysError> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    if set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes, "the send buffer").is_ok() {
        return Ok(());
    }
    set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes, "the send buffer")?;
    let got = get(fd, libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap_or(0);
    if got / 2 < bytes {
        let tried = format!("set the send buffer to {bytes} bytes; the system allows {}", got / 2);
        return Err(SysError::new(tried, Errno::EPERM)
            .advise("raise sysctl net.core.wmem_max, or run with CAP_NET_ADMIN"));
    }
    Ok(())
}

/// Says hello until the server answers.
fn greet(socket: &Udp, to: SocketAddr, stop: &Bell) -> Result<(), FlowError> {
    let mut alarm = Alarm::new()?;
    for _ in 0..GREETINGS {
        // An error here is one of an earlier packet's; whether the server is there shows in its answer.
        let _ = socket.send(&Hello::Client.bytes());
        alarm.set(Some(monotonic_ns() + GREETING_NS))?;
        loop {
            let mut fds = [readable(socket), readable(stop), readable(&alarm)];
            wait(&mut fds)?;
            if came(&fds[1]) {
                return Err(FlowError::Stopped);
            }
            if !came(&fds[0]) {
                break;
            }
            let mut bytes = [0; 64];
            match nix::sys::socket::recv(
                socket.as_fd().as_raw_fd(),
                &mut bytes,
                nix::sys::socket::MsgFlags::MSG_DONTWAIT,
            ) {
                Ok(got) if Hello::read(&bytes[..got]).is_some() => return Ok(()),
                // Data of the test already: the answer was lost, and the server knows us.
                Ok(got) if got >= 12 => return Ok(()),
                Ok(_) | Err(Errno::EINTR) => {}
                // Nobody listens yet; the next greeting tells.
                Err(_) => {
                    let mut fds = [readable(stop), readable(&alarm)];
                    wait(&mut fds)?;
                    if came(&fds[0]) {
                        return Err(FlowError::Stopped);
                    }
                    break;
                }
            }
        }
    }
    Err(FlowError::Parameter(format!(
        "{to} does not answer over UDP, only over TCP: does a firewall hold back UDP port {}?",
        to.port()
    )))
}

fn local(fd: BorrowedFd<'_>) -> Option<SocketAddr> {
    let name: SockaddrStorage = getsockname(fd.as_raw_fd()).ok()?;
    if let Some(v4) = name.as_sockaddr_in() {
        return Some(SocketAddr::V4((*v4).into()));
    }
    name.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into()))
}
