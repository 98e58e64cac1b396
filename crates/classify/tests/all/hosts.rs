//! Which host has which class, told by running the program on packets of theirs; its twin says the same each time.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use crate::kernel::{Pair, config};
use quell_classify::{HostId, HostKey, Hosts, Keys, Parts};
use quell_tc::Handle;
use quell_units::Span;
use quell_wire::layers::Layer;

const MINUTE: Span = Span::from_secs(60);

/// A class for each host, from 1:10 on.
fn parts(hosts: Hosts) -> Parts {
    Parts::hosts(1, 0x10, hosts, 1, Handle::class(1, 1))
}

fn by_source(classes: u16) -> Option<Pair> {
    Pair::new(&config(parts(Hosts::new(HostKey::Src, classes))))
}

fn from(number: u16) -> Vec<Layer> {
    let [high, low] = number.to_be_bytes();
    let ip = Layer::v4([10, 0, high, low], [192, 0, 2, 1]);
    vec![Layer::Ethernet, ip, Layer::Icmp, Layer::payload(8)]
}

fn from_v6(network: u16, interface: u64) -> Vec<Layer> {
    let prefix = 0x2001_0db8_0000_0000 | u64::from(network);
    let src = Ipv6Addr::from_bits((u128::from(prefix) << 64) | u128::from(interface));
    vec![Layer::Ethernet, Layer::v6(src, Ipv6Addr::LOCALHOST), Layer::Icmp, Layer::payload(8)]
}

fn classes(pair: &mut Pair, hosts: impl IntoIterator<Item = u16>) -> Vec<u32> {
    hosts.into_iter().map(|host| pair.class(&from(host))).collect()
}

#[test]
fn no_two_hosts_share_a_class_as_long_as_there_are_free_ones() {
    for count in [1, 16, 1024] {
        let Some(mut pair) = by_source(count) else { return };
        let first = classes(&mut pair, 0..count);
        let different: BTreeSet<u32> = first.iter().copied().collect();
        assert_eq!(different, (0x1_0010..0x1_0010 + u32::from(count)).collect());
        assert_eq!(classes(&mut pair, 0..count), first, "each keeps its own");
        assert_eq!(pair.program.tables().sharing().unwrap(), 0);

        // All are taken: the next ones share, and take nobody's class away.
        let more = classes(&mut pair, count..count + 3);
        assert!(more.iter().all(|class| different.contains(class)));
        assert_eq!(pair.program.tables().sharing().unwrap(), 3);
        assert_eq!(classes(&mut pair, 0..count), first);
    }
}

#[test]
fn who_was_silent_for_a_minute_gives_the_class_to_a_new_host() {
    let Some(mut pair) = by_source(4) else { return };
    let first = classes(&mut pair, 0..4);
    pair.wait(Span::from_secs(45));
    // Host 2 is silent, the others are not.
    for host in [0, 1, 3] {
        assert_eq!(pair.class(&from(host)), first[usize::from(host)]);
    }
    assert_ne!(pair.class(&from(9)), 0, "nobody is idle yet: it shares");
    assert_eq!(pair.program.tables().sharing().unwrap(), 1);
    pair.wait(Span::from_secs(20));
    assert_eq!(pair.class(&from(9)), first[2]);
    assert_eq!(classes(&mut pair, [0, 1, 3]), [first[0], first[1], first[3]]);
    // Back again, host 2 is one too many.
    pair.class(&from(2));
    assert_eq!(pair.program.tables().sharing().unwrap(), 2);
    let held: Vec<HostId> =
        pair.program.tables().hosts().unwrap().iter().map(|row| row.host).collect();
    assert!(held.contains(&HostId::Address([10, 0, 0, 9].into())), "{held:?}");
    assert!(!held.contains(&HostId::Address([10, 0, 0, 2].into())), "{held:?}");
}

