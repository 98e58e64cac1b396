//! What was dropped, damaged or sent again, and counted.

use super::Story;
use super::firewall::{Hook, Refused, refuse};
use super::net::{
    Namespace, Net, THERE, connected, evidence, finds, first, listener, name, pass, served, set,
    transfer,
};
use super::shapes::{Row, change};
use nix::libc;
use nix::sys::socket::{Backlog, listen, setsockopt, sockopt};
use quell_netlink::link::LinkChange;
use quell_netlink::{Stack, nat};
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

pub const STORIES: &[Story] = &[
    Story { name: "a rule that drops what routers say of large packets", tell: too_big },
    Story { name: "a queue of CoDel's that reaches its limit", tell: limit_drops },
    Story { name: "a listener that nobody accepts from", tell: listen_overflow },
    Story { name: "more SYNs than there is room for", tell: syn_queue },
    Story { name: "connects that nobody answers", tell: syn_retransmissions },
    Story { name: "packets from where no route leads back", tell: reverse_path },
    Story { name: "a hop limit too small for the path, and a circle of routers", tell: hop_limit },
    Story { name: "UDP that nobody reads", tell: udp_unread },
    Story { name: "a shaper that is full", tell: queue_drops },
    Story { name: "one packet in twenty is lost", tell: loss },
    Story { name: "small calls over a path that loses", tell: timeouts },
    Story { name: "packets overtake each other", tell: reordering },
    Story { name: "wrong checksums", tell: checksums },
    Story { name: "fragments whose rest never comes", tell: fragments },
    Story { name: "a link that comes and goes", tell: carrier },
    Story { name: "frames that nobody understands", tell: strange_frames },
    Story { name: "receive buffers that shrink below the window they told", tell: collapse },
    Story { name: "the table of connections is full", tell: conntrack },
    Story { name: "segments with timestamps of old", tell: paws },
];

fn reverse_path(net: &Net) {
    set(&net.here, "net/ipv4/conf/all/rp_filter", "1");
    super::shapes::up(&net.there, "b0", &["10.9.9.9/32"]);
    let sends = net.there.run(|| UdpSocket::bind("10.9.9.9:0").expect("a free port"));
    for (mode, words, says) in
        [("1", "a0 1 (strict)", "by another interface"), ("2", "a0 2 (loose)", "no route leads")]
    {
        set(&net.here, "net/ipv4/conf/all/rp_filter", mode);
        for _ in 0..10 {
            sends.send_to(&[7; 60], "10.0.0.1:9").expect("it is sent");
        }
        let found = finds(&net.here, &["reverse-path-filter"], &[]);
        let seen = evidence(&found, "reverse-path-filter");
        assert!(seen.contains("IPReversePathFilter") && seen.contains(words), "{seen}");
        assert!(found[0]["says"].to_string().contains(says), "{found:#?}");
    }
}

/// Five hosts in a row: four hops from end to end.
fn hop_limit(_: &Net) {
    let row = Row::new(5);
    let opens = |address: String| {
        let listener = super::net::listener_on(row.last(), &address);
        let to = listener.local_addr().expect("it listens");
        row.first().run(|| TcpStream::connect_timeout(&to, Duration::from_secs(2)).is_ok())
    };
    for (key, address) in [
        ("net/ipv4/ip_default_ttl", row.address()),
        ("net/ipv6/conf/right/hop_limit", row.address6()),
    ] {
        set(row.first(), key, "2");
        assert!(!opens(address.clone()), "{key}: it dies at the second router");
        let found = finds(row.first(), &["hop-limit"], &[]);
        let seen = evidence(&found, "hop-limit");
        assert!(seen.contains("InTimeExcds") && seen.contains(&key.replace('/', ".")), "{seen}");
        assert_eq!(found[0]["remedies"].as_array().map(Vec::len), Some(1), "{found:#?}");
        assert_eq!(found[0]["remedies"][0]["key"], key, "{found:#?}");
        // The other end sends as far as is needed.
        finds(row.last(), &[], &[]);
        set(row.first(), key, "64");
        assert!(opens(address), "{key}");
        finds(row.first(), &[], &[]);
    }
    // Two routers send what is for the last one to each other.
    super::shapes::reroute(&row.hosts[2], "10.1.3.0/24", "10.1.1.1", "left");
    let to = format!("{}:9", row.address());
    let tries = row.first().run(|| {
        std::thread::spawn(move || {
            pass(1500);
            // What comes back ends each at once.
            (0..4).all(|_| TcpStream::connect(&to).is_err())
        })
    });
    let found = super::net::examined(row.first(), &["--during", "sleep 4"]);
    assert!(tries.join().expect("it ends"), "it comes round");
    assert!(found[0]["remedies"].to_string().contains("the circle"), "{found:#?}");
    assert!(evidence(&found, "hop-limit").contains("AttemptFails"), "{found:#?}");
}

