//! `quell tree`: the queues of a namespace of the test's own, and what `tc` printed of others.

use crate::support::TestFolder;
use crate::support::left_out;
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::{LinkKind, NewLink, VethEnd};
use quell_netlink::tc::{ApplyError, apply};
use quell_netlink::{LinkName, Stack};
use quell_sys::netns::NetNs;
use quell_tc::Tree;
use std::process::{Command, Output};

const ROUTER: &str = include_str!("../../../hierarchy/tests/data/ingress-ifb.txt");

fn name(text: &str) -> LinkName {
    text.parse().expect("a name")
}

/// A namespace with a cable's end `eth0` and an IFB, which have these trees; none where the kernel lacks a kind.
fn router(eth0: &str, ifb0: &str) -> Option<NetNs> {
    let namespace =
        NetNs::new().expect("tests need root, or: unshare --user --map-root-user cargo test");
    let made = namespace.run(|| {
        let mut stack = Stack::open().expect("netlink");
        stack
            .create_veth(&VethEnd::new(name("eth0")), &VethEnd::new(name("eth1")))
            .expect("a cable");
        stack.create_link(&NewLink::new(name("ifb0"), LinkKind::Ifb)).and_then(|()| {
            for (device, text) in [("ifb0", ifb0), ("eth0", eth0)] {
                let index = stack.index_of(&name(device))?;
                let tree: Tree = toml::from_str(text).expect("a tree");
                match apply(&mut Socket::open(Protocol::Route)?, index, &tree) {
                    Ok(()) => {}
                    Err(ApplyError::Kernel(error) | ApplyError::Left(error)) => return Err(error),
                    Err(error) => panic!("{error}"),
                }
                stack.up(index)?;
            }
            Ok(())
        })
    });
    match made.expect("the namespace can be entered") {
        Ok(()) => Some(namespace),
        Err(error) if error.proves_kernel_lacks_feature() => {
            left_out::kernel_lacks(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn tree_in(namespace: &NetNs, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
    command.arg("tree").args(options).env("LC_ALL", "C.UTF-8");
    namespace.run(|| command.output().expect("it starts")).expect("the namespace can be entered")
}

const EGRESS: &str = r#"
ingress.filter = [{ kind = "u32", match = "u32 0 0 at 0", action = { redirect = "ifb0" } }]
[queue]
kind = "htb"
default = "1:30"
class = [{ id = "1:1", rate = "10Mbit", class = [
    { id = "1:10", rate = "2Mbit", ceil = "10Mbit", queue = { kind = "pfifo", limit = 20 } },
    { id = "1:30", rate = "8Mbit", ceil = "10Mbit" },
] }]
filter = [
    { kind = "u32", protocol = "ip", match = ["ip dst 10.9.0.7/32", "ip protocol udp"], class = "1:10" },
]
"#;

const DOWN: &str = r#"
[queue]
kind = "htb"
default = "1:1"
class = [{ id = "1:1", rate = "50Mbit" }]
"#;

#[test]
fn the_queues_of_a_router_are_shown_with_the_ifb_below_the_device_that_feeds_it() {
    let Some(router) = router(EGRESS, DOWN) else { return };
    let said = tree_in(&router, &["eth0"]);
    let shown = String::from_utf8(said.stdout).unwrap();
    assert!(said.status.success(), "{shown}{}", String::from_utf8_lossy(&said.stderr));
    // Not the numbers: a cable that comes up carries a few packets of its own.
    let wanted = [
        "eth0 ",
        "├ htb 1:  default 1:30 ",
        "│ ├▸ ip dst 10.9.0.7, ip protocol udp  → 1:10",
        "│ └ 1:1  rate 10Mbit ",
        "│   ├ 1:10  rate 2Mbit  ceil 10Mbit ",
        "│   │ └ pfifo ",
        "│   └ 1:30  rate 8Mbit  ceil 10Mbit  (default class) ",
        "└ ingress ffff: ",
        "  └▸ every packet  → redirect to ifb0",
        "    └ ifb0",
        "      └ htb 1:  default 1:1 ",
        "        └ 1:1  rate 50Mbit  (default class) ",
    ];
    assert_eq!(shown.lines().count(), wanted.len(), "{shown}");
    for (line, wanted) in shown.lines().zip(wanted) {
        assert!(line.starts_with(wanted), "{wanted} is not at the beginning of {line}:\n{shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
}

#[test]
fn what_is_sent_between_two_readings_is_a_rate() {
    let Some(router) = router(EGRESS, DOWN) else { return };
    let said = tree_in(&router, &["eth0", "--over", "50ms", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let nodes = document["devices"][0]["nodes"].as_array().expect("nodes");
    assert!(nodes.len() >= 6, "{document}");
    assert!(
        nodes
            .iter()
            .all(|node| node["per_second"]["bits"].as_f64().is_some_and(|bits| bits >= 0.0)),
        "{document}"
    );
    assert_eq!(document["devices"][1]["fed_by"][0]["device"], "eth0");
}

/// As hostile text has it: each class hangs in the one before it.
#[test]
fn a_chain_of_very_many_classes_takes_little_memory_as_json() {
    let dir = TestFolder::new();
    let mut told = "qdisc htb 1: dev eth0 root refcnt 2 r2q 10 default 0x30 direct_packets_stat 0 direct_qlen 1000\n".to_owned();
    for class in 1..=60_000 {
        let parent = if class == 1 { "root".into() } else { format!("parent 1:{:x}", class - 1) };
        told += &format!(
            "class htb 1:{class:x} {parent} prio 0 rate 1Mbit ceil 1Mbit burst 1600b cburst 1600b\n Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)\n backlog 0b 0p requeues 0\n"
        );
    }
    dir.write("chain", told);
    let arguments = ["tree", "--from", "chain", "--json"];
    let mut limited = Command::new("prlimit");
    limited.args(["--as=400000000", env!("CARGO_BIN_EXE_quell")]).args(arguments);
    limited.current_dir(dir.path("."));
    let shown = crate::support::said(limited, &arguments).fine();
    let document: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    let nodes = document["devices"][0]["nodes"].as_array().expect("nodes");
    assert_eq!((nodes.len(), &nodes[60_000]["parent"]), (60_001, &59_999.into()));
}

#[test]
fn a_device_that_is_not_there_is_refused_with_those_that_are() {
    let namespace = NetNs::new().expect("tests need root");
    let said = tree_in(&namespace, &["eth9"]);
    assert_eq!(said.status.code(), Some(2));
    let error = String::from_utf8_lossy(&said.stderr);
    assert!(error.contains("there is no device eth9 here; there are lo"), "{error}");
}

#[test]
fn what_tc_printed_elsewhere_is_shown_drawn_and_written_for_others() {
    let folder = TestFolder::new();
    folder.write("router.txt", ROUTER);
    let shown = folder.quell(&["tree", "--from", "router.txt"]).fine();
    assert!(shown.contains("redirect to ifb0") && shown.contains("fq_codel 10:"), "{shown}");
    let one = folder.quell(&["tree", "ifb0", "--from", "router.txt"]).fine();
    assert!(one.starts_with("ifb0") && !one.contains("eth0"), "{one}");
    assert_eq!(
        folder
            .quell(&[
                "tree",
                "--from",
                "router.txt",
                "--svg",
                "r.svg",
                "--png",
                "r.png",
                "--dot=r.dot"
            ])
            .fine(),
        "r.svg\nr.png\nr.dot\n"
    );
    let svg = std::fs::read_to_string(folder.path("r.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("fq_codel 10:"), "{svg}");
    assert!(std::fs::read(folder.path("r.png")).unwrap().starts_with(b"\x89PNG"));
    let graph = folder.quell(&["tree", "--from", "router.txt", "--dot"]).fine();
    assert_eq!(graph, std::fs::read_to_string(folder.path("r.dot")).unwrap());
}

#[test]
fn a_file_that_is_none_is_refused_with_its_line() {
    let folder = TestFolder::new();
    folder.write("cut.txt", "qdisc htb 1: dev eth0 root\n\nclass htb 1:1\n");
    let error = folder.quell(&["tree", "--from", "cut.txt"]).refused(2);
    assert!(error.contains("cut.txt:3: class htb 1:1 does not say where it hangs"), "{error}");
    folder.write("letter.txt", "Dear all,\n\u{1b}[2J\n");
    let error = folder.quell(&["tree", "--from", "letter.txt"]).refused(2);
    assert!(
        error.contains("letter.txt: nothing in it is what tc prints") && !error.contains('\u{1b}'),
        "{error}"
    );
    folder.write("router.txt", ROUTER);
    let error = folder.quell(&["tree", "wlan0", "--from", "router.txt"]).refused(2);
    assert!(error.contains("router.txt has nothing of wlan0; it has lo"), "{error}");
    let error = folder.quell(&["tree", "--from", "missing.txt"]).refused(2);
    assert!(error.contains("cannot read missing.txt"), "{error}");
}
