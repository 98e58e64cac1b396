//! Calls over paths that lose nothing and on which packets overtake each other: nobody lost a packet, and nobody waited for an ACK that was not late.

use super::support::{PING, QUELL, QUIET, TestFolder, two_hosts};
use serde_json::Value;

/// The rows of `quell rr` on `a`, over such a line.
fn rows(line: &str, pattern: &str) -> Vec<Value> {
    let dir = TestFolder::new();
    let file = dir.file("network.toml", &two_hosts(line, &format!("{QUIET}{PING}")));
    let file = file.to_string_lossy();
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0");
    let lab = ["lab", "exec", &*file, "a", "--with", &serve, "--", QUELL, "rr", "{b}", "--json"];
    let what = ["--sizes", "64,3000,20000", "--calls", "300", "--pattern", pattern];
    let output = dir.quell(&[&lab[..], &what].concat());
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{error}"));
    said["before"]["rows"].as_array().expect("rows").clone()
}

#[test]
fn where_packets_overtake_each_other_nobody_is_said_to_have_lost_one_or_to_wait_for_an_ack() {
    let (mut found, mut needless, mut overtaken, mut timer, mut unsure) = (Vec::new(), 0, 0, 0, 0);
    for line in [
        "both = { delay = \"20ms\", jitter = \"8ms\" }",
        "both = { delay = \"20ms\", reorder = \"25%\" }",
        "both = { rate = \"50Mbit\", delay = \"5ms\", jitter = \"5ms\" }",
        "up = { delay = \"5ms\" }\ndown = { delay = \"5ms\", jitter = \"5ms\" }",
        "up = { delay = \"5ms\", jitter = \"5ms\" }\ndown = { delay = \"5ms\" }",
    ] {
        for pattern in ["request-response", "connect"] {
            for row in rows(line, pattern) {
                let stalls = &row["stalls"];
                let story = format!("{line} {pattern}: {row:#}");
                assert_eq!(row["lost"], 0, "{story}");
                needless += stalls["needless"].as_u64().expect("a count");
                overtaken += stalls["needless_overtaken"].as_u64().expect("a count");
                timer += stalls["needless_timer"].as_u64().expect("a count");
                unsure += stalls["unknown_timer"].as_u64().expect("a count");
                let blamed = [
                    "count",
                    "held",
                    "held_there",
                    "nagled",
                    "retransmitted",
                    "retransmitted_there",
                    "retransmitted_somewhere",
                ];
                found.extend(
                    blamed.iter().filter(|of| stalls[**of] != 0).map(|of| format!("{of}: {story}")),
                );
                let said = row["finding"]["id"].as_str().unwrap_or("nothing");
                if !["nothing", "unknown"].contains(&said) {
                    found.push(format!("{said}: {story}"));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    // Much was sent again, and sometimes a timer was waited for.
    assert!(needless > 100 && unsure > 0, "{needless} {unsure}");
    // Next to always without a timer: where a reply varies by more than a loss probe waits, that one does run out.
    assert!(overtaken * 10 > needless * 9, "{overtaken} of {needless}");
    assert!(timer * 100 < needless, "{timer} of {needless}");
}

/// The second write waits for the ACK of the first, which the server delays: what is told of that is true here, and of loss nothing is.
#[test]
fn two_writes_on_a_path_of_overtaking_are_held_and_none_of_them_is_said_to_be_lost() {
    let mut held = 0;
    for line in [
        "both = { delay = \"20ms\", jitter = \"8ms\" }",
        "both = { delay = \"20ms\", reorder = \"25%\" }",
        "up = { delay = \"5ms\", jitter = \"5ms\" }\ndown = { delay = \"5ms\" }",
    ] {
        for row in rows(line, "write-write-read") {
            let stalls = &row["stalls"];
            let story = format!("{line}: {row:#}");
            let count = |of: &str| stalls[of].as_u64().unwrap_or_else(|| panic!("{of}: {story}"));
            assert_eq!(row["lost"], 0, "{story}");
            for of in
                ["retransmitted", "retransmitted_there", "retransmitted_somewhere", "held_there"]
            {
                assert_eq!(count(of), 0, "{of}: {story}");
            }
            assert_eq!(count("count"), count("held"), "{story}");
            // Each call is one of these at most.
            let apart = [
                "count",
                "nagled",
                "unknown",
                "unknown_cost",
                "unknown_there",
                "unknown_timer",
                "needless",
            ];
            assert!(apart.map(count).iter().sum::<u64>() <= 300, "{story}");
            let said = row["finding"]["id"].as_str().unwrap_or("nothing");
            let true_here = ["nothing", "unknown", "nagle", "nagle-and-delayed-ack"];
            assert!(true_here.contains(&said), "{said}: {story}");
            held += count("held") + count("nagled");
        }
    }
    assert!(held > 0, "Nagle's rule holds small second writes");
}
