//! Any program of this machine in the lab: its output, its exit code, its clock.

use super::support::Desk;
use std::time::{Duration, Instant};

#[test]
fn a_ping_over_the_home_link_takes_20_ms() {
    let output =
        Desk::new().quell(&["lab", "exec", "home-link", "b", "--", "ping", "-c", "4", "{server}"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.matches("time=20.0 ms").count(), 4, "{said}");
}

#[test]
fn exit_code_and_both_streams_come_through() {
    let output = Desk::new().quell(&[
        "lab",
        "exec",
        "home-link",
        "b",
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2; exit 7",
    ]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "out\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("err"));
}

#[test]
fn an_hour_passes_in_a_moment() {
    let begun = Instant::now();
    let output = Desk::new().quell(&["lab", "exec", "home-link", "b", "--", "sleep", "3600"]);
    assert!(output.status.success());
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn iperf3_finds_the_lines_rate() {
    let output = Desk::new().quell(&[
        "lab",
        "exec",
        "home-link",
        "b",
        "--with",
        "server: iperf3 -s",
        "--",
        "iperf3",
        "-c",
        "{server}",
        "-t",
        "10",
        "-J",
    ]);
    let said = String::from_utf8_lossy(&output.stdout);
    let json: serde_json::Value =
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    let rate = json["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate");
    assert!((2.0e6..2.45e6).contains(&rate), "{rate}");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let output = Desk::new().quell(&["lab", "exec", "home-link", "b", "--", "/no/such/program"]);
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/no/such/program") && said.contains('b'), "{said}");
}
