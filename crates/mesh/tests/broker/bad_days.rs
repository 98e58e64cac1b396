//! Brokers that don't do what they should, and disks that are full.

use crate::support::*;
use crate::{ping, plan};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use quell_bus::{Bus, BusConfig, BusEvent};
use quell_mesh::collector::Collector;
use quell_mesh::courier::{Courier, CourierNews};
use quell_mesh::folder::{HOUR_NS, MINUTE_NS, MeshFolder, MeshReader, Select, SlotCount};
use quell_mesh::history::MeshHistory;
use quell_mesh::messages::{AgentReport, CollectorAnswer, read_answer};
use quell_mesh::{AgentPlan, Journal, Record, RecordKind, SlotEnd};
use quell_model::frame;
use quell_model::rows::{EchoSample, EchoStatus};
use quell_sys::clock::monotonic_ns;
use quell_tls::identity::{Identity, Name};
use quell_units::Span;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// What is said first: a version where it went well, else why not.
fn first(config: BusConfig) -> String {
    let mut bus = Bus::start(config).expect("a thread");
    until(&mut bus, |event| match event {
        BusEvent::Connected { version } => Some(version),
        // It may not listen yet.
        BusEvent::Refused { why } if why.contains("Connection refused") => None,
        BusEvent::Refused { why } | BusEvent::Lost { why } => Some(why),
        _ => None,
    })
}

/// Certificate and key as files.
fn identity(folder: &Path, name: &str, names: &[Name]) -> (PathBuf, PathBuf) {
    let identity = Identity::new(name, names, name.as_bytes());
    let file = |kind: &str, what: &str, der: &[u8]| {
        let path = folder.join(format!("{name}.{kind}"));
        let text = BASE64_STANDARD.encode(der);
        let pem = format!("-----BEGIN {what}-----\n{text}\n-----END {what}-----\n");
        std::fs::write(&path, pem).expect("a temporary folder");
        path
    };
    let certificate = file("pem", "CERTIFICATE", &identity.certificate);
    (certificate, file("key", "PRIVATE KEY", &identity.key))
}

#[test]
fn a_broker_is_believed_by_its_certificate_and_any_other_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let here = Name::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let (own, key) = identity(folder.path(), "own", &[here]);
    let (other, other_key) = identity(folder.path(), "other", &[Name::Dns("example.net".into())]);
    let tls = |certificate: &Path, key: &Path| {
        format!("tls {{ cert_file: {certificate:?}, key_file: {key:?} }}")
    };
    let Some(broker) = Broker::begin(folder.path(), &tls(&own, &key)) else { return };
    let elsewhere = folder.path().join("elsewhere");
    let elsewhere = Broker::begin(&elsewhere, &tls(&other, &other_key)).expect("there is one");
    for (broker, ca, says) in [
        (&broker, Some(&own), "2."),
        (&broker, None, "a certificate that is not believed"),
        (&broker, Some(&other), "a certificate that is not believed"),
        // Its certificate is that of another host.
        (&elsewhere, Some(&other), "a certificate that is not believed"),
    ] {
        let said = first(BusConfig { ca: ca.cloned(), ..broker.config("fra") });
        assert!(said.contains(says) && said.len() < 300, "{ca:?}: {said}");
    }
}

#[test]
fn a_broker_without_jetstream_a_full_one_and_a_slow_one_are_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let keys = |broker: &Broker| {
        let mut config = broker.config("hub");
        config.subscriptions.keys = true;
        config
    };
    let Some(without) = Broker::begin(&folder.path().join("without"), "") else { return };
    let mut bus = Bus::start(keys(&without)).expect("a thread");
    let why = until(&mut bus, |event| match event {
        BusEvent::Lost { why } => Some(why),
        _ => None,
    });
    assert!(why.contains("runs without JetStream"), "{why}");
    let place = folder.path().join("full");
    let small = format!("jetstream {{ store_dir: {:?}, max_file_store: 4096 }}", place.join("js"));
    let full = Broker::begin(&place, &small).expect("there is one");
    let mut bus = Bus::start(keys(&full)).expect("a thread");
    until(&mut bus, |event| matches!(event, BusEvent::AllKeys).then_some(()));
    // The one that fills it is taken.
    bus.put("fra", Some(vec![b'x'; 8192]), 0);
    bus.put("ams", Some(vec![b'x'; 8192]), 0);
    let why = until(&mut bus, |event| match event {
        BusEvent::Written { result, .. } => result.err(),
        _ => None,
    });
    assert!(why.starts_with("JetStream refuses: "), "{why}");
    // It takes connections, and says nothing.
    kill(Pid::from_raw(full.pid() as i32), Signal::SIGSTOP).expect("it runs");
    let why = first(full.config("fra"));
    assert!(why.ends_with("does not answer within 5 s"), "{why}");
}

