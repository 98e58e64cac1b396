//! From a line that nobody knows to queues that are proven: `quell twin learn`, `choose`, `quell shape apply`, `prove`.
//!
//! ```text
//!   a ── router ── modem ═══line═══ server: quell serve
//!          └─ quell twin learn, shape apply, shape prove
//! ```

use super::support::{TestFolder, home, on_the_router_of};
use serde_json::Value;

fn figure(of: &Value, name: &str) -> f64 {
    of[name].as_f64().unwrap_or_else(|| panic!("{name} of {of}"))
}

fn carried(trial: &Value) -> f64 {
    figure(trial, "up_mbps") + figure(trial, "down_mbps")
}

/// What `quell twin choose` says of `line.toml`; it writes `policy.toml`.
fn choose(dir: &TestFolder, purpose: &str) -> Value {
    let all = ["twin", "choose", "--for", purpose, "-o", "policy.toml", "--json"];
    let output = dir.quell(&all);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect(&said)
}

#[test]
fn what_is_learnt_of_a_hidden_line_and_chosen_on_its_twin_is_proven_on_the_line() {
    let dir = TestFolder::new();
    let line = "up = { rate = \"2Mbit\", delay = \"10ms\", buffer = \"80p\" }\n\
                down = { rate = \"8Mbit\", delay = \"10ms\", buffer = \"250kB\" }";
    let ping = "[[scenario]]\nname = \"s\"\n[[probe]]\nname = \"p\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"server\"\n";
    let network = dir.file("network.toml", &home(false, line, ping));
    let network = network.to_string_lossy();
    let serve = ["server: $Q serve --bind ::"];
    // What is written in the guest is lost with it.
    let learn = "$Q twin learn server -o /tmp/line.toml >/dev/null; cat /tmp/line.toml";
    dir.file("line.toml", &on_the_router_of(&dir, &network, &serve, learn));

    let call = choose(&dir, "call");
    let (best, plain) = (&call["best_first"][0], &call["as_it_is"]);
    let (wait, unshaped) = (figure(best, "wait_p95_ms"), figure(plain, "wait_p95_ms"));
    assert!(unshaped > 200.0 && wait < 50.0, "{call:#}");
    assert!(carried(best) > 0.85 * carried(plain), "{call:#}");
    assert_eq!(call["best_first"].as_array().map(Vec::len), Some(5));

    let here = dir.path().display();
    let prove = format!(
        "$Q shape apply --dev wan --file {here}/policy.toml --confirm-within never; \
         $Q shape prove --dev wan --to server --twin {here}/line.toml --kernel host"
    );
    let said = on_the_router_of(&dir, &network, &serve, &prove);
    assert!(said.contains("The twin foretells"), "{said}");
    assert_eq!(said.matches("  pass     it is as the twin foretold: ").count(), 2, "{said}");

    let tried = ["shape", "try", "--twin", "line.toml", "--duration", "2s", "--json"];
    for what in [&["--file", "policy.toml"][..], &[]] {
        let output = dir.quell(&[&tried, what].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let tried: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(tried["experiment"], "shape-try");
    }
}

#[test]
fn on_a_line_that_varies_followers_are_tried_as_they_would_be_applied() {
    let dir = TestFolder::new();
    dir.file("up.csv", "t_ms,rate_bps,delay_ms,loss\n0,4000000\n5000,1500000\n10000\n");
    dir.file(
        "line.toml",
        "version = 1\n[up]\nseries = \"up.csv\"\ndelay = { value = \"10 ms\" }\nbuffer = { value = \"200 packets\" }\n\
         [down]\nrate = { value = \"6 Mbit/s\" }\ndelay = { value = \"10 ms\" }\nbuffer = { value = \"200 packets\" }\n",
    );
    let all = choose(&dir, "all");
    let (best, plain) = (&all["best_first"][0], &all["as_it_is"]);
    assert!(figure(best, "wait_p95_ms") < figure(plain, "wait_p95_ms") / 3.0, "{all:#}");
    assert!(figure(best, "up_mbps") > 1.2, "it carries what its floor does: {all:#}");
    let text = std::fs::read_to_string(dir.path().join("policy.toml")).expect("it was written");
    let ceiling = format!("ceiling = \"{}/", figure(best, "percent") * 40.0 / 1000.0);
    let bounds = text.contains("floor = \"1.35/5.4\"") && text.contains(&ceiling);
    assert!(bounds && text.contains("[\"flows\"]"), "{text}");
}
