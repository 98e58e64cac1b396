//! A run of invented measurements, shaped like those of `home-link`: what is shown of a run can be looked at without measuring anything.

use quell_model::manifest::{ExpectationRecord, FORMAT_VERSION};
use quell_model::page::{PageEnd, PageLoad, PageRequest};
use quell_model::{
    Backend, CellId, CellRecord, CellStatus, EchoSample, EchoStatus, Event, Fact, FlowSample,
    KernelRecord, Manifest, QueueSample, Side, Subject, TcpState, Told, When,
};
use quell_store::{RunWriter, StoreError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Writes one into a folder, and gives the run's own: so many repeats, in queues that are so many times as long as at home.
///
/// # Errors
/// When the folder can't be written.
pub fn write(base: &Path, repeats: u32, longer: f64) -> Result<PathBuf, StoreError> {
    let manifest = manifest(repeats);
    let writer = RunWriter::create(base, manifest.clone())?;
    for record in &manifest.cells {
        let mut journal = writer.journal(&record.id)?;
        for event in events(&record.id, record.seed, longer) {
            journal.append(&event)?;
        }
    }
    let folder = writer.folder().to_path_buf();
    writer.finish(Manifest { wall_s: Some(14.2), ..manifest })?;
    Ok(folder)
}

/// What a scenario does to packets.
struct Scenario {
    name: &'static str,
    /// Delay in the queue in ms: from, to.
    queue_ms: (f64, f64),
    /// Part of small packets lost.
    loss: f64,
    /// Kbit/s that each flow gets: the measured one, and each load.
    tcp: f64,
    loads: &'static [(&'static str, f64)],
}

const SCENARIOS: [Scenario; 6] = [
    Scenario { name: "unloaded", queue_ms: (0.0, 0.3), loss: 0.0, tcp: 2370.0, loads: &[] },
    Scenario { name: "unloaded-shaped", queue_ms: (0.0, 0.2), loss: 0.0, tcp: 2290.0, loads: &[] },
    Scenario {
        name: "bulk",
        queue_ms: (230.0, 470.0),
        loss: 0.02,
        tcp: 560.0,
        loads: &[("bulk-1", 590.0), ("bulk-2", 610.0), ("bulk-3", 600.0)],
    },
    Scenario {
        name: "bulk-shaped",
        queue_ms: (0.0, 5.0),
        loss: 0.0,
        tcp: 1150.0,
        loads: &[("bulk-1", 380.0), ("bulk-2", 390.0), ("bulk-3", 370.0)],
    },
    Scenario {
        name: "flood",
        queue_ms: (455.0, 480.0),
        loss: 0.7,
        tcp: 1.0,
        loads: &[("flood", 2400.0)],
    },
    Scenario {
        name: "flood-shaped",
        queue_ms: (0.0, 6.0),
        loss: 0.0,
        tcp: 1140.0,
        loads: &[("flood", 1130.0)],
    },
];

const SECOND: i64 = 1_000_000_000;
const DURATION: i64 = 20 * SECOND;

/// Numbers between 0 and 1 that are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1_u64 << 31) as f64
    }
}

fn manifest(repeats: u32) -> Manifest {
    let mut cells = Vec::new();
    for scenario in &SCENARIOS {
        for probe in ["udp", "ping", "tcp", "page"] {
            for repeat in 0..repeats {
                cells.push(CellRecord {
                    id: CellId { scenario: scenario.name.into(), probe: probe.into(), repeat },
                    seed: cells.len() as u64 + 100,
                    status: CellStatus::Planned,
                    reason: None,
                    wall_s: None,
                    virtual_s: None,
                    window_ns: Some(DURATION as u64),
                    tasks: vec![],
                });
            }
        }
    }
    let claim = |claim: &str, held, found: &str| ExpectationRecord {
        claim: claim.into(),
        held,
        found: found.into(),
    };
    Manifest {
        format: FORMAT_VERSION,
        quell: env!("CARGO_PKG_VERSION").into(),
        run: String::new(),
        experiment: "home-link".into(),
        title: "What a full uplink does, and what good queues do about it".into(),
        experiment_text: "# Invented: nothing was measured.\n[links.wan]\nup = \"2.5Mbit\"\n"
            .into(),
        changes: vec!["duration=20s".into()],
        seed: 1,
        started: "2026-11-21T10:15:03Z".into(),
        kernel: KernelRecord {
            backend: Backend::Guest,
            version: "6.1.0-sample".into(),
            virtual_time: true,
            key: "sample".into(),
        },
        machine: BTreeMap::from([("cores".into(), "2".into())]),
        clock: "CLOCK_MONOTONIC of the guest".into(),
        cells,
        expectations: vec![
            claim("bulk: ping.rtt_p99 > 200ms", true, "488.1 ms"),
            claim("flood: udp.loss > 50%", true, "70.3 %"),
            claim("flood-shaped: tcp.share = 0.50 ± 0.03", false, "0.46"),
        ],
        ..Manifest::default()
    }
}

