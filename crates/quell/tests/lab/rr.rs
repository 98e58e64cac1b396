//! Request and response: calls over known networks, and the stall of small messages with its cures.

use super::support::{PING, QUELL, QUIET, TestFolder, near, two_hosts};
use serde_json::Value;

/// A probe with a name and more keys.
fn probe(name: &str, keys: &str) -> String {
    format!("[[probe]]\nname = \"{name}\"\nkind = \"rr\"\nfrom = \"a\"\nto = \"b\"\n{keys}\n")
}

#[test]
fn a_call_takes_one_round_trip_and_with_a_connection_of_its_own_two() {
    let text = two_hosts(
        "up = { delay = \"10ms\" }\ndown = { delay = \"30ms\" }",
        &format!(
            "{QUIET}{}{}{}",
            probe("calls", "calls = 100"),
            probe("six", "calls = 100\nipv6 = true"),
            probe("connects", "calls = 100\npattern = \"connect\"")
        ),
    );
    let results = TestFolder::new().run(&text, &[]);
    for (stream, wanted) in [("calls", 40.0), ("six", 40.0), ("connects", 80.0)] {
        near(results.number("s", stream, "sent"), 100.0, 0.0);
        near(results.number("s", stream, "loss_ratio"), 0.0, 0.0);
        // Three probes look at the clock while a call is on its way.
        near(results.number("s", stream, "rtt_ms.min"), wanted, 0.02);
        near(results.number("s", stream, "rtt_ms.p99"), wanted, 0.02);
    }
}

#[test]
fn a_second_small_write_waits_for_the_ack_and_a_full_segment_does_not() {
    // 1448 bytes fill a segment; with one byte less Nagle's rule holds the second write.
    let sizes = [64, 1447, 1448];
    let probes: String = sizes
        .iter()
        .map(|n| {
            probe(
                &format!("s{n}"),
                &format!("pattern = \"write-write-read\"\nsize = {n}\ncalls = 50"),
            )
        })
        .collect();
    let text = two_hosts("both = { delay = \"50us\" }", &format!("{QUIET}{probes}"));
    let results = TestFolder::new().run(&text, &[]);
    for stalled in ["s64", "s1447"] {
        let p50 = results.number("s", stalled, "rtt_ms.p50");
        assert!((39.0..=50.1).contains(&p50), "{stalled}: {p50}");
    }
    assert!(results.number("s", "s1448", "rtt_ms.p50") < 2.0);
}

#[test]
fn calls_end_with_the_measurement_and_the_wait_for_one_more() {
    let text = two_hosts(
        "both = { delay = \"500ms\" }",
        &format!("{QUIET}{}", probe("slow", "calls = 1000")),
    );
    let results = TestFolder::new().run(&text, &["--duration", "5s"]);
    // The handshake and the first call, which is not counted, take two seconds.
    near(results.number("s", "slow", "sent"), 3.0, 0.0);
    near(results.number("s", "slow", "rtt_ms.p50"), 1000.0, 0.01);
}

#[test]
fn calls_behind_a_deep_queue_are_late_and_not_lost() {
    let text = two_hosts(
        "both = { rate = \"1Mbit\", delay = \"10ms\", buffer = \"1000p\" }",
        &format!(
            "[[load]]\nname = \"bulk\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1500kbit\"\nsize = \"1400B\"\n\
             [[scenario]]\nname = \"s\"\nloads = [\"bulk\"]\n{}",
            probe("calls", "calls = 1000")
        ),
    );
    let results = TestFolder::new().run(&text, &["--duration", "30s"]);
    near(results.number("s", "calls", "loss_ratio"), 0.0, 0.0);
    let max = results.number("s", "calls", "rtt_ms.max");
    assert!(max > 6000.0, "the queue grows by half a second a second: {max}");
}

