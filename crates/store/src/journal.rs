//! Journals: a cell's events as frames, appended while it runs, and read back as far as they go.

use crate::cell_data::CellData;
use crate::error::StoreError;
use crate::files;
use quell_model::{
    CellId, CellRecord, CellStatus, Event, Manifest, Outcome, Subject, TaskRecord, frame,
};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// What frames are appended to: a file; in tests, one that fails.
pub trait JournalFile: Write {
    /// Keeps the first `length` bytes.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl JournalFile for File {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// Appends frames, each whole or not at all, for the one who writes a file: the part of one that an error left is taken back, and nothing is
/// written behind it until that is done. So a disk that was full for a while costs what came meanwhile, and nothing before and after it.
#[derive(Debug)]
pub struct WholeFrames<F = File> {
    file: F,
    /// Bytes of whole frames.
    length: u64,
    torn: bool,
}

impl<F: JournalFile> WholeFrames<F> {
    /// Behind the `length` bytes that the file has.
    pub fn new(file: F, length: u64) -> Self {
        Self { file, length, torn: false }
    }

    /// Appends whole frames ([`quell_model::frame`]).
    ///
    /// # Errors
    /// What the file answered; those frames of these that it had taken whole by then stay.
    pub fn append(&mut self, frames: &[u8]) -> io::Result<()> {
        self.mend()?;
        let mut left = frames;
        let written = loop {
            if left.is_empty() {
                break Ok(());
            }
            match self.file.write(left) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => left = &left[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        let there = frames.len() - left.len();
        let whole = frame::whole(&frames[..there]);
        self.length += whole as u64;
        self.torn = whole < there;
        // What can't be mended now is mended before the next.
        let _ = self.mend();
        written
    }

    fn mend(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.cut(self.length)?;
            self.torn = false;
        }
        Ok(())
    }

    pub fn file(&self) -> &F {
        &self.file
    }
}

/// Appends events to a journal. Each call hands its frames to the kernel, so that a killed program loses nothing that was appended.
#[derive(Debug)]
pub struct JournalWriter {
    path: PathBuf,
    frames: WholeFrames,
}

impl JournalWriter {
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |error| StoreError::io("open", path)(error);
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        Ok(Self { path: path.to_path_buf(), frames: WholeFrames::new(file, length) })
    }

