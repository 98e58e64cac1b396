//! Steps from one tree to another and back, in namespaces of the tests' own.

use std::net::UdpSocket;

use crate::namespace::{cable, ip, name};
use quell_netlink::Stack;
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::tc;
use quell_tc::observed::Snapshot;
use quell_tc::{Change, Handle, Places, Step, Thing, Tree, changes, seen};

/// Works with a socket and the interface `a0`, whose other end is in a namespace of its own.
fn on_cable<T: Send>(work: impl FnOnce(&mut Socket, u32) -> T + Send) -> T {
    let (here, _there) = cable();
    here.run(|| {
        let index = Stack::open().unwrap().index_of(&name("a0")).unwrap();
        work(&mut Socket::open(Protocol::Route).unwrap(), index)
    })
}

fn lead_to(socket: &mut Socket, index: u32, text: &str) -> Vec<String> {
    let tree: Tree = toml::from_str(text).unwrap();
    let things = tree.plan().unwrap().things();
    let steps = tc::lead_to(socket, index, &things, Places::ALL).unwrap();
    let now = tc::snapshot(socket, index).unwrap();
    assert_eq!(changes(&things, Places::ALL, &now), [], "nothing is left to do");
    steps.iter().map(ToString::to_string).collect()
}

/// Back to what was there, by what the kernel showed of it.
fn back_to(socket: &mut Socket, index: u32, before: &Snapshot) {
    tc::lead_to(socket, index, &seen(before), Places::ALL).unwrap();
    let now = tc::snapshot(socket, index).unwrap();
    assert_eq!(seen(&now), seen(before));
    let kind =
        |s: &Snapshot| s.qdiscs.iter().find(|q| q.parent == Handle::ROOT).map(|q| q.kind.clone());
    assert_eq!(kind(&now), kind(before));
}

/// A home's tree with what every kernel with HTB has.
fn home(rate: &str, class: &str) -> String {
    format!(
        r#"
        ingress = {{ filter = [{{ kind = "u32", match = "u32 0 0 at 0", action = {{ redirect = "lo" }} }}] }}
        [queue]
        kind = "htb"
        default = "1:3"
        class = [ {{ id = "1:1", rate = "10Mbit", class = [
            {{ id = "1:2", rate = "{rate}", queue = {{ kind = "pfifo", limit = 50 }} }},
            {{ id = "1:3", rate = "5Mbit", queue = {{ kind = "bfifo", limit = "30000" }} }} ] }} ]
        filter = [
            {{ kind = "u32", protocol = "ip", match = "ip dst 10.0.0.2/32", class = "{class}" }},
            {{ kind = "u32", protocol = "ip", match = "ip dst 10.0.0.3/32", class = "1:3" }} ]
        "#
    )
}

#[test]
fn another_rate_of_one_host_changes_one_class_and_keeps_every_queue_with_its_packets() {
    on_cable(|socket, index| {
        lead_to(socket, index, &home("1Mbit", "1:2"));
        // A class of almost no rate holds what comes, behind the first packet: each for six seconds.
        let slow = home("2kbit", "1:2");
        assert_eq!(lead_to(socket, index, &slow), ["change htb class 1:2 under 1:1"]);
        let outbox = UdpSocket::bind((ip("10.0.0.1"), 0)).unwrap();
        for _ in 0..9 {
            outbox.send_to(&[0; 1400], (ip("10.0.0.2"), 9)).unwrap();
        }
        let waiting = |socket: &mut Socket| {
            let queues = tc::dump_qdiscs(socket, index).unwrap();
            let queue = queues.iter().find(|q| q.parent == Handle::class(1, 2)).unwrap();
            queue.stats.backlog_packets
        };
        assert!(waiting(socket) > 4, "they wait: {}", waiting(socket));
        let steps = lead_to(socket, index, &home("3kbit", "1:2"));
        assert_eq!(steps, ["change htb class 1:2 under 1:1"]);
        assert!(waiting(socket) > 4, "they still wait, none was lost: {}", waiting(socket));
    });
}

#[test]
fn what_was_there_comes_back_as_it_was() {
    on_cable(|socket, index| {
        let bare = tc::snapshot(socket, index).unwrap();
        lead_to(socket, index, &home("1Mbit", "1:2"));
        let first = tc::snapshot(socket, index).unwrap();
        for other in [
            home("2Mbit", "1:3"),
            r#"queue = { kind = "tbf", rate = "1Mbit", burst = "5kB", limit = "30000" }"#.into(),
            r#"queue = { kind = "htb", handle = "5:", class = [ { id = "5:1", rate = "1Mbit" } ] }"#.into(),
            "clsact = {}".into(),
            String::new(),
        ] {
            lead_to(socket, index, &other);
            let second = tc::snapshot(socket, index).unwrap();
            back_to(socket, index, &first);
            back_to(socket, index, &second);
            back_to(socket, index, &first);
        }
        back_to(socket, index, &bare);
        assert_eq!(seen(&bare), [], "nobody had made anything");
        // And from nothing to all of it.
        back_to(socket, index, &first);
    });
}

