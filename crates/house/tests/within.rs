//! `tools/within`: each test program is started by it, so that one that hangs is told and ended.

use std::process::{Command, Output};

/// `sh -c SCRIPT`, for at most a second.
fn within_a_second(script: &str) -> Output {
    Command::new(quell_house::tree::root().join("tools/within"))
        .args(["sh", "-c", script])
        .env("QUELL_TEST_LIMIT", "1")
        .output()
        .expect("the script can be run")
}

#[test]
fn a_program_that_ends_is_left_alone() {
    let output = within_a_second("echo out; echo error >&2; exit 7");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"error\n"[..]));
}

#[test]
fn a_program_that_hangs_is_ended_and_named() {
    let output = within_a_second("echo begun; exec sleep 1000");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(124), &b"begun\n"[..]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("sh was ended after 1 s: a test hangs"), "{said}");
}
