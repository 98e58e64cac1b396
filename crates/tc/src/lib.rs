//! Traffic control as data: what is wanted, what the kernel has, and the difference.
//!
//! ```text
//!   TOML / JSON ──parse──► Tree ──plan()──► Plan = [ Step, Step, … ] ──► tc commands, to read
//!                          (desired)        handles assigned, checked ├─► netlink, to apply
//!                                                                     │
//!                                             changes() ◄──────────┘
//!                                                    ▲
//!                              observed Qdiscs, Classes, Filters with statistics
//! ```
//!
//! A [`Tree`] is what a person writes: a root queue with its classes, child queues and filters, and what happens
//! on the way in. [`Tree::plan`] checks it and turns it into [`Step`]s in the order in which the kernel takes
//! them. Nothing here talks to a kernel.

#![allow(missing_docs, reason = "nobody else uses it as a library")]

mod action;
mod change;
mod class;
pub mod classify;
mod fields;
mod filter;
mod handle;
pub mod observed;
mod packet;
mod plan;
pub mod qdisc;
pub mod rates;
mod render;
mod side;
mod table;
mod tree;
mod u32_match;
mod validate;
mod value;

pub use action::{Action, Exceed, Police, Skbedit};
pub use change::{Change, Place, Places, Seen, Thing, changes, seen};
pub use class::{ClassKind, Curve, HfscClass, HtbClass, RoundRobinClass};
pub use filter::{
    Bpf, BpfProgram, Filter, FilterKind, Flow, FlowKey, FlowMode, Flower, Fw, Matchall, U32,
};
pub use handle::{Handle, HandleError};
pub use observed::hash;
pub use packet::{IpProto, MacAddress, Masked, Prefix, Protocol};
pub use plan::{Plan, Step};
pub use qdisc::Qdisc;
pub use render::{change_command, commands, outline};
pub use side::Side;
pub use table::{At, Encoded, Field, OptionError, Payload, Reported, Unit, Word};
pub use tree::{Class, Clsact, Ingress, Queue, Tree};
pub use u32_match::{Match, MatchError, MatchKey, merge_keys};
pub use validate::TreeError;
