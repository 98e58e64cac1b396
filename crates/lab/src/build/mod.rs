//! Building a network: a namespace a node, a veth pair a link, addresses, routes, tunnels, address translation, queues. All over
//! netlink, in whatever kernel the caller runs on.
//!
//! ```text
//!   Network ──► namespaces ──► links, with middles ──► addresses, neighbours, routes ──► tunnels, NAT ──► queues
//! ```
//!
//! Nothing has a name outside of the process that builds: when it ends, by whatever way, all of it is gone.

mod between;
mod files;
mod node;
mod queues;
mod tunnels;

use crate::cell::{CellPlan, RouteSettings};
use crate::topology::{Network, NodeKind};
use quell_model::TaskKind;
use quell_netlink::address::NewAddress;
use quell_netlink::link::{LinkChange, VethEnd};
use quell_netlink::offload::{Checksums, Offloads};
use quell_netlink::route::{NewRoute, RouteMetrics};
use quell_netlink::{Mac, Prefix, sysctl};
use quell_sys::clock;
use quell_sys::netns::NetNs;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use between::Between;
pub(crate) use between::handing_on;
pub(crate) use files::with_own_files;
pub use node::{BuildError, PutError};
use node::{PATIENCE_NS, in_space, link_name, wait_for_carriers, within};
pub use queues::{Queues, ifb_name};
pub(crate) use tunnels::device;

pub struct Built {
    pub network: Network,
    /// A namespace for each node, in the same order.
    pub spaces: Vec<NetNs>,
    /// The queues that are in place, which the timeline may change.
    pub queues: Queues,
}

/// Builds the plan's network and its queues.
pub fn build(plan: &CellPlan) -> Result<Built, BuildError> {
    let network = plan.topology.parse().map_err(|e| BuildError::Plan(e.to_string()))?;
    let mut spaces = Vec::new();
    for _ in &network.nodes {
        spaces.push(NetNs::new()?);
    }
    let between = Between::of(plan, &network)?;
    for (number, wire) in network.wires.iter().enumerate() {
        let [a, b] = wire.ends;
        let end = |node: usize| {
            let port = network.nodes[node].ports.iter().find(|p| p.device == wire.name);
            let mut end = VethEnd::new(link_name(&wire.name)?);
            end.mac = port.map(|p| Mac(p.mac));
            end.mtu = Some(wire.mtu);
            end.tx_queues = wire.tx_queues.into();
            Ok::<_, BuildError>(end)
        };
        if let Some(middle) = between.of_wire(number)? {
            for (side, node) in wire.ends.into_iter().enumerate() {
                let (here, there) = (end(node)?, middle.cable_end(side, wire.mtu));
                within(&network, &spaces, node, |stack| stack.create_veth(&here, &there))?;
            }
            middle.join()?;
        } else {
            let here = end(a)?;
            let mut there = end(b)?;
            there.namespace = Some(spaces[b].as_fd());
            within(&network, &spaces, a, |stack| stack.create_veth(&here, &there))?;
        }
    }
    for node in 0..network.nodes.len() {
        set_up(&network, &spaces, node)?;
    }
    for node in 0..network.nodes.len() {
        route(&network, &spaces, node)?;
        settings(plan, &network, &spaces, node)?;
    }
    own_addresses(plan, &network, &spaces)?;
    for settings in &plan.routes {
        own_route(settings, &network, &spaces)?;
    }
    tunnels::build(&network, &spaces, plan.seed)?;
    for at in &network.nat {
        let node = network.find("nat", &at.node).map_err(|e| BuildError::Plan(e.to_string()))?;
        let device = link_name(&at.device)?;
        in_space(&network, &spaces, node, || {
            quell_netlink::nat::masquerade(std::slice::from_ref(&device))
        })?;
    }
    let queues = Queues::place(plan, &network, &spaces, between)?;
    settle(&network, &spaces)?;
    queues.settle()?;
    tunnels::shake_hands(&network, &spaces)?;
    Ok(Built { network, spaces, queues })
}

/// How long the kernel speaks by itself once a link carries: two reports of multicast groups within 20 ms (`quell_netlink::quiet`). It tells
/// nobody when it is done.
const SPEAKS_NS: u64 = 100_000_000;

/// Waits until every link carries packets, and no other than those that are sent: the kernel brings a link to life a little after it was set up
/// (`linkwatch_event`).
fn settle(network: &Network, spaces: &[NetNs]) -> Result<(), BuildError> {
    let give_up = clock::monotonic_ns() + PATIENCE_NS;
    for (this, space) in network.nodes.iter().zip(spaces) {
        let ours = |name: &str| this.ports.iter().any(|p| p.device == name);
        wait_for_carriers(&this.name, space, give_up, ours)?;
    }
    Ok(clock::sleep_until(clock::monotonic_ns() + SPEAKS_NS)?)
}

