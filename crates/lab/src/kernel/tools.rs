//! What building a kernel needs from the machine, and which Debian package brings it. All that is missing is named at once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program or library that building a kernel needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingTool {
    /// What it is called.
    pub name: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
}

const PROGRAMS: [MissingTool; 10] = [
    MissingTool { name: "make", package: "make" },
    MissingTool { name: "gcc", package: "gcc" },
    MissingTool { name: "ld", package: "binutils" },
    MissingTool { name: "strip", package: "binutils" },
    MissingTool { name: "flex", package: "flex" },
    MissingTool { name: "bison", package: "bison" },
    MissingTool { name: "bc", package: "bc" },
    MissingTool { name: "perl", package: "perl" },
    MissingTool { name: "tar", package: "tar" },
    MissingTool { name: "xz", package: "xz-utils" },
];

const C_LIBRARY: MissingTool = MissingTool { name: "C library headers", package: "libc6-dev" };

/// Everything that is not there.
pub(super) fn missing() -> Vec<MissingTool> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut missing = missing_in(&folders);
    if !missing.iter().any(|t| t.name == "gcc") && !compiles() {
        missing.push(C_LIBRARY);
    }
    missing
}

fn missing_in(folders: &[PathBuf]) -> Vec<MissingTool> {
    let there = |name: &str| folders.iter().any(|folder| is_program(&folder.join(name)));
    PROGRAMS.into_iter().filter(|tool| !there(tool.name)).collect()
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Whether a program that uses the C library's headers can be made.
fn compiles() -> bool {
    let mut command = Command::new("gcc");
    command.args(["-E", "-include", "sys/random.h", "-include", "linux/limits.h"]);
    command.args(["-x", "c", "/dev/null"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|s| s.success())
}

/// The line that installs what is missing.
pub(super) fn install_line(missing: &[MissingTool]) -> String {
    let mut packages: Vec<&str> = missing.iter().map(|t| t.package).collect();
    packages.sort_unstable();
    packages.dedup();
    format!("sudo apt-get install -y --no-install-recommends {}", packages.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_an_empty_machine_everything_is_missing_and_named_once() {
        let missing = missing_in(&[PathBuf::from("/nowhere")]);
        assert_eq!(missing.len(), PROGRAMS.len());
        assert_eq!(
            install_line(&missing),
            "sudo apt-get install -y --no-install-recommends bc binutils bison flex gcc make perl tar xz-utils"
        );
    }
}
