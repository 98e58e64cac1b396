//! A run on a file system that fills up, at every size from far too small to enough: in each case there is either a finished run, or a
//! typed error and a run that reads from its journals.
//!
//! ```text
//!   test ──► child in its own user and mount namespace ──► tmpfs of N pages ──► create, fill, finish, read
//! ```

use crate::common::{cells, fill, manifest};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};
use quell_model::CellStatus;
use quell_store::{Run, RunWriter, StoreError};
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

const PLACE: &str = "QUELL_TEST_SMALL_DISK";

#[test]
fn a_disk_that_fills_up_costs_no_measurement() {
    if let Ok(place) = std::env::var(PLACE) {
        return on_small_disks(Path::new(&place));
    }
    let place = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "full_disk::a_disk_that_fills_up_costs_no_measurement", "--nocapture"]);
    child.env(PLACE, place.path());
    // SAFETY: the child has one thread after fork, and these are system calls and writes to /proc.
    unsafe { child.pre_exec(own_mounts) };
    let status = child.status().expect("a child in its own mount namespace");
    assert!(status.success());
}

fn own_mounts() -> io::Result<()> {
    let (uid, gid) = (geteuid(), getegid());
    if uid.is_root() {
        unshare(CloneFlags::CLONE_NEWNS)?;
    } else {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    }
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    Ok(())
}

fn on_small_disks(place: &Path) {
    let (mut refused, mut unfinished, mut finished) = (0, 0, 0);
    for pages in 3..60 {
        let base = place.join(pages.to_string());
        fs::create_dir(&base).unwrap();
        let size = format!("size={}k", pages * 4);
        mount(Some("tmpfs"), &base, Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).unwrap();
        match attempt(&base, 8) {
            None => refused += 1,
            Some(false) => unfinished += 1,
            Some(true) => finished += 1,
        }
    }
    println!("{refused} refused, {unfinished} unfinished, {finished} finished");
    assert!(unfinished > 2 && finished > 2, "the sizes cover both sides");
}

/// None when there is no room for the journals; else whether the run could be finished.
fn attempt(base: &Path, ballast_pages: usize) -> Option<bool> {
    let writer = match RunWriter::create(base, manifest(&cells())) {
        Ok(writer) => writer,
        Err(StoreError::Io { source, .. }) => {
            assert_eq!(source.kind(), io::ErrorKind::StorageFull);
            assert_eq!(fs::read_dir(base).unwrap().count(), 0, "nothing half-made is left");
            return None;
        }
        Err(other) => panic!("{other}"),
    };
    // Journals first, then something else takes what room it gets.
    let room = fs::File::create(base.join("room")).and_then(|mut f| f.write_all(&[0; 5 * 4096]));
    room.ok()?;
    fs::remove_file(base.join("room")).unwrap();
    fill(&writer, &cells());
    let _ = fs::write(base.join("ballast"), vec![0; ballast_pages * 4096]);
    let folder = writer.folder().to_path_buf();
    match writer.finish(manifest(&cells())) {
        Ok(_) => {
            assert!(Run::read(&folder).unwrap().manifest.complete);
            Some(true)
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("make room") && text.contains("Nothing is lost"), "{text}");
            let run = Run::read(&folder).expect("the journals are there");
            assert_eq!(run.cells[3].echo("ping").unwrap().samples.len(), 7);
            assert!(run.manifest.cells.iter().all(|c| c.status == CellStatus::Complete));
            assert!(!run.manifest.complete);
            let left: Vec<_> = fs::read_dir(&folder)
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .filter(|n| n != "manifest.json" && n != "journal")
                .collect();
            assert!(left.is_empty(), "half a table is left: {left:?}");
            Some(false)
        }
    }
}
