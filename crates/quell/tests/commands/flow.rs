//! `quell flow` as a person calls it: against `iperf3 -s` where that is installed, and against nobody. Where iperf3 is missing the tests
//! say so; trying to start it proves it.

mod liar;

use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

use crate::peer::Server;
use crate::server::{Served, once_free};
use crate::support::{Said, TestFolder, answer, program, said, says};

/// What iperf3 prints.
fn iperf3(arguments: &[&str]) -> Value {
    let mut command = Command::new("iperf3");
    command.args(["-J", "-c"]).args(arguments);
    serde_json::from_str(&once_free(|| answer(&mut command, arguments)).out).unwrap()
}

/// What `quell flow` says that ends well and says all this: in a second in which the machine has no CPU for it, nothing gets through.
#[track_caller]
fn once_it_says(mut ask: impl FnMut() -> Said, words: &[&str]) -> Said {
    let mut told = (0..5).map(|_| ask());
    let is_told = |said: &Said| {
        println!("{:?}: {}{}", said.code, said.out, said.error);
        said.code == Some(0) && words.iter().all(|word| said.out.contains(word))
    };
    told.find(is_told).unwrap_or_else(|| panic!("never {words:?} in five tries"))
}

/// Every key of a document by its path; lists stand for their elements.
fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                keys(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(values) => values.iter().for_each(|v| keys(v, &format!("{path}[]"), found)),
        _ => {}
    }
}

#[test]
fn what_a_full_disk_does_not_take_is_told_and_exit_code_3_says_it() {
    let served = Served::new(&[]);
    let at = served.at.to_string();
    for form in [&[][..], &["--json"], &["-J"]] {
        let arguments = [&["flow", &at, "-n", "64K", "--no-latency"], form].concat();
        let mut flow = program(&arguments);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        flow.stdout(full.expect("Linux has it"));
        says(&said(flow, &arguments).refused(3), &["could not write to stdout", "No space left"]);
    }
}

#[test]
fn where_a_run_can_not_be_kept_that_is_told_before_anything_is_asked() {
    let folder = TestFolder::new();
    folder.write("file", "");
    let below = folder.path("file/runs").display().to_string();
    // Nobody listens there.
    let arguments = ["flow", "127.0.0.1", "-p", "1", "--save", "--out", &below];
    let told = said(program(&arguments), &arguments).refused(3);
    says(&told, &["could not write to", "is a file, not a folder", "--out"]);
}

#[test]
fn json_for_iperf3_has_the_keys_that_iperf3_prints() {
    let Some(server) = Server::start() else { return };
    let port = server.at.port().to_string();
    let dir = TestFolder::new();
    let cases: [&[&str]; 6] = [
        &[],
        &["-R"],
        &["--bidir", "-P", "2"],
        &["-u", "-b", "5M"],
        &["-u", "-b", "5M", "-R"],
        &["-u", "-b", "5M", "--bidir"],
    ];
    for more in cases {
        let port = ["127.0.0.1", "-p", &port, "-t", "1"];
        let ours = [&["flow"], &port[..], more, &["--no-latency", "-J"]].concat();
        let theirs = [&port[..], more].concat();
        // Of a second in which the machine had no CPU for one of them, it tells less, or an error: then once more.
        let are_alike = (0..5).any(|_| {
            let said = once_free(|| dir.quell(&ours));
            let ours: Value = serde_json::from_str(&said.out).unwrap();
            let theirs = iperf3(&theirs);
            let (mut have, mut want) = (BTreeSet::new(), BTreeSet::new());
            keys(&ours, "", &mut have);
            keys(&theirs, "", &mut want);
            let apart: Vec<_> = have.symmetric_difference(&want).collect();
            println!("{more:?}: {:?} {}, apart in {apart:?}", said.code, said.error);
            println!("{} and {}", ours["error"], theirs["error"]);
            let is_whole = ours["error"].is_null() && theirs["error"].is_null();
            (said.code, &*said.error) == (Some(0), "") && is_whole && apart.is_empty()
        });
        assert!(are_alike, "{more:?}");
    }
}

