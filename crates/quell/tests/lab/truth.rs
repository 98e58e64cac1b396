//! Known networks, measured: delays to the microsecond, loss with its direction, order, rates.

use super::support::{PING, QUIET, TestFolder, UDP, lacks_iperf3, near, two_hosts};

/// In virtual time each look at the clock takes 32 ns, so that a program that waits for time to pass gets on
/// (`timer_read`, arch/um/kernel/time.c); what several streams look at while a packet is on its way adds up.
const CLOCK_MS: f64 = 0.001;

#[test]
fn a_path_of_10_ms_up_and_30_ms_down_measures_as_that_in_both_directions_and_families() {
    let six = "[[probe]]\nname = \"ping6\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\nipv6 = true\n\
               [[probe]]\nname = \"udp6\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\n\
               rate = \"200kbit\"\nsize = \"500B\"\nipv6 = true\n";
    let text = two_hosts(
        "up = { delay = \"10ms\" }\ndown = { delay = \"30ms\" }",
        &format!("{QUIET}{PING}{UDP}{six}"),
    );
    let results = TestFolder::new().run(&text, &[]);
    for stream in ["ping", "ping6", "udp", "udp6"] {
        near(results.number("s", stream, "loss_ratio"), 0.0, 0.0);
        for point in ["min", "p50", "p99", "max"] {
            near(results.number("s", stream, &format!("rtt_ms.{point}")), 40.0, CLOCK_MS);
        }
    }
    for stream in ["udp", "udp6"] {
        near(results.number("s", stream, "up_ms.max"), 10.0, CLOCK_MS);
        near(results.number("s", stream, "down_ms.max"), 30.0, CLOCK_MS);
        near(results.number("s", stream, "jitter_ms"), 0.0, CLOCK_MS);
    }
    near(results.number("s", "udp", "sent"), 1000.0, 1.0);
    near(results.number("s", "ping", "sent"), 400.0, 1.0);
}

#[test]
fn loss_is_counted_and_its_direction_told() {
    let text = two_hosts(
        "up = { loss = \"10%\", delay = \"5ms\" }\ndown = { delay = \"5ms\" }",
        &format!("{QUIET}{UDP}"),
    );
    let results = TestFolder::new().run(&text, &[]);
    // 1000 packets at 10 %: four standard deviations are 3.8 %.
    near(results.number("s", "udp", "loss_ratio"), 0.10, 0.038);
    let lost = results.number("s", "udp", "sent") - results.number("s", "udp", "received");
    near(results.number("s", "udp", "lost_up"), lost, 1.0);
    near(results.number("s", "udp", "lost_down"), 0.0, 1.0);

    let text = two_hosts(
        "up = { delay = \"5ms\" }\ndown = { loss = \"10%\", delay = \"5ms\" }",
        &format!("{QUIET}{UDP}"),
    );
    let results = TestFolder::new().run(&text, &[]);
    near(results.number("s", "udp", "loss_ratio"), 0.10, 0.038);
    near(results.number("s", "udp", "lost_up"), 0.0, 0.0);
    let lost = results.number("s", "udp", "sent") - results.number("s", "udp", "received");
    near(results.number("s", "udp", "lost_down"), lost, 1.0);
}

#[test]
fn duplicates_and_reordering_are_seen_where_they_are_and_nowhere_else() {
    let text = two_hosts("up = { duplicate = \"20%\", delay = \"5ms\" }", &format!("{QUIET}{UDP}"));
    let results = TestFolder::new().run(&text, &[]);
    near(results.number("s", "udp", "duplicates"), 200.0, 51.0);
    near(results.number("s", "udp", "loss_ratio"), 0.0, 0.0);
    near(results.number("s", "udp", "reordered_up"), 0.0, 0.0);

    // A packet every 20 ms that now and then skips a delay of 50 ms overtakes two others.
    let text = two_hosts("up = { reorder = \"10%\", delay = \"50ms\" }", &format!("{QUIET}{UDP}"));
    let results = TestFolder::new().run(&text, &[]);
    assert!(results.number("s", "udp", "reordered_up") > 50.0, "{:#}", results.row("s", "udp"));
    near(results.number("s", "udp", "reordered_down"), 0.0, 0.0);
    near(results.number("s", "udp", "duplicates"), 0.0, 0.0);
}

