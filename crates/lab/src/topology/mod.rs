//! Topologies: what a person writes ([`spec`]), its check ([`check`]), the network with addresses and
//! paths ([`network`]), and the names of its nodes in commands.

pub mod check;
pub mod network;
mod placeholders;
pub mod spec;

pub use check::TopologyError;
pub use network::{Network, Node, NodeKind, Port, Wire};
pub use spec::{Interface, Line, LineFiles, Link, Policer, Topology, Tunnel, TunnelKind};
