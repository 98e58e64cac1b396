//! `quell data import`: what other programs measured, as a run: ping-exp years ago, Flent, irtt, iperf3, ping, mtr; and a pickle that would run a program.

use crate::support::{TestFolder, says};
use serde_json::Value;

const OLD: &[u8] = include_bytes!("../../../foreign/tests/data/pingexp/python2-0.pickle");

#[test]
fn what_was_imported_is_told_to_programs_too() {
    let dir = TestFolder::new();
    dir.write("vpn.pickle", OLD);
    let told = dir.quell(&["data", "import", "vpn.pickle", "--json"]).fine();
    let told: Value = serde_json::from_str(&told).expect("it is JSON");
    let file = &told["imported"][0];
    assert_eq!(file["run"], "20091110T230000-vpn");
    assert_eq!(file["started"], "2009-11-10T23:00:00Z");
    let voice = &file["streams"][0];
    assert_eq!((&voice["stream"], &voice["packets"]), (&"voice".into(), &6.into()), "{told}");
    assert_eq!((&voice["answered"], &voice["duplicates"]), (&4.into(), &1.into()), "{told}");
}

#[test]
fn an_old_measurement_becomes_a_run_that_is_shown_plotted_and_viewed() {
    let dir = TestFolder::new();
    dir.write("vpn.pickle", OLD);
    let told = dir.quell(&["data", "import", "vpn.pickle"]).fine();
    says(
        &told,
        &[
            "voice: 4 of 6 packets answered, 1 again",
            "bulk: 0 of 6 packets answered",
            "kept no sending times",
            "runs/20091110T230000-vpn",
        ],
    );
    assert!(told.lines().all(|l| l.chars().count() <= 100), "{told}");
    let shown = dir.quell(&["show", "vpn", "--json"]).fine();
    let shown: Value = serde_json::from_str(&shown).expect("it is JSON");
    assert_eq!(shown["complete"], true);
    let stream = |name: &str| {
        let rows = shown["results"].as_array().expect("rows");
        rows.iter().find(|r| r["stream"] == name).expect("the stream").clone()
    };
    let voice = stream("voice");
    assert_eq!((&voice["sent"], &voice["received"]), (&6.into(), &4.into()), "{voice}");
    assert_eq!((&voice["duplicates"], &voice["lost_up"]), (&1.into(), &Value::Null));
    assert_eq!((&voice["rtt_ms"]["min"], &voice["rtt_ms"]["max"]), (&19.75.into(), &300.0.into()));
    assert_eq!(stream("bulk")["loss_ratio"], 1.0);
    for (figure, file) in
        [("rtt-averages", "a.svg"), ("rtt-time", "b.svg"), ("rtt-scatter", "c.png")]
    {
        dir.quell(&["plot", "vpn", "--figure", figure, "-o", file]).fine();
    }
    let averages = std::fs::read_to_string(dir.path("a.svg")).expect("it was written");
    assert!(
        averages.contains(">voice<") && averages.contains(">bulk<"),
        "both streams have a place"
    );
    // One stream alone; one that there is not.
    dir.quell(&["plot", "vpn", "--figure", "rtt-averages", "--stream", "voice", "-o", "d.svg"])
        .fine();
    let alone = std::fs::read_to_string(dir.path("d.svg")).expect("it was written");
    assert!(alone.contains(">voice<") && !alone.contains(">bulk<"));
    let none = ["plot", "vpn", "--figure", "rtt-time", "--stream", "vioce", "-o", "e.svg"];
    says(&dir.quell(&none).refused(2), &["\"vioce\"", "bulk, voice"]);
    dir.quell(&["open", "--no-open", "vpn"]).fine();
    let page = dir.quell(&["open", "vpn", "-o", "-"]).fine();
    says(&page, &["<canvas", "ping-exp, from vpn.pickle"]);
}

#[test]
fn a_pickle_that_would_run_a_program_is_refused_and_leaves_nothing_behind() {
    let dir = TestFolder::new();
    let owned = dir.path("owned");
    let command = format!("cos\nsystem\n(S'touch {}'\ntR.", owned.display());
    dir.write("evil.pickle", &command);
    let asked = ["data", "import", "--from", "pingexp", "evil.pickle"];
    let error = dir.quell(&asked).refused(2);
    says(&error, &["evil.pickle is not imported", "Nothing in it was executed"]);
    assert_eq!(dir.names(), ["evil.pickle"], "neither a run nor what the pickle wanted");
}

#[test]
fn files_of_other_kinds_are_told_apart() {
    let dir = TestFolder::new();
    dir.write("empty", b"");
    dir.write("text", b"PING 127.0.0.1 (127.0.0.1) 56(84) bytes of data.\n");
    dir.write("binary", [0xff; 400]);
    dir.write("cut", &OLD[..400]);
    dir.write("nothing", b"}U\x0bexperiments}s.");
    let refused = |file: &str| dir.quell(&["data", "import", file]).refused(2);
    for name in ["empty", "text", "binary", "cut", "nothing"] {
        says(&refused(name), &[&format!("{name} is not imported: ")]);
    }
    says(&refused("missing"), &["missing", "No such file"]);
    says(&refused("."), &["directory"]);
    assert!(!dir.path("runs").exists());
}

