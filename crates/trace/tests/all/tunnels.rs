//! Packets in tunnels of every kind, the same call inside each; and what is said of captures without TCP.

use crate::common::{LITTLE, STALL, Timed, Told, call, events, pcap, report};
use proptest::collection::vec;
use proptest::prelude::*;
use quell_finding::WIDEST;
use quell_trace::{TraceOptions, analyse, overview_text};

/// A packet with a header around it.
type Wrap = fn(Vec<u8>) -> Vec<u8>;

fn behind(header: &[u8], inner: Vec<u8>) -> Vec<u8> {
    [header, &inner].concat()
}

fn in_ipv4(protocol: u8, inner: Vec<u8>) -> Vec<u8> {
    let length = (20 + inner.len() as u16).to_be_bytes();
    let rest = [0, 9, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    [&[0x45, 0][..], &length, &rest, &inner].concat()
}

fn in_ipv6(protocol: u8, inner: Vec<u8>) -> Vec<u8> {
    // Behind a destination options header with the limit of RFC 2473, as Linux writes.
    let length = (8 + inner.len() as u16).to_be_bytes();
    let ends = [[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]; 2].concat();
    let options = [protocol, 0, 4, 1, 4, 1, 1, 0];
    [&[0x60, 0, 0, 0][..], &length, &[60, 64], &ends, &options, &inner].concat()
}

fn in_udp(port: u16, inner: Vec<u8>) -> Vec<u8> {
    let length = (8 + inner.len() as u16).to_be_bytes();
    in_ipv4(17, [&[0xc0, 0][..], &port.to_be_bytes(), &length, &[0, 0], &inner].concat())
}

fn ethernet(kind: [u8; 2], inner: Vec<u8>) -> Vec<u8> {
    [&[2; 12][..], &kind, &inner].concat()
}

const IPV4: [u8; 2] = [8, 0];

/// The call inside; `link` is that of the outermost header.
fn inside(link: u32, wrap: Wrap, ip: fn(&Told) -> Vec<u8>) -> Vec<u8> {
    let frames: Vec<Timed> = call().iter().map(|p| (p.us * 1000, wrap(ip(p)))).collect();
    pcap(LITTLE, false, link, 65535, &frames)
}

/// How many packets were read out of which tunnel.
fn tunnels(file: &[u8]) -> serde_json::Value {
    serde_json::to_value(report(file)).expect("it is plain data")["tunnels"].clone()
}

#[test]
fn ip_in_ip_of_every_pair_of_versions_is_read_through() {
    type Pair = (&'static str, Wrap, fn(&Told) -> Vec<u8>);
    let pairs: [Pair; 4] = [
        ("IPv4 in IPv4", |inner| in_ipv4(4, inner), Told::ipv4),
        ("IPv4 in IPv6", |inner| in_ipv6(4, inner), Told::ipv4),
        ("IPv6 in IPv4", |inner| in_ipv4(41, inner), Told::ipv6),
        ("IPv6 in IPv6", |inner| in_ipv6(41, inner), Told::ipv6),
    ];
    for (name, wrap, ip) in pairs {
        let file = inside(101, wrap, ip);
        let report = report(&file);
        assert_eq!(events(&report), STALL, "{name}");
        assert_eq!(tunnels(&file), serde_json::json!({ name: 8 }));
        let said = format!("8 packets were read out of a tunnel ({name})");
        assert!(
            overview_text(&report, WIDEST).contains(&said),
            "{}",
            overview_text(&report, WIDEST)
        );
    }
}

#[test]
fn gre_is_read_through_with_any_of_its_fields_and_whatever_it_carries() {
    let wraps: [Wrap; 8] = [
        |inner| in_ipv4(47, behind(&[0, 0, 8, 0], inner)),
        |inner| in_ipv6(47, behind(&[0x20, 0, 8, 0, 0, 0, 0, 5], inner)),
        // Checksum, key and sequence number.
        |inner| in_ipv4(47, behind(&[0xb0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1], inner)),
        |inner| in_ipv4(47, behind(&[0, 0, 0x65, 0x58], ethernet(IPV4, inner))),
        // PPTP: key, sequence number and acknowledgement; PPP with all its fields.
        |inner| {
            let header = [0x30, 0x81, 0x88, 0x0b, 0, 9, 0, 5, 0, 0, 0, 1, 0, 0, 0, 1];
            in_ipv4(47, behind(&header, behind(&[0xff, 3, 0, 0x21], inner)))
        },
        // ERSPAN, types I, II and III.
        |inner| in_ipv4(47, behind(&[0, 0, 0x88, 0xbe], ethernet(IPV4, inner))),
        |inner| {
            let header = [0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 7, 0, 0, 0, 0, 0, 0];
            in_ipv4(47, behind(&header, ethernet(IPV4, inner)))
        },
        |inner| {
            let header = [&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 7][..], &[0; 10]].concat();
            in_ipv4(47, behind(&header, ethernet(IPV4, inner)))
        },
    ];
    for (place, wrap) in wraps.into_iter().enumerate() {
        let file = inside(101, wrap, Told::ipv4);
        assert_eq!(events(&report(&file)), STALL, "{place}");
        assert_eq!(tunnels(&file), serde_json::json!({ "GRE": 8 }), "{place}");
    }
}

#[test]
fn what_carries_ethernet_or_ppp_is_read_through() {
    type Case = (&'static str, u32, Wrap, fn(&Told) -> Vec<u8>);
    fn pppoe(inner: Vec<u8>) -> Vec<u8> {
        let length = (2 + inner.len() as u16).to_be_bytes();
        let protocol = if inner[0] >> 4 == 4 { 0x21 } else { 0x57 };
        // Frames that are too short are padded.
        let padded = behind(&[0, protocol], inner);
        ethernet([0x88, 0x64], [&[0x11, 0, 0, 7][..], &length, &padded, &[0; 6]].concat())
    }
    let cases: [Case; 9] = [
        ("PPPoE", 1, pppoe, Told::ipv4),
        ("PPPoE", 1, pppoe, Told::ipv6),
        (
            "PPPoE",
            1,
            |inner| {
                let tagged = behind(&[0x81, 0, 0, 7], pppoe(inner)[12..].to_vec());
                behind(&[2; 12], tagged)
            },
            Told::ipv4,
        ),
        (
            "VXLAN",
            101,
            |inner| in_udp(4789, behind(&[8, 0, 0, 0, 0, 0, 7, 0], ethernet(IPV4, inner))),
            Told::ipv4,
        ),
        (
            "GENEVE",
            101,
            |inner| {
                let header = [1, 0, 0x65, 0x58, 0, 0, 7, 0, 0, 1, 2, 0];
                in_udp(6081, behind(&header, ethernet([0x86, 0xdd], inner)))
            },
            Told::ipv6,
        ),
        (
            "L2TP",
            101,
            |inner| {
                let header = [0x48, 2, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4];
                in_udp(1701, behind(&header, behind(&[0x21], inner)))
            },
            Told::ipv4,
        ),
        (
            "EtherIP",
            101,
            |inner| in_ipv4(97, behind(&[0x30, 0], ethernet(IPV4, inner))),
            Told::ipv4,
        ),
        (
            "MPLS",
            1,
            |inner| ethernet([0x88, 0x47], behind(&[0, 1, 0, 64, 0, 1, 1, 64], inner)),
            Told::ipv4,
        ),
        (
            "MPLS",
            1,
            |inner| {
                let label = [0, 1, 1, 64, 0, 0, 0, 0];
                ethernet([0x88, 0x47], behind(&label, ethernet(IPV4, inner)))
            },
            Told::ipv4,
        ),
    ];
    for (name, link, wrap, ip) in cases {
        let file = inside(link, wrap, ip);
        assert_eq!(events(&report(&file)), STALL, "{name}");
        assert_eq!(tunnels(&file), serde_json::json!({ name: 8 }));
    }
}

#[test]
fn tunnels_in_tunnels_are_read_through_to_a_depth() {
    let nested = |depth: usize| {
        let wrap = |p: &Told| (0..depth).fold(p.ipv4(), |inner, _| in_ipv4(4, inner));
        let frames: Vec<Timed> = call().iter().map(|p| (p.us * 1000, wrap(p))).collect();
        report(&pcap(LITTLE, false, 101, 65535, &frames))
    };
    assert_eq!(events(&nested(20)), STALL);
    let deep = nested(30);
    assert_eq!((deep.tcp_packets, deep.connections.len()), (0, 0));
    assert!(
        overview_text(&deep, WIDEST).contains("8 of too many headers"),
        "{}",
        overview_text(&deep, WIDEST)
    );
}

#[test]
fn a_capture_without_tcp_says_what_is_in_it() {
    let arp = || ethernet([8, 6], vec![0; 28]);
    let frames: Vec<Timed> = [
        arp(),
        ethernet(IPV4, in_udp(53, vec![0; 20])),
        ethernet(IPV4, in_udp(53, vec![0; 20])),
        ethernet(IPV4, in_ipv4(50, vec![0; 40])),
        ethernet(IPV4, in_ipv4(47, behind(&[0, 0, 8, 0], in_ipv4(1, vec![8; 8])))),
        ethernet([0x88, 0xb5], vec![0; 46]),
    ]
    .into_iter()
    .map(|frame| (0, frame))
    .collect();
    let report = report(&pcap(LITTLE, false, 1, 65535, &frames));
    let text = overview_text(&report, WIDEST);
    let said = "No TCP connection is in it, but packets: 2 of UDP, 1 of ARP, 1 of ESP (encrypted), 1 of\n\
                Ethernet type 0x88b5, 1 of ICMP.";
    assert!(text.replace('\n', " ").contains(&said.replace('\n', " ")), "{text}");
    let json = serde_json::to_value(&report).expect("it is plain data");
    assert_eq!(json["other_protocols"]["UDP"], 2);
    let none = crate::common::report(&pcap(LITTLE, false, 1, 65535, &[]));
    assert!(overview_text(&none, WIDEST).contains("No packet is in it."));
}

/// A header that something lies behind, lengths that lie included.
fn header() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (any::<u16>(), 0..140_u8).prop_map(|(length, protocol)| {
            let mut header = in_ipv4(protocol, vec![]);
            header[2..4].copy_from_slice(&length.to_be_bytes());
            header
        }),
        prop_oneof![Just(4_u8), Just(6), Just(17), Just(41), Just(47), Just(97), Just(137)]
            .prop_map(|protocol| {
                let mut header = in_ipv4(protocol, vec![]);
                header[2..4].copy_from_slice(&[0, 0]);
                header
            }),
        prop_oneof![Just(4_u8), Just(43), Just(44), Just(47), Just(60)].prop_map(|next| {
            let mut header = in_ipv6(next, vec![]);
            header[4..6].copy_from_slice(&[0, 0]);
            header
        }),
        (any::<[u8; 2]>(), prop_oneof![Just(0x0800_u16), Just(0x6558), Just(0x880b), Just(0x88be)])
            .prop_map(|(flags, kind)| [flags, kind.to_be_bytes()].concat()),
        prop_oneof![Just(4789_u16), Just(6081), Just(1701)].prop_map(|port| [
            &[9, 9][..],
            &port.to_be_bytes(),
            &[0; 4]
        ]
        .concat()),
        prop_oneof![Just(0x8100_u16), Just(0x8864), Just(0x8847), Just(0x0800), Just(0x86dd)]
            .prop_map(|kind| ethernet(kind.to_be_bytes(), vec![])),
        vec(any::<u8>(), 0..24),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn headers_in_any_order_do_no_harm(
        link in prop_oneof![Just(1_u32), Just(9), Just(51), Just(101), Just(113), Just(276)],
        frames in vec(vec(header(), 0..40), 1..12),
    ) {
        let timed: Vec<Timed> = frames.iter().map(|f| (0, f.concat())).collect();
        let file = pcap(LITTLE, false, link, 1000, &timed);
        let outcome = analyse(&file[..], &TraceOptions::default()).expect("a capture");
        prop_assert_eq!(outcome.report.packets, timed.len() as u64);
        for line in overview_text(&outcome.report, WIDEST).lines() {
            prop_assert!(line.chars().count() <= 100, "{}", line);
        }
    }
}
