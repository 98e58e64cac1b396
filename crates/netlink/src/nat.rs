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

/// The kind of a message of nftables: the subsystem's number is in the upper byte (`nfnetlink.h`).
pub(crate) const fn nftables(message: libc::c_int) -> u16 {
    ((libc::NFNL_SUBSYS_NFTABLES << 8) | message) as u16
}

/// The batch makes all that it refers to, so "not found" can only be a part of the kernel.
const PART: &str = "nftables with masquerading (CONFIG_NF_TABLES, CONFIG_NFT_NAT, CONFIG_NFT_MASQ)";

const TABLE: &str = "quell-nat";
const CHAIN: &str = "postrouting";

/// Masquerades everything that leaves through one of these interfaces, IPv4 and IPv6, in the
/// calling thread's namespace. Replaces what an earlier call set; no interface at all means no NAT.
/// Forwarding is a sysctl of its own.
///
/// It happens as a whole or not at all. Errors with `EOPNOTSUPP` or `ENOENT` when the kernel lacks
/// nftables or its NAT.
pub fn masquerade(out: &[LinkName]) -> Result<(), NetlinkError> {
    let mut batch = Vec::new();
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
    as_a_whole(batch)
        .map_err(|error| error.means_lacking(PART, &[Errno::EOPNOTSUPP, Errno::ENOENT]))
}

/// Carries changes of nftables out, all of them or none.
pub(crate) fn as_a_whole(mut changes: Vec<Message>) -> Result<(), NetlinkError> {
    let edge = |tried: &str, kind: libc::c_int| {
        let subsystem = header(0, libc::NFNL_SUBSYS_NFTABLES as u16);
        Message::with_header(tried, kind as u16, 0, &subsystem)
    };
    changes.insert(0, edge("begin a change of nftables", libc::NFNL_MSG_BATCH_BEGIN));
    changes.push(edge("end a change of nftables", libc::NFNL_MSG_BATCH_END));
    Socket::open(Protocol::Netfilter)?.batch(&changes)
}

/// `struct nfgenmsg`: family, version, resource.
pub(crate) fn header(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

pub(crate) fn change(tried: String, kind: u16, flags: u16, family: u8) -> Message {
    Message::with_header(tried, kind, flags | flags::ACK, &header(family, 0))
}

pub(crate) fn new_table(family: u8, table: &str) -> Message {
    let mut message =
        change(format!("make nftables table {table}"), nftables(libc::NFT_MSG_NEWTABLE), 0, family);
    message.attrs().str(1, table).be32(2, 0);
    message
}

pub(crate) fn delete_table(family: u8, table: &str) -> Message {
    let mut message = change(
        format!("delete nftables table {table}"),
        nftables(libc::NFT_MSG_DELTABLE),
        0,
        family,
    );
    message.attrs().str(1, table);
    message
}

pub(crate) fn new_chain(family: u8, table: &str, chain: &str) -> Message {
    let tried = format!("make nftables NAT chain {table} {chain}");
    let mut message = change(tried, nftables(libc::NFT_MSG_NEWCHAIN), flags::CREATE, family);
    message.attrs().str(1, table).str(3, chain).str(7, "nat").nested(4, |hook| {
        hook.be32(1, libc::NF_INET_POST_ROUTING as u32).be32(2, libc::NF_IP_PRI_NAT_SRC as u32);
    });
    message
}

pub(crate) fn new_rule(family: u8, table: &str, chain: &str, out: &LinkName) -> Message {
    let tried = format!("masquerade what leaves through {out}");
    let mut message =
        change(tried, nftables(libc::NFT_MSG_NEWRULE), flags::CREATE | flags::APPEND, family);
    let name = interface_name(out);
    message.attrs().str(1, table).str(2, chain).nested(4, |expressions| {
        load(expressions, "meta", libc::NFT_META_OIFNAME);
        compare(expressions, libc::NFT_CMP_EQ, &name);
        expression(expressions, "masq", |_| {});
    });
    message
}

pub(crate) fn interface_name(device: &LinkName) -> [u8; libc::IFNAMSIZ] {
    let mut name = [0; libc::IFNAMSIZ];
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

/// The register that all our rules use.
pub(crate) fn register(to: &mut AttrWriter, attribute: u16) -> &mut AttrWriter {
    to.be32(attribute, libc::NFT_REG_1 as u32)
}

/// Reads a value of a packet ("meta") or its connection ("ct") into the register.
pub(crate) fn load(to: &mut AttrWriter, from: &str, key: libc::c_int) {
    expression(to, from, |data| {
        register(data.be32(2, key as u32), 1);
    });
}

/// Goes on where the register compares so with this value.
pub(crate) fn compare(to: &mut AttrWriter, how: libc::c_int, value: &[u8]) {
    expression(to, "cmp", |data| {
        register(data, 1).be32(2, how as u32).nested(3, |data| {
            data.bytes(1, value);
        });
    });
}
