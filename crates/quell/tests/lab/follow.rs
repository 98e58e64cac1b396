//! `quell shape follow`: a router whose line varies, and one whose line hides its queue from pings.
//!
//! ```text
//!   a ── router ──wan── modem ════ server: quell serve         up and down follow the series of the `dsl`
//! ```

use super::found_apart::{SERVER, lacks_ip};
use super::support::{PING, QUIET, TestFolder, home, on_the_router_of};
use serde_json::Value;
use std::fmt::Write;

/// A line that steps each 500 ms; it begins anew after 20 s.
fn series(middle: u64) -> String {
    let steps =
        [100, 130, 90, 60, 40, 55, 80, 120, 160, 200, 150, 110, 70, 50, 30, 45, 90, 140, 180, 120];
    let mut text = "t_ms,rate_bps,delay_ms,loss\n".to_owned();
    for (n, percent) in steps.iter().chain(steps.iter().rev()).enumerate() {
        writeln!(text, "{},{},15,", n * 500, percent * middle / 100).expect("memory takes it");
    }
    text + "20000\n"
}

const POLICY: &str = r#"
policy = "cake"
follow = { floor = "2/4", ceiling = "25/60", signals = ["stamp:server"] }
"#;

/// What a script on the router says, of a line with these queues.
fn on_the_line(queue: &str, policy: &str, script: &str) -> String {
    let line = format!(
        "up = {{ series = \"up.csv\", {queue} }}\ndown = {{ series = \"down.csv\", {queue} }}\n"
    );
    on_a_line(&line, policy, script)
}

fn on_a_line(line: &str, policy: &str, script: &str) -> String {
    let folder = TestFolder::new();
    folder.file("up.csv", &series(10_000_000));
    folder.file("down.csv", &series(25_000_000));
    // A topology is part of an experiment.
    let network = folder.file("line.toml", &home(false, line, &(QUIET.to_owned() + PING)));
    let policy = folder.file("follow.toml", policy);
    let script = format!("P={}; {script}", policy.display());
    on_the_router_of(&folder, &network.to_string_lossy(), &[SERVER], &script)
}

fn documents(said: &str) -> Vec<Value> {
    let json = serde_json::Deserializer::from_str(&said[said.find('{').expect("JSON")..]);
    json.into_iter().map(|document| document.unwrap_or_else(|e| panic!("{e}: {said}"))).collect()
}

#[test]
fn a_line_that_varies_is_used_and_packets_do_not_wait_in_it() {
    // Flows begin between two steps of the line: those that begin as it steps down find a rate that is too high by then.
    let said = on_the_line(
        "buffer = \"500kB\"",
        POLICY,
        "apply() { $Q shape apply --dev wan --confirm-within never $* >/dev/null; }; \
         flows() { $Q flow server -t 20 --json; $Q flow server -t 20 -R --json; }; \
         apply --file $P; sleep 15.3; flows; \
         apply --policy cake --up 10Mbit --down 25Mbit; flows; \
         apply --policy cake --up 2Mbit --down 4Mbit; flows",
    );
    let all = documents(&said);
    let added = |at: usize| all[at]["grade"]["added_ms"].as_f64().expect("it is graded");
    let mbit = |at: usize| {
        let text = all[at]["headline"].as_str().expect("a headline");
        let rate = text.split(' ').find_map(|word| word.parse::<f64>().ok());
        rate.unwrap_or_else(|| panic!("no rate in {text}"))
    };
    let rows: Vec<(f64, f64)> = (0..6).map(|at| (mbit(at), added(at))).collect();
    let [follow_up, follow_down, mean_up, mean_down, floor_up, floor_down] = rows[..] else {
        panic!("{said}")
    };
    assert!(follow_up.0 > mean_up.0 && follow_up.0 > 4.0 * floor_up.0, "{rows:?}");
    assert!(follow_down.0 > 0.8 * mean_down.0 && follow_down.0 > 3.0 * floor_down.0, "{rows:?}");
    assert!(follow_up.1 < 60.0 && follow_up.1 < mean_up.1 / 5.0, "{rows:?}");
    assert!(follow_down.1 < 40.0 && follow_down.1 < mean_down.1 / 2.0, "{rows:?}");
}

