use super::*;

const MSS: u64 = 1448;

/// Ten seconds of a flow at `mbit`, held by the window for `window` of the time and by its buffer for `buffer`.
fn flow(mbit: f64, window: f64, buffer: f64, state: Moment) -> Vec<Moment> {
    let at = |n: u64| Moment {
        t_ns: (n * 100_000_000) as i64,
        acked: (mbit * 1e6 / 8.0 * n as f64 / 10.0) as u64,
        busy_us: n * 100_000,
        window_limited_us: (window * n as f64 * 1e5) as u64,
        buffer_limited_us: (buffer * n as f64 * 1e5) as u64,
        segment: MSS,
        ..state
    };
    (0..=100).map(at).collect()
}

/// Data waits, and all windows have room.
fn waits() -> Moment {
    Moment {
        cwnd: 20 * MSS,
        window: 11 * MSS,
        unsent: 100_000,
        in_flight: 5 * MSS,
        srtt_us: 50_100,
        rttvar_us: 200,
        min_rtt_us: 50_000,
        ..Moment::default()
    }
}

/// What the states show of one stream, which got what was acknowledged.
fn of(moments: &[Moment], asked: Option<u64>, amount: Option<u64>) -> Held {
    let [first, .., last] = moments else { panic!("states") };
    let reached = (last.acked - first.acked) as f64 * 8e9 / (last.t_ns - first.t_ns) as f64;
    Held::of(&[moments], 0, asked, reached, amount).unwrap()
}

#[test]
fn what_never_slept_was_held_up_by_its_cpu_and_by_nothing_else() {
    let judged = |moments: &[Moment], sender_cpu, receiver_cpu, asked| {
        let held = of(moments, asked, None);
        Held { sender_cpu, receiver_cpu, ..held }.by(Some(MSS as u32), Beside::default())
    };
    let (path, window) = (flow(900.0, 0.0, 0.0, waits()), flow(900.0, 0.9, 0.0, waits()));
    assert_eq!(judged(&path, Some(0.97), Some(0.2), None), Limit::SenderCpu);
    // One that slept for a tenth of the time was kept waiting, and not by its CPU.
    assert_eq!(judged(&path, Some(0.9), Some(0.2), None), Limit::Path);
    assert_eq!(judged(&path, None, None, None), Limit::Path);
    // A reader that never slept left the window shut; one that slept had read all that there was.
    assert_eq!(judged(&window, Some(0.3), Some(0.98), None), Limit::ReceiverCpu);
    assert_eq!(judged(&window, Some(0.3), Some(0.5), None), Limit::ReceiveWindow);
    assert_eq!(judged(&path, Some(0.3), Some(0.98), None), Limit::Path);
    // Who reaches the rate that was asked for is held up by that, however busy the CPU; who does not and never sleeps, by the CPU.
    assert_eq!(judged(&path, Some(0.99), None, Some(900_000_000)), Limit::Rate);
    assert_eq!(judged(&path, Some(0.99), None, Some(2_000_000_000)), Limit::SenderCpu);
}

fn verdict(moments: &[Moment], asked: Option<u64>) -> Limit {
    of(moments, asked, None).by(Some(MSS as u32), Beside::default())
}

#[test]
fn where_both_ends_hold_a_flow_up_both_are_named() {
    assert_eq!(verdict(&flow(2.5, 0.45, 0.45, waits()), None), Limit::Both);
    assert_eq!(verdict(&flow(2.5, 0.45, 0.45, waits()), Some(5_000_000)), Limit::Both);
    assert_eq!(verdict(&flow(2.5, 0.45, 0.1, waits()), Some(5_000_000)), Limit::ReceiveWindow);
    // Where packets are lost, the path and a window do in turn.
    assert_eq!(verdict(&flow(2.5, 0.2, 0.2, waits()), None), Limit::Unknown);
    assert_eq!(verdict(&flow(77.4, 0.34, 0.0, waits()), None), Limit::Unknown);
    assert_eq!(verdict(&flow(2.5, 0.04, 0.05, waits()), None), Limit::Path);
}

