//! What an agent says: who it is, then events, each with its number.
//!
//! ```text
//!   agent ──► Hello(version, clock) ──► Event 0 ──► Event 1 ──► …
//! ```
//!
//! The number makes a message that comes twice count once, and one that never came be missed, whatever carries them.

use crate::event::Event;
use serde::{Deserialize, Serialize};

/// Version of commands and of what agents say. Both ends are of the same one, or they don't work together.
pub const AGENT_VERSION: u32 = 1;

/// One message of an agent; `E` is its event, or a reference to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Said<E = Event> {
    Hello {
        /// [`AGENT_VERSION`] of the agent.
        version: u32,
        /// Its `CLOCK_MONOTONIC` as it says so, in nanoseconds.
        monotonic_ns: u64,
    },
    Event {
        /// Counts up from 0.
        sequence: u64,
        event: E,
    },
}
