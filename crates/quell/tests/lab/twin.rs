//! `quell twin learn` tells lines that it can't know: rate, delay, loss, overhead, buffer with its unit, and the kind of queue.
//!
//! ```text
//!   a ═══line═══ b      a: quell twin learn      b: quell serve
//! ```

#[path = "../../../bench/src/hidden_line.rs"]
mod hidden_line;

use super::support::{PING, QUELL, TestFolder};
use hidden_line::HiddenLine;
use quell_series::measured_line::{
    Fairness, MarkingThreshold, MeasuredDirection, Property, QueueKind, value,
};
use quell_series::{MeasuredLine, SeriesFile, Steps};
use quell_units::{Buffer, Bytes, Rate, Span};
use std::process::Output;

fn learn(line: &str, options: &str) -> Output {
    learn_in(&TestFolder::new(), line, options)
}

/// The folder has the files that the line names. Behind what is learnt comes what varies of it.
fn learn_in(dir: &TestFolder, line: &str, options: &str) -> Output {
    learn_from(dir, line, "", options)
}

/// `before` stands before the server's command.
fn learn_from(dir: &TestFolder, line: &str, before: &str, options: &str) -> Output {
    let network = format!(
        "name = \"story\"\nduration = \"120s\"\n[topology]\nhosts = [\"a\", \"b\"]\n[[topology.link]]\nname = \"line\"\n\
         ends = [\"a\", \"b\"]\n{line}\n[[scenario]]\nname = \"s\"\n{PING}"
    );
    let file = dir.file("network.toml", &network);
    let file = file.to_string_lossy();
    let serve = format!("b: {before} {QUELL} serve --bind 0.0.0.0");
    let exec = ["lab", "exec", &*file, "a", "--scenario", "s", "--with", &*serve, "--"];
    let learn = format!(
        "{QUELL} twin learn $0 -o /tmp/line.toml --one-clock {options} || exit; for w in up down; do echo; [ ! -e /tmp/line-$w.csv ] || cat /tmp/line-$w.csv; done"
    );
    dir.quell(&[&exec[..], &["sh", "-c", &learn, "{b}"]].concat())
}

fn told(line: &str) -> MeasuredLine {
    told_in(&TestFolder::new(), line).0
}

fn told_in(dir: &TestFolder, line: &str) -> (MeasuredLine, [Option<Steps<Rate>>; 2]) {
    let output = learn_in(dir, line, "--json");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut parts = text.split("\n\n");
    let line = parts.next().expect(&said);
    let line = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {said}"));
    (line, [0, 1].map(|_| rates(parts.next()?)))
}

fn rates(csv: &str) -> Option<Steps<Rate>> {
    let file = SeriesFile::read(csv.as_bytes(), None).ok()?;
    file.up.or(file.down)?.rate
}

/// Rate within 1 %, delay within 0.2 ms, overhead exact.
fn is_right(way: &MeasuredDirection, rate: f64, delay_ms: f64, overhead: u64, kind: QueueKind) {
    let story = format!("{way:#?}");
    let told = value(&way.rate).expect(&story).bps() as f64;
    assert!((told / rate - 1.0).abs() < 0.01, "{story}");
    let told = value(&way.delay).expect(&story).as_millis_f64();
    assert!((told - delay_ms).abs() < 0.2, "{story}");
    assert_eq!(value(&way.overhead), Some(Bytes::new(overhead)), "{story}");
    assert_eq!(value(&way.queue), Some(kind), "{story}");
    let apart = matches!(kind, QueueKind::FqCodel | QueueKind::Cake);
    let fair = if apart { Fairness::Flow } else { Fairness::None };
    assert_eq!(value(&way.fair), Some(fair), "{story}");
}

#[test]
fn a_buffer_is_told_with_its_unit_beside_an_overhead_and_losses() {
    let line = told(
        "up = { rate = \"2Mbit\", delay = \"10ms\", buffer = \"100p\", loss = \"1%\" }\n\
         down = { rate = \"10Mbit\", delay = \"15ms\", buffer = \"256kB\", overhead = 22 }",
    );
    is_right(&line.up, 2e6, 10.0, 0, QueueKind::TailDrop);
    is_right(&line.down, 1e7, 15.0, 22, QueueKind::TailDrop);
    let packets = value(&line.up.buffer);
    assert!(matches!(packets, Some(Buffer::Packets(95..=105))), "{:?}", line.up.buffer);
    let bytes = value(&line.down.buffer);
    let is_near = |bytes: Bytes| (243_000..=269_000).contains(&bytes.get());
    assert!(matches!(bytes, Some(Buffer::Bytes(bytes)) if is_near(bytes)), "{bytes:?}");
    let loss = value(&line.up.loss).expect("packets were lost").as_f64();
    assert!((0.006..0.014).contains(&loss), "{loss}");
    assert_eq!(value(&line.both.shared), Some(false));
}

