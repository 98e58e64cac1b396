//! What makes a sender send again: what the other end told, a probe, the timer. And how long all of that was waited for.
//!
//! The captures are made where the client is; the path takes 10 ms to the server and back, MSS 1460. The client's data begins at 1001.

mod common;

use common::From::{Client, Server};
use common::{ACK, PSH, SYN, Told, raw, report, told};
use quell_finding::WIDEST;
use quell_trace::{Cause, ConnectionReport, overview_text};
use quell_units::Span;

const FULL: u32 = 1460;

fn all(packets: impl IntoIterator<Item = Told>) -> Vec<Told> {
    let opening = [
        told(0, Client, SYN, 1000, 0, 0).mss(1460),
        told(10_000, Server, SYN | ACK, 5000, 1001, 0).mss(1460).window(65160),
        told(10_000, Client, ACK, 1001, 5001, 0),
    ];
    opening.into_iter().chain(packets).collect()
}

/// A full segment of the client, by its number.
fn up(us: u64, n: u32) -> Told {
    told(us, Client, ACK | PSH, 1001 + n * FULL, 5001, FULL as u16)
}

/// An ACK for so many segments.
fn answer(us: u64, n: u32) -> Told {
    told(us, Server, ACK, 5001, 1001 + n * FULL, 0)
}

fn sack(us: u64, n: u32, from: u32, to: u32) -> Told {
    answer(us, n).sack(&[(1001 + from * FULL, 1001 + to * FULL)])
}

fn story(packets: impl IntoIterator<Item = Told>) -> ConnectionReport {
    report(&raw(&all(packets))).connections.remove(0)
}

fn causes(c: &ConnectionReport) -> Vec<Cause> {
    c.marks.iter().map(|m| m.cause).collect()
}

#[test]
fn what_leaves_upon_an_ack_is_no_probe() {
    // The first and the last of five are lost: the ACK for the first tells of the second gap.
    let sent: Vec<_> = (0..5).map(|n| up(20_000 + u64::from(n), n)).collect();
    let again = [sack(30_003, 0, 1, 4), up(30_003, 0), answer(40_003, 4), up(40_003, 4)];
    let c = story(sent.iter().cloned().chain(again));
    assert_eq!(causes(&c), [Cause::FastRetransmit; 2]);
    // Where nothing told of a gap, nothing tells why.
    let again = [answer(60_000, 4), up(60_000, 4), answer(70_000, 5)];
    let c = story(sent.iter().cloned().chain(again));
    assert_eq!(causes(&c), [Cause::Retransmission]);
    // Two round trips after the last ACK it is a probe.
    let again = [answer(30_003, 4), up(60_000, 4), answer(70_000, 5)];
    assert_eq!(causes(&story(sent.into_iter().chain(again))), [Cause::TailProbe]);
}

#[test]
fn what_leaves_upon_an_ack_is_no_timer_either_however_long_it_took() {
    // A queue of half a second, and then the ACK that tells of the gap.
    let sent: Vec<_> = (0..5).map(|n| up(20_000 + u64::from(n), n)).collect();
    let again = [
        sack(520_000, 0, 1, 3),
        up(520_000, 0),
        answer(1_020_000, 3),
        up(1_020_000, 3),
        answer(1_520_000, 5),
    ];
    assert_eq!(causes(&story(sent.into_iter().chain(again))), [Cause::FastRetransmit; 2]);
}

#[test]
fn who_tells_what_came_twice_tells_of_no_gap() {
    let twice = |us| answer(us, 2).sack(&[(1001, 1001 + FULL)]);
    let c = story([
        up(20_000, 0),
        up(20_001, 1),
        answer(30_001, 2),
        up(30_010, 2),
        up(30_011, 3),
        twice(31_000),
        twice(32_000),
        twice(33_000),
        up(300_000, 2),
        answer(310_000, 4),
    ]);
    assert_eq!(causes(&c), [Cause::Timeout]);
}

/// Rounds of 10 ms, in each as many full segments as the window takes that was told last.
fn rounds(windows: &[u32]) -> ConnectionReport {
    let (mut packets, mut now, mut sent, mut room) = (Vec::new(), 20_000, 0, windows[0]);
    packets.extend([up(now, 0), answer(now + 10_000, 1).window((room * FULL) as u16)]);
    (now, sent) = (now + 10_000, sent + 1);
    for next in windows {
        packets.extend((0..room).map(|n| up(now + u64::from(n), sent + n)));
        (now, sent, room) = (now + 10_000, sent + room, *next);
        packets.push(answer(now, sent).window((room * FULL) as u16));
    }
    story(packets)
}

#[test]
fn a_full_window_is_told_as_it_was_then() {
    // The opening told 65160 bytes.
    let c = rounds(&[2; 30]);
    assert_eq!(c.marks[0].text, "held up for 300 ms by a full window of 2920 bytes");
    let windows: Vec<u32> = (0..32).map(|n| if n < 16 { 2 } else { 8 }).collect();
    let c = rounds(&windows);
    assert_eq!(c.marks[0].text, "held up for 320 ms by a full window of 2920 to 11680 bytes");
    assert_eq!(c.marks[0].windows, Some([2920, 11680]));
}

#[test]
fn waits_that_overlap_count_once() {
    let lost = [up(20_000, 0), up(20_001, 1), up(231_000, 0), up(450_000, 1), answer(460_000, 2)];
    let c = story(lost.clone());
    assert_eq!(causes(&c), [Cause::Timeout; 2]);
    let in_all = c.tallies[&Cause::Timeout].waited;
    assert_eq!(in_all, Span::from_millis(430), "from the first to the end of the second");
    let text = overview_text(&report(&raw(&all(lost))), WIDEST);
    assert!(text.contains("430 ms in all"), "{text}");
}

#[test]
fn round_trips_are_told_to_a_hundredth() {
    let calls = (0..50_u32).flat_map(|n| {
        let (us, took) =
            (20_000 + 40_000 * u64::from(n), if n % 10 == 9 { 30_000 } else { 10_500 });
        [up(us, n), answer(us + took, n + 1)]
    });
    let rtt = story(calls).client_to_server.rtt;
    assert_eq!(rtt.p50, Some(Span::from_micros(10_500)));
    assert_eq!(rtt.p99, Some(Span::from_millis(30)));
}
