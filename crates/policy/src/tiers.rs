//! The policy for a line of which nobody knows the hosts: shape below its rate, three tiers by DSCP, fair between flows in each.
//!
//! ```text
//!   htb 1:  one class 1:1 at `rate`
//!    ├ 1:11 high   1:12 normal   1:13 bulk     (tier.rs)
//! ```

use crate::tier::{TIERS, TierSet, codel, filters, link_class};
use crate::{PolicyError, Shaped};
use quell_tc::qdisc::Htb;
use quell_tc::{Handle, Queue, Tree};
use quell_units::{Rate, Ratio};

crate::line_type::counted! {
    pub struct Tiers {
        /// What the normal tier gets whatever the high tier sends: a share of the rate.
        #[serde(default = "crate::tier::normal_floor")]
        pub normal_floor: Ratio,
        /// The same for the bulk tier.
        #[serde(default = "crate::tier::bulk_floor")]
        pub bulk_floor: Ratio,
    }
}

/// Minor of the high tier's class, and major of its queue.
const FIRST: u16 = 0x11;

impl Tiers {
    pub fn new(rate: Rate) -> Self {
        let (normal_floor, bulk_floor) = (crate::tier::normal_floor(), crate::tier::bulk_floor());
        Tiers { counting: rate.into(), normal_floor, bulk_floor }
    }

    pub(crate) fn parts() -> Vec<(Handle, String)> {
        (FIRST..).zip(TIERS).map(|(minor, name)| (Handle::class(1, minor), name.into())).collect()
    }

    pub fn plan(&self) -> Result<Shaped, PolicyError> {
        self.counting.check("tiers")?;
        let floors = (self.normal_floor, self.bulk_floor);
        crate::types::leave_something("tiers", floors)?;
        let rate = self.counting.htb_rate();
        let tiers = TierSet {
            major: 1,
            minor: FIRST,
            leaves: FIRST,
            floors_of: rate,
            ceiling: rate,
            floors,
            leaf: codel(rate),
        };
        let mut link = link_class(Handle::class(1, 1), self.counting);
        // HTB counts a packet in each class of its way by that class's own figures.
        link.classes = tiers.classes().into_iter().map(|tier| self.counting.told(tier)).collect();
        let mut root = Queue::from(Htb { default: Some(tiers.normal()), ..Htb::default() })
            .with_handle(Handle::qdisc(1))
            .with_class(link);
        root.filters = filters(Handle::class(1, FIRST));
        Ok(Shaped { tree: Tree::from(root), marking: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floors_of_the_lower_tiers_are_shares_of_the_line_and_the_high_one_borrows_first() {
        let shaped = Tiers::new(Rate::from_bps(10_000_000)).plan().expect("a plan");
        shaped.tree.plan().expect("handles and parents fit together");
        let link = &shaped.tree.queue.as_ref().expect("a root").classes[0];
        let of = |class: &quell_tc::Class| match &class.kind {
            quell_tc::ClassKind::Htb(htb) => (htb.prio, htb.rate.map(Rate::bps)),
            other => panic!("{other:?}"),
        };
        let tiers: Vec<_> = link.classes.iter().map(of).collect();
        let wanted = [(Some(0), 8_000), (Some(1), 2_500_000), (Some(2), 500_000)];
        assert_eq!(tiers, wanted.map(|(prio, rate)| (prio, Some(rate))));
    }

    #[test]
    fn nonsense_is_refused() {
        let slow = Tiers::new(Rate::from_bps(8_000)).plan();
        assert!(matches!(slow, Err(PolicyError::RateTooLow { policy: "tiers", .. })));
        let floors = Tiers {
            normal_floor: "99%".parse().expect("a ratio"),
            ..Tiers::new(Rate::from_bps(1_000_000))
        };
        assert!(matches!(floors.plan(), Err(PolicyError::Floors { .. })));
    }
}
