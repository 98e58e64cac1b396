//! What Quell asks of the operating system itself, one thing per module.
//!
//! ```text
//!   netns      a network of one's own, and threads that live in it
//!   clock      monotonic nanoseconds, and sleeping until one of them
//!   affinity   which CPUs may be used, and staying on one
//! ```
//!
//! Nothing here spins: waiting is always done in the kernel, so that virtual time can move (see the
//! lab).

pub mod affinity;
pub mod clock;
mod error;
pub mod netns;

pub use error::SysError;
