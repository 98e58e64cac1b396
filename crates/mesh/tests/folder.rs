//! The collector's folder: what was acknowledged is there once, whatever happens.

use proptest::prelude::*;
use quell_mesh::folder::{
    BulkResult, DroppedRecords, FolderError, HOUR_NS, MINUTE_NS, MeshFolder, MeshReader, Select,
    SlotCount,
};
use quell_mesh::{PathHop, Record, RecordKind, SlotEnd};
use quell_model::Sketch;
use quell_model::rows::{EchoSample, EchoStatus};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// 2026-11-28T23:50:00Z: an hour and a day end soon.
const BEGIN: i64 = 1_795_909_800_000_000_000;
const SECOND: i64 = 1_000_000_000;

fn packet(second: i64, seq: u64) -> EchoSample {
    let at = BEGIN + second * SECOND;
    match seq % 10 {
        0 => EchoSample::new(at, seq, 64, EchoStatus::LostUp),
        1 => EchoSample::new(at, seq, 64, EchoStatus::Lost),
        _ => EchoSample {
            rtt_ns: Some(20_000_000 + seq * 1000),
            ..EchoSample::new(at, seq, 64, EchoStatus::Ok)
        },
    }
}

fn record(number: u64, peer: &str, kind: RecordKind) -> Record {
    Record { number, peer: peer.into(), class: "voice".into(), kind }
}

/// Record `number`: ten packets of the ten seconds that end with it.
fn packets(number: u64, peer: &str) -> Record {
    let seqs = number * 10..number * 10 + 10;
    let packets = seqs.map(|seq| packet(seq as i64, seq)).collect();
    record(number, peer, RecordKind::Packets(packets))
}

fn all() -> Select<'static> {
    Select::times(BEGIN - HOUR_NS, BEGIN + 24 * HOUR_NS)
}

/// All packets of the folder: agent, peer, number.
fn numbers(folder: &Path) -> Vec<(String, String, u64)> {
    let found = MeshReader::open(folder).unwrap().packets(&all()).unwrap();
    let of = |(pair, packets): (quell_mesh::folder::Pair, Vec<EchoSample>)| {
        let name = move |p: EchoSample| (pair.agent.to_string(), pair.peer.to_string(), p.seq);
        packets.into_iter().map(name).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = found.into_iter().flat_map(of).collect();
    all.sort();
    all
}

fn expected(agent: &str, peer: &str, records: std::ops::Range<u64>) -> Vec<(String, String, u64)> {
    (records.start * 10..records.end * 10).map(|n| (agent.into(), peer.into(), n)).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The newest part of the journal.
fn newest(folder: &Path) -> PathBuf {
    let mut parts = files(&folder.join("journal"));
    parts.retain(|part| part.extension().is_some_and(|e| e == "frames"));
    parts.pop().unwrap()
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let place = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(&file, place).unwrap();
    }
}

#[test]
fn a_batch_that_comes_twice_counts_once_and_one_behind_a_gap_waits() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = MeshFolder::open(dir.path()).unwrap();
    let batch: Vec<_> = (0..10).map(|n| packets(n, "ams")).collect();
    assert_eq!(folder.append("fra", BEGIN, &batch[..4]).unwrap(), 4);
    assert_eq!(folder.append("fra", BEGIN, &batch[2..6]).unwrap(), 6);
    assert_eq!(folder.append("fra", BEGIN, &batch[8..]).unwrap(), 6, "7 is not there yet");
    assert_eq!(folder.append("ams", BEGIN, &batch[..1]).unwrap(), 1, "another agent's numbers");
    folder.sync().unwrap();
    let is = [expected("ams", "ams", 0..1), expected("fra", "ams", 0..6)].concat();
    assert_eq!(numbers(dir.path()), is, "from the journal");
    folder.seal().unwrap();
    assert_eq!(numbers(dir.path()), is, "from the tables");
    assert_eq!(folder.append("fra", BEGIN, &batch[6..]).unwrap(), 10);
    let is = [expected("ams", "ams", 0..1), expected("fra", "ams", 0..10)].concat();
    assert_eq!(numbers(dir.path()), is, "from both");
    drop(folder);
    let mut folder = MeshFolder::open(dir.path()).unwrap();
    assert_eq!((folder.next("fra"), folder.next("ams"), folder.next("new")), (10, 1, 0));
    assert_eq!(folder.append("fra", BEGIN, &batch).unwrap(), 10);
    assert_eq!(numbers(dir.path()), is);
    let dropped = record(15, "ams", RecordKind::Dropped { records: 5 });
    assert_eq!(folder.append("fra", BEGIN, &[dropped, packets(16, "ams")]).unwrap(), 17);
    let dropped = MeshReader::open(dir.path()).unwrap().rows::<DroppedRecords>(&all()).unwrap();
    assert_eq!((dropped.len(), dropped[0].what.0, dropped[0].wall_ns), (1, 5, BEGIN));
}

