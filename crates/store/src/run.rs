//! Reading a run, finished or not.

use crate::cell_data::CellData;
use crate::error::StoreError;
use crate::layout::{self, JOURNALS, TABLES};
use crate::stored::{FileRecord, Files};
use crate::tables::Reader;
use crate::{files, journal, lines, stored};
use nix::fcntl::{Flock, FlockArg};
use quell_model::{CellId, CellRecord, CellStatus, Manifest};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub folder: PathBuf,
    /// How it came about. For a run that was not finished, brought up to what the journals say.
    pub manifest: Manifest,
    /// What was measured, one for each cell of the manifest, in its order.
    pub cells: Vec<CellData>,
}

impl Run {
    /// Reads a run by its folder, or by its name under `base`; see [`locate`].
    pub fn open(base: &Path, wanted: &str) -> Result<Self, StoreError> {
        Self::read(&locate(base, wanted)?)
    }

    /// Reads the run in this folder.
    ///
    /// # Errors
    /// When there is no manifest or it is newer than this program, and when a file does not hold what the manifest says. A run that was
    /// killed is no error: it is read up to the last whole event of each cell.
    pub fn read(folder: &Path) -> Result<Self, StoreError> {
        let (mut manifest, files) = stored::read(folder)?;
        let cells = match &files {
            Some(files) => from_tables(folder, &manifest, files)?,
            None => from_journals(folder, &mut manifest)?,
        };
        Ok(Self { folder: folder.to_path_buf(), manifest, cells })
    }

    pub fn iter(&self) -> impl Iterator<Item = (&CellRecord, &CellData)> {
        self.manifest.cells.iter().zip(&self.cells)
    }
}

/// How the run in this folder came about, as far as it was written: without what was measured.
pub fn manifest(folder: &Path) -> Result<Manifest, StoreError> {
    Ok(stored::read(folder)?.0)
}

/// Only how far a run came: its manifest, brought up to what the journals say.
pub(crate) fn progress(folder: &Path) -> Result<(Manifest, Files), StoreError> {
    let (mut manifest, files) = stored::read(folder)?;
    if files.is_none() {
        from_journals(folder, &mut manifest)?;
    }
    Ok((manifest, files))
}

fn from_tables(
    folder: &Path,
    manifest: &Manifest,
    files: &BTreeMap<String, FileRecord>,
) -> Result<Vec<CellData>, StoreError> {
    let mut reader = Reader::new(manifest.cells.iter().map(|c| &c.id));
    for name in TABLES {
        let path = folder.join(name);
        let Some(record) = files.get(name) else {
            return Err(StoreError::damaged(folder.join(stored::FILE), format!("it lacks {name}")));
        };
        let file = files::read_checked(&path, record.sum())?;
        match name {
            lines::OUTPUTS => lines::read(&path, &file, record.rows, |cell, line| {
                reader.cell(&path, &cell)?.outputs.push(line);
                Ok(())
            })?,
            lines::FACTS => lines::read(&path, &file, record.rows, |cell, line| {
                reader.cell(&path, &cell)?.facts.push(line);
                Ok(())
            })?,
            _ => reader.table(&path, name, file, record.rows)?,
        }
    }
    Ok(reader.finish())
}

fn from_journals(folder: &Path, manifest: &mut Manifest) -> Result<Vec<CellData>, StoreError> {
    let journal =
        |record: &CellRecord| journal::read(&journal_path(folder, &record.id), &record.id);
    let journals = manifest.cells.iter().map(journal).collect::<Result<Vec<_>, _>>()?;
    journal::so_far(manifest, journals.iter().map(|j| j.as_ref().map(|j| (&j.course, &j.data))));
    Ok(journals.into_iter().map(|j| j.unwrap_or_default().data).collect())
}

pub(crate) fn journal_path(folder: &Path, cell: &CellId) -> PathBuf {
    folder.join(JOURNALS).join(layout::journal_name(cell))
}

