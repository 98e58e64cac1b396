//! Keeping what a command measured by itself as a run, as an experiment would: readable by `quell show`, `plot` and `open`,
//! while it goes on and after whatever ends it.
//!
//! ```text
//!   Keep::begin ──► manifest, one cell ──► event, event … (each handed to the kernel at once) ──► finish: tables
//!                                           killed here: readable up to the last event
//! ```

use crate::{JournalWriter, RunWriter, StoreError};
use quell_model::manifest::{Backend, FORMAT_VERSION, KernelRecord};
use quell_model::{CellId, CellRecord, CellStatus, Event, Manifest, Outcome, TaskRecord};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

#[derive(Debug, Clone)]
pub struct About {
    /// Names the run, as `ping` or what the person calls it.
    pub name: String,
    /// The scenario's name in tables, as `icmp`.
    pub scenario: String,
    pub title: String,
    pub task: String,
    pub clock: String,
    pub seed: u64,
    /// How long it is planned to take in nanoseconds, where that is known.
    pub window_ns: Option<u64>,
    pub origin: Origin,
}

#[derive(Debug, Clone)]
pub enum Origin {
    /// By this program; how long it has been going on already.
    Here(Duration),
    /// By another program, perhaps long ago.
    Elsewhere {
        started: Option<SystemTime>,
        /// What it said of itself, in lines that are comments.
        text: String,
        /// Who said too little of the machine.
        program: &'static str,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Done,
    /// It was stopped from outside, as by Ctrl-C.
    Stopped,
    Failed(String),
}

impl End {
    /// A reason why it could not go on comes before a stop, which may be its consequence.
    pub fn of(failed: Option<&str>, stopped: bool) -> Self {
        match failed {
            Some(reason) => End::Failed(reason.to_owned()),
            None if stopped => End::Stopped,
            None => End::Done,
        }
    }
}

#[derive(Debug)]
pub struct Keep {
    writer: RunWriter,
    journal: JournalWriter,
    manifest: Manifest,
    begun: Instant,
    origin: Origin,
}

impl Keep {
    /// Makes the run's folder under `base`. Errors when that can't be written.
    pub fn begin(base: &Path, about: &About) -> Result<Self, StoreError> {
        let manifest = manifest(about);
        let cell = manifest.cells[0].id.clone();
        let writer = RunWriter::create(base, manifest.clone())?;
        // What is read from a file was bounded before.
        let writer = match &about.origin {
            Origin::Here(_) => writer.long(),
            Origin::Elsewhere { .. } => writer,
        };
        let mut journal = writer.journal(&cell)?;
        let kernel = match &about.origin {
            Origin::Here(_) => manifest.kernel.version.clone(),
            Origin::Elsewhere { .. } => String::new(),
        };
        let begin = Event::Begin { cell, seed: about.seed, kernel };
        journal.append(&begin)?;
        Ok(Self { writer, journal, manifest, begun: Instant::now(), origin: about.origin.clone() })
    }

    /// Takes an event. What was taken is kept also when the program is killed.
    pub fn event(&mut self, event: &Event) -> Result<(), StoreError> {
        self.journal.append(event)
    }

    pub fn folder(&self) -> &Path {
        self.writer.folder()
    }

    /// What is said first of it when it is shown, a sentence each.
    pub fn headline(&mut self, sentences: Vec<String>) {
        self.manifest.headline = sentences;
    }

    /// Turns the events into tables; the run's folder.
    pub fn finish(mut self, end: End) -> Result<PathBuf, StoreError> {
        let took_ns = match &self.origin {
            Origin::Here(since) => {
                let elapsed = since.saturating_add(self.begun.elapsed());
                self.manifest.wall_s = Some(elapsed.as_secs_f64());
                u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
            }
            Origin::Elsewhere { .. } => self.manifest.cells[0].window_ns.unwrap_or(0),
        };
        let task = self.manifest.cells[0].tasks[0].id.clone();
        let outcome = match &end {
            End::Done | End::Stopped => Outcome::Done,
            End::Failed(reason) => Outcome::Failed(reason.clone()),
        };
        let t_ns = i64::try_from(took_ns).unwrap_or(i64::MAX);
        self.event(&Event::Ended { task, t_ns, outcome })?;
        self.event(&match end {
            End::Done => Event::End { virtual_ns: took_ns },
            End::Stopped => Event::Stopped { virtual_ns: took_ns },
            End::Failed(reason) => Event::Abort { reason },
        })?;
        let folder = self.writer.folder().to_path_buf();
        self.writer.finish(self.manifest)?;
        Ok(folder)
    }
}

/// The command as it was typed, each word quoted where a shell would want it.
pub fn command_line() -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_=.,:/%@+[]".contains(c))
    };
    let quoted = |word: String| match plain(&word) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    let words = std::env::args_os().skip(1).map(|w| quoted(w.to_string_lossy().into_owned()));
    std::iter::once("quell".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The manifest of what a command measured or took over: one cell with one task.
fn manifest(about: &About) -> Manifest {
    let id = CellId { scenario: about.scenario.clone(), probe: about.task.clone(), repeat: 0 };
    let now = SystemTime::now();
    let (started, host, text, kernel, machine) = match &about.origin {
        Origin::Here(since) => {
            let version = nix::sys::utsname::uname()
                .map_or_else(|_| String::new(), |u| u.release().to_string_lossy().into_owned());
            (
                now.checked_sub(*since).unwrap_or(now),
                "here",
                format!("# measured by hand\n# {}\n", command_line()),
                (Backend::Host, version),
                crate::machine(),
            )
        }
        Origin::Elsewhere { started, text, program } => (
            started.unwrap_or(SystemTime::UNIX_EPOCH),
            "unknown",
            text.clone(),
            (Backend::Unknown, format!("(not kept by {program})")),
            BTreeMap::new(),
        ),
    };
    Manifest {
        format: FORMAT_VERSION,
        quell: env!("CARGO_PKG_VERSION").into(),
        experiment: about.name.clone(),
        title: about.title.clone(),
        experiment_text: text,
        seed: about.seed,
        started: quell_units::time::rfc3339(started),
        kernel: KernelRecord { backend: kernel.0, version: kernel.1, ..KernelRecord::default() },
        machine,
        clock: about.clock.clone(),
        cells: vec![CellRecord {
            id,
            seed: about.seed,
            status: CellStatus::Planned,
            reason: None,
            wall_s: None,
            virtual_s: None,
            window_ns: about.window_ns,
            tasks: vec![TaskRecord { id: about.task.clone(), host: host.into(), outcome: None }],
        }],
        ..Manifest::default()
    }
}
