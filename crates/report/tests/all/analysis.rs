//! Runs whose truth is known, and what analysis makes of them.

use crate::common::{
    MS, SECOND, echo, flow, flows, home_link, on_ways, packets, pings, run, steady,
};
use quell_model::{
    CellStatus, EchoSample, EchoStatus, Fact, FlowSample, Side, Subject, Told, When,
};
use quell_report::analysis::series::Which;
use quell_report::analysis::{EchoResult, FlowResult, OwnTime, Results, Summary, Transit, series};
use quell_store::{CellData, Run};

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found} is not {expected}");
}

fn one_echo(samples: Vec<quell_model::EchoSample>) -> EchoResult {
    let results = Results::from(&run(vec![("s", "udp", 0, echo("udp", samples))]));
    assert_eq!(results.rows.len(), 1);
    results.rows[0].echo().expect("an echo stream").clone()
}

fn flow_results(run: &quell_store::Run) -> Vec<(String, FlowResult)> {
    let flow =
        |r: &quell_report::analysis::StreamResult| Some((r.stream.clone(), r.flow()?.clone()));
    Results::from(run).rows.iter().filter_map(flow).collect()
}

#[test]
fn three_of_a_hundred_packets_are_lost() {
    let delays: Vec<_> =
        (0..100).map(|n| (![7, 8, 99].contains(&n)).then_some((20.0, 10.0))).collect();
    let found = one_echo(packets(&delays));
    assert_eq!(
        (found.counts.sent, found.counts.received, found.counts.lost_up, found.counts.lost_down),
        (100, 97, 3, 0)
    );
    near(found.counts.loss_ratio().unwrap(), 0.03);
    assert_eq!(found.counts.lost_ways(), Some((3, 0)));
    // Of a ping that is lost nobody knows on which way; where none is lost, none was lost on either.
    assert_eq!(one_echo(pings(&delays)).counts.lost_ways(), None);
    assert_eq!(one_echo(pings(&delays[10..90])).counts.lost_ways(), Some((0, 0)));
    let rtt = found.rtt_ms.unwrap();
    near(rtt.min, 30.0);
    near(rtt.max, 30.0);
    near(found.up_ms.unwrap().p50, 20.0);
    near(found.down_ms.unwrap().p50, 10.0);
    near(found.jitter_up_ms.unwrap(), 0.0);
}

/// A queue drains while every second packet is lost: of consecutive numbers few pairs are left, and those only fall.
#[test]
fn the_jitter_that_is_drawn_is_of_the_pairs_of_the_tables_jitter() {
    let delays: Vec<_> = (0..200)
        .map(|n| (n % 2 == 0 || n % 40 == 1).then(|| (100.0 + ((n * 37) % 50) as f64, 10.0)))
        .collect();
    let mut run = run(vec![("s", "udp", 0, echo("udp", packets(&delays)))]);
    let table = |run: &Run| Results::from(run).rows[0].echo().unwrap().jitter_ms().unwrap();
    let drawn = |run: &Run| {
        let gaps = &series::gaps(run, Which::Usual)[0];
        let before = std::iter::once(0.0).chain(gaps.changes.iter().map(|(_, share)| *share));
        gaps.changes
            .iter()
            .zip(before)
            .map(|((at, share), before)| at.abs() * (share - before))
            .sum::<f64>()
    };
    let mean = drawn(&run);
    assert!((mean - table(&run)).abs() < 1e-6, "{mean} is not {}", table(&run));
    // By clocks that are apart and drift, both are corrected alike.
    let samples = &mut run.cells[0].echoes[0].samples;
    for s in samples.iter_mut() {
        let off = 5_000_000_000 + s.t_ns / 10;
        (s.up_ns, s.down_ns) = (s.up_ns.map(|ns| ns + off), s.down_ns.map(|ns| ns - off));
    }
    let clocks = Subject::stream("udp", Told::Clocks);
    run.cells[0].facts.push(Fact::new(When::After, clocks, "apart"));
    let mean = drawn(&run);
    assert!((mean - table(&run)).abs() < 1e-6, "{mean} is not {}", table(&run));
}

