//! Networks in which nothing is wrong, of all shapes: the doctor finds nothing in any of them, not even a note, whatever host it runs on.

use super::Story;
use super::net::{
    Busy, Namespace, Net, THERE, connected, finds, first, listener, listener_on, name, pass,
    queue_at, read_all, served, set, transfer, transfer_to,
};
use super::shapes::{FAR, Row, change, hub, plug, tunnel, two_paths, up, wireguard};
use quell_netlink::link::{LinkChange, LinkKind, NewLink, Tunnel, TunnelEnds, VlanId};
use quell_netlink::{Mac, Stack, nat};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, UdpSocket};

pub const STORIES: &[Story] = &[
    Story { name: "well: a host that does nothing", tell: idle },
    Story { name: "well: a router between two hosts", tell: router },
    Story { name: "well: four routers in a row", tell: routers },
    Story { name: "well: a router that translates addresses, with 200 flows", tell: translation },
    Story { name: "well: three hosts at a bridge", tell: bridge },
    Story { name: "well: a VLAN", tell: vlan },
    Story { name: "well: IPv4 in IPv4", tell: ipip },
    Story { name: "well: GRE over IPv6", tell: gre },
    Story { name: "well: WireGuard", tell: wireguard_tunnel },
    Story { name: "well: IPv6 alone", tell: ipv6 },
    Story { name: "well: small packets on the whole path", tell: small_mtu },
    Story { name: "well: a narrow hop on the way that says so", tell: narrow_hop },
    Story { name: "well: jumbo frames", tell: jumbo },
    Story { name: "well: a line of 1 Mbit/s", tell: slow_line },
    Story { name: "well: two transfers through htb and fq_codel", tell: shaped },
    Story { name: "well: two transfers through cake", tell: cake },
    Story { name: "well: fq and BBR", tell: paced },
    Story { name: "well: marks in place of drops", tell: marked },
    Story { name: "well: a delay that varies, as of radio", tell: radio },
    Story { name: "well: a long path", tell: long_path },
    Story { name: "well: a server with 300 connections", tell: busy_server },
    Story { name: "well: 500 short connections", tell: short_connections },
    Story { name: "well: questions and answers over UDP", tell: questions },
    Story { name: "well: a server that thinks before it answers", tell: thinking },
    Story { name: "well: one packet in 2000 is lost", tell: little_loss },
    Story { name: "well: two paths of equal cost", tell: equal_paths },
    Story { name: "well: 900 neighbours that were entered by hand", tell: neighbours },
];

/// Nothing at all is found on these hosts.
#[track_caller]
fn well<'a>(hosts: impl IntoIterator<Item = &'a Namespace>) {
    for host in hosts {
        finds(host, &[], &["--severity", "note"]);
    }
}

/// A connection that is kept busy while the doctor looks at both ends.
#[track_caller]
fn well_while_busy(net: &Net, connections: usize, milliseconds: u64) {
    let busy: Vec<Busy> = (0..connections)
        .map(|_| {
            let listener = listener(&net.there);
            let stream = connected(&net.here, &listener);
            served(&net.there, listener, read_all);
            Busy::new(stream)
        })
        .collect();
    pass(milliseconds);
    well([&net.here, &net.there]);
    drop(busy);
}

fn idle(net: &Net) {
    pass(5000);
    well([&net.here, &net.there]);
}

fn along(row: &Row) {
    transfer_to(row.first(), row.last(), &row.address(), 3_000_000);
    transfer_to(row.first(), row.last(), &row.address6(), 1_000_000);
    well(&row.hosts);
}

fn router(_: &Net) {
    along(&Row::new(3));
}

fn routers(_: &Net) {
    along(&Row::new(6));
}

fn translation(_: &Net) {
    let row = Row::new(3);
    row.hosts[1].run(|| nat::masquerade(&[name("right")])).expect("the guest has NAT");
    let reads = row.last().run(|| UdpSocket::bind("0.0.0.0:0").expect("a free port"));
    let port = reads.local_addr().expect("it has one").port();
    row.first().run(|| {
        for _ in 0..200 {
            let asks = UdpSocket::bind("0.0.0.0:0").expect("a free port");
            asks.send_to(&[7; 100], (row.address(), port)).expect("it is sent");
            let (_, from) = reads.recv_from(&mut [0; 100]).expect("it arrives");
            assert_eq!(from.ip().to_string(), "10.1.1.1", "the router's own address");
        }
    });
    transfer_to(row.first(), row.last(), &row.address(), 3_000_000);
    well(&row.hosts);
}

fn bridge(_: &Net) {
    let (switch, hosts) = hub(3);
    for to in 1..3 {
        transfer_to(&hosts[0], &hosts[to], &format!("10.4.0.{}", to + 1), 1_000_000);
    }
    well(hosts.iter().chain([&switch]));
}

