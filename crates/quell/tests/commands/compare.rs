//! `quell show` as a person calls it: runs that were kept, wrong names, runs that can't be read.

use crate::drawn::{Drawn, near};
use crate::support::{TestFolder, nothing_at, says};
use serde_json::Value;

const OLD: &[u8] = include_bytes!("../../../foreign/tests/data/pingexp/python2-0.pickle");

/// A folder with two runs of the same packets.
fn two_runs() -> TestFolder {
    let dir = TestFolder::new();
    for name in ["before.pickle", "after.pickle"] {
        dir.write(name, OLD);
        dir.quell(&["data", "import", name]).fine();
    }
    dir
}

#[test]
fn the_same_packets_are_no_worse_whoever_asks() {
    let dir = two_runs();
    let table = dir.quell(&["show", "before", "after"]).fine();
    says(&table, &["A  ", "-before", "B  ", "-after", "5 of 5 figures show no difference"]);
    assert!(table.lines().all(|l| l.chars().count() <= 100), "{table}");
    let json = dir.quell(&["show", "before", "after", "--json", "--expect-no-worse"]).fine();
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!((&json["by"], &json["worse"]), (&"run".into(), &Value::Array(vec![])), "{json}");
    dir.quell(&["open", "before", "after", "--no-open", "-o", "page.html"]).fine();
    let page = std::fs::read_to_string(dir.path("page.html")).expect("it was written");
    assert!(page.contains("<table>") && page.contains("<svg"), "table and figures");
    dir.quell(&["plot", "before", "after", "--figure", "box", "-o", "box.png"]).fine();
    assert!(dir.path("box.png").exists());
}

#[test]
fn what_can_t_be_meant_is_refused_before_anything_is_read() {
    let dir = two_runs();
    let refused = |command: &str, more: &[&str]| {
        dir.quell(&[&[command, "before", "after"], more].concat()).refused(2)
    };
    let unknown = refused("show", &["--metric", "rtt.p98"]);
    says(&unknown, &["no metric `rtt.p98`", "did you mean `rtt.p9"]);
    says(&refused("plot", &["--figure", "cfd", "-o", "x.svg"]), &["`cfd`", "did you mean `cdf`?"]);
    says(&refused("plot", &["--figure", "cdf", "-o", "x.gif"]), &[".png, .svg or .pdf"]);
    says(&refused("plot", &["--figure", "goodput", "-o", "x.svg"]), &["would be empty"]);
    says(&refused("show", &["--streams", "vioce"]), &["no stream \"vioce\"", "voice"]);
    says(&refused("show", &["--by", "topology.link.dls.up.rate"]), &["no run has the field"]);
    says(&refused("show", &["--follow"]), &["--follow shows one run"]);
    let alone = dir.quell(&["show", "before", "--by", "scenario"]).refused(2);
    says(&alone, &["nothing to compare", "second run"]);
    says(&dir.quell(&["show", "before", "never"]).refused(2), &["no run \"never\""]);
    // A check of a run beside itself would pass for nothing.
    let itself = dir.quell(&["show", "before", "before", "--expect-no-worse"]).refused(2);
    says(&itself, &["before and before are one run", "nothing can differ"]);
    nothing_at(&dir.path("x.svg"));
}

/// A ping every 0.2 s for ten seconds, in whose second half packets take longer.
fn pings(first_ms: u64, then_ms: u64) -> String {
    let trip = |n: u64| (1_700_000_000_000 + 200 * n, if n < 25 { first_ms } else { then_ms });
    crate::support::irtt((0..50).map(trip))
}

#[test]
fn a_figure_of_a_comparison_looks_as_it_is_wanted() {
    let dir = TestFolder::new();
    dir.write("before.json", pings(10, 200));
    dir.write("after.json", pings(20, 300));
    dir.quell(&["data", "import", "before.json", "after.json"]).fine();
    let draw = |file: &str, more: &[&str]| {
        dir.quell(&[&["plot", "before", "after", "-o", file], more].concat()).fine();
        std::fs::read(dir.path(file)).expect("it was written")
    };
    let svg = |more: &[&str]| String::from_utf8(draw("x.svg", more)).expect("text");
    let look = ["--title", "Mine", "--legend", "none", "--size", "600x400"];
    let time = svg(&[&["--figure", "time", "--from", "5s", "--to", "8s"], &look[..]].concat());
    assert!(time.contains("width=\"600\"") && !time.contains(">A</text>"), "{time}");
    let drawn = Drawn::of(&time);
    assert!(drawn.says("Mine") && drawn.says("From 5 s to 8 s alone"));
    let course =
        |ms: f64| -> Vec<(f64, f64)> { (0..15).map(|n| (5.0 + 0.2 * f64::from(n), ms)).collect() };
    let lines = &drawn.panels[0].lines;
    assert_eq!(lines.len(), 2);
    for (line, ms) in lines.iter().zip([200.0, 300.0]) {
        let first = line.1[0].0;
        assert!((5.0..5.35).contains(&first) && line.1.len() >= 14, "{line:?}");
        let moved: Vec<_> = line.1.iter().map(|(t, ms)| (t - first + 5.0, *ms)).collect();
        near(&moved, &course(ms)[..moved.len()], (0.02, 1.0));
    }
    // Equal ratios in equal space: 10 and 100 have labels, which none of a linear axis from 10 to 200 would have beside each other.
    let log = svg(&["--figure", "box", "--log"]);
    assert!(log.contains(">10<") && log.contains(">100<"), "{log}");
    let png = draw("x.png", &["--figure", "cdf", "--dpi", "96", "--size", "600x400"]);
    assert_eq!(png[16..20], 600_u32.to_be_bytes());
    let refused =
        |more: &[&str]| dir.quell(&[&["plot", "before", "after"], more].concat()).refused(2);
    let bar = ["--figure", "bar", "--from", "5s", "-o", "x.svg"];
    says(&refused(&bar), &["of whole measurements"]);
    let late = ["--figure", "cdf", "--from", "50s", "-o", "x.svg"];
    says(&refused(&late), &["would be empty"]);
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
    says(&dir.quell(&["show", "before", "after"]).refused(3), &["manifest.json", "99"]);
}
