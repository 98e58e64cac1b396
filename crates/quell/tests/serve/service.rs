//! `quell serve` as its clients see it, over loopback: an unmodified iperf3, calls, reflected packets, limits, a secret.

use crate::server::{NEVER, Served, byte, cookie_of};
use crate::server::{iperf3, iperf3_says, lacks_iperf3, parameters};
use crate::support::left_out;
use crate::support::{TestFolder, program, said, says};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// What `iperf3 -c -J` printed.
#[track_caller]
fn measured(served: &Served, options: &[&str]) -> Value {
    let text = iperf3(served, &[options, &["-J"]].concat());
    let result: Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(result.get("error"), None, "{options:?}");
    result
}

#[track_caller]
fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} in {value:#}"))
}

#[test]
fn an_unmodified_iperf3_measures_tcp_in_every_direction() {
    if lacks_iperf3() {
        return;
    }
    let served = Served::new(&[]);
    let (received, back) = ("/end/sum_received", "/end/sum_received_bidir_reverse");
    // Of a time it is as much as a busy machine had CPU for.
    for (options, sum, least) in [
        (&["-t", "1"][..], received, 0.0),
        (&["-t", "1", "-P", "3", "-R"], received, 0.0),
        (&["-t", "1", "-P", "2", "--bidir"], back, 0.0),
        (&["-n", "20M"], received, 20e6),
        (&["-n", "20M", "-R"], received, 20e6),
        (&["-k", "100"], received, 1e6),
        (&["-t", "1", "-O", "1"], received, 0.0),
        (&["-n", "2M", "-w", "100K", "-M", "1000", "-N", "-S", "16", "-Z"], received, 2e6),
    ] {
        let result = measured(&served, options);
        assert!(number(&result, &format!("{sum}/bytes")) >= least, "{options:?}: {result:#}");
        if options.contains(&"-R") {
            assert!(number(&result, "/end/sum_sent/retransmits") >= 0.0, "{options:?}");
        }
    }
    let amount = measured(&served, &["-n", "20M"]);
    assert_eq!(number(&amount, "/end/sum_received/bytes"), 20.0 * 1048576.0, "to the last byte");
    let ended = served.event("ended", "received_bytes");
    assert_eq!(ended["why"], Value::Null, "{ended}");
}

#[test]
fn what_a_client_still_has_in_its_socket_when_it_is_done_is_waited_for_and_counted() {
    let served = Served::new(&[]);
    let mut control = served.begin(b'a');
    let asked = r#"{"tcp":true,"parallel":1,"len":1000,"time":0,"num":3000}"#;
    control.write_all(&parameters(asked)).expect("sent");
    assert_eq!(byte(&mut control), Some(10), "it wants the stream");
    let mut data = served.connect();
    data.write_all(&cookie_of(b'a')).expect("sent");
    assert_eq!([byte(&mut control), byte(&mut control)], [Some(1), Some(2)]);
    data.write_all(&[1; 1000]).expect("data flows");
    control.write_all(&[4]).expect("it says that it is done");
    control.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
    control.read_exact(&mut [0]).expect_err("the server waits for the other two thirds");
    control.set_read_timeout(Some(NEVER)).expect("a limit");
    data.write_all(&[1; 2000]).expect("they come");
    assert_eq!(byte(&mut control), Some(13), "results are exchanged");
    control.write_all(&parameters("{}")).expect("its own");
    let text = results_of(&mut control);
    let results: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(number(&results, "/streams/0/bytes"), 3000.0, "{results:#}");
}

/// The results that come, behind their length.
fn results_of(control: &mut TcpStream) -> String {
    let mut length = [0; 4];
    control.read_exact(&mut length).expect("a length");
    let mut text = vec![0; u32::from_be_bytes(length) as usize];
    control.read_exact(&mut text).expect("results");
    String::from_utf8(text).expect("text")
}

