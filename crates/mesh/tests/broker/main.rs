//! A mesh on a real nats-server, on loopback.

mod bad_days;
mod kills;
mod support;

#[path = "../../../quell/tests/support/left_out.rs"]
mod left_out;

use kills::MeshProcess;
use quell_bus::{BUCKET, Bus, BusConfig, BusCredentials, BusEvent, new_nkey};
use quell_mesh::folder::FolderCopy;
use quell_mesh::messages::{AgentReport, FORMAT, STATUS, read_answer, to_agent};
use quell_mesh::rights::users;
use quell_mesh::{ALL_PLANS, AgentPlan, Journal, PlannedProbe, ProbeKind};
use quell_metrics::MetricsEndpoint;
use quell_sys::clock::monotonic_ns;
use quell_sys::wall::realtime_ns;
use quell_units::{Span, Tos};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use support::*;

const LEASE: Span = Span::from_secs(2);

fn plan(agent: &str, revision: u64, probes: Vec<PlannedProbe>) -> AgentPlan {
    AgentPlan { format: 1, agent: agent.into(), revision, lease: LEASE, probes }
}

fn ping(peer: &str, interval: Span) -> PlannedProbe {
    PlannedProbe {
        class: "voice".into(),
        peer: peer.into(),
        to: "127.0.0.1".into(),
        kind: ProbeKind::Icmp { size: 56, tos: Tos::from_byte(0) },
        interval,
        offset: Span::from_millis(7),
    }
}

/// The collector goes; the agent falls silent within one lease, keeps what it has, and each planned slot has one end when both are there again.
#[test]
fn without_a_collector_an_agent_is_silent_within_a_lease_and_each_slot_has_one_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(mut broker) = Broker::start(folder.path(), "") else { return };
    let interval = Span::from_millis(50);
    apply(broker.config("hub"), &[plan("fra", 1, vec![ping("ams", interval)])]);
    let mesh = folder.path().join("mesh");
    let mut collector = Daemon::collector(broker.config("collector"), &mesh);
    let mut agent = Daemon::agent("fra", broker.config("fra"), &folder.path().join("journal"));
    agent.until("measures");
    until_stored(broker.config("looker"), "fra", 20);
    collector.end();
    let gone_ns = monotonic_ns();
    agent.until("silent");
    let silent_ns = monotonic_ns() - gone_ns;
    // When it looked at its clock and when we heard of it are not the same.
    assert!(silent_ns < LEASE.nanos() + 500_000_000, "{silent_ns} ns");
    broker.kill(true);
    broker.again();
    let web = MetricsEndpoint::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let at = web.local();
    let mut collector = Daemon::collector_with(broker.config("collector"), &mesh, None, Some(web));
    agent.until("measures");
    until_stored(broker.config("looker"), "fra", 100);
    let page = get(at, "/");
    assert!(page.contains("<h1>Mesh of 2 agents</h1>"), "what the first collector stored: {page}");
    assert!(page.contains("setInterval"), "it follows what comes");
    let metrics = get(at, "/metrics");
    assert!(metrics.contains("quell_mesh_agent_up{agent=\"fra\"} 1"), "{metrics}");
    assert!(get(at, "/other").starts_with("HTTP/1.1 404"), "and nothing else");
    agent.end();
    collector.end();
    each_slot_ended_once(&mesh, interval);
}

/// How far the clock of an agent is set back, in seconds.
static SET_BACK_S: AtomicU64 = AtomicU64::new(0);

