//! A test that `quell flow --save` kept says what its own JSON said: goodput, loss and jitter of each direction, over lines of all kinds.

use super::support::{PING, QUELL, QUIET, TestFolder, near, two_hosts};
use serde_json::Value;

/// What each of several tests told in JSON, and what `quell show --json` says of the run that it kept, over one line; behind them what a last
/// command printed.
fn told_and_kept(line: &str, tests: &[&str], last: &str) -> (Vec<(Value, Value)>, String) {
    let dir = TestFolder::new();
    let file = dir.file("network.toml", &two_hosts(line, &format!("{QUIET}{PING}")));
    let (file, serve) = (file.to_string_lossy(), format!("b: {QUELL} serve --bind 0.0.0.0"));
    let each = tests.iter().map(|options| {
        format!(
            "{QUELL} flow {{b}} --json --save {options} && {QUELL} show --json && rm -r runs && "
        )
    });
    let script = format!("cd $(mktemp -d) && {}{last}", each.collect::<String>());
    let all = ["lab", "exec", &*file, "a", "--with", &*serve, "--", "sh", "-c", &*script];
    let output = dir.quell(&all);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    let mut values = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
    let mut next = || values.next().unwrap_or_else(|| panic!("{said}{error}")).expect("JSON");
    let pairs = tests.iter().map(|_| (next(), next())).collect();
    let rest = said[values.byte_offset()..].to_owned();
    (pairs, rest)
}

/// The rows of a direction.
fn rows<'a>(kept: &'a Value, way: &'a str) -> Vec<&'a Value> {
    let rows = kept["results"].as_array().expect("rows").iter();
    let name =
        |row: &&Value| row["stream"].as_str().expect("a name").split('-').next() == Some(way);
    rows.filter(name).collect()
}

