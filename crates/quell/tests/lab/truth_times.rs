//! Delays in both directions by every way of measuring them, and the jitter of a process that is known.

use super::support::{QUIET, TestFolder, near, two_hosts};

/// What several streams look at the clock while a packet is on its way, 32 ns a look.
const CLOCK_MS: f64 = 0.002;

#[test]
fn a_path_of_10_ms_up_and_30_ms_down_is_40_ms_to_each_kind_of_probe_and_10_or_30_one_way() {
    let mut text =
        "[[scenario]]\nname = \"s\"\nloads = [\"up\", \"up6\", \"down\", \"down6\"]\n".to_string();
    for (suffix, ipv6) in [("", false), ("6", true)] {
        text += &format!(
            "[[probe]]\nname = \"icmp{suffix}\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\ninterval = \"50ms\"\nipv6 = {ipv6}\n\
             [[probe]]\nname = \"connect{suffix}\"\nkind = \"tcp-ping\"\nfrom = \"a\"\nto = \"b\"\ninterval = \"50ms\"\nipv6 = {ipv6}\n\
             [[probe]]\nname = \"refused{suffix}\"\nkind = \"tcp-ping\"\nfrom = \"a\"\nto = \"b\"\ninterval = \"50ms\"\n\
             listens = false\nipv6 = {ipv6}\n\
             [[probe]]\nname = \"stamp{suffix}\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"80kbit\"\nsize = \"200B\"\nipv6 = {ipv6}\n\
             [[load]]\nname = \"up{suffix}\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"80kbit\"\nsize = \"200B\"\nipv6 = {ipv6}\n\
             [[load]]\nname = \"down{suffix}\"\nkind = \"udp\"\nfrom = \"b\"\nto = \"a\"\nrate = \"80kbit\"\nsize = \"200B\"\nipv6 = {ipv6}\n"
        );
    }
    let line = "up = { delay = \"10ms\" }\ndown = { delay = \"30ms\" }";
    let results = TestFolder::new().run(&two_hosts(line, &text), &[]);
    for kind in ["icmp", "connect", "refused", "stamp"] {
        for suffix in ["", "6"] {
            let stream = format!("{kind}{suffix}");
            near(results.number("s", &stream, "loss_ratio"), 0.0, 0.0);
            near(results.number("s", &stream, "rtt_ms.min"), 40.0, CLOCK_MS);
            near(results.number("s", &stream, "rtt_ms.p99"), 40.0, CLOCK_MS);
        }
    }
    for suffix in ["", "6"] {
        let stamp = format!("stamp{suffix}");
        for (way, wanted) in [("up_ms", 10.0), ("down_ms", 30.0)] {
            near(results.number("s", &stamp, &format!("{way}.min")), wanted, CLOCK_MS);
            near(results.number("s", &stamp, &format!("{way}.max")), wanted, CLOCK_MS);
        }
        // The loads: one way each, named by the direction from who sends.
        for (load, wanted) in [("up", 10.0), ("down", 30.0)] {
            let load = format!("{load}{suffix}");
            near(results.number("s", &load, "up_ms.min"), wanted, CLOCK_MS);
            near(results.number("s", &load, "up_ms.max"), wanted, CLOCK_MS);
            near(results.number("s", &load, "loss_ratio"), 0.0, 0.0);
        }
    }
}

#[test]
fn uniform_jitter_on_one_way_is_a_third_of_its_range_by_rfc_3550() {
    // The difference of two independent values, uniform over a range R, is R/3 in the mean. A packet each 20 ms, so that none
    // overtakes another within R = 10 ms. 10,000 packets: one standard deviation of the estimate's mean is 0.03 ms.
    for (way, ipv6) in [("up", false), ("up", true), ("down", false)] {
        let other = if way == "up" { "down" } else { "up" };
        let line = format!(
            "{way} = {{ delay = \"20ms\", jitter = \"5ms\" }}\n{other} = {{ delay = \"20ms\" }}"
        );
        let probe = format!(
            "[[probe]]\nname = \"udp\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\n\
             rate = \"80kbit\"\nsize = \"200B\"\nipv6 = {ipv6}\n"
        );
        let results = TestFolder::new()
            .run(&two_hosts(&line, &format!("{QUIET}{probe}")), &["--duration", "200s"]);
        near(results.number("s", "udp", &format!("{way}_ms.mean")), 20.0, 0.09);
        near(results.number("s", "udp", &format!("{other}_ms.max")), 20.0, CLOCK_MS);
        near(results.number("s", "udp", &format!("reordered_{way}")), 0.0, 0.0);
        // What is told is the jitter of the way there, as an RTP receiver at the far end would have it.
        let jitter = if way == "up" { 10.0 / 3.0 } else { 0.0 };
        near(results.number("s", "udp", "jitter_ms"), jitter, 0.1);
        // Quartiles of a uniform distribution.
        near(results.number("s", "udp", &format!("{way}_ms.p50")), 20.0, 0.2);
        near(results.number("s", "udp", &format!("{way}_ms.p90")), 24.0, 0.1);
    }
}

#[test]
fn jitter_on_both_ways_is_that_of_their_sum_to_a_ping() {
    // A sum of two uniform values over R each: the mean of the absolute difference of two such sums is 7R/15.
    let line = "both = { delay = \"20ms\", jitter = \"5ms\" }";
    let probe = "[[probe]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\ninterval = \"40ms\"\n";
    let results = TestFolder::new()
        .run(&two_hosts(line, &format!("{QUIET}{probe}")), &["--duration", "400s"]);
    near(results.number("s", "ping", "rtt_ms.mean"), 40.0, 0.13);
    near(results.number("s", "ping", "jitter_ms"), 10.0 * 7.0 / 15.0, 0.15);
}
