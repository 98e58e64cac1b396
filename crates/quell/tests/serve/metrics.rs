//! Metrics of a server, of a ping and of a mesh's collector, checked by `promtool` and scraped by a real Prometheus.
//!
//! ```text
//!   quell ping ──► quell serve ◄── agent ──► nats-server ──► collector
//!       ▲               ▲                                        ▲       GET /metrics
//!      relay          relay ──► the test hears of each scrape ◄─ relay
//!       └────────── Prometheus ──────────────────────────────────┘ ◄── queries of the dashboard
//! ```

use crate::broker::{Broker, Daemon, apply};
use crate::server::{NEVER, Served};
use crate::support::{left_out, program};
use quell_mesh::{AgentPlan, PlannedProbe, ProbeKind};
use quell_metrics::MetricsEndpoint;
use quell_units::{Span, Tos};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// A program that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Waits for these words of its standard error, one behind the other; what stands behind the first.
    fn until(&mut self, words: &[&str]) -> String {
        let error = BufReader::new(self.0.stderr.take().expect("it is piped"));
        let mut lines = error.lines().map_while(Result::ok);
        let mut find = |word: &&str| {
            let found = lines.find_map(|l| l.split_once(word).map(|(_, rest)| rest.to_owned()));
            found.unwrap_or_else(|| panic!("it never said `{word}`"))
        };
        let found: Vec<String> = words.iter().map(&mut find).collect();
        // What it says later shall find a reader.
        std::thread::spawn(move || lines.for_each(drop));
        found[0].clone()
    }
}

/// A program of the Debian package `prometheus`, where `make test` has unpacked it.
fn unpacked(name: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_quell")).ancestors().nth(2)?;
    let found = target.join("unpacked/usr/bin").join(name);
    let found = found.exists().then_some(found);
    if found.is_none() {
        left_out::for_want_of(format!("{name}: tools/unpacked target/unpacked prometheus"));
    }
    found
}

fn get(at: SocketAddr, path: &str, more: &str) -> String {
    let mut stream = TcpStream::connect(at).expect("it listens");
    stream.set_read_timeout(Some(NEVER)).expect("a limit");
    let ask = format!("GET {path} HTTP/1.1\r\nHost: {at}\r\n{more}Connection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).expect("sent");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer");
    let (head, body) = said.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{said}");
    body.to_owned()
}

/// An address of loopback that no other test has, by their number.
fn own_address(test: u8) -> SocketAddr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    (Ipv4Addr::new(127, 77 + test, high, low), 9599).into()
}

/// A server and a ping to it and to somebody silent, with the addresses of their metrics.
fn measured(silent: &UdpSocket, test: u8) -> (Served, Running, [SocketAddr; 2]) {
    let of_server = own_address(test);
    let served = Served::new(&["--metrics", &of_server.to_string()]);
    let to = format!("answers,{}", served.at);
    let dead = format!("dead \"end\",{}", silent.local_addr().expect("it is bound"));
    let ping = ["ping", "-q", "-m", "udp", "-i", "20ms", "-W", "50ms", "-t", &to, "-t", &dead];
    let mut ping = program(&[&ping[..], &["--metrics", "0"]].concat());
    ping.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut ping = Running(ping.spawn().expect("the program starts"));
    let of_ping = ping.until(&["metrics at http://"]).replace("/metrics", "");
    (served, ping, [of_ping.parse().expect("an address"), of_server])
}

#[test]
fn promtool_finds_nothing_to_say_against_our_metrics() {
    let Some(promtool) = unpacked("promtool") else { return };
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (_served, _ping, endpoints) = measured(&silent, 0);
    for at in endpoints {
        let text = get(at, "/metrics", "");
        assert!(text.contains("# TYPE quell_") && !text.contains("# EOF"), "{text}");
        let mut check = Command::new(&promtool);
        check.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut check = check.spawn().expect("promtool starts");
        check.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("it reads");
        let said = check.wait_with_output().expect("it ends");
        let said = (said.status.code(), String::from_utf8_lossy(&said.stderr).into_owned());
        assert_eq!(said, (Some(0), String::new()), "{text}");
    }
}

/// Passes connections on to an endpoint; tells of each before that.
fn relay(to: SocketAddr) -> (SocketAddr, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let (tell, told) = channel();
    std::thread::spawn(move || {
        while let Ok((mut scraper, _)) = listener.accept() {
            let Ok(mut endpoint) = TcpStream::connect(to) else { return };
            if tell.send(()).is_err() {
                return;
            }
            let mut ask = (endpoint.try_clone().expect("it"), scraper.try_clone().expect("it"));
            std::thread::spawn(move || std::io::copy(&mut ask.1, &mut ask.0));
            let _ = std::io::copy(&mut endpoint, &mut scraper);
            let _ = scraper.shutdown(std::net::Shutdown::Both);
        }
    });
    (at, told)
}

/// The answer of Prometheus to a query: the value of each sample.
fn query(prometheus: SocketAddr, text: &str) -> Vec<f64> {
    let escaped: String = text.bytes().map(|b| format!("%{b:02x}")).collect();
    let answer = get(prometheus, &format!("/api/v1/query?query={escaped}"), "");
    // Go sends it in pieces.
    let json = answer.find('{').zip(answer.rfind('}')).map_or("", |(a, b)| &answer[a..=b]);
    let answer: Value = serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {answer}"));
    assert_eq!(answer["status"], "success", "{text}: {answer}");
    let samples = answer["data"]["result"].as_array().expect("samples").iter();
    samples.filter_map(|s| s["value"][1].as_str()?.parse().ok()).collect()
}

