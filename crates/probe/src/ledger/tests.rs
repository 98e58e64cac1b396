//! What becomes of packets, told as a stream's story.

use super::*;
use EchoStatus::{Duplicate, Error, Late, Lost, LostDown, LostUp, NotSent, Ok, Unfinished, Unsure};
use quell_units::Span;

const MS: i64 = 1_000_000;

fn patience() -> Patience {
    Patience::exactly(Span::from_millis(100))
}

/// A stream of `count` packets, one every 10 ms, patience 100 ms.
fn stream(count: i64) -> Ledger {
    let mut ledger = Ledger::new(56, patience());
    for n in 0..count {
        ledger.sent(n * 10 * MS, 0, 0);
    }
    ledger
}

fn reply(up_order: u64) -> EchoReply {
    EchoReply { rtt_ns: 5_000_000, up_order: Some(up_order), ..EchoReply::default() }
}

fn statuses(ledger: &mut Ledger) -> Vec<(u64, EchoStatus)> {
    ledger.take().into_iter().map(|r| (r.seq, r.status)).collect()
}

#[test]
fn each_packet_gets_one_row_and_each_further_reply_one_more() {
    let mut ledger = stream(3);
    for seq in [0, 2, 1, 1] {
        ledger.reply(seq, EchoReply::default());
    }
    let rows = ledger.take();
    let got: Vec<_> = rows.iter().map(|r| (r.seq, r.status, r.down_order)).collect();
    assert_eq!(
        got,
        [(0, Ok, Some(0)), (2, Ok, Some(1)), (1, Ok, Some(2)), (1, Duplicate, Some(3)),]
    );
    assert_eq!(rows[1].t_ns, 20 * MS);
    assert_eq!(ledger.waiting(), 0);
    ledger.finish(MS);
    assert_eq!(ledger.take(), []);
}

#[test]
fn what_was_overtaken_by_five_seconds_is_waited_for_and_not_told_as_lost_on_the_way_there() {
    let second = 1000 * MS;
    let mut ledger = Ledger::new(56, Patience::usual());
    // The second and the third take 5 s there; the others 40 ms and back, so that the reflector counts them first.
    for n in 0..6 {
        ledger.sent(n * second, 0, 0);
        if ![1, 2].contains(&n) {
            let order = if n == 0 { 0 } else { n as u64 - 2 };
            ledger.reply(n as u64, EchoReply { rtt_ns: 40 * MS as u64, ..reply(order) });
        }
        ledger.expire(n * second + 50 * MS);
    }
    let told = |rows: &[(u64, EchoStatus)], seq| rows.iter().rfind(|r| r.0 == seq).map(|r| r.1);
    let rows = statuses(&mut ledger);
    assert_eq!((told(&rows, 1), told(&rows, 2)), (Some(LostUp), Some(LostUp)));
    assert_eq!((ledger.waiting(), ledger.late_until()), (0, Some(2 * second + 3 * second)));
    ledger.reply(1, EchoReply { rtt_ns: 5_040 * MS as u64, ..reply(4) });
    assert!(ledger.late_until() > Some(12 * second), "as late as the other, and twice that");
    ledger.finish(6 * second + 50 * MS);
    let rows = statuses(&mut ledger);
    assert_eq!((told(&rows, 1), told(&rows, 2)), (Some(Late), Some(Unsure)));
    assert_eq!(ledger.more_losses(), None, "none is certain");
}

#[test]
fn losses_come_out_with_their_direction_when_the_patience_is_over() {
    let mut ledger = stream(8);
    // 1 is lost up, 3 and 4 down, 6 and 7 unknown: nothing behind them was answered.
    for (seq, order) in [(0, 0), (2, 1), (5, 4)] {
        ledger.reply(seq, reply(order));
    }
    ledger.take();
    ledger.expire(109 * MS);
    assert_eq!(
        statuses(&mut ledger),
        [],
        "the first packet's patience is over, and it was answered"
    );
    ledger.expire(170 * MS);
    assert_eq!(
        statuses(&mut ledger),
        [(1, LostUp), (3, LostDown), (4, LostDown), (6, Lost), (7, Lost)]
    );
}

#[test]
fn a_reply_after_the_patience_says_that_the_packet_was_late_and_not_lost() {
    let mut ledger = stream(3);
    ledger.expire(115 * MS);
    assert_eq!(statuses(&mut ledger), [(0, Lost), (1, Lost)]);
    ledger.reply(0, EchoReply { rtt_ns: 116_000_000, ..EchoReply::default() });
    ledger.reply(0, EchoReply::default());
    ledger.reply(2, EchoReply::default());
    let rows = ledger.take();
    let got: Vec<_> = rows.iter().map(|r| (r.seq, r.status, r.t_ns, r.rtt_ns)).collect();
    assert_eq!(
        got,
        [(0, Late, 0, Some(116_000_000)), (2, Ok, 20 * MS, Some(0))],
        "the second copy of what was given up is nothing"
    );
}

