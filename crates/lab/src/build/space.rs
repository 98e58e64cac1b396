//! Work in a node's namespace.

use super::error::BuildError;
use crate::topology::Network;
use quell_netlink::{LinkName, NetlinkError, Stack};
use quell_sys::netns::NetNs;

/// Runs something in a node's namespace with a routing socket of that namespace.
pub(super) fn within<T: Send>(
    network: &Network,
    spaces: &[NetNs],
    node: usize,
    work: impl FnOnce(&mut Stack) -> Result<T, NetlinkError> + Send,
) -> Result<T, BuildError> {
    in_space(network, spaces, node, || work(&mut Stack::open()?))
}

pub(super) fn in_space<T: Send>(
    network: &Network,
    spaces: &[NetNs],
    node: usize,
    work: impl FnOnce() -> Result<T, NetlinkError> + Send,
) -> Result<T, BuildError> {
    spaces[node].visit(work)?.map_err(|error| BuildError::Netlink {
        node: network.nodes[node].name.clone(),
        error: Box::new(error),
    })
}

pub(super) fn link_name(name: &str) -> Result<LinkName, BuildError> {
    name.parse().map_err(|e: quell_netlink::link::BadLinkName| BuildError::Plan(e.to_string()))
}
