//! Networks of more than two hosts, and tunnels. Nobody quietens their interfaces: neighbours are found as everywhere.

use super::net::{Namespace, Net, finds, name, pass, set, transfer_to};
use quell_netlink::address::NewAddress;
use quell_netlink::core::{Message, flags};
use quell_netlink::link::{LinkChange, LinkKind, NewLink, Tunnel, VethEnd};
use quell_netlink::prefix::Prefix;
use quell_netlink::route::NewRoute;
use quell_netlink::wireguard::{Config, Peer, PrivateKey, Wireguard};
use quell_netlink::{NetlinkError, Stack};
use std::net::{IpAddr, Ipv4Addr};

/// Hosts one behind the other: `right` of each leads to `left` of the next, and all but the ends forward.
///
/// ```text
///   [0] right 10.1.0.1 ═══ 10.1.0.2 left [1] right 10.1.1.1 ═══ 10.1.1.2 left [2] …        fd01:0:0:N::/64 beside
/// ```
pub struct Row {
    pub hosts: Vec<Namespace>,
}

impl Row {
    pub fn new(count: usize) -> Self {
        let hosts: Vec<Namespace> = (0..count).map(|_| Namespace::new()).collect();
        for host in &hosts[1..count - 1] {
            set(host, "net/ipv4/ip_forward", "1");
            set(host, "net/ipv6/conf/all/forwarding", "1");
        }
        for (at, pair) in hosts.windows(2).enumerate() {
            plug(&pair[0], &pair[1], ("right", "left"));
            for (host, device, end) in [(&pair[0], "right", 1), (&pair[1], "left", 2)] {
                up(
                    host,
                    device,
                    &[&format!("10.1.{at}.{end}/24"), &format!("fd01:0:0:{at}::{end}/64")],
                );
            }
        }
        for (at, host) in hosts.iter().enumerate() {
            for link in 0..count - 1 {
                // The links of its own are known to it.
                let (device, via) = match link {
                    far if far > at => ("right", format!("{at}.2 {at}::2")),
                    far if far + 1 < at => ("left", format!("{0}.1 {0}::1", at - 1)),
                    _ => continue,
                };
                let (v4, v6) = via.split_once(' ').expect("two addresses");
                route(host, &format!("10.1.{link}.0/24"), &format!("10.1.{v4}"), device);
                route(host, &format!("fd01:0:0:{link}::/64"), &format!("fd01:0:0:{v6}"), device);
            }
        }
        // Until the link-local addresses are checked for duplicates.
        pass(3000);
        Row { hosts }
    }

    pub fn first(&self) -> &Namespace {
        &self.hosts[0]
    }

    pub fn last(&self) -> &Namespace {
        &self.hosts[self.hosts.len() - 1]
    }

    /// Where the last one can be reached.
    pub fn address(&self) -> String {
        format!("10.1.{}.2", self.hosts.len() - 2)
    }

    /// The same by IPv6.
    pub fn address6(&self) -> String {
        format!("fd01:0:0:{}::2", self.hosts.len() - 2)
    }
}

/// Where the far one of [`two_paths`] can be reached.
pub const FAR: &str = "10.3.9.2";

/// Two hosts with two cables of equal cost between them, used by flow.
pub fn two_paths() -> (Namespace, Namespace) {
    let (here, there) = (Namespace::new(), Namespace::new());
    for path in 0..2 {
        plug(&here, &there, (&format!("a{path}"), &format!("b{path}")));
        up(&here, &format!("a{path}"), &[&format!("10.3.{path}.1/24")]);
        up(&there, &format!("b{path}"), &[&format!("10.3.{path}.2/24")]);
    }
    up(&there, "lo", &[&format!("{FAR}/32")]);
    set(&here, "net/ipv4/fib_multipath_hash_policy", "1");
    multipath(&here, FAR, &[("10.3.0.2", "a0"), ("10.3.1.2", "a1")]);
    (here, there)
}

/// Joins two hosts by a cable.
pub fn plug(left: &Namespace, right: &Namespace, names: (&str, &str)) {
    left.run(|| {
        let end = VethEnd { namespace: Some(right.fd()), ..VethEnd::new(name(names.1)) };
        let mut stack = Stack::open().expect("a stack");
        stack.create_veth(&VethEnd::new(name(names.0)), &end).expect("a cable");
    });
}

/// Brings a device up, and gives it addresses.
pub fn up(at: &Namespace, device: &str, addresses: &[&str]) {
    with(at, device, |stack, index| {
        stack.up(index)?;
        addresses.iter().try_for_each(|address| {
            let prefix = address.parse().expect("the story names a network");
            stack.add_address(index, &NewAddress::new(prefix))
        })
    });
}

/// Changes a device.
pub fn change(at: &Namespace, device: &str, change: LinkChange) {
    with(at, device, |stack, index| stack.change_link(index, &[change]));
}

fn with(
    at: &Namespace,
    device: &str,
    work: impl FnOnce(&mut Stack, u32) -> Result<(), NetlinkError> + Send,
) {
    at.run(|| {
        let mut stack = Stack::open().expect("a stack");
        let index = stack.index_of(&name(device)).expect("the device is there");
        work(&mut stack, index).expect("the kernel does it");
    });
}

pub fn route(at: &Namespace, to: &str, via: &str, device: &str) {
    with(at, device, |stack, index| {
        let (to, via) = (to.parse().expect("a network"), via.parse().expect("an address"));
        stack.add_route(&NewRoute::via(to, via, index))
    });
}

