//! What is lost, what is late, and what nobody can know: a loss is told only where it is certain.

use super::support::{Results, TestFolder, UDP, near, two_hosts};

/// Whether a claim held, and what was found.
fn verdict<'a>(results: &'a Results, claim: &str) -> (bool, &'a str) {
    let all = results.json["expectations"].as_array().expect("a list of claims");
    let found = all.iter().find(|e| e["expect"] == claim).expect("it was checked");
    (found["held"] == true, found["found"].as_str().expect("a text"))
}

/// Behind the last answer nobody can tell on which way a packet was lost. A load goes one way.
#[test]
fn where_nothing_comes_back_any_more_nobody_claims_to_know_the_direction_of_a_loss() {
    let claims = ["s.udp.lost.up = 0", "s.udp.lost.down = 0", "s.udp.loss.up > 0%"];
    let text = two_hosts(
        "both = { delay = \"5ms\" }",
        &format!(
            "expect = {claims:?}\n[[timeline]]\nat = \"10s\"\nlink = \"line\"\nup = {{ loss = \"100%\" }}\n{UDP}\
             [[scenario]]\nname = \"s\"\nloads = [\"load\"]\n[[load]]\nname = \"load\"\nkind = \"udp\"\nfrom = \"a\"\n\
             to = \"b\"\nrate = \"40kbit\"\nsize = 500\n"
        ),
    );
    let (results, _) = TestFolder::new().run_to(1, &text, &[]);
    near(results.number("s", "udp", "loss_ratio"), 0.5, 0.01);
    let row = results.row("s", "udp");
    assert!(row["lost_up"].is_null() && row["lost_down"].is_null(), "{row:#}");
    for claim in claims {
        assert_eq!(verdict(&results, claim), (false, "nothing was measured"), "{claim}");
    }
    near(results.number("s", "load", "lost_up"), 100.0, 1.0);
    near(results.number("s", "load", "lost_down"), 0.0, 0.0);
}

/// A second host's load fills a buffer of 36 s for two seconds out of five, and a tcp-ping shares it.
#[test]
fn connects_through_a_queue_of_many_seconds_are_answered_and_not_lost() {
    let text = "name = \"deep\"\nduration = \"20s\"\nprobes-run = \"together\"\n\
        expect = [\"s.open.loss = 0% ± 0%\", \"s.refused.loss = 0% ± 0%\", \"s.ping.loss = 0% ± 0%\"]\n\
        [topology]\nhosts = [\"a\", \"b\", \"s\"]\nrouters = [\"r\"]\n\
        [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r\"]\n[[topology.link]]\nname = \"lb\"\nends = [\"b\", \"r\"]\n\
        [[topology.link]]\nname = \"line\"\nends = [\"r\", \"s\"]\n\
        up = { rate = \"1Mbit\", delay = \"10ms\", buffer = \"3000p\" }\ndown = { rate = \"5Mbit\", delay = \"10ms\" }\n\
        [[scenario]]\nname = \"s\"\nloads = [\"load\"]\n\
        [[load]]\nname = \"load\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"s\"\nrate = \"2Mbit\"\nsize = 1000\non = \"2s\"\noff = \"3s\"\n\
        [[probe]]\nname = \"open\"\nkind = \"tcp-ping\"\nfrom = \"b\"\nto = \"s\"\ninterval = \"100ms\"\n\
        [[probe]]\nname = \"refused\"\nkind = \"tcp-ping\"\nfrom = \"b\"\nto = \"s\"\ninterval = \"100ms\"\nlistens = false\n\
        [[probe]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"b\"\nto = \"s\"\ninterval = \"100ms\"\n";
    let results = TestFolder::new().run(text, &[]);
    let ping = results.number("s", "ping", "rtt_ms.p50");
    assert!(ping > 500.0, "the queue is deep: {ping} ms");
    for stream in ["open", "refused"] {
        near(results.number("s", stream, "rtt_at_least_ms.p50"), ping, ping * 0.1);
        let [most, wanted] =
            [stream, "ping"].map(|s| results.number("s", s, "rtt_at_least_ms.max"));
        near(most, wanted, wanted * 0.1);
    }
}

