//! `quell shape import`: what another program was told of a line, as a policy file.

use super::wanted::contents;
use crate::failure::Failure;
use crate::text::hand_out;
use clap::{Args, ValueEnum};
use quell_shaper::import::{Imported, libreqos, sqm};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// OpenWrt's /etc/config/sqm
    Sqm,
    /// LibreQoS' ShapedDevices.csv
    Libreqos,
}

/// Options of `quell shape import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Whose file it is
    #[arg(value_enum)]
    pub format: Format,
    /// The file
    pub file: PathBuf,
    /// Of sqm's queues the one for this interface
    #[arg(long = "dev", value_name = "DEV")]
    pub device: Option<String>,
}

/// `quell shape import`.
pub fn import(args: &ImportArgs) -> Result<ExitCode, Failure> {
    let text = contents(&args.file)?;
    let imported = match args.format {
        Format::Sqm => sqm(&text, args.device.as_deref()),
        Format::Libreqos => libreqos(&text),
    };
    let refused = |why: String| Failure::unusable(format!("{}: {why}", args.file.display()));
    hand_out(told(&imported.map_err(refused)?)?.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Characters of a line about what is left out.
const LONGEST: usize = 200;

/// The policy file, with what is left out above it.
fn told(imported: &Imported) -> Result<String, Failure> {
    let mut text = String::new();
    for what in &imported.left_out {
        let _ = writeln!(text, "# left out: {}", quell_wire::text::printable(what, LONGEST));
    }
    if imported.wanted.rates() == (None, None) {
        text.push_str("# what the line carries is not in that file; give it here, or as --line:\n# line = \"1000/1000\"\n");
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&toml::to_string(&imported.wanted).map_err(Failure::system)?);
    Ok(text)
}