/// 100 ms are waited for. What came is read before the program wakes to give anything up.
#[test]
fn an_answer_is_late_by_its_own_round_trip_whenever_the_program_woke() {
    let answers = [(0, 150, Late), (1, 99, Ok), (2, 101, Late), (3, 100, Ok)];
    for woke_ms in [0, 40, 99] {
        let mut ledger = stream(4);
        ledger.expire(woke_ms * MS);
        for (seq, rtt_ms, _) in answers {
            ledger.reply(seq, EchoReply { rtt_ns: rtt_ms * MS as u64, ..EchoReply::default() });
        }
        assert_eq!(ledger.waiting(), 0);
        let mut rows = ledger.take();
        quell_model::rows::latest(&mut rows);
        let got: Vec<_> = rows.iter().map(|r| (r.seq, r.status)).collect();
        assert_eq!(got, answers.map(|(seq, _, status)| (seq, status)), "{woke_ms} ms");
        ledger.finish(10_000 * MS);
        assert_eq!(ledger.take(), []);
    }
}

#[test]
fn a_late_reply_takes_back_the_direction_that_was_told() {
    let mut ledger = stream(8);
    for (seq, order) in [(0, 0), (1, 1), (3, 3), (4, 4), (5, 5)] {
        ledger.reply(seq, reply(order));
    }
    ledger.expire(130 * MS);
    assert_eq!(ledger.take().last().map(|r| (r.seq, r.status)), Some((2, LostDown)));
    ledger.reply(2, EchoReply { rtt_ns: 130_000_000, ..reply(2) });
    assert_eq!(statuses(&mut ledger), [(2, Late)]);
    ledger.finish(500 * MS);
    assert_eq!(ledger.more_losses(), None, "6 and 7 are lost, and nobody knows where");
}

#[test]
fn directions_that_were_taken_back_are_not_counted_in_the_end() {
    let mut ledger = stream(40);
    for seq in (0..14).filter(|s| ![2, 4].contains(s)) {
        ledger.reply(seq, reply(seq));
    }
    ledger.expire(150 * MS);
    let lost = |r: &EchoSample| r.status == LostDown;
    assert_eq!(ledger.take().iter().filter(|r| lost(r)).count(), 2);
    for seq in [2, 4] {
        ledger.reply(seq, EchoReply { rtt_ns: 130_000_000, ..reply(seq) });
    }
    // Of 20 and 21 one was lost on each way.
    for seq in (14..40).filter(|s| ![20, 21].contains(s)) {
        ledger.reply(seq, reply(if seq > 20 { seq - 1 } else { seq }));
    }
    ledger.finish(900 * MS);
    assert_eq!(ledger.more_losses(), Some(Losses { up: 1, down: 1 }));
}

#[test]
fn the_patience_grows_with_the_round_trips() {
    let mut ledger = Ledger::new(56, Patience::between(Span::from_millis(100), Span::MAX));
    for n in 0..30 {
        ledger.sent(n * 10 * MS, 0, 0);
    }
    ledger.reply(0, EchoReply { rtt_ns: 90_000_000, ..EchoReply::default() });
    ledger.expire(150 * MS);
    assert_eq!(statuses(&mut ledger), [(0, Ok)], "twice 90 ms are waited for");
    ledger.expire(190 * MS);
    assert_eq!(statuses(&mut ledger), [(1, Lost)]);
}

#[test]
fn losses_that_are_certain_in_number_but_not_one_by_one_are_told_at_the_end() {
    let mut ledger = stream(20);
    for seq in (0..20).filter(|s| ![5, 6].contains(s)) {
        ledger.reply(seq, reply(if seq > 5 { seq - 1 } else { seq }));
    }
    ledger.finish(500 * MS);
    let rows = ledger.take();
    assert_eq!(rows.iter().filter(|r| r.status == Lost).count(), 2);
    assert_eq!(ledger.more_losses(), Some(Losses { up: 1, down: 1 }));
}

#[test]
fn what_could_not_be_awaited_is_unfinished_not_lost() {
    let mut ledger = stream(20);
    ledger.finish(195 * MS);
    let got = statuses(&mut ledger);
    assert_eq!(got.iter().filter(|(_, s)| *s == Lost).count(), 10);
    assert_eq!(got.iter().filter(|(_, s)| *s == Unfinished).count(), 10);
    assert_eq!(got[10], (10, Unfinished));
}