#[test]
fn a_clock_that_is_set_back_an_hour_loses_no_slot_and_has_none_twice() {
    const HOUR_S: u64 = 3600;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(broker) = Broker::start(folder.path(), "") else { return };
    let interval = Span::from_millis(20);
    apply(broker.config("hub"), &[plan("fra", 1, vec![ping("ams", interval)])]);
    let mesh = folder.path().join("mesh");
    let mut collector = Daemon::collector(broker.config("collector"), &mesh);
    let wall = || realtime_ns() - SET_BACK_S.load(Ordering::Relaxed) * 1_000_000_000;
    let journal = folder.path().join("journal");
    let mut agent = Daemon::agent_by("fra", broker.config("fra"), &journal, wall);
    until_stored(broker.config("looker"), "fra", 50);
    SET_BACK_S.store(HOUR_S, Ordering::Relaxed);
    let set_ns = wall() as i64;
    until_slots(broker.config("looker"), "fra", |slots| slots.ok >= 200);
    agent.end();
    let next = Journal::open(&journal, 1 << 20).expect("its own").next();
    until_status(broker.config("looker"), |status| status.agents[0].stored >= next);
    collector.end();
    let samples = packets(&mesh).into_values().next().expect("a pair");
    // Each hour by itself: in the one that came again, slots are others than before.
    let half_hour_ns = HOUR_S as i64 * 500_000_000;
    for is_before in [true, false] {
        let is_its = |ns: &i64| (*ns > set_ns + half_hour_ns) == is_before;
        let times: BTreeSet<i64> = samples.iter().map(|s| s.t_ns).filter(is_its).collect();
        let others = slots(&mesh).into_iter().filter(|(ns, _)| is_its(ns));
        let ended = times.len() as i64 + others.map(|(_, count)| count as i64).sum::<i64>();
        let span = times.last().expect("packets") - times.first().expect("packets");
        let planned = (span as f64 / interval.nanos() as f64).round() as i64 + 1;
        // The first and the last ones may be such that nothing was sent.
        assert!((planned..planned + 5).contains(&ended), "{ended} of {planned}, {is_before}");
    }
    let (sent, distinct) = (samples.len(), samples.iter().map(|s| s.t_ns).collect::<BTreeSet<_>>());
    assert_eq!(sent, distinct.len(), "none is there twice");
}

/// That an agent's slots have each one end.
fn each_slot_ended_once(mesh: &Path, interval: Span) {
    let all = packets(mesh);
    let [(pair, samples)] = &all.into_iter().collect::<Vec<_>>()[..] else { panic!("one pair") };
    assert_eq!((&*pair.agent, &*pair.peer, &*pair.class), ("fra", "ams", "voice"));
    let mut times: Vec<i64> = samples.iter().map(|sample| sample.t_ns).collect();
    times.dedup();
    assert_eq!(times.len(), samples.len(), "none is there twice");
    let (each_ns, others) = (interval.nanos() as i64, slots(mesh));
    let last = |(wall_ns, count): &(i64, u64)| wall_ns + (*count as i64 - 1) * each_ns;
    times.extend(others.iter().flat_map(|other| [other.0, last(other)]));
    let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    let planned = (last - first + each_ns / 2) / each_ns + 1;
    let ended = samples.len() as i64 + others.iter().map(|(_, count)| *count as i64).sum::<i64>();
    // A packet goes when it is due or, on a busy machine, later: at both ends one may seem to be missing.
    assert!((planned..planned + 3).contains(&ended), "{ended} of {planned}: {others:?}");
}

/// A collector's disk is gone, thrice; what it acknowledged is in the copy, and what it did not, the agent still has. The program that copies is found
/// with these variables, and brings the copy to the folder at the end.
fn its_disk_is_gone_thrice(copy: &str, environment: &[(&str, String)], fetch: &mut Command) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(broker) = Broker::start(folder.path(), "") else { return };
    let interval = Span::from_millis(20);
    apply(broker.config("hub"), &[plan("fra", 1, vec![ping("ams", interval)])]);
    let mut agent = Daemon::agent("fra", broker.config("fra"), &folder.path().join("journal"));
    for life in 0..4 {
        let disk = folder.path().join(format!("life-{life}"));
        let role = format!("collector {} {} {copy}", broker.port, disk.display());
        let mut collector = MeshProcess::start_in(role, environment);
        until_stored(broker.config("looker"), "fra", 60);
        if life == 3 {
            agent.end();
        }
        collector.end();
        // Also what it had and never copied.
        std::fs::remove_dir_all(&disk).expect("its disk");
    }
    let there = folder.path().join("there");
    let fetched = fetch.arg(&there).envs(environment.iter().cloned()).status();
    assert!(fetched.expect("it starts").success());
    each_slot_ended_once(&there, interval);
}

