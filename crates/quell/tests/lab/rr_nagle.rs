//! Nagle's rule behind several segments: it costs time where the line is idle until an ACK comes, and nothing where the line is busy until then.

use super::rr::{line, rr_each};
use super::support::near;
use serde_json::Value;

/// A slow line up, a long way back: 6000 bytes of request take 193 ms up, the ACK of their first part comes after 228 ms.
const IDLE: &str =
    "up = { rate = \"256kbit\", delay = \"5ms\" }\ndown = { rate = \"1Mbit\", delay = \"120ms\" }";

/// The same line up, a short way back: it is busy until after that ACK.
const BUSY: &str =
    "up = { rate = \"256kbit\", delay = \"5ms\" }\ndown = { rate = \"1Mbit\", delay = \"5ms\" }";

fn p50(row: &Value) -> f64 {
    row["latency_ms"]["p50"].as_f64().expect("replies")
}

fn stalls(row: &Value, of: &str) -> f64 {
    row["stalls"][of].as_f64().unwrap_or_else(|| panic!("{of}: {row:#}"))
}

/// The only row of each run.
fn rows(line: &str, runs: &[&str]) -> Vec<Value> {
    let said = rr_each(line, "plain", runs);
    said.iter().map(|said| said["before"]["rows"][0].clone()).collect()
}

#[test]
fn with_acks_at_once_nagles_rule_still_costs_what_calls_without_it_take_less() {
    let of = |server: &str, change: &str| {
        format!("{server} --pattern write-write-read --sizes 3000 --calls 20 {change}")
    };
    let runs = [
        of("{b}", "--quickack rearmed"),
        of("{b}", "--nodelay"),
        of("{b}", "--one-write"),
        of("[fd00::2]:5203", "--quickack rearmed"),
        // A server that says nothing, and delays its ACKs.
        of("{b}:5202", ""),
        "{b} --pattern write-write-read --sizes 2896 --calls 20 --quickack rearmed".into(),
    ];
    let rows = rows(IDLE, &runs.each_ref().map(String::as_str));
    let [held, at_once, one_write, six, silent, full] = &rows[..] else { panic!("{rows:#?}") };
    let cost = p50(held) - p50(at_once);
    assert!(cost > 30.0, "{rows:#?}");
    for row in [held, six] {
        assert_eq!(row["finding"]["id"], "nagle", "{row:#}");
        assert_eq!((stalls(row, "nagled"), stalls(row, "count")), (20.0, 0.0), "{row:#}");
        // The first calls without the rule take two milliseconds more.
        near(stalls(row, "nagle_ms"), cost, 3.0);
    }
    for row in [at_once, one_write, full] {
        assert_eq!(row["finding"], Value::Null, "nothing is held: {row:#}");
        assert_eq!(row["stalls"]["nodelay_controls"], 0, "{row:#}");
    }
    // Its ACK is late by 40 ms, and a round trip of 130 ms could explain that, too.
    assert_eq!(silent["finding"]["id"], "nagle", "{silent:#}");
    assert!(stalls(silent, "nagle_ms") > cost, "{silent:#}");
}

#[test]
fn a_delayed_ack_behind_several_segments_is_told_by_calls_in_which_it_is_not() {
    let run = "{b} --pattern write-write-read --sizes 3000 --calls 20";
    let rows = rows(IDLE, &[run, &format!("{run} --quickack rearmed")]);
    let row = &rows[0];
    assert_eq!(row["finding"]["id"], "nagle-and-delayed-ack", "{row:#}");
    assert_eq!(stalls(row, "held"), 20.0, "{row:#}");
    near(stalls(row, "delay_ms"), p50(row) - p50(&rows[1]), 3.0);
}

#[test]
fn where_the_line_is_busy_until_the_ack_comes_nagles_rule_costs_nothing_and_is_not_told() {
    let of =
        |change: &str| format!("{{b}} --pattern write-write-read --sizes 3000 --calls 20 {change}");
    let runs = ["", "--nodelay", "--quickack rearmed", "--nodelay --quickack rearmed"].map(of);
    let rows = rows(BUSY, &runs.each_ref().map(String::as_str));
    // Acknowledgements at once go ahead of the reply, which is later for that.
    near(p50(&rows[0]), p50(&rows[1]), 0.02);
    near(p50(&rows[2]), p50(&rows[3]), 0.02);
    for row in &rows {
        assert_eq!(row["finding"], Value::Null, "{row:#}");
        assert_eq!((stalls(row, "nagled"), stalls(row, "count")), (0.0, 0.0), "{row:#}");
    }
}

#[test]
fn of_too_few_calls_it_is_unknown_whether_nagles_rule_cost_anything() {
    let run = "{b} --pattern write-write-read --sizes 3000 --calls 1 --quickack rearmed";
    let rows = rows(IDLE, &[run]);
    assert_eq!(rows[0]["finding"]["id"], "unknown", "{rows:#?}");
    assert_eq!(stalls(&rows[0], "unknown_cost"), 1.0, "{rows:#?}");
}

#[test]
fn a_server_that_writes_twice_holds_its_reply_for_a_round_trip_also_with_acks_at_once() {
    let run = "{b}:5202 --sizes 64 --calls 30 --fix quickack";
    let text = super::rr::rr_text(&line(20, false), "twice", run);
    assert!(
        text.contains("the rest of the reply still comes 20.0 ms after its beginning"),
        "{text}"
    );
    assert!(!text.contains("nobody waited"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}
