//! One stream of a test: its socket, the thread that moves its data, and what was counted.

use super::plan::{Plan, Unfit};
use super::talk::Break;
use nix::sys::resource::{UsageWho, getrusage};
use quell_load::bulk::{
    Copying, Ended, Gate, Limit, Tally, TcpReceiving, TcpSending, UdpHeader, UdpReceiving,
    UdpSending, UdpTally, tcp_receive_through, tcp_send_through, udp_receive, udp_send_through,
};
use quell_load::look::{self, tcp_info};
use quell_stats::log_histogram::highest;
use quell_sys::SysError;
use quell_sys::socket::Udp;
use quell_sys::socket::option::{set, set_bytes, set_tos};
use quell_sys::socket::stream::Stream;
use quell_sys::wait::Bell;
use quell_wire::iperf3::{Moment, PartStream, stream_id};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// One stream.
#[derive(Debug)]
pub struct Lane {
    /// Its number: 1, 3, 4 …
    pub id: u32,
    /// Whether this end sends.
    pub sends: bool,
    socket: Socket,
    moved: Moved,
    broke: Mutex<Option<SysError>>,
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

/// How a stream moves its data.
#[derive(Clone, Copy)]
pub struct How<'a> {
    /// Most bits a second.
    pub rate: Option<u64>,
    /// When it ends, in nanoseconds of the monotonic clock …
    pub end_ns: u64,
    /// … or when this rings.
    pub stop: &'a Bell,
    /// Has a say in each piece.
    pub gate: &'a dyn Gate,
    /// Datagrams come in whole trains: there is room for them.
    pub trains: bool,
}

/// What was counted up to a time, from the stream's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark {
    /// Payload that was sent or received.
    pub bytes: u64,
    /// Datagrams that were sent, or that came.
    pub packets: u64,
    /// Datagrams that should have come: those that came and the lost ones.
    pub expected: u64,
    /// Jitter of a receiver of datagrams now, in nanoseconds.
    pub jitter_ns: u64,
    /// Segments that this end sent again, where it sends over TCP.
    pub retransmits: Option<u64>,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Datagrams that came after one with a higher number.
    pub reordered: u64,
    /// Further copies.
    pub duplicates: u64,
    /// Datagrams that this end's socket had no room for.
    pub socket_dropped: u64,
}

impl Mark {
    /// Datagrams that did not come.
    pub fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.packets)
    }

    /// What was added since an earlier mark; states are those of now.
    pub fn since(&self, before: &Self) -> Self {
        let less = u64::saturating_sub;
        Self {
            bytes: less(self.bytes, before.bytes),
            packets: less(self.packets, before.packets),
            expected: less(self.expected, before.expected),
            retransmits: self.retransmits.map(|r| less(r, before.retransmits.unwrap_or(0))),
            reordered: less(self.reordered, before.reordered),
            duplicates: less(self.duplicates, before.duplicates),
            socket_dropped: less(self.socket_dropped, before.socket_dropped),
            ..*self
        }
    }
}

/// CPU time of a test's threads, in microseconds.
#[derive(Debug, Default)]
pub struct Cpu {
    user: AtomicU64,
    system: AtomicU64,
}

impl Cpu {
    /// Adds what the calling thread has used since its start.
    pub fn add_thread(&self) {
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) {
            let micros = |time: nix::sys::time::TimeVal| {
                let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
                u64::try_from(micros).unwrap_or(0)
            };
            self.user.fetch_add(micros(usage.user_time()), Ordering::Relaxed);
            self.system.fetch_add(micros(usage.system_time()), Ordering::Relaxed);
        }
    }

    /// User and system time in seconds.
    pub fn seconds(&self) -> (f64, f64) {
        let seconds = |micros: &AtomicU64| micros.load(Ordering::Relaxed) as f64 / 1e6;
        (seconds(&self.user), seconds(&self.system))
    }
}

