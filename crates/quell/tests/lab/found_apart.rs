//! Hosts told apart where their packets do not show it: behind address translation, with many addresses, inside of one tunnel.
//!
//! ```text
//!   a ──┐                              a has four or ten connections, b has one
//!       ├── router ──── modem ════ server
//!   b ──┘        wan           dsl
//! ```

use super::support::{self, QUIET, TestFolder, near, on_the_router_of};
use crate::left_out;
use serde_json::{Deserializer, Value};
use std::collections::BTreeMap;
use std::process::Command;

/// A home with a line of 10 Mbit/s each way.
pub(super) fn home(nat: bool) -> String {
    let line = "both = { rate = \"10Mbit\", delay = \"10ms\", buffer = \"100p\" }";
    let ping = "[[probe]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"b\"\nto = \"server\"\n";
    support::home(nat, line, &format!("{QUIET}{ping}"))
}

/// Runs a script on the router of a home.
pub(super) fn on_the_router(home: &str, with: &[&str], script: &str) -> String {
    let folder = TestFolder::new();
    let file = folder.file("home.toml", home).display().to_string();
    on_the_router_of(&folder, &file, with, script)
}

/// What `status --json` said twice, 10 s apart: bytes of each host meanwhile, by interface and name.
fn between(said: &str) -> BTreeMap<(String, String), f64> {
    let one = |mark: &str| {
        let text = said.split(&format!("{mark}\n")).nth(1).expect("it was asked");
        let mut documents = Deserializer::from_str(text).into_iter::<Value>();
        let json = documents.next().expect("a document").expect("JSON");
        let mut sent = BTreeMap::new();
        let shaped = json["shaped"].as_array().expect("interfaces");
        for queue in shaped.iter().flat_map(|one| one["queues"].as_array().expect("queues")) {
            for part in queue["parts"].as_array().expect("parts") {
                if part["host"].is_null() {
                    let key = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    let bytes = part["sent_bytes"].as_f64().expect("bytes");
                    sent.insert((key(&queue["device"]), key(&part["name"])), bytes);
                }
            }
        }
        sent
    };
    let (before, after) = (one("before"), one("after"));
    after
        .into_iter()
        .map(|(key, bytes)| {
            let was = before.get(&key).copied().unwrap_or_default();
            (key, bytes - was)
        })
        .collect()
}

/// The script: what is applied, and what passed in 10 s of load.
fn measured(apply: &str) -> String {
    format!(
        "$Q shape apply --dev wan --line 10/10 {apply} --confirm-within never; sleep 10; \
         echo before; $Q shape status --json; sleep 10; echo after; $Q shape status --json; $Q shape status; \
         $Q shape off --dev wan"
    )
}

pub(super) const SERVER: &str = "server: $Q serve --bind ::";

/// A load that waits until the server listens.
pub(super) fn load(host: &str, options: &str) -> String {
    format!(
        "{host}: sh -c 'until $Q flow {{server}} -t 60 {options} >/dev/null 2>&1; do sleep 1; done'"
    )
}

/// Says that there is no ip here to give hosts addresses with.
pub(super) fn lacks_ip() -> bool {
    let lacks = Command::new("ip").arg("-V").output().is_err();
    if lacks {
        left_out::for_want_of("there is no ip on this machine (package iproute2)");
    }
    lacks
}

