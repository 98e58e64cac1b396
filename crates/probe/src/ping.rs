//! ICMP echo: several streams at once, each with its own socket, interval, size and TOS.

use crate::options::{FLUSH, check_interval};
use crate::prober::{Driver, ProbeStream, StreamSpec};
use crate::stream_socket::{Answer, Datagrams, Observed};
use crate::{Emit, Options, ProbeError};
use nix::errno::Errno;
use quell_model::task::PingStream;
use quell_stats::Rng;
use quell_sys::pace::Window;
use quell_sys::socket::{Arrival, EchoSocket, PathError, Way};
use quell_sys::wait::Bell;
use quell_units::Span;
use quell_wire::icmp::{self, EchoReply};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU16, Ordering};

/// Largest payload of an IPv4 packet without its options (20) and the ICMP header (8).
const LARGEST: u32 = 65_507;

/// Raw sockets of this process tell their replies apart by identifiers that count up from here.
static SOCKETS: AtomicU16 = AtomicU16::new(0);

/// A ping task that is ready to start.
#[derive(Debug)]
pub struct Ping {
    streams: Vec<(PingStream, Options, EchoLine)>,
    flush: Span,
    seed: u64,
}

#[derive(Debug)]
struct EchoLine {
    socket: EchoSocket,
    /// What our packets carry to be known by.
    stream: u64,
    size: usize,
}

impl Ping {
    /// Opens the sockets.
    ///
    /// Errors when a parameter can't be, when neither ping sockets nor raw ones are allowed, or when there is no route.
    pub fn prepare(streams: &[PingStream], seed: u64) -> Result<Self, ProbeError> {
        let plain: Vec<_> = streams.iter().map(|s| (s.clone(), Options::default())).collect();
        Self::open(&plain, seed)
    }

    /// The same, with wishes for each stream.
    pub fn open(streams: &[(PingStream, Options)], seed: u64) -> Result<Self, ProbeError> {
        let rng = Rng::new(seed);
        let streams = streams.iter().map(|(stream, options)| {
            check(stream)?;
            let socket = open(stream.to, stream.tos.byte(), &options.way)?;
            let key = rng.derive(&stream.stream).derive("echo").u64();
            let line = EchoLine { socket, stream: key, size: stream.size as usize };
            Ok((stream.clone(), options.clone(), line))
        });
        Ok(Self { streams: streams.collect::<Result<_, ProbeError>>()?, flush: FLUSH, seed })
    }

    /// Rows are handed on so often, instead of each second.
    pub fn flushing_every(self, flush: Span) -> Self {
        Self { flush, ..self }
    }

    /// Runs it: sends from the window's start on, ends by itself when every reply came or was waited for.
    pub fn run(self, window: &Window, stop: &Bell, emit: Emit<'_>) -> Result<(), ProbeError> {
        let rng = Rng::new(self.seed);
        let largest = self.streams.iter().map(|(.., l)| l.size).max().unwrap_or(0) + 128;
        let streams = self.streams.into_iter().map(|(stream, options, line)| {
            let spec = StreamSpec {
                interval_ns: stream.interval.nanos(),
                patience: options.patience(stream.linger, stream.interval),
                size: stream.size,
                seed: rng.derive(&stream.stream).derive("pace").u64(),
                count: options.count,
                name: stream.stream,
            };
            ProbeStream::new(spec, Observed::new(line, options.timed_by), window)
        });
        let streams = streams.collect::<Result<_, _>>()?;
        Driver { streams, largest, flush: self.flush }.run(window, stop, emit)
    }
}

fn check(stream: &PingStream) -> Result<(), ProbeError> {
    let wrong = |why: String| ProbeError::Parameter { stream: stream.stream.clone(), why };
    check_interval(&stream.stream, stream.interval)?;
    if stream.size > LARGEST {
        return Err(wrong(format!(
            "{} bytes don't fit in a packet; at most {LARGEST}",
            stream.size
        )));
    }
    Ok(())
}

fn open(to: IpAddr, tos: u8, way: &Way) -> Result<EchoSocket, ProbeError> {
    // The process id keeps two agents in one network apart.
    let base = std::process::id() as u16;
    let identifier = base.wrapping_mul(31).wrapping_add(SOCKETS.fetch_add(1, Ordering::Relaxed));
    Ok(EchoSocket::open_by(to, tos, identifier, way)?)
}

impl EchoLine {
    /// The whole number, if the packet is of this stream.
    fn number(&self, echo: EchoReply, next: u64) -> Option<u64> {
        if echo.identifier != self.socket.identifier() {
            return None;
        }
        match echo.full {
            Some((stream, seq)) if self.size >= icmp::FULL => {
                (stream == self.stream && seq < next).then_some(seq)
            }
            // Too short to carry it, or cut by who quoted it.
            _ => icmp::widen16(echo.short_seq, next),
        }
    }
}

impl Datagrams for EchoLine {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn send(&mut self, seq: u64, _sent_ns: u64) -> Result<(), Errno> {
        let identifier = self.socket.identifier();
        let ipv6 = self.socket.is_ipv6();
        self.socket.send(&icmp::request(ipv6, identifier, self.stream, seq, self.size))
    }

    fn read(&mut self, _arrival: &Arrival, bytes: &[u8], next: u64) -> Option<Answer> {
        let echo = icmp::reply(self.socket.is_ipv6(), self.socket.message(bytes)?)?;
        let seq = self.number(echo, next)?;
        Some(Answer { seq, ..Answer::default() })
    }

    fn blamed(&self, error: &PathError, next: u64) -> Option<u64> {
        let quoted = icmp::quoted_request(self.socket.is_ipv6(), &error.quoted)?;
        self.number(quoted, next)
    }
}
