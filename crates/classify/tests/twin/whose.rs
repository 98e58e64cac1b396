//! Whose an address is. The same in C is `../../src/bpf/whose.h`, where it is described.

use super::parse::Address;
use quell_classify::Way;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// What the kernel's routes and neighbours say of an address (`bpf_fib_lookup`): the twin has no kernel to ask, and is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RouteAnswer {
    /// It is a neighbour's with this hardware address, on this interface.
    Neighbour(u32, [u8; 6]),
    /// It would be on the link, but no neighbour has it that is known.
    NoNeighbour,
    /// Its way leads by a gateway, or needs no hardware address, over this interface.
    Beyond(u32),
    /// Its route is `unreachable`, `prohibit` or `blackhole`.
    Refused,
    /// It is our own, has no route, or the kernel does not forward.
    #[default]
    Unknown,
}

/// The kernel around a packet.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    /// The interfaces of each packet.
    pub way: Way,
    /// What the kernel would say; [`RouteAnswer::Unknown`] of all others.
    pub answers: HashMap<Address, RouteAnswer>,
}

/// As whose an address is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// It can't be told: the address is the host.
    ByAddress,
    Machine(u64),
    Stranger,
}

const BELIEVED_NS: u64 = 5_000_000_000;
const DOUBTED_NS: u64 = 500_000_000;

#[derive(Debug, Clone, Copy)]
struct Owner {
    whose: Whose,
    until: u64,
}

/// What was looked at.
#[derive(Debug, Clone, Default)]
pub(super) struct Owners {
    known: HashMap<Address, Owner>,
    pub(super) routes: Routes,
}

impl Owners {
    /// Forgets all, and knows these for ever.
    pub(super) fn enter(&mut self, addresses: impl IntoIterator<Item = (IpAddr, u64)>) {
        let owner = |number| Owner { whose: Whose::Machine(number), until: u64::MAX };
        self.known = addresses.into_iter().map(|(a, number)| (a.into(), owner(number))).collect();
    }

    /// Whose it is; looked at where that is not known, or for too long.
    pub(super) fn of(&mut self, address: Address, gets: bool, now: u64) -> Whose {
        let before = self.known.get(&address).copied();
        if let Some(owner) = before.filter(|owner| owner.until >= now) {
            return owner.whose;
        }
        let seen = self.look(address, gets);
        let whose = match (seen, before) {
            // A machine that was known keeps its address until another one has it.
            (Whose::Stranger, Some(Owner { whose: machine @ Whose::Machine(_), .. })) => machine,
            _ => seen,
        };
        let believed = if matches!(whose, Whose::Machine(_)) { BELIEVED_NS } else { DOUBTED_NS };
        self.known.insert(address, Owner { whose, until: now + believed });
        whose
    }

    fn look(&self, address: Address, gets: bool) -> Whose {
        let Way { from, on } = self.routes.way;
        let (line, other) = if gets { (from, on) } else { (on, from) };
        match self.routes.answers.get(&address).copied().unwrap_or_default() {
            RouteAnswer::Neighbour(interface, mac) => {
                let mac = mac.into_iter().fold(0, |number, byte| (number << 8) | u64::from(byte));
                Whose::Machine((u64::from(interface) << 48) | mac)
            }
            RouteAnswer::NoNeighbour | RouteAnswer::Refused => Whose::Stranger,
            RouteAnswer::Beyond(interface) if interface == line && line != other => Whose::Stranger,
            RouteAnswer::Beyond(_) | RouteAnswer::Unknown if is_no_hosts(address) => {
                Whose::Stranger
            }
            RouteAnswer::Beyond(_) | RouteAnswer::Unknown => Whose::ByAddress,
        }
    }
}

/// Multicast, broadcast, and what is good on one link alone (RFC 1112, 3927, 4291).
fn is_no_hosts(address: Address) -> bool {
    let Address { high, low } = address;
    match Ipv6Addr::from_bits((u128::from(high) << 64) | u128::from(low)).to_canonical() {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_multicast() || v6.is_unicast_link_local(),
    }
}
