//! One call of `quell path`: what is sent where.

use nix::errno::Errno;
use quell_probe::path::{PathProbe, PathSpec, ProbeKind};
use quell_probe::{Patience, ProbeError};
use quell_sys::socket::Way;
use quell_units::{Span, Tos};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// Where traceroute sends first, and nobody listens.
pub const UDP_PORT: u16 = 33_434;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeMethod {
    Icmp,
    /// Datagrams to a port where nobody should listen.
    Udp,
    Tcp,
}

impl ProbeMethod {
    pub fn name(self) -> &'static str {
        match self {
            Self::Icmp => "ICMP",
            Self::Udp => "UDP",
            Self::Tcp => "TCP SYN",
        }
    }

    fn kind(self) -> ProbeKind {
        match self {
            Self::Icmp => ProbeKind::Icmp,
            Self::Udp => ProbeKind::Udp,
            Self::Tcp => ProbeKind::Tcp,
        }
    }
}

/// What is asked for, with addresses. A kept run remembers it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PathSession {
    pub host: String,
    /// Where that is; the port is 0 for ICMP.
    pub to: SocketAddr,
    pub others: Vec<IpAddr>,
    pub method: ProbeMethod,
    /// Of each flow its own port, or identifier for ICMP.
    pub ports: Vec<u16>,
    pub interval_ns: u64,
    pub size: u32,
    pub tos: u8,
    pub survey: bool,
    /// Whether it can be seen with which TOS byte packets arrive.
    pub sees_marks: bool,
}

#[derive(Debug, Clone)]
pub struct PathWishes {
    pub flows: u16,
    pub port: u16,
    pub count: Option<u64>,
    pub most_hops: u8,
    pub wait: Option<Span>,
    /// By which own address and device packets leave, as was chosen.
    pub way: Way,
    pub zone: Option<String>,
}

#[derive(Debug)]
pub enum PathError {
    /// What was asked for can't be: which option, where it is one, and why.
    Wrong(String),
    Forbidden,
    System(ProbeError),
}

impl PathSession {
    pub fn flows(&self) -> u16 {
        u16::try_from(self.ports.len()).unwrap_or(u16::MAX)
    }

    /// Opens the sockets. Where nobody chose what is sent and ICMP is not allowed, UDP is taken.
    pub fn prepare(&mut self, wishes: &PathWishes, chosen: bool) -> Result<PathProbe, PathError> {
        let probe = match self.open(wishes) {
            Err(error) if !chosen && self.method == ProbeMethod::Icmp && is_forbidden(&error) => {
                self.method = ProbeMethod::Udp;
                self.to.set_port(UDP_PORT);
                self.open(wishes)
            }
            opened => opened,
        };
        let probe = probe.map_err(|error| self.refused(error, wishes))?;
        self.ports = probe.ports();
        self.sees_marks = probe.sees_marks();
        Ok(probe)
    }

    fn open(&self, wishes: &PathWishes) -> Result<PathProbe, ProbeError> {
        let device = wishes.way.device.clone().or_else(|| wishes.zone.clone());
        PathProbe::open(PathSpec {
            to: self.to,
            sent: self.method.kind(),
            flows: wishes.flows,
            port: wishes.port,
            interval: Span::from_nanos(self.interval_ns),
            count: wishes.count,
            size: self.size,
            tos: Tos::from_byte(self.tos),
            most_hops: wishes.most_hops,
            patience: wishes.wait.map_or(Patience::usual(), Patience::exactly),
            way: Way { device, ..wishes.way.clone() },
            survey: self.survey,
        })
    }

    fn refused(&self, error: ProbeError, wishes: &PathWishes) -> PathError {
        use Errno::{EADDRNOTAVAIL, EAFNOSUPPORT, EINVAL, ENODEV};
        match &error {
            ProbeError::Parameter { .. } => PathError::Wrong(error.to_string()),
            _ if self.method == ProbeMethod::Icmp && is_forbidden(&error) => PathError::Forbidden,
            // What was named with -I can't be.
            ProbeError::System(system)
                if wishes.way != Way::default()
                    && [ENODEV, EADDRNOTAVAIL, EAFNOSUPPORT, EINVAL].contains(&system.errno) =>
            {
                PathError::Wrong(format!("-I: {error}"))
            }
            ProbeError::System(_) => PathError::System(error),
        }
    }
}

fn is_forbidden(error: &ProbeError) -> bool {
    matches!(error, ProbeError::System(system)
        if system.tried.contains("open") && matches!(system.errno, Errno::EACCES | Errno::EPERM))
}