/// Another way in place of the one that is there.
pub fn reroute(at: &Namespace, to: &str, via: &str, device: &str) {
    with(at, device, |stack, index| {
        let (to, via) = (to.parse().expect("a network"), via.parse().expect("an address"));
        stack.replace_route(&NewRoute::via(to, via, index))
    });
}

/// Hosts 10.4.0.1, 10.4.0.2 … at one switch.
pub fn hub(count: usize) -> (Namespace, Vec<Namespace>) {
    let switch = Namespace::new();
    switch.run(|| {
        let link = NewLink::new(name("br0"), LinkKind::Bridge);
        Stack::open().expect("a stack").create_link(&link).expect("a bridge");
    });
    up(&switch, "br0", &[]);
    let hosts: Vec<Namespace> = (0..count)
        .map(|at| {
            let host = Namespace::new();
            let port = format!("p{at}");
            plug(&switch, &host, (&port, "e0"));
            with(&switch, &port, |stack, index| {
                let bridge = stack.index_of(&name("br0"))?;
                stack.change_link(index, &[LinkChange::Master(Some(bridge)), LinkChange::Up(true)])
            });
            up(&host, "e0", &[&format!("10.4.0.{}/24", at + 1)]);
            host
        })
        .collect();
    pass(1000);
    (switch, hosts)
}

/// A tunnel over the cable, through which some data goes, and nothing is found.
pub fn tunnel(net: &Net, kind: impl Fn(bool) -> Tunnel) {
    for (at, own) in [(&net.here, 1), (&net.there, 2)] {
        let kind = LinkKind::Tunnel(kind(own == 1));
        let link = NewLink { mtu: Some(1400), ..NewLink::new(name("tunnel"), kind) };
        at.run(|| Stack::open().expect("a stack").create_link(&link)).expect("a tunnel");
        up(at, "tunnel", &[&format!("10.9.0.{own}/24")]);
    }
    // What waits between a tunnel and its cable is 1,000 packets at most (net.core.netdev_max_backlog), and nothing slows the sender here.
    transfer_to(&net.here, &net.there, "10.9.0.2", 500_000);
    finds(&net.here, &[], &["--severity", "note"]);
    finds(&net.there, &[], &["--severity", "note"]);
}

/// WireGuard over the cable: 10.6.0.1 here, 10.6.0.2 there.
pub fn wireguard(net: &Net) {
    let ends = [(&net.here, 1_u8), (&net.there, 2)];
    let configure = |at: &Namespace, own: u8, peers: Vec<Peer>| {
        at.run(|| {
            let index = Stack::open().and_then(|mut s| s.index_of(&name("wg0")))?;
            let config =
                Config { private_key: PrivateKey([own; 32]), listen_port: Some(51820), peers };
            let mut wireguard = Wireguard::open()?;
            wireguard.configure(index, &config)?;
            wireguard.status(index)
        })
        .expect("the guest has WireGuard")
    };
    let keys = ends.map(|(at, own)| {
        let link = NewLink::new(name("wg0"), LinkKind::Wireguard);
        at.run(|| Stack::open().expect("a stack").create_link(&link)).expect("an interface");
        up(at, "wg0", &[&format!("10.6.0.{own}/24")]);
        configure(at, own, Vec::new()).public_key.expect("the kernel calculates it")
    });
    for (at, own) in ends {
        let other = 3 - own;
        let host = |network: u8| IpAddr::from(Ipv4Addr::new(10, network, 0, other));
        let peer = Peer {
            public_key: keys[usize::from(other) - 1],
            endpoint: Some((host(0), 51820).into()),
            allowed_ips: vec![Prefix::host(host(6))],
            keepalive: None,
        };
        configure(at, own, vec![peer]);
    }
}

/// A route over several next hops of the same cost.
pub fn multipath(at: &Namespace, to: &str, hops: &[(&str, &str)]) {
    /// RTM_NEWROUTE, RTA_DST, RTA_GATEWAY, RTA_MULTIPATH of include/uapi/linux/rtnetlink.h.
    const NEW: u16 = 24;
    const DST: u16 = 1;
    const GATEWAY: u16 = 5;
    const MULTIPATH: u16 = 9;
    at.run(|| {
        let mut stack = Stack::open().expect("a stack");
        let octets = |address: &str| address.parse::<Ipv4Addr>().expect("an address").octets();
        let mut all = Vec::new();
        for (via, device) in hops {
            let index = stack.index_of(&name(device)).expect("the device is there");
            // struct rtnexthop: length, flags, weight less one, interface; then its attributes.
            all.extend(16_u16.to_ne_bytes());
            all.extend([0, 0]);
            all.extend(index.to_ne_bytes());
            all.extend(8_u16.to_ne_bytes());
            all.extend(GATEWAY.to_ne_bytes());
            all.extend(octets(via));
        }
        // struct rtmsg: family, lengths, TOS, main table, origin "boot", scope, unicast, flags.
        let header = [2, 32, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
        let asked = flags::CREATE | flags::EXCL;
        let mut message = Message::with_header("add a route of two hops", NEW, asked, &header);
        message.attrs().bytes(DST, &octets(to)).bytes(MULTIPATH, &all);
        stack.socket().request_ack(&message).expect("the kernel takes it");
    });
}
