//! `quell plot`: figures of a run.

use crate::capacity::capacities;
use crate::failure::Failure;
use crate::options::RunName;
use crate::results::{read_named, write};
use clap::{Args, ValueEnum};
use quell_chart::{Figure, Legend};
use quell_experiment::nearest;
use quell_experiment::spec::load_file;
use quell_report::figures;
use quell_store::Run;
use quell_units::Span;
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
    /// Only these streams, those of loads too; all that are named are shown
    #[arg(long = "streams", visible_alias = "stream", value_name = "NAMES")]
    pub streams: Vec<String>,
    /// Only these scenarios, in this order
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub scenarios: Vec<String>,
    /// Only what was sent from this time of the measurement on
    #[arg(long, value_name = "TIME")]
    pub from: Option<Span>,
    /// Only what was sent before this time of the measurement
    #[arg(long, value_name = "TIME")]
    pub to: Option<Span>,
    #[command(flatten)]
    pub look: Look,
    /// File to write: .png, .svg or .pdf
    #[arg(short, long)]
    pub output: Option<PathBuf>,
}

/// How a figure is to look.
#[derive(Debug, Args)]
pub struct Look {
    /// Another title
    #[arg(long)]
    pub title: Option<String>,
    /// Where the names of lines stand
    #[arg(long, value_enum)]
    pub legend: Option<Place>,
    /// Width and height in CSS pixels (96 to an inch), as 800x400; words that need more room make it higher
    #[arg(long, value_name = "WxH", value_parser = size)]
    pub size: Option<(u32, u32)>,
    /// Logarithmic axes of values
    #[arg(long)]
    pub log: bool,
    /// Pixels of a PNG to an inch
    #[arg(long, default_value_t = USUAL_DPI, value_parser = clap::value_parser!(u32).range(24..=1200))]
    pub dpi: u32,
}

/// Where the names of lines stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Place {
    /// Above
    Top,
    /// Below
    Bottom,
    /// Beside
    Right,
    /// Nowhere
    None,
}

fn size(text: &str) -> Result<(u32, u32), String> {
    let parsed = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    parsed.filter(|(w, h)| (240..=10_000).contains(w) && (120..=10_000).contains(h)).ok_or_else(
        || "write width and height, as 800x400; 240x120 is least, 10000x10000 most".to_owned(),
    )
}

impl Look {
    /// The figure as it is to look.
    fn of(&self, mut figure: Figure) -> Result<Figure, Failure> {
        if self.log {
            let none = "--log: no axis of this figure can be logarithmic; areas that stand on each other would mean nothing";
            figure = figure.logarithmic().ok_or_else(|| Failure::usage(none))?;
        }
        if let Some(title) = &self.title {
            figure = figure.title(title);
        }
        if let Some((width, height)) = self.size {
            figure = figure.size(width, height);
        }
        Ok(match self.legend {
            None => figure,
            Some(Place::Top) => figure.legend(Legend::Top),
            Some(Place::Bottom) => figure.legend(Legend::Bottom),
            Some(Place::Right) => figure.legend(Legend::Right),
            Some(Place::None) => figure.legend(Legend::Hidden),
        })
    }
}

/// Pixels of a PNG to an inch, unless told: suits screens.
pub const USUAL_DPI: u32 = 192;

/// The figure of what was swept; the others need no experiment's file.
const SWEEP: &str = "sweep";

const NO_OUTPUT: &str = "say where to write the figure: -o FILE.png, FILE.svg or FILE.pdf";

/// `quell plot`.
pub fn plot(args: &PlotArgs) -> Result<ExitCode, Failure> {
    let PlotArgs { figure, streams, output, look, .. } = args;
    let Some(wanted) = figure.as_deref() else {
        let line = |n: figures::Name| format!("{:15} {}\n", n.name, n.shows);
        let swept =
            figures::Name { name: SWEEP, shows: "what changes with a swept field, by scenario" };
        let list = figures::NAMES.map(line).concat() + &line(swept);
        if output.is_some() || !streams.is_empty() {
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
    let span = span(args)?;
    let run = figures::only(read_named(&args.run)?, &args.scenarios).map_err(Failure::unusable)?;
    let figure = if wanted == SWEEP {
        if span != (0.0, None) || !streams.is_empty() {
            return Err(Failure::usage(
                "the figure sweep is of whole runs and of all probes: --from, --to and --streams have no place in it",
            ));
        }
        crate::sweep::figure(&run)?
    } else {
        let text = &run.manifest.experiment_text;
        let experiment = load_file::parse("manifest.json", text);
        let capacities = experiment.map_or(Vec::new(), |e| capacities(text, &e));
        let wish =
            figures::Wanted { streams: &named(&run, streams), capacities: &capacities, span };
        figures::figure_with(run, wanted, &wish).map_err(Failure::unusable)?
    };
    write_figure(&look.of(figure)?, output, format, look.dpi)?;
    println!("{}", output.display());
    Ok(ExitCode::SUCCESS)
}

/// From when to when.
fn span(args: &PlotArgs) -> Result<(f64, Option<f64>), Failure> {
    let from = args.from.map_or(0.0, |from| from.as_secs_f64());
    let to = args.to.map(|to| to.as_secs_f64());
    match to.is_some_and(|to| to <= from) {
        true => Err(Failure::usage("--to must be after --from")),
        false => Ok((from, to)),
    }
}

/// The streams that were named: one by one, or with commas between them. A stream's own name may have a comma.
fn named(run: &Run, wanted: &[String]) -> Vec<String> {
    let known = |name: &str| {
        run.cells.iter().any(|cell| {
            cell.echoes.iter().any(|s| s.stream == name)
                || cell.flows.iter().any(|f| f.stream == name)
        })
    };
    let parts = |name: &String| match known(name) {
        true => vec![name.clone()],
        false => name.split(',').map(str::to_owned).collect(),
    };
    wanted.iter().flat_map(parts).collect()
}

/// How a figure is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Dots.
    Png,
    /// Shapes, for pages.
    Svg,
    /// Shapes, for paper.
    Pdf,
}

impl Format {
    /// By the file's name.
    pub fn of(output: &Path) -> Result<Self, Failure> {
        match output.extension().and_then(|e| e.to_str()) {
            Some("png") => Ok(Format::Png),
            Some("svg") => Ok(Format::Svg),
            Some("pdf") => Ok(Format::Pdf),
            _ => Err(Failure::usage(format!(
                "{}: a figure is written as .png, .svg or .pdf",
                output.display()
            ))),
        }
    }
}

/// Draws a figure of a run into a file.
pub fn draw(run: &Run, figure: &str, output: &Path, format: Format) -> Result<(), Failure> {
    let figure = figures::figure(run, figure).map_err(Failure::usage)?;
    write_figure(&figure, output, format, USUAL_DPI)
}

/// Draws a figure into a file.
pub fn write_figure(
    figure: &Figure,
    output: &Path,
    format: Format,
    dpi: u32,
) -> Result<(), Failure> {
    let bytes = match format {
        Format::Png => figure.png(dpi as f32 / 96.0).map_err(Failure::system)?,
        Format::Svg => figure.svg().into_bytes(),
        Format::Pdf => figure.pdf().map_err(Failure::system)?,
    };
    write(output, &bytes)
}
