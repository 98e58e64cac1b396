//! A lane: one stream of data at one end. Its socket, what moves its data, and what was counted.
//!
//! ```text
//!   whoever opened it ──► Lane::new(socket) ── a thread: work(how) ──► bulk's mover for this socket and this direction
//!                              │
//!                              └── any thread, any time: mark(now), gaps(), ended() …
//! ```
//!
//! How a stream comes about (a handshake, a greeting, options) is the affair of who opens it.

use crate::arrivals::Arrivals;
use crate::bulk::{
    Copying, Ended, Gate, Limit, Payload, Tally, TcpSending, UdpHeader, UdpReceiving, UdpSending,
    UdpTally, tcp_receive, tcp_send, udp_receive, udp_send,
};
use crate::connection_sample;
use crate::cpu_wanted::Toil;
use quell_netlink::sock_diag::TcpInfo;
use quell_stats::LogHistogram;
use quell_sys::SysError;
use quell_sys::socket::Udp;
use quell_sys::socket::option::waiting;
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::Bell;
use quell_wire::iperf3::{DatagramLog, LONG_HELLO, LossRecord, Moment};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug)]
pub struct Lane {
    pub sends: bool,
    socket: Socket,
    moved: Moved,
    ended: Mutex<Option<Result<Ended, SysError>>>,
    toil: Toil,
}

#[derive(Debug)]
pub enum Socket {
    Tcp(Arc<TcpSocket>),
    Udp(Udp),
}

#[derive(Debug)]
enum Moved {
    Bytes(Tally),
    Datagrams(Box<UdpTally>),
}

#[derive(Clone, Copy)]
pub struct How<'a> {
    pub block: usize,
    pub rate: Option<u64>,
    /// Most bits a second, kept by the kernel, where it can (`SO_MAX_PACING_RATE`).
    pub pacing: Option<u64>,
    /// When it is done; a receiver of datagrams only counts those that carry its bytes, and goes on.
    pub limit: Limit,
    /// Whether a TCP sender's payload is copied on its way.
    pub copying: Copying,
    pub header: UdpHeader,
    /// Datagrams at a rate that leave together.
    pub burst: u32,
    pub payload: Payload,
    /// A datagram that is this and nothing more is no data: a hello that comes again.
    pub hello: Option<[u8; LONG_HELLO]>,
    pub buffer: usize,
    /// Datagrams may come in whole trains: there is room for them.
    pub trains: bool,
    /// Each datagram that comes is logged.
    pub log: bool,
    pub gate: &'a dyn Gate,
    pub stop: &'a Bell,
}

/// What was counted up to a moment, from the stream's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Bytes and datagrams that were handed to the kernel, or that came, and what the kernel says of the connection.
    pub moment: Moment,
    /// Datagrams: numbers that were sent; of a receiver those that were seen or skipped.
    pub expected: u64,
    /// Receiver of datagrams: jitter in nanoseconds, RFC 3550's estimate without its start from 0.
    pub jitter_ns: u64,
    /// RFC 3550's estimate itself, as iperf3 tells it.
    pub rfc_jitter_ns: u64,
    pub reordered: u64,
    pub duplicates: u64,
    pub socket_dropped: u64,
    pub foreign: u64,
    /// Sender of datagrams: refused by a queue of this host.
    pub refused: u64,
}

impl LaneCounts {
    /// Jitter of several streams in nanoseconds: the mean, each weighing as many datagrams as came. A few that came tell of a few.
    pub fn jitter_of<'a>(streams: impl IntoIterator<Item = &'a Self>) -> u64 {
        let (mut sum, mut came) = (0_u128, 0_u128);
        for stream in streams {
            let packets = u128::from(stream.moment.packets);
            sum += u128::from(stream.jitter_ns) * packets;
            came += packets;
        }
        u64::try_from(sum / came.max(1)).unwrap_or(u64::MAX)
    }

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
            foreign: less(self.foreign, before.foreign),
            refused: less(self.refused, before.refused),
            jitter_ns: self.jitter_ns,
            rfc_jitter_ns: self.rfc_jitter_ns,
        }
    }
}

impl Lane {
    pub fn tcp(stream: impl Into<Arc<TcpSocket>>, sends: bool) -> Self {
        Self::new(Socket::Tcp(stream.into()), sends)
    }

