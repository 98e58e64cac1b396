//! Files that the real programs wrote in the lab, over a link of 5 ms each way that loses 8 % of the packets: Flent 2.1.1, irtt 0.9.0, iperf3 3.12,
//! and ping-exp. And files that nobody wrote.

use proptest::prelude::*;
use quell_foreign::{FlowDirection, ForeignError, Imported, Stream, Tool, read};
use quell_model::{EchoStatus, MeasuredFlow, Side};

const FLENT: &[u8] = include_bytes!("../data/ping.flent.gz");
const IRTT: &[u8] = include_bytes!("../data/irtt.json.gz");
const BIDIR: &[u8] = include_bytes!("../data/iperf3-bidir.json");
const UDP: &[u8] = include_bytes!("../data/iperf3-udp-up.json");
const PINGEXP: &[u8] = include_bytes!("../data/pingexp/python2-0.pickle");

#[track_caller]
fn of(bytes: &[u8], tool: Tool) -> Imported {
    let imported = read(bytes, None).expect("a real file is read").remove(0);
    assert_eq!(imported.tool, tool, "whose it is was found out");
    imported
}

#[track_caller]
fn refused(bytes: &[u8]) -> String {
    let error = read(bytes, None).expect_err("it is refused").to_string();
    assert!(!error.contains(char::is_control), "{error:?}");
    error
}

