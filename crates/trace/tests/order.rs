//! Connections seen from the middle and from near the receiver, where what the sender knows passes late.
//!
//! ```text
//!   client ──── 20 ms ──── here ──── 20 ms ──── server          (middle)
//!   client ──── 40 ms ──── here ── server                       (near the receiver)
//! ```

mod common;

use common::From::{Client, Server};
use common::{ACK, PSH, SYN, Told, raw, report, told};
use quell_trace::{Cause, ConnectionReport};

const FULL: u16 = 1448;

/// An opening seen from where the client is `near` µs away, the server `far`, there and back; timestamps tick every ms.
fn opening(near: u64, far: u64) -> Vec<Told> {
    vec![
        told(0, Client, SYN, 1000, 0, 0).mss(1460).stamps(0, 0),
        told(far, Server, SYN | ACK, 5000, 1001, 0).mss(1460).stamps(0, 0),
        told(far + near, Client, ACK, 1001, 5001, 0).stamps(((far + near) / 1000) as u32, 0),
    ]
}

fn story(opening: Vec<Told>, packets: impl IntoIterator<Item = Told>) -> ConnectionReport {
    let all: Vec<Told> = opening.into_iter().chain(packets).collect();
    report(&raw(&all)).connections.remove(0)
}

fn causes(connection: &ConnectionReport) -> Vec<Cause> {
    connection.marks.iter().map(|m| m.cause).collect()
}

/// A segment of the client, its data from `at`, stamped by a clock of milliseconds that began with the capture.
fn up(us: u64, at: u32, length: u16, sent_ms: u32, echo: u32) -> Told {
    told(us, Client, ACK | PSH, 1001 + at, 5001, length).stamps(sent_ms, echo)
}

fn answer(us: u64, at: u32, sent_ms: u32, echo: u32) -> Told {
    told(us, Server, ACK, 5001, 1001 + at, 0).stamps(sent_ms, echo)
}

fn without_stamps(packets: Vec<Told>) -> Vec<Told> {
    packets.into_iter().map(|p| Told { options: vec![], ..p }).collect()
}

/// In the middle of 40 ms, small segments one after the other, each `pause` µs after the one before.
fn calm(pause: u64) -> Vec<Told> {
    let mut packets = Vec::new();
    for i in 0..20_u64 {
        let (us, at) = (100_000 + i * pause, i as u32 * 100);
        let echo = ((us - 20_000) / pause * pause / 1000) as u32;
        packets.push(up(us, at, 100, (us / 1000 - 10) as u32, echo.saturating_sub(200)));
        packets.push(answer(us + 20_000, at + 100, (us / 1000) as u32 + 10, 0));
    }
    packets
}

#[test]
fn a_segment_that_left_before_the_ack_came_was_not_held_for_it() {
    // Each passes 5 ms after the ACK of the one before, which has 20 ms to go to the client and back.
    let packets = calm(25_000);
    let c = story(opening(20_000, 20_000), packets.clone());
    assert_eq!(causes(&c), [], "{:?}", c.marks.first());
    let c = story(without_stamps(opening(20_000, 20_000)), without_stamps(packets));
    assert_eq!(causes(&c), [], "{:?}", c.marks.first());
}

#[test]
fn a_segment_that_echoes_the_ack_it_waited_for_was_held_wherever_it_is_seen() {
    // 20 ms to the server and back, 40 ms of its ACK's delay, 20 ms to the client and back.
    let packets = [
        up(100_000, 0, 100, 90, 50),
        answer(160_000, 100, 150, 90),
        up(180_000, 100, 100, 170, 150),
        answer(200_000, 200, 190, 170),
    ];
    let c = story(opening(20_000, 20_000), packets.clone());
    assert_eq!(causes(&c), [Cause::Nagle]);
    let c = story(without_stamps(opening(20_000, 20_000)), without_stamps(packets.to_vec()));
    assert_eq!(causes(&c), [Cause::Nagle], "the path's time tells it too");
}