#[test]
fn small_messages_keeps_what_it_claims() {
    let output = TestFolder::new().quell(&["run", "small-messages"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("✓ holds  default.plain.rtt.p50 > 35ms"), "{said}");
}

#[test]
fn a_route_with_quickack_cures_the_stall_over_both_families() {
    let scenario = |name: &str, route: &str| {
        format!("[[scenario]]\nname = \"{name}\"\nroutes = [{{ {route} }}]\n")
    };
    let stalls = "pattern = \"write-write-read\"\ncalls = 50";
    let rest = [
        scenario("cured", "on = \"b\", to = \"a\", quickack = true"),
        scenario("not", "on = \"b\", to = \"a\", quickack = false"),
        probe("four", stalls),
        probe("six", &format!("{stalls}\nipv6 = true")),
    ];
    let results =
        TestFolder::new().run(&two_hosts("both = { delay = \"50us\" }", &rest.concat()), &[]);
    for stream in ["four", "six"] {
        let p50 = |scenario: &str| results.number(scenario, stream, "rtt_ms.p50");
        assert!(p50("cured") < 2.0, "{stream}: {}", p50("cured"));
        assert!((39.0..=50.1).contains(&p50("not")), "{stream}: {}", p50("not"));
    }
}

#[test]
fn a_lost_request_is_sent_again_after_the_least_time_that_its_route_says_over_both_families() {
    let scenario = |name: &str, least: &str| {
        let route = format!("on = \"a\", to = \"b\", rto-min = \"{least}\"");
        format!("[[scenario]]\nname = \"{name}\"\nroutes = [{{ {route} }}]\n")
    };
    // A call takes 20 ms and the next follows at once: of each connection one request is sent in these 40 ms, and lost.
    let lossy = "[[timeline]]\nat = \"2s\"\nlink = \"line\"\nup = { loss = \"100%\" }\n\
                 [[timeline]]\nat = \"2040ms\"\nlink = \"line\"\nup = { loss = \"0%\" }\n";
    let rest = [
        QUIET.to_owned(),
        scenario("soon", "50ms"),
        scenario("late", "500ms"),
        lossy.to_owned(),
        probe("four", "calls = 200"),
        probe("six", "calls = 200\nipv6 = true"),
    ];
    let results =
        TestFolder::new().run(&two_hosts("both = { delay = \"10ms\" }", &rest.concat()), &[]);
    for stream in ["four", "six"] {
        // The time until it is sent again is the round trip's and this least one (`__tcp_set_rto`), in ticks
        // of 10 ms; then the call.
        for (scenario, least) in [("soon", 50.0), ("s", 200.0), ("late", 500.0)] {
            near(results.number(scenario, stream, "rtt_ms.p50"), 20.0, 0.02);
            near(results.number(scenario, stream, "rtt_ms.max"), 20.0 + least + 35.0, 15.1);
        }
    }
}

#[test]
fn on_the_running_kernel_too_a_route_has_the_settings_of_the_file() {
    let stalls = "pattern = \"write-write-read\"\ncalls = 10";
    let route = "[[scenario]]\nname = \"cured\"\n\
                 routes = [{ on = \"b\", to = \"a\", quickack = true }]\n";
    let text = two_hosts("", &format!("{QUIET}{route}{}", probe("calls", stalls)));
    // A stall takes 40 ms and more on any kernel. On a busy machine a call may go without one: a host whose reply came too late to carry
    // an ACK acknowledges at once what it reads next (`tcp_event_data_sent`, `tcp_cleanup_rbuf`). So half of ten calls, in one of five runs.
    let medians = || {
        let results = TestFolder::new().run(&text, &["--kernel", "host"]);
        ["s", "cured"].map(|scenario| results.number(scenario, "calls", "rtt_ms.p50"))
    };
    let mut seen = Vec::new();
    let shown = (0..5).any(|_| {
        let [stalls, cured] = medians();
        seen.push((stalls, cured));
        stalls > 35.0 && cured < 35.0
    });
    assert!(shown, "{seen:?} ms");
}

/// What `quell rr` on `a` says in JSON of the server on `b`.
fn rr(line: &str, arguments: &[&str]) -> Value {
    let dir = TestFolder::new();
    let text = two_hosts(line, &format!("{QUIET}{}", probe("unused", "")));
    let file = dir.file("network.toml", &text);
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0");
    let file = file.to_string_lossy();
    let exec = ["lab", "exec", &*file, "a", "--with", &serve, "--", QUELL, "rr", "{b}", "--json"];
    let output = dir.quell(&[&exec, arguments].concat());
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{error}"))
}

/// What `quell rr` on `a` says in JSON, once for each of these lists of words, of a `quell serve` at port 5201 of `b` and of this
/// program as [`another_server`] at port 5202; all in one network.
pub fn rr_each(line: &str, kind: &str, runs: &[&str]) -> Vec<Value> {
    let script: Vec<String> = runs.iter().map(|run| format!("{QUELL} rr --json {run}")).collect();
    let (out, error) = beside_servers(line, kind, &script.join("\n"));
    let said: Result<Vec<Value>, _> =
        serde_json::Deserializer::from_str(&out).into_iter().collect();
    let said = said.unwrap_or_else(|e| panic!("{e}: {out}{error}"));
    assert_eq!(said.len(), runs.len(), "{out}{error}");
    said
}

/// The same once, as a person is told.
pub fn rr_text(line: &str, kind: &str, run: &str) -> String {
    beside_servers(line, kind, &format!("{QUELL} rr {run}")).0
}

/// What a script on `a` prints, and what it says on standard error, where `b` serves: at ports 5201 and, over IPv6, 5203 a `quell serve`, at port
/// 5202 [`another_server`].
fn beside_servers(line: &str, kind: &str, script: &str) -> (String, String) {
    let dir = TestFolder::new();
    let text = two_hosts(line, &format!("{QUIET}{}", probe("unused", "")));
    let file = dir.file("network.toml", &text);
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0");
    let six = format!("b: {QUELL} serve --bind :: --port 5203");
    let own = std::env::current_exe().expect("a test has a file");
    let other = format!("b: {} --ignored --exact rr::another_server {kind}", own.display());
    let file = file.to_string_lossy();
    let exec = ["lab", "exec", &*file, "a", "--with", &serve, "--with", &six, "--with", &other];
    let output = dir.quell(&[&exec[..], &["--", "sh", "-c", script]].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A server that is none of Quell's, run by [`rr_each`] in the lab: it says nothing of its time, `plain` answers, `twice` writes each reply in two
/// pieces, `slow` thinks for 50 ms, `pauses` for 60 ms between two pieces that it sends at once, `steady` writes a byte each 3 ms, `drips` one each 3 s, `early` answers a call more than it was asked,
/// `falls-silent` after the first.
#[test]
#[ignore = "a program for other tests"]
fn another_server() {
    use std::io::{Read, Write};
    let kinds = ["plain", "twice", "slow", "early", "pauses", "steady", "drips", "falls-silent"];
    let Some(kind) = std::env::args().find(|a| kinds.contains(&a.as_str())) else { return };
    let listener = std::net::TcpListener::bind("0.0.0.0:5202").expect("a free port");
    for stream in listener.incoming() {
        let mut stream = stream.expect("a client");
        if kind == "pauses" {
            stream.set_nodelay(true).expect("an option of TCP");
        }
        let mut hello = [0; 32];
        if stream.read_exact(&mut hello).is_err() {
            continue;
        }
        let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| hello[at + i])) as usize;
        let (mut request, reply) = (vec![0; word(8)], vec![b'x'; word(12)]);
        if kind == "early" && stream.write_all(&reply).is_err() {
            continue;
        }
        while stream.read_exact(&mut request).is_ok() {
            if kind == "slow" {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            let (pieces, pause_ms) = match kind.as_str() {
                "twice" => (2, 0),
                "pauses" => (2, 60),
                "steady" => (reply.len(), 3),
                "drips" => (reply.len(), 3000),
                _ => (1, 0),
            };
            let sent = reply.chunks(reply.len().div_ceil(pieces)).enumerate().all(|(at, piece)| {
                let pause = if at > 0 { pause_ms } else { 0 };
                std::thread::sleep(std::time::Duration::from_millis(pause));
                stream.write_all(piece).is_ok()
            });
            if !sent {
                break;
            }
            if kind == "falls-silent" {
                std::thread::park();
            }
        }
    }
}

/// A line that takes this long there and back, and varies by half of it if it is told to.
pub fn line(rtt_ms: u32, varies: bool) -> String {
    let delay = rtt_ms * 500;
    match varies {
        true => format!("both = {{ delay = \"{delay}us\", jitter = \"{}us\" }}", delay / 2),
        false => format!("both = {{ delay = \"{delay}us\" }}"),
    }
}

#[test]
fn stalls_are_found_on_paths_of_any_length_and_jitter_is_none() {
    for rtt in [5, 20, 60, 100, 200] {
        for varies in [false, true] {
            let calls = "--sizes 64 --calls 30";
            let runs = [
                format!("{{b}} --pattern write-write-read {calls}"),
                format!("{{b}}:5202 {calls}"),
                format!("{{b}} {calls}"),
                format!("{{b}} --pattern write-write-read --nodelay {calls}"),
            ];
            let runs = runs.each_ref().map(String::as_str);
            let said = rr_each(&line(rtt, varies), "twice", &runs);
            let rows: Vec<&Value> = said.iter().map(|said| &said["before"]["rows"][0]).collect();
            let count = |row: usize, of: &str| rows[row]["stalls"][of].as_u64().expect("a number");
            let story = format!("{rtt} ms, varies: {varies}: {said:#?}");
            assert!(count(0, "held") >= 25, "{story}");
            assert_eq!(rows[0]["finding"]["id"], "nagle-and-delayed-ack", "{story}");
            // The client acknowledges at once while its connection is young.
            assert!(count(1, "held_there") >= 15, "{story}");
            assert_eq!(rows[1]["finding"]["id"], "delayed-ack-here", "{story}");
            for calm in [2, 3] {
                assert_eq!(count(calm, "count"), 0, "row {calm}: {story}");
                assert_eq!(rows[calm]["finding"], Value::Null, "{story}");
            }
        }
    }
}

#[test]
fn a_reply_that_takes_long_on_a_slow_line_was_not_held() {
    let slow = "both = { rate = \"64kbit\", delay = \"20ms\" }";
    let runs =
        ["quickack", "nodelay"].map(|fix| format!("{{b}} --sizes 4096 --calls 10 --fix {fix}"));
    let second = "both = { rate = \"250kbit\", delay = \"5ms\" }";
    let larger = "{b} --sizes 65536 --calls 10";
    let mut said = rr_each(slow, "twice", &runs.each_ref().map(String::as_str));
    for said in &said {
        for when in ["before", "after"] {
            let row = &said[when]["rows"][0];
            // Three full segments and a small one each way, an ACK each way, and the delay of the line.
            near(row["latency_ms"]["p50"].as_f64().expect("replies"), 1130.0, 1e-3);
        }
        assert_eq!(said["mended"], Value::Array(Vec::new()), "{said:#}");
    }
    let twice = rr_each(slow, "twice", &["{b} --pattern write-write-read --sizes 4096 --calls 30"]);
    assert_eq!(twice[0]["before"]["rows"][0]["stalls"]["count"], 0, "{twice:#?}");
    said.extend(rr_each(second, "twice", &[larger]));
    for said in &said {
        for row in ["before", "after"].iter().filter_map(|when| said[when]["rows"].get(0)) {
            assert_eq!(
                (&row["stalls"]["count"], &row["finding"]),
                (&0.into(), &Value::Null),
                "{said:#}"
            );
        }
    }
}

#[test]
fn a_server_whose_program_takes_its_time_between_two_writes_holds_nothing() {
    for kind in ["pauses", "steady"] {
        for rtt in [0, 20] {
            let calls = "{b}:5202 --sizes 64 --calls 10";
            let said =
                rr_each(&line(rtt, false), kind, &[calls, &format!("{calls} --fix quickack")]);
            for said in &said {
                let row = &said["before"]["rows"][0];
                assert!(row["latency_ms"]["p50"].as_f64().expect("replies") > 60.0, "{said:#}");
                assert_eq!(row["stalls"]["count"], 0, "{kind}, {rtt} ms: {said:#}");
                assert_eq!(row["finding"], Value::Null, "{kind}, {rtt} ms: {said:#}");
            }
        }
    }
}

#[test]
fn a_fix_that_changes_nothing_is_told_from_one_that_does() {
    // That server does not care what `quell rr` asks of it.
    let stalls = "{b}:5202 --pattern write-write-read --sizes 64 --calls 30 --fix";
    let runs = ["quickack", "nodelay"].map(|fix| format!("{stalls} {fix}"));
    let said = rr_each(&line(5, false), "plain", &runs.each_ref().map(String::as_str));
    for (said, mended) in said.iter().zip(["nothing", "all"]) {
        assert_eq!(said["mended"][0]["mended"], mended, "{said:#}");
    }
}

#[test]
fn an_ack_at_once_leaves_nagle_a_round_trip_of_each_call() {
    let stalls = "{b} --pattern write-write-read --sizes 64,512 --calls 20";
    let runs = ["--fix quickack", "--fix nodelay", "--quickack rearmed"]
        .map(|change| format!("{stalls} {change}"));
    let said = rr_each(&line(20, false), "plain", &runs.each_ref().map(String::as_str));
    for row in [&said[0]["after"]["rows"], &said[2]["before"]["rows"]]
        .into_iter()
        .flat_map(|rows| rows.as_array().expect("rows"))
    {
        near(row["latency_ms"]["p50"].as_f64().expect("replies"), 40.0, 0.1);
        assert_eq!(row["finding"]["id"], "nagle", "{said:#?}");
        assert_eq!(row["stalls"]["nagled"], 20, "{said:#?}");
        assert_eq!(row["stalls"]["count"], 0, "nobody delayed an ACK: {said:#?}");
    }
    for row in said[1]["after"]["rows"].as_array().expect("rows") {
        near(row["latency_ms"]["p50"].as_f64().expect("replies"), 20.0, 0.1);
        assert_eq!(row["finding"], Value::Null, "{said:#?}");
    }
}

#[test]
fn a_stall_on_a_long_path_is_a_cliff_and_jitter_is_none() {
    let sweep = "{b} --pattern write-write-read --sizes 1447,1448 --calls 20";
    let said = rr_each(&line(100, false), "slow", &[sweep]);
    assert_eq!(said[0]["before"]["cliffs"][0]["slow"], 1447, "{said:#?}");
    let jitter = "{b} --sizes 64,65,66,67 --calls 20";
    let said = rr_each(&line(100, true), "slow", &[jitter]);
    assert_eq!(said[0]["before"]["cliffs"], Value::Array(Vec::new()), "{said:#?}");
}

#[test]
fn a_server_that_is_slow_or_answers_early_is_noticed() {
    for (kind, cause) in [("slow", "slow"), ("early", "early")] {
        let said = rr_each(&line(10, false), kind, &["{b}:5202 --sizes 64 --calls 30"]);
        let row = &said[0]["before"]["rows"][0];
        assert_eq!(row["finding"]["id"], cause, "{said:#?}");
        assert_eq!(row["stalls"]["count"], 0, "{said:#?}");
    }
    let said = rr_each(&line(10, false), "slow", &["{b} --sizes 16,64 --calls 30"]);
    let rows = &said[0]["before"]["rows"];
    assert!(rows[1]["stalls"]["server_ms"].as_f64().expect("it says") < 1.0, "{said:#?}");
    assert_eq!(rows[0]["stalls"]["server_ms"], Value::Null, "16 bytes have no room for it");
    assert_eq!(rows[0]["finding"], Value::Null, "{said:#?}");
}

#[test]
fn a_sweep_finds_the_cliff_at_a_full_segment_and_who_waited() {
    let sweep = ["--pattern", "write-write-read", "--sizes", "1446..1449", "--calls", "20"];
    let said = rr("both = { delay = \"5ms\" }", &[&sweep[..], &["--fix", "one-write"]].concat());
    let cliffs = said["before"]["cliffs"].as_array().expect("a list");
    assert_eq!(cliffs.len(), 1, "{said:#}");
    assert_eq!((&cliffs[0]["slow"], &cliffs[0]["fast"]), (&1447.into(), &1448.into()));
    let stalled = &said["before"]["rows"][1];
    assert_eq!(stalled["finding"]["id"], "nagle-and-delayed-ack", "{said:#}");
    assert_eq!(stalled["stalls"]["held"], 20, "{said:#}");
    assert_eq!(stalled["stalls"]["held_bytes"], 1447, "{said:#}");
    assert_eq!(said["after"]["cliffs"], Value::Array(Vec::new()), "{said:#}");
    near(said["after"]["rows"][1]["latency_ms"]["p50"].as_f64().expect("replies"), 10.0, 0.01);
}

#[test]
fn a_stall_is_found_named_and_mended_in_words() {
    let dir = TestFolder::new();
    let file = dir.file("network.toml", &two_hosts(&line(1, false), &format!("{QUIET}{PING}")));
    let (file, serve) = (file.to_string_lossy(), format!("b: {QUELL} serve --bind 0.0.0.0"));
    let exec = ["lab", "exec", &*file, "a", "--with", &serve, "--", QUELL, "rr", "{b}"];
    let wwr = "--pattern write-write-read --calls 5 --sizes 64,1448 --fix nodelay";
    let output = dir.quell(&[&exec[..], &wwr.split(' ').collect::<Vec<_>>()].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    for words in [
        "cliff: calls of 64 bytes",
        "Nagle",
        "DelayedACKs rose by",
        "with nodelay",
        "with the fix nobody waited",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn lost_requests_are_told_from_delayed_acks() {
    let said = rr(
        "up = { delay = \"5ms\", loss = \"5%\" }\ndown = { delay = \"5ms\" }",
        &["--sizes", "64", "--calls", "200"],
    );
    let row = &said["before"]["rows"][0];
    assert_eq!(row["finding"]["id"], "retransmission", "{said:#}");
    // Four standard deviations around the 10 that 5 % of 200 are.
    let again = row["stalls"]["retransmitted"].as_f64().expect("a number");
    near(again, 10.0, 12.3);
    assert!(again >= 1.0 && row["lost"] == 0, "{said:#}");
    for of in ["retransmitted_there", "retransmitted_somewhere"] {
        assert_eq!(row["stalls"][of], 0, "{said:#}");
    }
}

#[test]
fn where_only_packets_of_the_server_are_lost_nobody_blames_this_end() {
    for (loss, arguments) in [
        ("8%", "--sizes 64 --calls 120 --pattern connect"),
        ("15%", "--sizes 200 --calls 120"),
        ("15%", "--sizes 16 --calls 60"),
    ] {
        let line = format!(
            "up = {{ delay = \"10ms\" }}\ndown = {{ delay = \"10ms\", loss = \"{loss}\" }}"
        );
        let said = rr(&line, &arguments.split(' ').collect::<Vec<_>>());
        let row = &said["before"]["rows"][0];
        let of = |what: &str| row["stalls"][what].as_u64().expect("a number");
        let story = format!("{loss} {arguments}: {said:#}");
        assert_eq!((of("retransmitted"), &row["lost"]), (0, &0.into()), "{story}");
        if arguments.contains("16") {
            // Replies of 16 bytes have no room for what the server could tell.
            let cause = row["finding"]["id"].as_str().expect("a finding");
            assert!(["unknown", "retransmission-somewhere"].contains(&cause), "{story}");
            assert!(of("unknown_timer") + of("retransmitted_somewhere") >= 4, "{story}");
            continue;
        }
        // 8 % of SYN-ACKs and of replies, 15 % of replies: about 19 and 18 of 120 each.
        assert_eq!(row["finding"]["id"], "retransmission-there", "{story}");
        assert!(of("retransmitted_there") >= 6, "{story}");
        assert!(of("retransmitted_there") > 2 * of("retransmitted_somewhere"), "{story}");
        // A call takes 20 ms, with a connection 40 ms; what takes 200 ms more waited for a timer.
        assert!(row["latency_ms"]["p50"].as_f64().expect("replies") < 50.0, "{story}");
        assert!(row["stalls"]["median_ms"].as_f64().expect("stalls") > 200.0, "{story}");
    }
}

/// What `quell rr` prints of one call of this size over a line that takes 1.2 s for each segment of the reply, and how many seconds it took.
fn over_a_drip(size: u32) -> (u64, String) {
    let line = "up = { delay = \"10ms\" }\ndown = { rate = \"10kbit\", delay = \"10ms\" }";
    let dir = TestFolder::new();
    let file = dir.file("network.toml", &two_hosts(line, &format!("{QUIET}{PING}")));
    let (file, size) = (file.to_string_lossy(), size.to_string());
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0");
    let story = "t=$(cut -d. -f1 /proc/uptime); \"$0\" rr \"$1\" --sizes \"$2\" --calls 1 2>&1; echo code $?; \
                 echo took $(($(cut -d. -f1 /proc/uptime) - t))";
    let exec = ["lab", "exec", &*file, "a", "--with", &serve, "--", "sh", "-c", story, QUELL];
    let output = dir.quell(&[&exec[..], &["{b}", &size]].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let took = said.split("took ").last().and_then(|took| took.trim().parse().ok());
    (took.unwrap_or_else(|| panic!("{said}")), said)
}

#[test]
fn a_long_reply_on_a_slow_line_is_waited_for_while_more_of_it_comes() {
    // 17 s each: one call to open the connection, one that counts, and one that asks what was sent again in it.
    let (took, said) = over_a_drip(20_000);
    assert!(said.contains("code 0") && (33..56).contains(&took), "{said}");
}

#[test]
fn no_reply_is_waited_for_longer_than_a_minute() {
    let (took, said) = over_a_drip(600_000);
    assert!(said.contains("no whole reply within 60 s"), "{said}");
    assert!(said.contains("code 3") && (60..65).contains(&took), "{said}");
}

#[test]
fn a_connection_behind_what_a_call_left_on_a_slow_line_is_waited_for_as_long_as_a_call() {
    // 80 kB take 33 s each way, so that the first call is given up, and what is left of its reply takes another 7 s.
    let line = "both = { rate = \"19200bit\", delay = \"100ms\", buffer = \"200p\" }";
    let said = rr(line, &["--pattern", "connect", "--sizes", "80000", "--calls", "2"]);
    let row = &said["before"]["rows"][0];
    assert_eq!((&row["calls"], &row["lost"]), (&2.into(), &2.into()), "{said:#}");
    assert_eq!(row["lost_why"], "no whole reply within 60 s", "{said:#}");
}

#[test]
fn a_call_of_which_nothing_moves_is_waited_for_five_seconds() {
    let dir = TestFolder::new();
    let text = two_hosts(&line(20, false), &format!("{QUIET}{}", probe("unused", "")));
    let file = dir.file("network.toml", &text);
    let file = file.to_string_lossy();
    let own = std::env::current_exe().expect("a test has a file");
    let other = format!("b: {} --ignored --exact rr::another_server falls-silent", own.display());
    let exec = ["lab", "exec", &*file, "a", "--with", &other, "--", QUELL, "rr", "{b}:5202"];
    let output = dir.quell(&[&exec[..], &["--sizes", "64", "--calls", "5"]].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("nothing moved for 5 s"), "{said}");
}

#[test]
fn a_server_that_drips_is_waited_for_two_minutes_longer_in_all() {
    let dir = TestFolder::new();
    let text = two_hosts(&line(20, false), &format!("{QUIET}{}", probe("unused", "")));
    let file = dir.file("network.toml", &text);
    let file = file.to_string_lossy();
    let own = std::env::current_exe().expect("a test has a file");
    let other = format!("b: {} --ignored --exact rr::another_server drips", own.display());
    let story = "t=$(cut -d. -f1 /proc/uptime); \"$0\" rr $1:5202 $2 2>&1; echo code $?; \
                 echo took $(($(cut -d. -f1 /proc/uptime) - t))";
    // 45 s for each of the first size, and more than a minute for each of the other; of the last all that there is.
    for (arguments, calls, (from, to)) in [
        ("--pattern connect --sizes 16,64 --calls 60", 3, (125, 140)),
        ("--pattern connect --sizes 64 --calls 60 --patience 20s", 1, (24, 31)),
        ("--sizes 16 --calls 60", 2, (125, 140)),
    ] {
        let exec = ["lab", "exec", &*file, "a", "--with", &other, "--", "sh", "-c", story, QUELL];
        let output = dir.quell(&[&exec[..], &["{b}", arguments]].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let took = said.split("took ").last().and_then(|took| took.trim().parse().ok());
        let took: u64 = took.unwrap_or_else(|| panic!("{said}"));
        assert!(said.contains("code 3") && (from..to).contains(&took), "{arguments}: {said}");
        let slow = format!("is slow: {calls} calls");
        assert!(said.contains(&slow) && said.contains("--patience"), "{arguments}: {said}");
        assert!(!said.contains("\n      64 ") || calls == 1, "{arguments}: {said}");
    }
}