impl Lane {
    /// A stream over TCP, with its options.
    pub fn tcp(index: usize, stream: Stream, plan: &Plan) -> Result<Self, Break> {
        let fd = stream.as_fd();
        let ipv6 = stream.peer().is_some_and(|peer| peer.is_ipv6());
        set_tos(fd, ipv6, plan.tos)?;
        if plan.nodelay {
            set(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1, "TCP_NODELAY")?;
        }
        if let Some(mss) = plan.mss {
            let mss = libc::c_int::try_from(mss).unwrap_or(libc::c_int::MAX);
            // The client's own has been announced; this is the same for what we send. A size that TCP can't have is the client's error,
            // which it was told when it set its own.
            let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, mss, "the maximum segment size");
        }
        if let Some(name) = plan.congestion_of(index) {
            let bytes = name.as_bytes();
            set_bytes(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, bytes, "congestion control")
                .map_err(|e| {
                    let why = format!("no congestion control `{name}` here ({:?})", e.errno);
                    Unfit::new(Unfit::CONGESTION, why)
                })?;
        }
        buffers(fd, plan)?;
        let sends = index >= plan.up;
        let moved = Moved::Bytes(Tally::new());
        Ok(Self::new(index, sends, Socket::Tcp(stream), moved))
    }

    /// A stream over UDP, with its options.
    pub fn udp(index: usize, socket: Udp, ipv6: bool, plan: &Plan) -> Result<Self, Break> {
        set_tos(socket.as_fd(), ipv6, plan.tos)?;
        buffers(socket.as_fd(), plan)?;
        let sends = index >= plan.up;
        let moved = match sends {
            true => Moved::Bytes(Tally::new()),
            false => Moved::Datagrams(Box::default()),
        };
        Ok(Self::new(index, sends, Socket::Udp(socket), moved))
    }

    fn new(index: usize, sends: bool, socket: Socket, moved: Moved) -> Self {
        Self { id: stream_id(index), sends, socket, moved, broke: Mutex::default() }
    }

    /// Moves data until the bell rings, or until its time.
    pub fn work(&self, plan: &Plan, how: &How<'_>, cpu: &Cpu) {
        if let Err(error) = self.moving(plan, how) {
            *self.broke.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
        }
        cpu.add_thread();
    }

    fn moving(&self, plan: &Plan, how: &How<'_>) -> Result<Ended, SysError> {
        let How { rate, end_ns, stop, gate, trains } = *how;
        let limit = Limit::until(end_ns);
        let header = if plan.wide { UdpHeader::Bits64 } else { UdpHeader::Bits32 };
        match (&self.socket, &self.moved) {
            (Socket::Tcp(stream), Moved::Bytes(tally)) if self.sends => {
                let copying = if plan.zero_copy { Copying::None } else { Copying::Once };
                let pacing = rate.map(|bits| (bits / 8).max(1));
                let what = TcpSending { block: plan.len, limit, pacing, copying };
                tcp_send_through(gate, stream, &what, tally, stop)
            }
            (Socket::Tcp(stream), Moved::Bytes(tally)) => {
                tcp_receive_through(gate, stream, &TcpReceiving { limit }, tally, stop)
            }
            (Socket::Udp(socket), Moved::Bytes(tally)) => {
                let trains = rate.is_none();
                let what = UdpSending { size: plan.len, rate, limit, header, trains };
                udp_send_through(gate, socket, &what, tally, stop)
            }
            (Socket::Udp(socket), Moved::Datagrams(tally)) => {
                let usual = UdpReceiving::default();
                // Many streams share what one would have.
                let buffer = usual.buffer / plan.up.max(1);
                let mut what = UdpReceiving { header, limit, buffer, trains };
                if let Some(window) = plan.window {
                    what.buffer = window as usize;
                }
                udp_receive(socket, &what, tally, stop)
            }
            // Only sockets for datagrams are given a tally of datagrams.
            (Socket::Tcp(_), Moved::Datagrams(_)) => Ok(Ended::Done),
        }
    }

    /// Whether datagrams come in here.
    pub fn takes_datagrams(&self) -> bool {
        matches!(self.moved, Moved::Datagrams(_))
    }

    /// What was counted up to now.
    pub fn mark(&self) -> Mark {
        let mut mark = match &self.moved {
            Moved::Bytes(tally) => Mark {
                bytes: tally.bytes(),
                packets: tally.packets(),
                expected: tally.packets(),
                ..Mark::default()
            },
            Moved::Datagrams(tally) => {
                let counts = tally.counts();
                Mark {
                    bytes: counts.bytes,
                    packets: counts.packets,
                    expected: counts.sent,
                    jitter_ns: counts.jitter_ns,
                    reordered: counts.reordered,
                    duplicates: counts.duplicates,
                    socket_dropped: counts.socket_drops,
                    ..Mark::default()
                }
            }
        };
        match &self.socket {
            Socket::Tcp(stream) if self.sends => {
                if let Some(info) = tcp_info(stream) {
                    // What still waits in the socket has not been sent, though it was written.
                    let unsent = info.notsent_bytes.unwrap_or(0);
                    mark.bytes = mark.bytes.saturating_sub(unsent.into());
                    mark.retransmits = Some(info.total_retrans.into());
                    mark.cwnd = u64::from(info.snd_cwnd) * u64::from(info.snd_mss);
                }
            }
            // What waits in the socket has been received, though nobody took it yet.
            Socket::Tcp(stream) => mark.bytes += waiting(stream.as_fd()),
            Socket::Udp(_) => {}
        }
        mark
    }

    /// Bytes that wait in a connection's socket and have not been sent.
    pub fn unsent(&self) -> u32 {
        match &self.socket {
            Socket::Tcp(stream) if self.sends => {
                tcp_info(stream).and_then(|info| info.notsent_bytes).unwrap_or(0)
            }
            Socket::Tcp(_) | Socket::Udp(_) => 0,
        }
    }

    /// Its state at a time, as two Quells tell each other.
    pub fn moment(&self, t_ns: i64, mark: &Mark) -> Moment {
        match &self.socket {
            Socket::Tcp(stream) => look::moment(stream, t_ns, mark.bytes),
            Socket::Udp(_) => Moment {
                t_ns,
                bytes: mark.bytes,
                packets: mark.packets,
                lost: if self.sends { 0 } else { mark.lost() },
                ..Moment::default()
            },
        }
    }

    /// What ended it before its time.
    pub fn broke(&self) -> Option<SysError> {
        self.broke.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// The congestion control that it used.
    pub fn congestion(&self) -> Option<String> {
        match &self.socket {
            Socket::Tcp(stream) => look::congestion(stream.as_fd()),
            Socket::Udp(_) => None,
        }
    }

    /// What a Quell client is told of it.
    pub fn part(&self, counted: &Mark, moments: Vec<Moment>) -> PartStream {
        let (fd, info) = match &self.socket {
            Socket::Tcp(stream) => (stream.as_fd(), tcp_info(stream)),
            Socket::Udp(socket) => (socket.as_fd(), None),
        };
        let (send_buffer, receive_buffer) = look::buffers(fd);
        let gaps = match &self.moved {
            Moved::Datagrams(tally) => gaps(tally),
            Moved::Bytes(_) => Vec::new(),
        };
        PartStream {
            id: self.id,
            congestion: self.congestion().filter(|_| self.sends),
            mss: info.map(|info| if self.sends { info.snd_mss } else { info.rcv_mss }),
            send_buffer,
            receive_buffer,
            out_of_order: counted.reordered,
            duplicates: counted.duplicates,
            socket_dropped: counted.socket_dropped,
            gaps,
            moments,
        }
    }

    /// Sends no more: the client reads to the end of what was sent. It may be blocked in reading a whole block, of which only a part was.
    pub fn finish(&self) {
        if let Socket::Tcp(stream) = &self.socket
            && self.sends
        {
            stream.finish();
        }
    }

    /// Ends the connection: what waits in it is thrown away.
    pub fn abort(&self) {
        if let Socket::Tcp(stream) = &self.socket {
            stream.abort();
        }
    }
}

/// Send and receive buffers as asked for, as far as the system lets us (`net.core.wmem_max`, `rmem_max`); what they became is told in the
/// results.
fn buffers(fd: BorrowedFd<'_>, plan: &Plan) -> Result<(), SysError> {
    if let Some(window) = plan.window {
        let bytes = libc::c_int::try_from(window).unwrap_or(libc::c_int::MAX);
        set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes, "the send buffer")?;
        set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes, "the receive buffer")?;
    }
    Ok(())
}

/// Bytes in a connection's receive queue (`FIONREAD`, tcp(7)).
fn waiting(fd: BorrowedFd<'_>) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    if result == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// Gaps between arrivals: the end of each class that has some, and how many.
fn gaps(tally: &UdpTally) -> Vec<(u64, u64)> {
    tally.gaps().counts().map(|(class, count)| (highest(class).saturating_add(1), count)).collect()
}