#[test]
fn a_uniform_jitter_of_5_ms_fills_its_range_and_no_more() {
    let text = two_hosts("up = { delay = \"20ms\", jitter = \"5ms\" }", &format!("{QUIET}{UDP}"));
    let results = TestFolder::new().run(&text, &[]);
    let (least, most) =
        (results.number("s", "udp", "up_ms.min"), results.number("s", "udp", "up_ms.max"));
    assert!((15.0..15.2).contains(&least), "{least}");
    assert!((24.8..=25.001).contains(&most), "{most}");
    near(results.number("s", "udp", "up_ms.mean"), 20.0, 0.4);
    // The mean difference of two uniform values over a range of 10 ms is a third of it (RFC 3550's estimate of the same mean).
    near(results.number("s", "udp", "jitter_ms"), 10.0 / 3.0, 0.4);
}

#[test]
fn a_transfer_gets_the_lines_rate_less_its_headers_and_overhead() {
    let load = "warm-up = \"5s\"\n[[load]]\nname = \"bulk\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\n\
                [[scenario]]\nname = \"s\"\nloads = [\"bulk\"]\n";
    let text = two_hosts("both = { rate = \"10Mbit\", delay = \"5ms\" }", &format!("{load}{PING}"));
    // 1448 bytes of payload in a frame of 1514.
    let results = TestFolder::new().run(&text, &[]);
    near(results.number("s", "bulk", "goodput_mbps"), 10.0 * 1448.0 / 1514.0, 0.02);
    let text = two_hosts(
        "both = { rate = \"10Mbit\", delay = \"5ms\", overhead = 44 }",
        &format!("{load}{PING}"),
    );
    let results = TestFolder::new().run(&text, &[]);
    near(results.number("s", "bulk", "goodput_mbps"), 10.0 * 1448.0 / 1558.0, 0.03);
}

#[test]
fn a_buffer_in_packets_loses_small_packets_too_and_one_in_bytes_lets_them_slip_in() {
    // The flood comes through a router: a host's own socket buffers would hold it back before the queue is full.
    let lost = |buffer: &str| {
        let text = format!(
            "name = \"story\"\nduration = \"20s\"\nwarm-up = \"2s\"\nprobes-run = \"together\"\n\
             [topology]\nhosts = [\"a\", \"c\", \"b\"]\nrouters = [\"r\"]\n\
             [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r\"]\n\
             [[topology.link]]\nname = \"lc\"\nends = [\"c\", \"r\"]\n\
             [[topology.link]]\nname = \"line\"\nends = [\"r\", \"b\"]\n\
             up = {{ rate = \"2Mbit\", buffer = \"{buffer}\" }}\n\
             [[load]]\nname = \"flood\"\nkind = \"udp\"\nfrom = \"c\"\nto = \"b\"\nrate = \"8Mbit\"\nsize = \"1400B\"\n\
             [[scenario]]\nname = \"s\"\nloads = [\"flood\"]\n\
             [[probe]]\nname = \"small\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"32kbit\"\nsize = \"80B\"\n"
        );
        TestFolder::new().run(&text, &[]).number("s", "small", "loss_ratio")
    };
    let (packets, bytes) = (lost("100p"), lost("144200B"));
    assert!(packets > 0.5, "{packets}");
    assert!(bytes < 0.4, "{bytes}");
}

