use super::{imported, refused, with};
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
fn what_iperf3_can_not_have_counted_is_refused_with_its_place() {
    let udp = r#""lost_packets":5,"packets":1000"#;
    let late = r#""lost_packets":-4"#;
    let receiver = r#""seconds":1.01"#;
    let start = r#""start":0,"end":1.0,"seconds":1.0,"bytes":1000000,"retransmits":1,"snd_cwnd""#;
    let started_late = start.replace(r#""start":0"#, r#""start":100"#);
    refused(
        UDP,
        &[
            (
                udp,
                r#""lost_packets":-5,"packets":1000"#,
                "end.streams[0].udp.lost_packets: -5 of 1000",
            ),
            (
                udp,
                r#""lost_packets":1000000,"packets":1000"#,
                "end.streams[0].udp.lost_packets: 1000000 of 1000",
            ),
            (udp, r#""lost_packets":5,"packets":3"#, "end.streams[0].udp.lost_packets: 5 of 3"),
            (r#""jitter_ms":0.1"#, r#""jitter_ms":-1"#, "end.streams[0].udp.jitter_ms: -1.0 is"),
            (
                r#""jitter_ms":0.1"#,
                r#""jitter_ms":1e300"#,
                "end.streams[0].udp.jitter_ms: 1e300 is",
            ),
            (r#""out_of_order":0"#, r#""out_of_order":-5"#, "end.streams[0].udp.out_of_order: -5"),
        ],
    );
    refused(
        DOWN,
        &[
            (
                late,
                r#""lost_packets":-11"#,
                "intervals[1].streams[0].lost_packets: with it -1 of 200",
            ),
            (
                late,
                r#""lost_packets":191"#,
                "intervals[1].streams[0].lost_packets: with it 201 of 200",
            ),
        ],
    );
    refused(
        TCP,
        &[
            (r#""rtt":2000"#, r#""rtt":-2"#, "intervals[0].streams[0].rtt: -2"),
            (
                r#""rtt":2000"#,
                r#""rtt":1099511627776"#,
                "intervals[0].streams[0].rtt: 1099511627776",
            ),
            (r#""snd_cwnd":14480"#, r#""snd_cwnd":-2"#, "intervals[0].streams[0].snd_cwnd: -2"),
            (start, &started_late, "intervals[0].streams[0].end: 1 s is before its start"),
            (receiver, r#""seconds":0"#, "end.streams[0].receiver.seconds: 0.0 s"),
            (receiver, r#""seconds":-1"#, "end.streams[0].receiver.seconds: -1.0 s"),
            (receiver, r#""seconds":1e-300"#, "end.streams[0].receiver.seconds: 1e-300 s"),
            (receiver, r#""seconds":1e300"#, "end.streams[0].receiver.seconds: 1e300 s"),
        ],
    );
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
