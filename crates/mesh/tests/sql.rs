//! The SQL of docs/data.md on a mesh's folder, as it is there: what DuckDB makes of sketches is what it makes of the packets themselves.

#[path = "../../quell/tests/support/left_out.rs"]
mod left_out;

use quell_mesh::folder::{HOUR_NS, MeshFolder};
use quell_mesh::{Record, RecordKind};
use quell_model::Sketch;
use quell_model::rows::{EchoSample, EchoStatus};
use quell_model::sketch::bucket;
use quell_stats::Rng;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// 2026-11-28T00:00:00Z.
const DAY: i64 = 1_795_824_000_000_000_000;

/// The `nth` block of Python below a heading of docs/data.md.
fn example(heading: &str, nth: usize) -> String {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/data.md");
    let document = std::fs::read_to_string(document).unwrap();
    let (_, rest) = document.split_once(&format!("\n## {heading}\n")).unwrap();
    let rest = rest.split("\n## ").next().unwrap();
    rest.split("```python\n").nth(nth + 1).unwrap().split("```").next().unwrap().to_owned()
}

fn interpreter() -> Option<OsString> {
    let made = std::env::var_os("QUELL_TEST_PYTHON").filter(|path| Path::new(path).exists());
    let python = made.unwrap_or_else(|| "python3".into());
    let there = Command::new(&python).args(["-c", "import duckdb"]).stderr(Stdio::null()).status();
    there.is_ok_and(|status| status.success()).then_some(python)
}

fn printed(python: &OsString, program: &str, folder: &Path) -> String {
    let said = Command::new(python).args(["-c", program]).arg(folder).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap()
}

fn record(number: u64, peer: &str, kind: RecordKind) -> Record {
    Record { number, peer: peer.into(), class: "voice".into(), kind }
}

/// A second's packet: 20 ms and a tail, one in a hundred lost.
fn packet(rng: &mut Rng, second: u64) -> EchoSample {
    let at = DAY + second as i64 * 1_000_000_000;
    let lost = EchoSample::new(at, second, 64, EchoStatus::LostUp);
    if rng.below(100) == 0 {
        return lost;
    }
    let rtt = 20e6 + rng.exp(3e6) + if rng.below(20) == 0 { rng.exp(40e6) } else { 0.0 };
    EchoSample { rtt_ns: Some(rtt as u64), status: EchoStatus::Ok, ..lost }
}