fn vlan(net: &Net) {
    for (at, device, address) in
        [(&net.here, "a0", "10.5.0.1/24"), (&net.there, "b0", "10.5.0.2/24")]
    {
        at.run(|| {
            let mut stack = Stack::open().expect("a stack");
            let parent = stack.index_of(&name(device)).expect("the cable");
            let id = VlanId::new(7).expect("a tag");
            let kind = LinkKind::Vlan { parent, id };
            stack.create_link(&NewLink::new(name("tagged"), kind)).expect("a VLAN");
        });
        up(at, "tagged", &[address]);
    }
    transfer_to(&net.here, &net.there, "10.5.0.2", 3_000_000);
    well([&net.here, &net.there]);
}

fn ipip(net: &Net) {
    let (here, there) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    tunnel(net, |at_here| {
        Tunnel::Ipip(if at_here {
            TunnelEnds::new(here, there)
        } else {
            TunnelEnds::new(there, here)
        })
    });
}

fn gre(net: &Net) {
    let end = |number| format!("fd00::{number}").parse().expect("an address");
    tunnel(net, |at_here| {
        let (own, other) = if at_here { (1, 2) } else { (2, 1) };
        Tunnel::Ip6Gre { ends: TunnelEnds::new(end(own), end(other)), key: Some(7) }
    });
}

fn wireguard_tunnel(net: &Net) {
    wireguard(net);
    transfer_to(&net.here, &net.there, "10.6.0.2", 2_000_000);
    well([&net.here, &net.there]);
}

fn ipv6(_: &Net) {
    let (here, there) = (Namespace::new(), Namespace::new());
    plug(&here, &there, ("a0", "b0"));
    up(&here, "a0", &["fd07::1/64"]);
    up(&there, "b0", &["fd07::2/64"]);
    pass(3000);
    transfer_to(&here, &there, "fd07::2", 3_000_000);
    well([&here, &there]);
}

fn small_mtu(net: &Net) {
    for (at, device) in [(&net.here, "a0"), (&net.there, "b0")] {
        change(at, device, LinkChange::Mtu(1280));
    }
    transfer(net, 3_000_000);
    well([&net.here, &net.there]);
}

fn narrow_hop(_: &Net) {
    let row = Row::new(4);
    change(&row.hosts[1], "right", LinkChange::Mtu(1300));
    change(&row.hosts[2], "left", LinkChange::Mtu(1300));
    along(&row);
}

fn jumbo(net: &Net) {
    for (at, device) in [(&net.here, "a0"), (&net.there, "b0")] {
        change(at, device, LinkChange::Mtu(9000));
    }
    transfer(net, 10_000_000);
    well([&net.here, &net.there]);
}

/// A shaper with a rate and fq_codel below it, over a path of some milliseconds.
fn slow(net: &Net, rate: &str, delay: &str) {
    net.queue(
        "a0",
        &format!(
            "{{ kind = \"htb\", default = \"1:1\", class = [ {{ id = \"1:1\", rate = \"{rate}\", queue = \"fq_codel\" }} ] }}"
        ),
    );
    net.queue("b0", &format!("{{ kind = \"netem\", delay = \"{delay}\", limit = 10000 }}"));
}

fn slow_line(net: &Net) {
    // cake's target follows the rate: a packet takes 12 ms here.
    net.queue("a0", "{ kind = \"cake\", bandwidth = \"1Mbit\" }");
    net.queue("b0", "{ kind = \"netem\", delay = \"10ms\", limit = 10000 }");
    well_while_busy(net, 1, 20_000);
}

fn shaped(net: &Net) {
    slow(net, "20Mbit", "15ms");
    well_while_busy(net, 2, 10_000);
}

fn cake(net: &Net) {
    net.queue("a0", "{ kind = \"cake\", bandwidth = \"20Mbit\" }");
    net.queue("b0", "{ kind = \"netem\", delay = \"15ms\", limit = 10000 }");
    well_while_busy(net, 2, 10_000);
}

fn paced(_: &Net) {
    // The router is the narrow place, and has room.
    let row = Row::new(3);
    set(row.first(), "net/ipv4/tcp_congestion_control", "bbr");
    queue_at(row.first(), "right", "\"fq\"");
    queue_at(
        &row.hosts[1],
        "right",
        "{ kind = \"netem\", delay = \"20ms\", rate = \"50Mbit\", limit = 2000 }",
    );
    let listener = listener_on(row.last(), &row.address());
    let stream = connected(row.first(), &listener);
    served(row.last(), listener, read_all);
    let busy = Busy::new(stream);
    pass(10_000);
    well(&row.hosts);
    drop(busy);
}

fn marked(net: &Net) {
    for at in [&net.here, &net.there] {
        set(at, "net/ipv4/tcp_ecn", "1");
    }
    slow(net, "10Mbit", "15ms");
    // The end that only acknowledges has a queue that could mark as well.
    net.queue("b0", "\"fq_codel\"");
    well_while_busy(net, 1, 10_000);
}

