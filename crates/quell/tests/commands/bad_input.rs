//! What a person writes wrong in an experiment file is told with file, line, the wrong word and the right one, before anything starts.

use crate::support::{TestFolder, says};

/// An experiment in which nothing is wrong.
const BASE: &str = include_str!("../support/base.toml");

/// The error for the base with one thing changed.
#[track_caller]
fn error_of(from: &str, to: &str) -> String {
    assert_eq!(BASE.matches(from).count(), 1, "`{from}` stands once in the base");
    error_in(&BASE.replace(from, to))
}

/// The error for a text: wrong usage, told with the file's name, and nothing is made.
#[track_caller]
fn error_in(text: &str) -> String {
    let dir = TestFolder::new();
    dir.write("my.toml", text);
    let error = dir.run("my.toml", &[]).refused(2);
    says(&error, &["quell: my.toml"]);
    assert_eq!(dir.names(), ["my.toml"], "nothing is made");
    error
}

/// One case a line: what is replaced, by what, and what the error must say.
#[track_caller]
fn each(cases: &[(&str, &str, &[&str])]) {
    for (from, to, words) in cases {
        says(&error_of(from, to), words);
    }
}

/// The same with a line added at the top.
#[track_caller]
fn with_line(line: &str, words: &[&str]) {
    let error = error_in(&format!("{line}\n{BASE}"));
    says(&error, &["line 1"]);
    says(&error, words);
}

/// The same with an element added at the end, in line 62 and after.
#[track_caller]
fn with_element(element: &str, words: &[&str]) {
    says(&error_in(&format!("{BASE}\n{element}\n")), words);
}

#[test]
fn the_base_itself_is_right_and_only_lacks_its_kernel() {
    let dir = TestFolder::new();
    dir.write("my.toml", BASE);
    let told = dir.quell(&["check", "my.toml"]).fine();
    says(&told, &["small: 2 scenarios, 2 probes, 4 measurements"]);
    let error = dir.run("my.toml", &[]).refused(3);
    says(&error, &["no-such-kernel", "quell kernel build", "--kernel host"]);
    assert_eq!(dir.names(), ["my.toml"], "nothing is made");
}

#[test]
fn a_misspelt_key_is_told_from_the_right_one_in_its_own_line() {
    each(&[
        ("duration =", "duraton =", &["line 2,", "`duraton`", "did you mean `duration`?"]),
        ("routers =", "router =", &["line 6,", "did you mean `routers`?"]),
        ("ends = [\"b\"", "edns = [\"b\"", &["line 15,", "did you mean `ends`?"]),
        (
            "up = { rate = \"2Mbit\", delay",
            "up = { rate = \"2Mbit\", dealy",
            &["line 20,", "did you mean `delay`?"],
        ),
        ("connections", "conections", &["line 28,", "did you mean `connections`?"]),
        ("policy =", "polciy =", &["line 33,", "did you mean `policy`?"]),
        ("rate = \"1.8Mbit\"", "rtae = \"1.8Mbit\"", &["line 33,", "did you mean `rate`?"]),
        ("target", "tarqet", &["line 38,", "fq_codel", "did you mean `target`?"]),
        ("loads =", "load =", &["line 45,", "did you mean `loads`?"]),
        ("size =", "sise =", &["line 60,", "did you mean `size`?"]),
        // Right in a ping, wrong in a udp probe: the line is that of the second probe.
        ("rate = \"200kbit\"", "interval = \"20ms\"", &["line 59,", "`interval`", "`rate`"]),
    ]);
}

#[test]
fn a_misspelt_kind_is_told_from_the_right_ones() {
    each(&[
        ("\"tcp\"", "\"tpc\"", &["line 25,", "`kind`", "did you mean `tcp`?"]),
        ("\"udp\"", "\"upd\"", &["line 56,", "did you mean `udp`?"]),
        ("\"fq_codel\"", "\"fq-codel\"", &["line 38,", "did you mean `fq_codel`", "cake"]),
        ("\"host-fair\"", "\"hostfair\"", &["line 33,", "did you mean `host-fair`?"]),
    ]);
    with_line("probes-run = \"aparrt\"", &["`probes-run`", "did you mean `apart`?"]);
}

