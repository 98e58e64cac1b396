//! A run of ten thousand measurements is read, compared and drawn in seconds and in bounded memory.

use crate::support::TestFolder;
use nix::libc;
use quell_model::manifest::FORMAT_VERSION;
use quell_model::{
    Backend, CellId, CellRecord, CellStatus, EchoSample, EchoStatus, Event, Fact, FlowSample,
    KernelRecord, Manifest, QueueSample, Side, Subject, When,
};
use quell_store::{JournalWriter, RunWriter};

const FIELD: &str = "topology.link.line.up.rate";

/// An experiment of two scenarios at so many rates.
fn experiment(rates: u32, repeats: u32) -> String {
    let rates = (1..=rates).map(|n| format!("\"{n}Mbit\"")).collect::<Vec<_>>().join(", ");
    format!(
        r#"
name     = "rates"
duration = "2s"
repeat   = {repeats}
sweep    = {{ "{FIELD}" = [{rates}] }}
[topology]
hosts = ["a", "b"]
[[topology.link]]
name = "line"
ends = ["a", "b"]
up   = {{ rate = "2Mbit", delay = "5ms", buffer = "30p" }}
[[scenario]]
name = "plain"
[[scenario]]
name = "bulk"
loads = ["flow"]
[[load]]
name = "flow"
kind = "tcp"
from = "a"
to   = "b"
[[probe]]
name = "ping"
kind = "ping"
from = "a"
to   = "b"
"#
    )
}

fn cell(scenario: &str, rate: u32, repeat: u32) -> CellRecord {
    let scenario = format!("{scenario}-{rate}Mbit");
    CellRecord {
        id: CellId { scenario, probe: "ping".into(), repeat },
        seed: u64::from(repeat),
        status: CellStatus::Planned,
        reason: None,
        wall_s: None,
        virtual_s: None,
        window_ns: Some(2_000_000_000),
        tasks: vec![],
    }
}

/// Two hundred packets, a flow's and a queue's twenty states, and what a cell tells of its network.
fn write(mut journal: JournalWriter, cell: &CellRecord, rate: u32) {
    let packet = |seq: u64| EchoSample {
        rtt_ns: Some(
            10_000_000 + 4_000_000_000 / u64::from(rate) / 1000 + seq % 7 * 1000 + cell.seed * 13,
        ),
        up_order: Some(seq),
        down_order: Some(seq),
        ..EchoSample::new(seq as i64 * 10_000_000, seq, 56, EchoStatus::Ok)
    };
    let state = |n: u64| FlowSample {
        t_ns: n as i64 * 100_000_000,
        side: Side::Receiver,
        bytes: n * u64::from(rate) * 12_500,
        packets: 0,
        tcp: None,
    };
    let queue = |n: u64| QueueSample {
        t_ns: n as i64 * 100_000_000,
        device: "a:line".into(),
        handle: "1:".into(),
        kind: "pfifo".into(),
        backlog_bytes: n % 5 * 1500,
        backlog_packets: n % 5,
        drops: 0,
        marks: 0,
        packets: n * 10,
        bytes: n * 15_000,
    };
    let tree = format!("[{{\"kind\":\"pfifo\",\"options\":\"{}\"}}]", "x".repeat(1000));
    let mut events =
        vec![Event::Begin { cell: cell.id.clone(), seed: cell.seed, kernel: "6.1".into() }];
    for when in [When::Before, When::After] {
        events.push(Fact::new(when, Subject::Queues("a:line".into()), &*tree).into());
        let setting = |n| Subject::Sysctl(format!("net.ipv4.tcp_{n}"));
        events.extend((0..12).map(|n| Fact::new(when, setting(n), "4096 131072 6291456").into()));
    }
    events.push(Event::Echo { stream: "ping".into(), samples: (0..200).map(packet).collect() });
    if cell.id.scenario.starts_with("bulk") {
        events.push(Event::Flow { stream: "flow".into(), samples: (0..20).map(state).collect() });
    }
    events.push(Event::Queues { samples: (0..20).map(queue).collect() });
    events.push(Event::End { virtual_ns: 2_000_000_000 });
    events.iter().for_each(|event| journal.append(event).expect("it is written"));
}

/// A run of two scenarios at these rates, so often each, made and not measured.
fn made(dir: &TestFolder, rates: u32, repeats: u32) {
    let scenarios =
        ["plain", "bulk"].into_iter().flat_map(|s| (1..=rates).map(move |rate| (s, rate)));
    let cells = scenarios.flat_map(|(s, rate)| (0..repeats).map(move |n| (cell(s, rate, n), rate)));
    let (cells, rates_of): (Vec<CellRecord>, Vec<u32>) = cells.unzip();
    let manifest = Manifest {
        format: FORMAT_VERSION,
        quell: "0.2.0".into(),
        experiment: "rates".into(),
        experiment_text: experiment(rates, repeats),
        started: "2026-11-21T10:15:03Z".into(),
        kernel: KernelRecord { backend: Backend::Guest, virtual_time: true, ..Default::default() },
        cells,
        ..Manifest::default()
    };
    let writer = RunWriter::create(&dir.path("runs"), manifest.clone()).expect("a run");
    for (cell, rate) in manifest.cells.iter().zip(rates_of) {
        write(writer.journal(&cell.id).expect("a journal"), cell, rate);
    }
    writer.finish(manifest).expect("tables");
}

/// What a command takes: CPU seconds, which others on this machine change little, and the most memory in MB.
#[allow(clippy::zombie_processes)] // `wait4` waits for it.
fn cost(dir: &TestFolder, arguments: &[&str]) -> (f64, u64) {
    let out = std::fs::File::create(dir.path("said")).expect("a file");
    let mut command = dir.command(arguments);
    let child = command.stdout(out).spawn().expect("it can be started");
    let (mut status, mut usage) = (0, unsafe { std::mem::zeroed::<libc::rusage>() });
    // SAFETY: both places live as long as the call, and the child is waited for here alone.
    let done = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
    assert_eq!((done, status), (child.id() as i32, 0), "{arguments:?} went well");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss as u64 >> 10)
}

/// What people ask of such a run takes no more than this.
fn bounded(rates: u32, repeats: u32, most: (f64, u64)) {
    let dir = TestFolder::new();
    made(&dir, rates, repeats);
    let asked: [&[&str]; 4] = [
        &["show", "last", "--by", FIELD],
        &["show", "last", "--by", FIELD, "--json"],
        &["show", "last", "--by", "scenario"],
        &["plot", "last", "--figure", "sweep", "-o", "sweep.svg"],
    ];
    for arguments in asked {
        let (seconds, memory) = cost(&dir, arguments);
        let told = format!("{seconds:.2} s, {memory} MB: quell {}", arguments.join(" "));
        println!("{rates} rates, {repeats} repeats: {told}");
        assert!(seconds < most.0 && memory < most.1, "{told}");
    }
}

#[test]
fn a_thousand_measurements_are_compared_and_drawn_in_seconds() {
    bounded(100, 5, (2.0, 120));
}

/// Few rates often, and many rates seldom.
#[test]
#[ignore = "takes minutes; `make test-long` runs it"]
fn ten_thousand_measurements_are_compared_and_drawn_in_ten_seconds_and_500_mb() {
    bounded(100, 50, (10.0, 500));
    bounded(1000, 5, (10.0, 500));
}