#[test]
fn who_comes_back_to_a_class_that_nobody_took_has_it_again() {
    let Some(mut pair) = by_source(64) else { return };
    let first = classes(&mut pair, 0..8);
    pair.wait(Span::from_secs(3600));
    assert_eq!(classes(&mut pair, (0..8).rev()), first.into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn the_table_says_who_has_which_class_and_since_when_it_is_silent() {
    let Some(mut pair) = by_source(16) else { return };
    let class = pair.class(&from(7));
    pair.wait(MINUTE);
    let other = pair.class(&from(8));
    let rows = pair.program.tables().hosts().unwrap();
    let row = |last| {
        let host = HostId::Address([10, 0, 0, last].into());
        *rows.iter().find(|row| row.host == host).expect("it is in the table")
    };
    assert_eq!(u32::from(row(7).class) + 0x1_0010, class);
    assert_eq!(u32::from(row(8).class) + 0x1_0010, other);
    assert!(row(7).idle >= MINUTE && row(8).idle < MINUTE, "{rows:?}");
    assert_eq!(rows.len(), 2);
}

#[test]
fn hosts_may_be_silent_for_longer_than_the_kernel_is_up() {
    // 27 years: no kernel is up for as long, and one that has just started is like any other.
    let years = Span::from_secs(27 * 365 * 86400);
    let Some(mut pair) = by_source(2) else { return };
    let first = classes(&mut pair, 0..2);
    pair.wait(years);
    let rows = pair.program.tables().hosts().unwrap();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.idle >= years), "{rows:?}");
    let others: BTreeSet<u32> = classes(&mut pair, 2..4).into_iter().collect();
    assert_eq!(others, first.into_iter().collect(), "both gave theirs back");
    assert_eq!(pair.program.tables().sharing().unwrap(), 0);
}

#[test]
fn all_addresses_of_an_ipv6_network_are_one_host_where_that_was_asked_for() {
    let hosts = Hosts { v6_prefix: 64, ..Hosts::new(HostKey::Src, 64) };
    let Some(mut pair) = Pair::new(&config(parts(hosts))) else { return };
    let first = pair.class(&from_v6(1, 1));
    assert!((2..40).all(|interface| pair.class(&from_v6(1, interface << 33)) == first));
    assert_ne!(pair.class(&from_v6(2, 1)), first);
    assert_eq!(pair.program.tables().hosts().unwrap().len(), 2);
    pair.configure(&config(parts(Hosts { v6_prefix: 128, ..hosts })));
    assert_eq!(pair.program.tables().hosts().unwrap(), [], "hosts are others now");
    let apart: BTreeSet<u32> = (0..40).map(|i| pair.class(&from_v6(1, i))).collect();
    assert_eq!(apart.len(), 40);
}

#[test]
fn all_addresses_of_a_neighbour_are_one_host_whatever_their_version() {
    let hosts = Hosts { neighbours: true, ..Hosts::new(HostKey::Src, 64) };
    let Some(mut pair) = Pair::new(&config(parts(hosts))) else { return };
    let mac = 0x0200_0000_0007;
    let private = |interface| {
        let prefix = 0x2001_0db8_0000_0001_u64;
        IpAddr::from(Ipv6Addr::from_bits((u128::from(prefix) << 64) | interface))
    };
    let known = [(IpAddr::from([10, 0, 0, 7]), mac), (private(0x17), mac), (private(0x2342), mac)];
    pair.set_neighbours(&known);
    let class = pair.class(&from(7));
    assert_eq!(pair.class(&from_v6(1, 0x17)), class);
    assert_eq!(pair.class(&from_v6(1, 0x2342)), class);
    assert_ne!(pair.class(&from_v6(1, 0x2343)), class, "nobody knows whose that is");
    assert_eq!(pair.program.tables().hosts().unwrap()[..].len(), 2);
    assert!(
        pair.program.tables().hosts().unwrap().iter().any(|r| r.host == HostId::Neighbour(mac))
    );
    // The privacy address expires, and is somebody else's.
    let known = [(IpAddr::from([10, 0, 0, 7]), mac), (private(0x2342), mac + 1)];
    pair.set_neighbours(&known);
    assert_ne!(pair.class(&from_v6(1, 0x2342)), class);
    assert_eq!(pair.class(&from(7)), class);
}

