use super::{imported, refused};

/// Two round trips of 2 ms to a host whose clock is an hour behind.
const IRTT: &str = r#"{"version":{"irtt":"0.9.0","json_format":1},"config":{"params":{"duration":200000000,"interval":100000000,"length":48}},"round_trips":[
    {"seqno":0,"lost":"false","timestamps":{"client":{"send":{"wall":1577836800000000000,"monotonic":0}}},
    "delay":{"receive":3600001000000,"rtt":1999000,"send":-3599999001000}},
    {"seqno":1,"lost":"false","timestamps":{"client":{"send":{"wall":1577836800100000000,"monotonic":100000000}}},
    "delay":{"receive":3600001000000,"rtt":2030000,"send":-3599999000000}}]}"#;

#[test]
fn what_irtt_can_not_have_measured_is_refused_with_its_place() {
    let send = r#""send":-3599999000000"#;
    refused(
        IRTT,
        &[
            (
                send,
                r#""send":9223372036854775807"#,
                "round_trips[1].delay.send: delays of 9223372036854775807 ns",
            ),
            (
                send,
                r#""send":-9223372036854775808"#,
                "round_trips[1].delay.send: delays of -9223372036854775808 ns",
            ),
            (send, r#""send":-3599000000000"#, "round_trips[1].delay.send"),
            (r#""json_format":1"#, r#""json_format":2"#, "it has version 2"),
            (r#""json_format":1"#, r#""json_format":-1"#, "version.json_format: -1"),
            (r#""interval":100000000"#, r#""interval":-1"#, "config.params.interval: -1 ns"),
            (
                r#""interval":100000000"#,
                r#""interval":9223372036854775807"#,
                "config.params.interval",
            ),
            (r#""duration":200000000"#, r#""duration":-1"#, "config.params.duration: -1 ns"),
            (
                r#""monotonic":100000000"#,
                r#""monotonic":9223372036854775807"#,
                "round_trips[1].timestamps.client.send.monotonic",
            ),
        ],
    );
    let packets = &imported(IRTT).streams[0].packets;
    assert_eq!(
        packets[1].up_ns.zip(packets[1].down_ns),
        Some((-3_599_999_000_000, 3_600_001_000_000))
    );
}
