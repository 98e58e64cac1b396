//! `quell shape` on a lab's router, with a kernel that has every queue.
//!
//! ```text
//!   a ──┐
//!       ├── router ──── modem ════ server        the router's `wan` is shaped, both ways
//!   b ──┘        wan          dsl
//! ```

use super::support::{QUELL, Results, TestFolder, on_the_router, on_the_router_of, path};
use crate::left_out;
use quell_netlink::Stack;
use quell_netlink::link::VethEnd;
use quell_sys::netns::NetNs;

const APPLY: &str = "$Q shape apply --dev wan --line 2.5/8 --host 10.0.0.1 --host 10.0.1.1,fd00::7";

#[test]
fn a_routers_line_is_shaped_both_ways_and_off_leaves_nothing() {
    let script = "$Q shape plan --dev wan --line 2.5/8 --host 10.0.0.1 --steps >/tmp/plan; \
         APPLY --confirm-within never; $Q shape status; APPLY --confirm-within never; \
         $Q shape off --dev wan; $Q shape status; \
         $Q shape plan --dev wan --line 2.5/8 --host 10.0.0.1 --steps >/tmp/again; \
         cmp /tmp/plan /tmp/again && echo as before"
        .replace("APPLY", APPLY);
    let said = on_the_router(&script);
    for words in [
        "wan: host-fair, up 2375kbit, down 7.6Mbit, 2 hosts; in force",
        "  i-wan htb 1:",
        "wan: all was as wanted",
        "wan: as it was before, by 3 steps",
        "nothing of Quell's is in force",
        "as before",
    ] {
        assert!(said.contains(words), "`{words}` should be in: {said}");
    }
}

#[test]
fn a_host_more_loses_no_packet_of_the_others() {
    // The catch-all of the hosts' round robin names another class then: at no time is there none.
    let script = "APPLY --confirm-within never >/dev/null; \
         APPLY --host 10.0.0.9 --confirm-within never --json"
        .replace("APPLY", APPLY);
    let said = on_the_router(&script);
    assert!(!said.contains("take root queue") && !said.contains("take queue"), "{said}");
    let made = said.find("make matchall filter").expect("beside the old one");
    let gone = said.find("take matchall filter").expect("then that goes");
    assert!(made < gone, "{said}");
}

#[test]
fn a_change_that_nobody_confirms_is_taken_back_by_itself() {
    let script = "$Q shape plan --dev wan --line 2.5/8 --host 10.0.0.1 >/tmp/plan; \
         APPLY --confirm-within 20s >/dev/null; sleep 19; $Q shape status; sleep 2; $Q shape status; \
         $Q shape plan --dev wan --line 2.5/8 --host 10.0.0.1 >/tmp/again; cmp /tmp/plan /tmp/again"
        .replace("APPLY", APPLY);
    let said = on_the_router(&script);
    let (before, after) = said.split_once("nothing of Quell's is in force").expect("then nothing");
    assert!(before.contains("in force for 1s, unless: quell shape confirm"), "{before}");
    assert_eq!(after.trim(), "");
}

#[test]
fn each_policy_is_in_force_both_ways_and_leaves_nothing() {
    let script = r#"
        cat >/tmp/subscribers.toml <<END
line = "2.5/8"
[[group]]
name = "north"
up = "1Mbit"
down = "4Mbit"
[[subscriber]]
name = "ann"
prefixes = ["10.0.0.0/24", "fd00::/64"]
up = { floor = "200kbit", ceiling = "1Mbit" }
down = { floor = "500kbit", ceiling = "4Mbit" }
group = "north"
END
        plan() { $Q shape plan --dev wan --line 2.5/8 --policy tiers; }
        plan >/tmp/before
        for asked in "--line 2.5/8" "--line 2.5/8 --policy tiers --link pppoe-atm" "--file /tmp/subscribers.toml"; do
            $Q shape apply --dev wan $asked --confirm-within never
            $Q shape apply --dev wan $asked --confirm-within never | grep 'all was as wanted'
            $Q shape status
            $Q shape off --dev wan
            plan >/tmp/after
            cmp /tmp/before /tmp/after
        done"#;
    let said = on_the_router(script);
    for words in [
        "wan: as wanted, by 5 steps",
        "wan: cake, up 2375kbit, down 7.6Mbit; in force",
        "  i-wan cake 1:",
        "wan: tiers, up 2375kbit, down 7.6Mbit, pppoe-atm; in force",
        "wan: subscribers, up 2375kbit, down 7.6Mbit, 1 subscriber; in force",
        "  i-wan htb 1:",
    ] {
        assert!(said.contains(words), "`{words}` should be in: {said}");
    }
    assert_eq!(said.matches("wan: all was as wanted").count(), 3, "{said}");
}

