//! Agents that measure paths, pages and bulk tests: each by a child of this program, against a real server.

use crate::broker::{Broker, Daemon, apply, until_slots};
use crate::server::Served;
use crate::support::{TestFolder, says};
use quell_mesh::folder::{BulkResult, MeshReader, Select, SlotCount};
use quell_mesh::{AgentPlan, PathHop, PlannedProbe, ProbeKind, SlotEnd};
use quell_units::Span;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::process::Stdio;

fn plan(agent: &str, kind: ProbeKind, to: String, seconds: u64) -> AgentPlan {
    let (class, peer) = ("test".into(), "peer".into());
    let (interval, offset) = (Span::from_secs(seconds), Span::ZERO);
    let probes = vec![PlannedProbe { class, peer, to, kind, interval, offset }];
    AgentPlan { format: 1, agent: agent.into(), revision: 1, lease: Span::from_secs(30), probes }
}

#[test]
fn paths_pages_flows_and_rpm_become_rows_and_what_fails_says_why() {
    let dir = TestFolder::new();
    let Some(broker) = Broker::start(&dir.path(""), "") else { return };
    let server = Served::new(&["--web"]);
    let (at, here) = (server.at.to_string(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    let flow = ProbeKind::Flow { duration: Span::from_secs(1), down: true, rate: Some(20_000_000) };
    let nobody = "127.0.0.1:1".to_owned();
    let has_browser = quell_page::browser::find(None).is_ok();
    let plans = [
        plan("flow", flow.clone(), at.clone(), 4),
        plan("rpm", ProbeKind::Rpm { duration: Span::from_secs(8) }, at.clone(), 15),
        plan("page", ProbeKind::Page, format!("http://{at}/"), 8),
        plan("path", ProbeKind::Path, here.to_string(), 2),
        plan("nobody", flow, nobody, 2),
    ];
    apply(broker.config("hub"), &plans);
    let mesh = dir.path("mesh");
    let mut collector = Daemon::collector(broker.config("collector"), &mesh);
    let start = |plan: &AgentPlan| {
        let program = env!("CARGO_BIN_EXE_quell");
        let bus = broker.config(&plan.agent);
        Daemon::agent_with(&plan.agent, bus, &dir.path(&format!("{}.d", plan.agent)), program)
    };
    let mut agents: Vec<Daemon> = plans.iter().map(start).collect();
    for plan in &plans {
        let is_fine = plan.agent != "nobody" && (plan.agent != "page" || has_browser);
        until_slots(broker.config("looker"), &plan.agent, |slots| match is_fine {
            true => slots.ok > 0,
            false => slots.failed > 0,
        });
    }
    agents.iter_mut().for_each(Daemon::end);
    collector.end();
    let reader = MeshReader::open(&mesh).expect("a collector made it");
    let all = Select::times(i64::MIN, i64::MAX);
    let bulk = reader.rows::<BulkResult>(&all).expect("it can be read");
    let of = |agent: &str| {
        bulk.iter().find(|row| *row.pair.agent == *agent).map(|row| (row.wall_ns, &row.what))
    };
    let (_, flow) = of("flow").expect("there is a flow");
    let rate = flow.bytes.unwrap() as f64 * 8e9 / flow.duration_ns.unwrap() as f64;
    assert!((rate / 20e6 - 1.0).abs() < 0.2 && flow.down == Some(true), "{flow:?}");
    let (wall_ns, rpm) = of("rpm").expect("there is a responsiveness");
    assert!(rpm.down_rpm > Some(100) && rpm.up_rpm > Some(100), "{rpm:?}");
    let late_ns = wall_ns.rem_euclid(15_000_000_000);
    assert!(late_ns < 2_000_000_000, "a bulk test begins when it is due: {late_ns}");
    if has_browser {
        let (_, page) = of("page").expect("a page was loaded");
        assert!(page.bytes > Some(10_000) && page.duration_ns > Some(0), "{page:?}");
    }
    let paths = reader.rows::<Vec<PathHop>>(&all).expect("it can be read");
    let [PathHop { address, rtt_ns: Some(1..) }] = &paths[0].what[..] else {
        panic!("one hop: {paths:?}")
    };
    assert_eq!(*address, Some(here));
    let slots = reader.rows::<SlotCount>(&all).expect("it can be read");
    let why = slots.iter().find_map(|row| match &row.what.end {
        SlotEnd::Failed(why) if *row.pair.agent == *"nobody" => Some(why.as_str()),
        _ => None,
    });
    says(why.expect("it failed"), &["nobody listens at 127.0.0.1:1"]);
}

/// A broker that is no friend.
#[test]
fn what_a_broker_says_is_shown_without_its_escapes() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let bus = format!("nats://{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let info =
                "INFO {\"server_id\":\"x\",\"version\":\"2.9.0\",\"max_payload\":1048576}\r\n";
            let _ = client.write_all(info.as_bytes());
            let hello =
                BufReader::new(client.try_clone().expect("it")).lines().map_while(Result::ok);
            // With its ping the client has said all that it begins with.
            if hello.into_iter().any(|line| line.starts_with("PING")) {
                let _ = client.write_all(b"-ERR '\x1b]0;PWN\x07'\r\n");
            }
        }
    });
    let dir = TestFolder::new();
    let mut command = dir.command(&["mesh", "collect", "--bus", &bus, "--out", "mesh"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let said = BufReader::new(child.stdout.take().expect("it is piped"));
    let line = said.lines().map_while(Result::ok).find(|line| line.contains("PWN"));
    let _ = child.kill();
    let _ = child.wait();
    let line = line.expect("it says what the broker said");
    assert!(!line.contains(['\x1b', '\x07']), "{line:?}");
}

/// With an agent's credentials one hears nothing of the others.
#[test]
fn a_status_that_the_broker_forbids_is_no_silent_collector() {
    let dir = TestFolder::new();
    dir.quell(&["mesh", "init"]).fine();
    dir.quell(&["mesh", "rights", "mesh.toml"]).fine();
    let users = std::fs::read_to_string(dir.path("mesh/users.conf")).expect("it is made");
    let users = format!("authorization {{ {users} }}");
    let Some(broker) = Broker::start(&dir.path(""), &users) else { return };
    let bus = format!("nats://127.0.0.1:{}", broker.port);
    let status = |of: &str| {
        let file = format!("mesh/{of}.credentials");
        dir.quell(&["mesh", "status", "--bus", &bus, "--credentials", &file])
    };
    says(&status("fra").refused(3), &["these credentials may not ask the collector"]);
    says(&status("hub").refused(1), &["No collector answers"]);
}
