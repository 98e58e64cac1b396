//! An agent's own disk: what it measured, until the collector has it in synced files.
//!
//! ```text
//!   FOLDER/00000000000000000000.frames   head, records …      oldest; goes when all of it is stored
//!          00000000000000004711.frames   head, records …      half a megabyte, or a sixteenth of what the journal may take
//!          lock                                               one process at a time
//! ```
//!
//! A record is published only after it is synced here. A killed agent loses what it did not write yet. Where the journal is full, packets of the oldest
//! file become sketches of a minute, those become sketches of an hour, and those are dropped and counted; the new file takes the old one's name, so that
//! at no instant both or none are there. What is under way to the collector stays as it is.

use crate::plan::AgentPlan;
use crate::record::{Record, RecordKind};
use crate::slots::SlotAccounts;
use quell_model::Sketch;
use quell_model::frame::{self, Decoder};
use quell_sys::SysError;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const FORMAT: u32 = 1;
/// Least files of a full journal, and the most that one of them takes: it is read as a whole.
const FILES: u64 = 16;
const LARGEST_FILE: u64 = 512 << 10;
const MINUTE_NS: u64 = crate::folder::MINUTE_NS as u64;
const HOUR_NS: u64 = crate::folder::HOUR_NS as u64;
/// Peer and class of what is said of all.
const NO_PROBE: &str = "all";

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("another agent has the journal {}; give each one a folder of its own", .0.display())]
    InUse(PathBuf),
    #[error("{}: {why}", .path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("{0}")]
    System(#[from] SysError),
    #[error(transparent)]
    Store(#[from] quell_store::StoreError),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct FileHead {
    format: u32,
    /// Made with the first file, and the same in all.
    journal: u64,
    /// As they stand before the records of this file.
    slots: SlotAccounts,
}

#[derive(Debug, Clone)]
struct JournalFile {
    path: PathBuf,
    /// Numbers of its records; none where it has none.
    numbers: Option<(u64, u64)>,
    bytes: u64,
    /// A record that the collector has, and where it ends: what comes next is read from there on.
    received: Option<(u64, u64)>,
}

pub struct Journal {
    folder: PathBuf,
    _lock: File,
    id: u64,
    most_bytes: u64,
    files: VecDeque<JournalFile>,
    last: File,
    next: u64,
    is_synced: bool,
    /// What is before this one was sent, and may be at the collector: it is not thinned.
    published: u64,
    /// Records that found no room on the disk.
    unwritten: u64,
    slots: SlotAccounts,
}

/// Frames of records in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalPiece {
    /// The record before them; none where the journal begins with them.
    pub after: Option<u64>,
    pub last: u64,
    pub frames: Vec<u8>,
    /// Whether there are more behind them.
    pub more: bool,
}