#[test]
fn one_rate_of_one_subscriber_is_one_change() {
    let script = r#"
        subscribers() {
            echo 'line = "10/50"'
            for n in 1 2 3; do
                echo '[[subscriber]]'
                echo "name = \"s$n\""
                echo "prefixes = [\"10.0.$n.0/24\"]"
                echo "up = { floor = \"200kbit\", ceiling = \"$1\" }"
                echo "down = { floor = \"200kbit\", ceiling = \"20Mbit\" }"
                set -- 5Mbit
            done
        }
        subscribers 5Mbit >/tmp/s.toml
        $Q shape apply --dev wan --file /tmp/s.toml --confirm-within never >/dev/null
        subscribers 6Mbit >/tmp/s.toml
        $Q shape apply --dev wan --file /tmp/s.toml --confirm-within never"#;
    let said = on_the_router(script);
    assert!(
        said.contains("wan: as wanted, by 1 step") && said.contains("change htb class"),
        "{said}"
    );
}

#[test]
fn status_tells_who_had_what_by_name() {
    // The router's own address; the server's kernel answers with the TOS that it was asked with.
    let script = "$Q shape apply --dev wan --line 2.5/8 --policy tiers --confirm-within never >/dev/null; \
         $Q ping -4 -c 5 --tos EF server >/dev/null; $Q shape status; \
         $Q shape apply --dev wan --line 2.5/8 --host 10.0.2.1 --confirm-within never >/dev/null; \
         $Q ping -4 -c 3 server >/dev/null; $Q shape status; \
         $Q shape apply --dev wan --line 2.5/8 --confirm-within never >/dev/null; \
         $Q ping -4 -c 4 --tos CS1 server >/dev/null; $Q shape status --json";
    let said = on_the_router(script);
    assert_eq!(
        said.matches("    high  5 packets (490 B), 0 dropped, 0 marked").count(),
        2,
        "{said}"
    );
    assert_eq!(said.matches("    10.0.2.1  3 packets (294 B)").count(), 2, "{said}");
    let json: serde_json::Value =
        serde_json::from_str(&said[said.find('{').expect("JSON")..]).expect("JSON to the end");
    // CAKE's way up has tins.
    let queues = json["shaped"][0]["queues"].as_array().expect("queues");
    let up = queues.iter().find(|queue| queue["device"] == "wan").expect("the way up");
    let part = &up["parts"][0];
    assert_eq!((&part["name"], &part["sent_packets"]), (&"bulk".into(), &4.into()), "{said}");
}

#[test]
fn what_others_were_told_of_a_line_is_applied() {
    let script = r#"
        cat >/tmp/sqm <<END
config queue 'eth1'
        option enabled '1'
        option interface 'wan'
        option upload '2300'
        option download '7600'
        option qdisc 'cake'
        option script 'layer_cake.qos'
        option linklayer 'ethernet'
        option overhead '38'
END
        cat >/tmp/circuits.csv <<END
Circuit ID,Circuit Name,Parent Node,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps
1,"9 Elm St., Town",f,"10.0.0.1, 10.0.0.9",fd00::/64,0.5,0.2,2.5,1
2,10 Elm St.,a,10.0.1.1,,0.5,0.2,2.5,1
END
        rates='{"downloadBandwidthMbps": 7, "uploadBandwidthMbps": 2, "children":'
        for node in a b c d e f; do echo '{"'$node'": '$rates; done >/tmp/network.json
        echo '{} }} }} }} }} }} }}' >>/tmp/network.json
        $Q shape import sqm /tmp/sqm >/tmp/a.toml
        $Q shape apply --dev wan --file /tmp/a.toml --confirm-within never >/dev/null
        $Q shape status
        $Q shape import libreqos /tmp/circuits.csv >/tmp/b.toml
        $Q shape apply --dev wan --file /tmp/b.toml --line 2.5/8 --confirm-within never >/dev/null
        cat /tmp/b.toml
        $Q shape status"#;
    let said = on_the_router(script);
    for words in [
        "wan: cake, up 2.3Mbit, down 7.6Mbit, ethernet; in force",
        "wan: subscribers, up 2375kbit, down 7.6Mbit, 2 subscribers; in force",
        "group = \"e\"",
    ] {
        assert!(said.contains(words), "`{words}` should be in: {said}");
    }
}

