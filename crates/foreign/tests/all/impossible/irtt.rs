use super::{imported, unknown, with};
use quell_foreign::read;
use quell_model::EchoStatus;

/// Two round trips of 2 ms to a host whose clock is an hour behind.
const IRTT: &str = r#"{"version":{"irtt":"0.9.0","json_format":1},"config":{"params":{"duration":200000000,"interval":100000000,"length":48}},"round_trips":[
    {"seqno":0,"lost":"false","timestamps":{"client":{"send":{"wall":1577836800000000000,"monotonic":0}}},
    "delay":{"receive":3600001000000,"rtt":1999000,"send":-3599999001000}},
    {"seqno":1,"lost":"false","timestamps":{"client":{"send":{"wall":1577836800100000000,"monotonic":100000000}}},
    "delay":{"receive":3600001000000,"rtt":2030000,"send":-3599999000000}}]}"#;

#[test]
fn what_irtt_can_not_have_measured_is_unknown_and_named() {
    let send = r#""send":-3599999000000"#;
    let monotonic = r#""monotonic":100000000"#;
    let interval = r#""interval":100000000"#;
    unknown(
        IRTT,
        &[
            (
                send,
                r#""send":9223372036854775807"#,
                "round_trips[1]: delays of 9223372036854775807",
            ),
            (send, r#""send":-9223372036854775808"#, "round_trips[1]: delays of -9223372036"),
            (send, r#""send":-3599000000000"#, "delay.send is unknown: round_trips[1]"),
            (interval, r#""interval":-1"#, "interval is unknown: -1 at config.params can't be."),
            (interval, r#""interval":9223372036854775807"#, "interval is unknown"),
            (r#""duration":200000000"#, r#""duration":-1"#, "duration is unknown: -1 at"),
            (monotonic, r#""monotonic":9223372036854775807"#, "timestamps.client.send is unknown"),
            (r#""rtt":2030000"#, r#""rtt":-1"#, "delay.rtt is unknown: -1 at round_trips[1]"),
            (r#""rtt":2030000"#, r#""rtt":"a""#, "delay.rtt is unknown"),
        ],
    );
    let odd = imported(&with(IRTT, r#""rtt":2030000"#, r#""rtt":-1"#));
    let status = odd.streams[0].packets.iter().map(|p| p.status).collect::<Vec<_>>();
    assert_eq!(status, [EchoStatus::Ok, EchoStatus::Unsure], "neither answered nor lost");
    let newer = with(IRTT, r#""json_format":1"#, r#""json_format":2"#);
    let newer = read(newer.as_bytes(), None).expect_err("nobody knows it").to_string();
    assert!(newer.contains("it has version 2"), "{newer}");
    let packets = &imported(IRTT).streams[0].packets;
    assert_eq!(
        packets[1].up_ns.zip(packets[1].down_ns),
        Some((-3_599_999_000_000, 3_600_001_000_000))
    );
}