#[test]
fn a_person_gets_a_headline_and_the_working() {
    let Some(server) = Server::start() else { return };
    let port = server.at.port().to_string();
    let dir = TestFolder::new();
    let asked =
        ["flow", "127.0.0.1", "-p", &port, "-t", "1", "-b", "20M", "--bdp", "--all", "--save"];
    let words =
        ["You get ", " of 20.0 Mbit/s up", "counted by the receiver", "plain iperf3", "kept as"];
    let said = once_it_says(|| once_free(|| dir.quell(&asked)), &words).fine();
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
    let shown = dir.quell(&["show"]).fine();
    says(&shown, &["You get ", " of 20.0 Mbit/s up"]);
    let again = ["flow", "127.0.0.1", "-p", &port, "-t", "0.5", "-R", "--json"];
    let read = |said: &Said| serde_json::from_str::<Value>(&said.out).unwrap_or_default();
    let is_quick = |said: &Said| {
        println!("{:?}: {}{}", said.code, said.out, said.error);
        let is_fine = (said.code, &*said.error) == (Some(0), "");
        is_fine && read(said)["down"]["bits_per_second"].as_f64() > Some(1e6)
    };
    let mut tries = (0..5).map(|_| once_free(|| dir.quell(&again)));
    let json = read(&tries.find(is_quick).expect("something comes down"));
    assert_eq!(json["direction"], "down");
    assert_eq!((&json["up"], &json["server_is_quell"]), (&Value::Null, &Value::Bool(false)));
}

#[test]
fn what_can_not_be_is_told_before_anything_is_sent() {
    let dir = TestFolder::new();
    let cases: [(&[&str], i32, &[&str]); 9] = [
        (&["no-such-host.invalid"], 2, &["no-such-host.invalid"]),
        (&["127.0.0.1", "-P", "500"], 2, &["1 to 128"]),
        (&["127.0.0.1", "-t", "0"], 2, &["take up to"]),
        (&["127.0.0.1", "-u", "-l", "70000"], 2, &["65507"]),
        (&["127.0.0.1", "-C", "vegetable"], 3, &[]),
        (&["127.0.0.1", "-6"], 2, &["IPv6"]),
        (&["127.0.0.1", "--ecn", "ect0"], 2, &["--udp"]),
        (&["127.0.0.1", "-R", "--bidir"], 2, &["--bidir"]),
        (&["127.0.0.1", "-b", "fast"], 2, &["100M"]),
    ];
    for (arguments, code, words) in cases {
        // Port 1 is nobody's.
        let all = [&["flow", "-p", "1"], arguments].concat();
        says(&dir.quell(&all).refused(code), words);
    }
}

#[test]
fn where_nobody_listens_the_error_says_what_to_start() {
    // A port that was free a moment ago may be another test's by now; port 1 is nobody's.
    let error = TestFolder::new().quell(&["flow", "127.0.0.1", "-p", "1"]).refused(3);
    says(&error, &["nobody listens", "quell serve", "iperf3 -s"]);
    let got = TestFolder::new().quell(&["flow", "127.0.0.1", "-p", "1", "--json"]);
    assert_eq!((got.code, &*got.out), (Some(3), ""), "{}", got.error);
    let got = TestFolder::new().quell(&["flow", "127.0.0.1", "-p", "1", "--rpm"]);
    assert!(got.error.contains("127.0.0.1:1") && got.code != Some(2), "{}", got.error);
}

#[test]
fn every_key_of_the_json_is_in_the_table_of_keys() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/flow.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let (_, table) = text.split_once("## Keys of its JSON").expect("the table");
    let told: BTreeSet<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .flat_map(|row| row.split('`').step_by(2))
        .collect();
    let served = Served::new(&[]);
    let (address, port) = (served.at.ip().to_string(), served.at.port().to_string());
    let mut found = BTreeSet::new();
    for (options, has) in [
        (&["--bidir", "--bdp", "--fq-rate", "20M"][..], &["delivery_bits_per_second"][..]),
        (&["-u", "--bidir"], &["gaps_ns"]),
    ] {
        let common = ["flow", &address, "-p", &port, "--json", "-b", "10M", "-t", "1"];
        let arguments = [&common, options].concat();
        let said = once_it_says(|| said(program(&arguments), &arguments), has);
        let mut json: Value = serde_json::from_str(&said.fine()).expect("JSON");
        // iperf3's words.
        json["results"] = Value::Null;
        keys(&json, "", &mut found);
    }
    let last = |path: &String| path.rsplit('.').next().unwrap_or_default().to_owned();
    let names: BTreeSet<String> = found.iter().map(last).collect();
    assert!(names.contains("delivery_bits_per_second") && names.contains("gaps_ns"), "{names:?}");
    let unknown: Vec<_> = names.iter().filter(|name| !told.contains(name.as_str())).collect();
    assert!(unknown.is_empty(), "not in docs/flow.md: {unknown:?}");
}
