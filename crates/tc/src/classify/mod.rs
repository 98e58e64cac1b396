//! The classifier as a filter of a tree: a BPF program of ours that gives each packet its class by host, tier and flow, in tunnels too.
//!
//! ```text
//!   TOML ──► Config, checked ──► the filter's name in the kernel ──► Config again, by whoever reads it back
//! ```
//!
//! What it does with which packet is in `docs/classifier.md`. The program itself, which needs a kernel, is another crate's.

mod config;
mod keys;
mod text;
mod written;

#[cfg(test)]
mod tests;

pub use config::{
    CAKE_QUEUES, Config, ConfigError, HostKey, Hosts, Layout, MAX_HOSTS, MAX_TIERS, Parts, TierBy,
    Tiers, VXLAN_PORT,
};
pub use keys::{Key, KeyError, Keys};
pub use text::{NAME_MOST, is_of_another_version};