#[test]
fn quantiles_are_those_of_the_delays() {
    let delays: Vec<_> = (0..=100).map(|n| Some((f64::from(n), 0.0))).collect();
    let rtt = one_echo(packets(&delays)).rtt_ms.unwrap();
    for (found, expected) in
        [(rtt.min, 0.0), (rtt.mean, 50.0), (rtt.p50, 50.0), (rtt.p90, 90.0), (rtt.p99, 99.0)]
    {
        near(found, expected);
    }
}

#[test]
fn jitter_follows_rfc_3550_on_the_way_up() {
    // D is 1, 1, 4: J is 1/16, then 1/16 + (1 − 1/16)/16, and so on.
    let delays = [20.0, 21.0, 20.0, 24.0].map(|up| Some((up, 10.0 + up)));
    let found = one_echo(packets(&delays));
    let j1 = 1.0 / 16.0;
    let j2 = j1 + (1.0 - j1) / 16.0;
    let j3 = j2 + (4.0 - j2) / 16.0;
    assert_eq!(found.jitter_of, Transit::Up);
    near(found.jitter_last_ms.unwrap(), j3);
    near(found.jitter_up_ms.unwrap(), 2.0);
    near(found.jitter_rtt_ms.unwrap(), 4.0);
    near(found.jitter_down_ms.unwrap(), 2.0);
    near(found.ipdv_ms.unwrap().max, 4.0);
}

#[test]
fn ping_has_its_jitter_of_the_round_trip() {
    let delays = [20.0, 21.0].map(|up| Some((up, up)));
    let found = one_echo(pings(&delays));
    assert_eq!(found.jitter_of, Transit::RoundTrip);
    near(found.jitter_rtt_ms.unwrap(), 2.0);
    assert_eq!((found.jitter_up_ms, found.jitter_down_ms), (None, None));
    assert_eq!((found.up_ms, found.reordered_up), (None, None));
}

#[test]
fn a_lost_packet_leaves_no_pair_for_the_variation_of_delay() {
    let delays = [Some((20.0, 0.0)), None, Some((90.0, 0.0)), Some((91.0, 0.0))];
    let ipdv = one_echo(packets(&delays)).ipdv_ms.unwrap();
    assert_eq!(ipdv.n, 1, "only the last two are neighbours");
    near(ipdv.max, 1.0);
}

#[test]
fn warm_up_unfinished_packets_and_duplicates_do_not_count() {
    let mut samples = packets(&[Some((20.0, 10.0)); 10]);
    samples[0].t_ns = -100 * MS;
    samples[9].status = EchoStatus::Unfinished;
    let mut twice = samples[4].clone();
    twice.status = EchoStatus::Duplicate;
    samples.insert(5, twice);
    let found = one_echo(samples);
    assert_eq!((found.counts.sent, found.counts.received, found.counts.duplicates), (8, 8, 1));
    near(found.counts.loss_ratio().unwrap(), 0.0);
}

#[test]
fn a_packet_that_is_overtaken_is_reordered_where_it_happened() {
    let mut samples = packets(&[Some((20.0, 10.0)); 6]);
    samples[1].up_order = Some(2);
    samples[2].up_order = Some(1);
    // The replies keep the order in which the reflector sent them.
    samples[1].down_order = Some(2);
    samples[2].down_order = Some(1);
    let found = one_echo(samples.clone());
    assert_eq!((found.reordered_up, found.reordered_down), (Some(1), Some(0)));
    samples[4].down_order = Some(5);
    samples[5].down_order = Some(4);
    let found = one_echo(samples);
    assert_eq!((found.reordered_up, found.reordered_down), (Some(1), Some(1)));
}

#[test]
fn a_stream_that_sent_nothing_has_no_loss_rather_than_none_lost() {
    let found = one_echo(vec![]);
    assert_eq!(
        (found.counts.sent, found.counts.loss_ratio(), found.jitter_ms(), found.rtt_ms),
        (0, None, None, None)
    );
}

