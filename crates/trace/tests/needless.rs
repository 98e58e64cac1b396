//! Which of several retransmissions the other end had already.
//!
//! The client's data begins at sequence number 1001. The path takes 10 ms to the server and back, and no time to the client, where
//! the captures are made but where a story says otherwise; MSS 1460.

mod common;

use common::From::{Client, Server};
use common::{ACK, PSH, SYN, Told, raw, report, told};
use quell_trace::{ConnectionReport, Options, analyse};

/// A segment of the client, its data from `at`.
fn up(us: u64, at: u32, length: u16) -> Told {
    told(us, Client, ACK | PSH, 1001 + at, 5001, length)
}

/// A bare ACK of the server for all below `at`.
fn answer(us: u64, at: u32) -> Told {
    told(us, Server, ACK, 5001, 1001 + at, 0)
}

/// The same; it tells that the first segment came twice.
fn twice(us: u64, at: u32) -> Told {
    answer(us, at).sack(&[(1001, 1001 + 1460)])
}

fn opening(rtt: u64) -> Vec<Told> {
    vec![
        told(0, Client, SYN, 1000, 0, 0).mss(1460),
        told(rtt, Server, SYN | ACK, 5000, 1001, 0).mss(1460),
        told(rtt, Client, ACK, 1001, 5001, 0),
    ]
}

fn story(packets: impl IntoIterator<Item = Told>) -> ConnectionReport {
    let all: Vec<_> = opening(10_000).into_iter().chain(packets).collect();
    report(&raw(&all)).connections.remove(0)
}

/// Of each retransmission: its packet, and whether it was needless.
fn marked(c: &ConnectionReport) -> Vec<(u64, &'static str)> {
    let need = |spurious: bool, perhaps: bool| match (spurious, perhaps) {
        (true, _) => "needless",
        (_, true) => "perhaps",
        _ => "needed",
    };
    let packet = |packets: &[u64]| *packets.last().expect("a packet shows it");
    c.marks.iter().map(|m| (packet(&m.packets), need(m.spurious, m.perhaps_spurious))).collect()
}

/// The first of four segments is lost; sent again it arrives, and is sent once more right before its ACK comes.
fn lost_needed_needless() -> Vec<Told> {
    let mut packets: Vec<_> = (0..4).map(|i| up(20_000 + u64::from(i), i * 1460, 1460)).collect();
    packets.push(answer(30_000, 0).sack(&[(1001 + 1460, 1001 + 5840)]));
    packets.push(up(30_100, 0, 1460));
    packets.push(up(40_050, 0, 1460));
    packets.push(answer(40_100, 5840));
    packets.push(twice(50_050, 5840));
    packets
}

#[test]
fn of_a_segment_sent_three_times_the_copy_that_came_second_is_needless() {
    let c = story(lost_needed_needless());
    assert_eq!(marked(&c), [(9, "needed"), (10, "needless")]);
    assert_eq!(c.client_to_server.spurious, 1);
}

#[test]
fn timestamps_tell_which_copy_came_first_where_times_do_not() {
    // Nothing else is on its way; the server echoes what filled the gap (RFC 7323, 4.3), also in the DSACK.
    let sent = |stamped: bool| {
        let with = |told: Told, value, echo| if stamped { told.stamps(value, echo) } else { told };
        story([
            with(up(20_000, 0, 1460), 100, 7),
            with(up(231_000, 0, 1460), 311, 7),
            with(up(640_000, 0, 1460), 720, 7),
            with(twice(650_000, 1460), 8, 311),
        ])
    };
    assert_eq!(marked(&sent(true)), [(5, "needed"), (6, "needless")]);
    // Without them the first copy may have taken longer than usual.
    let c = sent(false);
    assert_eq!(marked(&c), [(5, "perhaps"), (6, "perhaps")]);
    assert_eq!(c.client_to_server.spurious, 0);
    let mark = &c.marks[1];
    assert!(mark.text.ends_with("perhaps needlessly"), "{}", mark.text);
    assert!(mark.evidence.ends_with("this or another of it came twice"), "{}", mark.evidence);
}

#[test]
fn as_many_duplicates_as_copies_leave_no_doubt() {
    let sent = [up(20_000, 0, 1460), up(231_000, 0, 1460), up(640_000, 0, 1460)];
    let told = [answer(650_000, 1460), twice(650_001, 1460), twice(650_002, 1460)];
    let c = story(sent.into_iter().chain(told));
    assert_eq!(marked(&c), [(5, "needless"), (6, "needless")]);
    assert_eq!(c.client_to_server.spurious, 2);
    assert!(advice(&c, 1).starts_with("what was sent first was answered"), "{}", advice(&c, 1));
}

