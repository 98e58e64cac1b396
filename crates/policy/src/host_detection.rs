//! host-fair where nobody lists the hosts: places for as many as there is room for, and the classifier gives each host that it sees one.
//!
//! ```text
//!   htb 1:  one class 1:1 at `rate`
//!    └ drr 2:  ◄─ classify: a host that is new takes a free place, or one whose host was silent for a minute
//!       ├ 2:1 … 2:n  the places, each with the three tiers of `host_fair.rs`
//!       └ 2:n+1      what is no IP packet, and all should somebody take the classifier away
//! ```
//!
//! **Memory.** A place costs the same whether anybody is in it, so its queues are small: [`FLOWS`] flows in each tier.
//!
//! **Floors.** Nobody knows how many hosts there will be. The tiers' floors are shares of what a host has while [`BUSY`] are busy: of all places
//! they would be next to nothing, of one they would leave priority nothing to decide as soon as several are busy.

use crate::tier::{self, FRAME, TIERS};
use crate::tier::{FIRST_TIERS, HOSTS, HostClass};
use crate::{LinePart, PolicyError, Tell};
use quell_tc::classify::{Config, HostKey, Hosts, Parts};
use quell_tc::qdisc::{Drr, FqCodel};
use quell_tc::{Filter, Handle, Matchall, Queue};
use quell_units::{Rate, Ratio};
use serde::{Deserialize, Serialize};

/// Places where nobody says how many.
pub const PLACES: u16 = 128;

/// Flow queues of a tier.
const FLOWS: u32 = 64;

/// Hosts of whose shares the floors of tiers are parts.
const BUSY: u64 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostsBy {
    /// By the address on their side.
    #[default]
    Address,
    /// By the address on their side in the innermost packet, where this machine is the tunnel's end.
    Inside,
    /// By the address on their side, where the interface translates it: a mark holds it, which a table of nftables writes
    /// (`quell_netlink::hosts_table`). IPv6, and what is not translated, by its own address.
    Nat,
    /// By the firewall mark, which a rule sets before addresses are translated.
    Mark,
}

impl HostsBy {
    pub const ALL: [HostsBy; 4] = [HostsBy::Address, HostsBy::Inside, HostsBy::Nat, HostsBy::Mark];

