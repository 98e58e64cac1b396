//! Our requests beside those of iproute2 6.1 and nft 1.0.6, byte for byte.
//!
//! The bytes were caught with strace (`-e write=3`) at the command that stands above them. Only the
//! sequence number is left out of the comparison.

use crate::address::{self, NewAddress};
use crate::core::{Message, flags};
use crate::link::{self, LinkChange, LinkKind, LinkName, Mac, NewLink, OuterTos, TunnelEnds};
use crate::link::{Tunnel, TunnelPayload, VethEnd, VlanId};
use crate::nat;
use crate::neighbour;
use crate::prefix::Prefix;
use crate::route::{self, NewRoute, RouteMetrics};
use std::time::Duration;

/// Bytes 8 to 11 are the sequence number.
fn same(message: &Message, captured: &str) {
    let mut expected: Vec<u8> = (0..captured.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&captured[at..at + 2], 16).unwrap())
        .collect();
    expected[8..12].fill(0);
    let mut ours = message.to_bytes(0);
    ours[6] |= flags::ACK as u8;
    assert_eq!(hex(&ours), hex(&expected), "{}", message.tried());
}

/// nft asks for no acknowledgement of single messages.
fn same_without_ack(message: &Message, captured: &str) {
    let mut with_ack = captured.to_owned();
    let flags = u8::from_str_radix(&captured[12..14], 16).unwrap() | flags::ACK as u8;
    with_ack.replace_range(12..14, &format!("{flags:02x}"));
    same(message, &with_ack);
}

fn hex(bytes: &[u8]) -> String {
    let words = bytes.chunks(4).map(|word| word.iter().map(|b| format!("{b:02x}")).collect());
    words.collect::<Vec<String>>().join(" ")
}

fn name(text: &str) -> LinkName {
    text.parse().unwrap()
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn plain(text: &str, kind: impl Into<LinkKind>) -> Message {
    link::new_link(&NewLink::new(name(text), kind.into()))
}

fn v4_ends() -> TunnelEnds<std::net::Ipv4Addr> {
    let tos = OuterTos::Fixed(0);
    TunnelEnds { tos, ..TunnelEnds::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into()) }
}