/// Packets by what became of them: answered, lost, lost there, lost on the way back.
fn fates(stream: &Stream) -> [usize; 4] {
    [EchoStatus::Ok, EchoStatus::Lost, EchoStatus::LostUp, EchoStatus::LostDown]
        .map(|status| stream.packets.iter().filter(|p| p.status == status).count())
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[test]
fn a_ping_of_flent_has_its_packets_with_those_that_are_missing() {
    let flent = of(FLENT, Tool::Flent);
    assert_eq!((&*flent.test, flent.window_ns), ("ping", Some(3_000_000_000)));
    let names: Vec<_> = flent.streams.iter().map(|s| &*s.name).collect();
    assert_eq!(names, ["Ping (ms) ICMP", "Ping (ms) UDP"]);
    // fping counts from 0; the numbers 0 and 8 have no answer in the file.
    let [icmp, udp] = &flent.streams[..] else { panic!("two streams") };
    assert_eq!(fates(icmp), [11, 2, 0, 0]);
    assert_eq!(icmp.packets[1].rtt_ns.map(ms), Some(10.1));
    // irtt tells the direction, and delays of each way.
    assert_eq!(fates(udp), [14, 0, 0, 1]);
    assert_eq!(udp.packets[0].up_ns, Some(5_040_928));
    assert!(udp.two_clocks && !icmp.two_clocks);
    // Flent stamps the answer; the packet left a round trip before.
    let first = udp.packets[0].t_ns;
    let apart: Vec<i64> = udp.packets.iter().map(|p| p.t_ns - first).collect();
    assert!(
        apart.windows(2).all(|two| (190..=211).contains(&((two[1] - two[0]) / 1_000_000))),
        "{apart:?}"
    );
}

#[test]
fn irtt_says_in_words_which_way_a_packet_was_lost() {
    let irtt = of(IRTT, Tool::Irtt);
    let [stream] = &irtt.streams[..] else { panic!("one stream") };
    // As irtt itself counts: 30 sent, 26 came to its server, 25 came back; of one it does not know.
    assert_eq!(fates(stream), [25, 1, 3, 1]);
    assert_eq!(stream.packets[0].rtt_ns, Some(10_171_328));
    assert_eq!(stream.packets[0].up_ns, Some(5_085_664));
    assert_eq!((stream.packets[0].bytes, irtt.window_ns), (172, Some(600_000_000)));
    // 1970-01-21T10:53:48.85: the lab's clock begins with 1970.
    assert_eq!(irtt.started_s.map(|s| (s * 100.0).round()), Some(176_722_885.0));
    assert_eq!(stream.packets[0].t_ns, 0);
    assert!(stream.packets[29].t_ns > 570_000_000);
    let text = br#"{"round_trips":[{"seqno":0,"lost":"perhaps"}],"stats":{}}"#;
    let odd = of(text, Tool::Irtt);
    assert_eq!(odd.streams[0].packets[0].status, EchoStatus::Unsure);
    assert!(odd.left_out[0].contains("`perhaps` at round_trips[0]"), "{:?}", odd.left_out);
    // As its documentation has it.
    let text =
        br#"{"round_trips":[{"seqno":0,"lost":true},{"seqno":1,"lost":false,"delay":{"rtt":5}}]}"#;
    assert_eq!(fates(&of(text, Tool::Irtt).streams[0]), [1, 1, 0, 0]);
}

#[test]
fn each_way_of_iperf3_is_counted_at_both_its_ends() {
    let iperf3 = of(BIDIR, Tool::Iperf3);
    let ways: Vec<_> = iperf3.streams.iter().map(|s| (&*s.name, s.way)).collect();
    let wanted = [
        ("up-1", Some(FlowDirection::Up)),
        ("up-2", Some(FlowDirection::Up)),
        ("down-1", Some(FlowDirection::Down)),
        ("down-2", Some(FlowDirection::Down)),
    ];
    assert_eq!(ways, wanted);
    let end =
        |stream: &Stream, side: Side| stream.flow.iter().rfind(|s| s.side == side).map(|s| s.bytes);
    // end.streams[0]: sender 595128, receiver 557480.
    let up = &iperf3.streams[0];
    assert_eq!((end(up, Side::Sender), end(up, Side::Receiver)), (Some(595_128), Some(557_480)));
    let tcp = up.flow.iter().filter_map(|s| s.tcp).collect::<Vec<_>>();
    assert_eq!((tcp.len(), tcp[3].retransmits), (4, Some(34)));
    // 5792 bytes of window, 1448 a segment.
    assert_eq!((tcp[0].cwnd, tcp[0].srtt_us), (4, 11_842));
    let down = &iperf3.streams[2];
    assert_eq!(down.flow.iter().filter(|s| s.side == Side::Receiver).count(), 5, "in intervals");
}

#[test]
fn lost_datagrams_of_iperf3_are_those_that_the_server_missed() {
    let iperf3 = of(UDP, Tool::Iperf3);
    let [up] = &iperf3.streams[..] else { panic!("one stream") };
    let end = |side: Side| up.flow.iter().rfind(|s| s.side == side).map(|s| s.packets);
    assert_eq!((end(Side::Sender), end(Side::Receiver)), (Some(346), Some(346 - 26)));
    assert!(iperf3.left_out.is_empty(), "its jitter is in the run: {:?}", iperf3.left_out);
    // Without the receiver's sum nothing tells of which packets the jitter is.
    let older = String::from_utf8_lossy(UDP).replace("sum_received", "sum_other");
    let older = of(older.as_bytes(), Tool::Iperf3);
    assert!(older.left_out.iter().any(|l| l.contains("Jitter")), "{:?}", older.left_out);
    assert!(older.streams[0].facts.is_empty());
}

/// Bits a second of all flows this way, and what was found of the first one.
fn goodput(iperf3: &Imported, way: FlowDirection) -> (f64, MeasuredFlow) {
    let flows = iperf3.streams.iter().filter(|stream| stream.way == Some(way));
    let told = flows.map(|stream| {
        let (key, told) = &stream.facts[0];
        assert_eq!(*key, "measured");
        serde_json::from_str::<MeasuredFlow>(told).expect("it is what a run keeps")
    });
    let told: Vec<_> = told.collect();
    let rate = |flow: &MeasuredFlow| Some(flow.received_bytes? as f64 * 8.0 / flow.seconds?);
    (told.iter().filter_map(rate).sum(), told[0])
}

#[test]
fn goodput_is_what_iperf3_told_of_the_receiver_in_its_own_seconds() {
    // `bits_per_second` of `sum_received`, of which the sender's seconds are 2.000001.
    let near = |got: f64, told: f64| assert!((got - told).abs() < 8.0, "{got}, it told {told}");
    let (udp, flow) = goodput(&of(UDP, Tool::Iperf3), FlowDirection::Up);
    near(udp, 1_844_151.9);
    assert_eq!((flow.seconds, flow.received_bytes), (Some(2.010_073), Some(463_360)));
    let bidir = of(BIDIR, Tool::Iperf3);
    near(goodput(&bidir, FlowDirection::Up).0, 4_892_807.0);
    near(goodput(&bidir, FlowDirection::Down).0, 3_918_856.0);
}

#[test]
fn datagrams_under_way_when_iperf3_ended_neither_came_nor_were_lost() {
    // As 3.12 wrote of 30 Mbit/s into a line of 20: two streams here, and two datagrams that its server never saw.
    let udp = |socket: u32, packets: u32, lost: u32| {
        let bytes = packets * 1000;
        format!(
            r#"{{"udp":{{"socket":{socket},"start":0,"end":5.0,"bytes":{bytes},"jitter_ms":0.5,"lost_packets":{lost},"packets":{packets},"sender":true}}}}"#
        )
    };
    let text = |sent: u32| {
        let interval = |socket: u32, packets: u32| {
            let bytes = packets * 1000;
            format!(
                r#"{{"socket":{socket},"start":0,"end":5.0,"bytes":{bytes},"packets":{packets},"sender":true}}"#
            )
        };
        format!(
            r#"{{"start":{{"test_start":{{"protocol":"UDP","duration":5}}}},"intervals":[{{"streams":[{},{}]}}],"end":{{"streams":[{},{}],
            "sum_sent":{{"packets":{sent}}},"sum_received":{{"start":0,"end":5.08,"bytes":1398000,"packets":1998}}}}}}"#,
            interval(5, 1000),
            interval(7, 1000),
            udp(5, 1000, 300),
            udp(7, 1000, 300)
        )
    };
    let imported = of(text(2000).as_bytes(), Tool::Iperf3);
    let (rate, flow) = goodput(&imported, FlowDirection::Up);
    assert!((rate - 1_398_000.0 * 8.0 / 5.08).abs() < 1.0, "{rate}");
    let datagrams = flow.datagrams.expect("it counts them");
    assert_eq!((datagrams.sent, datagrams.arrived, datagrams.lost), (1000, 699, 300));
    let last =
        |side| imported.streams[0].flow.iter().rfind(|s| s.side == side).map(|s| (s.t_ns, s.bytes));
    assert_eq!(last(Side::Receiver), Some((5_080_000_000, 699_000)));
    assert_eq!(last(Side::Sender), Some((5_000_000_000, 1_000_000)));
    // A sum of something else, as of the other direction.
    assert!(of(text(1500).as_bytes(), Tool::Iperf3).streams[0].facts.is_empty());
}

