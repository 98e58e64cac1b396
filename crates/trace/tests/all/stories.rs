//! Connections that lose, swap, repeat and wait, packet by packet.
//!
//! The client's data begins at sequence number 1001, the server's at 5001. The path takes 10 ms to the server and back,
//! and no time to the client, where the captures are made; MSS 1460.

use crate::common::From::{Client, Server};
use crate::common::{ACK, FIN, PSH, RST, SYN, Told, events, raw, report, told};
use quell_trace::TcpEvent::{
    AckBeforeData, AfterTimer, FastRetransmit, FullWindow, Held, OutOfOrder, Refused, Reset,
    SentAgain, SynAgain, Timer, ZeroWindow,
};
use quell_trace::connection::Ending;
use quell_trace::{
    ConnectionReport, TcpEvent, TraceLimits, TraceOptions, analyse, connection_text, overview_text,
};
use quell_units::Span;

const MSS: u16 = 1460;

fn syn(us: u64) -> Told {
    told(us, Client, SYN, 1000, 0, 0).mss(MSS)
}

fn syn_ack(us: u64) -> Told {
    told(us, Server, SYN | ACK, 5000, 1001, 0).mss(MSS)
}

fn opening() -> Vec<Told> {
    vec![syn(0), syn_ack(10_000), told(10_000, Client, ACK, 1001, 5001, 0)]
}

/// A segment of the client, its data from `at`.
fn up(us: u64, at: u32, length: u16) -> Told {
    told(us, Client, ACK | PSH, 1001 + at, 5001, length)
}

/// A bare ACK of the server for all below `at`.
fn answer(us: u64, at: u32) -> Told {
    told(us, Server, ACK, 5001, 1001 + at, 0)
}

/// A reply of the server with data, for all below `at`.
fn reply(us: u64, at: u32) -> Told {
    told(us, Server, ACK | PSH, 5001, 1001 + at, 50)
}

/// A bare ACK that says what arrived, or came twice, from and to there.
fn sack(us: u64, at: u32, from: u32, to: u32) -> Told {
    answer(us, at).sack(&[(1001 + from, 1001 + to)])
}

/// The only connection.
fn only(packets: Vec<Told>) -> ConnectionReport {
    let mut report = report(&raw(&packets));
    assert_eq!(report.connections.len(), 1);
    report.connections.remove(0)
}

fn story(packets: impl IntoIterator<Item = Told>) -> ConnectionReport {
    only(opening().into_iter().chain(packets).collect())
}

/// So many full segments one after the other.
fn burst(us: u64, from: u32, count: u32) -> impl Iterator<Item = Told> {
    (from..from + count).map(move |n| up(us + u64::from(n - from), n * 1460, MSS))
}

