//! The zoomable page: what is embedded is what the store holds, and its script's arithmetic holds.

use crate::common::{MS, SECOND, page_of, picture_of, run};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quell_model::{EchoSample, EchoStatus, Fact, Subject, When};
use quell_report::view;
use quell_store::{CellData, EchoSeries, QueuePoint, QueueSeries, Run};
use quell_units::Span;
use serde_json::Value;
use std::collections::BTreeMap;

fn sample(seq: u64, t_ns: i64, rtt_ns: Option<u64>, status: EchoStatus) -> EchoSample {
    EchoSample {
        t_ns,
        seq,
        rtt_ns,
        up_ns: None,
        down_ns: None,
        up_order: None,
        down_order: None,
        seen_late_ns: None,
        queued_ns: None,
        sent_late_ns: None,
        bytes: 56,
        status,
    }
}

fn with(streams: Vec<(&str, Vec<EchoSample>)>) -> Run {
    let echoes = streams
        .into_iter()
        .map(|(stream, samples)| EchoSeries { stream: stream.into(), samples })
        .collect();
    run(vec![("unloaded", "ping", 0, CellData { echoes, ..CellData::default() })])
}

/// The elements and scripts that show a run's packets.
fn explored(run: &Run) -> String {
    let (elements, scripts) = view::explorer(run).expect("there are packets");
    elements.to_owned() + &scripts
}

/// The data of a page, as its script gets them.
fn embedded(page: &str) -> Value {
    let start = "id=\"packets\">";
    let from = page.find(start).expect("there are data") + start.len();
    let to = from + page[from..].find("</script>").expect("they end");
    let packed = STANDARD.decode(&page[from..to]).expect("base64");
    serde_json::from_reader(flate2::read::GzDecoder::new(&packed[..])).expect("they are JSON")
}

/// A column, read as the script does.
fn column(value: &Value) -> Vec<Option<f64>> {
    value.as_array().expect("a list").iter().map(Value::as_f64).collect()
}

/// Times, each told from the one before.
fn times(value: &Value) -> Vec<i64> {
    let mut t = 0;
    let steps = value.as_array().expect("a list").iter().map(|step| step.as_i64().expect("whole"));
    let times = steps.map(|step| {
        t += step;
        t
    });
    times.collect()
}

/// Of each measurement the 95th percentile counts, a lost packet taking for ever; what a load lost counts for nothing.
#[test]
fn the_page_opens_on_the_worst_measurement() {
    let answered = |n: u64, ms: u64| sample(n, n as i64 * MS, Some(ms * 1_000_000), EchoStatus::Ok);
    let lost = |n: u64| sample(n, n as i64 * MS, None, EchoStatus::Lost);
    let cell = |own: Vec<EchoSample>, load: Vec<EchoSample>| {
        let series = |stream: &str, samples| EchoSeries { stream: stream.into(), samples };
        CellData { echoes: vec![series("ping", own), series("flood", load)], ..CellData::default() }
    };
    let calm = || (0..100).map(|n| answered(n, 20)).collect::<Vec<_>>();
    let slow = (0..100).map(|n| answered(n, 300)).collect();
    let holes = (0..100).map(|n| if n % 5 == 0 { lost(n) } else { answered(n, 20) }).collect();
    let worst = |cells| {
        let data = embedded(&explored(&run(cells)));
        let at = data["worst"].as_u64().expect("a number") as usize;
        data["cells"][at]["name"].as_str().expect("a name").to_owned()
    };
    let gone = || (0..100).map(lost).collect();
    let two =
        vec![("calm", "ping", 0, cell(calm(), gone())), ("slow", "ping", 0, cell(slow, calm()))];
    assert_eq!(worst(two.clone()), "slow, ping");
    let three = [two, vec![("holes", "ping", 1, cell(holes, calm()))]].concat();
    assert_eq!(worst(three), "holes, ping, repeat 2");
}

#[track_caller]
fn same(run: &Run) {
    let data = embedded(&explored(run));
    let statuses: Vec<&str> =
        data["statuses"].as_array().expect("names").iter().filter_map(Value::as_str).collect();
    for (cell, stored) in data["cells"].as_array().expect("cells").iter().zip(&run.cells) {
        let series = cell["panels"][0]["series"].as_array().expect("series");
        assert_eq!(series.len(), stored.echoes.len());
        for (shown, echo) in series.iter().zip(&stored.echoes) {
            assert_eq!(shown["name"], echo.stream.as_str());
            let all = |of: &dyn Fn(&EchoSample) -> Option<f64>| -> Vec<Option<f64>> {
                echo.samples.iter().map(of).collect()
            };
            assert!(times(&shown["t"]).into_iter().eq(echo.samples.iter().map(|s| s.t_ns)));
            assert_eq!(column(&shown["y"]), all(&|s| s.rtt_ns.map(|v| v as f64)));
            if shown.get("seq").is_some() {
                assert_eq!(column(&shown["seq"]), all(&|s| Some(s.seq as f64)));
            } else {
                assert!(echo.samples.iter().enumerate().all(|(i, s)| s.seq == i as u64));
            }
            if let Some(status) = shown.get("status") {
                let names = column(status).into_iter().map(|i| statuses[i.unwrap() as usize]);
                assert!(names.eq(echo.samples.iter().map(|s| s.status.name())));
            } else {
                assert!(echo.samples.iter().all(|s| s.status == EchoStatus::Ok));
            }
            for (name, of) in
                [("up", (|s| s.up_ns) as fn(&EchoSample) -> _), ("down", |s| s.down_ns)]
            {
                match shown.get(name) {
                    Some(shown) => assert_eq!(column(shown), all(&|s| of(s).map(|v| v as f64))),
                    None => assert!(echo.samples.iter().all(|s| of(s).is_none())),
                }
            }
        }
    }
}

