//! What a mesh measured, in a folder that any program reads as Parquet.
//!
//! ```text
//!   FOLDER/
//!     rows/date=2026-11-28/agent=fra/14.parquet     packets that were sent from 14:00 to 15:00 UTC
//!     minutes/date=2026-11-28/agent=fra/14.parquet  the same as sketches, one a peer, class and minute
//!     hours/date=2026-11-28/agent=fra/day.parquet   and hour
//!     paths/ bulk/ slots/ dropped/                  likewise, a file a day
//!     journal/000000007.frames                      what is in no table yet
//!
//!   records ──append──► journal ──sync──► acknowledged ──seal──► tables
//! ```
//!
//! A batch is in one file, the journal, before it is acknowledged: so it is there with all its tables or with none. Each file of a table is replaced
//! as a whole (rename(2)) and says through which part of the journal it goes: a part that a killed program had half in tables is
//! put in again, and no file takes it twice. There is one sketch of a time, peer and class, and no file is small for long.

mod copy;
mod journal;
mod read;
mod tables;

use crate::name::{NameError, check_name};
use crate::record::{PathHop, Record, RecordKind};
use journal::{BatchOut, NextNumbers};
use nix::fcntl::{Flock, FlockArg};
use quell_model::frame;
use quell_model::rows::EchoSample;
use quell_store::files::sync_folder;
use quell_store::{StoreError, WholeFrames};
use quell_units::time::rfc3339;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

pub use copy::{Copier, CopyError, FolderCopy};
pub use read::{MeshReader, Pair, PairRow, Select};
pub use tables::{
    BulkResult, DroppedRecords, FolderTable, HOUR_NS, Hours, MINUTE_NS, MeshRow, Minutes, SlotCount,
};

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("another collector writes to {}; end it, or choose another folder with --out", .0.display())]
    Taken(PathBuf),
    #[error("a batch of {agent} is refused: {what}")]
    Batch { agent: String, what: String },
}

/// A mesh's folder for the one who writes it.
pub struct MeshFolder {
    folder: PathBuf,
    _lock: Flock<File>,
    part: u64,
    frames: WholeFrames,
    next: NextNumbers,
    bytes: u64,
    damage: Vec<String>,
}

impl MeshFolder {
    /// Opens the folder, or makes it, and brings what the last collector left in the journal into the tables.
    pub fn open(folder: &Path) -> Result<Self, FolderError> {
        let journals = folder.join("journal");
        std::fs::create_dir_all(&journals).map_err(StoreError::io("create", &journals))?;
        let lock = journals.join("lock");
        let handle = OpenOptions::new().create(true).append(true).open(&lock);
        let handle = handle.map_err(StoreError::io("open", &lock))?;
        let lock = Flock::lock(handle, FlockArg::LockExclusiveNonblock)
            .map_err(|_| FolderError::Taken(folder.to_owned()))?;
        sync_folder(folder)?;
        let last = journal::parts(folder)?.pop().unwrap_or(0);
        let next = match last {
            0 => NextNumbers::new(),
            _ => journal::walk(&journal::path(folder, last), |_, _| Ok(()))?.next,
        };
        let (folder, part, damage) = (folder.to_owned(), last + 1, Vec::new());
        let frames = journal::begin(&folder, part, &next)?;
        let mut opened = Self { folder, _lock: lock, part, frames, next, bytes: 0, damage };
        opened.settle()?;
        Ok(opened)
    }

    /// What could not be read of the journal, a sentence each; it stays beside it, as `.damaged`.
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// The number of the agent's record that comes next. Those below are here; on the disk, if [`MeshFolder::sync`] came after them.
    pub fn next(&self, agent: &str) -> u64 {
        self.next.get(agent).copied().unwrap_or(0)
    }

    /// What the agent did not send before this number is gone for good, as it says: its next records begin there.
    pub fn skip_to(&mut self, agent: &str, number: u64) {
        let next = self.next(agent).max(number);
        if next > 0 {
            self.next.insert(agent.to_owned(), next);
        }
    }

    /// Takes an agent's records, which follow each other: those that are here already are left out, and those behind a gap, unless a record says
    /// that what is missing was dropped. What comes next.
    ///
    /// # Errors
    /// A name that is none, or what the disk answered; then none of them is taken.
    pub fn append(
        &mut self,
        agent: &str,
        received_ns: i64,
        records: &[Record],
    ) -> Result<u64, FolderError> {
        check_name(agent)?;
        let mut next = self.next(agent);
        let known = records.iter().take_while(|r| r.number < next).count();
        let mut taken = 0;
        for record in &records[known..] {
            let from = match record.kind {
                RecordKind::Dropped { records } => record.number.saturating_sub(records),
                _ => record.number,
            };
            if from > next || record.number < next || record.number == u64::MAX {
                break;
            }
            check_name(&record.peer)?;
            check_name(&record.class)?;
            next = record.number + 1;
            taken += 1;
        }
        if taken == 0 {
            return Ok(next);
        }
        let records = &records[known..known + taken];
        let frame = frame::encode(&BatchOut { agent, received_ns, records })
            .map_err(|e| FolderError::Batch { agent: agent.to_owned(), what: e.to_string() })?;
        let path = journal::path(&self.folder, self.part);
        self.frames.append(&frame).map_err(StoreError::io("write", path))?;
        self.bytes += frame.len() as u64;
        journal::came(&mut self.next, agent, next, received_ns);
        Ok(next)
    }