#[test]
fn a_deep_buffer_that_does_not_overflow_makes_packets_slow_and_loses_none() {
    // For 10 s, 214 kB/s come to a line of 125 kB/s: its buffer of 1000 packets fills with some 890, of 7 s.
    let text = "name = \"story\"\nduration = \"20s\"\nprobes-run = \"together\"\n\
                [topology]\nhosts = [\"a\", \"c\", \"b\"]\nrouters = [\"r\"]\n\
                [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r\"]\n\
                [[topology.link]]\nname = \"lc\"\nends = [\"c\", \"r\"]\n\
                [[topology.link]]\nname = \"line\"\nends = [\"r\", \"b\"]\n\
                up = { rate = \"1Mbit\", buffer = \"1000p\" }\n\
                [[load]]\nname = \"flood\"\nkind = \"udp\"\nfrom = \"c\"\nto = \"b\"\nrate = \"1.6Mbit\"\n\
                size = \"1400B\"\nstart = \"0s\"\nduration = \"10s\"\n\
                [[scenario]]\nname = \"s\"\nloads = [\"flood\"]\n\
                [[probe]]\nname = \"voice\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"32kbit\"\nsize = \"80B\"\n\
                [[probe]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\ninterval = \"50ms\"\n";
    let results = TestFolder::new().run(text, &[]);
    for stream in ["voice", "ping"] {
        near(results.number("s", stream, "loss_ratio"), 0.0, 0.0);
        near(results.number("s", stream, "received_late"), 0.0, 0.0);
        near(results.number("s", stream, "rtt_ms.max"), 7100.0, 700.0);
        assert!(results.number("s", stream, "rtt_ms.p50") > 3000.0, "{:#}", results.json);
    }
}

#[test]
fn a_link_that_slows_down_at_10_s_carries_half_as_much_on_the_whole() {
    let text = two_hosts(
        "both = { rate = \"10Mbit\", delay = \"5ms\" }",
        &format!(
            "warm-up = \"5s\"\n[[load]]\nname = \"bulk\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\n\
             [[scenario]]\nname = \"s\"\nloads = [\"bulk\"]\n\
             [[timeline]]\nat = \"10s\"\nlink = \"line\"\nup = {{ rate = \"1Mbit\" }}\n{PING}"
        ),
    );
    let results = TestFolder::new().run(&text, &[]);
    let wanted = (10.0 + 1.0) / 2.0 * 1448.0 / 1514.0;
    near(results.number("s", "bulk", "goodput_mbps"), wanted, 0.12);
}

#[test]
fn a_queue_that_is_replaced_while_it_runs_changes_the_delay_from_then_on() {
    let text = two_hosts(
        "both = { rate = \"5Mbit\", delay = \"5ms\", buffer = \"200p\" }",
        &format!(
            "warm-up = \"5s\"\n[[load]]\nname = \"bulk\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\n\
             [[scenario]]\nname = \"plain\"\nloads = [\"bulk\"]\n\
             [[scenario]]\nname = \"mended\"\nloads = [\"bulk\"]\n\
             [[timeline]]\nat = \"4s\"\nscenarios = [\"mended\"]\non = \"a:line\"\nqueue = \"fq_codel\"\n{PING}"
        ),
    );
    let results = TestFolder::new().run(&text, &[]);
    assert!(results.number("plain", "ping", "rtt_ms.p50") > 200.0);
    assert!(results.number("mended", "ping", "rtt_ms.p50") < 40.0);
    assert!(results.number("mended", "ping", "rtt_ms.max") > 200.0, "the first 4 s were as before");
}

#[test]
fn packets_on_their_way_outlive_a_queue_that_is_replaced_behind_them() {
    // 25 packets are within the line's delay at any time; none waits for the line.
    let text = two_hosts(
        "both = { rate = \"5Mbit\", delay = \"500ms\", buffer = \"200p\" }",
        &format!(
            "{QUIET}[[timeline]]\nat = \"4s\"\non = \"a:line\"\nqueue = \"fq_codel\"\n\
             [[timeline]]\nat = \"8s\"\non = \"a:line\"\nqueue = \"sfq\"\n\
             [[timeline]]\nat = \"12s\"\nlink = \"line\"\nup = {{ rate = \"8Mbit\" }}\n{UDP}"
        ),
    );
    let results = TestFolder::new().run(&text, &[]);
    near(results.number("s", "udp", "sent"), 1000.0, 1.0);
    near(results.number("s", "udp", "loss_ratio"), 0.0, 0.0);
    near(results.number("s", "udp", "reordered_up"), 0.0, 0.0);
}

