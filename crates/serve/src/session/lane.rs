//! One stream of a test at this end: its socket's options, its lane, and what a client is told of it.

use super::plan::{Break, ServePlan, Unfit};
use crate::congestion::CongestionHelper;
use nix::errno::Errno;
use nix::sys::resource::{UsageWho, getrusage};
use quell_load::bulk::{Copying, Gate, Limit, Payload, UdpHeader, UdpReceiving};
use quell_load::connection_sample;
use quell_load::lane::{How, Lane, LaneCounts};
use quell_stats::log_histogram::highest;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::option::{get, set, set_bytes, set_tos};
use quell_sys::socket::stream::TcpSocket;
use quell_sys::socket::{Udp, keep_whole};
use quell_sys::wait::{Bell, came, readable, wait};
use quell_wire::iperf3::{Hello, Moment, PartStream, long_hello, stream_id};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub struct ServedLane {
    /// Its number: 1, 3, 4 …
    pub id: u32,
    lane: Lane,
    /// Receiver over TCP: when the first data came, by the monotonic clock; 0 before.
    first_ns: AtomicU64,
    /// For how long it moved nothing since the rate that is allowed was used up.
    held_back_ns: AtomicU64,
    /// Segments that the kernel had sent again before the test: SYN-ACKs.
    again_before: u64,
    /// Receiver over TCP: what waits in its socket counts as received. Not where a limit has it wait, and the test is of a time: by then it would be told as
    /// faster than the limit lets anything be.
    counts_waiting: bool,
}

/// What the server sets for a stream's data.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
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

    pub fn seconds(&self) -> (f64, f64) {
        let seconds = |micros: &AtomicU64| micros.load(Ordering::Relaxed) as f64 / 1e6;
        (seconds(&self.user), seconds(&self.system))
    }
}