#[test]
fn a_window_that_keeps_a_flow_below_its_rate_is_named_however_little_is_missing() {
    // 15.9 kB in 50 ms are 2.55 Mbit/s: of 3 Mbit/s 15 % are missing, of 2.8 Mbit/s 9 %, of 2.6 Mbit/s 2 %.
    for (asked, window) in [(3.0f64, 0.15), (2.8, 0.09), (2.6, 0.02), (30.0, 0.9)] {
        let moments = flow(2.55, window, 0.0, waits());
        let found = verdict(&moments, Some((asked * 1e6) as u64));
        assert_eq!(found, Limit::ReceiveWindow, "{asked} Mbit/s");
    }
    assert_eq!(verdict(&flow(2.55, 0.97, 0.0, waits()), None), Limit::ReceiveWindow);
}

#[test]
fn a_rate_that_is_reached_holds_a_flow_up_and_nothing_else() {
    let moments = flow(2.0, 0.0, 0.0, waits());
    let held = of(&moments, Some(2_000_000), None);
    assert_eq!((held.by(Some(1448), Beside::default()), held.nothing_else()), (Limit::Rate, true));
    let between_writes = flow(2.0, 0.0, 0.0, Moment { unsent: 0, ..waits() });
    let held = of(&between_writes, Some(2_000_000), None);
    assert_eq!((held.by(Some(1448), Beside::default()), held.nothing_else()), (Limit::Rate, true));
    // A queue that paces counts headers too.
    assert_eq!(verdict(&flow(2.0 * 0.956, 0.0, 0.0, waits()), Some(2_000_000)), Limit::Rate);
    let server = flow(2.0, 0.0, 0.0, Moment { pacing_limit: 250_000, ..waits() });
    assert_eq!(verdict(&server, None), Limit::Rate, "the server allows no more");
}

#[test]
fn a_full_congestion_window_is_the_path_with_and_without_a_rate() {
    let full = Moment { in_flight: 20 * MSS, ..waits() };
    assert_eq!(verdict(&flow(9.5, 0.0, 0.0, full), None), Limit::Path);
    assert_eq!(verdict(&flow(9.5, 0.0, 0.0, full), Some(9_800_000)), Limit::Path);
    assert_eq!(verdict(&flow(9.5, 0.0, 0.0, full), Some(50_000_000)), Limit::Path);
}

#[test]
fn a_window_of_which_a_part_stands_in_a_queue_holds_nothing_up() {
    // 399 kB at 19.1 Mbit/s are 167 ms, on a path of 100 ms.
    let queued = Moment { srtt_us: 165_900, min_rtt_us: 100_000, rttvar_us: 900, ..waits() };
    let moments = flow(19.1, 0.95, 0.0, queued);
    let held = of(&moments, None, None);
    // Less 0.9 ms of variation and the 1.2 ms of two segments.
    assert!(held.queue.is_some_and(|ms| (63.7..63.9).contains(&ms)), "{held:?}");
    let by = |beside| held.by(Some(1448), beside);
    let added = |ms| Beside {
        added: Some(ms),
        added_always: Some(ms),
        added_mostly: Some(ms),
        added_seldom: Some(ms),
        ..Beside::default()
    };
    assert_eq!(by(added(65.9)), Limit::Path);
    assert_eq!(by(Beside::default()), Limit::Unknown, "without pings");
    // Pings see no queue: it is not known whose time it is.
    assert_eq!(by(added(0.1)), Limit::Unknown);
    // Acknowledgements waited behind the data of the other direction.
    let back = Beside { added_there: Some(0.0), both: true, ..added(65.9) };
    assert_eq!(by(back), Limit::Unknown);
    assert_eq!(by(Beside { added_there: Some(65.0), ..back }), Limit::Path);
    assert_eq!(by(Beside { added_there: None, ..back }), Limit::Unknown);
    // One in thirty met none.
    assert_eq!(by(Beside { added_always: Some(0.0), ..added(65.9) }), Limit::Unknown);
    // It came back to the least round trip at most looks: nothing stood.
    let mut empty = moments.clone();
    empty[30..90].iter_mut().for_each(|look| look.srtt_us = 100_500);
    assert_eq!(verdict(&empty, None), Limit::ReceiveWindow);
    empty[31..90].iter_mut().for_each(|look| look.srtt_us = 165_900);
    assert_eq!(verdict(&empty, None), Limit::Unknown, "once");
    let silent = flow(19.1, 0.95, 0.0, Moment { min_rtt_us: 0, ..queued });
    assert_eq!(verdict(&silent, None), Limit::Unknown, "no least round trip is known");
}