fn advice(c: &ConnectionReport, mark: usize) -> &str {
    c.marks[mark].advice.as_deref().unwrap_or_default()
}

#[test]
fn an_answer_to_what_was_sent_first_is_only_told_where_there_was_one() {
    let c = story(lost_needed_needless());
    assert!(!advice(&c, 1).contains("sent first"), "{}", advice(&c, 1));
    let c = story([up(20_000, 0, 1460), up(231_000, 0, 1460), answer(236_000, 1460), {
        twice(241_000, 1460)
    }]);
    assert!(advice(&c, 0).starts_with("what was sent first was answered"), "{}", advice(&c, 0));
    // Its ACK never came: that was lost.
    let c = story([up(20_000, 0, 1460), up(231_000, 0, 1460), twice(241_000, 1460)]);
    assert!(advice(&c, 0).starts_with("what was sent first arrived: look for ACKs that are lost"));
}

#[test]
fn near_the_receiver_what_was_lost_before_the_capture_is_not_said_to_have_arrived() {
    // The first of four does not come; sent again it does, and once more behind its ACK.
    let mut packets: Vec<_> = (1..4).map(|i| up(20_000 + u64::from(i), i * 1460, 1460)).collect();
    packets.push(answer(20_010, 0).sack(&[(1001 + 1460, 1001 + 5840)]));
    packets.push(up(30_100, 0, 1460));
    packets.push(answer(30_110, 5840));
    packets.push(up(40_050, 0, 1460));
    packets.push(twice(40_060, 5840));
    let all: Vec<_> = opening(10).into_iter().chain(packets).collect();
    let c = report(&raw(&all)).connections.remove(0);
    assert_eq!(marked(&c), [(8, "needed"), (10, "needless")]);
    let lost = "packet 8 fills a gap; what was sent first is not in the capture, lost before it";
    assert_eq!(c.marks[0].evidence, lost);
    // Both are there before an ACK goes, which names the one that filled the gap.
    let all = opening(10).into_iter().chain([
        up(20_000, 1460, 1460).stamps(60, 7),
        up(30_100, 0, 1460).stamps(70, 7),
        up(32_050, 0, 1460).stamps(72, 7),
        answer(32_060, 2920).stamps(9, 70),
    ]);
    let c = report(&raw(&all.collect::<Vec<_>>())).connections.remove(0);
    assert_eq!(marked(&c), [(5, "needed"), (6, "needless")]);
    assert!(c.marks[0].evidence.ends_with("lost before it"), "{}", c.marks[0].evidence);
}

#[test]
fn a_dsack_for_what_the_network_doubled_makes_nothing_else_needless() {
    // Near the receiver: a retransmission fills the gap, and comes again as the very same packet.
    let mut packets: Vec<_> = (1..20)
        .map(|i| up(20_000 + u64::from(i), i * 1460, 1460).id(100 + i as u16).stamps(50 + i, 7))
        .collect();
    packets.push(answer(20_030, 0).sack(&[(1001 + 1460, 1001 + 29_200)]).stamps(8, 1));
    let again = |us| up(us, 0, 1460).id(130).stamps(90, 7);
    packets.push(again(30_100));
    packets.extend((20..26).map(|i| up(30_100 + u64::from(i), i * 1460, 1460).id(111 + i as u16)));
    packets.push(answer(30_130, 26 * 1460).stamps(9, 90));
    packets.push(again(30_140));
    packets.push(twice(30_151, 26 * 1460).stamps(9, 90));
    let all: Vec<_> = opening(10).into_iter().chain(packets).collect();
    let c = report(&raw(&all)).connections.remove(0);
    assert_eq!(c.client_to_server.captured_twice, 1, "{:?}", c.marks);
    assert_eq!((marked(&c), c.client_to_server.spurious), (vec![(24, "needed")], 0));
}

#[test]
fn needless_ones_are_counted_though_their_marks_are_not_kept() {
    let packets = [up(20_000, 0, 1460), up(231_000, 0, 1460), twice(241_000, 1460)];
    let all: Vec<_> = opening(10_000).into_iter().chain(packets).collect();
    let mut options = Options::default();
    options.limits.marks = 0;
    let c = analyse(&raw(&all)[..], &options).expect("it is sound").report.connections.remove(0);
    assert_eq!((c.marks.len(), c.client_to_server.spurious), (0, 1));
}