#[test]
fn a_wrong_unit_or_number_is_told_with_what_can_stand_there() {
    each(&[
        ("\"2s\"", "\"5Mbit\"", &["line 2,", "`duration`", "5Mbit", "such as 20ms"]),
        ("\"2s\"", "2", &["line 2,", "it has no unit"]),
        ("\"2s\"", "\"-2s\"", &["line 2,", "it is negative"]),
        ("\"2s\"", "\"99999999999s\"", &["line 2,", "99999999999s", "above"]),
        ("\"2Mbit\"", "\"20ms\"", &["line 20,", "`rate`", "20ms", "such as 2.5Mbit"]),
        ("\"2Mbit\"", "\"10Mbps\"", &["line 20,", "two ways", "Mbit or MBps"]),
        ("\"2Mbit\"", "\"0Mbit\"", &["line 20,", "it is zero"]),
        ("\"2Mbit\"", "\"-2Mbit\"", &["line 20,", "it is negative"]),
        ("\"200kbit\"", "\"0kbit\"", &["line 59,", "`rate`", "it is zero"]),
        ("delay = \"10ms\" }", "loss = \"101%\" }", &["line 21,", "`loss`", "above 100%"]),
        ("connections = 3", "connections = -3", &["line 28,", "`connections`", "a whole number"]),
        ("connections = 3", "connections = \"3\"", &["line 28,", "a whole number"]),
        ("connections = 3", "connections = 0", &["line 28:", "give 1 to 1000"]),
        ("connections = 3", "tos = \"EFF\"", &["line 28,", "`tos`", "EFF", "DSCP name"]),
        ("connections = 3", "mss = 5", &["line 28:", "load `bulk`", "mss of 5", "88 to 32767"]),
        ("connections = 3", "own-addresses = true", &["line 28:", "load `bulk`", "ipv6 = true"]),
        ("connections = 3", "window = \"5B\"", &["line 28:", "load `bulk`", "window of 5B"]),
        ("connections = 3", "bytes = \"0B\"", &["load `bulk`", "0 bytes"]),
        ("\"500B\"", "\"40B\"", &["line 60:", "probe `call`", "40B", "44 to 65507 bytes"]),
        ("\"500B\"", "\"70kB\"", &["probe `call`", "70kB", "44 to 65507 bytes"]),
        ("\"200kbit\"", "\"9999Tbit\"", &["line 59:", "probe `call`", "9999Tbit", "a lower rate"]),
        (
            "kind = \"ping\"",
            "kind = \"ping\"\ninterval = \"0s\"",
            &["line 51:", "probe `ping`", "give at least 100us"],
        ),
        ("\"1.8Mbit\"", "\"10kbit\"", &["line 30:", "queue `shaped`", "10kbit", "at least 16kbit"]),
    ]);
}

#[test]
fn a_run_that_would_measure_nothing_is_refused() {
    with_line("repeat = 0", &["repeat = 0", "at least 1"]);
    with_line("repeat = -1", &["`repeat`", "a whole number"]);
    with_line("warm-up = \"2h\"", &["at most 1h"]);
    with_line("sample-queues = \"0s\"", &["at least 1ms"]);
    says(&error_of("\"2s\"", "\"0s\""), &["line 2", "100ms to 24h"]);
    for (key, why) in [("start = \"2s\"", "after the end"), ("duration = \"0s\"", "does nothing")] {
        says(&error_of("connections = 3", key), &["load `bulk`", why]);
        let probe = format!(
            "{BASE}\n[[probe]]\nname = \"few\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"server\"\n{key}\n"
        );
        says(&error_in(&probe), &["probe `few`", why]);
    }
    says(
        &error_in(&format!("repeat = 4000000000\n{BASE}")),
        &["16000000000 measurements", "10000"],
    );
    let head = BASE.split("[[scenario]]").next().expect("there is one");
    let probe = &BASE[BASE.find("[[probe]]").expect("there is one")..];
    let top = |list: &str| format!("{list} = []\n");
    says(&error_in(&(top("scenario") + head + probe)), &["no scenario", "at least one"]);
    let scenarios = BASE.split("[[probe]]").next().expect("there is one");
    says(&error_in(&(top("probe") + scenarios)), &["no probe", "at least one"]);
    says(&error_in(&(head.to_string() + probe)), &["missing field `scenario`"]);
}

