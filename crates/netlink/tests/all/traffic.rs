//! What the settings do to traffic: offloads, neighbours, quiet interfaces, NAT, TCP's statistics,
//! tunnels.

use crate::namespace::{
    Namespace, bring_up, cable, ip, join, lacking, name, sender_seen_by, wait_until_it_carries,
};
use quell_netlink::link::{LinkKind, LinkStats, Mac, NewLink, Tunnel, TunnelEnds, TunnelPayload};
use quell_netlink::offload::{Checksums, Offloads};
use quell_netlink::quiet::SILENT;
use quell_netlink::route::NewRoute;
use quell_netlink::sock_diag::{SockDiag, TcpFilter, TcpState};
use quell_netlink::wireguard::{Config, Peer, PrivateKey, Wireguard};
use quell_netlink::{Prefix, Stack, nat, sysctl};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

fn stats(link: &str) -> LinkStats {
    Stack::open().unwrap().link(&name(link)).unwrap().stats
}

/// Sends a megabyte over TCP and returns how many packets the receiver's interface counted.
fn packets_for_a_megabyte(from: &Namespace, to: &Namespace) -> u64 {
    const SIZE: usize = 1 << 20;
    let before = to.run(|| stats("b0")).rx_packets;
    let listener = to.run(|| TcpListener::bind("10.0.0.2:0").unwrap());
    let address = listener.local_addr().unwrap();
    let mut sender = from.run(|| TcpStream::connect(address).unwrap());
    let (mut receiver, _) = listener.accept().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sender.write_all(&vec![7; SIZE]).unwrap();
            sender.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        receiver.read_to_end(&mut received).unwrap();
        assert_eq!(received.len(), SIZE);
    });
    to.run(|| stats("b0")).rx_packets - before
}

#[test]
fn with_offloads_off_a_packet_is_a_packet() {
    let (here, there) = cable();
    let full_size = (1u64 << 20).div_ceil(1448);
    let joined = packets_for_a_megabyte(&here, &there);
    assert!(joined < full_size, "{joined} packets: nothing was joined to begin with");
    for (namespace, link) in [(&here, "a0"), (&there, "b0")] {
        namespace.run(|| {
            let mut offloads = Offloads::open().unwrap();
            assert!(!offloads.features(&name(link)).unwrap().joining().is_empty());
            offloads.packets_are_packets(&name(link), Checksums::Leave).unwrap();
            assert!(offloads.features(&name(link)).unwrap().joining().is_empty());
        });
    }
    let single = packets_for_a_megabyte(&here, &there);
    assert!(single >= full_size, "{single} packets for what fills {full_size}");
}

/// The groups that an interface reports to its neighbourhood; "all nodes" (ff01::1, ff02::1) is in
/// none.
fn reported_groups(link: &str) -> Vec<String> {
    const ALL_NODES: [&str; 2] =
        ["ff010000000000000000000000000001", "ff020000000000000000000000000001"];
    let groups = std::fs::read_to_string("/proc/thread-self/net/igmp6").unwrap();
    let fields = groups.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mine = fields.filter(|fields| fields[1] == link).map(|fields| fields[2].to_owned());
    mine.filter(|group| !ALL_NODES.contains(&group.as_str())).collect()
}

/// Joins two routers by a cable and returns the groups that the second one would report.
fn routers(silent: bool) -> (Namespace, Namespace, Vec<String>) {
    let (here, there) = (Namespace::new(), Namespace::new());
    join(&here, &there, ("a0", "b0"));
    let end = |link: &str, number: u8| {
        let other = 3 - number;
        let mut stack = Stack::open().unwrap();
        let index = stack.index_of(&name(link)).unwrap();
        if silent {
            stack.change_link(index, &SILENT).unwrap();
        }
        sysctl::write("net/ipv6/conf/all/forwarding", "1").unwrap();
        bring_up(link, &[&format!("10.0.0.{number}/24"), &format!("fd00::{number}/64")]);
        for address in [format!("10.0.0.{other}"), format!("fd00::{other}")] {
            stack.set_neighbour(index, ip(&address), Mac::local(other.into())).unwrap();
        }
    };
    here.run(|| end("a0", 1));
    there.run(|| end("b0", 2));
    here.run(|| wait_until_it_carries("a0"));
    there.run(|| wait_until_it_carries("b0"));
    let groups = there.run(|| reported_groups("b0"));
    (here, there, groups)
}

