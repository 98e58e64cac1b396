//! A policer on the path: `quell flow -u` tells its rate and burst, and tells no full line and no lossy one as a policer.
//!
//! ```text
//!   a ───la─── r ═══line═══ q ───lb─── b      what comes over the line from a meets the policer at q, what comes from b that at r
//! ```

use super::flow_limits::{json, text};
use super::support::{PING, QUELL, TestFolder};
use serde_json::Value;
use std::process::Output;

/// A network whose line and queues are these, a server at `b`, and what `a` runs.
fn told(line: &str, police: &str, command: &[&str]) -> Output {
    let police = match police {
        "" => String::new(),
        police => ["q", "r"]
            .map(|at| {
                format!(
                    "[[queue]]\nname = \"{at}\"\non = \"{at}:line\"\ndirection = \"in\"\n\
                     filter = [{{ kind = \"matchall\", action = {{ police = {{ {police}, exceed = \"drop\" }} }} }}]\n"
                )
            })
            .concat(),
    };
    let queues = if police.is_empty() { "[]" } else { "[\"q\", \"r\"]" };
    let network = format!(
        "name = \"story\"\nduration = \"30s\"\n[topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\", \"q\"]\n\
         [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r\"]\n\
         [[topology.link]]\nname = \"line\"\nends = [\"r\", \"q\"]\n{line}\n\
         [[topology.link]]\nname = \"lb\"\nends = [\"q\", \"b\"]\n{police}\
         [[scenario]]\nname = \"s\"\nqueues = {queues}\n{PING}"
    );
    let dir = TestFolder::new();
    let file = dir.file("network.toml", &network);
    let file = file.to_string_lossy();
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0");
    let exec = ["lab", "exec", &*file, "a", "--scenario", "s", "--with", &*serve, "--"];
    dir.quell(&[&exec[..], command].concat())
}

const LONG: &str = "both = { delay = \"10ms\" }";

fn flow(line: &str, police: &str, options: &str) -> Value {
    let command = format!("{QUELL} flow {{b}} -u -t 8 --json {options}");
    json(&told(line, police, &command.split(' ').collect::<Vec<_>>()))
}

#[test]
fn a_policers_rate_is_told_to_2_percent_and_its_burst_to_10() {
    for (mbit, burst, options) in [
        (10.0, 25_000.0, "-b 20M -l 1000"),
        (10.0, 150_000.0, "-b 15M -l 1200 -R"),
        (20.0, 30_000.0, "-b 25M"),
        (2.0, 12_000.0, "-b 3M -l 300 -R"),
    ] {
        let police = format!("rate = \"{mbit}Mbit\", burst = {burst}");
        let told = flow(LONG, &police, options);
        let way = if options.contains("-R") { &told["down"] } else { &told["up"] };
        let story =
            format!("{police} {options}: {:#} {:#}", way["policer"], way["policer_unknown"]);
        assert_eq!((&way["cause"], &way["sure"]), (&"policer".into(), &true.into()), "{story}");
        let figure = |key: &str| way["policer"][key].as_f64().unwrap_or_else(|| panic!("{story}"));
        let near = |key: &str, truth: f64, part: f64| {
            assert!((figure(key) / truth - 1.0).abs() <= part, "{key}: {story}");
        };
        near("low_bits_per_second", mbit * 1e6, 0.02);
        near("low_burst_bytes", burst, 0.1);
        near("high_bits_per_second", mbit * 1e6, 0.02);
        near("high_burst_bytes", burst, 0.1);
        assert!(figure("low_bits_per_second") <= mbit * 1e6, "{story}");
        // What the control connection says takes tokens too.
        assert!(figure("high_bits_per_second") >= mbit * 0.999e6, "{story}");
        assert!(figure("low_burst_bytes") <= burst, "{story}");
        assert!(figure("high_burst_bytes") >= burst * 0.98, "{story}");
    }
}

#[test]
fn a_full_line_a_lossy_one_and_too_little_load_are_no_policer_and_say_why() {
    let line = |more: &str| format!("both = {{ rate = \"10Mbit\", delay = \"10ms\", {more} }}");
    let police = "rate = \"10Mbit\", burst = 25000";
    for (line, police, options, why) in [
        (&*line("buffer = \"100p\""), "", "-b 20M", "a queue was full"),
        (&line("buffer = \"3p\""), "", "-b 20M -R", "a queue was full"),
        (&line("queue = \"codel\""), "", "-b 12M", "a queue was full"),
        ("both = { delay = \"10ms\", loss = \"2%\" }", "", "-b 5M", "no steady rate"),
        ("both = { delay = \"10ms\", loss = \"40%\" }", "", "-b 5M -R", "no steady rate"),
        (LONG, police, "-b 20M -P 2", "several streams"),
    ] {
        let told = flow(line, police, options);
        let way = if options.contains("-R") { &told["down"] } else { &told["up"] };
        let said = way["policer_unknown"].as_str().unwrap_or_default();
        assert!(said.contains(why), "{line} {options}: {said}: {:#}", way);
        assert!(way["policer"].is_null() && way["cause"].is_null(), "{line} {options}: {way:#}");
    }
    // Below its rate nothing is lost, and nothing is said.
    let way = &flow(LONG, police, "-b 8M")["up"];
    assert!(way["policer"].is_null() && way["policer_unknown"].is_null(), "{way:#}");
}

#[test]
fn the_doctor_hears_of_a_policer_from_the_flow_that_it_runs() {
    let police = "rate = \"10Mbit\", burst = 25000";
    let doctor = |flow: &str, more: &[&str]| {
        let flow = format!("{QUELL} flow {{b}} {flow}");
        let output = told(LONG, police, &[&[QUELL, "doctor", "--during", &flow], more].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        output
    };
    let said = json(&doctor("-u -b 20M -t 5", &["--json"]));
    let found = said["findings"].as_array().expect("findings");
    assert_eq!(found.iter().map(|f| &f["id"]).collect::<Vec<_>>(), ["policer"], "{found:#?}");
    let said = text(&doctor("-u -b 20M -t 5 -R", &[]).stdout);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["quell flow, down: a policer drops", "to 10.0 Mbit/s", "burst 24"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // TCP tells no more than what got through.
    let said = json(&doctor("-t 8 -R", &["--json", "--only", "policer"]));
    let seen = said["findings"][0]["evidence"].to_string();
    assert!(seen.contains("got through") && !seen.contains("burst"), "{said:#}");
}