#[test]
fn a_window_that_is_slower_the_longer_its_round_trip_is_may_be_what_holds_it_up() {
    // 16 kB, and another's queue of 40 to 83 ms.
    let mut acked = 0;
    let mut moments = flow(1.49, 0.97, 0.0, Moment { min_rtt_us: 20_000, ..waits() });
    for (n, moment) in moments.iter_mut().enumerate() {
        moment.srtt_us = 60_000 + (n as u64 % 20) * 2250;
        acked += 11 * MSS * 100_000 / moment.srtt_us;
        moment.acked = acked;
    }
    let held = of(&moments, None, None);
    assert!(held.slows && held.queue.is_some_and(|ms| ms > 5.0), "{held:?}");
    let met = Some(45.0);
    let beside = Beside {
        added: met,
        added_always: met,
        added_mostly: met,
        added_seldom: met,
        ..Beside::default()
    };
    assert_eq!(held.by(Some(1448), beside), Limit::Unknown);
    assert!(held.varied, "{held:?}");
    let alone = Held { slows: false, varied: false, ..held };
    assert_eq!(alone.by(Some(1448), beside), Limit::Path);
}

/// The figures are the lab's: a line of 20 Mbit/s and 40 ms, of which 64 kB of socket need half, two of these 99 %, and 128 kB 96 %.
#[test]
fn bursts_of_a_window_between_which_pings_pass_are_no_full_path() {
    let state = Moment { srtt_us: 46_000, min_rtt_us: 40_059, rttvar_us: 3_290, ..waits() };
    let by = |mbit, state: Moment, [always, mostly, median, seldom]: [f64; 4], both| {
        let held = of(&flow(mbit, 0.17, 0.83, state), None, None);
        assert!(held.queue.is_some_and(|ms| ms > 0.2), "{held:?}");
        let beside = Beside {
            added: Some(median),
            added_there: Some(median),
            added_always: Some(always),
            added_mostly: Some(mostly),
            added_seldom: Some(seldom),
            both,
            ..Beside::default()
        };
        held.by(Some(MSS as u32), beside)
    };
    assert_eq!(by(9.57, state, [0.0, 0.0, 0.09, 7.14], false), Limit::SendBuffer);
    assert_eq!(by(9.57, state, [0.0, 0.0, 0.09, 7.14], true), Limit::Unknown, "whose queue?");
    // A fair queue lets a segment pass before a ping, and one is on the line: whether the flow's own queue is empty pings do not see.
    assert_eq!(by(9.57, state, [0.0, 0.0, 0.09, 2.4], false), Limit::Unknown);
    let full = Moment { rttvar_us: 3_000, ..state };
    assert_eq!(by(18.91, full, [0.84, 1.17, 5.36, 7.7], false), Limit::Path);
    let nearly = Moment { srtt_us: 49_800, rttvar_us: 5_000, ..state };
    for mostly in [0.71, 0.08] {
        assert_eq!(by(18.26, nearly, [0.0, mostly, 8.4, 14.3], false), Limit::Unknown);
    }
}

/// 16 kB of 2.5 Mbit/s and 40 ms reach 97 %: TCP sees no queue now and then, and nine of ten pings one.
#[test]
fn a_window_that_leaves_the_line_idle_hardly_ever_is_not_known_to_hold_a_flow_up() {
    let held = of(&flow(2.32, 0.6, 0.4, waits()), None, None);
    let beside = |ms| Beside { added: Some(5.5), added_mostly: Some(ms), ..Beside::default() };
    assert_eq!(held.queue, Some(0.0));
    assert_eq!(held.by(Some(1448), beside(0.44)), Limit::Unknown);
    assert_eq!(held.by(Some(1448), beside(0.0)), Limit::ReceiveWindow);
}

/// 6000 bytes beside another flow in a fair queue of 5 Mbit/s and 4 ms: its half, as with any larger window. No ping waits longer.
#[test]
fn a_window_whose_own_queue_pings_pass_by_is_not_known_to_hold_a_flow_up() {
    let state = Moment { srtt_us: 18_115, rttvar_us: 4_000, min_rtt_us: 4_974, ..waits() };
    let idle = Beside {
        added: Some(0.3),
        added_always: Some(-0.5),
        added_mostly: Some(-0.4),
        added_seldom: Some(2.0),
        idle: Some(5.1),
        ..Beside::default()
    };
    for beside in [idle, Beside::default()] {
        let held = of(&flow(2.385, 0.43, 0.57, state), None, None);
        assert_eq!(held.queue, Some(0.0), "its variation and a pair of segments");
        assert_eq!(held.by(Some(1448), beside), Limit::Unknown);
        let half = Moment { srtt_us: 7_300, rttvar_us: 1_000, ..state };
        let held = of(&flow(1.6, 0.43, 0.57, half), None, None);
        assert_eq!(held.by(Some(1448), beside), Limit::SendBuffer);
    }
}