#[test]
fn a_collector_that_dies_with_its_disk_loses_nothing_and_doubles_nothing() {
    if Command::new("rsync").arg("--version").stdout(Stdio::null()).status().is_err() {
        return left_out::for_want_of("rsync");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = folder.path().join("copies/mesh");
    let to = copy.display().to_string();
    its_disk_is_gone_thrice(&to, &[], Command::new("cp").arg("-r").arg(&copy));
    // One whose disk comes back, and lacks what another one stored meanwhile.
    let mesh = folder.path().join("mesh");
    std::fs::create_dir_all(mesh.join("journal")).expect("a folder");
    std::fs::write(mesh.join("journal/000000001.frames"), "").expect("a part");
    let why = FolderCopy::open(&mesh, &to).err().expect("it is behind").to_string();
    assert!(why.contains("has what") && why.contains("give an empty folder"), "{why}");
}

/// More plans than a client takes at once; then a broker that lost its disk again while it got them.
#[test]
fn a_broker_that_lost_its_disk_gets_all_plans_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(mut broker) = Broker::start(folder.path(), "") else { return };
    let plans: Vec<AgentPlan> = (0..3000).map(|at| plan(&format!("a{at}"), 7, vec![])).collect();
    apply(broker.config("hub"), &plans);
    let mesh = folder.path().join("mesh");
    for part in [&plans[..0], &plans[..1], &plans[300..]] {
        let mut collector = Daemon::collector(broker.config("collector"), &mesh);
        assert_eq!(plans_of(&broker), plans.len());
        collector.end();
        broker.kill(true);
        broker.again();
        apply(broker.config("early"), part);
    }
}

#[test]
fn so_does_one_that_lost_its_bucket_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let user = "authorization { users = [ { user: hub, password: secret } ] }";
    let Some(broker) = Broker::start(folder.path(), user) else { return };
    let (name, password) = ("hub".to_owned(), "secret".to_owned());
    let who = BusCredentials::Password { user: name, password };
    let config = |name| config_of(broker.port, name, &who);
    apply(config("hub"), &[plan("fra", 1, Vec::new())]);
    let mut collector = Daemon::collector(config("collector"), &folder.path().join("mesh"));
    until_status(config("looker"), |status| status.agents.len() == 1);
    let mut raw = RawClient::login(broker.port, "hub", "secret");
    raw.says(format!("PUB $JS.API.STREAM.DELETE.KV_{BUCKET} 0\r\n\r\n").as_bytes());
    collector.until_has("broke");
    collector.until("connected");
    let mut looker = config("looker");
    looker.subscriptions.keys = true;
    let mut looker = Bus::start(looker).expect("a thread");
    until(&mut looker, |event| match event {
        BusEvent::Key { key, .. } => (key == "fra").then_some(()),
        _ => None,
    });
    collector.end();
}

/// How many plans a broker has when it has all.
fn plans_of(broker: &Broker) -> usize {
    let mut config = broker.config("looker");
    config.subscriptions.keys = true;
    let mut bus = Bus::start(config).expect("a thread");
    let mut plans = 0;
    until(&mut bus, |event| match event {
        BusEvent::Key { key, .. } if key == ALL_PLANS => Some(()),
        BusEvent::Key { .. } => {
            plans += 1;
            None
        }
        _ => None,
    });
    plans
}

/// Where `rclone` is found, and what it needs to know of a remote place `far`.
fn rclone(remote: &[(&'static str, String)]) -> Option<(PathBuf, Vec<(&'static str, String)>)> {
    let program = unpacked("usr/bin/rclone")?;
    let path = program.parent().expect("a folder").display();
    let own = [
        ("PATH", format!("{path}:/usr/bin:/bin")),
        ("RCLONE_CONFIG", "/dev/null".to_owned()),
        ("AWS_CA_BUNDLE", String::new()),
    ];
    Some((program, own.into_iter().chain(remote.iter().cloned()).collect()))
}

#[test]
fn so_does_one_whose_copy_rclone_carries() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let to = folder.path().join("mesh").display().to_string();
    let remote = [("RCLONE_CONFIG_FAR_TYPE", "local".to_owned())];
    let Some((program, environment)) = rclone(&remote) else { return };
    let from = format!("far:{to}");
    its_disk_is_gone_thrice(
        &format!("rclone:{from}"),
        &environment,
        Command::new(program).args(["copy", &from]),
    );
}