#[test]
fn other_keys_at_run_time_leave_every_host_its_class() {
    let Some(mut pair) = by_source(64) else { return };
    let first = classes(&mut pair, 0..20);
    let hosts = Hosts::new(HostKey::Src, 64);
    let with_flows = Parts { keys: Keys::ALL_FLOWS, flows: 1, ..parts(hosts) };
    pair.configure(&config(with_flows));
    assert_eq!(classes(&mut pair, 0..20), first);
    let too_many = config(parts(Hosts::new(HostKey::Src, 65)));
    let said = pair.program.tables().configure(&too_many).unwrap_err().to_string();
    assert!(said.contains("65 host classes: it was loaded with 64"), "{said}");
    assert_eq!(classes(&mut pair, 0..20), first, "and nothing was touched");
}

#[test]
fn hosts_in_a_tunnel_are_told_apart_and_hosts_with_marks_too() {
    let tunnelled = |host: u8| {
        let outer = Layer::v4([203, 0, 113, 1], [203, 0, 113, 2]);
        let inner = Layer::v4([10, 0, 0, host], [192, 0, 2, 1]);
        vec![Layer::Ethernet, outer, inner, Layer::Tcp { src: 1, dst: 2 }]
    };
    let Some(mut pair) = by_source(64) else { return };
    assert_eq!(pair.class(&tunnelled(1)), pair.class(&tunnelled(2)), "one end of the tunnel");
    pair.configure(&config(parts(Hosts::new(HostKey::TunnelSrc, 64))));
    assert_ne!(pair.class(&tunnelled(1)), pair.class(&tunnelled(2)));
    assert_eq!(pair.class(&tunnelled(1)), pair.class(&from(1)), "in the tunnel and beside it");

    pair.configure(&config(parts(Hosts::new(HostKey::Mark, 64))));
    let frame = quell_wire::layers::packet(&from(1));
    let marked: BTreeSet<u32> = (0..30).map(|mark| pair.try_class(&frame, mark).unwrap()).collect();
    assert_eq!(marked.len(), 30);
}

#[test]
fn a_mark_is_the_address_that_an_ipv4_host_had_before_it_was_translated() {
    let hosts = Hosts { translated: true, ..Hosts::new(HostKey::Src, 64) };
    let Some(mut pair) = Pair::new(&config(parts(hosts))) else { return };
    let mark = u32::from_be_bytes([192, 168, 1, 7]).to_be();
    let outside = quell_wire::layers::packet(&from(1));
    let inside = pair.try_class(&outside, mark).unwrap();
    assert_ne!(pair.try_class(&outside, 0).unwrap(), inside, "without a mark it is the router's");
    assert_ne!(pair.try_class(&outside, mark + 1).unwrap(), inside);
    let hosts = pair.program.tables().hosts().unwrap();
    let known = |address: [u8; 4]| hosts.iter().any(|r| r.host == HostId::Address(address.into()));
    assert!(known([192, 168, 1, 7]) && known([10, 0, 0, 1]), "{hosts:?}");
    // Of IPv6 a mark says nothing.
    let v6 = quell_wire::layers::packet(&from_v6(1, 1));
    assert_eq!(pair.try_class(&v6, mark).unwrap(), pair.try_class(&v6, 0).unwrap());
}

#[test]
fn cake_is_told_of_what_is_in_tunnels_and_of_nothing_else_where_that_is_wanted() {
    let parts = Parts { tunnels_only: true, ..Parts::cake(HostKey::TunnelSrc) };
    let Some(mut pair) = Pair::new(&config(parts)) else { return };
    assert_eq!(pair.class(&from(1)), 0, "CAKE looks for itself");
    let outer = Layer::v6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
    let tunnelled = |host: u8| {
        let inner = Layer::v4([10, 0, 0, host], [192, 0, 2, 1]);
        [Layer::Ethernet, outer.clone(), inner, Layer::Tcp { src: 1, dst: 2 }]
    };
    let (one, other) = (pair.class(&tunnelled(1)), pair.class(&tunnelled(2)));
    assert!(one >> 16 != other >> 16 && one & 0xffff != 0, "{one:x} {other:x}");
}