#[test]
fn behind_address_translation_hosts_and_subscribers_that_are_named_are_found_both_ways() {
    let home = home(true);
    let (a, b) = (load("a", "--bidir -P 4"), load("b", "--bidir"));
    let named = "--host 10.0.0.1,fd00::1 --host 10.0.1.1";
    let said = on_the_router(&home, &[SERVER, &a, &b], &measured(named));
    has(&said, &["a table of nftables marks", "2 hosts behind NAT; in force"]);
    has(&said, &["take the nftables table ip quell-hosts-wan away"]);
    let sent = between(&said);
    for device in ["wan", "i-wan"] {
        let of = |host: &str| sent[&(device.to_owned(), host.to_owned())];
        near(of("10.0.1.1") / (of("10.0.0.1") + of("10.0.1.1")), 0.5, 0.03);
    }
    // The longest prefix is hers, and she has her ceiling; who has all of 10.0.0.0/8 has the rest.
    let one = |name: &str, prefix: &str, ceiling: &str| {
        let bounds = format!("{{ floor = \"1Mbit\", ceiling = \"{ceiling}\" }}");
        format!(
            "[[subscriber]]\nname = \"{name}\"\nprefixes = [\"{prefix}\"]\nup = {bounds}\ndown = {bounds}\n"
        )
    };
    let file = one("ann", "10.0.0.0/30", "2Mbit") + &one("bob", "10.0.0.0/8", "9Mbit");
    let script = format!("cat >/tmp/s.toml <<END\n{file}END\n{}", measured("--file /tmp/s.toml"));
    let said = on_the_router(&home, &[SERVER, &a, &b], &script);
    has(&said, &["2 subscribers behind NAT; in force"]);
    let sent = between(&said);
    for device in ["wan", "i-wan"] {
        let of = |who: &str| sent[&(device.to_owned(), who.to_owned())] * 8.0 / 10e6;
        near(of("ann"), 2.0, 0.1);
        assert!(of("bob") > 6.5, "{sent:?}");
    }
}

#[test]
fn two_shaped_interfaces_have_a_table_each_and_a_rate_more_makes_none_anew() {
    let home = home(true);
    let said = on_the_router(
        &home,
        &[],
        "apply() { $Q shape apply --dev $1 --line $2 --policy host-fair --confirm-within never --json; }; \
         apply lan-a 10/10; apply wan 10/10; echo again; apply wan 9/9; $Q shape status; $Q shape off --dev wan; echo left; $Q shape status",
    );
    let (first, again) = said.split_once("again").expect("both");
    assert!(
        first.contains("table ip quell-hosts-lan-a") && first.contains("table ip quell-hosts-wan"),
        "{said}"
    );
    let (again, left) = again.split_once("left").expect("both");
    assert!(
        !again.contains("make the nftables")
            && again.contains("take the nftables table ip quell-hosts-wan"),
        "{said}"
    );
    assert!(
        again.contains("wan: host-fair, up 8550kbit") && again.contains("behind NAT; in force"),
        "{said}"
    );
    assert!(left.contains("lan-a: ") && left.contains("; in force"), "{said}");
}

/// What was said behind a word on a line of its own, up to the next such.
fn part<'a>(said: &'a str, word: &str) -> &'a str {
    let (_, after) =
        said.split_once(&format!("== {word}\n")).unwrap_or_else(|| panic!("`{word}` in: {said}"));
    after.split("== ").next().unwrap_or_default()
}

#[track_caller]
fn has(said: &str, words: &[&str]) {
    // Sentences are wrapped.
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let has = |words: &&&str| said.contains(**words) || line.contains(**words);
    let lacks = words.iter().find(|words| !has(words));
    assert!(lacks.is_none(), "{lacks:?} in: {said}");
}

/// The queues, classes and filters of a tree, without what passed through them and without the devices' lists below.
fn things(tree: &str) -> Vec<&str> {
    tree.lines().map(|line| line.split("   ").next().unwrap_or_default()).collect()
}

