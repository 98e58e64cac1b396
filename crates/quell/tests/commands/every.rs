//! The command line itself: files that can't be read, options that can't be meant, help, and output that nobody takes.

use crate::support::left_out;
use crate::support::{TestFolder, nothing_at, program, said, says};
use quell_experiment::builtin;

const BASE: &str = include_str!("../support/base.toml");

/// A folder with a right experiment in it.
fn dir() -> TestFolder {
    let dir = TestFolder::new();
    dir.write("my.toml", BASE);
    dir
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("this is not JSON: {e}\n{text}"))
}

// ── the program ──────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn its_version_is_enough_to_report_a_bug() {
    let dir = dir();
    let short = dir.quell(&["-V"]).fine();
    assert_eq!(short.lines().count(), 1, "{short}");
    assert!(short.starts_with(concat!("quell ", env!("CARGO_PKG_VERSION"))), "{short}");
    let long = dir.quell(&["--version"]).fine();
    says(&long, &["commit ", "built for ", "compiler ", "lab kernel ", "this host ", "Linux "]);
    assert!(long.lines().all(|line| line.len() < 100), "{long}");
    let json: serde_json::Value =
        serde_json::from_str(&dir.quell(&["version", "--json"]).fine()).expect("JSON");
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert!(json["this_host"].as_str().is_some_and(|host| host.contains("Linux")), "{json}");
}

#[test]
fn an_option_that_is_not_there_is_refused_without_advice_that_can_not_help() {
    let said = dir().quell(&["flow", "example.org", "-q"]).refused(2);
    says(&said, &["unexpected argument '-q'"]);
    assert!(!said.contains("-- -q"), "{said}");
}

#[test]
fn a_kernel_that_is_carried_is_there_afterwards_and_one_that_was_cut_is_refused() {
    let dir = dir();
    let exported = dir.quell(&["lab", "kernel", "export", "lab.kernel"]);
    if exported.error.contains("there is no lab kernel") {
        left_out::for_want_of(exported.error);
        return;
    }
    exported.fine();
    let elsewhere = |arguments: &[&str]| {
        let mut command = dir.command(arguments);
        command.env("QUELL_CACHE", dir.path("cache"));
        said(command, arguments)
    };
    assert!(elsewhere(&["lab", "kernel", "path"]).code == Some(1), "there is none yet");
    let whole = std::fs::read(dir.path("lab.kernel")).expect("it was written");
    dir.write("cut", &whole[..whole.len() / 2]);
    says(&elsewhere(&["lab", "kernel", "import", "cut"]).refused(1), &["damaged"]);
    says(
        &elsewhere(&["lab", "kernel", "import", "my.toml"]).refused(1),
        &["no file of `quell lab kernel export`"],
    );
    nothing_at(&dir.path("cache"));
    let path = elsewhere(&["lab", "kernel", "import", "lab.kernel"]).fine();
    assert_eq!(elsewhere(&["lab", "kernel", "path"]).fine(), path);
    // Exported again it is the same file.
    elsewhere(&["lab", "kernel", "export", "again"]).fine();
    assert!(std::fs::read(dir.path("again")).expect("it was written") == whole);
}

#[test]
fn of_runs_with_the_same_name_the_latest_is_meant_and_named() {
    let dir = dir();
    // The same file of a ping, whose answers took 10 ms, 20 ms and 30 ms: three runs of one name, a second apart.
    for (n, ms) in [(0, 10), (1, 20), (2, 30)] {
        let at = 1_700_000_000_500 + 1000 * n;
        dir.write("mine.json", crate::support::irtt(std::iter::once((at, ms))));
        dir.quell(&["data", "import", "mine.json"]).fine();
    }
    let latest = "20231114T221322-mine";
    for command in ["show", "open", "export"] {
        let arguments: &[&str] = match command {
            "export" => &["data", "export", "csv", "mine", "--table", "samples"],
            "open" => &["open", "mine", "--no-open"],
            command => &[command, "mine"],
        };
        let read = dir.quell(arguments);
        assert_eq!(read.code, Some(0), "{}", read.error);
        says(&read.error, &["3 runs are called mine; this is the latest", latest]);
        if command == "show" {
            says(&read.out, &[latest]);
        }
    }
    // Who names one of them wholly meant that one, and nothing is said.
    for name in ["20231114T221320-mine", "20231114T221321-mine"] {
        let read = dir.quell(&["show", name]);
        assert_eq!(read.error, "", "{name}");
        says(&read.out, &[name]);
    }
}

