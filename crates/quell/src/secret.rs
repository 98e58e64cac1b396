//! The secret that a client and a server share: from a file, never from the command line, where every user of the host could read it.

use crate::failure::Failure;
use clap::Args;
use quell_wire::auth::Secret;
use std::path::{Path, PathBuf};

/// Names the file where no option does.
const VARIABLE: &str = "QUELL_SECRET_FILE";

/// Where the secret is.
#[derive(Debug, Clone, Args)]
pub struct SecretFile {
    /// File with the secret that client and server share [default: $QUELL_SECRET_FILE, else none]
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
}

impl SecretFile {
    /// The secret, where there is to be one. Errors when the file can't be read, is readable by all, or holds too little.
    pub fn read(&self) -> Result<Option<Secret>, Failure> {
        let variable = std::env::var_os(VARIABLE).filter(|file| !file.is_empty());
        let file = self.secret_file.as_deref().or(variable.as_deref().map(Path::new));
        file.map(quell_sys::secret::read).transpose().map_err(Failure::usage)
    }
}
