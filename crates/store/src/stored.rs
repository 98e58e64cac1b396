//! `manifest.json` on disk: the manifest, and once the run is finished the tables with their sizes and checksums.

use crate::error::StoreError;
use crate::files::{self, Sum};
use crate::layout::JOURNALS;
use crate::plausible;
use quell_model::manifest::FORMAT_VERSION;
use quell_model::{CellId, Manifest};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// The manifest's file name.
pub(crate) const FILE: &str = "manifest.json";

/// Far above any manifest: 10,000 cells of ten tasks come to some 20 MB.
const LARGEST: u64 = 64 << 20;

/// Most cells of a run; an experiment has 10,000 at most.
const MOST_CELLS: usize = 20_000;

/// What the manifest says of a file beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    /// Rows or lines.
    pub rows: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// CRC-32 (IEEE) of the whole file.
    pub crc32: u32,
}

impl FileRecord {
    pub fn new(rows: u64, sum: Sum) -> Self {
        Self { rows, bytes: sum.bytes, crc32: sum.crc32 }
    }

    pub fn sum(self) -> Sum {
        Sum { bytes: self.bytes, crc32: self.crc32 }
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
struct Format {
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

/// Reads the manifest of a run's folder.
pub(crate) fn read(folder: &Path) -> Result<(Manifest, Files), StoreError> {
    let path = path(folder);
    let Some(text) = files::read(&path, LARGEST)? else {
        return Err(StoreError::NoManifest { path: folder.to_path_buf() });
    };
    let damaged = |e: serde_json::Error| StoreError::damaged(&path, e);
    let Format { format } = serde_json::from_slice(&text).map_err(damaged)?;
    if format > u64::from(FORMAT_VERSION) {
        return Err(StoreError::Newer { path, found: format, known: FORMAT_VERSION });
    }
    let manifest: Manifest = serde_json::from_slice(&text).map_err(damaged)?;
    if manifest.cells.len() > MOST_CELLS {
        let what =
            format!("it has {} measurements, where {MOST_CELLS} are most", manifest.cells.len());
        return Err(StoreError::damaged(&path, what));
    }
    let can_be = plausible::seconds("wall_s", manifest.wall_s)
        .and_then(|()| plausible::seconds("virtual_s", manifest.virtual_s))
        .and_then(|()| manifest.cells.iter().try_for_each(plausible::record));
    can_be.map_err(|why| StoreError::damaged(&path, why))?;
    // Each would have the whole of the cell's journal.
    if let Some(id) = twice(&manifest) {
        return Err(StoreError::damaged(&path, format!("the measurement {id} is there twice")));
    }
    let Beside { files } = serde_json::from_slice(&text).map_err(damaged)?;
    if files.is_none() {
        // Else journals count, of which none is anybody's but the run's.
        if manifest.complete {
            return Err(StoreError::damaged(&path, "it lacks `files`, and says that it is whole"));
        }
        files::no_link(&folder.join(JOURNALS))?;
    }
    Ok((manifest, files))
}

/// A cell that is there more than once.
pub(crate) fn twice(manifest: &Manifest) -> Option<&CellId> {
    let mut seen = HashSet::new();
    manifest.cells.iter().map(|c| &c.id).find(|id| !seen.insert(*id))
}

fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}
