//! What each of thirty hosts gets of a line that is fair between hosts; and how long `quell shape try` takes. Both in the lab.

use crate::{Asked, median};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const HOSTS: usize = 30;

/// Thirty hosts, each with another number of connections, 1 to 5.
fn experiment() -> String {
    let names = |quoted: fn(usize) -> String| (0..HOSTS).map(quoted).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        r#"
name = "thirty-hosts"
duration = "30s"
warm-up = "30s"
probes-run = "together"
[topology]
hosts = [{}, "server"]
routers = ["router"]
[[topology.link]]
name = "wan"
ends = ["router", "server"]
up = {{ rate = "10Mbit", delay = "10ms" }}
down = {{ delay = "10ms" }}
[[queue]]
name = "fair"
on = "router:wan"
policy = {{ kind = "host-fair", rate = "9.6Mbit" }}
[[scenario]]
name = "fair"
loads = [{}]
queues = ["fair"]
[[probe]]
name = "ping"
kind = "ping"
from = "h0"
to = "server"
"#,
        names(|n| format!("\"h{n}\"")),
        names(|n| format!("\"l{n}\"")),
    );
    for n in 0..HOSTS {
        let connections = n % 5 + 1;
        let _ = write!(
            text,
            "[[topology.link]]\nname = \"lan{n}\"\nends = [\"h{n}\", \"router\"]\n\
             [[load]]\nname = \"l{n}\"\nkind = \"tcp\"\nfrom = \"h{n}\"\nto = \"server\"\nconnections = {connections}\n"
        );
    }
    text
}

pub fn measure(asked: &Asked, folder: &Path) -> Result<(), String> {
    let file = folder.join("hosts.toml");
    std::fs::write(&file, experiment()).map_err(|e| e.to_string())?;
    let out = folder.join("runs");
    std::fs::create_dir_all(&out).map_err(|e| e.to_string())?;
    let mut run = Command::new(&asked.quell);
    run.arg("run").arg(&file).arg("--out").arg(&out).arg("--json");
    let document: Value = serde_json::from_str(&said(&mut run)?).map_err(|e| e.to_string())?;
    let mut shares = shares(&document)?;
    shares.sort_by(f64::total_cmp);
    let fair = 1.0 / HOSTS as f64;
    let percent = |share: f64| (share / fair - 1.0) * 100.0;
    println!(
        "\nshares of {HOSTS} hosts with 1 to 5 connections each, host-fair: {:+.1} to {:+.1} % of a fair one",
        percent(shares[0]),
        percent(shares[HOSTS - 1]),
    );
    let mut seconds = Vec::new();
    for _ in 0..asked.rounds {
        let begun = Instant::now();
        said(Command::new(&asked.quell).args(["shape", "try", "--line", "10/50", "--json"]))?;
        seconds.push(begun.elapsed().as_secs_f64());
    }
    println!("quell shape try --line 10/50: {:.1} s", median(seconds));
    Ok(())
}

/// The hosts' shares, of all their connections: that of a load of several is named `l7-2`.
fn shares(document: &Value) -> Result<Vec<f64>, String> {
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for row in document["results"].as_array().into_iter().flatten() {
        if let (Some(stream), Some(share)) = (row["stream"].as_str(), row["share"].as_f64()) {
            let load = stream.split_once('-').map_or(stream, |(load, _)| load);
            *shares.entry(load).or_default() += share;
        }
    }
    match shares.len() {
        HOSTS => Ok(shares.into_values().collect()),
        other => Err(format!("shares of {other} hosts")),
    }
}

/// What a program printed that ended well.
fn said(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let output = command.output().map_err(|e| format!("{shown}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{shown}: {:.500}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("{shown}: {e}"))
}