#[test]
fn a_step_that_the_kernel_refuses_is_named_with_its_number_and_the_answer() {
    let tree: Tree = toml::from_str(
        r#"queue = { kind = "htb", class = [ { id = "1:1", rate = "1Mbit", queue = "mq" } ] }"#,
    )
    .unwrap();
    on_cable(|socket, index| {
        let before = tc::snapshot(socket, index).unwrap();
        let steps = changes(&tree.plan().unwrap().things(), Places::ALL, &before);
        let (number, error) = tc::carry_all_out(socket, index, &steps).unwrap_err();
        assert_eq!(number, 2);
        assert!(error.to_string().contains("make queue 2: (mq) in class 1:1 on a0"), "{error}");
        back_to(socket, index, &before);
    });
}

#[test]
fn a_root_queue_that_somebody_put_there_since_the_look_is_not_replaced_nor_taken_off() {
    let plan = |text: &str| toml::from_str::<Tree>(text).unwrap().plan().unwrap().things();
    let ours = plan(r#"queue = { kind = "pfifo", handle = "1:" }"#);
    let theirs = r#"queue = { kind = "bfifo", handle = "7:", limit = "9000" }"#;
    on_cable(|socket, index| {
        let default = tc::snapshot(socket, index).unwrap();
        // One with the very name of ours would have its options changed.
        let same = r#"queue = { kind = "pfifo", handle = "1:", limit = 7 }"#;
        let of_our_name = r#"queue = { kind = "bfifo", handle = "1:", limit = "9000" }"#;
        for (first, later) in [
            (None, theirs),
            (None, same),
            (None, of_our_name),
            (Some("pfifo"), theirs),
            (Some("bfifo"), theirs),
        ] {
            back_to(socket, index, &default);
            if let Some(kind) = first {
                let handle = if kind == "bfifo" { 1 } else { 9 };
                lead_to(
                    socket,
                    index,
                    &format!(r#"queue = {{ kind = "{kind}", handle = "{handle}:" }}"#),
                );
            }
            let seen_then = tc::snapshot(socket, index).unwrap();
            let steps = changes(&ours, Places::ALL, &seen_then);
            lead_to(socket, index, later);
            let there = seen(&tc::snapshot(socket, index).unwrap());
            let mut root = tc::Root::of(&seen_then);
            tc::carry_all_out_over(socket, index, &steps, &mut root).unwrap_err();
            assert_eq!(
                seen(&tc::snapshot(socket, index).unwrap()),
                there,
                "{first:?}, then {later}"
            );
            // Whoever looks again may.
            let now = tc::snapshot(socket, index).unwrap();
            let steps = changes(&ours, Places::ALL, &now);
            tc::carry_all_out_over(socket, index, &steps, &mut tc::Root::of(&now)).unwrap();
        }
        back_to(socket, index, &default);
    });
}

/// Classes of an HTB, with a filter on one of them and two on another.
fn many_classes(count: u16) -> String {
    let class = |n: u16| {
        let filters = match n {
            17 => {
                r#", filter = [ { kind = "u32", prio = 50, match = "u32 0 0 at 0", class = "1:11" } ]"#
            }
            90 => {
                r#", filter = [ { kind = "u32", prio = 60, match = "u32 0 0 at 0", class = "1:5a" },
                                  { kind = "u32", prio = 61, match = "u32 0 0 at 0", class = "1:5a" } ]"#
            }
            _ => "",
        };
        format!(r#"{{ id = "1:{n:x}", rate = "1Mbit"{filters} }}, "#)
    };
    let classes: String = (1..=count).map(class).collect();
    format!("[queue]\nkind = \"htb\"\nhandle = \"1:\"\nclass = [ {classes} ]")
}

#[test]
fn filters_of_single_classes_are_found_among_hundreds_that_have_none() {
    on_cable(|socket, index| {
        lead_to(socket, index, &many_classes(300));
        let now = tc::snapshot(socket, index).unwrap();
        let parents: Vec<Handle> = now.filters.iter().map(|f| f.parent).collect();
        let class = |n| Handle::class(1, n);
        assert_eq!(parents, [class(17), class(90), class(90)]);
    });
}

#[test]
fn of_hundreds_of_steps_the_one_that_the_kernel_refuses_is_told_by_its_number() {
    on_cable(|socket, index| {
        let bare = tc::snapshot(socket, index).unwrap();
        let tree: Tree = toml::from_str(&many_classes(300)).unwrap();
        let mut steps = changes(&tree.plan().unwrap().things(), Places::ALL, &bare);
        // Under a queue that nobody makes.
        let Some(Change::Make(Thing::Step(Step::Class { parent, .. }))) = steps.get_mut(150) else {
            panic!("{:?}", steps[150]);
        };
        *parent = Handle::qdisc(9);
        let (number, error) = tc::carry_all_out(socket, index, &steps).unwrap_err();
        assert_eq!(number, 150, "{error}");
        assert!(error.to_string().contains("htb class 1:96 under 9: on a0"), "{error}");
        back_to(socket, index, &bare);
    });
}