    pub fn udp(socket: Udp, sends: bool) -> Self {
        Self::new(Socket::Udp(socket), sends)
    }

    pub fn new(socket: Socket, sends: bool) -> Self {
        let moved = match (&socket, sends) {
            (Socket::Udp(_), false) => Moved::Datagrams(Box::default()),
            _ => Moved::Bytes(Tally::new()),
        };
        Self { sends, socket, moved, ended: Mutex::default(), toil: Toil::default() }
    }

    /// Its connection; none over UDP.
    pub fn stream(&self) -> Option<&Arc<TcpSocket>> {
        match &self.socket {
            Socket::Tcp(stream) => Some(stream),
            Socket::Udp(_) => None,
        }
    }

    pub fn takes_datagrams(&self) -> bool {
        matches!(self.moved, Moved::Datagrams(_))
    }

    /// Moves data until its limit, or until the bell rings. Blocks.
    pub fn work(&self, how: &How<'_>) {
        let ended = self.toil.of(|| self.moving(how));
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
    }

    fn moving(&self, how: &How<'_>) -> Result<Ended, SysError> {
        let How {
            block,
            rate,
            pacing,
            limit,
            copying,
            header,
            hello,
            buffer,
            trains,
            log,
            gate,
            stop,
            ..
        } = *how;
        let (burst, payload) = (how.burst, how.payload);
        match (&self.socket, &self.moved) {
            (Socket::Tcp(stream), Moved::Bytes(tally)) if self.sends => {
                let pacing = pacing.map(|bits| (bits / 8).max(1));
                let what = TcpSending { block, limit, rate, pacing, copying, payload };
                tcp_send(gate, stream, &what, tally, stop)
            }
            (Socket::Tcp(stream), Moved::Bytes(tally)) => {
                tcp_receive(gate, stream, limit, tally, stop)
            }
            (Socket::Udp(socket), Moved::Bytes(tally)) => {
                let trains = rate.is_none();
                let what = UdpSending { size: block, rate, limit, header, trains, burst, payload };
                udp_send(gate, socket, &what, tally, stop)
            }
            (Socket::Udp(socket), Moved::Datagrams(tally)) => {
                // An amount are so many datagrams, whether they come or not.
                let last = limit.bytes.map(|bytes| bytes.div_ceil(block.max(1) as u64));
                let limit = Limit { bytes: None, ..limit };
                let size = Some(block);
                let what = UdpReceiving { header, limit, last, buffer, trains, hello, size, log };
                udp_receive(socket, &what, tally, stop)
            }
            // Only sockets for datagrams are given a tally of datagrams.
            (Socket::Tcp(_), Moved::Datagrams(_)) => Ok(Ended::Done),
        }
    }

    /// The part of its time so far in which what moves the data was on a CPU or waited for one, from 0 to 1; none where the kernel does not tell.
    pub fn toil(&self) -> Option<f64> {
        self.toil.share()
    }

    pub fn ended(&self) -> Option<Result<Ended, SysError>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was counted up to now; `t_ns` is now.
    pub fn mark(&self, t_ns: i64) -> LaneCounts {
        match (&self.socket, &self.moved) {
            (Socket::Tcp(stream), Moved::Bytes(tally)) => LaneCounts {
                moment: connection_sample::moment(stream, t_ns, tally.bytes()),
                ..LaneCounts::default()
            },
            (_, Moved::Bytes(tally)) => LaneCounts {
                moment: Moment {
                    t_ns,
                    bytes: tally.bytes(),
                    packets: tally.packets(),
                    ..Moment::default()
                },
                expected: tally.packets(),
                refused: tally.refused(),
                ..LaneCounts::default()
            },
            (_, Moved::Datagrams(tally)) => {
                let counts = tally.counts();
                LaneCounts {
                    moment: Moment {
                        t_ns,
                        bytes: counts.bytes,
                        packets: counts.packets,
                        lost: counts.lost(),
                        ..Moment::default()
                    },
                    expected: counts.sent,
                    jitter_ns: counts.jitter_ns,
                    rfc_jitter_ns: counts.rfc_jitter_ns,
                    reordered: counts.reordered,
                    duplicates: counts.duplicates,
                    socket_dropped: counts.socket_drops,
                    foreign: counts.foreign,
                    refused: 0,
                }
            }
        }
    }

