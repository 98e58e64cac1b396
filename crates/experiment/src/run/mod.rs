//! Running an experiment: cells side by side, each in a guest kernel or in namespaces of the running one, into one run folder.
//!
//! ```text
//!   plans ──► workers (one a job) ──► carrier: guest | host ──► journal of the cell
//!                    ▲                                             │ ticks
//!   stop flag ───────┘                            progress ◄───────┘
//!   afterwards: store turns journals into tables; the manifest says how each cell ended
//! ```

mod carrier;
mod child;
mod exec;
mod inside;
pub mod lacking;
mod machines;
mod watch;

pub use carrier::{Carrier, GUEST_INIT, GuestKernel, GuestOptions, STOPPED, host_lacking};
pub use exec::lab_exec;
pub use inside::{guest_init, host_cell, host_init, host_lacks};
pub use machines::RealHosts;
pub use watch::RunProgress;

use crate::line_files;
use crate::spec::{Experiment, Scenario};
use quell_lab::cell::CellPlan;
use quell_model::manifest::{FORMAT_VERSION, RunPart};
use quell_model::{CellRecord, CellStatus, Manifest, TaskRecord};
use quell_store::{PartFolder, RunWriter, StoreError};
use quell_sys::wait::Bell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant, SystemTime};

#[derive(Debug, Clone)]
pub struct Options {
    pub base: PathBuf,
    pub carrier: Carrier,
    pub jobs: usize,
    pub text: String,
    pub changes: Vec<String>,
    pub version: String,
    /// Which part of the run the plans are; none where they are all.
    pub part: Option<RunPart>,
}

#[derive(Debug)]
pub struct Finished {
    pub folder: PathBuf,
    pub manifest: Manifest,
    pub stopped: bool,
    /// A part that was there already; nothing was run.
    pub was_there: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{error}\nwhat was measured until then is shown by `quell show {}`", folder.display())]
    Finish {
        folder: PathBuf,
        /// What can't be written, and what to do.
        error: StoreError,
    },
    #[error("{}: {error}", path.display())]
    Folder { path: PathBuf, error: std::io::Error },
}

