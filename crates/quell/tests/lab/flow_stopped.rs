//! What `quell flow` says where a program stands still part of the time, or sends less than the path would carry: the path holds nothing up.

use super::flow_limits::{json, lacks_tc, shell, text};
use super::support::{PING, QUELL, QUIET, TestFolder, near};
use serde_json::Value;

const LINE: &str = "both = { rate = \"100Mbit\", delay = \"5ms\", buffer = \"100p\" }";

/// A direction of a flow over this line whose client runs for `on` seconds and is stopped for `off`, in turn.
fn stopped(line: &str, options: &str, on: &str, off: &str) -> Value {
    let script = format!(
        "FLOW -t 10 --json {options} & P=$!; \
         (sleep 1; while sleep {on}; do kill -s STOP $P; sleep {off}; kill -s CONT $P; done) & \
         wait $P; kill $!; true"
    );
    let output = shell("", line, &script);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = json(&output);
    let side = if options.contains("-R") { "down" } else { "up" };
    assert_eq!(told["findings"][0]["subject"], side, "{told:#}");
    told[side].clone()
}

/// While it runs its congestion window is full at every look; for the rest of the time the kernel has nothing to send.
#[test]
fn a_sender_that_is_stopped_part_of_the_time_is_not_told_as_the_path() {
    for (on, off, limit) in [
        ("0.05", "0.4", "sender"),
        ("0.2", "0.4", "sender"),
        ("0.1", "0.1", "unknown"),
        ("1", "1", "unknown"),
    ] {
        let up = stopped(LINE, "", on, off);
        let bits = up["bits_per_second"].as_f64().expect("a rate");
        assert!(bits < 60e6, "{on} {off}: {up:#}");
        assert_ne!(up["limited_by"], "path", "{on} {off}: {up:#}");
        // How much a socket buffer bridges hangs by its size: whether half of the time is missing, for stops as long as what is between.
        let is_clear = limit == "sender";
        assert!(!is_clear || up["limited_by"] == limit, "{on} {off}: {up:#}");
        let idle = up["held"]["idle_share"].as_f64().expect("a part");
        let cwnd = up["held"]["cwnd_share"].as_f64().expect("a part");
        assert!(idle > 0.3 && idle + cwnd <= 1.0, "{on} {off}: {up:#}");
    }
    let whole = json(&shell("", LINE, "FLOW -t 5 --json"));
    assert_eq!(whole["up"]["limited_by"], "path", "{:#}", whole["up"]);
    let idle = whole["up"]["held"]["idle_share"].as_f64();
    assert!(idle.is_some_and(|idle| idle < 0.001), "{:#}", whole["up"]);
}

/// While it does not read, its kernel acknowledges late: its sender's window is full, and its round trip grows, as on a path that is full.
#[test]
fn a_receiver_that_is_stopped_part_of_the_time_is_not_told_as_the_path() {
    for (on, off) in [("0.05", "0.4"), ("0.1", "0.1"), ("0.3", "0.3"), ("1", "1")] {
        let down = stopped(LINE, "-R", on, off);
        assert_eq!(down["limited_by"], "unknown", "{on} {off}: {down:#}");
        let paused = down["held"]["receiver_paused_share"].as_f64().expect("a part");
        assert!(paused > 0.3, "{on} {off}: {down:#}");
    }
    let whole = json(&shell("", LINE, "FLOW -t 5 -R --json"));
    assert_eq!(whole["down"]["limited_by"], "path", "{:#}", whole["down"]);
    let paused = whole["down"]["held"]["receiver_paused_share"].as_f64();
    assert!(paused.is_some_and(|paused| paused < 0.02), "{:#}", whole["down"]);
}

/// It asks no pings while it is stopped: those of the rest of the time find a queue at all times.
#[test]
fn a_receiver_that_is_stopped_is_not_told_as_the_path_though_each_of_its_pings_met_a_queue() {
    let line =
        "both = { rate = \"40Mbit\", delay = \"3ms\", jitter = \"1.5ms\", buffer = \"500p\" }";
    let down = stopped(line, "-R", "1", "1");
    assert_eq!(down["limited_by"], "unknown", "{down:#}");
}

/// What came has the rate at which it came, by the kernel's clock.
#[test]
fn datagrams_that_a_stopped_receiver_counts_late_have_the_rate_at_which_they_came() {
    let script = "FLOW -u -b 20M -t 4 -R --no-latency --json & P=$!; \
                  (sleep 3.8; kill -s STOP $P; sleep 2; kill -s CONT $P) & wait $P";
    let told = json(&shell("", LINE, script));
    near(told["down"]["bits_per_second"].as_f64().expect("a rate"), 20e6, 0.1e6);
}

