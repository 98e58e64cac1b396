//! The policy for a home's uplink: shape below the link's rate, be fair between hosts, then between tiers, then between flows.
//!
//! ```text
//!   htb 1:  one class 1:1 at `rate`: the only place where packets wait for the link
//!    └ drr 2:  a class a host (bucket), equal turns: fair between hosts, and no host waits while others have nothing to send
//!       └ htb h:  in each bucket, three tiers
//!          ├ h:1  high    first, whatever it sends …
//!          ├ h:2  normal  … but for the floor of this tier …
//!          └ h:3  bulk    … and of this one
//!             └ fq_codel in each: fair between flows, short queues
//! ```
//!
//! After a published home script, with its traps taken out: IPv6 is classified like IPv4; priority is real and still leaves the
//! lower tiers a floor; hosts are given buckets one by one instead of hashed, so that two share one only when none is free.
//!
//! The tiers are those of `tier.rs`. The inner HTB never throttles: its parent's rate is far above any link. Fairness between hosts stands
//! above priority: one host's flood in the high tier takes nothing from another host.

use crate::host_detection::{self, HostDetection};
use crate::tier::{FIRST_TIERS, HOSTS, HostClass};
use crate::tier::{FRAME, TIERS, bulk_floor, codel, link_class, normal_floor};
use crate::{Host, LinePart, PolicyError, Shaped, Tell};
use quell_tc::qdisc::{Drr, Htb};
use quell_tc::{Action, Filter, Flower, Fw, Handle, Matchall, Prefix, Queue, Skbedit, Tree};
use quell_units::{Rate, Ratio};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

crate::line_type::counted! {
    pub struct HostFair {
        /// Most buckets. Hosts beyond that share, as evenly as can be.
        #[serde(default = "buckets")]
        pub buckets: u16,
        /// What the normal tier gets whatever the high tier sends: a share of the host's fair share with all buckets busy.
        #[serde(default = "crate::tier::normal_floor")]
        pub normal_floor: Ratio,
        /// The same for the bulk tier.
        #[serde(default = "crate::tier::bulk_floor")]
        pub bulk_floor: Ratio,
        /// Hosts are found at run time and not listed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub found: Option<HostDetection>,
        /// Hosts that are listed are told by their addresses in marks too, which a table writes where addresses are translated.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub translated: bool,
    }
}

fn buckets() -> u16 {
    256
}

/// The bits of a packet's mark that tell hosts apart: the rest belongs to whoever routes or filters by it.
const MARKS: u32 = 0xfff0_0000;

/// Most hosts that marks can tell apart.
const MOST_MARKS: usize = (MARKS >> MARKS.trailing_zeros()) as usize;

/// The priority of filters by the address in the mark; those by the packet's own come behind it, since a router's own address may be a host too.
const MARK_FIRST: u16 = 1;

const ALL: Handle = Handle::class(1, 1);

impl HostFair {
    pub fn new(rate: Rate) -> Self {
        HostFair {
            counting: rate.into(),
            buckets: buckets(),
            normal_floor: normal_floor(),
            bulk_floor: bulk_floor(),
            found: None,
            translated: false,
        }
    }

