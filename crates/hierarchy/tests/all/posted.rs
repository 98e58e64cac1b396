//! Text as people post it: broken by mails, indented, quoted, in parts, read twice.

use quell_hierarchy::{Device, Filter, Hook, Node, ReadError, Reading, Trouble, read};

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
        put("| "),
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
    assert_eq!(reading.passed_over, []);
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

#[test]
fn a_chain_to_which_only_a_chain_leads_that_nothing_leads_to_is_not_in_force() {
    let one = |chain: u32, does: &str| {
        format!(
            "filter dev a ingress protocol all pref {} matchall chain {chain} handle 0x1\n  not_in_hw\n\taction order 1: gact action {does}\n",
            chain + 1
        )
    };
    let found = |first: &str| {
        let text = [one(0, first), one(4, "goto chain 5"), one(5, "goto chain 4"), one(6, "drop")];
        let device = only(&text.concat());
        device.findings.iter().map(|f| f.words.clone()).collect::<Vec<_>>()
    };
    let told = |chain: u32| format!("nothing leads to chain {chain}: its filters are not in force");
    assert_eq!(found("pass"), [told(4), told(5), told(6)]);
    assert_eq!(found("goto chain 4"), [told(6)]);
}

#[test]
fn schedules_and_queues_of_traffic_classes_are_read_from_text_and_json() {
    let told = |text: &str| {
        let device = only(text);
        let one = |name: &str| setting(&device.nodes[0], name).to_owned();
        assert_eq!(device.nodes[0].counters.map(|c| c.packets), Some(5), "{text}");
        ["tc", "queues", "mode", "schedule", "cycle-time"].map(one)
    };
    let taprio = "qdisc taprio 8001: dev eth0 root refcnt 9 tc 3 map 2 2 1 0 2 2 2 2 2 2 2 2 2 2 2 2 \n\
                  queues offset 0 count 1 offset 1 count 1 offset 2 count 2 \n\
                  clockid TAI base-time 1528743495910289987 cycle-time 600000 cycle-time-extension 0\n\
                  \tindex 0 cmd S gatemask 0x1 interval 300000\n\tindex 1 cmd S gatemask 0x2 interval 300000\n";
    let sent =
        " Sent 500 bytes 5 pkt (dropped 0, overlimits 0 requeues 0) \n backlog 0b 0p requeues 0\n";
    let wanted = ["3", "(0:0) (1:1) (2:3)", "", "0x1 for 300us, 0x2 for 300us", "600us"];
    assert_eq!(told(&format!("{taprio}{sent}")), wanted);
    let mqprio = "qdisc mqprio 8002: dev eth0 root tc 3 map 2 2 1 0 2 2 2 2 2 2 2 2 2 2 2 2 \n\
                  \x20            queues:(0:0) (1:1) (2:3) \n             mode:dcb\n             shaper:bw_rlimit   min_rate:1Gbit 2Gbit\n";
    assert_eq!(told(&format!("{mqprio}{sent}")), ["3", "(0:0) (1:1) (2:3)", "dcb", "", ""]);
    let json = r#"[{"kind":"taprio","handle":"8001:","dev":"eth0","root":true,"options":{"tc":3,"queues":[{"offset":0,"count":1},{"offset":1,"count":1},
        {"offset":2,"count":2}],"schedule":[{"index":0,"cmd":"S","gatemask":"0x1","interval":300000},{"index":1,"cmd":"H","gatemask":"0x2","interval":1000}]},
        "bytes":500,"packets":5}]"#;
    assert_eq!(told(json)[1..4], ["(0:0) (1:1) (2:3)", "", "0x1 for 300us, H 0x2 for 1us"]);
    let json = r#"[{"kind":"mqprio","handle":"8002:","dev":"eth0","root":true,"options":{"tc":2,"queues":[[0,0],[1,3]],"mode":"dcb"},"bytes":500,"packets":5}]"#;
    assert_eq!(told(json)[1..3], ["(0:0) (1:3)", "dcb"]);
}

#[test]
fn what_is_passed_over_is_named_with_the_queue_that_it_stands_below() {
    let text = "qdisc fq_codel 110: dev wan root refcnt 2\n\
                whatever this kernel says 7\nand more of that\n\nIt is slow.\n";
    let losses = reading(text).passed_over;
    let said: Vec<_> =
        losses.iter().map(|lost| (lost.below.as_deref(), lost.count, lost.line)).collect();
    assert_eq!(said, [(Some("qdisc fq_codel 110:"), 2, 2), (None, 1, 5)]);
}

#[test]
fn between_two_readings_what_moved_is_told_with_the_time_that_stands_before_each() {
    let queue = |packets: u64, drops: u32, waits: u32| {
        format!(
            "qdisc fq_codel 1: dev wan root refcnt 2 limit 10240p\n Sent {} bytes {packets} pkt (dropped {drops}, overlimits 0 requeues 0)\n \
             backlog 0b {waits}p requeues 0\n  maxpacket 1514 drop_overlimit 0 new_flow_count 5 ecn_mark {packets}\n",
            packets * 1000
        )
    };
    let (first, last) = (queue(100, 1, 0), queue(300, 5, 7));
    let dated =
        format!("Sat Nov 28 23:59:58 UTC 2026\n{first}\n2026-11-29T00:00:08+00:00\n{last}\n");
    let with = |text: &str| {
        let reading = reading(text);
        let moved = quell_hierarchy::moved(reading.before.as_ref().unwrap(), &reading.hierarchy);
        let counters = moved.devices[0].nodes[0].counters;
        (reading.seconds, counters.map(|c| (c.packets, c.drops, c.marks, c.backlog_packets)))
    };
    let moved = Some((200, 4, Some(200), 7));
    assert_eq!(with(&dated), (Some(10.0), moved));
    assert_eq!(with(&format!("{first}\n{last}")), (None, moved));
    assert_eq!(with(&format!("{last}\n{first}")), (None, None), "its counters began again");
    assert_eq!(reading(&first).before, None);
}

#[test]
fn a_text_without_anything_of_tc_is_refused_and_an_empty_answer_is_not() {
    for text in ["", "\n\n", "Hello, my router is slow.\n"] {
        assert_eq!(read(text, None), Err(ReadError::Nothing), "{text:?}");
    }
    for text in ["[]", "+ tc filter show dev wan\n"] {
        assert!(read(text, None).is_ok(), "{text:?}");
    }
}

#[test]
fn a_burst_below_one_packet_is_found_and_one_that_the_kernel_rounded_is_not() {
    let found = |rate: &str, burst: &str| {
        let text = format!(
            "qdisc htb 1: dev wan root refcnt 2 r2q 10 default 0x1 direct_packets_stat 0\n\
             class htb 1:1 dev wan root prio 0 rate {rate} ceil {rate} burst {burst} cburst 1600b\n"
        );
        let troubles = only(&text).findings.into_iter().map(|f| f.trouble);
        troubles.filter(|trouble| *trouble == Trouble::SmallBurst).count()
    };
    assert_eq!(
        [found("10Mbit", "500b"), found("10Mbit", "1600b"), found("1Gbit", "1500b")],
        [1, 0, 0]
    );
    assert_eq!(
        [found("10Mbit", "15Kb"), found("10Gbit", "1250b"), found("1Mbit", "1b")],
        [0, 0, 1]
    );
}
