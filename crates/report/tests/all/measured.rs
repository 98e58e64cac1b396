//! What the program that measured a flow told is the result, and nothing of a download stands under "up".

use crate::common::{MS, SECOND, echo, flow, flows, on_ways, page_of, run, steady};
use quell_model::{CellId, EchoSample, EchoStatus, Fact, Subject, Told, When};
use quell_report::analysis::{Results, StreamResult, Transit};
use quell_store::CellData;
use std::collections::BTreeMap;

fn near(found: f64, wanted: f64) {
    assert!((found - wanted).abs() <= wanted.abs() * 1e-9, "{found} is not {wanted}");
}

/// A flow of 8 Mbit/s and a second's warm-up, of whose datagrams 310 of 1000 arrive in all; on this way, with this told of it.
fn flood(way: &str, measured: Option<&str>) -> CellData {
    let mut data = flows(vec![steady("flood", 8.0, -SECOND)]);
    data.flows[0].samples.last_mut().unwrap().packets = 1000;
    data.flows[1].samples.last_mut().unwrap().packets = 310;
    let told = measured
        .map(|value| Fact::new(When::After, Subject::stream("flood", Told::Measured), value));
    data.facts.extend(told);
    on_ways(data, &[("flood", way, None)])
}

fn only(data: CellData) -> StreamResult {
    let run = run(vec![("s", "udp", 0, data)]);
    let id = CellId { scenario: "s".into(), probe: "udp".into(), repeat: 0 };
    let mut rows = Results::from(&run).rows;
    assert_eq!((rows.len(), &rows[0].cell), (1, &id));
    rows.remove(0)
}

const MEASURED: &str = r#"{"seconds":4.0,"received_bytes":2000000,"datagrams":{"sent":800,"arrived":290,"lost":500,"jitter_ms":1.5}}"#;

#[test]
fn what_was_measured_is_told_and_not_computed_again() {
    let row = only(flood("up", Some(MEASURED)));
    let flow = row.flow().unwrap();
    near(flow.goodput_mbps.unwrap(), 4.0);
    assert_eq!(
        (row.sent(), row.received(), row.lost_ways()),
        (Some(800), Some(290), Some((500, 0)))
    );
    // Ten were under way when it ended.
    near(row.loss_ratio().unwrap(), 500.0 / 790.0);
    assert_eq!(row.jitter_last(), Some((1.5, Transit::Up)));
    let sent: f64 = flow.batches.iter().map(|batch| batch.sent).sum();
    let lost: f64 = flow.batches.iter().map(|batch| batch.lost).sum();
    assert!((sent - 790.0).abs() < 1e-6 && (lost - 500.0).abs() < 1e-6, "{sent} {lost}");
}

#[test]
fn what_was_found_stands_in_the_report_and_what_is_no_finding_does_not() {
    let page = |value: &str| {
        let mut data = flood("up", None);
        data.facts.push(Fact::new(When::After, Subject::stream("up", Told::Found), value));
        let run = run(vec![("s", "udp", 0, data)]);
        page_of(&run, &BTreeMap::new())
    };
    let finding = r#"{"id":"send-buffer","subject":"up","severity":"warning","says":"held up by <its> buffer",
        "evidence":[{"name":"own send buffer did","value":95.6,"unit":"%","source":"TCP_INFO"}],
        "why":"no room","remedies":[{"kind":"advice","text":"a larger one"}],"source":"a test"}"#;
    let told = page(finding);
    for part in [
        "What was found",
        "WARNING   up: held up by &lt;its&gt; buffer",
        "seen    own send buffer did 95.6 % (TCP_INFO)",
        "no room [send-buffer]",
    ] {
        assert!(told.contains(part), "{part}");
    }
    assert!(!page("nonsense").contains("What was found"));
}

#[test]
fn what_can_not_be_and_what_nobody_told_leaves_the_rows() {
    let plain = only(flood("up", None));
    assert_eq!((plain.sent(), plain.received()), (Some(1000), Some(310)), "an old run");
    for wrong in [
        "nonsense",
        r#"{"seconds":-4.0}"#,
        r#"{"datagrams":{"sent":1,"arrived":290,"lost":500,"jitter_ms":1.5}}"#,
    ] {
        assert_eq!(only(flood("up", Some(wrong))), plain, "{wrong}");
    }
}

#[test]
fn what_is_lost_on_the_way_down_is_lost_there() {
    assert_eq!(only(flood("dsl down", None)).lost_ways(), Some((0, 690)));
    assert_eq!(only(flood("down", Some(MEASURED))).lost_ways(), Some((0, 500)));
    for up in ["dsl up", "up", "b to server", "downtown up"] {
        assert_eq!(only(flood(up, None)).lost_ways(), Some((690, 0)), "{up}");
    }
}

