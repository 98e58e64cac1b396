//! `quell mesh`: many agents that measure each other, and what they saw.

pub mod bus;
pub mod init;
pub mod plan;
pub mod show;
pub mod watch;