#[test]
fn a_test_that_never_began_says_why() {
    let error = refused(include_bytes!("../data/iperf3-refused.json"));
    assert!(error.contains("unable to connect to server: Connection refused"), "{error}");
}

#[test]
fn iperf3_may_write_an_object_a_line() {
    let lines = br#"{"event":"start","data":{"connecting_to":{"host":"b"},"test_start":{"protocol":"TCP","duration":2,"reverse":1}}}
{"event":"interval","data":{"streams":[{"socket":5,"start":0,"end":1,"bytes":1000,"sender":false}]}}
{"event":"interval","data":{"streams":[{"socket":5,"start":1,"end":2,"bytes":3000,"sender":false}]}}
"#;
    let iperf3 = of(lines, Tool::Iperf3);
    let [down] = &iperf3.streams[..] else { panic!("one stream") };
    let bytes: Vec<_> = down.flow.iter().map(|s| (s.t_ns / 1_000_000_000, s.bytes)).collect();
    assert_eq!((down.way, bytes), (Some(FlowDirection::Down), vec![(0, 0), (1, 1000), (2, 4000)]));
    let broken =
        [&lines[..], b"{\"event\":\"interval\",\"data\":{\"streams\":[{\"socket\":5"].concat();
    let broken = of(&broken, Tool::Iperf3);
    assert_eq!(broken.streams[0].flow, iperf3.streams[0].flow);
    let said = broken.left_out.join(" ");
    assert!(said.contains("line 4") && said.contains("copied whole"), "{said}");
}

#[test]
fn old_round_trips_of_netperf_are_turned_from_a_rate_into_milliseconds() {
    let text = |version: u64, val: f64| {
        format!(
            r#"{{"version":{version},"metadata":{{"NAME":"rrul","T0":"2017-05-30T15:42:47Z","SERIES_META":{{"Ping (ms) UDP BE":{{"UNITS":"ms"}},
            "TCP download BE":{{"UNITS":"Mbits/s"}}}}}},"x_values":[],"results":{{"TCP totals":[]}},"raw_values":{{
            "Ping (ms) UDP BE":[{{"t":1496158968.0,"dur":0.2,"val":{val}}}],
            "TCP download BE":[{{"t":1496158968.0,"dur":1.0,"val":8}},{{"t":1496158969.0,"dur":1.0,"val":16}}],
            "TCP totals":[],"HTTP latency":[{{"t":1496158969.0,"val":1}}]}}}}"#
        )
    };
    for text in [text(3, 50.0), text(4, 20.0)] {
        let flent = of(text.as_bytes(), Tool::Flent);
        let [udp, tcp] = &flent.streams[..] else { panic!("two streams: {:?}", flent.streams) };
        assert_eq!(udp.packets[0].rtt_ns.map(ms), Some(20.0));
        let bytes: Vec<_> = tcp.flow.iter().map(|s| (s.t_ns / 1_000_000, s.bytes)).collect();
        assert_eq!(
            (tcp.way, bytes),
            (Some(FlowDirection::Down), vec![(0, 0), (1000, 1_000_000), (2000, 3_000_000)])
        );
        let told = flent.left_out.join(" ");
        assert!(told.contains("TCP totals: computed") && told.contains("HTTP latency"), "{told}");
    }
    let newer = refused(text(5, 1.0).as_bytes());
    assert!(newer.contains("version 5") && newer.contains('4'), "{newer}");
}

