//! Parsing a [`Topology`] into a [`Network`]: every name is known, the links form one tree, every node has its addresses, and each
//! pair of nodes its one path. What can't be is refused here, before anything is touched.

use super::network::{Network, Node, NodeKind, Port, Wire};
use super::spec::{Interface, Line, Link, Topology, Tunnel};
use quell_units::Span;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Transmit queues that a device may have: more than most machines have CPUs serve nobody.
const TX_QUEUES: std::ops::RangeInclusive<u16> = 1..=64;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    #[error("the {what} name `{name}` can't be used: {why}")]
    BadName { what: &'static str, name: String, why: &'static str },
    #[error("the {what} `{name}` is there twice; give each its own name")]
    Twice { what: &'static str, name: String },
    #[error("{place} names {what} `{name}`, which is not there{}", hint(known, name))]
    Unknown { place: String, what: &'static str, name: String, known: Vec<String> },
    #[error("{what} `{name}` has the same node, `{node}`, on both ends")]
    SelfLink { what: &'static str, name: String, node: String },
    #[error(
        "link `{link}`: its devices can't have {asked} transmit queues; give {} to {}",
        TX_QUEUES.start(),
        TX_QUEUES.end()
    )]
    TxQueues { link: String, asked: u16 },
    #[error(
        "link `{link}` closes a circle: `{a}` and `{b}` are joined already. Links must form a tree, so that each pair of nodes has \
         one path; take one link of the circle out"
    )]
    Cycle { link: String, a: String, b: String },
    #[error("`{a}` has no path to `{b}`: add a link, or take it out")]
    Disconnected { a: String, b: String },
    #[error(
        "host `{host}` has {links} links, but only routers forward: make it a router, or take links out"
    )]
    HostForwards { host: String, links: usize },
    #[error("link `{link}`, {direction}: {why}")]
    BadLine { link: String, direction: &'static str, why: String },
    #[error("{what} `{name}`: an MTU of {mtu} can't be: give {least} to 65535 bytes")]
    BadMtu { what: &'static str, name: String, mtu: u32, least: u32 },
    #[error("{place}: `{node}` has no link and so no address")]
    NoAddress { place: String, node: String },
    #[error(
        "tunnel `{tunnel}` ends on the host `{host}`: a host has one address, so the tunnel's own packets would go through it. Put a router before the host, and let \
         the tunnel end there"
    )]
    TunnelOnHost { tunnel: String, host: String },
    #[error(
        "tunnel `{tunnel}`: no host is behind its end `{end}`, so nothing would take it; let it end on a router that hosts are \
         behind"
    )]
    IdleTunnel { tunnel: String, end: String },
    #[error(
        "the tunnels `{a}` and `{b}` are of one kind and have the same ends, so nothing distinguishes their packets. Make one of them a GRE or \
         WireGuard tunnel, or take one away"
    )]
    TunnelsAlike { a: String, b: String },
    #[error("a topology needs {0}")]
    Size(&'static str),
}

fn hint(known: &[String], name: &str) -> String {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    quell_units::nearest::hint(name, &known)
}

/// Half of what experiments wait for an answer at most.
const LONGEST_DELAY: Span = Span::from_secs(1800);

const LONGEST_GRID: Span = Span::from_secs(1);

/// Most nodes or links: far beyond what one guest carries, and what the address plan has room for.
const MOST_LINKS: usize = 4096;

impl Topology {
    /// Checks everything and lays out addresses and routes.
    pub fn parse(&self) -> Result<Network, TopologyError> {
        if self.hosts.is_empty() {
            return Err(TopologyError::Size("at least one host"));
        }
        if self.link.len() > MOST_LINKS || self.hosts.len() + self.routers.len() > MOST_LINKS {
            return Err(TopologyError::Size("at most 4096 nodes and links"));
        }
        let (nodes, index) = nodes(self)?;
        let mut parts = Components::new(nodes.len());
        let mut net = Network {
            nodes,
            wires: Vec::new(),
            tunnels: self.tunnel.clone(),
            nat: Vec::new(),
            index,
        };
        let mut names = BTreeSet::new();
        for (index, link) in self.link.iter().enumerate() {
            if !names.insert(link.name.as_str()) {
                return Err(TopologyError::Twice { what: "link", name: link.name.clone() });
            }
            add_link(&mut net, &mut parts, index, link)?;
        }
        for node in &net.nodes {
            if node.kind == NodeKind::Host && node.ports.len() > 1 {
                return Err(TopologyError::HostForwards {
                    host: node.name.clone(),
                    links: node.ports.len(),
                });
            }
        }
        check_joined(&net)?;
        check_tunnels(&net, &self.tunnel)?;
        for text in &self.nat {
            let at = net.interface(&format!("nat = [\"{text}\"]"), text)?;
            net.nat.push(at);
        }
        Ok(net)
    }
}