fn radio(net: &Net) {
    // With a rate, packets keep their order.
    let air =
        "{ kind = \"netem\", delay = \"8ms\", jitter = \"6ms\", rate = \"40Mbit\", limit = 1000 }";
    net.queue("a0", air);
    net.queue("b0", air);
    let listener = listener(&net.there);
    let mut stream = connected(&net.here, &listener);
    let reader = served(&net.there, listener, read_all);
    let writer = std::thread::spawn(move || {
        for _ in 0..300 {
            stream.write_all(&[7; 10_000]).expect("it is taken");
            pass(20);
        }
    });
    pass(3000);
    well([&net.here, &net.there]);
    writer.join().expect("it ends");
    assert_eq!(reader.join().expect("it reads"), 3_000_000);
}

fn long_path(net: &Net) {
    slow(net, "10Mbit", "300ms");
    well_while_busy(net, 1, 20_000);
}

fn busy_server(net: &Net) {
    let listener = listener(&net.there);
    let mut all: Vec<_> = (0..300)
        .map(|_| (connected(&net.here, &listener), listener.accept().expect("it came").0))
        .collect();
    for (asks, answers) in &mut all {
        asks.write_all(&[7; 500]).expect("it is taken");
        answers.read_exact(&mut [0; 500]).expect("it arrives");
        answers.write_all(&[7; 5000]).expect("it is taken");
        asks.read_exact(&mut [0; 5000]).expect("it arrives");
    }
    well([&net.here, &net.there]);
    drop(all);
}

fn short_connections(net: &Net) {
    let listener = listener(&net.there);
    for _ in 0..500 {
        let mut asks = connected(&net.here, &listener);
        let (mut answers, _) = listener.accept().expect("it came");
        asks.write_all(b"GET").expect("it is taken");
        answers.read_exact(&mut [0; 3]).expect("it arrives");
        answers.write_all(&[7; 2000]).expect("it is taken");
        drop(answers);
        asks.read_to_end(&mut Vec::new()).expect("it arrives");
    }
    well([&net.here, &net.there]);
}

fn questions(net: &Net) {
    let answers = net.there.run(|| UdpSocket::bind((THERE, 0)).expect("a free port"));
    let to = answers.local_addr().expect("it has one");
    let asks = net.here.run(|| UdpSocket::bind("10.0.0.1:0").expect("a free port"));
    for _ in 0..500 {
        asks.send_to(&[7; 60], to).expect("it is sent");
        let (_, from) = answers.recv_from(&mut [0; 60]).expect("it arrives");
        answers.send_to(&[7; 300], from).expect("it is sent");
        asks.recv(&mut [0; 300]).expect("it arrives");
    }
    well([&net.here, &net.there]);
}

fn thinking(net: &Net) {
    net.queue("a0", "{ kind = \"netem\", delay = \"10ms\", limit = 1000 }");
    let listener = listener(&net.there);
    let mut stream = connected(&net.here, &listener);
    let server = served(&net.there, listener, |mut stream| {
        let mut call = [0; 100];
        while stream.read_exact(&mut call).is_ok() {
            pass(70);
            if stream.write_all(&[7; 20_000]).is_err() {
                break;
            }
        }
    });
    let caller = std::thread::spawn(move || {
        for _ in 0..60 {
            stream.write_all(&[7; 100]).expect("it is taken");
            stream.read_exact(&mut [0; 20_000]).expect("it arrives");
        }
    });
    pass(1000);
    well([&net.here, &net.there]);
    caller.join().expect("it ends");
    server.join().expect("it ends");
}

fn little_loss(net: &Net) {
    net.queue("a0", "{ kind = \"netem\", delay = \"5ms\", loss = \"0.05%\", limit = 100000 }");
    transfer(net, 20_000_000);
    well([&net.here, &net.there]);
}

fn equal_paths(_: &Net) {
    let (here, there) = two_paths();
    pass(100);
    for _ in 0..20 {
        transfer_to(&here, &there, FAR, 200_000);
    }
    let sent = |device: &str| {
        here.run(|| {
            Stack::open()
                .expect("a stack")
                .link(&name(device))
                .expect("it is there")
                .stats
                .tx_packets
        })
    };
    assert!(sent("a0") > 100 && sent("a1") > 100, "both paths are used");
    well([&here, &there]);
}

fn neighbours(net: &Net) {
    net.here.run(|| {
        let mut stack = Stack::open().expect("a stack");
        let index = stack.index_of(&name("a0")).expect("the cable");
        for host in 0..900_u16 {
            let address = Ipv4Addr::from(0x0a00_0100 + u32::from(host));
            let mac = Mac::local(1000 + u64::from(host));
            stack.set_neighbour(index, address.into(), mac).expect("it is taken");
        }
    });
    // The table is everybody's, and is shown in the first namespace only.
    well([&first(), &net.here]);
}