#[test]
fn between_silent_routers_only_what_was_sent_is_counted() {
    let (_, _, groups) = routers(false);
    assert!(!groups.is_empty(), "an ordinary router has groups to report");

    let (here, there, groups) = routers(true);
    assert!(groups.is_empty(), "{groups:?}");
    // A cable that just came up may lose some of the first, which are sent again.
    sender_seen_by(&there, "10.0.0.2", &here);
    sender_seen_by(&there, "fd00::2", &here);
    sender_seen_by(&here, "fd00::1", &there);
    let before = there.run(|| stats("b0"));
    assert!((2..=6).contains(&before.rx_packets) && before.tx_packets <= 3, "{before:?}");
    assert_eq!(sender_seen_by(&there, "10.0.0.2", &here).ip(), ip("10.0.0.1"));
    assert_eq!(sender_seen_by(&there, "fd00::2", &here).ip(), ip("fd00::1"));
    assert_eq!(sender_seen_by(&here, "fd00::1", &there).ip(), ip("fd00::2"));
    let counted = there.run(|| stats("b0"));
    let more = (counted.rx_packets - before.rx_packets, counted.tx_packets - before.tx_packets);
    assert_eq!(more, (2, 1));
}

#[test]
fn a_neighbour_entered_by_hand_is_not_asked_for() {
    let (here, there) = cable();
    assert_eq!(sender_seen_by(&there, "10.0.0.2", &here).ip(), ip("10.0.0.1"));
    let neighbours = here.run(|| std::fs::read_to_string("/proc/thread-self/net/arp").unwrap());
    let entry = neighbours.lines().find(|line| line.starts_with("10.0.0.2 ")).unwrap();
    // Flags 0x6: complete and permanent.
    assert!(entry.contains(" 0x6 ") && entry.contains("02:00:00:00:00:02"), "{entry}");
}

#[test]
fn a_router_with_nat_hides_who_is_behind_it() {
    let (client, router, server) = (Namespace::new(), Namespace::new(), Namespace::new());
    join(&client, &router, ("c0", "lan"));
    join(&router, &server, ("wan", "s0"));
    client.run(|| {
        let dev = bring_up("c0", &["192.168.1.2/24", "fd01::2/64"]);
        let mut stack = Stack::open().unwrap();
        for (to, via) in [(Prefix::ALL_V4, "192.168.1.1"), (Prefix::ALL_V6, "fd01::1")] {
            stack.add_route(&NewRoute::via(to, ip(via), dev)).unwrap();
        }
    });
    server.run(|| bring_up("s0", &["203.0.113.9/24", "fd02::9/64"]));
    let lacks_nat = router.run(|| {
        bring_up("lan", &["192.168.1.1/24", "fd01::1/64"]);
        bring_up("wan", &["203.0.113.1/24", "fd02::1/64"]);
        sysctl::write("net/ipv4/ip_forward", "1").unwrap();
        sysctl::write("net/ipv6/conf/all/forwarding", "1").unwrap();
        let made = nat::masquerade(&[name("wan")]);
        // Saying it again changes nothing.
        lacking("NAT", made.and_then(|()| nat::masquerade(&[name("wan")])))
    });
    if lacks_nat {
        return;
    }
    assert_eq!(sender_seen_by(&server, "203.0.113.9", &client).ip(), ip("203.0.113.1"));
    assert_eq!(sender_seen_by(&server, "fd02::9", &client).ip(), ip("fd02::1"));

    router.run(|| nat::masquerade(&[]).unwrap());
    assert_eq!(sender_seen_by(&server, "203.0.113.9", &client).ip(), ip("192.168.1.2"));
}

