//! Calls to a server whose host delays ACKs of other connections meanwhile: these are not the calls'.

use super::support::{PING, QUELL, QUIET, TestFolder, near, two_hosts};
use serde_json::Value;

/// The first row of `quell rr` on `a`, of 64 bytes in two writes each, beside another one to another server on `b` whose ACKs are delayed.
fn beside_another(line: &str, arguments: &str) -> Value {
    let dir = TestFolder::new();
    let file = dir.file("network.toml", &two_hosts(line, &format!("{QUIET}{PING}")));
    let file = file.to_string_lossy();
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0");
    let other = format!("{serve} --port 5300");
    let pattern = "--pattern write-write-read --sizes 64";
    let beside =
        format!("a: sh -c \"sleep 0.1; exec {QUELL} rr {{b}}:5300 {pattern} --calls 200\"");
    let with =
        ["lab", "exec", &*file, "a", "--with", &serve, "--with", &other, "--with", &beside, "--"];
    let rr = format!("sleep 0.3; exec {QUELL} rr {{b}} --json {pattern} {arguments}");
    let output = dir.quell(&[&with[..], &["sh", "-c", &rr]].concat());
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{error}"));
    said["before"]["rows"][0].clone()
}

#[test]
fn acks_of_other_connections_that_the_servers_host_delays_stall_no_call() {
    let line = "both = { rate = \"20Mbit\", delay = \"15ms\" }";
    let row = beside_another(line, "--calls 40 --quickack rearmed");
    near(row["latency_ms"]["p50"].as_f64().expect("replies"), 60.2, 0.5);
    let stalls = &row["stalls"];
    assert_eq!((&stalls["count"], &stalls["unknown"]), (&0.into(), &0.into()), "{row:#}");
    assert_eq!(
        (&stalls["nagled"], &row["finding"]["id"]),
        (&40.into(), &"nagle".into()),
        "{row:#}"
    );
    // Where the ACK of these is delayed, too, that is told as before.
    let row = beside_another(line, "--calls 40");
    assert!(row["stalls"]["held"].as_u64().expect("a count") >= 30, "{row:#}");
    assert_eq!(row["finding"]["id"], "nagle-and-delayed-ack", "{row:#}");
    // A path that varies by less than an ACK is delayed: some may have been.
    let varies = "both = { rate = \"20Mbit\", delay = \"30ms\", jitter = \"10ms\" }";
    let row = beside_another(varies, "--calls 40 --quickack rearmed");
    assert_eq!(row["stalls"]["held"], 0, "{row:#}");
}