#[test]
fn a_line_is_tried_as_it_is_and_shaped() {
    let folder = TestFolder::new();
    let tried = folder.quell(&["shape", "try", "--line", "10/50", "--duration", "2s", "--json"]);
    let said = String::from_utf8_lossy(&tried.stdout).into_owned();
    assert!(tried.status.success(), "{said}{}", String::from_utf8_lossy(&tried.stderr));
    let run = Results { json: serde_json::from_str(&said).expect("JSON") };
    let p99 = |scenario| run.number(scenario, "ping", "rtt_ms.p99");
    assert!(p99("bulk-shaped") < p99("bulk"), "{said}");
}

#[test]
fn a_recipe_of_tc_makes_what_plan_wants_and_its_last_words_take_it_off() {
    // `make test` installs both; what the commands mean is held by the goldens of crates/netlink too.
    for program in ["ip", "tc"] {
        match std::process::Command::new(program).arg("-V").output() {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                left_out::for_want_of(format!("there is no {program} on this machine ({error})"));
                return;
            }
            Err(error) => panic!("{program} can't be started: {error}"),
        }
    }
    let script = r#"
        for asked in "--line 2.5/8" "--line 2.5/8 --link pppoe-ptm" "--up 2Mbit" "--down 9Mbit --policy cake" \
            "--line 2.5/8 --policy tiers --link pppoe-atm"; do
            $Q shape recipe --for tc --dev wan $asked >/tmp/recipe
            sh -e /tmp/recipe
            $Q shape plan --dev wan $asked --steps
            sed -n 's/^#   //p' /tmp/recipe >/tmp/off
            sh -e /tmp/off
            $Q shape plan --dev wan $asked --steps | grep 'steps*:'
        done
        echo hosts
        asked="--line 2.5/8 --host 10.0.0.1"
        $Q shape recipe --for tc --dev wan $asked >/tmp/recipe
        grep 'VLAN tag' /tmp/recipe
        sh -e /tmp/recipe
        $Q shape plan --dev wan $asked --steps --tc"#;
    let said = on_the_router(script);
    let (all, hosts) = said.split_once("hosts\n").expect("both");
    assert_eq!(all.matches("all is as wanted").count(), 5, "{said}");
    assert_eq!(all.matches(" steps:").count() + all.matches(" step:").count(), 5, "{said}");
    // What looks behind VLAN tags is all that tc could not say.
    assert!(hosts.starts_with("# a packet with a VLAN tag"), "{said}");
    let (_, planned) = hosts.split_once("\nwanted:").expect("others' queues, then what is wanted");
    let (planned, _) = planned.split_once("the same with").expect("steps, then commands");
    let is_step = |line: &&str| line.starts_with("  wan: ") || line.starts_with("  i-wan: ");
    let steps: Vec<&str> = planned.lines().filter(is_step).collect();
    let filters = steps.iter().filter(|line| line.contains("flower filter")).count();
    assert!(filters == steps.len() && filters >= 2, "{said}");
}

