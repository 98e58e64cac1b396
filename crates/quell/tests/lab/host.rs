//! The same experiment on the running kernel, in namespaces and real time. What that kernel lacks is told before anything starts, and
//! only then may a story end early.

use super::support::{PING, Results, TestFolder};
use crate::left_out;
use std::process::Output;
use std::time::Duration;

/// Only what a small kernel has: a token bucket and a FIFO. They stand on a router: a host's own TCP would not fill its own queue. The bucket
/// is deep enough that a timer of a busy machine may be 24 ms late and no rate is lost.
fn plain() -> String {
    over(
        "",
        "[[queue]]\nname = \"slow\"\non = \"r:line\"\n\
         queue = { kind = \"tbf\", rate = \"10Mbit\", burst = \"30kB\", limit = \"75700B\" }\n",
        "queues = [\"slow\"]\n",
    )
}

/// A TCP transfer from `a` over a router to `b`, by a line, with these queues.
fn over(line: &str, queues: &str, use_them: &str) -> String {
    format!(
        "name = \"story\"\nduration = \"4s\"\nwarm-up = \"1s\"\nprobes-run = \"together\"\n\
         [topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\"]\n\
         [[topology.link]]\nname = \"lan\"\nends = [\"a\", \"r\"]\n\
         [[topology.link]]\nname = \"line\"\nends = [\"r\", \"b\"]\n{line}\n{queues}\
         [[load]]\nname = \"bulk\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\n\
         [[scenario]]\nname = \"s\"\nloads = [\"bulk\"]\n{use_them}{PING}"
    )
}

#[test]
fn the_same_file_means_the_same_on_both_backends() {
    let guest = TestFolder::new().run(&plain(), &[]);
    let on_host = || TestFolder::new().run(&plain(), &["--kernel", "host"]);
    let host = both_carry_10_mbit(&guest, on_host);
    assert_eq!(host.json["kernel"]["backend"], "host");
    assert_eq!(host.json["kernel"]["virtual_time"], false);
    assert_eq!(guest.json["kernel"]["virtual_time"], true);
}

/// Payload of full frames at 10 Mbit/s, with 50 packets of 1514 bytes or 61 ms to wait; how full the buffer gets within seconds is up to
/// TCP.
fn carries_10_mbit(results: &Results, within: f64) -> bool {
    let wanted = 10.0 * 1448.0 / 1514.0;
    let (goodput, p99) = (goodput(results), results.row("s", "ping")["rtt_ms"]["p99"].as_f64());
    println!("{goodput:?} Mbit/s, {p99:?} ms");
    goodput.is_some_and(|goodput| (goodput - wanted).abs() <= within)
        && p99.is_some_and(|p99| (1.0..75.0).contains(&p99))
}

/// In Mbit/s; none where a machine had no CPU for its reports.
fn goodput(results: &Results) -> Option<f64> {
    results.row("s", "bulk")["goodput_mbps"].as_f64()
}

/// In real time a busy machine holds packets up; then it is asked again, a few times. Where the machine's own host takes its CPUs away for more
/// than a tenth of the time, or nine tenths of it are somebody's who runs here (this needs next to nothing), it can't carry the rate: then no
/// more than the rate is asked for.
fn both_carry_10_mbit(guest: &Results, host: impl FnMut() -> Results) -> Results {
    assert!(carries_10_mbit(guest, 0.05), "in virtual time");
    let before = CpuTime::now();
    let mut last = None;
    for run in std::iter::repeat_with(host).take(8) {
        if carries_10_mbit(&run, 0.5) {
            return run;
        }
        // Of 3 s. A receiver that stood still when they began has before it what a socket holds.
        let most = 10.1 + 0.5e6 * 8.0 / 3e6;
        assert!(goodput(&run).is_none_or(|rate| rate < most), "more than the line's rate");
        last = Some(run);
    }
    let after = CpuTime::now();
    let share = |ticks: fn(&CpuTime) -> u64| {
        ticks(&after).saturating_sub(ticks(&before)) as f64 / (after.all - before.all) as f64
    };
    let (stolen, idle) = (share(|time| time.stolen), share(|time| time.idle));
    println!("of this machine's CPU time {stolen:.2} was taken away, {idle:.2} nobody's");
    assert!(stolen > 0.1 || idle < 0.1, "no run on the host carries its rate");
    last.expect("eight runs")
}

/// Ticks of all CPUs since the machine began (proc(5)).
struct CpuTime {
    /// Those that its own host took away (`steal`).
    stolen: u64,
    /// Those in which nobody wanted them (`idle`, `iowait`).
    idle: u64,
    all: u64,
}

impl CpuTime {
    fn now() -> Self {
        let text = std::fs::read_to_string("/proc/stat").expect("Linux tells its CPU times");
        let line = text.lines().next().expect("a line for all CPUs");
        let words = line.split_whitespace().skip(1).take(8);
        let ticks: Vec<u64> = words.map(|word| word.parse().expect("a count")).collect();
        CpuTime { stolen: ticks[7], idle: ticks[3] + ticks[4], all: ticks.iter().sum() }
    }
}