/// `make test-long` installs moto, an S3 server in Python.
#[test]
#[ignore = "needs moto"]
fn so_does_one_whose_copy_is_in_s3() {
    let python = std::env::var("QUELL_TEST_MOTO").unwrap_or("python3".into());
    let serve = "from moto.server import ThreadedMotoServer\ns = ThreadedMotoServer(ip_address='127.0.0.1', port=0)\ns.start()\n\
                 print(s.get_host_and_port()[1], flush=True)\ninput()";
    let mut server = Command::new(python);
    server.args(["-c", serve]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = server.spawn().expect("python starts");
    let said = BufReader::new(server.stdout.take().expect("it is piped")).lines();
    let port: Option<u16> = said.map_while(Result::ok).find_map(|line| line.parse().ok());
    let port = port.expect("moto says its port");
    let remote = [
        ("RCLONE_CONFIG_FAR_TYPE", "s3".to_owned()),
        ("RCLONE_CONFIG_FAR_PROVIDER", "Other".to_owned()),
        ("RCLONE_CONFIG_FAR_ENDPOINT", format!("http://127.0.0.1:{port}")),
        ("RCLONE_CONFIG_FAR_ACCESS_KEY_ID", "any".to_owned()),
        ("RCLONE_CONFIG_FAR_SECRET_ACCESS_KEY", "any".to_owned()),
    ];
    if let Some((program, environment)) = rclone(&remote) {
        let mut fetch = Command::new(program);
        fetch.args(["copy", "far:meshes/one"]);
        its_disk_is_gone_thrice("rclone:far:meshes/one", &environment, &mut fetch);
    }
    // It ends when nobody speaks to it any more.
    drop(server.stdin.take());
    let _ = server.wait();
}

#[test]
fn the_second_agent_of_a_name_refuses_and_names_the_first() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(broker) = Broker::start(folder.path(), "") else { return };
    apply(broker.config("hub"), &[plan("fra", 1, vec![ping("ams", Span::from_millis(100))])]);
    let mut collector = Daemon::collector(broker.config("collector"), &folder.path().join("mesh"));
    let mut first = Daemon::agent("fra", broker.config("fra"), &folder.path().join("a"));
    first.until("measures");
    let mut second = Daemon::agent("fra", broker.config("fra-2"), &folder.path().join("b"));
    let why = second.ended().expect_err("the name is taken");
    assert!(why.contains("agent `fra` is at work on host here"), "{why}");
    let mut same = Daemon::agent("fra", broker.config("fra-3"), &folder.path().join("a"));
    let why = same.ended().expect_err("the journal is taken");
    assert!(why.contains("another agent has the journal"), "{why}");
    first.end();
    collector.end();
}

