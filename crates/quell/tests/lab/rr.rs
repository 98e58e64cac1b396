//! Request and response: calls over known networks, and the stall of small messages with its cures.

use super::support::{Desk, QUELL, QUIET, near, two_hosts};
use serde_json::Value;

/// A probe with a name and more keys.
fn probe(name: &str, keys: &str) -> String {
    format!("[[probe]]\nname = \"{name}\"\nkind = \"rr\"\nfrom = \"a\"\nto = \"b\"\n{keys}\n")
}

#[test]
fn a_call_takes_one_round_trip_and_with_a_connection_of_its_own_two() {
    let text = two_hosts(
        "up = { delay = \"10ms\" }\ndown = { delay = \"30ms\" }",
        &format!(
            "{QUIET}{}{}{}",
            probe("calls", "calls = 100"),
            probe("six", "calls = 100\nipv6 = true"),
            probe("connects", "calls = 100\npattern = \"connect\"")
        ),
    );
    let results = Desk::new().run(&text, &[]);
    for (stream, wanted) in [("calls", 40.0), ("six", 40.0), ("connects", 80.0)] {
        near(results.number("s", stream, "sent"), 100.0, 0.0);
        near(results.number("s", stream, "loss_ratio"), 0.0, 0.0);
        // Three probes look at the clock while a call is on its way.
        near(results.number("s", stream, "rtt_ms.min"), wanted, 0.02);
        near(results.number("s", stream, "rtt_ms.p99"), wanted, 0.02);
    }
}

#[test]
fn a_second_small_write_waits_for_the_ack_and_a_full_segment_does_not() {
    // 1448 bytes fill a segment; with one byte less Nagle's rule holds the second write.
    let sizes = [64, 1447, 1448];
    let probes: String = sizes
        .iter()
        .map(|n| {
            probe(
                &format!("s{n}"),
                &format!("pattern = \"write-write-read\"\nsize = {n}\ncalls = 50"),
            )
        })
        .collect();
    let text = two_hosts("both = { delay = \"50us\" }", &format!("{QUIET}{probes}"));
    let results = Desk::new().run(&text, &[]);
    for stalled in ["s64", "s1447"] {
        let p50 = results.number("s", stalled, "rtt_ms.p50");
        assert!((39.0..=50.1).contains(&p50), "{stalled}: {p50}");
    }
    assert!(results.number("s", "s1448", "rtt_ms.p50") < 2.0);
}

#[test]
fn calls_end_with_the_measurement_and_the_wait_for_one_more() {
    let text = two_hosts(
        "both = { delay = \"500ms\" }",
        &format!("{QUIET}{}", probe("slow", "calls = 1000")),
    );
    let results = Desk::new().run(&text, &["--duration", "5s"]);
    // The handshake and the first call, which is not counted, take two seconds.
    near(results.number("s", "slow", "sent"), 3.0, 0.0);
    near(results.number("s", "slow", "rtt_ms.p50"), 1000.0, 0.01);
}

#[test]
fn small_messages_keeps_what_it_claims() {
    let output = Desk::new().quell(&["run", "small-messages"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("✓ holds  default.plain.rtt.p50 > 35ms"), "{said}");
}

#[test]
fn a_route_with_quickack_cures_the_stall_over_both_families() {
    let scenario = |name: &str, route: &str| {
        format!("[[scenario]]\nname = \"{name}\"\nroutes = [{{ {route} }}]\n")
    };
    let stalls = "pattern = \"write-write-read\"\ncalls = 50";
    let rest = [
        scenario("cured", "on = \"b\", to = \"a\", quickack = true"),
        scenario("not", "on = \"b\", to = \"a\", quickack = false"),
        probe("four", stalls),
        probe("six", &format!("{stalls}\nipv6 = true")),
    ];
    let results = Desk::new().run(&two_hosts("both = { delay = \"50us\" }", &rest.concat()), &[]);
    for stream in ["four", "six"] {
        let p50 = |scenario: &str| results.number(scenario, stream, "rtt_ms.p50");
        assert!(p50("cured") < 2.0, "{stream}: {}", p50("cured"));
        assert!((39.0..=50.1).contains(&p50("not")), "{stream}: {}", p50("not"));
    }
}

#[test]
fn on_the_running_kernel_too_a_route_has_the_settings_of_the_file() {
    let stalls = "pattern = \"write-write-read\"\ncalls = 10";
    let route = "[[scenario]]\nname = \"cured\"\n\
                 routes = [{ on = \"b\", to = \"a\", quickack = true }]\n";
    let text = two_hosts("", &format!("{QUIET}{route}{}", probe("calls", stalls)));
    let results = Desk::new().run(&text, &["--kernel", "host"]);
    // A stall takes 40 ms and more on any kernel, and each call has one; the least of ten is no matter of a busy machine.
    assert!(results.number("s", "calls", "rtt_ms.min") > 35.0);
    assert!(results.number("cured", "calls", "rtt_ms.min") < 35.0);
}

/// What `quell rr` on `a` says in JSON of the server on `b`.
fn rr(line: &str, arguments: &[&str]) -> Value {
    let desk = Desk::new();
    let text = two_hosts(line, &format!("{QUIET}{}", probe("unused", "")));
    let file = desk.file("network.toml", &text);
    let serve = format!("b: {QUELL} rr --serve --bind 0.0.0.0");
    let file = file.to_string_lossy();
    let exec = ["lab", "exec", &*file, "a", "--with", &serve, "--", QUELL, "rr", "{b}", "--json"];
    let output = desk.quell(&[&exec, arguments].concat());
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{error}"))
}

#[test]
fn a_sweep_finds_the_cliff_at_a_full_segment_and_who_waited() {
    let sweep = ["--pattern", "write-write-read", "--sizes", "1446..1449", "--calls", "20"];
    let said = rr("both = { delay = \"5ms\" }", &[&sweep[..], &["--fix", "one-write"]].concat());
    let cliffs = said["before"]["cliffs"].as_array().expect("a list");
    assert_eq!(cliffs.len(), 1, "{said:#}");
    assert_eq!((&cliffs[0]["slow"], &cliffs[0]["fast"]), (&1447.into(), &1448.into()));
    let stalled = &said["before"]["rows"][1];
    assert_eq!(stalled["finding"]["cause"], "nagle-and-delayed-ack", "{said:#}");
    assert_eq!(stalled["stalls"]["held"], 20, "{said:#}");
    assert_eq!(stalled["stalls"]["held_bytes"], 1447, "{said:#}");
    assert_eq!(said["after"]["cliffs"], Value::Array(Vec::new()), "{said:#}");
    near(said["after"]["rows"][1]["latency_ms"]["p50"].as_f64().expect("replies"), 10.0, 0.01);
}

#[test]
fn lost_requests_are_told_from_delayed_acks() {
    let said = rr(
        "up = { delay = \"5ms\", loss = \"5%\" }\ndown = { delay = \"5ms\" }",
        &["--sizes", "64", "--calls", "200"],
    );
    let row = &said["before"]["rows"][0];
    assert_eq!(row["finding"]["cause"], "retransmission", "{said:#}");
    // Four standard deviations around the 10 that 5 % of 200 are.
    let again = row["stalls"]["retransmitted"].as_f64().expect("a number");
    near(again, 10.0, 12.3);
    assert!(again >= 1.0 && row["lost"] == 0, "{said:#}");
}
