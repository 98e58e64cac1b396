//! What is kept and drawn of `quell ping` and `quell path`.

use crate::failure::Failure;
use crate::figure_options::Format;
use crate::options::Place;
use crate::plot;
use clap::Args;
use quell_store::Run;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Keeping {
    /// Keep it as a run, for `quell show`, `plot` and `open`
    #[arg(long)]
    pub save: bool,
    /// The same, with this name for the run
    #[arg(short = 'w', long, value_name = "NAME")]
    pub write: Option<String>,
    #[command(flatten)]
    pub place: Place,
    /// Draw averages with loss and deviation: FILE.png or FILE.svg; keeps the run too
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Draw round-trip times over time instead, as lines
    #[arg(short, long, requires = "output")]
    pub lines: bool,
}

impl Keeping {
    pub fn is_wanted(&self) -> bool {
        self.save || self.write.is_some() || self.output.is_some()
    }

    /// Told before anything is sent.
    pub fn check(&self) -> Result<(), Failure> {
        self.output.as_deref().map_or(Ok(()), |file| Format::of(file).map(|_| ()))
    }

    /// The figure that was asked for, if any.
    pub fn draw(&self, run: &Run) -> Result<(), Failure> {
        let Some(file) = &self.output else { return Ok(()) };
        let name = if self.lines { "rtt-time" } else { "rtt-averages" };
        plot::draw(run, name, file, Format::of(file)?)
    }
}
