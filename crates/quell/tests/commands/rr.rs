//! `quell rr` as a person uses it, over loopback: it is stopped, its server goes away, and errors say what to do.

use crate::server::Served;
use crate::support::{program, said, says};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;

/// What an endless `quell rr` says when this signal comes after so many calls, made through us; with none, before the first reply.
fn stopped_by(signal: Signal, calls: usize, json: bool) -> std::process::Output {
    let served = Served::new(&[]);
    let between = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = between.local_addr().expect("it has one").to_string();
    let mut arguments = vec!["rr", &at, "--sizes", "64,65", "--calls", "1000000"];
    arguments.extend(json.then_some("--json"));
    let mut command = program(&arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    let (mut client, _) = between.accept().expect("it connects");
    let mut server = TcpStream::connect(served.at).expect("it serves");
    if calls == 0 {
        client.read_exact(&mut [0; 64]).expect("it asks");
        kill(Pid::from_raw(child.id() as i32), signal).expect("it runs");
        return child.wait_with_output().expect("it ends");
    }
    let (mut asked, mut to) =
        (client.try_clone().expect("another"), server.try_clone().expect("another"));
    std::thread::spawn(move || copy(&mut asked, &mut to));
    // The first reply is the one that opens the connection.
    let mut reply = [0; 64];
    for _ in 0..=calls {
        server.read_exact(&mut reply).expect("it answers");
        client.write_all(&reply).expect("it reads");
    }
    kill(Pid::from_raw(child.id() as i32), signal).expect("it runs");
    std::thread::spawn(move || copy(&mut server, &mut client));
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_server_that_goes_away_takes_nothing_of_what_was_measured() {
    let served = Served::new(&[]);
    let between = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = between.local_addr().expect("it has one").to_string();
    let arguments = ["rr", &at, "--sizes", "64", "--calls", "1000000"];
    let mut command = program(&arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    let (mut client, _) = between.accept().expect("it connects");
    let mut server = TcpStream::connect(served.at).expect("it serves");
    let (mut asked, mut to) =
        (client.try_clone().expect("another"), server.try_clone().expect("another"));
    std::thread::spawn(move || copy(&mut asked, &mut to));
    let mut reply = [0; 64];
    // The first opens the connection.
    for _ in 0..=20 {
        server.read_exact(&mut reply).expect("it answers");
        client.write_all(&reply).expect("it reads");
    }
    drop(between);
    client.shutdown(Shutdown::Both).expect("it stands");
    let output = child.wait_with_output().expect("it ends");
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{out}{error}");
    assert!(
        error.contains("serves no more after 20 calls") && !error.contains("secret"),
        "{error}"
    );
    assert!(out.lines().any(|line| line.trim_start().starts_with("64 ")), "{out}");
}

#[test]
fn what_calls_take_is_said_first_and_where_nobody_serves_what_to_start() {
    let served = Served::new(&[]);
    let port = served.at.port().to_string();
    let ask = |arguments: &[&str]| said(program(arguments), arguments);
    let got = ask(&["rr", "127.0.0.1", "-p", &port, "--sizes", "64,128", "--calls", "5"]);
    assert!(got.out.starts_with("Calls of "), "{}{}", got.out, got.error);
    // Port 1 is nobody's.
    let got = ask(&["rr", "127.0.0.1", "-p", "1", "--calls", "1"]);
    assert_eq!((got.code, &*got.out), (Some(3), ""), "{}", got.error);
    says(&got.error, &["nobody listens at TCP 127.0.0.1:1", "quell serve"]);
}

#[test]
fn who_is_told_to_end_says_what_was_measured_until_then() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let output = stopped_by(signal, 20, true);
        let (out, error) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        assert_eq!(output.status.code(), Some(0), "{signal}: {out}{error}");
        let json: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
        let rows = json["before"]["rows"].as_array().expect("rows");
        assert_eq!((rows.len(), &json["before"]["stopped"]), (1, &true.into()), "{out}");
        assert!(rows[0]["calls"].as_u64() >= Some(19) && rows[0]["lost"] == 0, "{out}");
    }
    let output = stopped_by(Signal::SIGTERM, 20, false);
    let text = String::from_utf8_lossy(&output.stdout);
    says(&text, &["stopped after", "of 64 bytes", "larger sizes were not tried"]);
}

#[test]
fn what_can_not_be_is_refused_with_advice() {
    for (arguments, words) in [
        (&["rr"][..], &["HOST"][..]),
        (&["rr", "localhost", "--sizes", "0"], &["1 to 1048576", "700..740"]),
        (&["rr", "localhost", "--sizes", "5..1"], &["5..1"]),
        (&["rr", "localhost", "--port", "all"], &["--port"]),
        (&["rr", "name.invalid"], &["name.invalid", "HOST:PORT"]),
        (&["rr", "127.0.0.1", "-6"], &["IPv6"]),
    ] {
        says(&said(program(arguments), arguments).refused(2), words);
    }
    let served = Served::new(&[]);
    let at = served.at.to_string();
    drop(served);
    let arguments = ["rr", &at];
    says(&said(program(&arguments), &arguments).refused(3), &[&at, "nobody listens"]);
}