impl Journal {
    /// Opens it or makes a new one. The end of a file that a killed agent left is cut to whole records.
    pub fn open(folder: &Path, most_bytes: u64) -> Result<Self, JournalError> {
        let failed = |what: &str, path: &Path, error: &std::io::Error| {
            SysError::io(format!("{what} {}", path.display()), error)
        };
        std::fs::create_dir_all(folder).map_err(|e| failed("make", folder, &e))?;
        let path = folder.join("lock");
        let lock = OpenOptions::new().create(true).append(true).open(&path);
        let lock = lock.map_err(|e| failed("open", &path, &e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(JournalError::InUse(folder.into()));
            }
            Err(std::fs::TryLockError::Error(e)) => return Err(failed("lock", &path, &e).into()),
        }
        let mut names: Vec<PathBuf> = std::fs::read_dir(folder)
            .and_then(|all| all.map(|one| one.map(|one| one.path())).collect())
            .map_err(|e| failed("read", folder, &e))?;
        names.retain(|path| path.extension().is_some_and(|extension| extension == "frames"));
        names.sort();
        let mut read = Vec::new();
        for path in &names {
            let content = read_file(path)?;
            match content.head.is_some() {
                true => read.push(content),
                // Its agent was killed before it wrote anything.
                false => std::fs::remove_file(path).map_err(|e| failed("remove", path, &e))?,
            }
        }
        let known = read.iter().rev().find_map(|one| one.head.as_ref());
        let id = match known {
            Some(head) => head.journal,
            None => quell_sys::secret::number()?,
        };
        let mut slots = known.map(|head| head.slots.clone()).unwrap_or_default();
        if let Some(last) = read.last() {
            last.records.iter().for_each(|record| slots.count(record));
        }
        let next = read.iter().filter_map(|one| one.file.numbers).map(|(_, last)| last + 1).max();
        let newest = read.last().map(|one| one.file.path.clone());
        let mut journal = Self {
            folder: folder.into(),
            id,
            most_bytes: most_bytes.max(FILES << 10),
            files: read.into_iter().map(|one| one.file).collect(),
            last: lock.try_clone().map_err(|e| failed("open", &path, &e))?,
            _lock: lock,
            next: next.unwrap_or(0),
            is_synced: true,
            published: 0,
            unwritten: 0,
            slots,
        };
        match newest {
            Some(path) => journal.last = append_to(&path)?,
            None => journal.begin_file()?,
        }
        Ok(journal)
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn slots(&self) -> &SlotAccounts {
        &self.slots
    }

    /// From now on a plan's slots are those that count: a file begins with them, so that they are known after a kill.
    pub fn follow(&mut self, plan: &AgentPlan, wall_ns: i64) -> Result<(), JournalError> {
        self.slots.follow(plan, wall_ns);
        self.sync()?;
        self.begin_file()
    }

    /// The clock by which slots are planned was set back so far.
    pub fn set_back(&mut self, ns: u64) {
        self.slots.set_back(ns);
    }

    /// The number of the next record.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The collector has all before this one: numbers go on from it, also where this journal is new or has lost its end.
    pub fn received(&mut self, received: u64) {
        self.next = self.next.max(received);
        self.published = self.published.max(received);
    }

    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Gives what was measured its numbers and writes it; not synced yet. What finds no room is counted, and told of when there is room again.
    pub fn append(
        &mut self,
        measured: Vec<(String, String, RecordKind)>,
    ) -> Result<(), JournalError> {
        if measured.is_empty() {
            return Ok(());
        }
        let count = measured.len() as u64;
        let written = self.add(measured);
        if written.is_err() {
            self.unwritten += count;
        }
        written
    }

    fn add(&mut self, measured: Vec<(String, String, RecordKind)>) -> Result<(), JournalError> {
        if self.files.back().is_none_or(|file| file.bytes >= self.largest_file()) {
            self.roll()?;
        }
        let dropped = (self.unwritten > 0).then(|| {
            let kind = RecordKind::Dropped { records: self.unwritten };
            (NO_PROBE.into(), NO_PROBE.into(), kind)
        });
        let mut number = self.next;
        let mut frames = Vec::new();
        let mut slots = self.slots.clone();
        for (peer, class, kind) in dropped.into_iter().chain(measured) {
            let record = Record { number, peer, class, kind };
            slots.count(&record);
            frames.extend(encoded(&record)?);
            number += 1;
        }
        self.write(&frames, number)?;
        (self.next, self.slots, self.unwritten) = (number, slots, 0);
        Ok(())
    }

    fn largest_file(&self) -> u64 {
        LARGEST_FILE.min(self.most_bytes / FILES)
    }

    fn write(&mut self, frames: &[u8], next: u64) -> Result<(), SysError> {
        let first = self.next;
        let Some(file) = self.files.back_mut() else { return Ok(()) };
        if let Err(error) = self.last.write_all(frames) {
            // Half of a frame must not be followed by another one.
            let _ = self.last.set_len(file.bytes);
            return Err(SysError::io(format!("write {}", file.path.display()), &error));
        }
        file.bytes += frames.len() as u64;
        file.numbers = Some((file.numbers.map_or(first, |(first, _)| first), next - 1));
        self.is_synced = false;
        Ok(())
    }

    /// A new file; and room for it, where the journal is full.
    fn roll(&mut self) -> Result<(), JournalError> {
        self.sync()?;
        let mut turns = self.files.len();
        while self.bytes() + self.largest_file() > self.most_bytes && turns > 0 {
            turns -= 1;
            let unsent =
                |file: &JournalFile| file.numbers.is_none_or(|(first, _)| first >= self.published);
            let older = self.files.len() - 1;
            // The oldest that holds packets; where none does, the oldest sketches.
            let mut full = self.files.range(..older);
            let full = full.position(|file| unsent(file) && file.bytes > self.largest_file() / 4);
            let Some(at) = full.or_else(|| self.files.range(..older).position(unsent)) else {
                break;
            };
            self.thin(at)?;
        }
        self.begin_file()
    }

    fn begin_file(&mut self) -> Result<(), JournalError> {
        let path = self.folder.join(format!("{:020}.frames", self.next));
        let new = path.with_extension("new");
        let head = FileHead { format: FORMAT, journal: self.id, slots: self.slots.clone() };
        let head = encoded(&head)?;
        let failed =
            |error: std::io::Error| SysError::io(format!("write {}", path.display()), &error);
        // What a killed agent left, or a full disk.
        let _ = std::fs::remove_file(&new);
        let mut file = append_to(&new)?;
        file.write_all(&head).and_then(|()| file.sync_data()).map_err(failed)?;
        // In the place of one that holds nothing.
        std::fs::rename(&new, &path).map_err(failed)?;
        self.files.pop_back_if(|file| file.numbers.is_none());
        self.last = file;
        self.files.push_back(JournalFile {
            path,
            numbers: None,
            bytes: head.len() as u64,
            received: None,
        });
        quell_store::files::sync_folder(&self.folder)?;
        Ok(())
    }

    /// All that was written is on the disk afterwards.
    pub fn sync(&mut self) -> Result<(), SysError> {
        if !self.is_synced {
            self.last.sync_data().map_err(|error| SysError::io("sync the journal", &error))?;
            self.is_synced = true;
        }
        Ok(())
    }

    /// The records from `received` on that a message takes, synced. None where there are none.
    pub fn unsent(
        &mut self,
        received: u64,
        most_bytes: usize,
    ) -> Result<Option<JournalPiece>, JournalError> {
        self.sync()?;
        let (mut after, mut piece) = (None, None::<JournalPiece>);
        'files: for file in &mut self.files {
            let Some((_, last)) = file.numbers else { continue };
            if last < received {
                after = Some(last);
                continue;
            }
            let place = file.received.filter(|(number, _)| *number < received);
            let begin = place.map_or(0, |(number, end)| {
                after = Some(number);
                end
            });
            let bytes = read_from(&file.path, begin)?;
            let mut decoder = Decoder::new();
            decoder.push(&bytes);
            if place.is_none() {
                let _: Option<FileHead> = decoder.next_value().ok().flatten();
            }
            let mut at = bytes.len() - decoder.pending();
            while let Ok(Some(Record { number, .. })) = decoder.next_value() {
                let end = bytes.len() - decoder.pending();
                let frame = &bytes[std::mem::replace(&mut at, end)..end];
                if number < received {
                    (after, file.received) = (Some(number), Some((number, begin + end as u64)));
                    continue;
                }
                let new = || JournalPiece { after, last: number, frames: Vec::new(), more: false };
                let piece = piece.get_or_insert_with(new);
                if !piece.frames.is_empty() && piece.frames.len() + frame.len() > most_bytes {
                    piece.more = true;
                    break 'files;
                }
                piece.frames.extend_from_slice(frame);
                piece.last = number;
            }
        }
        self.published = self.published.max(piece.as_ref().map_or(0, |piece| piece.last + 1));
        Ok(piece)
    }

