//! Runs that no measurement gives, with checksums that fit: each is refused with what is wrong, and none gives a figure.
#![allow(missing_docs)]

mod common;

use common::{cell, cells, echo, events, fill, finished, flow, frames, manifest};
use quell_model::{
    EchoSample, EchoStatus, Event, Fact, FlowSample, Manifest, Side, Subject, Told, When,
};
use quell_store::{Run, RunWriter, follow};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::tempdir;

/// A run under `base` of one cell with these events beside the usual ones.
fn run_with(base: &Path, more: Vec<Event>, is_finished: bool) -> PathBuf {
    let cells = [cell("unloaded", "ping")];
    let writer = RunWriter::create(base, manifest(&cells)).unwrap();
    let mut all = events(&cells[0]);
    let end = all.pop();
    all.extend(more);
    all.extend(end);
    fs::write(writer.journal_path(&cells[0]), frames(&all)).unwrap();
    let folder = writer.folder().to_path_buf();
    match is_finished {
        true => drop(writer.finish(Manifest { wall_s: Some(1.0), ..manifest(&cells) }).unwrap()),
        false => drop(writer),
    }
    folder
}

/// What is said of a finished run with these events.
#[track_caller]
fn refused(more: Vec<Event>) -> String {
    let base = tempdir().unwrap();
    Run::read(&run_with(base.path(), more, true)).unwrap_err().to_string()
}

fn echoes(samples: impl IntoIterator<Item = EchoSample>) -> Vec<Event> {
    vec![Event::Echo { stream: "more".into(), samples: samples.into_iter().collect() }]
}

#[test]
fn a_packet_with_two_answers_that_are_both_the_first_is_damage() {
    let at = |n: u64| EchoSample { seq: 7, ..echo(n, EchoStatus::Ok) };
    let error = refused(echoes((0..3).map(at)));
    let why =
        "samples.parquet is damaged: the packet 7 of \"more\" of unloaded.ping.0 is there twice";
    assert!(error.contains(why), "{error}");
    // Copies, packets that overtook each other, and one that was said to be lost before it came late.
    let base = tempdir().unwrap();
    let order =
        [3, 1, 2, 0].map(|n: u64| EchoSample { t_ns: 9 - n as i64, ..echo(n, EchoStatus::Ok) });
    let copies = [0, 0, 1].map(|n| echo(n, EchoStatus::Duplicate));
    let late = [EchoStatus::Lost, EchoStatus::Late].map(|status| EchoSample {
        rtt_ns: (status == EchoStatus::Late).then_some(4_000_000_000),
        ..EchoSample::new(100, 4, 56, status)
    });
    let more = echoes(order.into_iter().chain(copies).chain(late));
    let run = Run::read(&run_with(base.path(), more, true)).unwrap();
    assert_eq!(run.cells[0].echo("more").unwrap().samples.len(), 8);
}

#[test]
fn a_round_trip_longer_than_all_that_was_measured_is_damage() {
    let day = 86_400_000_000_000;
    let with = |rtt| echoes([EchoSample { rtt_ns: Some(rtt), ..echo(0, EchoStatus::Ok) }]);
    let error = refused(with(2 * day));
    assert!(error.contains("came back after longer than all was measured"), "{error}");
    let base = tempdir().unwrap();
    Run::read(&run_with(base.path(), with(day), true)).unwrap();
}

#[test]
fn a_counter_that_runs_backwards_is_damage() {
    let mut back = [0, 1, 2].map(|n| flow(Side::Receiver, n));
    back.iter_mut().for_each(|s| s.bytes = 1_000_000 - s.bytes);
    let error = refused(vec![Event::Flow { stream: "more".into(), samples: back.to_vec() }]);
    let why = "flows.parquet is damaged: the receiver's bytes of \"more\" of unloaded.ping.0 run backwards, from 1000000 to 968750";
    assert!(error.contains(why), "{error}");
}

#[test]
fn more_bytes_than_any_line_carries_in_the_time_are_damage() {
    let with = |bytes: u64| {
        let samples = [flow(Side::Receiver, 0), FlowSample { bytes, ..flow(Side::Receiver, 1) }];
        vec![Event::Flow { stream: "more".into(), samples: samples.to_vec() }]
    };
    let error = refused(with(1 << 62));
    let why = "the receiver's bytes of \"more\" of unloaded.ping.0 go from 0 to 4611686018427387904 faster than 10 Tbit/s";
    assert!(error.contains(why), "{error}");
    let base = tempdir().unwrap();
    Run::read(&run_with(base.path(), with(1 << 40), true)).unwrap();
}

#[test]
fn a_manifest_with_names_or_times_that_no_measurement_has_is_damage() {
    let long = "x".repeat(1 << 20);
    let changes: [(&str, serde_json::Value, &str); 4] = [
        ("/wall_s", 1e300.into(), "wall_s is 1e300"),
        ("/cells/0/virtual_s", (-1.0).into(), "virtual_s is -1e0"),
        ("/cells/0/id/scenario", long.clone().into(), "a scenario's name has 1048576 bytes"),
        ("/cells/0/id/probe", long.into(), "a probe's name has 1048576 bytes"),
    ];
    for (place, value, why) in changes {
        let base = tempdir().unwrap();
        let folder = finished(base.path());
        change(&folder, |manifest| {
            // The cell's id stands in it as it is.
            let place = match manifest.pointer(place) {
                Some(_) => place.to_owned(),
                None => place.replace("/id/", "/"),
            };
            *manifest.pointer_mut(&place).unwrap() = value;
        });
        let error = Run::read(&folder).unwrap_err().to_string();
        assert!(error.contains(&format!("manifest.json is damaged: {why}")), "{error}");
    }
}

