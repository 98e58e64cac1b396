//! Whose an address is, asked of a kernel that routes; the twin, which is told what the kernel should say, has the same classes each time.
//!
//! ```text
//!   10.0.0.7 = fd00::7 ──┐
//!   (nobody else)        ├─ lan ── router ── wan ── 192.0.2.2, the way to all the world
//!   10.9.0.0/16 ── .9 ───┘           └ tun (10.7.0.0/24, without hardware addresses)
//! ```

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use crate::kernel::{Pair, config};
use crate::namespace::{Namespace, bring_up, ip, join, wait_until_it_carries};
use crate::twin::{RouteAnswer, Routes};
use quell_classify::{HostId, HostKey, Hosts, Parts, Way};
use quell_netlink::core::{Message, flags};
use quell_netlink::link::Mac;
use quell_netlink::route::NewRoute;
use quell_netlink::{Prefix, Stack, sysctl};
use quell_tc::Handle;
use quell_units::Span;
use quell_wire::layers::{Layer, packet};

const CLASSES: u16 = 256;
/// Longer than it is believed whose an address is.
const LONG: Span = Span::from_secs(6);

/// The router of the drawing, in a namespace.
struct Router {
    lan: u32,
    wan: u32,
    /// What it should say of addresses.
    answers: HashMap<IpAddr, RouteAnswer>,
    _tun: Option<std::fs::File>,
}

/// Addresses in the network of `lan` that nobody has.
fn nobodys() -> impl Iterator<Item = IpAddr> {
    (0..300u16).map(|n| {
        let [high, low] = n.to_be_bytes();
        Ipv4Addr::new(10, 0, 1 + high, low).into()
    })
}

/// Some message of rtnetlink about a destination, which has no typed form since nothing but this needs it.
fn carry_out(tried: &str, kind: u16, header: &[u8], destination: [u8; 4]) {
    let more = if kind == 24 { flags::CREATE | flags::EXCL } else { 0 };
    let mut message = Message::with_header(tried, kind, more, header);
    message.attrs().bytes(1, &destination);
    Stack::open().unwrap().socket().request_ack(&message).unwrap();
}

impl Router {
    /// Does something on the router, unless no program loads here.
    fn run(work: impl FnOnce(Router) + Send) {
        let (here, there) = (Namespace::new(), Namespace::new());
        join(&here, &there, ("lan", "l1"));
        join(&here, &there, ("wan", "w1"));
        there.run(|| ["l1", "w1"].map(|end| bring_up(end, &[])));
        here.run(|| work(Router::new()));
    }

    fn new() -> Self {
        for key in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
            sysctl::write(key, "1").unwrap();
        }
        let lan = bring_up("lan", &["10.0.0.1/22", "fd00::1/64"]);
        let wan = bring_up("wan", &["192.0.2.1/24", "2001:db8::1/64"]);
        wait_until_it_carries("lan");
        wait_until_it_carries("wan");
        let mut stack = Stack::open().unwrap();
        let (host, inner) = (Mac::local(7), Mac::local(9));
        for (dev, address, mac) in [
            (lan, "10.0.0.7", host),
            (lan, "fd00::7", host),
            (lan, "10.0.0.9", inner),
            (wan, "192.0.2.2", Mac::local(2)),
        ] {
            stack.set_neighbour(dev, ip(address), mac).unwrap();
        }
        let to = |prefix: &str| prefix.parse::<Prefix>().unwrap();
        for (prefix, gateway, dev) in [
            ("0.0.0.0/0", "192.0.2.2", wan),
            // The next router has no entry of its own here.
            ("::/0", "2001:db8::2", wan),
            ("10.9.0.0/16", "10.0.0.9", lan),
        ] {
            stack.add_route(&NewRoute::via(to(prefix), ip(gateway), dev)).unwrap();
        }
        // struct rtmsg: family, lengths, TOS, table, protocol, scope, RTN_UNREACHABLE, flags.
        let header = [2, 16, 0, 0, 254, 3, 0, 7, 0, 0, 0, 0];
        carry_out("make a route that leads nowhere", 24, &header, [10, 8, 0, 0]);
        // The kernel asks who has this address, and nobody answers.
        let asks = UdpSocket::bind("0.0.0.0:0").unwrap();
        asks.send_to(&[0], "10.0.0.8:9").unwrap();

