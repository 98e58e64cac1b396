//! Work in a node's namespace, and why it failed.

use crate::topology::{Interface, Network};
use quell_classify::ClassifyError;
use quell_netlink::core::{MulticastGroup, Protocol};
use quell_netlink::tc::ApplyError;
use quell_netlink::{LinkName, NetlinkError, Stack};
use quell_sys::SysError;
use quell_sys::netns::NetNs;
use quell_sys::wait::{self, Alarm, came, readable};

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("node `{node}`: {error}")]
    Netlink { node: String, error: Box<NetlinkError> },
    #[error("the queue on `{at}`: {error}")]
    Queue { at: Interface, error: Box<PutError> },
    #[error("{0}")]
    System(#[from] SysError),
    #[error("{0}")]
    Plan(String),
}

#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error(transparent)]
    Queue(#[from] ApplyError),
    #[error("{0}")]
    Program(ClassifyError),
}

/// Longest wait for links to carry, in nanoseconds.
pub(super) const PATIENCE_NS: u64 = 5_000_000_000;

/// Waits until those links of a namespace that are `ours` carry.
///
/// The kernel looks at its links once a second (`linkwatch_schedule_work`, net/core/link_watch.c), and tells it. A look each
/// millisecond was half of all changes between processes in a guest's beginning.
pub(super) fn wait_for_carriers(
    place: &str,
    space: &NetNs,
    give_up: u64,
    ours: impl Fn(&str) -> bool,
) -> Result<(), BuildError> {
    let refused =
        |error: NetlinkError| BuildError::Netlink { node: place.into(), error: error.into() };
    // It listens before it looks, so that no change falls between.
    let open =
        || Ok((MulticastGroup::open(Protocol::Route, nix::libc::RTNLGRP_LINK)?, Stack::open()?));
    let (mut group, mut stack) = space.visit(open)?.map_err(refused)?;
    let mut alarm = Alarm::new()?;
    alarm.set(Some(give_up))?;
    loop {
        let links = stack.links().map_err(refused)?;
        let Some(link) = links.iter().find(|l| ours(&l.name) && !l.can_carry()) else {
            return Ok(());
        };
        let mut fds = [readable(&group), readable(&alarm)];
        wait::wait(&mut fds)?;
        let [told, late] = fds.each_ref().map(came);
        if late && !told {
            return Err(BuildError::Plan(format!(
                "link `{}` of `{place}` does not come up",
                link.name
            )));
        }
        // What it says is not taken in: all links are looked at anew. What is left wakes the next wait at once.
        group.hear(1000, |_| Ok(())).map_err(refused)?;
    }
}

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