#[test]
fn all_that_an_agent_tells_comes_out_as_it_went_in() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = MeshFolder::open(dir.path()).unwrap();
    let hop = |a: &str, rtt_ns| PathHop { address: a.parse().ok(), rtt_ns };
    let hops = vec![hop("192.0.2.1", Some(500)), hop("", None), hop("2001:db8::1", Some(9000))];
    let other = vec![hop("192.0.2.9", Some(700))];
    let thinned = Sketch {
        buckets: vec![(2000, 7)],
        sent: 9,
        lost_down: 2,
        min_ns: Some(1),
        max_ns: Some(2),
        ..Sketch::new(BEGIN, 60 * SECOND as u64)
    };
    let failed = SlotEnd::Failed("refused by ams".into());
    let wall_ns = BEGIN;
    let kinds = [
        RecordKind::Path { wall_ns, hops: hops.clone() },
        RecordKind::Path { wall_ns: BEGIN + 1, hops: other.clone() },
        RecordKind::Path { wall_ns: BEGIN + 1, hops: other.clone() },
        RecordKind::Path { wall_ns: BEGIN + 2, hops: vec![] },
        RecordKind::Flow { wall_ns, down: true, bytes: 7, duration_ns: 8, retransmits: None },
        RecordKind::Rpm { wall_ns, down: Some(812.5), up: None },
        RecordKind::Page { wall_ns, loaded_ns: 5, bytes: 6 },
        RecordKind::Slots { wall_ns, count: 3, end: failed.clone() },
        RecordKind::Slots { wall_ns, count: 1, end: SlotEnd::Unknown },
        RecordKind::Thinned(thinned.clone()),
    ];
    let records: Vec<_> = (0..).zip(kinds).map(|(n, kind)| record(n, "ams", kind)).collect();
    folder.append("fra", BEGIN, &records).unwrap();
    for sealed in [false, true] {
        if sealed {
            folder.seal().unwrap();
        }
        let reader = MeshReader::open(dir.path()).unwrap();
        let paths: Vec<_> = reader
            .rows::<Vec<PathHop>>(&all())
            .unwrap()
            .into_iter()
            .map(|p| (p.wall_ns - BEGIN, p.what))
            .collect();
        let is = [(0, hops.clone()), (1, other.clone()), (1, other.clone()), (2, vec![])];
        assert_eq!(paths, is);
        let bulk = reader.rows::<BulkResult>(&all()).unwrap();
        let told: Vec<_> = bulk.iter().map(|b| (&*b.what.kind, b.what.down)).collect();
        assert_eq!(told, [("flow", Some(true)), ("rpm", None), ("page", None)]);
        assert_eq!((bulk[1].what.down_rpm, bulk[1].what.up_rpm), (Some(813), None));
        let ends: Vec<_> = reader
            .rows::<SlotCount>(&all())
            .unwrap()
            .into_iter()
            .map(|s| (s.what.count, s.what.end))
            .collect();
        assert_eq!(ends, [(3, failed.clone()), (1, SlotEnd::Unknown)]);
        let minutes = reader.sketches::<MINUTE_NS>(&all()).unwrap();
        assert_eq!(minutes.into_values().collect::<Vec<_>>(), [[thinned.clone()]]);
    }
}

