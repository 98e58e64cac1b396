use super::{imported, refused, with};
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
fn a_value_of_flent_that_can_not_be_is_refused_and_takes_no_other_with_it() {
    let both = both();
    let (ping, rate) = ("raw_values[\"Ping (ms) ICMP\"][5].", "raw_values[\"TCP upload\"][5].");
    for (row, old, new, place) in [
        (PING, r#""t":1577836801.0"#, r#""t":0"#, "t: 0.0 is no time"),
        (PING, r#""t":1577836801.0"#, r#""t":-1"#, "t: -1.0 is no time"),
        (PING, r#""t":1577836801.0"#, r#""t":1577836001.0"#, "t: 1577836001.0 is no time"),
        (PING, r#""t":1577836801.0"#, r#""t":1e300"#, "t: 1e300 is no time"),
        (PING, r#""t":1577836801.0"#, r#""t":null"#, "t: a value without its time"),
        (PING, r#""t":1577836801.0,"#, "", "t: a value without its time"),
        (PING, r#""seq":6"#, r#""seq":null"#, "seq: a packet without its number"),
        (PING, r#""seq":6,"#, "", "seq: a packet without its number"),
        (PING, "1.5", "null", "val: a packet without its round trip"),
        (PING, r#","val":1.5"#, "", "val: a packet without its round trip"),
        (RATE, "10}", "null}", "val: an interval without its rate"),
        (RATE, r#","val":10"#, "", "val: an interval without its rate"),
        (PING, "1.5", "-5", "val: -5.0 is no round-trip time"),
        (PING, "1.5", r#"1.5,"owd_up":1e300"#, "owd_up: 1e300 ms"),
        (PING, "1.5", r#"1.5,"owd_up":0.5,"owd_down":700"#, "owd_up: delays of"),
        (RATE, r#""t":1577836801.0"#, r#""t":0"#, "t: 0.0 is no time"),
        (RATE, r#""t":1577836801.0"#, r#""t":1e18"#, "t: 1e18 is no time"),
        (RATE, r#""t":1577836801.0,"#, "", "t: a value without its time"),
        (RATE, "10}", "-10}", "val: -10.0 Mbit/s is no rate"),
        (RATE, "10}", "1e300}", "val: 1e300 Mbit/s is no rate"),
        (RATE, r#""dur":0.2"#, r#""dur":-1"#, "dur: -1.0 s"),
        (RATE, r#""dur":0.2"#, r#""dur":1e300"#, "dur: 1e300 s"),
    ] {
        let series = if row == PING { ping } else { rate };
        refused(&both, &[(row, &with(row, old, new), &format!("{series}{place}"))]);
    }
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
        "Ping (ms) ICMP: 1 value without a round trip, the first at [6].",
        "TCP upload: 1 value without a rate, the first at [6].",
    ];
    assert_eq!(flent.left_out, wanted);
}