#[test]
fn a_kept_flow_in_both_directions_keeps_them_apart_in_results_and_figure() {
    let served = Served::new(&[]);
    let port = served.at.port().to_string();
    let dir = TestFolder::new();
    for streams in ["1", "2"] {
        let flow = ["flow", "127.0.0.1", "-p", &port, "-t", "1", "-b", "5M", "-P", streams];
        dir.quell(&[&flow[..], &["--bidir", "--save"]].concat()).fine();
        let shown: Value =
            serde_json::from_str(&dir.quell(&["show", "--json"]).fine()).expect("it is JSON");
        let rows = shown["results"].as_array().expect("rows");
        let flows: Vec<_> = rows.iter().filter(|r| r["goodput_mbps"].is_number()).collect();
        assert_eq!(flows.len(), if streams == "1" { 2 } else { 4 }, "{shown:#}");
        for flow in flows {
            let (name, way) = (flow["stream"].as_str().unwrap(), flow["way"].as_str());
            assert!(way.is_some_and(|way| name.starts_with(way)), "{flow:#}");
            assert!(flow["share"].is_number(), "{flow:#}");
        }
        dir.quell(&["plot", "--figure", "goodput-time", "-o", "g.svg"]).fine();
        let svg = std::fs::read_to_string(dir.path("g.svg")).expect("it was written");
        let panels = svg.matches(">up<").count().min(svg.matches(">down<").count());
        // Streams have the names of their ways where there is one each way, and stand in the legend.
        assert_eq!(panels, if streams == "1" { 2 } else { 1 }, "a panel each way: {svg}");
    }
}

#[test]
fn the_client_is_told_what_the_server_saw() {
    if lacks_iperf3() {
        return;
    }
    let served = Served::new(&[]);
    let reno = measured(&served, &["-t", "1", "-C", "reno", "-R", "-b", "40M"]);
    // 5 MB, and at the start one window that TCP sends unpaced; less of a busy machine.
    let sent = |key: &str| number(&reno, &format!("/end/sum_sent/{key}"));
    assert!(sent("bytes") < 7e6 * sent("seconds").max(1.0), "{reno:#}");
    assert_eq!(reno.pointer("/end/sender_tcp_congestion"), Some(&"reno".into()), "{reno:#}");
    assert!(number(&reno, "/end/cpu_utilization_percent/remote_total") >= 0.0);
    let text = iperf3(&served, &["-t", "1", "-b", "20M", "--get-server-output"]);
    let (_, server) = text.split_once("Server output:").expect("iperf3 prints what we say");
    says(server, &["receiver", "Mbits/sec", "Quell"]);
    // A second, or what a busy machine makes of it.
    let times = server.split_whitespace().filter_map(|word| word.strip_prefix("0.00-"));
    let mut times = times.filter_map(|time| time.parse::<f64>().ok());
    assert!(times.any(|time| time > 0.0), "{server}");
}

#[test]
fn calls_and_stamp_packets_are_answered_on_the_same_port() {
    let served = Served::new(&[]);
    assert!(served.at.ip().is_loopback(), "loopback unless told otherwise: {}", served.at);
    served.is_well();
    let called = served.event("called", "calls");
    let calls = called["calls"].as_u64();
    assert!(calls >= Some(4), "three and one that opens, and more where one had to wait: {called}");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(NEVER)).expect("a limit");
    socket.connect(served.at).expect("an address");
    for size in [44, 100, 1400] {
        let mut packet = vec![0; size];
        packet[3] = 7;
        // Too short for STAMP, and unknown: no answer, so that the next answer is the next packet's.
        socket.send(&packet[..43]).expect("sent");
        socket.send(&packet).expect("sent");
        let mut answer = [0; 2000];
        let got = socket.recv(&mut answer).expect("an answer");
        assert_eq!((got, answer[27]), (size, 7), "as large as the question, with its number");
    }
}

#[test]
fn a_question_that_is_unknown_or_too_much_is_refused_and_the_next_is_answered() {
    let served = Served::new(&[]);
    let mut stream = TcpStream::connect(served.at).expect("it serves");
    stream.set_read_timeout(Some(NEVER)).expect("a limit");
    stream.write_all(b"QUELL-E1").expect("taken");
    let mut ask = |text: &str| -> Value {
        let length = u32::try_from(text.len()).expect("short").to_be_bytes();
        stream.write_all(&[&length, text.as_bytes()].concat()).expect("taken");
        let mut length = [0; 4];
        stream.read_exact(&mut length).expect("an answer");
        let mut text = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut text).expect("a whole answer");
        serde_json::from_slice(&text).expect("JSON")
    };
    for strange in [r#"{"sing":{}}"#, "", "{", r#"{"give":{"bytes":4000000000}}"#] {
        assert!(ask(strange)["refused"]["why"].is_string(), "{strange}");
    }
    // No flow was opened: there is nothing to send over, and nothing is sent.
    assert_eq!(ask(r#"{"say":{"sizes":[1000],"wait_ms":0}}"#)["said"]["too_big"], json!([]));
    let view = &ask("\"view\"")["view"];
    assert!(view["remote"].as_str().is_some_and(|at| at.starts_with("127.0.0.1:")), "{view}");
    assert_eq!(view["options"].as_u64().map(|options| options & 6), Some(6), "{view}");
    // What is longer than any question is none.
    stream.write_all(&u32::MAX.to_be_bytes()).expect("taken");
    assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)), "it is broken off");
    assert!(served.event("told", "session")["why"].is_string());
}

