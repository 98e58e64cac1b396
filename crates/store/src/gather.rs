//! The parts of a run, which many machines measured, as the run that one machine would have left.
//!
//! ```text
//!   folders ──of one run? each part once, whole? none missing?──► cells in the order of the whole ──► tables, manifest
//!                  no: which, and what to do
//! ```
//!
//! In virtual time the tables are those of one machine byte for byte, and so is the manifest but for what belongs to machines: name of the
//! run, when it started, `machine` and wall times.

use crate::error::StoreError;
use crate::run::{self, Run, complete_cells};
use crate::stored::{self, Files};
use crate::writer::RunTables;
use crate::{files, journal, layout};
use quell_model::manifest::RunPart;
use quell_model::{CellStatus, Manifest};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{} is no part of a run; `quell run EXPERIMENT --part 1/10` measures one", .0.display())]
    NoPart(PathBuf),
    #[error(
        "{} and {} are of different runs: {what} is {first:?} and {second:?}; gather those of one run",
        folders[0].display(), folders[1].display()
    )]
    Mixed { folders: [PathBuf; 2], what: &'static str, first: String, second: String },
    #[error(
        "part {part} in {} has no end: {complete} of {cells} measurements are complete; run it again with --part {part}",
        folder.display()
    )]
    Unfinished { part: String, folder: PathBuf, complete: usize, cells: usize },
    #[error("part {part} in {} is still being measured; wait for its end", folder.display())]
    Running { part: String, folder: PathBuf },
    #[error(
        "part {part} is there twice, in {} and {}, with {bytes}; leave one out",
        folders[0].display(), folders[1].display()
    )]
    Twice { part: String, folders: [PathBuf; 2], bytes: &'static str },
    #[error("{missing} of {of} parts are missing: {first}; run each again, as --part {example}")]
    Missing { missing: usize, of: u32, first: String, example: String },
    #[error("{} is there already; choose another folder with -o", .0.display())]
    Exists(PathBuf),
}

/// What a part came to. A better one takes the place of others with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PartEnd {
    Unfinished,
    /// All was carried out, and some measurements failed.
    Failed,
    Complete,
}

#[derive(Debug)]
pub struct PartFolder {
    pub folder: PathBuf,
    pub manifest: Manifest,
    part: RunPart,
    files: Files,
}

impl PartFolder {
    fn read(folder: &Path) -> Result<Self, GatherError> {
        let (manifest, files) = run::progress(folder)?;
        let part = manifest.part.clone().ok_or_else(|| GatherError::NoPart(folder.to_owned()))?;
        if part.places.len() != manifest.cells.len() {
            return Err(StoreError::damaged(folder, "its cells and their places differ").into());
        }
        Ok(Self { folder: folder.to_owned(), manifest, part, files })
    }

    fn end(&self) -> PartEnd {
        let ended = |status| matches!(status, CellStatus::Complete | CellStatus::Failed);
        match self.files.is_some() && self.manifest.cells.iter().all(|c| ended(c.status)) {
            false => PartEnd::Unfinished,
            true if self.manifest.complete => PartEnd::Complete,
            true => PartEnd::Failed,
        }
    }

    /// Whether another is of the same run; else what differs, and how it is in either.
    fn differs(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let (a, b) = (&self.manifest, &other.manifest);
        let text = a.experiment_text.lines().zip(b.experiment_text.lines()).find(|(a, b)| a != b);
        let kernel = |m: &Manifest| format!("{} {}", m.kernel.backend.name(), m.kernel.key);
        // Of a part that was killed it may be unknown.
        let versions = (&a.kernel.version, &b.kernel.version);
        let known = !versions.0.is_empty() && !versions.1.is_empty();
        let (version_a, version_b) =
            if known { versions } else { (&String::new(), &String::new()) };
        let (text_a, text_b) = text.unwrap_or_default();
        let told = [
            ("Quell's version", a.quell.clone(), b.quell.clone()),
            ("the experiment", a.experiment.clone(), b.experiment.clone()),
            ("the seed", a.seed.to_string(), b.seed.to_string()),
            ("a line of the experiment", text_a.to_owned(), text_b.to_owned()),
            ("the kernel", kernel(a), kernel(b)),
            ("the kernel", version_a.clone(), version_b.clone()),
            ("the number of parts", self.part.of.to_string(), other.part.of.to_string()),
            ("the hash of all plans", self.part.plans.clone(), other.part.plans.clone()),
        ];
        told.into_iter().find(|(_, first, second)| first != second)
    }
}

