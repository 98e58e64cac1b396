//! Hosts behind address translation, told apart on the interface where they have all the router's address: by a table of nftables that
//! writes a host's own address into the marks of its packets and connections.
//!
//! ```text
//!   table ip quell-hosts-wan {
//!     chain comes  { prerouting, before all else:  iifname "wan"  mark = 0 }
//!     chain leaves { postrouting, after all else:  oifname "wan"  mark = 0
//!                    oifname "wan", asks, its source translated:
//!                      mark = connection's mark = the address of who asked
//!                    oifname "wan", answers, its destination was translated:
//!                      mark = connection's mark = the address of who answers }
//!   }
//! ```
//!
//! Where nothing was translated nothing is written: such a packet shows its host itself, and on the way to a host, which may be shaped as well,
//! its connection's mark stays whose it is. What leaves is queued right behind that, and what comes gets its connection's mark before it is queued (tc's action `connmark`), which is
//! taken off it again before any rule or route sees it. The address is in the mark as it lies on the wire. IPv6 has no part in it.

use crate::core::{
    AttrReader, AttrWriter, DecodeError, Message, NetlinkError, Protocol, Socket, flags,
};
use crate::link::LinkName;
use crate::nat::{
    as_a_whole, change, compare, delete_table, expression, header, interface_name, load, new_table,
    nftables, register,
};
use nix::errno::Errno;

const FAMILY: u8 = libc::AF_INET as u8;
const PREFIX: &str = "quell-hosts-";
const COMES: &str = "comes";
const LEAVES: &str = "leaves";

/// Packets of a connection that go one way, and what tells that they have another source where they leave than they had: of those of who asked
/// that their source is translated, of the answers that what was asked had another destination.
struct Leaving {
    /// `IP_CT_DIR_ORIGINAL`, `IP_CT_DIR_REPLY`.
    number: u8,
    /// `IPS_SRC_NAT`, `IPS_DST_NAT`.
    translated: u32,
}

const ASKS: Leaving = Leaving { number: 0, translated: 1 << 4 };
const ANSWERS: Leaving = Leaving { number: 1, translated: 1 << 5 };

const PART: &str = "nftables with connection tracking and its marks (CONFIG_NF_TABLES, CONFIG_NFT_CT, CONFIG_NF_CONNTRACK_MARK)";

pub fn table(device: &LinkName) -> String {
    format!("{PREFIX}{device}")
}

/// Makes the table for an interface, in place of one that is there.
///
/// # Errors
/// The kernel lacks nftables or a part of it, or we lack the right.
pub fn make(device: &LinkName) -> Result<(), NetlinkError> {
    let table = table(device);
    let batch = vec![
        // Making one that is there does nothing.
        new_table(FAMILY, &table),
        delete_table(FAMILY, &table),
        new_table(FAMILY, &table),
        // Before anything that is known to look at marks, and after all address translation.
        chain(&table, COMES, libc::NF_INET_PRE_ROUTING, libc::NF_IP_PRI_RAW_BEFORE_DEFRAG),
        chain(&table, LEAVES, libc::NF_INET_POST_ROUTING, libc::NF_IP_PRI_NAT_SRC + 200),
        rule(&table, COMES, |to| {
            of(to, libc::NFT_META_IIFNAME, device);
            no_mark(to);
        }),
        rule(&table, LEAVES, |to| {
            of(to, libc::NFT_META_OIFNAME, device);
            no_mark(to);
        }),
        rule(&table, LEAVES, |to| marked(to, device, &ASKS)),
        rule(&table, LEAVES, |to| marked(to, device, &ANSWERS)),
    ];
    as_a_whole(batch)
        .map_err(|error| error.means_lacking(PART, &[Errno::EOPNOTSUPP, Errno::ENOENT]))
}

/// Takes the table away.
pub fn delete(device: &LinkName) -> Result<(), NetlinkError> {
    let table = table(device);
    let batch = vec![new_table(FAMILY, &table), delete_table(FAMILY, &table)];
    as_a_whole(batch)
}

/// Whether the table is there. On a kernel without tables it is not.
pub fn is_there(device: &LinkName) -> Result<bool, NetlinkError> {
    let mut message = ask("look for a table of nftables", nftables(libc::NFT_MSG_GETTABLE), FAMILY);
    message.attrs().str(1, &table(device));
    let answer = Socket::open(Protocol::Netfilter).and_then(|mut socket| socket.request(&message));
    match answer {
        Ok(replies) => Ok(!replies.is_empty()),
        Err(error) => match error.errno() {
            Some(Errno::ENOENT | Errno::EINVAL | Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT) => {
                Ok(false)
            }
            _ => Err(error),
        },
    }
}

/// What of nftables matters here, of all tables but ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OthersRules {
    /// Something translates addresses of what leaves.
    pub translates: bool,
    /// Something reads or writes connections' marks.
    pub marks_connections: bool,
}

