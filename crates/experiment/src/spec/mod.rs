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
mod derived;
pub(crate) mod error_line;
pub mod load_file;
pub mod machines;
pub mod set;

use crate::kinds::{Load, Measured, Probe};
use crate::line_files::LineFilesRead;
use machines::Machines;
use quell_lab::topology::{Interface, Line, Topology};
use quell_policy::Policy;
use quell_tc::{Filter, Queue};
use quell_units::Span;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// Short name: letters, digits and dashes. Names the run's folder.
    pub name: String,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub about: String,
    #[serde(default = "one")]
    pub seed: u64,
    /// How often each cell runs, each time with another seed.
    #[serde(default = "once")]
    pub repeat: u32,
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
    pub topology: Topology,
    /// Settings on every node, as `"net.ipv4.tcp_ecn" = "1"`.
    #[serde(default)]
    pub sysctl: BTreeMap<String, String>,
    /// Fields by their paths, each at several values: every scenario is run at each of them.
    #[serde(default)]
    pub sweep: BTreeMap<String, Vec<toml::Value>>,
    /// Guest kernels by their series, as `6.1`: every scenario is run on each of them. The usual one where absent.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// Real hosts behind those of the topology; the lab's where absent.
    pub machines: Option<Machines>,
    /// What carries the traffic unless it is said otherwise; a guest kernel in virtual time where absent.
    pub kernel: Option<WhoseKernel>,
    #[serde(default)]
    pub load: Vec<Load>,
    /// Queue disciplines that scenarios put in place.
    #[serde(default)]
    pub queue: Vec<QueueAt>,
    pub scenario: Vec<Scenario>,
    pub probe: Vec<Probe>,
    #[serde(default)]
    pub timeline: Vec<TimedChange>,
    /// Claims that must hold, checked after the run: see the module `expect`.
    #[serde(default)]
    pub expect: Vec<String>,
    /// What the files of its lines say, once they are read.
    #[serde(skip)]
    pub(crate) line_files: LineFilesRead,
}

impl Experiment {
    /// With what the files of its lines say.
    pub fn with_line_files(mut self, files: &LineFilesRead) -> Result<Self, String> {
        crate::line_files::fill(&mut self.topology, files)?;
        self.line_files.clone_from(files);
        Ok(self)
    }

    pub fn measured(&self) -> impl Iterator<Item = Measured<'_>> {
        self.probe.iter().map(Probe::measured).chain(self.load.iter().map(Load::measured))
    }

    pub fn find(&self, name: &str) -> Option<Measured<'_>> {
        self.measured().find(|it| it.kind.name() == name)
    }

    /// What the published figures are, in the order in which they are shown.
    pub fn published_columns(&self) -> Vec<&str> {
        let mut columns: Vec<&str> = Vec::new();
        for key in self.scenario.iter().flat_map(|s| s.published.keys()) {
            if !columns.contains(&key.as_str()) {
                columns.push(key);
            }
        }
        let place = |c: &str| PUBLISHED.iter().position(|p| *p == c).unwrap_or(PUBLISHED.len());
        columns.sort_by_key(|c| (place(c), *c));
        columns
    }

    /// What others published for each scenario, in a line: the values of [`Experiment::published_columns`].
    pub fn published(&self) -> BTreeMap<String, String> {
        let columns = self.published_columns();
        let line = |values: &BTreeMap<String, String>| {
            let values = columns.iter().map(|c| values.get(*c).map_or("–", String::as_str));
            values.collect::<Vec<_>>().join(", ")
        };
        self.scenario
            .iter()
            .filter(|s| !s.published.is_empty())
            .map(|s| (s.name.clone(), line(&s.published)))
            .collect()
    }
}

/// Columns of published figures in the order of our own; others come after them by name.
const PUBLISHED: [&str; 4] = ["loss", "jitter", "ping", "tcp"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhoseKernel {
    /// The lab's, in virtual time.
    Guest,
    /// This machine's, in real time: what it costs can be measured there only.
    Host,
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

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbesRun {
    /// Each probe has the network, and the scenario's loads, to itself.
    #[default]
    Apart,
    Together,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct QueueAt {
    pub name: String,
    /// The interface, as `router:wan`.
    pub on: Interface,
    /// For packets that leave (`out`) or come in (`in`, through an IFB device).
    #[serde(default)]
    pub direction: QueueDirection,
    /// Whose hosts a policy is fair to: those behind the interface, or those ahead of it, where the interface leads to the hosts.
    #[serde(default)]
    pub serves: Serves,
    pub queue: Option<Queue>,
    /// … or filters with actions for what comes in, without a queue …
    #[serde(default)]
    pub filter: Vec<Filter>,
    pub policy: Option<Policy>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Serves {
    /// Those whose packets leave by the interface: it leads to the internet.
    #[default]
    Behind,
    Ahead,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueDirection {
    #[default]
    Out,
    In,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    pub name: String,
    #[serde(default)]
    pub title: String,
    /// The scenario that this one changes, and is shown beside; of `NAME-shaped` it is `NAME` anyway.
    pub against: Option<String>,
    #[serde(default)]
    pub loads: Vec<String>,
    #[serde(default)]
    pub queues: Vec<String>,
    /// Settings of single nodes, as `a = { "net.ipv4.tcp_mtu_probing" = "1" }`.
    #[serde(default)]
    pub sysctl: BTreeMap<String, BTreeMap<String, String>>,
    /// What hosts' TCP takes from their routes, as `{ on = "server", to = "client", quickack = true }`.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Whether it is left out, and said to be, where the running kernel lacks what it needs.
    #[serde(default)]
    pub optional: bool,
    /// What others published for this case, by column (`loss`, `jitter`, `goodput`, …), shown beside the results.
    #[serde(default)]
    pub published: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Route {
    pub on: String,
    pub to: String,
    /// Whether the host acknowledges each segment at once (`RTAX_QUICKACK`).
    pub quickack: Option<bool>,
    /// Least time until the host sends an unacknowledged segment again, in whole milliseconds (`RTAX_RTO_MIN`).
    pub rto_min: Option<Span>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TimedChange {
    pub at: Span,
    #[serde(default)]
    pub scenarios: Vec<String>,
    pub link: Option<String>,
    /// … from its first end to its second; what is not given stays …
    pub up: Option<Line>,
    pub down: Option<Line>,
    /// Or: the interface whose queue is replaced …
    pub on: Option<Interface>,
    pub queue: Option<Queue>,
}
