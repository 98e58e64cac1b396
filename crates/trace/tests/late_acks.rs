//! ACKs that take long: delayed by the other end, or held up by a queue on the path.
//!
//! The captures are made where the client is; the path takes 10 ms to the server and back, MSS 1460. The client's data begins at 1001.

mod common;

use common::From::{Client, Server};
use common::{ACK, PSH, SYN, Told, raw, report, told};
use quell_trace::{Cause, ConnectionReport};

fn opening(way: u64) -> Vec<Told> {
    vec![
        told(0, Client, SYN, 1000, 0, 0).mss(1460),
        told(way, Server, SYN | ACK, 5000, 1001, 0).mss(1460),
        told(way, Client, ACK, 1001, 5001, 0),
    ]
}

fn up(us: u64, at: u32, length: u16) -> Told {
    told(us, Client, ACK | PSH, 1001 + at, 5001, length)
}

fn answer(us: u64, at: u32) -> Told {
    told(us, Server, ACK, 5001, 1001 + at, 0)
}

fn connection(story: &[Told]) -> ConnectionReport {
    report(&raw(story)).connections.remove(0)
}

fn causes(c: &ConnectionReport) -> Vec<Cause> {
    c.marks.iter().map(|m| m.cause).collect()
}

/// Segments of so many bytes, each sent when the ACK of the one before came, after these times.
fn one_by_one(from: u64, length: u16, took: impl IntoIterator<Item = u64>) -> Vec<Told> {
    let (mut packets, mut now, mut at) = (Vec::new(), from, 0);
    for took in took {
        packets.push(up(now, at, length));
        (now, at) = (now + took, at + u32::from(length));
        packets.push(answer(now, at));
    }
    packets
}

#[test]
fn a_queue_on_the_path_is_no_delayed_ack() {
    // 10 ms at its best; full, with others' packets between each two of this connection, it takes seven times as long.
    let took = (0..40).map(|i| 60_000 + i % 5 * 7_000);
    let story = [opening(10_000), one_by_one(20_000, 1460, took)].concat();
    assert_eq!(causes(&connection(&story)), []);
}

#[test]
fn a_slow_line_is_no_delayed_ack() {
    // A SYN passes in 10 ms, a full segment in 100, and a short last one in 20.
    let mut story = [opening(10_000), one_by_one(20_000, 1460, [100_000])].concat();
    story.extend([up(120_000, 1460, 1460), up(120_000, 2920, 100), answer(220_000, 2920)]);
    story.push(answer(227_000, 3020));
    assert_eq!(causes(&connection(&story)), []);
}

#[test]
fn small_messages_that_all_wait_long_tell_not_for_whom() {
    let took = (0..6).map(|_| 55_000);
    let c = connection(&[opening(10_000), one_by_one(20_000, 100, took)].concat());
    assert_eq!(causes(&c), [Cause::Nagle; 5]);
    assert!(c.marks.iter().all(|m| m.held.is_some_and(|held| held.perhaps_delayed)));
    let said = "whether that ACK was delayed, or the path held it or its segment up, the packets do not tell";
    assert!(c.marks[1].evidence.contains(said), "{}", c.marks[1].evidence);
    assert!(!c.marks[1].who.contains("delayed"), "{}", c.marks[1].who);
}

/// write, write, read, so many times: each second write waits for the ACK of the first, which comes after these times; its answer comes after
/// those.
fn calls(times: u32, alone: &[u64], answers: &[u64]) -> Vec<Told> {
    let call = |n: u32| {
        let of = |all: &[u64]| all[(n - 1) as usize % all.len()];
        let (alone, answer) = (of(alone), of(answers));
        let (us, at) = (100_000 * u64::from(n), 200 * n);
        let asked = |us, at, length| told(us, Client, ACK | PSH, 1001 + at, 5001 + n * 50, length);
        [
            asked(us, at, 100),
            told(us + alone, Server, ACK, 5001 + n * 50, 1101 + at, 0),
            asked(us + alone, at + 100, 100),
            told(us + alone + answer, Server, ACK | PSH, 5001 + n * 50, 1201 + at, 50),
        ]
    };
    let story = [opening(10_000), (1..=times).flat_map(call).collect()].concat();
    story
        .into_iter()
        .map(|p| match p.from {
            _ if p.us < 50_000 => p,
            Client => Told { seq: p.seq - 200, ack: p.ack - 50, ..p },
            Server => Told { seq: p.seq - 50, ack: p.ack - 200, ..p },
        })
        .collect()
}

