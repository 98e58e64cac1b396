//! A cell: one scenario with one probe (or all probes together), once. The unit that a guest kernel runs.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Names one cell of the matrix scenarios × probes × repeats.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CellId {
    pub scenario: String,
    /// Name of the probe, or [`CellId::TOGETHER`] where the experiment runs its probes together.
    pub probe: String,
    /// Which repetition, from 0.
    pub repeat: u32,
}

impl CellId {
    /// What stands for the probe where all of them run together. No probe may have this name.
    pub const TOGETHER: &str = "all";

    pub fn has_probe(&self, probe: &str) -> bool {
        self.probe == probe || self.probe == Self::TOGETHER
    }
}

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.scenario, self.probe, self.repeat)
    }
}
