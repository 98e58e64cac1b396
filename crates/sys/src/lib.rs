//! What Quell asks of the operating system itself, one thing per module.
//!
//! ```text
//!   netns      a network of one's own, and threads that live in it
//!   child      programs that don't outlive us
//!   clock      monotonic nanoseconds, and sleeping until one of them
//!   affinity   which CPUs may be used
//!   backlog    bytes that wait until somebody takes them
//!   input      a file that a person named, read without waiting for somebody else
//!   last_words what a child says on its standard error
//!   memory     what the allocator keeps of what was freed
//!   pace       when a sender sends
//!   pidfd      a process as a descriptor
//!   reader     printing, and ending when nobody reads it
//!   resolve    hosts as people name them, and their addresses
//!   secret     a shared secret from its file, and random bytes
//!   socket     datagrams and connections, with what the kernel knows of each packet
//!   trusted    folders that only root and this user can change
//!   wait       until something comes, a time is there, or somebody rings
//!   wall       the wall clock, in step with the monotonic one, and whether it was set
//! ```
//!
//! Nothing here spins: waiting is always done in the kernel, so that virtual time can move (see the
//! lab).

pub mod affinity;
pub mod backlog;
pub mod child;
pub mod clock;
mod error;
pub mod input;
pub mod last_words;
pub mod memory;
pub mod netns;
pub mod pace;
pub mod pidfd;
pub mod reader;
pub mod resolve;
pub mod secret;
pub mod socket;
pub mod trusted;
pub mod wait;
pub mod wall;

pub use error::SysError;