/// Whether each wait is told with both reasons, and none as the other end's doing.
fn nobody_is_blamed(c: &ConnectionReport, waits: usize) {
    assert_eq!(causes(c), vec![Cause::Nagle; waits]);
    let late = c.marks.iter().filter(|m| m.waited > Some(quell_units::Span::from_millis(20)));
    assert!(late.clone().count() > 0);
    for mark in late {
        assert!(mark.held.is_some_and(|held| held.perhaps_delayed), "{mark:?}");
        assert!(mark.who.ends_with("or by the path: unknown which"), "{}", mark.who);
    }
    assert_eq!(c.tallies.get(&Cause::DelayedAck), None);
    assert_eq!(c.tallies[&Cause::Nagle].count, waits as u64);
}

#[test]
fn acks_that_are_all_late_by_a_timer_are_delayed_ones_where_no_path_is_left() {
    // Bursts on the path to which calls fall into step look just so: all first segments late by 42 ms, nothing else ever.
    let took = (&[50_000, 50_000, 58_000][..], &[10_000, 11_000][..]);
    nobody_is_blamed(&connection(&calls(6, took.0, took.1)), 6);
    let there = |p: Told| if p.from == Client { p.hops(62) } else { p };
    let c = connection(&calls(6, took.0, took.1).into_iter().map(there).collect::<Vec<_>>());
    assert_eq!(causes(&c), [Cause::DelayedAck; 6]);
    assert!(c.marks.iter().all(|m| m.held.is_some_and(|held| !held.perhaps_delayed)));
    let tally = c.tallies[&Cause::DelayedAck];
    assert_eq!((tally.count, tally.waited), (6, quell_units::Span::from_millis(316)));
    assert_eq!(c.tallies.get(&Cause::Nagle), None);
    assert_eq!(c.findings.len(), 1);
}

#[test]
fn on_one_machine_acks_that_are_late_alone_are_delayed_ones() {
    let of = |way, hops: u8| {
        let calls = calls(6, &[40_000], &[2 * way]).split_off(3);
        let all = [opening(way), calls].concat();
        connection(&all.into_iter().map(|p| p.hops(hops)).collect::<Vec<_>>())
    };
    let c = of(8, 64);
    assert_eq!(causes(&c), [Cause::DelayedAck; 6]);
    assert_eq!(c.tallies[&Cause::DelayedAck].waited, quell_units::Span::from_millis(240));
    assert!(c.marks.iter().all(|m| m.held.is_some_and(|held| !held.perhaps_delayed)));
    nobody_is_blamed(&of(100, 64), 6);
    nobody_is_blamed(&of(8, 63), 6);
}

#[test]
fn a_queue_that_comes_and_goes_is_no_delayed_ack() {
    // A burst of others' packets every now and then: it meets what it meets, and has run dry by now more, now less.
    let alone = [10_000, 10_000, 52_000, 10_000, 31_000, 10_000, 63_000];
    let c = connection(&calls(40, &alone, &[10_000]));
    nobody_is_blamed(&c, 40);
    assert_eq!(c.findings.len(), 2, "waits of a round trip, and those of more: {:?}", c.findings);
}

#[test]
fn a_delay_that_varies_is_no_delayed_ack() {
    // From 10 to 49 ms, without an order.
    let alone: Vec<u64> =
        (0..101_u64).map(|i| 10_000 + (5 * i.pow(3) + i * i) % 101 * 386).collect();
    let answers: Vec<u64> = (0..97_u64).map(|i| 10_000 + (7 * i * i + 3 * i) % 97 * 402).collect();
    let c = connection(&calls(300, &alone, &answers));
    assert_eq!(c.tallies.get(&Cause::DelayedAck), None, "{:?}", c.tallies);
    let open = c.marks.iter().filter(|m| m.held.is_some_and(|held| held.perhaps_delayed));
    assert!(open.count() > 50);
}