#[test]
fn every_packet_is_in_the_page_to_the_nanosecond() {
    use EchoStatus::{Duplicate, Lost, Ok};
    let steady = (0..1000).map(|i| sample(i, i as i64 * 20 * MS + 7, Some(12_345_678 + i), Ok));
    let mut mixed: Vec<EchoSample> = vec![
        sample(0, -SECOND, Some(5), Ok),
        sample(1, 0, None, Lost),
        sample(2, 10 * SECOND, Some(9_000_000_001), Ok),
        sample(2, 10 * SECOND, Some(9_100_000_000), Duplicate),
        // A month later, and slower than 32 bits of nanoseconds.
        sample(70_000, 30 * 86_400 * SECOND, Some(u64::from(u32::MAX)), Ok),
    ];
    mixed[2].up_ns = Some(-3);
    mixed[2].down_ns = Some(9_000_000_004);
    same(&with(vec![("a", steady.collect()), ("b", mixed), ("none", vec![])]));
}

#[test]
fn losses_alone_are_a_stream_too() {
    let lost = (0..5).map(|i| sample(i, i as i64 * SECOND, None, EchoStatus::Lost)).collect();
    same(&with(vec![("dead", lost)]));
}

#[test]
fn names_can_not_leave_their_place_in_the_page() {
    let name = "</script><script>alert(1)</script>";
    let run = with(vec![(name, vec![sample(0, 0, Some(1), EchoStatus::Ok)])]);
    let page = explored(&run);
    assert!(!page.contains("alert(1)</script>"));
    assert_eq!(embedded(&page)["cells"][0]["panels"][0]["series"][0]["name"], name);
}

#[test]
fn a_million_packets_take_some_four_bytes_each() {
    let many = (0..1_000_000_u64)
        .map(|i| sample(i, i as i64 * MS, Some(20_000_000 + i % 1000), EchoStatus::Ok));
    let mut many: Vec<EchoSample> = many.collect();
    many.iter_mut().for_each(|s| s.bytes = 0);
    let page = explored(&with(vec![("many", many)]));
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
}

#[test]
fn what_changed_is_in_the_page_and_the_lines_own_delay_is_not() {
    let ping = (0..2).map(|i| sample(i, i as i64 * 5 * SECOND, Some(1), EchoStatus::Ok));
    let mut run = with(vec![("ping", ping.collect())]);
    let queue = |handle: &str, kind: &str, bytes: u64| QueueSeries {
        device: "modem:dsl".into(),
        handle: handle.into(),
        kind: kind.into(),
        points: vec![QueuePoint {
            t_ns: 0,
            backlog_bytes: bytes,
            backlog_packets: 1,
            drops: 0,
            marks: 0,
            packets: 0,
            bytes: 0,
        }],
    };
    run.cells[0].queues = vec![
        queue("1:", "cake", 3000),
        queue("f001:", "netem", 9000),
        queue("f001:1", "netem class", 3000),
        queue("f003:", "tbf", 3000),
    ];
    run.cells[0].facts = vec![Fact::new(
        When::During,
        Subject::Change(Span::from_secs(2)),
        r#"{"Line":{"on":{"node":"modem","device":"dsl"},"line":{"rate":"2Mbit","delay":null}}}"#,
    )];
    let data = embedded(&explored(&run));
    let cell = &data["cells"][0];
    assert_eq!(cell["events"][0]["t"], 2e9);
    assert_eq!(cell["events"][0]["label"], "modem:dsl: rate 2Mbit");
    let queues = cell["panels"][1]["series"].as_array().expect("queues");
    let names: Vec<&str> = queues.iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(names, ["modem:dsl cake 1:"]);
    let svg = |name| picture_of(&run, name);
    assert!(svg("queue-backlog").contains("modem:dsl (cake)"));
    assert!(svg("queue-backlog").contains(">rate 2Mbit<"));
    assert!(svg("rtt-time").contains(">rate 2Mbit<"));
}

#[test]
fn a_run_without_data_says_so_and_has_no_script() {
    let page = page_of(&with(vec![]), &BTreeMap::new());
    assert!(page.contains("Nothing was measured") && !page.contains("<script"));
}

/// Decimation, zoom and ticks are tested in their own language.
#[test]
fn the_arithmetic_of_the_script_holds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/view");
    let tests = std::process::Command::new("node")
        .args(["--test", "core.test.js"])
        .current_dir(folder)
        .output()
        .expect("node starts; Debian has it as nodejs, `make test` installs it");
    let said = String::from_utf8_lossy(&tests.stdout);
    assert!(tests.status.success(), "{said}{}", String::from_utf8_lossy(&tests.stderr));
    assert!(said.contains("# pass 10"), "all of them ran: {said}");
}
