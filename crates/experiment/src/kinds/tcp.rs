//! Bulk TCP: a load, or a probe of goodput.

use super::kind::{Bad, Kind, MOST_CONNECTIONS, Opening, Works, from_to, no_tos, opens};
use super::maker::{Maker, REPORT, Role};
use crate::plan::PlanError;
use quell_load::tcp::{Client, Server};
use quell_model::task::{Direction, TcpClient};
use quell_model::{Metric, Task, TaskKind};
use quell_units::{Bytes, Rate, Span, Tos};
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TcpFlow {
    pub name: String,
    pub from: String,
    pub to: String,
    #[serde(default = "single")]
    pub connections: u32,
    /// Which way the data goes: `up` from the connecting host, or `down` to it.
    #[serde(default = "upward")]
    pub direction: Direction,
    /// Congestion control of the sending end: `cubic`, `reno`, `bbr` …
    pub congestion: Option<String>,
    #[serde(default = "no_tos")]
    pub tos: Tos,
    /// Whether both hosts use ECN (RFC 3168).
    pub ecn: Option<bool>,
    pub pacing: Option<Rate>,
    /// Socket buffer of the receiving end, which fixes the window; absent, the kernel tunes it.
    pub window: Option<Bytes>,
    /// Maximum segment size in bytes.
    pub mss: Option<u32>,
    /// Each connection ends after this many bytes.
    pub bytes: Option<Bytes>,
    /// When it starts, from the start of the measurement; absent, with the warm-up.
    pub start: Option<Span>,
    /// How long it lasts; absent, to the end.
    pub duration: Option<Span>,
    #[serde(default)]
    pub ipv6: bool,
    /// Each connection comes from an IPv6 address of its own, as those of a host that takes a new one now and then (RFC 8981).
    #[serde(default)]
    pub own_addresses: bool,
}

fn single() -> u32 {
    1
}

fn upward() -> Direction {
    Direction::Up
}

/// Least and largest segment sizes that the kernel takes (`TCP_MIN_MSS`, `MAX_TCP_WINDOW`, include/net/tcp.h).
const SEGMENTS: std::ops::RangeInclusive<u32> = 88..=32_767;

/// Longest name of a congestion control (`TCP_CA_NAME_MAX` - 1, include/net/tcp.h).
const LONGEST_CONGESTION: usize = 15;

/// Least receive buffer: half of `SOCK_MIN_RCVBUF` (include/net/sock.h), since the kernel doubles what it is given.
const LEAST_WINDOW: u64 = 1_152;

/// Largest receive buffer that the window scale of RFC 7323 can tell of.
const LARGEST_WINDOW: u64 = 1 << 30;

impl Kind for TcpFlow {
    from_to!();

    fn times(&self) -> (Option<Span>, Option<Span>) {
        (self.start, self.duration)
    }

    fn connections(&self) -> u32 {
        self.connections
    }

    fn ecn(&self) -> Option<bool> {
        self.ecn
    }

    fn metrics(&self) -> &'static [Metric] {
        &[Metric::Goodput, Metric::GoodputAll, Metric::Share, Metric::Retransmits, Metric::Cpu]
    }

    fn check(&self, bad: Bad<'_>) {
        if !(1..=MOST_CONNECTIONS).contains(&self.connections) {
            let why =
                format!("{} connections can't be; give 1 to {MOST_CONNECTIONS}", self.connections);
            bad("connections", why);
        }
        if let Some(mss) = self.mss.filter(|m| !SEGMENTS.contains(m)) {
            let (least, most) = (SEGMENTS.start(), SEGMENTS.end());
            let why = format!("an mss of {mss} can't be; the kernel takes {least} to {most} bytes");
            bad("mss", why);
        }
        if let Some(window) = self.window
            && !(LEAST_WINDOW..=LARGEST_WINDOW).contains(&window.get())
        {
            let why = format!("a window of {window} can't be; give {LEAST_WINDOW}B to 1GiB");
            bad("window", why);
        }
        if let Some(name) = &self.congestion
            && !(1..=LONGEST_CONGESTION).contains(&name.len())
        {
            let why = format!(
                "`congestion` names a kernel's congestion control, as \"cubic\"; \"{name}\" can't be one"
            );
            bad("congestion", why);
        }
        if self.own_addresses && !self.ipv6 {
            let why = "a host has many addresses over IPv6 only; give ipv6 = true beside it";
            bad("own-addresses", why.into());
        }
        if self.bytes.is_some_and(|b| b.get() == 0) {
            let why = "with 0 bytes it carries nothing; leave `bytes` out to send to the end";
            bad("bytes", why.into());
        }
    }

    fn plan(&self, maker: &mut Maker<'_>) -> Result<(), PlanError> {
        // The window is set where the data arrives; for data that comes down, the client is that end.
        let window = self.window;
        let congestion = self.congestion.clone();
        let server = |bind| TaskKind::TcpServer {
            bind,
            report: REPORT,
            window,
            congestion: congestion.clone(),
        };
        let client = TcpClient {
            stream: self.name.clone(),
            to: maker.server(&self.to, self.ipv6, server)?,
            connections: self.connections,
            direction: self.direction,
            congestion: self.congestion.clone(),
            tos: self.tos,
            ecn: self.ecn,
            pacing: self.pacing,
            window,
            mss: self.mss,
            bytes: self.bytes,
            report: REPORT,
            own_addresses: match self.own_addresses {
                true => Some(maker.own_addresses(&self.from)?),
                false => None,
            },
        };
        // A probe warms up like a load: what is measured is the transfer, not its first round trips. One that is limited is measured as
        // a whole.
        let is_limited = self.bytes.is_some() || self.duration.is_some();
        let at_once = (maker.role == Role::Probe && is_limited).then_some(Span::ZERO);
        let when = maker.warmed_up(self.start.or(at_once), self.duration);
        maker.client(&self.from, when, TaskKind::Tcp(client));
        Ok(())
    }
}

impl Works for TcpFlow {
    fn work(task: &Task) -> Option<Opening<'_>> {
        match &task.kind {
            TaskKind::Tcp(it) => opens(|| Client::prepare(&task.id, it, task.seed), Client::run),
            TaskKind::TcpServer { bind, report, window, congestion } => opens(
                || Server::prepare(&task.id, *bind, *report, *window, congestion.clone()),
                Server::run,
            ),
            _ => None,
        }
    }
}
