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
//! **Priority with a floor.** HTB serves classes that are within their own rate first, then those that borrow, in order of
//! priority (`htb_dequeue`, net/sched/sch_htb.c: levels, then priorities). The inner HTB never throttles: its parent's rate is
//! far above any link. The lower tiers have their floor as their own rate; the high tier has next to none and borrows first. So
//! the floors are served, then all of high, then what is left of normal, then of bulk. Fairness between hosts stands above
//! priority: one host's flood in the high tier takes nothing from another host.

use crate::{Host, PolicyError, Shaped, Tell};
use quell_tc::qdisc::{Drr, FqCodel, Htb};
use quell_tc::{
    Action, Class, ClassKind, Filter, Flower, Fw, Handle, HtbClass, Masked, Matchall, Prefix,
    Protocol, Queue, RoundRobinClass, Skbedit, Tree,
};
use quell_units::{Bytes, Rate, Ratio};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Options of the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HostFair {
    /// What is sent on, a little below the link's rate, so that packets wait here and not in the modem.
    pub rate: Rate,
    /// Bytes that each packet costs on the link beyond its Ethernet frame.
    #[serde(default)]
    pub overhead: u16,
    /// Most buckets. Hosts beyond that share, as evenly as can be.
    #[serde(default = "buckets")]
    pub buckets: u16,
    /// What the normal tier gets whatever the high tier sends: a share of the host's fair share with all buckets busy.
    #[serde(default = "normal_floor")]
    pub normal_floor: Ratio,
    /// The same for the bulk tier.
    #[serde(default = "bulk_floor")]
    pub bulk_floor: Ratio,
}

fn buckets() -> u16 {
    256
}

fn percent(n: u32) -> Ratio {
    format!("{n}%").parse().expect("a small whole percentage is a ratio")
}

fn normal_floor() -> Ratio {
    percent(25)
}

fn bulk_floor() -> Ratio {
    percent(5)
}

/// Link rates below this leave a host less than HTB can count.
const LEAST_RATE: u64 = 16_000;

/// The inner HTBs' own limit: never reached.
const NEVER_REACHED: u64 = 10_000_000_000;

/// The high tier's own rate: next to nothing, so that it always borrows.
const NEXT_TO_NOTHING: u64 = 8_000;

/// One full Ethernet frame: a turn.
const FRAME: u64 = 1514;

/// The bits of a packet's mark that tell hosts apart: the rest belongs to whoever routes or filters by it.
const MARKS: u32 = 0xfff0_0000;

/// Most hosts that marks can tell apart.
const MOST_MARKS: usize = (MARKS >> MARKS.trailing_zeros()) as usize;

/// The class of the outer HTB.
const ALL: Handle = Handle::class(1, 1);

/// Major of the DRR; its minors are the buckets, from 1.
const HOSTS: u16 = 2;

/// Major of the first bucket's tiers.
const FIRST_TIERS: u16 = 0x10;

/// Major of the first leaf; four for each bucket. Every queue has a name of its own, so that another host more does not rename those of the
/// others, which would cost them their packets.
const FIRST_LEAVES: u16 = 0x1000;

/// DSCP names and TOS values of each tier, as `value/mask` of the whole byte. The mask leaves out ECN.
const HIGH: [u8; 5] = [0xb8, 0xb0, 0xa0, 0xc0, 0xe0]; // EF, VA, CS5, CS6, CS7
const LOW_DELAY: u8 = 0x10; // RFC 1349 low delay, what interactive ssh long set; as a DSCP it is 4, unassigned
const BULK: [u8; 3] = [0x20, 0x04, 0x08]; // CS1, LE, RFC 1349 throughput

impl HostFair {
    /// A policy with all defaults.
    pub fn new(rate: Rate) -> Self {
        HostFair {
            rate,
            overhead: 0,
            buckets: buckets(),
            normal_floor: normal_floor(),
            bulk_floor: bulk_floor(),
        }
    }

