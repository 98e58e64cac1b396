//! `quell doctor --watch`: what comes and goes while it looks.

use super::Story;
use super::net::{Busy, Net, QUELL, THERE, connected, listener, pass, read_all, served};
use crate::left_out;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};

pub const STORIES: &[Story] = &[
    Story { name: "watched: a queue that fills once ends what waits for it", tell: awaited },
    Story { name: "watched: a delay that comes and goes is told twice", tell: comes_and_goes },
    Story { name: "watched: where nothing is wrong nothing is told", tell: quiet },
    Story { name: "watched: it ends at its limit", tell: limit },
    Story { name: "during: packets to a port at which nobody listens", tell: dropped },
];

/// A doctor who keeps looking.
fn watching(net: &Net, more: &[&str]) -> Child {
    net.here.run(|| {
        let mut command = Command::new(QUELL);
        command.args(["doctor", "--watch"]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("quell can be started")
    })
}

/// A program that sends four packets a second to where nobody listens, while the doctor looks.
fn dropped(net: &Net) {
    let during = ["doctor", "--json", "--only", "ecn-bleached", "--during", "sleep 2"];
    let child = net.here.run(|| {
        let mut command = Command::new(QUELL);
        command.args(during).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("quell can be started")
    });
    net.here.run(|| {
        let socket = UdpSocket::bind("10.0.0.1:4000").expect("a free port");
        for _ in 0..12 {
            pass(250);
            socket.send_to(&[7; 10], (THERE, 9)).expect("it is sent");
        }
    });
    let said: Value = serde_json::from_str(&said(child, 0)).expect("JSON");
    let dropped = &said["during"]["dropped"];
    let Some(why) = dropped["could_not_look"].as_str() else {
        let rows = dropped["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["flow"] == "UDP 10.0.0.1:4000 to 10.0.0.2:9");
        let row = row.unwrap_or_else(|| panic!("{dropped:#}"));
        assert_eq!((&row["reason"], &row["packets"]), (&"NO_SOCKET".into(), &8.into()), "{row:#}");
        return;
    };
    // A kernel that is built without it.
    assert!(why.contains("no drop monitor"), "{why}");
    left_out::kernel_lacks(format!("why packets are dropped: {why}"));
}

/// What it said until its end, with this exit code.
#[track_caller]
fn said(child: Child, code: i32) -> String {
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("words");
    let (out, error) = (text(output.stdout), text(output.stderr));
    assert_eq!((output.status.code(), error.as_str()), (Some(code), ""), "{out}");
    out
}

/// The same, a line an event.
#[track_caller]
fn events(child: Child, code: i32) -> Vec<Value> {
    let all = said(child, code);
    all.lines().map(|line| serde_json::from_str(line).expect("a line an event")).collect()
}

fn words(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["event"].as_str()).collect()
}

fn interrupt(child: &Child) {
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it runs");
}

fn awaited(net: &Net) {
    let child = watching(net, &["--until", "queue-drops", "--json"]);
    pass(35_000);
    net.queue("a0", "{ kind = \"tbf\", rate = \"1Mbit\", burst = \"5kB\", limit = \"10kB\" }");
    let reads = net.there.run(|| UdpSocket::bind((THERE, 0)).expect("a free port"));
    let to = reads.local_addr().expect("it has one");
    net.here.run(|| {
        let socket = UdpSocket::bind("10.0.0.1:0").expect("a free port");
        (0..200).for_each(|_| drop(socket.send_to(&[7; 1000], to)));
    });
    let events = events(child, 1);
    assert_eq!(words(&events), ["began", "appeared", "ended"], "{events:#?}");
    assert_eq!(events[1]["finding"]["id"], "queue-drops");
    assert_eq!(events[2]["why"], "until");
    // The first look is after a second, and then there is one each 10 s.
    assert_eq!((&events[2]["looks"], &events[2]["present"]), (&5.into(), &1.into()));
}

fn comes_and_goes(net: &Net) {
    let child = watching(net, &["--only", "own-queue", "--every", "2s"]);
    pass(5000);
    net.queue("a0", "{ kind = \"netem\", rate = \"2Mbit\", limit = 2000 }");
    let listener = listener(&net.there);
    let stream = connected(&net.here, &listener);
    served(&net.there, listener, read_all);
    let busy = Busy::new(stream);
    pass(8000);
    drop(busy);
    pass(60_000);
    interrupt(&child);
    let said = said(child, 1);
    let at = |word: &str| said.find(word).unwrap_or_else(|| panic!("no `{word}`: {said}"));
    assert!(at(" appeared\n") < at(" went: ") && at(" went: ") < at("it was ended"), "{said}");
    assert!(said.contains("[own-queue]") && said.contains("1 appeared, 0 there now"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
}

fn quiet(net: &Net) {
    let child = watching(net, &["--json", "--severity", "note"]);
    pass(45_000);
    interrupt(&child);
    let events = events(child, 0);
    assert_eq!(words(&events), ["began", "ended"], "{events:#?}");
    assert_eq!(events[1]["why"], "stopped");
}

fn limit(net: &Net) {
    let events = events(watching(net, &["--json", "--limit", "30s", "--every", "5s"]), 0);
    assert_eq!((&events[1]["why"], &events[1]["looks"]), (&"limit".into(), &7.into()));
}