#[test]
fn a_connection_is_found_by_its_port_with_what_tcp_knows() {
    let (here, there) = cable();
    let listener = there.run(|| TcpListener::bind("[fd00::2]:0").unwrap());
    let address = listener.local_addr().unwrap();
    let mut sender = here.run(|| TcpStream::connect(address).unwrap());
    let (mut receiver, _) = listener.accept().unwrap();
    sender.write_all(&[7; 5000]).unwrap();
    receiver.read_exact(&mut [0; 5000]).unwrap();

    here.run(|| {
        let mut diag = SockDiag::open().unwrap();
        let to_it = TcpFilter { remote_port: Some(address.port()), ..TcpFilter::ESTABLISHED };
        let found = diag.tcp(&to_it).unwrap();
        let [connection] = &found[..] else { panic!("{found:?}") };
        assert_eq!(connection.local, sender.local_addr().unwrap());
        assert_eq!(connection.remote, address);
        assert!(connection.congestion_control.is_some());
        let info = connection.info.unwrap();
        assert_eq!(info.state, Some(TcpState::Established));
        // A machine that holds an acknowledgement up for 200 ms makes TCP send again.
        assert_eq!(
            info.bytes_sent.zip(info.bytes_retrans).map(|(all, again)| all - again),
            Some(5000)
        );
        // So is a SYN, which has no bytes.
        assert!(info.total_retrans > 0 || info.bytes_retrans == Some(0), "{info:?}");
        // In virtual time a round trip over a cable takes no time at all, so nothing is said of it
        // here.
        assert!(info.snd_cwnd >= 10 && info.snd_mss > 1400, "{info:?}");
        assert!(info.delivered >= Some(4), "{info:?}");
        let elsewhere = TcpFilter { remote_port: Some(1), ..to_it };
        assert!(diag.tcp(&elsewhere).unwrap().is_empty());
        // Of both families at once it is the same.
        let _v6 = TcpListener::bind("[::]:0").unwrap();
        let all = TcpFilter { states: u32::MAX, local_port: None, remote_port: None };
        let mut both = Vec::new();
        diag.each_tcp(&all, |socket| {
            both.push((socket.local, socket.state, socket.info.is_some()))
        })
        .unwrap();
        let mut each: Vec<_> = diag.tcp(&all).unwrap();
        each.sort_by_key(|socket| socket.local);
        both.sort_by_key(|socket| socket.0);
        let each: Vec<_> = each.into_iter().map(|s| (s.local, s.state, s.info.is_some())).collect();
        assert_eq!((both.len(), both), (2, each));
    });
    there.run(|| {
        let listening = TcpFilter { states: TcpState::Listen.bit(), ..TcpFilter::ESTABLISHED };
        let found = SockDiag::open().unwrap().tcp(&listening).unwrap();
        assert!(found.iter().any(|socket| socket.local == address), "{found:?}");
    });
}

/// Makes a tunnel across the cable, in both namespaces, and sends a datagram through it in both
/// directions.
fn tunnel_carries(what: &str, kind: fn(bool) -> LinkKind, inner: [&str; 2]) {
    let (here, there) = cable();
    for (namespace, first) in [(&here, true), (&there, false)] {
        let made = namespace.run(|| {
            let link = NewLink::new(name("tun"), kind(first));
            Stack::open().unwrap().create_link(&link)
        });
        if lacking(what, made) {
            return;
        }
    }
    let bits = if ip(inner[0]).is_ipv4() { 24 } else { 64 };
    for (namespace, own) in [(&here, inner[0]), (&there, inner[1])] {
        namespace.run(|| bring_up("tun", &[&format!("{own}/{bits}")]));
    }
    assert_eq!(sender_seen_by(&there, inner[1], &here).ip(), ip(inner[0]));
    assert_eq!(sender_seen_by(&here, inner[0], &there).ip(), ip(inner[1]));
    let counted = here.run(|| stats("tun"));
    assert!(counted.tx_packets >= 1 && counted.rx_packets >= 1, "{what}: {counted:?}");
    println!("{what} carries {} and {}", inner[0], inner[1]);
}

fn v4(first: bool) -> TunnelEnds<std::net::Ipv4Addr> {
    let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    if first { TunnelEnds::new(a, b) } else { TunnelEnds::new(b, a) }
}

fn v6(first: bool) -> TunnelEnds<std::net::Ipv6Addr> {
    let (a, b) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
    if first { TunnelEnds::new(a, b) } else { TunnelEnds::new(b, a) }
}

