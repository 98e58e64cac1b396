//! `quell plot`: figures of a run.

use crate::failure::Failure;
use crate::look::{Format, Look, Part, USUAL_DPI, write_figure};
use crate::options::RunName;
use crate::results::read_named;
use clap::Args;
use quell_chart::Figure;
use quell_experiment::nearest;
use quell_experiment::results::{capacities, experiment_of, swept};
use quell_report::Results;
use quell_report::analysis::Summary;
use quell_report::figures::{self, PageWidth};
use quell_store::Run;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `quell plot`.
#[derive(Debug, Args)]
pub struct PlotArgs {
    #[command(flatten)]
    pub run: RunName,
    /// Which figure; without it, they are listed
    #[arg(long)]
    pub figure: Option<String>,
    #[command(flatten)]
    pub part: Part,
    #[command(flatten)]
    pub look: Look,
    /// File to write: .png, .svg or .pdf
    #[arg(short, long)]
    pub output: Option<PathBuf>,
}

/// The figure of what was swept; the others need no experiment's file.
const SWEEP: &str = "sweep";

const NO_OUTPUT: &str = "say where to write the figure: -o FILE.png, FILE.svg or FILE.pdf";

/// `quell plot`.
pub fn plot(args: &PlotArgs) -> Result<ExitCode, Failure> {
    let PlotArgs { figure, part, output, look, .. } = args;
    let Some(wanted) = figure.as_deref() else {
        let line = |n: figures::Name| format!("{:15} {}\n", n.name, n.shows);
        let swept =
            figures::Name { name: SWEEP, shows: "what changes with a swept field, by scenario" };
        let list = figures::NAMES.map(line).concat() + &line(swept);
        if output.is_some() || !part.streams.is_empty() {
            let text = format!("say which figure, with --figure NAME; there are\n{list}");
            return Err(Failure::usage(text.trim_end()));
        }
        print!("{list}");
        return Ok(ExitCode::SUCCESS);
    };
    let names: Vec<&str> = figures::NAMES.iter().map(|n| n.name).chain([SWEEP]).collect();
    if !names.contains(&wanted) {
        let hint = nearest::hint(wanted, &names);
        return Err(Failure::usage(format!("there is no figure `{wanted}`{hint}")));
    }
    let output = output.as_deref().ok_or_else(|| Failure::usage(NO_OUTPUT))?;
    let format = Format::of(output)?;
    let span = part.span()?;
    let run = figures::only(read_named(&args.run)?, &part.scenarios).map_err(Failure::unusable)?;
    let figure = if wanted == SWEEP {
        if span != (0.0, None) || !part.streams.is_empty() {
            return Err(Failure::usage(
                "the figure sweep is of whole runs and of all probes: --from, --to and --streams have no place in it",
            ));
        }
        swept_figure(&run)?
    } else {
        let text = &run.manifest.experiment_text;
        let capacities = experiment_of(&run).map_or(Vec::new(), |e| capacities(text, &e));
        let wish = figures::Wanted { streams: &part.named([&run]), capacities: &capacities, span };
        figures::figure_with(run, wanted, &wish).map_err(Failure::unusable)?
    };
    write_figure(&look.of(figure)?, output, format, look.dpi)?;
    println!("{}", output.display());
    Ok(ExitCode::SUCCESS)
}

/// Draws a figure of a run into a file.
pub fn draw(run: &Run, figure: &str, output: &Path, format: Format) -> Result<(), Failure> {
    let figure = figures::figure(run, figure).map_err(Failure::usage)?;
    write_figure(&figure, output, format, USUAL_DPI)
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
