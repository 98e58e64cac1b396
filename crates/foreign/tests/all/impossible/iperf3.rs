use super::{imported, unknown, with};
use quell_model::{MeasuredDatagrams, MeasuredFlow, Side};

/// A second of TCP from here, and what is told of it in the end.
const TCP: &str = r#"{"start":{"tcp_mss_default":1448,"test_start":{"protocol":"TCP","duration":1,"omit":0}},"intervals":[{"streams":[
    {"socket":5,"start":0,"end":1.0,"seconds":1.0,"bytes":1000000,"retransmits":1,"snd_cwnd":14480,"rtt":2000,"sender":true}]}],
    "end":{"streams":[{"sender":{"socket":5,"start":0,"end":1.0,"seconds":1.0,"bytes":1000000,"retransmits":1,"sender":true},
    "receiver":{"socket":5,"start":0,"end":1.01,"seconds":1.01,"bytes":990000,"sender":true}}]}}"#;

/// The same of datagrams.
const UDP: &str = r#"{"start":{"test_start":{"protocol":"UDP","duration":1,"omit":0}},"intervals":[{"streams":[
    {"socket":5,"start":0,"end":1.0,"seconds":1.0,"bytes":1000000,"packets":1000,"sender":true}]}],
    "end":{"streams":[{"udp":{"socket":5,"start":0,"end":1.0,"seconds":1.0,"bytes":1000000,"jitter_ms":0.1,"lost_packets":5,"packets":1000,"out_of_order":0,
    "sender":true}}],"sum_sent":{"packets":1000},"sum_received":{"start":0,"end":1.01,"bytes":995000,"packets":1000}}}"#;

/// Two seconds of datagrams that come here.
const DOWN: &str = r#"{"start":{"test_start":{"protocol":"UDP","duration":2,"blksize":1000,"omit":0,"reverse":1}},"intervals":[
    {"streams":[{"socket":5,"start":0,"end":1.0,"bytes":90000,"packets":100,"lost_packets":10,"sender":false}]},
    {"streams":[{"socket":5,"start":1.0,"end":2.0,"bytes":104000,"packets":100,"lost_packets":-4,"sender":false}]}],
    "end":{"streams":[{"udp":{"socket":5,"start":0,"end":2.0,"bytes":200000,"jitter_ms":0.1,"lost_packets":6,"packets":200,"sender":false}}]}}"#;

/// Datagrams at the end, as their sender and their receiver counted them; what was found of them, and what was left out.
#[track_caller]
fn datagrams(text: &str) -> ([Option<u64>; 2], Option<MeasuredDatagrams>, String) {
    let imported = imported(text);
    let stream = &imported.streams[0];
    let end = |side| stream.flow.iter().rfind(|s| s.side == side).map(|s| s.packets);
    let told = stream.facts.first().and_then(|(_, told)| serde_json::from_str(told).ok());
    let measured: Option<MeasuredFlow> = told;
    let ends = [end(Side::Sender), end(Side::Receiver)];
    (ends, measured.and_then(|m| m.datagrams), imported.left_out.join("\n"))
}

