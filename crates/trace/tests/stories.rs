//! Connections that lose, swap, repeat and wait, packet by packet.
//!
//! The client's data begins at sequence number 1001, the server's at 5001. The path takes 10 ms to the server and back,
//! and no time to the client, where the captures are made; MSS 1460.

mod common;

use common::From::{Client, Server};
use common::{ACK, FIN, PSH, RST, SYN, Told, raw, report, texts, told};
use quell_finding::WIDEST;
use quell_trace::connection::Ending;
use quell_trace::{
    Cause, ConnectionReport, Limits, Options, Side, analyse, connection_text, overview_text,
};
use quell_units::Span;

const MSS: u16 = 1460;

fn opening() -> Vec<Told> {
    vec![
        told(0, Client, SYN, 1000, 0, 0).mss(MSS),
        told(10_000, Server, SYN | ACK, 5000, 1001, 0).mss(MSS),
        told(10_000, Client, ACK, 1001, 5001, 0),
    ]
}

/// A segment of the client, its data from `at`.
fn up(us: u64, at: u32, length: u16) -> Told {
    told(us, Client, ACK | PSH, 1001 + at, 5001, length)
}

/// A bare ACK of the server for all below `at`.
fn answer(us: u64, at: u32) -> Told {
    told(us, Server, ACK, 5001, 1001 + at, 0)
}

fn story(packets: impl IntoIterator<Item = Told>) -> ConnectionReport {
    let mut all = opening();
    all.extend(packets);
    let mut report = report(&raw(&all));
    assert_eq!(report.connections.len(), 1);
    report.connections.remove(0)
}

fn causes(connection: &ConnectionReport) -> Vec<Cause> {
    connection.marks.iter().map(|m| m.cause).collect()
}

#[test]
fn a_call_without_trouble_has_no_marks() {
    let c = story([
        up(20_000, 0, 100),
        told(30_000, Server, ACK | PSH, 5001, 1101, 400),
        told(30_000, Client, ACK, 1101, 5401, 0),
        told(30_100, Client, FIN | ACK, 1101, 5401, 0),
        told(40_100, Server, FIN | ACK, 5401, 1102, 0),
        told(40_100, Client, ACK, 1102, 5402, 0),
    ]);
    assert_eq!(causes(&c), []);
    assert_eq!((c.ending, c.opened), (Ending::Closed, true));
    assert_eq!(c.handshake_rtt, Some(Span::from_millis(10)));
    assert_eq!((c.client_to_server.bytes, c.server_to_client.bytes), (100, 400));
    assert_eq!(c.client_to_server.rtt.min, Some(Span::from_millis(10)));
    assert_eq!(c.server_to_client.rtt.min, Some(Span::ZERO));
    assert_eq!(c.client_to_server.mss, Some(MSS));
    assert_eq!(c.retransmissions, 0);
}

#[test]
fn on_a_long_path_nagles_rule_costs_a_round_trip() {
    let c =
        story([up(20_000, 0, 100), answer(30_000, 100), up(30_010, 100, 200), answer(40_000, 300)]);
    assert_eq!(c.marks.len(), 1, "{:?}", c.marks);
    let mark = &c.marks[0];
    assert_eq!(mark.text, "wait, 10.0 ms, Nagle, for the ACK of a 100-byte segment");
    assert_eq!((mark.side, mark.cause), (Side::Client, Cause::Nagle));
    assert_eq!(mark.packets, [4, 5, 6]);
}

#[test]
fn a_message_that_the_paths_mtu_cuts_in_two_was_not_held() {
    // Of a path that carries 1424 bytes: neither segment is full, and the second waits for no ACK. So nor did the first.
    let c = story([
        up(20_000, 0, 100),
        answer(30_000, 100),
        up(30_010, 100, 1424),
        up(30_010, 1524, 24),
        answer(40_000, 1548),
        up(40_010, 1548, 1424),
        up(40_011, 2972, 24),
        answer(50_000, 2996),
    ]);
    assert_eq!(texts_of(&c), [""; 0]);
}

