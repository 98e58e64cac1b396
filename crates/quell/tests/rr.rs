//! `quell rr` as a person uses it, over loopback: the stall is found, named and mended, and errors say what to do.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use support::{program, said, says};

/// A server at a free port of loopback, ended with the test.
struct Served {
    child: Child,
    at: String,
    /// Kept open: a program whose words nobody reads any more ends.
    _out: BufReader<ChildStdout>,
}

impl Served {
    fn new() -> Self {
        let mut command = program(&["rr", "--serve", "--port", "0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        out.read_line(&mut line).expect("it says where it answers");
        let at = line.trim_start_matches("answering at ").split(';').next();
        Served { at: at.expect("an address").to_owned(), child, _out: out }
    }

    fn call(&self, arguments: &[&str]) -> support::Said {
        let arguments = [&["rr", &self.at], arguments].concat();
        said(program(&arguments), &arguments)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may be gone already; then the test has failed for that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_stall_is_found_named_and_mended() {
    let served = Served::new();
    assert!(served.at.starts_with("127.0.0.1:"), "loopback unless told otherwise: {}", served.at);
    let wwr = ["--pattern", "write-write-read", "--calls", "5", "--sizes", "64,65483"];
    let text = served.call(&[&wwr[..], &["--fix", "nodelay"]].concat()).fine();
    says(&text, &["cliff: calls of 64 bytes", "Nagle", "DelayedACKs rose by", "with nodelay"]);
    says(&text, &["with the fix nobody waited"]);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");

    let text = served.call(&[&wwr[..], &["--json"]].concat()).fine();
    let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(json["before"]["rows"][0]["finding"]["cause"], "nagle-and-delayed-ack", "{text}");
    assert_eq!(json["before"]["rows"][1]["finding"], serde_json::Value::Null, "{text}");
    assert_eq!(json["before"]["cliffs"][0]["slow"], 64, "{text}");
    assert_eq!(json["after"], serde_json::Value::Null);
}

#[test]
fn what_can_not_be_is_refused_with_advice() {
    let mut served = Served::new();
    for (arguments, words) in [
        (&["rr"][..], &["HOST"][..]),
        (&["rr", "localhost", "--sizes", "0"], &["1 to 1048576", "700..740"]),
        (&["rr", "localhost", "--sizes", "5..1"], &["5..1"]),
        (&["rr", "--serve", "--calls", "3"], &["--calls"]),
        (&["rr", "localhost", "--port", "3"], &["--port", "[HOST]"]),
        (&["rr", "name.invalid"], &["name.invalid", "HOST:PORT"]),
        (&["rr", "127.0.0.1", "-6"], &["IPv6"]),
    ] {
        says(&said(program(arguments), arguments).refused(2), words);
    }
    let port = served.at.trim_start_matches("127.0.0.1:");
    let again = ["rr", "--serve", "--port", port];
    says(&said(program(&again), &again).refused(3), &["EADDRINUSE", "another program"]);
    served.child.kill().expect("it runs");
    served.child.wait().expect("it ends");
    says(&served.call(&[]).refused(3), &[&served.at, "ECONNREFUSED", "nobody listens"]);
}
