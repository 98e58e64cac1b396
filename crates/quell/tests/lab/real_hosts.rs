//! Real hosts in a network of the lab's: `quell run --on`, ssh and an sshd in a guest, so that what such a run measures can be held against the
//! lab's own measurement of the same line, in virtual time.

use crate::ssh::{PORT, Ssh};
use crate::support::{QUELL, TestFolder};
use serde_json::Value;
use std::path::Path;

/// The sum of a direction's goodput in Mbit/s, and the median round trip of a ping in ms.
fn figures(shown: &Value) -> [f64; 3] {
    let rows = shown["results"].as_array().expect("results");
    let of = |name: &str, key: &str| {
        let its =
            rows.iter().filter(|row| row["stream"].as_str().is_some_and(|s| s.starts_with(name)));
        its.map(|row| row.pointer(key).and_then(Value::as_f64).expect("a figure")).sum()
    };
    [of("up-", "/goodput_mbps"), of("down-", "/goodput_mbps"), of("ping-cs0", "/rtt_ms/p50")]
}

#[test]
fn between_real_hosts_the_same_line_gives_the_figures_of_the_lab() {
    let folder = TestFolder::new();
    let Some(ssh) = Ssh::new(folder.path()) else { return };
    let path = format!("{}:{}", Path::new(QUELL).parent().unwrap().display(), ssh.path("ssh"));
    let server = ssh.server("sshd", &format!("PATH={path} HOME=/tmp"));
    let two = format!("[machines]\nhost = \"local\"\nserver = \"ssh://root@server:{PORT}\"\n");
    let two = folder.file("two.toml", &two);
    // Other seeds: what differs between runs of the lab itself.
    let lab: Vec<[f64; 3]> = (1..=3)
        .map(|seed| {
            let out = format!("lab-{seed}");
            let seed = format!("seed={seed}");
            let run = ["run", "rrul", "--only", "fifo", "--out", &out, "--set", &seed];
            assert!(folder.quell(&run).status.success());
            let run = folder.path().join(&out).read_dir().unwrap().next().unwrap().unwrap().path();
            let shown = folder.quell(&["show", &run.display().to_string(), "--json"]).stdout;
            figures(&serde_json::from_slice(&shown).expect("it is JSON"))
        })
        .collect();
    let script = format!(
        "export PATH={path} HOME=/tmp; cd /tmp && quell run rrul --on {} --out runs >&2 && quell show --json",
        two.display()
    );
    let with = format!("server: sh {}", server.display());
    let said =
        folder.quell(&["lab", "exec", "rrul", "host", "--with", &with, "--", "sh", "-c", &script]);
    let error = String::from_utf8_lossy(&said.stderr);
    let shown: Value =
        serde_json::from_slice(&said.stdout).unwrap_or_else(|e| panic!("{e}: {error}"));
    let real = figures(&shown);
    for (index, what) in ["up", "down", "round trip"].iter().enumerate() {
        let all: Vec<f64> = lab.iter().map(|figures| figures[index]).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let spread = all.iter().map(|v| (v - mean).abs()).fold(0.0, f64::max);
        // As far from the lab's runs as these are from each other, and two in a hundred.
        let far = (real[index] - mean).abs();
        assert!(far <= 2.0 * spread + 0.02 * mean, "{what}: {} beside {all:?}", real[index]);
    }
}