const EXACT: &str = "
import sys, duckdb
duckdb.sql(f\"\"\"SELECT agent, peer, CAST(wall_ns // 3600000000000 % 24 AS INT) AS hour,
    quantile_disc(rtt_ns, 0.5) / 1e6 AS p50, quantile_disc(rtt_ns, 0.99) / 1e6 AS p99,
    100.0 * count(*) FILTER (status LIKE 'lost%') / count(*) AS loss
    FROM '{sys.argv[1]}/rows/*/*/*.parquet' GROUP BY ALL ORDER BY ALL\"\"\").write_csv('/dev/stdout')";

#[test]
fn quantiles_and_loss_of_each_pair_and_hour_in_sql_are_those_of_the_packets() {
    let Some(python) = interpreter() else { return left_out::for_want_of("Python has no duckdb") };
    let dir = tempfile::tempdir().unwrap();
    let mut folder = MeshFolder::open(dir.path()).unwrap();
    let rng = Rng::new(29);
    for agent in ["ams", "fra"] {
        let mut number = 0;
        for peer in ["nyc", "sin"] {
            let mut rng = rng.derive(&format!("{agent}/{peer}"));
            for minute in 0..120 {
                let seconds = minute * 60..minute * 60 + 60;
                let packets = seconds.map(|second| packet(&mut rng, second)).collect();
                let record = record(number, peer, RecordKind::Packets(packets));
                folder.append(agent, DAY, &[record]).unwrap();
                number += 1;
            }
            folder.seal().unwrap();
        }
    }
    let numbers = |text: &str| -> Vec<Vec<f64>> {
        let of =
            |line: &str| line.split([',', '│']).filter_map(|w| w.trim().parse().ok()).collect();
        text.lines().map(of).filter(|row: &Vec<f64>| row.len() >= 3).collect()
    };
    let exact = numbers(&printed(&python, EXACT, dir.path()));
    assert_eq!(exact.len(), 8, "two agents, two peers, two hours");
    let told = numbers(&printed(&python, &example("A mesh", 0), dir.path()));
    assert_eq!(told.len(), 8, "{told:?}");
    for (told, exact) in told.iter().zip(&exact) {
        let [p50, p99, loss] = told[told.len() - 3..] else { panic!("{told:?}") };
        // 0.4 %, and what was rounded when it was printed.
        assert!((p50 / exact[1] - 1.0).abs() < 0.0043, "{told:?} {exact:?}");
        assert!((p99 / exact[2] - 1.0).abs() < 0.0043, "{told:?} {exact:?}");
        assert!((loss - exact[3]).abs() <= 0.0051, "{told:?} {exact:?}");
    }
    let day = numbers(&printed(&python, &example("A mesh", 1), dir.path()));
    assert_eq!(day.len(), 4, "{day:?}");
    for (told, exact) in day.iter().zip(exact.chunks(2)) {
        let [p50, p99, loss] = told[told.len() - 3..] else { panic!("{told:?}") };
        let between = |value: f64, at: usize| {
            let (a, b) = (exact[0][at], exact[1][at]);
            (a.min(b) * 0.995..=a.max(b) * 1.005).contains(&value)
        };
        assert!(between(p50, 1) && between(p99, 2) && between(loss, 3), "{told:?} {exact:?}");
    }
}

/// What would be 10^9 packets: 1,000 agents with 30 peers at one a second, for ten hours (1.08 × 10^9). QUELL_MESH_AGENTS takes fewer.
#[test]
#[ignore = "ten minutes; docs/bench.md has its figures"]
fn a_thousand_million_packets_are_asked_in_two_seconds() {
    let Some(python) = interpreter() else { return left_out::for_want_of("Python has no duckdb") };
    let agents = std::env::var("QUELL_MESH_AGENTS").map_or(1000, |n| n.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let mut folder = MeshFolder::open(dir.path()).unwrap();
    let mut rng = Rng::new(1);
    let begun = Instant::now();
    for agent in 0..agents {
        let mut sketches = Vec::new();
        for peer in 0..30 {
            let base = 5e6 + rng.f64() * 100e6;
            for hour in 0..10 {
                let mut sketch = Sketch::new(DAY + hour * HOUR_NS, HOUR_NS as u64);
                (sketch.sent, sketch.lost_up) = (3600, rng.below(40));
                let mut left = sketch.sent - sketch.lost_up;
                let mut at = bucket(base as u64);
                while left > 0 {
                    let count = (1 + rng.below(160)).min(left);
                    sketch.buckets.push((at, count as u32));
                    (left, at) = (left - count, at + 1);
                }
                let number = sketches.len() as u64;
                let kind = RecordKind::Thinned(sketch);
                sketches.push(record(
                    number,
                    &format!("a{:04}", (agent + peer + 1) % agents),
                    kind,
                ));
            }
        }
        folder.append(&format!("a{agent:04}"), DAY, &sketches).unwrap();
    }
    folder.seal().unwrap();
    println!("{agents} agents: written in {:.1} s", begun.elapsed().as_secs_f64());
    let timed = format!(
        "import time, resource, duckdb\nduckdb.sql('SET threads = 2')\nfor _ in range(5):\n    begin = time.time(); cpu = resource.getrusage(0)\n\
         {}\n    end = resource.getrusage(0)\n    print('seconds', time.time() - begin, 'cpu', end.ru_utime + end.ru_stime - cpu.ru_utime - cpu.ru_stime)",
        example("A mesh", 0).lines().map(|line| format!("    {line}\n")).collect::<String>()
    );
    println!("{}", printed(&python, &timed, dir.path()));
}
