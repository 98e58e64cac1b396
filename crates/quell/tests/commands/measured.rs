//! A run of several kernels, made by hand, so that its truth is known.

use crate::support::TestFolder;
use quell_model::manifest::FORMAT_VERSION;
use quell_model::{
    Backend, CellId, CellRecord, CellStatus, EchoSample, EchoStatus, Event, KernelRecord, Manifest,
};
use quell_store::RunWriter;

const HOME_LINK: &str = include_str!("../../../../experiments/home-link.toml");

/// A ping of a hundred packets in each of three repeats of two scenarios, on each kernel. Through the full buffer the newer one is 50 ms quicker.
pub fn measured(dir: &TestFolder, kernels: &str) {
    let (begin, rest) = HOME_LINK.split_once("expect = [").expect("it has expectations");
    let (_, rest) = rest.split_once("\n]\n").expect("and an end of them");
    let text = format!("kernels = [{kernels}]\n{begin}{rest}");
    let cell = |scenario: &str, repeat: u32| CellRecord {
        id: CellId { scenario: scenario.into(), probe: "ping".into(), repeat },
        seed: 100 + u64::from(repeat),
        status: CellStatus::Planned,
        reason: None,
        wall_s: None,
        virtual_s: None,
        window_ns: Some(10_000_000_000),
        tasks: vec![],
    };
    let scenarios =
        [("bulk-6_1", 460), ("bulk-6_12", 410), ("unloaded-6_1", 20), ("unloaded-6_12", 20)];
    let cells = scenarios.iter().flat_map(|(s, _)| (0..3).map(|repeat| cell(s, repeat))).collect();
    let manifest = Manifest {
        format: FORMAT_VERSION,
        quell: "0.2.0".into(),
        run: String::new(),
        experiment: "home-link".into(),
        title: "A home link".into(),
        experiment_text: text,
        seed: 1,
        started: "2026-11-21T10:15:03Z".into(),
        kernel: KernelRecord { backend: Backend::Guest, virtual_time: true, ..Default::default() },
        clock: "virtual".into(),
        cells,
        ..Manifest::default()
    };
    let writer = RunWriter::create(&dir.path("runs"), manifest.clone()).expect("a run");
    for record in &manifest.cells {
        let ms = scenarios.iter().find(|(s, _)| *s == record.id.scenario).expect("one of them").1;
        let sample = |n: u64| EchoSample {
            rtt_ns: Some((ms + u64::from(record.id.repeat) * (ms / 40) + n % 3) * 1_000_000),
            ..EchoSample::new(n as i64 * 100_000_000, n, 56, EchoStatus::Ok)
        };
        let mut journal = writer.journal(&record.id).expect("a journal");
        let samples = (0..100).map(sample).collect();
        for event in [
            Event::Begin { cell: record.id.clone(), seed: record.seed, kernel: "x".into() },
            Event::Echo { stream: "ping".into(), samples },
            Event::End { virtual_ns: 10_000_000_000 },
        ] {
            journal.append(&event).expect("it is written");
        }
    }
    writer.finish(manifest).expect("tables");
}
