//! Files that came from somebody else: names that would command a terminal or turn the direction of reading, and what is no file at all.

use crate::support::{Said, TestFolder, says};
use serde_json::Value;
use std::os::unix::net::UnixListener;
use std::path::Path;

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
fn told(dir: &TestFolder, arguments: &[&str]) -> Said {
    let said = dir.quell(arguments);
    is_tame(&arguments.join(" "), &said.out);
    is_tame(&arguments.join(" "), &said.error);
    said
}

/// A kept ping, whose every text is replaced by a hostile one; the journal's own names stay.
fn hostile(dir: &TestFolder) -> String {
    let ping = ["ping", "-m", "tcp", "-i", "10ms", "-c", "3", "-t", "a,127.0.0.1:1", "-w", "kept"];
    dir.quell(&ping).fine();
    let name = dir.quell(&["show", "--list", "--json"]).fine();
    let name: Value = serde_json::from_str(&name).expect("it is JSON");
    let name = name[0]["run"].as_str().expect("a name").to_owned();
    let place = format!("runs/{name}/manifest.json");
    let text = std::fs::read_to_string(dir.path(&place)).expect("it is there");
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
    dir.write(&place, manifest.to_string());
    name
}

#[test]
fn a_hostile_run_commands_neither_terminal_nor_page() {
    let dir = TestFolder::new();
    let name = hostile(&dir);
    // Its folder is called something hostile too; a line end is no part of a name that a person types.
    let folder = format!("{name}-\u{202e}\u{1b}[2J\n\u{9b}m");
    std::fs::rename(dir.path("runs").join(&name), dir.path("runs").join(&folder)).expect("ours");
    says(&told(&dir, &["show", "--list"]).fine(), &["\\x1b[2J", "\\u{202e}"]);
    says(&told(&dir, &["show"]).fine(), &["\\x9b2J", "\\u{2066}"]);
    for arguments in [
        &["show", "--list", "--json"][..],
        &["show", "--json"],
        &["show", "kept"],
        &["show", "nothing"],
        &["plot", "--figure", "rtt-time", "-o", "f.svg"],
        &["plot", "--figure", "rtt-time", "--stream", "none", "-o", "g.svg"],
        &["open", "--no-open"],
        &["open", "--no-open", "-o", "page.html"],
        &["open", "--no-open"],
        &["open", "-o", "view.html", "--no-open"],
        &["ping", "-r", "kept"],
        &["ping", "-r", "kept", "--json"],
    ] {
        told(&dir, arguments);
    }
    for file in ["f.svg", "page.html", "view.html"] {
        let text = std::fs::read_to_string(dir.path(file)).expect("it was written");
        // A line end is a space there.
        assert_eq!(text.chars().find(|c| acts(*c)), None, "{file}");
    }
    // JSON means what stood there.
    let shown = dir.quell(&["show", "--json"]).fine();
    let shown: Value = serde_json::from_str(&shown).expect("it is JSON");
    assert_eq!(shown["run"], EVIL);
}

#[test]
fn a_damaged_manifest_does_not_speak_for_us() {
    let dir = TestFolder::new();
    let name = hostile(&dir);
    let place = format!("runs/{name}/manifest.json");
    let text = std::fs::read_to_string(dir.path(&place)).expect("it is there");
    let evil = serde_json::to_string(EVIL).expect("JSON");
    dir.write(&place, text.replace("\"failed\"", &evil));
    for arguments in
        [&["show", "--list"][..], &["show", &name], &["open", "--no-open", &name], &["open", &name]]
    {
        let said = told(&dir, arguments);
        says(&(said.out + &said.error), &["damaged"]);
    }
}

