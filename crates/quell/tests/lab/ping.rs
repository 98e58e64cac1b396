//! `quell ping` in networks that are known to the microsecond, in virtual time.

use super::support::{QUELL, TestFolder, near, two_hosts};
use serde_json::Value;

/// What `quell ping ARGUMENTS` on `a` says over this line, its errors, and its exit code.
fn output(line: &str, arguments: &[&str]) -> (String, String, Option<i32>) {
    let dir = TestFolder::new();
    let quiet = "[[scenario]]\nname = \"s\"\n\
                 [[probe]]\nname = \"unused\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\n";
    let file = dir.file("network.toml", &two_hosts(line, quiet));
    let file = file.to_string_lossy();
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0");
    let exec = ["lab", "exec", &*file, "a", "--with", &serve, "--", QUELL, "ping"];
    let output = dir.quell(&[&exec, arguments].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

/// The same in JSON.
fn ping(line: &str, arguments: &[&str]) -> (Value, Option<i32>) {
    let (out, error, code) = output(line, &[&["--json"], arguments].concat());
    let json = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{error}"));
    (json, code)
}

/// A number of a stream, as `rtt_ms.p50`.
fn number(said: &Value, stream: usize, path: &str) -> f64 {
    let value = path.split('.').fold(&said["streams"][stream], |value, part| &value[part]);
    value.as_f64().unwrap_or_else(|| panic!("{path} of {stream} in {said:#}"))
}

#[test]
fn the_home_link_takes_20_ms_and_its_bits_for_each_of_its_packets() {
    let exec = ["lab", "exec", "home-link", "b", "--", QUELL, "ping", "-c", "50", "{server}"];
    let output = TestFolder::new().quell(&exec);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    // 98 bytes with all headers: 313.6 us up at 2.5 Mbit/s, 98 us down at 8 Mbit/s.
    assert_eq!(said.matches("rtt=20.412 ms").count(), 50, "{said}");
    assert!(said.contains("50 sent, 50 received: loss 0.0 %"), "{said}");
    assert!(said.contains("min 20.41   p50 20.41   p90 20.41   p99 20.41   max 20.41"), "{said}");
}

#[test]
fn what_is_larger_than_the_paths_mtu_goes_in_fragments() {
    let line = "both = { rate = \"10Mbit\", delay = \"5ms\", buffer = \"200p\" }";
    for method in ["icmp", "udp"] {
        let (said, code) = ping(line, &["-m", method, "-s", "65000", "-c", "5", "{b}"]);
        assert_eq!((code, number(&said, 0, "received")), (Some(0), 5.0), "{method}: {said:#}");
        // 65,008 bytes in 44 fragments of a header of 34 bytes each: 53.2 ms on either way.
        near(number(&said, 0, "rtt_ms.p50"), 10.0 + 2.0 * 53.2, 0.5);
    }
}

#[test]
fn stamp_tells_each_way_its_delay_and_its_losses() {
    let line =
        "up = { delay = \"10ms\", loss = \"10%\" }\ndown = { delay = \"30ms\", loss = \"5%\" }";
    let udp = ["-m", "udp", "-c", "2000", "-i", "5ms", "{b}"];
    let (said, code) = ping(line, &[&udp[..], &["--one-clock"]].concat());
    assert_eq!(code, Some(0), "{said:#}");
    for (path, wanted) in [("rtt_ms.max", 40.0), ("up_ms.p50", 10.0), ("down_ms.p50", 30.0)] {
        near(number(&said, 0, path), wanted, 0.001);
    }
    // Four standard deviations around 10 % of 2000 and 5 % of the rest; neighbours lost on both ways are told of neither.
    let (up, down) = (number(&said, 0, "lost_up_at_least"), number(&said, 0, "lost_down_at_least"));
    let unknown = number(&said, 0, "lost") - up - down;
    assert!((120.0..=254.0).contains(&up) && (40.0..=127.0).contains(&down), "{said:#}");
    assert!(unknown < 60.0, "{said:#}");
    // Whoever does not know that it is one clock corrects for half of the round trip, and says how far that may be off.
    let (said, _) = ping(line, &udp);
    let (up, bound) = (number(&said, 0, "up_ms.p50"), number(&said, 0, "clock_offset.bound_ms"));
    near(up, 20.0, 0.001);
    assert!((10.0..21.0).contains(&bound) && up - bound <= 10.0, "{said:#}");
    // A closed port on the same host answers connects at once.
    let (said, _) = ping("both = { delay = \"7ms\" }", &["-m", "tcp", "-c", "50", "{b}:9"]);
    near(number(&said, 0, "rtt_ms.p50"), 14.0, 0.01);
}

#[test]
fn losses_are_told_by_direction_where_packets_overtake_each_other() {
    let line = "up = { delay = \"20ms\", jitter = \"15ms\", loss = \"1%\" }\n\
                down = { delay = \"20ms\", jitter = \"10ms\", loss = \"1%\" }";
    let udp = ["-m", "udp", "--one-clock", "-c", "50000", "-i", "20ms", "{b}"];
    let (said, code) = ping(line, &udp);
    assert_eq!(code, Some(0), "{said:#}");
    let [up, down, lost] =
        ["lost_up_at_least", "lost_down_at_least", "lost"].map(|path| number(&said, 0, path));
    // Four standard deviations around 1 % of 50,000, and of the rest.
    near(up, 500.0, 89.0);
    near(down, 495.0, 89.0);
    // Only the last ones, behind which too little was answered, stay unknown.
    assert!((0.0..=3.0).contains(&(lost - up - down)), "{said:#}");
}

#[test]
fn an_answer_that_comes_after_the_time_that_was_asked_for_is_late_and_not_lost() {
    // A round trip takes 800 ms.
    let line = "both = { delay = \"400ms\" }";
    for (wait, in_time) in [("500ms", 0.0), ("900ms", 20.0)] {
        for method in [&["-m", "udp"][..], &["-m", "icmp"]] {
            let arguments = [&["-c", "20", "-i", "100ms", "-W", wait, "{b}"], method].concat();
            let (said, code) = ping(line, &arguments);
            assert_eq!(code, Some(0), "{said:#}");
            near(number(&said, 0, "received"), in_time, 0.0);
            near(number(&said, 0, "lost"), 0.0, 0.0);
            // The last ones could not have been answered by the end of the waiting.
            near(number(&said, 0, "unfinished"), if in_time > 0.0 { 0.0 } else { 3.0 }, 1.0);
            near(number(&said, 0, "loss_ratio"), 0.0, 0.0);
            near(number(&said, 0, "rtt_ms.p50"), 800.0, 0.01);
        }
    }
}

/// 100 ms are waited for: the answer of each packet comes before the next is sent, while nothing else wakes the program, and 50 ms too late.
#[test]
fn an_answer_is_late_by_its_round_trip_although_nothing_woke_the_program_before_it() {
    for method in ["icmp", "udp", "tcp"] {
        let to = if method == "tcp" { "{b}:9" } else { "{b}" };
        let asked = ["-m", method, "-c", "50", "-i", "200ms", "-W", "100ms", to];
        let (said, _) = ping("both = { delay = \"75ms\" }", &asked);
        // The waiting ends before the last one's answer.
        let got = ["received", "received_late", "unfinished", "lost"].map(|k| number(&said, 0, k));
        assert_eq!(got, [0.0, 49.0, 1.0, 0.0], "{method}: {said:#}");
        near(number(&said, 0, "rtt_ms.p50"), 150.0, 0.1);
    }
    // From 60 to 140 ms: about half of them come in time, and beside each stands which.
    let line = "up = { delay = \"100ms\", jitter = \"40ms\" }";
    let asked = ["--json=lines", "-c", "200", "-i", "200ms", "-W", "100ms", "{b}"];
    let (out, error, _) = output(line, &asked);
    let mut counts = [0, 0];
    for line in out.lines() {
        let packet: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        if let Some(rtt_ns) = packet["rtt_ns"].as_u64() {
            let is_late = packet["status"] == "late";
            assert_eq!(is_late, rtt_ns > 100_000_000, "{line}");
            counts[usize::from(is_late)] += 1;
        }
    }
    let [in_time, late] = counts;
    assert!(in_time + late >= 199 && in_time > 60 && late > 60, "{counts:?}: {out}{error}");
}

#[test]
fn what_nobody_could_wait_for_is_not_lost_and_what_is_lost_is() {
    let slow = "both = { delay = \"1s\" }";
    let cut = "both = { delay = \"1s\", loss = \"100%\" }";
    for method in ["udp", "icmp"] {
        let asked = ["-m", method, "-c", "5", "-i", "500ms", "-W", "500ms", "{b}"];
        let (said, code) = ping(slow, &asked);
        let of = |what: &str| number(&said, 0, what);
        assert_eq!(code, Some(0), "{said:#}");
        assert_eq!((of("lost"), of("loss_ratio")), (0.0, 0.0), "{said:#}");
        near(of("received_late"), 2.0, 1.0);
        near(of("received_late") + of("unfinished"), 5.0, 0.0);
        let (said, code) = ping(cut, &asked);
        assert_eq!((code, number(&said, 0, "lost")), (Some(1), 5.0), "{said:#}");
    }
}

#[test]
fn a_port_that_answers_after_more_than_is_waited_for_at_first_is_late_and_not_lost() {
    let line = "both = { delay = \"2s\" }";
    for to in ["{b}:5201", "{b}:9"] {
        let (said, _) = ping(line, &["-m", "tcp", "-c", "100", "-i", "100ms", to]);
        // What was sent a second before the first answer was given up after 3 s, and came after all.
        near(number(&said, 0, "received_late"), 10.0, 2.0);
        near(number(&said, 0, "received") + number(&said, 0, "unsure"), 90.0, 2.0);
        near(number(&said, 0, "lost"), 0.0, 0.0);
        near(number(&said, 0, "rtt_at_least_ms.min"), 4000.0, 1.0);
        near(number(&said, 0, "rtt_at_least_ms.max"), 4000.0, 1.0);
    }
}

#[test]
fn a_host_that_is_cut_off_makes_the_exit_code_1() {
    let (said, code) = ping("both = { loss = \"100%\" }", &["-c", "20", "{b}"]);
    assert_eq!(code, Some(1), "{said:#}");
    near(number(&said, 0, "loss_ratio"), 1.0, 0.0);
}

#[test]
fn an_hour_has_its_18000_packets() {
    let (said, _) = ping("both = { delay = \"10ms\" }", &["-d", "1h", "{b}"]);
    near(number(&said, 0, "received"), 18_000.0, 0.0);
    near(number(&said, 0, "rtt_ms.p99"), 20.0, 0.001);
}

#[test]
fn a_connect_after_a_retry_is_a_loss_that_is_told_apart() {
    for line in [
        "up = { delay = \"20ms\", loss = \"20%\" }\ndown = { delay = \"20ms\" }",
        "up = { delay = \"20ms\" }\ndown = { delay = \"20ms\", loss = \"20%\" }",
    ] {
        let (said, _) = ping(line, &["-m", "tcp", "-c", "500", "{b}:5201"]);
        // Four standard deviations. Of the first, and of some in a row before many were seen, nobody knows whether the path was slow.
        let [least, most] = ["loss_at_least", "loss_at_most"].map(|key| number(&said, 0, key));
        near(least, 0.2, 0.072);
        assert!(most - least < 0.02, "{least} to {most}");
        near(number(&said, 0, "rtt_at_least_ms.max"), 40.0, 0.01);
        near(number(&said, 0, "jitter_ms"), 0.0, 0.01);
        let retried = &said["streams"][0]["answered_after_retry"];
        assert!(retried["connects"].as_u64() > Some(30), "{said:#}");
        // The kernel waits a second, and then the round trip.
        near(number(&said, 0, "answered_after_retry.min_ms"), 1045.0, 25.0);
        let stream = &said["streams"][0];
        assert!(stream["lost_up"].is_null() && stream["lost_down"].is_null(), "{said:#}");
    }
}

/// Half of the packets is lost. Of some nobody can know when the waiting ends: a connect whose second SYN was lost too and for which there was no
/// room to wait on, a packet that may only be late. Those that were sent beside them and answered at once must not stand for them.
#[test]
fn what_had_no_answer_when_the_waiting_ended_is_not_left_out_of_the_loss() {
    let half = "up = { delay = \"10ms\", loss = \"50%\" }\ndown = { delay = \"10ms\" }";
    // Three of four packets that are not lost take 4 s less than the others.
    let leaps =
        "up = { delay = \"4s\", loss = \"50%\", reorder = \"75%\" }\ndown = { delay = \"10ms\" }";
    for (line, method) in [
        (half, &["-m", "tcp", "{b}:5201"][..]),
        (half, &["-m", "tcp", "{b}:9"]),
        (leaps, &["-m", "icmp", "-W", "500ms", "{b}"]),
        (leaps, &["-m", "udp", "-W", "1s", "{b}"]),
    ] {
        let (said, _) = ping(line, &[&["-i", "5ms", "-c", "1000"], method].concat());
        let of = |key: &str| number(&said, 0, key);
        near(of("sent") + of("unfinished"), 1000.0, 0.0);
        // Four standard deviations of 1000; each that may be lost is counted in.
        near(of("loss_at_most"), if line == half { 0.5 } else { 0.6 }, 0.17);
        assert!(of("loss_at_least") <= 0.563 && of("loss_at_most") >= 0.437, "{said:#}");
        assert!(of("unsure") > 50.0 && said["streams"][0]["loss_ratio"].is_null(), "{said:#}");
        near(of("unfinished"), 0.0, 6.0);
    }
}

/// A network that copies packets on the way there: a place that is empty in the reflector's count may be that of a copy.
#[test]
fn where_the_way_of_some_losses_is_unknown_ping_says_so_as_run_does() {
    let line = "up = { delay = \"40ms\", duplicate = \"2%\", loss = \"3%\" }\n\
                down = { delay = \"25ms\", loss = \"2%\" }";
    let udp = ["-m", "udp", "-i", "5ms", "-c", "2000", "{b}"];
    let (said, _) = ping(line, &udp);
    let stream = &said["streams"][0];
    assert!(stream["lost_up"].is_null() && stream["lost_down"].is_null(), "{said:#}");
    near(number(&said, 0, "lost"), 99.0, 40.0);
    assert!(number(&said, 0, "lost_up_at_least") < 92.0, "{said:#}");
}

#[test]
fn days_are_turned_over_at_midnight_and_by_a_clock_set_back_and_no_packet_is_lost_to_that() {
    let dir = TestFolder::new();
    let quiet = "[[scenario]]\nname = \"s\"\n\
                 [[probe]]\nname = \"unused\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\n";
    let file = dir.file("network.toml", &two_hosts("both = { delay = \"10ms\" }", quiet));
    let file = file.to_string_lossy();
    // It answers nobody from the third hour on, for an hour.
    let silent = "b: sh -c 'sleep 7195; echo 1 >/proc/sys/net/ipv4/icmp_echo_ignore_all; \
                  sleep 3600; echo 0 >/proc/sys/net/ipv4/icmp_echo_ignore_all; sleep 9999'";
    // An hour after the start it is half past ten for the second time.
    let story = "cd $(mktemp -d); export TZ=XXX-5:30; date -s '2026-11-28 22:30:00' >/dev/null\n\
                 (sleep 3595; date -s '2026-11-28 22:30:00' >/dev/null) &\n\
                 $0 ping -q --keep 30d -w line -i 10 -d 14395 $1 >said 2>&1 || cat said\n\
                 ls runs/line; $0 show line --json; $0 show line >&2";
    let exec = ["lab", "exec", &*file, "a", "--with", silent, "--", "sh", "-c", story];
    let output = dir.quell(&[&exec[..], &[QUELL, "{b}"]].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{error}");
    let (files, json) = out.split_once('{').unwrap_or_else(|| panic!("{out}{error}"));
    assert_eq!(files.matches("-line.minutes").count(), 3, "set back, and midnight: {files}");
    let json: Value = serde_json::from_str(&format!("{{{json}")).expect("a document");
    let hours = json["hours"].as_array().expect("hours");
    let of = |key: &str| hours.iter().map(|h| h[key].as_f64()).collect::<Vec<_>>();
    let sent: Vec<f64> = of("sent").into_iter().flatten().collect();
    assert_eq!(sent.iter().sum::<f64>(), 1440.0, "none is lost to that: {json:#}");
    // The packet that was on its way then belongs to the run before.
    [360.0, 540.0, 360.0, 180.0].iter().zip(&sent).for_each(|(wanted, n)| near(*n, *wanted, 2.0));
    let lost: Vec<f64> = of("loss_ratio").into_iter().flatten().collect();
    near(lost[0], 0.0, 0.0);
    near(lost[1], 180.0 / 540.0, 0.01);
    near(lost[2], 0.5, 0.01);
    near(lost[3], 0.0, 0.0);
    assert!(error.contains("Calls suffered or broke in 2 of 4 hours."), "{error}");
    assert!(error.contains("Sun 29 Nov 00:00"), "by the clock of that zone: {error}");
}
