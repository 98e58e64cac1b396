//! `quell trace` as a person uses it: a file, standard input, JSON, and captures that break off.

use crate::captures::{self, raw};
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// A call that breaks off behind its second request.
fn call() -> Vec<u8> {
    raw(&captures::call()[..6])
}

fn trace(input: &[u8], args: &[&str]) -> Output {
    let mut quell = Command::new(env!("CARGO_BIN_EXE_quell"))
        .args(["trace", "-"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("quell was built");
    quell.stdin.take().expect("it is piped").write_all(input).expect("quell reads to the end");
    quell.wait_with_output().expect("quell ends")
}

fn told_by(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("quell writes UTF-8");
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_stall_is_told_with_its_cure() {
    let output = trace(&call(), &[]);
    let (out, err) = told_by(&output);
    assert!(output.status.success(), "{err}");
    assert!(out.contains("held a small segment until"), "{out}");
    assert!(out.contains("events: 1 held until an ACK came"), "{out}");
    assert!(out.contains("TCP_NODELAY"), "{out}");
}

#[test]
fn json_is_for_other_programs() {
    let (out, _) = told_by(&trace(&call(), &["--json", "--connection", "1"]));
    let json: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    assert_eq!(json["connections"][0]["moments"][0]["event"], "held");
    assert_eq!(json["connections"][0]["findings"][0]["id"], "delayed-ack");
}

#[test]
fn a_capture_that_breaks_off_is_told_as_far_as_it_goes() {
    let file = call();
    let output = trace(&file[..file.len() - 1], &[]);
    let (out, err) = told_by(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(out.contains("5 packets (5 of TCP)"), "{out}");
    assert!(err.contains("the file ends within a packet"), "{err}");
}

#[test]
fn a_connection_that_is_not_there_is_wrong_usage() {
    let output = trace(&call(), &["--connection", "2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told_by(&output).1.contains("there is no connection 2 in standard input: it has 1"));
}