/// A shaper below the line's rate holds 12 s; what it holds at the end is under way.
#[test]
fn what_waits_in_a_slow_shaper_before_a_fast_line_is_late_and_not_lost() {
    for queue in [
        "queue = { kind = \"tbf\", rate = \"1Mbit\", burst = 3000, limit = 1500000 }",
        "[queue.queue]\nkind = \"htb\"\ndefault = \"1:10\"\n\
         class = [{ id = \"1:10\", rate = \"1Mbit\", queue = { kind = \"pfifo\", limit = 2000 } }]",
    ] {
        let text = two_hosts(
            "both = { rate = \"10Mbit\", delay = \"10ms\" }",
            &format!(
                "[[scenario]]\nname = \"s\"\nloads = [\"load\"]\nqueues = [\"slow\"]\n\
                 [[queue]]\nname = \"slow\"\non = \"a:line\"\n{queue}\n\
                 [[load]]\nname = \"load\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1.25Mbit\"\nsize = 1400\n{UDP}"
            ),
        );
        let results = TestFolder::new().run(&text, &[]);
        assert!(results.number("s", "udp", "rtt_ms.max") > 5000.0, "the shaper holds seconds");
        for stream in ["udp", "load"] {
            near(results.number("s", stream, "loss_ratio"), 0.0, 0.0);
        }
    }
}

/// Before the probe's first call the warm-up has filled 12 s of buffer: its connection is there when the measurement is over.
#[test]
fn no_call_begins_after_the_measurement_and_a_connection_that_comes_too_late_is_told() {
    let text = two_hosts(
        "up = { rate = \"1Mbit\", delay = \"10ms\", buffer = \"1000p\" }\ndown = { rate = \"5Mbit\", delay = \"10ms\" }",
        "warm-up = \"15s\"\n[[scenario]]\nname = \"s\"\nloads = [\"load\"]\n\
         [[load]]\nname = \"load\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"2Mbit\"\nsize = 1000\n\
         [[probe]]\nname = \"rr\"\nkind = \"rr\"\nfrom = \"a\"\nto = \"b\"\npattern = \"request-response\"\n",
    );
    let (results, said) = TestFolder::new().run_to(1, &text, &["--set", "duration=5s"]);
    let rows = results.json["results"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["stream"] != "rr"), "{rows:#?}");
    assert!(said.contains("longer than the measurement, so no call was made"), "{said}");
}

/// A call is under way when the line is cut, and a UDP load beside it has its losses counted all the same.
#[test]
fn a_call_that_never_comes_back_ends_the_measurement_of_nobody_else() {
    let text = two_hosts(
        "both = { rate = \"2Mbit\", delay = \"7ms\" }",
        "warm-up = \"6s\"\n[[timeline]]\nat = \"10s\"\nlink = \"line\"\nup = { loss = \"100%\" }\n\
         [[scenario]]\nname = \"s\"\nloads = [\"load\"]\n\
         [[load]]\nname = \"load\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"400kbit\"\nsize = 500\n\
         [[probe]]\nname = \"rr\"\nkind = \"rr\"\nfrom = \"a\"\nto = \"b\"\npattern = \"request-response\"\ncalls = 10000\n",
    );
    let results = TestFolder::new().run(&text, &[]);
    near(results.number("s", "load", "sent"), 2000.0, 2.0);
    near(results.number("s", "load", "loss_ratio"), 0.5, 0.01);
    let [sent, received] = ["sent", "received"].map(|key| results.number("s", "rr", key));
    assert!(received > 100.0, "{received} calls before the line was cut");
    near(sent - received, 1.0, 0.0);
}
