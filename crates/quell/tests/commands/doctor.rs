//! `quell doctor` as a person or a program calls it, on whatever machine this is: it only reads.

use crate::support::{Said, TestFolder, says};
use serde_json::Value;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

fn doctor(arguments: &[&str]) -> Said {
    TestFolder::new().quell(&[&["doctor"], arguments].concat())
}

/// The examination as JSON, whatever was found.
fn examined(said: &Said) -> Value {
    assert!(matches!(said.code, Some(0 | 1)), "{:?} {}", said.code, said.error);
    serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {}", said.out))
}

#[test]
fn every_check_is_listed_and_explained() {
    let list = doctor(&["--list"]).fine();
    assert!(list.lines().all(|line| line.chars().count() <= 100), "{list}");
    let all: Value = serde_json::from_str(&doctor(&["--list", "--json"]).fine()).expect("JSON");
    let all = all.as_array().expect("a list");
    assert!(all.len() >= 62);
    for check in all {
        assert!(list.contains(check["name"].as_str().expect("a name")), "{check}");
    }
    let explained = doctor(&["--explain", "delayed-ack"]).fine();
    says(&explained, &["saturation", "TCP_NODELAY", "RFC 1122", "serious"]);
    for cause in ["nagle", "policer", "disk", "cpu", "rate-limit", "unknown", "mtu-black-hole"] {
        says(&doctor(&["--explain", cause]).fine(), &[cause, "speaks", "why", "source"]);
        assert!(list.contains(cause), "{cause} in {list}");
    }
    says(&doctor(&["--explain", "listen"]).refused(2), &["is it listen-overflow?"]);
    says(&doctor(&["--only", "no-such"]).refused(2), &["no-such", "--list"]);
    says(&doctor(&["--severity", "bad"]).refused(2), &["note, warning or serious"]);
}

/// What `--peer` says of an address, without an answer, and how long that took.
fn unanswered(address: &str) -> (String, Duration) {
    let begun = Instant::now();
    let said = doctor(&["--peer", address]);
    assert_eq!((said.code, said.out.as_str()), (Some(3), ""), "{}", said.error);
    (said.error, begun.elapsed())
}

#[test]
fn a_host_without_a_server_says_so_at_once_and_a_silent_one_is_told_of_while_it_is_asked() {
    for loopback in ["127.0.0.1:0", "[::1]:0"] {
        let silent = UdpSocket::bind(loopback).expect("a port");
        let address = silent.local_addr().expect("it has one").to_string();
        let (said, took) = unanswered(&address);
        // After a second, after two; then all flows, and what came of it.
        says(
            &said,
            &[
                "is silent: asked again, for 4s at most",
                "is silent",
                "20 flows of 20 packets: 2s at most",
            ],
        );
        says(
            &said,
            &["no answer to 20 packets of each of 20 flows", "quell serve --bind", "firewall"],
        );
        assert!(took >= Duration::from_millis(4_500), "{took:?}");
        drop(silent);
        // A busy machine may have no CPU for it for a second, and it asks again; in five tries but one. One that waited would do so for longer.
        let at_once = |(said, took): &(String, Duration)| {
            !said.contains("silent") && *took < Duration::from_secs(3)
        };
        let ask = |_| {
            let (said, took) = unanswered(&address);
            says(&said, &["nobody listens at that UDP port", "quell serve --bind", "HOST:PORT"]);
            (said, took)
        };
        let tries: Vec<_> = (0..5).map(ask).take_while(|tried| !at_once(tried)).collect();
        assert!(tries.len() < 5, "{tries:?}");
    }
}

#[test]
fn each_check_that_was_asked_for_has_an_outcome() {
    let begun = Instant::now();
    let said = doctor(&["--json", "--only", "listen-overflow,ecn-bleached,delayed-ack"]);
    let json = examined(&said);
    let checks = json["checks"].as_array().expect("a list");
    let names: Vec<&str> = checks.iter().filter_map(|check| check["check"].as_str()).collect();
    assert_eq!(names, ["listen-overflow", "delayed-ack", "ecn-bleached"]);
    assert_eq!(checks[2]["outcome"], "not-applicable");
    assert!(begun.elapsed() < Duration::from_secs(60));
    let text = doctor(&["--only", "ecn-bleached", "--all"]).fine();
    says(&text, &["Nothing is wrong", "not applicable: needs --peer"]);
}

#[test]
fn what_was_recorded_is_judged_as_it_was() {
    let folder = TestFolder::new();
    let first = folder.quell(&[
        "doctor",
        "--json",
        "--record",
        "facts.json",
        "--only",
        "carrier-lost,tcp-options-off",
    ]);
    let again = folder.quell(&[
        "doctor",
        "--json",
        "--from",
        "facts.json",
        "--only",
        "carrier-lost,tcp-options-off",
    ]);
    assert_eq!(examined(&first)["checks"], examined(&again)["checks"]);
    says(&folder.quell(&["doctor", "--from", "nowhere"]).refused(2), &["nowhere"]);
}