    /// The plan for an interface with these hosts behind it. Packets of hosts that are not listed share one bucket more. Where hosts are found,
    /// the list says whom to mark alone.
    pub fn plan(&self, hosts: &[Host], tell: Tell) -> Result<Shaped, PolicyError> {
        self.counting.check("host-fair")?;
        if let Some(found) = self.found {
            crate::types::leave_something("host-fair", (self.normal_floor, self.bulk_floor))?;
            let marking = if tell == Tell::Mark { marking(hosts) } else { Vec::new() };
            return Ok(Shaped {
                tree: self.below_the_line(host_detection::queue(
                    self.counting.rate,
                    (self.normal_floor, self.bulk_floor),
                    found,
                    tell,
                )?),
                marking,
            });
        }
        if self.buckets == 0 || self.buckets > 1024 {
            return Err(PolicyError::Buckets(self.buckets));
        }
        if hosts.is_empty() {
            return Err(PolicyError::NoHosts);
        }
        let mut known = BTreeSet::new();
        let all = hosts.iter().flat_map(|host| &host.addresses);
        if let Some(twice) = all.copied().find(|address| !known.insert(*address)) {
            return Err(PolicyError::Twice(twice));
        }
        let (rate, count) = (self.counting.rate, hosts.len());
        if rate.bps() / (count as u64 + 1) < 8 * FRAME {
            return Err(PolicyError::TooThin { hosts: count, rate });
        }
        if tell == Tell::Mark && hosts.len() > MOST_MARKS {
            return Err(PolicyError::TooManyHosts(MOST_MARKS));
        }
        crate::types::leave_something("host-fair", (self.normal_floor, self.bulk_floor))?;
        let used = hosts.len().min(usize::from(self.buckets)) as u16;
        let others = used + 1;
        // What each host has for sure when every bucket is busy; the floors are shares of it.
        let floors_of = Rate::from_bps(rate.bps() / u64::from(others));
        let floors = (self.normal_floor, self.bulk_floor);
        let place = HostClass { rate, floors, floors_of, leaf: codel(rate) };
        let mut drr = Queue::from(Drr::default()).with_handle(Handle::qdisc(HOSTS));
        for bucket in 1..=others {
            drr = drr.with_class(place.class(bucket));
        }
        let marking = if tell == Tell::Mark { marking(hosts) } else { Vec::new() };
        for (index, host) in hosts.iter().enumerate() {
            let mark = mark_of(index);
            let class = Handle::class(HOSTS, bucket_of(index, used));
            for address in &host.addresses {
                let source = match tell {
                    Tell::Source => true,
                    Tell::Destination => false,
                    Tell::Mark => continue,
                };
                let mut filter = by_address(*address, source, Some(class));
                if self.translated {
                    let whole = if address.is_ipv4() { 32 } else { 128 };
                    let mark = Prefix::new(*address, whole)
                        .and_then(|prefix| by_mark(prefix, class, MARK_FIRST));
                    drr.filters.extend(mark);
                    filter.prio = filter.prio.map(|prio| prio + MARK_FIRST);
                }
                drr = drr.with_filter(filter);
            }
            if tell == Tell::Mark {
                let mut filter = Filter::new(Fw { mask: Some(MARKS) }, Some(class));
                filter.handle = Some(mark);
                filter.prio = Some(1);
                drr = drr.with_filter(filter);
            }
        }
        // DRR drops what no filter matches.
        let mut rest = Filter::new(Matchall {}, Some(Handle::class(HOSTS, others)));
        rest.prio = Some(100);
        drr = drr.with_filter(rest);
        Ok(Shaped { tree: self.below_the_line(drr), marking })
    }

    /// The one class in which packets wait, with the hosts' queue in it.
    fn below_the_line(&self, hosts: Queue) -> Tree {
        let link = link_class(ALL, self.counting).with_queue(hosts);
        let root = Queue::from(Htb { default: Some(ALL), ..Htb::default() })
            .with_handle(Handle::qdisc(1))
            .with_class(link);
        Tree::from(root)
    }

    /// The hosts' classes, with their names, each followed by its tiers'; that of all others comes last.
    pub(crate) fn parts(&self, hosts: &[Host]) -> Vec<LinePart> {
        if let Some(found) = self.found {
            return host_detection::parts(found, self.counting.rate);
        }
        let used = hosts.len().min(usize::from(self.buckets)) as u16;
        let mut names = vec![Vec::new(); usize::from(used)];
        for (at, host) in hosts.iter().enumerate() {
            names[usize::from(bucket_of(at, used)) - 1].push(host.name.as_str());
        }
        let names = names.into_iter().map(|names| names.join(", "));
        let mut parts = Vec::new();
        for (bucket, name) in (1..).zip(names.chain(["all others".to_owned()])) {
            let class = Handle::class(HOSTS, bucket);
            parts.push(LinePart::of_line((class, name.clone())));
            parts.extend((1..).zip(TIERS).map(|(minor, tier)| LinePart {
                class: Handle::class(FIRST_TIERS + bucket, minor),
                name: tier.to_owned(),
                host: Some(name.clone()),
                place: None,
            }));
        }
        parts
    }
}