#[test]
fn a_line_has_its_rate_and_its_bits_on_both_backends() {
    let text = over("both = { rate = \"10Mbit\", buffer = \"50p\" }", "", "");
    let dir = TestFolder::new();
    let file = dir.file("line.toml", &text);
    let run = || dir.quell(&["run", &file.to_string_lossy(), "--kernel", "host", "--json"]);
    let output = run();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) && said.contains("queue `netem`") {
        left_out::kernel_lacks(format!("this kernel has no netem: {said}"));
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    let on_host = || Results { json: serde_json::from_slice(&run().stdout).expect("JSON") };
    let host = both_carry_10_mbit(&TestFolder::new().run(&text, &[]), on_host);
    // Frames of 98 bytes on an idle line; a timer of a real machine is late, never early.
    let idle = host.number("s", "ping", "rtt_ms.min") * 1e3;
    assert!(idle >= 2.0 * 98.0 * 8.0 / 10.0, "{idle} us");
}

#[test]
fn what_the_running_kernel_lacks_is_named_before_anything_starts() {
    let dir = TestFolder::new();
    let output = dir.quell(&[
        "run",
        "home-link",
        "--duration",
        "1s",
        "--kernel",
        "host",
        "--only",
        "unloaded",
        "--set",
        "expect=[]",
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        // A kernel that has it all carries it out.
        Some(0) => {}
        Some(3) => {
            assert!(said.contains("lacks") && said.contains("--kernel guest"), "{said}");
            assert!(!dir.path().join("runs").exists(), "nothing was begun");
        }
        code => panic!("{code:?}: {said}"),
    }
}

#[test]
fn what_shaping_costs_is_measured_here_and_what_can_not_be_is_said() {
    let dir = TestFolder::new();
    // Once through all scenarios, and not for long.
    let run = || {
        let begun = std::time::Instant::now();
        let output = dir.quell(&["run", "shape-cost", "--repeat", "2", "--duration", "500ms"]);
        (output, begun.elapsed())
    };
    // On a busy machine too each claim has room, but a transfer may have no CPU for all of its half second: then it is run again.
    let held = |(output, _): &(Output, Duration)| output.status.code() != Some(1);
    let (output, took) = (0..4).map(|_| run()).find(held).unwrap_or_else(run);
    let [out, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert_eq!(output.status.code(), Some(0), "{out}{said}");
    assert!(out.contains("ms/MB") && out.contains("real time"), "{out}");
    assert!(out.contains("published: CPU, throughput"), "{out}");
    // Each scenario is in the table, or it was left out for a reason.
    for name in [
        "no-queue",
        "one-step",
        "two-steps",
        "classifier",
        "host-fair",
        "ifb",
        "one-queue",
        "four-queues",
    ] {
        let shown = out.lines().any(|line| line.starts_with(&format!("{name} ")));
        let lacks = format!("left out: {name}; the running kernel lacks ");
        assert_ne!(shown, said.contains(&lacks), "{name}: {out}{said}");
    }
    assert!(took < Duration::from_secs(900), "{took:?}");
}

#[test]
fn a_scenario_that_may_be_left_out_is_and_its_claims_are_not_judged() {
    // Long enough that somebody pings also where all stand still for seconds.
    let text = format!(
        "name = \"story\"\nduration = \"6s\"\nkernel = \"host\"\n\
         expect = [\"there.ping.loss < 50%\", \"lacking.ping.loss < 50%\"]\n\
         [topology]\nhosts = [\"a\", \"b\"]\n\
         [[topology.link]]\nname = \"line\"\nends = [\"a\", \"b\"]\n\
         [[load]]\nname = \"bulk\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\ncongestion = \"nobodys\"\n\
         [[scenario]]\nname = \"there\"\n\
         [[scenario]]\nname = \"lacking\"\nloads = [\"bulk\"]\noptional = true\n{PING}"
    );
    let (results, said) = TestFolder::new().run_to(0, &text, &[]);
    assert!(said.contains("left out: lacking; the running kernel lacks congestion"), "{said}");
    assert_eq!(results.json["kernel"]["backend"], "host");
    let claims = results.json["expectations"].as_array().expect("a list");
    assert_eq!(claims.len(), 1, "{claims:?}");
    // One that must not be left out ends the run before it begins.
    let dir = TestFolder::new();
    let file = dir.file("story.toml", &text.replace("optional = true\n", ""));
    let output = dir.quell(&["run", &file.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn each_of_a_devices_queues_has_a_queue_of_its_own_on_both_backends() {
    let text = over(
        "tx-queues = 2",
        "[[queue]]\nname = \"each\"\non = \"r:line\"\n\
         queue = { kind = \"mq\", class = [{ queue = SLOW }, { queue = SLOW }] }\n",
        "queues = [\"each\"]\n",
    );
    let slow = "{ kind = \"tbf\", rate = \"10Mbit\", burst = \"30kB\", limit = \"75700B\" }";
    let text = text.replace("SLOW", slow);
    for backend in ["guest", "host"] {
        let dir = TestFolder::new();
        dir.run(&text, &["--kernel", backend, "--duration", "300ms"]);
        let manifest = std::fs::read_to_string(dir.only_run().join("manifest.json"));
        let manifest = manifest.expect("a run has one");
        let of_kind = |kind| manifest.matches(&format!("\\\"{kind}\\\"")).count();
        assert!(of_kind("mq") >= 1 && of_kind("tbf") >= 2, "{backend}: {manifest}");
    }
    // A device with one queue has none for a second.
    let dir = TestFolder::new();
    let file = dir.file("one.toml", &text.replace("tx-queues = 2", ""));
    let output = dir.quell(&["run", &file.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}
