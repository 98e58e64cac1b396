//! Where things are in a folder of runs, and in a run.

use crate::error::StoreError;
use crate::{lines, tables};
use std::path::Path;
use std::{fs, io};

pub(crate) const JOURNALS: &str = "journal";

/// Files of a finished run, beside its manifest.
pub(crate) const TABLES: [&str; 5] =
    [tables::SAMPLES, tables::FLOWS, tables::QUEUES, lines::OUTPUTS, lines::FACTS];

/// Names of the folders under `base`, in order of time as they begin with it.
pub(crate) fn names(base: &Path) -> Result<Vec<String>, StoreError> {
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
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
