//! Why a network could not be built.

use crate::topology::Interface;
use quell_classify::ClassifyError;
use quell_netlink::NetlinkError;
use quell_netlink::tc::ApplyError;
use quell_sys::SysError;

/// Why a network could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The kernel refused something.
    #[error("node `{node}`: {error}")]
    Netlink {
        /// The node.
        node: String,
        /// What was tried and what the kernel answered.
        error: Box<NetlinkError>,
    },
    /// A queue could not be put in place.
    #[error("the queue on `{at}`: {error}")]
    Queue {
        /// The interface.
        at: Interface,
        /// What is wrong with it, or what the kernel answered.
        error: Box<PutError>,
    },
    /// A namespace could not be made or entered.
    #[error("{0}")]
    System(#[from] SysError),
    /// The plan does not fit together; the experiment's check should have said so.
    #[error("{0}")]
    Plan(String),
}

/// Why a tree is not on a device.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The kernel took no queue, class or filter.
    #[error(transparent)]
    Queue(#[from] ApplyError),
    /// It took no program.
    #[error("{0}")]
    Program(ClassifyError),
}
