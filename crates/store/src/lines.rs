//! `outputs.jsonl` and `facts.jsonl`: one JSON object a line, with the cell in front.

use crate::data::{CellData, OutputLine};
use crate::error::StoreError;
use crate::files::{AtomicFile, Sum};
use crate::plausible;
use quell_model::{CellId, Fact};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

/// File name of what commands printed.
pub(crate) const OUTPUTS: &str = "outputs.jsonl";
/// File name of how the network was set up.
pub(crate) const FACTS: &str = "facts.jsonl";

/// Longest line: what fits in a frame, with room for what JSON makes of quotes and controls.
const LONGEST: u64 = 6 * (16 << 20);

#[derive(Serialize, Deserialize)]
struct CellLine<I, T> {
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
        let mut text = serde_json::to_vec(&CellLine { cell, content })
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
    text: File,
    lines: u64,
    each: impl FnMut(CellId, OutputLine) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    read(path, text, lines, |_: &OutputLine| Ok(()), each)
}

/// Reads facts.
pub(crate) fn read_facts(
    path: &Path,
    text: File,
    lines: u64,
    each: impl FnMut(CellId, Fact) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    read(path, text, lines, plausible::fact, each)
}

/// Reads so many lines, each of which can be.
fn read<T: DeserializeOwned>(
    path: &Path,
    text: File,
    lines: u64,
    can_be: impl Fn(&T) -> Result<(), String>,
    mut each: impl FnMut(CellId, T) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut text = BufReader::new(text);
    let mut line = Vec::new();
    let mut found = 0;
    for number in 1_u64.. {
        line.clear();
        // A file of holes has no line end: it is not read to its end.
        let start = text.fill_buf().map_err(StoreError::io("read", path))?;
        if !matches!(start.first(), None | Some(b'{' | b'\n')) {
            return Err(StoreError::damaged(path, format!("line {number} is no JSON object")));
        }
        let read = (&mut text).take(LONGEST).read_until(b'\n', &mut line);
        if read.map_err(StoreError::io("read", path))? == 0 {
            break;
        }
        if line.len() as u64 == LONGEST {
            let what = format!("line {number} is longer than {LONGEST} bytes");
            return Err(StoreError::damaged(path, what));
        }
        if line == b"\n" {
            continue;
        }
        let line: CellLine<CellId, T> = serde_json::from_slice(&line)
            .map_err(|e| StoreError::damaged(path, format!("line {number}: {e}")))?;
        can_be(&line.content)
            .map_err(|why| StoreError::damaged(path, format!("line {number}: {why}")))?;
        each(line.cell, line.content)?;
        found += 1;
    }
    if found != lines {
        let what = format!("it has {found} lines where the manifest says {lines}");
        return Err(StoreError::damaged(path, what));
    }
    Ok(())
}
