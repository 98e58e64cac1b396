//! The classifier: a tc filter that gives each packet its class by host, tier and flow, looking into tunnels, in one step.
//!
//! ```text
//!   Parts ──checks──► Config ──┬──► Classifier ──filters()──► a tree of quell_tc ──► the kernel
//!                              │     (bpf/*.c, by clang)           │
//!                              │                                 Tables: who has which class, other keys at run time
//!                              └──► Twin, in tests/twin: the same in plain Rust, which tests hold the program against
//! ```
//!
//! `docs/classifier.md` tells what it does with which packet.

#![allow(missing_docs, reason = "nobody else uses it as a library")]

mod error;
mod filter;
mod program;
mod raw;
pub mod roster;
mod round_trips;
mod tables;

pub use error::ClassifyError;
pub use filter::{Loaded, ready, ready_tree};
pub use program::{Classifier, TestRun, Way, catch_all};
pub use quell_tc::classify as config;
pub use quell_tc::classify::{
    Config, ConfigError, HostKey, Hosts, Key, KeyError, Keys, Layout, Parts, TierBy, Tiers,
};
pub use round_trips::{RoundTrip, RoundTrips};
pub use tables::{HostId, HostRow, Tables};