fn mark_of(host: usize) -> u32 {
    (host as u32 + 1) << MARKS.trailing_zeros()
}

fn marking(hosts: &[Host]) -> Vec<Filter> {
    let of_host = |(index, host): (usize, &Host)| {
        let edit = Skbedit { mark: Some(mark_of(index)), mask: Some(MARKS), priority: None };
        let one = move |address: &IpAddr| {
            by_address(*address, true, None).with_action(Action::Skbedit(edit.clone()))
        };
        host.addresses.iter().map(one).collect::<Vec<_>>()
    };
    hosts.iter().enumerate().flat_map(of_host).collect()
}

/// Hosts take buckets one by one; only when all are taken do they share, evenly.
fn bucket_of(host: usize, buckets: u16) -> u16 {
    (host % usize::from(buckets)) as u16 + 1
}

fn by_address(address: IpAddr, source: bool, class: Option<Handle>) -> Filter {
    let (length, prio) = if address.is_ipv4() { (32, 1) } else { (128, 2) };
    let prefix = Prefix::new(address, length);
    let (src_ip, dst_ip) = if source { (prefix, None) } else { (None, prefix) };
    // Of any protocol: a packet with a VLAN tag counts as one of 802.1Q, and its addresses are found all the same.
    let mut filter = Filter::new(Flower { src_ip, dst_ip, ..Flower::default() }, class);
    // One priority for all hosts of a family: flower then finds the host in one look-up.
    filter.prio = Some(prio);
    filter
}

