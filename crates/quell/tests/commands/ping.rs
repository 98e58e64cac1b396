//! `quell ping` as a person uses it, over loopback.

use crate::broker::{fill, small_disk};
use crate::support::{TestFolder, program, said, says};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use quell_store::Run;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;

/// Not every kernel lets every user ping: then there is nothing to test here but the refusal, which must say what to do.
fn icmp() -> bool {
    let probe = ["ping", "-c", "1", "-q", "127.0.0.1"];
    let got = said(program(&probe), &probe);
    if got.code == Some(3) {
        says(&got.error, &["ping_group_range", "cap_net_raw", "as root", "--method udp"]);
        crate::support::left_out::kernel_lacks(got.error);
        return false;
    }
    true
}

#[test]
fn two_streams_are_named_counted_and_summed_up() {
    if !icmp() {
        return;
    }
    let arguments =
        ["ping", "-i", "0.01", "-c", "20", "-t", "voip,127.0.0.1,EF,160", "-t", "six,::1,CS1"];
    let text = said(program(&arguments), &arguments).fine();
    says(
        &text,
        &["voip: 127.0.0.1, ICMP, 160 bytes, TOS EF, every 10ms", "six: ::1, ICMP, 56 bytes"],
    );
    says(&text, &["20 sent, 20 received: loss 0.0 %", "jitter", "RFC 3550"]);
    for stream in ["voip", "six "] {
        let lines = text.lines().filter(|l| l.starts_with(&format!("{stream}  t=")));
        assert_eq!(lines.count(), 20, "a line a packet: {text}");
    }
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
}

#[test]
fn json_has_the_same_whole_or_line_by_line() {
    if !icmp() {
        return;
    }
    let arguments = ["ping", "-i", "10ms", "-c", "7", "--ecn", "ect1", "127.0.0.1", "--json"];
    let text = said(program(&arguments), &arguments).fine();
    let whole: Value = serde_json::from_str(&text).expect("it is one document");
    let stream = &whole["streams"][0];
    assert_eq!((&stream["sent"], &stream["received"]), (&7.into(), &7.into()), "{text}");
    assert_eq!((&stream["tos"], &stream["rtt_ms"]["n"]), (&1.into(), &7.into()), "{text}");
    assert!(stream["clock"].as_str().is_some_and(|c| c.contains("receive: kernel")), "{text}");

    let arguments = ["ping", "-i", "10ms", "-c", "7", "127.0.0.1", "--json=lines"];
    let text = said(program(&arguments), &arguments).fine();
    let lines: Vec<Value> =
        text.lines().map(|l| serde_json::from_str(l).expect("each line is an object")).collect();
    let events: Vec<&str> = lines.iter().filter_map(|l| l["event"].as_str()).collect();
    assert_eq!((events[0], events[8], events.len()), ("start", "end", 9), "{text}");
    assert!(lines[1..8].iter().all(|l| l["status"] == "ok" && l["rtt_ns"].is_u64()), "{text}");
}

#[test]
fn a_kept_run_is_read_like_any_other() {
    if !icmp() {
        return;
    }
    let dir = TestFolder::new();
    let arguments = [
        "ping",
        "-q",
        "-i",
        "10ms",
        "-c",
        "30",
        "-t",
        "b,127.0.0.1,EF",
        "-t",
        "a,::1",
        "-w",
        "line",
    ];
    let text = dir.quell(&arguments).fine();
    says(&text, &["30 received", "kept as runs/", "-line"]);
    let shown = dir.quell(&["show", "line", "--json"]).fine();
    let json: Value = serde_json::from_str(&shown).expect("it is JSON");
    assert_eq!(json["complete"], true, "{shown}");
    let row = &json["results"][0];
    assert_eq!(json["results"].as_array().map(Vec::len), Some(2), "{shown}");
    assert_eq!(
        (&row["stream"], &row["sent"], &row["received"]),
        (&"a".into(), &30.into(), &30.into())
    );
    says(&dir.quell(&["show", "--list"]).fine(), &["-line", "complete"]);
    let again = dir.quell(&["ping", "-r", "line"]).fine();
    assert_eq!(again, text, "the same summary again");
    for (file, more) in [("dots.png", &[][..]), ("lines.svg", &["-l"])] {
        dir.quell(&[&["ping", "-r", "line", "-o", file], more].concat()).fine();
        assert!(std::fs::metadata(dir.path(file)).expect("it is drawn").len() > 1000);
    }
    says(&dir.quell(&["open", "--no-open"]).fine(), &["report.html"]);
}