/// Milliseconds, bytes, window, microseconds, pacing and delivery in bytes a second, segments sent again.
type OfSocket = (i64, u64, u32, u32, u64, u64, Option<u64>);

/// What is told of a sender's socket.
fn told_of_socket(stream: &Stream) -> Vec<OfSocket> {
    let senders = stream.flow.iter().filter(|s| s.side == Side::Sender);
    let told = senders.filter_map(|s| Some((s, s.tcp?)));
    told.map(|(s, t)| {
        let ms = s.t_ns / 1_000_000;
        (ms, s.bytes, t.cwnd, t.srtt_us, t.pacing_rate, t.delivery_rate, t.retransmits)
    })
    .collect()
}

#[test]
fn what_flent_stores_of_an_uploads_socket_is_its_senders() {
    let text = br#"{"version":4,"metadata":{"NAME":"tcp_nup","T0":"2017-05-30T15:42:47.000000Z","SERIES_META":{"TCP upload::1":{"UNITS":"Mbits/s"}}},
        "raw_values":{"TCP upload::1":[{"t":1496158968.0,"dur":1.0,"val":8},{"t":1496158969.0,"dur":1.0,"val":16},
        {"t":1496158968.5,"tcp_cwnd":42.0,"tcp_rtt":30.25,"tcp_rtt_var":1.5,"tcp_pacing_rate":12.0,"tcp_delivery_rate":9.5},
        {"t":1496158967.5,"tcp_cwnd":10.0,"tcp_rtt":10.0},{"t":1496158969.0,"tcp_cwnd":-1.0}],
        "TCP upload::1::tcp_cwnd":[]}}"#;
    let flent = of(text, Tool::Flent);
    let [up] = &flent.streams[..] else { panic!("one stream: {:?}", flent.streams) };
    let wanted = [
        (500, 500_000, 10, 10_000, u64::MAX, 0, None),
        (1500, 2_000_000, 42, 30_250, 1_500_000, 1_187_500, None),
    ];
    assert_eq!(told_of_socket(up), wanted);
    assert!(!flent.left_out.join(" ").contains("window"), "{:?}", flent.left_out);
    assert!(flent.notes.join(" ").contains("not what was sent again"), "{:?}", flent.notes);
}

#[test]
fn windows_on_flents_grid_are_no_rates() {
    let text = br#"{"version":3,"metadata":{"NAME":"tcp_upload"},"x_values":[0,0.2,0.4],"results":{"TCP upload":[8,8,8],
        "TCP upload::tcp_cwnd":[10,null,12],"TCP upload::tcp_rtt":[20.5,null,21],"TCP upload avg":[1,2,3]}}"#;
    let flent = of(text, Tool::Flent);
    let names: Vec<_> = flent.streams.iter().map(|s| &*s.name).collect();
    assert_eq!(names, ["TCP upload"]);
    assert_eq!(flent.left_out, ["TCP upload avg: computed from others."]);
    let wanted = [
        (0, 200_000, 10, 20_500, u64::MAX, 0, None),
        (400, 600_000, 12, 21_000, u64::MAX, 0, None),
    ];
    assert_eq!(told_of_socket(&flent.streams[0]), wanted);
}