/// Near the receiver: every tenth segment is overtaken by the four that were sent after it within the same millisecond, and
/// the receiver answers each with a duplicate ACK.
fn overtaken() -> Vec<Told> {
    let mut packets = Vec::new();
    for round in 0..20_u32 {
        let (us, first) = (100_000 + u64::from(round) * 50_000, round * 10);
        let sent = (us / 1000) as u32 - 20;
        let at = |i: u32| (first + i) * u32::from(FULL);
        for (place, i) in [1_u32, 2, 3, 4, 0, 5, 6, 7, 8, 9].into_iter().enumerate() {
            let us = us + place as u64 * 100;
            packets.push(up(us, at(i), FULL, sent, 20).id((1 + first + i) as u16));
            if place < 4 {
                let sack = [(1001 + at(1), 1001 + at(i + 1))];
                packets.push(answer(us + 10, at(0), sent, sent).sack(&sack));
            }
        }
        packets.push(answer(us + 1010, at(10), sent, sent));
    }
    packets
}

#[test]
fn near_the_receiver_what_arrives_far_sooner_than_a_round_trip_was_not_sent_again() {
    let near = || opening(40_000, 100);
    let c = story(near(), overtaken());
    assert_eq!((c.retransmissions, c.client_to_server.out_of_order), (0, 20));
    let plain: Vec<Told> = without_stamps(overtaken());
    let c = story(without_stamps(near()), plain.clone());
    assert_eq!((c.retransmissions, c.client_to_server.out_of_order), (0, 20), "by identifications");
    let bare = plain.into_iter().map(|p| p.id(0));
    let c = story(without_stamps(near()), bare);
    assert_eq!((c.retransmissions, c.client_to_server.out_of_order), (0, 20), "by the time alone");
}

#[test]
fn near_the_receiver_what_was_lost_before_comes_a_round_trip_later() {
    let at = |i: u32| i * u32::from(FULL);
    let lost = |id: fn(u16) -> u16| {
        let mut packets: Vec<Told> =
            (1..6).map(|i| up(100_000, at(i), FULL, 80, 20).id(id(i as u16 + 1))).collect();
        packets.extend(
            (2..7).map(|i| answer(100_010, 0, 80, 60).sack(&[(1001 + at(1), 1001 + at(i))])),
        );
        packets.push(up(140_200, 0, FULL, 120, 80).id(id(7)));
        packets.push(answer(140_210, at(6), 120, 120));
        packets
    };
    let c = story(opening(40_000, 100), lost(|id| id));
    assert_eq!(causes(&c), [Cause::FastRetransmit]);
    let c = story(without_stamps(opening(40_000, 100)), without_stamps(lost(|_| 0)));
    assert!(causes(&c).len() == 1 && causes(&c)[0].is_retransmission(), "{:?}", c.marks);
}

#[test]
fn duplicate_acks_that_the_sender_has_not_yet_seen_are_no_cause() {
    // The segment is sent again by a timer while the receiver's duplicate ACKs are on their way.
    let at = |i: u32| i * u32::from(FULL);
    let mut packets = vec![up(100_000, 0, FULL, 80, 20)];
    packets.extend((2..6).map(|i| up(299_000, at(i), FULL, 279, 20)));
    packets.extend(
        (3..7).map(|i| answer(299_010, at(1), 279, 80).sack(&[(1001 + at(2), 1001 + at(i))])),
    );
    packets.push(up(310_000, at(1), FULL, 290, 20));
    let c = story(opening(40_000, 100), packets);
    assert_eq!(c.retransmissions, 1);
    assert!(!causes(&c).contains(&Cause::FastRetransmit), "{:?}", c.marks);
}

#[test]
fn a_packet_that_the_network_doubled_was_not_sent_again() {
    let mut packets = Vec::new();
    for i in 0..20_u32 {
        let (us, at) = (100_000 + u64::from(i) * 50_000, i * 100);
        let one = |later| up(us + later, at, 100, (us / 1000) as u32 - 20, 20);
        packets.extend([one(0), answer(us + 10, at + 100, 0, 0), one(9_000)]);
    }
    let c = story(opening(40_000, 100), packets);
    assert_eq!(c.retransmissions, 0, "{:?}", c.marks.first());
    assert_eq!(c.client_to_server.captured_twice, 20);
}

