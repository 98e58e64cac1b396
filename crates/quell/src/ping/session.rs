//! One call of `quell ping`: what is sent, and the threads that send it.
//!
//! ```text
//!   Session ──prepare──► probers ──run, a thread each──► events ──► the caller's thread
//!                                       ▲
//!                      bell (Ctrl-C) ───┘
//! ```

use super::target::Target;
use crate::failure::Failure;
use clap::ValueEnum;
use quell_model::Event;
use quell_model::task::{PingStream, UdpEcho};
use quell_probe::{Emit, Ping, ProbeError, UdpEchoClient};
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::wait::Bell;
use quell_units::Span;
use std::sync::mpsc::SyncSender;

/// From the last preparation to the first packet.
const HEAD_START_NS: u64 = 2_000_000;
/// Long enough for everybody, and far from where sums overflow.
const ENDLESS_NS: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// ICMP echo
    Icmp,
    /// STAMP over UDP, to `quell serve` or another reflector; tells the direction of losses and one-way delays
    Udp,
    /// The handshake of a TCP connection; an open or closed port answers
    #[value(skip)]
    Tcp,
}

impl Method {
    /// For a person.
    pub fn name(self) -> &'static str {
        match self {
            Method::Icmp => "ICMP",
            Method::Udp => "UDP (STAMP)",
            Method::Tcp => "TCP connect",
        }
    }

    /// For a program.
    pub fn key(self) -> &'static str {
        match self {
            Method::Icmp => "icmp",
            Method::Udp => "udp",
            Method::Tcp => "tcp",
        }
    }
}

/// What is asked for, with addresses.
#[derive(Debug, Clone)]
pub struct Session {
    /// The streams.
    pub targets: Vec<Target>,
    /// What is sent.
    pub method: Method,
    /// Time between packets of a stream.
    pub interval: Span,
    /// Packets of each stream; none is without end.
    pub count: Option<u64>,
    /// How long packets are sent; none is without end.
    pub duration: Option<Span>,
    /// How long a reply is awaited.
    pub wait: Span,
    /// From this come the sending times.
    pub seed: u64,
}

/// What a thread tells.
pub enum News {
    /// Packets of a stream.
    Event(Event),
    /// A prober ended.
    Ended(Result<(), ProbeError>),
}

/// Something that sends, with its sockets open.
pub enum Prober {
    /// All ICMP streams.
    Icmp(Ping),
    /// One UDP stream.
    Udp(UdpEchoClient),
}

impl Session {
    /// Opens all sockets; nothing is sent yet.
    pub fn prepare(&self) -> Result<Vec<Prober>, Failure> {
        let probers = match self.method {
            Method::Icmp => {
                let streams: Vec<PingStream> = self.targets.iter().map(|t| self.icmp(t)).collect();
                Ping::prepare(&streams, self.seed).map(|ping| vec![Prober::Icmp(ping)])
            }
            Method::Udp => self
                .targets
                .iter()
                .map(|t| UdpEchoClient::prepare(&self.udp(t), self.seed).map(Prober::Udp))
                .collect(),
            Method::Tcp => return Err(Failure::usage("--method tcp is not there yet")),
        };
        probers.map_err(|error| self.refused(&error))
    }

    fn icmp(&self, target: &Target) -> PingStream {
        PingStream {
            stream: target.name.clone(),
            to: target.to.ip(),
            interval: self.interval,
            size: target.size,
            tos: target.tos,
            linger: self.wait,
        }
    }

    fn udp(&self, target: &Target) -> UdpEcho {
        UdpEcho {
            stream: target.name.clone(),
            to: target.to,
            interval: self.interval,
            size: target.size,
            tos: target.tos,
            linger: self.wait,
        }
    }

    /// Why it can't begin, and what to do.
    fn refused(&self, error: &ProbeError) -> Failure {
        match error {
            ProbeError::Parameter { .. } => Failure::usage(error),
            ProbeError::System(system)
                if self.method == Method::Icmp
                    && system.tried.contains("open")
                    && matches!(
                        system.errno,
                        nix::errno::Errno::EACCES | nix::errno::Errno::EPERM
                    ) =>
            {
                Failure::system(
                    "ICMP is not allowed to this user. One of these helps:\n  \
                     sudo sysctl net.ipv4.ping_group_range='0 2147483647'   (ping sockets for everybody)\n  \
                     sudo setcap cap_net_raw+ep PATH-TO-QUELL               (raw sockets for quell)\n  \
                     sudo quell ping ...                                    (as root)\n\
                     Or ping without ICMP: --method udp needs `quell serve` or another STAMP reflector there,\n\
                     --method tcp an open or closed TCP port.",
                )
            }
            ProbeError::System(_) => Failure::system(error),
        }
    }

    /// Packets leave from now on; what they show goes to `news`, and `bell` rings for each piece. Returns the threads' window at once.
    pub fn window(&self) -> Window {
        let start_ns = monotonic_ns() + HEAD_START_NS;
        let counted = self.count.map(|n| self.interval.nanos().saturating_mul(n));
        let timed = self.duration.map(Span::nanos);
        let duration_ns = [counted, timed].into_iter().flatten().min().unwrap_or(ENDLESS_NS);
        Window { origin_ns: start_ns, start_ns, duration_ns: duration_ns.min(ENDLESS_NS) }
    }
}

impl Prober {
    /// Sends until it is done or told to stop.
    pub fn run(self, window: &Window, stop: &Bell, news: &SyncSender<News>, told: &Bell) {
        let emit = |event: Event| {
            // Nobody reads any more only when the program is about to end.
            let _ = news.send(News::Event(event));
            told.ring();
        };
        let emit: Emit<'_> = &emit;
        let result = match self {
            Prober::Icmp(ping) => ping.run(window, stop, emit),
            Prober::Udp(client) => client.run(window, stop, emit),
        };
        let _ = news.send(News::Ended(result));
        told.ring();
    }
}
