//! `quell path` in networks whose every hop is known, in virtual time.
//!
//! ```text
//!   a ──── r1 ════ r2 ════ r3 ════ b        1 ms, 10 ms, 20 ms and 40 ms from a and back
//! ```

use super::support::{QUELL, TestFolder, near};
use crate::left_out;
use serde_json::Value;
use std::process::Command;

/// The chain; what is said of the links r1–r2 and r2–r3 beside their delays.
fn chain(second: &str, third: &str) -> String {
    format!(
        "name = \"chain\"\nduration = \"1s\"\n\
         [topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r1\", \"r2\", \"r3\"]\n\
         [[topology.link]]\nname = \"one\"\nends = [\"a\", \"r1\"]\nboth = {{ delay = \"500us\" }}\n\
         [[topology.link]]\nname = \"two\"\nends = [\"r1\", \"r2\"]\n{second}\n\
         [[topology.link]]\nname = \"three\"\nends = [\"r2\", \"r3\"]\n{third}\n\
         [[topology.link]]\nname = \"four\"\nends = [\"r3\", \"b\"]\nboth = {{ delay = \"10ms\" }}\n\
         [[scenario]]\nname = \"s\"\n\
         [[probe]]\nname = \"unused\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\n"
    )
}

const SECOND: &str = "both = { delay = \"4.5ms\" }";
const THIRD: &str = "both = { delay = \"5ms\" }";

/// What `quell path ARGUMENTS` on `a` says in JSON, and its exit code, once `r2` has carried out a script.
fn path_in(topology: &str, on_r2: &str, arguments: &[&str]) -> (Value, Option<i32>) {
    let dir = TestFolder::new();
    let script = dir.file("script", on_r2);
    path_beside(&dir, topology, &format!("r2: sh -e {}", script.display()), arguments)
}

/// The same over TCP to `quell serve` on `b`.
fn path_to_server(topology: &str, arguments: &[&str]) -> (Value, Option<i32>) {
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0");
    let arguments = [&["-m", "tcp", "--no-survey", "{b}:5201"], arguments].concat();
    path_beside(&TestFolder::new(), topology, &serve, &arguments)
}

fn path_beside(
    dir: &TestFolder,
    topology: &str,
    with: &str,
    arguments: &[&str],
) -> (Value, Option<i32>) {
    let file = dir.file("network.toml", topology);
    let file = file.to_string_lossy();
    let mut exec = vec!["lab", "exec", &*file, "a", "--with", with];
    exec.extend(["--", QUELL, "path", "--json"]);
    exec.extend(arguments);
    let output = dir.quell(&exec);
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let json = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{error}"));
    (json, output.status.code())
}

fn kinds(said: &Value) -> Vec<&str> {
    let findings = said["findings"].as_array().expect("a list");
    findings.iter().map(|f| f["id"].as_str().expect("a word")).collect()
}

fn address(said: &Value, hop: usize) -> &str {
    said["hops"][hop - 1]["addresses"][0]["address"].as_str().unwrap_or("-")
}

#[test]
fn each_hop_of_a_healthy_chain_has_its_delay_to_the_microsecond_whatever_is_sent() {
    let topology = chain(SECOND, THIRD);
    for (method, to) in [
        ("icmp", "{b}"),
        ("udp", "{b}"),
        ("tcp", "{b}"),
        ("icmp", "{b/6}"),
        ("udp", "{b/6}"),
        ("tcp", "{b/6}"),
    ] {
        let (said, code) = path_in(&topology, "", &["-m", method, "-c", "5", to]);
        assert_eq!(code, Some(0), "{method} {to}: {said:#}");
        assert_eq!(said["reached"], true);
        assert_eq!(said["hops"].as_array().map(Vec::len), Some(4), "{method} {to}: {said:#}");
        for (hop, delay) in [(1, 1.0), (2, 10.0), (3, 20.0), (4, 40.0)] {
            let row = &said["hops"][hop - 1];
            assert_eq!(
                (&row["sent"], &row["received"]),
                (&5.into(), &5.into()),
                "{method}: {row:#}"
            );
            for point in ["min", "max"] {
                near(row["rtt_ms"][point].as_f64().expect("a time"), delay, 0.002);
            }
            near(row["jitter_ms"].as_f64().expect("a time"), 0.0, 0.001);
            assert_eq!(row["mtu"], 1500, "{method} {to}: {said:#}");
            // Of a SYN-ACK nobody tells the TTL.
            let back = &row["addresses"][0]["hops_back"];
            assert!(*back == hop || method == "tcp" && hop == 4, "{method}: {row:#}");
        }
        assert_eq!(kinds(&said), [""; 0], "{method} {to}: {said:#}");
        assert_eq!((&said["mtu"], &said["unmatched"]), (&1500.into(), &0.into()));
    }
}

