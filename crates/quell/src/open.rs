//! `quell open`: runs as one page, opened where there is a screen.

use crate::compare::{self, Comparing};
use crate::failure::Failure;
use crate::options::RunNames;
use crate::results;
use clap::Args;
use quell_experiment::results::JudgedRun;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

#[derive(Debug, Args)]
pub struct OpenArgs {
    #[command(flatten)]
    pub runs: RunNames,
    #[command(flatten)]
    pub comparing: Comparing,
    /// File to write, or - for standard output; by default report.html in the run's folder, of several runs compare.html in the folder of runs
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Only write the file
    #[arg(long)]
    pub no_open: bool,
}

pub fn open(args: &OpenArgs) -> Result<ExitCode, Failure> {
    let (page, usual) = page(args)?;
    if args.output.as_deref() == Some(Path::new("-")) {
        crate::text::hand_out(page.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = args.output.clone().unwrap_or(usual);
    let written = quell_store::write_output(&file, page.as_bytes());
    written.map_err(|e| {
        let hint = match e.kind() {
            ErrorKind::PermissionDenied if args.output.is_none() => {
                "; write it elsewhere with -o FILE"
            }
            _ => "",
        };
        Failure::system(format!("writing {}: {e}{hint}", file.display()))
    })?;
    println!("{}", results::shown(&file));
    if args.no_open || has_screen() && opened(&file) {
        return Ok(ExitCode::SUCCESS);
    }
    // For a person; what reads standard output gets the path alone.
    eprintln!("There is no screen to open it on. It is one file and needs no network:");
    eprintln!("copy it to where there is a screen, and open it in any browser.");
    Ok(ExitCode::SUCCESS)
}

/// The page, and where it is written by default.
fn page(args: &OpenArgs) -> Result<(String, PathBuf), Failure> {
    let RunNames { runs, place } = &args.runs;
    let part = &args.comparing.part;
    let is_part = !part.streams.is_empty() || !part.scenarios.is_empty();
    if runs.len() > 1 || is_part || args.comparing.is_asked() {
        let metrics = compare::metrics(args.comparing.metrics.iter())?;
        let page = args.comparing.of(place, runs, metrics, true, |comparison| {
            Ok(quell_report::compare::page(comparison))
        })?;
        return Ok((page, place.base.join("compare.html")));
    }
    let folder = results::folder_of(place, runs.first().map(String::as_str))?;
    let judged = JudgedRun::of(results::read(&folder)?);
    Ok((judged.page(), judged.run.folder.join("report.html")))
}

/// Whether this session can show windows.
fn has_screen() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|v| std::env::var_os(v).is_some_and(|d| !d.is_empty()))
}

/// Hands the file to whatever opens pages here. The browser is its own process group, so that Ctrl-C here does not end it.
fn opened(file: &Path) -> bool {
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    let mut command = Command::new("xdg-open");
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0);
    command.status().is_ok_and(|status| status.success())
}
