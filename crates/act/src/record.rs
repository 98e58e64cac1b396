//! What an undo log's records hold.

use crate::Before;
use crate::made::Made;
use serde::{Deserialize, Serialize};

/// The version of the records.
pub(crate) const VERSION: u32 = 5;

/// Who changes something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// The process.
    pub pid: u32,
    /// What was called, for people.
    pub command: String,
    /// When, in seconds since 1970.
    pub at: u64,
}

/// The first record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// The kernel's name for this boot; what was before another one is void.
    pub boot: String,
    /// The inode of the network namespace.
    pub namespace: u64,
    /// The interface, for people and for the file's name.
    pub device: String,
    /// Its number, by which it is known also when it is renamed.
    pub index: Option<u32>,
    /// Who began.
    pub who: Who,
    /// What is wanted, in words.
    pub wanted: String,
    /// What is wanted, as whoever asked can read it again; this crate does not.
    pub recipe: String,
    /// What was in force before, if something of ours was.
    pub earlier: Option<Earlier>,
    /// What was there before this change.
    pub before: Before,
    /// What was there before the first of our changes that are in force, if that was another one.
    pub origin: Option<Before>,
    /// The steps, in words.
    pub steps: Vec<String>,
}

/// An earlier change of ours that is in force again when a later one is undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    pub(crate) wanted: String,
    pub(crate) recipe: String,
    pub(crate) made: Vec<Made>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Record {
    Begun(u32, Box<Begun>),
    /// Until when it is to be confirmed, on the monotonic clock.
    Applied(Option<u64>, Vec<Made>),
    Confirmed,
    /// By whom, and what is to be there then.
    Leaving(Who, Box<Before>),
    Returning,
}
