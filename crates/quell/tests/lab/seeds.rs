//! The same seed gives the same bytes, whatever else differs; another seed gives others. And what built-in experiments claim
//! holds on several seeds.

use super::support::{QUELL, TestFolder, lacks_chromium};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

const TABLES: [&str; 3] = ["samples.parquet", "flows.parquet", "queues.parquet"];

fn tables(run: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    TABLES
        .iter()
        .map(|t| (*t, std::fs::read(run.join(t)).expect("a finished run has it")))
        .collect()
}

fn run(
    program: &Path,
    dir: &TestFolder,
    options: &[&str],
    environment: &[(&str, &str)],
) -> BTreeMap<&'static str, Vec<u8>> {
    let output = Command::new(program)
        .args(["run", "home-link", "--duration", "3s", "--set", "expect=[]"])
        .args(["--only", "unloaded", "--only", "bulk-shaped", "--only", "flood"])
        .args(options)
        .envs(environment.iter().copied())
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output()
        .expect("quell can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    tables(&dir.only_run())
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_the_place_program_jobs_environment_and_system() {
    let first = run(Path::new(QUELL), &TestFolder::new(), &["--seed", "7"], &[]);
    let again = TestFolder::new();
    // Another place for the program, other bytes in it, another number of guests side by side, another environment.
    let copy = again.path().join("a-copy-of-the-program-with-a-longer-name");
    let mut bytes = std::fs::read(QUELL).expect("the program can be read");
    bytes.extend_from_slice(&[0; 4096]);
    std::fs::write(&copy, bytes).expect("it can be copied");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755))
        .expect("and made a program");
    let second = run(
        &copy,
        &again,
        &["--seed", "7", "--jobs", "1"],
        &[("QUELL_TEST_NOISE", "some more environment")],
    );
    for table in TABLES {
        assert!(first[table] == second[table], "{table} differs between two runs of one seed");
        assert!(first[table].len() > 200, "{table} is empty");
    }
    // A system that has little in its /etc: what the loader of programs needs.
    let bare = TestFolder::new();
    let little =
        "cp /etc/ld.so.cache . && mount -t tmpfs none /etc && mv ld.so.cache /etc && exec \"$@\"";
    let text = format!("#!/bin/sh\nexec unshare -rm sh -c '{little}' - {QUELL} \"$@\"\n");
    let program = bare.file("bare", &text);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))
        .expect("and made a program");
    let third = run(&program, &bare, &["--seed", "7"], &[]);
    for table in TABLES {
        assert!(first[table] == third[table], "{table} differs where /etc/hosts is missing");
    }
    let eighth = TestFolder::new();
    let other = run(Path::new(QUELL), &eighth, &["--seed", "8"], &[]);
    for table in ["samples.parquet", "flows.parquet"] {
        assert!(first[table] != other[table], "{table} is the same for another seed");
    }
    // Whoever is handed the folder of a run repeats it with one command: its changes, its scenarios and its seed are in there.
    let elsewhere = TestFolder::new();
    let repeated = Command::new(QUELL)
        .arg("run")
        .arg(eighth.only_run())
        .current_dir(elsewhere.path())
        .stdin(Stdio::null())
        .output()
        .expect("quell can be started");
    let said = String::from_utf8_lossy(&repeated.stderr);
    assert!(repeated.status.success() && !said.contains("may differ"), "{said}");
    assert!(tables(&elsewhere.only_run()) == other, "a repeated run has other bytes");
}

/// Those of `QUELL_TEST_SEEDS`, which are separated by spaces (`make test-long`); else these.
fn seeds_or(otherwise: &str) -> Vec<String> {
    let seeds = std::env::var("QUELL_TEST_SEEDS").unwrap_or_else(|_| otherwise.to_owned());
    seeds.split(' ').map(str::to_owned).collect()
}

/// What an experiment claims holds on several seeds, so that it is no single run's luck.
fn keeps_its_claims_on_seeds(experiment: &str, otherwise: &str) {
    for seed in seeds_or(otherwise) {
        keeps_its_claims(experiment, &seed, &[]);
    }
}

/// What it said.
fn keeps_its_claims(experiment: &str, seed: &str, options: &[&str]) -> String {
    let run = ["run", experiment, "--seed", seed];
    let output = TestFolder::new().quell(&[&run, options].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{experiment}, seed {seed}: {said}{error}");
    said
}

#[test]
fn home_link_keeps_its_claims_on_seeds() {
    keeps_its_claims_on_seeds("home-link", "1");
}

/// A load costs seconds of CPU, so that each scenario has one of the file's four here. That no page comes through the flood is no luck of a
/// seed, and takes longest: it is seen once. Of the two unloaded rows one stands in the expectations.
#[test]
fn home_link_pages_keeps_its_claims_on_seeds() {
    if lacks_chromium() {
        return;
    }
    let loaded =
        ["--only", "unloaded", "--only", "bulk", "--only", "bulk-shaped", "--only", "flood-shaped"];
    let once = ["--set", "probe.page.loads=1"];
    for (at, seed) in seeds_or("1").iter().enumerate() {
        let flood: &[&str] = if at == 0 { &["--only", "flood"] } else { &[] };
        let said = keeps_its_claims("home-link-pages", seed, &[&loaded[..], flood, &once].concat());
        let all = if flood.is_empty() { 6 } else { 8 };
        assert!(said.contains(&format!("All {all} expectations hold.")), "seed {seed}: {said}");
    }
}

#[test]
fn ecn_band_keeps_its_claims_on_seeds() {
    keeps_its_claims_on_seeds("ecn-band", "1");
}

#[test]
fn sfq_perturb_keeps_its_claims_on_seeds() {
    keeps_its_claims_on_seeds("sfq-perturb", "1");
}

#[test]
fn host_shares_keeps_its_claims_on_seeds() {
    keeps_its_claims_on_seeds("host-shares", "1");
}

#[test]
fn tunnel_flows_keeps_its_claims_on_seeds() {
    keeps_its_claims_on_seeds("tunnel-flows", "1");
}

#[test]
fn tos_hash_keeps_its_claims_on_seeds() {
    keeps_its_claims_on_seeds("tos-hash", "1 2");
}

/// Those by Flent's names, each once.
fn keep_their_claims(experiments: &[&str]) {
    for experiment in experiments {
        keeps_its_claims(experiment, "2", &[]);
    }
}

#[test]
fn flents_loads_of_both_ways_keep_their_claims() {
    keep_their_claims(&["rrul_be", "rrul_cs8", "rrul46", "cubic_bbr"]);
}

#[test]
fn flents_loads_of_one_way_far_servers_bursts_and_calls_keep_their_claims() {
    keep_their_claims(&["tcp_nup", "tcp_ndown", "tcp_upload", "tcp_download"]);
    keep_their_claims(&["rtt_fair", "bursts", "voip"]);
}

#[test]
fn flents_page_loads_keep_their_claims() {
    // A load takes seconds of CPU; one of each scenario is as good as three.
    if !lacks_chromium() {
        keeps_its_claims("http", "2", &["--set", "probe.page.loads=1"]);
    }
}
