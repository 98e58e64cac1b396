//! The program in this kernel, held against its twin in plain Rust: what it makes of packets.

use std::net::IpAddr;

use crate::kernel::{Pair, config};
use crate::packets::frame;
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use quell_classify::{Config, HostKey, Hosts, Key, Keys, Layout, Parts, TierBy, Tiers};
use quell_tc::Handle;
use quell_units::Span;
use quell_wire::layers::Layer;

fn v4(last: u8) -> Layer {
    Layer::v4([192, 0, 2, last], [198, 51, 100, 1])
}

fn udp(src: u16, dst: u16) -> Layer {
    Layer::Udp { src, dst }
}

fn datagram(from: u8, port: u16) -> [Layer; 4] {
    [Layer::Ethernet, v4(from), udp(port, 53), Layer::payload(8)]
}

/// A configuration of anything, its hosts never idle, since one packet may take as long as another.
fn any_config() -> impl Strategy<Value = Parts> {
    use HostKey::*;
    let by = prop::sample::select(vec![Src, Dst, TunnelSrc, TunnelDst, Mark, Vlan]);
    let hosts = (by, 1..=64u16, 0..=32u8, 0..=128u8, any::<[bool; 2]>()).prop_map(
        |(by, classes, v4_prefix, v6_prefix, [neighbours, translated])| {
            let idle = Span::from_secs(86400);
            Hosts { by, classes, idle, v4_prefix, v6_prefix, neighbours, translated }
        },
    );
    let tiers = (any::<[[u8; 32]; 2]>(), any::<bool>(), prop::option::of(1..9u16)).prop_map(
        |(of, tunnel, cake_tins)| Tiers {
            of: std::array::from_fn(|dscp| of[dscp / 32][dscp % 32] % 4),
            by: if tunnel { TierBy::Tunnel } else { TierBy::Outer },
            cake_tins,
        },
    );
    let layout = prop_oneof![
        Just(Layout::Cake),
        (1..9u16, 1..99u16, 0..99u16, 0..9u16, 0..9u16).prop_map(
            |(major, base, host_step, tier_step, flow_step)| {
                Layout::Classes { major, base, host_step, tier_step, flow_step }
            }
        ),
    ];
    let keys = prop::collection::vec(prop::sample::select(Key::ALL.to_vec()), 0..=13);
    let port = prop_oneof![5 => Just(4789u16), 1 => Just(0), 1 => 0..4u16];
    let hosts = prop::option::of(hosts);
    let tunnels_only = any::<bool>();
    (keys, 1..=1024u16, hosts, tiers, layout, any::<u64>(), port, tunnels_only).prop_map(
        |(keys, flows, hosts, tiers, layout, seed, vxlan_port, tunnels_only)| Parts {
            keys: Keys::from_iter(keys),
            flows,
            hosts,
            tiers,
            layout,
            other: Some(Handle::class(1, 0xfff)),
            seed,
            vxlan_port,
            tunnels_only: tunnels_only && layout == Layout::Cake,
        },
    )
}

/// Configurations, and frames for each: some ten thousand packets.
const CONFIGS: u32 = 96;
const FRAMES: usize = 128;

#[test]
fn program_and_twin_agree_on_every_packet_under_every_configuration() {
    let widest = config(Parts::hosts(1, 1, Hosts::new(HostKey::Src, 64), 1, Handle::class(1, 1)));
    let Some(pair) = Pair::new(&widest) else { return };
    let known: Vec<(IpAddr, u64)> = (0..3u8)
        .flat_map(|i| {
            let old = IpAddr::from([192, 0, 1, i]);
            let new = IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, u16::from(i)]);
            [(old, 1 + u64::from(i / 2)), (new, 1 + u64::from(i / 2))]
        })
        .collect();
    let pair = std::cell::RefCell::new(pair);
    let mark = prop_oneof![Just(0u32), 1..9u32, any::<u32>()];
    let cases = (any_config(), prop::collection::vec((frame(), mark), FRAMES));
    let options =
        ProptestConfig { cases: CONFIGS, failure_persistence: None, ..ProptestConfig::default() };
    let told = TestRunner::new(options).run(&cases, |(parts, frames)| {
        let pair = &mut *pair.borrow_mut();
        // A configuration of other hosts begins with a new table, on both sides.
        pair.program.tables().forget_hosts().unwrap();
        pair.twin.forget_hosts();
        pair.set_neighbours(&known);
        pair.configure(&config(parts));
        for (frame, mark) in frames {
            pair.try_class(&frame, mark).map_err(TestCaseError::fail)?;
        }
        Ok(())
    });
    match told {
        // The whole input is a hundred frames; the one that told is in the reason.
        Err(TestError::Fail(why, (parts, _))) => panic!("{why}\nwith {parts:?}"),
        other => other.unwrap(),
    }
}

