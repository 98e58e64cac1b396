//! `quell data gather`: the parts of a run that many machines measured, as one run; some of it measured again here.
//!
//! ```text
//!   PART … ──store: of one run, each once, none missing──► RUN ──--audit: a share of its cells──► run here ──► the same bytes?
//! ```

use crate::failure::Failure;
use crate::options::{Backend, Guest, Json};
use crate::results::shown;
use crate::run::{carrier, carry, other_makers};
use crate::text::say;
use clap::Args;
use quell_experiment::prepare;
use quell_experiment::run::Options;
use quell_model::{CellRecord, CellStatus};
use quell_stats::Rng;
use quell_store::{CellData, GatherError, Gathered, Run};
use quell_units::Ratio;
use quell_units::fmt::plural;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct GatherArgs {
    /// The folders that `quell run --part` left
    #[arg(required = true, value_name = "PART")]
    pub parts: Vec<PathBuf>,
    /// Folder of the run, which is made
    #[arg(short, long, value_name = "FOLDER")]
    pub output: PathBuf,
    /// Run this share of the measurements again here, and compare their bytes
    #[arg(long, value_name = "SHARE")]
    pub audit: Option<Ratio>,
    #[command(flatten)]
    pub guest: Guest,
    #[command(flatten)]
    pub json: Json,
}

impl From<GatherError> for Failure {
    fn from(error: GatherError) -> Self {
        match error {
            GatherError::Store(error) => Self::unreadable(error),
            other => Self::unusable(other),
        }
    }
}

/// `quell data gather`.
pub fn gather(args: &GatherArgs) -> Result<ExitCode, Failure> {
    let gathered = quell_store::gather(&args.parts, &args.output)?;
    let manifest = &gathered.run.manifest;
    for part in &gathered.left_aside {
        eprintln!("{} is left aside: the same part is whole beside it", shown(&part.folder));
    }
    let count = manifest.cells.len();
    let ended = |status| move |cell: &&CellRecord| cell.status == status;
    let complete = manifest.cells.iter().filter(ended(CellStatus::Complete)).count();
    let failed = manifest.cells.iter().find(ended(CellStatus::Failed));
    let audit = args.audit.map(|share| audit(args, share, &gathered)).transpose()?;
    if args.json.json {
        let audited = audit.as_ref().map(
            |audit| serde_json::json!({"measurements": audit.measured, "differ": audit.differ}),
        );
        let document = serde_json::json!({
            "folder": args.output, "parts": gathered.parts.len(), "measurements": count,
            "complete": complete, "audit": audited,
        });
        println!("{}", crate::text::document(&document));
    } else {
        let (parts, all) = (gathered.parts.len(), plural(count as u64, "measurement"));
        say(&format!("{complete} of {all} complete, from {}.\n", plural(parts as u64, "part")));
        if let Some(audit) = audit.as_ref().filter(|audit| audit.differ.is_empty()) {
            let again = plural(audit.measured as u64, "measurement");
            say(&format!("{again} run again here: the same bytes.\n"));
        }
        say(&format!("run     {}\n", shown(&args.output)));
    }
    if let Some(Audit { measured, differ, folder }) = audit.filter(|audit| !audit.differ.is_empty())
    {
        let text = format!(
            "{} of {measured} measurements run again here have other bytes; those from here are in {}:\n{}",
            differ.len(),
            shown(&folder),
            differ.join("\n")
        );
        return Err(Failure::check(text));
    }
    match failed {
        None => Ok(ExitCode::SUCCESS),
        Some(cell) => Err(Failure::system(format!(
            "{} of {count} measurements failed, first {}: {}",
            count - complete,
            cell.id,
            cell.reason.as_deref().unwrap_or("unknown")
        ))),
    }
}

struct Audit {
    measured: usize,
    /// What differs, a line a measurement.
    differ: Vec<String>,
    /// The run that was made here.
    folder: PathBuf,
}

/// Runs some measurements again, which nobody could foresee.
fn audit(args: &GatherArgs, share: Ratio, gathered: &Gathered) -> Result<Audit, Failure> {
    let manifest = &gathered.run.manifest;
    let gone = |why: &str| {
        Failure::usage(format!(
            "{} is gathered, and can't be audited here: {why}",
            shown(&args.output)
        ))
    };
    if !manifest.kernel.virtual_time {
        return Err(gone("it was measured in real time, which never gives the same bytes"));
    }
    let only: Vec<String> = manifest.scenarios().into_iter().map(String::from).collect();
    let mut ready = prepare(&args.output.to_string_lossy(), &[], &only, None)?;
    let chance = Rng::new(quell_sys::secret::number().map_err(Failure::system)?);
    ready.plans.sort_by_key(|plan| chance.derive(&plan.id.to_string()).u64());
    let measured = (ready.plans.len() as f64 * share.as_f64()).ceil() as usize;
    ready.plans.truncate(measured.max(1));
    let carrier = carrier(Backend::Guest, &args.guest, &ready.plans)?;
    if let Some(why) = other_makers(manifest, &carrier.record()) {
        return Err(gone(&why));
    }
    let options = Options {
        base: args.output.join("audit"),
        carrier,
        jobs: quell_sys::affinity::allowed_cpus().map_or(1, |c| c.len().max(1)),
        text: ready.text.clone(),
        changes: Vec::new(),
        version: env!("CARGO_PKG_VERSION").into(),
        part: None,
    };
    let finished = carry(&ready.experiment, &ready.plans, &options, &*crate::interrupt::bell()?)?;
    if finished.stopped {
        return Err(gone("it was stopped"));
    }
    let again = Run::read(&finished.folder)?;
    let differ: Vec<String> =
        again.iter().filter_map(|(record, data)| differs(gathered, record, data)).collect();
    if differ.is_empty() {
        // It was made just now, and says nothing that the run does not.
        let _ = std::fs::remove_dir_all(&options.base);
    }
    Ok(Audit { measured: again.cells.len(), differ, folder: finished.folder })
}

/// What of a measurement is not as the part has it, and whose that is.
fn differs(gathered: &Gathered, record: &CellRecord, again: &CellData) -> Option<String> {
    let (id, cells) = (&record.id, &gathered.run.manifest.cells);
    let at = cells.iter().position(|cell| cell.id == *id)?;
    let first = &gathered.run.cells[at];
    let compared = [
        // Wall time is its machine's.
        ("manifest", cells[at] == CellRecord { wall_s: cells[at].wall_s, ..record.clone() }),
        ("samples", first.echoes == again.echoes),
        ("flows", first.flows == again.flows),
        ("queues", first.queues == again.queues),
        ("outputs", first.outputs == again.outputs),
        ("facts", first.facts == again.facts),
    ];
    let other: Vec<&str> =
        compared.iter().filter(|(_, same)| !same).map(|(name, _)| *name).collect();
    let part = &gathered.parts[gathered.measured_by[at]];
    let machine = part.manifest.machine.get("name").map_or("unknown", String::as_str);
    (!other.is_empty()).then(|| {
        format!(
            "  {id}: {}; measured by {machine}, {}",
            other.join(", "),
            shown(Path::new(&part.folder))
        )
    })
}