#[test]
fn queues_that_manage_themselves_are_told_apart_on_a_slow_line_and_a_fast_one() {
    for (up, down) in [
        ((QueueKind::Codel, "codel"), (QueueKind::Cake, "cake")),
        ((QueueKind::FqCodel, "fq_codel"), (QueueKind::Pie, "pie")),
    ] {
        let line = told(&format!(
            "up = {{ rate = \"1Mbit\", delay = \"20ms\", queue = \"{}\" }}\n\
             down = {{ rate = \"20Mbit\", delay = \"5ms\", queue = \"{}\" }}",
            up.1, down.1
        ));
        is_right(&line.up, 1e6, 20.0, 0, up.0);
        is_right(&line.down, 2e7, 5.0, 0, down.0);
    }
}

#[test]
fn a_line_that_changed_once_is_told_with_the_moment_and_one_that_did_not_is_stationary() {
    let dir = TestFolder::new();
    // The measurement begins about two seconds after the line.
    dir.file("step.csv", "t_ms,rate_bps,delay_ms,loss\n0,10000000\n17000,6000000\n150000\n");
    let down = "down = { rate = \"20Mbit\", delay = \"10ms\", queue = \"fq_codel\" }";
    let up = "up = { series = \"step.csv\", delay = \"10ms\", buffer = \"100p\" }";
    let (line, series) = told_in(&dir, &format!("{up}\n{down}"));
    let of = line.up.stationary.as_ref().and_then(Property::estimate).expect("it was full");
    assert!(!of.value && of.how == "10.0 Mbit/s, then 6.00 Mbit/s", "{of:?}");
    assert!(["14 s", "15 s", "16 s"].contains(&&*of.when), "{of:?}");
    let rate = value(&line.up.rate).expect("it was full").bps() as f64;
    assert!((rate / 6e6 - 1.0).abs() < 0.01, "what it is since then: {rate}");
    assert_eq!(value(&line.down.stationary), Some(true));
    assert_eq!(series, [None, None]);
    // Marks beside: CoDel's target.
    let at = value(&line.down.ecn_marks_at);
    let Some(MarkingThreshold::At(at)) = at else { panic!("{:?}", line.down.ecn_marks_at) };
    assert!((at.as_millis_f64() - 5.0).abs() < 0.5, "{at}");
    assert_eq!(value(&line.up.ecn_marks_at), Some(MarkingThreshold::Never));
}

#[test]
fn a_policers_rate_and_burst_are_told_and_a_step_from_which_on_packets_are_marked() {
    let line = told(
        "up = { police = { rate = \"8Mbit\", burst = \"60kB\" }, delay = \"10ms\" }\n\
         down = { police = { rate = \"40Mbit\", burst = \"250kB\" }, delay = \"10ms\" }",
    );
    for (way, rate, burst) in [(&line.up, 8e6, 60e3), (&line.down, 40e6, 250e3)] {
        let story = format!("{way:#?}");
        assert_eq!(value(&way.queue), Some(QueueKind::Policer), "{story}");
        let told = value(&way.police_rate).expect(&story).bps() as f64;
        assert!((told / rate - 1.0).abs() < 0.02, "{story}");
        let told = value(&way.police_burst).expect(&story).get() as f64;
        assert!((told / burst - 1.0).abs() < 0.1, "{story}");
        assert_eq!(value(&way.rate), None, "{story}");
    }
    let step = "queue = { kind = \"fq_codel\", ce_threshold = \"1ms\" }";
    let line = told(&format!("both = {{ rate = \"20Mbit\", delay = \"10ms\", {step} }}"));
    for way in [&line.up, &line.down] {
        let at = value(&way.ecn_marks_at);
        let Some(MarkingThreshold::At(at)) = at else { panic!("{:?}", way.ecn_marks_at) };
        assert!((at.as_millis_f64() - 1.0).abs() < 0.1, "{at}");
    }
}