#[test]
fn what_has_a_vlan_tag_is_looked_at_as_all_else_is_both_ways() {
    if std::process::Command::new("ip").arg("-V").output().is_err() {
        left_out::for_want_of("there is no ip on this machine (package iproute2)");
        return;
    }
    // 802.1Q, a tag for priority alone, and 802.1ad, beside the line itself.
    let tags = |end: u8| {
        format!(
            r#"n=0; for kind in "id 5" "id 0" "protocol 802.1ad id 6"; do
                n=$((n + 1)); ip link add link wan name v$n type vlan $kind
                ip addr add 10.9.$n.{end}/24 dev v$n; ip link set v$n up
            done"#
        )
    };
    let folder = TestFolder::new();
    let beyond = format!("set -e\n{}\nsleep 60\n", tags(2));
    let beyond = format!("modem: sh {}", folder.file("beyond.sh", &beyond).display());
    let file = r#"
line = "10/50"
[[subscriber]]
name = "ann"
prefixes = ["10.9.0.0/16", "10.0.2.1"]
up = { floor = "500kbit", ceiling = "5Mbit" }
down = { floor = "500kbit", ceiling = "5Mbit" }
"#;
    let file = folder.file("s.toml", file).display().to_string();
    let addresses = "10.0.2.1,10.9.1.1,10.9.2.1,10.9.3.1";
    let own = tags(1);
    let script = format!(
        r#"{own}
        sleep 2
        for asked in "--file {file}" "--line 10/50 --host {addresses}" "--line 10/50 --policy tiers"; do
            $Q shape apply --dev wan $asked --confirm-within never >/dev/null
            for to in 10.0.2.2 10.9.1.2 10.9.2.2 10.9.3.2; do
                $Q ping -4 -c 10 -i 10ms --tos EF $to >/dev/null
            done
            $Q shape status --json
            $Q shape off --dev wan >/dev/null
            echo next
        done"#
    );
    let said = on_the_router_of(&folder, "home-link", &[&beyond], &script);
    for (name, part) in ["ann", "10.0.2.1", "high"].into_iter().zip(said.split("next\n")) {
        let json: serde_json::Value = serde_json::from_str(part.trim()).expect("JSON");
        let queues = json["shaped"][0]["queues"].as_array().expect("queues");
        assert_eq!(queues.len(), 2, "{part}");
        for queue in queues {
            let parts = queue["parts"].as_array().expect("parts");
            let own = parts.iter().find(|part| part["name"] == name).expect("its part");
            assert_eq!(own["sent_packets"], 40, "{name}: {queue}");
        }
    }
}

