//! Calls over paths that lose packets and double others: what comes twice was not sent twice, and what was sent again is not said to be needless.

use super::support::{PING, QUELL, QUIET, TestFolder, two_hosts};
use serde_json::Value;

/// The row of `quell rr` on `a`, of 60 calls of 30000 bytes.
fn row(line: &str, pattern: &str) -> Value {
    let dir = TestFolder::new();
    let file = dir.file("network.toml", &two_hosts(line, &format!("{QUIET}{PING}")));
    let file = file.to_string_lossy();
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0");
    let lab = ["lab", "exec", &*file, "a", "--with", &serve, "--", QUELL, "rr", "{b}", "--json"];
    let what = ["--sizes", "30000", "--calls", "60", "--pattern", pattern];
    let output = dir.quell(&[&lab[..], &what].concat());
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{error}"));
    said["before"]["rows"][0].clone()
}

#[test]
fn where_the_path_doubles_packets_what_was_sent_again_is_not_said_to_be_needless() {
    let bad = "{ rate = \"50Mbit\", delay = \"30ms\", loss = \"1%\", duplicate = \"3%\" }";
    let good = "{ rate = \"50Mbit\", delay = \"30ms\" }";
    // Requests and replies are as long: each way has its turn.
    for (up, down, told) in [(good, bad, "path_doubles_there"), (bad, good, "path_doubles")] {
        for pattern in ["request-response", "connect"] {
            let row = row(&format!("up = {up}\ndown = {down}"), pattern);
            let stalls = &row["stalls"];
            let story = format!("{up} {down} {pattern}: {row:#}");
            assert_eq!(stalls["needless"], 0, "{story}");
            assert_eq!(stalls[told], true, "{story}");
            let other = if told == "path_doubles" { "path_doubles_there" } else { "path_doubles" };
            assert_eq!(stalls[other], false, "{story}");
        }
    }
}