#[test]
fn flows_have_classes_by_their_five_tuple_and_keep_them() {
    let Some(mut pair) = Pair::new(&Config::flows(1, 1024).unwrap()) else { return };
    let first = pair.class(&datagram(1, 1000));
    assert_eq!(first >> 16, 1);
    assert!((1..=1024).contains(&(first & 0xffff)), "{first:x}");
    assert_eq!(pair.class(&datagram(1, 1000)), first);
    let ports: std::collections::BTreeSet<u32> =
        (0..100).map(|port| pair.class(&datagram(1, port))).collect();
    // 100 flows in 1024 classes: 95.3 are expected to have different ones.
    assert!(ports.len() > 85, "{}", ports.len());
}

/// Flows by these keys alone, into so many classes that two hardly ever share one.
fn by(keys: Keys) -> Config {
    config(Parts { keys, ..Parts::flows(1, 0x8000) })
}

/// Key by key: another value, another class; what the key does not look at changes nothing.
fn same_and_other(
    pair: &mut Option<Pair>,
    keys: Keys,
    one: &[Layer],
    same: &[Layer],
    other: &[Layer],
) {
    let Some(pair) = pair else { return };
    pair.configure(&by(keys));
    let class = pair.class(one);
    assert_eq!(pair.class(same), class, "{keys}: {same:?} is the same flow as {one:?}");
    assert_ne!(pair.class(other), class, "{keys}: {other:?} is another flow than {one:?}");
}

fn inside(tunnel: &[Layer], inner: &[Layer]) -> Vec<Layer> {
    [&[Layer::Ethernet], tunnel, inner, &[Layer::payload(20)]].concat()
}

fn v6(last: u16) -> Layer {
    let address = |last| std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
    Layer::v6(address(last), address(0xffff))
}

const GRE: Layer = Layer::Gre { checksum: true, key: true, sequence: true };

/// Ways into a tunnel, once and twice.
fn tunnels() -> Vec<Vec<Layer>> {
    let vxlan = [udp(50000, 4789), Layer::Vxlan { network: 7 }, Layer::Ethernet];
    let vlan = Layer::Vlan { id: 9, service: false };
    vec![
        vec![v4(1)],
        vec![v6(1)],
        vec![v4(1), GRE],
        vec![v6(1), GRE, Layer::Ethernet],
        [&[v4(1)], &vxlan[..]].concat(),
        [&[v6(1)], &vxlan[..], &[vlan]].concat(),
        vec![v4(1), v6(1)],
        [&[v4(1), GRE, v6(1)], &vxlan[..]].concat(),
    ]
}

#[test]
fn flows_inside_of_every_kind_of_tunnel_are_told_apart_by_tunnel_keys_only() {
    let pair = &mut Pair::new(&by(Keys::OUTER));
    for tunnel in tunnels() {
        for ip in [v4, |last: u8| v6(last.into())] {
            let one = inside(&tunnel, &[ip(3), udp(1, 2)]);
            let other_port = inside(&tunnel, &[ip(3), udp(3, 2)]);
            let other_host = inside(&tunnel, &[ip(4), udp(1, 2)]);
            let keys = |text: &str| text.parse::<Keys>().unwrap();
            let ports = keys("tunnel-proto-src,tunnel-proto-dst");
            same_and_other(pair, ports, &one, &other_host, &other_port);
            same_and_other(pair, keys("tunnel-src"), &one, &other_port, &other_host);
            let tcp = inside(&tunnel, &[ip(3), Layer::Tcp { src: 1, dst: 2 }]);
            same_and_other(pair, keys("tunnel-proto"), &one, &other_port, &tcp);
            // Outside, all of it is one flow.
            let Some(pair) = pair else { return };
            pair.configure(&by(Keys::OUTER));
            let outside = pair.class(&one);
            assert!([other_port, other_host, tcp].iter().all(|l| pair.class(l) == outside));
        }
    }
}