#[test]
fn what_is_no_file_is_refused_at_once_by_every_command() {
    let dir = TestFolder::new();
    nix::unistd::mkfifo(&dir.path("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    std::fs::create_dir(dir.path("folder")).expect("a folder");
    let _socket = UnixListener::bind(dir.path("socket")).expect("a socket");
    std::fs::create_dir_all(dir.path("runs/odd")).expect("a folder");
    nix::unistd::mkfifo(&dir.path("runs/odd/manifest.json"), nix::sys::stat::Mode::S_IRWXU)
        .expect("a pipe");
    let before = dir.names();
    for file in ["./pipe", "./folder", "./socket", "/dev/zero"] {
        for command in [
            &["trace"][..],
            &["lab", "check"],
            &["run"],
            &["lab", "exec"],
            &["data", "import"],
            &["show"],
            &["open", "--no-open"],
            &["open", "--no-open"],
            &["ping", "-r"],
            &["serve", "--secret-file"],
        ] {
            let more: &[&str] = if command == ["lab", "exec"] { &["a", "--", "true"] } else { &[] };
            let arguments = [command, &[file], more].concat();
            let mut limited = vec!["120", env!("CARGO_BIN_EXE_quell")];
            limited.extend(&arguments);
            // A command that waits for ever is ended by timeout(1), with 124.
            let mut timeout = std::process::Command::new("timeout");
            timeout.args(&limited).current_dir(dir.path(".")).stdin(std::process::Stdio::null());
            let error = crate::support::said(timeout, &arguments);
            assert!(error.code != Some(124), "{arguments:?} waits");
            error.refused(2);
        }
    }
    says(&dir.quell(&["lab", "check", "./pipe"]).refused(2), &["nobody writes into it"]);
    says(&dir.quell(&["data", "import", "./pipe"]).refused(2), &["nobody writes into it"]);
    assert_eq!(dir.names(), before, "nothing is made");
    assert!(Path::new(&dir.path("runs/odd")).is_dir());
    says(&dir.quell(&["show", "--list"]).fine(), &["unreadable"]);
}

#[test]
fn an_experiment_comes_through_a_pipe_that_somebody_writes() {
    let dir = TestFolder::new();
    dir.write("my.toml", include_str!("../support/base.toml"));
    let mut shell = std::process::Command::new("bash");
    let script = format!("'{}' lab check <(cat my.toml)", env!("CARGO_BIN_EXE_quell"));
    shell.args(["-c", &script]).current_dir(dir.path("."));
    says(
        &crate::support::said(shell, &["lab", "check", "<(cat my.toml)"]).fine(),
        &["4 measurements"],
    );
}

/// A command with two minutes and 2 GB: what waits is ended with 124, what grows has no more memory.
#[track_caller]
fn bounded(dir: &TestFolder, arguments: &[&str]) -> Said {
    let mut limited = std::process::Command::new("timeout");
    limited.args(["120", "prlimit", "--as=2000000000", env!("CARGO_BIN_EXE_quell")]);
    limited.args(arguments).current_dir(dir.path(".")).stdin(std::process::Stdio::null());
    crate::support::said(limited, arguments)
}

#[test]
fn what_never_ends_is_not_read_for_ever() {
    let dir = TestFolder::new();
    nix::unistd::mkfifo(&dir.path("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    std::os::unix::fs::symlink("/dev/zero", dir.path("link")).expect("a link");
    std::fs::File::create(dir.path("holes"))
        .and_then(|file| file.set_len(20 << 30))
        .expect("a file of holes takes no place");
    dir.write("policy.toml", "policy = \"subscribers\"\nsubscribers = \"link\"\n");
    for file in ["/dev/zero", "/dev/urandom", "link", "holes", "pipe"] {
        for command in [
            &["serve", "--web", "-p", "0", "--key", "/dev/zero", "--certificate"][..],
            &["flow", "--rpm", "https://127.0.0.1:1", "--ca"],
            &["shape", "plan", "--dev", "lo", "--up", "10Mbit", "--file"],
            &["shape", "import", "libreqos"],
            &["ping", "-f"],
            &["doctor", "--from"],
        ] {
            let arguments = [command, &[file]].concat();
            says(&bounded(&dir, &arguments).refused(2), &[file]);
        }
    }
    let shape = ["shape", "plan", "--dev", "lo", "--up", "10Mbit", "--file", "policy.toml"];
    says(&bounded(&dir, &shape).refused(2), &["link"]);
    let log = ["flow", "127.0.0.1", "-p", "1", "--logfile", "pipe"];
    says(&bounded(&dir, &log).refused(3), &["pipe", "nobody reads it"]);
}