#[test]
fn an_overtaken_ack_does_not_open_or_close_a_window() {
    let c = story(
        opening(40_000, 100),
        [
            up(100_000, 0, FULL, 80, 20),
            up(100_100, 1448, FULL, 80, 20),
            answer(100_210, 2896, 80, 80).window(0),
            answer(100_220, 1448, 80, 80).window(500),
            answer(400_000, 2896, 380, 80).window(8000),
        ],
    );
    assert_eq!(c.server_to_client.zero_windows, 1);
    assert_eq!(c.tallies[&Cause::ZeroWindow].waited.nanos(), 299_790_000);
}

#[test]
fn a_delayed_ack_that_echoes_an_earlier_segment_proves_nothing_about_the_second() {
    // Both were sent within one millisecond; the second was lost, sent again, and both are acknowledged together.
    let c = story(
        opening(100, 40_000),
        [
            up(100_000, 0, 100, 100, 20),
            up(100_050, 100, 100, 100, 20),
            up(350_000, 100, 100, 350, 20),
            answer(390_000, 200, 370, 100),
        ],
    );
    assert_eq!((c.retransmissions, c.client_to_server.spurious), (1, 0));
}

/// Near the receiver, as the lab has it where a router near the sender says that what is full is too big (MTU 1280): of a message of 3032 bytes only the tail
/// of 136 comes; then, within the same millisecond of the sender's clock, the rest in pieces.
fn pieces(id: fn(u16) -> u16) -> Vec<Told> {
    let mut packets = opening(20_000, 100);
    for (packet, count) in packets.iter_mut().zip([42923, 0, 42924]) {
        packet.id = id(count);
    }
    let pieces = [
        (20_274, 2896, 136, 42927),
        (21_309, 0, 1228, 42928),
        (21_538, 1228, 220, 42929),
        (22_573, 1448, 1228, 42930),
        (22_911, 2676, 356, 42931),
    ];
    for (us, at, length, count) in pieces {
        packets.push(up(us, at, length, 20, 0).id(id(count)));
        let acked = if at == 2896 { 0 } else { at + u32::from(length) };
        packets.push(answer(us, acked, 20, 20).sack(&[(1001 + 2896, 1001 + 3032)]));
    }
    packets
}

#[test]
fn pieces_of_what_was_too_big_were_sent_again_as_three_identifications_tell() {
    let c = report(&raw(&pieces(|id| id))).connections.remove(0);
    assert_eq!((c.retransmissions, c.client_to_server.out_of_order), (4, 0), "{:?}", c.marks);
    assert!(c.marks.iter().all(|mark| mark.cause.is_retransmission()));
    assert_eq!(c.client_to_server.bytes, 3032, "each byte once");
    // Of the last piece the tail came twice, as the last ACK says, and the rest did not.
    assert_eq!(c.client_to_server.spurious, 0, "{:?}", c.marks);
    let said = c.marks.iter().map(|mark| mark.text.as_str()).collect::<Vec<_>>().join("\n");
    assert!(!said.contains("swapped"), "{said}");
}

#[test]
fn pieces_without_identifications_may_have_been_overtaken_and_nothing_is_advised() {
    let c = report(&raw(&pieces(|_| 0))).connections.remove(0);
    assert_eq!(causes(&c), [Cause::PerhapsOutOfOrder; 4]);
    assert_eq!((c.retransmissions, c.client_to_server.out_of_order), (0, 0));
    assert_eq!(c.client_to_server.bytes, 3032);
    assert!(c.findings.iter().all(|found| found.finding.remedies.is_empty()), "{:?}", c.findings);
}

#[test]
fn a_fin_alone_that_fills_a_gap_is_no_piece() {
    let fin = |us, at: u32| told(us, Client, ACK | common::FIN, 1001 + at, 5001, 0);
    let c = story(without_stamps(opening(40_000, 100)), [fin(100_000, 10), fin(100_100, 0)]);
    assert_eq!(c.retransmissions, 0, "{:?}", c.marks);
}

