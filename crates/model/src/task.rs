//! Tasks: one probe, load, server or sampler on one host. Addresses are resolved; a task needs nothing but itself.
//!
//! Clients run from `start` for `duration`; servers listen from *prepare* until told to stop. Times count from the start of the
//! measurement, so that loads that warm up start at a negative time.

use crate::page::HttpVersion;
use quell_units::{Bytes, Rate, Span, Tos};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// What an agent is told, in this order: once `Prepare`, once `Start`, once `Stop`; and `Ask` at any time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Take these tasks: open sockets, listen, and report [`crate::Event::Ready`] or [`crate::Event::Ended`] for each.
    Prepare {
        /// The tasks, all for this agent's host.
        tasks: Vec<Task>,
    },
    Start {
        /// `CLOCK_MONOTONIC` of this machine, in nanoseconds.
        at_monotonic_ns: u64,
    },
    /// End the servers, report what is left, and exit.
    Stop,
    /// Say what your clock shows, and end by yourself when nothing is said to you for this long.
    Ask { at_ns: u64, lease: Span },
}

/// Something to do on one host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Unique within the cell, as `probe/ping` or `load/bulk`.
    pub id: String,
    /// The host (or router) whose agent does it.
    pub host: String,
    /// When a client starts: nanoseconds from the start of the measurement, negative for warm-up. Servers ignore it.
    pub start_ns: i64,
    /// How long a client runs. Servers ignore it.
    pub duration: Span,
    /// Seed for the task's own randomness (jitter of sending times, payload).
    pub seed: u64,
    pub kind: TaskKind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TaskKind {
    /// ICMP echo to one or several destinations.
    Ping {
        /// The streams, all at once.
        streams: Vec<PingStream>,
    },
    /// TCP connects: how long until a SYN is answered.
    TcpPing {
        /// The streams, all at once.
        streams: Vec<TcpPingStream>,
    },
    /// Listens, and lets [`TaskKind::TcpPing`] connect.
    TcpListener {
        bind: SocketAddr,
    },
    /// A UDP stream against a [`TaskKind::UdpReflector`]: STAMP packets (RFC 8762) at a constant rate.
    UdpEcho(UdpEcho),
    /// Answers [`TaskKind::UdpEcho`].
    UdpReflector {
        bind: SocketAddr,
    },
    /// TCP connections to a [`TaskKind::TcpServer`], each sending or receiving as much as goes.
    Tcp(TcpClient),
    /// The other end of [`TaskKind::Tcp`].
    TcpServer {
        bind: SocketAddr,
        /// How often a receiving connection reports its bytes.
        report: Span,
        /// Receive buffer (`SO_RCVBUF`), which fixes the window; none leaves it to the kernel's autotuning.
        window: Option<Bytes>,
        /// Both ends use it: DCTCP has a part to play at each.
        congestion: Option<String>,
    },
    /// UDP in one direction to a [`TaskKind::UdpSink`]: constant rate, or as fast as the rate says (a flood), or on-off.
    UdpSend(UdpSend),
    /// Receives and counts [`TaskKind::UdpSend`].
    UdpSink {
        bind: SocketAddr,
        report: Span,
    },
    Command {
        /// Program and arguments; no shell.
        argv: Vec<String>,
    },
    /// Samples all qdiscs and classes of devices over netlink.
    SampleQueues {
        /// Device names in this host; none means all.
        devices: Vec<String>,
        interval: Span,
    },
    /// Samples every TCP connection of this host over sock_diag, so that flows of foreign programs are seen too.
    SampleSockets {
        interval: Span,
    },
    /// Request and response over TCP, one call after the other, against a [`TaskKind::RrServer`].
    Rr(RrClient),
    /// Answers [`TaskKind::Rr`].
    RrServer {
        bind: SocketAddr,
    },
    /// Loads of the lab's own page in a browser, one after the other, from a [`TaskKind::PageServer`].
    Page(PageClient),
    /// Puts queues on this host's own interfaces from *prepare* until it is told to stop, and for so long at most.
    ManageQueues {
        /// Queues and their changes, as JSON: they describe themselves, which frames don't.
        plan: String,
        lasts: Span,
    },
    PageServer {
        bind: SocketAddr,
        seed: u64,
        http: HttpVersion,
    },
}