#[test]
fn goodput_leaves_the_warm_up_out() {
    // Twice as fast before the measurement as in it.
    let counters = [(-2 * SECOND, 0), (0, 2_000_000), (10 * SECOND, 7_000_000)];
    let data = on_ways(flows(vec![flow("tcp", &counters)]), &[("tcp", "dsl up", None)]);
    let found = flow_results(&run(vec![("s", "tcp", 0, data)]));
    near(found[0].1.goodput_mbps.unwrap(), 4.0);
    near(found[0].1.share.unwrap(), 1.0);
    assert_eq!(found[0].1.sent, None, "TCP counts no packets");
}

#[test]
fn counters_are_interpolated_at_the_edges_of_the_measurement() {
    // No report falls on 0 s or 10 s; a megabyte a second all the time.
    let counters: Vec<_> =
        (0..=12).map(|n| (n * SECOND - SECOND / 2, n as u64 * 1_000_000)).collect();
    let found = flow_results(&run(vec![("s", "tcp", 0, flows(vec![flow("tcp", &counters)]))]));
    near(found[0].1.goodput_mbps.unwrap(), 8.0);
}

#[test]
fn a_flow_that_ends_early_is_rated_over_its_own_time_and_that_is_said() {
    let counters = [(0, 0), (SECOND, 1_000_000)];
    let run = run(vec![("s", "tcp", 0, flows(vec![flow("tcp", &counters)]))]);
    let found = flow_results(&run);
    near(found[0].1.goodput_mbps.unwrap(), 8.0);
    near(found[0].1.carried_mbps.unwrap(), 0.8);
    assert_eq!(found[0].1.time, OwnTime::Part(0.0, 1.0));
    let warnings = Results::from(&run).warnings().join("\n");
    assert!(warnings.contains("s.tcp.0: the flow tcp ran from 0.0 s to 1.0 s"), "{warnings}");
}

#[test]
fn a_read_from_many_is_rated_until_the_slowest_of_them_has_sent_its_part() {
    let part = |name: &str, end| flow(name, &[(SECOND, 0), (end, 1_000_000)]);
    let two = flows(vec![part("read-1", 2 * SECOND), part("read-2", 5 * SECOND)]);
    let data = on_ways(two, &[("read", "port up", None)]);
    let found = flow_results(&run(vec![("s", "tcp", 0, data)]));
    found.iter().for_each(|(_, flow)| near(flow.together_mbps.unwrap(), 4.0));
}

#[test]
fn a_flow_that_was_over_before_the_measurement_has_no_goodput_rather_than_none() {
    let counters = [(-2 * SECOND, 0), (-SECOND, 1_000_000)];
    let run = run(vec![("s", "tcp", 0, flows(vec![flow("tcp", &counters)]))]);
    let found = flow_results(&run);
    assert_eq!((found[0].1.goodput_mbps, found[0].1.time), (None, OwnTime::Never));
    let warnings = Results::from(&run).warnings().join("\n");
    assert!(warnings.contains("did not run within the measurement"), "{warnings}");
}

#[test]
fn a_flow_that_stalls_is_rated_over_all_the_time_that_its_sender_tried() {
    let mut data = flows(vec![flow("tcp", &[(0, 0), (SECOND, 1_000_000)])]);
    let mut last = data.flows[0].samples[1].clone();
    last.t_ns = 10 * SECOND;
    last.tcp = Some(quell_model::TcpState { unacked: 10, ..Default::default() });
    // Its receiver reports on, and has nothing new to tell.
    let waiting = FlowSample { side: Side::Receiver, tcp: None, ..last.clone() };
    data.flows[0].samples.extend([last, waiting]);
    let found = flow_results(&run(vec![("s", "tcp", 0, data)]));
    near(found[0].1.goodput_mbps.unwrap(), 0.8);
    assert_eq!(found[0].1.time, OwnTime::Whole);
}

