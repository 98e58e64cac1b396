//! An experiment as a person writes it: one TOML file.
//!
//! ```text
//!   scenarios × probes × repeats ──► cells (see the module `plan`)
//!      │          │
//!      │          └ what is measured: ping, udp, tcp, rr
//!      └ what burdens the network: loads, queues, settings, changes on a timeline
//! ```
//!
//! Unknown keys are refused, with the nearest right one; names that nothing has, rates of zero and the like too.

pub mod check;
mod claims;
pub mod load_file;
mod place;
pub mod set;

use quell_lab::topology::{Interface, Line, Topology};
use quell_model::task::{Direction, QuickAck, RrPattern};
use quell_shaper::Policy;
use quell_tc::Queue;
use quell_units::{Bytes, Rate, Span, Tos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A whole experiment file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// Short name: letters, digits and dashes. Names the run's folder.
    pub name: String,
    /// One line for people.
    #[serde(default)]
    pub title: String,
    /// What it shows and how to read it.
    #[serde(default)]
    pub about: String,
    /// From this comes all randomness.
    #[serde(default = "one")]
    pub seed: u64,
    /// How often each cell runs, each time with another seed.
    #[serde(default = "once")]
    pub repeat: u32,
    /// How long is measured.
    pub duration: Span,
    /// How long the loads, and TCP probes, run before the measurement starts.
    #[serde(default = "no_time")]
    pub warm_up: Span,
    /// Whether each probe runs by itself, or all at once.
    #[serde(default)]
    pub probes_run: ProbesRun,
    /// How often queues are sampled; absent, they are sampled five times a second.
    #[serde(default = "fifth")]
    pub sample_queues: Span,
    /// The network.
    pub topology: Topology,
    /// Settings on every node, as `"net.ipv4.tcp_ecn" = "1"`.
    #[serde(default)]
    pub sysctl: BTreeMap<String, String>,
    /// What burdens the network.
    #[serde(default)]
    pub load: Vec<Load>,
    /// Queue disciplines that scenarios put in place.
    #[serde(default)]
    pub queue: Vec<QueueAt>,
    /// What is compared.
    pub scenario: Vec<Scenario>,
    /// What is measured.
    pub probe: Vec<Probe>,
    /// What changes while it runs.
    #[serde(default)]
    pub timeline: Vec<Change>,
    /// Claims that must hold, checked after the run: see the module `expect`.
    #[serde(default)]
    pub expect: Vec<String>,
}

fn one() -> u64 {
    1
}

fn once() -> u32 {
    1
}

fn no_time() -> Span {
    Span::from_nanos(0)
}

fn fifth() -> Span {
    Span::from_millis(200)
}

/// Whether probes share the network with each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbesRun {
    /// Each probe has the network, and the scenario's loads, to itself.
    #[default]
    Apart,
    /// All probes at once.
    Together,
}

/// A stress on the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case"
)]
pub enum Load {
    /// Bulk TCP.
    Tcp(TcpFlow),
    /// UDP at a constant rate, whether the network carries it or not.
    Udp(UdpFlow),
    /// Any program of this machine, run on a host of the topology.
    Command(Program),
}

impl Load {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Load::Tcp(l) => &l.name,
            Load::Udp(l) => &l.name,
            Load::Command(l) => &l.name,
        }
    }
}

/// TCP connections that carry as much as goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TcpFlow {
    /// Its name in the results.
    pub name: String,
    /// The host that connects.
    pub from: String,
    /// The host that it connects to.
    pub to: String,
    /// How many connections at once.
    #[serde(default = "once")]
    pub connections: u32,
    /// Which way the data goes: `up` from the connecting host, or `down` to it.
    #[serde(default = "upward")]
    pub direction: Direction,
    /// Congestion control of the sending end: `cubic`, `reno`, `bbr` …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// TOS byte or DSCP name.
    #[serde(default = "no_tos")]
    pub tos: Tos,
    /// Whether both hosts use ECN (RFC 3168).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// The sender paces to this rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Rate>,
    /// Socket buffer of the receiving end, which fixes the window; absent, the kernel tunes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Bytes>,
    /// Maximum segment size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss: Option<u32>,
    /// Each connection ends after this many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// When it starts, from the start of the measurement; absent, with the warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Span>,
    /// How long it lasts; absent, to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Over IPv6.
    #[serde(default)]
    pub ipv6: bool,
}

fn upward() -> Direction {
    Direction::Up
}

fn no_tos() -> Tos {
    Tos::from_byte(0)
}

/// UDP in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UdpFlow {
    /// Its name in the results.
    pub name: String,
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// Rate of UDP payload.
    pub rate: Rate,
    /// UDP payload of each packet.
    pub size: Bytes,
    /// TOS byte or DSCP name.
    #[serde(default = "no_tos")]
    pub tos: Tos,
    /// Sends for this long …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Span>,
    /// … then is silent for this long, and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<Span>,
    /// When it starts, from the start of the measurement; absent, with the warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Span>,
    /// How long it lasts; absent, to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Over IPv6.
    #[serde(default)]
    pub ipv6: bool,
}

/// A program of this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Program {
    /// Its name in the results.
    pub name: String,
    /// The host that it runs on.
    pub on: String,
    /// Program and arguments. No shell: `["iperf3", "-c", "{server}"]`; `{node}` stands for that node's IPv4 address, `{node/6}`
    /// for its IPv6 address.
    pub run: Vec<String>,
    /// When it starts, from the start of the measurement; absent, with the warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Span>,
    /// When it is ended; absent, at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
}

/// A measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case"
)]
pub enum Probe {
    /// ICMP echo.
    Ping(PingProbe),
    /// TCP connects.
    TcpPing(TcpPingProbe),
    /// A UDP stream that is reflected: one-way delays, loss with direction, jitter.
    Udp(UdpProbe),
    /// TCP goodput over time.
    Tcp(TcpFlow),
    /// Request and response over TCP, one call after the other.
    Rr(RrProbe),
}

