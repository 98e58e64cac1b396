//! Interfaces, addresses and routes, made and read back in namespaces of the tests' own.

use crate::namespace::{Namespace, bring_up, cable, ip, lacking, name};
use nix::errno::Errno;
use quell_netlink::address::NewAddress;
use quell_netlink::link::{
    LinkChange, LinkKind, Mac, NewLink, Tunnel, TunnelEnds, VethEnd, VlanId,
};
use quell_netlink::route::{NewRoute, RouteMetrics};
use quell_netlink::{Prefix, Stack, sysctl};
use std::time::Duration;

#[test]
fn a_veth_pair_spans_two_namespaces_as_asked_for() {
    let (here, there) = (Namespace::new(), Namespace::new());
    here.run(|| {
        let mut stack = Stack::open().unwrap();
        let a = VethEnd {
            mac: Some(Mac::local(0xa)),
            mtu: Some(1400),
            tx_queue_len: Some(77),
            ..VethEnd::new(name("uplink"))
        };
        let b = VethEnd {
            mac: Some(Mac::local(0xb)),
            mtu: Some(1300),
            namespace: Some(there.fd()),
            ..VethEnd::new(name("modem"))
        };
        stack.create_veth(&a, &b).unwrap();
        let link = stack.link(&name("uplink")).unwrap();
        assert_eq!(link.kind.as_deref(), Some("veth"));
        assert_eq!((link.mtu, link.tx_queue_len, link.tx_queues), (1400, Some(77), Some(1)));
        assert_eq!(link.mac, Some(Mac::local(0xa)));
        assert!(!link.is_up());
        stack.up(link.index).unwrap();
        assert!(!stack.link_at(link.index).unwrap().can_carry(), "the other end is still down");
        assert_eq!(stack.link(&name("modem")).unwrap_err().errno(), Some(Errno::ENODEV));
    });
    there.run(|| {
        let mut stack = Stack::open().unwrap();
        let link = stack.link(&name("modem")).unwrap();
        assert_eq!((link.mac, link.mtu), (Some(Mac::local(0xb)), 1300));
        stack.up(link.index).unwrap();
        assert!(stack.link_at(link.index).unwrap().can_carry());
        stack.delete_link(link.index).unwrap();
    });
    here.run(|| {
        let left = Stack::open().unwrap().links().unwrap();
        assert!(left.iter().any(|link| link.name == "lo"));
        assert!(left.iter().all(|link| link.name != "uplink"), "the other end went along");
    });
}

#[test]
fn an_interface_is_renamed_and_resized() {
    Namespace::new().run(|| {
        let mut stack = Stack::open().unwrap();
        stack.create_link(&NewLink::new(name("old"), LinkKind::Ifb)).unwrap();
        let index = stack.index_of(&name("old")).unwrap();
        let changes = [
            LinkChange::Name(name("new")),
            LinkChange::Mtu(1280),
            LinkChange::TxQueueLen(10),
            LinkChange::GsoMaxSegs(1),
        ];
        stack.change_link(index, &changes).unwrap();
        let link = stack.link(&name("new")).unwrap();
        assert_eq!((link.mtu, link.tx_queue_len), (1280, Some(10)));
        assert_eq!((link.gso_max_segs, link.kind.as_deref()), (Some(1), Some("ifb")));
    });
}

#[test]
fn a_bridge_has_ports() {
    Namespace::new().run(|| {
        let mut stack = Stack::open().unwrap();
        let made = stack.create_link(&NewLink::new(name("br0"), LinkKind::Bridge));
        if lacking("bridge", made) {
            return;
        }
        stack.create_veth(&VethEnd::new(name("p0")), &VethEnd::new(name("p1"))).unwrap();
        let bridge = stack.index_of(&name("br0")).unwrap();
        let port = stack.index_of(&name("p0")).unwrap();
        stack.change_link(port, &[LinkChange::Master(Some(bridge))]).unwrap();
        assert_eq!(stack.link_at(port).unwrap().master, Some(bridge));
        stack.change_link(port, &[LinkChange::Master(None)]).unwrap();
        assert_eq!(stack.link_at(port).unwrap().master, None);
    });
}

