//! Tunnels: a device on each end, and routes that lead the traffic of the hosts behind one end to those behind the other through
//! it.

use super::{BuildError, link_name, wireguard, within};
use crate::topology::{Network, Tunnel, TunnelKind};
use quell_netlink::address::NewAddress;
use quell_netlink::link::{Ends, LinkKind, NewLink, Tunnel as Kind, TunnelPayload};
use quell_netlink::route::NewRoute;
use quell_netlink::{Prefix, quiet};
use quell_sys::netns::NetNs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) fn build(network: &Network, spaces: &[NetNs], seed: u64) -> Result<(), BuildError> {
    for (number, tunnel) in network.tunnels.iter().enumerate() {
        let plan = |e: crate::topology::TopologyError| BuildError::Plan(e.to_string());
        let ends = [
            network.find("tunnel", &tunnel.ends[0]).map_err(plan)?,
            network.find("tunnel", &tunnel.ends[1]).map_err(plan)?,
        ];
        for (side, node) in ends.into_iter().enumerate() {
            end(network, spaces, tunnel, number, side, (node, ends[1 - side]))?;
        }
        if tunnel.kind == TunnelKind::WireGuard {
            wireguard::join(network, spaces, tunnel, ends, seed)?;
        }
    }
    Ok(())
}

/// The device of a tunnel between these addresses.
pub(crate) fn device(kind: TunnelKind, v4: Ends<Ipv4Addr>, v6: Ends<Ipv6Addr>) -> LinkKind {
    match kind {
        TunnelKind::Ipip => LinkKind::Tunnel(Kind::Ipip(v4)),
        TunnelKind::SixInFour => LinkKind::Tunnel(Kind::Sit(v4)),
        TunnelKind::FourInSix => LinkKind::Tunnel(Kind::Ip6Tnl(v6, TunnelPayload::V4)),
        TunnelKind::SixInSix => LinkKind::Tunnel(Kind::Ip6Tnl(v6, TunnelPayload::V6)),
        TunnelKind::Gre => LinkKind::Tunnel(Kind::Gre { ends: v4, key: None }),
        TunnelKind::WireGuard => LinkKind::Wireguard,
    }
}

fn end(
    network: &Network,
    spaces: &[NetNs],
    tunnel: &Tunnel,
    number: usize,
    side: usize,
    (node, peer): (usize, usize),
) -> Result<(), BuildError> {
    let v4 = |n: usize| {
        network.v4(n).ok_or_else(|| BuildError::Plan("a tunnel's end has no address".into()))
    };
    let v6 = |n: usize| {
        network.v6(n).ok_or_else(|| BuildError::Plan("a tunnel's end has no address".into()))
    };
    let v4 = Ends::new(v4(node)?, v4(peer)?);
    let kind = device(tunnel.kind, v4, Ends::new(v6(node)?, v6(peer)?));
    let name = link_name(&tunnel.name)?;
    let mut link = NewLink::new(name.clone(), kind);
    link.mtu = tunnel.mtu;
    let own = side as u8 + 1;
    let mut addresses = Vec::new();
    if tunnel.kind.carries_v4() {
        let address = Ipv4Addr::new(10, 255, number as u8, own);
        addresses.push(Prefix::new(IpAddr::V4(address), 24).expect("24 bits are within 32"));
    }
    if tunnel.kind.carries_v6() {
        let address = Ipv6Addr::new(0xfd00, 0xffff, 0, number as u16, 0, 0, 0, own.into());
        addresses.push(Prefix::new(IpAddr::V6(address), 64).expect("64 bits are within 128"));
    }
    let far = if side == 0 { &tunnel.to } else { &tunnel.from };
    let mut through = Vec::new();
    for host in network.beyond(peer, node, far) {
        for port in &network.nodes[host].ports {
            if tunnel.kind.carries_v4() {
                through.push(Prefix::host(IpAddr::V4(port.v4)));
            }
            if tunnel.kind.carries_v6() {
                through.push(Prefix::host(IpAddr::V6(port.v6)));
            }
        }
    }
    within(network, spaces, node, |stack| {
        stack.create_link(&link)?;
        quiet::quiet(&name)
    })?;
    within(network, spaces, node, |stack| {
        let index = stack.index_of(&name)?;
        stack.up(index)?;
        for address in &addresses {
            stack.add_address(index, &NewAddress::new(*address))?;
        }
        for to in &through {
            stack.add_route(&NewRoute::direct(*to, index))?;
        }
        Ok(())
    })
}
