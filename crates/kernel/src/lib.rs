//! The guest kernel: user-mode Linux with virtual time, built from source once, then found in the cache.
//!
//! ```text
//!   source (Debian's linux-source-6.1 or -6.12, or a tree)
//!      │ unpack ─ edit (../edits) ─ configure (../kernel.config) ─ make ─ strip ─ try
//!      ▼
//!   <cache>/kernel/<key>/linux ── find ──► the lab boots it
//! ```
//!
//! A kernel appears in the cache in one step, when it is whole and has said that it can travel in time. Two builders don't
//! meet: the second waits for the first and takes what it built. Needs no root and no network.

mod build;
mod cache;
mod edit;
mod job;
mod pack;
mod ready;
mod series;

pub use build::{BuildError, BuildProgress, build};
pub use cache::{
    Built, CacheError, Info, Kernel, KernelOptions, KernelSource, NotFound, find, info,
};
pub use edit::EditError;
pub use pack::{CarryError, ImportedKernel, export, import};
pub use ready::{NotReady, Ready, inspect};
pub use series::Series;

use cache::CONFIG;

/// The congestion controls of the lab's kernel, by the names that `TCP_CONGESTION` takes, sorted.
pub fn congestion_controls() -> Vec<String> {
    let built_in = CONFIG.lines().filter_map(|line| {
        let name = line.strip_prefix("CONFIG_TCP_CONG_")?.strip_suffix("=y")?.to_ascii_lowercase();
        // Its option is called otherwise (net/ipv4/Makefile).
        Some(if name == "hstcp" { "highspeed".to_owned() } else { name })
    });
    // Not a control but the menu they stand in; and the one that no kernel can be without (net/ipv4/tcp_cong.c).
    let mut names: Vec<String> = built_in.filter(|name| name != "advanced").collect();
    names.push("reno".into());
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controls_of_the_configuration_are_named_as_the_kernel_names_them() {
        let names = congestion_controls();
        for name in ["bbr", "cubic", "highspeed", "reno", "vegas"] {
            assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
        }
        assert!(!names.iter().any(|n| n == "advanced" || n == "hstcp"), "{names:?}");
    }
}
