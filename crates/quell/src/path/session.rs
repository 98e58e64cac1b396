//! One call of `quell path`: what is sent where.

use crate::failure::Failure;
use crate::host;
use clap::ValueEnum;
use nix::errno::Errno;
use quell_probe::path::{PathProbe, PathSpec, Sent};
use quell_probe::{Patience, ProbeError};
use quell_sys::socket::Way;
use quell_units::{Span, Tos};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// Where traceroute sends first, and nobody listens.
pub const UDP_PORT: u16 = 33_434;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// ICMP echo
    Icmp,
    /// UDP datagrams to a port where nobody should listen
    Udp,
    /// SYNs of TCP; an open or closed port answers
    Tcp,
}

impl Method {
    /// For a person.
    pub fn name(self) -> &'static str {
        match self {
            Method::Icmp => "ICMP",
            Method::Udp => "UDP",
            Method::Tcp => "TCP SYN",
        }
    }
}

/// What is asked for, with addresses. A kept run remembers it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Session {
    /// The host as it was named.
    pub host: String,
    /// Where that is; the port is 0 for ICMP.
    pub to: SocketAddr,
    /// Other addresses of the host.
    pub others: Vec<IpAddr>,
    /// What is sent.
    pub method: Method,
    /// Of each flow its own port, or identifier for ICMP.
    pub ports: Vec<u16>,
    /// From one round to the next.
    pub interval_ns: u64,
    /// Bytes of payload.
    pub size: u32,
    /// TOS byte of the probes.
    pub tos: u8,
    /// Whether sizes and marks are asked for.
    pub survey: bool,
    /// Whether it can be seen with which TOS byte packets arrive.
    pub sees_marks: bool,
}

/// What only the probe needs.
#[derive(Debug, Clone)]
pub struct Wishes {
    /// How many flows.
    pub flows: u16,
    /// The first one's own port.
    pub port: u16,
    /// Rounds of each flow.
    pub count: Option<u64>,
    /// The farthest hop.
    pub most_hops: u8,
    /// How long an answer is waited for.
    pub wait: Option<Span>,
    /// By which own address and device packets leave.
    pub way: Way,
}

impl Session {
    /// Opens the sockets. Where nobody chose what is sent and ICMP is not allowed, UDP is taken.
    pub fn prepare(&mut self, wishes: &Wishes, chosen: bool) -> Result<PathProbe, Failure> {
        let probe = match self.open(wishes) {
            Err(error) if !chosen && self.method == Method::Icmp && is_forbidden(&error) => {
                self.method = Method::Udp;
                self.to.set_port(UDP_PORT);
                self.open(wishes)
            }
            opened => opened,
        };
        let probe = probe.map_err(|error| self.refused(&error, wishes))?;
        self.ports = probe.ports();
        self.sees_marks = probe.sees_marks();
        Ok(probe)
    }

    fn open(&self, wishes: &Wishes) -> Result<PathProbe, ProbeError> {
        let device = wishes.way.device.clone().or_else(|| host::zone(&self.to));
        PathProbe::open(PathSpec {
            to: self.to,
            sent: match self.method {
                Method::Icmp => Sent::Icmp,
                Method::Udp => Sent::Udp,
                Method::Tcp => Sent::Tcp,
            },
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

    /// Why it can't begin, and what to do.
    fn refused(&self, error: &ProbeError, wishes: &Wishes) -> Failure {
        match error {
            ProbeError::Parameter { .. } => Failure::usage(error),
            _ if self.method == Method::Icmp && is_forbidden(error) => Failure::system(
                "ICMP is not allowed to this user. One of these helps:\n  \
                 sudo sysctl net.ipv4.ping_group_range='0 2147483647'   (ping sockets for everybody)\n  \
                 quell path --method udp HOST, or --method tcp          (need no rights)",
            ),
            // What was named with -I can't be.
            ProbeError::System(system)
                if wishes.way != Way::default()
                    && matches!(
                        system.errno,
                        Errno::ENODEV | Errno::EADDRNOTAVAIL | Errno::EAFNOSUPPORT | Errno::EINVAL
                    ) =>
            {
                Failure::usage(format!("-I: {error}"))
            }
            ProbeError::System(_) => Failure::system(error),
        }
    }
}

fn is_forbidden(error: &ProbeError) -> bool {
    matches!(error, ProbeError::System(system)
        if system.tried.contains("open") && matches!(system.errno, Errno::EACCES | Errno::EPERM))
}