#[test]
fn what_iperf3_can_not_have_counted_is_unknown_and_named() {
    let udp = r#""lost_packets":5,"packets":1000"#;
    let jitter = r#""jitter_ms":0.1"#;
    let late = r#""lost_packets":-4"#;
    let start = r#""start":0,"end":1.0,"seconds":1.0,"bytes":1000000,"retransmits":1,"snd_cwnd""#;
    let started_late = start.replace(r#""start":0"#, r#""start":100"#);
    let at_end = "at end.streams[0].udp can't be";
    for (lost, said) in [("-5", "-5"), ("1000000", "1000000"), ("4294967294", "-2")] {
        let text = with(UDP, udp, &format!(r#""lost_packets":{lost},"packets":1000"#));
        let (counted, measured, left_out) = datagrams(&text);
        assert_eq!((counted, measured), ([Some(1000), None], None), "what was sent is known");
        assert!(
            left_out.contains(&format!("lost_packets is unknown: {said} {at_end}")),
            "{left_out}"
        );
    }
    unknown(
        UDP,
        &[
            (udp, r#""lost_packets":5,"packets":3"#, "lost_packets is unknown: 5"),
            (udp, r#""lost_packets":5,"packets":4294967295"#, "packets is unknown: -1"),
            (jitter, r#""jitter_ms":-1"#, "jitter_ms is unknown: -1.0 at end.streams[0].udp"),
            (jitter, r#""jitter_ms":1e300"#, "jitter_ms is unknown: 1e300"),
            (r#""out_of_order":0"#, r#""out_of_order":-5"#, "out_of_order is unknown: -5"),
        ],
    );
    let (here, there) =
        (r#"1.0,"seconds":1.0,"bytes":1000000,"packets""#, "at intervals[0].streams[0]");
    let here_is = |bytes: &str| here.replace("1000000", bytes);
    unknown(UDP, &[(here, &here_is("-1"), &format!("bytes is unknown: -1.0 {there}"))]);
    unknown(
        DOWN,
        &[
            (late, r#""lost_packets":-11"#, "lost_packets so far is unknown: -1 at intervals[1]"),
            (late, r#""lost_packets":191"#, "lost_packets so far is unknown: 201 at intervals[1]"),
        ],
    );
    unknown(
        TCP,
        &[
            (r#""rtt":2000"#, r#""rtt":-2"#, "rtt is unknown: -2 at intervals[0].streams[0]"),
            (r#""rtt":2000"#, r#""rtt":4294967294"#, "rtt is unknown: -2"),
            (r#""rtt":2000"#, r#""rtt":1099511627776"#, "rtt is unknown: 1099511627776"),
            (r#""rtt":2000"#, r#""rtt":"x""#, "rtt is unknown"),
            (r#""snd_cwnd":14480"#, r#""snd_cwnd":-2"#, "snd_cwnd is unknown: -2"),
            (start, &started_late, "end is unknown: 1.0 at intervals[0].streams[0]"),
        ],
    );
    // Its retransmissions in an interval are unknown, their sum in the end is there.
    for wrong in ["-1", "4294967295", "1e300", "null"] {
        let text = with(
            TCP,
            r#""retransmits":1,"snd_cwnd""#,
            &format!(r#""retransmits":{wrong},"snd_cwnd""#),
        );
        let tcp = imported(&text);
        let state = tcp.streams[0].flow.iter().find_map(|s| s.tcp).expect("its window is known");
        assert_eq!((state.retransmits, state.cwnd), (None, 10), "{wrong}");
        let measured: MeasuredFlow =
            serde_json::from_str(&tcp.streams[0].facts[0].1).expect("it is");
        assert_eq!((measured.retransmits, measured.received_bytes), (Some(1), Some(990_000)));
    }
}

/// What nobody told is no zero: a client that was interrupted, a server that was never told, either way.
#[test]
fn zeros_of_an_end_that_never_heard_of_the_other_are_unknown() {
    let there = |text: &str, side| {
        let test = imported(text);
        let flow = test.streams[0].flow.iter().rfind(|s| s.side == side).map(|s| s.bytes);
        (flow, test.streams[0].facts.len())
    };
    let untold = TCP.replace(r#""bytes":990000"#, r#""bytes":0"#);
    assert_eq!(there(&untold, Side::Receiver), (None, 0), "an upload");
    let down = untold.replace(r#""omit":0"#, r#""omit":0,"reverse":1"#);
    let down = down.replace(r#""sender":true"#, r#""sender":false"#).replace("990000", "0");
    let swapped =
        down.replace(r#""sender":{"#, r#""S":{"#).replace(r#""receiver":{"#, r#""sender":{"#);
    let down = swapped.replace(r#""S":{"#, r#""receiver":{"#);
    assert_eq!(there(&down, Side::Sender), (None, 1), "a download: what came is known");
    assert_eq!(there(&down, Side::Receiver).0, Some(1_000_000));
    // Of datagrams: with the receiver's sum, without it, and where nothing was sent at all.
    let silent =
        UDP.replace(r#""jitter_ms":0.1,"lost_packets":5"#, r#""jitter_ms":0,"lost_packets":0"#);
    let no_sum = silent.replace("sum_received", "sum_other");
    let empty = silent.replace(r#""bytes":995000,"packets":1000"#, r#""bytes":0,"packets":0"#);
    for text in [&no_sum, &empty] {
        let (counted, measured, left_out) = datagrams(text);
        assert_eq!((counted, measured), ([Some(1000), None], None), "{text}");
        assert!(left_out.contains("what became of them is unknown"), "{left_out}");
    }
    // All lost is something that it was told.
    let lost = empty.replace(r#""lost_packets":0"#, r#""lost_packets":1000"#);
    assert_eq!(datagrams(&lost).0, [Some(1000), Some(0)]);
    // None lost, as its receiver's sum says.
    assert_eq!(datagrams(&silent).0, [Some(1000), Some(995)], "the rest was under way");
}

#[test]
fn losses_that_iperf3_does_not_tell_are_not_none() {
    let (told, measured, left_out) = datagrams(UDP);
    let lost = |measured: Option<MeasuredDatagrams>| measured.map(|d| (d.sent, d.lost));
    assert_eq!((told, lost(measured)), ([Some(1000), Some(995)], Some((1000, 5))));
    assert!(!left_out.contains("Datagrams"), "{left_out}");
    let (told, measured, left_out) = datagrams(&with(UDP, r#""lost_packets":5,"#, ""));
    assert_eq!((told[1], measured), (None, None));
    assert!(left_out.contains("Datagrams of 1 stream:"), "{left_out}");
    // What came late is taken back within an interval, and the whole tells it right.
    assert_eq!(datagrams(DOWN).0, [Some(200), Some(194)]);
    // An interval that does not tell: the end does.
    let (told, measured, _) = datagrams(&with(DOWN, r#","lost_packets":-4"#, ""));
    assert_eq!((told, lost(measured)), ([None, Some(0)], Some((200, 6))));
}

#[test]
fn losses_of_an_omitted_time_that_iperf3_did_not_tell_apart_are_not_known() {
    // 3.12 counts those of the omitted time too; and one of these may come when it is over.
    for lost in ["1003", "-2"] {
        let omitted = with(UDP, r#""omit":0"#, r#""omit":2"#);
        let text = with(&omitted, r#""lost_packets":5"#, &format!(r#""lost_packets":{lost}"#));
        let (told, measured, left_out) = datagrams(&text);
        assert_eq!((told[1], measured), (None, None), "{lost}");
        assert!(left_out.contains("Datagrams of 1 stream:"), "{left_out}");
    }
}

#[test]
fn a_window_and_a_round_trip_that_the_kernel_does_not_tell_are_not_known() {
    let tcp = |text: &str| imported(text).streams[0].flow.iter().find_map(|s| s.tcp).expect("TCP");
    let text = with(TCP, r#""rtt":2000"#, r#""rtt":-1"#);
    let told = tcp(&with(&text, r#""snd_cwnd":14480"#, r#""snd_cwnd":-1"#));
    assert_eq!((told.srtt_us, told.cwnd, told.retransmits), (0, 0, Some(1)));
    // Bytes are no segments where nothing tells how large these are.
    assert_eq!(tcp(&with(TCP, r#""tcp_mss_default":1448,"#, "")).cwnd, 0);
}
