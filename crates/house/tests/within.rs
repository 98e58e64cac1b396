//! `tools/within`: each test program is started by it, so that one that hangs is told and ended.

use std::process::{Command, Output};

/// `sh -c SCRIPT`, for at most so many seconds.
fn within(seconds: u32, script: &str) -> Output {
    Command::new(quell_house::tree::root().join("tools/within"))
        .args(["sh", "-c", script])
        .env("QUELL_TEST_LIMIT", seconds.to_string())
        .output()
        .expect("the script can be run")
}

#[test]
fn a_program_that_ends_is_left_alone() {
    let output = within(600, "echo out; echo error >&2; exit 7");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"error\n"[..]));
}

#[test]
fn a_program_that_hangs_is_ended_and_named() {
    // A busy machine may not have begun with it by then.
    let said = [1, 5, 30].into_iter().find_map(|seconds| {
        let output = within(seconds, "echo begun; exec sleep 1000");
        assert_eq!(output.status.code(), Some(124));
        let said = String::from_utf8_lossy(&output.stderr);
        let wanted = format!("sh was ended after {seconds} s: a test hangs");
        assert!(said.contains(&wanted), "{said}");
        Some(output.stdout).filter(|said| !said.is_empty())
    });
    assert_eq!(said.as_deref(), Some(&b"begun\n"[..]));
}