/// Which nodes are joined already: each node points towards its part's first one (union-find).
struct Components(Vec<usize>);

impl Components {
    fn new(nodes: usize) -> Self {
        Self((0..nodes).collect())
    }

    fn first(&mut self, mut node: usize) -> usize {
        while self.0[node] != node {
            self.0[node] = self.0[self.0[node]];
            node = self.0[node];
        }
        node
    }

    /// Joins two nodes' parts; false where they were one.
    fn join(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.first(a), self.first(b));
        self.0[a] = b;
        a != b
    }
}

fn nodes(topology: &Topology) -> Result<(Vec<Node>, BTreeMap<String, usize>), TopologyError> {
    let mut seen = BTreeMap::new();
    let mut nodes = Vec::new();
    let hosts = topology.hosts.iter().map(|n| (n, NodeKind::Host, "host"));
    let routers = topology.routers.iter().map(|n| (n, NodeKind::Router, "router"));
    for (name, kind, what) in hosts.chain(routers) {
        check_name(what, name)?;
        if seen.insert(name.clone(), nodes.len()).is_some() {
            return Err(TopologyError::Twice { what: "node", name: name.clone() });
        }
        nodes.push(Node { name: name.clone(), kind, ports: Vec::new() });
    }
    Ok((nodes, seen))
}

fn check_name(what: &'static str, name: &str) -> Result<(), TopologyError> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() >= nix::libc::IFNAMSIZ {
        "it has more than 15 characters"
    } else if !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        "use letters, digits, - _ and ."
    } else if name == "lo" || name == "all" || name == "default" || name.starts_with('.') {
        "the kernel keeps this name for itself"
    } else {
        return Ok(());
    };
    Err(TopologyError::BadName { what, name: name.into(), why })
}

fn add_link(
    net: &mut Network,
    parts: &mut Components,
    index: usize,
    link: &Link,
) -> Result<(), TopologyError> {
    check_name("link", &link.name)?;
    let place = format!("link `{}`", link.name);
    let [a, b] = ends(net, &place, "link", &link.name, &link.ends)?;
    if !parts.join(a, b) {
        return Err(TopologyError::Cycle {
            link: link.name.clone(),
            a: link.ends[0].clone(),
            b: link.ends[1].clone(),
        });
    }
    let mtu = check_mtu("link", &link.name, link.mtu.unwrap_or(1500))?;
    if link.line.is_some() && (link.both.is_some() || link.up.is_some() || link.down.is_some()) {
        return Err(TopologyError::BadLine {
            link: link.name.clone(),
            direction: "line",
            why: "its file tells both directions; leave out `up`, `down` and `both`".into(),
        });
    }
    let (mut up, mut down) = match (&link.both, &link.up, &link.down) {
        (Some(both), None, None) => {
            check_line(&link.name, "both", both)?;
            (both.clone(), both.clone())
        }
        (Some(_), _, _) => {
            return Err(TopologyError::BadLine {
                link: link.name.clone(),
                direction: "both",
                why: "`both` is `up` and `down` at once; give either it or them".into(),
            });
        }
        (None, up, down) => {
            let (up, down) = (up.clone().unwrap_or_default(), down.clone().unwrap_or_default());
            check_line(&link.name, "up", &up)?;
            check_line(&link.name, "down", &down)?;
            (up, down)
        }
    };
    if link.shared && link.line.is_none() && !(up.has_rate() && down.has_rate()) {
        return Err(TopologyError::BadLine {
            link: link.name.clone(),
            direction: "shared",
            why: "directions that take turns need a `rate` each".into(),
        });
    }
    (up.shared, down.shared) = (link.shared, link.shared);
    let (hi, lo) = ((index / 256) as u8, (index % 256) as u8);
    for (end, node) in [(1u8, a), (2u8, b)] {
        net.nodes[node].ports.push(Port {
            wire: index,
            device: link.name.clone(),
            peer: if node == a { b } else { a },
            v4: Ipv4Addr::new(10, hi, lo, end),
            v6: Ipv6Addr::new(0xfd00, 0, 0, index as u16, 0, 0, 0, u16::from(end)),
            mac: [0x02, 0, 0, hi, lo, end],
        });
    }
    let swallows_above = match link.swallows_above {
        Some(size) => Some(check_mtu("link", &link.name, size)?),
        None => None,
    };
    let tx_queues = link.tx_queues.unwrap_or(1);
    if !TX_QUEUES.contains(&tx_queues) {
        let link = link.name.clone();
        return Err(TopologyError::TxQueues { link, asked: tx_queues });
    }
    let ends = [a, b];
    let name = link.name.clone();
    net.wires.push(Wire { name, ends, up, down, mtu, swallows_above, tx_queues });
    Ok(())
}