#[test]
fn a_hostile_agent_writes_no_others_rows_hears_no_others_plan_and_deletes_none() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let key = || new_nkey().expect("a key");
    let ((hub_key, hub_name), (fra, fra_name), (stranger, _)) = (key(), key(), key());
    let names = [("fra".to_owned(), fra_name), ("collector".to_owned(), "ITS".to_owned())];
    let users = users(&hub_name, &names);
    // One that speaks NATS by itself proves itself more easily with a password.
    let users = users.replace("nkey: ITS", "user: collector, password: secret");
    let users = format!("authorization {{ {users} }}");
    let Some(broker) = Broker::start(folder.path(), &users) else { return };
    let as_hub = || config_of(broker.port, "hub", &hub_key);
    let probes = || vec![ping("home", Span::from_millis(100))];
    apply(as_hub(), &[plan("fra", 1, probes()), plan("collector", 1, probes())]);
    let mut collector = Daemon::collector(as_hub(), &folder.path().join("mesh"));
    let fra_config = config_of(broker.port, "fra", &fra);
    let mut agent = Daemon::agent("fra", fra_config, &folder.path().join("journal"));
    agent.until("measures");
    let mut hub = as_hub();
    (hub.subscriptions.subjects, hub.subscriptions.keys) = (vec![to_agent("*")], true);
    let mut hub = Bus::start(hub).expect("a thread");
    // The broker has answered on this connection: it has taken the subscription before.
    until(&mut hub, |event| matches!(event, BusEvent::AllKeys).then_some(()));
    let mut hostile = RawClient::login(broker.port, "collector", "secret");
    let own_key = format!("$JS.API.DIRECT.GET.KV_{BUCKET}.$KV.{BUCKET}.collector");
    let delete = format!("$JS.API.STREAM.DELETE.KV_{BUCKET}");
    for forbidden in [
        "PUB quell.from.fra 0\r\n".to_owned(),
        format!("PUB {own_key} {delete} 0\r\n"),
        format!("PUB {own_key} quell.from.fra 0\r\n"),
        format!("PUB {STATUS} quell.to.fra 0\r\n"),
        "SUB quell.to.fra 1\r\n".to_owned(),
        "SUB _INBOX.hub.> 1\r\n".to_owned(),
        "SUB _INBOX.collector.> 1\r\n".to_owned(),
    ] {
        let end = if forbidden.starts_with("PUB") { "\r\n" } else { "" };
        let said = hostile.says(format!("{forbidden}{end}").as_bytes());
        assert!(said.contains("Permissions Violation"), "{forbidden}: {said}");
    }
    // A report of its own, to be answered on another's subject or by the broker.
    for (run, reply) in [(71, "quell.to.fra"), (72, &delete)] {
        let report = report_of_run(run);
        let mut publish =
            format!("PUB quell.from.collector {reply} {}\r\n", report.len()).into_bytes();
        publish.extend([&report[..], b"\r\n"].concat());
        hostile.says(&publish);
        let (subject, answer) = until(&mut hub, |event| match event {
            BusEvent::Message { subject, payload, .. } => {
                read_answer(&payload).ok().filter(|a| a.run == run).map(|a| (subject, a))
            }
            _ => None,
        });
        assert_eq!(subject, to_agent("collector"));
        let text = answer.text.expect("it has no plan yet");
        assert!(String::from_utf8_lossy(&text).contains("\"agent\":\"collector\""), "{text:?}");
    }
    assert_eq!(keys_of(as_hub()), [ALL_PLANS, "collector", "fra"], "all is there");
    let mut stranger = Bus::start(config_of(broker.port, "fra", &stranger)).expect("a thread");
    let why = until(&mut stranger, |event| match event {
        BusEvent::Refused { why } => Some(why),
        _ => None,
    });
    assert!(why.contains("refuses this nkey"), "{why}");
    agent.end();
    collector.end();
}

/// What keys a broker has.
fn keys_of(mut config: BusConfig) -> Vec<String> {
    config.subscriptions.keys = true;
    let mut bus = Bus::start(config).expect("a thread");
    let mut keys = BTreeSet::new();
    until(&mut bus, |event| match event {
        BusEvent::Key { key, .. } => {
            keys.insert(key);
            None
        }
        BusEvent::AllKeys => Some(()),
        _ => None,
    });
    keys.into_iter().collect()
}

fn report_of_run(run: u64) -> Vec<u8> {
    let report = AgentReport {
        format: FORMAT,
        run,
        journal: 1,
        host: "there".into(),
        version: "0".into(),
        asked_ns: 0,
        leaves: false,
        plan: None,
        trouble: None,
        after: None,
    };
    report.with(&[]).expect("a report")
}

#[test]
fn a_broker_that_will_not_do_is_named_with_the_reason() {
    let refused = |config| {
        let mut bus = Bus::start(config).expect("a thread");
        until(&mut bus, |event| match event {
            BusEvent::Refused { why } | BusEvent::Lost { why } => Some(why),
            _ => None,
        })
    };
    // One that answers as an old server, one that is none, and nobody.
    let info = "INFO {\"server_id\":\"x\",\"version\":\"2.8.4\",\"go\":\"\",\"host\":\"\",\"port\":1,\"max_payload\":1048576,\"proto\":1,\"headers\":true}\r\nPONG\r\n";
    for (said, part) in
        [(info, "2.9 is the oldest"), ("SSH-2.0-OpenSSH_9.2\r\n", "127.0.0.1"), ("", "127.0.0.1")]
    {
        let port = says(said);
        let why = refused(config(port, "fra"));
        assert!(why.contains(part) && why.len() < 250, "{why}");
    }
}