const FLENT: &[u8] = include_bytes!("../../../foreign/tests/data/ping.flent.gz");
const IRTT: &[u8] = include_bytes!("../../../foreign/tests/data/irtt.json.gz");
const IPERF3: &[u8] = include_bytes!("../../../foreign/tests/data/iperf3-bidir.json");

/// A row of what `show --json` tells.
fn row(shown: &Value, stream: &str) -> Value {
    let rows = shown["results"].as_array().expect("rows");
    rows.iter().find(|r| r["stream"] == stream).expect("the stream").clone()
}

#[test]
fn files_of_three_programs_become_runs_that_are_shown_drawn_reported_and_viewed() {
    let dir = TestFolder::new();
    dir.write("home.flent.gz", FLENT);
    dir.write("calls.json.gz", IRTT);
    dir.write("both.json", IPERF3);
    let files = ["data", "import", "home.flent.gz", "calls.json.gz", "both.json"];
    let told = dir.quell(&files).fine();
    says(
        &told,
        &[
            "home.flent.gz: a file of Flent (ping)",
            "Ping (ms) UDP: 14 of 15 packets answered",
            "calls.json.gz: a file of irtt",
            "irtt: 25 of 30 packets answered",
            "up-1: up, 0.56 MB in 2.0 s",
        ],
    );
    assert!(told.lines().all(|l| l.chars().count() <= 100), "{told}");
    let show = |run: &str| -> Value {
        serde_json::from_str(&dir.quell(&["show", run, "--json"]).fine()).expect("JSON")
    };
    let irtt = row(&show("calls"), "irtt");
    assert_eq!((&irtt["sent"], &irtt["received"]), (&30.into(), &25.into()), "{irtt}");
    let home = row(&show("home"), "Ping (ms) UDP");
    assert_eq!((&home["lost_up"], &home["lost_down"]), (&0.into(), &1.into()), "{home}");
    // iperf3 says 671872 bytes in 2 s of the second upload.
    let up = row(&show("both"), "up-2");
    assert_eq!((up["way"].as_str(), up["retransmits"].as_u64()), (Some("up"), Some(36)), "{up}");
    let goodput = up["goodput_mbps"].as_f64().expect("a rate");
    assert!((goodput - 671_872.0 * 8.0 / 2.000_001 / 1e6).abs() < 0.02, "{goodput}");
    for (run, figure) in
        [("home", "rtt-cdf"), ("calls", "rtt-time"), ("both", "goodput-time"), ("both", "tcp")]
    {
        let file = format!("{run}-{figure}.svg");
        dir.quell(&["plot", run, "--figure", figure, "-o", &file]).fine();
        assert!(std::fs::read_to_string(dir.path(&file)).expect("it is there").contains("</svg>"));
    }
    for run in ["home", "calls", "both"] {
        dir.quell(&["open", "--no-open", run]).fine();
        says(&dir.quell(&["open", run, "-o", "-"]).fine(), &["<canvas"]);
    }
    let compared = dir.quell(&["show", "home", "home", "--metric", "rtt.p50"]);
    says(&(compared.out + &compared.error), &["home"]);
}

#[test]
fn what_is_left_out_of_a_file_is_told_to_programs_too() {
    let dir = TestFolder::new();
    // As older ones of iperf3 wrote, without the receiver's sums: then its jitter is of no packets that are known.
    let whole = include_str!("../../../foreign/tests/data/iperf3-udp-up.json");
    dir.write("up.json", whole.replace("sum_received", "sum_other").as_bytes());
    let told = dir.quell(&["data", "import", "up.json", "--json"]).fine();
    let told: Value = serde_json::from_str(&told).expect("it is JSON");
    let file = &told["imported"][0];
    assert_eq!((&file["program"], &file["test"]), (&"iperf3".into(), &"udp".into()), "{told}");
    says(&file["left_out"].to_string(), &["Jitter"]);
    assert_eq!(file["streams"][0]["way"], "up");
    let run = file["run"].as_str().expect("a name");
    let shown = dir.quell(&["show", run, "--json"]).fine();
    let up = row(&serde_json::from_str(&shown).expect("JSON"), "up");
    assert_eq!((&up["sent"], &up["received"]), (&346.into(), &320.into()), "{up}");
}

