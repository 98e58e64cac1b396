//! What `quell flow` says of bad paths: the own device's limits, slow lines, sizes that vanish, tests that break.

use super::support::{PING, QUELL, QUIET, TestFolder, near};
use serde_json::Value;
use std::process::Output;

/// What a shell on `a` says, a server on `b` being `{b}` and `FLOW` `quell flow` to it, over a line between routers.
fn shell(first: &str, line: &str, script: &str) -> Output {
    let dir = TestFolder::new();
    let network = format!(
        "name = \"story\"\nduration = \"20s\"\n[topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\", \"q\"]\n\
         [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r\"]\n{first}\n\
         [[topology.link]]\nname = \"line\"\nends = [\"r\", \"q\"]\n{line}\n\
         [[topology.link]]\nname = \"lb\"\nends = [\"q\", \"b\"]\n{QUIET}{PING}"
    );
    let file = dir.file("network.toml", &network);
    let (file, serve) = (file.to_string_lossy(), format!("b: {QUELL} serve --bind 0.0.0.0"));
    let script = format!("PATH=$PATH:/usr/sbin:/sbin; {script}");
    let script = script.replace("FLOW", &format!("{QUELL} flow {{b}}"));
    dir.quell(&["lab", "exec", &*file, "a", "--with", &*serve, "--", "sh", "-c", &*script])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(output: &Output) -> Value {
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{error}"))
}

/// Whether there is no tc here to set policers with; says so.
fn lacks_tc() -> bool {
    let lacks = ["tc", "/usr/sbin/tc", "/sbin/tc"]
        .iter()
        .all(|tc| std::process::Command::new(tc).arg("-V").output().is_err());
    if lacks {
        eprintln!("skipped: there is no tc on this machine (package iproute2)");
    }
    lacks
}

const WIDE: &str = "both = { rate = \"20Mbit\", delay = \"10ms\", buffer = \"250kB\" }";

/// None of these has a queue that stands; each lets 2 of 20 Mbit/s through.
#[test]
fn a_policer_or_a_pace_on_the_own_device_is_not_told_as_the_path() {
    if lacks_tc() {
        return;
    }
    let police = "matchall action police rate 2mbit burst 20k drop";
    for (set, way) in [
        ("tc qdisc replace dev la root fq maxrate 2mbit".to_owned(), ""),
        (format!("tc qdisc add dev la clsact && tc filter add dev la egress {police}"), ""),
        (format!("tc qdisc add dev la clsact && tc filter add dev la ingress {police}"), "-R"),
        (
            format!(
                "tc qdisc add dev la root handle 1: prio && tc filter add dev la parent 1: {police}"
            ),
            "",
        ),
    ] {
        let told = json(&shell("", WIDE, &format!("{set} && FLOW -t 5 --json {way}")));
        let told = if way.is_empty() { &told["up"] } else { &told["down"] };
        near(told["bits_per_second"].as_f64().expect("a rate"), 1.92e6, 0.05e6);
        assert_eq!(told["limited_by"], "own-queue", "{set}: {told:#}");
        assert_eq!(told["own_queue"]["device"], "la", "{set}: {told:#}");
    }
    let said =
        text(&shell("", WIDE, "tc qdisc replace dev la root fq maxrate 2mbit && FLOW -t 2").stdout);
    let said = said.replace("\n         ", " ");
    assert!(
        said.contains("this host's own la (fq), which lets no flow out faster than 2.00 Mbit/s"),
        "{said}"
    );
    // What another's packets lose there, and a rate that is not reached, hold nothing up.
    let other = "tc qdisc add dev la clsact && tc filter add dev la egress protocol ip flower ip_proto icmp action drop && \
                 tc qdisc replace dev la root fq maxrate 100mbit";
    let told = json(&shell("", WIDE, &format!("{other} && FLOW -t 5 --json --iperf3")));
    assert_ne!(told["up"]["limited_by"], "own-queue", "{:#}", told["up"]);
}

#[test]
fn on_a_line_of_some_kilobits_pings_are_late_perhaps_but_not_lost_and_no_load_of_their_own() {
    for (kilobits, idle_ms) in [(6, 281.0), (8, 216.0), (16, 118.0)] {
        let line =
            format!("both = {{ rate = \"{kilobits}kbit\", delay = \"10ms\", buffer = \"500kB\" }}");
        let told = json(&shell("", &line, "FLOW -t 20 -b 1k --json; true"));
        let latency = &told["latency"];
        assert_eq!(latency["idle"]["lost"], 0, "{kilobits}: {latency:#}");
        assert_eq!(latency["idle"]["late"], 0, "{kilobits}: {latency:#}");
        // 98 bytes each way, and 10 ms.
        near(latency["idle"]["p50_ms"].as_f64().expect("answers"), idle_ms, 2.0);
        assert_eq!(latency["loaded"]["lost"], 0, "{kilobits}: {latency:#}");
    }
    // The server gives up on a client whose last word waits for half a minute: nobody knows what became of its pings.
    let line = "both = { rate = \"6kbit\", delay = \"10ms\", buffer = \"500kB\" }";
    let output = shell("", line, "FLOW -t 5 --json; true");
    let said = text(&output.stderr);
    assert!(
        said.contains("what both ends say waits in the path's queue, where a ping took"),
        "{said}"
    );
    let told = json(&output);
    assert_ne!(
        told["latency"]["loaded"]["lost"].as_u64().unwrap_or(0),
        100,
        "{:#}",
        told["latency"]
    );
}

#[test]
fn where_full_segments_of_the_server_vanish_and_pings_do_not_the_size_is_blamed() {
    let line = "both = { rate = \"10Mbit\", delay = \"10ms\" }\nswallows-above = 1400";
    let output = shell("", line, "FLOW -R -t 5 --json");
    let told = json(&output);
    let vanishing = &told["down"]["vanishing"];
    assert_eq!(
        (&vanishing["segment_bytes"], &vanishing["pings"]),
        (&1448.into(), &100.into()),
        "{told:#}"
    );
    let words = text(&shell("", line, "FLOW -R -t 5").stdout).replace("\n         ", " ");
    assert!(words.contains("100 of 100 pings had their answer: a path MTU black hole"), "{words}");
    let told = json(&shell("", line, "FLOW -R -t 5 -M 1300 --json"));
    assert_eq!(told["down"]["vanishing"], Value::Null);
}

#[test]
fn a_test_that_comes_to_nothing_says_so_in_json_too() {
    for schema in ["--json", "--json=iperf3"] {
        let output = shell("", WIDE, &format!("FLOW -p 9 {schema}"));
        let told = json(&output);
        assert_eq!(output.status.code(), Some(3), "{told:#}");
        let error = told["error"].as_str().expect("words");
        assert!(error.contains("nobody listens at"), "{error}");
        assert_eq!(told["intervals"], Value::Array(Vec::new()));
    }
}

#[test]
fn one_that_breaks_over_a_size_says_nothing_of_pieces() {
    let line = "both = { delay = \"5ms\" }\nmtu = 1300";
    let output = shell("mtu = 1400", line, "FLOW -u -l 1400 -R -t 2");
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{out}{error}");
    assert!(error.contains("EMSGSIZE") && !out.contains("pieces"), "{out}{error}");
    // 1400 bytes of the own link are not what the server's path carries.
    assert!(error.contains("take a smaller size (-l)"), "{error}");
}

/// Half of a socket's 64 kB are its window: it needs half of these 20 Mbit/s, in bursts that are a queue for a moment.
#[test]
fn a_window_that_leaves_the_line_idle_half_of_the_time_is_not_told_as_the_path() {
    let line = "both = { rate = \"20Mbit\", delay = \"20ms\", buffer = \"100p\" }";
    for options in ["-R -w 64k", "-R -w 72k", "-w 64k"] {
        let told = json(&shell("", line, &format!("FLOW -t 5 --json {options}")));
        let side = if options.contains("-R") { "down" } else { "up" };
        assert!(told[side]["bits_per_second"].as_f64().is_some_and(|bits| bits < 15e6), "{told:#}");
        assert_eq!(told[side]["limited_by"], "send-buffer", "{options}: {told:#}");
    }
}

/// What a flow reaches of a line's payload tells whether the line is full. Where it is for nine tenths of the time, nobody can tell.
#[test]
fn who_is_held_by_a_window_and_who_by_a_full_path_is_told_of_every_window_line_and_count() {
    let payload = 1448.0 / 1514.0;
    for (mbit, one_way_ms) in [(20.0, 20), (100.0, 10), (2.5, 20)] {
        let line = format!(
            "both = {{ rate = \"{mbit}Mbit\", delay = \"{one_way_ms}ms\", buffer = \"300p\" }}"
        );
        for (options, side) in [
            ("-w 16k", "up"),
            ("-w 64k -P 2", "up"),
            ("-w 64k -P 4 -R", "down"),
            ("-w 128k -R", "down"),
        ] {
            let told = json(&shell("", &line, &format!("FLOW -t 5 --json {options}")));
            let way = &told[side];
            let part = way["bits_per_second"].as_f64().expect("a rate") / (mbit * 1e6 * payload);
            let limit = way["limited_by"].as_str().expect("a word");
            let is_end = limit == "send-buffer" || limit == "receive-window";
            match part {
                ..0.9 => assert!(is_end, "{line} {options}: {part} {limit} {way:#}"),
                ..0.985 => assert_eq!(limit, "unknown", "{line} {options}: {part} {way:#}"),
                _ => assert_eq!(limit, "path", "{line} {options}: {part} {way:#}"),
            }
        }
    }
}

/// 25 Mbit/s into 2.5, whose queue holds 0.5 s and drops nine of ten packets, those of the control connection as well.
#[test]
fn a_client_whose_data_fills_the_path_has_not_gone_away() {
    let line = "up = { rate = \"2.5Mbit\", delay = \"10ms\", buffer = \"100p\" }\n\
                down = { rate = \"8Mbit\", delay = \"10ms\", buffer = \"100p\" }";
    let output = shell("", line, "FLOW -u -b 25M -t 30 --json --no-latency");
    let told = json(&output);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        told["up"]["bits_per_second"].as_f64().is_some_and(|bits| (2.2e6..2.5e6).contains(&bits)),
        "{told:#}"
    );
}

/// 400 kB fill 20 Mbit/s over 40 ms four times, whichever end's buffer it is.
#[test]
fn a_window_that_was_asked_for_is_offered_by_either_end() {
    let line = "both = { rate = \"20Mbit\", delay = \"20ms\", buffer = \"300p\" }";
    for (options, side) in [("-w 400k", "up"), ("-w 400k -R", "down")] {
        let told = json(&shell("", line, &format!("FLOW -t 5 --json --no-latency {options}")));
        let bits = told[side]["bits_per_second"].as_f64();
        assert!(bits.is_some_and(|bits| bits > 17e6), "{options}: {:#}", told[side]);
    }
}