/// The same part as this manifest's, measured to its end under `base` before.
pub fn complete_part(base: &Path, manifest: &Manifest) -> Option<PartFolder> {
    let part = manifest.part.clone()?;
    let wanted =
        PartFolder { folder: base.to_owned(), manifest: manifest.clone(), part, files: None };
    let name = layout::part_name(&wanted.part);
    let names = layout::run_names(base).ok()?;
    let called = names.iter().filter(|n| n.contains(&name));
    let mut there = called.filter_map(|n| PartFolder::read(&base.join(n)).ok());
    there.find(|part| {
        part.end() == PartEnd::Complete
            && part.part == wanted.part
            && wanted.differs(part).is_none()
    })
}

/// A run that was gathered, and where its cells come from.
#[derive(Debug)]
pub struct Gathered {
    pub run: Run,
    pub parts: Vec<PartFolder>,
    /// For each cell of the run, which of the parts has measured it.
    pub measured_by: Vec<usize>,
    /// Folders that were not taken, since a better one of the same part is there.
    pub left_aside: Vec<PartFolder>,
}

/// Makes of all parts of a run the run, in a new folder.
///
/// # Errors
/// When they are not all parts of one run, each once and whole; then nothing is written.
pub fn gather(folders: &[PathBuf], out: &Path) -> Result<Gathered, GatherError> {
    let all = folders.iter().map(|f| PartFolder::read(f)).collect::<Result<Vec<_>, _>>()?;
    for part in all.iter().skip(1) {
        if let Some((what, first, second)) = all[0].differs(part) {
            let folders = [all[0].folder.clone(), part.folder.clone()];
            return Err(GatherError::Mixed { folders, what, first, second });
        }
    }
    let (parts, left_aside) = each_once(all)?;
    let order = whole_order(&parts)?;
    let read = parts.iter().map(|part| Ok(Run::read(&part.folder)?.cells.into_iter()));
    let mut read = read.collect::<Result<Vec<_>, StoreError>>()?;
    let measured_by: Vec<usize> = order.iter().map(|(part, _)| *part).collect();
    let cells = measured_by.iter().filter_map(|part| read[*part].next()).collect();
    let mut manifest = whole_manifest(&parts, &order);
    manifest.run = out.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut run = Run { folder: out.to_owned(), manifest, cells };
    match fs::create_dir(out) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(GatherError::Exists(out.to_owned()));
        }
        made => made.map_err(StoreError::io("create", out))?,
    }
    if let Err(error) = write(&mut run) {
        // Only what was made just now.
        let _ = fs::remove_dir_all(out);
        return Err(error.into());
    }
    Ok(Gathered { run, parts, measured_by, left_aside })
}