fn too_big(_: &Net) {
    let row = Row::new(3);
    change(&row.hosts[1], "right", LinkChange::Mtu(1300));
    refuse(row.first(), Hook::In, &[Refused::Icmp]);
    let listener = super::net::listener_on(row.last(), &row.address());
    let mut stream = connected(row.first(), &listener);
    served(row.last(), listener, super::net::read_all);
    let writer = std::thread::spawn(move || {
        pass(2500);
        let _ = stream.write_all(&[7; 50_000]);
        pass(6000);
    });
    let found = super::net::examined(row.first(), &["--during", "sleep 7"]);
    assert!(evidence(&found, "too-big-dropped").contains("10.1.0.2"), "{found:#?}");
    let brings = ["too-big-dropped", "mtu-black-hole"];
    let named = |f: &serde_json::Value| f["id"].as_str().is_some_and(|id| brings.contains(&id));
    assert!(found.iter().all(named), "{found:#?}");
    writer.join().expect("it ends");
}

fn limit_drops(net: &Net) {
    let leaf = "{ kind = \"fq_codel\", limit = 5 }";
    let class = format!("{{ id = \"1:1\", rate = \"1Mbit\", burst = 1600, queue = {leaf} }}");
    net.queue("a0", &format!("{{ kind = \"htb\", default = \"1:1\", class = [{class}] }}"));
    net.here.run(|| {
        let socket = UdpSocket::bind("10.0.0.1:0").expect("a free port");
        let to = (THERE, 9);
        (0..50).for_each(|_| drop(socket.send_to(&[7; 1000], to)));
    });
    finds(&net.here, &[], &[]);
    let found = finds(&net.here, &["queue-drops"], &["--severity", "note"]);
    assert!(evidence(&found, "queue-drops").contains("drop_overlimit"), "{found:#?}");
}

fn listen_overflow(net: &Net) {
    let listener = listener(&net.there);
    listen(&listener, Backlog::new(1).expect("a size")).expect("again");
    let to = listener.local_addr().expect("it listens");
    let tries: Vec<_> = net.here.run(|| {
        let patience = Duration::from_millis(500);
        (0..6).map(|_| TcpStream::connect_timeout(&to, patience)).collect()
    });
    assert!(tries.iter().any(Result::is_err), "the queue has room for two");
    let found = finds(&net.there, &["listen-overflow"], &[]);
    let seen = evidence(&found, "listen-overflow");
    assert!(seen.contains(&to.to_string()) && seen.contains("waiting now"), "{seen}");
}

/// A socket for packets with headers of our own.
fn raw() -> OwnedFd {
    // SAFETY: socket(2) has no memory arguments; a non-negative result is a descriptor that nobody else owns.
    unsafe {
        let fd =
            libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::IPPROTO_RAW);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    }
}

