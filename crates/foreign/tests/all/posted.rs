//! Files as people keep and post them: in logs, behind prompts, in mails, cut off, written by PowerShell; and cases from the field.

use quell_foreign::{Imported, Tool, read};
use quell_model::{MeasuredFlow, Side};
use std::io::Read;

const TWO: &str = include_str!("../data/iperf3-two-documents.json");
const INTERRUPTED: &str = include_str!("../data/iperf3-interrupted-client.json");
const SERVER: &str = include_str!("../data/iperf3-udp-R-server-json.json");
const LOST: &str = include_str!("../data/iperf3-lost-below-zero.json");
const RETRANSMITS: &str = include_str!("../data/iperf3-retransmits-minus-one.json");
const STOPPED: &[u8] = include_bytes!("../data/flent-udp-rr-stopped.flent.gz");
const UDP: &str = include_str!("../data/iperf3-udp-up.json");

#[track_caller]
fn tests(bytes: &[u8]) -> Vec<Imported> {
    read(bytes, None).expect("it is read")
}

/// The one test in a text.
#[track_caller]
fn one(bytes: &[u8]) -> Imported {
    let mut tests = tests(bytes);
    assert_eq!(tests.len(), 1);
    tests.remove(0)
}

fn last(test: &Imported, side: Side) -> Option<(u64, u64)> {
    test.streams[0].flow.iter().rfind(|s| s.side == side).map(|s| (s.bytes, s.packets))
}

fn measured(test: &Imported) -> Option<MeasuredFlow> {
    serde_json::from_str(&test.streams[0].facts.first()?.1).ok()
}

#[test]
fn zeros_that_nobody_measured_are_unknown() {
    for (text, sent) in
        [(INTERRUPTED, (2_896_000, 0)), (SERVER, (2_896_000, 2000)), (LOST, (2_896_000, 2000))]
    {
        let test = one(text.as_bytes());
        assert_eq!((last(&test, Side::Sender), last(&test, Side::Receiver)), (Some(sent), None));
        assert_eq!(measured(&test), None);
    }
    let said = one(LOST.as_bytes()).left_out.join(" ");
    assert!(said.contains("lost_packets is unknown: -3 at end.streams[0].udp can't be"), "{said}");
    let test = one(RETRANSMITS.as_bytes());
    let flow = measured(&test).expect("the end tells");
    assert_eq!((flow.received_bytes, flow.retransmits), (Some(2_800_000), Some(2)));
    assert!(test.left_out.join(" ").contains("retransmits is unknown 2 times: -1 at"));
}

#[test]
fn what_was_copied_or_written_of_a_test_is_read_up_to_where_it_breaks_off() {
    let whole = one(UDP.as_bytes());
    for part in [0.99, 0.9, 0.6] {
        let text = &UDP[..(UDP.len() as f64 * part) as usize];
        let test = one(text.as_bytes());
        let flow = &test.streams[0].flow;
        assert!(!flow.is_empty() && flow.len() <= whole.streams[0].flow.len(), "{part}");
        assert!(test.notes.join(" ").contains("It breaks off on line"), "{:?}", test.notes);
    }
    let error = read(&UDP.as_bytes()[..200], None).expect_err("no interval is in it");
    assert!(error.to_string().contains("copied whole"), "{error}");
}

#[test]
fn a_value_that_is_no_number_takes_no_other_with_it() {
    let at = UDP.find("\"jitter_ms\":").expect("it is told") + 12;
    let end = at + UDP[at..].find([',', '\n']).expect("it ends");
    for value in ["nan", " -nan", "\tinf"] {
        let text = format!("{}{value}{}", &UDP[..at], &UDP[end..]);
        let test = one(text.as_bytes());
        assert_eq!(last(&test, Side::Sender), last(&one(UDP.as_bytes()), Side::Sender), "{value}");
    }
}

#[test]
fn a_udp_rr_that_stopped_ends_where_it_stopped() {
    let test = one(STOPPED);
    let udp = &test.streams[0];
    assert_eq!((&*udp.name, udp.packets.len()), ("Ping (ms) UDP BE", 30));
    assert!(udp.packets.iter().all(|p| p.rtt_ns == Some(20_000_000)));
    assert!(test.left_out.join(" ").contains("stood still for 54.0 s"), "{:?}", test.left_out);
}