#[test]
fn a_full_disk_of_the_collector_loses_nothing_and_one_of_an_agent_is_counted() {
    let run = |is_agents: bool| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let Some(broker) = Broker::start(folder.path(), "") else { return };
        let small = folder.path().join("small");
        let Some(_disk) = small_disk(&small, 1 << 20) else { return };
        let (mesh, journal) = match is_agents {
            true => (folder.path().join("mesh"), small.join("journal")),
            false => (small.join("mesh"), folder.path().join("journal")),
        };
        let interval = Span::from_millis(20);
        apply(broker.config("hub"), &[plan("fra", 1, vec![ping("ams", interval)])]);
        let mut collector = Daemon::collector(broker.config("collector"), &mesh);
        let mut agent = Daemon::agent("fra", broker.config("fra"), &journal);
        let stored = |count| until_stored(broker.config("looker"), "fra", count);
        stored(50);
        let ballast = small.join("ballast");
        fill(&ballast);
        let full_ns = monotonic_ns();
        if is_agents { &agent } else { &collector }.until_has("No space left on device");
        assert!(monotonic_ns() - full_ns < PATIENCE_NS);
        std::fs::remove_file(&ballast).expect("it is ours");
        // What is behind it is measured after that.
        let passed = (monotonic_ns() - full_ns) / interval.nanos();
        stored(50 + passed + 100);
        agent.end();
        let next = Journal::open(&journal, 1 << 20).expect("its own").next();
        until_status(broker.config("looker"), |status| status.agents[0].stored >= next);
        collector.end();
        let samples = packets(&mesh).into_values().next().expect("a pair");
        let times: std::collections::BTreeSet<i64> = samples.iter().map(|s| s.t_ns).collect();
        assert_eq!(times.len(), samples.len(), "none is there twice");
        let ended = samples.len() as u64 + slots(&mesh).iter().map(|(_, n)| n).sum::<u64>();
        let span = times.last().unwrap() - times.first().unwrap();
        let planned = (span as f64 / interval.nanos() as f64).round() as u64 + 1;
        if is_agents {
            assert!(!dropped(&mesh).is_empty(), "what found no room is counted");
        }
        assert!(ended >= planned, "each slot has an end: {ended} of {planned}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| run(false));
        scope.spawn(|| run(true));
    });
}

#[test]
fn a_hostile_agents_names_lengths_and_bytes_are_refused_with_a_sentence() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut collector = Collector::new(MeshFolder::open(folder.path()).expect("a folder"));
    collector.all_keys();
    let report = first_report();
    let with = |frames: &[u8]| report.with(frames).expect("a report");
    let record = |peer: &str, class: &str| {
        let kind = RecordKind::Slots { wall_ns: 0, count: 1, end: SlotEnd::Ok };
        let record = Record { number: 0, peer: peer.into(), class: class.into(), kind };
        with(&frame::encode(&record).expect("a frame"))
    };
    // A frame of 1 GB, as its head says; and one whose text does.
    let endless = with(&[0, 0, 0, 0x40, 0, 0, 0, 0]);
    let mut text = frame::encode(&(0_u64, u64::from(u32::MAX))).expect("a frame");
    text.extend([0; 64]);
    let (from, own) = ("quell.from.fra", record("ams", "voice"));
    for (subject, message, why) in [
        (from, record("../../etc", "voice"), "is no name"),
        (from, record("ams", "a/b"), "is no name"),
        (from, endless, "a frame of 1073741824 bytes can't be"),
        (from, with(&text), "can't be read"),
        (from, b"nonsense, and more of it".to_vec(), "can't be"),
        (from, own[..own.len() - 1].to_vec(), "it is cut"),
        ("quell.from.../../etc", own.clone(), "the name is none"),
        (from, report_of(&report, 9), "it speaks format 9, and the collector 1"),
    ] {
        let said = match collector.heard(subject, &message, 0, 0) {
            Err(why) => why,
            Ok(answer) => {
                let answer = read_answer(&answer.expect("an answer").payload).expect("it is ours");
                answer.refused.expect("it is refused")
            }
        };
        assert!(said.contains(why) && said.len() < 300, "{why}: {said}");
    }
    assert_eq!(collector.status(0).agents[0].stored, 0, "nothing of it is kept");
}

fn first_report() -> AgentReport {
    AgentReport {
        format: 1,
        run: 1,
        journal: 1,
        host: "here".into(),
        version: "0".into(),
        asked_ns: 0,
        leaves: false,
        plan: None,
        trouble: None,
        after: None,
    }
}

/// An agent's first message, with these records.
fn told(records: &[Record]) -> Vec<u8> {
    let frames = records.iter().flat_map(|record| frame::encode(record).expect("a frame"));
    first_report().with(&frames.collect::<Vec<u8>>()).expect("a report")
}