    /// All before this record are stored elsewhere: files that hold nothing else go. The last one stays, as the journal's memory of itself.
    pub fn trim(&mut self, stored: u64) -> Result<(), JournalError> {
        while self.files.len() > 1 && self.files[0].numbers.is_none_or(|(_, last)| last < stored) {
            self.drop_file(0)?;
        }
        Ok(())
    }

    fn drop_file(&mut self, at: usize) -> Result<(), JournalError> {
        if let Some(file) = self.files.remove(at) {
            std::fs::remove_file(&file.path)
                .map_err(|error| SysError::io(format!("remove {}", file.path.display()), &error))?;
        }
        Ok(())
    }

    /// Puts a smaller file in the place of one: its numbers are the last ones of those that it had. One that does not become much smaller goes.
    fn thin(&mut self, at: usize) -> Result<(), JournalError> {
        let file = &self.files[at];
        let content = read_file(&file.path)?;
        let records: u64 = content
            .records
            .iter()
            .map(|record| match record.kind {
                RecordKind::Dropped { records } => records,
                _ => 1,
            })
            .sum();
        let (Some(head), Some((_, last))) = (content.head, file.numbers) else {
            return self.drop_file(at);
        };
        let kept = thinned(content.records);
        let first = (last + 1).saturating_sub(kept.len() as u64);
        let mut frames = encoded(&head)?;
        for (number, (peer, class, kind)) in (first..).zip(kept) {
            frames.extend(encoded(&Record { number, peer, class, kind })?);
        }
        if frames.len() as u64 * 2 > file.bytes {
            self.unwritten += records;
            return self.drop_file(at);
        }
        let new = file.path.with_extension("new");
        let failed =
            |error: std::io::Error| SysError::io(format!("write {}", new.display()), &error);
        let mut written = File::create(&new).map_err(failed)?;
        written.write_all(&frames).and_then(|()| written.sync_data()).map_err(failed)?;
        std::fs::rename(&new, &file.path).map_err(failed)?;
        quell_store::files::sync_folder(&self.folder)?;
        let (path, bytes) = (file.path.clone(), frames.len() as u64);
        self.files[at] = JournalFile { path, numbers: Some((first, last)), bytes, received: None };
        Ok(())
    }
}

