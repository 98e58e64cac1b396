//! `quell plot`: a figure as it is wanted, on a screen and on paper. What is drawn was measured by another program, so that its truth is known.

use crate::support::{TestFolder, says};
use serde_json::json;

/// A run of one flow of 4 Mbit/s for ten seconds, whose second half is twice as fast, and of a ping.
fn folder() -> TestFolder {
    let dir = TestFolder::new();
    let bps = |n: u32| if n < 5 { 4e6 } else { 8e6 };
    let interval = |n: u32| {
        let sum = json!({ "start": n, "end": n + 1, "seconds": 1, "bytes": bps(n) / 8.0, "bits_per_second": bps(n), "omitted": false });
        let mut stream = sum.clone();
        stream["socket"] = 5.into();
        stream["sender"] = true.into();
        json!({ "streams": [stream], "sum": sum })
    };
    let total = json!({ "socket": 5, "start": 0, "end": 10, "seconds": 10, "bytes": 7_500_000, "bits_per_second": 6e6, "retransmits": 0, "sender": true });
    let document = json!({
        "start": {
            "version": "iperf 3.12",
            "timestamp": { "timesecs": 1_700_000_000 },
            "connected": [{ "socket": 5, "local_host": "192.0.2.1", "local_port": 40000, "remote_host": "192.0.2.2", "remote_port": 5201 }],
            "connecting_to": { "host": "192.0.2.2", "port": 5201 },
            "test_start": { "protocol": "TCP", "num_streams": 1, "blksize": 131_072, "omit": 0, "duration": 10, "reverse": 0 }
        },
        "intervals": (0..10).map(interval).collect::<Vec<_>>(),
        "end": { "streams": [{ "sender": total, "receiver": total }], "sum_sent": total, "sum_received": total }
    });
    dir.write("flow.json", document.to_string());
    dir.quell(&["data", "import", "flow.json"]).fine();
    let trips = (0..50).map(|n| (1_700_000_000_000 + 200 * n, if n < 25 { 10 } else { 200 }));
    dir.write("ping.json", crate::support::irtt(trips));
    dir.quell(&["data", "import", "ping.json"]).fine();
    dir
}

fn svg(dir: &TestFolder, arguments: &[&str]) -> String {
    dir.quell(&[&["plot"], arguments, &["-o", "x.svg"]].concat()).fine();
    std::fs::read_to_string(dir.path("x.svg")).expect("it was written")
}

#[test]
fn a_figure_is_written_for_screens_and_for_paper() {
    let dir = folder();
    let plot = |file: &str, more: &[&str]| {
        dir.quell(&[&["plot", "ping", "--figure", "rtt-cdf", "-o", file], more].concat()).fine();
        std::fs::read(dir.path(file)).expect("it was written")
    };
    let pdf = plot("a.pdf", &[]);
    assert!(pdf.starts_with(b"%PDF-") && pdf.len() > 5_000);
    assert_eq!(pdf, plot("b.pdf", &[]), "the same run gives the same bytes");
    let png = plot(
        "a.png",
        &["--size", "600x300", "--dpi", "300", "--title", "Mine", "--legend", "none"],
    );
    let number = |at: usize| u32::from_be_bytes([png[at], png[at + 1], png[at + 2], png[at + 3]]);
    // 600 CSS pixels are 6.25 inches.
    assert_eq!((number(16), number(20) >= 937), (1875, true));
    let titled = svg(&dir, &["ping", "--figure", "rtt-cdf", "--title", "Mine", "--legend", "none"]);
    assert!(titled.contains(">Mine<"), "its title");
    // Every renderer knows the colours; a reader's browser has its own.
    assert!(titled.contains("fill=\"#") && !titled.contains("fill=\"var("));
}

#[test]
fn a_part_of_the_time_is_shown_alone_and_values_can_be_logarithmic() {
    let dir = folder();
    let whole = svg(&dir, &["ping", "--figure", "rtt-averages"]);
    assert!(whole.contains(">105<"), "the mean of 25 of 10 ms and 25 of 200");
    let first = svg(&dir, &["ping", "--figure", "rtt-averages", "--to", "4s"]);
    assert!(first.contains(">10.0<"), "the first half alone");
    let late = svg(&dir, &["ping", "--figure", "rtt-time", "--from", "6s", "--to", "8s"]);
    assert!(late.contains(">7.0<") && !late.contains(">5.0<"), "its own times");
    let log = svg(
        &dir,
        &["flow", "--figure", "rtt-averages", "--log"]
            .map(|a| if a == "flow" { "ping" } else { a }),
    );
    assert!(log.contains(">100<"), "its axis has decades");
    let plot = |more: &[&str]| dir.quell(&[&["plot", "-o", "x.png", "--figure"], more].concat());
    says(&plot(&["goodput-time", "flow", "--log"]).refused(2), &["--log", "on each other"]);
    says(&plot(&["rtt-time", "ping", "--from", "5s", "--to", "4s"]).refused(2), &["--to", "after"]);
    says(&plot(&["rtt-time", "ping", "--from", "1h"]).refused(2), &["would be empty"]);
}

#[test]
fn a_figure_without_data_is_refused_and_says_what_is_missing() {
    let dir = folder();
    let plot = |run: &str, figure: &str| {
        dir.quell(&["plot", run, "--figure", figure, "-o", "x.pdf"]).refused(2)
    };
    for (run, figure, why) in [
        ("ping", "goodput-time", "No flows"),
        ("ping", "totals", "No flows"),
        ("flow", "totals", "No packets"),
        ("flow", "rtt-cdf", "No packets"),
        ("ping", "page-waterfall", "No page load"),
        ("ping", "queue-wait", "No queues"),
        ("ping", "sweep", "nothing was swept"),
    ] {
        says(&plot(run, figure), &[why]);
    }
    crate::support::nothing_at(&dir.path("x.pdf"));
}

#[test]
fn what_a_run_holds_decides_which_figures_there_are_and_which_is_the_best() {
    let dir = folder();
    let listed = |run: &str| dir.quell(&["plot", run, "--list"]).fine();
    let (ping, flow) = (listed("ping"), listed("flow"));
    says(&ping, &["rtt-time ", "rtt-cdf ", "rtt-averages "]);
    says(&flow, &["goodput-time "]);
    assert!(!ping.contains("goodput-time") && !flow.contains("rtt-time"), "{ping}{flow}");
    for (run, figure) in [("ping", "rtt-time"), ("flow", "goodput-time")] {
        let named = svg(&dir, &[run, "--figure", figure]);
        assert_eq!(svg(&dir, &[run]), named, "{figure} is the best of {run}");
        // Without a place it is in the run's folder.
        let told = dir.quell(&["plot", run]).fine();
        assert!(told.trim_end().ends_with(&format!("{run}/{figure}.svg")), "{told}");
        assert_eq!(std::fs::read_to_string(dir.path(told.trim_end())).expect("it is there"), named);
    }
    let both = dir.quell(&["plot", "flow", "flow", "--list"]).fine();
    assert!(both.contains("goodput ") && !both.contains("qq "), "{both}");
}