        let mut answers: HashMap<IpAddr, RouteAnswer> = nobodys()
            .chain(["10.0.0.8", "fd00::8", "192.0.2.77"].map(ip))
            .map(|address| (address, RouteAnswer::NoNeighbour))
            .collect();
        let of = |dev, mac: Mac| RouteAnswer::Neighbour(dev, mac.0);
        answers.extend([
            (ip("10.0.0.7"), of(lan, host)),
            (ip("fd00::7"), of(lan, host)),
            (ip("10.0.0.9"), of(lan, inner)),
            (ip("192.0.2.2"), of(wan, Mac::local(2))),
            (ip("10.9.0.1"), RouteAnswer::Beyond(lan)),
            (ip("10.9.0.2"), RouteAnswer::Beyond(lan)),
            (ip("198.51.100.1"), RouteAnswer::Beyond(wan)),
            (ip("198.51.100.2"), RouteAnswer::Beyond(wan)),
            (ip("2001:db8:1::1"), RouteAnswer::Beyond(wan)),
            (ip("10.8.0.1"), RouteAnswer::Refused),
            (ip("10.0.0.1"), RouteAnswer::Unknown),
            (ip("224.0.0.251"), RouteAnswer::Unknown),
            (ip("ff02::1:ff00:1"), RouteAnswer::Unknown),
            (ip("fe80::7"), RouteAnswer::Unknown),
            (ip("fd00::1"), RouteAnswer::Unknown),
        ]);
        let tun = crate::tun::device("t0", crate::tun::Carries::Packets);
        if let Err(why) = &tun {
            crate::kernel::skipped("hosts without hardware addresses", why);
        } else {
            let dev = bring_up("t0", &["10.7.0.1/24"]);
            wait_until_it_carries("t0");
            // The kernel has an entry of a neighbour there once it has sent something.
            asks.send_to(&[0], "10.7.0.2:9").unwrap();
            answers.extend(["10.7.0.2", "10.7.0.3"].map(|a| (ip(a), RouteAnswer::Beyond(dev))));
        }
        Router { lan, wan, answers, _tun: tun.ok() }
    }

    fn routes(&self, way: Way) -> Routes {
        let answers = self.answers.iter().map(|(address, answer)| ((*address).into(), *answer));
        Routes { way, answers: answers.collect() }
    }

    /// What hosts send, on its way to `wan`.
    fn up(&self) -> Way {
        Way { from: self.lan, on: self.wan }
    }

    /// What came by `wan`, on an IFB; the loopback stands in for one.
    fn down(&self) -> Way {
        Way { from: self.wan, on: 1 }
    }
}

fn pair(key: HostKey) -> Option<Pair> {
    let hosts = Hosts { neighbours: true, ..Hosts::new(key, CLASSES) };
    Pair::new(&config(Parts::hosts(1, 0x10, hosts, 1, Handle::class(1, 1))))
}

/// The class of a packet from or to an address.
fn class(pair: &mut Pair, key: HostKey, host: IpAddr) -> u32 {
    let far = if host.is_ipv4() { ip("203.0.113.1") } else { ip("2001:db8:ffff::1") };
    let (src, dst) = if key == HostKey::Src { (host, far) } else { (far, host) };
    let headers = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Layer::v4(src.octets(), dst.octets()),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Layer::v6(src, dst),
        _ => unreachable!("both are of one family"),
    };
    let frame = packet(&[Layer::Ethernet, headers, Layer::Icmp, Layer::payload(8)]);
    pair.try_class(&frame, 0).unwrap_or_else(|why| panic!("{host} by {key:?}: {why}"))
}

#[test]
fn program_and_twin_agree_whose_an_address_is_whichever_way_it_goes() {
    Router::run(|router| {
        let Router { lan, wan, .. } = router;
        let ways = [
            router.up(),
            router.down(),
            Way { from: wan, on: lan },
            Way { from: lan, on: 1 },
            Way { from: wan, on: wan },
            Way { from: lan, on: lan },
            Way { from: 0, on: wan },
        ];
        for key in [HostKey::Src, HostKey::Dst] {
            for way in ways {
                let Some(mut pair) = pair(key) else { return };
                pair.among(router.routes(way));
                for _ in 0..2 {
                    for &address in router.answers.keys() {
                        class(&mut pair, key, address);
                    }
                    pair.wait(LONG);
                }
            }
        }
    });
}

