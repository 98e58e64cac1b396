//! Makes the tasks of one cell out of its loads and probes: addresses, ports, times and seeds.

use crate::plan::PlanError;
use quell_lab::topology::Network;
use quell_model::{Task, TaskKind};
use quell_stats::rng::Rng;
use quell_units::Span;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub const REPORT: Span = Span::from_millis(100);

const FIRST_PORT: u16 = 5201;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Probe,
    Load,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Probe => "probe",
            Role::Load => "load",
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub struct When {
    start_ns: i64,
    duration: Span,
}

#[derive(Debug)]
pub struct Maker<'a> {
    network: &'a Network,
    rng: Rng,
    port: u16,
    own_addresses: u16,
    warm_up: Span,
    duration: Span,
    /// How long a packet may be under way: probes wait so long for replies, UDP loads for what they sent last.
    pub(super) linger: Span,
    /// Whether each host has a clock of its own.
    pub(super) other_clock: bool,
    /// What it is in this experiment whose tasks are made now.
    pub(super) role: Role,
    id: String,
    tasks: Vec<Task>,
}

impl<'a> Maker<'a> {
    pub fn new(
        network: &'a Network,
        warm_up: Span,
        duration: Span,
        linger: Span,
        seed: u64,
    ) -> Self {
        Self {
            network,
            rng: Rng::new(seed),
            port: FIRST_PORT,
            own_addresses: 0,
            warm_up,
            duration,
            linger,
            other_clock: false,
            role: Role::Probe,
            id: String::new(),
            tasks: Vec::new(),
        }
    }

    /// For real hosts: servers listen from this port on, or the usual one.
    pub fn on_machines(self, first_port: Option<u16>) -> Self {
        Self { other_clock: true, port: first_port.unwrap_or(self.port), ..self }
    }

    /// What comes next are the tasks of this probe or load.
    pub fn begin(&mut self, role: Role, name: &str) {
        self.role = role;
        self.id = format!("{role}/{name}");
    }

    pub fn tasks(self) -> Vec<Task> {
        self.tasks
    }

    pub fn measured(&self) -> When {
        When { start_ns: 0, duration: self.duration }
    }

    /// From the warm-up to the end, unless it is said otherwise.
    pub fn warmed_up(&self, start: Option<Span>, duration: Option<Span>) -> When {
        let start_ns = match start {
            Some(start) => start.nanos() as i64,
            None => -(self.warm_up.nanos() as i64),
        };
        let rest = (self.duration.nanos() as i64 - start_ns).max(0) as u64;
        let duration = duration.map_or(rest, |d| d.nanos().min(rest));
        When { start_ns, duration: Span::from_nanos(duration) }
    }

    pub fn address(&self, node: &str, ipv6: bool) -> Result<IpAddr, PlanError> {
        let index = self.network.find(&self.id, node)?;
        let v6 = self.network.v6(index).map(IpAddr::V6);
        // A real host may be reached by IPv6 alone.
        let address = if ipv6 { v6 } else { self.network.v4(index).map(IpAddr::V4).or(v6) };
        address.ok_or_else(|| self.no_address(node))
    }

    fn no_address(&self, node: &str) -> PlanError {
        PlanError::Other(format!("{}: `{node}` has no link and so no address", self.id))
    }

    /// The first of so many addresses as anybody asks for that a node has beside its usual one, in the same network: `fd00:0:0:i:1::1`
    /// and those that follow it. No two loads or probes of a cell have one in common.
    pub fn own_addresses(&mut self, node: &str) -> Result<Ipv6Addr, PlanError> {
        let usual = self.network.v6(self.network.find(&self.id, node)?);
        let usual = usual.ok_or_else(|| self.no_address(node))?;
        self.own_addresses += 1;
        let [a, b, c, d, ..] = usual.segments();
        Ok(Ipv6Addr::new(a, b, c, d, self.own_addresses, 0, 0, 1))
    }

    pub fn fill_in(&self, word: &str) -> Result<String, PlanError> {
        Ok(self.network.fill_in(&self.id, word)?)
    }

    /// What a secret of the probe or load, that both of its ends know, comes from.
    pub fn seed(&self, what: &str) -> u64 {
        self.rng.derive(&format!("{what}/{}", self.id)).u64()
    }

    pub fn server(
        &mut self,
        host: &str,
        ipv6: bool,
        kind: impl Fn(SocketAddr) -> TaskKind,
    ) -> Result<SocketAddr, PlanError> {
        let to = SocketAddr::new(self.address(host, ipv6)?, self.port);
        self.port += 1;
        let any: IpAddr =
            if to.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let id = format!("server/{}", self.id);
        self.push(id, host, self.measured(), kind(SocketAddr::new(any, to.port())));
        Ok(to)
    }

    pub fn client(&mut self, host: &str, when: When, kind: TaskKind) {
        self.push(self.id.clone(), host, when, kind);
    }

    fn push(&mut self, id: String, host: &str, when: When, kind: TaskKind) {
        let seed = self.rng.derive(&id).u64();
        let When { start_ns, duration } = when;
        self.tasks.push(Task { id, host: host.into(), start_ns, duration, seed, kind });
    }
}
