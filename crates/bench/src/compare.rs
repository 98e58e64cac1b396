//! How fast large runs are opened, drawn and compared.
//!
//! ```text
//!   two runs of a million pings each, invented ──► quell show A B --json, and with a figure
//!                                              ──► quell plot A, each figure that shows all of them
//!   wall time and CPU time, medians
//! ```

use crate::options::BenchOptions;
use crate::stats::{Scratch, children, median};
use quell_model::manifest::{FORMAT_VERSION, KernelRecord};
use quell_model::{
    Backend, CellId, CellRecord, CellStatus, EchoSample, EchoStatus, Event, Manifest,
};
use quell_store::RunWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Packets of each run.
const PACKETS: u64 = 1_000_000;

/// Repeats that they are spread over.
const REPEATS: u32 = 5;

/// Figures that are made of all packets.
const FIGURES: [&str; 6] =
    ["rtt-scatter", "rtt-time", "rtt-cdf", "rtt-box", "rtt-averages", "jitter-gap"];

/// Packets of one event.
const AT_ONCE: u64 = 10_000;

pub fn bench(options: &BenchOptions) -> Result<(), String> {
    let scratch = Scratch::new()?;
    let (quell, rounds, out) = (options.quell.as_path(), options.rounds, scratch.path());
    let runs = [("before", 20.0), ("after", 20.2)].map(|(name, ms)| make(out, name, ms));
    let [before, after] = runs.map(|run| run.map(|folder| folder.display().to_string()));
    let (before, after) = (before?, after?);
    println!("two runs of {PACKETS} pings compared, medians of {rounds} rounds");
    let drawn = out.join("figure.svg").display().to_string();
    let table = vec!["show", &before, &after, "--json"];
    let figure = vec!["plot", &before, &after, "--figure", "cdf", "-o", &drawn];
    for (name, arguments) in [("table", table), ("figure", figure)] {
        round(quell, name, &arguments, rounds)?;
    }
    println!("one of them drawn");
    for figure in FIGURES {
        round(quell, figure, &["plot", &before, "--figure", figure, "-o", &drawn], rounds)?;
    }
    let png = out.join("figure.png").display().to_string();
    round(quell, "rtt-scatter, PNG", &["plot", &before, "--figure", FIGURES[0], "-o", &png], rounds)
}

/// Says what a command takes: wall time, and CPU time of all its threads; medians.
fn round(quell: &Path, name: &str, arguments: &[&str], rounds: usize) -> Result<(), String> {
    let took = (0..rounds).map(|_| timed(quell, arguments)).collect::<Result<Vec<_>, _>>()?;
    let median = |of: fn(&(f64, f64)) -> f64| median(&took.iter().map(of).collect::<Vec<_>>());
    println!("  {name:<18} {:.2} s, CPU {:.2} s", median(|t| t.0), median(|t| t.1));
    Ok(())
}

/// Wall time and CPU time in seconds.
fn timed(quell: &Path, arguments: &[&str]) -> Result<(f64, f64), String> {
    let (before, _) = children();
    let start = Instant::now();
    let status = Command::new(quell).args(arguments).stdout(Stdio::null()).status();
    let status = status.map_err(|e| format!("{}: {e}", quell.display()))?;
    if !status.success() {
        return Err(format!("quell {} ended with {status}", arguments.join(" ")));
    }
    Ok((start.elapsed().as_secs_f64(), children().0 - before))
}

/// A run of pings of about so many milliseconds.
fn make(out: &Path, name: &str, ms: f64) -> Result<PathBuf, String> {
    let failed = |e: quell_store::StoreError| e.to_string();
    let cell = |repeat: u32| CellRecord {
        id: CellId { scenario: "idle".into(), probe: "ping".into(), repeat },
        seed: u64::from(repeat),
        status: CellStatus::Planned,
        reason: None,
        wall_s: None,
        virtual_s: None,
        window_ns: Some(PACKETS / u64::from(REPEATS) * 1_000_000),
        tasks: Vec::new(),
    };
    let manifest = Manifest {
        format: FORMAT_VERSION,
        quell: env!("CARGO_PKG_VERSION").into(),
        run: String::new(),
        experiment: name.into(),
        title: "Invented, to be compared".into(),
        seed: 1,
        started: "2026-11-21T10:15:03Z".into(),
        kernel: KernelRecord {
            backend: Backend::Guest,
            version: "invented".into(),
            virtual_time: true,
            key: String::new(),
        },
        clock: "invented".into(),
        cells: (0..REPEATS).map(cell).collect(),
        ..Manifest::default()
    };
    let writer = RunWriter::create(out, manifest.clone()).map_err(failed)?;
    for record in &manifest.cells {
        let mut journal = writer.journal(&record.id).map_err(failed)?;
        let packets = PACKETS / u64::from(REPEATS);
        let begin =
            Event::Begin { cell: record.id.clone(), seed: record.seed, kernel: "invented".into() };
        let echoes = (0..packets).step_by(AT_ONCE as usize).map(|from| Event::Echo {
            stream: "ping".into(),
            samples: (from..(from + AT_ONCE).min(packets))
                .map(|seq| packet(seq, record.seed, ms))
                .collect(),
        });
        let end = Event::End { virtual_ns: packets * 1_000_000 };
        for event in std::iter::once(begin).chain(echoes).chain([end]) {
            journal.append(&event).map_err(failed)?;
        }
    }
    let folder = writer.folder().to_path_buf();
    writer.finish(Manifest { wall_s: Some(1.0), ..manifest }).map_err(failed)?;
    Ok(folder)
}

/// A packet each millisecond; one in a thousand is lost. Delays vary by a millisecond, as by lot.
fn packet(seq: u64, seed: u64, ms: f64) -> EchoSample {
    let lot = (seq + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
    let lost = lot.is_multiple_of(1000);
    let rtt_ns = (ms * 1e6) as u64 + lot % 1_000_000;
    EchoSample {
        t_ns: seq as i64 * 1_000_000,
        seq,
        rtt_ns: (!lost).then_some(rtt_ns),
        up_ns: None,
        down_ns: None,
        up_order: None,
        down_order: (!lost).then_some(seq),
        seen_late_ns: None,
        queued_ns: None,
        sent_late_ns: None,
        bytes: 56,
        status: if lost { EchoStatus::Lost } else { EchoStatus::Ok },
    }
}
