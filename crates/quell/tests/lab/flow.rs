//! `quell flow` against exact truth: what a line carries, what a window allows, what is lost on which way.

use super::support::{PING, QUELL, QUIET, TestFolder, near, two_hosts};
use serde_json::Value;
use std::process::Output;

/// What `quell flow` with these arguments, on `a` of a network, says to a server on `b`, `{b}` being its address.
fn said_of(network: &str, arguments: &[&str]) -> Output {
    let dir = TestFolder::new();
    let file = dir.file("network.toml", network);
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0");
    let file = file.to_string_lossy();
    let mut all = vec!["lab", "exec", &*file, "a", "--with", &*serve, "--", QUELL, "flow"];
    all.extend(arguments);
    dir.quell(&all)
}

/// The same, of the usual address.
fn said(network: &str, arguments: &[&str]) -> Output {
    said_of(network, &[&["{b}"], arguments].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Two hosts and a line between routers, so that no host's own queue is the line's.
fn routed(line: &str, rest: &str) -> String {
    format!(
        "name = \"story\"\nduration = \"20s\"\n[topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\", \"q\"]\n\
         [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r\"]\n\
         [[topology.link]]\nname = \"line\"\nends = [\"r\", \"q\"]\n{line}\n\
         [[topology.link]]\nname = \"lb\"\nends = [\"q\", \"b\"]\n{rest}{PING}"
    )
}

/// What it says in JSON over this line.
fn flow(line: &str, arguments: &[&str]) -> Value {
    flow_over(&two_hosts(line, &format!("{QUIET}{PING}")), arguments)
}

/// The same over this network.
fn flow_over(network: &str, arguments: &[&str]) -> Value {
    let output = said(network, &[&["--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the result is JSON")
}

#[track_caller]
fn number(value: &Value, path: &str) -> f64 {
    let found = path.split('.').fold(value, |value, key| &value[key]);
    found.as_f64().unwrap_or_else(|| panic!("{path} is {found} in {value:#}"))
}

#[test]
fn a_line_of_10_mbit_gives_its_payload_and_the_ping_beside_it_waits_in_its_queue() {
    let json = flow(
        "both = { rate = \"10Mbit\", delay = \"10ms\", buffer = \"125kB\" }",
        &["-t", "10", "-O", "2", "-C", "cubic"],
    );
    assert_eq!(json["server_is_quell"], true);
    // 1448 of 1514 bytes, 1538 on a real Ethernet.
    near(number(&json, "up.bits_per_second"), 9.5e6, 0.2e6);
    near(number(&json, "latency.idle.p50_ms"), 20.0, 0.5);
    // A queue of 125 kB takes 100 ms, and cubic fills a good part of it.
    let loaded = number(&json, "latency.loaded.p50_ms");
    assert!((60.0..130.0).contains(&loaded), "{loaded}");
    assert_eq!(json["up"]["cause"], "path-queue");
}

/// Pings of the idle path take longer than a server waits for a client that says nothing: they go on for 1 s, and lost ones are waited for over
/// two round trips. Over the second path a stream comes 6.4 s after the server asked for it.
#[test]
fn a_path_that_is_long_and_loses_much_is_measured_all_the_same() {
    for (delay, loss) in [("750ms", ", loss = \"8%\""), ("1600ms", "")] {
        let line =
            format!("up = {{ delay = \"{delay}\" }}\ndown = {{ delay = \"{delay}\"{loss} }}");
        let json = flow(&line, &["-t", "20"]);
        let round_trip = 2.0 * delay.trim_end_matches("ms").parse::<f64>().expect("a number");
        near(number(&json, "latency.idle.p50_ms"), round_trip, 1.0);
        assert_eq!(number(&json, "latency.idle.lost") > 0.0, !loss.is_empty(), "{line}");
        assert!(number(&json, "up.bits_per_second") > 0.0, "{:#}", json["up"]);
    }
}

#[test]
fn a_window_of_64_kib_gives_one_window_a_round_trip() {
    let json = flow("both = { delay = \"50ms\" }", &["-t", "10", "-O", "2", "-w", "64K", "--bdp"]);
    // 65,536 bytes in 100 ms are 5.2 Mbit/s.
    let rate = number(&json, "up.bits_per_second");
    let window = number(&json, "bdp.offered_bytes");
    near(rate, window * 8.0 / 0.1, 0.15 * rate);
    near(rate, 5.2e6, 1.0e6);
    // The line has no rate, so nothing filled it.
    assert!(json["grade"].is_null(), "{}", json["grade"]);
}

#[test]
fn datagrams_that_are_lost_on_one_way_are_counted_on_that_way() {
    let line = "up = { delay = \"5ms\", loss = \"10%\" }\ndown = { delay = \"5ms\" }";
    let json = flow(line, &["-u", "-b", "2M", "-l", "500", "--bidir", "-t", "20"]);
    near(number(&json, "up.datagrams.sent"), 10_000.0, 10.0);
    near(number(&json, "up.datagrams.loss"), 0.1, 0.015);
    near(number(&json, "down.datagrams.loss"), 0.0, 0.0);
    near(number(&json, "down.bits_per_second"), 2e6, 0.01e6);
}

/// A round trip takes 40 ms, always: a ping has its answer by then or is lost. An amount is over long before a second has passed since the last.
#[test]
fn pings_beside_an_amount_are_waited_for_and_lost_but_never_late() {
    let line = "up = { delay = \"20ms\", loss = \"20%\" }\ndown = { delay = \"20ms\" }";
    let amounts: [&[&str]; 3] = [
        &["-u", "-b", "4M", "-n", "1M", "--bidir"],
        &["-u", "-b", "4M", "-n", "1M"],
        &["-n", "50K"],
    ];
    for amount in amounts {
        let json = flow(line, amount);
        assert_eq!(number(&json, "latency.loaded.late"), 0.0, "{amount:?}: {}", json["latency"]);
        near(number(&json, "latency.loaded.max_ms"), 40.0, 0.5);
    }
}

/// Results of three streams are larger than what passes, so that this end's vanish before the server tells its own.
#[test]
fn a_hole_is_named_with_any_number_of_streams_whichever_end_sends() {
    let line = "both = { rate = \"10Mbit\", delay = \"10ms\" }\nswallows-above = 1300";
    for options in [&["-t", "5", "-P", "4", "-R"][..], &["-t", "5", "-P", "4"]] {
        let output = said(&routed(line, QUIET), options);
        let out = text(&output.stdout).replace("\n         ", " ");
        let error = text(&output.stderr);
        assert!(out.contains("do not arrive, small ones do"), "{options:?}: {out}{error}");
        assert!(error.contains("results of this end did not reach the server"), "{error}");
        assert!(!error.contains("vanished"), "the server did not: {error}");
    }
}

/// Bytes that came, in a test of 3 s at 5 Mbit/s on each of so many streams: what is due, and what was written at once in each.
#[track_caller]
fn due(received: f64, streams: u32) {
    let (due, piece) = (1_875_000.0 * f64::from(streams), 1448.0 * f64::from(streams));
    assert!((due - piece..=due + piece).contains(&received), "{received}, not {due}");
}

#[test]
fn a_rate_that_was_asked_for_is_kept_from_the_first_byte_on_whoever_sends() {
    let line = "both = { rate = \"100Mbit\", delay = \"1ms\" }";
    for (way, options, streams) in [
        ("up", &[][..], 1),
        ("down", &["-R"], 1),
        ("up", &["-P", "3"], 3),
        ("down", &["-Z", "-R"], 1),
    ] {
        let json = flow(line, &[&["-b", "5M", "-t", "3"], options].concat());
        due(number(&json, &format!("{way}.received_bytes")), streams);
        near(number(&json, &format!("{way}.bits_per_second")), 5e6 * f64::from(streams), 0.01e6);
        assert_eq!(json[way]["cause"], "rate-limit", "{options:?}: {:#}", json[way]["facts"]);
    }
}

#[test]
fn pings_behind_a_deep_queue_are_late_and_not_lost() {
    let line = "both = { rate = \"1Mbit\", delay = \"10ms\", buffer = \"1000p\" }";
    let json = flow(line, &["-t", "15"]);
    let loaded = &json["latency"]["loaded"];
    assert_eq!((&loaded["lost"], &loaded["late"]), (&0.into(), &0.into()), "{loaded:#}");
    // Nothing is dropped: each ping waits behind what TCP has on the way, which knows that as well.
    let (p50, tcp) = (number(&json, "latency.loaded.p50_ms"), &json["up"]["tcp_rtt_ms"]);
    assert!(number(loaded, "max_ms") > 3000.0, "{loaded:#} {tcp:#}");
    let added = p50 - number(&json, "latency.idle.p50_ms");
    near(number(&json, "latency.added_ms"), added, 0.001);
    near(number(&json, "latency.added_up_ms"), added, 1.0);
    near(number(&json, "latency.added_down_ms"), 0.0, 1.0);
}

#[test]
fn what_was_sent_again_before_a_test_is_not_of_it() {
    // The kernel sends a SYN, and a SYN-ACK, once more after a second: of the path nothing is lost.
    for way in [&[][..], &["-R"]] {
        let json = flow("both = { delay = \"1s\" }", &[&["-t", "5", "--no-latency"], way].concat());
        let way = if way.is_empty() { "up" } else { "down" };
        assert_eq!(json[way]["retransmits"], 0, "{:#}", json[way]);
    }
}

#[test]
fn datagrams_that_the_path_swallows_are_not_said_to_arrive() {
    let network = format!(
        "name = \"story\"\nduration = \"20s\"\n[topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\"]\n\
         [[topology.link]]\nname = \"lan\"\nends = [\"a\", \"r\"]\n\
         [[topology.link]]\nname = \"wan\"\nends = [\"r\", \"b\"]\nboth = {{ delay = \"10ms\" }}\nswallows-above = 1400\n{QUIET}{PING}"
    );
    // Results of iperf3 alone fit through.
    for way in [&[][..], &["-R"]] {
        let options = [&["-u", "-b", "1M", "-t", "3", "--iperf3"], way].concat();
        let output = said(&network, &options);
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{out}{error}");
        assert!(out.contains("not one of 26") || out.contains("not one of 25"), "{out}{error}");
        assert!(!out.contains("nothing is lost") && error.contains("not one byte"), "{out}{error}");
    }
}

#[test]
fn datagrams_have_the_rate_at_which_they_came_whatever_the_path_takes() {
    // 2 s of 1 Mbit/s, the first of which come after 300 ms.
    let far = "both = { rate = \"10Mbit\", delay = \"300ms\", buffer = \"1000p\" }";
    for way in [&[][..], &["-R"]] {
        let json = flow(far, &[&["-u", "-b", "1M", "-l", "1000", "-t", "2"], way].concat());
        let way = if way.is_empty() { "up" } else { "down" };
        near(number(&json, &format!("{way}.bits_per_second")), 1e6, 0.008e6);
    }
    // 1400 bytes of payload are 1442 on the line, 64 are 106; the line is full, and its queue.
    let line = "up = { rate = \"10Mbit\", delay = \"20ms\", buffer = \"60p\" }\ndown = { rate = \"4Mbit\", delay = \"5ms\" }";
    for (options, rate) in [
        (["-b", "20M", "-l", "1400"], 1400.0 / 1442.0 * 10e6),
        (["-b", "10M", "-l", "64"], 64.0 / 106.0 * 10e6),
    ] {
        let json = flow_over(&routed(line, QUIET), &[&["-u", "-t", "5"], &options[..]].concat());
        near(number(&json, "up.bits_per_second"), rate, 0.005 * rate);
    }
    // TCP too: what came, from the first byte on.
    let json = flow_over(&routed(far, QUIET), &["-t", "3"]);
    near(number(&json, "up.seconds"), 3.0, 0.03);
    assert!(number(&json, "up.received_bytes") <= number(&json, "up.sent_bytes"), "{json:#}");
}

#[test]
fn an_amount_takes_in_each_direction_as_long_as_it_takes_there() {
    let line = "up = { rate = \"1Mbit\", delay = \"10ms\" }\ndown = { rate = \"10Mbit\", delay = \"10ms\" }";
    let json = flow_over(&routed(line, QUIET), &["-n", "1M", "--bidir"]);
    for way in ["up", "down"] {
        let (took, rate) = (number(&json[way], "seconds"), number(&json[way], "bits_per_second"));
        near(number(&json[way], "received_bytes"), 1_048_576.0, 0.0);
        near(number(&json[way], "sent_bytes"), 1_048_576.0, 0.0);
        near(rate, 8.0 * 1_048_576.0 / took, 1.0);
    }
    // The way down was through long before the way up was.
    let (up, down) = (number(&json, "up.seconds"), number(&json, "down.seconds"));
    assert!((8.5..10.0).contains(&up) && down < 0.85 * up, "{up} {down}");
    let empty = json["intervals"]
        .as_array()
        .expect("rows")
        .iter()
        .rev()
        .find(|row| row["down_bits_per_second"].as_f64().is_some_and(|bits| bits > 0.0));
    let last = number(empty.expect("a row with data"), "start_s");
    assert!((last..last + 1.1).contains(&down), "{down} is not in the row from {last}");
}

#[test]
fn a_server_that_can_not_send_datagrams_of_this_size_says_so() {
    let line = "both = { rate = \"10Mbit\", delay = \"5ms\" }\nmtu = 1300";
    let output = said(&routed(line, QUIET), &["-u", "-R", "-t", "2"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("EMSGSIZE") && error.contains("-l"), "{error}");
}

#[test]
fn the_least_round_trip_is_the_kernels_and_the_longest_gap_is_exact() {
    let line = "both = { rate = \"3Mbit\", delay = \"20ms\", buffer = \"100p\" }";
    let json = flow_over(&routed(line, QUIET), &["-R", "-t", "5"]);
    // An empty line takes 40 ms; what is smoothed never gets there again.
    near(json["down"]["tcp_rtt_ms"][0].as_f64().expect("a time"), 40.2, 0.5);
    let json = flow_over(&routed(line, QUIET), &["-u", "-b", "2M", "-t", "2"]);
    let longest = number(&json, "up.datagrams.longest_gap_ns");
    // 1448 bytes are 5.792 ms apart; a ping of 98 bytes may take 0.26 ms of the line before one of them.
    assert!((5.79e6..6.1e6).contains(&longest), "{longest}");
}
