//! NAT on a router: what leaves through an interface gets that interface's address (masquerading),
//! by nftables.
//!
//! ```text
//!   table ip quell-nat  { chain postrouting { type nat hook postrouting priority 100; oifname "wan" masquerade } }
//!   table ip6 quell-nat { the same }
//! ```

use crate::core::{AttrWriter, Message, NetlinkError, Protocol, Socket, flags};
use crate::link::LinkName;
use nix::errno::Errno;

/// Message kinds: the subsystem's number in the upper byte (`nfnetlink.h`, `nf_tables.h`).
const NFTABLES: u16 = 10;
pub(crate) const BATCH_BEGIN: u16 = 0x10;
pub(crate) const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = NFTABLES << 8;
const DELETE_TABLE: u16 = (NFTABLES << 8) | 2;
pub(crate) const NEW_CHAIN: u16 = (NFTABLES << 8) | 3;
pub(crate) const NEW_RULE: u16 = (NFTABLES << 8) | 6;

/// The batch makes all that it refers to, so "not found" can only be a part of the kernel.
const PART: &str = "nftables with masquerading (CONFIG_NF_TABLES, CONFIG_NFT_NAT, CONFIG_NFT_MASQ)";

const TABLE: &str = "quell-nat";
const CHAIN: &str = "postrouting";

/// `NF_INET_POST_ROUTING` and `NF_IP_PRI_NAT_SRC`.
const HOOK_POSTROUTING: u32 = 4;
const PRIORITY_SOURCE_NAT: u32 = 100;
const META_OUT_NAME: u32 = 7;
const REGISTER_1: u32 = 1;
const COMPARE_EQUAL: u32 = 0;
/// `IFNAMSIZ`.
const NAME_SIZE: usize = 16;

/// Masquerades everything that leaves through one of these interfaces, IPv4 and IPv6, in the
/// calling thread's namespace. Replaces what an earlier call set; no interface at all means no NAT.
/// Forwarding is a sysctl of its own.
///
/// It happens as a whole or not at all. Errors with `EOPNOTSUPP` or `ENOENT` when the kernel lacks
/// nftables or its NAT.
pub fn masquerade(out: &[LinkName]) -> Result<(), NetlinkError> {
    let mut socket = Socket::open(Protocol::Netfilter)?;
    let mut batch = vec![batch_edge("begin a change of nftables", BATCH_BEGIN)];
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        // Making a table that is there does nothing, so that this deletes it whether it was there
        // or not.
        batch.push(new_table(family, TABLE));
        batch.push(delete_table(family, TABLE));
        if !out.is_empty() {
            batch.push(new_table(family, TABLE));
            batch.push(new_chain(family, TABLE, CHAIN));
            batch.extend(out.iter().map(|name| new_rule(family, TABLE, CHAIN, name)));
        }
    }
    batch.push(batch_edge("end a change of nftables", BATCH_END));
    socket
        .batch(&batch)
        .map_err(|error| error.means_lacking(PART, &[Errno::EOPNOTSUPP, Errno::ENOENT]))
}

/// `struct nfgenmsg`: family, version, resource.
pub(crate) fn header(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

pub(crate) fn batch_edge(tried: &str, kind: u16) -> Message {
    Message::with_header(tried, kind, 0, &header(0, NFTABLES))
}

pub(crate) fn change(tried: String, kind: u16, flags: u16, family: u8) -> Message {
    Message::with_header(tried, kind, flags | flags::ACK, &header(family, 0))
}

pub(crate) fn new_table(family: u8, table: &str) -> Message {
    let mut message = change(format!("make nftables table {table}"), NEW_TABLE, 0, family);
    message.attrs().str(1, table).be32(2, 0);
    message
}

pub(crate) fn delete_table(family: u8, table: &str) -> Message {
    let mut message = change(format!("delete nftables table {table}"), DELETE_TABLE, 0, family);
    message.attrs().str(1, table);
    message
}

pub(crate) fn new_chain(family: u8, table: &str, chain: &str) -> Message {
    let tried = format!("make nftables NAT chain {table} {chain}");
    let mut message = change(tried, NEW_CHAIN, flags::CREATE, family);
    message.attrs().str(1, table).str(3, chain).str(7, "nat").nested(4, |hook| {
        hook.be32(1, HOOK_POSTROUTING).be32(2, PRIORITY_SOURCE_NAT);
    });
    message
}

pub(crate) fn new_rule(family: u8, table: &str, chain: &str, out: &LinkName) -> Message {
    let tried = format!("masquerade what leaves through {out}");
    let mut message = change(tried, NEW_RULE, flags::CREATE | flags::APPEND, family);
    let name = interface_name(out);
    message.attrs().str(1, table).str(2, chain).nested(4, |expressions| {
        expression(expressions, "meta", |data| {
            data.be32(2, META_OUT_NAME).be32(1, REGISTER_1);
        });
        expression(expressions, "cmp", |data| {
            data.be32(1, REGISTER_1).be32(2, COMPARE_EQUAL).nested(3, |value| {
                value.bytes(1, &name);
            });
        });
        expression(expressions, "masq", |_| {});
    });
    message
}

/// As rules compare it.
pub(crate) fn interface_name(device: &LinkName) -> [u8; NAME_SIZE] {
    let mut name = [0; NAME_SIZE];
    // A LinkName has at most 15 bytes.
    name[..device.as_str().len()].copy_from_slice(device.as_str().as_bytes());
    name
}

/// An element of an expression list: its name, its data.
pub(crate) fn expression(to: &mut AttrWriter, name: &str, data: impl FnOnce(&mut AttrWriter)) {
    to.nested(1, |element| {
        element.str(1, name).nested(2, data);
    });
}