/// The best of each number, and the others.
fn each_once(mut all: Vec<PartFolder>) -> Result<(Vec<PartFolder>, Vec<PartFolder>), GatherError> {
    all.sort_by_key(|part| (part.part.number, std::cmp::Reverse(part.end())));
    let (mut parts, mut left_aside): (Vec<PartFolder>, Vec<PartFolder>) = (Vec::new(), Vec::new());
    for part in all {
        match parts.last().filter(|last| last.part.number == part.part.number) {
            None if part.end() == PartEnd::Unfinished => return Err(unfinished(&part)),
            None => parts.push(part),
            Some(last) if last.end() == part.end() => {
                let bytes = if last.files == part.files { "the same bytes" } else { "other bytes" };
                let folders = [last.folder.clone(), part.folder];
                return Err(GatherError::Twice { part: part.part.to_string(), folders, bytes });
            }
            Some(_) => left_aside.push(part),
        }
    }
    let there: BTreeSet<u32> = parts.iter().map(|part| part.part.number).collect();
    let of = parts.first().map_or(0, |part| part.part.of);
    // A manifest may claim any number of parts: no more are looked at than are said.
    let named: Vec<u32> = (1..=of).filter(|number| !there.contains(number)).take(20).collect();
    if let Some(example) = named.first() {
        let missing = of as usize - there.iter().filter(|n| (1..=of).contains(*n)).count();
        let first = named.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let more = if missing > named.len() { " …" } else { "" };
        return Err(GatherError::Missing {
            missing,
            of,
            first: first + more,
            example: format!("{example}/{of}"),
        });
    }
    Ok((parts, left_aside))
}

fn unfinished(part: &PartFolder) -> GatherError {
    let (name, folder) = (part.part.to_string(), part.folder.clone());
    if run::is_locked(&folder) {
        return GatherError::Running { part: name, folder };
    }
    let cells = part.manifest.cells.len();
    GatherError::Unfinished { part: name, folder, complete: complete_cells(&part.manifest), cells }
}

/// Which part has each cell of the whole, and as which of its own.
fn whole_order(parts: &[PartFolder]) -> Result<Vec<(usize, usize)>, StoreError> {
    let of = |(index, part): (usize, &PartFolder)| {
        let places = part.part.places.clone().into_iter().enumerate();
        places.map(move |(cell, place)| (place, index, cell)).collect::<Vec<_>>()
    };
    let mut all: Vec<(u64, usize, usize)> = parts.iter().enumerate().flat_map(of).collect();
    all.sort_unstable();
    let wrong = all.iter().zip(0..).find(|((place, ..), wanted)| place != wanted);
    let part = &parts[wrong.map_or(0, |((_, part, _), _)| *part)];
    if wrong.is_some() || all.len() as u64 != part.part.whole {
        let what = "the measurements of all parts are not those of the whole run, each once";
        return Err(StoreError::damaged(part.folder.join(stored::FILE), what));
    }
    Ok(all.into_iter().map(|(_, part, cell)| (part, cell)).collect())
}

/// What the manifests have in common, and what belongs to machines: all that there were, the first start, the sum of wall times.
fn whole_manifest(parts: &[PartFolder], order: &[(usize, usize)]) -> Manifest {
    let mut manifest = Manifest { part: None, virtual_s: None, ..parts[0].manifest.clone() };
    manifest.cells =
        order.iter().map(|(part, cell)| parts[*part].manifest.cells[*cell].clone()).collect();
    manifest.sysctls.clear();
    manifest.queues.clear();
    manifest.wall_s = parts.iter().map(|part| part.manifest.wall_s).sum();
    let started = parts.iter().map(|part| &part.manifest.started).min();
    manifest.started = started.cloned().unwrap_or_default();
    for (fact, value) in &mut manifest.machine {
        let told = parts.iter().filter_map(|part| part.manifest.machine.get(fact));
        let told: BTreeSet<&str> = told.map(String::as_str).collect();
        *value = Vec::from_iter(told).join(", ");
    }
    manifest
}

fn write(run: &mut Run) -> Result<(), StoreError> {
    let mut tables = RunTables::create(&run.folder)?;
    for (index, data) in run.cells.iter().enumerate() {
        let id = run.manifest.cells[index].id.clone();
        journal::facts(&mut run.manifest, &id, data);
        tables.append(&id, data)?;
    }
    journal::totals(&mut run.manifest);
    stored::write(&run.folder, &run.manifest, &tables.commit()?)?;
    let parent = run.folder.parent().filter(|p| !p.as_os_str().is_empty());
    files::sync_folder(parent.unwrap_or(Path::new(".")))
}