// ── files ───────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_file_that_is_no_experiment_is_refused_at_once() {
    let dir = dir();
    dir.write("noise.toml", [0x7f, b'E', b'L', b'F', 0x80, 0xff, 0x00, 0xfe]);
    dir.write("latin.toml", b"name = \"x\"\ntitle = \"gr\xfc\xdfe\"\n");
    std::fs::create_dir(dir.path("folder.toml")).expect("a folder can be made");
    std::fs::File::create(dir.path("large.toml"))
        .and_then(|f| f.set_len(100 << 20))
        .expect("a file with a hole can be made");
    let before = dir.names();
    for (file, words) in [
        ("missing.toml", &["missing.toml", "no such file", "quell lab list"][..]),
        ("./home-link", &["./home-link", "no such file"]),
        ("folder.toml", &["folder.toml", "a folder"]),
        ("noise.toml", &["noise.toml, line 1", "not text"]),
        ("latin.toml", &["latin.toml, line 2", "UTF-8"]),
        ("large.toml", &["large.toml", "too large", "1048576 bytes"]),
        ("/dev/zero", &["/dev/zero", "too large"]),
        ("/dev/null", &["/dev/null", "missing field `name`"]),
        ("my.toml/inside", &["my.toml/inside"]),
    ] {
        says(&dir.run(file, &[]).refused(2), words);
        says(&dir.quell(&["lab", "check", file]).refused(2), words);
    }
    assert_eq!(dir.names(), before, "nothing is made");
}

#[test]
fn an_unknown_experiment_is_told_from_the_near_one() {
    let dir = TestFolder::new();
    for (name, words) in [
        ("home-lnik", &["`home-lnik`", "did you mean `home-link`?"][..]),
        ("home_link", &["did you mean `home-link`?"]),
        ("rrull", &["did you mean `rrul`?"]),
        ("zebra", &["`zebra`", "there are: home-link, home-link-pages, rrul"]),
        ("", &["there are: home-link"]),
    ] {
        says(&dir.run(name, &[]).refused(2), words);
        says(&dir.quell(&["lab", "check", name]).refused(2), words);
        says(&dir.quell(&["lab", "show", name]).refused(2), words);
        says(&dir.quell(&["lab", "exec", name, "a", "--", "true"]).refused(2), words);
    }
    assert_eq!(dir.names(), [""; 0], "nothing is made");
}

#[test]
fn results_need_a_place_and_that_is_told_before_anything_runs() {
    let dir = dir();
    dir.write("file", "");
    for (options, words) in [
        (&["--out", "file"][..], &["file", "not a folder", "--out"][..]),
        (&["--out", "file/deep/inside"], &["file/deep/inside", "not a folder", "--out"]),
        (&["--out", "new", "--report", "nowhere/report.html"], &["nowhere", "--report"]),
        (&["--out", "new", "--report", "."], &["a folder", "--report"]),
    ] {
        let error = dir.quell(&[&["run", "my.toml"], options].concat()).refused(3);
        says(&error, words);
    }
    says(&dir.quell(&["show", "--list", "--out", "file"]).refused(2), &["file", "--out"]);
    assert_eq!(dir.names(), ["file", "my.toml"], "nothing is made");
}

#[test]
fn a_kernel_that_is_not_there_or_is_none_is_told_with_what_to_do() {
    let dir = dir();
    dir.write("kernel", "not a kernel");
    for file in ["nowhere/linux", "kernel"] {
        let run = ["run", "my.toml", "--kernel-file", file];
        says(&dir.quell(&run).refused(3), &[file, "quell lab kernel build", "--kernel host"]);
        let exec = ["lab", "exec", "my.toml", "b", "--kernel-file", file, "--", "true"];
        says(&dir.quell(&exec).refused(3), &[file, "quell lab kernel build"]);
        says(&dir.quell(&["lab", "kernel", "path", "--kernel-file", file]).refused(1), &[file]);
    }
    nothing_at(&dir.path("runs"));
}

