//! Disks that are full for a while: what was appended before and after is there, and nothing is in halves.

use crate::common::{cell, events, frames, manifest};
use proptest::collection::vec;
use proptest::prelude::*;
use quell_model::{CellStatus, Event};
use quell_store::{JournalFile, Run, RunWriter, WholeFrames, follow};
use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write};
use std::rc::Rc;
use tempfile::tempdir;

/// How the disk is while one event is appended.
#[derive(Debug, Clone, Copy)]
struct Weather {
    /// Bytes that it takes still; none for as many as come.
    room: Option<usize>,
    /// Most bytes that it takes in one call.
    piece: usize,
    /// A signal comes before the first.
    interrupts: bool,
    /// Whether it can cut a file.
    cuts: bool,
}

fn weather() -> impl Strategy<Value = Weather> {
    let room = prop_oneof![3 => Just(None), 2 => (0..90_usize).prop_map(Some)];
    (room, 1..70_usize, any::<bool>(), prop::bool::weighted(0.7))
        .prop_map(|(room, piece, interrupts, cuts)| Weather { room, piece, interrupts, cuts })
}

struct Failing {
    file: File,
    weather: Rc<Cell<Weather>>,
    /// Bytes that it took.
    taken: Rc<Cell<usize>>,
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut now = self.weather.get();
        if now.interrupts {
            self.weather.set(Weather { interrupts: false, ..now });
            return Err(ErrorKind::Interrupted.into());
        }
        let fits = now.room.unwrap_or(usize::MAX).min(now.piece).min(bytes.len());
        if fits == 0 {
            return Err(Error::from(ErrorKind::StorageFull));
        }
        now.room = now.room.map(|room| room - fits);
        self.weather.set(now);
        self.taken.set(self.taken.get() + fits);
        self.file.write(&bytes[..fits])
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl JournalFile for Failing {
    fn cut(&mut self, length: u64) -> Result<()> {
        match self.weather.get().cuts {
            true => self.file.set_len(length),
            false => Err(ErrorKind::ReadOnlyFilesystem.into()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_full_disk_refused_is_missing_whole_and_all_else_is_read_at_once_and_later(
        days in vec(weather(), 16),
    ) {
        let base = tempdir().unwrap();
        let id = cell("bulk", "ping");
        let writer = RunWriter::create(base.path(), manifest(std::slice::from_ref(&id))).unwrap();
        let path = writer.journal_path(&id);
        let file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let fine = Weather { room: None, piece: 1 << 20, interrupts: false, cuts: true };
        let weather = Rc::new(Cell::new(fine));
        let taken = Rc::new(Cell::new(0));
        let disk = Failing { file, weather: Rc::clone(&weather), taken: Rc::clone(&taken) };
        let mut journal = WholeFrames::new(disk, 0);
        let mut follower = follow(writer.folder()).unwrap();
        let mut kept = Vec::new();
        let all = events(&id);
        // What came together is appended in one piece.
        let pieces: Vec<&[Event]> = all[..all.len() - 1].chunks(3).chain([&all[all.len() - 1..]]).collect();
        let last = pieces.len() - 1;
        for (n, piece) in pieces.into_iter().enumerate() {
            // The disk has room at the very end, as when somebody made some.
            weather.set(if n == last { fine } else { days[n] });
            taken.set(0);
            let is_kept = journal.append(&frames(piece)).is_ok();
            let fits = |n: &usize| frames(&piece[..*n]).len() <= taken.get();
            let count = (0..=piece.len()).rev().find(fits).unwrap_or(0);
            prop_assert_eq!(is_kept, count == piece.len());
            kept.extend(piece[..count].iter().cloned());
            follower.read().unwrap();
            prop_assert_eq!(follower.run(), &Run::read(writer.folder()).unwrap());
        }
        prop_assert_eq!(std::fs::read(&path).unwrap(), frames(&kept), "and nothing else is there");
        let is_over = matches!(kept.last(), Some(Event::End { .. }));
        prop_assert!(is_over);
        let run = Run::read(writer.folder()).unwrap();
        prop_assert_eq!(run.manifest.cells[0].status, CellStatus::Complete);
    }
}