const INNER_V4: [&str; 2] = ["10.8.0.1", "10.8.0.2"];
const INNER_V6: [&str; 2] = ["fd08::1", "fd08::2"];

#[test]
fn ipv4_in_ipv4() {
    tunnel_carries("ipip", |first| Tunnel::Ipip(v4(first)).into(), INNER_V4);
}

#[test]
fn ipv6_in_ipv4() {
    tunnel_carries("sit", |first| Tunnel::Sit(v4(first)).into(), INNER_V6);
}

#[test]
fn ipv4_in_ipv6() {
    let kind = |first| Tunnel::Ip6Tnl(v6(first), TunnelPayload::V4).into();
    tunnel_carries("4in6", kind, INNER_V4);
}

#[test]
fn ipv6_in_ipv6() {
    let kind = |first| Tunnel::Ip6Tnl(v6(first), TunnelPayload::V6).into();
    tunnel_carries("6in6", kind, INNER_V6);
}

#[test]
fn both_in_ipv6() {
    let kind = |first| Tunnel::Ip6Tnl(v6(first), TunnelPayload::Any).into();
    tunnel_carries("any-in-6", kind, INNER_V4);
    tunnel_carries("any-in-6", kind, INNER_V6);
}

#[test]
fn gre_over_ipv4() {
    tunnel_carries("gre", |first| Tunnel::Gre { ends: v4(first), key: None }.into(), INNER_V4);
    let keyed = |first| Tunnel::Gre { ends: v4(first), key: Some(0x1234_5678) }.into();
    tunnel_carries("gre with key", keyed, INNER_V6);
}

#[test]
fn gre_over_ipv6() {
    let keyed = |first| Tunnel::Ip6Gre { ends: v6(first), key: Some(9) }.into();
    tunnel_carries("ip6gre with key", keyed, INNER_V4);
    tunnel_carries(
        "ip6gre",
        |first| Tunnel::Ip6Gre { ends: v6(first), key: None }.into(),
        INNER_V6,
    );
}

#[test]
fn wireguard_carries_packets_between_peers() {
    const PORT: u16 = 51820;
    let (here, there) = cable();
    let ends = [(&here, "10.0.0.1", "10.8.0.1"), (&there, "10.0.0.2", "10.8.0.2")];
    let configure = |end: usize, peers: Vec<Peer>| {
        let index = Stack::open().unwrap().index_of(&name("wg0")).unwrap();
        let private_key = PrivateKey([end as u8 + 1; 32]);
        let config = Config { private_key, listen_port: Some(PORT), peers };
        let mut wireguard = Wireguard::open().unwrap();
        wireguard.configure(index, &config).unwrap();
        wireguard.status(index).unwrap()
    };
    let mut keys = Vec::new();
    for (end, (namespace, _, inner)) in ends.iter().enumerate() {
        let made = namespace.run(|| {
            let link = NewLink::new(name("wg0"), LinkKind::Wireguard);
            Stack::open().unwrap().create_link(&link)
        });
        if lacking("wireguard", made) {
            return;
        }
        namespace.run(|| bring_up("wg0", &[&format!("{inner}/24")]));
        let status = namespace.run(|| configure(end, Vec::new()));
        assert_eq!(status.listen_port, PORT);
        keys.push(status.public_key.expect("the kernel calculated it"));
    }
    for (end, (namespace, _, _)) in ends.iter().enumerate() {
        let (_, outer, inner) = ends[1 - end];
        let peer = Peer {
            public_key: keys[1 - end],
            endpoint: Some((ip(outer), PORT).into()),
            allowed_ips: vec![Prefix::host(ip(inner))],
            keepalive: None,
        };
        let status = namespace.run(|| configure(end, vec![peer]));
        assert_eq!(status.peers[0].public_key, keys[1 - end]);
    }
    assert_eq!(sender_seen_by(&there, "10.8.0.2", &here).ip(), ip("10.8.0.1"));
    let index = here.run(|| Stack::open().unwrap().index_of(&name("wg0")).unwrap());
    let status = here.run(|| Wireguard::open().unwrap().status(index).unwrap());
    assert!(status.peers[0].tx_bytes > 0 && status.peers[0].last_handshake.is_some(), "{status:?}");
    println!("wireguard carries packets");
}
