//! What `tc` of iproute2 6.1 printed of real queues, as text and as JSON (`data/record.sh` recorded it in the lab's kernel).

use quell_hierarchy::{Device, Hierarchy, Hook, Node, Target, Trouble, read};

const CASES: [(&str, &str, &str); 12] = {
    macro_rules! case {
        ($name:literal) => {
            (
                $name,
                include_str!(concat!("../data/", $name, ".txt")),
                include_str!(concat!("../data/", $name, ".json")),
            )
        };
    }
    [
        case!("fq-codel"),
        case!("htb-u32"),
        case!("prio-fw"),
        case!("hfsc"),
        case!("drr-flow"),
        case!("cake"),
        case!("mq"),
        case!("ingress-ifb"),
        case!("clsact-flower-bpf"),
        case!("netem-red"),
        case!("ets-fq"),
        case!("u32-hash"),
    ]
};

fn both(name: &str) -> [Hierarchy; 2] {
    let (_, text, json) = CASES.iter().find(|case| case.0 == name).unwrap();
    [text, json].map(|output| {
        let reading = read(output, None).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(reading.passed_over, [], "{name}");
        reading.hierarchy
    })
}

fn eth0(hierarchy: &Hierarchy) -> &Device {
    &hierarchy.devices[hierarchy.device("eth0").unwrap()]
}

fn node<'a>(device: &'a Device, kind: &str, handle: &str) -> &'a Node {
    let named = |node: &&Node| node.kind == kind && node.handle.to_string() == handle;
    device.nodes.iter().find(named).unwrap_or_else(|| panic!("{kind} {handle}"))
}

fn settings(node: &Node) -> Vec<(String, String)> {
    let mut all: Vec<_> = node.settings.iter().map(|s| (s.name.clone(), s.value.clone())).collect();
    all.sort();
    all
}

#[test]
fn text_and_json_of_the_same_queues_are_the_same_hierarchy() {
    for (name, ..) in CASES {
        let [text, json] = both(name);
        assert_eq!(text.devices.len(), json.devices.len(), "{name}");
        for (a, b) in text.devices.iter().zip(&json.devices) {
            assert_eq!(
                (&a.name, &a.tops, &a.adrift, &a.fed_by),
                (&b.name, &b.tops, &b.adrift, &b.fed_by),
                "{name}"
            );
            for (a, b) in a.nodes.iter().zip(&b.nodes) {
                let shape = |n: &Node| {
                    (
                        n.class,
                        n.kind.clone(),
                        n.handle,
                        n.children.clone(),
                        n.default,
                        n.is_default,
                        n.counters,
                        n.flows,
                    )
                };
                assert_eq!(shape(a), shape(b), "{name}");
                // Text has three digits and leaves out what JSON calls 0; what both tell is the same.
                for (key, value) in settings(a) {
                    let other = settings(b).into_iter().find(|(k, _)| *k == key);
                    assert_eq!(
                        other.map(|(_, v)| v),
                        Some(value),
                        "{name}: {} {} {key}",
                        a.kind,
                        a.handle
                    );
                }
            }
            assert_eq!(a.nodes.len(), b.nodes.len(), "{name}");
            assert_eq!(a.filters.len(), b.filters.len(), "{name}");
            for (a, b) in a.filters.iter().zip(&b.filters) {
                let mut a = a.clone();
                // tc's JSON has no rate of a police action.
                for (deed, other) in a.record.deeds.iter_mut().zip(&b.deeds) {
                    if deed.words.starts_with(&other.words) && other.words == "police" {
                        deed.words.clone_from(&other.words);
                    }
                }
                assert_eq!(&a, b, "{name}");
            }
            let words = |d: &Device| d.findings.iter().map(|f| f.words.clone()).collect::<Vec<_>>();
            assert_eq!(words(a), words(b), "{name}");
        }
    }
}

