//! What is missing and was lost on no path: dropped by the own host's queue, or left unanswered by the server.

use super::support::{PING, QUELL, QUIET, TestFolder, two_hosts};

/// What `quell` on `a` prints with these words, beside a `quell serve` on `b`.
fn said(line: &str, serve: &str, words: &str) -> String {
    let dir = TestFolder::new();
    let file = dir.file("network.toml", &two_hosts(line, &format!("{QUIET}{PING}")));
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0 {serve}");
    let file = file.to_string_lossy();
    let exec = ["lab", "exec", &*file, "a", "--with", &serve, "--", QUELL];
    let output = dir.quell(&[&exec[..], &words.split(' ').collect::<Vec<_>>()].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    text
}

#[test]
fn what_the_own_queue_drops_is_told_of_datagrams_and_of_tcp() {
    let lossy =
        "up = { rate = \"5Mbit\", delay = \"5ms\", loss = \"5%\" }\ndown = { delay = \"5ms\" }";
    let whole = "both = { rate = \"5Mbit\", delay = \"5ms\" }";
    for words in ["flow {b} -u -b 1M -t 4", "flow {b} -t 4"] {
        let told = said(lossy, "", words).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains("this host's own queue dropped"), "{told}");
        assert!(told.contains("before the path (netem, htb, pfifo on line)"), "{told}");
    }
    let told = said(whole, "", "flow {b} -u -b 1M -t 4");
    assert!(!told.contains("own queue dropped"), "{told}");
}

#[test]
fn pings_that_a_server_leaves_unanswered_beyond_its_rate_are_told_as_that() {
    let clean = "both = { delay = \"5ms\" }";
    let pings = "ping {b} -m udp -i 5ms -s 200 -c 400";
    let limited = said(clean, "--max-rate 400kbit", pings);
    let limited = limited.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(limited.contains("the server left them unanswered"), "{limited}");
    assert!(limited.contains("loss at least 0.0 %, at most"), "{limited}");
    assert!(limited.contains("So the number of lost packets is not known exactly."), "{limited}");
    let free = said(clean, "", pings);
    assert!(!free.contains("unanswered"), "{free}");
    let lossy = said("both = { delay = \"5ms\", loss = \"5%\" }", "", pings);
    assert!(!lossy.contains("unanswered"), "{lossy}");
}