#[test]
fn a_command_that_fails_hangs_or_is_not_there_is_told_of() {
    let fine = doctor(&["--json", "--only", "ecn-bleached", "--during", "true"]);
    let json = examined(&fine);
    assert_eq!((fine.code, &json["during"]["failed"]), (Some(0), &Value::Null));
    assert!(json["during"]["looks"].as_u64() >= Some(1), "{json}");
    let fails = doctor(&["--only", "ecn-bleached", "--during", "false"]);
    assert_eq!(fails.code, Some(1));
    says(&fails.out, &["While `false` ran", "did not end well", "exit status: 1"]);
    // Its child would hang for longer than the test; all of its group is ended.
    let begun = Instant::now();
    let hangs = doctor(&["--only", "ecn-bleached", "--during", "sleep 600", "--limit", "1s"]);
    assert_eq!(hangs.code, Some(1));
    says(&hangs.out, &["longer than --limit 1s"]);
    assert!(begun.elapsed() < Duration::from_secs(60));
    let none = doctor(&["--only", "ecn-bleached", "--during", "/no/such/program"]);
    says(&none.refused(3), &["/no/such/program"]);
    says(&doctor(&["--during", " "]).refused(2), &["names no program"]);
    says(&doctor(&["--during", "sh -c 'true"]).refused(2), &["a quote is open"]);
}

#[test]
fn what_is_asked_of_a_watch_is_checked_before_it_looks() {
    for (arguments, words) in [
        (&["--until", "queue-drops"][..], "--watch"),
        (&["--watch", "--until", "queue-dropz"], "queue-dropz"),
        (&["--watch", "--until", "listen-overflow", "--only", "queue-drops"], "--only"),
        (&["--watch", "--every", "10ms"], "1s or more"),
        (&["--watch", "--during", "true"], "--during"),
        (&["--limit", "1s"], "--limit goes with --during or --watch"),
    ] {
        says(&doctor(arguments).refused(2), &[words]);
    }
}

#[test]
fn a_watch_tells_a_line_an_event_and_ends_by_itself() {
    let said = doctor(&["--watch", "--json", "--only", "ecn-bleached", "--limit", "1s"]);
    assert_eq!((said.code, said.error.as_str()), (Some(0), ""));
    let events: Vec<Value> =
        said.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(events[0]["event"], "began");
    assert_eq!((&events[1]["event"], &events[1]["why"]), (&"ended".into(), &"limit".into()));
    assert_eq!(events.len(), 2, "{}", said.out);
}

/// What `netstat -s` prints on a host whose server does not keep up, as it stands in a mail.
const POSTED: &str = "Our server is slow:\r\n> Tcp:\r\n>     1000 active connection openings\r\n> TcpExt:\r\n\
                      >     3450 times the listen queue of a socket overflowed\r\n> thanks\r\n";

#[test]
fn what_people_post_is_examined_and_what_is_missing_is_named() {
    let folder = TestFolder::new();
    folder.write("mail.txt", POSTED);
    let said = folder.quell(&[
        "doctor",
        "--from",
        "mail.txt",
        "--only",
        "syn-queue,backlog-drops,softnet-drops",
    ]);
    assert_eq!(said.code, Some(0), "{}", said.error);
    says(
        &said.out,
        &["none of 3 checks could be made", "Could not look: 3 checks", "nstat -az", "ss -tinm"],
    );
    // A count without a time may be last year's.
    let said = folder.quell(&["doctor", "--from", "mail.txt"]);
    assert_eq!(said.code, Some(0), "{}", said.error);
    let fault = "1 possible fault. The first: this host: connections came faster";
    says(&said.out, &[fault, "How long the counters ran is unknown", "ListenOverflows 3450"]);
    folder.write("uptime.txt", " 10:00:00 up 1 day,  2:00,  1 user,  load average: 0.00\n");
    let said = folder.quell(&["doctor", "--from", "mail.txt", "uptime.txt"]);
    assert_eq!(said.code, Some(1), "{}", said.error);
    says(&said.out, &["The worst: this host: connections came faster", "ListenOverflows 3450"]);
    folder.write("cut.txt", "Tcp:\n  1000000 segments sent out\n  0 segments retransmitted\n");
    let said =
        folder.quell(&["doctor", "--from", "cut.txt", "--only", "fast-retransmit,paws,syn-queue"]);
    says(
        &said.out,
        &["Nothing is wrong in the 1 check of 3 that could be made", "Of 3 checks 1 is fine"],
    );
    folder.write("later.txt", POSTED.replace("3450", "3500"));
    let said = folder.quell(&["doctor", "--json", "--from", "mail.txt", "later.txt"]);
    let json = examined(&said);
    assert_eq!(json["posted"]["found"][0], "counters", "{json:#}");
    folder.write("prose.txt", "It is slow.");
    says(
        &folder.quell(&["doctor", "--from", "prose.txt"]).refused(2),
        &["prose.txt", "netstat -s"],
    );
}

#[test]
fn the_answer_comes_first_and_is_coloured_where_that_is_asked_for() {
    let folder = TestFolder::new();
    folder.write(
        "mail.txt",
        "> Tcp:\n>     0 segments sent out\n>     InCsumErrors: 500\n10:00:00 up 2:00\n",
    );
    let plain = folder.quell(&["doctor", "--from", "mail.txt"]);
    assert_eq!(plain.code, Some(1), "{}{}", plain.out, plain.error);
    assert!(plain.out.starts_with("1 serious. The worst: this host: "), "{}", plain.out);
    assert!(plain.out.contains("\nSERIOUS   this host"), "{}", plain.out);
    let coloured = folder.quell(&["doctor", "--from", "mail.txt", "--color", "always"]);
    assert!(coloured.out.contains("\u{1b}[1;31mSERIOUS\u{1b}[0m   this host"), "{}", coloured.out);
}
