//! Subscribers by prefix: who a packet's subscriber is, who of them is there, and who is there without a class.
//!
//! ```text
//!   Roster: prefix ─► class ──RosterTables::lead_to()──► PREFIXES   bpf/roster.c, two filters: by source, by destination
//!                                                          │
//!   NewcomerRing ◄── ring ◄── a packet of one who has no class ┘   mark() when the class is made; SubscriberState: when was it last heard
//! ```
//!
//! Thousands of classes that nobody needs are not made. A packet of a subscriber without one goes to the queue's default class meanwhile.

mod program;
mod tables;

pub use program::RosterProgram;
pub use tables::{NewcomerRing, RosterTables, SubscriberState};

pub use quell_tc::Side;
use quell_tc::{Handle, Prefix};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Which class the packets of each prefix belong to. The longest prefix counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roster {
    entries: BTreeMap<Prefix, u32>,
}

impl FromIterator<(Prefix, Handle)> for Roster {
    fn from_iter<T: IntoIterator<Item = (Prefix, Handle)>>(entries: T) -> Self {
        let entry = |(prefix, class): (Prefix, Handle)| (prefix, class.to_u32());
        Roster { entries: entries.into_iter().map(entry).collect() }
    }
}

impl Roster {
    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nobody is in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The class of an address, by its longest prefix: what the program finds, without a kernel.
    pub fn class_of(&self, address: IpAddr) -> Option<Handle> {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let of_length = |length| self.entries.get(&Prefix::new(address, length)?);
        (0..=longest).rev().find_map(of_length).map(|id| Handle::from_u32(*id))
    }

    /// A number for all of it; never 0.
    pub fn print(&self) -> u64 {
        let entry = |(prefix, id): (&Prefix, &u32)| {
            let (family, bits) = match prefix.address {
                IpAddr::V4(v4) => (4, u128::from(v4.to_bits())),
                IpAddr::V6(v6) => (6, v6.to_bits()),
            };
            let ends = [family, prefix.length].into_iter().chain(id.to_be_bytes());
            ends.chain(bits.to_be_bytes()).collect::<Vec<u8>>()
        };
        quell_tc::hash(self.entries.iter().flat_map(entry)).max(1)
    }

    /// What is in this one and not, or with another class, in `other`.
    fn beyond(&self, other: &Roster) -> Vec<(Prefix, u32)> {
        let new = |(key, id): &(&Prefix, &u32)| other.entries.get(key) != Some(id);
        self.entries.iter().filter(new).map(|(key, id)| (*key, *id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster(entries: &[(&str, u16)]) -> Roster {
        let one = |(prefix, minor): &(&str, u16)| {
            (prefix.parse().expect("a prefix"), Handle::class(1, *minor))
        };
        entries.iter().map(one).collect()
    }

    fn class(roster: &Roster, address: &str) -> Option<u16> {
        roster.class_of(address.parse().expect("an address")).map(|class| class.minor)
    }

    #[test]
    fn the_longest_prefix_counts_in_each_family() {
        let all = roster(&[
            ("0.0.0.0/0", 1),
            ("10.0.0.0/8", 2),
            ("10.0.0.0/24", 3),
            ("10.0.0.7/32", 4),
            ("::/0", 7),
            ("2001:db8::/32", 5),
            ("2001:db8:0:7::/64", 6),
        ]);
        let found = ["192.0.2.1", "10.9.0.1", "10.0.0.1", "10.0.0.7"].map(|a| class(&all, a));
        assert_eq!(found, [1, 2, 3, 4].map(Some));
        let found = ["2001:db8::1", "2001:db8:0:7::1", "2001:db9::1"].map(|a| class(&all, a));
        assert_eq!(found, [5, 6, 7].map(Some));
        assert_eq!(class(&roster(&[("::/0", 7)]), "192.0.2.1"), None);
    }

    #[test]
    fn two_that_differ_have_different_numbers_whatever_their_order() {
        let [a, b] = [("10.0.0.0/24", 3), ("10.0.1.0/24", 4)];
        assert_eq!(roster(&[a, b]).print(), roster(&[b, a]).print());
        let others =
            [roster(&[a]), roster(&[a, ("10.0.1.0/24", 5)]), roster(&[a, ("10.0.1.0/25", 4)])];
        others.iter().for_each(|other| assert_ne!(other.print(), roster(&[a, b]).print()));
        assert_ne!(Roster::default().print(), 0);
    }
}
