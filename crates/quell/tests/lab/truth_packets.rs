//! Packets that a network loses, doubles and reorders by count, not by chance: the measurement must name the very number.
//!
//! ```text
//!   a ──(filter: every eighth number is dropped)── line ──(the same on the way back)── b
//! ```
//!
//! A filter looks at the low bits of the sequence number that each packet carries, so that the truth needs no statistics.

use super::support::{QUIET, Results, TestFolder, near, two_hosts};

/// UDP at 50 packets a second: 1000 in the 20 s of a story.
fn udp(name: &str, ipv6: bool) -> String {
    format!(
        "[[probe]]\nname = \"{name}\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\n\
         rate = \"200kbit\"\nsize = \"500B\"\nipv6 = {ipv6}\n"
    )
}

/// A ping every 20 ms: 1000 of them.
fn ping(name: &str, ipv6: bool) -> String {
    format!(
        "[[probe]]\nname = \"{name}\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\n\
         interval = \"20ms\"\nipv6 = {ipv6}\n"
    )
}

/// A queue that drops the packets whose number ends in three zero bits. STAMP's number is the payload's first word, ICMP's the last
/// half of the header's second; before them lie 20 bytes of IPv4 and 8 of UDP, or 40 of IPv6.
fn every_eighth(on: &str) -> String {
    let rule = |family: &str, protocol: &str, at: u32| {
        format!(
            "  {{ kind = \"u32\", protocol = \"{family}\", match = [\"{protocol}\", \"u32 0x0 0x7 at {at}\"], action = \"drop\" }},\n"
        )
    };
    format!(
        "[[queue]]\nname = \"eighth\"\non = \"{on}:line\"\n[queue.queue]\nkind = \"prio\"\nfilter = [\n{}{}{}{}]\n",
        rule("ip", "ip protocol 17 0xff", 28),
        rule("ip", "ip protocol 1 0xff", 24),
        rule("ipv6", "ip6 protocol 17 0xff", 48),
        rule("ipv6", "ip6 protocol 58 0xff", 44),
    )
}

fn with_queue(queue: &str) -> Results {
    let text = two_hosts(
        "both = { delay = \"5ms\" }",
        &format!(
            "[[scenario]]\nname = \"s\"\nqueues = [\"eighth\"]\n{queue}{}{}{}{}",
            udp("udp", false),
            udp("udp6", true),
            ping("ping", false),
            ping("ping6", true)
        ),
    );
    TestFolder::new().run(&text, &[])
}

#[test]
fn each_eighth_request_is_lost_on_the_way_there_and_all_of_them_are_counted_so() {
    let results = with_queue(&every_eighth("a"));
    for stream in ["udp", "udp6", "ping", "ping6"] {
        let sent = results.number("s", stream, "sent");
        let lost = sent - results.number("s", stream, "received");
        near(lost, (sent / 8.0).ceil(), 0.0);
        near(results.number("s", stream, "duplicates"), 0.0, 0.0);
    }
    for stream in ["udp", "udp6"] {
        let lost = results.number("s", stream, "sent") - results.number("s", stream, "received");
        near(results.number("s", stream, "lost_up"), lost, 0.0);
        near(results.number("s", stream, "lost_down"), 0.0, 0.0);
    }
}

#[test]
fn each_eighth_reply_is_lost_on_the_way_back_and_all_of_them_are_counted_so() {
    let results = with_queue(&every_eighth("b"));
    for stream in ["udp", "udp6", "ping", "ping6"] {
        let sent = results.number("s", stream, "sent");
        let lost = sent - results.number("s", stream, "received");
        near(lost, (sent / 8.0).ceil(), 0.0);
    }
    for stream in ["udp", "udp6"] {
        let lost = results.number("s", stream, "sent") - results.number("s", stream, "received");
        near(results.number("s", stream, "lost_down"), lost, 0.0);
        near(results.number("s", stream, "lost_up"), 0.0, 0.0);
    }
}