fn events(cell: &CellId, seed: u64, longer: f64) -> Vec<Event> {
    let mut dice = Dice(seed);
    let scenario = SCENARIOS.iter().find(|s| s.name == cell.scenario).expect("a scenario of ours");
    let (low, high) = scenario.queue_ms;
    let scenario = &Scenario { queue_ms: (low * longer, high * longer), ..*scenario };
    let mut events = vec![
        Event::Begin { cell: cell.clone(), seed, kernel: "6.1.0-sample".into() },
        fact(Subject::Queues("modem:wan".into()), "{\"kind\":\"pfifo\",\"limit\":100}"),
        fact(Subject::Sysctl("net.ipv4.tcp_congestion_control".into()), "cubic"),
    ];
    match cell.probe.as_str() {
        "tcp" => events.push(flow("tcp", scenario.tcp, 0, &mut dice)),
        "page" => events.extend((0..3).map(|number| page(scenario, number, &mut dice))),
        probe => events.push(echo(probe, scenario, &mut dice)),
    }
    for (load, rate) in scenario.loads {
        let rate = if cell.probe == "tcp" { *rate } else { rate * 1.2 };
        events.push(flow(load, rate, -2 * SECOND, &mut dice));
    }
    events.push(queues(scenario, &mut dice));
    events.push(Event::End { virtual_ns: 25 * SECOND as u64 });
    events
}

fn fact(subject: Subject, value: &str) -> Event {
    Fact::new(When::Before, subject, value).into()
}

fn echo(stream: &str, scenario: &Scenario, dice: &mut Dice) -> Event {
    let (low, high) = scenario.queue_ms;
    let mut queue = low;
    let samples = (0..DURATION / (20 * SECOND / 1000)).map(|seq| {
        // The queue fills slowly and drains at once, as with Reno's sawtooth.
        queue += (high - low) * (0.005 + 0.01 * dice.roll());
        if queue > high {
            queue = low;
        }
        let up_ms = 10.0 + queue + (high - low) * 0.05 * dice.roll();
        let lost = dice.roll() < scenario.loss;
        let up_ns = (up_ms * 1e6) as i64;
        let udp = stream == "udp";
        EchoSample {
            t_ns: seq * 20 * SECOND / 1000,
            seq: seq as u64,
            rtt_ns: (!lost).then_some((up_ns + 10_000_000) as u64),
            up_ns: (!lost && udp).then_some(up_ns),
            down_ns: (!lost && udp).then_some(10_000_000),
            up_order: (!lost && udp).then_some(seq as u64),
            down_order: (!lost).then_some(seq as u64),
            seen_late_ns: None,
            queued_ns: None,
            sent_late_ns: None,
            bytes: if udp { 500 } else { 56 },
            status: match (lost, udp) {
                (false, _) => EchoStatus::Ok,
                (true, true) => EchoStatus::LostUp,
                (true, false) => EchoStatus::Lost,
            },
        }
    });
    Event::Echo { stream: stream.into(), samples: samples.collect() }
}

