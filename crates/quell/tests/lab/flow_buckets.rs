//! What `quell flow` says behind token buckets, which are full without a queue that pings meet, and of its own queue where others are in it.

use super::flow_limits::{json, lacks_tc};
use super::support::{PING, QUELL, QUIET, TestFolder, near};
use serde_json::Value;

/// What a shell on `a` says in JSON, `FLOW` being `quell flow` to `b`, over routers `r` and `q` with this line between them; `BESIDE` is `quell flow` to
/// `c`, which hangs at `r`. On `q` another shell sets up what leaves for `b` (`lb`).
fn told(line: &str, at_q: &str, script: &str) -> Value {
    let dir = TestFolder::new();
    let network = format!(
        "name = \"story\"\nduration = \"20s\"\n[topology]\nhosts = [\"a\", \"b\", \"c\"]\nrouters = [\"r\", \"q\"]\n\
         [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r\"]\n\
         [[topology.link]]\nname = \"line\"\nends = [\"r\", \"q\"]\n{line}\n\
         [[topology.link]]\nname = \"lb\"\nends = [\"q\", \"b\"]\n\
         [[topology.link]]\nname = \"lc\"\nends = [\"c\", \"r\"]\n{QUIET}{PING}"
    );
    let file = dir.file("network.toml", &network);
    let serve = |host: &str| format!("{host}: {QUELL} serve --bind 0.0.0.0");
    let (b, c) = (serve("b"), serve("c"));
    let path = "PATH=$PATH:/usr/sbin:/sbin";
    let bucket = format!("q: sh -c '{path}; {at_q}'");
    let script = script.replace("FLOW", &format!("{QUELL} flow {{b}}"));
    let script = script.replace("BESIDE", &format!("{QUELL} flow {{c}}"));
    let script = format!("{path}; {script}");
    let file = file.to_string_lossy();
    let mut all = vec!["lab", "exec", &*file, "a", "--with", &*b, "--with", &*c];
    if !at_q.is_empty() {
        all.extend(["--with", &*bucket]);
    }
    all.extend(["--", "sh", "-c", &*script]);
    json(&dir.quell(&all))
}

fn bits(way: &Value) -> f64 {
    way["bits_per_second"].as_f64().expect("a rate")
}

/// What a token bucket saved up lets most pings pass, and the window is a little larger than it carries: any larger one gets the same.
#[test]
fn a_window_that_fills_a_token_bucket_is_not_told_that_a_larger_one_could_be_faster() {
    if lacks_tc() {
        return;
    }
    let line = "both = { delay = \"5ms\" }";
    let bucket = "tc qdisc add dev lb root handle 1: htb default 1 && \
                  tc class add dev lb parent 1: classid 1:1 htb rate 20mbit burst 32k cburst 32k && \
                  tc qdisc add dev lb parent 1:1 fq_codel";
    let flow = |window| told(line, bucket, &format!("FLOW -t 8 --json -w {window}"));
    for full in [28_000, 30_000].map(flow) {
        near(bits(&full["up"]), 19.13e6, 0.1e6);
        assert_eq!(full["up"]["limited_by"], "unknown", "{:#}", full["up"]);
        assert!(!full["findings"].to_string().contains("faster"), "{:#}", full["findings"]);
    }
    let bound = flow(20_000);
    assert!(bits(&bound["up"]) < 18e6, "{:#}", bound["up"]);
    let limit = bound["up"]["limited_by"].as_str().expect("a word");
    assert!(limit.starts_with("receive-window") || limit == "send-buffer", "{bound:#}");
}

/// Where each flow has its turn, pings pass a window's bursts, and wait for a segment at most: of a line that is much faster than the flow.
#[test]
fn a_window_on_a_faster_line_of_fair_queues_is_told_as_what_holds_a_flow_up() {
    let line = "both = { rate = \"100Mbit\", delay = \"10ms\", queue = \"fq_codel\" }";
    for (way, back) in [("up", ""), ("down", "-R")] {
        let told = told(line, "", &format!("FLOW -t 8 --json -w 125000 {back}"));
        near(bits(&told[way]), 35.7e6, 0.5e6);
        assert_eq!(told[way]["limited_by"], "send-buffer", "{:#}", told[way]);
        assert!(told["findings"].to_string().contains("faster"), "{:#}", told["findings"]);
    }
}

/// 5 Mbit/s of line behind a shaper of 20, which another flow to somewhere else fills: this flow's packets wait in it too, and wait for nothing there.
#[test]
fn a_queue_of_the_own_device_that_others_fill_is_not_told_as_what_holds_a_flow_up() {
    if lacks_tc() {
        return;
    }
    let line = "up = { rate = \"5Mbit\", delay = \"10ms\", buffer = \"30p\" }\n\
                down = { rate = \"100Mbit\", delay = \"10ms\" }";
    let bucket = "tc qdisc add dev la root tbf rate 20mbit burst 5k limit 60000";
    let classes = "tc qdisc add dev la root handle 1: htb default 1 && \
                   tc class add dev la parent 1: classid 1:1 htb rate 20mbit && \
                   tc qdisc add dev la parent 1:1";
    let beside = "(BESIDE -t 20 --no-latency >/dev/null &)";
    for (queue, streams) in
        [(bucket.to_owned(), 1), (bucket.to_owned(), 4), (format!("{classes} pfifo limit 40"), 1)]
    {
        let flow = format!("sleep 1; FLOW --json -t 8 -P {streams}");
        let told = told(line, "", &format!("{queue} && {beside} && {flow}"));
        let up = &told["up"];
        near(bits(up), 4.75e6, 0.1e6);
        assert_eq!(up["limited_by"], "unknown", "{queue}: {up:#}");
        assert_eq!(up["own_queue"]["shared"], true, "{queue}: {up:#}");
        let says = told["findings"].to_string();
        assert!(says.contains("the path, or this host's own queue of la ("), "{says}");
    }
    // In a queue where each flow has its turn this one's is empty.
    let fair =
        told(line, "", &format!("{classes} fq_codel && {beside} && sleep 1; FLOW --json -t 8"));
    assert_eq!(fair["up"]["limited_by"], "path", "{:#}", fair["up"]);
    // Alone in it, it is what holds the flow up, where it is the narrower.
    let narrow = "tc qdisc add dev la root tbf rate 3mbit burst 5k limit 60000";
    let alone = told(line, "", &format!("{narrow} && FLOW --json -t 8"));
    assert_eq!(alone["up"]["limited_by"], "own-queue", "{:#}", alone["up"]);
}
