//! What the kernel answers over netlink, in namespaces of the tests' own.

#[path = "../namespace/mod.rs"]
mod namespace;

mod links;
mod tc_changes;
mod tc_goldens;
mod tc_live;
mod traffic;
