//! The options of `quell doctor`, and the checks that they name.

use crate::completion;
use crate::failure::Failure;
use crate::options::{Json, SecretFile};
use clap::Args;
use quell_doctor::{CATALOGUE, Check, named};
use quell_finding::Severity;
use quell_units::Span;
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// List the checks and the causes of a wait
    #[arg(long, conflicts_with_all = ["explain", "during", "record", "from"])]
    pub list: bool,
    /// Explain a check, or a cause that any command finds: when it applies, what to do, the source
    #[arg(long, value_name = "NAME", add = completion::checks(), conflicts_with_all = ["during", "record", "from"])]
    pub explain: Option<String>,
    /// Only these checks, by name, separated by commas
    #[arg(long, value_name = "NAMES", add = completion::checks(), value_delimiter = ',')]
    pub only: Vec<String>,
    /// Show findings from this severity on: note, warning or serious
    #[arg(long, default_value = "warning")]
    pub severity: Severity,
    /// Show the result of each check, also where nothing is wrong
    #[arg(long)]
    pub all: bool,
    /// Watch while a command runs (words, no shell), or flow:HOST
    #[arg(long, value_name = "CMD", conflicts_with = "from")]
    pub during: Option<String>,
    /// Also ask the other end of a path, where `quell serve` runs: HOST, HOST:PORT
    #[arg(long, value_name = "HOST", conflicts_with_all = ["list", "explain", "from"])]
    pub peer: Option<String>,
    #[command(flatten)]
    pub secret: SecretFile,
    /// Keep looking, and show what changes: a finding that appeared, grew or went
    #[arg(long, conflicts_with_all = ["during", "record", "from", "all", "list", "explain", "peer"])]
    pub watch: bool,
    /// End --watch when this check finds something
    #[arg(long, value_name = "NAME", add = completion::checks(), requires = "watch")]
    pub until: Option<String>,
    /// Time between two looks of --watch
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "watch")]
    pub every: Span,
    /// Longest that the command of --during may take (by default 10min), or --watch
    #[arg(long, value_name = "TIME")]
    pub limit: Option<Span>,
    /// Keep what was read in a file
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub record: Option<PathBuf>,
    /// Judge files instead of this host (- is standard input): what --record saved; or what netstat -s, nstat, ip -s -s link, tc -s qdisc, ethtool -S,
    /// sysctl -a, dmesg print. The same twice, or two files: what moved between
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub from: Vec<PathBuf>,
    #[command(flatten)]
    pub json: Json,
}

/// The checks that were asked for, each once and in the catalogue's order; all where none was.
pub(super) fn chosen(names: &[String]) -> Result<Vec<&'static Check>, Failure> {
    let named = names.iter().map(|name| Ok(check_named(name)?.name));
    let named = named.collect::<Result<BTreeSet<_>, Failure>>()?;
    let wanted = |check: &&&Check| named.is_empty() || named.contains(check.name);
    Ok(CATALOGUE.iter().filter(wanted).copied().collect())
}

pub(super) fn check_named(name: &str) -> Result<&'static Check, Failure> {
    named(name.trim()).ok_or_else(|| {
        let near =
            CATALOGUE.iter().find(|check| check.name.contains(name.trim()) && !name.is_empty());
        let near = near.map(|check| format!("; is it {}?", check.name)).unwrap_or_default();
        Failure::usage(format!("there is no check `{name}`{near} (quell doctor --list names them)"))
    })
}