// ── options ─────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_change_that_can_not_be_made_is_told_as_it_was_typed() {
    let dir = dir();
    for (change, words) in [
        ("nonsense", &["--set nonsense", "path=value"][..]),
        ("=5", &["--set =5", "empty part"]),
        ("a..b=1", &["--set a..b=1", "empty part"]),
        ("duratoin=5s", &["with duratoin=5s", "did you mean `duration`?"]),
        ("topology.link.wna.up.rate=1Mbit", &["topology.link.wna", "did you mean `wan`?"]),
        (
            "topology.link.wan.up.rat=1Mbit",
            &["with topology.link.wan.up.rat=1Mbit", "did you mean `rate`?"],
        ),
        ("topolgy.link.wan.up.rate=1Mbit", &["did you mean `topology`?"]),
        ("topology.link.wan.up.rate.x=1", &["`x` can't be set"]),
        ("topology.link.wan.up.rate=5s", &["`rate`", "5s", "such as 2.5Mbit"]),
        ("probe.9.from=b", &["`9`", "there are: ping, call"]),
        ("probe.ping=x", &["say which field of `ping`"]),
        ("probe.ping.from=c", &["with probe.ping.from=c", "probe `ping`", "`c`"]),
        ("repeat=often", &["with repeat=often", "`repeat`", "a whole number"]),
        ("scenario=5", &["`scenario`", "a list"]),
        ("topology=5", &["`topology`", "a table"]),
        ("expect=[", &["`expect`", "a list"]),
    ] {
        // Another change, which is right, is not blamed.
        let error = dir.run("my.toml", &["--set", "seed=7", "--set", change]).refused(2);
        says(&error, words);
        assert!(!error.contains("line "), "lines of the changed text say nothing: {error}");
    }
    let endless = format!("{}x=1", "a.".repeat(50_000));
    says(&dir.run("my.toml", &["--set", &endless]).refused(2), &["50001 parts deep"]);
    assert_eq!(dir.names(), ["my.toml"], "nothing is made");
}

#[test]
fn a_change_is_not_blamed_for_what_is_wrong_in_the_file() {
    let dir = dir();
    dir.write("my.toml", BASE.replace("\"500B\"", "\"4B\""));
    let error = dir.run("my.toml", &["--duration", "5s", "--repeat", "0"]).refused(2);
    says(&error, &["my.toml, line 60: probe `call`"]);
    assert!(!error.contains("5s") && !error.contains("my.toml with"), "{error}");
}

#[test]
fn the_right_words_are_listed_once() {
    let dir = dir();
    dir.write("calls.json", crate::support::irtt([(1_000, 20), (1_020, 21)].into_iter()));
    dir.quell(&["data", "import", "calls.json"]).fine();
    for (error, word) in [
        (dir.run("my.toml", &["--only", "zebra"]).refused(2), "idle"),
        (dir.quell(&["plot", "--figure", "zebra"]).refused(2), "rtt-cdf,"),
        (dir.quell(&["tune", "plan", "--role", "zebra"]).refused(2), "measure"),
    ] {
        assert_eq!(error.matches(word).count(), 1, "{error}");
    }
}

#[test]
fn options_that_can_not_be_meant_are_refused() {
    let dir = dir();
    for (options, words) in [
        (&["--only", "idel"][..], &["no scenario `idel`", "did you mean `idle`?"][..]),
        (&["--only", "zebra"], &["there are: idle, full"]),
        (&["--jobs", "0"], &["--jobs 0", "at least 1"]),
        (&["--jobs", "-1"], &["'-1'", "--jobs"]),
        (&["--jobs", "many"], &["'many'", "--jobs"]),
        (&["--repeat", "0"], &["repeat = 0", "at least 1"]),
        (&["--repeat", "-1"], &["'-1'", "--repeat"]),
        (&["--duration", "0s"], &["duration", "100ms to 24h"]),
        (&["--duration", "5"], &["--duration", "no unit", "such as 20ms"]),
        (&["--duration", "5Mbit"], &["--duration", "5Mbit", "such as 20ms"]),
        (&["--seed", "x"], &["'x'", "--seed"]),
        (&["--memory", "5"], &["--memory", "64..=65536"]),
        (&["--kernel", "hst"], &["'hst'", "guest, host"]),
        (&["--kernel-flie", "x"], &["'--kernel-flie'", "--kernel-file"]),
        (&["more"], &["'more'"]),
    ] {
        says(&dir.run("my.toml", options).refused(2), words);
    }
    assert_eq!(dir.names(), ["my.toml"], "nothing is made");
    says(&dir.quell(&["shw"]).refused(2), &["'shw'", "show"]);
    let renamed = dir.quell(&["kernel", "build"]).refused(2);
    says(&renamed, &["there is no `quell kernel`", "`quell lab kernel`"]);
    says(&dir.quell(&[]).refused(2), &["Usage: quell", "quell run home-link", "Exit codes"]);
}