#[test]
fn kinds_that_the_kernel_has_are_made_and_others_are_named_in_the_error() {
    Namespace::new().run(|| {
        let mut stack = Stack::open().unwrap();
        let lo = stack.index_of(&name("lo")).unwrap();
        stack.create_link(&NewLink::new(name("base"), LinkKind::Ifb)).unwrap();
        let base = stack.index_of(&name("base")).unwrap();
        assert_ne!(lo, base);
        let ends = TunnelEnds::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let vlan = LinkKind::Vlan { parent: base, id: VlanId::new(7).unwrap() };
        for (link, kind) in [
            ("d0", LinkKind::Dummy),
            ("v7", vlan),
            ("g0", Tunnel::Gre { ends, key: Some(1) }.into()),
            ("w0", LinkKind::Wireguard),
        ] {
            let made = stack.create_link(&NewLink::new(name(link), kind.clone()));
            if let Err(error) = &made {
                assert!(error.to_string().contains(kind.name()), "{error}");
            }
            if !lacking(kind.name(), made) {
                assert_eq!(stack.link(&name(link)).unwrap().kind.as_deref(), Some(kind.name()));
            }
        }
    });
}

#[test]
fn a_name_that_is_taken_is_an_error_that_says_so() {
    Namespace::new().run(|| {
        let mut stack = Stack::open().unwrap();
        let link = NewLink::new(name("i0"), LinkKind::Ifb);
        stack.create_link(&link).unwrap();
        let error = stack.create_link(&link).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::EEXIST));
        assert!(error.to_string().contains("make ifb interface i0"), "{error}");
    });
}

#[test]
fn addresses_are_usable_at_once_and_can_be_taken_away() {
    let (here, _there) = cable();
    here.run(|| {
        let mut stack = Stack::open().unwrap();
        let index = stack.index_of(&name("a0")).unwrap();
        let mine = |stack: &mut Stack| {
            let all = stack.addresses().unwrap();
            assert!(all.iter().all(|address| !address.tentative));
            let mine = all.into_iter().filter(|address| address.index == index);
            mine.map(|address| address.prefix.to_string()).collect::<Vec<_>>()
        };
        // No link-local address: nobody asked for one.
        assert_eq!(mine(&mut stack), ["10.0.0.1/24", "fd00::1/64"]);
        let again = NewAddress::new("fd00::1/64".parse().unwrap());
        let error = stack.add_address(index, &again).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::EEXIST));
    });
}

#[test]
fn a_route_keeps_its_metrics_and_is_replaced_and_removed() {
    let (here, _there) = cable();
    here.run(|| {
        let mut stack = Stack::open().unwrap();
        let dev = stack.index_of(&name("a0")).unwrap();
        let metrics = RouteMetrics {
            mtu: Some(1400),
            rto_min: Some(Duration::from_millis(10)),
            quick_ack: Some(true),
            initial_cwnd: Some(20),
            initial_rwnd: Some(30),
            ecn: Some(true),
            congestion_control: Some("reno".into()),
        };
        for (to, via) in [(Prefix::ALL_V4, "10.0.0.2"), (Prefix::ALL_V6, "fd00::2")] {
            let route = NewRoute { metrics: metrics.clone(), ..NewRoute::via(to, ip(via), dev) };
            stack.add_route(&route).unwrap();
            let find = |stack: &mut Stack| {
                stack.routes().unwrap().into_iter().find(|route| route.to == to)
            };
            let found = find(&mut stack).unwrap();
            assert_eq!((found.via, found.dev), (Some(ip(via)), Some(dev)));
            assert_eq!(found.metrics, metrics, "{to}");
            let plain = NewRoute { metrics: RouteMetrics::default(), ..route };
            stack.replace_route(&plain).unwrap();
            assert_eq!(find(&mut stack).unwrap().metrics.mtu, None);
            stack.delete_route(to).unwrap();
            assert_eq!(find(&mut stack), None);
        }
        let direct = NewRoute::direct("10.9.0.0/16".parse().unwrap(), dev);
        stack.add_route(&direct).unwrap();
        assert!(stack.routes().unwrap().iter().any(|route| route.to == direct.to));
        assert_eq!(stack.leaves_by(ip("10.9.0.7")).unwrap(), Some(dev));
        assert_eq!(stack.leaves_by(ip("::ffff:10.9.0.7")).unwrap(), Some(dev));
        let nowhere = stack.leaves_by(ip("192.0.2.7")).unwrap_err();
        assert_eq!(nowhere.errno(), Some(Errno::ENETUNREACH));
    });
}

#[test]
fn settings_belong_to_the_namespace() {
    let (one, other) = (Namespace::new(), Namespace::new());
    one.run(|| sysctl::write("net/ipv4/ip_forward", "1").unwrap());
    assert_eq!(one.run(|| sysctl::read("net/ipv4/ip_forward").unwrap()), "1");
    assert_eq!(other.run(|| sysctl::read("net/ipv4/ip_forward").unwrap()), "0");
    one.run(|| bring_up("lo", &[]));
}