/// 28 kB of socket at a token bucket of 20 Mbit/s and 32 kB, behind 10 ms: what it carries, as with any larger window. Nine of ten pings wait for a segment at most.
#[test]
fn a_window_that_fills_a_token_bucket_is_not_known_to_hold_a_flow_up() {
    let state = Moment { srtt_us: 11_078, rttvar_us: 60, min_rtt_us: 10_000, ..waits() };
    let by = |mbit, idle, state, seldom| {
        let held = of(&flow(mbit, 0.0, 1.0, state), None, None);
        assert_eq!(held.queue, Some(0.0), "{held:?}");
        let none = Some(0.0);
        let beside = Beside {
            added: Some(0.13),
            added_always: none,
            added_mostly: none,
            added_seldom: seldom,
            idle: Some(idle),
            ..Beside::default()
        };
        held.by(Some(MSS as u32), beside)
    };
    assert_eq!(by(19.131, 10.0, state, Some(1.21)), Limit::Unknown);
    assert_eq!(by(19.131, 10.0, state, None), Limit::Unknown, "without pings");
    assert_eq!(by(19.131, 10.0, state, Some(0.0)), Limit::SendBuffer, "nothing met a queue");
    let bound = Moment { srtt_us: 10_001, ..state };
    assert_eq!(by(18.532, 10.0, bound, Some(0.1)), Limit::SendBuffer);
    // 17 kB of 5 Mbit/s and 5 kB, behind 20 ms: some pings wait longer than a fair queue lets them.
    let (least_ms, rest) = (20.0, Moment { srtt_us: 26_755, rttvar_us: 2_500, ..state });
    let state = Moment { min_rtt_us: 20_000, ..rest };
    assert_eq!(by(4.771, least_ms, state, Some(8.2)), Limit::Unknown);
}

/// 36 of 100 Mbit/s behind 20 ms and fq_codel: TCP's round trip has the window's bursts in it, and pings wait for a part of a segment, where they meet one.
#[test]
fn a_window_on_a_line_that_is_faster_than_pings_could_meet_it_full_holds_its_flow_up() {
    let state = Moment { srtt_us: 22_488, rttvar_us: 600, min_rtt_us: 20_000, ..waits() };
    let held = of(&flow(35.7, 0.0, 1.0, state), None, None);
    let by = |segment_ms: f64, idle: usize| {
        let met = (0..46).map(|k| segment_ms * (f64::from(k) + 0.5) / 46.0);
        let waits: Vec<f64> = met.chain(std::iter::repeat_n(0.0, idle)).collect();
        let beside = Beside {
            added: Some(0.0),
            added_always: Some(0.0),
            added_mostly: Some(if idle > 4 { 0.0 } else { 0.1 }),
            added_seldom: Some(0.1),
            waits: &waits,
            idle: Some(20.0),
            ..Beside::default()
        };
        held.by(Some(MSS as u32), beside)
    };
    assert_eq!(by(0.121, 82), Limit::SendBuffer);
    assert_eq!(by(0.339, 82), Limit::Unknown, "as on a line that is full with it");
    assert_eq!(by(0.121, 0), Limit::Unknown, "others fill it");
}

#[test]
fn a_path_that_is_full_is_what_holds_up_who_is_held_by_it_and_by_buffers_in_turn() {
    let state = Moment { srtt_us: 240_000, min_rtt_us: 40_473, ..waits() };
    let held = of(&flow(2.38, 0.01, 0.46, state), None, None);
    let held = Held { no_data: 0.09, ..held };
    let added = Some(600.0);
    let beside = Beside {
        added,
        added_there: added,
        added_always: added,
        added_mostly: added,
        ..Beside::default()
    };
    assert_eq!(held.by(Some(1448), beside), Limit::Path);
    assert_eq!(held.keeps_queue(Some(1448), Limit::Path), Some(Limit::SendBuffer));
    assert_eq!(held.by(Some(1448), Beside::default()), Limit::Unknown);
    assert_eq!(held.keeps_queue(Some(1448), Limit::Unknown), None);
}

