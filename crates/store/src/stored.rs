//! `manifest.json` on disk: the manifest, and once the run is finished the tables with their sizes and checksums.

use crate::error::StoreError;
use crate::files::{self, Checksum};
use quell_model::manifest::FORMAT_VERSION;
use quell_model::{CellId, Manifest};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

pub(crate) const FILE: &str = "manifest.json";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    pub rows: u64,
    pub bytes: u64,
    pub crc32: u32,
}

impl FileRecord {
    pub fn new(rows: u64, sum: Checksum) -> Self {
        Self { rows, bytes: sum.bytes, crc32: sum.crc32 }
    }

    pub fn sum(self) -> Checksum {
        Checksum { bytes: self.bytes, crc32: self.crc32 }
    }
}

/// Files of a finished run by name; none while the journals count.
pub(crate) type Files = Option<BTreeMap<String, FileRecord>>;

#[derive(Serialize)]
struct Out<'a> {
    #[serde(flatten)]
    manifest: &'a Manifest,
    files: &'a Files,
}

#[derive(Deserialize)]
struct ManifestFormat {
    format: u64,
}

#[derive(Deserialize)]
struct Beside {
    #[serde(default)]
    files: Files,
}

/// Writes the manifest into a run's folder, whole or not at all.
pub(crate) fn write(folder: &Path, manifest: &Manifest, files: &Files) -> Result<(), StoreError> {
    let path = path(folder);
    let mut text = serde_json::to_vec_pretty(&Out { manifest, files })
        .map_err(|e| StoreError::Unstorable { what: format!("the manifest is not JSON: {e}") })?;
    text.push(b'\n');
    files::write(&path, &text).map(|_| ())
}

pub(crate) fn read(folder: &Path) -> Result<(Manifest, Files), StoreError> {
    let path = path(folder);
    let Some(text) = files::read(&path)? else {
        return Err(StoreError::NoManifest { path: folder.to_path_buf() });
    };
    let damaged = |e: serde_json::Error| StoreError::damaged(&path, e);
    let ManifestFormat { format } = serde_json::from_slice(&text).map_err(damaged)?;
    if format != u64::from(FORMAT_VERSION) {
        return Err(StoreError::Format { path, found: format });
    }
    let manifest: Manifest = serde_json::from_slice(&text).map_err(damaged)?;
    // Each would have the whole of the cell's journal.
    if let Some(id) = twice(&manifest) {
        return Err(StoreError::damaged(&path, format!("the measurement {id} is there twice")));
    }
    let Beside { files } = serde_json::from_slice(&text).map_err(damaged)?;
    if files.is_none() && manifest.complete {
        return Err(StoreError::damaged(&path, "it lacks `files`, and says that it is whole"));
    }
    Ok((manifest, files))
}

pub(crate) fn twice(manifest: &Manifest) -> Option<&CellId> {
    let mut seen = HashSet::new();
    manifest.cells.iter().map(|c| &c.id).find(|id| !seen.insert(*id))
}

fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}
