//! A run on two kernels says in words what the newer one changed.

use crate::measured::measured;
use crate::support::{TestFolder, says};

#[test]
fn a_run_on_two_kernels_says_what_the_newer_one_changed() {
    let dir = TestFolder::new();
    measured(&dir, "\"6.1\", \"6.12\"");
    let shown = dir.quell(&["show"]).fine();
    // The repeats have 460, 471, 482 ms before, and 410, 420, 430 after: differences of 50, 51 and 52, and a millisecond for the middle of three.
    let better =
        "rtt.p50 of bulk · ping: better, 472.0 ms with 6.1, 421.0 with 6.12, −53.5 to −48.5 ms";
    let said = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    says(
        &said,
        &["kernels 6.12 against 6.1: ", " figures differ", better, "are equal in every repeat"],
    );
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    // What others published is of neither of these.
    assert!(!shown.contains("published"), "{shown}");
    dir.quell(&["open", "--no-open", "-o", "page.html"]).fine();
    let page = std::fs::read_to_string(dir.path("page.html")).expect("it was written");
    says(&page, &["What the kernel changed</h2>", better]);
}

#[test]
fn of_one_kernel_nothing_is_said() {
    let dir = TestFolder::new();
    measured(&dir, "\"6.1\"");
    let shown = dir.quell(&["show"]).fine();
    assert!(!shown.contains("against"), "{shown}");
    dir.quell(&["open", "--no-open", "-o", "page.html"]).fine();
    let page = std::fs::read_to_string(dir.path("page.html")).expect("it was written");
    assert!(!page.contains("What the kernel changed"));
}
