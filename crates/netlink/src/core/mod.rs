//! The netlink protocol itself (RFC 3549, `Documentation/userspace-api/netlink`), without any
//! family's meaning.
//!
//! A [`Message`] is a kind, flags, a family header and attributes written by an [`AttrWriter`]. A
//! [`Socket`] numbers it, sends it, waits (blocking, with a deadline) for what belongs to it, and
//! turns a refusal into a [`NetlinkError`] that says what was tried and what the kernel answered.
//! Answers are read by an [`AttrReader`], which believes no length that it has not checked.

mod attr;
mod error;
mod message;
mod multicast_group;
mod socket;
#[cfg(test)]
mod tests;

pub use attr::{Attr, AttrReader, AttrWriter};
pub use error::{Cause, DecodeError, NetlinkError, Offender};
pub use message::{Message, Reply, flags};
pub use multicast_group::MulticastGroup;
pub use socket::{Protocol, Socket};