#[test]
fn what_is_beyond_the_limits_is_refused_with_a_word() {
    if lacks_iperf3() {
        return;
    }
    let limits = ["--max-rate-per-client", "20Mbit", "--max-time", "5s", "--max-streams", "2"];
    let served = Served::new(&limits);
    for (options, word, why) in [
        (&["-t", "1", "-b", "30M"][..], "bandwidth is larger than server limit", "30000000 bit/s"),
        (
            &["-t", "1", "-b", "15M", "--bidir"],
            "bandwidth is larger than server limit",
            "30000000 bit/s",
        ),
        (&["-t", "6"], "test duration too long", "at most 5 s"),
        (&["-P", "3"], "number of parallel streams too large", "3 streams"),
        // It asks for no rate and sends as many datagrams as go.
        (&["-u", "-b", "0", "-t", "4"], "bandwidth is larger than server limit", "it sent"),
    ] {
        let (good, text) = iperf3_says(&served, options);
        assert!(!good && text.contains(word), "{options:?}: {text}");
        let event = if why == "it sent" { "ended" } else { "refused" };
        served.event(event, why);
    }
    for direction in [&["-t", "2", "-R"][..], &["-t", "2"]] {
        // It is held to the limit.
        let paced = measured(&served, direction);
        let got = |key: &str| number(&paced, &format!("/end/sum_received/{key}"));
        assert!(got("bytes") * 8.0 < 24e6 * got("seconds").max(2.0), "{paced:#}");
    }
    served.is_well();
}

/// Pings without a load and the way there take two seconds and more before the data flows.
#[test]
fn a_test_as_long_as_the_server_allows_runs_to_its_end() {
    let served = Served::new(&["--max-time", "2s"]);
    for options in [&["-t", "2"][..], &["-t", "1", "-O", "1", "-R"], &["-t", "2", "-u"]] {
        let port = served.at.port().to_string();
        let arguments = [&["flow", "127.0.0.1", "-p", &port, "-b", "1M"], options].concat();
        said(program(&arguments), &arguments).fine();
    }
}

#[test]
fn a_full_server_says_so() {
    if lacks_iperf3() {
        return;
    }
    let served = Served::new(&["--max-tests", "1"]);
    let mut first = served.begin(b'a');
    // It runs: one that only prepares would have to give its place away.
    first.write_all(&parameters(r#"{"tcp":true,"parallel":1,"len":1000}"#)).expect("sent");
    assert_eq!(byte(&mut first), Some(10), "it wants the stream");
    let mut data = served.connect();
    data.write_all(&cookie_of(b'a')).expect("sent");
    assert_eq!([byte(&mut first), byte(&mut first)], [Some(1), Some(2)]);
    data.write_all(&[1; 1000]).expect("data flows");
    // And goes on, however long the others take to come: one whose data stands still for the time of a step would give its place away.
    let (over, is_over) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while is_over.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout)
            {
                let _ = data.write_all(&[1; 1000]);
            }
        });
        let (good, text) = iperf3_says(&served, &["-t", "1"]);
        assert!(!good && text.contains("server is busy"), "{text}");
        says(&served.rr(&[]).refused(3), &["as many connections as it allows"]);
        served.event("refused", "as many sessions");
        drop((over, first));
    });
    served.event("ended", "went away");
    iperf3(&served, &["-n", "1M"]);
}

