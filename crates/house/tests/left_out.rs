//! `tools/left-out`: tests that leave themselves out are told, and on a bare system are missed.

use std::process::Command;

/// What it says of a file with this, and its exit code.
fn said(lines: Option<&str>, all: bool) -> (String, Option<i32>) {
    let file = std::env::temp_dir().join(format!(
        "quell-left-out-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    if let Some(lines) = lines {
        std::fs::write(&file, lines).expect("a file");
    }
    let mut command = Command::new(quell_house::tree::root().join("tools/left-out"));
    command.arg(&file).env_remove("QUELL_ALL_TESTS");
    if all {
        command.env("QUELL_ALL_TESTS", "1");
    }
    let output = command.output().expect("bash is part of every Debian");
    let _ = std::fs::remove_file(&file);
    let texts = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&texts).into_owned(), output.status.code())
}

#[test]
fn no_test_says_by_itself_that_it_is_left_out() {
    let mark = |text: &str| {
        let words = ["println!(\"skipped", "println!(\"Left out", "write!(\"skipped"];
        words.iter().any(|word| text.contains(word))
    };
    assert!(mark("eprintln!(\"skipped: {error}\")"));
    let sources = quell_house::tree::files(&quell_house::tree::root()).expect("it is here");
    let tests = sources.iter().filter(|file| file.path.contains("/tests/"));
    let own = "crates/house/tests/left_out.rs";
    let found = tests.filter(|file| file.path != own && mark(&file.text));
    assert_eq!(found.map(|file| &file.path).collect::<Vec<_>>(), Vec::<&String>::new());
}

const KERNEL: &str = "kernel\tlab-1\thost::x\tthis kernel has no netem\n";
const PROGRAM: &str = "program\tserve-2\tclients\tthere is no iperf3 here\n";

#[test]
fn what_was_left_out_is_counted_and_told_with_its_reason() {
    assert_eq!(said(None, true), (String::new(), Some(0)));
    let twice = [KERNEL, PROGRAM, PROGRAM, "program\tserve-2\tmore\tthere is no iperf3 here\n"];
    let (text, code) = said(Some(&twice.concat()), false);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("left out: 3 tests:\n  2: there is no iperf3 here\n"), "{text}");
    assert!(text.contains("  1: this kernel has no netem\n"), "{text}");
}

#[test]
fn where_all_can_be_installed_only_the_kernel_is_an_excuse() {
    assert_eq!(said(Some(KERNEL), true).1, Some(0));
    let (text, code) = said(Some(&[KERNEL, PROGRAM].concat()), true);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("  serve-2 clients: there is no iperf3 here\n"), "{text}");
}
