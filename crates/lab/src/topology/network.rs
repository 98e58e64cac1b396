//! A network: a topology that was checked, with addresses and paths laid out.
//!
//! ```text
//!   link number i, from node a to node b:
//!      a  10.(i/256).(i%256).1/24   fd00:0:0:i::1/64   02:00:00:(i/256):(i%256):01
//!      b  10.(i/256).(i%256).2/24   fd00:0:0:i::2/64   02:00:00:(i/256):(i%256):02
//! ```
//!
//! A node's address is that of its first link.

use super::spec::{Interface, Line, Tunnel};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A checked topology. Nodes are known by their index.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Hosts first, then routers, in the order of the file.
    pub nodes: Vec<Node>,
    /// The links, in the order of the file.
    pub wires: Vec<Wire>,
    /// The tunnels; their names are known to be right.
    pub tunnels: Vec<Tunnel>,
    pub nat: Vec<Interface>,
    pub(super) index: BTreeMap<String, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    Host,
    Router,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub name: String,
    pub kind: NodeKind,
    pub ports: Vec<Port>,
}

/// A node's end of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    pub wire: usize,
    pub device: String,
    /// The node on the other end.
    pub peer: usize,
    /// IPv4 address, in a /24.
    pub v4: Ipv4Addr,
    /// IPv6 address, in a /64.
    pub v6: Ipv6Addr,
    pub mac: [u8; 6],
}

#[derive(Debug, Clone, PartialEq)]
pub struct Wire {
    pub name: String,
    pub ends: [usize; 2],
    /// From the first end to the second.
    pub up: Line,
    /// From the second end to the first.
    pub down: Line,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Larger IP packets vanish on the way.
    pub swallows_above: Option<u32>,
    /// Transmit queues of the devices on both ends.
    pub tx_queues: u16,
}

impl Network {
    pub fn v4(&self, node: usize) -> Option<Ipv4Addr> {
        self.nodes[node].ports.first().map(|p| p.v4).filter(|a| !a.is_unspecified())
    }

    pub fn v6(&self, node: usize) -> Option<Ipv6Addr> {
        self.nodes[node].ports.first().map(|p| p.v6).filter(|a| !a.is_unspecified())
    }

    /// Puts the addresses by which real hosts are reached into the place of the lab's; a family in which a host has none has the unspecified one.
    pub fn reach_at(&mut self, addresses: &BTreeMap<String, Vec<IpAddr>>) {
        for node in &mut self.nodes {
            let its = addresses.get(&node.name).map(Vec::as_slice).unwrap_or_default();
            let v4 = its.iter().find_map(|a| if let IpAddr::V4(a) = a { Some(*a) } else { None });
            let v6 = its.iter().find_map(|a| if let IpAddr::V6(a) = a { Some(*a) } else { None });
            for port in &mut node.ports {
                port.v4 = v4.unwrap_or(Ipv4Addr::UNSPECIFIED);
                port.v6 = v6.unwrap_or(Ipv6Addr::UNSPECIFIED);
            }
        }
    }

    /// Where a node must send packets for each other node: the index of its own port; none for itself and for what it can't reach.
    pub fn next_hops(&self, node: usize) -> Vec<Option<usize>> {
        let mut first: Vec<Option<usize>> = vec![None; self.nodes.len()];
        let mut todo = VecDeque::new();
        for (index, port) in self.nodes[node].ports.iter().enumerate() {
            if port.peer != node && first[port.peer].is_none() {
                first[port.peer] = Some(index);
                todo.push_back(port.peer);
            }
        }
        while let Some(at) = todo.pop_front() {
            for port in &self.nodes[at].ports {
                if port.peer != node && first[port.peer].is_none() {
                    first[port.peer] = first[at];
                    todo.push_back(port.peer);
                }
            }
        }
        first
    }

    /// The line that packets take which leave a node by a port.
    pub fn line(&self, node: usize, port: &Port) -> &Line {
        let wire = &self.wires[port.wire];
        if wire.ends[0] == node { &wire.up } else { &wire.down }
    }

    /// The address of a port's other end.
    pub fn peer_port(&self, node: usize, port: &Port) -> Option<&Port> {
        self.nodes[port.peer].ports.iter().find(|p| p.wire == port.wire && p.peer == node)
    }

    /// The hosts on the far side of `end`, as seen from `other`: those of `named`, or all where it is empty. `end` itself is never
    /// among them, since a tunnel's own packets must not go through it.
    pub fn beyond(&self, end: usize, other: usize, named: &[String]) -> Vec<usize> {
        let first = self.next_hops(end);
        (0..self.nodes.len())
            .filter(|n| *n != end && self.nodes[*n].kind == NodeKind::Host)
            .filter(|n| named.is_empty() || named.contains(&self.nodes[*n].name))
            // Links form a tree: what `end` does not reach by way of `other`, `other` reaches by way of `end`.
            .filter(|n| first[*n].is_some() && first[*n] != first[other])
            .collect()
    }

    /// The nodes whose packets leave `node` by the device when they go to the other side: all on the near side, the node itself
    /// left out. These are the hosts that a shaper on that interface serves.
    pub fn hosts_behind(&self, at: &Interface) -> Vec<usize> {
        let Some(&node) = self.index.get(&at.node) else {
            return Vec::new();
        };
        let first = self.next_hops(node);
        let ports = &self.nodes[node].ports;
        (0..self.nodes.len())
            .filter(|n| *n != node && self.nodes[*n].kind == NodeKind::Host)
            .filter(|n| first[*n].is_some_and(|p| ports[p].device != at.device))
            .collect()
    }
}