#[test]
fn what_happens_is_counted_and_makes_the_causes_of_its_direction() {
    let lost = |more: Vec<Told>| -> Vec<Told> { burst(20_000, 0, 3).chain(more).collect() };
    type Story = (&'static str, Vec<Told>, &'static [TcpEvent], &'static [&'static str]);
    let stories: Vec<Story> = vec![
        (
            "a call without trouble",
            vec![up(20_000, 0, 100), reply(30_000, 100), told(30_000, Client, ACK, 1101, 5051, 0)],
            &[],
            &[],
        ),
        (
            "on a long path Nagle's rule costs a round trip",
            vec![up(20_000, 0, 100), answer(30_000, 100), up(30_010, 100, 200), reply(40_010, 300)],
            &[Held],
            &["nagle"],
        ),
        (
            "the ACK comes 40 ms later than the path has it",
            vec![up(20_000, 0, 100), answer(70_000, 100), up(70_010, 100, 200), reply(80_010, 300)],
            &[Held],
            &["delayed-ack"],
        ),
        (
            "a slow program: the client only goes on when it has its answer",
            vec![
                up(20_000, 0, 100),
                answer(70_000, 100),
                reply(95_000, 100),
                told(95_100, Client, ACK | PSH, 1101, 5051, 100),
            ],
            &[],
            &[],
        ),
        (
            "a program that writes later than the ACK",
            vec![up(20_000, 0, 100), answer(30_000, 100), up(45_000, 100, 100)],
            &[],
            &[],
        ),
        (
            "two small segments at once: Nagle's rule is off",
            vec![
                up(20_000, 0, 100),
                up(20_010, 100, 100),
                answer(70_000, 200),
                up(70_010, 200, 100),
                reply(80_000, 300),
            ],
            &[Held],
            &[],
        ),
        (
            "three duplicate ACKs",
            burst(20_000, 0, 5)
                .chain([answer(30_000, 1460)])
                .chain([1, 2, 3].map(|i| answer(30_000 + i, 1460)))
                .chain([up(30_010, 1460, MSS), answer(40_010, 7300)])
                .collect(),
            &[FastRetransmit],
            &["fast-retransmit"],
        ),
        (
            "SACK tells of a gap",
            lost(vec![sack(30_000, 0, 1460, 4380), up(32_500, 0, MSS), answer(42_500, 4380)]),
            &[FastRetransmit],
            &["fast-retransmit"],
        ),
        (
            "silence until the timer",
            lost(vec![
                up(231_000, 0, MSS),
                answer(241_000, 1460),
                up(241_010, 1460, MSS),
                up(241_011, 2920, MSS),
                answer(251_011, 4380),
            ]),
            &[Timer, AfterTimer, AfterTimer],
            &["retransmission-timeout"],
        ),
        (
            "the last segment sent again early is a probe",
            vec![
                up(20_000, 0, MSS),
                up(20_001, 1460, 700),
                answer(30_000, 1460),
                up(55_000, 1460, 700),
                answer(65_000, 2160),
            ],
            &[Timer],
            &["retransmission-timeout"],
        ),
        (
            "the other end had it, and had answered: it was only late",
            vec![
                up(20_000, 0, 1000),
                up(230_000, 0, 1000),
                answer(235_000, 1000),
                sack(240_000, 1000, 0, 1000),
            ],
            &[Timer],
            &[],
        ),
        (
            "the other end had it, and its answer was lost",
            vec![up(20_000, 0, 1000), up(230_000, 0, 1000), sack(240_000, 1000, 0, 1000)],
            &[Timer],
            &["retransmission-timeout"],
        ),
        (
            "data that was overtaken",
            vec![up(20_000, 1460, MSS), up(20_100, 0, MSS), answer(30_100, 2920)],
            &[OutOfOrder],
            &[],
        ),
        (
            "an older timestamp, however late",
            vec![up(20_000, 1460, MSS).stamps(9, 1), up(60_000, 0, MSS).stamps(8, 1)],
            &[OutOfOrder],
            &[],
        ),
        (
            "pieces of what was too big for a router, sent again at once, by their identifications",
            vec![
                up(20_000, 1460, 100).id(20),
                up(20_100, 0, 700).id(21),
                up(20_101, 700, 760).id(22),
            ],
            &[SentAgain, SentAgain],
            &[],
        ),
        (
            "the capture recorded an ACK before its data",
            vec![answer(20_000, 1460), up(20_002, 0, MSS), up(30_000, 1460, 100)],
            &[AckBeforeData],
            &[],
        ),
        (
            "what was acknowledged and never seen, the capture missed",
            vec![
                up(20_000, 0, 100),
                answer(30_000, 3020),
                up(50_000, 3020, 100),
                answer(60_000, 3120),
            ],
            &[],
            &[],
        ),
        (
            "a window that was zero, with a probe",
            vec![
                up(20_000, 0, MSS),
                answer(30_000, 1460).window(0),
                told(230_000, Client, ACK, 1001 + 1459, 5001, 0),
                answer(240_000, 1460).window(0),
                answer(530_000, 1460).window(8192),
                up(530_010, 1460, MSS),
            ],
            &[ZeroWindow],
            &["receiver-window"],
        ),
        (
            "a window that is zero for a moment",
            vec![
                up(20_000, 0, MSS),
                answer(30_000, 1460).window(0),
                answer(30_900, 1460).window(8192),
                up(30_910, 1460, MSS),
            ],
            &[],
            &[],
        ),
        (
            "keep-alives",
            vec![
                up(20_000, 0, 100),
                reply(30_000, 100),
                told(30_000, Client, ACK, 1101, 5051, 0),
                told(9_030_000, Client, ACK, 1100, 5051, 0),
                told(9_040_000, Server, ACK, 5051, 1101, 0),
                told(19_030_000, Client, ACK, 1100, 5051, 1),
            ],
            &[],
            &[],
        ),
        (
            "a reset, and a second one that tidies up",
            vec![
                up(20_000, 0, 100),
                told(30_000, Server, RST | ACK, 5001, 1101, 0),
                told(30_001, Server, RST, 5001, 0, 0),
            ],
            &[Reset],
            &[],
        ),
        (
            "captured twice",
            vec![
                up(20_000, 0, 100).id(7),
                up(20_003, 0, 100).id(7),
                answer(30_000, 100).id(9),
                answer(30_002, 100).id(9),
            ],
            &[],
            &[],
        ),
    ];
    for (name, packets, happened, causes) in stories {
        let c = story(packets);
        let seen: Vec<TcpEvent> = c.moments.iter().map(|m| m.moment.event).collect();
        assert_eq!(seen, happened, "{name}: {:?}", c.moments);
        let found: Vec<&str> = c.findings.iter().map(|f| &*f.finding.id).collect();
        assert_eq!(found, causes, "{name}: {:#?}", c.client_to_server.facts);
    }
}