#[test]
fn a_line_whose_queue_hides_from_pings_is_not_steered() {
    let said = on_the_line(
        "queue = \"fq_codel\"",
        POLICY,
        "$Q shape apply --dev wan --confirm-within never --file $P >/dev/null; sleep 34; \
         $Q shape status || echo failed $?; $Q flow server -t 5 >/dev/null; $Q shape status --json || true",
    );
    for words in ["not followed: up it stays at 2Mbit", "blind to the line's queue", "failed 1"] {
        assert!(said.contains(words), "`{words}` should be in: {said}");
    }
    let status = &documents(&said)[0]["shaped"][0];
    for direction in status["follow"]["directions"].as_array().expect("directions") {
        let (rate, floor) = (&direction["rate_bps"], &direction["floor_bps"]);
        assert!(rate == floor && direction["signal"].is_null(), "{direction}");
    }
    for signal in status["follow"]["signals"].as_array().expect("signals") {
        let rose = signal["loaded_ms"].as_f64().zip(signal["idle_ms"].as_f64());
        let lost = signal["arrived_bps"].as_f64() < signal["offered_bps"].as_f64();
        assert!(rose.is_some_and(|(loaded, idle)| loaded - idle < 3.0) && lost, "{signal}");
    }
}

/// As a satellite's user met it: pings stand in no queue whatever the load does.
#[test]
fn five_lines_that_hide_their_queue_are_refused_with_the_reason() {
    let lines = [
        "rate = \"3Mbit\", queue = \"fq_codel\"",
        "rate = \"20Mbit\", queue = \"fq_codel\"",
        "rate = \"12Mbit\", queue = \"cake\"",
        "rate = \"10Mbit\", queue = \"sfq\"",
        "police = { rate = \"12Mbit\", burst = \"50kB\" }",
    ];
    for line in lines {
        let both = format!("both = {{ {line}, delay = \"15ms\" }}");
        let said = on_a_line(
            &both,
            &POLICY.replace("2/4", "2/2"),
            "$Q shape apply --dev wan --confirm-within never --file $P >/dev/null; sleep 45; \
             $Q shape status --json || echo failed $?",
        );
        assert!(said.contains("failed 1"), "{line}: {said}");
        let follow =
            &documents(said.trim_end().trim_end_matches("failed 1"))[0]["shaped"][0]["follow"];
        for direction in follow["directions"].as_array().expect("directions") {
            assert!(direction["rate_bps"] == direction["floor_bps"], "{line}: {direction}");
        }
        for signal in follow["signals"].as_array().expect("signals") {
            assert!(signal["verdict"] == "blind", "{line}: {signal}");
        }
    }
}

#[test]
fn where_nobody_listens_beyond_the_line_nothing_is_known_and_nothing_spins() {
    let policy = POLICY.replace("stamp:server", "stamp:server:9");
    let said = on_the_line(
        "buffer = \"500kB\"",
        &policy,
        "$Q shape apply --dev wan --confirm-within never --file $P >/dev/null; sleep 60; \
         $Q shape status || echo failed $?",
    );
    for words in [
        "up 2Mbit of 2Mbit to 25Mbit",
        "down: unknown whether it sees the line's queue",
        "up it stays at 2Mbit, since of stamp:server:9 it is unknown whether it sees",
        "failed 1",
    ] {
        assert!(said.contains(words), "`{words}` should be in: {said}");
    }
}

#[test]
fn bounds_that_nobody_confirms_are_taken_back_and_an_interface_that_goes_ends_the_follower() {
    if lacks_ip() {
        return;
    }
    let said = on_the_line(
        "buffer = \"500kB\"",
        &POLICY.replace("\"cake\"", "\"host-fair\"\nfound = { places = 4, by = \"address\" }"),
        "apply() { $Q shape apply --dev wan --file $P --confirm-within $1 >/dev/null; }; \
         follower() { readlink /proc/$(cat /run/quell/*.follow)/exe >/dev/null && echo $1 followed || echo $1 alone; }; \
         apply 25s; sleep 15; $Q flow server -t 5 >/dev/null; $Q shape status; follower before; \
         sleep 10; $Q shape status; follower after; \
         apply never; follower again; ip link del wan; sleep 1; follower gone",
    );
    for words in [
        "wan: host-fair, up 2Mbit to 25Mbit, down 4Mbit to 60Mbit, hosts found",
        "stamp:server up: sees the line's queue",
        "before followed",
        "nothing of Quell's is in force",
        "after alone",
        "again followed",
        "gone alone",
    ] {
        assert!(said.contains(words), "`{words}` should be in: {said}");
    }
}