#[test]
fn all_fragments_of_a_packet_are_in_one_class_and_whole_packets_go_by_their_ports() {
    let pair = &mut Pair::new(&by(Keys::OUTER));
    let fragment = |fragment| {
        let Layer::Ipv4 { src, dst, .. } = v4(1) else { unreachable!() };
        Layer::Ipv4 { src, dst, tos: 0, options: 0, fragment }
    };
    // The first has the ports; the others begin with what happens to be there.
    let old = |flags, ports: [u16; 2]| {
        let [src, dst] = ports;
        vec![Layer::Ethernet, fragment(flags), udp(src, dst), Layer::payload(16)]
    };
    let whole = [old(0x4000, [1, 2]), old(0x4000, [3, 4])];
    same_and_other(pair, Keys::ALL_FLOWS, &old(0x2000, [1, 2]), &old(0x2005, [77, 78]), &whole[0]);
    same_and_other(pair, Keys::ALL_FLOWS, &whole[0], &old(0, [1, 2]), &whole[1]);

    let new = |offset, more, ports: [u16; 2]| {
        let [src, dst] = ports;
        let layers = [Layer::Ethernet, v6(1), Layer::Fragment { offset, more }, udp(src, dst)];
        [&layers[..], &[Layer::payload(16)]].concat()
    };
    let plain = [Layer::Ethernet, v6(1), udp(1, 2), Layer::payload(16)];
    same_and_other(pair, Keys::ALL_FLOWS, &new(0, true, [1, 2]), &new(9, false, [77, 78]), &plain);
    // A fragment header on a packet that is whole.
    same_and_other(pair, Keys::ALL_FLOWS, &new(0, false, [1, 2]), &plain, &new(0, false, [3, 4]));
}

#[test]
fn a_protocol_without_ports_is_one_flow_whatever_it_carries_and_whatever_its_tos() {
    let pair = &mut Pair::new(&by(Keys::OUTER));
    let echo = |tos, length| {
        let Layer::Ipv4 { src, dst, .. } = v4(1) else { unreachable!() };
        let ip = Layer::Ipv4 { src, dst, tos, options: 0, fragment: 0 };
        vec![Layer::Ethernet, ip, Layer::Icmp, Layer::payload(length)]
    };
    let other = [Layer::Ethernet, v4(2), Layer::Icmp, Layer::payload(8)];
    same_and_other(pair, Keys::OUTER, &echo(0, 8), &echo(0x10, 900), &other);
    let by_dscp = Keys::OUTER.with(Key::Dscp);
    same_and_other(pair, by_dscp, &echo(0xb8, 8), &echo(0xba, 8), &echo(0, 8));
}

#[test]
fn vlan_tags_pppoe_extension_headers_and_options_hide_no_flow() {
    let pair = &mut Pair::new(&by(Keys::OUTER));
    let vlan = |id, service| Layer::Vlan { id, service };
    let behind = |tags: &[Layer], ports: [u16; 2]| {
        let [src, dst] = ports;
        [&[Layer::Ethernet], tags, &[v4(1), udp(src, dst), Layer::payload(8)]].concat()
    };
    let plain = behind(&[], [1, 2]);
    for tags in [
        vec![vlan(5, false)],
        vec![vlan(5, true), vlan(6, false)],
        vec![Layer::Pppoe],
        vec![vlan(5, false), Layer::Pppoe],
    ] {
        same_and_other(pair, Keys::OUTER, &plain, &behind(&tags, [1, 2]), &behind(&tags, [3, 2]));
    }
    let by_vlan = Keys::NONE.with(Key::Vlan);
    let two = behind(&[vlan(5, true), vlan(9, false)], [1, 2]);
    same_and_other(pair, by_vlan, &behind(&[vlan(5, false)], [1, 2]), &two, &plain);

    let extended = |port| {
        let extension = |kind, more| Layer::Extension { kind, more };
        let chain = [extension(0, 0), extension(60, 2), extension(43, 1), extension(51, 4)];
        [&[Layer::Ethernet, v6(1)], &chain[..], &[udp(port, 2), Layer::payload(8)]].concat()
    };
    let bare = [Layer::Ethernet, v6(1), udp(1, 2), Layer::payload(8)];
    same_and_other(pair, Keys::OUTER, &bare, &extended(1), &extended(3));
}

