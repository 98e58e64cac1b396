//! The classifier in the kernel beside its twin, and in queues.

#[path = "../kernel/mod.rs"]
mod kernel;
#[path = "../../../netlink/tests/namespace/mod.rs"]
mod namespace;
#[path = "../packets/mod.rs"]
mod packets;
#[path = "../../../netlink/tests/namespace/tun.rs"]
mod tun;
#[path = "../twin/mod.rs"]
mod twin;

mod devices;
mod hosts;
mod program;
mod queues;
mod roster;
mod round_trips;
mod strangers;
