//! `quell mesh init`: a file to begin with, which explains itself.

use crate::failure::Failure;
use crate::text::say;
use clap::Args;
use quell_mesh::file::EXAMPLE;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct InitArgs {
    /// File to write; one that is there is left as it is
    #[arg(default_value = "mesh.toml", value_name = "FILE")]
    file: PathBuf,
}

pub fn init(args: &InitArgs) -> Result<ExitCode, Failure> {
    let file = args.file.display();
    if args.file.symlink_metadata().is_ok() {
        return Err(Failure::usage(format!("{file} is there already; name another file")));
    }
    quell_store::write_output(&args.file, EXAMPLE.as_bytes())
        .map_err(|why| Failure::system(format!("could not write {file}: {why}")))?;
    say(&format!("{file} has 3 agents to replace by yours. Then: quell mesh plan {file}"));
    Ok(ExitCode::SUCCESS)
}