#[test]
fn what_was_given_up_before_an_answer_as_slow_as_the_others_could_come_is_not_lost() {
    let late = |seq, rtt_ns| {
        move |ledger: &mut Ledger| {
            ledger.reply(seq, EchoReply { rtt_ns, ..EchoReply::default() });
        }
    };
    let story = |answers: &[&dyn Fn(&mut Ledger)]| {
        let mut ledger = stream(10);
        ledger.expire(300 * MS);
        assert_eq!(statuses(&mut ledger).len(), 10, "all are given up");
        for answer in answers {
            answer(&mut ledger);
        }
        ledger.finish(300 * MS);
        statuses(&mut ledger)
    };
    // Sent at 0 and 10 ms, each answered 270 ms later: what was sent after 30 ms could not be here yet.
    let (first, second) = (late(0, 270_000_000), late(1, 270_000_000));
    let unsettled = (4..10).map(|seq| (seq, Unfinished));
    let wanted: Vec<_> = [(0, Late), (1, Late)].into_iter().chain(unsettled).collect();
    assert_eq!(story(&[&first, &second]), wanted, "2 and 3 are lost");
    assert_eq!(story(&[]), [], "where nothing came back all are lost");
}

/// Connects that are refused: the answer tells not to which SYN it is. That to a second one comes after 150 ms.
#[test]
fn an_answer_to_what_was_sent_again_does_not_show_that_the_path_is_slow() {
    let story = |decide: &dyn Fn(&mut Ledger)| {
        let mut ledger = stream(10);
        ledger.reply(0, EchoReply { rtt_ns: 20_000_000, ..EchoReply::default() });
        ledger.saw(150_000_000);
        ledger.expire(200 * MS);
        decide(&mut ledger);
        ledger.finish(200 * MS);
        let mut rows = ledger.take();
        quell_model::rows::latest(&mut rows);
        rows.iter().filter(|r| r.status == Unsure).map(|r| r.seq).collect::<Vec<_>>()
    };
    assert!(story(&|ledger| ledger.lost(1)).is_empty(), "1 was lost: so are all others");
    let unsure = story(&|ledger| ledger.unsure(1, Some(150_000_000)));
    assert_eq!(unsure, [1, 6, 7, 8, 9], "1 took 150 ms perhaps: so may what came after 50 ms");
    assert_eq!(story(&|ledger| ledger.unsure(1, None)), [1]);
}

/// Half of the packets are lost, or come back late, and a reply is awaited for 100 ms or 4 s. Of those sent long before the end it is known; of
/// those sent shortly before it some are answered, and what has no answer yet must not be left out beside them.
#[test]
fn of_those_sent_at_the_same_time_none_is_left_out_for_having_no_reply_yet() {
    for (wait_ms, late_ms) in [(4000, 20), (100, 3000), (4000, 3000)] {
        let mut ledger = Ledger::new(56, Patience::exactly(Span::from_millis(wait_ms)));
        let mut rng = quell_stats::Rng::new(wait_ms + late_ms);
        let mut replies = Vec::new();
        for n in 0..1000 {
            ledger.sent(n * 10 * MS, 0, 0);
            let rtt_ms = if rng.below(4) == 0 { late_ms } else { 20 };
            if rng.below(2) == 0 {
                replies.push((n * 10 * MS + rtt_ms as i64 * MS, n as u64, rtt_ms));
            }
        }
        replies.sort_unstable();
        let end_ns = 10_000 * MS;
        for (at_ns, seq, rtt_ms) in replies {
            if at_ns <= end_ns {
                ledger.expire(at_ns);
                ledger.reply(seq, EchoReply { rtt_ns: rtt_ms * MS as u64, ..EchoReply::default() });
            }
        }
        ledger.finish(end_ns);
        let mut rows = ledger.take();
        quell_model::rows::latest(&mut rows);
        let left_out: Vec<u64> =
            rows.iter().filter(|r| r.status == Unfinished).map(|r| r.seq).collect();
        assert_eq!(left_out, [999], "it alone is younger than a round trip, whatever became of it");
        let lost = rows.iter().filter(|r| r.status == Lost).count();
        let most = lost + rows.iter().filter(|r| r.status == Unsure).count();
        let truth = rows.len() - 1 - rows.iter().filter(|r| r.status.is_answered()).count();
        assert_eq!(most, truth, "all that is not answered may be lost");
        assert!(lost < 500 && most >= 480, "{lost} {most}");
    }
}