    pub fn append(&mut self, event: &Event) -> Result<(), StoreError> {
        let bytes = frame::encode(event)
            .map_err(|e| StoreError::Unstorable { what: format!("an event is refused: {e}") })?;
        self.frames.append(&bytes).map_err(StoreError::io("write", &self.path))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub data: CellData,
    pub course: Course,
}

#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Course {
    pub begun: bool,
    /// The kernel's version and the cell's seed, from the first event.
    pub kernel: Option<String>,
    /// Latest time that anything was reported for.
    pub reached_ns: Option<i64>,
    pub ended: Vec<(String, Outcome)>,
    /// The cell ran to its end, and took so long by its own clock.
    pub end_ns: Option<u64>,
    pub abort: Option<String>,
    /// The cell was stopped from outside, after so long by its own clock.
    pub stopped_ns: Option<u64>,
    pub damage: Option<String>,
}

/// Reads a cell's journal up to its last whole frame; none when there is no journal. Damage, and a journal of another cell, are noted
/// in the course: what lies before stays readable.
pub(crate) fn read(path: &Path, cell: &CellId) -> Result<Option<Journal>, StoreError> {
    let mut data = CellData::default();
    let course = walk(path, cell, |event| {
        data.take(event);
        Ok(())
    })?;
    Ok(course.map(|course| Journal { data: data.settled(), course }))
}

/// Hands on the events of a journal one by one, as far as they go; how the cell went. None when there is no journal.
pub(crate) fn walk(
    path: &Path,
    cell: &CellId,
    take: impl FnMut(Event) -> Result<(), StoreError>,
) -> Result<Option<Course>, StoreError> {
    let mut reader = JournalReader::default();
    Ok(reader.read(path, cell, take)?.then_some(reader.course))
}

/// A journal that may still grow, and how far it was read.
#[derive(Debug, Default)]
pub struct JournalReader {
    decoder: frame::Decoder,
    taken: u64,
    pub(crate) course: Course,
}

impl JournalReader {
    /// Hands on the events that are there by now and were not yet; whether there is a journal. The part of a frame at its end waits for
    /// the rest. What comes meanwhile is left for the next time, so that this has an end. Behind damage nothing is read.
    ///
    /// # Errors
    /// That the file can't be read, and those of `take`.
    pub fn read(
        &mut self,
        path: &Path,
        cell: &CellId,
        mut take: impl FnMut(Event) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let mut file = match files::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other.map_err(StoreError::io("open", path))?,
        };
        let there = file.metadata().map_err(StoreError::io("open", path))?.len();
        // The part of a frame at the end is read anew: its writer may have taken it back, and have written something else.
        self.taken -= self.decoder.pending() as u64;
        self.decoder = frame::Decoder::new();
        if there < self.taken {
            self.course.damage.get_or_insert("at its end: it became shorter".to_owned());
        }
        file.seek(io::SeekFrom::Start(self.taken)).map_err(StoreError::io("read", path))?;
        let mut buffer = vec![0; 1 << 18];
        while self.course.damage.is_none() && self.taken < there {
            let count = match file.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other.map_err(StoreError::io("read", path))?,
            };
            if count == 0 {
                break;
            }
            self.taken += count as u64;
            self.decoder.push(&buffer[..count]);
            self.decode(cell, &mut take)?;
        }
        Ok(true)
    }

    fn decode(
        &mut self,
        cell: &CellId,
        take: &mut impl FnMut(Event) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let damage = loop {
            match self.decoder.next_value::<Event>() {
                Ok(Some(event)) => match self.course.event(&event, cell) {
                    Ok(()) => take(event)?,
                    Err(what) => break what,
                },
                Ok(None) => return Ok(()),
                Err(error) => {
                    let at = self.taken - self.decoder.pending() as u64;
                    break format!("at byte {at}: {error}");
                }
            }
        };
        self.course.damage = Some(damage);
        Ok(())
    }
}

impl Course {
    fn event(&mut self, event: &Event, cell: &CellId) -> Result<(), String> {
        match event {
            Event::Begin { cell: found, kernel, .. } => {
                if found != cell {
                    return Err(format!("it is the journal of the measurement {found}"));
                }
                self.kernel = Some(kernel.clone());
            }
            Event::Ended { task, outcome, t_ns } => {
                self.ended.push((task.clone(), outcome.clone()));
                self.reached(Some(*t_ns));
            }
            Event::Tick { t_ns } => self.reached(Some(*t_ns)),
            Event::Echo { samples, .. } => self.reached(samples.last().map(|s| s.t_ns)),
            Event::Flow { samples, .. } => self.reached(samples.last().map(|s| s.t_ns)),
            Event::Queues { samples } => self.reached(samples.last().map(|s| s.t_ns)),
            Event::End { virtual_ns } => self.end_ns = Some(*virtual_ns),
            Event::Abort { reason } => self.abort = Some(reason.clone()),
            Event::Stopped { virtual_ns } => self.stopped_ns = Some(*virtual_ns),
            Event::Ready { .. } | Event::Output { .. } | Event::Fact(_) => {}
        }
        self.begun = true;
        Ok(())
    }

    pub fn is_over(&self) -> bool {
        self.end_ns.is_some()
            || self.abort.is_some()
            || self.stopped_ns.is_some()
            || self.damage.is_some()
    }

    fn reached(&mut self, t_ns: Option<i64>) {
        self.reached_ns = self.reached_ns.max(t_ns);
    }
}

