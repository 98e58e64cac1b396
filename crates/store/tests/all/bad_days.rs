//! Killed programs, damaged files, newer formats: a clear answer each time, and never less data than there is.

use crate::common::{cell, cells, events, fill, finished, frames, manifest};
use quell_model::{CellStatus, Event, Manifest};
use quell_store::{JournalWriter, Run, RunState, RunWriter, StoreError, list};
use std::fs;
use std::path::Path;
use tempfile::tempdir;

#[test]
fn a_run_killed_at_any_byte_reads_up_to_its_last_whole_event() {
    let base = tempdir().unwrap();
    let cells = [cell("bulk", "ping")];
    let writer = RunWriter::create(base.path(), manifest(&cells)).unwrap();
    let journal = writer.journal_path(&cells[0]);
    let folder = writer.folder().to_path_buf();
    drop(writer);
    let events = events(&cells[0]);
    let whole = frames(&events);
    let ends: Vec<usize> = (0..=events.len()).map(|n| frames(&events[..n]).len()).collect();
    let pings = |n: usize| events[..n].iter().filter(|e| matches!(e, Event::Echo { .. })).count();
    for cut in 0..=whole.len() {
        fs::write(&journal, &whole[..cut]).unwrap();
        let run = Run::read(&folder).unwrap();
        let events_there = ends.iter().rposition(|end| *end <= cut).unwrap();
        let packets = run.cells[0].echo("ping").map_or(0, |s| s.samples.len());
        assert_eq!(packets, pings(events_there), "cut at {cut}");
        assert!(!run.manifest.complete);
        let record = &run.manifest.cells[0];
        let expected = match events_there {
            0 => CellStatus::Planned,
            n if n == events.len() => CellStatus::Complete,
            _ => CellStatus::Partial,
        };
        assert_eq!(record.status, expected, "cut at {cut}");
        if expected == CellStatus::Partial {
            assert!(record.reason.as_ref().unwrap().contains("no end"), "{record:?}");
        }
    }
}

#[test]
fn an_interrupted_run_can_be_finished_and_says_that_it_is_partial() {
    let base = tempdir().unwrap();
    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    fill(&writer, &cells()[..1]);
    let half = frames(&events(&cells()[1])[..12]);
    fs::write(writer.journal_path(&cells()[1]), half).unwrap();
    let aborted = vec![
        Event::Begin { cell: cells()[2].clone(), seed: 1, kernel: "k".into() },
        Event::Abort { reason: "no route to the server".into() },
    ];
    fs::write(writer.journal_path(&cells()[2]), frames(&aborted)).unwrap();
    // The program that watched the cells believes that all is well; the journals know better.
    let mut believed = manifest(&cells());
    believed.complete = true;
    believed.cells[1].status = CellStatus::Complete;
    let written = writer.finish(believed).unwrap();

    assert!(!written.complete);
    let states: Vec<_> = written.cells.iter().map(|c| c.status).collect();
    use CellStatus::{Complete, Failed, Partial, Planned};
    assert_eq!(states, [Complete, Partial, Failed, Planned]);
    assert_eq!(written.cells[2].reason.as_deref(), Some("no route to the server"));
    let state = &list(base.path()).unwrap()[0].state;
    assert!(matches!(state, RunState::Partial { complete: 1, cells: 4 }), "{state:?}");
}

#[test]
fn what_the_watcher_knows_of_a_failure_stays() {
    let base = tempdir().unwrap();
    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    fill(&writer, &cells());
    let mut told = manifest(&cells());
    told.cells[0].status = CellStatus::Failed;
    told.cells[0].reason = Some("the guest kernel crashed".into());
    let written = writer.finish(told).unwrap();
    assert_eq!(written.cells[0].reason.as_deref(), Some("the guest kernel crashed"));
    assert_eq!(written.cells[0].status, CellStatus::Failed);
}

#[test]
fn a_damaged_journal_is_read_up_to_the_damage_and_is_never_thrown_away() {
    let base = tempdir().unwrap();
    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    fill(&writer, &cells());
    let journal = writer.journal_path(&cells()[0]);
    let mut bytes = fs::read(&journal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&journal, &bytes).unwrap();
    let folder = writer.folder().to_path_buf();
    let written = writer.finish(manifest(&cells())).unwrap();
    assert_eq!(written.cells[0].status, CellStatus::Partial);
    let reason = written.cells[0].reason.clone().unwrap();
    assert!(reason.contains("damaged at byte"), "{reason}");
    assert_eq!(fs::read(&journal).unwrap(), bytes, "the rest may still be of use");
    assert!(!Run::read(&folder).unwrap().cells[0].is_empty(), "what lies before is there");
}

#[test]
fn the_journal_of_another_cell_is_not_taken_for_this_one() {
    let base = tempdir().unwrap();
    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    fs::write(writer.journal_path(&cells()[0]), frames(&events(&cells()[3]))).unwrap();
    let run = Run::read(writer.folder()).unwrap();
    assert!(run.cells[0].is_empty());
    let reason = run.manifest.cells[0].reason.clone().unwrap();
    assert!(reason.contains("the measurement bulk.tcp.0"), "{reason}");
}

#[test]
fn a_half_written_manifest_beside_a_whole_one_does_no_harm() {
    let base = tempdir().unwrap();
    let folder = finished(base.path());
    fs::write(folder.join(".manifest.json.new"), b"{\"format\": 1, \"ru").unwrap();
    assert!(Run::read(&folder).unwrap().manifest.complete);
}

#[test]
fn a_run_killed_between_the_tables_and_the_manifest_is_read_from_its_journals() {
    let base = tempdir().unwrap();
    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    fill(&writer, &cells());
    fs::write(writer.folder().join("samples.parquet"), b"half a table").unwrap();
    let run = Run::read(writer.folder()).unwrap();
    assert_eq!(run.cells[0].echo("ping").unwrap().samples.len(), 7);
    assert!(!run.manifest.complete);
}