/// Sends IPv4 packets: protocol, identification, fragment field, source, payload.
fn send_raw(
    at: &Namespace,
    packets: impl Iterator<Item = (u8, u16, u16, [u8; 4], Vec<u8>)> + Send,
) {
    use nix::sys::socket::{MsgFlags, SockaddrIn, sendto};
    at.run(|| {
        let socket = raw();
        let to = SockaddrIn::from(SocketAddrV4::new([10, 0, 0, 2].into(), 0));
        for (protocol, id, fragment, source, payload) in packets {
            let mut bytes = vec![0x45, 0, 0, 0];
            bytes.extend(id.to_be_bytes());
            bytes.extend(fragment.to_be_bytes());
            // The kernel fills in length and checksum.
            bytes.extend([64, protocol, 0, 0]);
            bytes.extend(source);
            bytes.extend([10, 0, 0, 2]);
            bytes.extend(payload);
            sendto(socket.as_raw_fd(), &bytes, &to, MsgFlags::empty()).expect("it is sent");
        }
    });
}

fn syn_queue(net: &Net) {
    let listener = listener(&net.there);
    listen(&listener, Backlog::new(4).expect("a size")).expect("again");
    let port = listener.local_addr().expect("it listens").port();
    let syn = move |number: u16| {
        let mut tcp = Vec::new();
        tcp.extend((1000 + number).to_be_bytes());
        tcp.extend(port.to_be_bytes());
        tcp.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
        let source = [10, 0, 0, 100];
        (6, number, 0, source, summed(source, tcp))
    };
    send_raw(&net.here, (1..=20).map(syn));
    finds(&net.there, &["syn-queue"], &[]);
}

