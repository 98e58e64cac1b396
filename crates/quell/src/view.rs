//! `quell view`: a run as one zoomable page, opened where there is a screen.

use crate::failure::Failure;
use crate::options::RunName;
use crate::results;
use clap::Args;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Options of `quell view`.
#[derive(Debug, Args)]
pub struct ViewArgs {
    #[command(flatten)]
    pub run: RunName,
    /// File to write; view.html in the run's folder where absent, or - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Only write the file
    #[arg(long)]
    pub no_open: bool,
}

/// `quell view`.
pub fn view(args: &ViewArgs) -> Result<ExitCode, Failure> {
    let run = results::read_named(&args.run)?;
    let page = quell_report::view::render(&run);
    if args.output.as_deref() == Some(Path::new("-")) {
        crate::text::hand_out(page.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = args.output.clone().unwrap_or_else(|| run.folder.join("view.html"));
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
    if args.no_open {
        return Ok(ExitCode::SUCCESS);
    }
    if has_screen() && open(&file) {
        return Ok(ExitCode::SUCCESS);
    }
    // For a person; what reads standard output gets the path alone.
    eprintln!(
        "There is no screen to open it on. Copy it to where there is one and open it in any browser;"
    );
    eprintln!("it is one file and needs no network.");
    Ok(ExitCode::SUCCESS)
}

/// Whether this session can show windows.
fn has_screen() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|v| std::env::var_os(v).is_some_and(|d| !d.is_empty()))
}

/// Hands the file to whatever opens pages here. The browser is its own process group, so that Ctrl-C here does not end it.
fn open(file: &Path) -> bool {
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    let mut command = Command::new("xdg-open");
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0);
    command.status().is_ok_and(|status| status.success())
}
