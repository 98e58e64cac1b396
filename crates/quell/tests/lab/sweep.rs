//! A swept line: each value is what the guest's kernel gets, the shaper follows, and what differs is the value alone.

use crate::support::TestFolder;

const SWEPT: &str = r#"
name     = "swept"
duration = "2s"
warm-up  = "1s"
repeat   = 3
sweep    = { "topology.link.line.up.rate" = ["1Mbit", "4Mbit"] }
expect   = ["shaped-1Mbit.tcp.goodput < 0.9Mbit", "shaped-4Mbit.tcp.goodput > 2.8Mbit"]

[topology]
hosts = ["a", "b"]

[[topology.link]]
name = "line"
ends = ["a", "b"]
up   = { rate = "2Mbit", delay = "5ms", buffer = "30p" }
down = { delay = "5ms" }

[[queue]]
name  = "half"
on    = "a:line"
queue = { kind = "tbf", rate = "80% of link line.up", burst = 3000, limit = 45000 }

[[scenario]]
name = "plain"

[[scenario]]
name   = "shaped"
queues = ["half"]

[[probe]]
name = "tcp"
kind = "tcp"
from = "a"
to   = "b"
"#;

#[test]
fn a_shaper_follows_its_swept_line_and_four_times_the_rate_is_better_for_sure() {
    let lab = TestFolder::new();
    // The claims say how fast the shaper was at either rate.
    lab.run(SWEPT, &[]);
    let compare = |more: &[&str]| {
        let by = ["show", "last", "--out", "runs", "--by", "topology.link.line.up.rate", "--json"];
        let output = lab.quell(&[&by, more].concat());
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let json: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {error}"));
        (output.status.code(), json, error)
    };
    let (code, json, _) = compare(&["--expect-no-worse=goodput"]);
    assert_eq!(code, Some(0), "{json}");
    let rows = json["differences"].as_array().expect("rows");
    let goodput: Vec<_> = rows.iter().filter(|r| r["metric"] == "goodput").collect();
    assert_eq!(goodput.len(), 2, "plain and shaped: {json}");
    for row in goodput {
        assert_eq!((&row["basis"], &row["verdict"]), (&"pairs".into(), &"better".into()), "{row}");
    }
    // The other way round it is worse.
    let scenarios = [
        "show",
        "last",
        "--out",
        "runs",
        "--scenarios",
        "plain-4Mbit,plain-1Mbit",
        "--expect-no-worse=goodput",
    ];
    let worse = lab.quell(&scenarios);
    let said = String::from_utf8_lossy(&worse.stderr).into_owned();
    assert_eq!(worse.status.code(), Some(1), "{said}");
    assert!(said.contains("goodput of tcp: worse,") && said.contains("plain-1Mbit"), "{said}");
}

/// A kernel is one more swept field. Where that of 6.12 was not built, it is said how it is, before anything runs.
#[test]
fn kernels_are_a_factor_and_what_differs_is_the_kernel_alone() {
    let lab = TestFolder::new();
    let text =
        SWEPT.replace("sweep    =", "kernels  = [\"6.1\", \"6.12\"] #").replace("expect   =", "# ");
    let is_built = lab.quell(&["lab", "kernel", "path", "--version", "6.12"]).status.success();
    if !is_built {
        let file = lab.file("experiment.toml", &text);
        let refused = lab.quell(&["run", &file.to_string_lossy()]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(3), "{said}");
        assert!(said.contains("quell lab kernel build --version 6.12"), "{said}");
        assert!(!lab.path().join("runs").exists(), "nothing was begun");
        return;
    }
    let results = lab.run(&text, &[]);
    let version = results.json["kernel"]["version"].as_str().expect("a version").to_owned();
    assert!(version.contains("6.1.") && version.contains(", 6.12."), "{version}");
    let goodput = |scenario: &str| results.number(scenario, "tcp", "goodput_mbps");
    for (old, new) in [("plain-6_1", "plain-6_12"), ("shaped-6_1", "shaped-6_12")] {
        let (old, new) = (goodput(old), goodput(new));
        assert!((old / new - 1.0).abs() < 0.3, "the line is the same: {old} and {new} Mbit/s");
    }
    let compared = lab.quell(&["show", "last", "--by", "kernel", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&compared.stdout).expect("it is JSON");
    let labels: Vec<_> =
        json["groups"].as_array().expect("groups").iter().map(|g| &g["label"]).collect();
    assert_eq!(labels, ["6.1", "6.12"], "{json}");
    assert!(json["differences"].as_array().is_some_and(|rows| rows.len() >= 2), "{json}");
}