/// Four segments near the receiver, of which the first is late: it is sent again, and comes behind that.
fn overtaken_by_its_resend(stamped: bool) -> ConnectionReport {
    let with = |told: Told, id: u16, ms: u32| match stamped {
        true => told.id(id).stamps(ms, 7),
        // Identifications alone tell then.
        false => told.id(id),
    };
    let up = |us: u64, at: u32| told(us, Client, ACK | PSH, 1001 + at, 5001, 1448);
    let answer = |us: u64, at: u32| told(us, Server, ACK, 5001, 1001 + at, 0);
    let mut packets: Vec<Told> = (1..6)
        .map(|i| with(up(100_000 + u64::from(i), i * 1448), 100 + i as u16, 60 + i))
        .collect();
    packets.push(answer(100_010, 0).sack(&[(1001 + 1448, 1001 + 6 * 1448)]));
    packets.push(with(up(150_000, 0), 106, 105));
    packets.push(answer(150_010, 6 * 1448));
    packets.push(with(up(151_000, 0), 100, 60));
    packets.push(answer(151_010, 6 * 1448).sack(&[(1001, 1001 + 1448)]));
    let opening = match stamped {
        true => opening(40_000, 10),
        false => without_stamps(opening(40_000, 10)),
    };
    story(opening, packets)
}

#[test]
fn what_was_sent_first_and_comes_behind_what_was_sent_again_for_it_is_late_and_not_sent_again() {
    for stamped in [true, false] {
        let c = overtaken_by_its_resend(stamped);
        assert_eq!(
            causes(&c),
            [Cause::FastRetransmit, Cause::OutOfOrder],
            "{stamped}: {:?}",
            c.marks
        );
        let up = &c.client_to_server;
        assert_eq!((c.retransmissions, up.spurious, up.out_of_order), (1, 0, 1), "{stamped}");
        // Of what was not lost it is not said that it was.
        assert_eq!(
            c.marks[0].evidence,
            "packet 10 came before packet 12, which was sent first: that was late"
        );
        assert!(
            c.marks[1].evidence.starts_with("packet 12 was sent before packet 10"),
            "{}",
            c.marks[1].evidence
        );
        assert!(!c.marks[0].spurious && !c.marks[0].perhaps_spurious, "{:?}", c.marks[0]);
    }
}

#[test]
fn what_is_sent_again_twice_and_swapped_was_sent_again_twice() {
    let up = |us: u64, at: u32, ms: u32| {
        told(us, Client, ACK | PSH, 1001 + at, 5001, 1448).stamps(ms, 7)
    };
    let mut packets: Vec<Told> =
        (1..6).map(|i| up(100_000 + u64::from(i), i * 1448, 60 + i)).collect();
    packets.extend([up(150_000, 0, 120), up(150_100, 0, 105)]);
    let c = story(opening(40_000, 10), packets);
    assert_eq!((c.retransmissions, c.client_to_server.out_of_order), (2, 0), "{:?}", c.marks);
}

#[test]
fn what_overtakes_all_else_and_its_own_first_is_the_one_that_was_sent_again() {
    let up = |us: u64, at: u32, id: u16, ms: u32| {
        told(us, Client, ACK | PSH, 1001 + at, 5001, 1448).id(id).stamps(ms, 7)
    };
    let mut packets: Vec<Told> =
        (0..5).map(|i| up(100_000 + u64::from(i), i * 1448, 100 + i as u16, 60 + i)).collect();
    packets.push(up(150_000, 5 * 1448, 106, 110));
    packets.push(up(151_000, 5 * 1448, 105, 65));
    let twice = [(1001 + 5 * 1448, 1001 + 6 * 1448)];
    packets.push(told(151_010, Server, ACK, 5001, 1001 + 6 * 1448, 0).sack(&twice));
    let c = story(opening(40_000, 10), packets);
    assert_eq!((c.retransmissions, c.client_to_server.spurious), (1, 0), "{:?}", c.marks);
    assert_eq!(c.marks[0].packets, [10, 9]);
    let said = "packet 9 came before packet 10, which was sent first: that was late";
    assert_eq!(c.marks[0].evidence, said);
}
