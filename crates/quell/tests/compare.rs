//! `quell compare` as a person calls it: runs that were kept, wrong names, runs that can't be read.

mod support;

use serde_json::Value;
use support::{TestFolder, nothing_at, says};

const OLD: &[u8] = include_bytes!("../../pingexp/tests/data/python2-0.pickle");

/// A folder with two runs of the same packets.
fn two_runs() -> TestFolder {
    let dir = TestFolder::new();
    for name in ["before.pickle", "after.pickle"] {
        dir.write(name, OLD);
        dir.quell(&["import", "pingexp", name]).fine();
    }
    dir
}

#[test]
fn the_same_packets_are_no_worse_whoever_asks() {
    let dir = two_runs();
    let table = dir.quell(&["compare", "before", "after"]).fine();
    says(&table, &["A  ", "-before", "B  ", "-after", "voice", "rtt.p50 ms", "equal"]);
    assert!(table.lines().all(|l| l.chars().count() <= 100), "{table}");
    let json = dir.quell(&["compare", "before", "after", "--json", "--expect-no-worse"]).fine();
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!((&json["by"], &json["worse"]), (&"run".into(), &Value::Array(vec![])), "{json}");
    dir.quell(&["compare", "before", "after", "-o", "page.html"]).fine();
    let page = std::fs::read_to_string(dir.path("page.html")).expect("it was written");
    assert!(page.contains("<table>") && page.contains("<svg"), "table and figures");
    dir.quell(&["compare", "before", "after", "--figure", "box", "-o", "box.png"]).fine();
    assert!(dir.path("box.png").exists());
}

#[test]
fn what_can_t_be_meant_is_refused_before_anything_is_read() {
    let dir = two_runs();
    let refused =
        |more: &[&str]| dir.quell(&[&["compare", "before", "after"], more].concat()).refused(2);
    says(&refused(&["--metric", "rtt.p98"]), &["no metric `rtt.p98`", "did you mean `rtt.p9"]);
    says(&refused(&["-o", "x.svg"]), &["--figure cdf, box, bar, qq, time, goodput"]);
    says(&refused(&["--figure", "cfd", "-o", "x.svg"]), &["`cfd`", "did you mean `cdf`?"]);
    says(&refused(&["--figure", "cdf", "-o", "x.gif"]), &[".png, .svg or .pdf"]);
    says(&refused(&["--figure", "goodput", "-o", "x.svg"]), &["would be empty"]);
    says(&refused(&["--streams", "vioce"]), &["no stream \"vioce\"", "voice"]);
    says(&refused(&["--by", "topology.link.dls.up.rate"]), &["no run has the field"]);
    says(&dir.quell(&["compare", "before"]).refused(2), &["nothing to compare", "second run"]);
    says(&dir.quell(&["compare", "before", "never"]).refused(2), &["no run \"never\""]);
    nothing_at(&dir.path("x.svg"));
}

#[test]
fn a_run_of_another_version_is_told() {
    let dir = two_runs();
    let run =
        std::fs::read_dir(dir.path("runs")).expect("runs").filter_map(Result::ok).map(|e| e.path());
    let run = run.into_iter().find(|p| p.display().to_string().ends_with("after")).expect("a run");
    let manifest = run.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    let newer = text.replacen("\"format\": 4", "\"format\": 99", 1);
    assert_ne!(text, newer, "the test changes something");
    std::fs::write(&manifest, newer).expect("it can be written");
    says(&dir.quell(&["compare", "before", "after"]).refused(3), &["manifest.json", "99"]);
}