fn sum(rows: &[&Value], key: &str) -> f64 {
    rows.iter().map(|row| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row:#}"))).sum()
}

#[test]
fn a_run_that_was_kept_has_the_goodput_loss_and_jitter_of_its_own_json() {
    let tests = [
        "-t 3",
        "-t 3 -R -O 1",
        "-t 3 --bidir -P 3",
        "-n 300K",
        "-n 300K -R -P 2",
        "-n 300K --bidir",
        "-u -b 800k -t 3",
        "-u -b 800k -t 3 -O 2 --bidir",
        "-u -b 300k -t 3 -R -P 3",
        "-u -b 2M -n 300K --bidir",
        "-u -b 2M -n 300K -R -O 0",
    ];
    for line in [
        "both = { delay = \"300ms\" }",
        "up = { rate = \"1Mbit\", delay = \"50ms\", buffer = \"100p\" }\n\
         down = { rate = \"4Mbit\", delay = \"50ms\", buffer = \"300p\", loss = \"3%\" }",
        "both = { rate = \"2Mbit\", delay = \"1ms\", loss = \"5%\" }",
    ] {
        for (test, (told, kept)) in tests.iter().zip(told_and_kept(line, &tests, "true").0) {
            for way in ["up", "down"] {
                let (rows, told) = (rows(&kept, way), &told[way]);
                let story = format!("{line} {test}: {told:#} {rows:#?}");
                assert_eq!(rows.is_empty(), told.is_null(), "{story}");
                if told.is_null() {
                    continue;
                }
                let rate = told["bits_per_second"].as_f64().expect("a rate");
                let goodput = sum(&rows, "goodput_mbps") * 1e6;
                assert!((goodput - rate).abs() <= rate * 0.01, "{goodput} {rate}: {story}");
                let datagrams = &told["datagrams"];
                if datagrams.is_null() {
                    assert_eq!(Some(sum(&rows, "retransmits")), told["retransmits"].as_f64());
                    continue;
                }
                let of = |key: &str| datagrams[key].as_f64().expect("a number");
                assert_eq!(sum(&rows, "sent"), of("sent"), "{story}");
                assert_eq!(sum(&rows, "received"), of("arrived"), "{story}");
                let (here, there) = match way {
                    "up" => ("lost_up", "lost_down"),
                    _ => ("lost_down", "lost_up"),
                };
                assert_eq!((sum(&rows, here), sum(&rows, there)), (of("lost"), 0.0), "{story}");
                // The mean over streams, weighted by what arrived of each.
                let jitters = rows.iter().map(|row| {
                    let number = |key: &str| row[key].as_f64().expect("known");
                    number("jitter_last_ms") * number("received")
                });
                near(jitters.sum::<f64>() / of("arrived"), of("jitter_ms"), 1e-6);
                assert!(rows.iter().all(|row| row["jitter_of"] == way), "{story}");
            }
            let latency = rows(&kept, "latency");
            let (row, loaded) = (latency.first().expect("pings"), &told["latency"]["loaded"]);
            let lost = row["sent"].as_f64().unwrap() - row["received"].as_f64().unwrap();
            assert_eq!(Some(lost), loaded["lost"].as_f64(), "{row:#} {loaded:#}");
            near(row["rtt_ms"]["p50"].as_f64().unwrap(), loaded["p50_ms"].as_f64().unwrap(), 1e-6);
        }
    }
}

/// The queue that drops is asked itself.
#[test]
fn what_is_lost_of_datagrams_is_what_netem_dropped_told_and_kept() {
    let line = "both = { delay = \"5ms\", loss = \"3%\" }";
    let tests = ["-u -b 4M -l 500 -t 20 --no-latency", "-u -b 4M -l 500 -t 20 -R --no-latency"];
    let (pairs, up) = told_and_kept(line, &tests[..1], "tc -s -j qdisc show dev line");
    let queues: Value = serde_json::from_str(&up).expect("tc prints JSON");
    let queues = queues.as_array().expect("queues").iter();
    let netem = queues.filter(|queue| queue["kind"] == "netem");
    let dropped: f64 = netem.filter_map(|queue| queue["drops"].as_f64()).sum();
    let lost = |told: &Value| told["datagrams"]["lost"].as_f64().expect("a count");
    let told = lost(&pairs[0].0["up"]);
    // Of what both ends say to each other some is dropped, too.
    assert!((0.0..=10.0).contains(&(dropped - told)), "{dropped} dropped, {told} told");
    assert_eq!(sum(&rows(&pairs[0].1, "up"), "lost_up"), told);
    let (pairs, _) = told_and_kept(line, &tests[1..], "true");
    // Four standard deviations of 20,000 datagrams.
    near(lost(&pairs[0].0["down"]), 600.0, 4.0 * (20_000.0_f64 * 0.03 * 0.97).sqrt());
    near(sum(&rows(&pairs[0].1, "down"), "lost_down"), lost(&pairs[0].0["down"]), 0.0);
}

/// A load goes up or down as the line does that it shares; whatever its ends are called, nothing of a download is told as up.
#[test]
fn a_load_that_goes_down_the_line_loses_and_waits_on_the_way_down() {
    let text = |from: &str, to: &str| {
        two_hosts(
            "up = { rate = \"5Mbit\", delay = \"7ms\", loss = \"10%\" }\ndown = { rate = \"5Mbit\", delay = \"20ms\", loss = \"10%\" }",
            &format!(
                "{PING}[[scenario]]\nname = \"s\"\nloads = [\"load\"]\n[[load]]\nname = \"load\"\nkind = \"udp\"\n\
                 from = \"{from}\"\nto = \"{to}\"\nrate = \"400kbit\"\nsize = 500\n"
            ),
        )
    };
    for (from, to, way, other, delay) in
        [("a", "b", "up", "down", 7.0), ("b", "a", "down", "up", 20.0)]
    {
        let results = TestFolder::new().run(&text(from, to), &[]);
        let row = results.row("s", "load");
        let lost = row["sent"].as_f64().unwrap() - row["received"].as_f64().unwrap();
        assert!(lost > 100.0, "{row:#}");
        assert_eq!(row[format!("lost_{way}")].as_f64(), Some(lost), "{row:#}");
        assert_eq!(row[format!("lost_{other}")], 0, "{row:#}");
        near(row[format!("{way}_ms")]["p50"].as_f64().expect("known"), delay, 2.0);
        assert!(row[format!("{other}_ms")].is_null(), "{row:#}");
        assert!(row[format!("jitter_{other}_ms")].is_null(), "{row:#}");
        assert_eq!(row["jitter_of"], way);
    }
}