#[test]
fn a_run_killed_while_its_journals_were_removed_is_read_from_its_tables() {
    let base = tempdir().unwrap();
    let folder = finished(base.path());
    fs::create_dir(folder.join("journal")).unwrap();
    fs::write(folder.join("journal/unloaded.ping.0.events"), b"\x01").unwrap();
    assert!(Run::read(&folder).unwrap().manifest.complete);
}

fn refusal(folder: &Path) -> String {
    Run::read(folder).expect_err("it can't be read").to_string()
}

#[test]
fn every_damaged_file_is_named_with_what_is_wrong() {
    for name in
        ["samples.parquet", "flows.parquet", "queues.parquet", "outputs.jsonl", "facts.jsonl"]
    {
        let base = tempdir().unwrap();
        let folder = finished(base.path());
        let path = folder.join(name);
        let bytes = fs::read(&path).unwrap();

        let mut flipped = bytes.clone();
        flipped[bytes.len() / 2] ^= 1;
        fs::write(&path, &flipped).unwrap();
        let error = refusal(&folder);
        assert!(error.contains(name) && error.contains("checksum"), "{error}");

        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(refusal(&folder).contains("bytes where the manifest says"));

        fs::remove_file(&path).unwrap();
        let error = refusal(&folder);
        assert!(error.contains(name) && error.contains("missing"), "{error}");
    }
}

#[test]
fn a_table_with_a_right_checksum_and_nonsense_inside_is_refused_without_a_crash() {
    let base = tempdir().unwrap();
    let folder = finished(base.path());
    let path = folder.join("flows.parquet");
    let good = fs::read(&path).unwrap();
    let manifest = fs::read_to_string(folder.join("manifest.json")).unwrap();
    let old = crc32fast::hash(&good).to_string();
    assert!(manifest.contains(&old));
    for at in (4..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 0xff;
        fs::write(&path, &bad).unwrap();
        let signed = manifest.replace(&old, &crc32fast::hash(&bad).to_string());
        fs::write(folder.join("manifest.json"), signed).unwrap();
        // Either it still has a meaning (a number that changed), or the answer names the file.
        if let Err(error) = Run::read(&folder) {
            assert!(error.to_string().contains("flows.parquet"), "{error}");
        }
    }
}

#[test]
fn a_manifest_cut_at_any_byte_is_damaged_or_not_there() {
    let base = tempdir().unwrap();
    let folder = finished(base.path());
    let path = folder.join("manifest.json");
    let text = fs::read(&path).unwrap();
    for cut in (0..text.len() - 2).step_by(97) {
        fs::write(&path, &text[..cut]).unwrap();
        assert!(matches!(Run::read(&folder), Err(StoreError::Damaged { .. })), "cut at {cut}");
    }
    fs::remove_file(&path).unwrap();
    assert!(matches!(Run::read(&folder), Err(StoreError::NoManifest { .. })));
}

#[test]
fn a_manifest_that_names_a_cell_twice_is_no_reason_to_crash() {
    let base = tempdir().unwrap();
    let folder = finished(base.path());
    let path = folder.join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"scenario\": \"bulk\"", "\"scenario\": \"unloaded\"")).unwrap();
    let error = refusal(&folder);
    assert!(error.contains("the measurement unloaded.ping.0 is there twice"), "{error}");
}

#[test]
fn another_format_is_named_with_the_way_out() {
    let base = tempdir().unwrap();
    let folder = finished(base.path());
    let path = folder.join("manifest.json");
    // A newer manifest may have lost or renamed every other field.
    fs::write(&path, "{\"format\": 7, \"everything\": \"else\"}").unwrap();
    let error = refusal(&folder);
    assert!(
        error.contains("format 7") && error.contains("version of Quell that wrote it"),
        "{error}"
    );
}

#[test]
fn a_run_in_a_place_that_takes_no_files_is_refused_with_the_place() {
    let error = RunWriter::create(Path::new("/proc/quell"), manifest(&cells())).unwrap_err();
    assert!(error.to_string().contains("/proc/quell"), "{error}");
    let error = RunWriter::create(Path::new("/dev/null/runs"), manifest(&cells())).unwrap_err();
    assert!(error.to_string().contains("choose another with --out"), "{error}");
}

#[test]
fn a_journal_on_a_full_disk_says_what_to_do() {
    let mut journal = JournalWriter::open(Path::new("/dev/full")).unwrap();
    let error = journal.append(&Event::Tick { t_ns: 0 }).unwrap_err().to_string();
    assert!(error.contains("/dev/full") && error.contains("make room"), "{error}");
}

#[test]
fn nonsense_in_the_manifest_is_refused_before_anything_is_made() {
    let base = tempdir().unwrap();
    let twice = [cells(), cells()].concat();
    assert!(RunWriter::create(base.path(), manifest(&twice)).is_err());
    let when = Manifest { started: "in the morning".into(), ..manifest(&cells()) };
    assert!(RunWriter::create(base.path(), when).is_err());
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
}

#[test]
fn names_with_separators_stay_within_the_folder() {
    let base = tempdir().unwrap();
    let cells = [cell("../../escape", "a/b"), cell("..", ".")];
    let odd = Manifest { experiment: "../up".into(), ..manifest(&cells) };
    let writer = RunWriter::create(base.path(), odd.clone()).unwrap();
    fill(&writer, &cells);
    let folder = writer.folder().to_path_buf();
    assert_eq!(folder.parent(), Some(base.path()));
    writer.finish(odd).unwrap();
    assert!(Run::read(&folder).unwrap().manifest.complete);
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 1);
}
