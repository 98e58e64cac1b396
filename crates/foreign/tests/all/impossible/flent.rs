use super::{imported, with};
use quell_foreign::Imported;
use quell_model::{EchoStatus, Side};

/// 30 pings and a flow of 10 Mbit/s, every 0.2 s.
fn both() -> String {
    let at = |n: u32| 1_577_836_800.0 + f64::from(n) * 0.2;
    let ping = |n: u32| format!(r#"{{"seq":{},"t":{:.1},"val":1.5}}"#, n + 1, at(n));
    let rate = |n: u32| format!(r#"{{"dur":0.2,"t":{:.1},"val":10}}"#, at(n));
    let all = |one: &dyn Fn(u32) -> String| (0..30).map(one).collect::<Vec<_>>().join(",");
    format!(
        r#"{{"version":4,"metadata":{{"NAME":"rrul","T0":"2020-01-01T00:00:00.000000Z","TOTAL_LENGTH":6,"STEP_SIZE":0.2,"SERIES_META":{{
        "Ping (ms) ICMP":{{"UNITS":"ms"}},"TCP upload":{{"UNITS":"Mbits/s"}}}}}},"raw_values":{{"Ping (ms) ICMP":[{}],"TCP upload":[{}]}}}}"#,
        all(&ping),
        all(&rate)
    )
}

/// Packets answered and lost, and kilobytes.
fn counts(flent: &Imported) -> ([usize; 2], Option<u64>) {
    let count = |is| flent.streams[0].packets.iter().filter(|p| p.status == is).count();
    let flow = &flent.streams[1].flow;
    let bytes = flow.iter().rfind(|s| s.side == Side::Receiver).map(|s| (s.bytes + 500) / 1000);
    ([EchoStatus::Ok, EchoStatus::Lost].map(count), bytes)
}

const PING: &str = r#"{"seq":6,"t":1577836801.0,"val":1.5}"#;
const RATE: &str = r#"{"dur":0.2,"t":1577836801.0,"val":10}"#;

#[test]
fn a_value_of_flent_that_can_not_be_is_unknown_and_takes_no_other_with_it() {
    let both = both();
    let (ping, rate) = ("\"Ping (ms) ICMP\"[5]", "\"TCP upload\"[5]");
    for (row, old, new, what, counted) in [
        (PING, r#""t":1577836801.0"#, r#""t":0"#, "t is unknown: 0.0", 29),
        (PING, r#""t":1577836801.0"#, r#""t":1e300"#, "t is unknown: 1e300", 29),
        (PING, r#""t":1577836801.0"#, r#""t":null"#, "t is unknown: NaN", 29),
        (PING, r#""seq":6"#, r#""seq":null"#, "seq is unknown: NaN", 29),
        (PING, r#""seq":6"#, r#""seq":-6"#, "seq is unknown: -6.0", 29),
        (PING, "1.5", "null", "round trip is unknown: NaN", 29),
        (PING, "1.5", "-5", "round trip is unknown: -5.0", 29),
        (PING, "1.5", r#""x""#, "round trip is unknown: NaN", 29),
        (PING, "1.5", r#"1.5,"owd_up":1e300"#, "owd_up is unknown: 1e300", 30),
        (PING, "1.5", r#"1.5,"owd_up":0.5,"owd_down":700"#, "delays of", 30),
        (RATE, r#""t":1577836801.0"#, r#""t":0"#, "t is unknown: 0.0", 7250),
        (RATE, r#""t":1577836801.0,"#, "", "t is unknown: NaN", 7250),
        (RATE, "10}", "null}", "rate in Mbit/s is unknown: NaN", 7250),
        (RATE, "10}", "-10}", "rate in Mbit/s is unknown: -10.0", 7250),
        (RATE, "10}", "1e300}", "rate in Mbit/s is unknown: 1e300", 7250),
        (RATE, r#""dur":0.2"#, r#""dur":-1"#, "dur is unknown: -1.0", 7500),
    ] {
        let flent = imported(&with(&both, row, &with(row, old, new)));
        let said = flent.left_out.join(" ");
        let place = if row == PING { ping } else { rate };
        assert!(said.contains(what) && said.contains(place), "{new}: {said}");
        let (packets, kilobytes) = counts(&flent);
        let found = if row == PING { (packets, kilobytes) } else { ([30, 0], kilobytes) };
        let answered = if row == PING { counted as usize } else { 30 };
        let wanted = if row == PING { 7500 } else { counted };
        assert_eq!(found, ([answered, 0], Some(wanted)), "{new}: {said}");
    }
}

#[test]
fn an_interval_in_which_netperf_stood_still_is_no_round_trip() {
    let text = |version: u32, fast: f64, slow: f64, more: &str| {
        let row = |n: u32| {
            let t = 1_577_836_800.0 + f64::from(n) * 0.2;
            format!(r#"{{"dur":0.2,"t":{t:.1},"val":{fast}}}"#)
        };
        let rows = (1..=30).map(row).collect::<Vec<_>>().join(",");
        format!(
            r#"{{"version":{version},"metadata":{{"NAME":"rrul","T0":"2020-01-01T00:00:00.000000Z"}},"raw_values":{{
            "Ping (ms) UDP BE":[{rows},{{"dur":54.0,"t":1577836860.0,"val":{slow}}}{more}]}}}}"#
        )
    };
    let after = r#",{"dur":0.2,"t":1577836860.2,"val":20}"#;
    for (text, answered) in [
        (text(3, 50.0, 0.02, ""), 30),
        (text(3, 50.0, 0.0, ""), 30),
        (text(4, 20.0, 54000.0, ""), 30),
        (text(4, 20.0, 54000.0, after), 31),
    ] {
        let flent = imported(&text);
        let packets = &flent.streams[0].packets;
        assert_eq!(packets.len(), answered);
        assert!(packets.iter().all(|p| p.rtt_ns == Some(20_000_000)));
        let said = flent.left_out.join(" ");
        assert!(said.contains("stood still for 54.0 s from 6.0 s on"), "{said}");
    }
    // Slow is not still.
    assert_eq!(imported(&text(4, 20.0, 500.0, "")).streams[0].packets.len(), 31);
}

#[test]
fn a_row_of_something_else_among_flents_values_is_told() {
    let both = both();
    let whole = imported(&both);
    assert_eq!(counts(&whole), ([30, 0], Some(7500)));
    assert!(whole.left_out.is_empty(), "{:?}", whole.left_out);
    let other = r#"{"t":1577836801.0,"buffer":7}"#;
    let among = with(&both, PING, &format!("{PING},{other}"));
    let flent = imported(&with(&among, RATE, &format!("{RATE},{other}")));
    assert_eq!(counts(&flent), ([30, 0], Some(7500)));
    let wanted = [
        "a row of Ping (ms) ICMP is unknown: [6] has no round trip.",
        "a row of TCP upload is unknown: [6] has no rate.",
    ];
    assert_eq!(flent.left_out, wanted);
}
