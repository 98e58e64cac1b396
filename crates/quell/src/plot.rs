//! `quell plot`: figures of a run.

use crate::failure::Failure;
use crate::options::RunName;
use crate::results::{read_named, write};
use clap::Args;
use quell_chart::Figure;
use quell_experiment::nearest;
use quell_report::figures;
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
    /// Only this stream (repeatable: all that are named are shown)
    #[arg(long = "stream", value_name = "STREAM")]
    pub streams: Vec<String>,
    /// File to write: .png or .svg
    #[arg(short, long)]
    pub output: Option<PathBuf>,
}

/// `quell plot`.
pub fn plot(args: &PlotArgs) -> Result<ExitCode, Failure> {
    let PlotArgs { run, figure, streams, output } = args;
    let Some(wanted) = figure.as_deref() else {
        let line = |n: figures::Name| format!("{:15} {}\n", n.name, n.shows);
        let list: String = figures::NAMES.map(line).concat();
        if output.is_some() || !streams.is_empty() {
            let text = format!("say which figure, with --figure NAME; there are\n{list}");
            return Err(Failure::usage(text.trim_end()));
        }
        print!("{list}");
        return Ok(ExitCode::SUCCESS);
    };
    let names = figures::NAMES.map(|n| n.name);
    if !names.contains(&wanted) {
        let hint = nearest::hint(wanted, &names);
        return Err(Failure::usage(format!("there is no figure `{wanted}`{hint}")));
    }
    let output = output.as_deref().ok_or_else(|| {
        Failure::usage("say where to write the figure: -o FILE.png or -o FILE.svg")
    })?;
    let format = Format::of(output)?;
    let figure =
        figures::figure_of(read_named(run)?, wanted, streams).map_err(Failure::unusable)?;
    write_figure(&figure, output, format)?;
    println!("{}", output.display());
    Ok(ExitCode::SUCCESS)
}

/// How a figure is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Dots.
    Png,
    /// Shapes.
    Svg,
}

impl Format {
    /// By the file's name.
    pub fn of(output: &Path) -> Result<Self, Failure> {
        match output.extension().and_then(|e| e.to_str()) {
            Some("png") => Ok(Format::Png),
            Some("svg") => Ok(Format::Svg),
            _ => Err(Failure::usage(format!(
                "{}: a figure is written as .png or .svg",
                output.display()
            ))),
        }
    }
}

/// Draws a figure of a run into a file.
pub fn draw(run: &Run, figure: &str, output: &Path, format: Format) -> Result<(), Failure> {
    let figure = figures::figure(run, figure).map_err(Failure::usage)?;
    write_figure(&figure, output, format)
}

fn write_figure(figure: &Figure, output: &Path, format: Format) -> Result<(), Failure> {
    let bytes = match format {
        Format::Png => figure.png(2.0).map_err(Failure::system)?,
        Format::Svg => figure.svg().into_bytes(),
    };
    write(output, &bytes)
}
