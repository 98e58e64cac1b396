//! `quell flow` against exact truth: what a line carries, what a window allows, what is lost on which way.

use super::support::{Desk, PING, QUELL, QUIET, near, two_hosts};
use serde_json::Value;

/// What `quell flow` on `a` says in JSON of a server on `b`.
fn flow(line: &str, arguments: &[&str]) -> Value {
    let desk = Desk::new();
    let file = desk.file("network.toml", &two_hosts(line, &format!("{QUIET}{PING}")));
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0");
    let file = file.to_string_lossy();
    let mut all =
        vec!["lab", "exec", &*file, "a", "--with", &*serve, "--", QUELL, "flow", "{b}", "--json"];
    all.extend(arguments);
    let output = desk.quell(&all);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
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
    assert_eq!(json["up"]["limited_by"], "path");
}

#[test]
fn a_window_of_64_kib_gives_one_window_a_round_trip() {
    let json = flow("both = { delay = \"50ms\" }", &["-t", "10", "-O", "2", "-w", "64K", "--bdp"]);
    // 65,536 bytes in 100 ms are 5.2 Mbit/s.
    let rate = number(&json, "up.bits_per_second");
    let window = number(&json, "bdp.offered");
    near(rate, window * 8.0 / 0.1, 0.15 * rate);
    near(rate, 5.2e6, 1.0e6);
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