#[test]
fn a_call_is_counted_both_ways() {
    let c = story([
        up(20_000, 0, 100),
        told(30_000, Server, ACK | PSH, 5001, 1101, 400),
        told(30_000, Client, ACK, 1101, 5401, 0),
        told(30_100, Client, FIN | ACK, 1101, 5401, 0),
        told(40_100, Server, FIN | ACK, 5401, 1102, 0),
        told(40_100, Client, ACK, 1102, 5402, 0),
    ]);
    assert_eq!((c.ending, c.opened), (Ending::Closed, true));
    assert_eq!(c.handshake_rtt, Some(Span::from_millis(10)));
    assert_eq!((c.client_to_server.bytes, c.server_to_client.bytes), (100, 400));
    assert_eq!(c.client_to_server.rtt.min, Some(Span::from_millis(10)));
    assert_eq!(c.server_to_client.rtt.min, Some(Span::ZERO));
    assert_eq!(c.client_to_server.mss, Some(MSS));
    assert_eq!(c.retransmissions, 0);
}

#[test]
fn a_finding_names_the_end_that_waited_and_shows_the_counts() {
    let c =
        story([up(20_000, 0, 100), answer(70_000, 100), up(70_010, 100, 200), reply(80_010, 300)]);
    let json = serde_json::to_value(&c).expect("plain data");
    let found = &json["findings"][0];
    assert_eq!((&found["id"], &found["end"]), (&"delayed-ack".into(), &"client".into()));
    assert!(c.findings[0].finding.says.starts_with("10.0.0.1:1033 held a small segment"));
    assert_eq!(json["events"]["held"]["waited_ms"], 50.01);
    assert_eq!(json["client_to_server"]["facts"]["path_ms"], 10.0);
    let text = connection_text(&c, 100);
    assert!(text.contains("held until an ACK came, 200 B, waited 50.0 ms  [4, 5, 6]"), "{text}");
}

/// Thirty round trips of 10 ms, in each so many full segments, all acknowledged at its end with a window of 32120 bytes.
fn rounds(segments: u32) -> ConnectionReport {
    let packets = (0..30).flat_map(|round| {
        let at = 20_000 + 10_000 * u64::from(round);
        burst(at, round * segments, segments)
            .chain([answer(at + 10_000, (round + 1) * segments * 1460)])
    });
    story(packets)
}