#[test]
fn whatever_becomes_of_the_follower_the_rate_ends_between_the_bounds() {
    if lacks_ip() {
        return;
    }
    let policy = POLICY.replace("]", "], lost = \"floor\"");
    let said = on_the_line(
        "buffer = \"500kB\"",
        &policy,
        "apply() { $Q shape apply --dev wan --confirm-within never --file $P; }; \
         status() { echo \"== $1\"; $Q shape status --json || true; }; \
         $Q tree wan --json >/tmp/before; apply >/dev/null; sleep 15; \
         $Q shape follow --dev wan 2>&1 || echo second $?; \
         $Q flow server -t 5 >/dev/null; status followed; \
         ip -6 route add blackhole fd00:0:0:3::2; ip route add blackhole 10.0.3.2; sleep 3; status silent; \
         ip -6 route del blackhole fd00:0:0:3::2; ip route del blackhole 10.0.3.2; \
         $Q flow server -t 5 >/dev/null; status again; \
         kill -9 $(cat /run/quell/*.follow); sleep 1; status killed; apply; status applied; \
         $Q shape off --dev wan >/dev/null; ls /run/quell; $Q shape status; \
         $Q tree wan --json >/tmp/after; echo; grep -c '\"kind\": \"cake\"' /tmp/before /tmp/after || true",
    );
    assert!(said.contains("second 1") && said.contains("does that already"), "{said}");
    assert!(said.contains("wan: all was as wanted") && !said.contains(".follow"), "{said}");
    assert!(said.contains("nothing of Quell's is in force"), "{said}");
    assert!(said.contains("/tmp/before:0\n/tmp/after:0"), "{said}");
    let part = |name: &str| {
        let (_, rest) = said.split_once(&format!("== {name}\n")).expect(name);
        let mut documents = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        documents.next().expect("a document").expect("JSON")["shaped"][0].clone()
    };
    let up = |status: &Value| {
        let up = &status["follow"]["directions"][0];
        (up["rate_bps"].as_f64().expect("a rate"), up["reason"]["reason"].clone())
    };
    let (rate, _) = up(&part("followed"));
    assert!(rate > 4e6 && part("followed")["in_order"] == true, "{said}");
    assert_eq!(up(&part("silent")), (2e6, "silent".into()), "{said}");
    assert!(up(&part("again")).0 > 3e6, "{said}");
    let killed = part("killed");
    assert_eq!(up(&killed), (2e6, "ended".into()), "{said}");
    let standing = killed["standing"].as_str().unwrap_or_default();
    assert!(killed["in_order"] == false && standing.contains("nobody follows"), "{said}");
    assert_eq!(part("applied")["in_order"], true, "{said}");
}

/// The rate that a `quell flow` tells, in Mbit/s, and what a small packet waited beside it.
fn of_flow(flow: &Value) -> (f64, f64) {
    let text = flow["headline"].as_str().expect("a headline");
    let rate = text.split(' ').find_map(|word| word.parse::<f64>().ok());
    let added = flow["grade"]["added_ms"].as_f64().expect("it is graded");
    (rate.unwrap_or_else(|| panic!("no rate in {text}")), added)
}

#[test]
fn a_line_whose_queue_hides_from_pings_is_followed_by_its_flows() {
    let policy = POLICY.replace("\"stamp:server\"", "\"stamp:server\", \"flows\"");
    let said = on_the_line(
        "queue = \"fq_codel\"",
        &policy,
        "$Q shape apply --dev wan --confirm-within never --file $P >/dev/null; sleep 34; \
         $Q flow server -t 30 --json; $Q flow server -t 30 -R --json; $Q shape status --json; \
         $Q shape status; $Q shape prove --dev wan --to server --time 5s || echo failed $?",
    );
    let all = documents(&said[..said.rfind('}').expect("JSON") + 1]);
    let [(up, _), (down, _)] = [&all[0], &all[1]].map(of_flow);
    assert!(up > 6.0 && down > 14.0, "{up} of some 10 Mbit/s, {down} of some 24: {said}");
    let follow = &all[2]["shaped"][0]["follow"];
    for signal in follow["signals"].as_array().expect("signals") {
        let verdict = if signal["signal"] == "flows" { "sees" } else { "blind" };
        assert_eq!(signal["verdict"], verdict, "{follow:#}");
    }
    for words in ["flows up: sees the line's queue", "led by flows"] {
        assert!(said.contains(words), "`{words}` should be in: {said}");
    }
}