fn v6_ends() -> TunnelEnds<std::net::Ipv6Addr> {
    let tos = OuterTos::Fixed(0);
    TunnelEnds { tos, ..TunnelEnds::new("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()) }
}

#[test]
fn a_veth_pair() {
    let here = VethEnd {
        mac: Some(Mac::local(1)),
        mtu: Some(1400),
        tx_queue_len: Some(77),
        ..VethEnd::new(name("a0"))
    };
    let there = VethEnd { mac: Some(Mac::local(2)), ..VethEnd::new(name("b0")) };
    // ip link add a0 address 02:00:00:00:00:01 mtu 1400 txqueuelen 77 numtxqueues 1
    //    type veth peer address 02:00:00:00:00:02 numtxqueues 1 name b0
    same(
        &link::new_veth(&here, &there),
        "8c000000100005069269016b00000000000000000000000000000000000000000a0001000200000000010000080004007805000008000d004d00000008001f000100000007000300613000004000120008000100766574683400020030000100000000000000000000000000000000000a000100020000000002000008001f00010000000700030062300000",
    );
}

#[test]
fn plain_kinds() {
    // ip link add i0 type ifb
    same(
        &plain("i0", LinkKind::Ifb),
        "3400000010000506d366016b000000000000000000000000000000000000000007000300693000000c0012000700010069666200",
    );
    // ip link add d0 type dummy
    same(
        &plain("d0", LinkKind::Dummy),
        "3800000010000506d366016b00000000000000000000000000000000000000000700030064300000100012000900010064756d6d79000000",
    );
    // ip link add wg0 type wireguard
    same(
        &plain("wg0", LinkKind::Wireguard),
        "3c00000010000506d566016b00000000000000000000000000000000000000000800030077673000140012000d000100776972656775617264000000",
    );
    // ip link add link a0 name a0.5 type vlan id 5
    same(
        &plain("a0.5", LinkKind::Vlan { parent: 3, id: VlanId::new(5).unwrap() }),
        "4c00000010000506d566016b000000000000000000000000000000000000000008000500030000000900030061302e35000000001800120008000100766c616e0c0002000600010005000000",
    );
}

#[test]
fn tunnels_over_ipv4() {
    // ip link add t0 type ipip local 10.0.0.1 remote 10.0.0.2 ttl 64
    same(
        &plain("t0", Tunnel::Ipip(v4_ends())),
        "9800000010000506d466016b00000000000000000000000000000000000000000700030074300000700012000800010069706970640002000500090000000000080002000a000001080003000a00000205000a0001000000050005000000000005000400400000000800010000000000080014000000000006000f0000000000060010000000000006001100000000000600120000000000",
    );
    // ip link add t1 type sit local 10.0.0.1 remote 10.0.0.2 ttl 64
    same(
        &plain("t1", Tunnel::Sit(v4_ends())),
        "a000000010000506d566016b000000000000000000000000000000000000000007000300743100007800120007000100736974006c0002000500090000000000080002000a000001080003000a00000205000a0001000000050005000000000005000400400000000800010000000000080014000000000006000f00000000000600100000000000060011000000000006001200000000000600080000000000",
    );
    // ip link add t3 type gre local 10.0.0.1 remote 10.0.0.2 ttl 64 key 7
    same(
        &plain("t3", Tunnel::Gre { ends: v4_ends(), key: Some(7) }),
        "a800000010000506d566016b00000000000000000000000000000000000000000700030074330000800012000700010067726500740002000800040000000007080005000000000706000200200000000600030020000000080006000a000001080007000a00000205000a000100000005000900000000000500080040000000080014000000000006000e000000000006000f000000000006001000000000000600110000000000",
    );
}

#[test]
fn tunnels_over_ipv6() {
    // ip link add t2 type ip6tnl mode ipip6 local fd00::1 remote fd00::2 encaplimit none hoplimit
    // 64
    same(
        &plain("t2", Tunnel::Ip6Tnl(v6_ends(), TunnelPayload::V4)),
        "bc00000010000506d566016b00000000000000000000000000000000000000000700030074320000940012000a000100697036746e6c000084000200050009000400000014000200fd00000000000000000000000000000114000300fd00000000000000000000000000000205000400400000000500060004000000080007000000000008000800010000000800010000000000080014000000000006000f0000000000060010000200000006001100000000000600120000000000",
    );
    // ip link add t4 type ip6gre local fd00::1 remote fd00::2 encaplimit none without the 8 bytes
    // of IFLA_GRE_ERSPAN_VER (22), which has no meaning for ip6gre; lengths reduced by 8
    same(
        &plain("t4", Tunnel::Ip6Gre { ends: v6_ends(), key: None }),
        "cc00000010000506d566016b00000000000000000000000000000000000000000700030074340000a40012000a000100697036677265000094000200080004000000000008000500000000000600020000000000060003000000000014000600fd00000000000000000000000000000114000700fd000000000000000000000000000002050008004000000005000b000400000008000c000000000008000d0001000000080014000000000006000e000000000006000f000200000006001000000000000600110000000000",
    );
}

#[test]
fn changes() {
    // ip link set a0 up
    same(
        &link::change(3, &[LinkChange::Up(true)]),
        "2000000010000500d366016b0000000000000000030000000100000001000000",
    );
    // ip link set a0 master br0
    same(
        &link::change(3, &[LinkChange::Master(Some(5))]),
        "2800000010000500d366016b000000000000000003000000000000000000000008000a0005000000",
    );
    // ip link set a0 arp off multicast off txqueuelen 5
    same(
        &link::change(
            3,
            &[LinkChange::Arp(false), LinkChange::Multicast(false), LinkChange::TxQueueLen(5)],
        ),
        "28000000100005009269016b000000000000000003000000800000008010000008000d0005000000",
    );
}

#[test]
fn addresses() {
    let v4 = NewAddress { no_prefix_route: true, ..NewAddress::new(prefix("10.0.0.1/24")) };
    // ip addr add 10.0.0.1/24 dev a0 noprefixroute
    same(
        &address::new_address(3, &v4),
        "3000000014000506d366016b000000000218000003000000080002000a0000010800080000020000080001000a000001",
    );
    // ip addr add fd00::1/64 dev a0 nodad
    same(
        &address::new_address(3, &NewAddress::new(prefix("fd00::1/64"))),
        "4000000014000506d466016b000000000a4002000300000014000200fd00000000000000000000000000000114000100fd000000000000000000000000000001",
    );
}

#[test]
fn routes() {
    let metrics = RouteMetrics {
        mtu: Some(1300),
        rto_min: Some(Duration::from_millis(10)),
        quick_ack: Some(true),
        initial_cwnd: Some(20),
        congestion_control: Some("reno".into()),
        ..RouteMetrics::default()
    };
    let v4 = NewRoute {
        metrics,
        ..NewRoute::via(prefix("10.5.0.0/16"), "10.0.0.2".parse().unwrap(), 2)
    };
    let add = flags::CREATE | flags::EXCL;
    // ip route add 10.5.0.0/16 via 10.0.0.2 dev b0 mtu 1300 rto_min 10ms quickack 1 initcwnd 20
    // congctl reno
    same(
        &route::new_route(&v4, add),
        "6800000018000506d466016b0000000002100000fe03000100000000080001000a050000080005000a000002080004000200000034000800080002001405000008000d000a00000008000f000100000008000b00140000000800100072656e6f0800010000200000",
    );
    // ip -6 route add default via fd00::2 dev a0
    same(
        &route::new_route(&NewRoute::via(Prefix::ALL_V6, "fd00::2".parse().unwrap(), 3), add),
        "4c00000018000506d466016b000000000a000000fe03000100000000140001000000000000000000000000000000000014000500fd0000000000000000000000000000020800040003000000",
    );
}

#[test]
fn a_permanent_neighbour() {
    // ip neigh replace 10.0.0.2 lladdr 02:00:00:00:00:02 dev a0 nud permanent
    same(
        &neighbour::permanent(3, "10.0.0.2".parse().unwrap(), Mac::local(2)),
        "300000001c000505d566016b00000000020000000300000080000000080001000a0000020a0002000200000000020000",
    );
}

#[test]
fn masquerading() {
    // nft 'table ip quell { chain post { type nat hook postrouting priority 100; oifname "a0"
    // masquerade; }; }' the table, the chain and the rule of one batch
    let v4 = libc::AF_INET as u8;
    same_without_ack(
        &nat::new_table(v4, "quell"),
        "28000000000a01000100000000000000020000000a0001007175656c6c0000000800020000000000",
    );
    same_without_ack(
        &nat::new_chain(v4, "quell", "post"),
        "48000000030a01040200000000000000020000000a0001007175656c6c00000009000300706f737400000000080007006e6174001400048008000100000000040800020000000064",
    );
    same_without_ack(
        &nat::new_rule(v4, "quell", "post", &name("a0")),
        "a0000000060a010c0300000000000000020000000a0001007175656c6c00000009000200706f7374000000007400048024000180090001006d6574610000000014000280080002000000000708000100000000013800018008000100636d70002c0002800800010000000001080002000000000018000380140001006130000000000000000000000000000014000180090001006d6173710000000004000280",
    );
}