/// A TCP header to 10.0.0.2 with its checksum in it.
fn summed(source: [u8; 4], mut tcp: Vec<u8>) -> Vec<u8> {
    let pseudo = [10, 0, 0, 2, 0, 6, 0, tcp.len() as u8];
    let sum = checksum(&[&source[..], &pseudo, &tcp].concat());
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    tcp
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let mut sum: u32 = pairs.iter().map(|pair| u32::from(u16::from_be_bytes(*pair))).sum();
    sum += rest.first().map_or(0, |last| u32::from(*last) << 8);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn syn_retransmissions(net: &Net) {
    net.queue("a0", "{ kind = \"netem\", loss = \"100%\" }");
    net.here.run(|| {
        for port in 1..=4 {
            let to = format!("{THERE}:{port}").parse().expect("an address");
            let tried = TcpStream::connect_timeout(&to, Duration::from_secs(4));
            assert!(tried.is_err(), "nothing comes through");
        }
    });
    finds(&net.here, &["syn-retransmissions"], &[]);
}

fn udp_unread(net: &Net) {
    let unread = net.there.run(|| UdpSocket::bind((THERE, 0)).expect("a free port"));
    setsockopt(&unread, sockopt::RcvBuf, &4096).expect("a size");
    let to = unread.local_addr().expect("it has one");
    net.here.run(|| {
        let socket = UdpSocket::bind("10.0.0.1:0").expect("a free port");
        (0..100).for_each(|_| drop(socket.send_to(&[7; 1000], to)));
    });
    let found = finds(&net.there, &["udp-receive-buffer"], &[]);
    let seen = evidence(&found, "udp-receive-buffer");
    assert!(seen.contains(&to.to_string()), "{seen}");
}

fn queue_drops(net: &Net) {
    net.queue("a0", "{ kind = \"tbf\", rate = \"1Mbit\", burst = \"5kB\", limit = \"10kB\" }");
    let reads = net.there.run(|| UdpSocket::bind((THERE, 0)).expect("a free port"));
    let to = reads.local_addr().expect("it has one");
    net.here.run(|| {
        let socket = UdpSocket::bind("10.0.0.1:0").expect("a free port");
        (0..200).for_each(|_| drop(socket.send_to(&[7; 1000], to)));
    });
    let found = finds(&net.here, &["queue-drops"], &[]);
    assert_eq!(found[0]["subject"], "a0, queue tbf");
    // On the way in nothing is wrong.
    finds(&net.there, &[], &[]);
}

fn loss(net: &Net) {
    net.queue("a0", "{ kind = \"netem\", delay = \"5ms\", loss = \"5%\", limit = 100000 }");
    transfer(net, 6_000_000);
    finds(&net.here, &["fast-retransmit"], &[]);
}

fn timeouts(net: &Net) {
    net.queue("a0", "{ kind = \"netem\", delay = \"1ms\", loss = \"60%\", limit = 100000 }");
    let listener = listener(&net.there);
    let mut stream = connected(&net.here, &listener);
    served(&net.there, listener, |mut stream| {
        let mut call = [0; 100];
        while stream.read_exact(&mut call).is_ok() && stream.write_all(&[1; 50]).is_ok() {}
    });
    for _ in 0..150 {
        stream.write_all(&[2; 100]).expect("a call");
        stream.read_exact(&mut [0; 50]).expect("an answer");
    }
    let found = super::net::examined(&net.here, &[]);
    assert!(!evidence(&found, "retransmission-timeout").is_empty(), "{found:#?}");
    assert!(found.iter().all(|f| f["id"] == "retransmission-timeout"), "{found:#?}");
}

fn reordering(net: &Net) {
    let netem = "{ kind = \"netem\", delay = \"10ms\", reorder = \"5%\", gap = 5, limit = 100000 }";
    net.queue("a0", netem);
    transfer(net, 6_000_000);
    let found = super::net::examined(&net.here, &[]);
    assert!(!evidence(&found, "reordering").is_empty(), "{found:#?}");
    // What reordering brings with it.
    let brings = ["reordering", "spurious-retransmissions", "fast-retransmit"];
    let named = |f: &serde_json::Value| f["id"].as_str().is_some_and(|id| brings.contains(&id));
    assert!(found.iter().all(named), "{found:#?}");
}

fn checksums(net: &Net) {
    let reads = net.there.run(|| UdpSocket::bind((THERE, 0)).expect("a free port"));
    let port = reads.local_addr().expect("it has one").port();
    let wrong = move |number: u16| {
        let mut udp = vec![0x10, 0];
        udp.extend(port.to_be_bytes());
        udp.extend([0, 12, 0xde, 0xad, 1, 2, 3, 4]);
        (17, number, 0, [10, 0, 0, 1], udp)
    };
    send_raw(&net.here, (1..=10).map(wrong));
    // It is looked at when somebody reads.
    reads.set_nonblocking(true).expect("it can be");
    let mut bytes = [0; 64];
    assert!((0..10).all(|_| reads.recv(&mut bytes).is_err()), "nothing of it is taken");
    finds(&net.there, &["checksum-errors"], &[]);
}

fn fragments(net: &Net) {
    set(&net.there, "net/ipv4/ipfrag_time", "1");
    // More fragments, offset 0; of each packet only the first part.
    send_raw(&net.here, (1..=10).map(|id| (17, id, 0x2000, [10, 0, 0, 1], vec![0; 64])));
    pass(3000);
    finds(&net.there, &["fragments"], &[]);
}

fn carrier(net: &Net) {
    let switch = |up| {
        net.there.run(|| {
            let mut stack = Stack::open().expect("a stack");
            let index = stack.index_of(&name("b0")).expect("the cable");
            stack.change_link(index, &[LinkChange::Up(up)]).expect("it is taken");
        });
        pass(1500);
    };
    for _ in 0..5 {
        switch(false);
        switch(true);
    }
    finds(&net.here, &["carrier-lost"], &[]);
}

fn strange_frames(net: &Net) {
    let reads = net.there.run(|| UdpSocket::bind((THERE, 0)).expect("a free port"));
    let to = reads.local_addr().expect("it has one");
    let send = move || {
        let socket = UdpSocket::bind("10.0.0.1:0").expect("a free port");
        let mut got = [0; 16];
        for _ in 0..1100 {
            socket.send_to(&[7; 10], to).expect("it is sent");
            reads.recv(&mut got).expect("it arrives");
        }
        let index = Stack::open().and_then(|mut s| s.index_of(&name("a0"))).expect("the cable");
        // SAFETY: socket(2) has no memory arguments; a non-negative result is a descriptor that nobody else owns.
        let packet = unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        // An ethertype for local experiments (IEEE 802), which nobody here knows.
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
        frame.resize(60, 0);
        // SAFETY: an address of zeros is one; the family and the number of the device are all that is needed to send.
        let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = index as i32;
        let length = std::mem::size_of::<libc::sockaddr_ll>() as u32;
        for _ in 0..100 {
            let fd = packet.as_fd().as_raw_fd();
            // SAFETY: frame and address live through the call, with the lengths that are told.
            let sent = unsafe {
                libc::sendto(
                    fd,
                    frame.as_ptr().cast(),
                    frame.len(),
                    0,
                    (&raw const to).cast(),
                    length,
                )
            };
            assert_eq!(sent, 60, "{}", std::io::Error::last_os_error());
        }
    };
    net.here.run(send);
    finds(&net.there, &["drop-ratio"], &[]);
}

fn collapse(net: &Net) {
    let listener = listener(&net.there);
    let all: Vec<_> = (0..15)
        .map(|_| {
            let mut stream = connected(&net.here, &listener);
            let (unread, _) = listener.accept().expect("it came");
            // The window for which this has no room was told already.
            setsockopt(&unread, sockopt::RcvBuf, &2304).expect("a size");
            stream.set_write_timeout(Some(Duration::from_millis(50))).expect("it can be");
            let _ = stream.write(&[7; 50_000]);
            (stream, unread)
        })
        .collect();
    pass(500);
    let found = super::net::examined(&net.there, &[]);
    assert!(!evidence(&found, "receive-collapse").is_empty(), "{found:#?}");
    let brings = ["receive-collapse", "backlog-drops", "receiver-window"];
    let named = |f: &serde_json::Value| f["id"].as_str().is_some_and(|id| brings.contains(&id));
    assert!(found.iter().all(named), "{found:#?}");
    drop(all);
}

fn conntrack(net: &Net) {
    let first = first();
    let key = "net/netfilter/nf_conntrack_max";
    let was = first.run(|| quell_netlink::sysctl::read(key)).expect("it is there");
    net.here.run(|| nat::masquerade(&[name("a0")])).expect("the guest has NAT");
    set(&first, key, "16");
    net.here.run(|| {
        // The table's room is looked at for each new flow.
        for port in 1..=60 {
            let socket = UdpSocket::bind("10.0.0.1:0").expect("a free port");
            let _ = socket.send_to(&[7; 10], (THERE, port));
        }
    });
    let found = finds(&net.here, &["conntrack-full"], &[]);
    set(&first, key, &was);
    // What was dropped stands in /proc/net/stat/nf_conntrack, which the lab kernel lacks.
    let seen = evidence(&found, "conntrack-full");
    assert!(seen.contains("nf_conntrack_count") && seen.contains("\"value\":16"), "{seen}");
}

fn paws(net: &Net) {
    // Timestamps that begin at none tell of the boot, so that 1 is older than any.
    set(&net.here, "net/ipv4/tcp_timestamps", "2");
    let listener = listener(&net.there);
    let mut stream = connected(&net.here, &listener);
    let (mut other, _) = listener.accept().expect("it came");
    stream.write_all(b"new").expect("it is taken");
    other.read_exact(&mut [0; 3]).expect("it arrives");
    let (from, to) =
        (stream.local_addr().expect("an end").port(), other.local_addr().expect("an end").port());
    let old = move |number: u16| {
        let mut tcp = [from.to_be_bytes(), to.to_be_bytes()].concat();
        // Of any sequence number: an ACK of 32 bytes, with a timestamp of 1.
        tcp.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x80, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0]);
        (6, number, 0, [10, 0, 0, 1], summed([10, 0, 0, 1], tcp))
    };
    send_raw(&net.here, (1..=20).map(old));
    finds(&net.there, &["paws"], &[]);
    drop(stream);
}
