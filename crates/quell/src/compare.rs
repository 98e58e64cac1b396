//! Runs, or scenarios of one, beside each other: for `quell show`, `quell open` and `quell plot`.

use crate::failure::Failure;
use crate::figure_options::Part;
use crate::options::Place;
use crate::results;
use clap::Args;
use quell_experiment::nearest;
use quell_experiment::results::{experiment_of, value_of};
use quell_experiment::sweep::Places;
use quell_model::metric::Metric;
use quell_report::Results;
use quell_report::compare::{By, Comparison, MeasuredRun, Wanted};
use quell_report::insight::Pair;
use quell_store::Run;
use quell_units::Ratio;
use std::path::{Path, PathBuf};

/// What is compared.
#[derive(Debug, Args)]
#[command(next_help_heading = "Comparing")]
pub struct Comparing {
    /// Compare these: run, scenario, probe, or a field, for example kernel or topology.link.dsl.up.rate
    #[arg(long, value_name = "FACTOR")]
    pub by: Option<String>,
    #[command(flatten)]
    pub part: Part,
    /// Only these metrics, for example rtt.p99 (docs/experiments.md names them)
    #[arg(long = "metric", value_name = "METRICS", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// What counts as no difference, as a share of the first figure
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    pub margin: Ratio,
}

/// The metrics of these names.
pub fn metrics<'a>(names: impl Iterator<Item = &'a String>) -> Result<Vec<Metric>, Failure> {
    let parse = |name: &String| {
        let known = Metric::NAMES.map(|(name, ..)| name);
        let unknown = || {
            Failure::usage(format!("there is no metric `{name}`{}", nearest::hint(name, &known)))
        };
        Metric::parse(name).ok_or_else(unknown)
    };
    names.map(parse).collect()
}

impl Comparing {
    /// Whether something is asked for that only a comparison has.
    pub fn is_asked(&self) -> bool {
        self.by.is_some() || !self.metrics.is_empty() || self.margin.as_f64() > 0.0
    }

    /// Compares these runs, the latest where none is named, and hands on what was found; with each packet, if it is to be drawn.
    pub fn of<T>(
        &self,
        place: &Place,
        runs: &[String],
        metrics: Vec<Metric>,
        draws: bool,
        then: impl FnOnce(&Comparison) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let read = read(&folders(place, runs)?, draws)?;
        let sources: Vec<MeasuredRun> =
            read.iter().map(|(run, results)| MeasuredRun { run, results }).collect();
        let swept = |run| experiment_of(run).as_ref().map(Places::of).unwrap_or_default();
        let places: Vec<Places> = read.iter().map(|(run, _)| swept(run)).collect();
        let field = |source: usize, scenario: &str| {
            value_of(&read[source].0, &places[source], self.by.as_deref()?, scenario)
        };
        // Of one run what belongs together, unless something else is asked for.
        let named =
            |name: &String| self.part.scenarios.is_empty() || self.part.scenarios.contains(name);
        let pairs: Vec<Pair> = match &read[..] {
            [(run, _)] => Pair::all(&run.manifest),
            _ => Vec::new(),
        };
        let pairs: Vec<Pair> =
            pairs.into_iter().filter(|pair| named(&pair.before) && named(&pair.after)).collect();
        let usual = (!pairs.is_empty()).then_some(By::Pair(&pairs));
        let by = self.by.as_deref().map(|by| match by {
            "run" => By::Run,
            "scenario" => By::Scenario,
            "probe" => By::Probe,
            name => By::Field(name, &field),
        });
        let wanted = Wanted {
            by: by.or(usual),
            scenarios: self.part.scenarios.clone(),
            streams: self.part.named(read.iter().map(|(run, _)| run)),
            metrics,
            margin: self.margin.as_f64(),
        };
        then(&Comparison::of(&sources, &wanted).map_err(Failure::unusable)?)
    }
}

fn folders(place: &Place, runs: &[String]) -> Result<Vec<PathBuf>, Failure> {
    match runs {
        [] => Ok(vec![results::latest(&place.base)?]),
        runs => runs.iter().map(|run| results::located(&place.base, run)).collect(),
    }
}

/// Refuses one run under two names: a check of it beside itself passes for nothing.
pub fn distinct(place: &Place, runs: &[String]) -> Result<(), Failure> {
    let folders = folders(place, runs)?;
    let real = |folder: &PathBuf| folder.canonicalize().unwrap_or_else(|_| folder.clone());
    for (at, folder) in folders.iter().enumerate() {
        if let Some(same) = folders[..at].iter().position(|f| real(f) == real(folder)) {
            return Err(Failure::usage(format!(
                "{} and {} are one run, {}: nothing can differ. `quell show --list` lists the runs",
                runs[same],
                runs[at],
                folder.display()
            )));
        }
    }
    Ok(())
}

/// Reads and analyses the runs, side by side: they may be large.
fn read(folders: &[PathBuf], draws: bool) -> Result<Vec<(Run, Results)>, Failure> {
    let one = |folder: &Path| {
        let mut run = results::read(folder)?;
        let results = Results::from(&run);
        if !draws {
            let all = run.cells.iter_mut().flat_map(|cell| &mut cell.echoes);
            all.for_each(|stream| stream.samples = Vec::new());
        }
        Ok((run, results))
    };
    // The first one here: what it frees is of use to what follows.
    let Some((first, others)) = folders.split_first() else { return Ok(Vec::new()) };
    std::thread::scope(|scope| {
        let started: Vec<_> =
            others.iter().map(|folder| scope.spawn(move || one(folder))).collect();
        let first = one(first);
        let ended = started.into_iter().map(|thread| match thread.join() {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        std::iter::once(first).chain(ended).collect()
    })
}