#[test]
fn a_buffer_that_is_full_of_what_is_unacknowledged_holds_the_sender_up() {
    let sent = Moment { unsent: 0, full: true, ..waits() };
    assert_eq!(verdict(&flow(2.2, 0.0, 0.0, sent), None), Limit::SendBuffer);
    let room = Moment { full: false, ..sent };
    assert_eq!(verdict(&flow(2.2, 0.0, 0.0, room), None), Limit::Unknown);
    // As full as the congestion window allows: no room would help.
    let window = Moment { in_flight: 20 * MSS, window: 40 * MSS, ..sent };
    assert_eq!(verdict(&flow(2.2, 0.0, 0.0, window), None), Limit::Unknown);
}

#[test]
fn behind_the_last_write_nothing_waits_and_no_program_is_too_slow() {
    // 60 kB, written at once; the first looks see the path hold them up, and the others what is still on its way.
    let sent = |n: u64| Moment {
        unsent: if n < 30 { 20_000 } else { 0 },
        in_flight: if n < 30 { 20 * MSS } else { 60_000 },
        ..waits()
    };
    let moments: Vec<_> = flow(0.0, 0.0, 0.0, waits())
        .into_iter()
        .zip(0..)
        .map(|(m, n)| Moment { t_ns: m.t_ns, busy_us: m.busy_us, ..sent(n) })
        .collect();
    let found = |amount| of(&moments, None, amount);
    assert!(found(None).no_data > 0.5, "a sender that has more to write is late");
    let held = found(Some(60_000));
    assert!(held.no_data < 0.01 && held.cwnd > 0.99, "{held:?}");
    let at_once: Vec<_> = moments[30..].to_vec();
    let held = of(&at_once, None, Some(60_000));
    assert_eq!(held.by(Some(1448), Beside::default()), Limit::Unknown);
    assert!(held.no_data < 0.01, "{held:?}");
}

#[test]
fn a_queue_that_grows_is_not_one_that_is_kept() {
    let mut moments = flow(2.6, 0.0, 0.1, Moment { srtt_us: 56_000, ..waits() });
    moments[60].srtt_us = 135_000;
    let held = of(&moments, None, None);
    assert_eq!(held.queue_most, Some(85.0));
    assert!(!held.is_kept(), "{held:?}");
    let moments = flow(2.6, 0.0, 0.1, Moment { srtt_us: 135_000, ..waits() });
    assert!(of(&moments, None, None).is_kept());
}

#[test]
fn what_the_facts_do_not_force_is_unknown() {
    assert_eq!(verdict(&flow(5.0, 0.3, 0.3, waits()), None), Limit::Unknown);
    // Half of the rate is missing, and nothing that the kernel saw explains it.
    assert_eq!(verdict(&flow(5.0, 0.02, 0.0, waits()), Some(10_000_000)), Limit::Unknown);
    let idle = Moment { unsent: 0, ..waits() };
    assert_eq!(verdict(&flow(5.0, 0.0, 0.0, idle), None), Limit::Unknown, "a slow program");
    assert_eq!(verdict(&flow(5.0, 0.0, 0.9, idle), None), Limit::SendBuffer);
    assert_eq!(Held::of(&[&[]], 0, None, 0.0, None), None);
}

#[test]
fn a_receiver_whose_rate_is_used_up_is_no_window() {
    let judged = |share, window, asked| {
        let held = of(&flow(2.4, window, 0.0, waits()), asked, None);
        Held { receiver_held_back: share, ..held }.by(Some(MSS as u32), Beside::default())
    };
    assert_eq!(judged(None, 0.99, None), Limit::ReceiveWindow);
    assert_eq!(judged(Some(0.99), 0.99, None), Limit::Rate);
    assert_eq!(judged(Some(0.99), 0.0, None), Limit::Rate, "the sender sees a path that is full");
    assert_eq!(judged(Some(0.99), 0.9, Some(20_000_000)), Limit::Rate);
    assert_eq!(judged(Some(0.3), 0.9, None), Limit::Unknown);
    assert_eq!(judged(Some(0.05), 0.9, None), Limit::ReceiveWindow);
}