#[test]
fn a_minute_and_an_hour_have_one_sketch_however_often_they_are_added_to() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = MeshFolder::open(dir.path()).unwrap();
    // 40 minutes across midnight, sealed each 100 s.
    for n in 0..240 {
        folder.append("fra", BEGIN, &[packets(n, "ams"), packets(n, "nyc")][..1]).unwrap();
        if n % 10 == 0 {
            folder.seal().unwrap();
        }
    }
    folder.seal().unwrap();
    let reader = MeshReader::open(dir.path()).unwrap();
    for (sketches, count) in [
        (reader.sketches::<MINUTE_NS>(&all()).unwrap(), 40),
        (reader.sketches::<HOUR_NS>(&all()).unwrap(), 2),
    ] {
        let [sketches] = &*sketches.into_values().collect::<Vec<_>>() else { panic!("one pair") };
        assert_eq!(sketches.len(), count);
        let mut sum = Sketch::new(BEGIN, 0);
        sketches.iter().for_each(|s| sum.merge(s));
        let mut is = Sketch::new(BEGIN, 0);
        (0..2400).for_each(|n| is.record(&packet(n as i64, n)));
        assert_eq!(sum, is);
    }
    let names: Vec<_> = files(dir.path())
        .into_iter()
        .map(|f| f.strip_prefix(dir.path()).unwrap().to_str().unwrap().to_owned())
        .filter(|f| !f.starts_with("journal"))
        .collect();
    assert_eq!(
        names,
        [
            "hours/date=2026-11-28/agent=fra/day.parquet",
            "hours/date=2026-11-29/agent=fra/day.parquet",
            "minutes/date=2026-11-28/agent=fra/23.parquet",
            "minutes/date=2026-11-29/agent=fra/00.parquet",
            "rows/date=2026-11-28/agent=fra/23.parquet",
            "rows/date=2026-11-29/agent=fra/00.parquet",
        ]
    );
}

/// A collector that was killed while it brought a part into the tables leaves the part and some files of it. Each such folder is
/// made, with what was in the tables before and behind it.
#[test]
fn a_collector_killed_at_any_file_of_a_part_loses_and_doubles_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mut folder = MeshFolder::open(&at("before")).unwrap();
    let append = |folder: &mut MeshFolder, numbers: std::ops::Range<u64>| {
        for n in numbers {
            folder.append("fra", BEGIN, &[packets(n, "ams")]).unwrap();
            folder.append("nyc", BEGIN, &[packets(n, "ams")]).unwrap();
        }
    };
    append(&mut folder, 0..50);
    folder.seal().unwrap();
    append(&mut folder, 50..100);
    folder.sync().unwrap();
    drop(folder);
    copy(&at("before"), &at("after"));
    drop(MeshFolder::open(&at("after")).unwrap());
    let is = [expected("fra", "ams", 0..100), expected("nyc", "ams", 0..100)].concat();
    let tables = |of: &Path| -> Vec<PathBuf> {
        let mut files = files(of);
        files.retain(|f| f.extension().is_some_and(|e| e == "parquet"));
        files
    };
    let done = tables(&at("after"));
    assert_eq!(done.len(), 12, "two agents, two days, three tables");
    for killed_behind in 0..=done.len() {
        let place = at(&format!("killed-{killed_behind}"));
        copy(&at("before"), &place);
        for file in &done[..killed_behind] {
            let to = place.join(file.strip_prefix(at("after")).unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(file, to).unwrap();
        }
        // And the next file was on its way.
        let next = done.get(killed_behind).unwrap_or(&done[0]);
        let next = place.join(next.strip_prefix(at("after")).unwrap());
        let name = format!(".{}.new", next.file_name().unwrap().to_str().unwrap());
        fs::create_dir_all(next.parent().unwrap()).unwrap();
        fs::write(next.with_file_name(name), "half").unwrap();
        assert_eq!(numbers(&place), is, "as it was left, {killed_behind}");
        let folder = MeshFolder::open(&place).unwrap();
        assert_eq!((folder.next("fra"), folder.next("nyc")), (100, 100));
        assert_eq!(numbers(&place), is, "{killed_behind}");
        for file in tables(&place) {
            let same = at("after").join(file.strip_prefix(&place).unwrap());
            assert_eq!(fs::read(&file).unwrap(), fs::read(same).unwrap(), "{}", file.display());
        }
    }
}