#[test]
fn a_lab_needs_hosts_and_programs_that_are_there() {
    let dir = dir();
    dir.write(
        "topology.toml",
        "hosts = [\"a\", \"b\"]\n[[link]]\nname = \"l\"\nends = [\"a\", \"bb\"]\n",
    );
    let exec = |more: &[&str]| {
        let all = [&["lab", "exec", "--kernel-file", "no-such-kernel"], more].concat();
        dir.quell(&all).refused(2)
    };
    says(&exec(&["my.toml", "servr", "--", "true"]), &["`servr`", "did you mean `server`?"]);
    says(&exec(&["my.toml", "a"]), &["<COMMAND>"]);
    says(&exec(&["my.toml", "a", "--with", "x", "--", "true"]), &["--with \"x\"", "HOST: COMMAND"]);
    says(&exec(&["my.toml", "a", "--with", "a:", "--", "true"]), &["--with \"a:\"", "no program"]);
    says(&exec(&["my.toml", "a", "--with", "servr: ls", "--", "true"]), &["--with", "`servr`"]);
    says(
        &exec(&["my.toml", "a", "--scenario", "ful", "--", "true"]),
        &["`ful`", "did you mean `full`?"],
    );
    says(
        &exec(&["topology.toml", "a", "--", "true"]),
        &["topology.toml", "`bb`", "did you mean `b`?"],
    );
}

#[test]
fn a_slower_line_leaves_no_shaper_above_it_in_silence_and_no_figures_of_another_line() {
    let dir = dir();
    let slower = ["lab", "check", "home-link", "--set", "topology.link.dsl.up.rate=1Mbit"];
    let as_it_was = [&slower[..], &["--set", "queue.shaped.policy.rate=2.4Mbit"]].concat();
    let told = dir.quell(&as_it_was).fine();
    let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
    says(
        &words,
        &[
            "! published figures are left out",
            "! 17 expectations are left out: they belong to the network as the file has it",
            "unloaded-shaped, bulk-shaped, flood-shaped: the queue for what goes out by router:wan lets 2.4Mbit through",
            "the line `dsl` carries 1Mbit",
            "96% of link dsl.up",
        ],
    );
    let all = json(&dir.quell(&[&as_it_was[..], &["--json"]].concat()).fine());
    assert_eq!(all["warnings"].as_array().map(Vec::len), Some(3), "{all}");
    // The shaper of the file follows the line; what was published is of another line all the same.
    let follows = dir.quell(&slower).fine();
    assert!(!follows.contains("lets") && follows.contains("published"), "{follows}");
    let file = json(&dir.quell(&["lab", "check", "home-link", "--json"]).fine());
    assert_eq!(file["warnings"], serde_json::json!([]));
}

#[test]
fn what_was_never_run_can_not_be_shown() {
    let dir = TestFolder::new();
    for command in ["show", "open", "plot"] {
        says(&dir.quell(&[command]).refused(2), &["no run in runs", "quell run home-link"]);
        let named = dir.quell(&[command, "20261121T101503-home-link"]).refused(2);
        says(&named, &["20261121T101503-home-link", "quell show --list"]);
    }
    says(&dir.quell(&["show", "--list"]).fine(), &["no runs in runs"]);
    assert_eq!(json(&dir.quell(&["show", "--list", "--json"]).fine()), serde_json::json!([]));
    std::fs::create_dir_all(dir.path("runs/20261121T101503-x")).expect("a folder can be made");
    let damaged = dir.quell(&["show", "20261121T101503-x"]);
    assert!(damaged.code == Some(2) || damaged.code == Some(3), "{}", damaged.error);
    says(&damaged.error, &["20261121T101503-x", "manifest.json"]);
}

// ── what is printed ─────────────────────────────────────────────────────────────────────────────────────────

