//! What iperf3 writes with an omitted time.

use super::*;

/// As iperf3 3.12 wrote of 2 s that do not count and 1 s that does: the interval at the border is not marked.
#[test]
fn datagrams_of_the_omitted_time_do_not_count() {
    let part = |start: f64, packets: u64, omitted: bool| {
        format!(
            r#"{{"streams":[{{"socket":5,"start":{start},"end":{},"bytes":{},"packets":{packets},"omitted":{omitted},"sender":true}}]}}"#,
            start + 1.0,
            packets * 1000
        )
    };
    let text = format!(
        r#"{{"start":{{"test_start":{{"protocol":"UDP","duration":1}}}},"intervals":[{},{},{}],
           "end":{{"streams":[{{"udp":{{"socket":5,"start":0,"end":1.04,"bytes":172000,"packets":172,"lost_packets":12,"jitter_ms":0.5,"sender":true}}}}]}}}}"#,
        part(0.0, 173, true),
        part(1.0, 173, false),
        part(0.0, 172, false)
    );
    let imported = read(&text).unwrap();
    let [(key, told)] = &imported.streams[0].facts[..] else { panic!("{:?}", imported.streams) };
    let told: MeasuredFlow = serde_json::from_str(told).unwrap();
    let datagrams = told.datagrams.unwrap();
    assert_eq!(
        (*key, datagrams.sent, datagrams.arrived, datagrams.lost),
        ("measured", 172, 160, 12)
    );
    assert_eq!((told.seconds, told.received_bytes), (Some(1.04), Some(160_000)));
    let down = text.replace("\"omitted\"", "\"lost_packets\":0,\"omitted\"");
    let down = read(&down.replace("\"sender\":true", "\"sender\":false")).unwrap();
    let packets = |side| {
        let of = |s: &&FlowSample| s.side == side;
        down.streams[0].flow.iter().filter(of).map(|s| s.packets).collect::<Vec<_>>()
    };
    assert_eq!((packets(Side::Receiver), packets(Side::Sender)), (vec![0, 172], vec![0, 172]));
    let whole = read(&text.replace("\"omitted\":true", "\"omitted\":false")).unwrap();
    assert!(whole.streams[0].facts.is_empty(), "its intervals are all there is");
}

/// As iperf3 3.12 wrote with `-R -O 2 -t 3` of a path that loses a tenth: the interval at the border takes no time and counts the omitted
/// datagrams, its bytes do not.
#[test]
fn datagrams_that_came_in_the_omitted_time_do_not_count() {
    let part = |(start, end): (f64, f64), bytes: u64, packets: u64, lost: u64, omitted: bool| {
        format!(
            r#"{{"streams":[{{"socket":5,"start":{start},"end":{end},"bytes":{bytes},"packets":{packets},"lost_packets":{lost},"omitted":{omitted},"sender":false}}]}}"#
        )
    };
    let text = format!(
        r#"{{"start":{{"test_start":{{"protocol":"UDP","duration":3,"blksize":1000,"reverse":1}}}},"intervals":[{},{},{},{}],
           "end":{{"streams":[{{"udp":{{"socket":5,"start":0,"end":3.010003,"bytes":1506000,"packets":1505,"lost_packets":169,"jitter_ms":0.5,"sender":false}}}}]}}}}"#,
        part((0.0, 1.000001), 445_000, 501, 56, true),
        part((1.0, 1.0), 447_000, 1000, 103, false),
        part((1.0, 2.0), 439_000, 500, 61, false),
        part((2.0, 3.000003), 443_000, 498, 55, false)
    );
    let imported = read(&text).unwrap();
    let [(_, told)] = &imported.streams[0].facts[..] else { panic!("{:?}", imported.streams) };
    let told: MeasuredFlow = serde_json::from_str(told).unwrap();
    let datagrams = told.datagrams.unwrap();
    assert_eq!((datagrams.sent, datagrams.arrived, datagrams.lost), (1505, 1336, 169));
    assert_eq!(told.received_bytes, Some(1_336_000));
    let of = |side| {
        let of = |s: &&FlowSample| s.side == side;
        let all = imported.streams[0].flow.iter().filter(of);
        all.map(|s| (s.t_ns / 1_000_000, s.packets, s.bytes / 1000)).collect::<Vec<_>>()
    };
    let received = [(0, 0, 0), (1000, 454, 447), (2000, 893, 886), (3000, 1336, 1329)];
    assert_eq!(of(Side::Receiver), received);
    assert_eq!(
        of(Side::Sender),
        [(0, 0, 0), (1000, 507, 507), (2000, 1007, 1007), (3000, 1505, 1505)]
    );
}

/// As iperf3 3.12's server wrote of a client that went: the last interval once more.
#[test]
fn an_interval_that_is_told_again_does_not_begin_anew() {
    let part = |start: u64| {
        format!(
            r#"{{"streams":[{{"socket":5,"start":{start},"end":{},"bytes":1000,"sender":false}}]}}"#,
            start + 1
        )
    };
    let text = format!(
        r#"{{"start":{{"accepted_connection":{{}}}},"intervals":[{},{},{}],"error":"the client has terminated"}}"#,
        part(0),
        part(1),
        part(1)
    );
    let imported = read(&text).unwrap();
    let flow: Vec<_> = imported.streams[0].flow.iter().map(|s| s.bytes).collect();
    assert_eq!(flow, [0, 1000, 2000]);
    assert_eq!(imported.left_out, ["1 interval that the file tells twice."]);
}
