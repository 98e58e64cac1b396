//! Typed steps on an interface.
//!
//! ```text
//!   wanted: a Plan, or what a Snapshot once showed ─┐
//!                                                   ├─ changes() ──► [ Make, Alter, Remove, … ] ──► netlink
//!   there:  a Snapshot ─────────────────────────────┘
//! ```
//!
//! A way back needs no list of what was done: it is [`changes`] once more, from what is there, whatever that is, to what was there.

mod compare;
mod filters;
mod order;
mod step;
mod thing;

pub use order::{Places, changes};
pub use step::Change;
pub use thing::{Place, Seen, Thing, seen};
