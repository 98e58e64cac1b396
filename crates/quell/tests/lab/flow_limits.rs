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
        assert_eq!(
            (&down["cause"], &down["cause_end"]),
            (&"own-queue".into(), &"here".into()),
            "{queue}: {down:#}"
        );
        assert_eq!(down["own_queue"]["device"], "ifb0", "{queue}: {down:#}");
        assert_eq!(down["own_queue"]["redirected_from"], "la", "{queue}: {down:#}");
    }
    // Where it lets more through than the line carries, the line is what is full.
    let wide = "root tbf rate 50mbit burst 50k limit 600k";
    let told = json(&shaped(ingress, wide, "-R --json"));
    assert_eq!(told["down"]["cause"], "path-queue", "{:#}", told["down"]);
    // Of datagrams, what it dropped is told beside what is lost.
    let said =
        text(&shaped(ingress, "root tbf rate 5mbit burst 5k limit 60k", "-R -u -b 8M").stdout);
    let said = said.replace("\n         ", " ");
    assert!(said.contains("this host's own queue of what comes in dropped"), "{said}");
    assert!(said.contains("behind the path (tbf on ifb0)"), "{said}");
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
