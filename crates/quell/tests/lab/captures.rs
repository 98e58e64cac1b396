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
    traced_beside(network, command, &[])
}

/// The same, while others run beside it: `HOST: COMMAND` each.
pub fn traced_beside(network: &str, command: &str, beside: &[&str]) -> ([Value; 2], u64) {
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
    let with = [&serve, &far].into_iter().map(String::as_str).chain(beside.iter().copied());
    let with: Vec<&str> = with.flat_map(|one| ["--with", one]).collect();
    let lab = [&["lab", "exec", &*file, "a"][..], &with, &["--", "sh", "-c", &script]].concat();
    let output = dir.quell(&lab);
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
pub fn lacks_tcpdump() -> bool {
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
            // Of a piece a part had come with the tail; the rest was needed.
            assert_eq!(connection[way]["spurious"], 0, "{story}");
            // One call that opens the connection, with the hello, and ten that count.
            assert!(connection[way]["bytes"].as_u64() >= Some(33_000), "{story}");
        }
        let marks = connection["marks"].as_array().expect("marks");
        let of = |side: &str| marks.iter().filter(|mark| mark["side"] == side).count() as u64;
        assert_eq!((of("client"), of("server")), (sent_again, 4), "{story}");
        assert_eq!(connection["retransmissions"], sent_again + 4, "{story}");
    }
}
