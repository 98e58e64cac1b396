//! What is sent, and the thread that sends it.
//!
//! ```text
//!   PingSession ──prepare──► Prober ──run, on its own thread──► news ──► the caller's thread
//!                                   ▲
//!                  bell (Ctrl-C) ───┘
//! ```

use crate::{PingError, Target};
use nix::errno::Errno;
use quell_model::Event;
use quell_model::task::{PingStream, TcpPingStream, UdpEcho};
use quell_probe::{Patience, ProbeError, ProbeOptions, Prober};
use quell_sys::pace::Window;
use quell_sys::resolve;
use quell_sys::socket::option::largest_datagram;
use quell_sys::socket::{Udp, Way};
use quell_sys::wait::Bell;
use quell_units::Span;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::mpsc::SyncSender;

/// How often the prober tells what came: often enough for eyes, seldom enough for the CPU.
const FLUSH: Span = Span::from_millis(100);
/// Faster than this only root may send, and only where the network is one's own.
const LEAST_INTERVAL: Span = Span::from_millis(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    Icmp,
    /// STAMP over UDP, to `quell serve` or another reflector; shows the direction of losses and one-way delays
    Udp,
    /// The handshake of a TCP connection; an open or closed port answers
    Tcp,
}

impl Method {
    pub fn key(self) -> &'static str {
        match self {
            Method::Icmp => "icmp",
            Method::Udp => "udp",
            Method::Tcp => "tcp",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Method::Icmp => "ICMP",
            Method::Udp => "UDP (STAMP)",
            Method::Tcp => "TCP connect",
        }
    }
}

#[derive(Debug, Clone)]
pub struct PingSession {
    pub targets: Vec<Target>,
    pub method: Method,
    pub interval: Span,
    /// Packets of each stream; none is without end.
    pub count: Option<u64>,
    /// How long packets are sent; none is without end.
    pub duration: Option<Span>,
    /// How long a reply is awaited; none is as long as the path asks for.
    pub wait: Option<Span>,
    /// By which own address and device packets leave, for how many hops, whole or not.
    pub way: Way,
    /// Whether the other ends have this machine's clock.
    pub one_clock: bool,
    pub seed: u64,
}

impl PingSession {
    /// A ping must not become a flood by a slip of the finger.
    pub fn check(&self) -> Result<(), PingError> {
        let root = nix::unistd::geteuid().is_root();
        let far = self.targets.iter().find(|target| !target.to.ip().is_loopback());
        match far {
            Some(target) if self.interval < LEAST_INTERVAL && !root => {
                Err(PingError::Unusable(format!(
                    "-i {} to {}: more than {} packets a second to other machines only as root; take -i {LEAST_INTERVAL}",
                    self.interval,
                    target.host,
                    1_000_000_000 / LEAST_INTERVAL.nanos()
                )))
            }
            _ => Ok(()),
        }
    }

    /// The largest payload that one packet carries to all of these, as far as this host's kernel has learned of the paths; none where that is no less
    /// than what was sent, as of a hop that told nothing.
    pub fn largest(&self, targets: &[&Target]) -> Option<u64> {
        let of = |target: &&Target| {
            // Any port will do: nothing is sent.
            let to = SocketAddr::new(target.to.ip(), target.to.port().max(1));
            let to = match (target.to, to) {
                (SocketAddr::V6(from), SocketAddr::V6(mut to)) => {
                    to.set_scope_id(from.scope_id());
                    SocketAddr::V6(to)
                }
                (_, to) => to,
            };
            let socket = Udp::connected_by(to, target.tos.byte(), &self.way).ok()?;
            let most = largest_datagram(socket.as_fd(), to.is_ipv6())?;
            Some(most).filter(|most| *most < u64::from(target.size))
        };
        targets.iter().map(of).collect::<Option<Vec<u64>>>()?.into_iter().min()
    }
}

pub(crate) enum News {
    Event(Event),
    Ended(Result<(), ProbeError>),
}

