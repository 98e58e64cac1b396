//! The options of `quell doctor`.

use crate::options::Json;
use clap::Args;
use quell_finding::Severity;
use quell_units::Span;
use std::path::PathBuf;

/// Options of `quell doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// List the checks
    #[arg(long, conflicts_with_all = ["explain", "during", "record", "from"])]
    pub list: bool,
    /// Explain a check: what it reads, when it speaks, what to do, who says so
    #[arg(long, value_name = "NAME", conflicts_with_all = ["during", "record", "from"])]
    pub explain: Option<String>,
    /// Only these checks, by name or number, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Show findings from this severity on: note, warning or serious
    #[arg(long, default_value = "warning")]
    pub severity: Severity,
    /// Show what each check came to, also where nothing is wrong
    #[arg(long)]
    pub all: bool,
    /// Watch while a command runs (words, no shell), or flow:HOST
    #[arg(long, value_name = "CMD", conflicts_with = "from")]
    pub during: Option<String>,
    /// Longest that the command of --during may take
    #[arg(long, value_name = "TIME", default_value = "10min", requires = "during")]
    pub limit: Span,
    /// Keep what was read in a folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "from")]
    pub record: Option<PathBuf>,
    /// Judge what --record kept instead of this host
    #[arg(long, value_name = "FOLDER")]
    pub from: Option<PathBuf>,
    #[command(flatten)]
    pub json: Json,
}