/// All commands that help names, with those inside them.
fn all_commands(dir: &TestFolder, inside: &[String]) -> Vec<Vec<String>> {
    let mut words: Vec<&str> = inside.iter().map(String::as_str).collect();
    words.push("--help");
    let help = dir.quell(&words).fine();
    // Between usage and options stand groups of commands, two columns in.
    let list = help.split_once("\nOptions:\n").map_or("", |(before, _)| before);
    let names = list.lines().filter_map(|l| l.strip_prefix("  ").filter(|l| !l.starts_with(' ')));
    let names = names.filter_map(|l| l.split_whitespace().next());
    let names = names.filter(|n| n.starts_with(char::is_alphabetic) && *n != "help");
    let mut all = vec![inside.to_vec()];
    for name in names {
        all.extend(all_commands(dir, &[inside, &[name.to_string()]].concat()));
    }
    all
}

#[test]
fn help_fits_a_terminal_and_shows_how() {
    let dir = TestFolder::new();
    let commands = all_commands(&dir, &[]);
    assert!(commands.len() >= 24, "they are found: {commands:?}");
    for command in &commands {
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let help = dir.quell(&[&command[..], &["--help"]].concat()).fine();
        says(&help, &["Usage: quell", "--help"]);
        for line in help.lines() {
            let columns = line.chars().count();
            assert!(columns <= 100, "{command:?}: {columns} columns: {line}");
        }
        if !matches!(
            command[..],
            [] | ["lab" | "data" | "mesh" | "series" | "shape" | "tune" | "twin"]
                | ["lab", "kernel"]
                | ["data", "export"]
        ) {
            // Sentences are broken where the lines end.
            let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
            says(&help, &["Example", "Exit codes: ", ", 3 the system would not let us."]);
        }
    }
    says(&dir.quell(&["--version"]).fine(), &["quell 0."]);
}

#[test]
fn every_built_in_experiment_is_named_and_can_be_copied() {
    let dir = TestFolder::new();
    let list = dir.quell(&["lab", "list"]).fine();
    let rows = json(&dir.quell(&["lab", "list", "--json"]).fine());
    let names: Vec<&str> = rows
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| row["name"].as_str().expect("each has a name"))
        .collect();
    assert_eq!(names, builtin::ALL.map(|(name, _)| name));
    for (name, row) in names.iter().zip(rows.as_array().expect("a list")) {
        says(&list, &[name, row["title"].as_str().expect("each has a title")]);
        assert!(row["scenarios"].as_array().is_some_and(|s| !s.is_empty()), "{row}");
        let text = dir.quell(&["lab", "show", name]).fine();
        dir.write("copy.toml", &text);
        let copy = dir.quell(&["lab", "check", "copy.toml"]).fine();
        assert_eq!(copy, dir.quell(&["lab", "check", name]).fine(), "{name}: the copy is the same");
        says(&copy, &[name, "measurements", "expectations"]);
    }
}

#[test]
fn queues_are_printed_as_tc_commands() {
    let dir = dir();
    let home = dir.quell(&["lab", "check", "--tc", "home-link"]).fine();
    for scenario in ["unloaded-shaped", "bulk-shaped", "flood-shaped"] {
        says(
            &home,
            &[&format!(
                "# scenario {scenario}, router:wan\ntc qdisc replace dev wan root handle 1: htb"
            )],
        );
    }
    assert!(!home.contains("# scenario bulk,"), "it has no queues: {home}");
    says(&home, &["protocol ip ", "protocol ipv6 ", "src_ip fd00", "fq_codel", "drr"]);
    for line in home.lines().skip(1).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        assert!(line.starts_with("tc ") && line.contains(" dev wan "), "{line}");
    }
    // Marks for the policy and a queue of its own on one interface: both are there.
    dir.write("both.toml", BASE.replace("[\"shaped\"]", "[\"fair\", \"shaped\"]"));
    let both = dir.quell(&["lab", "check", "--tc", "both.toml"]).fine();
    says(&both, &["dev lan-a ingress", "skbedit mark 1", "tc qdisc replace dev lan-a root"]);
    // What comes in passes a device of its own.
    let incoming = BASE
        .replace("on = \"router:lan-a\"", "on = \"router:lan-a\"\ndirection = \"in\"")
        .replace("[\"shaped\"]", "[\"fair\"]");
    dir.write("in.toml", incoming);
    let incoming = dir.quell(&["lab", "check", "--tc", "in.toml"]).fine();
    says(&incoming, &["ip link add i-lan-a type ifb", "redirect dev i-lan-a", "dev i-lan-a root"]);
}

