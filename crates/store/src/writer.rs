//! Writing a run: create, let cells fill their journals, finish.
//!
//! The packets of a long journal go to their table without being held in memory: of a window of them, sorted by time, the older half is written, again and
//! again. Rows of several streams follow each other by time there, and not by stream as in other runs; what is read from the table is the same.

use crate::cell_data::{CellData, echo_order};
use crate::error::StoreError;
use crate::files::{self, Checksum};
use crate::journal::{self, Course, Journal, JournalWriter};
use crate::layout::{self, JOURNALS, TABLES};
use crate::lines::{self, LineWriter};
use crate::run;
use crate::stored::{self, FileRecord, Files};
use crate::tables::Writers;
use nix::fcntl::{Flock, FlockArg};
use quell_model::manifest::FORMAT_VERSION;
use quell_model::{CellId, EchoSample, Event, Manifest};
use quell_sys::trusted::TrustedFolder;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct RunWriter {
    folder: PathBuf,
    name: String,
    /// Whether packets go to their table without being held in memory.
    long: bool,
    /// Held as long as the run is being written, so that others can tell a running run from a killed one.
    _lock: Option<Flock<File>>,
}

impl RunWriter {
    /// Makes the folder of a run under `base`: `<UTC time>-<experiment>`, with `-2`, `-3` … where that name is taken. The time comes from
    /// the manifest's `started`; its `run` and `format` are set here.
    ///
    /// # Errors
    /// When the manifest names a cell twice or `started` is not RFC 3339 in UTC, and when the system refuses; then nothing is left behind.
    pub fn create(base: &Path, mut manifest: Manifest) -> Result<Self, StoreError> {
        check_cells(&manifest)?;
        let stamp =
            quell_units::time::stamp(&manifest.started).ok_or_else(|| StoreError::Unstorable {
                what: format!("{:?} is not a time like 2026-11-21T10:15:03Z", manifest.started),
            })?;
        let made = TrustedFolder::for_new_names(base, 0o755).map_err(io::Error::from);
        made.map_err(StoreError::io("use", base))?;
        let mut stem = format!("{stamp}-{}", layout::file_name_part(&manifest.experiment));
        if let Some(part) = &manifest.part {
            stem += &layout::part_name(part);
        }
        let (name, folder) = take_name(base, &stem)?;
        manifest.run.clone_from(&name);
        manifest.format = FORMAT_VERSION;
        match fill(base, &folder, &manifest) {
            Ok(lock) => Ok(Self { folder, name, long: false, _lock: lock }),
            Err(error) => {
                // Only what was made just now: the folder was created by this call.
                let _ = fs::remove_dir_all(&folder);
                Err(error)
            }
        }
    }

    /// For runs of any length: [`RunWriter::finish`] then takes little memory, and orders the packets of several streams by time.
    #[must_use]
    pub fn long(self) -> Self {
        Self { long: true, ..self }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn journal_folder(&self) -> PathBuf {
        self.folder.join(JOURNALS)
    }

    /// Where the journal of a cell belongs. Whoever carries out the cell appends frames there ([`quell_model::frame`]), beginning with
    /// [`quell_model::Event::Begin`].
    pub fn journal_path(&self, cell: &CellId) -> PathBuf {
        run::journal_path(&self.folder, cell)
    }

    pub fn journal(&self, cell: &CellId) -> Result<JournalWriter, StoreError> {
        JournalWriter::open(&self.journal_path(cell))
    }

    /// Replaces the manifest while the run goes on, as after each cell. The old one stays when this fails.
    pub fn update(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let mut manifest = manifest.clone();
        manifest.run.clone_from(&self.name);
        manifest.format = FORMAT_VERSION;
        stored::write(&self.folder, &manifest, &None)
    }

    /// Turns the journals into tables and writes the manifest: the last step of a run, also of one that was interrupted. What the
    /// journals say is taken into the manifest (ends of cells and tasks, settings, queues), `complete` is set from it, and the manifest
    /// as it was written is returned. Journals that are damaged stay beside the tables.
    ///
    /// # Errors
    /// [`StoreError::Unfinished`] when a file can't be written. The run can then still be read from its journals.
    pub fn finish(self, mut manifest: Manifest) -> Result<Manifest, StoreError> {
        manifest.run.clone_from(&self.name);
        manifest.format = FORMAT_VERSION;
        self.tables(&mut manifest).map_err(|error| {
            // Whatever came into place belongs to no manifest, and takes room on a disk that is perhaps full.
            for name in TABLES {
                let _ = fs::remove_file(self.folder.join(name));
            }
            StoreError::Unfinished { run: self.folder.clone(), source: Box::new(error) }
        })?;
        Ok(manifest)
    }

    fn tables(&self, manifest: &mut Manifest) -> Result<(), StoreError> {
        check_cells(manifest)?;
        let mut tables = RunTables::create(&self.folder)?;
        let mut whole = Vec::new();
        for index in 0..manifest.cells.len() {
            let id = manifest.cells[index].id.clone();
            let path = self.journal_path(&id);
            let journal = match self.long {
                true => long_echoes(&path, &id, &mut tables.rows)?,
                false => journal::read(&path, &id)?,
            };
            journal::into_record(&mut manifest.cells[index], journal.as_ref().map(|j| &j.course));
            let Some(journal) = journal else { continue };
            journal::facts(manifest, &id, &journal.data);
            if manifest.kernel.version.is_empty() {
                manifest.kernel.version = journal.course.kernel.unwrap_or_default();
            }
            tables.append(&id, &journal.data)?;
            if journal.course.damage.is_none() {
                whole.push(path);
            }
        }
        journal::totals(manifest);
        stored::write(&self.folder, manifest, &tables.commit()?)?;
        // The run is finished. Journals that can't be removed now only take room.
        for path in whole {
            let _ = fs::remove_file(path);
        }
        let _ = fs::remove_dir(self.journal_folder());
        Ok(())
    }
}

/// All files of a finished run but its manifest, on their way to the disk. Cells are appended in the manifest's order.
pub(crate) struct RunTables {
    rows: Writers,
    outputs: LineWriter,
    facts: LineWriter,
}

impl RunTables {
    pub fn create(folder: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            rows: Writers::create(folder)?,
            outputs: LineWriter::create(&folder.join(lines::OUTPUTS))?,
            facts: LineWriter::create(&folder.join(lines::FACTS))?,
        })
    }

    pub fn append(&mut self, cell: &CellId, data: &CellData) -> Result<(), StoreError> {
        self.rows.append(cell, data)?;
        self.outputs.outputs(cell, data)?;
        self.facts.facts(cell, data)
    }

    pub fn commit(self) -> Result<Files, StoreError> {
        let mut records = BTreeMap::new();
        let mut record = |name: &str, (rows, sum): (u64, Checksum)| {
            records.insert(name.to_owned(), FileRecord::new(rows, sum));
        };
        for (name, table) in self.rows.into_files() {
            record(name, table.commit()?);
        }
        record(lines::OUTPUTS, self.outputs.commit()?);
        record(lines::FACTS, self.facts.commit()?);
        Ok(Some(records))
    }
}

