//! What a host has of a line that is divided between hosts: its turn, and three tiers in it.
//!
//! The inner HTB never throttles: its parent's rate is far above any link's.

use crate::tier::{FRAME, TierSet, htb_class};
use quell_tc::qdisc::{FqCodel, Htb};
use quell_tc::{Class, ClassKind, Handle, Queue, RoundRobinClass};
use quell_units::{Bytes, Rate, Ratio};

/// The inner HTBs' own limit, never reached: this, or twice the rate of a faster line.
pub(crate) const NEVER_REACHED: u64 = 10_000_000_000;

/// Major of the DRR; its minors are the hosts' places, from 1.
pub(crate) const HOSTS: u16 = 2;

/// Major of the first place's tiers.
pub(crate) const FIRST_TIERS: u16 = 0x10;

/// Major of the first leaf; four for each place. Every queue has a name of its own, so that another host more does not rename those of the
/// others, which would cost them their packets.
const FIRST_LEAVES: u16 = 0x1000;

/// What each place is built of.
pub(crate) struct Place {
    /// The line's rate.
    pub rate: Rate,
    /// Floors of the normal and of the bulk tier …
    pub floors: (Ratio, Ratio),
    /// … as shares of this.
    pub floors_of: Rate,
    /// The tiers' leaves.
    pub leaf: FqCodel,
}

impl Place {
    /// The class of a place, from 1, with its tiers and no filter that leads to them.
    pub fn class(&self, number: u16) -> Class {
        let major = FIRST_TIERS + number;
        let never = Rate::from_bps(NEVER_REACHED.max(2 * self.rate.bps()));
        let tiers = TierSet {
            major,
            minor: 1,
            leaves: FIRST_LEAVES + 4 * number + 1,
            floors_of: self.floors_of,
            ceiling: never,
            floors: self.floors,
            leaf: self.leaf.clone(),
        };
        let mut host = htb_class(Handle::class(major, 0xf), never, never, 0);
        host.classes = tiers.classes();
        let queue = Queue::from(Htb { default: Some(tiers.normal()), ..Htb::default() })
            .with_handle(Handle::qdisc(major))
            .with_class(host);
        let turn = ClassKind::Drr(RoundRobinClass { quantum: Some(Bytes::new(FRAME)) });
        Class::new(Handle::class(HOSTS, number), turn).with_queue(queue)
    }
}
