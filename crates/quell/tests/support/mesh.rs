//! An invented mesh in a folder: eight agents at three sites over six hours. The uplink of fra loses 3 % both ways since 05:12; from 02:00 to 03:00 all
//! to and from sin went another way, 22 ms longer.

// Each test binary uses its part of this.
#![allow(dead_code)]

use quell_mesh::folder::{MINUTE_NS, MeshFolder};
use quell_mesh::{PathHop, Record, RecordKind};
use quell_model::sketch::{Sketch, bucket};
use quell_stats::Rng;
use std::path::Path;

/// 2026-11-27, 00:00 UTC.
pub const FROM: i64 = 1_795_737_600 * 1_000_000_000;
const MINUTES: i64 = 6 * 60;
pub const FAULT: i64 = 5 * 60 + 12;

const AGENTS: [(&str, &str, f64); 8] = [
    ("fra-1", "fra", 0.0),
    ("fra-2", "fra", 0.0),
    ("fra-3", "fra", 0.0),
    ("ams-1", "ams", 4.0),
    ("ams-2", "ams", 4.0),
    ("sin-1", "sin", 80.0),
    ("sin-2", "sin", 80.0),
    ("sin-3", "sin", 80.0),
];

/// The packets of a minute, one a second.
pub fn minute(rng: &mut Rng, at: i64, base_ms: f64, loss: f64) -> Sketch {
    let mut sketch = Sketch::new(FROM + at * MINUTE_NS, MINUTE_NS as u64);
    let mut buckets = std::collections::BTreeMap::new();
    for _ in 0..60 {
        sketch.sent += 1;
        if rng.f64() < loss {
            sketch.lost_up += 1;
        } else if rng.f64() < loss {
            sketch.lost_down += 1;
        } else {
            let rtt = ((base_ms + rng.exp(0.4)) * 1e6) as u64;
            *buckets.entry(bucket(rtt)).or_insert(0) += 1;
            sketch.min_ns = Some(sketch.min_ns.unwrap_or(u64::MAX).min(rtt));
            sketch.max_ns = sketch.max_ns.max(Some(rtt));
        }
    }
    sketch.buckets = buckets.into_iter().collect();
    sketch
}

pub fn write(folder: &Path) {
    let mut mesh = MeshFolder::open(folder).expect("a folder");
    let mut rng = Rng::new(7);
    for (agent, from, here) in AGENTS {
        let mut records = Vec::new();
        for (peer, to, there) in AGENTS.into_iter().filter(|(peer, ..)| *peer != agent) {
            let crosses = |site: &str| from != to && [from, to].contains(&site);
            let mut add = |class: &str, kind| {
                let (peer, class) = (peer.to_owned(), class.to_owned());
                records.push(Record { number: records.len() as u64, peer, class, kind });
            };
            for at in 0..MINUTES {
                let longer = crosses("sin") && (120..180).contains(&at);
                let base = 1.0 + f64::abs(here - there) * 2.0 + if longer { 22.0 } else { 0.0 };
                let loss = if crosses("fra") && at >= FAULT { 0.03 } else { 2e-5 };
                add("voice", RecordKind::Thinned(minute(&mut rng, at, base, loss)));
            }
            for at in [0, 120, 180] {
                let mut hops = vec![hop(from, 1), hop(from, 254), hop(to, 254)];
                if crosses("sin") && at == 120 {
                    hops.insert(2, hop("", 1));
                }
                add("route", RecordKind::Path { wall_ns: FROM + at * MINUTE_NS, hops });
            }
            let (wall_ns, duration_ns) = (FROM + 130 * MINUTE_NS, 10_000_000_000);
            let retransmits = Some(3);
            let bytes = 25_000_000;
            add("speed", RecordKind::Flow { wall_ns, down: true, bytes, duration_ns, retransmits });
            add("rpm", RecordKind::Rpm { wall_ns, down: Some(420.4), up: None });
            add("web", RecordKind::Page { wall_ns, loaded_ns: 350_000_000, bytes: 62_000 });
        }
        mesh.append(agent, FROM + MINUTES * MINUTE_NS, &records).expect("records are taken");
    }
    mesh.seal().expect("it can be written");
}

fn hop(site: &str, n: u8) -> PathHop {
    let network = match site {
        "fra" => "192.0.2",
        "ams" => "198.51.100",
        "sin" => "203.0.113",
        _ => "198.18.7",
    };
    let address = format!("{network}.{n}").parse().expect("an address");
    PathHop { address: Some(address), rtt_ns: None }
}
