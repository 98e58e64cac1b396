//! Shaping: a **policy** says what a person wants of a queue; a plan is the tc tree that brings it about.
//!
//! ```text
//!   policy (rate, hosts, tiers) ──plan──► quell_tc::Tree ──► netlink
//! ```
//!
//! Pure: nothing here talks to a kernel.

mod asked;
mod error;
pub mod host_fair;

use serde::{Deserialize, Serialize};

pub use asked::{Host, Shaped, Tell};
pub use error::PolicyError;
pub use host_fair::HostFair;

/// What a person wants of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub enum Policy {
    /// Below the link's rate, fair between hosts, three tiers in each host, fair between flows in each tier.
    HostFair(HostFair),
}

impl Policy {
    /// The plan for an interface with these hosts behind it.
    pub fn plan(&self, hosts: &[Host], tell: Tell) -> Result<Shaped, PolicyError> {
        match self {
            Policy::HostFair(policy) => policy.plan(hosts, tell),
        }
    }
}