#[test]
fn what_the_path_takes_is_not_blamed_on_the_ack() {
    let c =
        story([up(20_000, 0, 100), answer(70_000, 100), up(70_010, 100, 200), answer(80_000, 300)]);
    let mark = &c.marks[0];
    let late = |mark: &quell_trace::MarkReport| mark.held.is_some_and(|held| held.perhaps_delayed);
    assert_eq!(mark.cause, Cause::Nagle);
    assert!(late(mark), "once is no proof: a queue may have come and gone");
    assert_eq!(mark.held.and_then(|held| held.path), Some(Span::from_millis(10)));
    let c =
        story([up(20_000, 0, 100), answer(39_000, 100), up(39_010, 100, 200), answer(49_000, 300)]);
    assert_eq!(c.marks[0].cause, Cause::Nagle);
    assert!(!late(&c.marks[0]), "9 ms over the path's 10 are no delayed ACK");
}

#[test]
fn a_slow_program_is_no_stall() {
    // The server acknowledges late and alone, but the client only goes on when it has its answer.
    let c = story([
        up(20_000, 0, 100),
        answer(70_000, 100),
        told(95_000, Server, ACK | PSH, 5001, 1101, 400),
        told(95_100, Client, ACK | PSH, 1101, 5401, 100),
    ]);
    assert_eq!(causes(&c), []);
}

#[test]
fn three_duplicate_acks_bring_a_fast_retransmission() {
    let mut packets: Vec<_> = (0..5).map(|i| up(20_000 + u64::from(i), i * 1460, 1460)).collect();
    packets.push(answer(30_000, 1460));
    packets.extend([1, 2, 3].map(|i| answer(30_000 + i, 1460)));
    packets.push(up(30_010, 1460, 1460));
    packets.push(answer(40_010, 5 * 1460));
    let c = story(packets);
    assert_eq!(texts_of(&c), ["fast retransmission of 1460 bytes after 10.0 ms"]);
    assert_eq!(c.client_to_server.duplicate_acks, 3);
    assert_eq!((c.client_to_server.bytes, c.client_to_server.bytes_again), (7300, 1460));
    assert_eq!(c.marks[0].packets, [5, 13]);
    assert_eq!(c.retransmissions, 1);
}

fn texts_of(c: &ConnectionReport) -> Vec<&str> {
    c.marks.iter().map(|m| m.text.as_str()).collect()
}

#[test]
fn sack_tells_of_a_gap_as_well() {
    let mut packets: Vec<_> = (0..3).map(|i| up(20_000 + u64::from(i), i * 1460, 1460)).collect();
    packets.push(answer(30_000, 0).sack(&[(1001 + 1460, 1001 + 4380)]));
    packets.push(up(32_500, 0, 1460));
    packets.push(answer(42_500, 4380));
    let c = story(packets);
    assert_eq!(causes(&c), [Cause::FastRetransmit]);
}

#[test]
fn silence_until_the_timer_is_a_timeout() {
    let c = story([
        up(20_000, 0, 1460),
        up(20_001, 1460, 1460),
        up(20_002, 2920, 1460),
        up(231_000, 0, 1460),
        answer(241_000, 1460),
        up(241_010, 1460, 1460),
        up(241_011, 2920, 1460),
        answer(251_011, 4380),
    ]);
    assert_eq!(causes(&c), [Cause::Timeout, Cause::AfterTimeout, Cause::AfterTimeout]);
    assert_eq!(c.marks[0].text, "stall, 211 ms, retransmission timeout of 1460 bytes");
    assert_eq!(c.marks[0].at, Span::from_micros(20_000), "the wait began when it was sent first");
    assert_eq!(c.tallies[&Cause::Timeout].count, 1);
}

#[test]
fn the_last_segment_sent_again_early_is_a_probe() {
    let c = story([
        up(20_000, 0, 1460),
        up(20_001, 1460, 700),
        up(45_000, 1460, 700),
        answer(55_000, 2160),
    ]);
    assert_eq!(causes(&c), [Cause::TailProbe]);
}

