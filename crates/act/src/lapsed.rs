//! What is left of a change that was not confirmed in time: a note beside its log, so that whoever comes too late is told what became of it.
//!
//! ```text
//!   FOLDER/NAMESPACE-INTERFACE.lapsed     the interface's name; gone with the next change of it, with `off`, and with the folder at a reboot
//! ```

use quell_sys::input;
use std::path::{Path, PathBuf};

const ENDING: &str = "lapsed";

/// No name of an interface is longer.
const LONGEST: u64 = 64;

fn place(log: &Path) -> PathBuf {
    log.with_extension(ENDING)
}

/// How that is said.
pub(crate) fn words(device: &str, then: &str) -> String {
    // What is about no interface has a name that none can have.
    let device = device.trim_start_matches(':');
    format!("{device}: the last change was not confirmed in time; it {then}")
}

/// Notes that the change of a log was taken back, since nobody confirmed it.
pub(crate) fn note(log: &Path, device: &str) {
    // Where the disk is full nobody is told why nothing waits.
    let _ = crate::kernel::put(&place(log), device.as_bytes(), 0o600);
}

/// Another change is under way, or nothing of ours is in force.
pub(crate) fn forget(log: &Path) {
    let _ = std::fs::remove_file(place(log));
}

/// The interfaces of which the last change was taken back.
pub(crate) fn all(folder: &Path, namespace: u64) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let device = |path: PathBuf| {
        let of = path.file_name()?.to_str()?;
        let ours = of.starts_with(&format!("{namespace}-")) && path.extension()? == ENDING;
        ours.then(|| input::text(&path, LONGEST).ok()).flatten()
    };
    let mut all: Vec<String> = entries.filter_map(|entry| device(entry.path())).collect();
    all.sort();
    all
}
