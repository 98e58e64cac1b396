//! A run of many packets is finished in little memory, and reads as any other.

use crate::common::{cell, echo, manifest};
use quell_model::{EchoStatus, Event, Fact, Subject, When};
use quell_store::{Run, RunWriter};

/// Two streams of 150,000 packets; every tenth is lost and told of 3,000 packets later.
fn events() -> Vec<Event> {
    let mut events = Vec::new();
    for first in (0..150_000u64).step_by(500) {
        for stream in ["voip", "bulk"] {
            let mut samples: Vec<_> = (first..first + 500)
                .filter(|n| n % 10 != 0)
                .map(|n| echo(n, EchoStatus::Ok))
                .collect();
            let late = first.saturating_sub(3_000)..(first + 500).saturating_sub(3_000);
            samples.extend(late.filter(|n| n % 10 == 0).map(|n| echo(n, EchoStatus::Lost)));
            events.push(Event::Echo { stream: stream.into(), samples });
        }
    }
    events
}

#[test]
fn a_long_run_reads_the_same_as_one_that_was_sorted_as_a_whole() {
    let base = tempfile::tempdir().expect("a folder for the test");
    let id = cell("icmp", "ping");
    let finish = |writer: RunWriter| {
        let mut journal = writer.journal(&id).expect("it can be opened");
        let kernel = "6.1".to_owned();
        journal.append(&Event::Begin { cell: id.clone(), seed: 1, kernel }).expect("room");
        events().iter().for_each(|event| journal.append(event).expect("room"));
        let fact = Fact::new(When::After, Subject::Other("k".into()), "v");
        journal.append(&fact.into()).expect("room");
        journal.append(&Event::End { virtual_ns: 7 }).expect("room");
        let folder = writer.folder().to_path_buf();
        writer.finish(manifest(std::slice::from_ref(&id))).expect("it is finished");
        Run::read(&folder).expect("it can be read")
    };
    let create =
        || RunWriter::create(base.path(), manifest(std::slice::from_ref(&id))).expect("room");
    let (usual, long) = (finish(create()), finish(create().long()));
    assert!(long.manifest.complete && !long.folder.join("journal").exists());
    assert_eq!(usual.cells[0].echoes.len(), 2);
    assert_eq!(usual.cells[0].facts, long.cells[0].facts);
    // Not by assert_eq, which would print 300,000 packets.
    assert!(usual.cells == long.cells, "the same packets in the same order");
}