#[test]
fn a_check_is_told_to_programs_too() {
    let dir = dir();
    let all = json(&dir.quell(&["lab", "check", "home-link", "--json"]).fine());
    assert_eq!(all["experiment"], "home-link");
    for key in ["scenarios", "probes", "measurements", "at_most_s", "expectations"] {
        assert!(all[key].as_f64().is_some_and(|n| n > 0.0), "{key}: {all}");
    }
    assert_eq!(all["tc"], serde_json::Value::Null);
    let with_queues = json(&dir.quell(&["lab", "check", "home-link", "--tc", "--json"]).fine());
    let told = dir.quell(&["lab", "check", "home-link", "--tc"]).fine();
    let queues = with_queues["tc"].as_array().expect("a list");
    assert!(queues.len() >= 3, "{with_queues}");
    for queue in queues {
        let text = |key: &str| queue[key].as_str().expect("text").to_owned();
        says(&told, &[&format!("# scenario {}, {}", text("scenario"), text("place"))]);
        for command in queue["commands"].as_array().expect("a list") {
            says(&told, &[command.as_str().expect("text")]);
        }
    }
}

#[test]
fn with_json_a_refusal_is_a_sentence_and_its_exit_code_all_the_same() {
    let dir = dir();
    dir.write("file", "no run, no capture, no pickle");
    for (command, code) in [
        (&["run", "zebra"][..], 2),
        (&["run", "my.toml", "--kernel-file", "file"], 3),
        (&["lab", "check", "zebra"], 2),
        (&["show", "--list", "--out", "file"], 2),
        (&["show", "zebra"], 2),
        (&["lab", "kernel", "info", "--kernel-file", "nowhere"], 1),
        (&["trace", "file"], 2),
        (&["trace", "nowhere"], 2),
        (&["data", "import", "file"], 2),
        (&["data", "import", "file"], 2),
        (&["ping", "name.invalid"], 2),
        (&["flow", "name.invalid"], 2),
        (&["rr", "name.invalid"], 2),
        (&["serve", "--bind", "192.0.2.7"], 3),
    ] {
        let with_json = dir.quell(&[command, &["--json"]].concat()).refused(code);
        assert!(with_json.starts_with("quell: "), "{command:?}: {with_json}");
        assert_eq!(with_json, dir.quell(command).refused(code), "{command:?}");
    }
}

#[test]
fn a_host_is_written_and_refused_the_same_for_every_command() {
    let dir = TestFolder::new();
    for (host, words) in [
        ("name.invalid", &["cannot find the host `name.invalid`"][..]),
        ("192.0.2.7:x", &["`x` is no port", "[IPv6]:PORT"]),
        ("[::1]:65536", &["`65536` is no port"]),
        ("[::1", &["no `]`"]),
        ("fe80::1", &["fe80::1%eth0"]),
        ("fe80::1%no-such", &["no device `no-such`"]),
        (":5201", &["names no host"]),
    ] {
        let said = [&["ping", "--method", "udp"][..], &["flow"], &["rr"]]
            .map(|command| dir.quell(&[command, &[host]].concat()).refused(2));
        says(&said[0], words);
        assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
    }
    for (option, host, word) in
        [("-6", "127.0.0.1", "no IPv6 address"), ("-4", "[::1]", "no IPv4 address")]
    {
        for command in ["ping", "flow", "rr"] {
            says(&dir.quell(&[command, option, host]).refused(2), &[host, word]);
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure_of_ours() {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;
    for arguments in
        [&["lab", "list"][..], &["lab", "list", "--json"], &["lab", "show", "rrul"], &["--help"]]
    {
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        let output = program(arguments)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .expect("the program can be started");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(error, "", "{arguments:?}");
        let quiet = output.status.signal() == Some(13) || output.status.code() == Some(0);
        assert!(quiet, "{arguments:?} ends as programs do in a pipe: {}", output.status);
    }
}

#[test]
fn output_that_can_not_be_written_is_told_without_a_panic() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let mut list = program(&["lab", "list"]);
    list.stdout(full());
    says(&said(list, &["lab", "list"]).refused(3), &["could not write", "No space left"]);
    let mut check = program(&["lab", "check", "zebra"]);
    check.stderr(full());
    assert_eq!(said(check, &["check"]).code, Some(2), "the exit code tells all the same");
}