#[test]
fn errors_are_rows_of_their_packets_and_end_the_waiting() {
    let mut ledger = stream(2);
    for (n, answer) in [(2, Errno::EPERM), (3, Errno::ENOBUFS), (4, Errno::EAGAIN)] {
        ledger.refused(n * 10 * MS, 0, Refusal::of(answer));
    }
    ledger.error(1);
    ledger.error(1);
    ledger.reply(2, EchoReply::default());
    assert_eq!(statuses(&mut ledger), [(2, Error), (3, NotSent), (4, NotSent), (1, Error)]);
    assert_eq!(ledger.waiting(), 1);
    assert_eq!(ledger.next(), 5);
}

#[test]
fn an_answer_that_comes_in_time_behind_an_error_is_an_answer() {
    let mut ledger = stream(4);
    for seq in 0..3 {
        assert!(ledger.blamed(seq));
    }
    assert!(!ledger.blamed(0), "it is told once");
    ledger.reply(0, EchoReply { rtt_ns: 300_000, ..EchoReply::default() });
    ledger.reply(1, EchoReply { rtt_ns: 101_000_000, ..EchoReply::default() });
    assert_eq!(statuses(&mut ledger), [(0, Ok), (1, Late)]);
    assert_eq!(ledger.waiting(), 2, "one with an error, one without");
    ledger.expire(125 * MS);
    assert_eq!(statuses(&mut ledger), [(2, Error)], "nothing else came of it");
    ledger.reply(2, EchoReply { rtt_ns: 110_000_000, ..EchoReply::default() });
    assert!(ledger.blamed(3));
    assert_eq!((ledger.take(), ledger.waiting()), (vec![], 1));
    ledger.finish(126 * MS);
    assert_eq!(statuses(&mut ledger), [(3, Error)]);
}

#[test]
fn what_is_decided_later_than_it_came_has_its_place_in_the_order_of_arrival() {
    let mut ledger = stream(4);
    ledger.reply(1, EchoReply { down_order: Some(1), ..EchoReply::default() });
    ledger.saw(80_000_000);
    assert_eq!((ledger.expiring_before(99 * MS), ledger.expiring_before(110 * MS)), (0, 2));
    ledger.reply(0, EchoReply { down_order: Some(0), ..EchoReply::default() });
    ledger.unsure(2, Some(80_000_000));
    ledger.lost(3);
    let rows = ledger.take();
    let got: Vec<_> = rows.iter().map(|r| (r.seq, r.status, r.down_order)).collect();
    assert_eq!(got, [(1, Ok, Some(1)), (0, Ok, Some(0)), (2, Unsure, None), (3, Lost, None)]);
    assert_eq!(ledger.waiting(), 0);
}

#[test]
fn what_was_given_up_and_is_answered_perhaps_when_it_was_sent_again_is_unsure_and_not_lost() {
    let mut ledger = stream(3);
    ledger.expire(200 * MS);
    ledger.unsure(1, None);
    ledger.abandoned(2);
    ledger.unsure(1, None);
    let wanted = [(0, Lost), (1, Lost), (2, Lost), (1, Unsure)];
    assert_eq!(statuses(&mut ledger), wanted);
}

#[test]
fn replies_to_packets_that_were_never_sent_are_nothing() {
    let mut ledger = stream(1);
    ledger.reply(1, EchoReply::default());
    ledger.reply(u64::MAX, EchoReply::default());
    ledger.error(7);
    assert_eq!(ledger.take(), []);
}

#[test]
fn what_is_known_of_a_packets_leaving_stands_in_its_row_whatever_became_of_it() {
    let mut ledger = Ledger::new(56, patience());
    for (n, late) in [(0, 0), (1, 7), (2, 0)] {
        ledger.sent(n * 10 * MS, 0, late);
    }
    ledger.queued(1, 3_000);
    ledger.queued(0, 2_000);
    ledger.queued(9, 1_000);
    ledger.reply(0, EchoReply::default());
    ledger.finish(200 * MS);
    let rows: Vec<_> = ledger.take().iter().map(|r| (r.seq, r.queued_ns, r.sent_late_ns)).collect();
    assert_eq!(rows, [(0, Some(2_000), Some(0)), (1, Some(3_000), Some(7)), (2, None, Some(0))]);
}

#[test]
fn memory_is_that_of_the_patience_not_of_the_stream() {
    let mut ledger = Ledger::new(56, patience());
    for n in 0..100_000 {
        ledger.sent(n * 10 * MS, 0, 0);
        ledger.reply(n as u64, reply(n as u64));
        ledger.expire(n * 10 * MS);
    }
    assert!(ledger.packets.len() <= 11, "{}", ledger.packets.len());
    assert_eq!(ledger.take().len(), 100_000);
}
