//! Flows whose rate follows from the network or from the sender's limits: windows, pacing, unequal directions.

use super::support::{Results, TestFolder, near, two_hosts};

/// Bytes of payload in a full segment: 1500 less IPv4 (20) or IPv6 (40), TCP (20) and its timestamps (12).
fn segment(ipv6: bool) -> f64 {
    if ipv6 { 1428.0 } else { 1448.0 }
}

/// The same in a frame: Ethernet's 14 bytes more than the packet.
const FRAME: f64 = 1514.0;

/// A flow from the warm-up on, past its slow start, and next to nothing beside it.
fn flow(line: &str, keys: &str) -> Results {
    let text = format!(
        "warm-up = \"5s\"\n[[scenario]]\nname = \"s\"\nloads = [\"flow\"]\n\
         [[load]]\nname = \"flow\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\n{keys}\n\
         [[probe]]\nname = \"beside\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\ninterval = \"10s\"\n"
    );
    TestFolder::new().run(&two_hosts(line, &text), &[])
}

#[test]
fn a_flow_held_by_its_window_gets_a_window_each_round_trip() {
    for (window_kib, rtt_ms) in [(256.0, 40.0), (256.0, 100.0), (1024.0, 100.0)] {
        for ipv6 in [false, true] {
            let keys = format!("window = \"{window_kib}KiB\"\nipv6 = {ipv6}");
            let results = flow(&format!("both = {{ delay = \"{}ms\" }}", rtt_ms / 2.0), &keys);
            let wanted = window_kib * 1024.0 * 8.0 / rtt_ms / 1e3;
            near(results.number("s", "flow", "goodput_mbps"), wanted, wanted * 0.01);
            near(results.number("s", "flow", "retransmits"), 0.0, 0.0);
        }
    }
}

#[test]
fn a_small_window_carries_whole_segments_only() {
    // 64 KiB hold 45 full segments; the kernel keeps back what one more than the last would need.
    let results = flow("both = { delay = \"20ms\" }", "window = \"64KiB\"");
    let segments = results.number("s", "flow", "goodput_mbps") * 40e3 / 8.0 / segment(false);
    near(segments, 44.0, 0.001);
}

#[test]
fn a_paced_flow_gets_its_pace_where_the_line_has_more() {
    for ipv6 in [false, true] {
        let keys = format!("pacing = \"5Mbit\"\nipv6 = {ipv6}");
        let results = flow("both = { rate = \"50Mbit\", delay = \"10ms\" }", &keys);
        near(results.number("s", "flow", "goodput_mbps"), 5.0, 0.05);
        near(results.number("s", "flow", "retransmits"), 0.0, 0.0);
    }
}

#[test]
fn a_line_of_20_up_and_2_down_carries_that_in_each_direction() {
    let line = "up = { rate = \"20Mbit\", delay = \"10ms\" }\ndown = { rate = \"2Mbit\", delay = \"10ms\" }";
    for (direction, rate) in [("up", 20.0), ("down", 2.0)] {
        for ipv6 in [false, true] {
            let results = flow(line, &format!("direction = \"{direction}\"\nipv6 = {ipv6}"));
            let wanted = rate * segment(ipv6) / FRAME;
            near(results.number("s", "flow", "goodput_mbps"), wanted, wanted * 0.01);
        }
    }
}

#[test]
fn udp_beyond_the_line_loses_what_does_not_fit_and_on_the_way_there_only() {
    // 1000 bytes of payload are a frame of 1042. Through a router, since a host's own socket would hold its flood back.
    for ipv6 in [false, true] {
        let text = format!(
            "name = \"story\"\nduration = \"20s\"\nwarm-up = \"5s\"\nprobes-run = \"together\"\n\
             [topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\"]\n\
             [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r\"]\n\
             [[topology.link]]\nname = \"line\"\nends = [\"r\", \"b\"]\nup = {{ rate = \"2Mbit\" }}\ndown = {{ rate = \"20Mbit\" }}\n\
             [[scenario]]\nname = \"s\"\nloads = [\"flood\"]\n\
             [[load]]\nname = \"flood\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"4Mbit\"\nsize = \"1000B\"\nipv6 = {ipv6}\n\
             [[probe]]\nname = \"unused\"\nkind = \"ping\"\nfrom = \"b\"\nto = \"r\"\n"
        );
        let results = TestFolder::new().run(&text, &[]);
        let frame = if ipv6 { 1062.0 } else { 1042.0 };
        let carried = 2.0 * 1000.0 / frame;
        near(results.number("s", "flood", "goodput_mbps"), carried, carried * 0.005);
        // The buffer is as full at the measurement's beginning as at its end.
        near(results.number("s", "flood", "loss_ratio"), 1.0 - carried / 4.0, 0.002);
    }
}

#[test]
fn what_a_udp_load_sent_last_is_not_lost_because_the_probe_beside_it_is_done() {
    // 1.1 Mbit/s of payload over 1 Mbit/s for 5 s leave 0.73 s to send, 88 packets, where 100 have room. The ping does not see that line.
    let text = "name = \"story\"\nduration = \"5s\"\n\
                [topology]\nhosts = [\"a\", \"b\", \"c\"]\nrouters = [\"r\"]\n\
                [[topology.link]]\nname = \"line\"\nends = [\"a\", \"r\"]\nup = { rate = \"1Mbit\", delay = \"10ms\" }\n\
                [[topology.link]]\nname = \"lb\"\nends = [\"b\", \"r\"]\n\
                [[topology.link]]\nname = \"lc\"\nends = [\"c\", \"r\"]\n\
                [[scenario]]\nname = \"s\"\nloads = [\"flood\"]\n\
                [[load]]\nname = \"flood\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1.1Mbit\"\nsize = \"1000B\"\n\
                [[probe]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"c\"\nto = \"b\"\n";
    let results = TestFolder::new().run(text, &[]);
    near(results.number("s", "flood", "loss_ratio"), 0.0, 0.0);
}

/// 250 ms each way. Downwards the first 10 segments come at 1.0 s, and the next too late; the receiver ends it at 1.5 s, and its sender hears of that
/// at 1.75 s. Upwards 9 or 10 come at 0.75 s, behind what is asked for, and twice as many at 1.25 s; the receiver hears of the end at 1.75 s.
#[test]
fn a_flow_that_ends_by_the_clock_is_rated_over_its_own_time() {
    let probe = |name: &str, rest: &str| {
        format!(
            "[[probe]]\nname = \"{name}\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\nduration = \"1500ms\"\n{rest}"
        )
    };
    let text = format!(
        "[[scenario]]\nname = \"s\"\n{}{}",
        probe("down", "direction = \"down\"\n"),
        probe("up", "")
    );
    let line = "both = { rate = \"10Mbit\", delay = \"250ms\", buffer = \"1000p\" }";
    let results = TestFolder::new().run(&two_hosts(line, &text), &[]);
    for (flow, segments, unsure) in [("down", 10.0, 0.1), ("up", 29.0, 1.1)] {
        near(results.number("s", flow, "flow_to_s"), 1.5, 0.006);
        let mbps = |segments: f64| segments * segment(false) * 8e-6 / 1.5;
        near(results.number("s", flow, "goodput_mbps"), mbps(segments), mbps(unsure));
    }
}