#[test]
fn a_name_that_nothing_has_is_told_from_the_near_one() {
    each(&[
        (
            "from = \"a\"",
            "from = \"servr\"",
            &["line 26:", "load `bulk`", "`servr`", "did you mean `server`?"],
        ),
        (
            "kind = \"ping\"\nfrom = \"b\"",
            "kind = \"ping\"\nfrom = \"c\"",
            &["line 51:", "probe `ping`", "`c`", "there are: a, b, server, router"],
        ),
        ("[\"bulk\"]", "[\"bluk\"]", &["line 45:", "scenario `full`", "did you mean `bulk`?"]),
        (
            "[\"shaped\"]",
            "[\"shapde\"]",
            &["line 46:", "scenario `full`", "did you mean `shaped`?"],
        ),
        (
            "nat = [\"router:wan\"]",
            "nat = [\"router:wann\"]",
            &["line 7:", "did you mean `router:wan`?"],
        ),
        // Also where no scenario uses the queue yet.
        ("\"router:lan-a\"", "\"router:lan\"", &["line 37:", "queue `fair`", "`router:lan`"]),
        ("\"router:lan-a\"", "\"router\"", &["line 37,", "`on`", "node:link"]),
        (
            "ends = [\"a\", \"router\"]",
            "ends = [\"a\", \"routr\"]",
            &["line 11:", "link `lan-a`", "did you mean `router`?"],
        ),
        (
            "queues = [",
            "sysctl = { servr = { \"net.ipv4.tcp_ecn\" = \"1\" } }\nqueues = [",
            &["scenario `full`", "did you mean `server`?"],
        ),
    ]);
}

#[test]
fn names_are_unique_and_such_that_the_kernel_takes_them() {
    each(&[
        ("\"full\"", "\"idle\"", &["line 43:", "the scenario `idle` is there twice"]),
        ("\"call\"", "\"ping\"", &["line 54:", "the probe `ping` is there twice"]),
        ("\"call\"", "\"bulk\"", &["`bulk` is both a load and a probe"]),
        ("\"call\"", "\"all\"", &["line 54:", "probe `all`", "all probes together"]),
        (
            "\"b\", \"server\"]",
            "\"b\", \"b\", \"server\"]",
            &["line 5:", "the node `b` is there twice"],
        ),
        ("[\"router\"]", "[\"router\", \"a\"]", &["the node `a` is there twice"]),
        ("name = \"lan-b\"", "name = \"lan-a\"", &["the link `lan-a` is there twice"]),
        (
            "name = \"lan-b\"",
            "name = \"a-very-long-line\"",
            &["line 14:", "a-very-long-line", "15 characters"],
        ),
        ("name = \"lan-b\"", "name = \"lan b\"", &["line 14:", "lan b", "letters, digits"]),
        ("name = \"small\"", "name = \"../small\"", &["line 1:", "../small", "letters, digits"]),
        ("name = \"small\"", "name = \"\"", &["line 1:", "1 to 40 letters"]),
        (
            "duration = \"2s\"",
            "duration = \"2s\"\nduration = \"3s\"",
            &["line 3,", "`duration` is there twice"],
        ),
    ]);
}

