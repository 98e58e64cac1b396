//! Why an experiment can't be planned.

use quell_lab::topology::TopologyError;
use quell_policy::PolicyError;

/// Why an experiment can't be planned.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error("queue `{queue}`: {error}")]
    Policy { queue: String, error: PolicyError },
    /// A queue's tree does not fit together.
    #[error("queue `{queue}`: {error}")]
    Tree { queue: String, error: String },
    /// Anything else that does not fit together.
    #[error("{0}")]
    Other(String),
}