/// The other segments of the reply are acknowledged: Linux sends the last one again as a probe when its timer would run out, and does not shrink its window.
#[test]
fn a_lone_segment_sent_again_after_a_timers_time_is_a_timeout_or_a_probe() {
    let begun = [up(20_000, 0, 1460), up(20_001, 1460, 700), answer(30_000, 1460)];
    let c = story(begun.clone().into_iter().chain([up(231_000, 1460, 700), answer(241_000, 2160)]));
    assert_eq!(causes(&c), [Cause::TimeoutOrProbe]);
    assert_eq!(texts_of(&c), ["stall, 211 ms, a timeout or a tail loss probe of 700 bytes"]);
    assert_eq!(c.marks[0].at, Span::from_micros(20_001));
    // A probe comes once: behind it the timer runs out.
    let twice = [up(231_000, 1460, 700), up(660_000, 1460, 700), answer(670_000, 2160)];
    let c = story(begun.into_iter().chain(twice));
    assert_eq!(causes(&c), [Cause::TimeoutOrProbe, Cause::Timeout]);
}

#[test]
fn dsack_shows_that_a_retransmission_was_needless() {
    let c = story([
        up(20_000, 0, 1000),
        up(230_000, 0, 1000),
        answer(235_000, 1000),
        answer(240_000, 1000).sack(&[(1001, 2001)]),
    ]);
    assert!(c.marks[0].spurious && c.marks[0].cause == Cause::TimeoutOrProbe, "{:?}", c.marks);
    let said = "stall, 210 ms, a timeout or a tail loss probe of 1000 bytes, needlessly";
    assert_eq!(texts_of(&c), [said]);
    assert_eq!(c.client_to_server.spurious, 1);
}

#[test]
fn a_double_that_the_server_got_before_a_retransmission_can_be_there_does_not_make_it_needless() {
    // The network doubled the segment itself; what was sent again 5 ms ago has 5 ms to go.
    let sent_and_doubled =
        [up(20_000, 0, 1000), up(230_000, 0, 1000), answer(235_000, 1000).sack(&[(1001, 2001)])];
    let c = story(sent_and_doubled.clone());
    assert_eq!((causes(&c), c.client_to_server.spurious), (vec![Cause::TimeoutOrProbe], 0));
    assert!(!c.marks[0].spurious, "{:?}", c.marks);
    let arrived = answer(240_000, 1000).sack(&[(1001, 2001)]);
    let c = story(sent_and_doubled.into_iter().chain([arrived]));
    assert!(c.marks[0].spurious && c.client_to_server.spurious == 1, "{:?}", c.marks);
}

#[test]
fn timestamps_show_it_too_and_tell_which_one_was_answered() {
    let c = story([
        up(20_000, 0, 1000).stamps(100, 7),
        up(230_000, 0, 1000).stamps(310, 7),
        answer(235_000, 1000).stamps(8, 100),
    ]);
    assert!(c.marks[0].spurious);
    assert_eq!(c.client_to_server.rtt.max, Some(Span::from_millis(215)));
    let c = story([
        up(20_000, 0, 1000).stamps(100, 7),
        up(230_000, 0, 1000).stamps(310, 7),
        answer(241_000, 1000).stamps(8, 310),
    ]);
    assert!(!c.marks[0].spurious);
    assert_eq!(c.client_to_server.rtt.max, Some(Span::from_millis(11)));
}

#[test]
fn without_timestamps_a_segment_sent_twice_tells_no_rtt() {
    let c = story([up(20_000, 0, 1000), up(230_000, 0, 1000), answer(240_000, 1000)]);
    assert_eq!(c.client_to_server.rtt.count, 0);
}

#[test]
fn data_that_was_overtaken_is_out_of_order() {
    let c = story([up(20_000, 1460, 1460), up(20_100, 0, 1460), answer(30_100, 2920)]);
    assert_eq!(causes(&c), [Cause::OutOfOrder]);
    assert_eq!((c.client_to_server.out_of_order, c.client_to_server.bytes_again), (1, 0));
    assert_eq!(c.client_to_server.bytes, 2920);
    assert_eq!(c.client_to_server.missed_bytes, 0);
}

