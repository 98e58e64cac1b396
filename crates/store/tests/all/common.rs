//! A small run: two scenarios, two probes, with everything in them that a table can hold.
#![allow(dead_code)]

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quell_model::manifest::FORMAT_VERSION;
use quell_model::{
    Backend, CellId, CellRecord, CellStatus, EchoSample, EchoStatus, Event, Fact, FlowSample,
    KernelRecord, Manifest, Outcome, QueueSample, Side, Subject, TcpState, When, frame,
};
use quell_store::{Follower, RunWriter, Standing};
use std::os::fd::AsFd;
use std::path::Path;

pub fn cell(scenario: &str, probe: &str) -> CellId {
    CellId { scenario: scenario.into(), probe: probe.into(), repeat: 0 }
}

pub fn cells() -> Vec<CellId> {
    // Not in the alphabet's order: the manifest's order has to be kept.
    vec![
        cell("unloaded", "ping"),
        cell("unloaded", "tcp"),
        cell("bulk", "ping"),
        cell("bulk", "tcp"),
    ]
}

pub fn manifest(cells: &[CellId]) -> Manifest {
    Manifest {
        format: FORMAT_VERSION,
        quell: "0.1.0".into(),
        run: String::new(),
        experiment: "home-link".into(),
        title: "A home link".into(),
        experiment_text: "[topology]\n".into(),
        seed: u64::MAX,
        started: "2026-11-21T10:15:03Z".into(),
        kernel: KernelRecord { backend: Backend::Guest, virtual_time: true, ..Default::default() },
        clock: "virtual".into(),
        cells: cells
            .iter()
            .map(|id| CellRecord {
                id: id.clone(),
                seed: 7,
                status: CellStatus::Planned,
                reason: None,
                wall_s: None,
                virtual_s: None,
                window_ns: Some(500_000_000),
                tasks: vec![],
            })
            .collect(),
        ..Manifest::default()
    }
}

pub fn echo(seq: u64, status: EchoStatus) -> EchoSample {
    let answered = matches!(status, EchoStatus::Ok | EchoStatus::Duplicate);
    EchoSample {
        t_ns: seq as i64 * 20_000_000 - 40_000_000,
        seq,
        rtt_ns: answered.then_some(20_000_000 + seq),
        up_ns: answered.then_some(-3),
        down_ns: answered.then_some(i64::MAX / 4),
        up_order: answered.then_some(u64::MAX),
        down_order: answered.then_some(seq),
        seen_late_ns: None,
        queued_ns: answered.then_some(5),
        sent_late_ns: Some(seq),
        bytes: 56,
        status,
    }
}

pub fn flow(side: Side, n: u64) -> FlowSample {
    let tcp =
        TcpState { retransmits: Some(n), cwnd: 10, pacing_rate: u64::MAX, ..Default::default() };
    FlowSample {
        t_ns: n as i64 * 100_000_000,
        side,
        bytes: n * 31_250,
        packets: 0,
        tcp: (side == Side::Sender).then_some(tcp),
    }
}

pub fn queue(device: &str, n: u64) -> QueueSample {
    QueueSample {
        t_ns: n as i64 * 100_000_000,
        device: device.into(),
        handle: "1:".into(),
        kind: "fq_codel".into(),
        backlog_bytes: n * 1500,
        backlog_packets: n,
        drops: 0,
        marks: n / 3,
        packets: 10 * n,
        bytes: 15_000 * n,
    }
}

pub fn events(cell: &CellId) -> Vec<Event> {
    let fact = |subject, value: &str| Fact::new(When::Before, subject, value).into();
    let mut events = vec![
        Event::Begin { cell: cell.clone(), seed: 7, kernel: "6.1.0-um".into() },
        fact(Subject::Sysctl("net.ipv4.tcp_rmem".into()), "4096 131072 6291456"),
        fact(Subject::Queues("modem:wan".into()), "{\"kind\":\"pfifo\"}"),
        Event::Ready { task: "probe".into() },
    ];
    for n in 0..6 {
        let status = if n == 2 { EchoStatus::LostUp } else { EchoStatus::Ok };
        events.push(Event::Echo { stream: "ping".into(), samples: vec![echo(n, status)] });
        events.push(Event::Flow {
            stream: "tcp".into(),
            samples: vec![flow(Side::Receiver, n), flow(Side::Sender, n)],
        });
        events.push(Event::Queues { samples: vec![queue("modem:wan", n), queue("gw:wan", n)] });
        events.push(Event::Tick { t_ns: n as i64 * 100_000_000 });
    }
    let duplicate = vec![echo(3, EchoStatus::Duplicate)];
    events.push(Event::Echo { stream: "ping".into(), samples: duplicate });
    events
        .push(Event::Output { task: "web".into(), stderr: true, line: "\u{1b}[1m <b> ü".into() });
    events.push(Event::Ended { task: "probe".into(), t_ns: 600_000_000, outcome: Outcome::Done });
    events.push(Event::End { virtual_ns: 1_500_000_000 });
    events
}

pub fn frames(events: &[Event]) -> Vec<u8> {
    events.iter().flat_map(|e| frame::encode(e).expect("it fits in a frame")).collect()
}

pub fn fill(writer: &RunWriter, cells: &[CellId]) {
    for id in cells {
        std::fs::write(writer.journal_path(id), frames(&events(id))).expect("a journal");
    }
}

/// A finished run under `base`.
pub fn finished(base: &Path) -> std::path::PathBuf {
    let writer = RunWriter::create(base, manifest(&cells())).expect("a run");
    fill(&writer, &cells());
    let folder = writer.folder().to_path_buf();
    writer.finish(Manifest { wall_s: Some(1.0), ..manifest(&cells()) }).expect("finished");
    folder
}

/// Waits until there is something to read; fails where nothing comes.
#[track_caller]
pub fn wait(follower: &Follower) {
    let mut fds = [PollFd::new(follower.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut fds, PollTimeout::from(30_000u16)), Ok(1), "something is told");
}

/// Reads until the run stands so.
#[track_caller]
pub fn read_until(follower: &mut Follower, wanted: Standing) {
    while follower.read().unwrap() != wanted {
        wait(follower);
    }
}
