//! Policies. host-fair: between hosts, between tiers, over IPv6, behind address translation, in both directions, tunnels. And the others: what
//! each of them promises.

use super::support::{self, PING, QUELL, TestFolder, near};

/// A home with a line of 2.5 Mbit/s up and 8 down.
fn home(nat: bool, rest: &str) -> String {
    let line = "up = { rate = \"2.5Mbit\", delay = \"10ms\", buffer = \"100p\" }\n\
                down = { rate = \"8Mbit\", delay = \"10ms\", buffer = \"100p\" }";
    support::home(nat, line, rest)
}

const UP: &str = "[[queue]]\nname = \"shaped\"\non = \"router:wan\"\n\
                  policy = { kind = \"host-fair\", rate = \"2.4Mbit\" }\n\
                  [[scenario]]\nname = \"s\"\nloads = [\"a\"]\nqueues = [\"shaped\"]\n";

fn share(nat: bool, load: &str, probe: &str) -> f64 {
    let text = home(
        nat,
        &format!(
            "{UP}[[load]]\nname = \"a\"\n{load}\n[[probe]]\nname = \"b\"\nkind = \"tcp\"\nfrom = \"b\"\nto = \"server\"\n{probe}\n"
        ),
    );
    TestFolder::new().run(&text, &[]).number("s", "b", "share")
}

const FOUR: &str = "kind = \"tcp\"\nfrom = \"a\"\nto = \"server\"\nconnections = 4";

#[test]
fn one_transfer_of_b_gets_as_much_as_four_of_a() {
    near(share(false, FOUR, ""), 0.5, 0.03);
}

#[test]
fn over_ipv6_too_and_between_the_families() {
    near(share(false, &format!("{FOUR}\nipv6 = true"), "ipv6 = true"), 0.5, 0.03);
    near(share(false, &format!("{FOUR}\nipv6 = true"), ""), 0.5, 0.03);
}

#[test]
fn behind_address_translation_hosts_are_still_told_apart() {
    near(share(true, FOUR, ""), 0.5, 0.03);
    near(share(true, &format!("{FOUR}\nipv6 = true"), "ipv6 = true"), 0.5, 0.03);
}

#[test]
fn a_flood_in_the_highest_tier_takes_nothing_from_another_host() {
    let flood = "kind = \"udp\"\nfrom = \"a\"\nto = \"server\"\nrate = \"8Mbit\"\nsize = \"1400B\"\ntos = \"EF\"";
    near(share(false, flood, ""), 0.5, 0.03);
}

#[test]
fn within_a_host_the_high_tier_goes_first_and_the_others_keep_their_floor() {
    let text = home(
        false,
        "[[queue]]\nname = \"shaped\"\non = \"router:wan\"\n\
         policy = { kind = \"host-fair\", rate = \"2.4Mbit\" }\n\
         [[scenario]]\nname = \"s\"\nloads = [\"urgent\", \"plain\", \"backup\"]\nqueues = [\"shaped\"]\n\
         [[load]]\nname = \"urgent\"\nkind = \"udp\"\nfrom = \"b\"\nto = \"server\"\nrate = \"8Mbit\"\nsize = \"1400B\"\ntos = \"EF\"\n\
         [[load]]\nname = \"plain\"\nkind = \"tcp\"\nfrom = \"b\"\nto = \"server\"\n\
         [[load]]\nname = \"backup\"\nkind = \"tcp\"\nfrom = \"b\"\nto = \"server\"\ntos = \"CS1\"\n\
         [[probe]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"server\"\n",
    );
    let results = TestFolder::new().run(&text, &[]);
    let (urgent, plain, backup) = (
        results.number("s", "urgent", "goodput_mbps"),
        results.number("s", "plain", "goodput_mbps"),
        results.number("s", "backup", "goodput_mbps"),
    );
    // The floors are a quarter and a twentieth of a third of 2.4 Mbit/s: two hosts and one bucket for strangers.
    near(plain, 0.8 * 0.25, 0.04);
    near(backup, 0.8 * 0.05, 0.02);
    assert!(urgent > 1.8, "{urgent}");
    // Without the urgent flood the normal tier goes before the bulk tier.
    let calm = text
        .replace("loads = [\"urgent\", \"plain\", \"backup\"]", "loads = [\"plain\", \"backup\"]");
    let results = TestFolder::new().run(&calm, &[]);
    assert!(results.number("s", "plain", "goodput_mbps") > 2.0);
    near(results.number("s", "backup", "goodput_mbps"), 0.8 * 0.05, 0.02);
}

