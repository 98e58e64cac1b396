//! `quell plot`: a figure of a run, or of runs beside each other.

use crate::compare::{self, Comparing};
use crate::completion;
use crate::failure::Failure;
use crate::figure_options::{Format, Look, Period, USUAL_DPI, write_figure};
use crate::options::RunNames;
use crate::results::{self, shown};
use clap::Args;
use quell_chart::Figure;
use quell_experiment::nearest;
use quell_experiment::results::{capacities, experiment_of, swept};
use quell_report::Results;
use quell_report::analysis::Summary;
use quell_report::compare::{Comparison, figures as compared};
use quell_report::figures::{self, PageWidth};
use quell_store::Run;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct PlotArgs {
    #[command(flatten)]
    pub runs: RunNames,
    /// Which figure; by default the one that suits the run best
    #[arg(long, add = completion::figures())]
    pub figure: Option<String>,
    /// List the figures that there is data for
    #[arg(short, long, conflicts_with_all = ["figure", "output"])]
    pub list: bool,
    #[command(flatten)]
    pub comparing: Comparing,
    #[command(flatten)]
    pub period: Period,
    #[command(flatten)]
    pub look: Look,
    /// File to write: .png, .svg or .pdf; by default an SVG in the run's folder
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The figure of what was swept; the others need no experiment's file.
const SWEEP: figures::Name =
    figures::Name { name: "sweep", shows: "what changes with a swept field, by scenario" };

pub fn plot(args: &PlotArgs) -> Result<ExitCode, Failure> {
    let RunNames { runs, place } = &args.runs;
    let format = args.output.as_deref().map_or(Ok(Format::Svg), Format::of)?;
    let (figure, usual) = if runs.len() > 1 || args.comparing.is_asked() {
        let metrics = compare::metrics(args.comparing.metrics.iter())?;
        let drawn = args.comparing.of(place, runs, metrics, true, |c| of_comparison(args, c))?;
        let Some((figure, name)) = drawn else { return Ok(ExitCode::SUCCESS) };
        (figure, place.base.join(format!("{name}.svg")))
    } else {
        let folder = results::folder_of(place, runs.first().map(String::as_str))?;
        let Some((figure, name)) = of_run(args, results::read(&folder)?)? else {
            return Ok(ExitCode::SUCCESS);
        };
        (figure, folder.join(format!("{name}.svg")))
    };
    let output = args.output.as_deref().unwrap_or(&usual);
    write_figure(&args.look.of(figure)?, output, format, args.look.dpi)?;
    println!("{}", shown(output));
    Ok(ExitCode::SUCCESS)
}

/// A figure of this name, or a word on names that are like it.
fn known<'a>(wanted: &str, names: &[figures::Name]) -> Result<&'a str, Failure> {
    let all: Vec<&str> = names.iter().map(|n| n.name).collect();
    let found = names.iter().find(|n| n.name == wanted).map(|n| n.name);
    found.ok_or_else(|| {
        let hint = nearest::hint(wanted, &all);
        Failure::usage(format!("there is no figure `{wanted}`{hint}"))
    })
}

/// A figure of a run with its name; none where figures were to be listed.
fn of_run(args: &PlotArgs, run: Run) -> Result<Option<(Figure, &'static str)>, Failure> {
    let part = &args.comparing.part;
    let run = figures::only(run, &part.scenarios).map_err(Failure::unusable)?;
    let names: Vec<figures::Name> = figures::NAMES.iter().copied().chain([SWEEP]).collect();
    if args.list {
        for figures::Name { name, shows } in names {
            if drawn(args, run.clone(), name).is_ok() {
                println!("{name:15} {shows}");
            }
        }
        return Ok(None);
    }
    if let Some(wanted) = &args.figure {
        let name = known(wanted, &names)?;
        return Ok(Some((drawn(args, run, name)?, name)));
    }
    for name in std::iter::once(SWEEP.name).chain(figures::best_first(&run)) {
        if let Ok(figure) = drawn(args, run.clone(), name) {
            return Ok(Some((figure, name)));
        }
    }
    Err(Failure::check(format!("{} holds nothing that a figure shows", run.manifest.run)))
}

fn drawn(args: &PlotArgs, run: Run, name: &str) -> Result<Figure, Failure> {
    let part = &args.comparing.part;
    let span = args.period.span()?;
    if name == SWEEP.name {
        if span != (0.0, None) || !part.streams.is_empty() {
            return Err(Failure::usage(
                "the figure sweep is of whole runs and of all probes: leave out --from, --to and --streams",
            ));
        }
        return swept_figure(&run);
    }
    let text = &run.manifest.experiment_text;
    let capacities = experiment_of(&run).map_or(Vec::new(), |e| capacities(text, &e));
    let streams = part.named([&run]);
    let wanted = figures::Wanted { streams: &streams, capacities: &capacities, span, pairs: None };
    figures::figure_with(run, name, &wanted).map_err(Failure::unusable)
}

/// A figure of a comparison with its name; none where figures were to be listed.
fn of_comparison(
    args: &PlotArgs,
    comparison: &Comparison,
) -> Result<Option<(Figure, &'static str)>, Failure> {
    let span = args.period.span()?;
    let delays = compared::Delays::of(comparison, span);
    let figure = |name: &str| delays.figure(name, PageWidth::Wide);
    if args.list {
        for figures::Name { name, shows } in compared::NAMES {
            if figure(name).is_some() {
                println!("{name:15} {shows}");
            }
        }
        return Ok(None);
    }
    let Some(wanted) = &args.figure else {
        let best = compared::NAMES.iter().find_map(|n| Some((figure(n.name)?, n.name)));
        let none = || Failure::check("these runs hold nothing that a figure shows");
        return best.map(Some).ok_or_else(none);
    };
    let name = known(wanted, &compared::NAMES)?;
    if name == compared::BAR && span != (0.0, None) {
        return Err(Failure::usage(
            "the figure bar is of whole measurements: leave out --from and --to",
        ));
    }
    let none = || {
        Failure::usage(format!(
            "the figure {name} would be empty: nothing that it shows was measured"
        ))
    };
    Ok(Some((figure(name).ok_or_else(none)?, name)))
}

/// The figure of the first swept field of a run.
fn swept_figure(run: &Run) -> Result<Figure, Failure> {
    let name = &run.manifest.run;
    // What was measured by hand, or by another program, is of no experiment.
    let swept =
        experiment_of(run).map_or(Vec::new(), |experiment| swept(&experiment, &run.manifest));
    let none = || {
        Failure::usage(format!(
            "nothing was swept in {name}: its experiment has neither `sweep` nor several `kernels`"
        ))
    };
    let sweep = swept.first().ok_or_else(none)?;
    let results = Results::from(run);
    let summary = Summary::of(&results, &run.manifest);
    let figure = figures::sweep::figure(&run.manifest, &summary, sweep, PageWidth::Wide);
    figure.ok_or_else(|| {
        Failure::usage(format!("the figure sweep would be empty: nothing was measured in {name}"))
    })
}

/// Draws a figure of a run into a file.
pub fn draw(run: &Run, figure: &str, output: &Path, format: Format) -> Result<(), Failure> {
    let wanted = figures::Wanted::default();
    let figure = figures::figure_with(run.clone(), figure, &wanted).map_err(Failure::unusable)?;
    write_figure(&figure, output, format, USUAL_DPI)
}
