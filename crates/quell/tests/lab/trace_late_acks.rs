//! Late ACKs in captures at both ends: delayed by the other end, or held up by a path whose time comes and goes. The capture there knows which.

use super::captures::{lacks_tcpdump, traced_beside};
use super::support::{PING, QUIET, lacks_iperf3};
use serde_json::Value;

/// Two hosts, each behind a router, and a line between these.
fn network(up: &str, down: &str) -> String {
    format!(
        "name = \"story\"\nduration = \"60s\"\n[topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\", \"m\"]\n\
         [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r\"]\n\
         [[topology.link]]\nname = \"ln\"\nends = [\"r\", \"m\"]\nup = {up}\ndown = {down}\n\
         [[topology.link]]\nname = \"lb\"\nends = [\"m\", \"b\"]\n{QUIET}{PING}"
    )
}

/// How many waits `quell trace` calls the other end's doing, and how many it leaves open, at `a` and at `b`.
fn blamed_and_open(network: &str, calls: &str, beside: &[&str]) -> [(u64, usize); 2] {
    let rr = format!("rr {{b}} --pattern write-write-read --sizes 64 {calls}");
    let (reports, _) = traced_beside(network, &rr, beside);
    reports.map(|report| {
        let all = report["connections"].as_array().expect("connections");
        let blamed =
            all.iter().filter_map(|one| one["tallies"]["delayed-ack"]["count"].as_u64()).sum();
        let open = |mark: &&Value| mark["held"]["perhaps_delayed"] == true;
        let marks = all.iter().filter_map(|one| one["marks"].as_array()).flatten();
        (blamed, marks.filter(open).count())
    })
}

#[test]
fn what_the_other_end_delays_is_known_there_and_open_here() {
    if lacks_tcpdump() {
        return;
    }
    let line = "{ delay = \"15ms\" }";
    let [here, there] = blamed_and_open(&network(line, line), "--calls 40", &[]);
    assert_eq!((here, there), ((0, 40), (40, 0)));
}

#[test]
fn a_queue_that_comes_and_goes_is_not_blamed_on_the_other_end() {
    if lacks_tcpdump() || lacks_iperf3() {
        return;
    }
    let line = "{ rate = \"4Mbit\", delay = \"16ms\" }";
    // Bursts of 20 packets, 56 ms each, on the way back; b answers every segment at once.
    let bursts = "a: sh -c 'until iperf3 -c {b} -p 5300 -u -b 1300k/20 -l 1400 -t 40 -R; do sleep 0.1; done'";
    let beside = ["b: iperf3 -s -p 5300", bursts];
    let calls = "--calls 200 --quickack rearmed";
    let [here, there] = blamed_and_open(&network(line, line), calls, &beside);
    assert_eq!(there, (0, 0), "no ACK was late there");
    assert_eq!(here.0, 0, "nothing tells that from here");
    assert!(here.1 > 20, "the queue met the calls: {here:?}");
}

#[test]
fn a_delay_that_varies_is_not_blamed_on_the_other_end() {
    if lacks_tcpdump() {
        return;
    }
    let (still, varies) = ("{ delay = \"20ms\" }", "{ delay = \"20ms\", jitter = \"20ms\" }");
    for network in [network(still, varies), network(varies, still)] {
        let calls = "--calls 200 --quickack rearmed";
        let [here, there] = blamed_and_open(&network, calls, &[]);
        assert_eq!(there, (0, 0), "no ACK was late there");
        assert_eq!(here.0, 0, "nothing tells that from here: {network}");
        assert!(here.1 > 20, "the calls met it: {here:?}");
    }
}
