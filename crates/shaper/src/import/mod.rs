//! What other programs were told of a line, as a policy file.
//!
//! ```text
//!   /etc/config/sqm ───────┐
//!                          ├─► Imported: BothWays, and what is left out
//!   ShapedDevices.csv ─────┘
//! ```

mod libreqos;
mod sqm;

use crate::BothWays;

pub use libreqos::libreqos;
pub use sqm::sqm;

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// What is wanted of the line.
    pub wanted: BothWays,
    /// What the file says and this can't, a line each.
    pub left_out: Vec<String>,
}