impl PingSession {
    pub fn prepare(&self) -> Result<Prober, PingError> {
        let seed = self.seed;
        let prober = match self.method {
            Method::Icmp => quell_probe::ping::open(&self.streams(|t| self.icmp(t)), seed),
            Method::Udp => quell_probe::udp::open(&self.streams(|t| self.udp(t)), seed),
            Method::Tcp => quell_probe::tcp::open(&self.streams(|t| self.tcp(t)), seed),
        };
        prober.map(|p| p.flushing_every(FLUSH)).map_err(|error| self.refused(&error))
    }

    fn streams<T>(&self, of: impl Fn(&Target) -> T) -> Vec<(T, ProbeOptions)> {
        let options = |target: &Target| ProbeOptions {
            count: self.count,
            // An address of one link leaves by that link.
            way: Way {
                device: self.way.device.clone().or_else(|| resolve::zone(&target.to)),
                ..self.way.clone()
            },
            patience: Some(self.patience()),
            ..ProbeOptions::default()
        };
        self.targets.iter().map(|t| (of(t), options(t))).collect()
    }

    fn patience(&self) -> Patience {
        self.wait.map_or(Patience::usual(), Patience::exactly)
    }

    fn icmp(&self, target: &Target) -> PingStream {
        PingStream {
            stream: target.name.clone(),
            to: target.to.ip(),
            interval: self.interval,
            size: target.size,
            tos: target.tos,
            linger: self.wait.unwrap_or(quell_probe::patience::LEAST),
        }
    }

    fn udp(&self, target: &Target) -> UdpEcho {
        UdpEcho {
            stream: target.name.clone(),
            to: target.to,
            interval: self.interval,
            size: target.size,
            tos: target.tos,
            linger: self.wait.unwrap_or(quell_probe::patience::LEAST),
            other_clock: !self.one_clock,
        }
    }

    fn tcp(&self, target: &Target) -> TcpPingStream {
        TcpPingStream {
            stream: target.name.clone(),
            to: target.to,
            interval: self.interval,
            tos: target.tos,
            linger: self.wait.unwrap_or(quell_probe::patience::LEAST),
        }
    }

    fn refused(&self, error: &ProbeError) -> PingError {
        match error {
            ProbeError::Parameter { .. } => PingError::Unusable(error.to_string()),
            ProbeError::System(system)
                if self.method == Method::Icmp
                    && system.tried.contains("open")
                    && matches!(system.errno, Errno::EACCES | Errno::EPERM) =>
            {
                PingError::System(
                    "ICMP is not allowed to this user. One of these helps:\n  \
                     sudo sysctl net.ipv4.ping_group_range='0 2147483647'   (ping sockets for everybody)\n  \
                     sudo setcap cap_net_raw+ep PATH-TO-QUELL               (raw sockets for quell)\n  \
                     sudo quell ping ...                                    (as root)\n\
                     Or ping without ICMP: --method udp needs `quell serve` or another STAMP reflector there,\n\
                     --method tcp an open or closed TCP port."
                        .into(),
                )
            }
            ProbeError::System(system)
                if self.way.ttl.is_some() && system.tried.contains("TTL") =>
            {
                PingError::Unusable(format!("-H: {error}"))
            }
            // What was named with -I can't be.
            ProbeError::System(system)
                if self.way != Way::default()
                    && matches!(
                        system.errno,
                        Errno::ENODEV | Errno::EADDRNOTAVAIL | Errno::EAFNOSUPPORT | Errno::EINVAL
                    ) =>
            {
                PingError::Unusable(format!("-I: {error}"))
            }
            ProbeError::System(_) => PingError::System(error.to_string()),
        }
    }

    /// When packets leave: from now on, until the end that was asked for.
    pub fn window(&self) -> Window {
        Window::from_now(self.duration.map(Span::nanos))
    }
}

pub(crate) fn send(
    prober: Prober,
    window: &Window,
    stop: &Bell,
    news: &SyncSender<News>,
    told: &Bell,
) {
    let emit = |event: Event| {
        // Nobody reads any more only when the program is about to end.
        let _ = news.send(News::Event(event));
        told.ring();
    };
    let result = prober.run(window, stop, &emit);
    let _ = news.send(News::Ended(result));
    told.ring();
}