    /// Puts all that was appended on the disk: now it may be acknowledged.
    pub fn sync(&mut self) -> Result<(), FolderError> {
        let path = journal::path(&self.folder, self.part);
        Ok(self.frames.file().sync_data().map_err(StoreError::io("sync", path))?)
    }

    /// Brings what was appended into the tables, and gives the files that changed. The more seldom, the less is written; each five to
    /// ten minutes is fine. After an error all is still in the journal, and is tried again.
    pub fn seal(&mut self) -> Result<Vec<PathBuf>, FolderError> {
        self.sync()?;
        if self.bytes > 0 {
            self.frames = journal::begin(&self.folder, self.part + 1, &self.next)?;
            (self.part, self.bytes) = (self.part + 1, 0);
        }
        self.settle()
    }

    fn settle(&mut self) -> Result<Vec<PathBuf>, FolderError> {
        let mut changed = Vec::new();
        for part in journal::parts(&self.folder)?.into_iter().filter(|p| *p < self.part) {
            let path = journal::path(&self.folder, part);
            let mut places: BTreeMap<String, Vec<_>> = BTreeMap::new();
            let end = journal::walk(&path, |place, batch| {
                places.entry(batch.agent).or_default().push(place);
                Ok(())
            })?;
            for (agent, places) in places {
                let batches: Result<Vec<_>, _> =
                    places.into_iter().map(|place| journal::batch_at(&path, place)).collect();
                let mut into =
                    Absorb { folder: &self.folder, agent: &agent, part, changed: &mut changed };
                into.all(&batches?)?;
            }
            let gone = match end.damage {
                None => std::fs::remove_file(&path),
                Some(why) => {
                    self.damage.push(why);
                    std::fs::rename(&path, path.with_extension("damaged"))
                }
            };
            gone.map_err(StoreError::io("remove", &path))?;
        }
        changed.sort();
        changed.dedup();
        Ok(changed)
    }
}

/// Brings an agent's batches of a part of the journal into the tables.
struct Absorb<'a> {
    folder: &'a Path,
    agent: &'a str,
    part: u64,
    changed: &'a mut Vec<PathBuf>,
}

impl Absorb<'_> {
    fn all(&mut self, batches: &[journal::Batch]) -> Result<(), FolderError> {
        self.table::<EchoSample>(batches)?;
        self.table::<Minutes>(batches)?;
        self.table::<Hours>(batches)?;
        self.table::<Vec<PathHop>>(batches)?;
        self.table::<BulkResult>(batches)?;
        self.table::<SlotCount>(batches)?;
        self.table::<DroppedRecords>(batches)
    }

    fn table<T: FolderTable>(&mut self, batches: &[journal::Batch]) -> Result<(), FolderError> {
        let mut files: BTreeMap<PathBuf, Vec<MeshRow<T>>> = BTreeMap::new();
        for batch in batches {
            for row in tables::rows_of::<T>(&batch.records, batch.received_ns) {
                files.entry(file_of::<T>(self.agent, row.wall_ns)).or_default().push(row);
            }
        }
        for (file, mut rows) in files {
            let path = self.folder.join(file);
            let before = tables::read::<T>(&path)?;
            if before.as_ref().is_some_and(|file| file.through >= self.part) {
                continue;
            }
            make_folder(&path)?;
            rows.extend(before.into_iter().flat_map(|file| file.rows));
            tables::write(&path, &tables::settle(rows), self.part)?;
            self.changed.push(path);
        }
        Ok(())
    }
}

/// Where rows of this time are, below the folder.
fn file_of<T: FolderTable>(agent: &str, wall_ns: i64) -> PathBuf {
    let (day, file) = day_and_file::<T>(wall_ns);
    [T::NAME, &format!("date={day}"), &format!("agent={agent}"), &file].iter().collect()
}

fn day_and_file<T: FolderTable>(wall_ns: i64) -> (String, String) {
    let hour = wall_ns.rem_euclid(24 * HOUR_NS) / HOUR_NS;
    let file = if T::HOURLY { format!("{hour:02}.parquet") } else { "day.parquet".to_owned() };
    (date(wall_ns), file)
}

/// The day in UTC. A clock that is before 1970 is there.
fn date(wall_ns: i64) -> String {
    let mut text = rfc3339(UNIX_EPOCH + Duration::from_nanos(wall_ns.max(0) as u64));
    text.truncate("2026-11-28".len());
    text
}

/// The folder of a file, its name on the disk like those of all that lead to it.
fn make_folder(file: &Path) -> Result<(), FolderError> {
    let Some(folder) = file.parent().filter(|folder| !folder.is_dir()) else { return Ok(()) };
    make_folder(folder)?;
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(StoreError::io("create", folder)(error).into())
        }
        _ => Ok(folder.parent().map_or(Ok(()), sync_folder)?),
    }
}