/// The folder of a run: a path to one, a name under `base`, `last` for the newest, the name that somebody gave it (of several with the same, see
/// [`namesakes`], the newest), or a part of a name that fits only one.
pub fn locate(base: &Path, wanted: &str) -> Result<PathBuf, StoreError> {
    let path = Path::new(wanted);
    if !wanted.is_empty() {
        for folder in [path.to_path_buf(), base.join(path)] {
            // Whatever it is: reading it tells what is wrong with it.
            if fs::symlink_metadata(folder.join(stored::FILE)).is_ok() {
                return Ok(folder);
            }
        }
        // A folder that was given in full and has no manifest: say so, rather than that there is none.
        if wanted.contains('/') && path.is_dir() {
            return Err(StoreError::NoManifest { path: path.to_path_buf() });
        }
    }
    let names = layout::run_names(base)?;
    let fits: Vec<&String> = match wanted {
        "last" => names.last().into_iter().collect(),
        "" => Vec::new(),
        part => names.iter().filter(|n| n.contains(part)).collect(),
    };
    if let [only] = fits[..] {
        return Ok(base.join(only));
    }
    if let Some(latest) = called(&names, wanted).last() {
        return Ok(base.join(latest));
    }
    let (wanted, base) = (wanted.to_owned(), base.to_path_buf());
    if fits.is_empty() {
        let near = names.iter().rev().take(3).cloned().collect();
        return Err(StoreError::NoRun { wanted, base, near });
    }
    let fit = fits.into_iter().rev().cloned().collect();
    Err(StoreError::Ambiguous { wanted, base, fit })
}

/// The runs under `base` that somebody gave this very name, oldest first.
pub fn namesakes(base: &Path, wanted: &str) -> Vec<String> {
    let names = layout::run_names(base).unwrap_or_default();
    called(&names, wanted).into_iter().cloned().collect()
}

fn called<'a>(names: &'a [String], wanted: &str) -> Vec<&'a String> {
    let is = |name: &&String| name.split_once('-').is_some_and(|(_, given)| given == wanted);
    names.iter().filter(is).collect()
}

pub(crate) fn complete_cells(manifest: &Manifest) -> usize {
    manifest.cells.iter().filter(|c| c.status == CellStatus::Complete).count()
}

#[derive(Debug)]
pub struct RunSummary {
    pub name: String,
    pub folder: PathBuf,
    pub state: RunState,
    pub manifest: Option<Manifest>,
}

#[derive(Debug)]
pub enum RunState {
    Complete,
    Partial {
        complete: usize,
        cells: usize,
    },
    /// It was stopped from outside, as by Ctrl-C, and holds what was measured until then.
    Stopped {
        complete: usize,
        cells: usize,
    },
    Running {
        complete: usize,
        cells: usize,
    },
    Unreadable(StoreError),
}

/// The runs under a folder, oldest first. A folder that does not exist has none.
pub fn list(base: &Path) -> Result<Vec<RunSummary>, StoreError> {
    Ok(layout::run_names(base)?.into_iter().map(|name| summary(base, name)).collect())
}

fn summary(base: &Path, name: String) -> RunSummary {
    let folder = base.join(&name);
    let (state, manifest) = match progress(&folder) {
        Err(error) => (RunState::Unreadable(error), None),
        Ok((manifest, files)) => {
            let (complete, cells) = (complete_cells(&manifest), manifest.cells.len());
            let state = match files {
                None if is_locked(&folder) => RunState::Running { complete, cells },
                Some(_) if manifest.complete => RunState::Complete,
                _ if manifest.was_stopped() => RunState::Stopped { complete, cells },
                _ => RunState::Partial { complete, cells },
            };
            (state, Some(manifest))
        }
    };
    RunSummary { name, folder, state, manifest }
}

pub(crate) fn is_locked(folder: &Path) -> bool {
    let Ok(handle) = File::open(folder.join(JOURNALS)) else { return false };
    matches!(
        Flock::lock(handle, FlockArg::LockSharedNonblock),
        Err((_, nix::errno::Errno::EWOULDBLOCK))
    )
}
