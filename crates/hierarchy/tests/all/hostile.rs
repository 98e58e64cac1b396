//! Files that are damaged, made up or made to harm.

use proptest::prelude::*;
use quell_hierarchy::{ReadError, Trouble, read};

const OUTPUTS: [&str; 6] = [
    include_str!("../data/htb-u32.txt"),
    include_str!("../data/htb-u32.json"),
    include_str!("../data/clsact-flower-bpf.txt"),
    include_str!("../data/clsact-flower-bpf.json"),
    include_str!("../data/drr-flow.json"),
    include_str!("../data/cake.txt"),
];

/// Names and words can't steer a terminal; all places point at something.
fn holds(text: &str) {
    match read(text, None) {
        Ok(reading) => {
            for device in &reading.hierarchy.devices {
                let mut met = vec![0; device.nodes.len()];
                let mut open: Vec<usize> =
                    device.tops.iter().chain(&device.adrift).copied().collect();
                while let Some(at) = open.pop() {
                    met[at] += 1;
                    open.extend(&device.nodes[at].children);
                }
                assert!(met.iter().all(|times| *times == 1), "each node hangs in one place");
                let said = device
                    .filters
                    .iter()
                    .flat_map(|f| f.matches.iter().chain(f.deeds.iter().map(|d| &d.words)));
                let said =
                    said.chain(device.findings.iter().map(|f| &f.words)).chain([&device.name]);
                for words in said.chain(device.nodes.iter().map(|n| &n.kind)) {
                    assert!(!words.contains(char::is_control), "{words:?}");
                }
            }
        }
        Err(error) => assert!(!error.to_string().contains(char::is_control), "{error}"),
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[\\PC\n\t\u{1b}]{0,300}") {
        holds(&text);
    }

    #[test]
    fn lines_of_tc_in_any_order_with_any_words_are_read_or_refused(
        words in prop::collection::vec(prop::sample::select(vec![
            "\nqdisc ", "\nclass ", "\nfilter ", "htb ", "fq_codel ", "u32 ", "flow ", "flower ", "dev ", "eth0 ", "ifb0 ", "root ", "parent ", "1: ",
            "1:1 ", "ffff: ", ":1 ", "leaf ", "protocol ", "ip ", "pref ", "1 ", "fh ", "800::800 ", "flowid ", "handle ", "0x1 ", "\n match ",
            "0a000001/ffffffff ", "at ", "16 ", "nexthdr+0 ", "\n\taction order 1: ", "mirred ", "(Egress ", "Redirect ", "to ", "device ", "ifb0) ",
            "\n Sent ", "99999999999999999999 ", "bytes ", "\n backlog ", "1Gb ", "default ", "0x30 ", "rate ", "1e999Mbit ", "(rule ", "hit ", "ht ",
            "divisor ", "4294967295 ", "hash ", "keys ", "baseclass ", "\n[{\"kind\":", "\"htb\"", ",\"handle\":", "\"1:\"", "}]", "{", "}", "\u{1b}[2J ",
        ]), 0..120),
    ) {
        holds(&words.concat());
    }

    #[test]
    fn damaged_outputs_are_read_or_refused(which in 0..OUTPUTS.len(), cuts in prop::collection::vec((0.0..1.0f64, 0..6u8), 1..8)) {
        let mut bytes = OUTPUTS[which].as_bytes().to_vec();
        for (at, how) in cuts {
            let at = (at * bytes.len() as f64) as usize;
            match how {
                0 => bytes.truncate(at),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 => bytes.insert(at, b'\n'),
                3 => bytes.insert(at, b'{'),
                4 if at < bytes.len() => bytes[at] = b'9',
                _ => bytes.insert(at, 0x1b),
            }
        }
        holds(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn classes_that_go_round_in_a_circle_are_drawn_once_and_told_to_be_adrift() {
    let text = "qdisc htb 1: dev eth0 root default 0x1\n+ tc class show dev eth0\nclass htb 1:1 parent 1:2 rate 1Mbit\nclass htb 1:2 parent 1:1 rate 1Mbit\n";
    holds(text);
    let device = &read(text, None).unwrap().hierarchy.devices[0];
    assert_eq!(device.adrift.len(), 1);
    assert!(device.findings.iter().any(|finding| finding.trouble == Trouble::Adrift));
}

#[test]
fn sixty_thousand_classes_in_each_other_end_and_so_does_json_without_a_floor() {
    let mut text = String::from("qdisc htb 1: dev eth0 root\n+ tc class show dev eth0\n");
    for n in 2..60_000 {
        text.push_str(&format!("class htb 1:{n:x} parent 1:{:x} rate 1Mbit\n", n - 1));
    }
    holds(&text);
    holds(&format!("[{}", "[".repeat(1_000_000)));
    holds(&format!("[{}", "{\"a\":".repeat(300_000)));
}

#[test]
fn a_refusal_names_the_line() {
    let cases = [
        ("\n\nqdisc htb x: root\n", 3, "\"x:\" is no handle"),
        (
            "qdisc htb 1: dev eth0 root\nclass htb 1:1 rate 1Mbit\n",
            2,
            "does not say where it hangs",
        ),
        ("[{\"kind\":\"htb\",\n\"handle\":\"1:\",\"dev\":\"eth0\"", 2, "cut off"),
        ("[{\"dev\":\"eth0\"}]", 1, "has no \"kind\""),
        (
            "filter parent 1: protocol ip pref x u32 chain 0 fh 800::800 \n",
            1,
            "\"x\" is no preference",
        ),
    ];
    for (text, line, words) in cases {
        match read(text, None) {
            Err(ReadError::Line { line: at, why }) => {
                assert!(at == line && why.contains(words), "{text}: {at}: {why}")
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    assert_eq!(read("hello\nworld\n", None), Err(ReadError::Nothing));
}

#[test]
fn a_count_or_an_option_that_can_not_be_is_refused_with_its_line() {
    let queue = |sent: &str, backlog: &str, marks: &str| {
        format!(
            "qdisc fq_codel 1: dev eth0 root limit 1000p\n Sent {sent}\n backlog {backlog} requeues 0\n  {marks}\n"
        )
    };
    let (sent, backlog) = ("5 bytes 1 pkt (dropped 0, overlimits 0 requeues 0)", "0b 0p");
    let json = |what: &str| {
        format!("[{{\"kind\":\"tbf\",\"handle\":\"1:\",\"dev\":\"eth0\",\"root\":true,{what}}}]")
    };
    let htb = |options: &str| {
        format!("\nqdisc htb 1: dev eth0 root\n\nclass htb 1:1 dev eth0 root {options}\n")
    };
    let real = [
        queue(sent, backlog, "maxpacket 0 ecn_mark 7"),
        queue(sent, "12.5Kb 9p", "drop_overlimit 0"),
        json(
            "\"options\":{\"rate\":125000,\"burst\":5120,\"lat\":50000},\"bytes\":10,\"packets\":1,\"drops\":0",
        ),
        htb("rate 1Mbit ceil 1Mbit burst 1600b cburst 1600b"),
    ];
    for text in real {
        assert!(read(&text, None).is_ok(), "{text}");
    }
    let cases = [
        (queue(&sent.replace("5 bytes", "-5 bytes"), backlog, ""), 2, "\"-5\" is no count"),
        (
            queue(&sent.replace("1 pkt", "99999999999999999999 pkt"), backlog, ""),
            2,
            "\"99999999999999999999\"",
        ),
        (
            queue(&sent.replace("dropped 0", "dropped 18446744073709551616"), backlog, ""),
            2,
            "\"18446744073709551616,\"",
        ),
        (queue("5 bytes 1 pkt (dropped 0,", backlog, ""), 2, "cut off"),
        (queue(sent, "-100b 1p", ""), 3, "\"-100b\" is no count"),
        (queue(sent, "99999999999999999999Kb 1p", ""), 3, "is no count"),
        (queue(sent, "0b", ""), 3, "\"requeues\" is no count"),
        (queue(sent, backlog, "maxpacket 0 ecn_mark -7"), 4, "\"-7\" is no count"),
        (queue(sent, backlog, "marks 0 -1 0"), 4, "\"-1\" is no count"),
        (json("\"bytes\":-10,\"packets\":0"), 1, "\"bytes\": -10 is no count"),
        (json("\"bytes\":10,\"packets\":1e300"), 1, "\"packets\": 1e300 is no count"),
        (json("\"bytes\":10,\"packets\":1,\"drops\":null"), 1, "\"drops\": null is no count"),
        (json("\"bytes\":10,\"packets\":1,\"marked\":-1"), 1, "\"marked\": -1 is no count"),
        (json("\"bytes\":10,\"packets\":1,\"tins\":[{\"ecn_mark\":-1}]"), 1, "-1 is no count"),
        (json("\"options\":{\"rate\":1e300}"), 1, "rate: 1e+300 can't be"),
        (json("\"options\":{\"rate\":-1}"), 1, "rate: -1 can't be"),
        (json("\"options\":{\"lat\":-50}"), 1, "lat: -50 can't be"),
        (json("\"options\":{\"burst\":-1}"), 1, "burst: -1 can't be"),
        (htb("rate 99999999999999999999Gbit"), 4, "rate: 99999999999999999999Gbit can't be"),
        (htb("rate -5Mbit"), 4, "rate: -5Mbit can't be"),
        (
            htb("rate 1Mbit burst 99999999999999999999Gb"),
            4,
            "burst: 99999999999999999999Gb can't be",
        ),
        (
            "qdisc netem 1: dev eth0 root limit 1000 delay 99999999999999999999s\n".to_owned(),
            1,
            "delay: 99999999999999999999s can't be",
        ),
    ];
    for (text, line, words) in cases {
        match read(&text, None) {
            Err(ReadError::Line { line: at, why }) => {
                assert!(at == line && why.contains(words), "{text}: {at}: {why}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn outputs_with_prompts_and_blank_lines_between_are_read_and_the_rest_is_told() {
    let text = "lee@router:~$ sudo tc -s -d qdisc show dev eth0\n[sudo] password for lee: \n\nqdisc htb 1: root refcnt 2 r2q 10 default 0x10\n\
                \n# tc -j class show dev eth0\n[{\"class\":\"htb\",\"handle\":\"1:10\",\"root\":true,\"prio\":0,\"rate\":125000,\"ceil\":125000}]\n\nthat is all\n";
    let reading = read(text, None).unwrap();
    let [lost] = reading.passed_over.as_slice() else { panic!("{reading:?}") };
    assert_eq!((lost.count, lost.line, lost.text.as_str()), (1, 9, "that is all"));
    let device = &reading.hierarchy.devices[0];
    assert_eq!((device.name.as_str(), device.nodes.len()), ("eth0", 2));
    assert!(device.nodes[1].is_default);
    assert_eq!(device.nodes[1].settings[1].value, "1Mbit");
}

#[test]
fn classes_of_two_devices_without_a_name_are_refused_unless_the_device_is_given() {
    let text =
        "qdisc htb 1: dev eth0 root\nqdisc htb 1: dev eth1 root\nclass htb 1:1 root rate 1Mbit\n";
    let error = read(text, None).unwrap_err().to_string();
    assert!(
        error.starts_with("line 3: whose is this class htb 1:1? It could be of eth0, eth1"),
        "{error}"
    );
    let reading = read(text, Some("eth1")).unwrap();
    assert_eq!(reading.hierarchy.devices[1].nodes.len(), 2);
}
