//! `outputs.jsonl` and `facts.jsonl`: one JSON object a line, with the cell in front.

use crate::cell_data::CellData;
use crate::error::StoreError;
use crate::files::{AtomicFile, Checksum};
use quell_model::CellId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write;
use std::path::Path;

pub(crate) const OUTPUTS: &str = "outputs.jsonl";
pub(crate) const FACTS: &str = "facts.jsonl";

#[derive(Serialize)]
struct CellLine<I, T> {
    #[serde(flatten)]
    cell: I,
    #[serde(flatten)]
    content: T,
}

pub(crate) struct LineWriter {
    file: AtomicFile,
    lines: u64,
}

impl LineWriter {
    pub fn create(place: &Path) -> Result<Self, StoreError> {
        Ok(Self { file: AtomicFile::create(place)?, lines: 0 })
    }

    fn append<T: Serialize>(&mut self, cell: &CellId, content: &T) -> Result<(), StoreError> {
        let mut text = serde_json::to_vec(&CellLine { cell, content })
            .map_err(|e| StoreError::Unstorable { what: format!("a line is not JSON: {e}") })?;
        text.push(b'\n');
        let place = self.file.place().to_path_buf();
        self.file.write_all(&text).map_err(StoreError::io("write", place))?;
        self.lines += 1;
        Ok(())
    }

    pub fn outputs(&mut self, cell: &CellId, data: &CellData) -> Result<(), StoreError> {
        data.outputs.iter().try_for_each(|line| self.append(cell, line))
    }

    pub fn facts(&mut self, cell: &CellId, data: &CellData) -> Result<(), StoreError> {
        data.facts.iter().try_for_each(|line| self.append(cell, line))
    }

    /// Puts the file in its place; its number of lines, size and checksum.
    pub fn commit(self) -> Result<(u64, Checksum), StoreError> {
        Ok((self.lines, self.file.commit()?))
    }
}

pub(crate) fn read<T: DeserializeOwned>(
    path: &Path,
    text: &[u8],
    lines: u64,
    mut each: impl FnMut(CellId, T) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut found = 0;
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        // Read twice, and not into a map first: that takes several times as long.
        let damaged = |e| StoreError::damaged(path, format!("line {}: {e}", number + 1));
        let cell = serde_json::from_slice(line).map_err(damaged)?;
        each(cell, serde_json::from_slice(line).map_err(damaged)?)?;
        found += 1;
    }
    if found != lines {
        let what = format!("it has {found} lines where the manifest says {lines}");
        return Err(StoreError::damaged(path, what));
    }
    Ok(())
}
