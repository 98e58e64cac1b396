//! What is printed for a person fits the terminal, and a pipe gets it as ever.

use crate::captures;
use crate::server::Served;
use crate::support::{TestFolder, program};
use crate::terminal::terminal;
use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Stdio};

const IRTT: &[u8] = include_bytes!("../../../foreign/tests/data/irtt.json.gz");

/// What a program prints on a terminal of so many columns, line by line. It is one that can't be drawn on, so that all lines stay.
fn on_terminal(columns: u16, mut command: Command) -> Vec<String> {
    let (mut ours, theirs) = terminal(24, columns);
    command.env("TERM", "dumb").stdin(Stdio::null()).stderr(Stdio::null()).stdout(theirs);
    let mut child = command.spawn().expect("the program starts");
    // The terminal is the program's alone now.
    drop(command);
    let (mut bytes, mut some) = (Vec::new(), [0; 4096]);
    // Where nobody is left at the other end it gives EIO.
    while let Ok(got @ 1..) = ours.read(&mut some) {
        bytes.extend_from_slice(&some[..got]);
    }
    child.wait().expect("it ends");
    let text = String::from_utf8(bytes).expect("all it prints is UTF-8");
    text.replace('\r', "").lines().map(str::to_owned).collect()
}

/// On terminals of 80 and of 60 columns no line is wider; gives those of 80.
#[track_caller]
fn fits(command: impl Fn() -> Command) -> Vec<String> {
    for columns in [80, 60] {
        let lines = on_terminal(columns, command());
        let wide = |line: &&String| line.chars().count() > usize::from(columns);
        let wide: Vec<_> = lines.iter().filter(wide).collect();
        assert!(wide.is_empty(), "wider than {columns}: {wide:#?}\nof {lines:#?}");
        assert!(lines.len() > 2, "something is said: {lines:#?}");
    }
    on_terminal(80, command())
}

/// A command whose words depend on no clock says the same in a pipe and on a terminal with room for all, and has more to say than 80 columns hold.
#[track_caller]
fn same_in_a_pipe(command: impl Fn() -> Command) {
    let output = command().output().expect("the program starts");
    let piped = String::from_utf8(output.stdout).expect("text");
    assert_eq!(piped.lines().collect::<Vec<_>>(), on_terminal(200, command()));
    assert!(piped.lines().any(|line| line.chars().count() > 80), "{piped}");
}

#[test]
fn the_doctors_words() {
    for words in [&["--list"][..], &["--explain", "listen-overflow"], &["--all"]] {
        let command = || program(&[&["doctor"], words].concat());
        fits(command);
    }
    same_in_a_pipe(|| program(&["doctor", "--list"]));
    same_in_a_pipe(|| program(&["doctor", "--explain", "listen-overflow"]));
    fits(|| {
        program(&[
            "doctor",
            "--during",
            "sh -c 'echo a command with words that go on and on and on and on'",
        ])
    });
}

#[test]
fn calls_before_and_after_a_fix() {
    let served = Served::new(&[]);
    let at = served.at.to_string();
    let rr = ["rr", &at, "--calls", "3"];
    let lines = fits(|| program(&rr));
    assert!(lines.iter().any(|line| line.contains("p99 ms") && line.contains("stalls")));
    let fix = [&rr[..], &["--fix", "nodelay", "--pattern", "write-write-read"]].concat();
    let lines = fits(|| program(&fix));
    assert!(lines.iter().any(|line| line.matches("p99 ms").count() == 2), "{lines:#?}");
}

#[test]
fn the_connections_of_a_capture() {
    let dir = TestFolder::new();
    dir.write("call.pcap", captures::raw(&captures::call()));
    for more in [&[][..], &["--connection", "1"]] {
        let trace = [&["trace", "call.pcap"], more].concat();
        let lines = fits(|| dir.command(&trace));
        assert!(lines.iter().any(|line| line.contains("10.0.0.1:1033")), "{lines:#?}");
        same_in_a_pipe(|| dir.command(&trace));
    }
}

