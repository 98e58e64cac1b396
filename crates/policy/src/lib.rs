//! Shaping: a **policy** says what a person wants of a queue; a plan is the tc tree that brings it about.
//!
//! ```text
//!   policy (rate, hosts, tiers) ──plan──► quell_tc::Tree ──► netlink
//! ```
//!
//! Pure: nothing here talks to a kernel.

#![allow(missing_docs, reason = "nobody else uses it as a library")]

mod access_line;
mod active_subscribers;
mod cake;
mod csv;
mod follow_policy;
mod host_detection;
pub mod host_fair;
pub mod import;
mod lack;
mod line_policy;
mod line_type;
mod list;
mod on_demand;
mod subscribers;
mod tier;
mod tiers;
mod types;

use serde::{Deserialize, Serialize};

pub use access_line::{LineBuffer, LineKind, LinePath, LineRates, TypedLine};
pub use active_subscribers::{ActiveSubscribers, Admission};
pub use cake::CakePolicy;
pub use follow_policy::{FollowPolicy, Signal, WhenLost, hold_step, line_step};
pub use host_detection::{HostDetection, HostsBy};
pub use host_fair::HostFair;
pub use import::Listed;
pub use lack::{Lack, without_fq_codel};
pub use line_policy::{
    Bounds, DeviceTraits, LAZY_FROM, LAZY_IDLE, LAZY_MOST, LinePolicy, PolicyName, TwoWayGroup,
    TwoWaySubscriber,
};
pub use line_type::{Counting, LineType};
pub use list::{read_list, write_list};
pub use on_demand::OnDemand;
pub use subscribers::{Group, PrefixText, Subscriber, Subscribers};
pub use tier::FRAME;
pub use tiers::Tiers;
pub use types::{Host, LinePart, PolicyError, Shaped, Tell};

/// What a person wants of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub enum Policy {
    /// Below the link's rate, fair between hosts, three tiers in each host, fair between flows in each tier.
    HostFair(HostFair),
    /// CAKE, which finds the hosts by itself.
    Cake(CakePolicy),
    /// Three tiers for the whole link, fair between flows in each.
    Tiers(Tiers),
    /// A floor and a ceiling for each of many, groups of them under a common ceiling.
    Subscribers(Subscribers),
}

impl Policy {
    /// The plan for an interface with these hosts behind it.
    pub fn plan(&self, hosts: &[Host], tell: Tell) -> Result<Shaped, PolicyError> {
        match self {
            Policy::HostFair(policy) => policy.plan(hosts, tell),
            Policy::Cake(policy) => policy.plan(tell),
            Policy::Tiers(policy) => policy.plan(),
            Policy::Subscribers(policy) => policy.plan(tell),
        }
    }
}
