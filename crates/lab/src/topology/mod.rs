//! Topologies: what a person writes ([`spec`]), its check ([`check`]), and the network with addresses and paths ([`network`]).

pub mod check;
pub mod network;
pub mod spec;

pub use check::TopologyError;
pub use network::{Network, Node, NodeKind, Port, Wire};
pub use spec::{Interface, Line, Link, Topology, Tunnel, TunnelKind};
