//! What came from agents and is in no table yet, as frames ([`quell_model::frame`]) in numbered parts.
//!
//! ```text
//!   journal/000000007.frames   ┌───────────────────────────┬───────┬───────┬──
//!                              │ of each agent, the number │ batch │ batch │ …   each of one agent
//!                              │ behind all earlier parts  │       │       │
//!                              └───────────────────────────┴───────┴───────┴──
//! ```
//!
//! So how far each agent's records are stored is in the newest part alone, and a part whose batches are in tables can go.

use super::FolderError;
use crate::record::Record;
use quell_model::frame;
use quell_store::files::{self, AtomicFile};
use quell_store::{StoreError, WholeFrames};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Of each agent, the number of the record that comes next; of [`STORED`], when something came last.
pub type NextNumbers = BTreeMap<String, u64>;

/// The collector's wall time in nanoseconds stands here. No agent's name is this.
pub const STORED: &str = "=stored";

/// Records of one agent that follow each other.
#[derive(Debug, Deserialize)]
pub struct Batch {
    pub agent: String,
    /// By the collector's clock.
    pub received_ns: i64,
    pub records: Vec<Record>,
}

/// The same on its way to the file.
#[derive(Serialize)]
pub struct BatchOut<'a> {
    pub agent: &'a str,
    pub received_ns: i64,
    pub records: &'a [Record],
}

pub fn path(folder: &Path, part: u64) -> PathBuf {
    folder.join("journal").join(format!("{part:09}.frames"))
}

/// The parts that there are, oldest first.
pub fn parts(folder: &Path) -> Result<Vec<u64>, FolderError> {
    let folder = folder.join("journal");
    let entries = std::fs::read_dir(&folder).map_err(StoreError::io("read", &folder))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut parts: Vec<u64> =
        names.filter_map(|name| name.strip_suffix(".frames")?.parse().ok()).collect();
    parts.sort_unstable();
    Ok(parts)
}

/// Begins a part: it is there with what was stored before it, or not at all.
pub fn begin(folder: &Path, part: u64, next: &NextNumbers) -> Result<WholeFrames, FolderError> {
    let path = path(folder, part);
    let head = frame::encode(next).map_err(|e| StoreError::damaged(&path, e))?;
    let mut file = AtomicFile::create(&path)?;
    file.write_all(&head).map_err(StoreError::io("write", &path))?;
    let length = file.commit()?.bytes;
    let file = OpenOptions::new().append(true).open(&path);
    Ok(WholeFrames::new(file.map_err(StoreError::io("open", &path))?, length))
}

/// Notes what came of an agent up to a number, and when.
pub fn came(next: &mut NextNumbers, agent: &str, number: u64, received_ns: i64) {
    next.insert(agent.to_owned(), number);
    next.insert(STORED.to_owned(), received_ns.max(0) as u64);
}

/// How far a part can be read.
#[derive(Debug, Default)]
pub struct PartEnd {
    /// What was stored before it and what is in it.
    pub next: NextNumbers,
    /// Why what follows can't be read. A batch that is not whole is none: nobody was told that it is stored.
    pub damage: Option<String>,
}

/// Hands on the batches of a part with their place in the file.
pub fn walk(
    path: &Path,
    mut each: impl FnMut(Range<u64>, Batch) -> Result<(), FolderError>,
) -> Result<PartEnd, FolderError> {
    let mut file = files::open(path).map_err(StoreError::io("open", path))?;
    let mut decoder = frame::Decoder::new();
    let mut chunk = vec![0; 1 << 16];
    let (mut end, mut has_head) = (PartEnd::default(), false);
    let (mut read, mut at) = (0_u64, 0_u64);
    loop {
        let count = file.read(&mut chunk).map_err(StoreError::io("read", path))?;
        decoder.push(&chunk[..count]);
        read += count as u64;
        let next = loop {
            if !has_head {
                match decoder.next_value() {
                    Ok(Some(next)) => (end.next, has_head) = (next, true),
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
                at = read - decoder.pending() as u64;
                continue;
            }
            let batch: Batch = match decoder.next_value() {
                Ok(Some(batch)) => batch,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let until = read - decoder.pending() as u64;
            if let Some(last) = batch.records.last() {
                came(&mut end.next, &batch.agent, last.number + 1, batch.received_ns);
            }
            each(at..until, batch)?;
            at = until;
        };
        if let Err(error) = next {
            end.damage = Some(format!("{}, from byte {at}: {error}", path.display()));
        }
        if count == 0 || end.damage.is_some() {
            return Ok(end);
        }
    }
}

/// The batch that stands there.
pub fn batch_at(path: &Path, place: Range<u64>) -> Result<Batch, FolderError> {
    let mut bytes = vec![0; (place.end - place.start) as usize];
    let mut file = files::open(path).map_err(StoreError::io("open", path))?;
    file.seek(SeekFrom::Start(place.start))
        .and_then(|_| file.read_exact(&mut bytes))
        .map_err(StoreError::io("read", path))?;
    let mut decoder = frame::Decoder::new();
    decoder.push(&bytes);
    let batch = decoder.next_value().map_err(|e| StoreError::damaged(path, e))?;
    batch.ok_or_else(|| StoreError::damaged(path, "a batch of it was cut off").into())
}