/// A finished run whose fact of a flow's measure says this.
fn told(base: &Path, value: &str) -> Result<Run, String> {
    let fact = |value: &str| {
        let subject = Subject::stream("more", Told::Measured);
        Event::Fact(Fact::new(When::After, subject, value))
    };
    let folder = run_with(base, vec![fact("{}")], true);
    let place = folder.join("facts.jsonl");
    let text = fs::read_to_string(&place).unwrap();
    let value = serde_json::to_string(value).unwrap();
    let text = text.replace("\"{}\"", &value);
    fs::write(&place, &text).unwrap();
    let rows = text.lines().count();
    admit(&folder, "facts.jsonl", rows, text.as_bytes());
    Run::read(&folder).map_err(|e| e.to_string())
}

/// The manifest says that the file has this content.
fn admit(folder: &Path, name: &str, rows: usize, bytes: &[u8]) {
    let crc32 = crc32fast::hash(bytes);
    change(folder, |manifest| {
        manifest["files"][name] =
            serde_json::json!({"rows": rows, "bytes": bytes.len(), "crc32": crc32});
    });
}

fn change(folder: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let place = folder.join("manifest.json");
    let mut manifest = serde_json::from_str(&fs::read_to_string(&place).unwrap()).unwrap();
    change(&mut manifest);
    fs::write(place, manifest.to_string()).unwrap();
}

#[test]
fn what_was_measured_of_a_flow_and_can_not_be_is_damage() {
    for wrong in [
        "x",
        "null",
        "[]",
        r#"{"seconds":"2"}"#,
        r#"{"seconds":2,"received_bytes":-1}"#,
        r#"{"seconds":2,"received_bytes":18446744073709551615}"#,
        r#"{"seconds":-1,"received_bytes":1}"#,
        r#"{"seconds":1e308,"received_bytes":1}"#,
        r#"{"seconds":2,"received_bytes":4611686018427387904}"#,
        r#"{"seconds":2,"datagrams":{"sent":1,"arrived":5,"lost":99,"jitter_ms":1}}"#,
    ] {
        let base = tempdir().unwrap();
        let error = told(base.path(), wrong).unwrap_err();
        let why = "what was measured of \"more\" can't be";
        assert!(error.contains("facts.jsonl is damaged: line ") && error.contains(why), "{error}");
    }
    let base = tempdir().unwrap();
    told(base.path(), r#"{"seconds":2.5,"received_bytes":1000,"retransmits":null}"#).unwrap();
}

#[test]
fn a_journal_with_such_rows_is_read_up_to_them() {
    let base = tempdir().unwrap();
    let wrong = EchoSample { t_ns: i64::MIN, ..echo(1, EchoStatus::Ok) };
    let folder = run_with(base.path(), echoes([wrong]), false);
    let run = Run::read(&folder).unwrap();
    let reason = run.manifest.cells[0].reason.as_deref().unwrap_or_default();
    assert!(
        reason.contains("its journal is damaged") && reason.contains("t_ns is -922"),
        "{reason}"
    );
    assert!(run.cells[0].echo("ping").is_some() && run.cells[0].echo("more").is_none());
}

#[test]
fn a_table_or_a_list_with_fewer_rows_than_the_manifest_says_is_damage() {
    for (name, what) in [
        ("samples.parquet", "28 rows"),
        ("flows.parquet", "48 rows"),
        ("queues.parquet", "48 rows"),
        ("outputs.jsonl", "4 lines"),
        ("facts.jsonl", "8 lines"),
    ] {
        let base = tempdir().unwrap();
        let folder = finished(base.path());
        change(&folder, |manifest| manifest["files"][name]["rows"] = 50.into());
        let error = Run::read(&folder).unwrap_err().to_string();
        let why = format!("{name} is damaged: it has {what} where the manifest says 50");
        assert!(error.contains(&why), "{error}");
    }
}

#[test]
fn a_whole_run_without_its_list_of_files_is_damage() {
    let base = tempdir().unwrap();
    let folder = finished(base.path());
    change(&folder, |manifest| {
        manifest.as_object_mut().unwrap().remove("files");
    });
    let error = Run::read(&folder).unwrap_err().to_string();
    assert!(error.contains("manifest.json is damaged: it lacks `files`"), "{error}");
}

#[test]
fn journals_behind_a_link_are_nobodys() {
    let base = tempdir().unwrap();
    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    fill(&writer, &cells());
    let (folder, journals) = (writer.folder().to_path_buf(), writer.journal_folder());
    drop(writer);
    let elsewhere = base.path().join("elsewhere");
    fs::rename(&journals, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &journals).unwrap();
    for error in [Run::read(&folder).unwrap_err(), follow(&folder).unwrap_err()] {
        let error = error.to_string();
        assert!(error.contains("journal: it is a symbolic link"), "{error}");
    }
}
