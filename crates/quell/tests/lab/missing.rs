//! Loads and probes that could not work: the others go on, but nobody takes the run for a good one.

use super::support::{PING, QUIET, TestFolder, near, two_hosts};

#[test]
fn a_task_that_can_not_work_is_told_with_its_reason_and_the_rest_goes_on() {
    let text = two_hosts(
        "both = { delay = \"5ms\" }",
        &format!(
            "[[load]]\nname = \"broken\"\nkind = \"command\"\non = \"a\"\nrun = [\"/nonexistent/program\"]\n\
             [[load]]\nname = \"failing\"\nkind = \"command\"\non = \"a\"\nrun = [\"sh\", \"-c\", \"echo oh dear >&2; exit 7\"]\n\
             [[scenario]]\nname = \"s\"\nloads = [\"broken\", \"failing\"]\n{PING}"
        ),
    );
    let (results, said) = TestFolder::new().run_to(1, &text, &[]);
    near(results.number("s", "ping", "loss_ratio"), 0.0, 0.0);
    for part in ["/nonexistent/program", "status 7", "oh dear", "2 tasks failed"] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

#[test]
fn a_claim_does_not_hold_where_a_load_was_missing() {
    let text = two_hosts(
        "both = { delay = \"5ms\" }",
        &format!(
            "expect = [\"quiet.ping.rtt.max < 11ms\", \"busy.ping.rtt.max < 11ms\"]\n\
             [[load]]\nname = \"failing\"\nkind = \"command\"\non = \"a\"\nrun = [\"false\"]\n\
             [[scenario]]\nname = \"quiet\"\n\
             [[scenario]]\nname = \"busy\"\nloads = [\"failing\"]\n{PING}"
        ),
    );
    let dir = TestFolder::new();
    let (_, said) = dir.run_to(1, &text, &[]);
    assert!(said.contains("1 of 2 expectations"), "{said}");
    let shown = String::from_utf8_lossy(&dir.quell(&["show", "--all"]).stdout).into_owned();
    let line = |wanted: &str| shown.lines().find(|l| l.contains(wanted)).expect("a verdict");
    assert!(line("quiet.ping.rtt.max").contains("holds"), "{shown}");
    let broken = line("busy.ping.rtt.max");
    assert!(broken.contains("FAILS"), "{shown}");
    assert!(shown.contains("ms; load `failing` failed in busy"), "{shown}");
}

#[test]
fn a_congestion_control_that_the_kernel_lacks_is_refused_before_anything_starts() {
    for (backend, code) in [("guest", 2), ("host", 3)] {
        let dir = TestFolder::new();
        let text = two_hosts(
            "both = { delay = \"5ms\" }",
            &format!(
                "[[load]]\nname = \"strange\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\ndirection = \"down\"\n\
                 congestion = \"cubik\"\n{}{PING}",
                QUIET.replace("\"s\"\n", "\"s\"\nloads = [\"strange\"]\n")
            ),
        );
        let file = dir.file("e.toml", &text);
        let output = dir.quell(&["run", &file.to_string_lossy(), "--kernel", backend]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains("cubik") && said.contains("cubic"), "{said}");
        assert!(!dir.path().join("runs").exists(), "nothing was begun");
    }
}