#[test]
fn data_that_fills_a_gap_late_was_lost_before_the_capture() {
    let c = story([up(20_000, 1460, 1460), up(60_000, 0, 1460), answer(70_000, 2920)]);
    assert!(causes(&c)[0].is_retransmission(), "{:?}", c.marks);
    // An older timestamp is proof of the opposite, however late it comes.
    let c = story([up(20_000, 1460, 1460).stamps(9, 1), up(60_000, 0, 1460).stamps(8, 1)]);
    assert_eq!(causes(&c), [Cause::OutOfOrder]);
}

#[test]
fn what_passed_before_was_not_lost_before_the_capture() {
    // Near the receiver: its ACK gets lost on the way back.
    let needless = |us| [up(us, 0, 1460), answer(us + 10_000, 1460)];
    let c = story([needless(20_000), needless(241_000)].into_iter().flatten());
    assert_eq!(texts_of(&c), ["stall, 221 ms, a timeout or a tail loss probe of 1460 bytes"]);
    assert_eq!(c.marks[0].evidence, "packet 4, and again packet 6");
    // The same so much later that nobody remembers the packet.
    let many = (0..40).flat_map(|i| [up(20_000 + i, i as u32 * 1460, 1460)]);
    let all = [answer(30_100, 40 * 1460), up(241_000, 0, 1460)];
    let c = story(many.chain(all));
    let said = "packet 45 carries what had passed before, too long ago to say in which packet";
    assert_eq!(c.marks.iter().map(|m| &m.evidence[..]).collect::<Vec<_>>(), [said]);
    // The other end got twice what the capture has once.
    let arrived = answer(90_000, 2920).sack(&[(1001, 1001 + 1460)]);
    let c = story([up(20_000, 1460, 1460), up(60_000, 0, 1460), answer(70_000, 2920), arrived]);
    let said =
        "packet 5 fills a gap; what was sent first is not in the capture, and arrived all the same";
    assert_eq!(c.marks.iter().map(|m| &m.evidence[..]).collect::<Vec<_>>(), [said]);
}

#[test]
fn what_is_acknowledged_and_was_never_seen_was_missed_by_the_capture() {
    let c = story([
        up(20_000, 0, 100),
        answer(30_000, 3020),
        up(50_000, 3020, 100),
        answer(60_000, 3120),
    ]);
    assert_eq!(c.client_to_server.missed_bytes, 2920);
    assert_eq!(c.retransmissions, 0);
}

#[test]
fn a_window_that_was_zero_is_a_stall_of_the_sender() {
    let c = story([
        up(20_000, 0, 1460),
        answer(30_000, 1460).window(0),
        told(230_000, Client, ACK, 1001 + 1459, 5001, 0),
        answer(240_000, 1460).window(0),
        answer(530_000, 1460).window(8192),
        up(530_010, 1460, 1460),
        answer(540_010, 2920),
    ]);
    assert_eq!(texts_of(&c), ["stall, 500 ms, zero window"]);
    let mark = &c.marks[0];
    assert_eq!((mark.side, mark.open), (Side::Client, false));
    assert_eq!(mark.packets, [5, 8, 6]);
    assert!(mark.who.contains("program at 10.0.0.2:7890"), "{}", mark.who);
    assert_eq!(c.server_to_client.zero_windows, 1);
    assert_eq!(c.client_to_server.probes, 1);
}

#[test]
fn a_window_that_is_zero_for_a_moment_is_counted_and_no_stall() {
    let c = story([
        up(20_000, 0, 1460),
        answer(30_000, 1460).window(0),
        answer(30_900, 1460).window(8192),
        up(30_910, 1460, 1460),
    ]);
    assert_eq!(causes(&c), []);
    assert_eq!(c.server_to_client.zero_windows, 1);
    assert_eq!(c.server_to_client.zero_window, Span::from_micros(900));
}