#[test]
fn addresses_that_nobody_has_share_one_place_both_ways() {
    Router::run(|router| {
        for (key, way) in [(HostKey::Src, router.up()), (HostKey::Dst, router.down())] {
            let Some(mut pair) = pair(key) else { return };
            pair.among(router.routes(way));
            let mut of = |address| class(&mut pair, key, address);
            let strangers: BTreeSet<u32> = nobodys().map(&mut of).collect();
            assert_eq!(strangers.len(), 1, "{key:?}");
            let stranger = *strangers.first().expect("one");
            // Asked for without an answer; nowhere; beyond the line; nobody's alone, or good on one link.
            for other in [
                "10.0.0.8",
                "fd00::8",
                "10.8.0.1",
                "198.51.100.1",
                "2001:db8:1::1",
                "224.0.0.251",
                "255.255.255.255",
                "169.254.1.1",
                "ff02::1:ff00:1",
                "fe80::7",
            ] {
                assert_eq!(of(ip(other)), stranger, "{other}, {key:?}");
            }
            let machine = of(ip("10.0.0.7"));
            assert_eq!(of(ip("fd00::7")), machine);
            let behind = ["10.0.0.9", "10.9.0.1", "10.9.0.2", "10.0.0.1"].map(|a| of(ip(a)));
            let all: BTreeSet<u32> = behind.into_iter().chain([machine, stranger]).collect();
            assert_eq!(all.len(), 6, "each other is a host of its own, {key:?}");
            let tables = pair.program.tables();
            let held = tables.hosts().unwrap();
            assert_eq!(held.iter().filter(|row| row.host == HostId::Strangers).count(), 1);
            assert_eq!(held.len(), 6, "{held:?}");
            assert_eq!(tables.strangers(Span::from_secs(60)).unwrap(), 310);
            assert_eq!(tables.sharing().unwrap(), 0);
            assert!(tables.addresses().unwrap().values().flatten().all(|a| *a != ip("10.0.0.8")));
            pair.wait(Span::from_secs(120));
            let tables = pair.program.tables();
            assert_eq!(tables.strangers(Span::ZERO).unwrap(), 0, "nothing came of late");
        }
    });
}

#[test]
fn a_machine_that_is_found_is_no_stranger_any_more_and_stays_known_when_the_kernel_forgets_it() {
    Router::run(|mut router| {
        let Some(mut pair) = pair(HostKey::Src) else { return };
        let (new, other) = (ip("10.0.1.5"), ip("10.0.1.6"));
        pair.among(router.routes(router.up()));
        let stranger = class(&mut pair, HostKey::Src, other);
        assert_eq!(class(&mut pair, HostKey::Src, new), stranger);

        // It answers: half a second later it has its own.
        let mac = Mac::local(5);
        Stack::open().unwrap().set_neighbour(router.lan, new, mac).unwrap();
        router.answers.insert(new, RouteAnswer::Neighbour(router.lan, mac.0));
        pair.among(router.routes(router.up()));
        pair.wait(Span::from_secs(1));
        let own = class(&mut pair, HostKey::Src, new);
        assert_ne!(own, stranger);

        // struct ndmsg: family, padding, interface, state, flags, type; RTM_DELNEIGH.
        let mut header = [0; 12];
        header[0] = 2;
        header[4..8].copy_from_slice(&router.lan.to_ne_bytes());
        carry_out("forget a neighbour", 29, &header, [10, 0, 1, 5]);
        router.answers.insert(new, RouteAnswer::NoNeighbour);
        pair.among(router.routes(router.up()));
        for _ in 0..3 {
            pair.wait(LONG);
            assert_eq!(class(&mut pair, HostKey::Src, new), own, "a scan must not take its place");
            assert_eq!(class(&mut pair, HostKey::Src, other), stranger);
        }
    });
}

#[test]
fn where_the_kernel_does_not_forward_each_address_is_a_host() {
    Router::run(|router| {
        for key in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
            sysctl::write(key, "0").unwrap();
        }
        let Some(mut pair) = pair(HostKey::Src) else { return };
        pair.among(Routes { way: router.up(), ..Routes::default() });
        let classes: BTreeSet<u32> =
            nobodys().take(100).map(|address| class(&mut pair, HostKey::Src, address)).collect();
        assert_eq!(classes.len(), 100);
    });
}