fn ends(
    net: &Network,
    place: &str,
    what: &'static str,
    name: &str,
    ends: &[String; 2],
) -> Result<[usize; 2], TopologyError> {
    let a = net.find(place, &ends[0])?;
    let b = net.find(place, &ends[1])?;
    if a == b {
        return Err(TopologyError::SelfLink { what, name: name.into(), node: ends[0].clone() });
    }
    Ok([a, b])
}

/// IPv6 needs 1280 bytes (RFC 8200, section 5).
fn check_mtu(what: &'static str, name: &str, mtu: u32) -> Result<u32, TopologyError> {
    if (1280..=65535).contains(&mtu) {
        Ok(mtu)
    } else {
        Err(TopologyError::BadMtu { what, name: name.into(), mtu, least: 1280 })
    }
}

fn check_line(link: &str, direction: &'static str, line: &Line) -> Result<(), TopologyError> {
    let bad =
        |why: &str| Err(TopologyError::BadLine { link: link.into(), direction, why: why.into() });
    if !line.has_rate() {
        if line.buffer.is_some() {
            return bad("`buffer` needs a `rate`: a link without one never makes anything wait");
        }
        if line.queue.is_some() {
            return bad("`queue` needs a `rate`: a link without one never makes anything wait");
        }
        if line.overhead.is_some() {
            return bad("`overhead` needs a `rate`");
        }
        if line.cells.is_some() || line.grid.is_some() {
            return bad("`cells` and `grid` need a `rate`");
        }
    }
    if line.grid.is_some_and(|grid| grid.is_zero() || grid > LONGEST_GRID) {
        return bad("`grid` is above 0 and at most 1s");
    }
    if line.police.is_some_and(|police| police.burst.get() < 1600) {
        return bad("a policer's burst below 1600 bytes lets no full packet through");
    }
    if line.loss_run.is_some_and(|run| !(run >= 1.0 && line.loss.is_some() && line.mark.is_none()))
    {
        return bad("`loss-run` is at least 1, needs a `loss`, and does not go with `mark`");
    }
    if line.buffer.is_some() && line.queue.is_some() {
        return bad("`buffer` and `queue` are two ways to say what waits; give one");
    }
    match line.buffer {
        Some(quell_units::Buffer::Packets(0)) => {
            return bad("a buffer of 0 packets carries nothing");
        }
        Some(quell_units::Buffer::Bytes(b)) if b.get() < 1600 => {
            return bad("a buffer below 1600 bytes does not hold one full packet");
        }
        _ => {}
    }
    if line.delay.is_some_and(|delay| delay > LONGEST_DELAY) {
        return bad("`delay` is at most 30min: a round trip of 1h counts as lost");
    }
    if line.jitter.is_some() && line.delay.is_none_or(|d| d < line.jitter.unwrap_or(d)) {
        return bad(
            "`jitter` makes the delay shorter as well as longer, so `delay` must be at least as large",
        );
    }
    if line.reorder.is_some() && line.delay.is_none() {
        return bad("`reorder` lets packets skip the delay, so it needs a `delay`");
    }
    Ok(())
}

fn check_joined(net: &Network) -> Result<(), TopologyError> {
    let mut seen = vec![false; net.nodes.len()];
    let mut todo = VecDeque::from([0]);
    seen[0] = true;
    while let Some(node) = todo.pop_front() {
        for port in &net.nodes[node].ports {
            if !seen[port.peer] {
                seen[port.peer] = true;
                todo.push_back(port.peer);
            }
        }
    }
    match seen.iter().position(|s| !s) {
        None => Ok(()),
        Some(lost) => Err(TopologyError::Disconnected {
            a: net.nodes[0].name.clone(),
            b: net.nodes[lost].name.clone(),
        }),
    }
}

