//! What `quell --version` says: enough to report a bug.

use quell_lab::kernel::{self, KernelOptions};
use std::fmt::Write;

const NUMBER: &str = env!("CARGO_PKG_VERSION");
/// As `1234567890ab of 2026-11-23`; empty where the source was in no git.
const COMMIT: &str = env!("QUELL_COMMIT");
const TARGET: &str = env!("QUELL_TARGET");
const COMPILER: &str = env!("QUELL_COMPILER");

/// What `quell -V` says behind the name.
pub const SHORT: &str = if COMMIT.is_empty() {
    NUMBER
} else {
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("QUELL_COMMIT"), ")")
};

/// The day of the commit; where that is not known, one of its version.
pub fn day() -> &'static str {
    let day = COMMIT.split(" of ").nth(1).and_then(|day| day.get(..10));
    day.unwrap_or("2026-11-01")
}

/// Name and value of each line.
fn facts() -> [(&'static str, String); 5] {
    let linked = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
    let commit = match COMMIT {
        "" if cfg!(debug_assertions) => "unknown (a debug build)",
        "" => "unknown (built outside of git)",
        commit => commit,
    };
    [
        ("commit", commit.to_owned()),
        ("built for", format!("{TARGET}, {linked}")),
        ("compiler", COMPILER.to_owned()),
        ("lab kernel", lab_kernel()),
        ("this host", this_host()),
    ]
}

pub fn json() -> serde_json::Value {
    let facts = facts().map(|(name, value)| (name.replace(' ', "_"), value.into()));
    let version = [("version".to_owned(), NUMBER.into())];
    serde_json::Value::Object(version.into_iter().chain(facts).collect())
}

pub fn long() -> String {
    let mut text = format!("quell {NUMBER}\n");
    for (name, value) in facts() {
        let _ = writeln!(text, "{name:<11} {value}");
    }
    text
}

fn lab_kernel() -> String {
    let known = kernel::find(&KernelOptions::default()).and_then(|found| kernel::info(&found));
    match known {
        Ok(known) => {
            let key = known.built.map_or(String::new(), |built| format!(", {}", built.key));
            format!("{}{key}", known.version)
        }
        Err(kernel::NotFound::NotBuilt { .. }) => "none yet (`quell lab kernel build`)".into(),
        Err(error) => error.to_string(),
    }
}

fn this_host() -> String {
    let mut parts = Vec::new();
    if let Ok(uname) = nix::sys::utsname::uname() {
        let word = |word: &std::ffi::OsStr| word.to_string_lossy().into_owned();
        parts.push(format!(
            "{} {} {}",
            word(uname.sysname()),
            word(uname.release()),
            word(uname.machine())
        ));
    }
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    parts.extend(name.map(|name| quell_wire::text::printable(name.trim_matches('"'), 60)));
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    parts.push(quell_units::fmt::plural(cpus as u64, "CPU"));
    parts.push(if nix::unistd::geteuid().is_root() { "root" } else { "not root" }.into());
    parts.join(", ")
}
