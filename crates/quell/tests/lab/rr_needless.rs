//! Calls behind a queue that fills and empties: TCP sends again what is only late, and nobody is said to have lost a packet.

use super::support::{PING, QUELL, QUIET, TestFolder, two_hosts};
use serde_json::Value;
use std::net::UdpSocket;
use std::time::Duration;

/// A program of `quell lab exec`: so many bursts of so many packets of 1000 bytes to an address, with so many milliseconds between them.
#[test]
#[ignore = "a program for other tests"]
fn bursts() {
    let told: Vec<String> = std::env::args().skip_while(|a| !a.ends_with("::bursts")).collect();
    let Some(told) = told.get(1..5) else { return };
    let number = |at: usize| told[at].parse::<u64>().expect("a number");
    let to = format!("{}:9", told[0]);
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a free port");
    for _ in 0..number(1) {
        std::thread::sleep(Duration::from_millis(number(3)));
        for _ in 0..number(2) {
            // A queue that is full, and a port that nobody reads, are no matter here.
            let _ = socket.send_to(&[b'x'; 1000], &to);
        }
    }
}

/// The first size's row of `quell rr` on `a`, while `from` sends bursts over a line of 1 Mbit/s and 10 ms whose queue takes them all; and what
/// the queue of the line dropped.
fn beside_bursts(from: &str, bursts: &str, arguments: &str) -> Value {
    beside_bursts_without("", from, bursts, arguments)
}

/// The same where these hosts don't say what they had already (DSACK), nor when what they answer was sent (timestamps).
fn beside_bursts_without(dsack_at: &str, from: &str, bursts: &str, arguments: &str) -> Value {
    let dir = TestFolder::new();
    let line = "both = { rate = \"1Mbit\", delay = \"10ms\", buffer = \"400p\" }";
    let file = dir.file("network.toml", &two_hosts(line, &format!("{QUIET}{PING}")));
    let own = std::env::current_exe().expect("a test has a file");
    let to = if from == "a" { "{b}" } else { "{a}" };
    let program = format!("{} --ignored --exact rr_needless::bursts", own.display());
    let burst = format!("{from}: {program} {to} {bursts}");
    let silent = |host: &str| match dsack_at.contains(host) {
        true => "cd /proc/sys/net/ipv4; echo 0 >tcp_dsack; echo 0 >tcp_timestamps; ",
        false => "",
    };
    let serve = format!("b: sh -c \"{}exec {QUELL} serve --bind 0.0.0.0\"", silent("b"));
    let file = file.to_string_lossy();
    let with = ["lab", "exec", &*file, "a", "--with", &serve, "--with", &burst, "--"];
    let rr = format!("{}exec {QUELL} rr {{b}} --json {arguments}", silent("a"));
    let output = dir.quell(&[&with[..], &["sh", "-c", &rr]].concat());
    let out = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    let said: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{error}"));
    assert_eq!(output.status.code(), Some(0), "{said:#}{error}");
    said["before"]["rows"][0].clone()
}

#[test]
fn what_is_sent_again_because_a_queue_grew_nobody_lost() {
    let (mut found, mut by_timer) = (Vec::new(), 0);
    for (from, bursts, arguments) in [
        // Half a second of queue: requests are sent again; a second and a half: SYNs, too.
        ("a", "8 60 2000", "--sizes 64 --calls 150 --pattern connect"),
        ("a", "8 170 3000", "--sizes 200 --calls 150 --pattern connect"),
        ("a", "8 60 2000", "--sizes 64 --calls 200"),
        ("b", "8 60 2000", "--sizes 64 --calls 150 --pattern connect"),
        ("b", "8 170 3000", "--sizes 200 --calls 150 --pattern connect"),
        ("b", "8 60 2000", "--sizes 64 --calls 200"),
        // Of replies that have no room for what the server could tell.
        ("a", "8 60 2000", "--sizes 16 --calls 150 --pattern connect"),
        ("a", "8 170 3000", "--sizes 16 --calls 150 --pattern connect"),
    ] {
        let row = beside_bursts(from, bursts, arguments);
        let story = format!("{from} {bursts} {arguments}: {row:#}");
        assert!(row["latency_ms"]["max"].as_f64().expect("replies") > 400.0, "{story}");
        by_timer += row["stalls"]["needless_timer"].as_u64().expect("a count");
        let blamed = [
            "retransmitted",
            "retransmitted_there",
            "retransmitted_somewhere",
            "needless_overtaken",
        ];
        for of in blamed {
            if row["stalls"][of] != 0 {
                found.push(format!("{of}: {story}"));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(by_timer > 0);
}

/// Who never says that a segment came twice lets its sender know of none that it sent again needlessly.
#[test]
fn what_is_sent_again_to_a_host_that_does_not_say_what_it_had_may_be_late() {
    let (mut found, mut unknown) = (Vec::new(), 0);
    for dsack_at in ["a", "b", "ab"] {
        for (from, bursts) in [("a", "8 60 2000"), ("b", "8 60 2000")] {
            let row = beside_bursts_without(dsack_at, from, bursts, "--sizes 64 --calls 200");
            let story = format!("none from {dsack_at}, bursts of {from}: {row:#}");
            assert!(row["latency_ms"]["max"].as_f64().expect("replies") > 400.0, "{story}");
            unknown += row["stalls"]["unknown_timer"].as_u64().expect("a count");
            for of in ["retransmitted", "retransmitted_there", "retransmitted_somewhere"] {
                if row["stalls"][of] != 0 {
                    found.push(format!("{of}: {story}"));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(unknown > 0);
}
