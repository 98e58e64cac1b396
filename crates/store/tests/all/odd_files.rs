//! A run's folder with something else in the place of a file: there is an answer at once.

use crate::common::{cells, fill, finished, manifest};
use quell_store::{Run, RunWriter, list};
use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;
use tempfile::tempdir;

/// What reading says; fails where it says nothing for two minutes.
#[track_caller]
fn read(folder: &Path) -> Result<Run, String> {
    let (tell, told) = mpsc::channel();
    let folder = folder.to_path_buf();
    std::thread::spawn(move || {
        let _ = tell.send(Run::read(&folder).map_err(|e| e.to_string()));
    });
    told.recv_timeout(Duration::from_secs(120)).expect("reading has an end")
}

/// In the place of a file: a pipe that nobody writes, a device without an end.
fn replace(place: &Path, by: &str) {
    fs::rename(place, place.with_extension("real")).unwrap();
    match by {
        "pipe" => nix::unistd::mkfifo(place, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        _ => std::os::unix::fs::symlink("/dev/zero", place).unwrap(),
    }
}

#[test]
fn what_is_no_file_is_refused_at_once_wherever_it_stands() {
    for name in ["manifest.json", "samples.parquet", "outputs.jsonl"] {
        for by in ["pipe", "device"] {
            let base = tempdir().unwrap();
            let folder = finished(base.path());
            replace(&folder.join(name), by);
            let error = read(&folder).unwrap_err();
            assert!(error.contains(name) && error.contains("no regular file"), "{by}: {error}");
        }
    }
}

#[test]
fn a_journal_that_is_no_file_is_refused_at_once_and_the_list_goes_on() {
    for by in ["pipe", "device"] {
        let base = tempdir().unwrap();
        let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
        fill(&writer, &cells());
        replace(&writer.journal_path(&cells()[0]), by);
        let folder = writer.folder().to_path_buf();
        drop(writer);
        assert!(read(&folder).is_err());
        assert_eq!(list(base.path()).unwrap().len(), 1);
    }
}

#[test]
fn nothing_is_written_through_a_link_that_waits_in_the_folder() {
    let base = tempdir().unwrap();
    let precious = base.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    fill(&writer, &cells());
    for name in [".samples.parquet.new", ".manifest.json.new", "facts.jsonl"] {
        std::os::unix::fs::symlink(&precious, writer.folder().join(name)).unwrap();
    }
    let folder = writer.folder().to_path_buf();
    writer.finish(manifest(&cells())).unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert!(read(&folder).is_ok());
}
