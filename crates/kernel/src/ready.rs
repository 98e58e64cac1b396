//! Asking a ready kernel what it is: it is run with `--version` and `--help`, which boot nothing.

use crate::job::{self, JobError};
use quell_sys::input::Input;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    pub version: String,
    pub virtual_time: bool,
    /// Whether its randomness can be seeded.
    pub seeded: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    #[error("the kernel {}: {error}", .path.display())]
    File { path: PathBuf, error: std::io::Error },
    #[error(
        "{} is no program (ELF): a lab kernel is user-mode Linux, built with ARCH=um, \
         not the kernel that a machine boots", .path.display()
    )]
    NoProgram { path: PathBuf },
    #[error("{} does not answer as a user-mode kernel: {why}", .path.display())]
    NoKernel { path: PathBuf, why: String },
    #[error(
        "the kernel {} ({version}) has no virtual time: build it with CONFIG_UML_TIME_TRAVEL_SUPPORT=y, \
         or let Quell build one with `quell lab kernel build`", .path.display()
    )]
    NoVirtualTime { path: PathBuf, version: String },
}

/// How long a kernel may take to say what it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks a kernel what it is. Errors when it is not a user-mode kernel with virtual time.
pub fn inspect(path: &Path) -> Result<Ready, NotReady> {
    let mut magic = [0; 4];
    Input::open(path)
        .and_then(|mut file| match file.read_exact(&mut magic) {
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(()),
            other => other,
        })
        .map_err(|error| NotReady::File { path: path.into(), error })?;
    if &magic != b"\x7fELF" {
        return Err(NotReady::NoProgram { path: path.into() });
    }
    let version = ask(path, "--version")?.trim().to_string();
    let help = ask(path, "--help")?;
    if !help.contains("User Mode Linux") || version.is_empty() {
        let why = "its --help does not speak of User Mode Linux".into();
        return Err(NotReady::NoKernel { path: path.into(), why });
    }
    if !help.contains("time-travel") {
        return Err(NotReady::NoVirtualTime { path: path.into(), version });
    }
    Ok(Ready { version, virtual_time: true, seeded: help.contains("quell_seed=") })
}

fn ask(path: &Path, question: &str) -> Result<String, NotReady> {
    // A name without a slash would be looked for in PATH.
    let program = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let mut command = Command::new(program);
    command.arg(question);
    let mut answer = String::new();
    job::run(command, PATIENCE, None, &mut |line| {
        answer.push_str(line);
        answer.push('\n');
    })
    .map_err(|e| NotReady::NoKernel {
        path: path.into(),
        why: match e {
            JobError::TooLong(_) => format!("it did not answer to {question}"),
            other => other.to_string(),
        },
    })?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_user_mode_kernel_is_told_from_what_is_no_program() {
        assert!(matches!(inspect(Path::new("/no/such")), Err(NotReady::File { .. })));
        assert!(matches!(inspect(Path::new("/etc/passwd")), Err(NotReady::NoProgram { .. })));
        assert!(matches!(inspect(Path::new("/dev/null")), Err(NotReady::NoProgram { .. })));
        let shell = std::fs::canonicalize("/bin/sh").unwrap();
        assert!(matches!(inspect(&shell), Err(NotReady::NoKernel { .. })));
    }
}
