//! Loads: traffic that stresses, and what receives it.
//!
//! ```text
//!   tcp       bulk connections    client ──connects, says hello──► server; data either way
//!   udp       datagrams one way   send ──► sink
//!   lane      one stream at one end: its socket, what moves its data, what was counted; of flow and serve
//!   arrivals  what a receiver of datagrams saw come, and for how long
//!   rest      datagrams that are still on their way when their sender is done
//!   bulk      data movers: as many bytes or datagrams as go, over sockets that stand already
//!   command   any program
//!   look      what this end's kernel says of a flow
//!   own_queue whether packets stood in the queues of the own device
//!   sample    what the kernel says of queues and connections
//!   toil      whether a thread ever slept
//! ```
//!
//! Everything blocks in the kernel until something is to be done: nothing polls, nothing spins.
//!
//! ECN of TCP is negotiated as the host's `net.ipv4.tcp_ecn` says; whoever builds the network sets that, not the task.

#![allow(missing_docs, reason = "nobody else uses it as a library")]

pub mod arrivals;
pub mod bulk;
pub mod command;
pub mod connection_sample;
mod cpu_wanted;
mod flow;
pub mod lane;
pub mod own_queue;
pub mod rest;
pub mod sample;
pub mod sink;
mod sink_flow;
pub mod tcp;
mod tcp_worker;
pub mod udp;

use quell_model::Event;
use quell_sys::SysError;

/// How often what was counted is handed on.
pub const FLUSH_NS: u64 = 1_000_000_000;

/// Takes the events of a load; called from any of its threads.
pub type Emit<'a> = &'a (dyn Fn(Event) + Sync);

/// Why a load can't be carried out, or went on no longer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error("flow `{flow}`: {why}")]
    Parameter { flow: String, why: String },
    #[error("{0}")]
    System(#[from] SysError),
    #[error("flow `{flow}`: {why}")]
    Broken { flow: String, why: String },
    #[error("{0}")]
    Program(String),
    #[error("{0}")]
    Netlink(String),
}
