//! Text as people post it: broken by mails, indented, quoted, in parts, read twice.

use quell_hierarchy::{Device, Filter, Hook, Node, Reading, Trouble, read};

macro_rules! posted {
    ($name:literal) => {
        include_str!(concat!("../data/posted/", $name, ".txt"))
    };
}

fn reading(text: &str) -> Reading {
    read(text, None).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn only(text: &str) -> Device {
    let devices = reading(text).hierarchy.devices;
    assert_eq!(devices.len(), 1, "{text}");
    devices.into_iter().next().unwrap()
}

fn node<'a>(device: &'a Device, kind: &str) -> &'a Node {
    device.nodes.iter().find(|node| node.kind == kind).unwrap_or_else(|| panic!("{kind}"))
}

fn setting<'a>(node: &'a Node, name: &str) -> &'a str {
    let found = node.settings.iter().find(|setting| setting.name == name);
    found.map_or("", |setting| &setting.value)
}

fn does(filter: &Filter) -> String {
    filter.deeds.iter().map(|deed| deed.words.as_str()).collect::<Vec<_>>().join(", ")
}

/// The queues of the wrapped and of the indented case, as they are meant.
fn is_htb_with_fq_codel(text: &str) {
    let device = only(text);
    let htb = node(&device, "htb");
    assert_eq!(htb.default.map(|class| class.minor), Some(0x12), "{text}");
    assert_eq!(setting(htb, "direct_qlen"), "1000", "{text}");
    let leaf = node(&device, "fq_codel");
    assert_eq!((setting(leaf, "quantum"), setting(leaf, "interval")), ("300", "109ms"), "{text}");
    assert_eq!(setting(leaf, "target"), "14ms", "{text}");
    let counters = leaf.counters.expect("they stand below it");
    assert_eq!((counters.bytes, counters.packets, counters.drops), (19_545, 225, 2), "{text}");
}

#[test]
fn lines_that_a_mail_broke_or_a_forum_indented_are_read_as_tc_printed_them() {
    let indented = posted!("indented");
    is_htb_with_fq_codel(posted!("hard-wrapped"));
    is_htb_with_fq_codel(indented);
    let plain: String =
        indented.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap())).collect();
    let put =
        |before: &str| plain.lines().map(|line| format!("{before}{line}\n")).collect::<String>();
    let bare: String = plain.lines().map(|line| format!("{}\n", line.trim())).collect();
    let wrapped = posted!("hard-wrapped");
    let quoted: String = wrapped.lines().map(|line| format!("> {line}\n")).collect();
    for text in [
        plain.clone(),
        put("\t"),
        put("> "),
        put("> > "),
        plain.replace('\n', "\r\n"),
        format!("Hi, my router is slow.\n\n```\n{plain}```\n\nWhat is wrong with it?\n"),
        format!("\u{feff}{plain}"),
        bare,
        quoted,
        plain.replace(", overlimits 0 requeues 0)", ", overlimits 0\nrequeues 0)"),
    ] {
        is_htb_with_fq_codel(&text);
    }
}

#[test]
fn of_several_readings_of_a_device_the_last_is_meant_and_that_is_said() {
    let reading = reading(posted!("device-told-twice"));
    assert_eq!(reading.repeated, ["wan"]);
    let [device] = reading.hierarchy.devices.as_slice() else { panic!("one device") };
    let [cake] = device.nodes.as_slice() else { panic!("one queue: {device:?}") };
    let counters = cake.counters.expect("it has some");
    assert_eq!((cake.handle.major, counters.bytes, counters.drops), (0x8011, 9000, 7));
    // What only an earlier one told of the same queue stays.
    let class = "class htb 1:10 dev a root prio 0 rate 1Mbit ceil 1Mbit burst 1600b cburst 1600b\n";
    let queue = "qdisc htb 1: dev a root refcnt 2 r2q 10 default 0x10 direct_packets_stat 0\n";
    let twice = only(&format!("{queue}{class}{queue}"));
    assert_eq!(twice.nodes.len(), 2, "{twice:?}");
    let other = only(&format!("{queue}{class}{}", queue.replace("1:", "2:")));
    assert_eq!((other.nodes.len(), other.adrift.len()), (1, 0), "{other:?}");
}

#[test]
fn filters_whose_queue_was_not_posted_hang_in_one_that_is_not_shown() {
    let device = only(posted!("filters-alone"));
    let [queue] = device.nodes.as_slice() else { panic!("one queue: {device:?}") };
    assert!(queue.implied && queue.kind == "ingress");
    let [filter] = device.filters.as_slice() else { panic!("one filter") };
    assert_eq!((filter.at, filter.hook, filter.hits), (Some(0), Some(Hook::Ingress), Some(12)));
    assert_eq!(does(filter), "redirect to ifb0");
    let inner = only(
        "filter dev a parent 2: protocol ip pref 1 u32 chain 0 fh 800::800 order 2048 key ht 800 bkt 0 flowid 2:1\n  match 0a000001/ffffffff at 12\n",
    );
    assert!(inner.nodes[0].implied && inner.filters[0].at == Some(0) && inner.findings.is_empty());
}