#[test]
fn downloads_are_shared_by_host_where_packets_come_in() {
    let text = home(
        false,
        "[[queue]]\nname = \"shaped\"\non = \"router:wan\"\ndirection = \"in\"\n\
         policy = { kind = \"host-fair\", rate = \"7.5Mbit\" }\n\
         [[scenario]]\nname = \"s\"\nloads = [\"a\"]\nqueues = [\"shaped\"]\n\
         [[load]]\nname = \"a\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"server\"\ndirection = \"down\"\nconnections = 4\n\
         [[probe]]\nname = \"b\"\nkind = \"tcp\"\nfrom = \"b\"\nto = \"server\"\ndirection = \"down\"\n\
         [[probe]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"b\"\nto = \"server\"\n",
    );
    let results = TestFolder::new().run(&text, &[]);
    near(results.number("s", "b", "share"), 0.5, 0.03);
    // 20 ms of delay, CoDel's 5 ms, and full packets of 1.5 ms each that a ping meets at the shaper and on the line.
    assert!(results.number("s", "ping", "rtt_ms.p99") < 40.0);
}

#[test]
fn wireguard_shook_hands_before_the_first_packet_is_measured() {
    let text = format!(
        "name = \"story\"\nduration = \"2s\"\nprobes-run = \"together\"\n\
         [topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r1\", \"core\", \"r2\"]\n\
         [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r1\"]\n\
         [[topology.link]]\nname = \"w1\"\nends = [\"r1\", \"core\"]\nboth = {{ delay = \"50ms\" }}\n\
         [[topology.link]]\nname = \"w2\"\nends = [\"core\", \"r2\"]\nboth = {{ delay = \"50ms\" }}\n\
         [[topology.link]]\nname = \"lb\"\nends = [\"r2\", \"b\"]\n\
         [[topology.tunnel]]\nname = \"tun\"\nkind = \"wireguard\"\nends = [\"r1\", \"r2\"]\n\
         [[scenario]]\nname = \"s\"\n{PING}"
    );
    let results = TestFolder::new().run(&text, &[]);
    near(results.number("s", "ping", "loss_ratio"), 0.0, 0.0);
    near(results.number("s", "ping", "rtt_ms.p50"), 200.0, 0.1);
    near(results.number("s", "ping", "rtt_ms.max"), 200.0, 0.1);
}

