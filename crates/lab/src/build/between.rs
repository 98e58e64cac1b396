//! The middle of a line: a namespace between the nodes, where a packet's bits take their time.
//!
//! ```text
//!   node a         │     between the nodes     │         node b
//!   dsl ═══════════╪═ w0-0 ──redirect──► w0-1 ═╪═══════════ dsl
//!                  │       ◄──redirect──       │
//! ```
//!
//! Packets pass as they are, Ethernet header included: no address, no route, no hop less to live. What leaves towards a node
//! waits there until its last bit is through ([`crate::line::middle`]), so a capture at the sender shows first bits, one at the receiver
//! last bits. Only links of which a line has a rate at some time, or reorders, have a middle.

use super::node::{BuildError, PATIENCE_NS, link_name, wait_for_carriers};
use crate::cell::{CellPlan, ChangeWhat};
use crate::topology::Network;
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::{LinkChange, LinkName, VethEnd};
use quell_netlink::offload::{Checksums, Offloads};
use quell_netlink::quiet::{SILENT, quiet};
use quell_netlink::tc::{self, ApplyError};
use quell_netlink::{NetlinkError, Stack};
use quell_sys::clock;
use quell_sys::netns::NetNs;
use quell_tc::{Action, Filter, Ingress, Matchall, Tree};
use std::os::fd::{AsFd, BorrowedFd};

const PLACE: &str = "between the nodes";

/// The namespace with the middles of lines.
pub struct Between {
    space: Option<NetNs>,
    /// By the wire's number: whether it has a middle.
    has_middle: Vec<bool>,
}

impl Between {
    /// Which links of a plan need a middle from the beginning or later.
    pub(super) fn of(plan: &CellPlan, network: &Network) -> Result<Between, BuildError> {
        let mut has_middle: Vec<bool> =
            network.wires.iter().map(|w| w.up.has_middle() || w.down.has_middle()).collect();
        for change in &plan.changes {
            let ChangeWhat::Line { on, line } = &change.what else { continue };
            let node = network.find("line", &on.node);
            let node = node.map_err(|e| BuildError::Plan(e.to_string()))?;
            let port = network.nodes[node].ports.iter().find(|p| p.device == on.device);
            if let Some(port) = port.filter(|_| line.has_middle()) {
                has_middle[port.wire] = true;
            }
        }
        let space = if has_middle.contains(&true) { Some(NetNs::new()?) } else { None };
        Ok(Between { space, has_middle })
    }

    /// The namespace and the devices in it that face the two ends of a link; None where the link has no middle.
    pub(super) fn of_wire(&self, wire: usize) -> Result<Option<Middle<'_>>, BuildError> {
        match &self.space {
            Some(space) if self.has_middle[wire] => {
                let facing = |end: usize| link_name(&format!("w{wire}-{end}"));
                Ok(Some(Middle { space, facing: [facing(0)?, facing(1)?] }))
            }
            _ => Ok(None),
        }
    }

    /// Waits until all middles carry packets.
    pub(super) fn settle(&self) -> Result<(), BuildError> {
        let Some(space) = &self.space else { return Ok(()) };
        let give_up = clock::monotonic_ns() + PATIENCE_NS;
        wait_for_carriers(PLACE, space, give_up, |name| name != "lo")
    }
}

fn refused(error: NetlinkError) -> BuildError {
    BuildError::Netlink { node: PLACE.into(), error: Box::new(error) }
}

pub(super) struct Middle<'a> {
    pub space: &'a NetNs,
    /// The devices that face the link's first and second end.
    pub facing: [LinkName; 2],
}

impl Middle<'_> {
    /// The far end of the cable that begins at a node's device.
    pub(super) fn cable_end(&self, end: usize, mtu: u32) -> VethEnd<'_> {
        let namespace: BorrowedFd<'_> = self.space.as_fd();
        let mut there = VethEnd::new(self.facing[end].clone());
        there.mtu = Some(mtu);
        there.namespace = Some(namespace);
        there
    }

    /// Brings the two devices up, when both are there, and has each hand on to the other what comes in.
    pub(super) fn join(&self) -> Result<(), BuildError> {
        let up = || {
            let mut stack = Stack::open()?;
            let mut offloads = Offloads::open()?;
            for name in &self.facing {
                quiet(name)?;
                offloads.packets_are_packets(name, Checksums::Leave)?;
                let index = stack.index_of(name)?;
                stack.change_link(index, &[LinkChange::GsoMaxSegs(1)])?;
                stack.change_link(index, &SILENT)?;
                stack.up(index)?;
            }
            Ok(())
        };
        self.space.visit(up)?.map_err(refused)?;
        let redirect = || {
            let mut socket = Socket::open(Protocol::Route).map_err(ApplyError::Left)?;
            let mut stack = Stack::open().map_err(ApplyError::Left)?;
            for (from, to) in [(0, 1), (1, 0)] {
                let index = stack.index_of(&self.facing[from]).map_err(ApplyError::Left)?;
                tc::apply(&mut socket, index, &handing_on(self.facing[to].as_str()))?;
            }
            Ok(())
        };
        self.space.visit(redirect)?.map_err(|error: ApplyError| BuildError::Queue {
            at: crate::topology::Interface {
                node: PLACE.into(),
                device: self.facing[0].as_str().into(),
            },
            error: Box::new(error.into()),
        })
    }
}

/// What comes in leaves by another device, as it is.
pub(crate) fn handing_on(device: &str) -> Tree {
    let filter = Filter::new(Matchall {}, None).with_action(Action::Redirect(device.into()));
    Tree { ingress: Some(Ingress { filters: vec![filter] }), ..Tree::default() }
}