/// Fifty datagrams of a load on `way`, a tenth of which is lost.
fn a_load(way: &str) -> CellData {
    let one_way = |n: u64| EchoSample {
        up_ns: Some(20_000_000 + (n % 2) as i64 * MS),
        up_order: Some(n),
        ..EchoSample::new(n as i64 * 100 * MS, n, 500, EchoStatus::Ok)
    };
    let lost = |n: u64| EchoSample::new(n as i64 * 100 * MS, n, 500, EchoStatus::LostUp);
    let samples = (0..50).map(|n| if n % 10 == 9 { lost(n) } else { one_way(n) }).collect();
    on_ways(
        CellData { flows: steady("flood", 1.0, 0), ..echo("flood", samples) },
        &[("flood", way, None)],
    )
}

#[test]
fn the_table_has_the_jitter_of_a_load_that_goes_down() {
    let run = run(vec![("s", "ping", 0, a_load("dsl down"))]);
    let results = Results::from(&run);
    let table = quell_report::table::render(100, &run.manifest, &results, &BTreeMap::new());
    let head: Vec<&str> = table.lines().take_while(|line| !line.starts_with('─')).collect();
    assert!(head.iter().any(|line| line.contains("jitter")), "{table}");
    assert!(
        head.iter()
            .any(|line| line.split_whitespace().next() == Some("down") || line.contains(" down ")),
        "{table}"
    );
    assert!(table.contains("1.000"), "{table}");
}

#[test]
fn rows_of_a_load_that_goes_down_are_turned_and_those_of_pings_are_not() {
    let row = |way: &str, is_load: bool| {
        let mut data = a_load(way);
        if !is_load {
            data.flows.clear();
        }
        only(data)
    };
    for (way, is_load, turned) in
        [("dsl up", true, false), ("dsl down", true, true), ("dsl down", false, false)]
    {
        let row = row(way, is_load);
        let echo = row.echo().unwrap();
        let mut delays = [echo.up_ms.as_ref(), echo.down_ms.as_ref()].map(|d| d.map(|d| d.p50));
        let mut jitter = [echo.jitter_up_ms, echo.jitter_down_ms];
        let mut lost = [echo.counts.lost_up, echo.counts.lost_down];
        if turned {
            delays.reverse();
            jitter.reverse();
            lost.reverse();
        }
        assert!(delays[0].is_some() && delays[1].is_none(), "{way}: {delays:?}");
        assert!(jitter[0].is_some() && jitter[1].is_none(), "{way}: {jitter:?}");
        assert_eq!(lost, [5, 0], "{way}");
        assert_eq!(echo.jitter_of, if turned { Transit::Down } else { Transit::Up }, "{way}");
    }
}

/// One second over a path of 0.6 s each way: nothing of the upload is there when the client has done, and of twenty pings there and their answers none.
#[test]
fn a_share_is_of_what_the_same_test_counted_however_late_that_came() {
    let told = |stream: &str, bytes: u64| {
        let value = format!(r#"{{"seconds":1.0,"received_bytes":{bytes}}}"#);
        Fact::new(When::After, Subject::stream(stream, Told::Measured), value)
    };
    let ping = |n: i64| EchoSample {
        rtt_ns: Some(1_200_000_000),
        ..EchoSample::new(n * 50 * MS, n as u64, 64, EchoStatus::Ok)
    };
    let late = |received: Option<u64>| {
        let mut data = flows(vec![flow("up", &[(11 * SECOND, 14_480)]), steady("down", 8.0, 0)]);
        data.echoes = echo("latency", (0..200).map(ping).collect()).echoes;
        data.facts.extend([told("down", 14_480)]);
        data.facts.extend(received.map(|bytes| told("up", bytes)));
        on_ways(
            data,
            &[("up", "up", None), ("down", "down", None), ("latency", "up", Some("down"))],
        )
    };
    let share = |data: CellData, stream: &str| {
        let run = run(vec![("s", "flow", 0, data)]);
        let rows = Results::from(&run).rows;
        rows.iter().find(|row| row.stream == stream).expect("the flow").flow().unwrap().share
    };
    // All 200 pings, sent within the test's ten seconds, are there when the test's end is; 24 answers are not.
    near(share(late(Some(14_480)), "up").unwrap(), 14_480.0 / (14_480.0 + 200.0 * 64.0));
    near(share(late(Some(14_480)), "down").unwrap(), 14_480.0 / (14_480.0 + 176.0 * 64.0));
}
