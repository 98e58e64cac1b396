//! Page loads in Chromium, in virtual time: what the network takes, and what a full line takes more. Where Chromium is not installed
//! these stories are left out, which is said.

use super::support::{TestFolder, lacks_chromium};
use serde_json::Value;

/// What came of two loads of `home-link-pages` in some scenarios.
struct Pages {
    /// Its results, by scenario.
    rows: Vec<Value>,
    /// The loads of the first scenario, one a line, each with its requests and their times.
    loads: Vec<String>,
    printed: String,
}

fn pages(scenarios: &[&str]) -> Pages {
    let folder = TestFolder::new();
    let mut arguments = vec!["run", "home-link-pages", "--duration", "30s"];
    arguments.extend(["--set", "warm-up=2s", "--set", "probe.page.loads=2", "--set", "expect=[]"]);
    scenarios.iter().for_each(|scenario| arguments.extend(["--only", scenario]));
    let done = folder.quell(&arguments);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    let printed = String::from_utf8_lossy(&done.stdout).into_owned();
    let shown = folder.quell(&["show", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("it prints JSON");
    let rows = shown["results"].as_array().expect("results").iter();
    let rows = rows.filter(|row| row["stream"] == "page").map(|row| row["pages"].clone());
    let run = folder.only_run();
    let facts = std::fs::read_to_string(run.join("facts.jsonl")).expect("its facts");
    let is_load = |line: &&str| {
        line.contains(&format!("\"scenario\":\"{}\"", scenarios[0])) && line.contains("/page-load")
    };
    let loads = facts.lines().filter(is_load).map(str::to_owned).collect();
    Pages { rows: rows.collect(), loads, printed }
}

#[test]
fn a_full_uplink_makes_a_page_wait_and_that_it_is_the_networks_share_is_said() {
    if lacks_chromium() {
        return;
    }
    let Pages { rows, loads, printed } = pages(&["unloaded", "bulk"]);
    let [unloaded, bulk] = &rows[..] else { panic!("two scenarios: {rows:?}") };
    let load = |row: &Value| row["load_ms"].as_f64().expect("its pages came");
    // 0.6 MB through 8 Mbit/s take 0.6 s, and no browser's work is added to that.
    assert!((600.0..1_000.0).contains(&load(unloaded)), "{unloaded}");
    assert!(load(bulk) > 3.0 * load(unloaded), "{rows:?}");
    assert_eq!((&unloaded["begun"], &unloaded["loaded"]), (&Value::from(2), &Value::from(2)));
    assert!(printed.contains("the network's share of a page load"), "{printed}");
    // The same seed gives the same nanoseconds.
    let again = pages(&["unloaded"]);
    assert_eq!(loads.len(), 2, "{loads:?}");
    for (load, again) in loads.iter().zip(&again.loads) {
        let differs = load.bytes().zip(again.bytes()).position(|(one, again)| one != again);
        let around =
            |text: &str, at: usize| text[at.saturating_sub(300)..].chars().take(400).collect();
        let around: Option<[String; 2]> = differs.map(|at| [around(load, at), around(again, at)]);
        assert_eq!(around, None, "of {} bytes", load.len());
    }
    assert_eq!(&again.rows, std::slice::from_ref(unloaded));
}

/// A load of the lab's page by this version of HTTP, over a line with 50 ms each way that nothing else uses.
fn by(version: &str) -> Value {
    let folder = TestFolder::new();
    let http = format!("probe.page.http=\"{version}\"");
    let done = folder.quell(&[
        "run",
        "home-link-pages",
        "--only",
        "unloaded",
        "--duration",
        "30s",
        "--set",
        "warm-up=2s",
        "--set",
        "probe.page.loads=1",
        "--set",
        "expect=[]",
        "--set",
        "topology.link.dsl.up.delay=50ms",
        "--set",
        "topology.link.dsl.down.delay=50ms",
        "--set",
        &http,
    ]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let shown = folder.quell(&["show", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("it prints JSON");
    let rows = shown["results"].as_array().expect("results");
    rows.iter().find(|row| row["stream"] == "page").expect("pages")["pages"].clone()
}

#[test]
fn over_a_long_way_http_2_spares_the_page_round_trips() {
    if lacks_chromium() {
        return;
    }
    let (one, two) = (by("1.1"), by("2"));
    let load = |pages: &Value| pages["load_ms"].as_f64().expect("its pages came");
    println!("total: by HTTP/1.1 {} ms, by HTTP/2 {} ms", load(&one), load(&two));
    assert_eq!(one["protocols"], serde_json::json!({ "http/1.1": 61 }), "{one}");
    assert_eq!(two["protocols"], serde_json::json!({ "h2": 61 }), "{two}");
    // Six connections to each of three names make a handshake each, and the seventh request to a name waits for a free one.
    assert!(load(&two) + 100.0 < load(&one), "{one} {two}");
    assert_eq!(by("2"), two, "the same seed gives the same milliseconds");
}
