//! Where things are in a folder of runs, and in a run.

use crate::error::StoreError;
use crate::stored;
use crate::{lines, tables};
use quell_model::CellId;
use quell_model::manifest::RunPart;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

pub(crate) const JOURNALS: &str = "journal";

/// Files of a finished run, beside its manifest.
pub(crate) const TABLES: [&str; 5] =
    [tables::SAMPLES, tables::FLOWS, tables::QUEUES, lines::OUTPUTS, lines::FACTS];

/// Names of the folders under `base`, in order of time as they begin with it.
pub(crate) fn run_names(base: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(base) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(StoreError::io("read", base))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::io("read", base))?;
        if let Ok(name) = entry.file_name().into_string()
            && !name.starts_with('.')
            && entry.path().is_dir()
            && !holds_runs(&entry.path())
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Whether it is no run but a folder of some, as `quell ping --keep` makes it.
fn holds_runs(folder: &Path) -> bool {
    let has_manifest = |folder: &Path| folder.join(stored::FILE).exists();
    let mut inside = fs::read_dir(folder).into_iter().flatten().flatten();
    !has_manifest(folder) && inside.any(|entry| has_manifest(&entry.path()))
}

/// Longest part of a file name in bytes; names are at most 255 in all on the usual file systems.
const LONGEST_PART: usize = 72;

/// A name as a part of a file name: letters, digits, `-` and `_` stay, every other byte becomes `%XX`. What is too long is cut, and a
/// checksum of the whole keeps it unique.
pub(crate) fn file_name_part(name: &str) -> String {
    let mut safe = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => safe.push(char::from(byte)),
            _ => {
                let _ = write!(safe, "%{byte:02X}");
            }
        }
    }
    if safe.len() > LONGEST_PART {
        safe.truncate(LONGEST_PART - 9);
        let _ = write!(safe, "~{:08x}", crc32fast::hash(name.as_bytes()));
    }
    safe
}

/// The end of the name of a part's folder.
pub(crate) fn part_name(part: &RunPart) -> String {
    format!("-part-{}-of-{}", part.number, part.of)
}

pub(crate) fn journal_name(cell: &CellId) -> String {
    format!(
        "{}.{}.{}.events",
        file_name_part(&cell.scenario),
        file_name_part(&cell.probe),
        cell.repeat
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(scenario: &str, probe: &str) -> CellId {
        CellId { scenario: scenario.into(), probe: probe.into(), repeat: 0 }
    }

    #[test]
    fn plain_names_stay_as_they_are() {
        assert_eq!(journal_name(&cell("bulk-shaped", "ping")), "bulk-shaped.ping.0.events");
    }

    #[test]
    fn hostile_names_stay_within_the_folder() {
        assert_eq!(file_name_part("../../etc/passwd"), "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd");
        assert!(!file_name_part("a\0b\n").contains(['\0', '\n']));
    }

    #[test]
    fn names_that_differ_give_files_that_differ() {
        assert_ne!(journal_name(&cell("a.b", "c")), journal_name(&cell("a", "b.c")));
        let long = "x".repeat(300);
        assert_ne!(file_name_part(&(long.clone() + "1")), file_name_part(&(long + "2")));
    }

    #[test]
    fn long_names_fit_a_file_system() {
        assert!(journal_name(&cell(&"ü".repeat(500), &"/".repeat(500))).len() <= 255);
    }
}