#[test]
fn a_grid_and_half_duplex_are_told_and_delay_and_rate_are_right_beside_them() {
    let line = told(
        "up = { rate = \"8Mbit\", grid = \"5ms\", buffer = \"200p\", delay = \"10ms\" }\n\
         down = { rate = \"40Mbit\", grid = \"2ms\", buffer = \"300kB\", delay = \"10ms\" }",
    );
    for (way, rate, grid_ms) in [(&line.up, 8e6, 5.0), (&line.down, 40e6, 2.0)] {
        let story = format!("{way:#?}");
        let grid = value(&way.grid).expect(&story).as_millis_f64();
        assert!((grid / grid_ms - 1.0).abs() < 0.01, "{story}");
        let told = value(&way.rate).expect(&story).bps() as f64;
        assert!((told / rate - 1.0).abs() < 0.01, "{story}");
        let delay = way.delay.as_ref().and_then(Property::estimate).expect(&story);
        let (low, high) = (delay.low.expect(&story), delay.high.expect(&story));
        assert!((low..=high).contains(&Span::from_millis(10)), "{story}");
        assert_eq!(value(&way.stationary), Some(true), "{story}");
        assert_eq!(value(&way.queue), Some(QueueKind::TailDrop), "{story}");
    }
    assert_eq!(value(&line.both.shared), Some(false));
    let half = "shared = true\nboth = { rate = \"20Mbit\", buffer = \"200p\", delay = \"10ms\" }";
    let line = told(half);
    assert_eq!(value(&line.both.shared), Some(true));
    for way in [&line.up, &line.down] {
        is_right(way, 2e7, 10.0, 0, QueueKind::TailDrop);
    }
}

/// A share of `make bench-twin`: two lines that a seed hides, and nothing that is told of them is wrong.
#[test]
fn what_is_told_of_hidden_lines_is_right_or_unknown() {
    for seed in [61_003, 61_008] {
        let (dir, ways) = (TestFolder::new(), HiddenLine::both(seed));
        for (name, bytes) in ways.iter().filter_map(HiddenLine::file) {
            dir.file(name, &String::from_utf8_lossy(bytes));
        }
        let [up, down] = [ways[0].toml(), ways[1].toml()];
        let (line, series) = told_in(&dir, &format!("up = {up}\ndown = {down}"));
        for (told, series, truth) in
            [(&line.up, &series[0], &ways[0]), (&line.down, &series[1], &ways[1])]
        {
            for (name, right, _) in truth.verdicts(told, series.as_ref()) {
                assert_ne!(right, Some(false), "{seed}: {name}: {}: {told:#?}", truth.toml());
            }
        }
    }
}

#[test]
fn a_line_too_slow_and_a_server_that_is_not_there_are_refused_with_what_to_do() {
    let slow = learn("both = { rate = \"40kbit\", delay = \"5ms\" }", "");
    let said = String::from_utf8_lossy(&slow.stderr);
    assert!(slow.status.code() == Some(1) && said.contains("64 kbit/s are the least"), "{said}");
    let silent = learn("both = { delay = \"5ms\" }", "-p 9");
    let said = String::from_utf8_lossy(&silent.stderr);
    assert!(silent.status.code() == Some(3) && said.contains("start `quell serve"), "{said}");
}

#[test]
fn a_far_end_that_goes_and_a_line_that_loses_much_leave_what_was_seen() {
    let line = "both = { rate = \"10mbit\", delay = \"10ms\", buffer = \"100p\" }";
    for (seconds, is_known) in [(20, false), (60, true)] {
        let dir = TestFolder::new();
        let gone = learn_from(&dir, line, &format!("timeout {seconds}"), "--json");
        let said = String::from_utf8_lossy(&gone.stderr);
        assert!(!gone.status.success() && said.contains("the server 10.0.0.2:5201"), "{said}");
        let Ok(told) = serde_json::from_slice::<MeasuredLine>(&gone.stdout) else {
            assert!(!is_known, "{said}");
            continue;
        };
        let rate = value(&told.up.rate).expect(&said).bps() as f64;
        assert!(is_known && (rate / 10e6 - 1.0).abs() < 0.01, "{rate}");
        assert!(value(&told.down.rate).is_none(), "{told:#?}");
    }
    let lossy = learn("both = { rate = \"10mbit\", delay = \"10ms\", loss = \"30%\" }", "");
    let said = String::from_utf8_lossy(&lossy.stderr);
    assert!(
        lossy.status.code() == Some(3) && said.contains("While the line was idle, it lost"),
        "{said}"
    );
}

#[test]
fn a_tunnels_short_packets_are_learnt_whole_and_a_bucket_that_fills_slowly_is_not_told_small() {
    let line = told(
        "mtu = 1300\nup = { police = { rate = \"2mbit\", burst = \"2MB\" }, delay = \"10ms\" }\n\
         down = { rate = \"6mbit\", delay = \"10ms\", buffer = \"60p\", overhead = 80 }",
    );
    is_right(&line.down, 6e6, 10.0, 80, QueueKind::TailDrop);
    assert_eq!(value(&line.down.buffer), Some(Buffer::Packets(60)), "{:#?}", line.down);
    let rate = value(&line.up.police_rate).expect("a policer").bps() as f64;
    assert!((rate / 2e6 - 1.0).abs() < 0.02, "{rate}");
    let why = format!("{:?}", line.up.police_burst);
    assert!(why.contains("or more: the bucket may still have been filling"), "{why}");
}