#[test]
fn a_cell_that_was_cut_off_is_rated_over_the_time_that_it_ran() {
    let mut cut =
        run(vec![("s", "tcp", 0, flows(vec![flow("tcp", &[(0, 0), (4 * SECOND, 2_000_000)])]))]);
    cut.manifest.cells[0].status = CellStatus::Partial;
    near(flow_results(&cut)[0].1.goodput_mbps.unwrap(), 4.0);
}

fn share(data: CellData, stream: &str) -> Option<f64> {
    let found = flow_results(&run(vec![("s", "tcp", 0, data)]));
    found.iter().find(|(name, _)| name == stream).expect("the flow").1.share
}

#[test]
fn shares_are_of_what_all_flows_of_the_same_way_got() {
    let all = || {
        let flows = flows(vec![
            steady("bulk-1", 1.0, -SECOND),
            steady("bulk-2", 1.0, -SECOND),
            steady("tcp", 2.0, 0),
            // Fifteen times as much the other way takes nothing from them.
            steady("film", 60.0, 0),
        ]);
        let ways = [("bulk", "dsl up", None), ("tcp", "dsl up", None), ("film", "dsl down", None)];
        on_ways(flows, &ways)
    };
    assert!((share(all(), "tcp").unwrap() - 0.5).abs() < 1e-5);
    assert!((share(all(), "bulk-1").unwrap() - 0.25).abs() < 1e-5);
    near(share(all(), "film").unwrap(), 1.0);
}

/// One stream crosses the wide line to a narrow one behind it.
#[test]
fn a_stream_takes_its_share_of_every_line_that_it_crosses() {
    let mut data = flows(vec![steady("near", 3.0, 0), steady("far", 1.0, 0)]);
    data = on_ways(data, &[("near", "wide up", None), ("far", "narrow up", None)]);
    near(share(data.clone(), "near").unwrap(), 1.0);
    let path = Fact::new(When::Before, Subject::stream("far", Told::Path), "wide up, narrow up");
    data.facts.push(path);
    near(share(data.clone(), "near").unwrap(), 0.75);
    near(share(data, "far").unwrap(), 1.0);
}

/// 500 bytes ten times a second are 40 kbit/s either way.
#[test]
fn a_probe_whose_packets_are_answered_takes_its_share_of_both_ways() {
    let mut data = flows(vec![steady("up", 0.04, 0), steady("down", 0.12, 0)]);
    data.echoes = echo("udp", packets(&[Some((20.0, 10.0)); 100])).echoes;
    let ways =
        [("up", "dsl up", None), ("down", "dsl down", None), ("udp", "dsl up", Some("dsl down"))];
    let data = on_ways(data, &ways);
    assert!((share(data.clone(), "up").unwrap() - 0.5).abs() < 1e-3);
    assert!((share(data, "down").unwrap() - 0.75).abs() < 1e-3);
}

/// Every packet waits for four seconds on its way there, so that 60 of 100 arrive there within 10 s, whatever is told of the way: 30 kB
/// against 30 kB of the flow there, and all answers cross an empty line.
#[test]
fn packets_that_arrive_after_the_end_take_no_share_of_what_was_carried() {
    let shared = |change: fn(&mut EchoSample), clocks: Option<&str>| {
        let mut data = flows(vec![steady("up", 0.024, 0), steady("down", 0.024, 0)]);
        data.echoes = echo("udp", packets(&[Some((4_000.0, 0.0)); 100])).echoes;
        data.echoes[0].samples.iter_mut().for_each(change);
        let told = |clocks| Fact::new(When::After, Subject::stream("udp", Told::Clocks), clocks);
        data.facts.extend(clocks.map(told));
        let ways = [
            ("up", "dsl up", None),
            ("down", "dsl down", None),
            ("udp", "dsl up", Some("dsl down")),
        ];
        let data = on_ways(data, &ways);
        ["up", "down"].map(|flow| (share(data.clone(), flow).unwrap() * 1e3).round())
    };
    assert_eq!(shared(|_| (), None), [500.0, 500.0]);
    // A queue on the way back: 60 answers come in time, and all packets.
    let back = |s: &mut EchoSample| (s.up_ns, s.down_ns) = (s.down_ns, s.up_ns);
    assert_eq!(shared(back, None), [375.0, 500.0]);
    // Two clocks, and one packet that met no queue tells how far they are apart.
    let apart = |s: &mut EchoSample| {
        let ahead = 77 * SECOND;
        if s.seq == 0 {
            (s.rtt_ns, s.up_ns) = (Some(0), Some(0));
        }
        (s.up_ns, s.down_ns) = (s.up_ns.map(|ns| ns + ahead), s.down_ns.map(|ns| ns - ahead));
    };
    assert_eq!(shared(apart, Some("apart")), [500.0, 500.0]);
    // Of pings only the round trip is known: 80 were there after half of it.
    assert_eq!(shared(|s| (s.up_ns, s.down_ns) = (None, None), None), [429.0, 500.0]);
    // Lost on the way back, with nothing known of this one: as the one before.
    let lost = |s: &mut EchoSample| {
        if s.seq == 99 {
            (s.status, s.rtt_ns, s.up_ns, s.down_ns) = (EchoStatus::LostDown, None, None, None);
        }
    };
    assert_eq!(shared(lost, None), [500.0, 500.0]);
}

