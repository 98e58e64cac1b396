//! `quell trace` of captures that tcpdump makes in the lab, against what the kernels there counted.

use super::support::{PING, QUELL, QUIET, TestFolder};
use crate::left_out;
use serde_json::Value;
use std::process::Command;

/// A line of 10 Mbit/s and 20 ms there and back between two routers, which takes packets of 1280 bytes: what is larger the nearer router refuses.
const NARROW: &str = "name = \"story\"\nduration = \"20s\"\n[topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\", \"m\"]\n\
     [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r\"]\n\
     [[topology.link]]\nname = \"ln\"\nends = [\"r\", \"m\"]\nmtu = 1280\nboth = { rate = \"10Mbit\", delay = \"10ms\", buffer = \"100p\" }\n\
     [[topology.link]]\nname = \"lb\"\nends = [\"m\", \"b\"]\n";

/// What `quell trace --json` tells of captures at `a` and at `b` while `a` runs a command of quell, and how many segments `a` sent again.
fn traced(network: &str, command: &str) -> ([Value; 2], u64) {
    let dir = TestFolder::new();
    let file = dir.file("network.toml", network);
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0");
    let dump = |link: &str, at: &str| {
        format!(
            "tcpdump --immediate-mode -U -Z root -i {link} -s 128 -w /tmp/{at}.pcap tcp port 5201"
        )
    };
    let far = format!("b: {}", dump("lb", "b"));
    let script = format!(
        "{near} 2>/dev/null & until [ -s /tmp/a.pcap ] && [ -s /tmp/b.pcap ]; do sleep 0.01; done; \
         {QUELL} {command} >/dev/null && for at in a b; do {QUELL} trace /tmp/$at.pcap --json; echo; done; kill $!; wait; cat /proc/net/snmp",
        near = dump("la", "a"),
    );
    let file = file.to_string_lossy();
    let output = dir.quell(&[
        "lab", "exec", &*file, "a", "--with", &serve, "--with", &far, "--", "sh", "-c", &script,
    ]);
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let mut told = serde_json::Deserializer::from_str(&out).into_iter::<Value>();
    let mut next = || told.next().and_then(Result::ok).unwrap_or_else(|| panic!("{out}{error}"));
    let reports = [next(), next()];
    let mut tcp = out.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = tcp.next().zip(tcp.next()).expect("what the kernel counts");
    let place = names.split(' ').position(|name| name == "RetransSegs").expect("it counts them");
    let sent_again = values.split(' ').nth(place).and_then(|count| count.parse().ok());
    (reports, sent_again.expect("a count"))
}

/// Whether there is no tcpdump here; says so.
fn lacks_tcpdump() -> bool {
    let lacks = Command::new("tcpdump").arg("--version").output().is_err();
    if lacks {
        left_out::for_want_of("there is no tcpdump on this machine (package tcpdump)");
    }
    lacks
}

#[test]
fn what_was_too_big_and_came_again_in_pieces_was_overtaken_at_neither_end() {
    if lacks_tcpdump() {
        return;
    }
    let network = format!("{NARROW}{QUIET}{PING}");
    let (reports, sent_again) = traced(&network, "rr {b} --sizes 3000 --calls 10");
    assert_eq!(sent_again, 4, "the line took what was too big");
    for (report, at) in reports.iter().zip(["a", "b"]) {
        let connection = &report["connections"][0];
        let story = format!("at {at}: {connection:#}");
        for way in ["client_to_server", "server_to_client"] {
            assert_eq!(connection[way]["out_of_order"], 0, "{story}");
            // One call that opens the connection, with the hello, and ten that count.
            assert!(connection[way]["bytes"].as_u64() >= Some(33_000), "{story}");
        }
        assert_eq!(connection["retransmissions"], sent_again + 4, "{story}");
    }
}

/// Two hosts, each behind a router, and a line between these.
fn network(up: &str, down: &str) -> String {
    format!(
        "name = \"story\"\nduration = \"60s\"\n[topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\", \"m\"]\n\
         [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r\"]\n\
         [[topology.link]]\nname = \"ln\"\nends = [\"r\", \"m\"]\nup = {up}\ndown = {down}\n\
         [[topology.link]]\nname = \"lb\"\nends = [\"m\", \"b\"]\n{QUIET}{PING}"
    )
}

/// Captures at both ends tell the same of calls: what is held, lost, or well.
#[test]
fn both_ends_tell_the_same_of_calls() {
    if lacks_tcpdump() {
        return;
    }
    let still = "{ delay = \"15ms\" }";
    let lossy = "{ delay = \"15ms\", loss = \"8%\" }";
    let varies = "{ delay = \"20ms\", jitter = \"8ms\" }";
    let twice = "--pattern write-write-read --sizes 64 --calls 40";
    for (up, down, calls, causes) in [
        (still, still, twice, ["delayed-ack", "delayed-ack"]),
        (still, still, &format!("{twice} --quickack rearmed"), ["nagle", "nagle"]),
        (still, still, "--sizes 64 --calls 40", ["", ""]),
        (varies, varies, "--sizes 64 --calls 40", ["", ""]),
        (lossy, still, "--sizes 64 --calls 100", ["retransmission-timeout", ""]),
        (still, lossy, "--sizes 64 --calls 100", ["retransmission-timeout"; 2]),
    ] {
        let (reports, _) = traced(&network(up, down), &format!("rr {{b}} {calls}"));
        for ((report, cause), at) in reports.iter().zip(causes).zip(["a", "b"]) {
            let connection = &report["connections"][0];
            let said = connection["findings"][0]["id"].as_str().unwrap_or("");
            // At b a request that was lost on its way there comes late, and nothing shows it.
            let good = said == cause || cause.is_empty() && lossy == up;
            assert!(good, "{up}, {down}, {calls}, at {at}: {cause} is not {connection:#}");
        }
    }
}
