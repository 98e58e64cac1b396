//! How a stream of a test comes to stand at this end, and how its lane then moves data as the plan says.

use crate::talk::{Talk, reach};
use crate::{FlowError, FlowPlan, Transport};
use nix::errno::Errno;
use nix::sys::socket::{SockaddrStorage, getsockname};
use quell_load::bulk::{Copying, Limit, Open, UdpHeader, UdpReceiving};
use quell_load::lane::{How, Lane, LaneCounts};
use quell_load::look;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::Udp;
use quell_sys::socket::bulk::prepare_receiving;
use quell_sys::socket::exchange::Exchange;
use quell_sys::socket::option::{get, set};
use quell_sys::socket::preface::prove;
use quell_sys::socket::stream::{StreamOptions, TcpSocket};
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_wire::auth::{OPENING, PROOF};
use quell_wire::iperf3::{Hello, stream_id};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// How often a UDP server is greeted before it counts as unreachable, and how long each greeting waits.
const GREETINGS: u64 = 5;
const GREETING_NS: u64 = 1_000_000_000;

/// One stream, known to the server.
#[derive(Debug)]
pub(crate) struct OpenLane {
    /// Its number: 1, 3, 4 …
    pub id: u32,
    /// The own address.
    pub local: SocketAddr,
    pub remote: SocketAddr,
    lane: Lane,
    /// What the kernel counted as acknowledged before the first byte of data.
    acked_before: u64,
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

impl OpenLane {
    /// Opens the stream with this place: connected and known to the server.
    pub fn open(
        place: usize,
        plan: &FlowPlan,
        talk: &Talk,
        stop: &Bell,
    ) -> Result<Self, FlowError> {
        let (lane, acked_before) = match plan.transport {
            Transport::Tcp => tcp(place, plan, talk, stop)?,
            Transport::Udp => (udp(place, plan, stop)?, 0),
        };
        let unknown = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let local = local(lane.as_fd()).unwrap_or(unknown);
        Ok(Self { id: stream_id(place), local, remote: plan.to, lane, acked_before })
    }

    /// The descriptor's number, by which iperf3 names a stream.
    pub fn number(&self) -> i32 {
        self.as_fd().as_raw_fd()
    }

    /// Payload of the largest datagram that one packet carries to the other end, as far as the kernel has learned (ip(7), `IP_MTU`).
    pub fn largest_datagram(&self) -> Option<u64> {
        let (level, name, headers) = match self.remote.is_ipv6() {
            false => (libc::IPPROTO_IP, libc::IP_MTU, 28),
            true => (libc::IPPROTO_IPV6, libc::IPV6_MTU, 48),
        };
        let mtu = get(self.as_fd(), level, name).ok()?;
        u64::try_from(mtu).ok()?.checked_sub(headers)
    }

    /// Moves data until its limit, or until a bell of `how` rings. Blocks.
    pub fn carry(&self, plan: &FlowPlan, how: &Move<'_>) {
        self.work(&How {
            block: how.block as usize,
            rate: plan.rate,
            pacing: plan.pacing,
            limit: how.limit,
            copying: if plan.zero_copy { Copying::None } else { Copying::Once },
            header: UdpHeader::Bits32,
            buffer: plan.window.map_or(UdpReceiving::default().buffer, |w| w as usize),
            trains: true,
            gate: &Open,
            stop: if self.sends { how.halt } else { how.over },
        });
    }

    /// What was counted up to now, of a TCP sender what the other end acknowledged; `t_ns` is now.
    pub fn counted(&self, t_ns: i64) -> LaneCounts {
        let mut mark = self.mark(t_ns);
        if self.sends && mark.moment.acked > 0 {
            // What waits in this host's buffer has gone nowhere yet.
            let acked = mark.moment.acked.saturating_sub(self.acked_before);
            mark.moment.bytes = mark.moment.bytes.min(acked);
        }
        mark
    }
}

impl Deref for OpenLane {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        &self.lane
    }
}

/// A connection that the server knows, and what the kernel counted as acknowledged by then.
fn tcp(place: usize, plan: &FlowPlan, talk: &Talk, stop: &Bell) -> Result<(Lane, u64), FlowError> {
    let options = StreamOptions {
        tos: plan.tos,
        congestion: plan.congestion_of(place).cloned(),
        pacing: plan.pacing.map(|bits| (bits / 8).max(1)),
        window: plan.window.map(|w| u32::try_from(w).unwrap_or(u32::MAX)),
        mss: plan.mss,
    };
    let stream = TcpSocket::new(plan.to.is_ipv6(), &options)?;
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
    Ok((Lane::tcp(stream, plan.sends(place)), acked_before))
}

fn udp(place: usize, plan: &FlowPlan, stop: &Bell) -> Result<Lane, FlowError> {
    let socket = Udp::connected_by(plan.to, plan.tos, &plan.way)?;
    let sends = plan.sends(place);
    if let Some(window) = plan.window {
        send_buffer(socket.as_fd(), window)?;
    }
    if !sends {
        prepare_receiving(socket.as_fd(), UdpReceiving::default().buffer, true);
    }
    greet(&socket, plan.to, stop)?;
    Ok(Lane::udp(socket, sends))
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
    Err(FlowError::NoUdp(to))
}

fn local(fd: BorrowedFd<'_>) -> Option<SocketAddr> {
    let name: SockaddrStorage = getsockname(fd.as_raw_fd()).ok()?;
    if let Some(v4) = name.as_sockaddr_in() {
        return Some(SocketAddr::V4((*v4).into()));
    }
    name.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into()))
}