#[test]
fn what_can_not_be_is_told_before_anything_is_sent() {
    for (arguments, words) in [
        (&["ping"][..], &["HOST"][..]),
        (
            &["ping", "name.invalid", "127.0.0.1", "other.invalid"],
            &["name.invalid", "other.invalid"],
        ),
        (&["ping", "-6", "127.0.0.1"], &["no IPv6 address"]),
        (&["ping", "-i", "0", "127.0.0.1"], &["-i 0"]),
        (&["ping", "-W", "0", "127.0.0.1"], &["-W 0", "no time"]),
        (&["ping", "-i", "-1", "127.0.0.1"], &["`-1` is no time", "200ms"]),
        (&["ping", "-i", "fast", "127.0.0.1"], &["fast", "20ms"]),
        (&["ping", "-s", "70000", "127.0.0.1"], &["65507"]),
        (&["ping", "-p", "7", "127.0.0.1"], &["ICMP has no ports"]),
        (&["ping", "--method", "udp", "-s", "20", "127.0.0.1"], &["44"]),
        (&["ping", "-t", "a,127.0.0.1,EFF"], &["EFF", "low-delay"]),
        (&["ping", "-t", "a,127.0.0.1", "-t", "a,::1"], &["two streams", "`a`"]),
        (&["ping", "--tos", "256", "127.0.0.1"], &["256", "255"]),
        (&["ping", "-o", "x.jpg", "127.0.0.1"], &["x.jpg", ".png, .svg or .pdf"]),
        (&["ping", "-r", "no-such-run"], &["no-such-run"]),
        (&["ping", "-r", "x", "127.0.0.1"], &["--read"]),
        (&["ping", "-m", "tcp", "-I", "no-such-dev", "127.0.0.1"], &["no-such-dev", "ip link"]),
        (&["ping", "-m", "udp", "-I", "192.0.2.77", "127.0.0.1"], &["-I", "192.0.2.77"]),
        (&["ping", "-m", "udp", "-I", "::1", "127.0.0.1"], &["-I ::1", "no IPv6"]),
    ] {
        says(&said(program(arguments), arguments).refused(2), words);
    }
}

#[test]
fn a_size_that_the_path_does_not_take_is_told_with_what_to_do_and_no_server_is_asked_for() {
    // 65,507 bytes are 20 more than loopback's 65,536 with the headers of IPv6, and fit with those of IPv4.
    let asked = ["ping", "-c", "2", "-i", "10ms", "-m", "udp", "-p", "9", "-s", "65507", "-M"];
    let arguments = [&asked[..], &["::1"]].concat();
    let got = said(program(&arguments), &arguments);
    assert_eq!(got.code, Some(1), "{}", got.error);
    says(&got.out, &["EMSGSIZE: larger than the path takes (its MTU)"]);
    says(&got.error, &["no more than -s 65488 fits", "or leave out -M"]);
    assert!(!got.error.contains("quell serve"), "{}", got.error);
    let arguments = [&asked[..], &["127.0.0.1"]].concat();
    assert!(!said(program(&arguments), &arguments).out.contains("EMSGSIZE"));
    for size in ["65508", "70000"] {
        let arguments = ["ping", "-s", size, "::1"];
        says(&said(program(&arguments), &arguments).refused(2), &["--size", "65507"]);
    }
}