/// Thirty round trips of 10 ms, in each so many full segments, all acknowledged at its end with a window of 32120 bytes.
fn rounds(segments: u32) -> ConnectionReport {
    let mut packets = Vec::new();
    for round in 0..30 {
        let (at, sent) = (20_000 + 10_000 * u64::from(round), round * segments * 1460);
        let one = |n: u32| up(at + u64::from(n), sent + n * 1460, 1460);
        packets.extend((0..segments).map(one));
        packets.push(answer(at + 10_000, sent + segments * 1460));
    }
    story(packets)
}

#[test]
fn a_transfer_that_the_receivers_window_holds_up_is_told_with_the_window() {
    // 22 segments are all that fits.
    let c = rounds(22);
    assert_eq!(texts_of(&c), ["held up for 299 ms by a full window of 32120 bytes"]);
    let mark = &c.marks[0];
    assert_eq!((mark.side, mark.cause), (Side::Client, Cause::FullWindow));
    assert!(mark.evidence.contains("full for 99 % of the 300 ms"), "{}", mark.evidence);
    assert!(mark.advice.as_ref().is_some_and(|a| a.contains("SO_RCVBUF")), "{:?}", mark.advice);
    // Where less is under way, it is the sender, or its congestion window.
    assert_eq!(causes(&rounds(20)), []);
}

#[test]
fn a_window_that_stays_zero_lasts_to_the_end() {
    let c = story([
        up(20_000, 0, 1460),
        answer(30_000, 1460).window(0),
        up(230_000, 1460, 1).window(9),
    ]);
    assert!(c.marks[0].open && c.marks[0].waited == Some(Span::from_millis(200)), "{:?}", c.marks);
}

#[test]
fn windows_are_scaled_if_both_ends_agreed() {
    let scaled = |answer: Told| {
        let all = [
            told(0, Client, SYN, 1000, 0, 0).mss(MSS).scale(7),
            answer,
            told(10_000, Client, ACK, 1001, 5001, 0).window(1000),
        ];
        report(&raw(&all)).connections[0].client_to_server.clone()
    };
    let answer = told(10_000, Server, SYN | ACK, 5000, 1001, 0).mss(MSS);
    assert_eq!(scaled(answer.clone().scale(3)).largest_window, 128_000);
    assert_eq!(scaled(answer).largest_window, 1000);
}

#[test]
fn a_syn_that_is_not_answered_is_sent_again() {
    let syn = |us| told(us, Client, SYN, 1000, 0, 0).mss(MSS);
    let all = [
        syn(0),
        syn(1_000_000),
        told(1_010_000, Server, SYN | ACK, 5000, 1001, 0).mss(MSS),
        told(1_010_000, Client, ACK, 1001, 5001, 0),
    ];
    let report = report(&raw(&all));
    assert_eq!(texts(&report), ["stall, 1.00 s, SYN sent again"]);
    assert_eq!(
        report.connections[0].handshake.to_server, None,
        "nobody knows which SYN was answered"
    );
}

#[test]
fn a_small_segment_that_leaves_upon_the_ack_of_an_earlier_one_may_have_been_held_behind_several() {
    // Two writes of 3024 bytes: 2 full segments and 104 bytes each.
    let told_of = |last: u64| {
        story([
            up(20_000, 0, MSS),
            up(20_010, 1460, MSS),
            up(20_020, 2920, 104),
            up(20_030, 3024, MSS),
            up(20_040, 4484, MSS),
            answer(120_000, 1460),
            answer(150_000, 2920),
            answer(160_000, 3024),
            up(last, 5944, 104),
            answer(200_000, 4484),
            answer(240_000, 5944),
            answer(250_000, 6048),
        ])
    };
    let c = told_of(160_010);
    assert_eq!(causes(&c), [Cause::PerhapsNagle], "{:?}", c.marks);
    assert!(c.marks[0].text.starts_with("perhaps a wait, 140 ms"), "{:?}", c.marks);
    assert_eq!(causes(&told_of(175_000)), [], "its program wrote it later");
}

/// A SYN, an answer, and the ACK of that, with timestamps.
fn stamped_syn(us: u64, stamp: u32) -> Told {
    told(us, Client, SYN, 1000, 0, 0).mss(MSS).stamps(stamp, 0)
}

