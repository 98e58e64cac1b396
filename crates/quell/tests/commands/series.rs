//! `quell series`: what a line carried over time, in the files of others.

use crate::support::{TestFolder, says};
use serde_json::Value;

/// LTE as Mahimahi writes it: 12 Mbit/s for 10 ms, nothing for 10 ms.
fn opportunities() -> String {
    (1..=10).map(|ms| format!("{ms}\n")).collect::<String>() + "20\n"
}

#[test]
fn rates_and_delays_of_two_files_are_one_line_and_a_format_says_what_it_leaves_out() {
    let dir = TestFolder::new();
    dir.write("bw_1.txt", opportunities().as_bytes());
    dir.write("delay_1.txt", b"24\n18\n");
    let told = dir.quell(&["series", "show", "bw_1.txt", "delay_1.txt", "-o", "leo.svg"]).fine();
    says(
        &told,
        &[
            "down: 6.60 Mbit/s on average",
            "for 20ms; delay 18.0 to 24.0 ms; loss unknown",
            "leo.svg",
        ],
    );
    let drawn = std::fs::read_to_string(dir.path("leo.svg")).expect("it was written");
    assert!(drawn.contains("Rate (Mbit/s)") && drawn.contains("Delay (ms)"), "{drawn}");
    let told = dir.quell(&["series", "show", "bw_1.txt", "--json"]).fine();
    let told: Value = serde_json::from_str(&told).expect("it is JSON");
    assert_eq!(
        (&told["down"]["rate_bps"]["mean"], &told["up"]),
        (&6_600_000.0.into(), &Value::Null)
    );
    dir.quell(&["series", "convert", "bw_1.txt", "delay_1.txt", "-o", "leo.down.csv"]).fine();
    let back =
        dir.quell(&["series", "convert", "leo.down.csv", "--to", "mahimahi", "-o", "again.down"]);
    assert_eq!(back.code, Some(0), "{}", back.error);
    says(&back.error, &["the delay is left out"]);
    assert_eq!(
        std::fs::read_to_string(dir.path("again.down")).expect("it was written"),
        opportunities()
    );
}

#[test]
fn a_log_of_both_directions_becomes_a_file_of_each() {
    let dir = TestFolder::new();
    let log = "schema_version;timestamp_unix_ms;site;direction;queue_mbps;throughput_mbps;effective_rtt_ms\n\
               1;1000;a;download;50;42.5;31\n1;1000;a;upload;10;1;31\n1;2000;a;download;60;70;30\n";
    dir.write("log", log.as_bytes());
    let both = dir.quell(&["series", "convert", "log", "-o", "home.csv"]);
    let down = dir.quell(&["series", "convert", "log", "-o", "down.csv", "--direction", "down"]);
    assert_eq!((both.code, down.code), (Some(0), Some(0)), "{}{}", both.error, down.error);
    says(&both.error, &["the line may have carried more"]);
    let file = |name| std::fs::read_to_string(dir.path(name)).expect("it was written");
    assert_eq!(file("home-down.csv"), file("down.csv"));
    assert!(file("home-up.csv") != file("down.csv"));
}

#[test]
fn the_rate_of_a_line_that_only_has_a_series_is_its_mean() {
    let dir = TestFolder::new();
    dir.write("line.toml", b"version = 1\n[up]\nseries = \"up.csv\"\n");
    dir.write("up.csv", b"t_ms,rate_bps,delay_ms,loss\n0,9000000\n10,3000000\n30\n");
    let shown = dir.quell(&["twin", "show", "line.toml"]);
    assert_eq!(shown.code, Some(0), "{}", shown.error);
    says(&shown.out, &["5.00 Mbit/s up, unknown down", "rate  5 Mbit/s"]);
    let drawn = dir.quell(&["twin", "show", "line.toml", "-o", "line.svg"]).fine();
    says(&drawn, &["line.svg"]);
    let drawn = std::fs::read_to_string(dir.path("line.svg")).expect("it was written");
    says(&drawn, &["Rate (Mbit/s)", "5.00 Mbit/s up, unknown down"]);
    assert!(!drawn.contains("Wait (ms)"), "its queue is unknown: {drawn}");
    std::fs::remove_file(dir.path("up.csv")).expect("it was there");
    says(&dir.quell(&["twin", "show", "line.toml"]).refused(2), &["up.csv can't be read"]);
}

#[test]
fn what_is_no_series_is_refused_with_its_line() {
    let dir = TestFolder::new();
    dir.write("text", b"hello\n");
    dir.write("back.down", b"5\n3\n9\n");
    let refused = |args: &[&str]| dir.quell(args).refused(2);
    says(&refused(&["series", "show", "text"]), &["text is no series: its format is not known"]);
    says(
        &refused(&["series", "show", "back.down", "--as", "mahimahi"]),
        &["line 2: 3 ms comes after 5 ms"],
    );
    says(
        &refused(&[
            "series",
            "convert",
            "back.down",
            "--as",
            "leocc-delay",
            "--to",
            "mahimahi",
            "-o",
            "x",
        ]),
        &["has no rate"],
    );
}