#[test]
fn a_host_that_does_not_answer_makes_the_exit_code_1() {
    // Nobody listens there; the kernel says so at once.
    let arguments = ["ping", "-m", "udp", "-p", "9", "-i", "10ms", "-c", "3", "127.0.0.1"];
    let got = said(program(&arguments), &arguments);
    assert_eq!(got.code, Some(1), "{}{}", got.out, got.error);
    says(&got.out, &["3 sent, 0 received: loss 100 % (3 errors)"]);
    says(&got.out, &["3 × ECONNREFUSED: nobody listens there"]);
    says(&got.error, &["no reply from 127.0.0.1", "is `quell serve` running there"]);
}

#[test]
fn a_tcp_port_answers_whether_it_is_open_or_closed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let open = listener.local_addr().expect("it has one").to_string();
    let stream = format!("open,{open}");
    // A refusal is timed by when it was seen: where the machine stands still for seconds, it is late, and not lost.
    let asked = ["ping", "-m", "tcp", "-i", "10ms", "-c", "10", "-W", "60s"];
    let arguments = [&asked[..], &["-t", &stream, "-t", "closed,[::1]:1"]].concat();
    let text = said(program(&arguments), &arguments).fine();
    says(&text, &[&format!("open: {open}, TCP connect, every 10ms"), "closed: [::1]:1, TCP"]);
    assert_eq!(text.matches("10 sent, 10 received: loss 0.0 %").count(), 2, "{text}");
}

/// Starts a ping without end that is kept, and waits until it has told of some packets.
fn endless(dir: &TestFolder) -> (Child, BufReader<std::process::ChildStdout>) {
    let arguments =
        ["ping", "-m", "tcp", "-i", "20ms", "-t", "a,127.0.0.1:1", "-w", "long", "--json=lines"];
    let mut child = dir.command(&arguments).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
    for _ in 0..10 {
        let mut line = String::new();
        assert_ne!(lines.read_line(&mut line).expect("it can be read"), 0, "it goes on");
    }
    (child, lines)
}

#[test]
fn ctrl_c_sums_up_and_keeps_the_run() {
    let dir = TestFolder::new();
    let (mut child, mut lines) = endless(&dir);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it runs");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("it can be read");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{rest}");
    let end: Value = serde_json::from_str(rest.lines().last().expect("an end")).expect("JSON");
    assert_eq!(end["event"], "end");
    let sent = end["streams"][0]["sent"].as_u64().expect("a count");
    let received = end["streams"][0]["received"].as_u64().expect("a count");
    // The last one's answer may be on its way.
    assert!(sent >= 9 && sent - received <= 1, "{end:#}");
    assert_eq!(end["streams"][0]["lost"], 0, "{end:#}");
    let shown: Value =
        serde_json::from_str(&dir.quell(&["show", "long", "--json"]).fine()).expect("JSON");
    assert_eq!((&shown["state"], &shown["results"][0]["sent"]), (&"stopped".into(), &sent.into()));
}

fn bytes_below(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let of = |e: std::fs::DirEntry| match e.metadata().expect("it is there") {
        about if about.is_dir() => bytes_below(&e.path()),
        about => about.len(),
    };
    entries.map(of).sum()
}

/// What `quell show NAME --json` says of the packets of a `quell ping --keep`: sent, and those of which no round trip is known.
fn packets_of(dir: &TestFolder, name: &str) -> u64 {
    let json = dir.quell(&["show", name, "--json"]).fine();
    let json: Value = serde_json::from_str(&json).expect("a document");
    json["hours"].as_array().expect("hours").iter().filter_map(|h| h["sent"].as_u64()).sum()
}

