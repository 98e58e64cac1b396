//! What is done with a packet that a filter matched.

use quell_units::{Bytes, Rate};
use serde::{Deserialize, Serialize};

use crate::Handle;

/// One action. In a file: `"drop"`, `{ redirect = "ifb0" }`, `{ skbedit = { mark = 1 } }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Ends here: the packet is lost.
    Drop,
    /// Ends here: the packet goes on.
    Pass,
    /// Sends the packet out of another device instead (an IFB, for shaping what comes in).
    Redirect(String),
    /// Sends a copy out of another device.
    Mirror(String),
    /// Writes on the packet's metadata, then goes on with the next action.
    Skbedit(Skbedit),
    /// Gives the packet its connection's mark, if it has a known one, then goes on with the next action.
    Connmark,
    /// Lets only a rate pass.
    Police(Police),
    /// One of a kind that the kernel showed and Quell can't make, by its kind.
    #[serde(skip_deserializing)]
    Other(String),
}

/// Changes to a packet's metadata.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Skbedit {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<u32>,
    /// Which bits of the mark are written; the others stay. All of them where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask: Option<u32>,
    /// The packet's priority, which a classful queue takes for a class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Handle>,
}

/// A rate limit without a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Police {
    pub rate: Rate,
    pub burst: Bytes,
    /// The largest packet that conforms; default 2047.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Bytes>,
    /// What happens above the rate: lost (default) or only passed to the next filter.
    #[serde(default)]
    pub exceed: Exceed,
}

/// What happens to packets above a policed rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exceed {
    #[default]
    Drop,
    /// They go on with the next filter.
    Continue,
}