fn set_up(network: &Network, spaces: &[NetNs], node: usize) -> Result<(), BuildError> {
    let ports = &network.nodes[node].ports;
    let mut names = Vec::new();
    for port in ports {
        names.push(link_name(&port.device)?);
    }
    let lo = link_name("lo")?;
    within(network, spaces, node, move |stack| {
        let index = stack.index_of(&lo)?;
        stack.up(index)?;
        let mut offloads = Offloads::open()?;
        for (port, name) in ports.iter().zip(&names) {
            quell_netlink::quiet::quiet(name)?;
            offloads.packets_are_packets(name, Checksums::Leave)?;
            let index = stack.index_of(name)?;
            stack.change_link(index, &[LinkChange::GsoMaxSegs(1)])?;
            stack.up(index)?;
            for (address, length) in [(IpAddr::V4(port.v4), 24), (IpAddr::V6(port.v6), 64)] {
                let prefix = prefix(address, length);
                stack.add_address(index, &NewAddress::new(prefix))?;
            }
            if let Some(peer) = network.peer_port(node, port) {
                for address in [IpAddr::V4(peer.v4), IpAddr::V6(peer.v6)] {
                    stack.set_neighbour(index, address, Mac(peer.mac))?;
                }
            }
        }
        Ok(())
    })
}

fn prefix(address: IpAddr, length: u8) -> Prefix {
    Prefix::new(address, length).expect("no length here is beyond its family's")
}

/// Hosts send everything to their one neighbour; routers know the way to every link.
fn route(network: &Network, spaces: &[NetNs], node: usize) -> Result<(), BuildError> {
    let this = &network.nodes[node];
    let mut routes = Vec::new();
    if this.kind == NodeKind::Host {
        if let Some(port) = this.ports.first()
            && let Some(peer) = network.peer_port(node, port)
        {
            routes.push((Prefix::ALL_V4, IpAddr::V4(peer.v4), port.device.clone()));
            routes.push((Prefix::ALL_V6, IpAddr::V6(peer.v6), port.device.clone()));
        }
    } else {
        let first = network.next_hops(node);
        for wire in network.wires.iter().filter(|w| !w.ends.contains(&node)) {
            let far = wire.ends[0];
            let (Some(port), Some(target)) = (
                first[far].map(|port| &this.ports[port]),
                network.nodes[far].ports.iter().find(|p| p.device == wire.name),
            ) else {
                continue;
            };
            let Some(peer) = network.peer_port(node, port) else { continue };
            let v4 = prefix(IpAddr::V4(target.v4), 24).network();
            let v6 = prefix(IpAddr::V6(target.v6), 64).network();
            routes.push((v4, IpAddr::V4(peer.v4), port.device.clone()));
            routes.push((v6, IpAddr::V6(peer.v6), port.device.clone()));
        }
    }
    let mut named = Vec::new();
    for (to, via, device) in routes {
        named.push((to, via, link_name(&device)?));
    }
    let forwards = this.kind == NodeKind::Router;
    within(network, spaces, node, move |stack| {
        if forwards {
            sysctl::write("net.ipv4.ip_forward", "1")?;
            sysctl::write("net.ipv6.conf.all.forwarding", "1")?;
        }
        for (to, via, device) in named {
            let index = stack.index_of(&device)?;
            stack.add_route(&NewRoute::via(to, via, index))?;
        }
        Ok(())
    })
}

fn settings(
    plan: &CellPlan,
    network: &Network,
    spaces: &[NetNs],
    node: usize,
) -> Result<(), BuildError> {
    let own = plan.node_sysctl.get(&network.nodes[node].name);
    let all = plan.sysctl.iter().chain(own.into_iter().flatten());
    in_space(network, spaces, node, move || {
        for (key, value) in all {
            sysctl::write(key, value)?;
        }
        Ok(())
    })
}

/// Gives a host a route of its own to each address of a node, the same way as all its packets go, with settings that TCP takes from it.
fn own_route(
    settings: &RouteSettings,
    network: &Network,
    spaces: &[NetNs],
) -> Result<(), BuildError> {
    let find = |name| network.find("route", name).map_err(|e| BuildError::Plan(e.to_string()));
    let (on, to) = (find(&settings.on)?, find(&settings.to)?);
    let first = network.next_hops(on)[to].map(|port| &network.nodes[on].ports[port]);
    let (port, peer) =
        first.and_then(|port| Some((port, network.peer_port(on, port)?))).ok_or_else(|| {
            BuildError::Plan(format!("{} has no way to {}", settings.on, settings.to))
        })?;
    let device = link_name(&port.device)?;
    let metrics = RouteMetrics {
        quick_ack: settings.quick_ack,
        rto_min: settings.rto_min.map(|span| Duration::from_nanos(span.nanos())),
        ..RouteMetrics::default()
    };
    let targets = network.nodes[to].ports.iter().flat_map(|target| {
        let v4 = (IpAddr::V4(target.v4), 32, IpAddr::V4(peer.v4));
        let v6 = (IpAddr::V6(target.v6), 128, IpAddr::V6(peer.v6));
        [v4, v6]
    });
    let routes: Vec<_> = targets
        .map(|(target, length, router)| NewRoute {
            via: (target != router).then_some(router),
            metrics: metrics.clone(),
            ..NewRoute::direct(prefix(target, length), 0)
        })
        .collect();
    within(network, spaces, on, move |stack| {
        let dev = stack.index_of(&device)?;
        for route in routes {
            stack.add_route(&NewRoute { dev, ..route })?;
        }
        Ok(())
    })
}

/// Adds the addresses that tasks come from beside a host's usual one, for connections that each come from their own.
///
/// ```text
///   router ── fd00:0:0:3:1::1 is at h's Ethernet address ──► h ── lo: fd00:0:0:3:1::1/128
/// ```
///
/// They are loopback's, so that whoever names none still comes from the usual one (RFC 6724, rule 5). The neighbour knows them as it knows that.
fn own_addresses(plan: &CellPlan, network: &Network, spaces: &[NetNs]) -> Result<(), BuildError> {
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