#[test]
fn an_agent_whose_clock_is_ahead_moves_no_time_but_its_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut collector = Collector::new(MeshFolder::open(folder.path()).expect("a folder"));
    collector.all_keys();
    let now_ns = 30_000_000 * MINUTE_NS;
    for (agent, wall_ns) in [("fra", now_ns - MINUTE_NS), ("ams", now_ns + 2 * HOUR_NS)] {
        let lost = vec![EchoSample::new(wall_ns, 0, 64, EchoStatus::LostUp)];
        let (peer, class) = ("nyc".into(), "voice".into());
        let record = Record { number: 0, peer, class, kind: RecordKind::Packets(lost) };
        let subject = format!("quell.from.{agent}");
        collector.heard(&subject, &told(&[record]), 0, now_ns).expect("it is an agent's");
    }
    let status = collector.status(0);
    let trouble: Vec<_> = status.agents.iter().map(|one| one.trouble.as_deref()).collect();
    assert_eq!(trouble, [Some("its clock is 7200 s ahead of the collector's"), None]);
    // In the journal, in tables, and of a collector that began anew.
    for _ in 0..3 {
        let mesh = MeshHistory::latest(folder.path(), 5 * MINUTE_NS).expect("a folder");
        let mesh = mesh.expect("something came");
        assert_eq!((mesh.to_ns, mesh.pairs.len()), (now_ns, 1));
        collector.seal();
        drop(collector);
        collector = Collector::new(MeshFolder::open(folder.path()).expect("a folder"));
    }
}

#[test]
fn pairs_that_an_agent_invents_are_refused_and_its_journal_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut collector = Collector::new(MeshFolder::open(folder.path()).expect("a folder"));
    collector.all_keys();
    let record = |(number, peer)| {
        let kind = RecordKind::Slots { wall_ns: 0, count: 1, end: SlotEnd::Ok };
        Record { number, peer, class: "voice".into(), kind }
    };
    let invented = (0..12_000).map(|n| format!("p{n}"));
    let peers = invented.chain(["p0".into(), "p12001".into()]);
    let records: Vec<Record> = (0..).zip(peers).map(record).collect();
    let answer = collector.heard("quell.from.fra", &told(&records), 0, 0).expect("an agent's");
    let answer = read_answer(&answer.expect("an answer").payload).expect("it is ours");
    assert_eq!((answer.received, answer.refused), (12_002, None));
    let status = &collector.status(0).agents[0];
    assert_eq!(status.slots.ok, 10_001);
    let trouble = status.trouble.as_deref();
    assert_eq!(trouble, Some("2001 records refused: it has more than 10000 peers and classes"));
    let reader = MeshReader::open(folder.path()).expect("a folder");
    let stored = reader.rows::<SlotCount>(&Select::times(i64::MIN, i64::MAX)).expect("rows");
    assert_eq!(stored.len(), 10_001);
}

fn report_of(report: &AgentReport, format: u32) -> Vec<u8> {
    AgentReport { format, ..report.clone() }.with(&[]).expect("a report")
}

#[test]
fn a_plan_of_another_version_or_agent_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let journal = Journal::open(folder.path(), 1 << 20).expect("it is new");
    let mut courier = Courier::new("fra", "here", journal, 1, 1);
    let plan = |format: u32, agent: &str| AgentPlan { format, ..plan(agent, 1, Vec::new()) };
    let text = |plan: &AgentPlan| serde_json::to_vec(plan).expect("JSON");
    for (plan, why) in [
        (text(&plan(1, "fra")), ""),
        (text(&plan(9, "fra")), "the plan has format 9, and this Quell carries out 1; install"),
        // Its other fields may be anything.
        (br#"{"format": 9, "probes": 7}"#.to_vec(), "the plan has format 9"),
        (text(&plan(1, "ams")), "the plan is that of agent `ams`"),
        (b"\xff\xfe".to_vec(), "the plan can't be read"),
    ] {
        let told = courier.take_plan(&plan, &|_| Vec::new()).err().unwrap_or_default();
        assert!(told.contains(why) && told.is_empty() == why.is_empty(), "{why}: {told}");
    }
}

/// A plan that is not carried out comes in each answer; it is read once, and the agent reports at its beat.
#[test]
fn a_plan_that_cant_be_read_makes_no_agent_report_without_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let journal = Journal::open(folder.path(), 1 << 20).expect("it is new");
    let mut courier = Courier::new("fra", "here", journal, 1, 1);
    let answer = CollectorAnswer {
        format: 1,
        run: 1,
        asked_ns: Some(0),
        received: 0,
        stored: 0,
        plan: Some(7),
        text: Some(b"nonsense".to_vec()),
        refused: None,
    };
    let news = courier.heard(&answer, 1).expect("a journal");
    assert_eq!(news, CourierNews::Plan(b"nonsense".to_vec()));
    courier.take_plan(b"nonsense", &|_| Vec::new()).expect_err("it is no plan");
    assert_eq!(courier.due_ns(), 0, "what is wrong is told at once");
    courier.report(2, false).expect("a journal");
    assert_eq!(courier.heard(&answer, 3).expect("a journal"), CourierNews::Nothing);
    assert!(courier.due_ns() > 1_000_000_000, "and then at the beat");
}