    /// Bytes and datagrams that were handed to the kernel, or taken from it, acknowledged or not, from the stream's start.
    pub fn moved(&self) -> (u64, u64) {
        match &self.moved {
            Moved::Bytes(tally) => (tally.bytes(), tally.packets()),
            Moved::Datagrams(tally) => {
                let counts = tally.counts();
                (counts.bytes, counts.packets)
            }
        }
    }

    /// Bytes of a connection that came and that nobody took yet; 0 for UDP.
    pub fn waiting(&self) -> u64 {
        self.stream().map_or(0, |stream| waiting(stream.as_fd()))
    }

    /// What a receiver of datagrams saw come; none for TCP and for senders.
    pub fn arrivals(&self) -> Option<Arrivals> {
        let Moved::Datagrams(tally) = &self.moved else { return None };
        let counts = tally.counts();
        Some(Arrivals {
            first_ns: counts.first_ns,
            last_ns: counts.last_ns,
            first_number: counts.first_number,
            highest_number: counts.sent,
            packets: counts.packets,
            longest_ns: counts.longest_ns,
        })
    }

    /// The longest time between arrivals is measured anew from here on.
    pub fn forget_longest(&self) {
        if let Moved::Datagrams(tally) = &self.moved {
            tally.forget_longest();
        }
    }

    /// When the newest data came that was taken, in nanoseconds of the monotonic clock; none before any did, and for senders.
    pub fn last_ns(&self) -> Option<u64> {
        let last = match &self.moved {
            Moved::Datagrams(tally) => tally.counts().last_ns,
            Moved::Bytes(tally) => tally.last_ns(),
        };
        Some(last).filter(|ns| *ns > 0 && !self.sends)
    }

    /// For how long a sender of datagrams sent so far, in nanoseconds; none of fewer than two, for receivers and over TCP.
    pub fn sent_for_ns(&self) -> Option<u64> {
        match (&self.socket, &self.moved) {
            (Socket::Udp(_), Moved::Bytes(tally)) => tally.sent_for_ns(),
            _ => None,
        }
    }

    /// Times between arrivals up to now; none for TCP and for senders.
    pub fn gaps(&self) -> Option<LogHistogram> {
        match &self.moved {
            Moved::Datagrams(tally) => Some(tally.gaps()),
            Moved::Bytes(_) => None,
        }
    }

    /// What a receiver of datagrams saw of losses; none where nothing was lost.
    pub fn losses(&self) -> Option<LossRecord> {
        let Moved::Datagrams(tally) = &self.moved else { return None };
        Some(tally.losses()).filter(|record| !record.behind.is_empty())
    }

    /// Each datagram that came, where that was asked for.
    pub fn log(&self) -> DatagramLog {
        match &self.moved {
            Moved::Datagrams(tally) => tally.log(),
            Moved::Bytes(_) => DatagramLog::default(),
        }
    }

    pub fn info(&self) -> Option<TcpInfo> {
        connection_sample::tcp_info(self.stream()?)
    }

    /// Whether the other end has acknowledged everything; a connection that is gone will never.
    pub fn all_acknowledged(&self) -> bool {
        self.stream()
            .is_none_or(|stream| connection_sample::all_acknowledged(stream).unwrap_or(true))
    }

    pub fn congestion(&self) -> Option<String> {
        connection_sample::congestion(self.stream()?.as_fd())
    }

    /// Sends no more: the other end reads to the end of what was sent.
    pub fn finish(&self) {
        if let Some(stream) = self.stream().filter(|_| self.sends) {
            stream.finish();
        }
    }

    /// Ends its connection at once: what waits to be sent is thrown away.
    pub fn abort(&self) {
        if let Some(stream) = self.stream() {
            stream.abort();
        }
    }
}

impl AsFd for Lane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Udp(socket) => socket.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_which_next_to_nothing_came_hardly_tells_of_the_jitter_of_all() {
        let stream = |packets, jitter_ns| LaneCounts {
            moment: Moment { packets, ..Moment::default() },
            jitter_ns,
            ..LaneCounts::default()
        };
        assert_eq!(
            LaneCounts::jitter_of(&[stream(999, 1_000_000), stream(1, 41_000_000)]),
            1_040_000
        );
        assert_eq!(LaneCounts::jitter_of(&[stream(0, 9_000_000)]), 0, "nothing came");
        assert_eq!(LaneCounts::jitter_of(&[]), 0);
    }
}