impl Probe {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Probe::Ping(p) => &p.name,
            Probe::TcpPing(p) => &p.name,
            Probe::Udp(p) => &p.name,
            Probe::Tcp(p) => &p.name,
            Probe::Rr(p) => &p.name,
        }
    }
}

/// ICMP echo from one host to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PingProbe {
    /// Its name in the results.
    pub name: String,
    /// The host that asks.
    pub from: String,
    /// The host that answers.
    pub to: String,
    /// Time between packets.
    #[serde(default = "fifth")]
    pub interval: Span,
    /// ICMP payload.
    #[serde(default = "ping_size")]
    pub size: Bytes,
    /// TOS byte or DSCP name.
    #[serde(default = "no_tos")]
    pub tos: Tos,
    /// ICMPv6.
    #[serde(default)]
    pub ipv6: bool,
}

fn ping_size() -> Bytes {
    Bytes::new(56)
}

/// TCP connects from one host to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TcpPingProbe {
    /// Its name in the results.
    pub name: String,
    /// The host that connects.
    pub from: String,
    /// The host that answers.
    pub to: String,
    /// Time between attempts.
    #[serde(default = "fifth")]
    pub interval: Span,
    /// Whether somebody listens there. Where nobody does the host answers too, with a refusal.
    #[serde(default = "yes")]
    pub listens: bool,
    /// TOS byte or DSCP name.
    #[serde(default = "no_tos")]
    pub tos: Tos,
    /// Over IPv6.
    #[serde(default)]
    pub ipv6: bool,
}

fn yes() -> bool {
    true
}

/// A reflected UDP stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UdpProbe {
    /// Its name in the results.
    pub name: String,
    /// The host that sends.
    pub from: String,
    /// The host that reflects.
    pub to: String,
    /// Rate of UDP payload.
    pub rate: Rate,
    /// UDP payload of each packet.
    pub size: Bytes,
    /// TOS byte or DSCP name.
    #[serde(default = "no_tos")]
    pub tos: Tos,
    /// Over IPv6.
    #[serde(default)]
    pub ipv6: bool,
}

/// Request and response over TCP: the next call begins when the reply is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RrProbe {
    /// Its name in the results.
    pub name: String,
    /// The host that asks.
    pub from: String,
    /// The host that answers.
    pub to: String,
    /// How writes and replies follow each other.
    #[serde(default)]
    pub pattern: RrPattern,
    /// Bytes of each write, and of the reply.
    #[serde(default = "call_size")]
    pub size: Bytes,
    /// Most calls; it ends with them, or at the end of the measurement.
    #[serde(default = "some_calls")]
    pub calls: u32,
    /// `TCP_NODELAY` at both ends.
    #[serde(default)]
    pub nodelay: bool,
    /// What would be two writes is one of the same bytes.
    #[serde(default)]
    pub one_write: bool,
    /// `TCP_QUICKACK` at both ends: once, or again after each receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quickack: Option<QuickAck>,
    /// Over IPv6.
    #[serde(default)]
    pub ipv6: bool,
}

fn call_size() -> Bytes {
    Bytes::new(64)
}

fn some_calls() -> u32 {
    200
}

/// A queue discipline on an interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct QueueAt {
    /// Its name, for scenarios to name.
    pub name: String,
    /// The interface, as `router:wan`.
    pub on: Interface,
    /// For packets that leave (`out`) or come in (`in`, through an IFB device).
    #[serde(default)]
    pub direction: QueueDirection,
    /// Whose hosts a policy is fair to: those behind the interface, or those ahead of it, where the interface leads to the hosts.
    #[serde(default)]
    pub serves: Serves,
    /// The queue itself …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// … or what is wanted of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
}

/// Which hosts a policy serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Serves {
    /// Those whose packets leave by the interface: it leads to the internet.
    #[default]
    Behind,
    /// Those that the interface leads to.
    Ahead,
}

/// Which packets of an interface a queue serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueDirection {
    /// Those that leave.
    #[default]
    Out,
    /// Those that come in.
    In,
}

/// One row of the comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// Its name in the results.
    pub name: String,
    /// One line for people.
    #[serde(default)]
    pub title: String,
    /// Names of the loads that run.
    #[serde(default)]
    pub loads: Vec<String>,
    /// Names of the queues that are in place.
    #[serde(default)]
    pub queues: Vec<String>,
    /// Settings of single nodes, as `a = { "net.ipv4.tcp_mtu_probing" = "1" }`.
    #[serde(default)]
    pub sysctl: BTreeMap<String, BTreeMap<String, String>>,
    /// What hosts' TCP takes from their routes, as `{ on = "server", to = "client", quickack = true }`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// What others published for this case, by column (`loss`, `jitter`, `goodput`, …), shown beside the results.
    #[serde(default)]
    pub published: BTreeMap<String, String>,
}

/// Settings of a host's route to a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Route {
    /// The host whose route it is.
    pub on: String,
    /// Where it leads.
    pub to: String,
    /// Whether the host acknowledges each segment at once (`RTAX_QUICKACK`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quickack: Option<bool>,
    /// Least time until the host sends an unacknowledged segment again, in whole milliseconds (`RTAX_RTO_MIN`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rto_min: Option<Span>,
}

/// Something that changes while it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Change {
    /// When, from the start of the measurement.
    pub at: Span,
    /// In these scenarios; in all where absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<String>,
    /// The link that changes …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// … from its first end to its second; what is not given stays …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<Line>,
    /// … and back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Line>,
    /// Or: the interface whose queue is replaced …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Interface>,
    /// … by this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
}