#[test]
fn what_is_no_ip_packet_goes_to_the_class_that_was_named() {
    let parts = Parts { other: Some(Handle::class(1, 0x99)), ..Parts::flows(1, 64) };
    let Some(mut pair) = Pair::new(&config(parts)) else { return };
    let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6], &[0; 46]].concat();
    let length = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 0, 46], &[0x42; 46]].concat();
    let lies = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 0], &[0x60; 46]].concat();
    for frame in [arp, length, lies] {
        assert_eq!(pair.try_class(&frame, 0), Ok(0x1_0099));
    }
    // CAKE sees to it by itself.
    let Some(mut cake) = Pair::new(&Config::cake(HostKey::Src).unwrap()) else { return };
    assert_eq!(cake.try_class(&[0x88; 60], 0), Ok(0));
}

#[test]
fn tiers_come_from_dscp_of_the_header_that_was_named() {
    let mut of = [1; 64];
    (of[46], of[8]) = (0, 2);
    let tiers = |by| Tiers { of, by, cake_tins: Some(0x8001) };
    let layout = Layout::Classes { major: 1, base: 0x10, host_step: 0, tier_step: 1, flow_step: 0 };
    let parts = |by| Parts { tiers: tiers(by), layout, keys: Keys::NONE, ..Parts::flows(1, 1) };
    let ip = |tos| {
        let Layer::Ipv4 { src, dst, .. } = v4(1) else { unreachable!() };
        Layer::Ipv4 { src, dst, tos, options: 0, fragment: 0 }
    };
    let Some(mut pair) = Pair::new(&config(parts(TierBy::Outer))) else { return };
    for (tos, class) in [(0xb8, 0x1_0010), (0xbb, 0x1_0010), (0, 0x1_0011), (0x20, 0x1_0012)] {
        let frame = [Layer::Ethernet, ip(tos), ip(0), Layer::Icmp, Layer::payload(8)];
        assert_eq!(pair.class(&frame), class);
    }
    pair.configure(&config(parts(TierBy::Tunnel)));
    let frame = [Layer::Ethernet, ip(0), ip(0xb8), Layer::Icmp, Layer::payload(8)];
    assert_eq!(pair.class(&frame), 0x1_0010);
    let run = pair.program.test_run(&quell_wire::layers::packet(&frame), 0, 1).unwrap();
    assert_eq!(run.priority, 0x8001_0001, "the tin that CAKE takes");
}

#[test]
fn for_cake_the_major_is_the_host_and_the_minor_the_flow() {
    let Some(mut pair) = Pair::new(&Config::cake(HostKey::Src).unwrap()) else { return };
    let one = pair.class(&datagram(1, 1000));
    let second = pair.class(&datagram(1, 1001));
    let other = pair.class(&datagram(2, 1000));
    assert_eq!(one >> 16, second >> 16);
    assert_ne!(one >> 16, other >> 16);
    assert_ne!(one & 0xffff, second & 0xffff);
    for class in [one, second, other] {
        assert!((1..=1024).contains(&(class >> 16)) && (1..=1024).contains(&(class & 0xffff)));
    }
    let none = config(Parts { hosts: None, ..Parts::cake(HostKey::Src) });
    pair.configure(&none);
    assert_eq!(pair.class(&datagram(1, 1000)), one & 0xffff, "CAKE finds the host by itself");
}

#[test]
fn the_frames_of_the_comparison_are_of_all_kinds() {
    use proptest::strategy::ValueTree;
    let mut runner = TestRunner::deterministic();
    let mut tunnels = [0; 3];
    let (mut ports, mut others) = (0, 0);
    for _ in 0..2000 {
        let frame = frame().new_tree(&mut runner).unwrap().current();
        let packet = crate::twin::Packet::of_frame(&frame).unwrap();
        match crate::twin::parse(&packet, 4789) {
            None => others += 1,
            Some(parsed) => {
                tunnels[parsed.tunnels as usize] += 1;
                ports += usize::from(parsed.inner.dst_port != 0);
            }
        }
    }
    assert!(tunnels.iter().all(|n| *n > 200), "{tunnels:?}");
    assert!(ports > 500 && others > 50, "{ports} {others}");
}
