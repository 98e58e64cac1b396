//! What cells report is what a reader gets, from journals and from tables alike.

use crate::common::{cells, events, fill, finished, frames, manifest};
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;
use quell_model::{
    CellStatus, EchoSample, EchoStatus, Event, FlowSample, Manifest, Outcome, QueueSample, Side,
    TcpState,
};
use quell_store::{Run, RunState, RunWriter, list};
use std::fs;
use tempfile::tempdir;

#[test]
fn a_run_reads_the_same_before_and_after_it_is_finished() {
    let base = tempdir().unwrap();
    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    fill(&writer, &cells());
    let folder = writer.folder().to_path_buf();
    let before = Run::read(&folder).unwrap();
    let written = writer.finish(manifest(&cells())).unwrap();
    let after = Run::read(&folder).unwrap();

    assert_eq!(before.cells, after.cells);
    assert_eq!(written, after.manifest);
    assert!(!before.manifest.complete, "it has no tables yet");
    assert!(after.manifest.complete);
    let ping = after.cells[0].echo("ping").unwrap();
    assert_eq!(ping.samples.len(), 7, "six packets and a duplicate");
    assert_eq!(ping.samples[2].status, EchoStatus::LostUp);
    assert_eq!(ping.samples[2].rtt_ns, None);
    assert_eq!(ping.samples[4].status, EchoStatus::Duplicate, "right after its packet");
    let sender = after.cells[0].flow("tcp", Side::Sender).unwrap();
    assert_eq!(sender.samples[3].tcp.unwrap().pacing_rate, u64::MAX);
    assert_eq!(after.cells[0].flow("tcp", Side::Receiver).unwrap().samples[3].tcp, None);
    assert_eq!(after.cells[0].queues.len(), 2);
    assert_eq!(after.cells[3].outputs[0].line, "\u{1b}[1m <b> ü");
}

#[test]
fn what_journals_tell_stands_in_the_manifest() {
    let base = tempdir().unwrap();
    let run = Run::read(&finished(base.path())).unwrap();
    let m = &run.manifest;
    assert_eq!(m.run, "20261121T101503-home-link");
    assert_eq!(m.kernel.version, "6.1.0-um");
    assert_eq!(m.sysctls["net.ipv4.tcp_rmem"], "4096 131072 6291456");
    assert_eq!(m.queues["bulk/before/modem:wan"], "{\"kind\":\"pfifo\"}");
    assert_eq!(m.virtual_s, Some(6.0));
    assert_eq!(m.wall_s, Some(1.0));
    assert_eq!(m.cells[0].status, CellStatus::Complete);
    assert_eq!(m.cells[0].tasks[0].outcome, Some(Outcome::Done));
    assert!(!run.folder.join("journal").exists(), "the journals have done their work");
}

#[test]
fn the_same_events_give_the_same_bytes_however_they_are_interleaved() {
    let base = tempdir().unwrap();
    let first = finished(base.path());
    let writer = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    for id in &cells() {
        // Batched otherwise and reported in another order, as a slower machine would.
        let mut events = events(id);
        let end = events.len() - 2;
        events[4..end].reverse();
        fs::write(writer.journal_path(id), frames(&events)).unwrap();
    }
    let second = writer.folder().to_path_buf();
    writer.finish(manifest(&cells())).unwrap();
    for table in ["samples.parquet", "flows.parquet", "queues.parquet"] {
        let (a, b) = (fs::read(first.join(table)).unwrap(), fs::read(second.join(table)).unwrap());
        assert!(a == b, "{table} differs");
        assert!(a.len() > 1000);
    }
}

#[test]
fn other_programs_find_the_columns_that_the_documentation_names() {
    let base = tempdir().unwrap();
    let folder = finished(base.path());
    let columns = |table: &str| -> Vec<String> {
        let reader =
            SerializedFileReader::new(fs::File::open(folder.join(table)).unwrap()).unwrap();
        let file = reader.metadata().file_metadata();
        assert_eq!(file.created_by(), Some("quell"));
        file.schema_descr().columns().iter().map(|c| c.name().to_owned()).collect()
    };
    assert_eq!(
        columns("samples.parquet").join(" "),
        "t_ns scenario probe repeat stream seq rtt_ns up_ns down_ns up_order down_order \
         seen_late_ns queued_ns sent_late_ns bytes status"
    );
    assert_eq!(
        columns("flows.parquet").join(" "),
        "t_ns scenario probe repeat stream side bytes packets retransmits cwnd srtt_us min_rtt_us \
         delivery_rate pacing_rate unacked notsent_bytes"
    );
    assert_eq!(
        columns("queues.parquet").join(" "),
        "t_ns scenario probe repeat device handle kind backlog_bytes backlog_packets drops marks \
         packets bytes"
    );
}

#[test]
fn two_runs_of_the_same_second_get_two_folders() {
    let base = tempdir().unwrap();
    let make = || RunWriter::create(base.path(), manifest(&cells())).unwrap().name().to_owned();
    let mut names: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 8);
    assert!(names.contains(&"20261121T101503-home-link".to_owned()));
    assert!(names.contains(&"20261121T101503-home-link-8".to_owned()));
}