/// Packets as sketches of a minute, those of an hour's minutes as one, and the number of records that are gone for good.
fn thinned(records: Vec<Record>) -> Vec<(String, String, RecordKind)> {
    let mut sketches: BTreeMap<(String, String, i64, u64), Sketch> = BTreeMap::new();
    let mut dropped = 0;
    for Record { peer, class, kind, .. } in records {
        let mut into = |wall_ns: i64, length_ns: u64, add: &dyn Fn(&mut Sketch)| {
            let from_ns = wall_ns - wall_ns.rem_euclid(length_ns as i64);
            let key = (peer.clone(), class.clone(), from_ns, length_ns);
            add(sketches.entry(key).or_insert_with(|| Sketch::new(from_ns, length_ns)));
        };
        match kind {
            RecordKind::Packets(samples) => {
                for sample in &samples {
                    into(sample.t_ns, MINUTE_NS, &|sketch| sketch.record(sample));
                }
            }
            RecordKind::Thinned(minute) if minute.length_ns < HOUR_NS => {
                into(minute.from_ns, HOUR_NS, &|sketch| sketch.merge(&minute));
            }
            RecordKind::Dropped { records } => dropped += records,
            _ => dropped += 1,
        }
    }
    let all = sketches
        .into_iter()
        .map(|((peer, class, ..), sketch)| (peer, class, RecordKind::Thinned(sketch)));
    let gone = (dropped > 0)
        .then(|| (NO_PROBE.into(), NO_PROBE.into(), RecordKind::Dropped { records: dropped }));
    all.chain(gone).collect()
}

fn encoded<T: Serialize>(value: &T) -> Result<Vec<u8>, JournalError> {
    frame::encode(value)
        .map_err(|error| JournalError::Damaged { path: "a record".into(), why: error.to_string() })
}

fn append_to(path: &Path) -> Result<File, SysError> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map_err(|error| SysError::io(format!("open {}", path.display()), &error))
}

struct FileContent {
    file: JournalFile,
    head: Option<FileHead>,
    records: Vec<Record>,
}

fn read_from(path: &Path, begin: u64) -> Result<Vec<u8>, SysError> {
    let mut bytes = Vec::new();
    let read = quell_store::files::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(begin))?;
        file.read_to_end(&mut bytes)
    });
    read.map_err(|error| SysError::io(format!("read {}", path.display()), &error))?;
    Ok(bytes)
}