/// What others have to know of a task, whatever its kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct About<'a> {
    /// Whether it listens from *prepare* until it is told to stop.
    pub is_server: bool,
    /// The streams that it sends or asks for.
    pub streams: Vec<Stream<'a>>,
    /// How long after its duration it may still wait for what is under way.
    pub linger: Span,
    pub congestion: Option<&'a str>,
    /// Whether nobody knows its connections beforehand, since a program makes them.
    pub is_foreign: bool,
    /// Memory that it takes beside what every task does, in MiB.
    pub memory_mib: u32,
}

/// A stream of a task, with the way of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream<'a> {
    pub name: &'a str,
    pub to: IpAddr,
    /// Which way its payload goes.
    pub goes: Goes,
}

/// Which way a stream's payload goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goes {
    There,
    Back,
    /// To the other end, and an answer to each packet back.
    Answered,
}

impl TaskKind {
    pub fn about(&self) -> About<'_> {
        let server = About { is_server: true, ..About::default() };
        let client = |streams, linger| About { streams, linger, ..About::default() };
        match self {
            TaskKind::Ping { streams } => client(
                streams.iter().map(|s| Goes::Answered.stream(&s.stream, s.to)).collect(),
                streams.iter().map(|s| s.linger).max().unwrap_or(Span::ZERO),
            ),
            TaskKind::TcpPing { streams } => client(
                streams.iter().map(|s| Goes::Answered.stream(&s.stream, s.to.ip())).collect(),
                streams.iter().map(|s| s.linger).max().unwrap_or(Span::ZERO),
            ),
            TaskKind::UdpEcho(it) => {
                client(vec![Goes::Answered.stream(&it.stream, it.to.ip())], it.linger)
            }
            TaskKind::UdpSend(it) => {
                client(vec![Goes::There.stream(&it.stream, it.to.ip())], it.linger)
            }
            TaskKind::Tcp(it) => {
                let goes = match it.direction {
                    Direction::Up => Goes::There,
                    Direction::Down => Goes::Back,
                };
                About {
                    congestion: it.congestion.as_deref(),
                    ..client(vec![goes.stream(&it.stream, it.to.ip())], Span::ZERO)
                }
            }
            TaskKind::Rr(it) => client(
                vec![Goes::Answered.stream(&it.stream, it.to.ip())],
                // What was begun right before the end: a connection, and then a call.
                Span::from_nanos(it.patience.nanos().saturating_mul(2)),
            ),
            TaskKind::Page(it) => About {
                memory_mib: BROWSER_MIB,
                ..client(vec![Goes::Back.stream(&it.stream, it.to.ip())], Span::ZERO)
            },
            TaskKind::Command { .. } => About { is_foreign: true, ..About::default() },
            TaskKind::SampleQueues { .. } | TaskKind::SampleSockets { .. } => About::default(),
            TaskKind::ManageQueues { .. }
            | TaskKind::TcpListener { .. }
            | TaskKind::UdpReflector { .. }
            | TaskKind::TcpServer { .. }
            | TaskKind::UdpSink { .. }
            | TaskKind::RrServer { .. }
            | TaskKind::PageServer { .. } => server,
        }
    }
}

