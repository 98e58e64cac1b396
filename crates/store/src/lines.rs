//! `outputs.jsonl` and `facts.jsonl`: one JSON object a line, with the cell in front.

use crate::data::{CellData, OutputLine};
use crate::error::StoreError;
use crate::files::{AtomicFile, Sum};
use quell_model::{CellId, Fact};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

/// File name of what commands printed.
pub(crate) const OUTPUTS: &str = "outputs.jsonl";
/// File name of how the network was set up.
pub(crate) const FACTS: &str = "facts.jsonl";

#[derive(Serialize, Deserialize)]
struct Line<I, T> {
    #[serde(flatten)]
    cell: I,
    #[serde(flatten)]
    content: T,
}

/// A file of lines on its way to the disk.
pub(crate) struct LineWriter {
    file: AtomicFile,
    lines: u64,
}

impl LineWriter {
    /// Begins a file that will stand at `place`.
    pub fn create(place: &Path) -> Result<Self, StoreError> {
        Ok(Self { file: AtomicFile::create(place)?, lines: 0 })
    }

    fn append<T: Serialize>(&mut self, cell: &CellId, content: &T) -> Result<(), StoreError> {
        let mut text = serde_json::to_vec(&Line { cell, content })
            .map_err(|e| StoreError::Unstorable { what: format!("a line is not JSON: {e}") })?;
        text.push(b'\n');
        let place = self.file.place().to_path_buf();
        self.file.write_all(&text).map_err(StoreError::io("write", place))?;
        self.lines += 1;
        Ok(())
    }

    /// Adds what the commands of a cell printed.
    pub fn outputs(&mut self, cell: &CellId, data: &CellData) -> Result<(), StoreError> {
        data.outputs.iter().try_for_each(|line| self.append(cell, line))
    }

    /// Adds a cell's facts.
    pub fn facts(&mut self, cell: &CellId, data: &CellData) -> Result<(), StoreError> {
        data.facts.iter().try_for_each(|line| self.append(cell, line))
    }

    /// Puts the file in its place; its number of lines, size and checksum.
    pub fn commit(self) -> Result<(u64, Sum), StoreError> {
        Ok((self.lines, self.file.commit()?))
    }
}

/// Reads what commands printed.
pub(crate) fn read_outputs(
    path: &Path,
    text: &[u8],
    each: impl FnMut(CellId, OutputLine) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    read(path, text, each)
}

/// Reads facts.
pub(crate) fn read_facts(
    path: &Path,
    text: &[u8],
    each: impl FnMut(CellId, Fact) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    read(path, text, each)
}

fn read<T: DeserializeOwned>(
    path: &Path,
    text: &[u8],
    mut each: impl FnMut(CellId, T) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let lines = text.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    for (index, line) in lines.enumerate() {
        let line: Line<CellId, T> = serde_json::from_slice(line)
            .map_err(|e| StoreError::damaged(path, format!("line {}: {e}", index + 1)))?;
        each(line.cell, line.content)?;
    }
    Ok(())
}