fn stamped_answer(us: u64, stamp: u32, echo: u32) -> Told {
    told(us, Server, SYN | ACK, 5000, 1001, 0).mss(MSS).stamps(stamp, echo)
}

fn stamped_ack(us: u64, stamp: u32, echo: u32) -> Told {
    told(us, Client, ACK, 1001, 5001, 0).stamps(stamp, echo)
}

/// What is said of these, and what to do.
fn opened(packets: &[Told]) -> Vec<String> {
    let report = report(&raw(packets));
    let marks = report.connections.iter().flat_map(|c| &c.marks);
    marks
        .map(|m| format!("{}: {}. {}", m.text, m.who, m.advice.clone().unwrap_or_default()))
        .collect()
}

#[test]
fn an_answer_to_a_syn_that_came_again_is_no_stall_of_the_server_and_no_full_queue() {
    // Near the client of a path of 1.2 s: both SYNs are answered.
    let late = [
        stamped_syn(0, 100),
        stamped_syn(1_000_000, 1100),
        stamped_answer(1_200_000, 7, 100),
        stamped_ack(1_200_000, 1300, 7),
        stamped_answer(2_200_000, 1007, 100),
    ];
    let said = opened(&late);
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(
        said[0].starts_with("SYN sent again after 1.00 s, though one had arrived"),
        "{said:#?}"
    );
    assert!(said[1].starts_with("SYN-ACK sent again behind a second SYN"), "{said:#?}");
    assert!(
        said.iter().all(|said| !said.contains("queue") && !said.contains("stall")),
        "{said:#?}"
    );
}

#[test]
fn of_a_syn_that_comes_again_only_what_the_capture_shows_is_said() {
    let lost = [
        stamped_syn(0, 100),
        stamped_syn(1_000_000, 1100),
        stamped_answer(1_020_000, 7, 1100),
        stamped_ack(1_020_000, 1120, 7),
    ];
    let said = opened(&lost);
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].starts_with("stall, 1.00 s, SYN sent again"), "{said:#?}");
    assert!(said[0].contains("see whether the SYN arrives"), "{said:#?}");
    // Near the server: its first answer did not come to the client.
    let answered = [
        stamped_syn(0, 100),
        stamped_answer(10, 7, 100),
        stamped_syn(1_000_000, 1100),
        stamped_answer(1_000_010, 1007, 100),
        stamped_ack(1_020_000, 1120, 1007),
    ];
    let said = opened(&answered);
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(said[0].contains("though the answer of 10.0.0.2:7890 had passed here"), "{said:#?}");
    assert!(said[1].starts_with("SYN-ACK sent again behind a second SYN"), "{said:#?}");
}

#[test]
fn a_server_whose_timer_runs_out_before_the_ack_can_have_come_has_no_full_queue() {
    // As the lab had it in the middle of a path of 1.2 s: both timers run out, and each SYN is answered.
    let slow = [
        stamped_syn(0, 100),
        stamped_answer(600_000, 7, 100),
        stamped_syn(1_080_000, 1180),
        stamped_ack(1_200_000, 1300, 7),
        stamped_answer(1_640_000, 1047, 100),
        stamped_answer(1_680_000, 1087, 100),
    ];
    let said = opened(&slow);
    assert_eq!(said.len(), 3, "{said:#?}");
    assert!(
        said.iter().all(|said| !said.contains("queue") && !said.contains("stall")),
        "{said:#?}"
    );
    assert!(said.iter().any(|said| said.contains("can have come")), "{said:#?}");
}

#[test]
fn a_server_that_sends_its_answer_again_though_the_ack_passed_may_have_a_full_queue() {
    let full = [
        stamped_syn(0, 100),
        stamped_answer(10, 7, 100),
        stamped_ack(20_000, 120, 7),
        stamped_answer(1_000_010, 1007, 100),
    ];
    let said = opened(&full);
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].starts_with("stall, 1.00 s, SYN-ACK sent again"), "{said:#?}");
    assert!(said[0].contains("though the ACK of 10.0.0.1:1033 had passed here"), "{said:#?}");
    assert!(said[0].contains("ListenOverflows"), "{said:#?}");
    let silent =
        [stamped_syn(0, 100), stamped_answer(10, 7, 100), stamped_answer(1_000_010, 1007, 100)];
    let said = opened(&silent);
    assert!(
        said[0].contains("heard nothing from 10.0.0.1:1033") && !said[0].contains("queue"),
        "{said:#?}"
    );
}

