//! What agents of a mesh see of one fault in a real network, and what is said to be common to it.
//!
//! ```text
//!   fra-1 ─┐                    ┌─ ams-1
//!          fra ───── core ───── ams        six agents, each measures all others; after 11 of 16 minutes one link becomes bad
//!   fra-2 ─┘          │         └─ ams-2
//!                    sin ── sin-1, sin-2
//! ```

use super::support::TestFolder;
use quell_mesh::events::MeshFindings;
use quell_mesh::folder::{MINUTE_NS, Pair};
use quell_mesh::history::MeshHistory;
use quell_model::sketch::Sketch;
use quell_store::Run;
use std::collections::BTreeMap;
use std::fmt::Write;

const SITES: [&str; 3] = ["fra", "ams", "sin"];
const MINUTES: i64 = 16;

/// The scenario, the link, what becomes of one direction of it, and what is said of that.
const FAULTS: [(&str, &str, &str, &str); 3] = [
    ("uplink", "fra", "up = { loss = \"20%\" }", "on the uplink of fra"),
    ("host", "sin-1", "down = { loss = \"20%\" }", "sin-1"),
    ("delay", "ams", "down = { delay = \"30ms\" }", "on the uplink of ams"),
];

fn agents() -> Vec<String> {
    SITES.iter().flat_map(|site| [1, 2].map(|n| format!("{site}-{n}"))).collect()
}

fn experiment() -> String {
    let agents = agents();
    let mut text = format!(
        "name = \"mesh\"\nduration = \"{MINUTES}min\"\nprobes-run = \"together\"\n[topology]\nhosts = {agents:?}\nrouters = {:?}\n",
        [&SITES[..], &["core"]].concat()
    );
    let mut link = |name: &str, to: &str, delay: &str| {
        writeln!(
            text,
            "[[topology.link]]\nname = \"{name}\"\nends = [\"{name}\", \"{to}\"]\nboth = {{ delay = \"{delay}\" }}"
        )
    };
    for agent in &agents {
        link(agent, &agent[..3], "100us").expect("a text");
    }
    for (site, delay) in SITES.iter().zip(["2ms", "5ms", "20ms"]) {
        link(site, "core", delay).expect("a text");
    }
    for (scenario, link, line, _) in FAULTS {
        write!(
            text,
            "[[scenario]]\nname = \"{scenario}\"\n\
             [[timeline]]\nat = \"11min\"\nscenarios = [\"{scenario}\"]\nlink = \"{link}\"\n{line}\n"
        )
        .expect("a text");
    }
    for from in &agents {
        for to in agents.iter().filter(|to| *to != from) {
            // A packet each two seconds.
            write!(
                text,
                "[[probe]]\nname = \"{from}_{to}\"\nkind = \"udp\"\nfrom = \"{from}\"\nto = \"{to}\"\n\
                 rate = \"400bit\"\nsize = \"100B\"\n"
            )
            .expect("a text");
        }
    }
    text
}

#[test]
fn of_one_bad_link_its_site_or_agent_is_named() {
    let dir = TestFolder::new();
    dir.run(&experiment(), &[]);
    let run = Run::read(&dir.only_run()).expect("it was measured");
    for (record, data) in run.iter() {
        let (scenario, .., expected) =
            FAULTS.into_iter().find(|f| f.0 == record.id.scenario).expect("one of ours");
        let mut mesh = MeshHistory::new(0, MINUTES * MINUTE_NS);
        for series in &data.echoes {
            let (agent, peer) = series.stream.split_once('_').expect("a pair");
            let mut minutes: BTreeMap<i64, Sketch> = BTreeMap::new();
            for packet in &series.samples {
                let from = packet.t_ns - packet.t_ns.rem_euclid(MINUTE_NS);
                let minute = || Sketch::new(from, MINUTE_NS as u64);
                minutes.entry(from).or_insert_with(minute).record(packet);
            }
            let pair = Pair { agent: agent.into(), peer: peer.into(), class: "voice".into() };
            mesh.add(pair, &minutes.into_values().collect::<Vec<_>>());
        }
        let found = MeshFindings::of(&mesh);
        let said: Vec<String> = found.incidents.iter().map(|i| i.sentence(mesh.to_ns)).collect();
        let [one] = &said[..] else { panic!("{scenario}: one fault is one event: {said:#?}") };
        assert!(one.contains(expected) && one.starts_with("Since 00:11"), "{scenario}: {one}");
    }
}