#[test]
fn hosts_behind_nat_have_their_names_wherever_they_are_shown_and_off_leaves_nothing() {
    let home = home(true);
    let (a, b) = (load("a", "--bidir"), load("b", "--bidir"));
    let said = on_the_router(
        &home,
        &[SERVER, &a, &b],
        "APPLY='--dev wan --line 10/10 --policy host-fair --places 16'; mkdir -p /tmp/root/etc; \
         echo == tree before; $Q tree wan; echo == plan before; $Q shape plan $APPLY --steps; \
         $Q shape apply $APPLY --confirm-within never >/dev/null; sleep 5; \
         $Q shape persist --dev wan --root /tmp/root >/dev/null; \
         echo == status; $Q shape status; \
         echo == watch; timeout 3.5 $Q shape status --watch=1s || test $? = 124; \
         echo == up; $Q tree wan; echo == down; $Q tree i-wan; \
         echo == prove; $Q shape prove --dev wan --to server; \
         echo == again; $Q shape apply --dev wan --file /tmp/root/etc/quell/shape/wan.toml --confirm-within never; \
         echo == off; $Q shape off --dev wan --root /tmp/root; echo == files; find /tmp/root -type f; \
         echo == tree after; $Q tree wan; echo == plan after; $Q shape plan $APPLY --steps",
    );
    let part = |word: &str| part(&said, word);
    let taken = " of 16 places for hosts taken";
    has(
        part("status"),
        &["found by their addresses behind NAT; in force", "\n    a ", "\n    b ", taken],
    );
    has(part("watch"), &["\n    a ", "\n    b ", taken]);
    for way in ["up", "down"] {
        let words: Vec<&str> = part(way).split_whitespace().collect();
        let class_of =
            |name| words.windows(2).any(|two| two[0].starts_with("2:") && two[1] == name);
        assert!(class_of("a") && class_of("b"), "{}", part(way));
    }
    let proven = part("prove");
    assert_eq!(proven.matches("pass     each host has a place of its own").count(), 2, "{proven}");
    assert!(!proven.contains("FAIL"), "{proven}");
    has(part("again"), &["wan: all was as wanted"]);
    has(part("off"), &["take the nftables table ip quell-hosts-wan away", "wan.toml is gone"]);
    assert_eq!(part("files"), "");
    assert_eq!(things(part("tree before")), things(part("tree after")));
    has(part("plan before"), &["make the nftables table ip quell-hosts-wan"]);
    assert_eq!(part("plan before"), part("plan after"), "all of it would have to be made");
}

