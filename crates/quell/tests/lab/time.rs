//! Clocks and times: when packets really left and came, and what that says.

use super::support::{QUIET, TestFolder, UDP, near, two_hosts};
use quell_stats::OffsetEstimator;
use quell_store::Run;

/// As in `truth`: each look at the clock takes 32 ns.
const CLOCK_MS: f64 = 0.001;

fn tcp_ping(name: &str, more: &str) -> String {
    format!("[[probe]]\nname = \"{name}\"\nkind = \"tcp-ping\"\nfrom = \"a\"\nto = \"b\"\n{more}\n")
}

#[test]
fn a_tcp_connect_takes_the_paths_round_trip_whether_somebody_listens_or_not() {
    let probes = [
        tcp_ping("open", ""),
        tcp_ping("closed", "listens = false"),
        tcp_ping("six", "ipv6 = true"),
    ];
    let text = two_hosts(
        "up = { delay = \"10ms\" }\ndown = { delay = \"30ms\" }",
        &format!("{QUIET}{}", probes.concat()),
    );
    let results = TestFolder::new().run(&text, &[]);
    for stream in ["open", "closed", "six"] {
        near(results.number("s", stream, "loss_ratio"), 0.0, 0.0);
        near(results.number("s", stream, "sent"), 100.0, 1.0);
        for point in ["min", "p50", "max"] {
            near(results.number("s", stream, &format!("rtt_ms.{point}")), 40.0, CLOCK_MS);
        }
    }
}

#[test]
fn a_syn_that_was_lost_is_a_loss_and_not_a_connect_of_a_second() {
    // An answer that was lost is too: from here it looks the same.
    let [loss, none] = ["loss = \"10%\", ", ""];
    for (up, down) in [(loss, none), (none, loss)] {
        let text = two_hosts(
            &format!("up = {{ {up}delay = \"5ms\" }}\ndown = {{ {down}delay = \"5ms\" }}"),
            &format!("{QUIET}{}", tcp_ping("open", "interval = \"20ms\"")),
        );
        let results = TestFolder::new().run(&text, &[]);
        near(results.number("s", "open", "loss_ratio"), 0.10, 0.038);
        near(results.number("s", "open", "rtt_ms.max"), 10.0, CLOCK_MS);
        near(results.number("s", "open", "jitter_ms"), 0.0, CLOCK_MS);
    }
}

#[test]
fn one_clock_gives_exact_one_way_delays_and_an_estimate_of_two_from_the_same_packets_covers_the_truth()
 {
    let text = two_hosts(
        "up = { delay = \"10ms\" }\ndown = { delay = \"30ms\" }",
        &format!("{QUIET}{UDP}"),
    );
    let dir = TestFolder::new();
    let results = dir.run(&text, &[]);
    near(results.number("s", "udp", "up_ms.max"), 10.0, CLOCK_MS);
    near(results.number("s", "udp", "down_ms.min"), 30.0, CLOCK_MS);
    assert!(results.row("s", "udp")["clock_offset"].is_null(), "one clock needs no correction");
    assert_eq!(results.json["warnings"], serde_json::json!([]), "nothing was late in virtual time");

    let run = Run::read(&dir.only_run()).expect("the run can be read");
    let mut estimator = OffsetEstimator::new();
    for sample in &run.cells[0].echo("udp").expect("the stream").samples {
        if let (Some(up), Some(down)) = (sample.up_ns, sample.down_ns) {
            estimator.push(sample.t_ns, up, down);
        }
    }
    let found = estimator.estimate().expect("the clock runs at a constant rate");
    // Taking the path for symmetric, it is wrong by half the difference; it says that it may be.
    near(found.middle_ns() as f64 / 1e6, -10.0, CLOCK_MS);
    near(found.bound_ns / 1e6, 20.0, 0.1);
    assert!(found.middle_ns().unsigned_abs() as f64 <= found.bound_ns);
}