#[test]
fn a_transfer_that_the_receivers_window_holds_up_is_told_with_the_window() {
    // 22 segments are all that fits.
    let c = rounds(22);
    assert_eq!(c.findings[0].finding.id, "receiver-window");
    assert_eq!(c.moments[0].moment.event, FullWindow);
    assert_eq!(c.client_to_server.facts.window, 32120);
    // Where less is under way, it is the sender, or its congestion window.
    assert!(rounds(20).findings.is_empty());
}

#[test]
fn large_segments_that_never_arrive_while_small_ones_do_are_a_black_hole() {
    let timers = [240_000, 660_000, 1_500_000, 3_200_000].map(|us| up(us, 100, MSS));
    let start =
        [up(20_000, 0, 100), answer(30_000, 100), up(30_000, 100, MSS), up(30_001, 1560, MSS)];
    let c = story(start.clone().into_iter().chain(timers.clone()));
    assert_eq!(c.findings[0].finding.id, "mtu-black-hole", "{:#?}", c.client_to_server.facts);
    // Once one arrives, it is a loss.
    let arrived = [answer(3_210_000, 1560), answer(3_220_000, 3020)];
    let c = story(start.into_iter().chain(timers).chain(arrived));
    assert_eq!(c.findings[0].finding.id, "retransmission-timeout");
}

#[test]
fn openings_that_come_again_are_counted_and_only_unanswered_ones_were_waited_for() {
    let done = |us| told(us, Client, ACK, 1001, 5001, 0);
    for (packets, happened, waited) in [
        (vec![syn(0), syn(1_000_000), syn_ack(1_010_000), done(1_010_000)], vec![SynAgain], true),
        // Near the server, which had answered: both are answered.
        (
            vec![syn(0), syn_ack(10), syn(1_000_000), syn_ack(1_000_010), done(1_020_000)],
            vec![SynAgain, SynAgain],
            false,
        ),
        (vec![syn(0), syn_ack(10), syn_ack(1_000_010)], vec![SynAgain], true),
        (vec![syn(0), told(10, Server, RST | ACK, 0, 1001, 0)], vec![Refused], false),
    ] {
        let c = only(packets);
        let seen: Vec<TcpEvent> = c.moments.iter().map(|m| m.moment.event).collect();
        assert_eq!(seen, happened);
        let found = c.findings.iter().any(|f| f.finding.id == "retransmission-timeout");
        assert_eq!(found, waited, "{:?}", c.findings);
    }
}

#[test]
fn windows_are_scaled_if_both_ends_agreed() {
    let scaled = |answer: Told| {
        let all =
            vec![syn(0).scale(7), answer, told(10_000, Client, ACK, 1001, 5001, 0).window(1000)];
        only(all).client_to_server.largest_window
    };
    assert_eq!(scaled(syn_ack(10_000).scale(3)), 128_000);
    assert_eq!(scaled(syn_ack(10_000)), 1000);
}

#[test]
fn the_same_ports_used_again_are_another_connection() {
    let again = opening().into_iter().map(|p| Told {
        us: p.us + 1_000_000,
        seq: p.seq.wrapping_add(70_000),
        ack: p.ack.wrapping_add(if p.flags & ACK != 0 { 70_000 } else { 0 }),
        ..p
    });
    let all: Vec<_> = opening().into_iter().chain(again).collect();
    let report = report(&raw(&all));
    assert_eq!(report.connections.len(), 2);
    assert_eq!(report.connections[1].handshake_rtt, Some(Span::from_millis(10)));
}

#[test]
fn sequence_numbers_wrap_without_being_noticed() {
    let start = u32::MAX - 1000;
    let mut all = vec![
        told(0, Client, SYN, start, 0, 0).mss(MSS),
        told(10_000, Server, SYN | ACK, 5000, start.wrapping_add(1), 0).mss(MSS),
    ];
    for i in 0..4_u32 {
        let seq = start.wrapping_add(1 + i * 1460);
        let us = 20_000 + u64::from(i) * 20_000;
        all.push(told(us, Client, ACK, seq, 5001, 1460));
        all.push(told(us + 10_000, Server, ACK, 5001, seq.wrapping_add(1460), 0));
    }
    let c = only(all);
    assert!(c.moments.is_empty(), "{:?}", c.moments);
    assert_eq!((c.client_to_server.bytes, c.client_to_server.rtt.count), (5840, 4));
}