impl Goes {
    fn stream(self, name: &str, to: IpAddr) -> Stream<'_> {
        Stream { name, to, goes: self }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PingStream {
    pub stream: String,
    pub to: IpAddr,
    /// Time between packets.
    pub interval: Span,
    /// ICMP payload in bytes (56 as `ping` does by default).
    pub size: u32,
    /// TOS or traffic class byte, ECN bits included.
    pub tos: Tos,
    /// How long a reply is waited for: in virtual time so long, else at most (as long as the round trips seen ask for).
    pub linger: Span,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TcpPingStream {
    pub stream: String,
    /// Destination. A port where nobody listens answers too.
    pub to: SocketAddr,
    /// Time between attempts.
    pub interval: Span,
    /// TOS or traffic class byte; TCP keeps the ECN bits for itself.
    pub tos: Tos,
    /// How long a reply is waited for: in virtual time so long, else at most (as long as the round trips seen ask for).
    pub linger: Span,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpEcho {
    pub stream: String,
    pub to: SocketAddr,
    /// Time between packets.
    pub interval: Span,
    /// UDP payload in bytes, at least 44 (a STAMP packet).
    pub size: u32,
    /// TOS or traffic class byte.
    pub tos: Tos,
    /// How long a reply is waited for: in virtual time so long, else at most (as long as the round trips seen ask for).
    pub linger: Span,
    /// Whether the other end may have a clock of its own, which is then told as the fact `stream/NAME/clocks` = `apart`, unless the
    /// destination is this host's own address.
    pub other_clock: bool,
}

/// Which way the data of a TCP client flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the client, which connects, to the server.
    Up,
    Down,
}

/// TCP connections that send or receive in bulk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TcpClient {
    /// Name of the flow; with several connections `name-1`, `name-2` …
    pub stream: String,
    pub to: SocketAddr,
    /// How many connections at once.
    pub connections: u32,
    /// Which way the data flows.
    pub direction: Direction,
    /// Congestion control of the sending end (`TCP_CONGESTION`); none is the system's default.
    pub congestion: Option<String>,
    /// TOS byte of both ends.
    pub tos: Tos,
    /// Whether to ask for ECN: `Some(true)` needs `net.ipv4.tcp_ecn=1` on the host; none leaves the system's default.
    pub ecn: Option<bool>,
    /// Most bytes per second that the sender hands to the kernel (`SO_MAX_PACING_RATE`).
    pub pacing: Option<Rate>,
    /// Receive buffer of the receiving end, which fixes the window.
    pub window: Option<Bytes>,
    /// Maximum segment size (`TCP_MAXSEG`).
    pub mss: Option<u32>,
    /// End after this many bytes a connection, if that is before the duration.
    pub bytes: Option<Bytes>,
    pub report: Span,
    /// Each connection comes from an IPv6 address of its own, this one and those that follow it, which the host has beside its usual one.
    #[serde(default)]
    pub own_addresses: Option<Ipv6Addr>,
}

impl TcpClient {
    /// The addresses of its own that it comes from, a connection each.
    pub fn sources(&self) -> impl Iterator<Item = Ipv6Addr> {
        let first = self.own_addresses.map(u128::from);
        let all = first.into_iter().flat_map(|first| {
            (0..self.connections).map(move |n| first.saturating_add(u128::from(n)))
        });
        all.map(Ipv6Addr::from)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpSend {
    pub stream: String,
    pub to: SocketAddr,
    /// Rate of UDP payload while sending.
    pub rate: Rate,
    /// UDP payload in bytes.
    pub size: u32,
    pub tos: Tos,
    /// On-off: sends for `on`, is silent for `off`, and so on; none sends all the time.
    pub on_off: Option<OnOff>,
    /// Packets come as a Poisson process of that rate in the mean, each gap drawn alone; not at even times.
    pub poisson: bool,
    pub report: Span,
    /// How long after its end it stays, so that what it sent last still arrives and counts.
    pub linger: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnOff {
    pub on: Span,
    pub off: Span,
}

/// What a browser takes with one page open; what it does not use costs nothing.
const BROWSER_MIB: u32 = 1024;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageClient {
    pub stream: String,
    pub to: SocketAddr,
    /// What the server's certificate comes from.
    pub seed: u64,
    /// Most loads; it ends with them, or with its duration.
    pub loads: u32,
    /// Whether the browser keeps from load to load what it may keep; the first, which fills its cache, is not counted.
    pub warm: bool,
    /// How long a load may take.
    pub patience: Span,
    pub http: HttpVersion,
}

/// How requests and replies follow each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RrPattern {
    /// One write, then the reply, over and over on one connection.
    #[default]
    RequestResponse,
    /// A connection for each call: connect, one write, the reply.
    Connect,
    WriteWriteRead,
}

/// When `TCP_QUICKACK` is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuickAck {
    Once,
    /// Again after each receive.
    Rearmed,
}

/// Request and response over TCP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RrClient {
    pub stream: String,
    pub to: SocketAddr,
    /// How requests follow each other.
    pub pattern: RrPattern,
    /// Bytes of each write, and of the reply.
    pub size: u32,
    /// Most calls; it ends with them, or with its duration.
    pub calls: u32,
    /// `TCP_NODELAY` at both ends.
    pub nodelay: bool,
    /// Two writes become one of the same bytes.
    pub one_write: bool,
    /// `TCP_QUICKACK` at both ends.
    pub quickack: Option<QuickAck>,
    /// How long a connection, and then a reply, is waited for.
    pub patience: Span,
}