impl ServedLane {
    /// A stream over TCP, with its options; whether it is held to a rate.
    pub fn tcp(
        index: usize,
        stream: TcpSocket,
        plan: &ServePlan,
        is_limited: bool,
        helper: Option<&CongestionHelper>,
    ) -> Result<Self, Break> {
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
                .map_err(|error| error.errno)
                .or_else(|errno| {
                    helper.map_or(Err(errno), |helper| {
                        helper
                            .set(fd, name)
                            .map_err(|of| if of == Errno::EPIPE { errno } else { of })
                    })
                })
                .map_err(|errno| {
                    let why = format!("no congestion control `{name}` here ({errno:?})");
                    Unfit::new(Unfit::CONGESTION, why)
                })?;
        }
        buffers(fd, plan)?;
        let lane = Self::new(index, Lane::tcp(stream, index >= plan.up));
        Ok(Self { counts_waiting: !is_limited || plan.time_ns.is_none(), ..lane })
    }

    pub fn udp(index: usize, socket: Udp, ipv6: bool, plan: &ServePlan) -> Result<Self, Break> {
        set_tos(socket.as_fd(), ipv6, plan.tos)?;
        if plan.whole {
            keep_whole(socket.as_fd(), ipv6)?;
        }
        buffers(socket.as_fd(), plan)?;
        Ok(Self::new(index, Lane::udp(socket, index >= plan.up)))
    }

    fn new(index: usize, lane: Lane) -> Self {
        let again_before = lane.mark(0).moment.retransmits;
        let (first_ns, held_back_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        let id = stream_id(index);
        Self { id, lane, first_ns, held_back_ns, again_before, counts_waiting: true }
    }

    /// Moves data until the bell rings, or until its time.
    pub fn carry(&self, plan: &ServePlan, terms: &Terms<'_>, cpu: &Cpu) {
        let Terms { rate, end_ns, stop, gate, trains } = *terms;
        // The kernel paces TCP only.
        let paced = [rate, plan.pacing].into_iter().flatten().min();
        // Many streams share the buffer that one would have.
        let shared = UdpReceiving::default().buffer / plan.up.max(1);
        self.note_first(stop);
        self.work(&How {
            block: plan.len,
            rate: match (plan.udp, self.sends) {
                (false, _) => rate,
                (true, true) => paced,
                // What comes beyond what it may is counted, and ends the test.
                (true, false) => plan.rate,
            },
            pacing: plan.pacing,
            limit: Limit {
                bytes: plan.bytes_of(self.id).filter(|_| self.sends),
                end_ns: Some(end_ns),
            },
            copying: if plan.zero_copy { Copying::None } else { Copying::Once },
            burst: plan.burst,
            payload: if plan.repeating { Payload::Digits } else { Payload::Random },
            header: if plan.wide { UdpHeader::Bits64 } else { UdpHeader::Bits32 },
            hello: plan.token.and_then(|token| long_hello(Hello::Client, token)),
            buffer: plan.window.map_or(shared, |window| window as usize),
            trains: trains && !plan.log,
            log: plan.log,
            gate,
            stop,
        });
        cpu.add_thread();
    }

    /// Receiver over TCP: waits for the first data, or for the bell, and notes when it came. A connection that can't be waited for says why as
    /// soon as it is read.
    fn note_first(&self, stop: &Bell) {
        let Some(stream) = self.stream().filter(|_| !self.sends) else { return };
        let mut fds = [readable(stream), readable(stop)];
        if wait(&mut fds).is_ok() && came(&fds[0]) {
            self.first_ns.store(monotonic_ns(), Ordering::Relaxed);
        }
    }

    /// Receiver over TCP: when the first data came, by the monotonic clock.
    pub fn first_ns(&self) -> Option<u64> {
        Some(self.first_ns.load(Ordering::Relaxed)).filter(|ns| *ns > 0)
    }

    /// What was counted up to now, `t_ns`: of TCP what left the socket, or came to it.
    pub fn counted(&self, t_ns: i64) -> LaneCounts {
        let mut mark = self.mark(t_ns);
        mark.moment.retransmits = mark.moment.retransmits.saturating_sub(self.again_before);
        mark.moment.bytes = match self.sends {
            // What still waits in the socket has not been sent, though it was written.
            true => mark.moment.bytes.saturating_sub(mark.moment.unsent),
            // What waits in the socket has been received, though nobody took it yet.
            false if self.counts_waiting => mark.moment.bytes + self.waiting(),
            false => mark.moment.bytes,
        };
        mark
    }

    /// Bytes that got through so far, to whoever takes them.
    pub fn through(&self) -> u64 {
        let bytes = self.counted(0).moment.bytes;
        if self.counts_waiting || self.sends { bytes } else { bytes + self.waiting() }
    }

    pub fn broke(&self) -> Option<SysError> {
        self.ended()?.err()
    }

    /// It moved nothing for so much longer, since the rate that is allowed was used up.
    pub fn was_held_back(&self, ns: u64) {
        self.held_back_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// For how long it moved nothing since the rate that is allowed was used up, in nanoseconds.
    pub fn held_back_ns(&self) -> u64 {
        self.held_back_ns.load(Ordering::Relaxed)
    }

    pub fn part(&self, counted: &LaneCounts, moments: Vec<Moment>) -> PartStream {
        let (send_buffer, receive_buffer) = connection_sample::buffers(self.as_fd());
        // The end of each class that has some, and how many.
        let gaps = self.gaps().map_or_else(Vec::new, |gaps| {
            gaps.counts().map(|(class, n)| (highest(class).saturating_add(1), n)).collect()
        });
        PartStream {
            id: self.id,
            congestion: self.congestion().filter(|_| self.sends),
            mss: self.info().map(|info| if self.sends { info.snd_mss } else { info.rcv_mss }),
            send_buffer,
            receive_buffer,
            toil: self.toil(),
            held_back: None,
            out_of_order: counted.reordered,
            duplicates: counted.duplicates,
            socket_dropped: counted.socket_dropped,
            foreign: counted.foreign,
            longest_gap_ns: self.arrivals().map(|arrivals| arrivals.longest_ns),
            gaps,
            losses: self.losses(),
            log: self.log(),
            moments,
        }
    }
}

impl Deref for ServedLane {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        &self.lane
    }
}

/// Send and receive buffers as asked for, as far as the system lets us (`net.core.wmem_max`, `rmem_max`); what they became is told in the
/// results.
fn buffers(fd: BorrowedFd<'_>, plan: &ServePlan) -> Result<(), SysError> {
    if let Some(window) = plan.window {
        let bytes = libc::c_int::try_from(window).unwrap_or(libc::c_int::MAX);
        set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes, "the send buffer")?;
        set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes, "the receive buffer")?;
        if !plan.udp {
            open_window(fd);
        }
    }
    Ok(())
}

/// Lets a connection offer all of its receive buffer: what it may offer at most is fixed when it is accepted, by the buffer that it had then, and one that
/// was set by hand is not looked at again (`tcp_rcv_space_adjust`, net/ipv4/tcp_input.c).
fn open_window(fd: BorrowedFd<'_>) {
    let now = |level, name| get(fd, level, name).unwrap_or(0);
    let buffer = now(libc::SOL_SOCKET, libc::SO_RCVBUF);
    if buffer > now(libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP) {
        // Where it is refused the window stays as it is, and is told in the results.
        let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, buffer, "the largest window");
    }
}
