//! What a quell that the doctor runs tells it: findings, a line of JSON each, in a file without a name.

use nix::sys::memfd::{MFdFlags, memfd_create};
use quell_finding::Finding;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::fd::AsRawFd;

/// The variable that names the file.
const VARIABLE: &str = "QUELL_DOCTOR_FINDINGS";

/// The doctor's end.
pub(crate) struct Reported(File);

impl Reported {
    pub fn open() -> std::io::Result<Self> {
        Ok(Self(memfd_create(c"findings", MFdFlags::MFD_CLOEXEC)?.into()))
    }

    /// The variable, and what it is for a child.
    pub fn variable(&self) -> (&'static str, String) {
        (VARIABLE, format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()))
    }

    /// What was told; a line that is none is left out, and all behind the most that is read.
    pub fn read(mut self) -> Vec<Finding> {
        let _ = self.0.rewind();
        let lines = BufReader::new(self.0.take(crate::run::LARGEST)).lines();
        lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok()).collect()
    }
}

/// Tells the doctor that runs this program, if one does.
pub fn tell(findings: &[Finding]) {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let Ok(mut file) = OpenOptions::new().append(true).open(path) else { return };
    for finding in findings {
        // A doctor that is gone hears nothing.
        let _ = serde_json::to_string(finding).map(|line| writeln!(file, "{line}"));
    }
}