    pub fn name(self) -> &'static str {
        match self {
            HostsBy::Address => "address",
            HostsBy::Inside => "inside",
            HostsBy::Nat => "nat",
            HostsBy::Mark => "mark",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct HostDetection {
    /// Places, 1 to 1024; on a slow line fewer, so that each could have a packet a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub places: Option<u16>,
    /// How they are told apart; by their address where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<HostsBy>,
    /// Bits of an IPv6 address that make a host; all of them where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_prefix: Option<u8>,
}

impl HostDetection {
    pub fn by(self) -> HostsBy {
        self.by.unwrap_or_default()
    }

    pub(crate) fn places_at(self, rate: Rate) -> Result<u16, PolicyError> {
        let wanted = self.places.unwrap_or(PLACES);
        if wanted == 0 || wanted > quell_tc::classify::MAX_HOSTS {
            return Err(PolicyError::Places(wanted));
        }
        // One more is for what belongs to no host.
        let most = (rate.bps() / (8 * FRAME)).saturating_sub(1).max(1);
        Ok(wanted.min(u16::try_from(most).unwrap_or(u16::MAX)))
    }

    fn hosts(self, tell: Tell, places: u16) -> Hosts {
        let usual = Hosts::new(self.key(tell), places);
        Hosts {
            v6_prefix: self.ipv6_prefix.unwrap_or(usual.v6_prefix),
            neighbours: matches!(self.by(), HostsBy::Address | HostsBy::Nat)
                && !matches!(tell, Tell::Mark),
            translated: self.by() == HostsBy::Nat,
            ..usual
        }
    }

    fn key(self, tell: Tell) -> HostKey {
        match (self.by(), tell) {
            (HostsBy::Mark, _) | (_, Tell::Mark) => HostKey::Mark,
            (HostsBy::Address | HostsBy::Nat, Tell::Source) => HostKey::Src,
            (HostsBy::Address | HostsBy::Nat, Tell::Destination) => HostKey::Dst,
            (HostsBy::Inside, Tell::Source) => HostKey::TunnelSrc,
            (HostsBy::Inside, Tell::Destination) => HostKey::TunnelDst,
        }
    }
}

/// Packets in tunnels that CAKE is to tell apart as it does others. What is in none it looks at itself.
pub(crate) fn for_cake(tell: Tell) -> Config {
    let inside = HostDetection { by: Some(HostsBy::Inside), ..HostDetection::default() };
    let parts = Parts::cake(inside.key(tell));
    let config = Config::new(Parts { tunnels_only: true, ..parts });
    config.expect("CAKE's own figures fit together")
}

pub(crate) fn queue(
    rate: Rate,
    floors: (Ratio, Ratio),
    found: HostDetection,
    tell: Tell,
) -> Result<Queue, PolicyError> {
    let places = found.places_at(rate)?;
    let rest = Handle::class(HOSTS, places + 1);
    let hosts = found.hosts(tell, places);
    let parts = Parts::hosts(HOSTS, 1, hosts, 1, rest);
    let config = Config::new(parts).map_err(|why| PolicyError::Found(why.to_string()))?;
    let floors_of = Rate::from_bps(rate.bps() / u64::from(places + 1).min(BUSY));
    let leaf = FqCodel { flows: Some(FLOWS), ..tier::codel(rate) };
    let place = HostClass { rate, floors, floors_of, leaf };
    let mut drr = Queue::from(Drr::default()).with_handle(Handle::qdisc(HOSTS));
    for number in 1..=places + 1 {
        drr = drr.with_class(place.class(number));
    }
    let mut classify = Filter::new(config, None);
    classify.prio = Some(1);
    let mut all = Filter::new(Matchall {}, Some(rest));
    all.prio = Some(100);
    Ok(drr.with_filter(classify).with_filter(all))
}

/// The places' classes, each followed by its tiers', and what belongs to no host.
pub(crate) fn parts(found: HostDetection, rate: Rate) -> Vec<LinePart> {
    let places = found.places_at(rate).unwrap_or(0);
    let mut parts = Vec::new();
    for place in 1..=places + 1 {
        let (number, name) = match place <= places {
            true => (Some(place), format!("place {place}")),
            false => (None, "no host's".to_owned()),
        };
        let line = LinePart::of_line((Handle::class(HOSTS, place), name.clone()));
        parts.push(LinePart { place: number, ..line });
        parts.extend((1..).zip(TIERS).map(|(minor, tier)| LinePart {
            class: Handle::class(FIRST_TIERS + place, minor),
            name: tier.to_owned(),
            host: Some(name.clone()),
            place: number,
        }));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostFair;
    use quell_tc::{FilterKind, Protocol};

    fn policy(megabits: u64, found: HostDetection) -> HostFair {
        HostFair { found: Some(found), ..HostFair::new(Rate::from_bps(megabits * 1_000_000)) }
    }

    fn drr(policy: &HostFair, tell: Tell) -> Queue {
        let tree = policy.plan(&[], tell).expect("a plan").tree;
        tree.plan().expect("handles and parents fit together");
        *tree.queue.expect("a root").classes[0].queue.clone().expect("the places")
    }

    fn config(queue: &Queue) -> Config {
        match &queue.filters[0].kind {
            FilterKind::Classify(config) => (**config).clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nobody_is_listed_and_each_place_has_its_tiers() {
        let queue = drr(&policy(10, HostDetection::default()), Tell::Source);
        assert_eq!(queue.classes.len(), usize::from(PLACES) + 1);
        let hosts = config(&queue).parts().hosts.expect("hosts");
        assert_eq!((hosts.by, hosts.classes, hosts.v6_prefix), (HostKey::Src, PLACES, 128));
        assert!(hosts.neighbours && !hosts.translated, "all addresses of a neighbour are one host");
        assert_eq!(
            config(&drr(&policy(10, HostDetection::default()), Tell::Destination))
                .parts()
                .hosts
                .map(|h| h.by),
            Some(HostKey::Dst)
        );
        let rest = queue.filters.last().expect("a last one");
        assert!(rest.is_catch_all() && rest.protocol == Protocol::ALL);
        assert_eq!(rest.class, config(&queue).parts().other);
        let parts = parts(HostDetection::default(), Rate::from_bps(10_000_000));
        assert_eq!(parts.len(), 4 * (usize::from(PLACES) + 1));
        assert_eq!((parts[4].name.as_str(), parts[4].place), ("place 2", Some(2)));
    }

    #[test]
    fn hosts_are_told_by_what_is_asked_for() {
        let by = |by, tell| {
            let found = HostDetection { by: Some(by), places: Some(8), ipv6_prefix: Some(64) };
            let hosts = config(&drr(&policy(10, found), tell)).parts().hosts.expect("hosts");
            assert_eq!((hosts.classes, hosts.v6_prefix), (8, 64));
            hosts.by
        };
        assert_eq!(by(HostsBy::Nat, Tell::Destination), HostKey::Dst);
        assert_eq!(by(HostsBy::Inside, Tell::Source), HostKey::TunnelSrc);
        assert_eq!(by(HostsBy::Inside, Tell::Destination), HostKey::TunnelDst);
        assert_eq!(by(HostsBy::Mark, Tell::Source), HostKey::Mark);
        assert_eq!(by(HostsBy::Address, Tell::Mark), HostKey::Mark);
    }

    #[test]
    fn a_slow_line_has_fewer_places_and_nonsense_is_refused() {
        let slow = policy(1, HostDetection::default());
        assert_eq!(drr(&slow, Tell::Source).classes.len(), 82, "a packet a second for each");
        for places in [0, 1025] {
            let found = HostDetection { places: Some(places), ..HostDetection::default() };
            let said = policy(10, found).plan(&[], Tell::Source).unwrap_err().to_string();
            assert!(said.contains(&format!("{places} places can't be")), "{said}");
        }
        let found = HostDetection { ipv6_prefix: Some(129), ..HostDetection::default() };
        let said = policy(10, found).plan(&[], Tell::Source).unwrap_err().to_string();
        assert!(said.contains("IPv6 prefix"), "{said}");
    }

    #[test]
    fn a_place_more_renames_no_queue_of_the_others() {
        let queues = |places| {
            let found = HostDetection { places: Some(places), ..HostDetection::default() };
            let plan = policy(1000, found).plan(&[], Tell::Source).expect("a plan").tree.plan();
            let named =
                plan.expect("handles fit").steps.into_iter().filter_map(|step| match step {
                    quell_tc::Step::Qdisc { parent, handle, .. } => Some((parent, handle)),
                    _ => None,
                });
            named.collect::<std::collections::BTreeSet<_>>()
        };
        assert!(queues(64).is_subset(&queues(65)));
        assert_eq!(queues(1024).len(), 2 + 4 * 1025);
    }
}