#[test]
fn filters_say_what_they_match_and_lead_to_their_classes() {
    for hierarchy in both("htb-u32") {
        let device = eth0(&hierarchy);
        let said: Vec<String> = device
            .filters
            .iter()
            .map(|f| format!("{} {}: {}", f.protocol, f.prio, f.matches.join(", ")))
            .collect();
        let wanted = [
            "ip 1: ip tos 0xb8 0xfc",
            "ip 1: ip dst 10.9.0.7, ip protocol icmp",
            "ip 1: ip dport 22, ip protocol tcp",
            "ipv6 2: ip6 dst 2001:db8::/32",
            "ipv6 2: ip6 dport 5060",
        ];
        assert_eq!(said, wanted);
        let high = node(device, "htb", "1:10");
        assert_eq!(high.chosen_by.len(), 2, "shared by two filters");
        assert_eq!(device.filters[1].hits, Some(101));
        assert_eq!(device.filters[4].target, Target::Missing);
        assert!(node(device, "htb", "1:30").is_default);
        let root = node(device, "htb", "1:1");
        assert_eq!(root.children.len(), 4);
        let leaf = &device.nodes[node(device, "htb", "1:20").children[0]];
        assert_eq!((leaf.kind.as_str(), leaf.counters.unwrap().packets), ("fq_codel", 101));
        let troubles: Vec<Trouble> = device.findings.iter().map(|f| f.trouble).collect();
        assert_eq!(troubles, [Trouble::Unreachable, Trouble::NoSuchClass], "{:?}", device.findings);
        assert!(device.findings[0].words.contains("1:40"), "{:?}", device.findings);
    }
}

#[test]
fn an_ifb_is_joined_to_the_device_that_feeds_it() {
    for hierarchy in both("ingress-ifb") {
        let (eth0, ifb0) = (hierarchy.device("eth0").unwrap(), hierarchy.device("ifb0").unwrap());
        let filter = &hierarchy.devices[eth0].filters[0];
        assert_eq!(
            (filter.hook, filter.matches_all, filter.feeds.clone()),
            (Some(Hook::Ingress), Some(true), vec![ifb0])
        );
        assert_eq!(filter.deeds[0].words, "redirect to ifb0");
        assert_eq!(hierarchy.devices[ifb0].fed_by, [(eth0, 0)]);
        assert_eq!(hierarchy.only(eth0), [eth0, ifb0]);
        assert!(hierarchy.devices[ifb0].ifb);
    }
}

#[test]
fn a_drr_whose_filters_leave_arp_over_is_told_to_drop_it() {
    for hierarchy in both("drr-flow") {
        let device = eth0(&hierarchy);
        let finding = &device.findings[0];
        assert_eq!(finding.trouble, Trouble::DropsUnmatched);
        assert!(
            finding.words.contains("other than ip that match no filter (ARP"),
            "{}",
            finding.words
        );
        assert_eq!(node(device, "drr", "1:2").chosen_by, [0], "the hash spreads over both");
        assert_eq!(device.filters[1].target, Target::Opaque, "a mark names the class");
    }
}

#[test]
fn fq_codel_with_a_filter_and_no_catch_all_loses_what_does_not_match_and_is_told_so() {
    for hierarchy in both("ets-fq") {
        let device = eth0(&hierarchy);
        let drops: Vec<&str> = device.findings.iter().map(|f| f.words.as_str()).collect();
        assert!(
            drops.len() == 1 && drops[0].starts_with("fq_codel 14: drops packets that match none"),
            "{drops:?}"
        );
        assert!(drops[0].contains("107 dropped"), "{drops:?}");
        assert_eq!(device.filters[0].target, Target::Flow, "its class is a flow of the queue");
    }
}

#[test]
fn an_htb_without_a_default_class_is_told_to_let_packets_pass_unshaped() {
    for hierarchy in both("clsact-flower-bpf") {
        let device = eth0(&hierarchy);
        let finding = device.findings.iter().find(|f| f.trouble == Trouble::Unshaped).unwrap();
        assert!(finding.words.contains("6 did so far"), "{}", finding.words);
        let said: Vec<(Option<Hook>, String)> =
            device.filters.iter().map(|f| (f.hook, f.matches.join(", "))).collect();
        let wanted = [
            (Some(Hook::Ingress), "ip src 10.9.0.0/24"),
            (Some(Hook::Ingress), ""),
            (Some(Hook::Egress), "dst_ip 10.9.0.7"),
            (Some(Hook::Egress), "dst_mac 02:00:00:00:00:02"),
            (Some(Hook::Egress), "cmp(u8 at 8 layer 1 gt 64)"),
            (None, "dst_port 443, ip_proto tcp, src_ip 10.0.0.0/8"),
            (None, "ip_proto udp, ip_tos 0xb8/0xfc"),
            (None, "bytecode of length 1"),
        ];
        for (hook, words) in wanted {
            assert!(said.contains(&(hook, words.to_owned())), "{hook:?} {words} in {said:?}");
        }
    }
}

#[test]
fn flows_that_show_as_classes_are_counted_and_are_no_classes() {
    for hierarchy in both("cake") {
        let device = eth0(&hierarchy);
        assert_eq!(device.nodes.len(), 1, "{:?}", device.nodes);
        assert_eq!((device.nodes[0].flows, device.nodes[0].counters.unwrap().marks), (1, Some(0)));
    }
}