    /// The plan for an interface with these hosts behind it. Packets of hosts that are not listed share one bucket more.
    pub fn plan(&self, hosts: &[Host], tell: Tell) -> Result<Shaped, PolicyError> {
        if self.rate.bps() < LEAST_RATE {
            return Err(PolicyError::RateTooLow {
                rate: self.rate.to_string(),
                least: Rate::from_bps(LEAST_RATE).to_string(),
            });
        }
        if self.buckets == 0 || self.buckets > 1024 {
            return Err(PolicyError::Buckets(self.buckets));
        }
        if hosts.is_empty() {
            return Err(PolicyError::NoHosts);
        }
        if tell == Tell::Mark && hosts.len() > MOST_MARKS {
            return Err(PolicyError::TooManyHosts(MOST_MARKS));
        }
        let floors = self.normal_floor.as_f64() + self.bulk_floor.as_f64();
        if floors >= 1.0 {
            return Err(PolicyError::Floors(format!("{:.0} %", floors * 100.0)));
        }
        let used = hosts.len().min(usize::from(self.buckets)) as u16;
        let others = used + 1;
        let mut drr = Queue::from(Drr::default()).with_handle(Handle::qdisc(HOSTS));
        for bucket in 1..=others {
            drr = drr.with_class(self.bucket(bucket, others));
        }
        let mut marking = Vec::new();
        for (index, host) in hosts.iter().enumerate() {
            let mark = (index as u32 + 1) << MARKS.trailing_zeros();
            let class = Handle::class(HOSTS, bucket_of(index, used));
            for address in &host.addresses {
                match tell {
                    Tell::Source => drr = drr.with_filter(by_address(*address, true, Some(class))),
                    Tell::Destination => {
                        drr = drr.with_filter(by_address(*address, false, Some(class)));
                    }
                    Tell::Mark => {
                        marking.push(by_address(*address, true, None).with_action(Action::Skbedit(
                            Skbedit { mark: Some(mark), mask: Some(MARKS), priority: None },
                        )))
                    }
                }
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
        let link = Class {
            id: Some(ALL),
            kind: ClassKind::Htb(HtbClass {
                rate: Some(self.rate),
                ceil: Some(self.rate),
                burst: Some(Bytes::new(FRAME + 86)),
                cburst: Some(Bytes::new(FRAME + 86)),
                quantum: Some(Bytes::new(FRAME)),
                overhead: (self.overhead > 0).then_some(self.overhead),
                ..HtbClass::default()
            }),
            queue: Some(Box::new(drr)),
            classes: Vec::new(),
            filters: Vec::new(),
        };
        let root = Queue::from(Htb { default: Some(ALL), ..Htb::default() })
            .with_handle(Handle::qdisc(1))
            .with_class(link);
        Ok(Shaped { tree: Tree::from(root), marking })
    }

    fn bucket(&self, bucket: u16, of: u16) -> Class {
        let major = FIRST_TIERS + bucket;
        // What each host has for sure when every bucket is busy; the floors are shares of it.
        let fair = self.rate.bps() as f64 / f64::from(of);
        let floor =
            |share: Ratio| Rate::from_bps(((fair * share.as_f64()) as u64).max(NEXT_TO_NOTHING));
        let tiers = [
            (1, 0, Rate::from_bps(NEXT_TO_NOTHING)),
            (2, 1, floor(self.normal_floor)),
            (3, 2, floor(self.bulk_floor)),
        ];
        let never = Rate::from_bps(NEVER_REACHED);
        let mut host = htb_class(Handle::class(major, 0xf), never, never, 0);
        for (minor, prio, rate) in tiers {
            let mut tier = htb_class(Handle::class(major, minor), rate, never, prio);
            let leaf = FqCodel { quantum: Some(Bytes::new(FRAME)), ..self.codel() };
            let name = Handle::qdisc(FIRST_LEAVES + 4 * bucket + minor);
            tier.queue = Some(Box::new(Queue::from(leaf).with_handle(name)));
            host.classes.push(tier);
        }
        let mut tiers =
            Queue::from(Htb { default: Some(Handle::class(major, 2)), ..Htb::default() })
                .with_handle(Handle::qdisc(major))
                .with_class(host);
        for protocol in [Protocol::IP, Protocol::IPV6] {
            for tos in HIGH {
                tiers = tiers.with_filter(by_tos(protocol, tos, Handle::class(major, 1)));
            }
            tiers = tiers.with_filter(by_tos(protocol, LOW_DELAY, Handle::class(major, 1)));
            for tos in BULK {
                tiers = tiers.with_filter(by_tos(protocol, tos, Handle::class(major, 3)));
            }
        }
        Class {
            id: Some(Handle::class(HOSTS, bucket)),
            kind: ClassKind::Drr(RoundRobinClass { quantum: Some(Bytes::new(FRAME)) }),
            queue: Some(Box::new(tiers)),
            classes: Vec::new(),
            filters: Vec::new(),
        }
    }

    /// Bounded in packets, and fq_codel's target must be above the time that one full packet takes (RFC 8290, section 5.2.2), here of all hosts in turn.
    fn codel(&self) -> FqCodel {
        let packet = self.rate.time_for(FRAME);
        let needed = packet.nanos().saturating_mul(3) / 2;
        // Half a second of the link: a flood that heeds no drop must not fill the usual 10240 packets. Few at a time go over
        // board then, so that others' packets are not swept along.
        let half_second = self.rate.bytes_in(quell_units::Span::from_millis(500)).get() / FRAME;
        let bounded = FqCodel {
            limit: Some(u32::try_from(half_second).unwrap_or(u32::MAX).clamp(100, 10_240)),
            drop_batch: Some(8),
            ..FqCodel::default()
        };
        if needed <= 5_000_000 {
            return bounded;
        }
        FqCodel {
            target: Some(quell_units::Span::from_micros(needed.div_ceil(1000))),
            interval: Some(quell_units::Span::from_micros(100_000 + needed.div_ceil(1000))),
            ..bounded
        }
    }
}

/// Hosts take buckets one by one; only when all are taken do they share, evenly.
fn bucket_of(host: usize, buckets: u16) -> u16 {
    (host % usize::from(buckets)) as u16 + 1
}

fn htb_class(id: Handle, rate: Rate, ceil: Rate, prio: u8) -> Class {
    Class {
        id: Some(id),
        kind: ClassKind::Htb(HtbClass {
            rate: Some(rate),
            ceil: Some(ceil),
            prio: Some(prio),
            burst: Some(Bytes::new(FRAME + 86)),
            cburst: Some(Bytes::new(64_000)),
            quantum: Some(Bytes::new(FRAME)),
            ..HtbClass::default()
        }),
        queue: None,
        classes: Vec::new(),
        filters: Vec::new(),
    }
}

fn by_address(address: IpAddr, source: bool, class: Option<Handle>) -> Filter {
    let (protocol, length, prio) = match address {
        IpAddr::V4(_) => (Protocol::IP, 32, 1),
        IpAddr::V6(_) => (Protocol::IPV6, 128, 2),
    };
    let prefix = Prefix::new(address, length);
    let (src_ip, dst_ip) = if source { (prefix, None) } else { (None, prefix) };
    let mut filter =
        Filter::new(Flower { src_ip, dst_ip, ..Flower::default() }, class).with_protocol(protocol);
    // One priority for all hosts of a family: flower then finds the host in one look-up.
    filter.prio = Some(prio);
    filter
}

fn by_tos(protocol: Protocol, tos: u8, class: Handle) -> Filter {
    let ip_tos = Some(Masked { value: tos, mask: 0xfc });
    let mut filter =
        Filter::new(Flower { ip_tos, ..Flower::default() }, Some(class)).with_protocol(protocol);
    filter.prio = Some(if protocol == Protocol::IP { 1 } else { 2 });
    filter
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

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
        HostFair::new(Rate::from_bps(2_400_000))
    }

    fn drr(shaped: &Shaped) -> &Queue {
        let root = shaped.tree.queue.as_ref().expect("a root queue");
        root.classes[0].queue.as_ref().expect("the hosts' round robin")
    }

    #[test]
    fn two_hosts_never_share_a_bucket_while_one_is_free() {
        for n in [1, 2, 16, 17, 200, 255] {
            let shaped = policy().plan(&hosts(n), Tell::Source).expect("a plan");
            let used: BTreeSet<_> = drr(&shaped)
                .filters
                .iter()
                .filter(|f| f.protocol == Protocol::IP)
                .map(|f| f.class)
                .collect();
            assert_eq!(used.len(), usize::from(n), "{n} hosts");
        }
    }

    #[test]
    fn with_more_hosts_than_buckets_none_has_more_than_one_host_more_than_another() {
        let policy = HostFair { buckets: 7, ..policy() };
        let shaped = policy.plan(&hosts(24), Tell::Source).expect("a plan");
        let mut count = BTreeMap::new();
        for filter in drr(&shaped).filters.iter().filter(|f| f.protocol == Protocol::IP) {
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
            assert_ne!(pair[0].protocol, pair[1].protocol);
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
    fn nonsense_is_refused() {
        let slow = HostFair::new(Rate::from_bps(8_000));
        assert!(matches!(slow.plan(&hosts(1), Tell::Source), Err(PolicyError::RateTooLow { .. })));
        let none = HostFair { buckets: 0, ..policy() };
        assert_eq!(none.plan(&hosts(1), Tell::Source), Err(PolicyError::Buckets(0)));
        assert_eq!(policy().plan(&[], Tell::Source), Err(PolicyError::NoHosts));
        let floors = HostFair { normal_floor: percent(60), bulk_floor: percent(40), ..policy() };
        assert!(matches!(floors.plan(&hosts(1), Tell::Source), Err(PolicyError::Floors(_))));
    }
}
