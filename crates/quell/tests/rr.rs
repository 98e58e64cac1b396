//! `quell rr` as a person uses it, over loopback: the stall is found, named and mended, and errors say what to do.

mod support;

#[path = "serve/server.rs"]
mod server;

use server::Served;
use support::{Said, program, said, says};

/// `quell rr` against a `quell serve`.
fn call(served: &Served, arguments: &[&str]) -> Said {
    let at = served.at.to_string();
    let arguments = [&["rr", &at], arguments].concat();
    said(program(&arguments), &arguments)
}

#[test]
fn a_stall_is_found_named_and_mended() {
    let served = Served::new(&[]);
    let wwr = ["--pattern", "write-write-read", "--calls", "5", "--sizes", "64,65483"];
    let text = call(&served, &[&wwr[..], &["--fix", "nodelay"]].concat()).fine();
    says(&text, &["cliff: calls of 64 bytes", "Nagle", "DelayedACKs rose by", "with nodelay"]);
    says(&text, &["with the fix nobody waited"]);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");

    let text = call(&served, &[&wwr[..], &["--json"]].concat()).fine();
    let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(json["before"]["rows"][0]["finding"]["cause"], "nagle-and-delayed-ack", "{text}");
    assert_eq!(json["before"]["rows"][1]["finding"], serde_json::Value::Null, "{text}");
    assert_eq!(json["before"]["cliffs"][0]["slow"], 64, "{text}");
    assert_eq!(json["after"], serde_json::Value::Null);
}

#[test]
fn what_can_not_be_is_refused_with_advice() {
    for (arguments, words) in [
        (&["rr"][..], &["HOST"][..]),
        (&["rr", "localhost", "--sizes", "0"], &["1 to 1048576", "700..740"]),
        (&["rr", "localhost", "--sizes", "5..1"], &["5..1"]),
        (&["rr", "localhost", "--port", "3"], &["--port", "HOST"]),
        (&["rr", "name.invalid"], &["name.invalid", "HOST:PORT"]),
        (&["rr", "127.0.0.1", "-6"], &["IPv6"]),
        (&["rr", "--serve"], &["quell serve", "same port"]),
        (&["rr", "--serve", "--bind", "::", "--max-connections", "9"], &["`quell serve`"]),
    ] {
        says(&said(program(arguments), arguments).refused(2), words);
    }
    let served = Served::new(&[]);
    let at = served.at.to_string();
    drop(served);
    let arguments = ["rr", &at];
    says(
        &said(program(&arguments), &arguments).refused(3),
        &[&at, "ECONNREFUSED", "nobody listens"],
    );
}