/// The queries of the dashboard, as Grafana would send them.
fn dashboard() -> Vec<String> {
    let text = include_str!("../../../../packaging/grafana-dashboard.json");
    let dashboard: Value = serde_json::from_str(text).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let queries = targets.map(|target| target["expr"].as_str().expect("a query").to_owned());
    let variables = [("$__rate_interval", "1m"), ("$stream", ".*"), ("$agent", ".*")];
    let filled = |q: String| variables.iter().fold(q, |q, (name, value)| q.replace(name, value));
    queries.map(filled).collect()
}

/// An agent that measures who answers and who does not, its collector, and where that one's metrics are.
fn mesh(broker: &Broker, folder: &Path, answers: SocketAddr) -> (Daemon, Daemon, SocketAddr) {
    let probe = |peer: &str, to: String| PlannedProbe {
        class: "voice".into(),
        peer: peer.into(),
        to,
        kind: ProbeKind::Stamp { size: 64, tos: Tos::from_byte(0) },
        interval: Span::from_millis(50),
        offset: Span::ZERO,
    };
    let (agent, lease) = ("fra".to_owned(), Span::from_secs(2));
    let probes = vec![probe("ams", answers.to_string()), probe("nobody", "127.0.0.1:1".into())];
    apply(broker.config("hub"), &[AgentPlan { format: 1, agent, revision: 1, lease, probes }]);
    let web = MetricsEndpoint::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let at = web.local();
    let bus = broker.config("collector");
    let collector = Daemon::collector_with(bus, &folder.join("mesh"), None, Some(web));
    (Daemon::agent("fra", broker.config("fra"), &folder.join("journal")), collector, at)
}

#[test]
fn prometheus_scrapes_a_ping_a_server_and_a_mesh_and_the_dashboard_finds_its_figures() {
    let Some(program) = unpacked("prometheus") else { return };
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (served, _ping, [ping, server]) = measured(&silent, 1);
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut broker) = Broker::start(folder.path(), "") else { return };
    let (_agent, _collector, collector) = mesh(&broker, folder.path(), served.at);
    let [(ping, of_ping), (server, of_server), (collector, of_mesh)] =
        [ping, server, collector].map(relay);
    let config = folder.path().join("prometheus.yml");
    let yaml = format!(
        "global: {{scrape_interval: 300ms, scrape_timeout: 300ms}}\n\
         scrape_configs: [{{job_name: quell, static_configs: [{{targets: ['{ping}', '{server}', '{collector}']}}]}}]\n"
    );
    std::fs::write(&config, yaml).expect("a file");
    let mut command = Command::new(program);
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
    command.args(["--web.listen-address=127.0.0.1:0", "--log.level=info"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut prometheus = Running(command.spawn().expect("Prometheus starts"));
    let at = prometheus.until(&["msg=\"Listening on\" address=", "ready to receive web requests"]);
    let at = at.parse().expect("an address");
    // One that comes is the sign that those before it are stored.
    let scraped = || {
        for told in [&of_ping, &of_server, &of_mesh] {
            told.recv_timeout(NEVER).expect("Prometheus scrapes");
        }
    };
    let lost = "quell_ping_lost_packets_total{stream='dead \"end\"',direction=~'up|unknown'} > 0";
    let failed =
        "quell_mesh_slots_total{end='failed'} > 0 and on () quell_mesh_slots_total{end='ok'} > 5";
    while [lost, failed].iter().any(|some| query(at, some).is_empty())
        || query(at, "count_over_time(up[1m]) > 2").len() < 3
    {
        scraped();
    }
    for (text, holds) in [
        ("up == 1", &(|of: &[f64]| of.len() == 3) as &dyn Fn(&[f64]) -> bool),
        ("quell_ping_answered_packets_total{stream='answers'}", &|of| of.len() == 1 && of[0] > 5.0),
        ("quell_ping_rtt_seconds_count{stream='dead \"end\"'}", &|of| *of == [0.0]),
        ("quell_ping_rtt_seconds_sum{stream='answers'}", &|of| of[0] > 0.0),
        ("quell_serve_reflected_packets_total", &|of| of[0] > 5.0),
        ("quell_mesh_agent_up", &|of| *of == [1.0]),
        ("quell_mesh_rtt_seconds_count - on (agent) quell_mesh_slots_total{end='ok'}", &|of| {
            *of == [0.0]
        }),
    ] {
        let values = query(at, text);
        assert!(holds(&values), "{text}: {values:?}");
    }
    for text in dashboard() {
        // A panel may show nothing of the one that nobody answered, or where nothing happened; its metrics are there.
        assert!(!query(at, &text).is_empty(), "the dashboard finds nothing by {text}");
    }
    // Nobody says anything any more.
    broker.kill(false);
    while query(at, "quell_mesh_agent_up == 0").is_empty() {
        scraped();
    }
    let kinds = get(at, "/api/v1/metadata?metric=quell_ping_sent_packets", "");
    assert!(kinds.contains("\"type\":\"counter\",\"help\":\"Packets sent"), "{kinds}");
}
