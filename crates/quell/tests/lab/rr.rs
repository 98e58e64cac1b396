//! Request and response: calls over known networks, and the stall of small messages with its cures.

use super::support::{QUELL, QUIET, TestFolder, near, two_hosts};
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
    assert!(said.contains("expectations hold."), "{said}");
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
fn rr_each(line: &str, kind: &str, runs: &[&str]) -> Vec<Value> {
    let script: Vec<String> = runs.iter().map(|run| format!("{QUELL} rr --json {run}")).collect();
    let (out, error) = beside_servers(line, kind, &script.join("\n"));
    let said: Result<Vec<Value>, _> =
        serde_json::Deserializer::from_str(&out).into_iter().collect();
    let said = said.unwrap_or_else(|e| panic!("{e}: {out}{error}"));
    assert_eq!(said.len(), runs.len(), "{out}{error}");
    said
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
fn line(rtt_ms: u32, varies: bool) -> String {
    let delay = rtt_ms * 500;
    match varies {
        true => format!("both = {{ delay = \"{delay}us\", jitter = \"{}us\" }}", delay / 2),
        false => format!("both = {{ delay = \"{delay}us\" }}"),
    }
}

/// What is said of calls: the cause and the end that waited, or nothing.
type Said = Option<(&'static str, Option<&'static str>)>;

const NOTHING: Said = None;
const UNKNOWN: Said = Some(("unknown", None));
const HELD_HERE: Said = Some(("delayed-ack", Some("here")));
const HELD_THERE: Said = Some(("delayed-ack", Some("there")));
const NAGLE: Said = Some(("nagle", Some("here")));
const LOST_HERE: Said = Some(("retransmission-timeout", Some("here")));
const LOST_THERE: Said = Some(("retransmission-timeout", Some("there")));

fn is_said(row: &Value, said: Said) -> bool {
    let text = |of: &str| row[of].as_str();
    (text("cause"), text("end")) == said.map_or((None, None), |(cause, end)| (Some(cause), end))
}

/// In one network: each run's only row is told so.
#[track_caller]
fn told(line: &str, kind: &str, runs: &[(&str, Said)]) {
    let words: Vec<&str> = runs.iter().map(|(run, _)| *run).collect();
    for (report, (run, said)) in rr_each(line, kind, &words).iter().zip(runs) {
        let row = &report["before"]["rows"][0];
        assert!(is_said(row, *said), "{line}, {kind}, {run}: {said:?} is not {row:#}");
    }
}

#[test]
fn stalls_are_found_on_paths_of_any_length_and_jitter_is_none() {
    for rtt in [5, 20, 60, 200] {
        for varies in [false, true] {
            let runs = [
                ("{b} --sizes 64 --calls 30 --pattern write-write-read", HELD_HERE),
                ("{b}:5202 --sizes 64 --calls 30", HELD_THERE),
                ("{b} --sizes 64 --calls 30", NOTHING),
                ("{b} --sizes 64 --calls 30 --pattern write-write-read --nodelay", NOTHING),
            ];
            told(&line(rtt, varies), "twice", &runs);
        }
    }
}

/// A line that is idle while the ACK of all but the last segment is on its way back, and one that is busy until after it.
const IDLE: &str =
    "up = { rate = \"256kbit\", delay = \"5ms\" }\ndown = { rate = \"1Mbit\", delay = \"120ms\" }";
const BUSY: &str =
    "up = { rate = \"256kbit\", delay = \"5ms\" }\ndown = { rate = \"1Mbit\", delay = \"5ms\" }";

#[test]
fn nagles_rule_is_told_where_it_costs_time_and_no_ack_was_delayed() {
    let wwr = "{b} --pattern write-write-read --calls 20 --sizes";
    let [small, held, delayed, full, at_once, one] = [
        "64 --quickack rearmed",
        "3000 --quickack rearmed",
        "3000",
        "2896 --quickack rearmed",
        "3000 --nodelay",
        "3000 --quickack rearmed --calls 1",
    ]
    .map(|run| format!("{wwr} {run}"));
    let [one, six] = [one.replace("--calls 20 ", ""), held.replace("{b}", "[fd00::2]:5203")];
    told(&line(20, false), "plain", &[(&small, NAGLE)]);
    told(
        IDLE,
        "plain",
        &[
            (&held, NAGLE),
            (&six, NAGLE),
            (&delayed, HELD_HERE),
            (&full, NOTHING),
            (&at_once, NOTHING),
            (&one, UNKNOWN),
        ],
    );
    told(BUSY, "plain", &[(&held, NOTHING), (&delayed, NOTHING)]);
}

#[test]
fn what_takes_long_for_another_reason_was_not_held() {
    let slow = "both = { rate = \"64kbit\", delay = \"20ms\" }";
    let wwr = "{b} --pattern write-write-read --sizes 4096 --calls 30";
    told(slow, "twice", &[("{b} --sizes 4096 --calls 10", NOTHING), (wwr, NOTHING)]);
    let faster = "both = { rate = \"250kbit\", delay = \"5ms\" }";
    told(faster, "twice", &[("{b} --sizes 65536 --calls 10", NOTHING)]);
    for kind in ["pauses", "steady"] {
        for rtt in [0, 20] {
            // The program takes its time between two writes, and does not say so.
            let runs = rr_each(&line(rtt, false), kind, &["{b}:5202 --sizes 64 --calls 10"]);
            let row = &runs[0]["before"]["rows"][0];
            assert!(is_said(row, NOTHING) || is_said(row, UNKNOWN), "{kind}, {rtt} ms: {row:#}");
        }
    }
    told(
        &line(10, false),
        "slow",
        &[
            ("{b}:5202 --sizes 64 --calls 30", UNKNOWN),
            ("{b} --sizes 16 --calls 30", NOTHING),
            ("{b} --sizes 64 --calls 30", NOTHING),
        ],
    );
    let early = rr_each(&line(10, false), "early", &["{b}:5202 --sizes 64 --calls 30"]);
    let row = &early[0]["before"]["rows"][0];
    assert!(is_said(row, NOTHING) && row["facts"]["early"].as_u64() > Some(0), "{row:#}");
}

#[test]
fn a_fix_that_changes_nothing_is_told_from_one_that_does() {
    // That server does not care what `quell rr` asks of it.
    let stalls = "{b}:5202 --pattern write-write-read --sizes 64 --calls 30 --fix";
    let runs = ["quickack", "nodelay"].map(|fix| format!("{stalls} {fix}"));
    let said = rr_each(&line(5, false), "plain", &runs.each_ref().map(String::as_str));
    for (said, effect) in said.iter().zip(["same", "sooner"]) {
        assert_eq!(said["mended"][0]["effect"], effect, "{said:#}");
    }
}

#[test]
fn a_sweep_finds_the_cliff_at_a_full_segment_and_who_waited() {
    let sweep = ["--pattern", "write-write-read", "--sizes", "1446..1449", "--calls", "20"];
    let said = rr("both = { delay = \"5ms\" }", &[&sweep[..], &["--fix", "one-write"]].concat());
    let cliffs = said["before"]["cliffs"].as_array().expect("a list");
    assert_eq!((&cliffs[0]["slow"], &cliffs[0]["fast"]), (&1447.into(), &1448.into()), "{said:#}");
    // Behind two segments no ACK is delayed, and Nagle's rule costs a round trip.
    assert!(is_said(&said["before"]["rows"][3], NAGLE), "{said:#}");
    let stalled = &said["before"]["rows"][1];
    assert!(is_said(stalled, HELD_HERE), "{said:#}");
    assert_eq!((&stalled["stalls"], &stalled["facts"]["held_bytes"]), (&20.into(), &1447.into()));
    assert_eq!(said["after"]["cliffs"], Value::Array(Vec::new()), "{said:#}");
    near(said["after"]["rows"][1]["latency_ms"]["p50"].as_f64().expect("replies"), 10.0, 0.01);
    assert_eq!(said["findings"][0]["id"], "delayed-ack", "{said:#}");
    assert_eq!(said["findings"][0]["end"], "here", "{said:#}");
}

#[test]
fn a_stall_is_found_named_and_mended_in_words() {
    let run = "{b} --pattern write-write-read --calls 5 --sizes 64,1448 --fix nodelay";
    let text = beside_servers(&line(1, false), "plain", &format!("{QUELL} rr {run}")).0;
    for words in [
        "cliff: calls of 64 bytes",
        "held a small segment until the server sent an ACK",
        "ACKs at the server 5 calls took",
        "with nodelay",
        "64 bytes: the fix helps",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn lost_packets_are_told_from_delayed_acks_with_the_end_that_lost_them() {
    let lossy = |up: &str, down: &str| {
        format!("up = {{ delay = \"10ms\"{up} }}\ndown = {{ delay = \"10ms\"{down} }}")
    };
    let (some, much) = (", loss = \"5%\"", ", loss = \"15%\"");
    told(&lossy(some, ""), "plain", &[("{b} --sizes 64 --calls 200", LOST_HERE)]);
    told(
        &lossy("", much),
        "plain",
        &[
            ("{b} --sizes 200 --calls 120", LOST_THERE),
            ("{b} --sizes 64 --calls 60 --pattern connect", LOST_THERE),
        ],
    );
    // Replies of 16 bytes have no room for what the server could tell.
    let silent = rr_each(&lossy("", much), "plain", &["{b} --sizes 16 --calls 60"]);
    let row = &silent[0]["before"]["rows"][0];
    assert!(row["cause"].is_string() && row["end"].is_null(), "{row:#}");
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