/// Runs every cell. `stop` ends the run early when it rings: cells that run are ended, the results so far are kept.
/// A part that is there under `base`, whole, is not run again. `progress` is told several times a second how far it came.
pub fn run(
    experiment: &Experiment,
    plans: &[CellPlan],
    options: &Options,
    stop: &Bell,
    progress: &mut dyn FnMut(&RunProgress),
) -> Result<Finished, RunError> {
    let begun = Instant::now();
    let mut manifest = manifest(experiment, plans, options);
    if let Some(PartFolder { folder, manifest, .. }) =
        quell_store::complete_part(&options.base, &manifest)
    {
        return Ok(Finished { folder, manifest, stopped: false, was_there: true });
    }
    let writer = RunWriter::create(&options.base, manifest.clone())?;
    let next = AtomicUsize::new(0);
    let records: Vec<Mutex<Option<CellEnd>>> = plans.iter().map(|_| Mutex::new(None)).collect();
    let mut watch = watch::ProgressWatch::new(plans, |plan| writer.journal_path(&plan.id));
    let failure: Mutex<Option<RunError>> = Mutex::new(None);
    let jobs = options.jobs.clamp(1, plans.len().max(1));
    std::thread::scope(|scope| {
        let (done, finished) = mpsc::channel();
        // Parts that share a machine take its CPUs in turn.
        let first = options.part.as_ref().map_or(0, |part| part.number as usize);
        for worker in first..first + jobs {
            let (done, writer, next, records, failure) =
                (done.clone(), &writer, &next, &records, &failure);
            scope.spawn(move || {
                work(plans, options, writer, worker, next, records, failure, stop);
                // The receiver waits for every worker; it can't be gone.
                let _ = done.send(worker);
            });
        }
        drop(done);
        // For a person who watches: ten looks a second at the journals. A worker that ends wakes at once.
        let mut left = jobs;
        while left > 0 {
            match finished.recv_timeout(Duration::from_millis(100)) {
                Ok(_) => left -= 1,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            let ended = records.iter().map(|r| lock(r).is_some()).collect::<Vec<_>>();
            progress(&watch.look(&ended));
        }
    });
    if let Some(error) = lock(&failure).take() {
        return Err(error);
    }
    for (record, end) in manifest.cells.iter_mut().zip(&records) {
        let Some(end) = lock(end).take() else { continue };
        record.wall_s = Some(end.wall.as_secs_f64());
        if let Some(reason) = end.reason {
            record.status = match reason == STOPPED {
                true => CellStatus::Stopped,
                false => CellStatus::Failed,
            };
            record.reason = Some(reason);
        }
    }
    let folder = writer.folder().to_path_buf();
    manifest.wall_s = Some(begun.elapsed().as_secs_f64());
    let manifest = writer
        .finish(manifest)
        .map_err(|error| RunError::Finish { folder: folder.clone(), error })?;
    Ok(Finished { folder, manifest, stopped: stop.rings(), was_there: false })
}

struct CellEnd {
    wall: Duration,
    reason: Option<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A worker that panicked has left no half-written value behind: values are only ever replaced whole.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[allow(clippy::too_many_arguments)]
fn work(
    plans: &[CellPlan],
    options: &Options,
    writer: &RunWriter,
    worker: usize,
    next: &AtomicUsize,
    records: &[Mutex<Option<CellEnd>>],
    failure: &Mutex<Option<RunError>>,
    stop: &Bell,
) {
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(plan) = plans.get(index) else { return };
        if stop.rings() {
            return;
        }
        let begun = Instant::now();
        let result = folder(writer, plan)
            .map(|folder| options.carrier.carry(plan, &folder.path, worker, stop));
        match result {
            Ok(outcome) => {
                let end = CellEnd { wall: begun.elapsed(), reason: outcome.err() };
                *lock(&records[index]) = Some(end);
            }
            Err(error) => {
                *lock(failure) = Some(error);
                stop.ring();
                return;
            }
        }
    }
}

/// The folder that a cell works in: its plan, and its journal as `events`, which is the same file as the store's.
struct CellFolder {
    path: PathBuf,
}

impl Drop for CellFolder {
    fn drop(&mut self) {
        // What it holds is either in the journal or of no use; a leftover does no harm.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn folder(writer: &RunWriter, plan: &CellPlan) -> Result<CellFolder, RunError> {
    let journal = writer.journal_path(&plan.id);
    let path = journal.with_extension("cell");
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |error| RunError::Folder { path, error }
    };
    std::fs::create_dir_all(&path).map_err(failed(&path))?;
    let folder = CellFolder { path: path.clone() };
    std::fs::File::create(&journal).map_err(failed(&journal))?;
    let events = path.join("events");
    std::fs::hard_link(&journal, &events).map_err(failed(&events))?;
    let text = serde_json::to_vec(plan).unwrap_or_default();
    let place = path.join("plan.json");
    std::fs::write(&place, text).map_err(failed(&place))?;
    Ok(folder)
}

/// Of scenarios that belong to another one: which that is.
fn against(experiment: &Experiment) -> BTreeMap<String, String> {
    let pair = |s: &Scenario| Some((s.name.clone(), s.against.clone()?));
    experiment.scenario.iter().filter_map(pair).collect()
}

fn manifest(experiment: &Experiment, plans: &[CellPlan], options: &Options) -> Manifest {
    Manifest {
        format: FORMAT_VERSION,
        quell: options.version.clone(),
        experiment: experiment.name.clone(),
        title: experiment.title.clone(),
        experiment_text: options.text.clone(),
        changes: options.changes.clone(),
        series: line_files::kept(&experiment.line_files),
        seed: experiment.seed,
        started: quell_units::time::rfc3339(SystemTime::now()),
        kernel: options.carrier.record(),
        machine: quell_store::machine(),
        clock: "CLOCK_MONOTONIC".into(),
        cells: plans
            .iter()
            .map(|plan| CellRecord {
                id: plan.id.clone(),
                seed: plan.seed,
                status: CellStatus::Planned,
                reason: None,
                wall_s: None,
                virtual_s: None,
                window_ns: Some(plan.duration.nanos()),
                tasks: plan
                    .tasks
                    .iter()
                    .map(|t| TaskRecord { id: t.id.clone(), host: t.host.clone(), outcome: None })
                    .collect(),
            })
            .collect(),
        against: against(experiment),
        part: options.part.clone(),
        ..Manifest::default()
    }
}