#[test]
fn a_reset_is_told_once() {
    let c = story([
        up(20_000, 0, 100),
        told(30_000, Server, RST | ACK, 5001, 1101, 0),
        told(30_001, Server, RST, 5001, 0, 0),
    ]);
    assert_eq!((causes(&c), c.ending), (vec![Cause::Reset], Ending::Reset));
    assert_eq!(c.marks[0].side, Side::Server);
}

#[test]
fn a_port_where_nobody_listens_refuses() {
    let syn = told(0, Client, SYN, 1000, 0, 0).mss(MSS);
    let report = report(&raw(&[syn, told(10, Server, RST | ACK, 0, 1001, 0)]));
    assert_eq!(texts(&report), ["refused"]);
    assert!(report.connections[0].marks[0].who.starts_with("10.0.0.2:7890 did not let"));
}

#[test]
fn keep_alives_are_no_retransmissions() {
    let c = story([
        up(20_000, 0, 100),
        told(30_000, Server, ACK | PSH, 5001, 1101, 100),
        told(30_000, Client, ACK, 1101, 5101, 0),
        told(9_030_000, Client, ACK, 1100, 5101, 0),
        told(9_040_000, Server, ACK, 5101, 1101, 0),
        told(19_030_000, Client, ACK, 1100, 5101, 1),
        told(19_040_000, Server, ACK, 5101, 1101, 0),
    ]);
    assert_eq!(causes(&c), []);
    assert_eq!(c.client_to_server.keep_alives, 2);
    assert_eq!(c.server_to_client.duplicate_acks, 0);
}

#[test]
fn a_packet_that_was_captured_twice_counts_once() {
    let c = story([
        up(20_000, 0, 100).id(7),
        up(20_003, 0, 100).id(7),
        answer(30_000, 100).id(9),
        answer(30_002, 100).id(9),
    ]);
    assert_eq!(causes(&c), []);
    assert_eq!((c.client_to_server.captured_twice, c.server_to_client.captured_twice), (1, 1));
    assert_eq!(c.client_to_server.bytes, 100);
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
    let report = report(&raw(&all));
    let c = &report.connections[0];
    assert_eq!(causes(c), []);
    assert_eq!((c.client_to_server.bytes, c.client_to_server.rtt.count), (5840, 4));
}

#[test]
fn one_direction_alone_is_read_as_well() {
    let c = story([]);
    assert_eq!(c.ending, Ending::Open);
    let alone: Vec<_> = (0..2000_u32).map(|i| up(u64::from(i) * 10, i * 1460, 1460)).collect();
    let report = report(&raw(&alone));
    assert_eq!(report.connections[0].client_to_server.bytes, 2_920_000);
    assert_eq!(texts(&report), Vec::<String>::new());
}

#[test]
fn too_many_connections_are_given_up_and_that_is_told() {
    let all: Vec<_> = (0..100_u16).map(|i| up(u64::from(i), 0, 10).port(2000 + i)).collect();
    let limits = Limits { live: 10, listed: 30, ..Limits::default() };
    let outcome = analyse(&raw(&all)[..], &Options { only: None, limits }).expect("a capture");
    let report = outcome.report;
    assert_eq!((report.connections_seen, report.connections_given_up), (100, 90));
    assert_eq!((report.connections.len(), report.connections_not_listed), (30, 70));
}