#[test]
fn a_topology_that_is_no_tree_is_refused() {
    each(&[
        (
            "\"b\", \"server\"]",
            "\"b\", \"server\", \"lost\"]",
            &["line 5:", "`a` has no path to `lost`"],
        ),
        (
            "[[load]]",
            "[[topology.link]]\nname = \"short-cut\"\nends = [\"a\", \"b\"]\n[[load]]",
            &["line 25:", "link `short-cut` closes a circle", "take one link"],
        ),
        (
            "[[load]]",
            "[[topology.link]]\nname = \"self\"\nends = [\"a\", \"a\"]\n[[load]]",
            &["line 25:", "link `self`", "both ends"],
        ),
        ("ends = [\"a\", \"router\"]", "ends = [\"a\"]", &["line 11,", "`ends`", "a list of two"]),
    ]);
    let two = BASE.replace("\"b\", \"server\"]", "\"b\", \"server\", \"far\"]").replace(
        "[[load]]",
        "[[topology.link]]\nname = \"more\"\nends = [\"b\", \"far\"]\n[[load]]",
    );
    says(&error_in(&two), &["line 5:", "host `b` has 2 links", "only routers forward"]);
}

#[test]
fn a_line_that_can_not_be_is_refused() {
    let down = "down = { rate = \"8Mbit\", delay = \"10ms\" }";
    each(&[
        (down, "down = { buffer = \"100p\" }", &["link `wan`, down", "`buffer` needs a `rate`"]),
        (
            down,
            "down = { delay = \"1ms\", jitter = \"2ms\" }",
            &["link `wan`, down", "`jitter`", "`delay`"],
        ),
        (down, "both = { delay = \"1ms\" }", &["link `wan`", "`both`"]),
        (
            down,
            "down = { delay = \"99999h\" }",
            &["line 20:", "link `wan`, down", "`delay` is at most 30min", "1h, there and back"],
        ),
        (down, "tx-queues = 65", &["line 17:", "link `wan`", "65 transmit queues", "1 to 64"]),
        (down, "mtu = 100", &["line 17:", "link `wan`", "100", "1280"]),
        (down, "down = 5", &["line 21,", "`down`", "a table"]),
    ]);
}

#[test]
fn traffic_from_a_host_to_itself_is_refused() {
    each(&[
        ("from = \"a\"", "from = \"server\"", &["load `bulk`", "from `server` to itself"]),
        (
            "kind = \"udp\"\nfrom = \"b\"",
            "kind = \"udp\"\nfrom = \"server\"",
            &["probe `call`", "to itself"],
        ),
    ]);
}

#[test]
fn queues_that_can_not_stand_are_refused() {
    let fair = "queue = { kind = \"fq_codel\", target = \"5ms\" }";
    each(&[
        ("[\"shaped\"]", "[\"shaped\", \"shaped\"]", &["line 46:", "`shaped` twice"]),
        (fair, "", &["line 35:", "queue `fair`", "either `queue` or `policy`"]),
        (
            fair,
            "queue = { kind = \"fq_codel\", filter = [{ kind = \"flow\", handle = 1, mode = \"hash\", keys = [\"src\"], protocol = \"ip\" }] }",
            &["line 38:", "queue `fair`", "drops each packet that no filter matches", "matchall"],
        ),
        (
            fair,
            "filter = [{ kind = \"matchall\", action = \"pass\" }]",
            &["queue `fair`", "`filter` is for what comes in", "direction = \"in\""],
        ),
        (fair, "queue = \"tbf\"", &["queue `fair`", "tbf needs `rate`"]),
        (
            fair,
            "queue = { kind = \"fq_codel\", target = \"5Mbit\" }",
            &["line 38,", "`target`", "5Mbit"],
        ),
        (
            "policy =",
            "direction = \"in\"\npolicy =",
            &["queue `shaped`", "translates addresses", "serves = \"ahead\""],
        ),
        (
            "policy =",
            "direction = \"inn\"\npolicy =",
            &["line 33,", "`direction`", "did you mean `in`?"],
        ),
    ]);
    let second = BASE
        .replace("\"router:lan-a\"", "\"router:wan\"")
        .replace("[\"shaped\"]", "[\"shaped\", \"fair\"]");
    says(&error_in(&second), &["line 43:", "scenario `full`", "two queues", "`router:wan`"]);
}

