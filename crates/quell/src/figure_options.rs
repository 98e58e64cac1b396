//! A figure as a person wants it, of a run or of a comparison: which part of what was measured, how it looks, in which kind of file.

use crate::failure::Failure;
use crate::options::choice;
use crate::results::write;
use clap::Args;
use quell_chart::{Figure, Legend};
use quell_store::Run;
use quell_units::Span;
use std::path::Path;

/// Which part of what was measured is shown.
#[derive(Debug, Args)]
pub struct Part {
    /// Only these streams, those of loads too; all that are named are shown
    #[arg(long = "streams", visible_alias = "stream", value_name = "NAMES")]
    pub streams: Vec<String>,
    /// Only these scenarios, in this order
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub scenarios: Vec<String>,
}

impl Part {
    /// The streams that were named: one by one, or with commas between them. A stream's own name may have a comma.
    pub fn named<'a>(&self, runs: impl IntoIterator<Item = &'a Run> + Clone) -> Vec<String> {
        let known = |name: &str| {
            runs.clone().into_iter().flat_map(|run| &run.cells).any(|cell| {
                cell.echoes.iter().any(|s| s.stream == name)
                    || cell.flows.iter().any(|f| f.stream == name)
            })
        };
        let parts = |name: &String| match known(name) {
            true => vec![name.clone()],
            false => name.split(',').map(str::to_owned).collect(),
        };
        self.streams.iter().flat_map(parts).collect()
    }
}

/// Which time of the measurement a figure shows.
#[derive(Debug, Args)]
pub struct Period {
    /// Only what was sent from this time of the measurement on
    #[arg(long, value_name = "TIME")]
    pub from: Option<Span>,
    /// Only what was sent before this time of the measurement
    #[arg(long, value_name = "TIME")]
    pub to: Option<Span>,
}

impl Period {
    /// From when to when, in seconds.
    pub fn span(&self) -> Result<(f64, Option<f64>), Failure> {
        let from = self.from.map_or(0.0, |from| from.as_secs_f64());
        let to = self.to.map(|to| to.as_secs_f64());
        match to.is_some_and(|to| to <= from) {
            true => Err(Failure::usage("--to must be after --from")),
            false => Ok((from, to)),
        }
    }
}

/// How a figure is to look.
#[derive(Debug, Args)]
pub struct Look {
    /// Another title
    #[arg(long)]
    pub title: Option<String>,
    /// Where the legend is
    #[arg(long, value_parser = choice([
        ("top", "Above", Legend::Top),
        ("bottom", "Below", Legend::Bottom),
        ("right", "Beside", Legend::Right),
        ("none", "Nowhere", Legend::Hidden),
    ]))]
    pub legend: Option<Legend>,
    /// Width and height in CSS pixels (96 to an inch), for example 800x400; long text makes it higher
    #[arg(long, value_name = "WxH", value_parser = size)]
    pub size: Option<(u32, u32)>,
    /// Logarithmic axes of values
    #[arg(long)]
    pub log: bool,
    /// Pixels of a PNG to an inch
    #[arg(long, default_value_t = USUAL_DPI, value_parser = clap::value_parser!(u32).range(24..=1200))]
    pub dpi: u32,
}

fn size(text: &str) -> Result<(u32, u32), String> {
    let parsed = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    parsed.filter(|(w, h)| (240..=10_000).contains(w) && (120..=10_000).contains(h)).ok_or_else(
        || "write width and height, as 800x400; 240x120 is least, 10000x10000 most".to_owned(),
    )
}

impl Look {
    /// The figure as it is to look.
    pub fn of(&self, mut figure: Figure) -> Result<Figure, Failure> {
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
            Some(legend) => figure.legend(legend),
        })
    }
}

/// Pixels of a PNG to an inch, by default: suits screens.
pub const USUAL_DPI: u32 = 192;

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
