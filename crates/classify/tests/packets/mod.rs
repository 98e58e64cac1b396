//! Packets of all kinds the classifier knows, and of some it doesn't: generated, cut and bent.

#![allow(dead_code, reason = "each test program uses its own part")]

use proptest::prelude::*;
use quell_wire::layers::{Layer, packet};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Few enough addresses and ports that packets of one flow and of one host come again.
fn v4() -> impl Strategy<Value = Ipv4Addr> {
    (0..4u8, 0..6u8).prop_map(|(net, host)| Ipv4Addr::new(192, 0, net, host))
}

fn v6() -> impl Strategy<Value = Ipv6Addr> {
    (0..3u16, 0..5u16).prop_map(|(net, host)| Ipv6Addr::new(0x2001, 0xdb8, 0, net, 0, 0, 0, host))
}

/// Layers that come one behind the other. On the heap: by value, what is generated from all of them is more than a test's stack holds.
type Layers = BoxedStrategy<Vec<Layer>>;

fn ip() -> Layers {
    let fragment = prop_oneof![8 => Just(0u16), 1 => Just(0x4000), 1 => any::<u16>()];
    let options = prop_oneof![6 => Just(0u8), 1 => 1..=10u8];
    let old = (v4(), v4(), any::<u8>(), options, fragment).prop_map(
        |(src, dst, tos, options, fragment)| vec![Layer::Ipv4 { src, dst, tos, options, fragment }],
    );
    let kind = prop::sample::select(vec![0u8, 43, 60, 51, 135, 139, 140]);
    let extension = prop_oneof![
        5 => (kind, 0..3u8).prop_map(|(kind, more)| Layer::Extension { kind, more }),
        1 => (0..3u16, any::<bool>()).prop_map(|(offset, more)| Layer::Fragment { offset, more }),
    ];
    let extensions = prop_oneof![5 => Just(0..=0usize), 2 => Just(1..=3), 1 => Just(4..=8)];
    let extensions = extensions.prop_flat_map(move |n| prop::collection::vec(extension.clone(), n));
    let new = (v6(), v6(), any::<u8>(), any::<u32>(), extensions).prop_map(
        |(src, dst, class, label, extensions)| {
            let mut layers = vec![Layer::Ipv6 { src, dst, class, label }];
            layers.extend(extensions);
            layers
        },
    );
    prop_oneof![old, new].boxed()
}

fn tags() -> Layers {
    let tag = prop_oneof![
        4 => (0..6u16, any::<bool>()).prop_map(|(id, service)| Layer::Vlan { id, service }),
        1 => Just(Layer::Pppoe),
    ];
    prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec(tag, 1..=4),
    ]
    .boxed()
}

/// What an IP packet inside a tunnel stands behind.
fn tunnel() -> Layers {
    let gre = || {
        (any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(checksum, key, sequence)| Layer::Gre { checksum, key, sequence })
    };
    let ethernet = |first: Vec<Layer>, tags: Vec<Layer>| {
        first.into_iter().chain([Layer::Ethernet]).chain(tags).collect::<Vec<_>>()
    };
    prop_oneof![
        Just(Vec::new()),
        gre().prop_map(|gre| vec![gre]),
        (gre(), tags()).prop_map(move |(gre, tags)| ethernet(vec![gre], tags)),
        (any::<u16>(), 0..1u32 << 24, tags()).prop_map(move |(src, network, tags)| {
            ethernet(vec![Layer::Udp { src, dst: 4789 }, Layer::Vxlan { network }], tags)
        }),
    ]
    .boxed()
}

fn payload() -> Layers {
    fn port() -> impl Strategy<Value = u16> {
        prop_oneof![0..4u16, Just(4789), any::<u16>()]
    }
    let ports = |proto| {
        (port(), port(), 0..40usize).prop_map(move |(src, dst, length)| {
            let ports = [src.to_be_bytes(), dst.to_be_bytes()].concat();
            Layer::Bytes { proto, bytes: [ports, vec![0; length]].concat() }
        })
    };
    let last = prop_oneof![
        4 => (port(), port()).prop_map(|(src, dst)| Layer::Udp { src, dst }),
        4 => (port(), port()).prop_map(|(src, dst)| Layer::Tcp { src, dst }),
        2 => Just(Layer::Icmp),
        1 => ports(132),
        1 => ports(33),
        1 => ports(136),
        // ESP, an unknown protocol, and a tunnel with nothing in it.
        1 => ports(50),
        1 => prop::sample::select(vec![253u8, 4, 41, 47]).prop_flat_map(ports),
    ];
    (last, 0..64usize).prop_map(|(last, length)| vec![last, Layer::payload(length)]).boxed()
}

/// Layers of a whole frame: tags, up to four IP headers one inside the other, and a payload.
pub fn layers() -> Layers {
    let depth = prop_oneof![4 => Just(0usize), 4 => Just(1), 3 => Just(2), 1 => Just(3)];
    let inner = depth.prop_flat_map(|depth| prop::collection::vec((tunnel(), ip()), depth..=depth));
    (tags(), ip(), inner, payload())
        .prop_map(|(tags, outer, inner, payload)| {
            let inner = inner.into_iter().flat_map(|(tunnel, ip)| [tunnel, ip].concat());
            let mut layers = vec![Layer::Ethernet];
            layers.extend(tags.into_iter().chain(outer).chain(inner).chain(payload));
            layers
        })
        .boxed()
}

/// Frames: most of them whole, some cut short, some with a byte that is wrong, a few that are noise.
pub fn frame() -> impl Strategy<Value = Vec<u8>> {
    let bent = (layers(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(l, at, byte)| {
        let mut frame = packet(&l);
        let at = at.index(frame.len());
        frame[at] = byte;
        frame
    });
    let cut = (layers(), any::<prop::sample::Index>()).prop_map(|(l, at)| {
        let mut frame = packet(&l);
        let at = 14 + at.index(frame.len() - 14);
        frame.truncate(at);
        frame
    });
    let noise = prop::collection::vec(any::<u8>(), 15..200);
    prop_oneof![6 => layers().prop_map(|l| packet(&l)), 2 => cut, 2 => bent, 1 => noise]
        .prop_map(long_enough)
}

/// The kernel's test run refuses IP packets in which there is no room for their own header (`bpf_prog_test_run_skb`); those behind a tag or in a
/// tunnel it takes.
fn long_enough(mut frame: Vec<u8>) -> Vec<u8> {
    let least = match frame[12..14] {
        [8, 0] => 14 + 20,
        [0x86, 0xdd] => 14 + 40,
        _ => 0,
    };
    frame.resize(frame.len().max(least), 0);
    frame
}