#[test]
fn random_marking_spares_packets_that_can_be_marked() {
    let text = two_hosts(
        "up = { mark = \"20%\", delay = \"5ms\" }",
        &format!(
            "{QUIET}{PING}[[probe]]\nname = \"ect\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\n\
             interval = \"50ms\"\ntos = \"0x02\"\n"
        ),
    );
    let results = TestFolder::new().run(&text, &[]);
    near(results.number("s", "ect", "loss_ratio"), 0.0, 0.0);
    near(results.number("s", "ping", "loss_ratio"), 0.2, 0.08);
}

#[test]
fn the_connections_of_foreign_programs_are_sampled_too() {
    if lacks_iperf3() {
        return;
    }
    let text = two_hosts(
        "both = { rate = \"5Mbit\", delay = \"5ms\" }",
        &format!(
            "[[load]]\nname = \"server\"\nkind = \"command\"\non = \"b\"\nrun = [\"iperf3\", \"-s\", \"-1\"]\nstart = \"0ms\"\n\
             [[load]]\nname = \"client\"\nkind = \"command\"\non = \"a\"\nstart = \"500ms\"\n\
             run = [\"iperf3\", \"-c\", \"{{b}}\", \"-t\", \"10\"]\n\
             [[scenario]]\nname = \"s\"\nloads = [\"server\", \"client\"]\n{PING}"
        ),
    );
    let dir = TestFolder::new();
    let results = dir.run(&text, &[]);
    let rows = results.json["results"].as_array().expect("rows");
    let sampled = rows.iter().any(|r| r["stream"].as_str().is_some_and(|s| s.contains("5201")));
    assert!(sampled, "{:#}", results.json);
    let outputs = std::fs::read_to_string(dir.only_run().join("outputs.jsonl")).expect("outputs");
    assert!(
        outputs.contains("sender") && outputs.contains("Mbits/sec"),
        "iperf3's own words are kept"
    );
}

#[test]
fn repeats_have_seeds_of_their_own_and_give_intervals() {
    let text = two_hosts("up = { loss = \"10%\", delay = \"5ms\" }", &format!("{QUIET}{UDP}"));
    let dir = TestFolder::new();
    let results = dir.run(&text, &["--repeat", "5", "--duration", "5s"]);
    let rows = results.json["results"].as_array().expect("rows");
    let losses: std::collections::BTreeSet<String> =
        rows.iter().map(|r| r["loss_ratio"].to_string()).collect();
    assert_eq!(rows.len(), 5);
    assert!(losses.len() > 1, "five repeats lost exactly the same share: {losses:?}");
    let shown = dir.quell(&["show"]);
    assert!(
        String::from_utf8_lossy(&shown.stdout).contains("below each its 95 % interval; 5 are few"),
        "{}",
        String::from_utf8_lossy(&shown.stdout)
    );
}

#[test]
fn an_on_off_load_sends_its_share_of_the_time() {
    let text = two_hosts(
        "both = { rate = \"50Mbit\", delay = \"5ms\" }",
        &format!(
            "[[load]]\nname = \"bursts\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"4Mbit\"\nsize = \"1000B\"\n\
             on = \"1s\"\noff = \"3s\"\n[[scenario]]\nname = \"s\"\nloads = [\"bursts\"]\n{PING}"
        ),
    );
    near(TestFolder::new().run(&text, &[]).number("s", "bursts", "goodput_mbps"), 1.0, 0.02);
}

#[test]
fn an_expectation_that_fails_is_shown_and_makes_the_exit_code_1() {
    let dir = TestFolder::new();
    let text = two_hosts(
        "both = { delay = \"5ms\" }",
        &format!(
            "expect = [\"s.ping.rtt.p50 < 9ms\", \"s.ping.rtt.p50 = 10ms ± 1us\"]\n{QUIET}{PING}"
        ),
    );
    let file = dir.file("e.toml", &text);
    let output = dir.quell(&["run", &file.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("✗ FAILS  s.ping.rtt.p50 < 9ms"), "{said}");
    assert!(said.contains("1 of 2 expectations hold."), "{said}");
}

#[test]
fn the_other_built_in_experiments_keep_what_they_claim() {
    for name in ["window-bdp", "mtu-blackhole", "congestion-controls"] {
        let output = TestFolder::new().quell(&["run", name]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{name}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn rrul_keeps_what_it_claims() {
    let output = TestFolder::new().quell(&["run", "rrul"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
}
