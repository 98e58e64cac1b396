//! Probes: small traffic that observes.
//!
//! ```text
//!   pure      ledger      what was sent, what came, what became of each packet
//!             direction   on which way a packet was lost, by the reflector's count
//!             patience    how long a reply is waited for, by the round trips so far
//!             sessions    a reflector's counts
//!             numbered    answers that lack a number which others have
//!             departures  packets on their way out of this host
//!             clocks      by which clocks times came about
//!   sockets   prober      sends when it is time, receives when something comes: one thread, any number of streams
//!             stream_socket  a stream's socket, as the prober sees it
//!             ping        ICMP echo        ┐
//!             udp         STAMP over UDP   │ what differs between them
//!             tcp         TCP connects     ┘
//!             path        all hops on the way, by packets that end there
//!             reflector   answers STAMP
//!             listener    lets TCP connect
//! ```
//!
//! A packet counts as lost when no reply came within the *patience*: the stream's linger, at least a second. That is the same for
//! each packet, whenever it was sent; of a packet that could not be awaited that long before the end nobody knows, and one that not even the
//! quickest reply could have answered by then is unfinished and counts not at all.

mod clocks;
pub mod direction;
pub mod ledger;
pub mod listener;
pub mod numbered;
pub mod options;
pub mod path;
pub mod patience;
pub mod ping;
mod presence;
mod prober;
pub mod reflector;
mod retry;
mod send_stamps;
pub mod sessions;
mod stream_socket;
pub mod tcp;
pub mod udp;

pub use listener::Listener;
pub use options::{ProbeOptions, plain};
pub use patience::Patience;
pub use prober::Prober;
pub use reflector::Reflector;

use quell_model::Event;
use quell_sys::SysError;

/// Takes the events of a probe, on the probe's thread.
pub type Emit<'a> = &'a (dyn Fn(Event) + Sync);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    #[error("stream `{stream}`: {why}")]
    Parameter { stream: String, why: String },
    #[error("{0}")]
    System(#[from] SysError),
}