#[test]
fn a_connection_of_a_foreign_program_is_counted_by_its_addresses() {
    let mut data =
        flows(vec![steady("tcp", 1.0, 0), steady("tcp 10.0.0.1:4 > 10.0.0.2:80", 3.0, 0)]);
    let way = Subject::Way([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    data = on_ways(data, &[("tcp", "dsl up", None)]);
    assert_eq!(share(data.clone(), "tcp"), None, "nobody knows which way three quarters went");
    data.facts.push(Fact::new(When::Before, way, "dsl up"));
    assert!((share(data, "tcp").unwrap() - 0.25).abs() < 1e-5);
}

/// A load of 1000 datagrams, of which 310 arrive.
fn flood() -> CellData {
    let mut data = flows(vec![steady("flood", 8.0, -SECOND)]);
    data.flows[0].samples.last_mut().unwrap().packets = 1000;
    data.flows[1].samples.last_mut().unwrap().packets = 310;
    data
}

#[test]
fn a_flood_loses_datagrams() {
    let found = flow_results(&run(vec![("s", "udp", 0, flood())]));
    let flood = &found[0].1;
    assert_eq!((flood.sent, flood.received), (Some(1000), Some(310)));
    near(flood.loss_ratio.unwrap(), 0.69);
}

#[test]
fn datagrams_sent_while_loads_warmed_up_do_not_count_whenever_they_arrived() {
    let mut data = flood();
    for (what, count) in [(Told::SentBefore, "100"), (Told::ReceivedBefore, "90")] {
        data.facts.push(Fact::new(When::After, Subject::stream("flood", what), count));
    }
    let found = flow_results(&run(vec![("s", "udp", 0, data)]));
    assert_eq!((found[0].1.sent, found[0].1.received), (Some(900), Some(220)));
}

#[test]
fn what_waits_in_a_queue_at_the_border_of_the_measurement_is_not_lost_to_the_interval_either() {
    let cell = |repeat, received: [u64; 3]| {
        let mut data = flows(vec![steady("flood", 8.0, -SECOND)]);
        for (series, counts) in data.flows.iter_mut().zip([[100, 1100, 1100], received]) {
            series.samples = (0..)
                .zip(counts)
                .map(|(n, count)| ([0, 10, 12][n] * SECOND, count))
                .map(|(t_ns, packets)| quell_model::FlowSample {
                    t_ns,
                    packets,
                    ..series.samples[0].clone()
                })
                .collect();
        }
        for what in [Told::SentBefore, Told::ReceivedBefore] {
            data.facts.push(Fact::new(When::After, Subject::stream("flood", what), "100"));
        }
        ("s", "udp", repeat, data)
    };
    let loss = |received| {
        let run = run((0..3).map(|repeat| cell(repeat, received)).collect());
        Summary::of(&Results::from(&run), &run.manifest).rows[0].loss.unwrap()
    };
    // A tenth waits at the end: it was sent in the measurement and arrives after it.
    let loss_of_none = loss([100, 1000, 1100]);
    near(loss_of_none.value, 0.0);
    // No loss among n packets leaves 3.7 ÷ n.
    let ends = loss_of_none.interval.unwrap();
    assert!(ends.low == Some(0.0) && ends.high.unwrap() < 0.0013, "{ends:?}");
    // 40 of those before wait at the beginning, and do not make up for 40 of these that are lost.
    let found = loss([60, 960, 1060]);
    near(found.value, 0.04);
    let ends = found.interval.unwrap();
    assert!(ends.low <= Some(0.04) && Some(0.04) <= ends.high, "{ends:?}");
}

/// A slow UDP load is reported packet by packet too, up to the last that arrived: what was lost behind it only its sender knows of.
#[test]
fn a_load_told_packet_by_packet_and_as_a_whole_is_one_stream_with_one_loss() {
    let cell = |repeat| {
        let mut data = flood();
        data.echoes = echo("flood", packets(&[Some((20.0, 0.0)); 310])).echoes;
        ("s", "all", repeat, data)
    };
    let run = run(vec![cell(0), cell(1)]);
    let results = Results::from(&run);
    assert_eq!(results.rows.len(), 2, "one a repeat");
    near(results.rows[0].loss_ratio().unwrap(), 0.69);
    assert_eq!(results.rows[0].echo().unwrap().up_ms.unwrap().p50, 20.0);
    let summary = Summary::of(&results, &run.manifest);
    assert_eq!((summary.rows.len(), summary.rows[0].repeats), (1, 2));
    near(summary.rows[0].loss.unwrap().value, 0.69);
    assert_eq!(summary.rows[0].loss.unwrap().interval, None, "two repeats are two repeats");
    let json = format!("{:#}", quell_report::json::document(&run.manifest, &results));
    assert_eq!(json.matches("\"loss_ratio\": 0.69").count(), 2, "{json}");
}

#[test]
fn loads_of_one_cell_are_added_up_and_are_no_repeats() {
    let cell = |repeat, mbps| {
        let loads = [("a", mbps, "dsl up"), ("b", 1.0, "dsl down"), ("c", 1.0, "dsl up")];
        let mut all = vec![steady("tcp", 1.0, 0)];
        all.extend(loads.iter().map(|(name, mbps, _)| steady(name, *mbps, 0)));
        let mut ways = vec![("tcp", "dsl up", None)];
        ways.extend(loads.iter().map(|(name, _, way)| (*name, *way, None)));
        ("s", "tcp", repeat, on_ways(flows(all), &ways))
    };
    let run = run(vec![cell(0, 2.0), cell(1, 4.0)]);
    let summary = Summary::of(&Results::from(&run), &run.manifest);
    let found: Vec<_> = summary
        .loads
        .iter()
        .map(|l| (l.way.clone().unwrap(), l.carried_mbps.value.round(), l.carried_mbps.interval))
        .collect();
    assert_eq!(found, [("dsl up".into(), 4.0, None), ("dsl down".into(), 1.0, None)]);
}

#[test]
fn delays_of_a_minority_are_known_as_such() {
    let delays: Vec<_> = (0..100).map(|n| (n % 5 == 0).then_some((20.0, 10.0))).collect();
    let few = one_echo(pings(&delays));
    assert!(few.counts.minority().is_some() && few.rtt_ms.is_some());
    assert_eq!(one_echo(pings(&[Some((20.0, 10.0)); 10])).counts.minority(), None);
}

#[test]
fn intervals_need_three_repeats_and_hold_the_mean() {
    let of = |repeats| {
        let run = home_link(repeats);
        let summary = Summary::of(&Results::from(&run), &run.manifest);
        summary.find("bulk", "ping").unwrap().rtt_p50_ms.unwrap()
    };
    assert_eq!(of(2).interval, None);
    let five = of(5);
    let ends = five.interval.unwrap();
    let (low, high) = (ends.low.unwrap(), ends.high.unwrap());
    assert!(low < five.value && five.value < high, "{five:?}");
    assert!(high - low < 2.0, "the repeats lie within two milliseconds");
    assert_eq!(of(5), five, "the seed makes it repeatable");
}

/// Of 100 packets one is beyond the 99th percentile. Three times one tell nothing of how far out it may lie; the mean of their three
/// percentiles seemed to.
#[test]
fn a_p99_of_three_repeats_of_a_hundred_packets_has_no_upper_end_and_is_that_of_all_of_them() {
    let cell = |repeat: u32| {
        let delays: Vec<_> = (0..100)
            .map(|n| Some((f64::from((n * 37 + repeat * 11) % 100 + 50 * repeat), 10.0)))
            .collect();
        ("s", "ping", repeat, echo("ping", pings(&delays)))
    };
    let run = run((0..3).map(cell).collect());
    let p99 = Summary::of(&Results::from(&run), &run.manifest).rows[0].rtt_p99_ms.unwrap();
    // Repeats reach to 109, 159 and 209 ms: of the 300, three are above 206.
    near(p99.value, 206.01);
    let ends = p99.interval.unwrap();
    assert!(ends.high.is_none() && ends.low.is_none_or(|low| low < 206.0), "{ends:?}");
}

#[test]
fn goodput_over_time_puts_scenarios_one_after_the_other() {
    let course = series::goodput(&home_link(1), 0).unwrap();
    assert_eq!(course.probe, "tcp", "the probe that is a flow itself");
    let names: Vec<_> = course.parts.iter().map(|p| p.scenario.as_str()).collect();
    assert_eq!(names, ["unloaded", "bulk"]);
    assert!(course.parts[0].to_s < course.parts[1].from_s);
    let bulk = &course.parts[1].lines;
    let rates = |stream: &str| {
        let line = bulk.iter().find(|l| l.stream == stream).unwrap();
        line.intervals.iter().map(|(_, v)| *v).collect::<Vec<_>>()
    };
    assert!(rates("tcp").iter().all(|v| (v - 0.6).abs() < 0.01));
    assert!(rates("bulk-1").iter().all(|v| (v - 1.8).abs() < 0.01));
}

#[test]
fn a_distribution_ends_below_one_where_packets_were_lost() {
    let delays = series::delays(&home_link(1), Which::Usual);
    let end = |scenario: usize| delays[scenario].streams[0].distribution.last().unwrap().1;
    near(end(0), 1.0);
    near(end(1), 0.95);
    assert_eq!(delays[1].streams[0].stream, "ping", "the stream that measures round trips alone");
    assert_eq!(delays[1].streams[0].lost_at.len(), 5);
}

/// A ping each 100 ms, of which every second is lost; answers are told at once, losses after 3 s.
fn half_lost(cut_s: f64, status: CellStatus) -> quell_report::analysis::StreamResult {
    let all = pings(&(0..100).map(|n| (n % 2 == 0).then_some((20.0, 10.0))).collect::<Vec<_>>());
    let cut_ns = (cut_s * 1e9) as i64;
    let told = all
        .into_iter()
        .filter(|s| s.t_ns + if s.status.is_lost() { 3 * SECOND } else { 30 * MS } <= cut_ns);
    let mut data = echo("ping", told.collect());
    let waits = (3 * SECOND).to_string();
    data.facts.push(Fact::new(When::Before, Subject::stream("ping", Told::Waits), waits));
    let mut run = run(vec![("s", "ping", 0, data)]);
    run.manifest.cells[0].status = status;
    Results::from(&run).rows.remove(0)
}

#[test]
fn of_a_cell_that_was_stopped_only_what_was_waited_for_counts() {
    for status in [CellStatus::Stopped, CellStatus::Partial, CellStatus::Failed] {
        let found = half_lost(8.0, status);
        // The last answer came at 7.83 s: all that was sent up to 4.83 s is settled.
        near(found.loss_ratio().unwrap(), 24.0 / 49.0);
        assert_eq!((found.sent(), found.received()), (Some(49), Some(25)));
        assert_eq!(found.echo().unwrap().rtt_ms.as_ref().unwrap().n, 80 / 2, "all that came");
        let found = half_lost(2.0, status);
        assert_eq!((found.sent(), found.received(), found.loss_ratio()), (None, None, None));
        assert_eq!(found.lost_ways(), None);
    }
}

#[test]
fn of_a_flood_that_was_stopped_nobody_counts_the_warm_up_or_what_is_under_way() {
    let mut run = run(vec![("s", "udp", 0, flood())]);
    run.manifest.cells[0].status = CellStatus::Stopped;
    let found = flow_results(&run);
    assert_eq!((found[0].1.sent, found[0].1.received, found[0].1.loss_ratio), (None, None, None));
}

/// 100 kB within 1.6 s; the last ACK is lost, and the sender waits for it until 2.5 s.
#[test]
fn a_transfer_is_over_when_its_receiver_has_the_last_byte() {
    let mut data = flows(vec![flow("tcp", &[(0, 0), (16 * SECOND / 10, 100_000)])]);
    let mut last = data.flows[0].samples[1].clone();
    last.t_ns = 25 * SECOND / 10;
    data.flows[0].samples.push(last);
    let found = &flow_results(&run(vec![("s", "tcp", 0, data)]))[0].1;
    near(found.goodput_mbps.unwrap(), 0.5);
    assert_eq!(found.time, OwnTime::Part(0.0, 1.6));
}

/// Two flows that end at 1.5 s, 250 ms from each other's ends: one whose receiver ends it, and one whose sender does, whose last bytes come at
/// 1.6 s, and the end at 1.8 s. A third sends nothing in its last second.
#[test]
fn a_flow_that_the_clock_ends_is_not_rated_until_its_other_end_hears_of_it() {
    /// What was received by when (ms), when the sender heard of the end (ms), and the time that counts (s).
    type Story<'a> = (&'a [(i64, u64)], i64, f64);
    let stories: [Story<'_>; 3] = [
        (&[(0, 0), (1000, 80_000), (1500, 150_000)], 1750, 1.5),
        (&[(0, 0), (1500, 100_000), (1600, 160_000), (1800, 160_000)], 1500, 1.6),
        (&[(0, 0), (500, 150_000), (1800, 150_000)], 1500, 1.5),
    ];
    let ms = |at: i64| at * MS;
    for (received, sender_ended, own_s) in stories {
        let received: Vec<_> = received.iter().map(|(at, bytes)| (ms(*at), *bytes)).collect();
        let bytes = received.last().expect("a report").1;
        let mut data = flows(vec![flow("tcp", &received)]);
        let samples = &mut data.flows[0].samples;
        samples.retain(|s| s.side == Side::Receiver);
        for (t_ns, bytes) in [(0, 0), (ms(1000), 50_000), (ms(sender_ended), 140_000)] {
            let tcp = Some(quell_model::TcpState { unacked: 10, ..Default::default() });
            samples.push(FlowSample { t_ns, side: Side::Sender, bytes, packets: 0, tcp });
        }
        let found = &flow_results(&run(vec![("s", "tcp", 0, data)]))[0].1;
        assert_eq!(found.time, OwnTime::Part(0.0, own_s));
        near(found.goodput_mbps.unwrap(), bytes as f64 * 8e-6 / own_s);
    }
}

/// All that a load delivered came in the warm-up, and its receiver told so right after the border.
#[test]
fn a_load_that_delivered_nothing_in_the_measurement_has_no_share() {
    let counters = [(-SECOND, 0), (-100 * MS, 0), (180, 100_000), (10 * SECOND, 100_000)];
    let data = on_ways(flows(vec![flow("bulk", &counters)]), &[("bulk", "dsl up", None)]);
    let found = &flow_results(&run(vec![("s", "bulk", 0, data)]))[0].1;
    assert_eq!((found.goodput_mbps, found.carried_mbps, found.share), (Some(0.0), Some(0.0), None));
}
