//! Quell's conversation with the kernel's network stack.
//!
//! ```text
//!   Stack (rtnetlink)     link  address  route  neighbour        "one namespace's interfaces and where packets go"
//!   other conversations   tc  offload  ethtool  wireguard  nat  sock_diag  drops
//!   files under /proc/sys sysctl  quiet
//!        |
//!   core                  Socket · Message · AttrWriter · AttrReader
//!        |
//!   kernel                NETLINK_ROUTE · NETLINK_GENERIC · NETLINK_NETFILTER · NETLINK_SOCK_DIAG
//! ```
//!
//! Everything works on the network namespace that the calling thread was in when it opened the
//! socket (sysctls: is in when it calls). No other program is called and no text is parsed. Each
//! request's bytes are held against what `ip` and `nft` send for the same thing (`tests.rs`).

#![allow(missing_docs, reason = "nobody else uses it as a library")]

pub mod address;
pub mod core;
pub mod drops;
/// What drivers tell of their hardware.
pub mod ethtool;
pub mod flowtable;
mod generic;
pub mod hosts_table;
pub mod link;
pub mod nat;
pub mod neighbour;
pub mod offload;
pub mod prefix;
pub mod quiet;
pub mod route;
pub mod sock_diag;
mod stack;
pub mod sysctl;
/// Queues: qdiscs, classes, filters, actions.
pub mod tc;
pub mod wireguard;

#[cfg(any(test, feature = "hostile"))]
pub mod hostile_answers;
#[cfg(test)]
mod tests;

pub use crate::core::{DecodeError, NetlinkError};
pub use link::{LinkName, Mac};
pub use prefix::Prefix;
pub use stack::Stack;
