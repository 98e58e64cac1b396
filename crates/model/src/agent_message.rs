//! What an agent says: who it is, then events, each with its number.
//!
//! ```text
//!   agent ──► Hello(version, clock) ──► Event 0 ──► Event 1 ──► …
//!                 ▲ Ask              └► Host, once    Clock, each time that it is asked
//! ```
//!
//! The number makes a message that comes twice count once, and one that never came be missed, whatever carries them.

use crate::event::Event;
use serde::{Deserialize, Serialize};

/// Version of commands and of what agents say. Both ends are of the same one, or they don't work together.
pub const AGENT_VERSION: u32 = 3;

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
    /// The answer to [`crate::Command::Ask`], said at once.
    Clock {
        /// When it was asked, by the clock of whoever asked.
        asked_ns: u64,
        /// Its `CLOCK_MONOTONIC` when it read that.
        monotonic_ns: u64,
    },
    /// Comes before the first [`Said::Clock`].
    Host(AgentHost),
}

/// The host of an agent on another machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentHost {
    /// Its version of Quell.
    pub quell: String,
    /// `uname -r`.
    pub kernel: String,
    /// Whether something (NTP, PTP) keeps its clock right, by its kernel's own word.
    pub disciplined: bool,
    /// How far the kernel takes its clock to be wrong at most, in microseconds.
    pub most_wrong_us: u64,
    /// By which its TCP sends unless it is told otherwise.
    pub congestion: String,
}
