//! A run's folder that came from somebody else: whatever stands in the place of a file, there is an answer at once, and no link leads out.
#![allow(missing_docs)]

mod common;

use common::{cells, fill, finished, manifest};
use quell_store::{Run, RunWriter, list, locate};
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

/// In the place of a file: a pipe that nobody writes, a device without an end, a link to elsewhere.
fn replace(place: &Path, by: &str) {
    fs::rename(place, place.with_extension("real")).unwrap();
    match by {
        "pipe" => nix::unistd::mkfifo(place, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        "device" => std::os::unix::fs::symlink("/dev/zero", place).unwrap(),
        _ => std::os::unix::fs::symlink(place.with_extension("real"), place).unwrap(),
    }
}

#[test]
fn what_is_no_file_is_refused_at_once_wherever_it_stands() {
    for name in ["manifest.json", "samples.parquet", "outputs.jsonl"] {
        for by in ["pipe", "device", "link"] {
            let base = tempdir().unwrap();
            let folder = finished(base.path());
            replace(&folder.join(name), by);
            let error = read(&folder).unwrap_err();
            assert!(error.contains(name), "{by}: {error}");
            let word = if by == "pipe" { "no regular file" } else { "symbolic link" };
            assert!(error.contains(word), "{by}: {error}");
            assert!(error.ends_with("put the file itself there, or run the experiment again"));
            // Also where the run is looked for first.
            let found = locate(base.path(), folder.to_str().unwrap()).unwrap();
            assert_eq!(found, folder, "{by}");
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
fn a_pipe_in_the_place_of_the_journals_is_not_waited_for() {
    let base = tempdir().unwrap();
    let writer = RunWriter::create(base.path(), manifest(&[])).unwrap();
    let journals = writer.folder().join("journal");
    drop(writer);
    fs::remove_dir(&journals).unwrap();
    nix::unistd::mkfifo(&journals, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (tell, told) = mpsc::channel();
    let place = base.path().to_path_buf();
    std::thread::spawn(move || tell.send(list(&place).map(|runs| runs.len()).ok()));
    assert_eq!(told.recv_timeout(Duration::from_secs(120)), Ok(Some(1)));
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

/// Most memory that a child may take to refuse a folder, in KiB: what the test program itself takes, and some.
const MOST_KIB: u64 = 120_000;

const FOLDER: &str = "QUELL_TEST_FOLDER";

/// What a process of its own says of a folder that it reads and lists, and the most memory that it held (`VmHWM`, proc(5)).
fn refused_by_a_child(test: &str, folder: &Path) -> (String, u64) {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(FOLDER, folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    let number = |line: &str| line.strip_prefix("held ")?.parse().ok();
    let held = text.lines().find_map(number).unwrap_or_else(|| panic!("no figure: {text}"));
    let said = text.lines().find_map(|l| l.strip_prefix("said ")).unwrap_or_default();
    (said.to_owned(), held)
}

/// The child's part: true where this process is one.
fn is_child() -> bool {
    let Ok(folder) = std::env::var(FOLDER) else { return false };
    let folder = Path::new(&folder);
    let said = Run::read(folder)
        .map_or_else(|e| e.to_string(), |run| format!("{} cells", run.cells.len()));
    list(folder.parent().unwrap()).unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let held = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    println!("\nsaid {said}\nheld {}", held.trim().trim_end_matches(" kB"));
    true
}

/// Makes the file as long as it says, all of it a hole.
fn hollow(place: &Path, bytes: u64) {
    fs::File::create(place).unwrap().set_len(bytes).unwrap();
}

/// The manifest says that the file has this content.
fn admit(folder: &Path, name: &str, bytes: u64, crc32: u32, rows: u64) {
    let place = folder.join("manifest.json");
    let text = fs::read_to_string(&place).unwrap();
    let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    manifest["files"][name] = serde_json::json!({"rows": rows, "bytes": bytes, "crc32": crc32});
    fs::write(place, manifest.to_string()).unwrap();
}

const NOTHING: &str = "a_file_of_holes_costs_next_to_no_memory_wherever_it_stands";

#[test]
fn a_file_of_holes_costs_next_to_no_memory_wherever_it_stands() {
    if is_child() {
        return;
    }
    let length = 1 << 30;
    let zeros = {
        let mut crc = crc32fast::Hasher::new();
        let part = vec![0; 1 << 20];
        (0..length >> 20).for_each(|_| crc.update(&part));
        crc.finalize()
    };
    for name in ["manifest.json", "samples.parquet", "outputs.jsonl"] {
        let base = tempdir().unwrap();
        let folder = finished(base.path());
        hollow(&folder.join(name), length);
        if name != "manifest.json" {
            admit(&folder, name, length, zeros, 1);
        }
        let (said, held) = refused_by_a_child(NOTHING, &folder);
        assert!(said.contains(name) && said.contains("damaged"), "{said}");
        assert!(held < MOST_KIB, "{name}: {held} KiB");
    }
    let base = tempdir().unwrap();
    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    hollow(&writer.journal_path(&cells()[0]), length);
    let folder = writer.folder().to_path_buf();
    drop(writer);
    let (said, held) = refused_by_a_child(NOTHING, &folder);
    // What other cells measured can be read.
    assert_eq!(said, "4 cells");
    assert!(held < MOST_KIB, "{held} KiB");
}

const COPIES: &str = "a_cell_that_is_there_more_than_once_is_refused";

#[test]
fn a_cell_that_is_there_more_than_once_is_refused() {
    if is_child() {
        return;
    }
    let base = tempdir().unwrap();
    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    fill(&writer, &cells());
    let place = writer.folder().join("manifest.json");
    let folder = writer.folder().to_path_buf();
    drop(writer);
    let mut told: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&place).unwrap()).unwrap();
    let cell = told["cells"][0].clone();
    for (copies, word) in [(2, "twice"), (200_000, "20000 are most")] {
        told["cells"] = vec![cell.clone(); copies].into();
        fs::write(&place, told.to_string()).unwrap();
        let (said, held) = refused_by_a_child(COPIES, &folder);
        assert!(said.contains(word), "{said}");
        assert!(held < 2 * MOST_KIB, "{copies}: {held} KiB");
    }
}

const BOMB: &str = "a_page_that_promises_a_gigabyte_is_refused_before_there_is_room_for_it";

#[test]
fn a_page_that_promises_a_gigabyte_is_refused_before_there_is_room_for_it() {
    if is_child() {
        return;
    }
    let base = tempdir().unwrap();
    let folder = finished(base.path());
    let place = folder.join("samples.parquet");
    let mut bytes = fs::read(&place).unwrap();
    // After the magic number the first page's header: its type (a dictionary or a data page), then its size unpacked, a number of several
    // bytes (Thrift's compact protocol). It is made five bytes long: nearly a gigabyte. The rest of the file moves on, so that only the
    // header is read of it.
    assert_eq!((bytes[4], bytes[6]), (0x15, 0x15), "a page's header");
    let end = 7 + bytes[7..].iter().position(|b| b & 0x80 == 0).unwrap();
    bytes.splice(7..=end, [0xfe, 0xff, 0xff, 0xff, 0x07]);
    fs::write(&place, &bytes).unwrap();
    admit(&folder, "samples.parquet", bytes.len() as u64, crc32fast::hash(&bytes), 28);
    let (said, held) = refused_by_a_child(BOMB, &folder);
    assert!(said.contains("says that it unpacks to 1073741823"), "{said}");
    assert!(held < MOST_KIB, "{held} KiB");
}