#[test]
fn all_but_marks_is_seen_without_any_right() {
    let dir = TestFolder::new();
    let file = dir.file("network.toml", &chain(SECOND, THIRD));
    let file = file.to_string_lossy();
    let without = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"];
    let path = [QUELL, "path", "-c", "3", "{b}"];
    let exec = ["lab", "exec", &*file, "a", "--"];
    let output = dir.quell(&[&exec[..], &without, &path].concat());
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    // Nobody may open ping sockets by default, so it takes UDP.
    assert!(said.starts_with("10.0.3.2 answers over 4 hops in 40.00 ms (median)"), "{said}");
    assert!(said.contains("\n10.0.3.2 (10.0.3.2:33434), UDP, 56 bytes, from port"), "{said}");
    assert!(
        said.contains("   3  10.0.2.2            3    0.0  20.00  20.00  20.00  20.00"),
        "{said}"
    );
    assert!(said.contains("Packets of 1500 bytes get to the end."), "{said}");
    assert!(said.contains("only raw sockets show it"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
}

#[test]
fn a_small_link_is_named_with_the_router_before_it() {
    let topology = chain(SECOND, &format!("{THIRD}\nmtu = 1400"));
    for to in ["{b}", "{b/6}"] {
        let (said, code) = path_in(&topology, "", &["-c", "3", to]);
        assert_eq!(code, Some(0), "{said:#}");
        let sizes: Vec<_> = (0..4).map(|hop| said["hops"][hop]["mtu"].as_u64()).collect();
        assert_eq!(sizes, [Some(1500), Some(1500), Some(1400), Some(1400)], "{said:#}");
        assert_eq!(said["hops"][2]["mtu_said_by"], *address(&said, 2), "{said:#}");
        assert_eq!(kinds(&said), ["narrow-link"], "{said:#}");
    }
}

/// What the router says of each probe beyond it is no answer of the hop that was asked: else thirty hops seem to answer, and each is searched.
#[test]
fn who_finds_all_too_big_is_no_hop_behind_itself_and_takes_no_minutes() {
    let small = "ip link set dev three mtu 68";
    let asked = ["-c", "10", "-i", "100ms", "{b}"];
    let (said, code) = path_in(&chain(SECOND, THIRD), small, &asked);
    assert_eq!((code, &said["mtu"]), (Some(1), &Value::Null), "{said:#}");
    assert_eq!(said["hops"].as_array().map(Vec::len), Some(2), "{said:#}");
    let found = said["findings"].as_array().expect("a list");
    let too_big = found.iter().find(|f| f["id"] == "probes-too-big").expect("it is told");
    let text = format!("{} (hop 2) says that probes of 84 bytes don't fit", address(&said, 2));
    assert!(too_big["text"].as_str().is_some_and(|t| t.starts_with(&text)), "{said:#}");
    // It waits for answers for three seconds, and not for those of the thirtieth hop.
    assert_eq!(said["hops"][1]["sent"], 10, "{said:#}");
}

#[test]
fn packets_that_vanish_above_a_size_are_told_to_the_byte() {
    let topology = chain(SECOND, &format!("{THIRD}\nswallows-above = 1400"));
    let (said, code) = path_in(&topology, "", &["-c", "3", "-m", "udp", "{b}"]);
    assert_eq!(code, Some(1), "a check that failed: {said:#}");
    assert_eq!((&said["mtu"], &said["hops"][1]["mtu"]), (&1400.into(), &1500.into()), "{said:#}");
    assert_eq!(said["hops"][2]["larger_vanish"], true, "{said:#}");
    assert_eq!(kinds(&said), ["mtu-black-hole"], "{said:#}");
}

/// Routers name the tunnel's MTU, and what carries the tunnel swallows less: the doctor knows it as the hops do.
#[test]
fn a_wireguard_tunnel_whose_packets_vanish_is_a_black_hole_to_the_doctor_too() {
    let network = "name = \"wg\"\nduration = \"1s\"\n[topology]\nhosts = [\"host\", \"server\"]\n\
         routers = [\"left\", \"mid\", \"right\"]\n\
         [[topology.link]]\nname = \"lan\"\nends = [\"host\", \"left\"]\n\
         [[topology.link]]\nname = \"isp\"\nends = [\"left\", \"mid\"]\nboth = { delay = \"5ms\" }\n\
         [[topology.link]]\nname = \"net\"\nends = [\"mid\", \"right\"]\nswallows-above = 1440\n\
         [[topology.link]]\nname = \"dc\"\nends = [\"right\", \"server\"]\n\
         [[topology.tunnel]]\nname = \"vpn\"\nkind = \"wireguard\"\nends = [\"left\", \"right\"]\n\
         [[scenario]]\nname = \"s\"\n[[probe]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"host\"\nto = \"server\"\n";
    let dir = TestFolder::new();
    let file = dir.file("wg.toml", network);
    let file = file.to_string_lossy();
    let serve = format!("server: {QUELL} serve --bind 0.0.0.0");
    let lab = ["lab", "exec", &*file, "host", "--with", &*serve];
    let output =
        dir.quell(&[&lab[..], &["--", QUELL, "doctor", "--peer", "{server}", "--json"]].concat());
    let said = String::from_utf8_lossy(&output.stdout);
    let said: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert!(kinds(&said).contains(&"mtu-black-hole"), "{said:#}");
}

#[test]
fn a_router_that_limits_its_answers_loses_nothing() {
    let topology = chain(SECOND, THIRD);
    let limit = "echo 3000 >/proc/sys/net/ipv4/icmp_ratelimit";
    let (said, code) = path_in(&topology, limit, &["-c", "60", "--no-survey", "{b}"]);
    assert_eq!(code, Some(0), "{said:#}");
    let loss = |hop: usize| said["hops"][hop - 1]["loss_ratio"].as_f64().expect("a part");
    // Six at once, then one in three seconds (inet_peer_xrlim_allow).
    assert!((0.5..0.7).contains(&loss(2)), "{said:#}");
    assert_eq!((loss(1), loss(3), loss(4)), (0.0, 0.0, 0.0), "{said:#}");
    assert_eq!(kinds(&said), ["answers-limited"], "{said:#}");
    assert_eq!(said["findings"][0]["hop"], 2);
}

/// The same answers are asked for by probes and by questions about sizes; what is not answered of these is no packet that is too large.
#[test]
fn hops_that_limit_their_answers_swallow_no_large_packets() {
    let quick = |delay: &str, loss: &str| {
        let up = format!("up = {{ delay = \"{delay}\"{loss} }}\ndown = {{ delay = \"{delay}\" }}");
        let down = format!("both = {{ delay = \"{delay}\" }}");
        let chain = chain(&up, &down);
        chain.replace("delay = \"500us\"", "").replace("delay = \"10ms\"", "")
    };
    for (delay, loss, flows, count) in
        [("11ms", "", "8", "30"), ("23ms", ", loss = \"1%\"", "8", "30"), ("11ms", "", "4", "30")]
    {
        let asked = ["--flows", flows, "-c", count, "-i", "150ms", "{b}"];
        let (said, code) = path_in(&quick(delay, loss), "", &asked);
        assert_eq!((&said["mtu"], code), (&1500.into(), Some(0)), "{delay} {flows}: {said:#}");
        assert!(!kinds(&said).contains(&"mtu-black-hole"), "{delay} {flows}: {said:#}");
    }
}

#[test]
fn packets_that_vanish_before_an_end_that_limits_its_answers_are_told_too() {
    let topology = chain(SECOND, &format!("{THIRD}\nswallows-above = 1400"));
    let asked = ["--flows", "8", "-c", "10", "-i", "150ms", "{b}"];
    let (said, code) = path_in(&topology, "", &asked);
    assert_eq!((&said["mtu"], code), (&1400.into(), Some(1)), "{said:#}");
    assert_eq!(said["hops"][2]["larger_vanish"], true, "{said:#}");
}

#[test]
fn a_loss_is_placed_where_it_begins() {
    let topology =
        chain(SECOND, "up = { delay = \"5ms\", loss = \"30%\" }\ndown = { delay = \"5ms\" }");
    let (said, _) = path_in(&topology, "", &["-c", "200", "--no-survey", "{b}"]);
    let finding = &said["findings"][0];
    assert_eq!((&finding["id"], &finding["hop"]), (&"loss".into(), &3.into()), "{said:#}");
    assert!(finding["text"].as_str().unwrap().contains("between hop 2 and hop 3"), "{said:#}");
    assert_eq!(kinds(&said).len(), 1, "{said:#}");
}

/// The kernel sends a SYN again after a second; what answers after that is no loss, and no answer to the next one.
#[test]
fn answers_to_syns_that_come_after_a_second_are_late_and_not_lost() {
    for (up, is_sure) in [
        ("delay = \"1000ms\", jitter = \"300ms\"", false),
        ("delay = \"800ms\", jitter = \"500ms\"", false),
        ("delay = \"1100ms\"", false),
        ("delay = \"400ms\", jitter = \"300ms\"", true),
    ] {
        let topology = chain(SECOND, &format!("up = {{ {up} }}\ndown = {{ delay = \"5ms\" }}"));
        let (said, code) = path_to_server(&topology, &["-c", "20"]);
        assert_eq!((said["hops"].as_array().map(Vec::len), code), (Some(4), Some(0)), "{said:#}");
        for (hop, by) in (1..).zip(["10.0.0.2", "10.0.1.2", "10.0.2.2", "10.0.3.2"]) {
            let row = &said["hops"][hop - 1];
            assert_eq!(row["addresses"].as_array().map(Vec::len), Some(1), "{up}: {said:#}");
            assert_eq!((address(&said, hop), &row["lost"]), (by, &0.into()), "{up}: {said:#}");
            assert!(!is_sure || row["unsure"] == 0, "{up}: {said:#}");
        }
        let kinds = kinds(&said);
        assert!(kinds.iter().all(|kind| *kind == "loss-unknown"), "{up}: {kinds:?}");
    }
}

#[test]
fn a_loss_of_syns_or_their_answers_is_placed_where_it_begins() {
    for (up, down) in [("20%", "0%"), ("0%", "20%")] {
        let third = format!(
            "up = {{ delay = \"5ms\", loss = \"{up}\" }}\ndown = {{ delay = \"5ms\", loss = \"{down}\" }}"
        );
        let (said, code) = path_to_server(&chain(SECOND, &third), &["-c", "100"]);
        assert_eq!(code, Some(0), "{said:#}");
        let finding = &said["findings"][0];
        assert_eq!((&finding["id"], &finding["hop"]), (&"loss".into(), &3.into()), "{said:#}");
        let [router, end] = [3, 4].map(|hop: usize| {
            ["loss_at_least", "loss_at_most"]
                .map(|key| said["hops"][hop - 1][key].as_f64().expect("a part"))
        });
        assert!(router[0] > 0.08 && router[1] < 0.33, "{up} {down}: {said:#}");
        assert!(router[1] - router[0] <= 0.06, "{up} {down}: {said:#}");
        // What a lost reset leaves at the server disturbs the next connect: that is unsure.
        assert!(end[0] > 0.08 && end[0] < 0.33 && end[1] < 0.5, "{up} {down}: {said:#}");
    }
}

#[test]
fn where_ecn_is_changed_is_told_by_what_routers_quote() {
    let topology =
        chain(SECOND, "up = { delay = \"5ms\", mark = \"100%\" }\ndown = { delay = \"5ms\" }");
    let asked = ["-c", "3", "-m", "udp", "--ecn", "ect0", "{b}"];
    let (said, code) = path_in(&topology, "", &asked);
    assert_eq!(code, Some(0), "{said:#}");
    let finding = &said["findings"][0];
    assert_eq!((&finding["id"], &finding["hop"]), (&"ecn-changed".into(), &3.into()), "{said:#}");
    let text = finding["text"].as_str().unwrap();
    assert!(text.contains("between hop 2 and hop 3: ECN ect0 becomes ce"), "{text}");
}

/// Of marked packets a router lets none through. What quotes unmarked ones shows of no marks that they arrive.
#[test]
fn marked_packets_that_vanish_are_told_with_where() {
    if lacks_iproute2() {
        return;
    }
    let drop = "tc qdisc add dev three clsact
        tc filter add dev three egress protocol ip u32 match ip tos 0xba 0xff action drop";
    for method in ["icmp", "udp"] {
        let (said, code) = path_in(&chain(SECOND, THIRD), drop, &["-c", "3", "-m", method, "{b}"]);
        assert_eq!((code, kinds(&said)), (Some(0), vec!["marks-vanish"]), "{said:#}");
        let text = said["findings"][0]["text"].as_str().expect("a text");
        assert!(text.contains("vanish between hop 2 and hop 3"), "{text}");
        assert_eq!(said["mtu"], 1500, "{said:#}");
    }
}

#[test]
fn a_host_that_does_not_answer_is_exit_code_1_with_how_far_it_went() {
    let cut = "both = { delay = \"5ms\", loss = \"100%\" }";
    let near = chain(SECOND, THIRD).replace("500us\"", "500us\", loss = \"100%\"");
    for (topology, far) in [
        (chain(SECOND, cut), "the last that answered is hop 2 (10.0.1.2)"),
        (near, "nobody on the way did either"),
    ] {
        let dir = TestFolder::new();
        let file = dir.file("network.toml", &topology);
        let file = file.to_string_lossy();
        let path = [QUELL, "path", "-c", "2", "{b}"];
        let output = dir.quell(&[&["lab", "exec", &*file, "a", "--"][..], &path].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("no answer from 10.0.3.2: ") && error.contains(far), "{error}");
    }
}

#[test]
fn a_path_that_was_kept_is_the_same_again_and_can_be_drawn() {
    let dir = TestFolder::new();
    let file = dir.file("network.toml", &chain(SECOND, &format!("{THIRD}\nmtu = 1400")));
    let file = file.to_string_lossy();
    let script = format!(
        "cd /tmp && {QUELL} path -c 4 --flows 2 {{b}} -w trip -o trip.svg >one && {QUELL} path -r trip >two && \
         {QUELL} path -r trip -lo times.svg --json && cmp one two && head -c 4 trip.svg >&2 && head -c 4 times.svg >&2 && \
         {QUELL} ping -r trip"
    );
    let output = dir.quell(&["lab", "exec", &*file, "a", "--", "sh", "-c", &script]);
    let error = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{said}{error}");
    assert!(
        error.contains("<svg<svg") && error.contains("no run of `quell ping`"),
        "{said}{error}"
    );
    let json: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}{error}"));
    assert_eq!((&json["mtu"], &json["hops"][3]["received"]), (&1400.into(), &8.into()), "{json:#}");
}

/// Whether `make test` could not install what this needs; says so.
fn lacks_iproute2() -> bool {
    let lacks = Command::new("ip").arg("-V").output().is_err();
    if lacks {
        left_out::for_want_of("there is no ip on this machine (package iproute2)");
    }
    lacks
}

#[test]
fn a_router_that_clears_the_tos_byte_is_found() {
    if lacks_iproute2() {
        return;
    }
    let clear = "tc qdisc add dev three clsact
        tc filter add dev three egress protocol ip u32 match u32 0 0 action pedit ex munge ip tos set 0 pipe action csum ip";
    let (said, code) = path_in(&chain(SECOND, THIRD), clear, &["-c", "3", "-m", "udp", "{b}"]);
    assert_eq!(code, Some(0), "{said:#}");
    let finding = &said["findings"][0];
    assert_eq!((&finding["id"], &finding["hop"]), (&"dscp-changed".into(), &3.into()), "{said:#}");
    let text = finding["text"].as_str().unwrap();
    assert!(text.contains("DSCP EF becomes CS0, ECN ect0 becomes not-ect"), "{text}");
    assert_eq!(kinds(&said).len(), 1, "{said:#}");
}

/// Two links side by side, one of which loses half of what goes there:
///
/// ```text
///            ┌── x ──┐
///   a ── r1 ─┤       ├─ r4 ── b        r1 picks a link by addresses and ports
///            └── y ──┘
///               50 %
/// ```
const SIDE_BY_SIDE: &str = r#"
for n in a r1 x y r4 b; do ip netns add $n; ip -n $n link set lo up; done
join() { ip link add $2 netns $1 type veth peer name $5 netns $4; ip -n $1 addr add $3/24 dev $2; ip -n $4 addr add $6/24 dev $5
    ip -n $1 link set $2 up; ip -n $4 link set $5 up; }
join a e 10.1.0.1 r1 w 10.1.0.2
join r1 ex 10.2.0.1 x w 10.2.0.2; join r1 ey 10.3.0.1 y w 10.3.0.2
join x e 10.4.0.1 r4 wx 10.4.0.2; join y e 10.5.0.1 r4 wy 10.5.0.2
join r4 e 10.6.0.1 b w 10.6.0.2
for n in r1 x y r4; do ip netns exec $n sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 0 >/proc/sys/net/ipv4/icmp_ratelimit'; done
ip netns exec b sh -c 'echo 0 >/proc/sys/net/ipv4/icmp_ratelimit'
ip netns exec r1 sh -c 'echo 1 >/proc/sys/net/ipv4/fib_multipath_hash_policy'
ip -n a route add default via 10.1.0.2; ip -n b route add default via 10.6.0.1
ip -n r1 route add 10.6.0.0/24 nexthop via 10.2.0.2 nexthop via 10.3.0.2
ip -n x route add 10.1.0.0/24 via 10.2.0.1; ip -n y route add 10.1.0.0/24 via 10.3.0.1
ip -n x route add 10.6.0.0/24 via 10.4.0.2; ip -n y route add 10.6.0.0/24 via 10.5.0.2
ip -n r4 route add default via 10.4.0.1
tc -n y qdisc add dev e root netem loss 50%
"#;

#[test]
fn a_bad_link_among_several_is_found_by_the_flows_that_take_it() {
    if lacks_iproute2() {
        return;
    }
    let script = format!(
        "set -e\n{SIDE_BY_SIDE}\nip netns exec a {QUELL} path --flows 6 --from-port 40001 -c 40 --no-survey --json 10.6.0.2"
    );
    let dir = TestFolder::new();
    let output = dir.quell(&["lab", "exec", "home-link", "a", "--", "sh", "-c", &script]);
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{error}"));
    let who = said["hops"][1]["addresses"].as_array().expect("a list");
    let of = |address: &str| -> Vec<u64> {
        let flows = who.iter().find(|who| who["address"] == address);
        let flows = flows.unwrap_or_else(|| panic!("{address} in {said:#}"))["flows"].as_array();
        flows.expect("a list").iter().filter_map(Value::as_u64).collect()
    };
    let (good, bad) = (of("10.2.0.2"), of("10.3.0.2"));
    assert_eq!(good.len() + bad.len(), 6, "each flow goes one way: {said:#}");
    for flow in said["flows"].as_array().expect("a list") {
        let loss = flow["loss_ratio"].as_f64().expect("a part");
        let is_bad = bad.contains(&flow["flow"].as_u64().expect("a number"));
        assert!(if is_bad { (0.2..0.8).contains(&loss) } else { loss == 0.0 }, "{said:#}");
    }
    let finding = said["findings"].as_array().unwrap().iter().find(|f| f["id"] == "bad-member");
    let text = finding.unwrap_or_else(|| panic!("{said:#}"))["text"].as_str().unwrap();
    assert!(text.contains("Only they go by 10.3.0.2 (hop 2)"), "{text}");
    assert!(kinds(&said).contains(&"several-ways"), "{said:#}");
}