/// What of a file is whole; what is behind that is cut off.
fn read_file(path: &Path) -> Result<FileContent, JournalError> {
    let failed = |error: std::io::Error| SysError::io(format!("read {}", path.display()), &error);
    let bytes = read_from(path, 0)?;
    let mut decoder = Decoder::new();
    decoder.push(&bytes);
    let head: Option<FileHead> = decoder.next_value().ok().flatten();
    if let Some(head) = head.as_ref().filter(|head| head.format != FORMAT) {
        return Err(JournalError::Damaged {
            path: path.into(),
            why: format!(
                "it is a journal of format {}, and this Quell writes {FORMAT}; let the Quell that wrote it send what is in it, or take another folder",
                head.format
            ),
        });
    }
    let mut records: Vec<Record> = Vec::new();
    let mut whole = if head.is_some() { bytes.len() - decoder.pending() } else { 0 };
    while head.is_some() {
        let Ok(Some(record)) = decoder.next_value() else { break };
        records.push(record);
        whole = bytes.len() - decoder.pending();
    }
    if whole < bytes.len() {
        let cut = OpenOptions::new().write(true).open(path).and_then(|f| f.set_len(whole as u64));
        cut.map_err(failed)?;
    }
    let numbers = records.first().zip(records.last()).map(|(a, b)| (a.number, b.number));
    let file = JournalFile { path: path.into(), numbers, bytes: whole as u64, received: None };
    Ok(FileContent { file, head, records })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::rows::{EchoSample, EchoStatus};

    fn packet(n: u64) -> (String, String, RecordKind) {
        let answered = EchoSample {
            rtt_ns: Some(20_000_000 + n),
            ..EchoSample::new(n as i64 * 1_000_000_000, n, 56, EchoStatus::Ok)
        };
        ("ams".into(), "voice".into(), RecordKind::Packets(vec![answered; 20]))
    }

    /// All of it, batch by batch, as an agent sends it.
    fn drained(journal: &mut Journal) -> Vec<Record> {
        let (mut records, mut decoder, mut received) = (Vec::new(), Decoder::new(), 0);
        while let Some(piece) = journal.unsent(received, 4096).expect("it can be read") {
            assert!(piece.after.is_none_or(|after| after < received), "nothing is left out");
            decoder.push(&piece.frames);
            while let Some(record) = decoder.next_value().expect("whole frames") {
                records.push(record);
            }
            received = piece.last + 1;
        }
        records
    }

    #[test]
    fn what_was_written_is_there_after_a_kill_and_half_a_record_is_none() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut journal = Journal::open(folder.path(), 1 << 20).expect("it is new");
        journal.append((0..100).map(packet).collect()).expect("there is room");
        let (id, path) = (journal.id(), journal.files[0].path.clone());
        let taken = Journal::open(folder.path(), 1 << 20).map(drop);
        assert!(matches!(taken, Err(JournalError::InUse(_))));
        drop(journal);
        let bytes = std::fs::read(&path).expect("it is there");
        std::fs::write(&path, &bytes[..bytes.len() - 3]).expect("it is ours");
        let mut journal = Journal::open(folder.path(), 1 << 20).expect("what is whole is read");
        assert_eq!((journal.id(), journal.next()), (id, 99));
        journal.append(vec![packet(99)]).expect("there is room");
        let numbers: Vec<u64> = drained(&mut journal).iter().map(|record| record.number).collect();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
        journal.received(500);
        journal.append(vec![packet(0)]).expect("there is room");
        assert_eq!(drained(&mut journal).last().map(|record| record.number), Some(500));
    }

    #[test]
    fn a_full_journal_keeps_its_bound_its_newest_packets_and_the_count_of_all() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let most = 256 << 10;
        let mut journal = Journal::open(folder.path(), most).expect("it is new");
        for n in 0..2_000 {
            journal.append(vec![packet(n)]).expect("there is room");
            assert!(journal.bytes() <= most + 2 * journal.largest_file(), "{n}");
        }
        let records = drained(&mut journal);
        assert!(records.is_sorted_by(|a, b| a.number < b.number));
        let (mut exact, mut sketched, mut dropped) = (0, 0, 0);
        for record in &records {
            match &record.kind {
                RecordKind::Packets(samples) => exact += samples.len() as u64,
                RecordKind::Thinned(sketch) => sketched += sketch.sent,
                RecordKind::Dropped { records } => dropped += records,
                _ => {}
            }
        }
        assert!(sketched > 0 && exact > 0, "{sketched} {exact}");
        assert_eq!((exact + sketched, dropped), (40_000, 0));
        journal.trim(records[records.len() - 1].number + 1).expect("they go");
        assert_eq!(journal.files.len(), 1);
    }
}
