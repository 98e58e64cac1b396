//! Files that came from somebody else: names that would command a terminal or turn the direction of reading, and what is no file at all.

mod support;

use serde_json::Value;
use std::os::unix::net::UnixListener;
use std::path::Path;
use support::{Desk, Said, says};

/// Clears the screen (ESC and CSI), begins a line, turns the direction of reading in five ways.
const EVIL: &str = "x\u{1b}[2J\u{9b}2J\nquell: forged\r\u{202e}\u{2066}\u{200f}\u{200e}\u{2028}y";

/// What may not reach a terminal or a page, line ends apart.
fn acts(char: char) -> bool {
    char != '\n' && char != '\t' && char.is_control()
        || matches!(char, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
}

#[track_caller]
fn is_tame(what: &str, text: &str) {
    let found = text.chars().find(|c| acts(*c));
    assert_eq!(found, None, "{what}: {}", text.escape_debug());
    assert!(!text.lines().any(|l| l.starts_with("quell: forged")), "{what}: {text}");
}

#[track_caller]
fn told(desk: &Desk, arguments: &[&str]) -> Said {
    let said = desk.quell(arguments);
    is_tame(&arguments.join(" "), &said.out);
    is_tame(&arguments.join(" "), &said.error);
    said
}

/// A kept ping, whose every text is replaced by a hostile one; the journal's own names stay.
fn hostile(desk: &Desk) -> String {
    let ping = ["ping", "-m", "tcp", "-i", "10ms", "-c", "3", "-t", "a,127.0.0.1:1", "-w", "kept"];
    desk.quell(&ping).fine();
    let name = desk.quell(&["runs", "--json"]).fine();
    let name: Value = serde_json::from_str(&name).expect("it is JSON");
    let name = name[0]["run"].as_str().expect("a name").to_owned();
    let place = format!("runs/{name}/manifest.json");
    let text = std::fs::read_to_string(desk.path(&place)).expect("it is there");
    let mut manifest: Value = serde_json::from_str(&text).expect("it is JSON");
    for key in ["run", "experiment", "title", "experiment_text", "started", "clock", "quell"] {
        manifest[key] = EVIL.into();
    }
    for key in ["backend", "version", "key"] {
        manifest["kernel"][key] = EVIL.into();
    }
    manifest["changes"] = vec![EVIL].into();
    manifest["machine"] = [(EVIL.to_owned(), Value::from(EVIL))].into_iter().collect();
    manifest["sysctls"] = [(EVIL.to_owned(), Value::from(EVIL))].into_iter().collect();
    manifest["queues"] = [(EVIL.to_owned(), Value::from(EVIL))].into_iter().collect();
    let claim = serde_json::json!({"claim": EVIL, "held": false, "found": EVIL});
    manifest["expectations"] = vec![claim].into();
    manifest["complete"] = false.into();
    let cell = &mut manifest["cells"][0];
    (cell["status"], cell["reason"]) = ("failed".into(), EVIL.into());
    cell["tasks"] =
        vec![serde_json::json!({"id": EVIL, "host": EVIL, "outcome": {"failed": EVIL}})].into();
    desk.write(&place, manifest.to_string());
    name
}

#[test]
fn a_hostile_run_commands_neither_terminal_nor_page() {
    let desk = Desk::new();
    let name = hostile(&desk);
    // Its folder is called something hostile too; a line end is no part of a name that a person types.
    let folder = format!("{name}-\u{202e}\u{1b}[2J\n\u{9b}m");
    std::fs::rename(desk.path("runs").join(&name), desk.path("runs").join(&folder)).expect("ours");
    says(&told(&desk, &["runs"]).fine(), &["\\x1b[2J", "\\u{202e}"]);
    says(&told(&desk, &["show"]).fine(), &["\\x9b2J", "\\u{2066}"]);
    for arguments in [
        &["runs", "--json"][..],
        &["show", "--json"],
        &["show", "kept"],
        &["show", "nothing"],
        &["plot", "--figure", "rtt-time", "-o", "f.svg"],
        &["plot", "--figure", "rtt-time", "--stream", "none", "-o", "g.svg"],
        &["report"],
        &["report", "-o", "page.html"],
        &["view", "--no-open"],
        &["view", "-o", "view.html", "--no-open"],
        &["ping", "-r", "kept"],
        &["ping", "-r", "kept", "--json"],
    ] {
        told(&desk, arguments);
    }
    for file in ["f.svg", "page.html", "view.html"] {
        let text = std::fs::read_to_string(desk.path(file)).expect("it was written");
        // A line end is a space there.
        assert_eq!(text.chars().find(|c| acts(*c)), None, "{file}");
    }
    // JSON means what stood there.
    let shown = desk.quell(&["show", "--json"]).fine();
    let shown: Value = serde_json::from_str(&shown).expect("it is JSON");
    assert_eq!(shown["run"], EVIL);
}

#[test]
fn a_damaged_manifest_does_not_speak_for_us() {
    let desk = Desk::new();
    let name = hostile(&desk);
    let place = format!("runs/{name}/manifest.json");
    let text = std::fs::read_to_string(desk.path(&place)).expect("it is there");
    let evil = serde_json::to_string(EVIL).expect("JSON");
    desk.write(&place, text.replace("\"failed\"", &evil));
    for arguments in [&["runs"][..], &["show", &name], &["report", &name], &["view", &name]] {
        let said = told(&desk, arguments);
        says(&(said.out + &said.error), &["damaged"]);
    }
}

#[test]
fn what_is_no_file_is_refused_at_once_by_every_command() {
    let desk = Desk::new();
    nix::unistd::mkfifo(&desk.path("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    std::fs::create_dir(desk.path("folder")).expect("a folder");
    let _socket = UnixListener::bind(desk.path("socket")).expect("a socket");
    std::fs::create_dir_all(desk.path("runs/odd")).expect("a folder");
    nix::unistd::mkfifo(&desk.path("runs/odd/manifest.json"), nix::sys::stat::Mode::S_IRWXU)
        .expect("a pipe");
    let before = desk.names();
    for file in ["./pipe", "./folder", "./socket", "/dev/zero"] {
        for command in [
            &["trace"][..],
            &["check"],
            &["run"],
            &["lab", "exec"],
            &["import", "pingexp"],
            &["show"],
            &["report"],
            &["view", "--no-open"],
            &["ping", "-r"],
            &["serve", "--secret-file"],
        ] {
            let more: &[&str] = if command == ["lab", "exec"] { &["a", "--", "true"] } else { &[] };
            let arguments = [command, &[file], more].concat();
            let mut limited = vec!["20", env!("CARGO_BIN_EXE_quell")];
            limited.extend(&arguments);
            // A command that waits for ever is ended by timeout(1), with 124.
            let mut timeout = std::process::Command::new("timeout");
            timeout.args(&limited).current_dir(desk.path(".")).stdin(std::process::Stdio::null());
            let error = support::said(timeout, &arguments);
            assert!(error.code != Some(124), "{arguments:?} waits");
            error.refused(2);
        }
    }
    says(&desk.quell(&["check", "./pipe"]).refused(2), &["nobody writes into it"]);
    says(&desk.quell(&["import", "pingexp", "./pipe"]).refused(2), &["nobody writes into it"]);
    assert_eq!(desk.names(), before, "nothing is made");
    assert!(Path::new(&desk.path("runs/odd")).is_dir());
    says(&desk.quell(&["runs"]).fine(), &["unreadable"]);
}

#[test]
fn an_experiment_comes_through_a_pipe_that_somebody_writes() {
    let desk = Desk::new();
    desk.write("my.toml", include_str!("support/base.toml"));
    let mut shell = std::process::Command::new("bash");
    let script = format!("'{}' check <(cat my.toml)", env!("CARGO_BIN_EXE_quell"));
    shell.args(["-c", &script]).current_dir(desk.path("."));
    says(&support::said(shell, &["check", "<(cat my.toml)"]).fine(), &["4 cells"]);
}