#[test]
fn a_router_s_capture_of_all_its_devices_holds_each_packet_twice_and_nobody_sent_again() {
    let calls = (0..5_u32).flat_map(|n| {
        let us = 20_000 + u64::from(n) * 20_000;
        [
            up(us, n * 100, 100).id(10 + n as u16),
            answer(us + 10_000, (n + 1) * 100).id(90 + n as u16),
        ]
    });
    let twice = opening().into_iter().chain(calls).flat_map(|p| {
        let later = Told { us: p.us + 3, ..p.clone() };
        [p, later.hops(63)]
    });
    let report = report(&raw(&twice.collect::<Vec<_>>()));
    assert_eq!((report.captured_twice, events(&report)), (13, vec![]));
}

/// From the field; then data that its card cut into segments, of which the ACK is for the first, and a FIN.
#[test]
fn an_ack_that_was_recorded_before_its_data_is_the_capture_s_order_and_not_the_path_s() {
    let field = report(include_bytes!("../data/ack-recorded-before-its-data.pcap"));
    assert_eq!(events(&field), [AckBeforeData; 6]);
    let c = &field.connections[0];
    assert_eq!((c.client_to_server.out_of_order, c.client_to_server.missed_bytes), (0, 0));
    assert!(c.findings.is_empty(), "{:?}", c.findings);
    let c = story([
        answer(20_000, 1460),
        up(20_002, 0, 4380),
        answer(30_000, 4380),
        up(40_000, 4380, 1460),
        answer(50_000, 5840),
        told(60_000, Server, ACK, 5001, 1001 + 5841, 0),
        told(60_002, Client, FIN | ACK, 1001 + 5840, 5001, 0),
        told(60_003, Server, FIN | ACK, 5001, 1001 + 5841, 0),
        told(60_004, Client, ACK, 1001 + 5841, 5002, 0),
    ]);
    let happened: Vec<_> = c.moments.iter().map(|m| m.moment.event).collect();
    assert_eq!(happened, [AckBeforeData, AckBeforeData]);
    let up = &c.client_to_server;
    assert_eq!((up.bytes, up.missed_bytes, up.out_of_order), (5840, 0, 0));
    assert_eq!(c.ending, Ending::Closed);
}

#[test]
fn one_direction_alone_is_read_as_well() {
    let alone: Vec<_> = burst(0, 0, 2000).collect();
    let report = report(&raw(&alone));
    assert_eq!(report.connections[0].client_to_server.bytes, 2_920_000);
    assert_eq!(events(&report), []);
}

#[test]
fn memory_is_bounded_and_what_is_given_up_or_only_counted_is_told() {
    let all: Vec<_> = (0..100_u16).map(|i| up(u64::from(i), 0, 10).port(2000 + i)).collect();
    let limits = TraceLimits { live: 10, listed: 30, ..TraceLimits::default() };
    let outcome = analyse(&raw(&all)[..], &TraceOptions { only: None, limits }).expect("a capture");
    let report = outcome.report;
    assert_eq!((report.connections_seen, report.connections_given_up), (100, 90));
    assert_eq!((report.connections.len(), report.connections_not_listed), (30, 70));

    let swapped = (0..50_u32).flat_map(|i| {
        let us = 20_000 + u64::from(i) * 100_000;
        [up(us, i * 200 + 100, 100), up(us + 10, i * 200, 100)]
    });
    let all: Vec<_> = opening().into_iter().chain(swapped).collect();
    let limits = TraceLimits { moments: 7, ..TraceLimits::default() };
    let outcome = analyse(&raw(&all)[..], &TraceOptions { only: None, limits }).expect("a capture");
    let c = &outcome.report.connections[0];
    assert_eq!((c.moments.len(), c.moments_not_listed), (7, 43));
    let text = overview_text(&outcome.report, 100);
    assert!(text.contains("events: 50 out of order"), "{text}");
}