#[test]
fn flows_lead_alone_where_there_is_no_far_end_and_their_program_goes_with_the_follower() {
    let policy = POLICY.replace("\"stamp:server\"", "\"flows\"");
    let said = on_the_line(
        "buffer = \"500kB\"",
        &policy,
        "status() { echo \"== $1\"; $Q shape status; echo sockets $(grep -vc sk /proc/net/packet); }; \
         $Q shape plan --dev wan --file $P; \
         $Q shape apply --dev wan --confirm-within never --file $P >/dev/null; sleep 3; status idle; \
         $Q flow server -t 20 --json; status up; $Q flow server -t 20 -R --json; status down; \
         sleep 3; status silent; kill -9 $(cat /run/quell/*.follow); sleep 1; \
         status killed || true",
    );
    let parts: Vec<&str> = said.split("== ").collect();
    let [plan, idle, up, down, silent, killed] = parts[..] else { panic!("{said}") };
    for (part, words) in [
        (plan, "and sees its queue: flows"),
        (idle, "no TCP flow has filled the line yet"),
        (idle, "sockets 1"),
        (up, "flows up: sees the line's queue"),
        (down, "flows down: sees the line's queue"),
        (silent, "no TCP flow carries much"),
        (killed, "sockets 0"),
    ] {
        assert!(part.contains(words), "`{words}` should be in {part}: {said}");
    }
    let [(up, waits_up), (down, waits_down)] = [idle, up].map(|part| {
        let json = &part[part.find('{').expect("JSON")..];
        of_flow(
            &serde_json::Deserializer::from_str(json)
                .into_iter()
                .next()
                .expect("one")
                .expect("JSON"),
        )
    });
    assert!(up > 6.0 && waits_up < 60.0, "{up} Mbit/s, {waits_up} ms: {said}");
    assert!(down > 14.0 && waits_down < 60.0, "{down} Mbit/s, {waits_down} ms: {said}");
}

#[test]
fn pings_lead_where_no_far_end_takes_a_load_once_the_users_own_flows_have_tested_them() {
    let policy = POLICY.replace("stamp:server", "ping:server");
    let said = on_the_line(
        "buffer = \"500kB\"",
        &policy,
        "$Q shape apply --dev wan --confirm-within never --file $P >/dev/null; sleep 8; $Q shape status; \
         $Q flow server -t 20 --json; $Q flow server -t 20 -R --json; $Q shape status",
    );
    let (json, status) =
        (&said[said.find("{\n").expect("JSON")..], &said[said.rfind('}').expect("JSON")..]);
    let all = documents(&json[..json.rfind('}').expect("JSON") + 1]);
    let [(up, waits_up), (down, waits_down)] = [&all[0], &all[1]].map(of_flow);
    assert!(up > 6.0 && waits_up < 100.0, "{up} Mbit/s, {waits_up} ms: {said}");
    assert!(down > 14.0 && waits_down < 100.0, "{down} Mbit/s, {waits_down} ms: {said}");
    for way in ["up", "down"] {
        assert!(said.contains(&format!("ping:server {way}: unknown")), "{said}");
        assert!(status.contains(&format!("ping:server {way}: sees the line's queue")), "{said}");
    }
}

#[test]
fn plan_recipe_and_proof_know_a_line_that_is_followed() {
    let said = on_the_line(
        "buffer = \"500kB\"",
        POLICY,
        "$Q shape plan --dev wan --file $P; $Q shape recipe --for tc --dev wan --file $P; \
         $Q shape apply --dev wan --confirm-within never --file $P >/dev/null; sleep 26; \
         $Q shape prove --dev wan --to server --time 10s || echo failed $?",
    );
    for words in [
        "and sees its queue: stamp:server",
        "the rates stay at the floors",
        "pass     the rate follows the line between its bounds",
        "led by stamp:server",
    ] {
        assert!(said.contains(words), "`{words}` should be in: {said}");
    }
    assert!(!said.contains("FAIL"), "{said}");
}