#[test]
fn a_flow_of_an_amount_with_its_rows() {
    let served = Served::new(&[]);
    let port = served.at.port().to_string();
    let flow = ["flow", "127.0.0.1", "-p", &port];
    for more in [
        &["-n", "20M", "-b", "200M", "--bidir", "-i", "0.2", "--bdp"][..],
        &["-u", "-b", "5M", "-t", "0.5", "-O", "0.5", "--bidir", "-i", "0.5"],
    ] {
        let lines = fits(|| program(&[&flow[..], more].concat()));
        let head = lines.iter().position(|line| line.contains("seconds")).expect("a head");
        // The figures of a row stand below their heads.
        let end = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        let second = end(&lines[head], "down Mbit/s").expect("it says so");
        assert!(!lines[head + 1][..second].ends_with(' '), "{lines:#?}");
    }
    // Of what goes to a file nobody knows how wide it is shown.
    let dir = TestFolder::new();
    let log = [&flow[..], &["-t", "0.2", "--no-latency", "--logfile", "log"]].concat();
    on_terminal(60, dir.command(&log));
    let log = std::fs::read_to_string(dir.path("log")).expect("it was written");
    assert!(log.lines().any(|line| line.chars().count() > 60), "{log}");
}

#[test]
fn packets_and_hops() {
    let served = Served::new(&[]);
    let at = served.at.to_string();
    fits(|| program(&["ping", "-m", "udp", &at, "-i", "20ms", "-c", "5"]));
    let refused = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = refused.local_addr().expect("an address").to_string();
    drop(refused);
    fits(|| program(&["ping", "-m", "tcp", &nobody, "-i", "20ms", "-c", "3"]));
    // Who may not send probes is told on standard error.
    let path = ["path", "127.0.0.1", "-i", "20ms", "-c", "2"];
    if program(&path).output().expect("it starts").status.success() {
        fits(|| program(&path));
    }
}

#[test]
fn what_was_imported_and_the_runs_that_there_are() {
    let dir = TestFolder::new();
    dir.write("pings.json.gz", IRTT);
    // A path or a command to be typed again is whole, however long; these are short.
    fits(|| dir.command(&["data", "import", "pings.json.gz"]));
    let long = "pings-of-a-week-between-two-houses-of-one-street.json.gz";
    dir.write(long, IRTT);
    dir.quell(&["data", "import", long]).fine();
    let lines = on_terminal(80, dir.command(&["show", "--list"]));
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("19700121T105348-pings-o")), "{lines:#?}");
}

#[test]
fn what_is_said_of_settings() {
    fits(|| program(&["tune", "explain"]));
    fits(|| program(&["tune", "explain", "others"]));
    same_in_a_pipe(|| program(&["tune", "explain"]));
}

#[test]
fn errors() {
    let folder = "/a/folder/of/a/long/name/which/stays/in/one/piece/so/that/it/can/be/copied";
    let command = || {
        let mut command = program(&["show", "--out", folder]);
        command.stdin(Stdio::null());
        command
    };
    let piped = String::from_utf8(command().output().expect("it starts").stderr).expect("text");
    assert_eq!(piped.lines().count(), 1, "a pipe gets it as ever: {piped}");
    let (mut ours, theirs) = terminal(24, 80);
    let mut on = command();
    on.env("TERM", "dumb").stdout(Stdio::null()).stderr(theirs);
    let mut child = on.spawn().expect("the program starts");
    drop(on);
    let (mut bytes, mut some) = (Vec::new(), [0; 4096]);
    while let Ok(got @ 1..) = ours.read(&mut some) {
        bytes.extend_from_slice(&some[..got]);
    }
    child.wait().expect("it ends");
    let told = String::from_utf8(bytes).expect("text").replace('\r', "");
    assert!(told.contains(folder) && told.contains("`quell run home-link`"), "{told}");
    assert!(told.lines().count() > 1 && told.lines().all(|l| l.chars().count() <= 80), "{told}");
    let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(joined(&told), joined(&piped));
}