/// Makes a folder with a name that nobody has; making it is what takes the name, so that two programs can't get the same.
fn take_name(base: &Path, stem: &str) -> Result<(String, PathBuf), StoreError> {
    for attempt in 1_u32.. {
        let name = if attempt == 1 { stem.to_owned() } else { format!("{stem}-{attempt}") };
        let folder = base.join(&name);
        match fs::create_dir(&folder) {
            Ok(()) => return Ok((name, folder)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(StoreError::io("create", folder)(error)),
        }
    }
    Err(StoreError::Unstorable { what: format!("every name like {stem} is taken") })
}

fn fill(
    base: &Path,
    folder: &Path,
    manifest: &Manifest,
) -> Result<Option<Flock<File>>, StoreError> {
    let journals = folder.join(JOURNALS);
    fs::create_dir(&journals).map_err(StoreError::io("create", &journals))?;
    let handle = File::open(&journals).map_err(StoreError::io("open", &journals))?;
    // A file system without locks costs only the word "running" in the list of runs.
    let lock = Flock::lock(handle, FlockArg::LockExclusiveNonblock).ok();
    stored::write(folder, manifest, &None)?;
    files::sync_folder(base)?;
    Ok(lock)
}

fn check_cells(manifest: &Manifest) -> Result<(), StoreError> {
    match stored::twice(manifest) {
        Some(id) => {
            Err(StoreError::Unstorable { what: format!("the measurement {id} is there twice") })
        }
        None => Ok(()),
    }
}

/// Packets that are held at once, some ten megabytes.
const WINDOW: usize = 1 << 16;

/// Reads a cell's journal: its packets go to the table at once, the rest is in what is returned. None when there is no journal.
fn long_echoes(
    path: &Path,
    cell: &CellId,
    tables: &mut Writers,
) -> Result<Option<Journal>, StoreError> {
    let mut window = Window::default();
    let mut rest = CellData::default();
    let course: Option<Course> = journal::walk(path, cell, |event| match event {
        Event::Echo { stream, samples } => {
            let index = window.index(stream);
            window.samples.extend(samples.into_iter().map(|s| (index, s)));
            if window.samples.len() >= WINDOW {
                window.write(WINDOW / 2, cell, tables)
            } else {
                Ok(())
            }
        }
        other => {
            rest.take(other);
            Ok(())
        }
    })?;
    let Some(course) = course else { return Ok(None) };
    window.write(usize::MAX, cell, tables)?;
    Ok(Some(Journal { data: rest.settled(), course }))
}

#[derive(Default)]
struct Window {
    names: Vec<String>,
    samples: Vec<(usize, EchoSample)>,
}

impl Window {
    fn index(&mut self, stream: String) -> usize {
        self.names.iter().position(|n| *n == stream).unwrap_or_else(|| {
            self.names.push(stream);
            self.names.len() - 1
        })
    }

    fn write(
        &mut self,
        most: usize,
        cell: &CellId,
        tables: &mut Writers,
    ) -> Result<(), StoreError> {
        let names = &self.names;
        self.samples.sort_by(|(a, x), (b, y)| {
            echo_order(x).cmp(&echo_order(y)).then_with(|| names[*a].cmp(&names[*b]))
        });
        let count = self.samples.len().min(most);
        let rows = self.samples[..count].iter().map(|(n, s)| (names[*n].as_str(), s));
        tables.append_echoes(cell, rows)?;
        self.samples.drain(..count);
        Ok(())
    }
}