#[test]
fn a_line_that_sends_everything_twice_is_seen_to_double_replies_and_nothing_to_be_lost() {
    for (line, copies) in [
        ("up = { delay = \"5ms\", duplicate = \"100%\" }\ndown = { delay = \"5ms\" }", 2.0),
        ("up = { delay = \"5ms\" }\ndown = { delay = \"5ms\", duplicate = \"100%\" }", 2.0),
        // Two requests arrive, and of each reply two.
        ("both = { delay = \"5ms\", duplicate = \"100%\" }", 4.0),
    ] {
        let probes =
            [udp("udp", false), udp("udp6", true), ping("ping", false), ping("ping6", true)];
        let results =
            TestFolder::new().run(&two_hosts(line, &format!("{QUIET}{}", probes.concat())), &[]);
        for stream in ["udp", "udp6", "ping", "ping6"] {
            let sent = results.number("s", stream, "sent");
            near(results.number("s", stream, "received"), sent, 0.0);
            // The measurement ends with the last reply, and may not see that one's copies.
            let doubled = results.number("s", stream, "duplicates");
            let wanted = (sent - 1.0) * (copies - 1.0)..=sent * (copies - 1.0);
            assert!(wanted.contains(&doubled), "{stream}: {doubled} is not in {wanted:?}");
            near(results.number("s", stream, "rtt_ms.max"), 10.0, 0.002);
        }
    }
}

#[test]
fn each_fifth_packet_that_skips_the_delay_is_out_of_order_on_that_way_and_on_no_other() {
    // Packets come every 20 ms. Each fifth skips the delay of 50 ms, so that it arrives before the two in front of it.
    let queue = |on: &str| {
        format!(
            "[[queue]]\nname = \"gap\"\non = \"{on}:line\"\n\
             queue = {{ kind = \"netem\", delay = \"50ms\", reorder = \"100%\", gap = 5 }}\n"
        )
    };
    for (on, there, elsewhere) in
        [("a", "reordered_up", "reordered_down"), ("b", "reordered_down", "reordered_up")]
    {
        for ipv6 in [false, true] {
            let text = two_hosts(
                "",
                &format!(
                    "[[scenario]]\nname = \"s\"\nqueues = [\"gap\"]\n{}{}",
                    queue(on),
                    udp("udp", ipv6)
                ),
            );
            let results = TestFolder::new().run(&text, &[]);
            let sent = results.number("s", "udp", "sent");
            near(results.number("s", "udp", "received"), sent, 0.0);
            // Each of them overtakes two (RFC 4737: those that come after a later one are out of order).
            near(results.number("s", "udp", there), sent * 2.0 / 5.0, 2.0);
            near(results.number("s", "udp", elsewhere), 0.0, 0.0);
            near(results.number("s", "udp", "rtt_ms.min"), 0.0, 0.01);
            near(results.number("s", "udp", "rtt_ms.max"), 50.0, 0.01);
        }
    }
}

#[test]
fn who_overtakes_on_a_full_line_has_waited_in_its_buffer_as_all_have_and_goes_no_faster() {
    // 20 packets of 1042 bytes wait, one is on the line: 21 × 8.336 ms at 1 Mbit/s. Whoever overtakes skips the delay of 50 ms alone.
    let flood = "[[load]]\nname = \"flood\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1.5Mbit\"\nsize = \"1000B\"\n\
                 [[scenario]]\nname = \"s\"\nloads = [\"flood\"]\n\
                 [[probe]]\nname = \"udp\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"16kbit\"\nsize = \"100B\"\n";
    let line = "up = { rate = \"1Mbit\", delay = \"50ms\", buffer = \"20p\", reorder = \"10%\" }";
    let results = TestFolder::new().run(&two_hosts(line, flood), &[]);
    let full = 21.0 * 8.336;
    assert!(results.number("s", "udp", "rtt_ms.max") < full + 50.0 + 9.0, "{:#}", results.json);
    // Some three of those that wait are probes themselves, an eighth as long.
    near(results.number("s", "udp", "rtt_ms.p50"), full - 3.0 * 7.2 + 50.0, 10.0);
    assert!(results.number("s", "udp", "rtt_ms.min") < full, "{:#}", results.json);
    assert!(results.number("s", "udp", "reordered_up") > 0.0, "{:#}", results.json);
    // Both together fill the line, and no more: 142 bytes are a probe's on it.
    let probes = results.number("s", "udp", "received") * 142.0 * 8.0 / 20e6;
    near(results.number("s", "flood", "goodput_mbps"), 1000.0 / 1042.0 * (1.0 - probes), 0.003);
}