#[test]
fn a_timeline_that_can_not_happen_is_refused() {
    let wan = "link = \"wan\"\nup = { rate = \"1Mbit\" }";
    with_element(
        &format!("[[timeline]]\nat = \"3s\"\n{wan}"),
        &["line 62:", "timeline at 3s", "after the end of the measurement (2s)"],
    );
    with_element(
        "[[timeline]]\nat = \"1s\"\nlink = \"wna\"\nup = { rate = \"1Mbit\" }",
        &["line 62:", "the link `wna`", "did you mean `wan`?"],
    );
    with_element("[[timeline]]\nat = \"1s\"\nlink = \"wan\"", &["`up`, `down` or both"]);
    with_element(
        &format!("[[timeline]]\nat = \"1s\"\nscenarios = [\"ful\"]\n{wan}"),
        &["line 62:", "the scenario `ful`", "did you mean `full`?"],
    );
    with_element(
        "[[timeline]]\nat = \"1s\"\nlink = \"lan-a\"\nup = { buffer = \"10p\" }",
        &["timeline at 1s", "link `lan-a`, up", "`buffer` needs a `rate`"],
    );
    with_element(
        "[[timeline]]\nat = \"1s\"\nlink = \"wan\"\nup = { delay = \"31min\" }",
        &["timeline at 1s", "link `wan`, up", "`delay` is at most 30min"],
    );
    with_element(
        "[[timeline]]\nat = \"1s\"\nlink = \"wan\"\nup = { jitter = \"50ms\" }",
        &["timeline at 1s", "link `wan`, up", "`jitter`"],
    );
    with_element(
        "[[timeline]]\nat = \"1s\"\non = \"router:wan\"\nqueue = { kind = \"tbf\" }",
        &["line 62:", "timeline at 1s", "tbf needs `rate`"],
    );
    with_element(
        &format!("[[timeline]]\nat = \"1s\"\n{wan}\nqueue = \"fq_codel\""),
        &["timeline at 1s", "`queue` goes with `on`"],
    );
}

#[test]
fn a_setting_of_the_whole_machine_is_refused() {
    with_line("sysctl = { \"vm.swappiness\" = \"1\" }", &["vm.swappiness", "begin with net."]);
    with_line("sysctl = { \"net/../kernel/panic\" = \"1\" }", &["net/../kernel/panic"]);
    says(
        &error_of("queues = [", "sysctl = { a = { \"kernel.panic\" = \"1\" } }\nqueues = ["),
        &["scenario `full`", "kernel.panic", "begin with net."],
    );
}

#[test]
fn a_route_that_can_not_be_meant_is_refused() {
    let with = |route: &str, words: &[&str]| {
        let error = error_of("queues = [", &format!("routes = [{route}]\nqueues = ["));
        says(&error, &["scenario `full`"]);
        says(&error, words);
    };
    with(
        "{ on = \"servr\", to = \"a\", quickack = true }",
        &["line 46:", "did you mean `server`?"],
    );
    with("{ on = \"a\", to = \"servr\", quickack = true }", &["did you mean `server`?"]);
    with("{ on = \"router\", to = \"a\", quickack = true }", &["`router` is a router", "host"]);
    with("{ on = \"a\", to = \"a\", quickack = true }", &["never leaves it"]);
    with("{ on = \"a\", to = \"b\" }", &["sets nothing", "`quickack` or `rto-min`"]);
    with("{ on = \"a\", to = \"b\", rto-min = \"1500us\" }", &["1.5ms", "whole milliseconds"]);
    with("{ on = \"a\", to = \"b\", rto-min = \"121s\" }", &["121s", "1ms to 120s"]);
    let twice = "{ on = \"a\", to = \"b\", rto-min = \"9ms\" }";
    with(&format!("{twice}, {twice}"), &["the route of `a` to `b` is there twice"]);
    let error = error_of(
        "queues = [",
        "routes = [{ on = \"a\", to = \"b\", quick-ack = true }]\nqueues = [",
    );
    says(&error, &["line 46", "quick-ack", "quickack"]);
}

