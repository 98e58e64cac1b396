//! What `quell flow` says that a sender waited for: each story makes its cause true.

use super::flow_limits::{json, lacks_tc, shell, shell_at};
use super::support::near;

/// A line, what the client does behind it, options of the server, and what is said of which direction; several words are all true.
type Story = (&'static str, &'static str, &'static str, &'static str, &'static [&'static str]);

const LINE: &str = "both = { rate = \"20Mbit\", delay = \"10ms\", buffer = \"100p\" }";
const FAST: &str = "both = { rate = \"100Mbit\", delay = \"5ms\", buffer = \"100p\" }";
const FREE: &str = "both = { delay = \"25ms\" }";
const LOSES: &str = "both = { delay = \"10ms\", loss = \"1%\" }";
const HOLE: &str = "both = { rate = \"10Mbit\", delay = \"10ms\" }\nswallows-above = 1400";

const STORIES: &[Story] = &[
    (LINE, "FLOW -t 8", "", "up", &["path-queue"]),
    (LINE, "FLOW -t 8 -R", "", "down", &["path-queue"]),
    (LINE, "FLOW -t 8 -b 5M", "", "up", &["rate-limit here"]),
    (LINE, "FLOW -t 8 -b 5M -R", "", "down", &["rate-limit here"]),
    (LINE, "FLOW -t 5", "--max-rate 2Mbit", "up", &["rate-limit there"]),
    // What is asked for by -w is both windows: which of the two is full first hangs by a segment.
    (FREE, "FLOW -t 8 -w 16K", "", "up", &["receiver-window there", "send-buffer here", "unknown"]),
    (
        FREE,
        "FLOW -t 8 -w 16K -R",
        "",
        "down",
        &["receiver-window here", "send-buffer there", "unknown"],
    ),
    (
        FREE,
        "echo 4096 16384 65536 > /proc/sys/net/ipv4/tcp_wmem; FLOW -t 8",
        "",
        "up",
        &["send-buffer here"],
    ),
    (
        FREE,
        "echo 4096 16384 32768 > /proc/sys/net/ipv4/tcp_rmem; FLOW -t 8 -R",
        "",
        "down",
        &["receiver-window here"],
    ),
    (HOLE, "FLOW -t 5", "", "up", &["mtu-black-hole"]),
    (HOLE, "FLOW -t 5 -R", "", "down", &["mtu-black-hole"]),
    (HOLE, "FLOW -t 5 -M 1300", "", "up", &["path-queue"]),
    (LOSES, "FLOW -t 8", "", "up", &["unknown"]),
    (
        FAST,
        "FLOW -t 6 & P=$!; (sleep 1; while sleep 0.05; do kill -s STOP $P; sleep 0.4; kill -s CONT $P; done) & wait $P; kill $!; true",
        "",
        "up",
        &["sender-idle here"],
    ),
];

/// Those that set queues of this host, which takes a `tc`.
const WITH_TC: &[Story] = &[
    (
        LINE,
        "tc qdisc add dev la root tbf rate 5mbit burst 5k limit 60000; FLOW -t 6",
        "",
        "up",
        &["own-queue here"],
    ),
    (
        LINE,
        "tc qdisc add dev la root tbf rate 50mbit burst 50k limit 60000; FLOW -t 6",
        "",
        "up",
        &["path-queue"],
    ),
    (LINE, "tc qdisc replace dev la root fq; FLOW -t 6", "", "up", &["path-queue"]),
    (
        LINE,
        "tc qdisc replace dev la root fq maxrate 2mbit; FLOW -t 6",
        "",
        "up",
        &["rate-limit here"],
    ),
    (
        LINE,
        "tc qdisc add dev la clsact; tc filter add dev la egress matchall action police rate 2mbit burst 20k drop; FLOW -t 8",
        "",
        "up",
        &["policer", "policer here"],
    ),
];

#[test]
fn a_sender_waited_for_what_its_story_makes_it_wait_for() {
    let told = STORIES.iter().chain(WITH_TC.iter().filter(|_| !lacks_tc())).filter_map(|story| {
        let (line, script, options, side, causes) = *story;
        let script = script.replacen("FLOW", "FLOW --json", 1);
        let way = json(&shell_at(("", line), options, &script))[side].clone();
        let word = |key: &str| way[key].as_str().unwrap_or_default();
        let said = [word("cause"), word("cause_end")].join(" ");
        let wrong = !causes.contains(&said.trim_end());
        wrong.then(|| format!("{line} {script}: {said}, not {causes:?}: {:#}", way["facts"]))
    });
    let told: Vec<String> = told.collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

/// A window fills a line or leaves it idle: what it reaches of the line's payload tells which.
#[test]
fn a_window_that_leaves_the_line_idle_is_no_full_path_and_one_that_fills_it_no_window() {
    let payload = 1448.0 / 1514.0;
    for (mbit, one_way_ms) in [(20.0, 20), (100.0, 10)] {
        let line = format!(
            "both = {{ rate = \"{mbit}Mbit\", delay = \"{one_way_ms}ms\", buffer = \"300p\" }}"
        );
        for options in ["-w 16k", "-w 64k -P 2", "-w 64k -P 8", "-w 1M"] {
            let told = json(&shell("", &line, &format!("FLOW -t 5 --json {options}")));
            let way = &told["up"];
            let part = way["bits_per_second"].as_f64().expect("a rate") / (mbit * 1e6 * payload);
            let cause = way["cause"].as_str().expect("a word");
            let is_end = cause == "send-buffer" || cause == "receiver-window";
            assert!(part >= 0.8 || cause != "path-queue", "{line} {options}: {part} {way:#}");
            assert!(part < 0.985 || !is_end, "{line} {options}: {part} {way:#}");
        }
    }
}

/// What came has the rate at which it came, by the kernel's clock.
#[test]
fn datagrams_that_a_stopped_receiver_counts_late_have_the_rate_at_which_they_came() {
    let script = "FLOW -u -b 20M -t 4 -R --no-latency --json & P=$!; \
                  (sleep 3.8; kill -s STOP $P; sleep 2; kill -s CONT $P) & wait $P";
    let told = json(&shell("", FAST, script));
    near(told["down"]["bits_per_second"].as_f64().expect("a rate"), 20e6, 0.1e6);
}
