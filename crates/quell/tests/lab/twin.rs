//! `quell twin learn` tells lines that it can't know: rate, delay, loss, overhead, buffer with its unit, and the kind of queue.
//!
//! ```text
//!   a ═══line═══ b      a: quell twin learn      b: quell serve
//! ```

use super::support::{PING, QUELL, TestFolder};
use quell_series::MeasuredLine;
use quell_series::measured_line::{Fairness, MeasuredDirection, QueueKind, value};
use quell_units::{Buffer, Bytes};
use std::process::Output;

fn learn(line: &str, options: &str) -> Output {
    let network = format!(
        "name = \"story\"\nduration = \"120s\"\n[topology]\nhosts = [\"a\", \"b\"]\n[[topology.link]]\nname = \"line\"\n\
         ends = [\"a\", \"b\"]\n{line}\n[[scenario]]\nname = \"s\"\n{PING}"
    );
    let dir = TestFolder::new();
    let file = dir.file("network.toml", &network);
    let file = file.to_string_lossy();
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0");
    let exec = ["lab", "exec", &*file, "a", "--scenario", "s", "--with", &*serve, "--"];
    let learn = format!("{QUELL} twin learn {{b}} -o /tmp/line.toml {options}");
    dir.quell(&[&exec[..], &learn.split_whitespace().collect::<Vec<_>>()].concat())
}

fn told(line: &str) -> MeasuredLine {
    let output = learn(line, "--json");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
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
fn a_line_too_slow_and_a_server_that_is_not_there_are_refused_with_what_to_do() {
    let slow = learn("both = { rate = \"40kbit\", delay = \"5ms\" }", "");
    let said = String::from_utf8_lossy(&slow.stderr);
    assert!(slow.status.code() == Some(1) && said.contains("64 kbit/s are the least"), "{said}");
    let silent = learn("both = { delay = \"5ms\" }", "-p 9");
    let said = String::from_utf8_lossy(&silent.stderr);
    assert!(silent.status.code() == Some(3) && said.contains("start `quell serve"), "{said}");
}
