//! What `quell flow` says of bad paths: the own device's limits, slow lines, sizes that vanish, tests that break.

use super::support::{PING, QUELL, QUIET, TestFolder, near};
use crate::left_out;
use serde_json::Value;
use std::process::Output;

/// What a shell on `a` says, a server on `b` being `{b}` and `FLOW` `quell flow` to it, over a line between routers. Where it says `BESIDE`, that is
/// `quell flow` to `d`, which is behind that line as well.
pub(super) fn shell(first: &str, line: &str, script: &str) -> Output {
    shell_at((first, line), "", script)
}

/// The same where the servers have options.
pub(super) fn shell_at((first, line): (&str, &str), options: &str, script: &str) -> Output {
    let dir = TestFolder::new();
    let (host, link) = match script.contains("BESIDE") {
        true => (", \"d\"", "[[topology.link]]\nname = \"ld\"\nends = [\"q\", \"d\"]\n"),
        false => ("", ""),
    };
    let network = format!(
        "name = \"story\"\nduration = \"20s\"\n[topology]\nhosts = [\"a\", \"b\"{host}]\nrouters = [\"r\", \"q\"]\n\
         [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r\"]\n{first}\n\
         [[topology.link]]\nname = \"line\"\nends = [\"r\", \"q\"]\n{line}\n\
         [[topology.link]]\nname = \"lb\"\nends = [\"q\", \"b\"]\n{link}{QUIET}{PING}"
    );
    let file = dir.file("network.toml", &network);
    let file = file.to_string_lossy();
    let serve = ["b", "d"].map(|host| format!("{host}: {QUELL} serve --bind 0.0.0.0 {options}"));
    let with: Vec<&str> = serve.iter().flat_map(|serve| ["--with", serve]).collect();
    let with = if host.is_empty() { &with[..2] } else { &with[..] };
    let script = format!("PATH=$PATH:/usr/sbin:/sbin; {script}");
    let script = script.replace("FLOW", &format!("{QUELL} flow {{b}}"));
    let script = script.replace("BESIDE", &format!("{QUELL} flow {{d}}"));
    let exec = [&["lab", "exec", &*file, "a"], with, &["--", "sh", "-c", &*script]];
    dir.quell(&exec.concat())
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn json(output: &Output) -> Value {
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{error}"))
}

/// Whether there is no tc here to set policers with; says so.
pub(super) fn lacks_tc() -> bool {
    let lacks = ["tc", "/usr/sbin/tc", "/sbin/tc"]
        .iter()
        .all(|tc| std::process::Command::new(tc).arg("-V").output().is_err());
    if lacks {
        left_out::for_want_of("there is no tc on this machine (package iproute2)");
    }
    lacks
}

const WIDE: &str = "both = { rate = \"20Mbit\", delay = \"10ms\", buffer = \"250kB\" }";

const LONG: &str = "both = { rate = \"20Mbit\", delay = \"10ms\", buffer = \"100p\" }";

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

/// What comes in is redirected to an IFB, which lets 5 of 20 Mbit/s through: packets wait on this host, and it drops them, or marks none.
#[test]
fn a_download_behind_this_hosts_own_shaper_of_what_comes_in_is_not_told_as_the_path() {
    if lacks_tc() {
        return;
    }
    let shaped = |place: &str, queue: &str, way: &str| {
        let set = format!(
            "ip link add ifb0 type ifb && ip link set ifb0 up && tc qdisc add dev la {place} \
             action mirred egress redirect dev ifb0 && tc qdisc add dev ifb0 {queue}"
        );
        let output = shell("", WIDE, &format!("{set} && FLOW -t 5 {way}"));
        assert_eq!(output.status.code(), Some(0), "{set}: {}", text(&output.stderr));
        output
    };
    let ingress = "ingress && tc filter add dev la parent ffff: matchall";
    let clsact = "clsact && tc filter add dev la ingress protocol ip u32 match u32 0 0";
    let htb = "root handle 1: htb default 1 && tc class add dev ifb0 parent 1: classid 1:1 htb \
               rate 5mbit && tc qdisc add dev ifb0 parent 1:1 ";
    for (place, queue) in [
        (ingress, "root tbf rate 5mbit burst 5k limit 60k".to_owned()),
        (clsact, format!("{htb} pfifo limit 50")),
        (clsact, format!("{htb} fq_codel")),
    ] {
        let told = json(&shaped(place, &queue, "-R --json"));
        let down = &told["down"];
        near(down["bits_per_second"].as_f64().expect("a rate"), 4.78e6, 0.1e6);
        assert_eq!(down["limited_by"], "own-queue", "{queue}: {down:#}");
        assert_eq!(down["own_queue"]["device"], "ifb0", "{queue}: {down:#}");
        assert_eq!(down["own_queue"]["redirected_from"], "la", "{queue}: {down:#}");
    }
    let said = text(&shaped(ingress, "root tbf rate 5mbit burst 5k limit 60k", "-R").stdout);
    let said = said.replace("\n         ", " ");
    assert!(
        said.contains("the queue of ifb0 (tbf), this host's own shaper of what comes in by la"),
        "{said}"
    );
    // Where it lets more through than the line carries, the line is what is full.
    let wide = "root tbf rate 50mbit burst 50k limit 600k";
    let told = json(&shaped(ingress, wide, "-R --json"));
    assert_eq!(told["down"]["limited_by"], "path", "{:#}", told["down"]);
    // Of datagrams, what it dropped is told beside what is lost.
    let said =
        text(&shaped(ingress, "root tbf rate 5mbit burst 5k limit 60k", "-R -u -b 8M").stdout);
    let said = said.replace("\n         ", " ");
    assert!(said.contains("this host's own queue of what comes in dropped"), "{said}");
    assert!(said.contains("behind the path (tbf on ifb0)"), "{said}");
}

/// What comes from `d` has a class of its own on the IFB, of 1 Mbit/s, and more comes.
#[test]
fn a_download_is_held_by_its_own_class_of_this_hosts_shaper_and_not_by_anothers() {
    if lacks_tc() {
        return;
    }
    let beside = |rate: &str| {
        let set = format!(
            "ip link add ifb0 type ifb && ip link set ifb0 up && tc qdisc add dev la ingress && \
             tc filter add dev la parent ffff: matchall action mirred egress redirect dev ifb0 && \
             tc qdisc add dev ifb0 root handle 1: htb default 1 && \
             tc class add dev ifb0 parent 1: classid 1:1 htb rate {rate} && \
             tc class add dev ifb0 parent 1: classid 1:2 htb rate 1mbit && \
             tc qdisc add dev ifb0 parent 1:1 pfifo limit 100 && \
             tc qdisc add dev ifb0 parent 1:2 pfifo limit 50 && \
             tc filter add dev ifb0 parent 1: protocol ip u32 match ip src {{d}} flowid 1:2"
        );
        let other = "BESIDE -R -u -b 1020k -t 30 --no-latency > /dev/null 2>&1 & sleep 3";
        json(&shell("", LONG, &format!("{set} && {{ {other}; FLOW -R -t 8 --json; }}")))
    };
    let told = beside("100mbit");
    assert_eq!(told["down"]["limited_by"], "path", "the line is full: {:#}", told["down"]);
    let told = beside("5mbit");
    assert_eq!(told["down"]["limited_by"], "own-queue", "{:#}", told["down"]);
    assert_eq!(told["down"]["own_queue"]["class"], "1:1", "{:#}", told["down"]);
}

/// BBR behind 20 Mbit/s of this host's own, before 80 that lose a few, over which it gets 27 and more without: its pace empties the queue again and again.
#[test]
fn a_paced_sender_behind_this_hosts_own_shaper_is_not_told_for_certain_that_the_path_held_it_up() {
    if lacks_tc() {
        return;
    }
    let up = "up = { rate = \"80Mbit\", delay = \"60ms\", buffer = \"40p\", loss = \"0.2%\" }";
    let line = format!("{up}\ndown = {{ rate = \"400Mbit\", delay = \"60ms\" }}");
    let flow = |set: &str| json(&shell("", &line, &format!("{set}FLOW -C bbr -t 4 --json")));
    let told = flow("tc qdisc replace dev la root cake bandwidth 20mbit && ");
    let up = &told["up"];
    assert!(up["bits_per_second"].as_f64().is_some_and(|bits| bits > 14e6), "{up:#}");
    assert!(["unknown", "own-queue"].contains(&up["limited_by"].as_str().unwrap_or("")), "{up:#}");
    assert_eq!(up["own_queue"]["device"], "la", "{up:#}");
    assert_eq!(up["own_queue"]["shaped_bits_per_second"], 20_000_000, "{up:#}");
    // The same path, and a shaper of which the flow needs no half.
    let told = flow("tc qdisc replace dev la root cake bandwidth 200mbit && ");
    assert!(told["up"]["own_queue"].is_null(), "{:#}", told["up"]);
}

/// What acknowledges the data goes through 100 kbit/s of this host's own, and the data would have 20 Mbit/s.
#[test]
fn a_flow_whose_acknowledgements_wait_in_this_hosts_own_queue_is_not_told_as_held_by_the_path() {
    if lacks_tc() {
        return;
    }
    let ifb = "ip link add ifb0 type ifb && ip link set ifb0 up && tc qdisc add dev la ingress && \
               tc filter add dev la parent ffff: matchall action mirred egress redirect dev ifb0";
    let slow = "root tbf rate 100kbit burst 5k limit 20000";
    let out = format!("tc qdisc add dev la {slow}");
    let into = format!("{ifb} && tc qdisc add dev ifb0 {slow}");
    for (set, side, option, device) in [(&out, "down", "-R", "la"), (&into, "up", "", "ifb0")] {
        let told = json(&shell("", LONG, &format!("{set} && FLOW -t 8 --json {option}")));
        let way = &told[side];
        assert!(way["bits_per_second"].as_f64().is_some_and(|bits| bits < 6e6), "{way:#}");
        assert_eq!(way["limited_by"], "own-queue", "{set}: {way:#}");
        assert_eq!(way["own_queue"]["device"], device, "{set}: {way:#}");
        assert_eq!(way["own_queue"]["acknowledgements"], true, "{set}: {way:#}");
    }
    let said = text(&shell("", LONG, &format!("{out} && FLOW -t 8 -R")).stdout);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let words =
        "this host's own queue of la (tbf) on its way out, where what acknowledges the data waits";
    assert!(said.contains(words), "{said}");
    // Where that is not all there is, or nobody can tell, it is not the path at least.
    let fair = "tc qdisc add dev la root handle 1: tbf rate 100kbit burst 5k limit 20000 && \
                tc qdisc add dev la parent 1:1 fq_codel";
    let short = "tc qdisc add dev la root tbf rate 100kbit burst 5k limit 3000";
    for (set, options) in [(fair, "-R"), (short, "-R"), (&*out, "-R --no-latency")] {
        let told = json(&shell("", LONG, &format!("{set} && FLOW -t 8 --json {options}")));
        assert_ne!(told["down"]["limited_by"], "path", "{set} {options}: {:#}", told["down"]);
    }
    let wide = "tc qdisc add dev la root tbf rate 50mbit burst 50k limit 60000";
    let told = json(&shell("", LONG, &format!("{wide} && FLOW -t 8 -R --json")));
    assert_eq!(told["down"]["limited_by"], "path", "{:#}", told["down"]);
}

/// Datagrams tell no sender of a loss: what a policer of what comes in drops is told beside what is lost, and nothing is where it drops none.
#[test]
fn what_a_policer_of_what_comes_in_drops_is_told_of_datagrams() {
    if lacks_tc() {
        return;
    }
    let police = "matchall action police rate 5mbit burst 20k drop";
    for (place, parent) in [("ingress", "parent ffff:"), ("clsact", "ingress")] {
        let set = format!("tc qdisc add dev la {place} && tc filter add dev la {parent} {police}");
        let told = json(&shell("", WIDE, &format!("{set} && FLOW -t 4 -R -u -b 6M --json")));
        let (dropped, lost) = (&told["down"]["dropped_here"], &told["down"]["datagrams"]["lost"]);
        assert_eq!((&dropped["device"], &dropped["filters"]), (&"la".into(), &true.into()));
        near(dropped["packets"].as_f64().expect("some"), lost.as_f64().expect("some"), 20.0);
        let said = text(&shell("", WIDE, &format!("{set} && FLOW -t 4 -R -u -b 6M")).stdout);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = format!("meanwhile filters on this host's own la ({place}) dropped");
        assert!(said.contains(&words), "{said}");
        let told = json(&shell("", WIDE, &format!("{set} && FLOW -t 4 -R -u -b 3M --json")));
        assert_eq!(told["down"]["dropped_here"], Value::Null, "{:#}", told["down"]);
    }
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

/// Data of one way and acknowledgements of the other come in each other's bursts, so that every round trip meets a queue: of one way or the other.
#[test]
fn windows_both_ways_that_leave_the_line_idle_are_not_told_as_the_path() {
    for (mbit, options) in [(10, "-w 32K"), (10, "-w 40K"), (10, "-w 48K"), (20, "-P 2 -w 32K")] {
        let line =
            format!("both = {{ rate = \"{mbit}Mbit\", delay = \"20ms\", buffer = \"100p\" }}");
        let told = json(&shell("", &line, &format!("FLOW -t 8 --json --bidir {options}")));
        for way in ["up", "down"] {
            let limit = told[way]["limited_by"].as_str().expect("a word");
            assert_ne!(limit, "path", "{mbit} {options} {way}: {told:#}");
        }
    }
    let line = "both = { rate = \"10Mbit\", delay = \"20ms\", buffer = \"100p\" }";
    let full = json(&shell("", line, "FLOW -t 8 --json --bidir -w 400K"));
    for way in ["up", "down"] {
        assert_eq!(full[way]["limited_by"], "path", "{full:#}");
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

/// 8 kB each round trip, and another's queue makes round trips long: the queue is no evidence that this flow fills the path.
#[test]
fn a_window_beside_anothers_flow_is_not_told_as_a_full_path() {
    let mut slower = 0;
    for line in [
        "both = { rate = \"20Mbit\", delay = \"20ms\", buffer = \"100p\" }",
        "both = { rate = \"10Mbit\", delay = \"10ms\", buffer = \"300p\" }",
    ] {
        for (way, others) in [("", 1), ("", 4), ("-R", 1), ("-R", 4)] {
            // It begins behind the handshake and before the data, so that all of this flow's round trips are longer than the least one.
            let other =
                format!("(sleep 1.2; FLOW -t 10 -P {others} {way} --no-latency >/dev/null)");
            let told = json(&shell("", line, &format!("{other} & FLOW -w 16K -t 8 {way} --json")));
            let told = if way.is_empty() { &told["up"] } else { &told["down"] };
            let limit = told["limited_by"].as_str().expect("a word");
            assert_ne!(limit, "path", "{line} {way} {others}: {told:#}");
            slower += u32::from(told["held"]["slower_as_rtt_grew"] == true);
        }
        let alone = json(&shell("", line, "FLOW -w 400K -t 8 --json"));
        assert_eq!(alone["up"]["limited_by"], "path", "{line}: {:#}", alone["up"]);
    }
    assert!(slower >= 6, "only {slower} of 8 were seen to be slower as the queue grew");
}

/// 32 kB beside one flow whose saw is quicker than TCP's smoothed round trip follows: with 1 MB this flow would be two to three times as fast.
#[test]
fn a_window_beside_a_quick_saw_is_not_told_as_a_full_path() {
    let mut unsteady = 0;
    for (one_way_ms, packets) in [(20, 100), (35, 60), (45, 60)] {
        let line = format!(
            "up = {{ rate = \"10Mbit\", delay = \"{one_way_ms}ms\", buffer = \"{packets}p\" }}\n\
             down = {{ rate = \"100Mbit\", delay = \"{one_way_ms}ms\" }}"
        );
        let script = "FLOW -t 40 --no-latency >/dev/null & sleep 1.2; FLOW -w 32K -t 20 --json";
        let told = json(&shell("", &line, script));
        assert_ne!(told["up"]["limited_by"], "path", "{line}: {:#}", told["up"]);
        unsteady += u32::from(told["up"]["held"]["rate_varied"] == true);
    }
    assert_eq!(unsteady, 3, "a window's rate follows a queue that is another's");
}

/// Its half of 5 Mbit/s takes some 3000 bytes in flight: the rest of a window stands in a queue of its own, which pings pass by.
#[test]
fn a_window_that_has_its_share_of_a_fair_queue_is_not_told_that_a_larger_one_could_be_faster() {
    let told = |queue: &str, way: &str, window: &str| {
        let line = format!("both = {{ rate = \"5Mbit\", delay = \"2ms\", queue = \"{queue}\" }}");
        let other = format!("FLOW -t 30 {way} --no-latency >/dev/null");
        let script = format!("{other} & sleep 2; FLOW -t 8 {way} -w {window} --json");
        let told = json(&shell("", &line, &script));
        let side = if way.is_empty() { "up" } else { "down" };
        (told[side].clone(), told["findings"].to_string())
    };
    for queue in ["fq_codel", "cake"] {
        for way in ["", "-R"] {
            let (full, says) = told(queue, way, "6000");
            let bits = full["bits_per_second"].as_f64().expect("a rate");
            assert!(bits > 2.3e6, "{queue} {way}: {full:#}");
            assert_eq!(full["limited_by"], "unknown", "{queue} {way}: {full:#}");
            assert!(says.contains("is not certain (TCP's round trip: "), "{says}");
            assert!(!says.contains("faster"), "{says}");
            let (half, says) = told(queue, way, "2600");
            assert!(says.contains("it could be faster with a larger one"), "{says}");
            let bits = half["bits_per_second"].as_f64().expect("a rate");
            assert!(bits < 1.9e6, "{queue} {way}: {half:#}");
            let limit = half["limited_by"].as_str().expect("a word");
            assert!(limit.starts_with("receive-window") || limit == "send-buffer", "{half:#}");
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