#[test]
fn what_was_kept_of_a_ping_that_was_killed_is_found_again_and_the_disk_is_bounded() {
    if !icmp() {
        return;
    }
    let dir = TestFolder::new();
    let keep = ["ping", "--keep", "30d", "-w", "line", "-i", "10ms", "--json=lines", "127.0.0.1"];
    let mut child = dir.command(&keep).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    // The first tells what is pinged.
    assert_eq!(lines.by_ref().map_while(Result::ok).take(101).count(), 101);
    let second = dir.quell(&keep);
    says(&second.refused(2), &["another `quell ping --keep` writes to runs/line"]);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let killed = packets_of(&dir, "line");
    assert!(killed >= 90, "all but the last of what it told is there: {killed}");
    let more = ["ping", "--keep", "30d", "-w", "line", "-i", "10ms", "-q", "127.0.0.1", "-c", "50"];
    dir.quell(&more).fine();
    assert_eq!(packets_of(&dir, "line"), killed + 50, "each run once, its packets or its minutes");
    let list = dir.quell(&["show", "--list"]).fine();
    assert!(!list.contains("line"), "days are no run: {list}");
    // Its packets go where there is too little room, and its minutes stay.
    let text = dir.quell(&["show", "line"]).fine();
    says(&text, &["Calls suffered or broke in 0 of 1 hour.", "0.0 % lost"]);
    let runs = || {
        let entries = std::fs::read_dir(dir.path("runs/line")).expect("a folder").flatten();
        entries.map(|e| e.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let (before, most) = (runs(), bytes_below(&dir.path("runs/line")).to_string() + "B");
    dir.quell(&[&more[..], &["--max-size", &most]].concat()).fine();
    assert_eq!((before.len(), runs().len(), packets_of(&dir, "line")), (2, 2, killed + 100));
    assert!(!before.iter().min().expect("two").exists(), "the oldest gave way: {most}");
    dir.quell(&[&more[..], &["--max-size", "1B"]].concat()).fine();
    assert_eq!(packets_of(&dir, "line"), 50, "all gave way but what was measured just now");
    for (typed, says_so) in [("0d", "30d"), ("week", "30d"), ("1.5", "30d")] {
        let refused = dir.quell(&["ping", "--keep", typed, "127.0.0.1"]).refused(2);
        says(&refused, &[says_so]);
    }
}

#[test]
fn a_kept_ping_keeps_minutes_while_the_disk_is_full_and_each_packet_before_and_after() {
    if !icmp() {
        return;
    }
    let dir = TestFolder::new();
    let Some(_disk) = small_disk(&dir.path("runs"), 4 << 20) else { return };
    let keep = ["ping", "--keep", "30d", "-w", "line", "-i", "10ms", "--json=lines", "127.0.0.1"];
    let mut command = dir.command(&keep);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let (send, lines) = channel();
    let out = BufReader::new(child.stdout.take().expect("piped")).lines();
    std::thread::spawn(move || out.map_while(Result::ok).try_for_each(|line| send.send(line)));
    let mut errors = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut said = move || errors.next().map(|line| line.expect("text"));
    assert_eq!(lines.iter().take(101).count(), 101);
    let ballast = dir.path("runs/ballast");
    fill(&ballast);
    let full = said().expect("a line");
    says(&full, &["No space left", "make room", "Until then packets are kept by the minute"]);
    // While it is full.
    assert_eq!(lines.iter().take(50).count(), 50);
    std::fs::remove_file(&ballast).expect("it is ours");
    says(&said().expect("a line"), &["there is room again"]);
    // What was measured before is told already.
    lines.try_iter().for_each(drop);
    assert_eq!(lines.iter().take(100).count(), 100);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it runs");
    assert_eq!((said(), child.wait().expect("it ends").code()), (None, Some(0)), "said once");
    let end: Value = serde_json::from_str(&lines.iter().last().expect("an end")).expect("JSON");
    let sent = end["streams"][0]["sent"].as_u64().expect("a count");
    assert_eq!(packets_of(&dir, "line"), sent, "each counts");
    let entries = std::fs::read_dir(dir.path("runs/line")).expect("a folder").flatten();
    let runs = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    let rows = |run: PathBuf| {
        let run = Run::read(&run).expect("it is whole");
        run.cells[0].echoes.iter().map(|series| series.samples.len() as u64).sum()
    };
    let rows: Vec<u64> = runs.map(rows).collect();
    let kept: u64 = rows.iter().sum();
    assert!(
        rows.len() == 2 && rows.iter().all(|rows| *rows >= 50) && kept < sent,
        "{rows:?} of {sent}"
    );
}
