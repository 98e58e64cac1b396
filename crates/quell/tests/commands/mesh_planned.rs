//! `quell mesh init` and `quell mesh plan`: a mesh on paper, before anything is sent.

use crate::support::{TestFolder, says};
use quell_mesh::folder::MeshFolder;
use quell_mesh::{PathHop, Record, RecordKind};
use quell_sys::wall::realtime_ns;
use serde_json::Value;

#[test]
fn the_file_that_init_writes_is_planned_and_never_overwritten() {
    let dir = TestFolder::new();
    says(&dir.quell(&["mesh", "init"]).fine(), &["Then: quell mesh plan mesh.toml"]);
    says(&dir.quell(&["mesh", "init"]).refused(2), &["mesh.toml is there already"]);
    let told = dir.quell(&["mesh", "plan"]).fine();
    says(
        &told,
        &[
            "3 agents would send 13 packets a second, 10.1 GB a month.",
            "Pairs: 9. Stored a day: 518,400 rows, about 6.22 MB",
            "Bulk tests a day without a rate: 3. Their bytes are unknown.",
            "Refused: 4 probes, the first speed of ams to home: home takes no part in probes of this kind.",
        ],
    );
    assert!(told.lines().all(|line| line.chars().count() <= 100), "{told}");
    let json: Value = serde_json::from_str(&dir.quell(&["mesh", "plan", "--json"]).fine()).unwrap();
    assert_eq!((&json["pairs"], json["refused"].as_array().map(Vec::len)), (&9.into(), Some(4)));
    assert_eq!(json["agents"]["home"]["peers"], 3);
}

#[test]
fn a_file_that_can_not_be_is_refused_with_its_line() {
    let dir = TestFolder::new();
    dir.quell(&["mesh", "init", "m.toml"]).fine();
    let text = std::fs::read_to_string(dir.path("m.toml")).unwrap();
    dir.write("m.toml", text.replace("interval = \"1s\"", "interval = \"0s\"").as_bytes());
    let why = dir.quell(&["mesh", "plan", "m.toml"]).refused(2);
    says(&why, &["m.toml, line 25: an interval of 0 has no end"]);
    says(&dir.quell(&["mesh", "plan", "none.toml"]).refused(2), &["could not read none.toml"]);
}

#[test]
fn tests_whose_paths_share_a_hop_never_run_at_once() {
    let dir = TestFolder::new();
    let agents = ["ams", "fra", "nyc", "sin"];
    let address = |(at, name)| format!("[agents.{name}]\naddress = \"10.0.0.{at}\"\n");
    let agents_text: String = (1..).zip(agents).map(address).collect();
    // Four tests in four minutes: one after the other there is no room for the last.
    let head = "seed = 1\npeers = 1\nbulk-hours = \"02:00-02:04\"\n";
    let speed = "[probes.speed]\nkind = \"flow\"\ninterval = \"24h\"\nduration = \"65s\"\nrate = \"1Mbit\"\n";
    dir.write("mesh.toml", format!("{head}{agents_text}{speed}"));
    let mut mesh = MeshFolder::open(&dir.path("mesh")).expect("a folder");
    let wall_ns = realtime_ns() as i64 - 1_000_000_000;
    for agent in agents {
        let path = |(number, peer): (u64, &&str)| {
            let address = "192.0.2.1".parse().ok();
            let kind = RecordKind::Path { wall_ns, hops: vec![PathHop { address, rtt_ns: None }] };
            Record { number, peer: (*peer).into(), class: "route".into(), kind }
        };
        let records: Vec<Record> =
            (0..).zip(agents.iter().filter(|peer| **peer != agent)).map(path).collect();
        mesh.append(agent, wall_ns, &records).expect("there is room");
    }
    mesh.seal().expect("there is room");
    let refused = |options: &[&str]| {
        let told = dir.quell(&[&["mesh", "plan", "--json"], options].concat()).fine();
        let told: Value = serde_json::from_str(&told).unwrap();
        told["refused"].as_array().unwrap().clone()
    };
    assert_eq!(refused(&[]), [Value::Null; 0]);
    let refused = refused(&["--measured", "mesh"]);
    assert!(!refused.is_empty());
    says(&refused[0]["why"].to_string(), &["no time is left in which both hosts and all hops"]);
}

#[test]
fn rights_hold_no_secret_but_in_files_of_ones_own() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TestFolder::new();
    dir.quell(&["mesh", "init"]).fine();
    says(&dir.quell(&["mesh", "rights", "mesh.toml"]).fine(), &["can read: 4."]);
    let read = |name: &str| std::fs::read_to_string(dir.path(&format!("mesh/{name}"))).unwrap();
    let config = read("users.conf");
    assert_eq!(config.matches("{ nkey: U").count(), 4, "{config}");
    says(&read("nats-server.conf"), &["include users.conf"]);
    for name in ["hub", "ams", "fra", "home"] {
        let seed = read(&format!("{name}.credentials"));
        assert!(seed.starts_with("SU") && !config.contains(seed.trim()));
        let mode = std::fs::metadata(dir.path(&format!("mesh/{name}.credentials"))).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_host_more_gets_rights_beside_those_that_are_there() {
    let dir = TestFolder::new();
    dir.quell(&["mesh", "init"]).fine();
    dir.quell(&["mesh", "rights", "mesh.toml"]).fine();
    let write = |name: &str, text: &str| std::fs::write(dir.path(name), text).unwrap();
    let read = |name: &str| std::fs::read_to_string(dir.path(name)).unwrap();
    let (users, fra) = (read("mesh/users.conf"), read("mesh/fra.credentials"));
    write("mesh/nats-server.conf", "listen: 127.0.0.1:4333\ninclude users.conf\n");
    let more = read("mesh.toml")
        .replace("[agents.fra]", "[agents.oslo]\naddress = \"192.0.2.9\"\n\n[agents.fra]");
    write("mesh.toml", &more);
    says(&dir.quell(&["mesh", "rights", "mesh.toml"]).fine(), &["can read: 1."]);
    assert_eq!(read("mesh/fra.credentials"), fra);
    assert_eq!(read("mesh/nats-server.conf").lines().next(), Some("listen: 127.0.0.1:4333"));
    let with_oslo = read("mesh/users.conf");
    assert!(users.lines().all(|line| with_oslo.contains(line)), "{users}\n{with_oslo}");
    assert_eq!(with_oslo.matches("quell.from.oslo").count(), 1, "{with_oslo}");
}