/// The filter by mark of those who have addresses of this prefix; none for IPv6, which has no part in it, and for all addresses, which are
/// no mark's.
pub(crate) fn by_mark(prefix: Prefix, class: Handle, prio: u16) -> Option<Filter> {
    let IpAddr::V4(address) = prefix.address else { return None };
    // A mark holds the address as it lies on the wire.
    let mark = u32::from_ne_bytes(address.octets());
    let bits = u32::MAX.checked_shl(32 - u32::from(prefix.length))?;
    let mask = u32::from_ne_bytes(Ipv4Addr::from(bits).octets());
    if mark == 0 {
        return None;
    }
    // The kernel does not show a mask of all bits.
    let mut filter = Filter::new(Fw { mask: Some(mask).filter(|m| *m != u32::MAX) }, Some(class));
    filter.handle = Some(mark);
    filter.prio = Some(prio);
    Some(filter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::percent;
    use quell_tc::{FilterKind, Protocol};
    use std::collections::BTreeMap;

    fn hosts(n: u8) -> Vec<Host> {
        (1..=n)
            .map(|i| Host {
                name: format!("h{i}"),
                addresses: vec![
                    IpAddr::from([10, 0, 0, i]),
                    IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(i)]),
                ],
            })
            .collect()
    }

    fn policy() -> HostFair {
        HostFair::new(Rate::from_bps(24_000_000))
    }

    fn drr(shaped: &Shaped) -> &Queue {
        let root = shaped.tree.queue.as_ref().expect("a root queue");
        root.classes[0].queue.as_ref().expect("the hosts' round robin")
    }

    fn is_v4(filter: &Filter) -> bool {
        let FilterKind::Flower(flower) = &filter.kind else { return false };
        let of = |prefix: Option<Prefix>| prefix.is_some_and(|prefix| prefix.address.is_ipv4());
        of(flower.src_ip) || of(flower.dst_ip)
    }

    #[test]
    fn packets_with_a_vlan_tag_are_looked_at_too() {
        let shaped = policy().plan(&hosts(2), Tell::Source).expect("a plan");
        let drr = drr(&shaped);
        let tiers = drr.classes.iter().flat_map(|class| &class.queue).flat_map(|q| &q.filters);
        // To the kernel such a packet is one of 802.1Q, whatever is in it.
        assert!(drr.filters.iter().chain(tiers).all(|f| f.protocol == Protocol::ALL));
    }

    #[test]
    fn two_hosts_never_share_a_bucket_while_one_is_free() {
        for n in [1, 2, 16, 17, 200, 255] {
            let shaped = policy().plan(&hosts(n), Tell::Source).expect("a plan");
            let used: BTreeSet<_> =
                drr(&shaped).filters.iter().filter(|f| is_v4(f)).map(|f| f.class).collect();
            assert_eq!(used.len(), usize::from(n), "{n} hosts");
        }
    }

    #[test]
    fn with_more_hosts_than_buckets_none_has_more_than_one_host_more_than_another() {
        let policy = HostFair { buckets: 7, ..policy() };
        let shaped = policy.plan(&hosts(24), Tell::Source).expect("a plan");
        let mut count = BTreeMap::new();
        for filter in drr(&shaped).filters.iter().filter(|f| is_v4(f)) {
            *count.entry(filter.class).or_insert(0) += 1;
        }
        assert_eq!(count.len(), 7);
        assert!(count.values().all(|n| (3..=4).contains(n)), "{count:?}");
    }

    #[test]
    fn both_addresses_of_a_host_lead_to_one_bucket() {
        let shaped = policy().plan(&hosts(3), Tell::Destination).expect("a plan");
        let filters = &drr(&shaped).filters;
        for pair in filters[..6].chunks(2) {
            assert_eq!(pair[0].class, pair[1].class);
            assert_ne!(is_v4(&pair[0]), is_v4(&pair[1]));
        }
    }

    #[test]
    fn packets_of_strangers_are_not_lost() {
        let shaped = policy().plan(&hosts(2), Tell::Source).expect("a plan");
        let last = drr(&shaped).filters.last().expect("filters");
        assert!(last.is_catch_all());
        assert_eq!(last.class, Some(Handle::class(2, 3)));
    }

    #[test]
    fn behind_address_translation_hosts_are_told_by_marks() {
        let shaped = policy().plan(&hosts(2), Tell::Mark).expect("a plan");
        assert_eq!(shaped.marking.len(), 4, "two addresses of each host");
        let marks: Vec<_> = drr(&shaped).filters.iter().filter_map(|f| f.handle).collect();
        assert_eq!(marks, [0x10_0000, 0x20_0000]);
        // Routing rules and others' filters keep their bits.
        let masks = shaped.marking.iter().flat_map(|f| &f.actions).map(|action| match action {
            Action::Skbedit(edit) => edit.mask,
            _ => None,
        });
        assert!(masks.eq([Some(MARKS); 4]));
    }

    #[test]
    fn where_a_table_writes_addresses_into_marks_those_are_asked_before_the_packets_own() {
        for tell in [Tell::Source, Tell::Destination] {
            let translated = HostFair { translated: true, ..policy() };
            let shaped = translated.plan(&hosts(2), tell).expect("a plan");
            shaped.tree.plan().expect("handles and parents fit together");
            let filters = &drr(&shaped).filters;
            let marks: Vec<_> =
                filters.iter().filter(|f| matches!(f.kind, FilterKind::Fw(_))).collect();
            let wire = |last| Some(u32::from_ne_bytes([10, 0, 0, last]));
            assert_eq!(marks.iter().map(|f| f.handle).collect::<Vec<_>>(), [wire(1), wire(2)]);
            assert!(marks.iter().all(|f| f.prio == Some(1)));
            // IPv6, and what is not translated, by its own address, in the same class.
            let own: Vec<_> =
                filters.iter().filter(|f| matches!(f.kind, FilterKind::Flower(_))).collect();
            assert_eq!(
                own.iter().map(|f| f.prio).collect::<BTreeSet<_>>(),
                [Some(2), Some(3)].into()
            );
            assert_eq!((own[0].class, own[1].class), (marks[0].class, marks[0].class));
        }
    }

    #[test]
    fn a_host_more_renames_no_queue_of_the_others() {
        let queues = |n| {
            let plan = policy().plan(&hosts(n), Tell::Source).expect("a plan").tree.plan();
            let steps = plan.expect("handles fit").steps.into_iter();
            let named = steps.filter_map(|step| match step {
                quell_tc::Step::Qdisc { parent, handle, .. } => Some((parent, handle)),
                _ => None,
            });
            named.collect::<BTreeSet<_>>()
        };
        for n in [1, 4, 5, 30, 200] {
            assert!(queues(n).is_subset(&queues(n + 1)), "{n} hosts and one more");
        }
    }

    #[test]
    fn the_plan_is_one_that_the_kernel_takes() {
        for tell in [Tell::Source, Tell::Destination, Tell::Mark] {
            let shaped = policy().plan(&hosts(5), tell).expect("a plan");
            shaped.tree.plan().expect("handles and parents fit together");
        }
    }

    #[test]
    fn the_tiers_of_a_fast_line_have_their_floors_too() {
        let fast = HostFair::new(Rate::from_bps(100_000_000_000));
        let shaped = fast.plan(&hosts(1), Tell::Source).expect("a plan");
        shaped.tree.plan().expect("no floor is above what a tier may have");
    }

    #[test]
    fn nonsense_is_refused() {
        let slow = HostFair::new(Rate::from_bps(8_000));
        assert!(matches!(slow.plan(&hosts(1), Tell::Source), Err(PolicyError::RateTooLow { .. })));
        let none = HostFair { buckets: 0, ..policy() };
        assert_eq!(none.plan(&hosts(1), Tell::Source), Err(PolicyError::Buckets(0)));
        assert_eq!(policy().plan(&[], Tell::Source), Err(PolicyError::NoHosts));
        let fast = HostFair::new(Rate::from_bps(1_000_000_000_001));
        assert!(matches!(fast.plan(&hosts(1), Tell::Source), Err(PolicyError::RateTooHigh { .. })));
        // 16 kbit/s are a packet a second, and not two.
        let thin = HostFair::new(Rate::from_bps(16_000));
        let said = Err(PolicyError::TooThin { hosts: 1, rate: Rate::from_bps(16_000) });
        assert_eq!(thin.plan(&hosts(1), Tell::Source), said);
        let twice = [hosts(1), hosts(1)].concat();
        let said = Err(PolicyError::Twice(IpAddr::from([10, 0, 0, 1])));
        assert_eq!(policy().plan(&twice, Tell::Source), said);
        let floors = HostFair { normal_floor: percent(60), bulk_floor: percent(40), ..policy() };
        assert!(matches!(floors.plan(&hosts(1), Tell::Source), Err(PolicyError::Floors { .. })));
    }

    #[test]
    fn a_mark_is_the_address_as_it_lies_on_the_wire() {
        let class = Handle::class(2, 1);
        let filter = |text: &str| by_mark(text.parse().expect("a prefix"), class, 1);
        let of = |text: &str| filter(text).map(|f| (f.handle, f.kind));
        let wire = |bytes| Some(u32::from_ne_bytes(bytes));
        assert_eq!(
            of("10.0.1.7/32"),
            Some((wire([10, 0, 1, 7]), FilterKind::Fw(Fw { mask: None })))
        );
        let mask = wire([255, 255, 255, 248]);
        assert_eq!(of("192.0.2.8/29"), Some((wire([192, 0, 2, 8]), FilterKind::Fw(Fw { mask }))));
        assert_eq!((of("2001:db8::7/128"), of("0.0.0.0/0")), (None, None));
    }
}
