//! Tunnels: a device on each end, and routes that lead the traffic of the hosts behind one end to those behind the other through
//! it.

use super::node::{BuildError, link_name, within};
use crate::topology::{Network, Tunnel, TunnelKind};
use quell_netlink::address::NewAddress;
use quell_netlink::link::{LinkKind, NewLink, Tunnel as Kind, TunnelEnds, TunnelPayload};
use quell_netlink::route::NewRoute;
use quell_netlink::wireguard::{Config, Peer, PrivateKey, Wireguard};
use quell_netlink::{LinkName, NetlinkError, Prefix, quiet};
use quell_stats::rng::Rng;
use quell_sys::clock;
use quell_sys::netns::NetNs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

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
            join(network, spaces, tunnel, ends, seed)?;
        }
    }
    Ok(())
}

/// The device of a tunnel between these addresses.
pub(crate) fn device(
    kind: TunnelKind,
    v4: TunnelEnds<Ipv4Addr>,
    v6: TunnelEnds<Ipv6Addr>,
) -> LinkKind {
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
    let v4 = TunnelEnds::new(v4(node)?, v4(peer)?);
    let kind = device(tunnel.kind, v4, TunnelEnds::new(v6(node)?, v6(peer)?));
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

// WireGuard: keys from the cell's seed, and a handshake before anything is measured.
//
//   private keys ──► both interfaces ──► public keys, which the kernel computes ──► each other's peer
//   network built ──► keepalive on ──► handshake ──► keepalive off ──► what is measured finds a session

const PORT: u16 = 51820;

/// Longest wait for a handshake, in nanoseconds: a lost one is tried again after 5 s and a little (`REKEY_TIMEOUT`,
/// drivers/net/wireguard/messages.h), twice in this time. A path that carries nothing at all is no reason not to begin.
const PATIENCE_NS: u64 = 11_500_000_000;

fn join(
    network: &Network,
    spaces: &[NetNs],
    tunnel: &Tunnel,
    ends: [usize; 2],
    seed: u64,
) -> Result<(), BuildError> {
    let device = link_name(&tunnel.name)?;
    let mut configs = [0, 1].map(|side| Config {
        private_key: PrivateKey(private_key(seed, &tunnel.name, side)),
        listen_port: Some(PORT),
        peers: Vec::new(),
    });
    let mut public = Vec::new();
    for (node, config) in ends.into_iter().zip(&configs) {
        let status = at(network, spaces, node, &device, |wireguard, index| {
            wireguard.configure(index, config)?;
            wireguard.status(index)
        })?;
        let no_key = || BuildError::Plan(format!("tunnel `{}` took no key", tunnel.name));
        public.push(status.public_key.ok_or_else(no_key)?);
    }
    for (side, config) in configs.iter_mut().enumerate() {
        let peer = network
            .v4(ends[1 - side])
            .ok_or_else(|| BuildError::Plan("a tunnel's end has no address".into()))?;
        config.peers.push(Peer {
            public_key: public[1 - side],
            endpoint: Some(SocketAddr::new(IpAddr::V4(peer), PORT)),
            allowed_ips: vec![Prefix::ALL_V4, Prefix::ALL_V6],
            keepalive: None,
        });
        at(network, spaces, ends[side], &device, |wireguard, index| {
            wireguard.configure(index, config)
        })?;
    }
    Ok(())
}

/// A WireGuard key from the cell's seed, clamped as Curve25519 wants it (RFC 7748, section 5).
fn private_key(seed: u64, name: &str, side: usize) -> [u8; 32] {
    let mut rng = Rng::new(seed).derive(&format!("tunnel/{name}/{side}"));
    let mut key = [0; 32];
    for chunk in key.chunks_mut(8) {
        chunk.copy_from_slice(&rng.u64().to_le_bytes());
    }
    key[0] &= 248;
    key[31] = (key[31] & 127) | 64;
    key
}

/// Lets the two ends of every WireGuard tunnel shake hands, so that no measured packet pays for it with a round trip.
///
/// A keepalive that is turned on is sent at once, and so starts the handshake (`set_peer`, drivers/net/wireguard/netlink.c).
pub(super) fn shake_hands(network: &Network, spaces: &[NetNs]) -> Result<(), BuildError> {
    let tunnels = || network.tunnels.iter().filter(|t| t.kind == TunnelKind::WireGuard);
    // All at once: their round trips pass side by side.
    for tunnel in tunnels() {
        keepalive(network, spaces, tunnel, Some(Duration::from_secs(1)))?;
    }
    let give_up = clock::monotonic_ns() + PATIENCE_NS;
    for tunnel in tunnels() {
        while !has_session(network, spaces, tunnel)? && clock::monotonic_ns() < give_up {
            clock::sleep_until(clock::monotonic_ns() + 1_000_000)?;
        }
        keepalive(network, spaces, tunnel, None)?;
    }
    Ok(())
}

/// Whether both ends may send: the one that answered may from the first packet on that it gets.
fn has_session(network: &Network, spaces: &[NetNs], tunnel: &Tunnel) -> Result<bool, BuildError> {
    let device = link_name(&tunnel.name)?;
    for end in &tunnel.ends {
        let node = node(network, end)?;
        let status = at(network, spaces, node, &device, Wireguard::status)?;
        if !status.peers.iter().all(|peer| peer.last_handshake.is_some()) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn keepalive(
    network: &Network,
    spaces: &[NetNs],
    tunnel: &Tunnel,
    every: Option<Duration>,
) -> Result<(), BuildError> {
    let first = node(network, &tunnel.ends[0])?;
    at(network, spaces, first, &link_name(&tunnel.name)?, |wireguard, index| {
        for peer in wireguard.status(index)?.peers {
            wireguard.keepalive(index, peer.public_key, every)?;
        }
        Ok(())
    })
}

fn node(network: &Network, name: &str) -> Result<usize, BuildError> {
    network.find("tunnel", name).map_err(|e| BuildError::Plan(e.to_string()))
}

fn at<T: Send>(
    network: &Network,
    spaces: &[NetNs],
    node: usize,
    device: &LinkName,
    work: impl FnOnce(&mut Wireguard, u32) -> Result<T, NetlinkError> + Send,
) -> Result<T, BuildError> {
    within(network, spaces, node, |stack| {
        let index = stack.index_of(device)?;
        work(&mut Wireguard::open()?, index)
    })
}