/// As [`on_the_router`], with `quell serve` on the server, which is `$0`.
fn beside_a_server(script: &str) -> String {
    let with_quell = format!("Q={QUELL}; {script}");
    let serve = format!("server: {QUELL} serve --bind {{server}}");
    let lab = ["lab", "exec", "home-link", "router", "--with", &serve];
    let script = ["--", "sh", "-c", &with_quell, "{server}"];
    let output = TestFolder::new().quell(&[&lab[..], &script].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn a_line_that_is_shaped_is_proven_to_be() {
    let said = beside_a_server(
        "$Q shape apply --dev wan --line 2.5/8 --confirm-within never >/dev/null && $Q shape prove --dev wan --to $0",
    );
    for words in ["up, by wan:", "down, by i-wan:"] {
        let (_, after) = said.split_once(words).unwrap_or_else(|| panic!("`{words}` in: {said}"));
        let rows: Vec<&str> = after.lines().skip(1).take(4).collect();
        assert!(rows.iter().all(|row| row.starts_with("  pass ")), "{said}");
    }
}

#[test]
fn what_goes_around_the_queue_is_found_out_and_a_rate_above_the_lines_is_not_called_proven() {
    // The way to the server is not by lan-a.
    let said = beside_a_server(
        "$Q shape apply --dev lan-a --line 2.5/8 --confirm-within never >/dev/null; \
         $Q shape prove --dev lan-a --to $0; echo exit $?",
    );
    assert!(said.contains("FAIL     all of it passes here") && said.contains("exit 1"), "{said}");
    let cause = "leaves by wan, and not by lan-a";
    assert!(said.contains(cause) && said.contains("unknown  packets wait no longer"), "{said}");
    let said = beside_a_server(
        "$Q shape apply --dev wan --line 50/80 --policy cake --confirm-within never >/dev/null; \
         $Q shape prove --dev wan --to $0; echo exit $?",
    );
    // They wait in the modem, and that for long.
    let long = "FAIL     packets wait no longer than these queues let them";
    assert!(said.contains("unknown  packets wait here") && said.contains(long), "{said}");
    assert!(said.contains("they wait elsewhere too") && said.contains("exit 1"), "{said}");
}

#[test]
fn watched_from_second_to_second_each_tier_has_its_rate() {
    // 100 packets a second of 98 bytes; a shorter watch than the ping, so that all of it sees some.
    let script = "$Q shape apply --dev wan --line 2.5/8 --host 10.0.2.1 --confirm-within never >/dev/null; \
         $Q ping -4 -c 1000 -i 0.01 --tos EF server >/dev/null & \
         for how in --json ''; do timeout 3.5 $Q shape status --watch=1s $how || test $? = 124; done; kill $!";
    let said = on_the_router(script);
    let readings: Vec<serde_json::Value> = said
        .lines()
        .filter(|l| l.starts_with('{'))
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    assert!(readings.len() >= 3, "{said}");
    let up = readings[2]["shaped"][0]["queues"].as_array().expect("queues");
    let up = up.iter().find(|queue| queue["device"] == "wan").expect("the way up");
    let part = |host: Option<&str>, name: &str| {
        let parts = up["parts"].as_array().expect("parts");
        let found = parts.iter().find(|p| p["name"] == name && p["host"].as_str() == host);
        found.unwrap_or_else(|| panic!("{name}: {up}"))["bits_per_second"].as_f64().expect("a rate")
    };
    for (host, name) in [(None, "10.0.2.1"), (Some("10.0.2.1"), "high"), (None, "all")] {
        assert!((part(host, name) - 78_400.0).abs() < 2_000.0, "{name}: {up}");
    }
    assert_eq!(part(Some("10.0.2.1"), "bulk"), 0.0);
    let (_, text) = said.split_once("wan: host-fair").expect("text");
    assert!(text.contains("      high") && text.contains("78400bit"), "{text}");
}

#[test]
fn what_a_policy_promises_is_proven_in_the_lab() {
    let folder = TestFolder::new();
    let file = r#"
        line = "2.5/8"
        [[subscriber]]
        name = "ann"
        prefixes = ["192.0.2.0/29"]
        up = { floor = "400kbit", ceiling = "1Mbit" }
        down = { floor = "1Mbit", ceiling = "3Mbit" }
    "#;
    let file = folder.file("s.toml", file).to_string_lossy().into_owned();
    let state = folder.path().join("state").to_string_lossy().into_owned();
    let tried = |arguments: &[&str]| {
        let all = [&["shape"], arguments, &["--dev", "a0", "--state", &state]].concat();
        let output = folder.quell(&all);
        let [said, error] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        if output.status.success() { Ok(said) } else { Err(format!("{said}{error}")) }
    };
    let quell = |arguments: &[&str]| tried(arguments).unwrap_or_else(|error| panic!("{error}"));
    // A cable of this machine's kernel is shaped; what is proven is what the lab's kernel does with the same policy.
    let on_a_cable = || {
        let [a, b] = ["a0", "b0"].map(|name| VethEnd::new(name.parse().unwrap()));
        Stack::open().unwrap().create_veth(&a, &b).unwrap();
        for asked in [
            &["--line", "2.5/8", "--policy", "tiers"][..],
            &["--line", "2.5/8", "--host", "192.0.2.7"],
            &["--file", &file],
        ] {
            let apply = [&["apply", "--confirm-within", "never"], asked].concat();
            if let Err(error) = tried(&apply) {
                assert!(error.contains("this kernel lacks what these queues need"), "{error}");
                left_out::kernel_lacks(error);
                continue;
            }
            let said = quell(&["prove", "--in-lab", "--json"]);
            let json: serde_json::Value = serde_json::from_str(&said).expect("JSON");
            assert_eq!(json["expectations"].as_array().expect("claims").len(), 4, "{said}");
            quell(&["off"]);
        }
    };
    NetNs::new().unwrap().run(on_a_cable).unwrap();
}

#[test]
fn a_router_of_the_lab_is_shaped_as_the_page_tells() {
    let page = include_str!("../../../../docs/shaping.md");
    let section = page.split("\n## In the lab first").nth(1).expect("the page has its router");
    let section = section.split("\n## ").next().unwrap_or(section);
    let mut commands = 0;
    for told in section.split("\n    $ quell ").skip(1) {
        let (command, rest) = told.split_once('\n').expect("it says something");
        let words = shlex::split(command).expect("no quote is open");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = TestFolder::new().command(&words).env("PATH", path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        // What stands between two marks of omission stands there line by line, and in this order.
        let shown = rest.lines().map_while(|line| line.strip_prefix("    "));
        let shown = shown.collect::<Vec<_>>().join("\n");
        let mut left = &*said;
        for block in shown.split('…').map(|block| block.trim_matches('\n')) {
            let at = left.find(block);
            let at = at.unwrap_or_else(|| panic!("{command}: not said: {block}\nbut: {said}"));
            left = &left[at + block.len()..];
        }
        commands += 1;
    }
    assert_eq!(commands, 2);
}
