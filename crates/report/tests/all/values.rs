//! What pictures show is what was measured: lines, dots, bars and boxes stand where known data puts them.

use crate::common::{SECOND, echo, flow, flows, packets, picture_of, pings, queue, run};
use crate::drawn::{Drawn, near};
use quell_model::{Side, TcpState};
use quell_report::analysis::{Results, Summary};
use quell_report::figures::PageWidth;
use quell_report::figures::sweep::{self, Sweep, SweptScenario};
use quell_store::{CellData, Run};

#[track_caller]
fn drawn(run: &Run, name: &str) -> Drawn {
    Drawn::of(&picture_of(run, name))
}

/// A hundred pings of so many milliseconds.
fn pinged(ms: impl Fn(f64) -> f64) -> CellData {
    let delays: Vec<_> = (0..100).map(|n| Some((ms(f64::from(n)), 0.0))).collect();
    echo("ping", pings(&delays))
}

#[test]
fn a_sweep_has_a_point_where_the_field_and_the_figure_are() {
    let values = [(1.0, 30.0), (2.0, 20.0), (3.0, 10.0)];
    let cells = [("s-1", 30.0), ("s-2", 20.0), ("s-3", 10.0)];
    let run = run(cells.map(|(scenario, ms)| (scenario, "ping", 0, pinged(|_| ms))).into());
    let point = |n: usize| SweptScenario {
        scenario: cells[n].0.into(),
        line: "s".into(),
        value: format!("{}ms", n + 1),
        number: Some(values[n].0),
    };
    let sweep = Sweep { field: "delay".into(), unit: "ms", points: (0..3).map(point).collect() };
    let results = Results::from(&run);
    let summary = Summary::of(&results, &run.manifest);
    let made = sweep::figure(&run.manifest, &summary, &sweep, PageWidth::Wide).expect("values");
    let drawn = Drawn::of(&made.svg());
    assert!(drawn.says("By delay") && drawn.says("Round-trip time, median (ms)"));
    let lines = &drawn.panels[0].lines;
    assert!(lines.len() >= 2, "a line, and its dots");
    for (_, points) in lines {
        near(points, &values, (0.02, 0.1));
    }
}

#[test]
fn tcps_own_words_stand_in_their_units() {
    let mut of = flow("tcp", &[]);
    let state = |n: u32| TcpState {
        cwnd: 10 + n,
        srtt_us: 20_000 + 1000 * n,
        // 8 Mbit/s and 4.
        pacing_rate: 1_000_000,
        delivery_rate: 500_000,
        ..TcpState::default()
    };
    let sample = |n: u32| quell_model::FlowSample {
        t_ns: i64::from(n) * SECOND,
        side: Side::Sender,
        bytes: u64::from(n),
        packets: 0,
        tcp: Some(state(n)),
    };
    of[0].samples = (0..=8).map(sample).collect();
    let drawn = drawn(&run(vec![("s", "tcp", 0, flows(vec![of]))]), "tcp");
    let course = |value: fn(f64) -> f64| -> Vec<(f64, f64)> {
        (0..=8).map(|n| (f64::from(n), value(f64::from(n)))).collect()
    };
    let wanted = [course(|n| 10.0 + n), course(|n| 20.0 + n), course(|_| 8.0), course(|_| 4.0)];
    assert_eq!(drawn.panels.len(), 4);
    for (panel, wanted) in drawn.panels.iter().zip(wanted) {
        near(&panel.lines[0].1, &wanted, (0.02, 0.2));
    }
}

#[test]
fn each_way_has_its_own_delay() {
    let delays: Vec<_> = (0..100).map(|n| Some((10.0 + f64::from(n) / 10.0, 5.0))).collect();
    let drawn = drawn(&run(vec![("s", "udp", 0, echo("udp", packets(&delays)))]), "one-way");
    let [up, down] = &drawn.panels[..] else { panic!("two panels") };
    let course = |ms: fn(f64) -> f64| -> Vec<(f64, f64)> {
        (0..100).map(|n| (f64::from(n) / 10.0, ms(f64::from(n)))).collect()
    };
    near(&up.lines[0].1, &course(|n| 10.0 + n / 10.0), (0.02, 0.2));
    let flat = &down.lines[0].1;
    assert!(flat.iter().all(|(_, ms)| (ms - 5.0).abs() < 0.2), "{flat:?}");
    assert!(drawn.says("s: up") && drawn.says("s: down"));
}

#[test]
fn what_waits_in_a_queue_waits_its_size_over_the_rate() {
    let mut data = pinged(|_| 20.0);
    // 300 kB leave each second, and 120 kB wait.
    let mut queue = queue("modem:wan", &[120_000; 10]);
    queue.points.iter_mut().zip(0..).for_each(|(point, n)| point.bytes = n * 300_000);
    data.queues.push(queue);
    let run = run(vec![("s", "ping", 0, data)]);
    let waits = drawn(&run, "queue-wait");
    let line = &waits.panels[0].lines[0].1;
    let wanted: Vec<_> = (0..9).map(|n| (f64::from(n), 400.0)).collect();
    near(&line[..9], &wanted, (0.05, 5.0));
    let bytes = drawn(&run, "queue-backlog");
    assert!(bytes.panels[0].lines[0].1.iter().all(|(_, kb)| (kb - 120.0).abs() < 1.5));
}

#[test]
fn bars_are_as_high_as_their_labels_say() {
    let delays: Vec<_> = (0..100).map(|n| (n >= 5).then_some((120.0, 0.0))).collect();
    let lossy = echo("ping", pings(&delays));
    let cells = vec![("a", "ping", 0, pinged(|_| 40.0)), ("b", "ping", 0, lossy)];
    let drawn = drawn(&run(cells), "rtt-averages");
    let [means, losses] = &drawn.panels[..] else { panic!("two panels") };
    let tops: Vec<f64> = means.bars.iter().map(|(_, from, to)| to - from).collect();
    assert!((tops[0] - 40.0).abs() < 0.5 && (tops[1] - 120.0).abs() < 0.5, "{tops:?}");
    let last = losses.bars.last().expect("a bar of what was lost");
    assert!((last.2 - 5.0).abs() < 0.1, "{last:?}");
    for label in ["40.0", "120"] {
        assert!(drawn.says(label), "{label}");
    }
}

#[test]
fn a_box_stands_from_quartile_to_quartile() {
    let cells =
        vec![("a", "ping", 0, pinged(|n| 100.0 + n)), ("b", "ping", 0, pinged(|n| 130.0 + n))];
    let drawn = drawn(&run(cells), "rtt-box");
    let boxes = &drawn.panels[0].bars;
    for (low, (_, from, to)) in [124.75, 154.75].iter().zip(boxes) {
        assert!((from - low).abs() < 1.0 && (to - low - 49.5).abs() < 1.5, "{from} to {to}");
    }
    assert_eq!(boxes.len(), 2);
}