#[test]
fn marks_beyond_the_limit_are_counted() {
    let mut all = opening();
    for i in 0..50_u32 {
        let us = 20_000 + u64::from(i) * 100_000;
        all.extend([up(us, i * 100, 100), answer(us + 50_000, (i + 1) * 100)]);
        all.push(up(us + 50_010, (i + 1) * 100, 0));
    }
    // Each next segment follows 50 ms after the ACK: nobody waited. Then resets of order, one a segment.
    for i in 0..50_u32 {
        let us = 9_000_000 + u64::from(i) * 100_000;
        all.extend([up(us, 5000 + i * 200 + 100, 100), up(us + 10, 5000 + i * 200, 100)]);
        all.push(answer(us + 10_000, 5000 + (i + 1) * 200));
    }
    let limits = Limits { marks: 7, ..Limits::default() };
    let outcome = analyse(&raw(&all)[..], &Options { only: Some(1), limits }).expect("a capture");
    let c = &outcome.report.connections[0];
    assert_eq!((c.marks.len(), c.marks_not_listed), (7, 43));
    assert_eq!(c.tallies[&Cause::OutOfOrder].count, 50);
    let text = connection_text(c, WIDEST);
    assert!(text.contains("43 marks that are only counted"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn on_a_narrow_terminal_the_figures_of_a_connection_stand_below_its_ends_and_none_is_cut() {
    let mut packets = opening();
    packets.extend([up(2_000_000, 0, 1448), answer(2_010_000, 1448)]);
    packets.extend([up(2_100_000, 1448, 1448), up(2_400_000, 1448, 1448), answer(2_410_000, 2896)]);
    let report = report(&raw(&packets));
    let words = |text: &str| {
        text.split_whitespace().filter(|w| !w.contains('─')).map(str::to_owned).collect::<Vec<_>>()
    };
    let (wide, narrow) = (overview_text(&report, WIDEST), overview_text(&report, 80));
    let mut told = words(&narrow);
    told.retain(|word| word != "→");
    assert_eq!(told, words(&wide), "the same words: {narrow}");
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    let c = &report.connections[0];
    assert!(narrow.contains(&format!("    1  {} → {}\n", c.client, c.server)), "{narrow}");
    assert!(connection_text(c, 60).lines().all(|line| line.chars().count() <= 60));
}

/// As the lab had it: the clock is set back by 3 s between two packets.
#[test]
fn behind_a_clock_that_was_set_back_waits_are_what_they_were_and_the_whole_is_a_least_time() {
    let mut packets = opening();
    packets.extend([up(2_000_000, 0, 1448), answer(2_010_000, 1448)]);
    packets.extend([up(2_100_000, 1448, 1448), up(2_400_000, 1448, 1448), answer(2_410_000, 2896)]);
    let told = |back_us: u64| {
        let mut frames = common::frames(&packets);
        frames.iter_mut().for_each(|(time, _)| *time += 3_000_000_000);
        frames.iter_mut().skip(5).for_each(|(time, _)| *time -= back_us * 1000);
        let file = common::pcap(common::LITTLE, false, 101, 65535, &frames);
        analyse(&file[..], &Options::default()).expect("a capture").report
    };
    let (whole, stepped) = (told(0), told(3_000_000));
    assert_eq!((stepped.clock_set_back, stepped.clock_steps), (1, 1));
    let longest = |report: &quell_trace::Report| {
        report.connections[0].marks.iter().filter_map(|mark| mark.waited).max()
    };
    assert_eq!(longest(&whole), Some(Span::from_millis(300)));
    assert_eq!(longest(&stepped), longest(&whole));
    // What passed between the two packets is left out.
    let least = Some(Span::from_millis(2410 - 90));
    assert_eq!((whole.duration, stepped.duration), (Some(Span::from_millis(2410)), least));
    assert_eq!(stepped.connections[0].duration, least);
    let text = overview_text(&stepped, WIDEST);
    assert!(
        text.contains("in at least 2.32 s") && text.contains("clock that was set back"),
        "{text}"
    );
    // Set back twice, it is not known at all.
    let merged =
        [raw(&packets), raw(&packets)[24..].to_vec(), raw(&packets)[24..].to_vec()].concat();
    let merged = report(&merged);
    assert_eq!((merged.clock_steps, merged.duration), (2, None));
}