#[test]
fn a_run_is_found_by_path_name_part_and_age() {
    let base = tempdir().unwrap();
    let first = finished(base.path());
    let second = finished(base.path());
    let open = |wanted: &str| Run::open(base.path(), wanted).map(|run| run.folder);
    assert_eq!(open(first.to_str().unwrap()).unwrap(), first);
    assert_eq!(open("20261121T101503-home-link").unwrap(), first);
    assert_eq!(open("last").unwrap(), second);
    assert_eq!(open("link-2").unwrap(), second);
    let error = open("hme-link").unwrap_err().to_string();
    assert!(error.contains("there is no run \"hme-link\""), "{error}");
    assert!(error.contains("20261121T101503-home-link-2"), "{error}");
    let error = open("home").unwrap_err().to_string();
    let both = "20261121T101503-home-link-2, 20261121T101503-home-link";
    assert!(error.contains("\"home\" fits 2 runs") && error.contains(both), "{error}");
    assert!(open("").is_err());
}

#[test]
fn the_list_tells_complete_running_and_unreadable_runs_apart() {
    let base = tempdir().unwrap();
    finished(base.path());
    let running = RunWriter::create(base.path(), manifest(&cells())).unwrap();
    fill(&running, &cells()[..1]);
    fs::create_dir(base.path().join("holiday-pictures")).unwrap();
    let runs = list(base.path()).unwrap();
    let states: Vec<_> = runs.iter().map(|r| (r.name.as_str(), &r.state)).collect();
    assert!(matches!(states[0], ("20261121T101503-home-link", RunState::Complete)));
    assert!(matches!(states[1].1, RunState::Running { complete: 1, cells: 4 }), "{states:?}");
    assert!(matches!(states[2], ("holiday-pictures", RunState::Unreadable(_))));

    drop(running);
    let state = &list(base.path()).unwrap()[1].state;
    assert!(matches!(state, RunState::Partial { complete: 1, cells: 4 }), "{state:?}");
    assert!(list(&base.path().join("nowhere")).unwrap().is_empty());
}

fn any_echo() -> impl Strategy<Value = EchoSample> {
    let optional = || any::<Option<u64>>();
    let signed = || any::<Option<i64>>();
    (
        any::<i64>(),
        any::<u64>(),
        (optional(), signed(), signed(), optional(), optional(), optional()),
        (optional(), optional()),
        any::<u32>(),
        0..EchoStatus::NAMES.len(),
    )
        .prop_map(
            |(
                t_ns,
                seq,
                (rtt_ns, up_ns, down_ns, up, down, seen_late_ns),
                (queued_ns, sent_late_ns),
                bytes,
                status,
            )| {
                EchoSample {
                    t_ns,
                    seq,
                    rtt_ns,
                    up_ns,
                    down_ns,
                    up_order: up,
                    down_order: down,
                    seen_late_ns,
                    queued_ns,
                    sent_late_ns,
                    bytes,
                    status: EchoStatus::NAMES[status].0,
                }
            },
        )
}

fn any_flow() -> impl Strategy<Value = FlowSample> {
    let tcp = any::<(Option<u32>, u32, u32, u32, u64, u64, u32, u32)>().prop_map(
        |(retransmits, cwnd, srtt_us, min_rtt_us, delivery_rate, pacing_rate, unacked, notsent)| {
            let notsent_bytes = notsent;
            TcpState {
                retransmits: retransmits.map(u64::from),
                cwnd,
                srtt_us,
                min_rtt_us,
                delivery_rate,
                pacing_rate,
                unacked,
                notsent_bytes,
            }
        },
    );
    (any::<i64>(), any::<bool>(), any::<u64>(), any::<u64>(), prop::option::of(tcp)).prop_map(
        |(t_ns, sender, bytes, packets, tcp)| {
            let side = if sender { Side::Sender } else { Side::Receiver };
            FlowSample { t_ns, side, bytes, packets, tcp }
        },
    )
}

fn any_queue() -> impl Strategy<Value = QueueSample> {
    (any::<i64>(), "[a-zü:]{0,4}", "[0-9:]{0,2}", any::<[u64; 6]>()).prop_map(
        |(t_ns, device, handle, [a, b, c, d, e, f])| QueueSample {
            t_ns,
            device,
            handle,
            kind: "htb class".into(),
            backlog_bytes: a,
            backlog_packets: b,
            drops: c,
            marks: d,
            packets: e,
            bytes: f,
        },
    )
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        ("[a-c\u{0}\"]{0,2}", prop::collection::vec(any_echo(), 0..5))
            .prop_map(|(stream, samples)| Event::Echo { stream, samples }),
        ("[a-c]{1,2}", prop::collection::vec(any_flow(), 1..5))
            .prop_map(|(stream, samples)| Event::Flow { stream, samples }),
        prop::collection::vec(any_queue(), 0..5).prop_map(|samples| Event::Queues { samples }),
        (any::<bool>(), any::<String>()).prop_map(|(stderr, line)| Event::Output {
            task: "t".into(),
            stderr,
            line
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn whatever_is_reported_comes_back(events in prop::collection::vec(any_event(), 0..12)) {
        let base = tempdir().unwrap();
        let cells = &cells()[..2];
        let writer = RunWriter::create(base.path(), manifest(cells)).unwrap();
        let mut journal = writer.journal(&cells[1]).unwrap();
        journal.append(&Event::Begin { cell: cells[1].clone(), seed: 1, kernel: "k".into() }).unwrap();
        for event in &events {
            journal.append(event).unwrap();
        }
        journal.append(&Event::End { virtual_ns: 5 }).unwrap();
        let folder = writer.folder().to_path_buf();
        let mut before = Run::read(&folder).unwrap();
        writer.finish(Manifest { ..manifest(cells) }).unwrap();
        let after = Run::read(&folder).unwrap();
        // A stream that was named and never had a packet leaves no row.
        before.cells[1].echoes.retain(|s| !s.samples.is_empty());
        prop_assert_eq!(before.cells, after.cells);
    }
}