#[test]
fn a_journal_that_ends_in_half_a_batch_is_read_up_to_it_and_a_damaged_one_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = MeshFolder::open(dir.path()).unwrap();
    for n in 0..5 {
        folder.append("fra", BEGIN, &[packets(n, "ams")]).unwrap();
    }
    drop(folder);
    let journal = newest(dir.path());
    let bytes = fs::read(&journal).unwrap();
    fs::write(&journal, &bytes[..bytes.len() - 20]).unwrap();
    let mut folder = MeshFolder::open(dir.path()).unwrap();
    assert_eq!((folder.next("fra"), folder.damage().len()), (4, 0));
    folder.append("fra", BEGIN, &[packets(4, "ams")]).unwrap();
    drop(folder);
    let journal = newest(dir.path());
    let mut bytes = fs::read(&journal).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&journal, &bytes).unwrap();
    let folder = MeshFolder::open(dir.path()).unwrap();
    assert_eq!((folder.next("fra"), folder.damage().len()), (4, 1));
    assert!(folder.damage()[0].contains("checksum"), "{:?}", folder.damage());
    assert!(journal.with_extension("damaged").exists());
    assert_eq!(numbers(dir.path()), expected("fra", "ams", 0..4));
}

#[test]
fn a_name_with_a_path_in_it_and_a_second_collector_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = MeshFolder::open(&dir.path().join("mesh")).unwrap();
    for agent in ["../../etc", "a/b", "", "."] {
        let why = folder.append(agent, BEGIN, &[packets(0, "ams")]).unwrap_err();
        assert!(matches!(why, FolderError::Name(_)), "{why}");
    }
    assert!(folder.append("fra", BEGIN, &[packets(0, "ams\n")]).is_err());
    assert_eq!(folder.next("fra"), 0);
    let last = record(u64::MAX, "ams", RecordKind::Dropped { records: u64::MAX });
    assert_eq!(folder.append("fra", BEGIN, &[last]).unwrap(), 0);
    let why = MeshFolder::open(&dir.path().join("mesh")).map(drop).unwrap_err().to_string();
    assert!(why.starts_with("another collector writes to "), "{why}");
    assert_eq!(files(dir.path()).len(), 2, "the journal and its lock alone");
}

#[test]
fn a_clock_that_is_wrong_by_years_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = MeshFolder::open(dir.path()).unwrap();
    let times = [i64::MIN, -1, 0, i64::MAX];
    let wrong = times.map(|t| EchoSample::new(t, 0, 64, EchoStatus::Lost)).to_vec();
    folder.append("fra", BEGIN, &[record(0, "ams", RecordKind::Packets(wrong))]).unwrap();
    folder.seal().unwrap();
    let ever = Select::times(i64::MIN, i64::MAX);
    let found = MeshReader::open(dir.path()).unwrap().packets(&ever).unwrap();
    assert_eq!(found.into_values().map(|p| p.len()).sum::<usize>(), 3, "times end before the last");
}

#[derive(Debug, Clone)]
enum Step {
    Append {
        agent: bool,
        from: u64,
        count: u64,
    },
    Sync,
    Seal,
    /// The collector is killed.
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<bool>(), 0_u64..30, 1_u64..8)
            .prop_map(|(agent, from, count)| Step::Append { agent, from, count }),
        1 => Just(Step::Sync),
        1 => Just(Step::Seal),
        1 => Just(Step::Kill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn whatever_comes_in_whatever_order_each_record_counts_once(
        steps in prop::collection::vec(step(), 1..25),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = MeshFolder::open(dir.path()).unwrap();
        let mut next = BTreeMap::from([("a", 0), ("b", 0)]);
        for step in steps {
            match step {
                Step::Append { agent, from, count } => {
                    let name = if agent { "a" } else { "b" };
                    let batch: Vec<_> = (from..from + count).map(|n| packets(n, "ams")).collect();
                    let known = next.get_mut(name).unwrap();
                    if from <= *known {
                        *known = (*known).max(from + count);
                    }
                    prop_assert_eq!(folder.append(name, BEGIN, &batch).unwrap(), *known);
                }
                Step::Sync => folder.sync().unwrap(),
                Step::Seal => drop(folder.seal().unwrap()),
                Step::Kill => {
                    drop(folder);
                    folder = MeshFolder::open(dir.path()).unwrap();
                }
            }
            let is = [expected("a", "ams", 0..next["a"]), expected("b", "ams", 0..next["b"])];
            prop_assert_eq!(numbers(dir.path()), { let mut all = is.concat(); all.sort(); all });
        }
    }
}