#[test]
fn a_full_window_behind_a_late_ack_is_no_delayed_ack_far_from_the_receiver() {
    // One segment at a time, as the window lets it; each seventh ACK meets a queue.
    let took = (0..40).map(|i| if i % 7 == 3 { 50_000 } else { 10_000 });
    let story = [opening(10_000), one_by_one(20_000, 1460, took)].concat();
    assert_eq!(causes(&connection(&story)), []);
}

#[test]
fn next_to_the_other_end_no_path_is_left_to_take_the_time() {
    // All ACKs come 40 ms late, and nothing else tells what the path takes.
    let story = |client, server| {
        let took = (0..6).map(|_| 40_000);
        let all = [opening(50), one_by_one(20_000, 100, took)].concat();
        let hops = |p: Told| if p.from == Client { p.hops(client) } else { p.hops(server) };
        causes(&connection(&all.into_iter().map(hops).collect::<Vec<_>>()))
    };
    assert_eq!(
        story(62, 64),
        [Cause::DelayedAck; 5],
        "a router is before the capture, none behind"
    );
    assert_eq!(story(64, 62), [Cause::Nagle; 5], "a router is behind it");
    assert_eq!(story(62, 61), [Cause::Nagle; 5], "routers are on both sides");
    assert_eq!(story(64, 64), [Cause::Nagle; 5], "one network, the capture somewhere on it");
}

#[test]
fn a_program_that_reads_late_delays_no_ack() {
    let next = |story: Vec<Told>| {
        let hops = |p: Told| if p.from == Client { p.hops(62) } else { p };
        causes(&connection(&story.into_iter().map(hops).collect::<Vec<_>>()))
    };
    // Two full segments are acknowledged together; the standard delays no such ACK, and it is told as what is seen.
    let pairs = (0..6).flat_map(|n: u32| {
        let (us, at) = (20_000 + 40_000 * u64::from(n), n * 2920);
        [up(us, at, 1460), up(us, at + 1460, 1460), answer(us + 40_000, at + 2920)]
    });
    let pairs = [opening(50), pairs.collect()].concat();
    assert_eq!(next(pairs.clone()), [Cause::LateAck; 6]);
    let c = connection(&pairs.into_iter().map(|p| p.hops(62)).collect::<Vec<_>>());
    assert_eq!(causes(&c), [], "elsewhere a queue may have taken the time");
    // One segment fills what is left of the window.
    let lone = |window| {
        let one = one_by_one(20_000, 1460, [40_000; 3]);
        let all = [opening(50), one].concat();
        all.into_iter().map(|p| p.window(window)).collect::<Vec<_>>()
    };
    assert_eq!(next(lone(1460)), []);
    assert_eq!(next(lone(32120)), [Cause::DelayedAck; 2]);
}

#[test]
fn an_ack_that_comes_as_soon_as_a_gap_is_filled_is_not_late() {
    // Of each six the first is lost before the capture, the others are acknowledged as they come, and 60 ms later the first comes again.
    let rounds = (0..4).flat_map(|n: u32| {
        let (us, at) = (20_000 + 100_000 * u64::from(n), n * 8760);
        let later = (1..6).flat_map(move |i: u32| {
            let us = us + u64::from(i) * 1_200;
            [up(us, at + i * 1460, 1460), answer(us + 20, at)]
        });
        later.chain([up(us + 66_000, at, 1460), answer(us + 66_020, at + 8760)])
    });
    let story = [opening(50), rounds.collect()].concat();
    let c = connection(
        &story
            .into_iter()
            .map(|p| if p.from == Client { p.hops(62) } else { p })
            .collect::<Vec<_>>(),
    );
    assert!(!causes(&c).contains(&Cause::LateAck), "{:?}", causes(&c));
}
