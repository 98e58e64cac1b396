//! The options.

use crate::options::Json;
use clap::Args;
use quell_units::Span;
use std::path::PathBuf;

/// Options of `quell tree`.
#[derive(Debug, Args)]
pub struct TreeArgs {
    /// A device, with the IFBs that it feeds; all devices where absent
    pub device: Option<String>,
    /// What tc -s -d qdisc, class and filter show printed, as text or with -j; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["watch", "over"])]
    pub from: Option<PathBuf>,
    /// Read again and again, and show amounts per second
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1s",
          conflicts_with_all = ["svg", "png", "dot", "over"])]
    pub watch: Option<Span>,
    /// Watch for this time first, and show amounts per second
    #[arg(long, value_name = "TIME")]
    pub over: Option<Span>,
    /// Show each one of what is alike
    #[arg(long)]
    pub all: bool,
    /// Show options that nobody chose, too
    #[arg(long)]
    pub details: bool,
    /// Draw it as SVG; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Draw it as PNG
    #[arg(long, value_name = "FILE")]
    pub png: Option<PathBuf>,
    /// Width of the picture, in CSS pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 960, value_parser = clap::value_parser!(u32).range(200..=8000))]
    pub width: u32,
    /// Write it for Graphviz; to standard output where no file is given
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub dot: Option<PathBuf>,
    #[command(flatten)]
    pub state: crate::shape::StateArgs,
    #[command(flatten)]
    pub json: Json,
}