#[test]
fn what_people_post_becomes_runs_and_what_nobody_measured_is_unknown() {
    let dir = TestFolder::new();
    let show = |run: &str| -> Value {
        serde_json::from_str(&dir.quell(&["show", run, "--json"]).fine()).expect("JSON")
    };
    dir.write(
        "stopped.json",
        include_bytes!("../../../foreign/tests/data/iperf3-interrupted-client.json"),
    );
    dir.write(
        "served.json",
        include_bytes!("../../../foreign/tests/data/iperf3-udp-R-server-json.json"),
    );
    for (file, run) in [("stopped.json", "stopped"), ("served.json", "served")] {
        let told = dir.quell(&["data", "import", file]).fine();
        says(&told, &["2.90 MB in 2.0 s sent, what arrived is unknown"]);
        let said = dir.quell(&["show", run]).fine();
        says(&said, &["2.90 MB sent in 2.0 s; what arrived is unknown"]);
        assert!(!said.contains("Nothing was measured"), "{said}");
        let shown = show(run);
        let flow = &shown["results"][0];
        assert_eq!(
            (&flow["goodput_mbps"], &flow["loss_ratio"]),
            (&Value::Null, &Value::Null),
            "{shown}"
        );
    }
    dir.write("two.json", include_bytes!("../../../foreign/tests/data/iperf3-two-documents.json"));
    assert_eq!(dir.quell(&["data", "import", "two.json"]).fine().matches("\nrun ").count(), 2);
    let ping = "\
$ ping -c 3 192.0.2.1
PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.
64 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=10.0 ms
64 bytes from 192.0.2.1: icmp_seq=3 ttl=64 time=20.0 ms

--- 192.0.2.1 ping statistics ---
3 packets transmitted, 2 received, 33.3333% packet loss, time 2003ms
";
    dir.write("ping.txt", ping);
    says(
        &dir.quell(&["data", "import", "ping.txt"]).fine(),
        &["192.0.2.1: 2 of 3 packets answered"],
    );
    let lost = row(&show("ping"), "192.0.2.1");
    assert_eq!((&lost["sent"], &lost["received"]), (&3.into(), &2.into()), "{lost}");
    let mtr = "\
HOST: here               Loss%   Snt   Last   Avg  Best  Wrst StDev
  1.|-- 192.0.2.1         0.0%    10    0.5   0.6   0.4   1.2   0.2
  2.|-- ???             100.0%    10    0.0   0.0   0.0   0.0   0.0
  3.|-- 198.51.100.7     20.0%    10   12.1  12.5  11.9  15.0   1.0
";
    dir.write("mtr.txt", mtr);
    let told = dir.quell(&["data", "import", "mtr.txt"]).fine();
    says(&told, &["hop 03 198.51.100.7: 8 of 10 packets answered; last 12.1 ms, avg 12.5 ms"]);
    // Its own figures are shown beside those that Quell makes of its packets.
    let shown = dir.quell(&["show", "mtr"]).fine();
    says(&shown, &["hop 03 198.51.100.7: last 12.1 ms, avg 12.5 ms", "20.0"]);
    says(&shown, &["hop 02 ??? ", "how many of its 10 packets were lost is unknown"]);
    let impossible = mtr.replace(" 20.0%", "150.0%");
    dir.write("impossible.txt", impossible);
    let told = dir.quell(&["data", "import", "impossible.txt"]).fine();
    let said =
        "hop 03 198.51.100.7: 10 packets sent, how many were answered is unknown; last 12.1 ms";
    says(&told, &[said, "Loss% is unknown: 150.0 at hop 3 can't be."]);
    let silent = row(&show("mtr"), "hop 02 ???");
    assert_eq!((&silent["loss_ratio"], &silent["received"]), (&Value::Null, &0.into()), "{silent}");
}

#[test]
fn a_file_that_is_refused_keeps_no_other_out() {
    let dir = TestFolder::new();
    dir.write("a.pickle", OLD);
    dir.write("b.json", "{\"round_trips\":[{\"seqno\":0,");
    dir.write("c.pickle", OLD);
    let said = dir.quell(&["data", "import", "a.pickle", "b.json", "c.pickle"]);
    assert_eq!(said.code, Some(2), "{}", said.error);
    says(&said.error, &["b.json is not imported: line 1, column", "copied whole"]);
    says(&said.out, &["a.pickle: a file of ping-exp", "c.pickle: a file of ping-exp"]);
    assert_eq!(std::fs::read_dir(dir.path("runs")).expect("runs").count(), 2);
    // Of the wrong program; of none; a bomb.
    dir.write("calls.json.gz", IRTT);
    let wrong = dir.quell(&["data", "import", "--from", "flent", "calls.json.gz"]).refused(2);
    says(&wrong, &["a file of irtt, not of Flent", "quell data import irtt"]);
    dir.write("x", "hello");
    says(
        &dir.quell(&["data", "import", "x"]).refused(2),
        &["x is not imported", "nothing of Flent"],
    );
    says(&dir.quell(&["data", "import", "missing"]).refused(2), &["missing", "No such file"]);
    says(&dir.quell(&["data", "import"]).refused(2), &["Usage"]);
}
