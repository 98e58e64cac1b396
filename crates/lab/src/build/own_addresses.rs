//! Addresses that a host has beside its usual one, for connections that each come from their own.
//!
//! ```text
//!   router ── fd00:0:0:3:1::1 is at h's Ethernet address ──► h ── lo: fd00:0:0:3:1::1/128
//! ```
//!
//! They are loopback's, so that whoever names none still comes from the usual one (RFC 6724, rule 5). The neighbour knows them as it knows that.

use super::error::BuildError;
use super::space::{link_name, within};
use crate::cell::CellPlan;
use crate::topology::Network;
use quell_model::TaskKind;
use quell_netlink::address::NewAddress;
use quell_netlink::{Mac, Prefix};
use quell_sys::netns::NetNs;
use std::net::IpAddr;

/// Adds those that the plan's tasks come from.
pub(super) fn add(plan: &CellPlan, network: &Network, spaces: &[NetNs]) -> Result<(), BuildError> {
    for task in &plan.tasks {
        let TaskKind::Tcp(client) = &task.kind else { continue };
        let addresses: Vec<IpAddr> = client.sources().map(IpAddr::V6).collect();
        if addresses.is_empty() {
            continue;
        }
        let node =
            network.find(&task.id, &task.host).map_err(|e| BuildError::Plan(e.to_string()))?;
        let lo = link_name("lo")?;
        within(network, spaces, node, |stack| {
            let index = stack.index_of(&lo)?;
            addresses.iter().try_for_each(|address| {
                stack.add_address(index, &NewAddress::new(Prefix::host(*address)))
            })
        })?;
        let Some(port) = network.nodes[node].ports.first() else { continue };
        let Some(there) = network.peer_port(node, port) else { continue };
        let device = link_name(&there.device)?;
        within(network, spaces, port.peer, |stack| {
            let index = stack.index_of(&device)?;
            addresses
                .iter()
                .try_for_each(|address| stack.set_neighbour(index, *address, Mac(port.mac)))
        })?;
    }
    Ok(())
}