#[test]
fn every_kind_of_tunnel_carries_what_it_should() {
    for (kind, v4, v6) in [
        ("ipip", true, false),
        ("6in4", false, true),
        ("4in6", true, false),
        ("6in6", false, true),
        ("gre", true, true),
        ("wireguard", true, true),
    ] {
        let dir = TestFolder::new();
        let topology = format!(
            "hosts = [\"a\", \"b\"]\nrouters = [\"r1\", \"core\", \"r2\"]\n\
             [[link]]\nname = \"la\"\nends = [\"a\", \"r1\"]\n\
             [[link]]\nname = \"w1\"\nends = [\"r1\", \"core\"]\nboth = {{ delay = \"5ms\" }}\n\
             [[link]]\nname = \"w2\"\nends = [\"core\", \"r2\"]\nboth = {{ delay = \"5ms\" }}\n\
             [[link]]\nname = \"lb\"\nends = [\"r2\", \"b\"]\n\
             [[tunnel]]\nname = \"tun\"\nkind = \"{kind}\"\nends = [\"r1\", \"r2\"]\n"
        );
        let file = dir.file("t.toml", &topology);
        for (target, through) in [("{b}", v4), ("{b/6}", v6)] {
            let with = format!("a: {QUELL} ping -c 5 -i 0.2 {target}");
            let output = dir.quell(&[
                "lab", "exec", &file.to_string_lossy(), "r1", "--with", &with, "--",
                "sh", "-c", "sleep 4; cat /sys/class/net/tun/statistics/tx_packets /sys/class/net/w1/statistics/tx_packets",
            ]);
            let said = String::from_utf8_lossy(&output.stdout);
            let counts: Vec<u64> = said.lines().filter_map(|l| l.parse().ok()).collect();
            let [tunnel, line] = counts[..] else {
                panic!("{kind}: {said} {}", String::from_utf8_lossy(&output.stderr))
            };
            assert_eq!(tunnel >= 5, through, "{kind} {target}: {tunnel} packets in the tunnel");
            assert!(line >= 5, "{kind} {target}: {line} packets on the line");
        }
    }
}

/// B's share beside A's load, with a policy on the router's way up.
fn share_with(policy: &str, load: &str, probe: &str) -> f64 {
    share_at_home(false, policy, load, probe)
}

fn share_at_home(nat: bool, policy: &str, load: &str, probe: &str) -> f64 {
    let text = home(
        nat,
        &format!(
            "[[queue]]\nname = \"shaped\"\non = \"router:wan\"\npolicy = {{ rate = \"2.4Mbit\", {policy} }}\n\
             [[scenario]]\nname = \"s\"\nloads = [\"a\"]\nqueues = [\"shaped\"]\n\
             [[load]]\nname = \"a\"\n{load}\n\
             [[probe]]\nname = \"b\"\nkind = \"tcp\"\nfrom = \"b\"\nto = \"server\"\n{probe}\n"
        ),
    );
    TestFolder::new().run(&text, &[]).number("s", "b", "share")
}

#[test]
fn cake_finds_the_hosts_by_itself() {
    near(share_with("kind = \"cake\"", FOUR, ""), 0.5, 0.03);
    // Behind address translation too, where it asks the kernel's connection tracking.
    near(share_at_home(true, "kind = \"cake\"", FOUR, ""), 0.5, 0.03);
}

#[test]
fn of_the_whole_links_tiers_the_high_one_gets_all_but_the_others_floor() {
    // A's four are in the normal tier, which has a quarter for sure; A and B are not told apart.
    near(share_with("kind = \"tiers\"", FOUR, "tos = \"EF\""), 0.75, 0.03);
    near(share_with("kind = \"tiers\"", FOUR, ""), 0.2, 0.03);
}

const BOTH_PAY: &str = "kind = \"subscribers\", subscriber = [\
    { name = \"a\", prefixes = [\"10.0.0.0/24\"], floor = \"200kbit\", ceiling = \"CEILING\", group = \"GROUP\" }, \
    { name = \"b\", prefixes = [\"10.0.1.1\"], floor = \"600kbit\", ceiling = \"2.4Mbit\" } ], \
    group = [ { name = \"GROUP\", ceiling = \"LIMIT\" } ]";

#[test]
fn a_subscriber_gets_no_more_than_its_ceiling_and_its_groups() {
    let policy = |ceiling: &str, limit: &str| {
        BOTH_PAY.replace("CEILING", ceiling).replace("LIMIT", limit).replace("GROUP", "north")
    };
    // What A may not have is B's.
    near(share_with(&policy("900kbit", "2Mbit"), FOUR, ""), 1.5 / 2.4, 0.03);
    near(share_with(&policy("2Mbit", "900kbit"), FOUR, ""), 1.5 / 2.4, 0.03);
}
