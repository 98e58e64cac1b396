//! Reading a run while it is written, by a writer that stops wherever it likes.

use crate::common::{cells, events, fill, finished, frames, manifest, read_until, wait};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quell_model::CellStatus;
use quell_store::{Follower, Run, RunWriter, Standing, StoreError, follow};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use tempfile::tempdir;

fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn whatever_is_there_of_a_journal_is_a_run_so_far() {
    let base = tempdir().unwrap();
    let all = cells();
    let writer = RunWriter::create(base.path(), manifest(&all)).unwrap();
    let mut follower = follow(writer.folder()).unwrap();
    assert_eq!(follower.read().unwrap(), Standing::Written);
    assert_eq!(*follower.run(), Run::read(writer.folder()).unwrap(), "all is planned");
    for id in &all[..2] {
        // Frames of some hundred bytes: nearly every piece ends in the midst of one.
        for piece in frames(&events(id)).chunks(61) {
            append(&writer.journal_path(id), piece);
            wait(&follower);
            assert_eq!(follower.read().unwrap(), Standing::Written);
            assert_eq!(*follower.run(), Run::read(writer.folder()).unwrap());
        }
    }
    let status = |follower: &Follower| {
        follower.run().manifest.cells.iter().map(|c| c.status).collect::<Vec<_>>()
    };
    use CellStatus::{Complete, Partial, Planned};
    assert!(matches!(
        status(&follower)[..],
        [Complete, Complete, Planned | Partial, Planned | Partial]
    ));

    let so_far = follower.run().cells.clone();
    fill(&writer, &all);
    let folder = writer.folder().to_path_buf();
    writer.finish(manifest(&all)).unwrap();
    read_until(&mut follower, Standing::Finished);
    assert_eq!(*follower.run(), Run::read(&folder).unwrap());
    assert_eq!(follower.run().cells[..2], so_far[..2], "tables hold what journals held");
    assert!(follower.run().manifest.complete);
}

#[test]
fn a_manifest_that_is_replaced_is_read_again() {
    let base = tempdir().unwrap();
    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    let mut follower = follow(writer.folder()).unwrap();
    follower.read().unwrap();
    let mut next = manifest(&cells());
    next.cells[3].status = CellStatus::Failed;
    next.cells[3].reason = Some("no room".into());
    writer.update(&next).unwrap();
    wait(&follower);
    follower.read().unwrap();
    assert_eq!(follower.run().manifest.cells[3].reason.as_deref(), Some("no room"));
    assert_eq!(*follower.run(), Run::read(writer.folder()).unwrap());
}

/// The process that carries a cell out knows the journal by a name in a folder of its own.
#[test]
fn a_journal_that_grows_under_another_name_is_followed() {
    let base = tempdir().unwrap();
    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    let mut follower = follow(writer.folder()).unwrap();
    follower.read().unwrap();
    let journal = writer.journal_path(&cells()[0]);
    let desk = journal.with_extension("desk");
    fs::create_dir(&desk).unwrap();
    fs::write(&journal, "").unwrap();
    fs::hard_link(&journal, desk.join("events")).unwrap();
    wait(&follower);
    follower.read().unwrap();
    append(&desk.join("events"), &frames(&events(&cells()[0])));
    while follower.run().cells[0].is_empty() {
        wait(&follower);
        follower.read().unwrap();
    }
    assert_eq!(*follower.run(), Run::read(&follower.run().folder).unwrap());
}

#[test]
fn a_run_that_is_over_is_read_at_once() {
    let base = tempdir().unwrap();
    let folder = finished(base.path());
    let mut follower = follow(&folder).unwrap();
    assert_eq!(follower.read().unwrap(), Standing::Finished);
    assert_eq!(*follower.run(), Run::read(&folder).unwrap());

    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    fill(&writer, &cells()[..1]);
    let folder = writer.folder().to_path_buf();
    let mut follower = follow(&folder).unwrap();
    assert_eq!(follower.read().unwrap(), Standing::Written);
    drop(writer);
    read_until(&mut follower, Standing::Left);
    assert_eq!(*follower.run(), Run::read(&folder).unwrap());
}

#[test]
fn who_reads_wakes_nobody() {
    let base = tempdir().unwrap();
    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    fill(&writer, &cells()[..1]);
    fs::write(writer.journal_path(&cells()[1]), frames(&events(&cells()[1])[..7])).unwrap();
    let mut follower = follow(writer.folder()).unwrap();
    follower.read().unwrap();
    // A watch that was given back is told of once.
    follower.read().unwrap();
    Run::read(writer.folder()).unwrap();
    let mut fds = [PollFd::new(follower.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut fds, PollTimeout::ZERO), Ok(0), "nothing came, nothing is told");
}

/// What following says of a folder in which something was done by a stranger.
fn strange(doing: impl FnOnce(&RunWriter)) -> Result<Run, StoreError> {
    let base = tempdir().unwrap();
    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    let first = &cells()[0];
    fs::write(writer.journal_path(first), frames(&events(first)[..9])).unwrap();
    let mut follower = follow(writer.folder())?;
    follower.read()?;
    doing(&writer);
    wait(&follower);
    follower.read()?;
    Ok(follower.run().clone())
}

#[test]
fn a_strangers_folder_is_refused_or_told_to_be_damaged_and_never_waited_for() {
    let second = &cells()[1];
    let pipe = |w: &RunWriter| {
        nix::unistd::mkfifo(&w.journal_path(second), nix::sys::stat::Mode::S_IRWXU).unwrap();
    };
    let error = strange(pipe).unwrap_err().to_string();
    assert!(error.contains("no regular file"), "{error}");
    let others = |w: &RunWriter| w.update(&manifest(&cells()[..2])).unwrap();
    let error = strange(others).unwrap_err().to_string();
    assert!(error.contains("other measurements"), "{error}");
    let removed = |w: &RunWriter| fs::remove_file(w.folder().join("manifest.json")).unwrap();
    assert!(matches!(strange(removed), Err(StoreError::NoManifest { .. })));

    let reason = |run: Run| run.manifest.cells[0].reason.clone().unwrap_or_default();
    let shorter = |w: &RunWriter| {
        let journal = OpenOptions::new().write(true).open(w.journal_path(&cells()[0])).unwrap();
        journal.set_len(20).unwrap();
    };
    assert!(reason(strange(shorter).unwrap()).contains("became shorter"));
    let absurd = |w: &RunWriter| append(&w.journal_path(&cells()[0]), &[0xff; 16]);
    assert!(reason(strange(absurd).unwrap()).contains("damaged at byte"));
}