#[test]
fn linked_tables_stand_below_the_link_and_know_what_it_asked_for() {
    let device = only(posted!("u32-linked-tables"));
    let said: Vec<String> = device
        .filters
        .iter()
        .map(|f| format!("{} {}", f.table.as_deref().unwrap_or("-"), f.matches.join(", ")))
        .collect();
    assert_eq!(
        said,
        [
            "- ip tos 0x10 0x10",
            "- ip protocol icmp, then table 2:",
            "2 icmp type 8",
            "- ip src 192.0.2.1, ip protocol tcp, then table 3:",
            "3 ip sport 873",
        ]
    );
    // In a filter of its own as well, and not where another protocol is meant.
    let one = |protocol: &str| {
        let text = format!(
            "filter dev a parent 1: protocol ip pref 1 u32 chain 0 fh 800::800 order 2048 key ht 800 bkt 0 flowid 1:1\n  \
             match 00{protocol}0000/00ff0000 at 8\n  match 08000000/ff000000 at 20\n"
        );
        only(&text).filters[0].matches[1].clone()
    };
    assert_eq!((one("01").as_str(), one("06").as_str()), ("icmp type 8", "ip sport 0x800 0xff00"));
}

#[test]
fn chains_are_told_and_one_to_which_nothing_leads_is_not_in_force() {
    let text = posted!("chains-and-hardware");
    let device = only(text);
    let said: Vec<(u32, String, String)> =
        device.filters.iter().map(|f| (f.chain, does(f), f.hardware.join(" "))).collect();
    assert_eq!(
        said,
        [
            (0, String::new(), "hw_tc 1 skip_sw in_hw".to_owned()),
            (0, "goto chain 3".to_owned(), String::new()),
            (3, "drop".to_owned(), String::new()),
        ]
    );
    assert!(device.findings.is_empty(), "{:?}", device.findings);
    let nowhere = only(&text.replace("goto chain 3", "pass"));
    let [finding] = nowhere.findings.as_slice() else { panic!("{:?}", nowhere.findings) };
    assert_eq!(finding.trouble, Trouble::Unreachable);
    assert!(finding.words.contains("nothing leads to chain 3"), "{}", finding.words);
}

#[test]
fn an_old_policer_has_its_rate_and_what_it_dropped() {
    let device = only(posted!("police-action-on-its-own-line"));
    let [filter] = device.filters.as_slice() else { panic!("one filter") };
    assert_eq!(does(filter), "police rate 8Mbit burst 100Kb action drop (95 dropped)");
    assert_eq!(filter.hits, Some(710));
    let packets = "filter dev a parent ffff: protocol all pref 1 matchall chain 0 handle 0x1\n  not_in_hw\n\taction order 1:  police 0x1 \
                   pkts_rate 1000 pkts_burst 100 mtu 2Kb action drop overhead 0b\n";
    let device = only(packets);
    assert_eq!(does(&device.filters[0]), "police pkts_rate 1000 pkts_burst 100 action drop");
}

#[test]
fn marks_of_dualpi2_and_sfq_are_counted() {
    let reading = reading(posted!("dualpi2-and-sfq-marks"));
    let marks = |device: usize| reading.hierarchy.devices[device].nodes[0].counters.unwrap().marks;
    assert_eq!((marks(0), marks(1)), (Some(4), Some(6)));
    assert_eq!(reading.passed_over, None);
}

#[test]
fn a_queue_whose_filters_nobody_asked_for_is_not_said_to_have_none() {
    let queues = "qdisc htb 1: dev wan root refcnt 2 r2q 10 default 0x1 direct_packets_stat 0\n\
                  qdisc drr 2: dev wan parent 1:1\n";
    let class = "class htb 1:1 dev wan root leaf 2: prio 0 rate 1Mbit ceil 1Mbit burst 1600b cburst 1600b\n";
    let found = |more: &str| {
        let device = only(&format!("{queues}{class}{more}"));
        device.findings.iter().map(|f| (f.trouble, f.words.clone())).collect::<Vec<_>>()
    };
    let [(trouble, words)] = found("").try_into().expect("one finding");
    assert_eq!(trouble, Trouble::FiltersMissing);
    assert!(words.contains("tc -s -d filter show dev wan parent 2:"), "{words}");
    // Asked for, and none there.
    let [(trouble, _)] = found("+ tc filter show dev wan parent 2:\n").try_into().expect("one");
    assert_eq!(trouble, Trouble::DropsUnmatched);
    let filter = "filter dev wan parent 2: protocol all pref 1 matchall chain 0 handle 0x1 flowid 2:1\n  not_in_hw\n";
    assert!(found(filter).iter().all(|(trouble, _)| *trouble != Trouble::FiltersMissing));
}