#[test]
fn a_packet_whose_answer_came_at_the_very_beginning_was_sent_in_the_measurement() {
    let text = br#"{"version":4,"metadata":{"NAME":"ping","T0":"2017-05-30T15:42:47.000000Z"},
        "raw_values":{"Ping (ms) ICMP":[{"seq":1,"t":1496158967.0,"val":50},{"seq":2,"t":1496158968.0,"val":250}]}}"#;
    let flent = of(text, Tool::Flent);
    let sent: Vec<_> = flent.streams[0].packets.iter().map(|p| p.t_ns / 1_000_000).collect();
    assert_eq!((sent, flent.started_s), (vec![0, 800], Some(1_496_158_966.95)));
}

#[test]
fn a_file_without_raw_values_is_read_from_its_grid() {
    let text = br#"{"version":1,"metadata":{"NAME":"tcp_upload"},"x_values":[0,0.2,0.4],
        "results":{"Ping (ms) ICMP":[10,null,12],"TCP upload":[1,2,3],"TCP upload avg":[1,2,3]}}"#;
    let flent = of(text, Tool::Flent);
    assert_eq!(fates(&flent.streams[0]), [2, 0, 0, 0]);
    assert_eq!(flent.streams[1].way, Some(FlowDirection::Up));
    assert!(flent.notes[0].contains("grid"), "{:?}", flent.notes);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (bytes, words) in [
        (&b""[..], &["nothing of Flent"][..]),
        (b"hello\nworld\n", &["nothing of Flent"]),
        (b"{\"round_trips\":[{\"seqno\":", &["line 1", "copied whole"]),
        (b"x\n{\n\"round_trips\":[7]}", &["line 3"]),
        (b"\x1f\x8b\x08", &["copied whole"]),
        (b"\xff\xfe", &["nothing of Flent"]),
        (b"[ ID] Interval  Transfer  Bitrate\n[  5] 0.00-1.00 sec  112 MBytes", &["iperf3 -J"]),
        (b"64 Bytes von 192.0.2.1: icmp_seq=1 ttl=55 Zeit=9.5 ms", &["LC_ALL=C ping"]),
        (b"Antwort von 192.0.2.1: Bytes=32 Zeit=15ms TTL=117", &["LC_ALL=C ping"]),
    ] {
        let error = refused(bytes);
        for word in words {
            assert!(error.contains(word), "{word} in {error}");
        }
    }
    let other = read(IRTT, Some(Tool::Flent)).expect_err("it is irtt's");
    assert_eq!(other, ForeignError::OtherTool { wanted: Tool::Flent, found: Tool::Irtt });
    assert!(other.to_string().contains("quell data import irtt"), "{other}");
}

#[test]
fn short_files_that_stand_for_millions_of_packets_are_refused() {
    let far = b"{\"round_trips\":[{\"seqno\":0,\"lost\":\"true\"},{\"seqno\":4294967295,\"lost\":\"true\"}]}";
    assert!(refused(far).contains("more than 1048576"));
    let mut many = b"{\"round_trips\":[".to_vec();
    for _ in 0..(1 << 20) {
        many.extend_from_slice(b"{\"seqno\":0,\"lost\":\"true\"},");
    }
    many.extend_from_slice(b"{\"seqno\":0,\"lost\":\"true\"}]}");
    assert!(refused(&many).contains("more than 1048576"));
}

/// The real files as text.
fn texts() -> Vec<Vec<u8>> {
    let plain = |bytes: &[u8]| {
        let mut out = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes), &mut out)
            .expect("gzip");
        out
    };
    let printed = [crate::printed::IPUTILS, crate::printed::MTR, crate::printed::MTR_CSV];
    let printed = printed.map(|text| text.as_bytes().to_vec());
    let files = [plain(FLENT), plain(IRTT), BIDIR.to_vec(), UDP.to_vec(), PINGEXP.to_vec()];
    files.into_iter().chain(printed).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_files_are_read_or_refused(
        file in 0_usize..8,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 1..8),
        tool in prop::option::of(0_usize..6),
    ) {
        let mut bytes = texts().swap_remove(file);
        let odd: [&[u8]; 8] = [b"null", b"-1", b"1e308", b"\"a\"", b"[]", b"{}", b"18446744073709551615", b"true"];
        for (at, byte, how) in changes {
            if bytes.is_empty() { break; }
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.truncate(at),
                2 => { bytes.remove(at); }
                // A number or word replaced.
                _ => {
                    let end = bytes[at..].iter().position(|b| b",}]\n ".contains(b)).map_or(bytes.len(), |n| at + n);
                    bytes.splice(at..end, odd[usize::from(byte) % odd.len()].iter().copied());
                }
            }
        }
        crate::every::holds(&bytes, tool.map(|t| Tool::ALL[t]));
    }
}
