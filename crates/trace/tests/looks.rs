//! Captures in which packets are twice: of a router on all its devices, of a mirror port, behind a network that doubles.
//!
//! The client is 10 ms from the capture, there and back, the server 30.

mod common;

use common::From::{Client, Server};
use common::{ACK, FIN, LITTLE, PSH, SYN, Told, pcap, raw, report, told};
use quell_finding::WIDEST;
use quell_trace::{Cause, ConnectionReport, Report, overview_text};
use quell_units::Span;

const FULL: u32 = 1448;

/// As Linux sends: the answer to a SYN has no identification.
fn opening() -> Vec<Told> {
    vec![
        told(0, Client, SYN, 1000, 0, 0).mss(1460).stamps(100, 0).id(4000),
        told(30_000, Server, SYN | ACK, 5000, 1001, 0).mss(1460).stamps(900, 100),
        told(40_000, Client, ACK, 1001, 5001, 0).stamps(140, 900).id(4001),
    ]
}

fn up(us: u64, n: u32, id: u16) -> Told {
    let stamp = 100 + (us / 1000) as u32;
    told(us, Client, ACK | PSH, 1001 + n * FULL, 5001, FULL as u16).stamps(stamp, 900).id(id)
}

/// Forty segments at once, their ACKs, and the end.
fn transfer() -> Vec<Told> {
    let mut all = opening();
    all.extend((0..40).map(|n| up(50_000 + u64::from(n) * 10, n, 4002 + n as u16)));
    all.extend((0..40).map(|n| {
        told(80_000 + u64::from(n) * 1200, Server, ACK, 5001, 1001 + (n + 1) * FULL, 0)
            .stamps(950 + n, 150)
            .id(700 + n as u16)
    }));
    let (sent, ended) = (1001 + 40 * FULL, 1002 + 40 * FULL);
    all.push(told(140_000, Client, FIN | ACK, sent, 5001, 0).stamps(240, 990).id(4050));
    all.push(told(170_000, Server, FIN | ACK, 5001, ended, 0).stamps(1040, 240).id(750));
    all.push(told(180_000, Client, ACK, ended, 5002, 0).stamps(280, 1040).id(4051));
    all
}

/// Each once more, a hop later: what the client sends behind a queue, one each 1.2 ms.
fn through_a_router(story: &[Told]) -> Vec<Told> {
    let mut free = 0;
    let mut all = story.to_vec();
    for packet in story {
        let queued = packet.from == Client;
        let us = if queued { free.max(packet.us + 100) } else { packet.us + 5 };
        free = if queued { us + 1200 } else { free };
        all.push(Told { us, ..packet.clone() }.hops(63));
    }
    all.sort_by_key(|packet| packet.us);
    all
}

fn only(mut report: Report) -> ConnectionReport {
    assert_eq!(report.connections.len(), 1);
    report.connections.remove(0)
}

fn causes(connection: &ConnectionReport) -> Vec<Cause> {
    connection.marks.iter().map(|mark| mark.cause).collect()
}

#[test]
fn a_router_s_capture_of_all_its_devices_holds_each_packet_twice_and_nobody_sent_again() {
    let story = transfer();
    let all = through_a_router(&story);
    let report = report(&raw(&all));
    assert_eq!(report.captured_twice, story.len() as u64);
    let note = format!("  {} packets were captured twice, or doubled by the network", story.len());
    assert!(overview_text(&report, WIDEST).contains(&note), "{}", overview_text(&report, WIDEST));
    let c = only(report);
    assert_eq!((causes(&c), c.retransmissions), (vec![], 0), "{:#?}", c.marks.first());
    assert_eq!(c.handshake_rtt, Some(Span::from_millis(40)));
    assert_eq!(c.client_to_server.packets, 44);
    assert_eq!((c.client_to_server.captured_twice, c.server_to_client.captured_twice), (44, 42));
}

#[test]
fn over_ipv6_which_has_no_identification_the_hop_tells() {
    let all = through_a_router(&transfer());
    let frames: Vec<_> = all.iter().map(|p| (p.us * 1000, p.ipv6())).collect();
    let report = report(&pcap(LITTLE, false, 101, 65535, &frames));
    assert_eq!(report.captured_twice, 86);
    let c = only(report);
    assert_eq!((causes(&c), c.retransmissions), (vec![], 0), "{:#?}", c.marks.first());
    assert_eq!(c.server_to_client.duplicate_acks, 0);
}

#[test]
fn a_mirror_port_s_second_look_at_an_answer_is_no_stall() {
    let all: Vec<_> = transfer().into_iter().flat_map(|packet| [packet.clone(), packet]).collect();
    let report = report(&raw(&all));
    assert_eq!(report.captured_twice, 86);
    let c = only(report);
    assert_eq!(causes(&c), []);
    assert_eq!(c.handshake_rtt, Some(Span::from_millis(40)));
}

#[test]
fn an_answer_that_a_timer_sends_again_stays_that_though_each_is_there_twice() {
    let answer = |us| told(us, Server, SYN | ACK, 5000, 1001, 0).mss(1460);
    let syn = told(0, Client, SYN, 1000, 0, 0).mss(1460).id(9);
    let story = [syn, answer(30_000), answer(1_030_000)];
    let report = report(&raw(&through_a_router(&story)));
    assert_eq!(report.captured_twice, 3);
    let c = only(report);
    assert_eq!(causes(&c), [Cause::SynRetransmit]);
    assert_eq!(c.marks[0].waited, Some(Span::from_secs(1)));
}

#[test]
fn an_answer_to_a_second_syn_is_not_the_first_one_s_copy() {
    let answer = |us| told(us, Server, SYN | ACK, 5000, 1001, 0).mss(1460);
    let syn = |us, id| told(us, Client, SYN, 1000, 0, 0).mss(1460).id(id);
    let story = [syn(0, 9), answer(30_000), syn(100_000, 10), answer(130_000)];
    let c = only(report(&raw(&story)));
    assert_eq!(causes(&c), [Cause::SynRetransmit, Cause::SynAnsweredAgain]);
}

#[test]
fn what_is_sent_again_a_hop_nearer_has_another_identification_or_time() {
    // The path changes: what is sent again has a hop less.
    for (id, later) in [(4100, 0), (0, 300)] {
        let first = up(50_000, 0, if id == 0 { 0 } else { 4002 });
        let again = told(350_000, Client, ACK | PSH, 1001, 5001, FULL as u16);
        let again = again.stamps(150 + later, 900).id(id).hops(63);
        let c = only(report(&raw(&[opening(), vec![first, again]].concat())));
        assert_eq!((c.retransmissions, c.client_to_server.captured_twice), (1, 0), "{:?}", c.marks);
    }
}