fn check_tunnels(net: &Network, tunnels: &[Tunnel]) -> Result<(), TopologyError> {
    for (index, tunnel) in tunnels.iter().enumerate() {
        check_name("tunnel", &tunnel.name)?;
        let twice = net.wires.iter().any(|w| w.name == tunnel.name)
            || tunnels[..index].iter().any(|t| t.name == tunnel.name);
        if twice {
            return Err(TopologyError::Twice { what: "link or tunnel", name: tunnel.name.clone() });
        }
        let sorted = |tunnel: &Tunnel| {
            let mut ends = tunnel.ends.clone();
            ends.sort();
            ends
        };
        let alike = |other: &&Tunnel| {
            sorted(other) == sorted(tunnel) && other.kind.is_taken_for(tunnel.kind)
        };
        if let Some(other) = tunnels[..index].iter().find(alike) {
            let (a, b) = (other.name.clone(), tunnel.name.clone());
            return Err(TopologyError::TunnelsAlike { a, b });
        }
        let place = format!("tunnel `{}`", tunnel.name);
        let [a, b] = ends(net, &place, "tunnel", &tunnel.name, &tunnel.ends)?;
        for (end, other, named) in [(a, b, &tunnel.from), (b, a, &tunnel.to)] {
            if net.nodes[end].kind == NodeKind::Host {
                return Err(TopologyError::TunnelOnHost {
                    tunnel: tunnel.name.clone(),
                    host: net.nodes[end].name.clone(),
                });
            }
            if net.beyond(end, other, named).is_empty() {
                return Err(TopologyError::IdleTunnel {
                    tunnel: tunnel.name.clone(),
                    end: net.nodes[end].name.clone(),
                });
            }
        }
        for name in tunnel.from.iter().chain(&tunnel.to) {
            net.find(&place, name)?;
        }
        if let Some(mtu) = tunnel.mtu {
            let least = if tunnel.kind.carries_v6() { 1280 } else { 576 };
            if !(least..=65535).contains(&mtu) {
                return Err(TopologyError::BadMtu {
                    what: "tunnel",
                    name: tunnel.name.clone(),
                    mtu,
                    least,
                });
            }
        }
    }
    Ok(())
}

impl Network {
    /// The node with this name; `place` says in the error where it was named.
    pub fn find(&self, place: &str, name: &str) -> Result<usize, TopologyError> {
        self.index.get(name).copied().ok_or_else(|| TopologyError::Unknown {
            place: place.into(),
            what: "the node",
            name: name.into(),
            known: self.nodes.iter().map(|n| n.name.clone()).collect(),
        })
    }

    /// The interface written as `node:device`; `place` says in the error where it was named.
    pub fn interface(&self, place: &str, text: &str) -> Result<Interface, TopologyError> {
        let known = || {
            let ports = self
                .nodes
                .iter()
                .flat_map(|n| n.ports.iter().map(move |p| format!("{}:{}", n.name, p.device)));
            let tunnels = self
                .tunnels
                .iter()
                .flat_map(|t| t.ends.iter().map(move |e| format!("{e}:{}", t.name)));
            ports.chain(tunnels).collect::<Vec<_>>()
        };
        let is_there = text.split_once(':').is_some_and(|(node, device)| {
            let ports = self.index.get(node).map(|n| &self.nodes[*n].ports);
            ports.is_some_and(|ports| ports.iter().any(|p| p.device == device))
                || self
                    .tunnels
                    .iter()
                    .any(|t| t.name == device && t.ends.iter().any(|end| end == node))
        });
        if !is_there {
            return Err(TopologyError::Unknown {
                place: place.into(),
                what: "the interface",
                name: text.into(),
                known: known(),
            });
        }
        Interface::try_from(text.to_string()).map_err(|_| TopologyError::BadName {
            what: "interface",
            name: text.into(),
            why: "write node:link",
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::topology::Topology;

    fn parsed(first: &str, second: &str, ends: &str) -> Result<(), String> {
        let text = format!(
            "hosts = [\"a\", \"b\"]\nrouters = [\"r1\", \"r2\"]\n\
             [[link]]\nname = \"la\"\nends = [\"a\", \"r1\"]\n\
             [[link]]\nname = \"w\"\nends = [\"r1\", \"r2\"]\n\
             [[link]]\nname = \"lb\"\nends = [\"r2\", \"b\"]\n\
             [[tunnel]]\nname = \"one\"\nkind = \"{first}\"\nends = [\"r1\", \"r2\"]\n\
             [[tunnel]]\nname = \"two\"\nkind = \"{second}\"\nends = {ends}\n"
        );
        let topology: Topology = toml::from_str(&text).unwrap();
        topology.parse().map(drop).map_err(|e| e.to_string())
    }

    #[test]
    fn two_tunnels_that_the_kernel_takes_for_one_are_refused() {
        for (first, second) in [("ipip", "ipip"), ("gre", "gre"), ("4in6", "6in6")] {
            for ends in ["[\"r1\", \"r2\"]", "[\"r2\", \"r1\"]"] {
                let said = parsed(first, second, ends).unwrap_err();
                assert!(said.contains("`one` and `two`"), "{said}");
            }
        }
        for (first, second) in [("ipip", "6in4"), ("ipip", "4in6"), ("wireguard", "wireguard")] {
            assert_eq!(parsed(first, second, "[\"r1\", \"r2\"]"), Ok(()), "{first}, {second}");
        }
    }
}
