//! The manifest: how a run came about, and how each of its parts ended.

use crate::cell::CellId;
use crate::event::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Version of the run folder's layout that this program writes and reads.
pub const FORMAT_VERSION: u32 = 4;

/// `manifest.json` of a run folder. By default that of a run of which nothing is known yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the layout, [`FORMAT_VERSION`].
    pub format: u32,
    pub quell: String,
    /// Name of the run: its folder's name.
    pub run: String,
    pub experiment: String,
    /// The experiment's title, for people.
    pub title: String,
    /// The whole experiment file as it was run, `--set` and the like applied.
    pub experiment_text: String,
    /// What was changed on the command line, as `path=value`.
    pub changes: Vec<String>,
    /// The seed from which all randomness comes.
    pub seed: u64,
    /// When it started: RFC 3339, UTC.
    pub started: String,
    pub kernel: KernelRecord,
    /// The machine: name, processor, cores, memory, its kernel.
    pub machine: BTreeMap<String, String>,
    pub clock: String,
    /// The cells in the order of the plan.
    pub cells: Vec<CellRecord>,
    /// Of scenarios that belong to another one: which that is.
    #[serde(default)]
    pub against: BTreeMap<String, String>,
    /// Whether every cell ran to its end.
    pub complete: bool,
    /// Wall time in seconds, once finished.
    pub wall_s: Option<f64>,
    /// Time inside the experiments in seconds, once finished.
    pub virtual_s: Option<f64>,
    /// Settings of the kernel under test (`/proc/sys/...`), read in the first cell.
    pub sysctls: BTreeMap<String, String>,
    /// Queues by scenario, as `scenario/before/node:device`: the kernel's own description, as JSON.
    pub queues: BTreeMap<String, String>,
    /// The machines behind hosts, with their clocks, as JSON; none in the lab.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, String>,
    /// What the files of lines that change say, by name, as JSON with their hash.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, String>,
    /// The claims that were checked after the run, with their results.
    pub expectations: Vec<ExpectationRecord>,
    /// What the command that measured it said first, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headline: Vec<String>,
    /// Of a part of a run: which one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<RunPart>,
}

impl Manifest {
    /// Whether the run was stopped from outside before its end.
    pub fn was_stopped(&self) -> bool {
        self.cells.iter().any(|cell| cell.status == CellStatus::Stopped)
    }

    /// How often each scenario was measured.
    pub fn repeats(&self) -> u32 {
        self.cells.iter().map(|cell| cell.id.repeat + 1).max().unwrap_or(1)
    }

    /// The scenarios, each once, in the order in which they were planned.
    pub fn scenarios(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !names.contains(&&*cell.id.scenario) {
                names.push(&cell.id.scenario);
            }
        }
        names
    }
}

/// A part of a run, which one machine of many measures: `cells` of its manifest are those of this part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPart {
    /// From 1.
    pub number: u32,
    pub of: u32,
    /// Cells of the whole run.
    pub whole: u64,
    /// Where each cell of this part stands among those of the whole run, in the order of `cells`.
    pub places: Vec<u64>,
    /// A hash of the plans of all cells: the same in all parts of one run.
    pub plans: String,
}

impl fmt::Display for RunPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// Whose kernel carried the traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Backend {
    Guest,
    Host,
    /// Those of real hosts.
    Machines,
    /// Nobody tells, or another version does.
    #[default]
    Unknown,
}

impl Backend {
    pub fn name(self) -> &'static str {
        match self {
            Backend::Guest => "guest",
            Backend::Host => "host",
            Backend::Machines => "machines",
            Backend::Unknown => "unknown",
        }
    }
}

impl From<String> for Backend {
    fn from(name: String) -> Self {
        let all = [Backend::Guest, Backend::Host, Backend::Machines];
        all.into_iter().find(|backend| backend.name() == name).unwrap_or_default()
    }
}

impl From<Backend> for String {
    fn from(backend: Backend) -> Self {
        backend.name().to_owned()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelRecord {
    pub backend: Backend,
    /// `uname -r`.
    pub version: String,
    pub virtual_time: bool,
    /// Key of the kernel build (source version and configuration); empty for the host's.
    pub key: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellRecord {
    #[serde(flatten)]
    pub id: CellId,
    /// The cell's own seed.
    pub seed: u64,
    pub status: CellStatus,
    /// Why, where it did not end well.
    pub reason: Option<String>,
    /// Wall time in seconds.
    pub wall_s: Option<f64>,
    /// Time inside the experiment in seconds.
    pub virtual_s: Option<f64>,
    /// How long the measurement is planned to take in nanoseconds: rates count from 0 to here, without warm-up and linger. None where
    /// it is not known; analysis then takes the last time at which anything was sent.
    pub window_ns: Option<u64>,
    pub tasks: Vec<TaskRecord>,
}

impl CellRecord {
    pub fn failed(&self) -> impl Iterator<Item = (&TaskRecord, &str)> {
        self.tasks.iter().filter_map(|task| match &task.outcome {
            Some(Outcome::Failed(why)) => Some((task, why.as_str())),
            _ => None,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellStatus {
    Planned,
    /// Begun, and no end was seen: the program was killed, or it still runs.
    Partial,
    Complete,
    Failed,
    /// Stopped from outside, as by Ctrl-C: what is there is all that was measured until then.
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRecord {
    pub id: String,
    pub host: String,
    /// How it ended; none while it runs or when it was killed.
    pub outcome: Option<Outcome>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExpectationRecord {
    /// The claim as it stands in the experiment file.
    pub claim: String,
    pub held: bool,
    pub found: String,
}
