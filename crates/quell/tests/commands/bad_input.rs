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

#[test]
fn each_row_of_bad_input_is_refused_in_its_words() {
    let rows = include_str!("bad_input.txt").lines();
    let mut wrong = Vec::new();
    for row in rows.filter(|row| !row.is_empty() && !row.starts_with("# ")) {
        let [from, to, words] =
            row.split(" => ").collect::<Vec<_>>().try_into().expect("three columns");
        let to = to.replace('↵', "\n");
        let error = match from {
            "^" => error_in(&format!("{to}\n{BASE}")),
            "$" => error_in(&format!("{BASE}\n{to}\n")),
            from => error_of(&from.replace('↵', "\n"), &to),
        };
        let missing = words.split(" | ").filter(|word| !error.contains(word));
        wrong.extend(missing.map(|word| format!("`{word}` in {error}for {row}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_base_itself_is_right_and_only_lacks_its_kernel() {
    let dir = TestFolder::new();
    dir.write("my.toml", BASE);
    let told = dir.quell(&["lab", "check", "my.toml"]).fine();
    says(&told, &["small: 2 scenarios, 2 probes, 4 measurements"]);
    let error = dir.run("my.toml", &[]).refused(3);
    says(&error, &["no-such-kernel", "quell lab kernel build", "--kernel host"]);
    assert_eq!(dir.names(), ["my.toml"], "nothing is made");
}

#[test]
fn a_run_that_would_measure_nothing_is_refused() {
    for (key, why) in [("start = \"2s\"", "after the end"), ("duration = \"0s\"", "does nothing")] {
        says(&error_of("connections = 3", key), &["load `bulk`", why]);
        let probe = format!(
            "{BASE}\n[[probe]]\nname = \"few\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"server\"\n{key}\n"
        );
        says(&error_in(&probe), &["probe `few`", why]);
    }
    let head = BASE.split("[[scenario]]").next().expect("there is one");
    let probe = &BASE[BASE.find("[[probe]]").expect("there is one")..];
    let top = |list: &str| format!("{list} = []\n");
    says(&error_in(&(top("scenario") + head + probe)), &["no scenario", "at least one"]);
    let scenarios = BASE.split("[[probe]]").next().expect("there is one");
    says(&error_in(&(top("probe") + scenarios)), &["no probe", "at least one"]);
    says(&error_in(&(head.to_string() + probe)), &["missing field `scenario`"]);
}

#[test]
fn a_topology_that_is_no_tree_is_refused() {
    let two = BASE.replace("\"b\", \"server\"]", "\"b\", \"server\", \"far\"]").replace(
        "[[load]]",
        "[[topology.link]]\nname = \"more\"\nends = [\"b\", \"far\"]\n[[load]]",
    );
    says(&error_in(&two), &["line 5:", "host `b` has 2 links", "only routers forward"]);
}

#[test]
fn queues_that_can_not_stand_are_refused() {
    let second = BASE
        .replace("\"router:lan-a\"", "\"router:wan\"")
        .replace("[\"shaped\"]", "[\"shaped\", \"fair\"]");
    says(&error_in(&second), &["line 43:", "scenario `full`", "two queues", "`router:wan`"]);
}

#[test]
fn a_claim_that_can_not_be_checked_is_refused() {
    let dir = TestFolder::new();
    let good = "expect = [\"*.ping.rtt.p99 < 1s\", \"full.bulk/bulk-3.goodput > 5kbit\", \"*.bulk.share <= 100%\", \"full.ping.jitter < 1s\", \"full.call.jitter.up < 1s\"]";
    dir.write("good.toml", format!("{good}\n{BASE}"));
    dir.quell(&["lab", "check", "good.toml"]).fine();
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let text = BASE.replace("[\"bulk\"]", "[\"bluk\"]").replace("\"500B\"", "\"4B\"");
    let error = error_in(&text);
    says(&error, &["my.toml, line 45: scenario `full`", "my.toml, line 60: probe `call`"]);
}

#[test]
fn what_is_no_toml_is_told_with_its_line() {
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