#[test]
fn with_a_secret_those_who_know_it_are_served_and_nobody_else() {
    let dir = TestFolder::new();
    for (name, text) in [("right", "correct horse battery\n"), ("wrong", "correct horse stapler\n")]
    {
        dir.write(name, text);
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(dir.path(name), private).expect("it is ours");
    }
    let file = |name: &str| dir.path(name).to_str().expect("a plain path").to_owned();
    let served = Served::new(&["--secret-file", &file("right")]);
    served.rr(&["--secret-file", &file("right")]).fine();
    says(
        &served.rr(&["--secret-file", &file("wrong")]).refused(3),
        &["does not accept our secret", "compare the secret files"],
    );
    says(&served.rr(&[]).refused(3), &["--secret-file"]);
    served.event("refused", "does not know the secret");
    if !lacks_iperf3() {
        let (good, text) = iperf3_says(&served, &["-t", "1"]);
        assert!(!good && text.contains("server is busy"), "{text}");
    }
    served.rr(&["--secret-file", &file("right")]).fine();
    // A server without one does not pretend.
    let open = Served::new(&[]);
    says(&open.rr(&["--secret-file", &file("right")]).refused(3), &["or wants none"]);

    let everybody = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(dir.path("right"), everybody).expect("it is ours");
    let arguments = ["serve", "--port", "0", "--secret-file", &file("right")];
    says(&said(program(&arguments), &arguments).refused(2), &["every user", "chmod 600"]);
    dir.write("short", "12345");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(dir.path("short"), private).expect("it is ours");
    let arguments = ["serve", "--port", "0", "--secret-file", &file("short")];
    says(&said(program(&arguments), &arguments).refused(2), &["5 bytes", "/dev/urandom"]);
}

#[test]
fn it_ends_when_told_and_tells_its_clients() {
    if lacks_iperf3() {
        return;
    }
    let mut served = Served::new(&[]);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| iperf3_says(&served, &["-t", "20", "-b", "1M"]));
        served.event("began", "iperf3");
        served.signal("TERM");
        let (good, text) = client.join().expect("no panic");
        assert!(!good && text.contains("the server has terminated"), "{text}");
    });
    assert_eq!(served.end(), Some(0));
    let ended = served.event("ended", "the server was stopped");
    assert!(ended["received_bytes"].as_u64().is_some(), "what was measured is told: {ended}");
    served.event("stopped", "sessions");
}

#[test]
fn it_ends_after_one_test_or_after_its_time_where_asked_to() {
    let mut one = Served::new(&["-1"]);
    one.is_well();
    assert_eq!(one.end(), Some(0));
    let mut short = Served::new(&["--for", "50ms"]);
    assert_eq!(short.end(), Some(0));
}

#[test]
fn a_port_in_use_and_a_foreign_address_are_told() {
    let served = Served::new(&[]);
    let port = served.at.port().to_string();
    let arguments = ["serve", "--port", &port];
    says(&said(program(&arguments), &arguments).refused(3), &["EADDRINUSE", "another program"]);
    // TCP is free, UDP is not.
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let arguments = ["serve", "--port", &port];
    says(&said(program(&arguments), &arguments).refused(3), &["UDP", "EADDRINUSE"]);
    let arguments = ["serve", "--port", "0", "--bind", "192.0.2.1"];
    says(&said(program(&arguments), &arguments).refused(3), &["192.0.2.1", "EADDRNOTAVAIL"]);
    if is_root() {
        let arguments = ["serve", "--port", "0", "--user", "no-such-user"];
        says(&said(program(&arguments), &arguments).refused(3), &["no-such-user", "--user"]);
    }
}

/// Only root becomes somebody else.
fn is_root() -> bool {
    let own = std::fs::read_to_string("/proc/self/status").expect("proc is mounted");
    own.lines().any(|line| line.starts_with("Uid:\t0\t0"))
}

#[test]
fn started_as_root_it_keeps_no_rights() {
    let served = Served::new(&[]);
    let status = format!("/proc/{}/status", served.pid());
    let status = std::fs::read_to_string(status).expect("it runs");
    let field = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name)).expect("proc(5) has it");
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(field("NoNewPrivs:"), ["1"]);
    if !is_root() {
        left_out::kernel_lacks("the rest needs root: another user has no rights to give up");
        return;
    }
    for name in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(field(name), ["0000000000000000"], "{name}");
    }
    for name in ["Uid:", "Gid:"] {
        assert!(field(name).iter().all(|id| id != "0"), "{name} {:?}", field(name));
    }
    assert_eq!(field("Groups:"), Vec::<String>::new());
    served.is_well();
    // Those that the system keeps for administrators among them.
    let at = served.at.to_string();
    let down = |name: &str| {
        let arguments = ["flow", &at, "-R", "-n", "1M", "--no-latency", "-C", name, "--json"];
        said(program(&arguments), &arguments)
    };
    let there = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    for name in there.expect("proc(5) has it").split_whitespace() {
        let told: Value = serde_json::from_str(&down(name).fine()).expect("JSON");
        assert_eq!(told["down"]["congestion"], json!([name]), "{told:#}");
    }
}