/// Brings a cell's record up to what its journal says. A failure or a stop that the record already tells of stays: whoever watched the cell
/// knows more than the journal, which just stops.
pub(crate) fn into_record(record: &mut CellRecord, course: Option<&Course>) {
    let Some(course) = course.filter(|c| c.begun || c.damage.is_some()) else {
        if matches!(record.status, CellStatus::Complete | CellStatus::Partial) {
            record.status = CellStatus::Partial;
            record.reason.get_or_insert_with(|| "it left no journal".to_owned());
        }
        return;
    };
    for (id, outcome) in &course.ended {
        match record.tasks.iter_mut().find(|t| t.id == *id) {
            Some(task) => task.outcome = Some(outcome.clone()),
            None => record.tasks.push(TaskRecord {
                id: id.clone(),
                host: String::new(),
                outcome: Some(outcome.clone()),
            }),
        }
    }
    if let Some(end) = course.end_ns.or(course.stopped_ns) {
        record.virtual_s.get_or_insert(end as f64 / 1e9);
    }
    if matches!(record.status, CellStatus::Failed | CellStatus::Stopped) {
        return;
    }
    let (status, reason) = match course {
        Course { damage: Some(damage), .. } => {
            (CellStatus::Partial, Some(format!("its journal is damaged {damage}")))
        }
        Course { abort: Some(reason), .. } => (CellStatus::Failed, Some(reason.clone())),
        Course { stopped_ns: Some(after), .. } => {
            let after = *after as f64 / 1e9;
            (CellStatus::Stopped, Some(format!("it was stopped after {after:.1} s")))
        }
        Course { end_ns: Some(_), .. } => (CellStatus::Complete, None),
        Course { reached_ns, .. } => (CellStatus::Partial, Some(cut(*reached_ns))),
    };
    record.status = status;
    record.reason = reason.or(record.reason.take());
}

fn cut(reached_ns: Option<i64>) -> String {
    match reached_ns {
        Some(t_ns) => {
            format!("it has no end: what is there goes up to {:.1} s", t_ns as f64 / 1e9)
        }
        None => "it has no end: nothing was measured yet".to_owned(),
    }
}

/// Takes a cell's facts into the manifest: system settings from the first cell that tells them, queues from the first cell of each
/// scenario.
pub(crate) fn facts(manifest: &mut Manifest, cell: &CellId, data: &CellData) {
    for fact in &data.facts {
        let entry = match &fact.subject {
            Subject::Sysctl(name) => manifest.sysctls.entry(name.clone()),
            Subject::Host(name) => manifest.hosts.entry(name.clone()),
            Subject::Queues(device) => {
                manifest.queues.entry(format!("{}/{}/{device}", cell.scenario, fact.when))
            }
            _ => continue,
        };
        entry.or_insert_with(|| fact.value.clone());
    }
}

/// Brings the manifest of a run that has no tables up to what its journals say, one for each of its cells.
pub(crate) fn so_far<'a>(
    manifest: &mut Manifest,
    journals: impl Iterator<Item = Option<(&'a Course, &'a CellData)>>,
) {
    for (index, journal) in journals.enumerate() {
        into_record(&mut manifest.cells[index], journal.map(|(course, _)| course));
        if let Some((_, data)) = journal {
            let id = manifest.cells[index].id.clone();
            facts(manifest, &id, data);
        }
    }
    totals(manifest);
    // Every cell may have come to its end before the program was killed; the run as a whole still has no tables.
    manifest.complete = false;
}

pub(crate) fn totals(manifest: &mut Manifest) {
    manifest.complete = manifest.cells.iter().all(|c| c.status == CellStatus::Complete);
    if manifest.virtual_s.is_none() {
        let known: Vec<f64> = manifest.cells.iter().filter_map(|c| c.virtual_s).collect();
        manifest.virtual_s = (!known.is_empty()).then(|| known.iter().sum());
    }
}
