//! `quell import`: what ping-exp measured years ago, as a run; and a pickle that would run a program.

mod support;

use serde_json::Value;
use support::{TestFolder, says};

const OLD: &[u8] = include_bytes!("../../pingexp/tests/data/python2-0.pickle");

#[test]
fn what_was_imported_is_told_to_programs_too() {
    let dir = TestFolder::new();
    dir.write("vpn.pickle", OLD);
    let told = dir.quell(&["import", "pingexp", "vpn.pickle", "--json"]).fine();
    let told: Value = serde_json::from_str(&told).expect("it is JSON");
    assert_eq!(told["run"], "20091110T230000-vpn");
    assert_eq!(told["started"], "2009-11-10T23:00:00Z");
    let voice = &told["streams"][0];
    assert_eq!((&voice["stream"], &voice["packets"]), (&"voice".into(), &6.into()), "{told}");
    assert_eq!((&voice["answered"], &voice["duplicates"]), (&4.into(), &1.into()), "{told}");
}

#[test]
fn an_old_measurement_becomes_a_run_that_is_shown_plotted_and_viewed() {
    let dir = TestFolder::new();
    dir.write("vpn.pickle", OLD);
    let told = dir.quell(&["import", "pingexp", "vpn.pickle"]).fine();
    says(
        &told,
        &[
            "voice: it's.example.org, 4 of 6 packets answered, TOS 184, 1 answered again",
            "bulk: 192.0.2.7, 0 of 6 packets answered",
            "kept no sending times",
            "2009-11-10T23:00:00Z",
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
    dir.quell(&["report", "vpn"]).fine();
    let page = dir.quell(&["view", "vpn", "-o", "-"]).fine();
    says(&page, &["<canvas", "Pings by ping-exp, from vpn.pickle"]);
}

#[test]
fn what_is_imported_twice_is_there_twice() {
    let dir = TestFolder::new();
    dir.write("a.pickle", OLD);
    for _ in 0..2 {
        dir.quell(&["import", "pingexp", "a.pickle", "--out", "kept"]).fine();
    }
    says(
        &dir.quell(&["runs", "--out", "kept"]).fine(),
        &["20091110T230000-a", "20091110T230000-a-2"],
    );
}

#[test]
fn a_pickle_that_would_run_a_program_is_refused_and_leaves_nothing_behind() {
    let dir = TestFolder::new();
    let owned = dir.path("owned");
    let command = format!("cos\nsystem\n(S'touch {}'\ntR.", owned.display());
    dir.write("evil.pickle", &command);
    let error = dir.quell(&["import", "pingexp", "evil.pickle"]).refused(2);
    says(&error, &["evil.pickle", "byte 0", "GLOBAL \"os.system\"", "Nothing was executed"]);
    assert_eq!(dir.names(), ["evil.pickle"], "neither a run nor what the pickle wanted");
}

#[test]
fn files_of_other_kinds_are_told_apart() {
    let dir = TestFolder::new();
    dir.write("empty", b"");
    dir.write("text", b"PING 127.0.0.1 (127.0.0.1) 56(84) bytes of data.\n");
    dir.write("cut", &OLD[..400]);
    dir.write("nothing", b"}U\x0bexperiments}s.");
    let refused = |file: &str| dir.quell(&["import", "pingexp", file]).refused(2);
    says(&refused("empty"), &["ends at byte 0"]);
    says(&refused("text"), &["text is not imported: byte 0"]);
    says(&refused("cut"), &["cut is not imported", "copied whole"]);
    says(&refused("nothing"), &["holds no packets"]);
    says(&refused("missing"), &["missing", "No such file"]);
    says(&refused("."), &["directory"]);
    assert!(!dir.path("runs").exists());
}
