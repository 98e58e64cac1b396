//! What other programs were told of a line, as a policy file.
//!
//! ```text
//!   /etc/config/sqm ───────┐
//!                          ├─► Imported: LinePolicy, and what is left out
//!   ShapedDevices.csv ─────┘
//! ```

mod libreqos;
mod sqm;

use crate::{LinePolicy, TwoWaySubscriber};

pub(crate) use libreqos::circuits;
pub use libreqos::libreqos;
pub use sqm::sqm;

/// Subscribers as a table says them, and what of it is left out, a line each.
pub type Listed = (Vec<TwoWaySubscriber>, Vec<String>);

#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    pub wanted: LinePolicy,
    /// What the file says and this can't, a line each.
    pub left_out: Vec<String>,
}
