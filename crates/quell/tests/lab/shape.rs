//! `quell shape` on a lab's router, with a kernel that has every queue.
//!
//! ```text
//!   a ──┐
//!       ├── router ──── modem ════ server        the router's `wan` is shaped, both ways
//!   b ──┘        wan          dsl
//! ```

use super::support::{QUELL, TestFolder};

/// Runs a script on the router; `$Q` is quell. Its output, where it went well.
fn on_the_router(script: &str) -> String {
    let with_quell = format!("set -e; Q={QUELL}; {script}");
    let output = TestFolder::new().quell(&[
        "lab",
        "exec",
        "home-link",
        "router",
        "--",
        "sh",
        "-c",
        &with_quell,
    ]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

const APPLY: &str = "$Q shape apply --dev wan --line 2.5/8 --host 10.0.0.1 --host 10.0.1.1,fd00::7";

#[test]
fn a_routers_line_is_shaped_both_ways_and_off_leaves_nothing() {
    let script = "$Q shape plan --dev wan --line 2.5/8 --host 10.0.0.1 >/tmp/plan; \
         APPLY --confirm-within never; $Q shape status; APPLY --confirm-within never; \
         $Q shape off --dev wan; $Q shape status; \
         $Q shape plan --dev wan --line 2.5/8 --host 10.0.0.1 >/tmp/again; \
         cmp /tmp/plan /tmp/again && echo as before"
        .replace("APPLY", APPLY);
    let said = on_the_router(&script);
    for words in [
        "make the IFB i-wan",
        "i-wan: make root queue 1: (htb)",
        "wan: host-fair, up 2375kbit, down 7.6Mbit, 2 hosts; in force",
        "  i-wan htb 1:",
        "wan: all was as wanted",
        "wan: as it was before, by 3 steps",
        "nothing of Quell's is in force",
        "as before",
    ] {
        assert!(said.contains(words), "`{words}` should be in: {said}");
    }
}

#[test]
fn a_host_more_loses_no_packet_of_the_others() {
    // The catch-all of the hosts' round robin names another class then: at no time is there none.
    let script = "APPLY --confirm-within never >/dev/null; \
         APPLY --host 10.0.0.9 --confirm-within never --json"
        .replace("APPLY", APPLY);
    let said = on_the_router(&script);
    assert!(!said.contains("take root queue") && !said.contains("take queue"), "{said}");
    let made = said.find("make matchall filter").expect("beside the old one");
    let gone = said.find("take matchall filter").expect("then that goes");
    assert!(made < gone, "{said}");
}

#[test]
fn a_change_that_nobody_confirms_is_taken_back_by_itself() {
    let script = "$Q shape plan --dev wan --line 2.5/8 --host 10.0.0.1 >/tmp/plan; \
         APPLY --confirm-within 20s >/dev/null; sleep 19; $Q shape status; sleep 2; $Q shape status; \
         $Q shape plan --dev wan --line 2.5/8 --host 10.0.0.1 >/tmp/again; cmp /tmp/plan /tmp/again"
        .replace("APPLY", APPLY);
    let said = on_the_router(&script);
    let (before, after) = said.split_once("nothing of Quell's is in force").expect("then nothing");
    assert!(before.contains("in force for 1s, unless: quell shape confirm"), "{before}");
    assert_eq!(after.trim(), "");
}