/// A load of a page whose document is waited for first, then its style sheet, then pictures, six at a time.
fn page(scenario: &Scenario, number: u32, dice: &mut Dice) -> Event {
    let trip = 20.0 + scenario.queue_ms.1;
    let mut request = |what: &str, kind: &str, start_ms: f64, turn: u32| {
        let fresh = (turn == 0).then_some(trip);
        let (queued_ms, wait_ms) = (f64::from(turn) * trip, trip * (1.0 + 0.1 * dice.roll()));
        let receive_ms = 5.0 + 40.0 * dice.roll();
        let end_ms = start_ms + queued_ms + 2.0 * fresh.unwrap_or(0.0) + wait_ms + receive_ms;
        PageRequest {
            url: format!("https://www.page.test/{what}"),
            kind: kind.into(),
            protocol: "http/1.1".into(),
            status: Some(200),
            start_ms,
            queued_ms: Some(queued_ms),
            dns_ms: None,
            connect_ms: fresh,
            tls_ms: fresh,
            wait_ms: Some(wait_ms),
            receive_ms: Some(receive_ms),
            end_ms: Some(end_ms),
            bytes: (receive_ms * 300.0) as u64,
            from_cache: false,
            failed: None,
        }
    };
    let document = request("", "Document", 0.0, 0);
    let doc_ms = document.end_ms.unwrap_or_default();
    let mut requests = vec![document, request("style.css", "Stylesheet", doc_ms, 1)];
    let picture = |n: u32| request(&format!("pictures/{n}.webp"), "Image", doc_ms, n / 6);
    requests.extend((0..24).map(picture));
    let load_ms = requests.iter().filter_map(|r| r.end_ms).fold(0.0, f64::max);
    let load = PageLoad {
        number,
        warm: false,
        t_ns: i64::from(number) * 5 * SECOND,
        end: PageEnd::Loaded,
        doc_ms: Some(doc_ms),
        paint_ms: Some(doc_ms + 2.0 * trip),
        fcp_ms: Some(doc_ms + 2.0 * trip),
        lcp_ms: Some(load_ms),
        load_ms: Some(load_ms),
        moved: Vec::new(),
        requests,
    };
    let text = serde_json::to_string(&load).expect("a load is JSON");
    Fact::new(When::During, Subject::stream("page", Told::PageLoad), text).into()
}

fn flow(stream: &str, kbit: f64, start: i64, dice: &mut Dice) -> Event {
    let (mut bytes, mut samples) = (0.0, Vec::new());
    for t_ns in (start..=DURATION).step_by(100_000_000) {
        let tcp =
            TcpState { cwnd: 20, retransmits: Some((bytes / 1e5) as u64), ..Default::default() };
        let sample = |side, tcp| FlowSample { t_ns, side, bytes: bytes as u64, packets: 0, tcp };
        samples.push(sample(Side::Receiver, None));
        samples.push(sample(Side::Sender, Some(tcp)));
        bytes += kbit * 1e3 / 8.0 * 0.1 * (0.8 + 0.4 * dice.roll());
    }
    Event::Flow { stream: stream.into(), samples }
}

fn queues(scenario: &Scenario, dice: &mut Dice) -> Event {
    let (low, high) = scenario.queue_ms;
    let shaped = scenario.name.contains("shaped") || scenario.name == "unloaded";
    let at = |device: &str, kind: &str, handle: &str, t_ns: i64, ms: f64| {
        let bytes = (ms * 312.5) as u64;
        QueueSample {
            t_ns,
            device: device.into(),
            handle: handle.into(),
            kind: kind.into(),
            backlog_bytes: bytes,
            backlog_packets: bytes / 1400,
            drops: 0,
            marks: 0,
            packets: 0,
            bytes: 0,
        }
    };
    let mut samples = Vec::new();
    for t_ns in (-2 * SECOND..=DURATION).step_by(100_000_000) {
        let ms = low + (high - low) * dice.roll();
        let (router, modem) = if shaped { (ms * 8.0, ms / 4.0) } else { (0.0, ms) };
        samples.push(at("modem:wan", "pfifo", "1:", t_ns, modem));
        samples.push(at("router:wan", "htb", "1:", t_ns, router));
        samples.push(at("router:wan", "fq_codel", "10:", t_ns, router / 2.0));
        samples.push(at("server:eth0", "noqueue", "0:", t_ns, 0.0));
    }
    Event::Queues { samples }
}
