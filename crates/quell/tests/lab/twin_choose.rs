//! `quell twin choose` finds queues for a line that was measured, on that line's twin.

use super::support::TestFolder;
use serde_json::Value;

/// 2/4 Mbit/s with half a second of buffer up.
#[test]
fn what_is_chosen_for_a_call_waits_little_and_carries_most() {
    let dir = TestFolder::new();
    let way = |rate, buffer| {
        format!(
            "rate = {{ value = \"{rate}\" }}\ndelay = {{ value = \"10 ms\" }}\nbuffer = {{ value = \"{buffer}\" }}\n\
             queue = {{ value = \"tail-drop\" }}\n"
        )
    };
    let line = format!(
        "version = 1\n[up]\n{}[down]\n{}",
        way("2 Mbit/s", "80 packets"),
        way("4 Mbit/s", "250 kB")
    );
    let line = dir.file("line.toml", &line);
    let policy = dir.path().join("policy.toml");
    let (from, to) = (line.to_string_lossy(), policy.to_string_lossy());
    let output = dir.quell(&["twin", "choose", &from, "--for", "call", "-o", &to, "--json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let call: Value = serde_json::from_slice(&output.stdout).expect(&said);
    let figure = |trial: &Value, name: &str| trial[name].as_f64().expect("a number");
    let carried = |trial: &Value| figure(trial, "up_mbps") + figure(trial, "down_mbps");
    let best = &call["best_first"][0];
    let (wait, plain) = (figure(best, "wait_p99_ms"), figure(&call["as_it_is"], "wait_p99_ms"));
    assert!(plain > 400.0 && wait < plain / 8.0, "{call:#}");
    assert!(carried(best) > 0.75 * carried(&call["as_it_is"]), "{call:#}");
    let text = std::fs::read_to_string(&policy).expect("it was written");
    let name = best["policy"].as_str().expect("a name");
    assert!(text.contains(&format!("policy = \"{name}\"")), "{text}");
    // The chosen queues, and those of any line with these rates.
    for what in [&["--file", &to][..], &[]] {
        let tried = ["shape", "try", "--twin", &from, "--duration", "2s", "--json"];
        let output = dir.quell(&[&tried, what].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let tried: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(tried["experiment"], "shape-try");
    }
}