#[test]
fn a_claim_that_can_not_be_checked_is_refused() {
    let cases: &[(&str, &[&str])] = &[
        ("nonsense", &["write a comparison"]),
        ("full.ping.rtt.p99\\n< 5ms", &["one line of plain text"]),
        ("ping < 5ms", &["`ping`", "scenario.probe.metric"]),
        ("ful.ping.rtt.p99 < 1s", &["no scenario `ful`", "did you mean `full`?"]),
        ("full.pign.rtt.p99 < 1s", &["no probe or load `pign`", "did you mean `ping`?"]),
        ("full.ping.rtt.p98 < 1s", &["`rtt.p98`", "did you mean `rtt.p9"]),
        ("full.ping.rtt.p99 < 1Mbit", &["1Mbit", "such as 20ms"]),
        ("full.ping.rtt.p99 < ", &["it is empty"]),
        ("full.ping.rtt.p99 = 20ms", &["give a tolerance", "± 1us"]),
        ("full.ping.rtt.p99 < x * idle.ping.rtt.p99", &["`x` is not a factor"]),
        ("full.ping.rtt.p99 < 0.5 * full.call.loss", &["the same unit"]),
        ("full.ping.goodput > 1Mbit", &["the ping probe `ping`", "rtt.p99"]),
        ("full.call.jitter < 5ms", &["three things", "`jitter.up`, `jitter.down` or `jitter.rtt`"]),
        ("full.ping.jitter.up < 5ms", &["the ping probe `ping`", "jitter.rtt"]),
        ("full.ping/other.rtt.p99 < 5ms", &["no stream `other`", "ping"]),
        ("full.bulk/bulk-4.goodput > 5kbit", &["no stream `bulk-4`", "bulk-3"]),
        ("idle.bulk.goodput > 1Mbit", &["load `bulk`", "scenario `idle`"]),
    ];
    for (claim, words) in cases {
        let line = format!("expect = [\"{claim}\"]");
        with_line(&line, words);
        with_line(&line, &[&format!("expect \"{claim}\"")]);
    }
    let dir = TestFolder::new();
    let good = "expect = [\"*.ping.rtt.p99 < 1s\", \"full.bulk/bulk-3.goodput > 5kbit\", \"*.bulk.share <= 100%\", \"full.ping.jitter < 1s\", \"full.call.jitter.up < 1s\"]";
    dir.write("good.toml", format!("{good}\n{BASE}"));
    dir.quell(&["check", "good.toml"]).fine();
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let text = BASE.replace("[\"bulk\"]", "[\"bluk\"]").replace("\"500B\"", "\"4B\"");
    let error = error_in(&text);
    says(&error, &["my.toml, line 45: scenario `full`", "my.toml, line 60: probe `call`"]);
}

#[test]
fn what_is_no_toml_is_told_with_its_line() {
    each(&[
        ("\"2s\"", "\"2s", &["line 2,", "`duration`"]),
        ("[[load]]", "[[load]", &["line 23,", "unclosed"]),
        ("kind = \"ping\"", "", &["line 48,", "missing field `kind`"]),
        ("rate = \"200kbit\"", "", &["line 54,", "missing field `rate`"]),
        ("hosts = [\"a\", \"b\", \"server\"]", "hosts = \"a\"", &["line 5,", "`hosts`", "a list"]),
    ]);
    says(&error_in(""), &["missing field `name`"]);
    says(&error_in("\0\0\0"), &["line 1,"]);
    says(&error_in(&format!("x = {}", "[".repeat(100_000))), &["nested too deeply"]);
    says(&error_in(&format!("{}x = 1", "a.".repeat(100_000))), &["nested too deeply"]);
    says(&error_in(&format!("x = {}", "{a=".repeat(100_000))), &["nested too deeply"]);
}

#[test]
fn what_a_file_holds_does_not_command_the_terminal() {
    let error = error_of("\"lan-b\"", "\"\\u001b[2J\\u0007\"");
    says(&error, &["letters, digits", "\\u{1b}[2J"]);
    assert!(!error.contains(['\u{1b}', '\u{7}']), "{error:?}");
}