#[test]
fn a_host_with_eight_privacy_addresses_and_ipv4_has_one_share() {
    if lacks_ip() {
        return;
    }
    // Each connection of a comes from another address; b has four from one.
    let addresses = "for n in 1 2 3 4 5 6 7 8; do ip -6 addr add fd00::10$n/64 dev lan-a nodad; \
                     (until $Q flow {server/6} -B fd00::10$n -t 60 --bidir >/dev/null 2>&1; do sleep 1; done) & done";
    let also = "until $Q flow {server} -t 60 --bidir >/dev/null 2>&1; do sleep 1; done";
    let a = format!("a: sh -c '{addresses}; {also}'");
    let b = load("b", "--bidir -P 4");
    // A router asks for neighbours from its own address on that link, which the lab's links lack.
    let ask = "ip -6 addr add fe80::2/64 dev lan-a nodad";
    let said = on_the_router(
        &home(false),
        &[SERVER, &a, &b],
        &format!("{ask}; {}", measured("--policy host-fair --hosts-by address")),
    );
    let sent = between(&said);
    for device in ["wan", "i-wan"] {
        let of = |host: &str| sent[&(device.to_owned(), host.to_owned())];
        let all: f64 =
            sent.iter().filter(|((on, _), _)| on == device).map(|(_, bytes)| bytes).sum();
        near(of("b") / all, 0.5, 0.03);
        near(of("a") / all, 0.5, 0.03);
    }
    // All nine passed, and are shown as one host's.
    let (_, after) = said.split_once("after\n").expect("it was asked");
    let json: Value = Deserializer::from_str(after).into_iter().next().expect("one").expect("JSON");
    let queues = json["shaped"][0]["queues"].as_array().expect("queues");
    for queue in queues {
        let parts = queue["parts"].as_array().expect("parts");
        let a = parts.iter().find(|part| part["name"] == "a").expect("a has a place");
        let known: Vec<&str> =
            a["addresses"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        let all = (1..=8).map(|n| format!("fd00::10{n}")).chain(["10.0.0.1".to_owned()]);
        all.for_each(|address| assert!(known.contains(&address.as_str()), "{address}: {known:?}"));
        assert!(a["mac"].is_string(), "{a}");
        // Each was a host of its own until the router knew whose it is: half a second, not five.
        for own in parts
            .iter()
            .filter(|part| part["name"].as_str().is_some_and(|n| n.starts_with("fd00::10")))
        {
            assert!(own["sent_bytes"].as_u64().is_some_and(|bytes| bytes < 100_000), "{own}");
        }
    }
}

/// Two hosts whose packets take one tunnel to another router, over a line of 10 Mbit/s.
pub(super) fn with_a_tunnel(kind: &str, queue: &str, scenario: &str) -> String {
    format!(
        "name = \"tunnel\"\nduration = \"20s\"\nwarm-up = \"10s\"\nprobes-run = \"together\"\n\
         [topology]\nhosts = [\"a\", \"b\", \"server\"]\nrouters = [\"router\", \"modem\", \"far\"]\n\
         [[topology.link]]\nname = \"lan-a\"\nends = [\"a\", \"router\"]\n\
         [[topology.link]]\nname = \"lan-b\"\nends = [\"b\", \"router\"]\n\
         [[topology.link]]\nname = \"wan\"\nends = [\"router\", \"modem\"]\n\
         [[topology.link]]\nname = \"dsl\"\nends = [\"modem\", \"far\"]\n\
         both = {{ rate = \"10Mbit\", delay = \"10ms\", buffer = \"100p\" }}\n\
         [[topology.link]]\nname = \"lan-s\"\nends = [\"far\", \"server\"]\n\
         [[topology.tunnel]]\nname = \"tun\"\nkind = \"{kind}\"\nends = [\"router\", \"far\"]\n\
         {queue}[[scenario]]\nname = \"s\"\n{scenario}\
         [[load]]\nname = \"a\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"server\"\nconnections = 10\n\
         [[probe]]\nname = \"b\"\nkind = \"tcp\"\nfrom = \"b\"\nto = \"server\"\n"
    )
}

/// b's share, where a has ten transfers.
fn in_a_tunnel(kind: &str, policy: &str) -> f64 {
    let queue = format!(
        "[[queue]]\nname = \"shaped\"\non = \"router:wan\"\n\
         policy = {{ kind = \"cake\", rate = \"9.5Mbit\"{policy} }}\n"
    );
    let text = with_a_tunnel(kind, &queue, "loads = [\"a\"]\nqueues = [\"shaped\"]\n");
    TestFolder::new().run(&text, &[]).number("s", "b", "share")
}

#[test]
fn where_a_tunnel_ends_cake_is_told_of_what_is_in_it_until_off() {
    let (a, b) = (load("a", "-P 10"), load("b", ""));
    let said = on_the_router(
        &with_a_tunnel("4in6", "", ""),
        &[SERVER, &a, &b],
        "apply() { $Q shape apply --dev wan --line 10/10 --policy cake $* --confirm-within never; }; \
         echo == before; $Q tree wan; echo == inside; apply; sleep 10; echo == status; $Q shape status; $Q tree wan; \
         echo == outside; apply --hosts-by address; $Q tree wan; $Q shape off --dev wan >/dev/null; \
         echo == after; $Q tree wan",
    );
    let part = |word: &str| part(&said, word);
    has(part("inside"), &["tunnels end here (tun): ", "--hosts-by address leaves tunnels to CAKE"]);
    has(
        part("status"),
        &["wan: cake, ", "inside of tunnels too; in force", "of what is in tunnels"],
    );
    assert!(!part("outside").contains("of what is in tunnels"), "{said}");
    assert_eq!(things(part("before")), things(part("after")));
}

#[test]
fn cake_shares_between_two_hosts_inside_of_one_tunnel_where_the_classifier_tells_it() {
    // One connection of eleven, where the outer packet has IPv6.
    near(in_a_tunnel("4in6", ""), 1.0 / 11.0, 0.03);
    near(in_a_tunnel("4in6", ", inside = true"), 0.5, 0.03);
    // Looking through address translation CAKE sees no further than the outer packet of IPv4.
    near(in_a_tunnel("ipip", ", inside = true, nat = true"), 0.5, 0.03);
}