/// Looks through all rules. Those of an iptables that is older than nftables can't be seen.
///
/// # Errors
/// The kernel has no nftables, or we lack the right.
pub fn others() -> Result<OthersRules, NetlinkError> {
    let mut socket = Socket::open(Protocol::Netfilter)?;
    let mut found = OthersRules::default();
    socket.dump(
        &ask("look for address translation", nftables(libc::NFT_MSG_GETCHAIN), 0),
        |reply| {
            let (_, attrs) = reply.split::<4>()?;
            let hook = attrs.find(4)?.map(|hook| hook.nested().find(1)).transpose()?.flatten();
            let leaves =
                hook.is_some_and(|hook| hook.payload == libc::NF_INET_POST_ROUTING.to_be_bytes());
            let is_nat = attrs.find(7)?.is_some_and(|kind| kind.str() == Ok("nat"));
            found.translates |= leaves && is_nat;
            Ok(())
        },
    )?;
    socket.dump(
        &ask("look who marks connections", nftables(libc::NFT_MSG_GETRULE), 0),
        |reply| {
            let (_, attrs) = reply.split::<4>()?;
            let ours = attrs
                .find(1)?
                .is_some_and(|table| table.str().is_ok_and(|name| name.starts_with(PREFIX)));
            if let (false, Some(list)) = (ours, attrs.find(4)?) {
                for element in list.nested() {
                    found.marks_connections |= is_about_marks(element?.nested())?;
                }
            }
            Ok(())
        },
    )?;
    Ok(found)
}

/// Whether an expression reads or writes a connection's mark: nftables' own, or CONNMARK of iptables in its clothes.
fn is_about_marks(expression: AttrReader<'_>) -> Result<bool, DecodeError> {
    let (Some(kind), Some(data)) = (expression.find(1)?, expression.find(2)?) else {
        return Ok(false);
    };
    let data = data.nested();
    Ok(match kind.str()? {
        "ct" => data.find(2)?.is_some_and(|key| key.payload == libc::NFT_CT_MARK.to_be_bytes()),
        "target" | "match" => data
            .find(1)?
            .is_some_and(|name| name.str().is_ok_and(|n| n.eq_ignore_ascii_case("connmark"))),
        _ => false,
    })
}

fn ask(tried: &str, kind: u16, family: u8) -> Message {
    Message::with_header(tried, kind, 0, &header(family, 0))
}

fn chain(table: &str, name: &str, hook: libc::c_int, priority: libc::c_int) -> Message {
    let tried = format!("make nftables chain {table} {name}");
    let mut message = change(tried, nftables(libc::NFT_MSG_NEWCHAIN), flags::CREATE, FAMILY);
    message.attrs().str(1, table).str(3, name).str(7, "filter").nested(4, |place| {
        place.be32(1, hook as u32).be32(2, priority as u32);
    });
    message
}

fn rule(table: &str, chain: &str, write: impl FnOnce(&mut AttrWriter)) -> Message {
    let tried = format!("make a rule of nftables in {table} {chain}");
    let mut message =
        change(tried, nftables(libc::NFT_MSG_NEWRULE), flags::CREATE | flags::APPEND, FAMILY);
    message.attrs().str(1, table).str(2, chain).nested(4, write);
    message
}

/// Of packets of this interface.
fn of(to: &mut AttrWriter, name_key: libc::c_int, device: &LinkName) {
    load(to, "meta", name_key);
    compare(to, libc::NFT_CMP_EQ, &interface_name(device));
}

fn no_mark(to: &mut AttrWriter) {
    expression(to, "immediate", |data| {
        register(data, 1).nested(2, |data| {
            data.bytes(1, &[0; 4]);
        });
    });
    set_mark(to);
}

fn set_mark(to: &mut AttrWriter) {
    expression(to, "meta", |data| {
        register(data.be32(2, libc::NFT_META_MARK as u32), 3);
    });
}

/// What leaves one way in its connection, and is translated, gets the address of who sent it.
fn marked(to: &mut AttrWriter, device: &LinkName, leaving: &Leaving) {
    of(to, libc::NFT_META_OIFNAME, device);
    load(to, "ct", libc::NFT_CT_DIRECTION);
    compare(to, libc::NFT_CMP_EQ, &[leaving.number]);
    load(to, "ct", libc::NFT_CT_STATUS);
    expression(to, "bitwise", |data| {
        let bytes = |data: &mut AttrWriter, value: [u8; 4]| {
            data.bytes(1, &value);
        };
        register(register(data, 1), 2).be32(3, 4);
        data.nested(4, |mask| bytes(mask, leaving.translated.to_ne_bytes()));
        data.nested(5, |xor| bytes(xor, [0; 4]));
    });
    compare(to, libc::NFT_CMP_NEQ, &[0; 4]);
    expression(to, "ct", |data| {
        register(data.be32(2, libc::NFT_CT_SRC_IP as u32), 1).u8(3, leaving.number);
    });
    set_mark(to);
    expression(to, "ct", |data| {
        register(data.be32(2, libc::NFT_CT_MARK as u32), 4);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether any expression of a list is about connections' marks.
    fn found(write: impl FnOnce(&mut AttrWriter)) -> bool {
        let mut list = AttrWriter::new();
        write(&mut list);
        let about = |element: Result<crate::core::Attr<'_>, DecodeError>| {
            is_about_marks(element.unwrap().nested()).unwrap()
        };
        AttrReader::new(list.as_bytes()).any(about)
    }

    #[test]
    fn a_rule_that_uses_connections_marks_is_known_in_each_of_its_forms() {
        let device: LinkName = "wan".parse().unwrap();
        assert!(found(|to| marked(to, &device, &ASKS)), "our own, for one");
        assert!(!found(no_mark), "a packet's mark is none of a connection");
        let iptables = |what: &str, name: &str| {
            found(|to| {
                expression(to, what, |data| {
                    data.str(1, name);
                })
            })
        };
        assert!(iptables("target", "CONNMARK") && iptables("match", "connmark"));
        assert!(!iptables("target", "MASQUERADE") && !iptables("match", "mark"));
    }
}
