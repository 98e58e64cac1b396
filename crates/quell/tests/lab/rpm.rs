//! `quell flow --rpm` against exact truth: what a line carries, be its queue as deep as it likes.

use super::support::{PING, QUELL, QUIET, TestFolder, home};
use serde_json::Value;

/// A queue of 1.2 seconds: after a loss TCP holds back as much for as long.
const DEEP: &str = "both = { rate = \"10Mbit\", delay = \"10ms\", buffer = \"1000p\" }";

/// What it says at home, of a server beyond this line.
fn rpm(line: &str, asked: &[&str]) -> Value {
    ends(line, asked).0
}

/// The same, and its exit code.
fn ends(line: &str, asked: &[&str]) -> (Value, Option<i32>) {
    let folder = TestFolder::new();
    let file = folder.file("network.toml", &home(false, line, &format!("{QUIET}{PING}")));
    let file = file.to_string_lossy();
    let serve = format!("server: {QUELL} serve --bind 0.0.0.0 --web");
    let all =
        ["lab", "exec", &*file, "a", "--with", &*serve, "--", QUELL, "flow", "--rpm", "--json"];
    let output = folder.quell(&[&all, asked].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    let told = serde_json::from_slice(&output.stdout);
    (told.unwrap_or_else(|why| panic!("{why}: {said}")), output.status.code())
}

/// Both directions against what a line of 10 Mbit/s carries in full segments.
fn tells_what_the_line_carries(told: &Value, least: f64, most: f64) {
    for way in ["down", "up"] {
        let figures = &told[way];
        let goodput = figures["bits_per_second"].as_f64().expect("it is told") / 1e6;
        let share = goodput / (10.0 * 1448.0 / 1514.0);
        assert!((least..=most).contains(&share), "{way}: {share:.3} of the line: {told:#}");
        assert_eq!(figures["goodput_confidence"], "high", "{way}: {told:#}");
    }
}

#[test]
fn behind_a_deep_queue_goodput_is_what_arrived_and_not_what_had_been_held_back() {
    tells_what_the_line_carries(&rpm(DEEP, &["{server}:5201"]), 0.95, 1.005);
}

#[test]
fn over_tls_it_is_too_though_not_all_segments_are_full() {
    let told = rpm(DEEP, &["https://{server}:5201", "--insecure"]);
    tells_what_the_line_carries(&told, 0.9, 1.01);
}

/// Narrow ones, whose seconds hold a few segments, in queues of one to two seconds or in one that drops early.
#[test]
fn on_a_narrow_line_it_is_no_more_than_the_line_carries() {
    for (kbit, line) in [
        (200.0, "rate = \"200kbit\", delay = \"20ms\", buffer = \"30kB\""),
        (210.0, "rate = \"210kbit\", delay = \"20ms\", buffer = \"30kB\""),
        (250.0, "rate = \"250kbit\", delay = \"20ms\", buffer = \"30kB\""),
        (500.0, "rate = \"500kbit\", delay = \"20ms\", queue = \"fq_codel\""),
    ] {
        let told = rpm(&format!("both = {{ {line} }}"), &["{server}:5201"]);
        for way in ["down", "up"] {
            let goodput = told[way]["bits_per_second"].as_f64().expect("it is told") / 1e3;
            let share = goodput / (kbit * 1448.0 / 1514.0);
            assert!((0.9..=1.0).contains(&share), "{way}, {line}: {share:.3} of it: {told:#}");
        }
    }
}

/// Acknowledgements of 100 Mbit/s fill an uplink of 1, and its queue of half a second: of some requests the first packets are lost there more than once,
/// and a server waits for a request for 5 s.
#[test]
fn requests_that_are_in_the_queue_for_longer_than_the_server_waits_make_a_figure_at_most_that() {
    let line = "up = { rate = \"1Mbit\", delay = \"15ms\", buffer = \"64kB\" }\n\
                down = { rate = \"100Mbit\", delay = \"15ms\", buffer = \"1MB\" }";
    for asked in [&["{server}:5201"][..], &["https://{server}:5201", "--insecure"]] {
        let (told, code) = ends(line, asked);
        let down = &told["down"];
        assert_eq!(down["broke"], Value::Null, "{told:#}");
        assert!(down["unanswered"].as_u64() > Some(0), "{told:#}");
        assert!(down["waited_s"].as_f64() >= Some(3.0), "{told:#}");
        assert_eq!([&down["at_most"], &told["at_most"]], [&Value::Bool(true); 2], "{told:#}");
        // What is left out is the slowest: without them it was twice as much.
        assert!(told["rpm"].as_f64() < Some(85.0), "{told:#}");
        assert_eq!(code, Some(0), "there is a figure: {told:#}");
    }
}