#[test]
fn tests_are_found_in_whatever_stands_around_them() {
    let head = |head: &str, text: &str| -> String {
        text.lines().map(|line| format!("{head}{line}\n")).collect()
    };
    let utf16 = |mark: bool| -> Vec<u8> {
        let mark = if mark { "\u{feff}" } else { "" };
        format!("{mark}{TWO}").encode_utf16().flat_map(u16::to_le_bytes).collect()
    };
    let big: Vec<u8> = format!("\u{feff}{TWO}").encode_utf16().flat_map(u16::to_be_bytes).collect();
    let plain = tests(TWO.as_bytes());
    assert_eq!(plain.len(), 2);
    let (first, second) = TWO.split_at(TWO.find("}\n{").expect("there are two") + 2);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("a mark", format!("\u{feff}{TWO}").into()),
        ("CRLF", TWO.replace('\n', "\r\n").into()),
        ("UTF-16", utf16(true)),
        ("UTF-16 without a mark", utf16(false)),
        ("UTF-16 of the other order", big),
        ("a list", format!("[{first},{second}]").into()),
        ("a shell", format!("$ iperf3 -c h -J\n{first}$ echo ${{X}}\n{second}$ ").into()),
        ("a mail", head("> ", TWO).into()),
        ("a journal", head("Nov 28 11:00:00 host iperf3[77]: ", TWO).into()),
        ("a fence", format!("Look:\n```json\n{first}```\nand {{then}}:\n{second}").into()),
        ("bytes that are no text", [b"caf\xe9\n", TWO.as_bytes()].concat()),
    ];
    for (name, bytes) in cases {
        assert_eq!(tests(&bytes), plain, "{name}");
    }
}

#[test]
fn a_document_that_breaks_off_takes_no_other_with_it_and_is_named() {
    let cut = &TWO[..TWO.len() - 300];
    let both = tests(cut.as_bytes());
    assert_eq!((both.len(), &both[0]), (2, &tests(TWO.as_bytes())[0]));
    assert!(both[1].notes.join(" ").contains("It breaks off on line"), "{:?}", both[1].notes);
    let cut = &TWO[..TWO.find("}\n{").expect("there are two") + 60];
    let whole = one(cut.as_bytes());
    assert!(whole.left_out.join(" ").contains("begins on line 139"), "{:?}", whole.left_out);
    let text = format!("{}\n$ iperf3 -c h -J\n{UDP}", &INTERRUPTED[..900]);
    let read = tests(text.as_bytes());
    assert_eq!(read.last().map(|test| &*test.test), Some("udp"));
}

#[test]
fn lines_of_json_may_be_of_several_tests_and_behind_times() {
    let line = |event: &str, data: &str| format!(r#"12:00:00 {{"event":"{event}","data":{data}}}"#);
    let test = |bytes: u32| {
        let interval = format!(
            r#"{{"streams":[{{"socket":5,"start":0,"end":1,"bytes":{bytes},"sender":false}}]}}"#
        );
        [
            line("start", r#"{"test_start":{"protocol":"TCP","duration":1,"reverse":1}}"#),
            line("interval", &interval),
            line("end", "{}"),
        ]
        .join("\n")
    };
    let found = tests(format!("$ iperf3\n{}\n{}\n", test(1000), test(3000)).as_bytes());
    let bytes: Vec<_> = found.iter().map(|test| last(test, Side::Receiver)).collect();
    assert_eq!(bytes, [Some((1000, 0)), Some((3000, 0))]);
}

#[test]
fn what_is_asked_for_is_taken_out_of_a_log_with_several_programs() {
    let mut irtt = String::new();
    flate2::read::GzDecoder::new(&include_bytes!("../data/irtt.json.gz")[..])
        .read_to_string(&mut irtt)
        .expect("it is gzip");
    let log = format!("{irtt}\n{UDP}\n{}", crate::printed::IPUTILS);
    let tools = |tool| -> Vec<Tool> {
        read(log.as_bytes(), tool).expect("it is read").iter().map(|test| test.tool).collect()
    };
    assert_eq!(tools(None), [Tool::Irtt, Tool::Iperf3, Tool::Ping]);
    assert_eq!(tools(Some(Tool::Iperf3)), [Tool::Iperf3]);
}

#[test]
fn a_title_is_kept() {
    let titled = UDP.replacen('{', r#"{"title":"attic, channel 36","#, 1);
    assert_eq!(one(titled.as_bytes()).title, "attic, channel 36");
}
