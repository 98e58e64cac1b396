//! `quell compare`: runs, or scenarios of one, beside each other.

use crate::failure::Failure;
use crate::look::{Format, Look, Part, write_figure};
use crate::options::{Json, Place};
use crate::results::{self, shown, write};
use crate::text::columns;
use clap::Args;
use quell_experiment::nearest;
use quell_experiment::results::{experiment_of, value_of};
use quell_experiment::sweep::Places;
use quell_model::metric::Metric;
use quell_report::Results;
use quell_report::compare::{self, By, CompareError, Comparison, MeasuredRun, Wanted, figures};
use quell_report::figures::PageWidth;
use quell_store::{Run, RunState};
use quell_units::Ratio;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `quell compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The runs: names or folders, the first is what the others are held against; the latest where absent
    pub runs: Vec<String>,
    #[command(flatten)]
    pub place: Place,
    /// What tells groups apart: run, scenario, probe, or a field, as kernel or topology.link.dsl.up.rate
    #[arg(long, value_name = "FACTOR")]
    pub by: Option<String>,
    #[command(flatten)]
    pub part: Part,
    /// Only these metrics, as rtt.p99 (docs/experiments.md names them)
    #[arg(long = "metric", value_name = "METRICS", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// Fail where something got worse; of metrics named here also where nobody can tell
    #[arg(long, value_name = "METRICS", value_delimiter = ',', num_args = 0.., require_equals = true)]
    pub expect_no_worse: Option<Vec<String>>,
    /// What counts as no difference, as a part of the first figure
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    pub margin: Ratio,
    /// Which figure -o draws: cdf, box, bar, time or goodput
    #[arg(long, value_name = "FIGURE", requires = "output")]
    pub figure: Option<String>,
    #[command(flatten)]
    pub look: Look,
    /// File to write: a page (.html), or with --figure a picture (.svg, .png, .pdf)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub json: Json,
}

/// `quell compare`.
pub fn compare(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let metrics = metrics(args)?;
    let output = args.output.as_deref().map(|path| Output::of(path, args)).transpose()?;
    let span = args.part.span()?;
    if args.figure.is_none() && (span != (0.0, None) || !args.look.is_usual()) {
        return Err(Failure::usage(
            "--from, --to, --title, --legend, --size, --log and --dpi are of one figure: say which, with --figure NAME -o FILE",
        ));
    }
    let folders = folders(args)?;
    let read = read(&folders)?;
    let sources: Vec<MeasuredRun> =
        read.iter().map(|(run, results)| MeasuredRun { run, results }).collect();
    let swept = |run| experiment_of(run).as_ref().map(Places::of).unwrap_or_default();
    let places: Vec<Places> = read.iter().map(|(run, _)| swept(run)).collect();
    let field = |source: usize, scenario: &str| {
        value_of(&read[source].0, &places[source], args.by.as_deref()?, scenario)
    };
    let by = args.by.as_deref().map(|by| match by {
        "run" => By::Run,
        "scenario" => By::Scenario,
        "probe" => By::Probe,
        name => By::Field(name, &field),
    });
    let wanted = Wanted {
        by,
        scenarios: args.part.scenarios.clone(),
        streams: args.part.named(read.iter().map(|(run, _)| run)),
        metrics,
        margin: args.margin.as_f64(),
    };
    let comparison = Comparison::of(&sources, &wanted).map_err(refused)?;
    let written = output.map(|output| output.write(&comparison)).transpose()?;
    if args.json.json {
        println!("{}", crate::text::document(&compare::json(&comparison)));
    } else {
        print!("{}", compare::text(columns(), &comparison, false));
        if let Some(path) = written {
            println!("\nwritten  {}", shown(path));
        }
    }
    let worse = match &args.expect_no_worse {
        None => Vec::new(),
        Some(named) => {
            let mut worse = compare::worse(&comparison);
            // What was asked for by name, and a check of nothing, must not pass because nobody knows.
            if !named.is_empty() || compare::is_all_unknown(&comparison) {
                worse.extend(compare::unknown(&comparison));
            }
            worse
        }
    };
    match worse.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::check(worse.join("\n"))),
    }
}

/// What was asked for can't be compared: wrong usage, unless it is the run that lacks something.
fn refused(error: CompareError) -> Failure {
    Failure::unusable(error)
}

/// The metrics that are compared: those of the check, where it names some.
fn metrics(args: &CompareArgs) -> Result<Vec<Metric>, Failure> {
    let checked = args.expect_no_worse.as_deref().unwrap_or_default();
    let both = !checked.is_empty() && !args.metrics.is_empty();
    if both {
        return Err(Failure::usage(
            "name metrics with --metric or with --expect-no-worse=, not with both",
        ));
    }
    let parse = |name: &String| {
        let known = Metric::NAMES.map(|(name, _)| name);
        let unknown = || {
            Failure::usage(format!("there is no metric `{name}`{}", nearest::hint(name, &known)))
        };
        Metric::parse(name).ok_or_else(unknown)
    };
    checked.iter().chain(&args.metrics).map(parse).collect()
}

fn folders(args: &CompareArgs) -> Result<Vec<PathBuf>, Failure> {
    let base = &args.place.base;
    if !args.runs.is_empty() {
        let locate = |run: &String| crate::results::located(base, run);
        return args.runs.iter().map(locate).collect();
    }
    let runs = quell_store::list(base).map_err(Failure::usage)?;
    let latest = runs.into_iter().rev().find(|r| !matches!(r.state, RunState::Unreadable(_)));
    let none = || {
        Failure::usage(format!(
            "there is no run in {}; make one with `quell run home-link`",
            base.display()
        ))
    };
    Ok(vec![latest.ok_or_else(none)?.folder])
}

/// Reads and analyses the runs, side by side: they may be large.
fn read(folders: &[PathBuf]) -> Result<Vec<(Run, Results)>, Failure> {
    let one = |folder: &Path| {
        let run = results::read(folder)?;
        let results = Results::from(&run);
        Ok((run, results))
    };
    std::thread::scope(|scope| {
        let started: Vec<_> =
            folders.iter().map(|folder| scope.spawn(move || one(folder))).collect();
        let ended = started.into_iter().map(|thread| match thread.join() {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect()
    })
}

/// Where the page or the figure goes.
enum Output<'a> {
    Page(&'a Path),
    Figure(&'a Path, Format, &'a str, &'a CompareArgs),
}

impl<'a> Output<'a> {
    fn of(path: &'a Path, args: &'a CompareArgs) -> Result<Self, Failure> {
        let is_page = path.extension().is_some_and(|e| e == "html");
        let names = figures::NAMES.map(|n| n.name);
        match args.figure.as_deref() {
            None if is_page => Ok(Output::Page(path)),
            None => Err(Failure::usage(format!(
                "{}: a page is written as .html; for a picture say which, with --figure {}",
                path.display(),
                names.join(", ")
            ))),
            Some(name) if !names.contains(&name) => Err(Failure::usage(format!(
                "there is no figure `{name}`{}",
                nearest::hint(name, &names)
            ))),
            Some(name) => Ok(Output::Figure(path, Format::of(path)?, name, args)),
        }
    }

    fn write(self, comparison: &Comparison) -> Result<&'a Path, Failure> {
        match self {
            Output::Page(path) => write(path, compare::page(comparison).as_bytes()).map(|()| path),
            Output::Figure(path, format, name, args) => {
                let span = args.part.span()?;
                if name == figures::BAR && span != (0.0, None) {
                    return Err(Failure::usage(
                        "the figure bar is of whole measurements: --from and --to have no place in it",
                    ));
                }
                let figure =
                    figures::Delays::within(comparison, span).figure(name, PageWidth::Wide);
                let none = || {
                    Failure::usage(format!(
                        "the figure {name} would be empty: nothing that it shows was measured"
                    ))
                };
                let figure = args.look.of(figure.ok_or_else(none)?)?;
                write_figure(&figure, path, format, args.look.dpi).map(|()| path)
            }
        }
    }
}
