//! What a flow's options do, told by what the network carries.

use super::support::{PING, QUIET, Results, TestFolder, near, two_hosts};

/// A flow with these keys over this line, with a ping beside it.
fn bulk(line: &str, keys: &str) -> Results {
    let text = two_hosts(
        line,
        &format!(
            "warm-up = \"5s\"\n[[load]]\nname = \"bulk\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\n{keys}\n\
             [[scenario]]\nname = \"s\"\nloads = [\"bulk\"]\n{PING}"
        ),
    );
    TestFolder::new().run(&text, &[])
}

#[test]
fn a_small_segment_size_costs_its_headers() {
    // 500 bytes less 12 of timestamps, under 32 + 20 + 14 bytes of headers.
    let results = bulk("both = { rate = \"10Mbit\", delay = \"5ms\" }", "mss = 500");
    near(results.number("s", "bulk", "goodput_mbps"), 10.0 * 488.0 / 554.0, 0.05);
}

#[test]
fn a_number_of_bytes_is_carried_and_no_more_in_either_direction() {
    for direction in ["up", "down"] {
        let keys = format!("bytes = \"1MB\"\nstart = \"1s\"\ndirection = \"{direction}\"");
        let results = bulk("both = { rate = \"10Mbit\", delay = \"5ms\" }", &keys);
        near(results.number("s", "bulk", "carried_mbps"), 8.0 / 20.0, 0.001);
        // While it ran it had the line, but for its first round trips.
        let goodput = results.number("s", "bulk", "goodput_mbps");
        assert!((9.0..10.0 * 1448.0 / 1514.0).contains(&goodput), "{goodput}");
    }
}

#[test]
fn a_flow_with_ecn_is_slowed_by_marks_and_one_without_by_losses() {
    let line = "both = { rate = \"5Mbit\", delay = \"10ms\", queue = \"fq_codel\" }";
    let (with, without) = (bulk(line, "ecn = true"), bulk(line, "ecn = false"));
    near(with.number("s", "bulk", "retransmits"), 0.0, 0.0);
    assert!(without.number("s", "bulk", "retransmits") > 0.0);
    for results in [&with, &without] {
        assert!(results.number("s", "bulk", "goodput_mbps") > 4.5);
    }
}

#[test]
fn the_congestion_control_decides_how_full_a_deep_buffer_gets() {
    let line = "both = { rate = \"5Mbit\", delay = \"10ms\", buffer = \"200p\" }";
    for direction in ["up", "down"] {
        let ping = |congestion: &str| {
            let keys = format!("congestion = \"{congestion}\"\ndirection = \"{direction}\"");
            bulk(line, &keys).number("s", "ping", "rtt_ms.p50")
        };
        let (cubic, bbr) = (ping("cubic"), ping("bbr"));
        assert!(cubic > 200.0 && bbr < 100.0, "{direction}: {cubic} and {bbr} ms");
    }
}

#[test]
fn a_transfer_of_so_many_bytes_that_is_the_probe_is_measured_whole_and_not_in_the_warm_up() {
    for limit in ["bytes = \"1MB\"", "duration = \"1s\""] {
        let probe = |name: &str, more: &str| {
            format!(
                "[[probe]]\nname = \"{name}\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\n{limit}\n{more}\n"
            )
        };
        // Each by itself: the same transfer, from the same moment of an idle line.
        let text = format!(
            "warm-up = \"5s\"\n{QUIET}{}{}",
            probe("few", ""),
            probe("said", "start = \"0s\"")
        );
        let text = two_hosts("both = { rate = \"10Mbit\", delay = \"5ms\" }", &text)
            .replace("probes-run = \"together\"", "probes-run = \"apart\"");
        let results = TestFolder::new().run(&text, &[]);
        let [few, said] = ["few", "said"].map(|name| results.number("s", name, "goodput_mbps"));
        near(few, said, 0.05);
        assert!((9.0..10.0 * 1448.0 / 1514.0).contains(&few), "{limit}: {few}");
    }
}