/// What a flow makes its own pings wait for as it begins is no path that is full.
#[test]
fn what_is_over_in_slow_start_or_late_for_its_rate_because_of_it_is_not_told_as_the_path() {
    let long = "both = { rate = \"50Mbit\", delay = \"40ms\", buffer = \"800p\" }";
    let satellite = "both = { rate = \"5Mbit\", delay = \"290ms\", buffer = \"400p\" }";
    for (line, options, most) in
        [(long, "-n 300k", 10e6), (long, "-R -n 1M", 20e6), (satellite, "-t 10 -b 3M", 2.8e6)]
    {
        let told = json(&shell("", line, &format!("FLOW --json {options}")));
        let told = &told[if options.contains("-R") { "down" } else { "up" }];
        assert_eq!(told["limited_by"], "unknown", "{options}: {told:#}");
        assert!(told["bits_per_second"].as_f64() < Some(most), "{options}: {told:#}");
    }
    let full = json(&shell("", long, "FLOW --json -t 10"));
    assert_eq!(full["up"]["limited_by"], "path", "{:#}", full["up"]);
}

/// Of a server, what an upload tells. As a plain iperf3 it says nothing, and round trips alone show it.
#[test]
fn a_server_that_is_stopped_part_of_the_time_is_not_told_as_the_path() {
    let dir = TestFolder::new();
    let network = format!(
        "name = \"story\"\nduration = \"20s\"\n[topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\", \"q\"]\n\
         [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r\"]\n\
         [[topology.link]]\nname = \"line\"\nends = [\"r\", \"q\"]\n{LINE}\n\
         [[topology.link]]\nname = \"lb\"\nends = [\"q\", \"b\"]\n{QUIET}{PING}"
    );
    let network = dir.file("network.toml", &network);
    let network = network.to_string_lossy();
    let up = |on: &str, off: &str, options: &[&str]| {
        let script = format!(
            "{QUELL} serve --bind 0.0.0.0 & sleep 3; while sleep {on}; do kill -s STOP $!; sleep {off}; kill -s CONT $!; done"
        );
        let script = dir.file("serve.sh", &script);
        let serve = format!("b: sh {}", script.display());
        let exec = ["lab", "exec", &*network, "a", "--with", &serve, "--"];
        let flow = [QUELL, "flow", "{b}", "-t", "10", "--json"];
        json(&dir.quell(&[&exec[..], &flow, options].concat()))["up"].clone()
    };
    for (on, off) in [("0.05", "0.4"), ("0.1", "0.1"), ("1", "1")] {
        let told = up(on, off, &[]);
        assert_eq!(told["limited_by"], "unknown", "{on} {off}: {told:#}");
        let paused = told["held"]["receiver_paused_share"].as_f64().expect("a part");
        assert!(paused > 0.2, "{on} {off}: {told:#}");
    }
    for (on, off) in [("0.05", "0.4"), ("0.2", "0.4")] {
        let told = up(on, off, &["--iperf3"]);
        assert_eq!(told["limited_by"], "unknown", "{on} {off}: {told:#}");
        assert_eq!(told["held"]["acknowledged_late"], true, "{on} {off}: {told:#}");
    }
}

/// It sends by its model of the path and waits for no window; in a queue of its own its round trip grows, and pings pass it by.
#[test]
fn bbr_in_a_queue_of_its_own_is_held_up_by_the_path_though_its_server_tells_nothing() {
    for (rate, delay, queue) in
        [("2Mbit", "20ms", "fq_codel"), ("5Mbit", "50ms", "cake"), ("10Mbit", "75ms", "fq_codel")]
    {
        let line =
            format!("both = {{ rate = \"{rate}\", delay = \"{delay}\", queue = \"{queue}\" }}");
        let up = json(&shell("", &line, "FLOW -t 10 -C bbr --iperf3 --json"))["up"].clone();
        assert_eq!(up["limited_by"], "path", "{rate} {queue}: {up:#}");
    }
}

/// Lines that nothing fills: a sender that paces itself, one whose host holds its segments back, and one that is done too soon. Loss shows the path.
#[test]
fn a_sender_that_is_slow_by_itself_is_not_told_as_the_path() {
    if lacks_tc() {
        return;
    }
    let line = "both = { rate = \"10Mbit\", delay = \"10ms\", buffer = \"100p\" }";
    let fast = "both = { rate = \"50Mbit\", delay = \"10ms\", buffer = \"100p\" }";
    let long = "both = { delay = \"100ms\" }";
    let ratio = "tc qdisc replace dev la root fq && cd /proc/sys/net/ipv4 && echo 10 > tcp_pacing_ca_ratio && echo 10 > tcp_pacing_ss_ratio";
    let limit = "echo 1 > /proc/sys/net/ipv4/tcp_limit_output_bytes";
    for (line, before, options, words) in [
        (line, ratio, "-t 8", "nothing shows that the path is full"),
        (fast, limit, "-t 8", "holds its segments back"),
        (long, "true", "-n 500k", "it was over before it could fill the path"),
    ] {
        let told = json(&shell("", line, &format!("{before} && FLOW --json {options}")));
        assert_eq!(told["up"]["limited_by"], "unknown", "{before}: {:#}", told["up"]);
        let says = told["findings"][0]["says"].as_str().expect("words");
        assert!(says.contains(words), "{before}: {says}");
    }
    let loses = "both = { delay = \"10ms\", loss = \"1%\" }";
    for line in [line, loses] {
        let told = json(&shell("", line, "FLOW --json -t 8"));
        assert_eq!(told["up"]["limited_by"], "path", "{line}: {:#}", told["up"]);
    }
}
