//! What `quell flow` says where two things hold a flow up in turn, or one looks like another.

use super::flow_limits::{json, shell, shell_at};
use serde_json::Value;

fn up(line: &str, options: &str) -> Value {
    json(&shell("", line, &format!("FLOW --json {options}")))["up"].clone()
}

fn bits(way: &Value) -> f64 {
    way["bits_per_second"].as_f64().expect("a rate")
}

/// A larger window alone makes it faster: it was not the path that held it up, and by itself the window did not either.
#[test]
fn a_path_that_loses_and_a_window_hold_a_flow_up_in_turn() {
    for (line, window, free) in [
        (
            "both = { rate = \"10Mbit\", delay = \"15ms\", buffer = \"200p\", loss = \"0.5%\" }",
            "-t 30 -w 27481",
            "-t 30",
        ),
        (
            "both = { rate = \"30Mbit\", delay = \"30ms\", buffer = \"300p\", loss = \"0.5%\" }",
            "-t 8 -C bbr -w 112500",
            "-t 8 -C bbr",
        ),
    ] {
        let (bound, free) = (up(line, window), up(line, free));
        assert!(bits(&bound) < 0.9 * bits(&free), "{bound:#} {free:#}");
        assert_ne!(bound["limited_by"], "path", "{bound:#}");
        let shares = ["window_share", "send_buffer_share"].map(|key| bound["held"][key].as_f64());
        assert!(shares.iter().flatten().sum::<f64>() >= 0.1, "{bound:#}");
    }
}

/// In a queue of its own the flow meets no ping, and pings that vary are none that met others' packets: its line is full, and no larger buffer makes it faster.
#[test]
fn pings_that_vary_beside_a_queue_of_the_flows_own_do_not_tell_of_a_buffer() {
    for queue in ["fq_codel", "cake"] {
        let line = format!(
            "up = {{ rate = \"100Mbit\", delay = \"4ms\", jitter = \"0.4ms\", queue = \"{queue}\" }}\n\
             down = {{ rate = \"100Mbit\", delay = \"4ms\" }}"
        );
        let told = up(&line, "-t 6 -w 200000");
        assert!(bits(&told) > 95e6, "{told:#}");
        assert!(told["limited_by"] == "unknown" || told["limited_by"] == "path", "{told:#}");
    }
}

/// A server that reads no faster than it allows shuts its window; a larger one would change nothing.
#[test]
fn an_upload_that_the_servers_rate_holds_up_is_told_so_and_not_as_its_window() {
    for jitter in ["0ms", "3ms"] {
        let line =
            format!("both = {{ rate = \"50Mbit\", delay = \"10ms\", jitter = \"{jitter}\" }}");
        for options in ["--max-rate 2Mbit", "--max-rate-per-client 2Mbit"] {
            let flow = |more: &str| {
                let script = format!("FLOW --json -t 5 {more}");
                json(&shell_at(("", &line), options, &script))["up"].clone()
            };
            for more in ["", "-w 4M", "-P 3"] {
                let told = flow(more);
                assert_eq!(told["limited_by"], "rate", "{jitter} {options} {more}: {told:#}");
                let held = told["held"]["receiver_held_back_share"].as_f64().expect("a part");
                assert!((0.5..=1.0).contains(&held), "{jitter} {options} {more}: {told:#}");
            }
            // Who asks for less is held up by what was asked for.
            let told = flow("-b 1M");
            assert_eq!(told["limited_by"], "rate", "{told:#}");
            let held = told["held"]["receiver_held_back_share"].as_f64();
            assert!(held.unwrap_or(0.0) < 0.1, "{told:#}");
        }
    }
}
