//! What a mesh saw, shown in a terminal, as JSON and as a figure; and a program that is called when an expectation begins to be broken.

use crate::mesh;
use crate::support::TestFolder;
use quell_mesh::folder::{MINUTE_NS, MeshFolder};
use quell_mesh::{Record, RecordKind};
use quell_stats::Rng;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn the_sites_uplink_is_named_first_and_its_pairs_are_the_worst() {
    let folder = TestFolder::new();
    mesh::write(&folder.path("mesh"));
    let shown = folder.quell(&["mesh", "show", "mesh"]).fine();
    assert!(shown.starts_with("Since 05:12 UTC loss of 2.9 %"), "{shown}");
    let first = shown.split("\n\n").next().expect("sentences").replace("\n", " ");
    assert!(
        first.contains("on the uplink of fra, both directions (30 of 30 pairs, 0 of 26 others)."),
        "{shown}"
    );
    assert!(first.contains("a delay of") && first.contains("on the uplink of sin"), "{shown}");
    let worst = shown.lines().filter(|line| line.contains("voice"));
    for line in worst {
        assert!(line.contains("fra-") && line.chars().count() <= 80, "{line}");
    }
    let json = folder.quell(&["mesh", "show", "mesh", "--json"]).fine();
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["pairs"].as_array().map(Vec::len), Some(56));
    assert_eq!(json["incidents"][0]["found"]["cause"]["found"][0]["bad"], 30);

    let one = folder.quell(&["mesh", "show", "mesh", "--pair", "ams-1,sin-2"]).fine();
    assert!(
        one.contains("Median 1") && one.contains("198.18.7.1"),
        "its change and its path: {one}"
    );
    let one = one.replace('\n', " ");
    for said in [
        "speed, 02:10 UTC: 20.0 Mbit/s down, 3 segments sent again.",
        "rpm, 02:10 UTC: 420 round trips a minute down, unknown up.",
        "web, 02:10 UTC: loaded in 350.0 ms, 62.0 kB.",
    ] {
        assert!(one.contains(said), "{said}: {one}");
    }
    folder.quell(&["mesh", "show", "mesh", "--pair", "ams-1,sin-2", "-o", "pair.svg"]).fine();
    let figure = std::fs::read_to_string(folder.path("pair.svg")).expect("a figure");
    assert!(figure.contains("median") && figure.contains("02:00"));
}

#[test]
fn a_folder_of_nothing_and_a_pair_of_nobody_are_named() {
    let folder = TestFolder::new();
    drop(MeshFolder::open(&folder.path("empty")).expect("a folder"));
    let none = folder.quell(&["mesh", "show", "empty"]).refused(1);
    assert!(none.contains("holds nothing that was measured"), "{none}");
    mesh::write(&folder.path("mesh"));
    let none = folder.quell(&["mesh", "show", "mesh", "--pair", "fra-1,ber-1"]).refused(2);
    assert!(none.contains("fra-1 measured nothing to ber-1"), "{none}");
    for (claim, why) in
        [("p99 40ms", "comparison"), ("goodput > 1Mbit", "goodput"), ("p98 < 1s", "not measured")]
    {
        let said = folder
            .quell(&["mesh", "watch", "mesh", "--expect", claim, "--exec", "true"])
            .refused(2);
        assert!(said.contains(why) && !said.contains("*.mesh"), "{said}");
    }
}

/// Writes minutes of one pair, and goes on.
struct Writer {
    folder: MeshFolder,
    rng: Rng,
    number: u64,
}

impl Writer {
    fn minutes(&mut self, minutes: std::ops::Range<i64>, base_ms: f64) {
        for at in minutes {
            let kind = RecordKind::Thinned(mesh::minute(&mut self.rng, at, base_ms, 0.0));
            let record =
                Record { number: self.number, peer: "ams".into(), class: "voice".into(), kind };
            let now_ns = mesh::FROM + (at + 1) * MINUTE_NS;
            self.folder.append("fra", now_ns, &[record]).expect("it is taken");
            self.number += 1;
        }
        self.folder.sync().expect("it is written");
    }
}

#[test]
fn a_broken_expectation_calls_a_program_once_and_its_end_once() {
    let folder = TestFolder::new();
    let opened = MeshFolder::open(&folder.path("mesh")).expect("a folder");
    let mut writer = Writer { folder: opened, rng: Rng::new(1), number: 0 };
    writer.minutes(0..10, 60.0);
    let call = "sh -c 'echo \"$QUELL_CHANGE|$QUELL_PAIRS|$QUELL_EXPECT\"'";
    let watch =
        ["mesh", "watch", "mesh", "--expect", "p99 < 40ms", "--every", "50ms", "--exec", call];
    let mut watching = folder.command(&watch).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(watching.stdout.take().expect("a pipe")).lines();
    let mut next = || said.next().expect("a line").expect("text");
    assert_eq!(next(), "Broken from fra to ams alone: p99 < 40ms");
    assert_eq!(next(), "begin|fra,ams,voice|p99 < 40ms");
    // Many looks later it is still the same change.
    writer.minutes(10..12, 60.0);
    writer.minutes(12..20, 20.0);
    assert_eq!(next(), "Holds again: p99 < 40ms");
    assert_eq!(next(), "end||p99 < 40ms");
    let pid = nix::unistd::Pid::from_raw(watching.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it is there");
    assert!(watching.wait().expect("it ends").success());
    assert_eq!(said.next().map(|line| line.expect("text")), None);
}
