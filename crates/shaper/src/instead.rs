//! What a kernel lacks, and what does nearly the same there.
//!
//! ```text
//!   fq_codel ─► sfq, or a plain queue          flower, matchall ─► u32          drr ─► htb whose classes are never held back
//!   the tiers' program ─► flower
//! ```

use crate::host_fair::unbounded;
use crate::tier::{by_fields, first_tier};
use quell_tc::qdisc::{Htb, Pfifo, Sfq};
use quell_tc::{
    Bpf, BpfProgram, Class, ClassKind, Filter, FilterKind, Flower, Handle, Masked, Match, Prefix,
    Protocol, Qdisc, Queue, Tree, U32,
};

/// A kind that a kernel may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// fq_codel.
    FqCodel,
    /// sfq, which would stand in its place.
    Sfq,
    /// Deficit round robin.
    Drr,
    /// Filters that are programs.
    Bpf,
    /// Filters by fields of a packet.
    Flower,
    /// Filters that match every packet.
    Matchall,
}

impl Lack {
    /// All but sfq, which no policy asks for.
    pub const ALL: [Lack; 5] = [Lack::FqCodel, Lack::Drr, Lack::Bpf, Lack::Flower, Lack::Matchall];

    /// Whether a tree asks for it.
    pub fn is_asked_for(self, tree: &mut Tree) -> bool {
        let mut found = false;
        each(tree, &mut |queue| {
            let filter = |is: fn(&FilterKind) -> bool| queue.filters.iter().any(|f| is(&f.kind));
            found |= match self {
                Lack::FqCodel => matches!(queue.qdisc, Qdisc::FqCodel(_)),
                Lack::Sfq => matches!(queue.qdisc, Qdisc::Sfq(_)),
                Lack::Drr => matches!(queue.qdisc, Qdisc::Drr(_)),
                Lack::Bpf => filter(|kind| first_of(kind).is_some()),
                Lack::Flower => filter(|kind| matches!(kind, FilterKind::Flower(_))),
                Lack::Matchall => filter(|kind| matches!(kind, FilterKind::Matchall(_))),
            };
        });
        found
    }
}

/// Puts what a kernel has in the place of what it lacks. What there is to say of that.
pub fn instead(tree: &mut Tree, lacks: &[Lack]) -> Vec<&'static str> {
    let is = |lack: Lack, tree: &mut Tree| lacks.contains(&lack) && lack.is_asked_for(tree);
    let mut said = Vec::new();
    if is(Lack::FqCodel, tree) {
        let sfq = !lacks.contains(&Lack::Sfq);
        said.push(match sfq {
            true => "this kernel has no fq_codel: sfq instead, fair between flows too, but what waits waits longer",
            false => "this kernel has neither fq_codel nor sfq: a plain queue instead, where a flow that sends much delays the others of its class",
        });
        each(tree, &mut |queue| {
            if let Qdisc::FqCodel(fq_codel) = &queue.qdisc {
                queue.qdisc = match sfq {
                    true => Sfq::default().into(),
                    false => Pfifo { limit: fq_codel.limit }.into(),
                };
            }
        });
    }
    if is(Lack::Drr, tree) {
        said.push("this kernel has no DRR: HTB lets the hosts take turns instead");
        each(tree, &mut in_turn);
    }
    if is(Lack::Bpf, tree) {
        said.push("this kernel takes no program as a filter: others find the tiers, and what has a VLAN tag is of the normal one");
        each(tree, &mut |queue| {
            let of = |filter: &Filter| first_of(&filter.kind).map(by_fields);
            let filters = std::mem::take(&mut queue.filters);
            queue.filters =
                filters.into_iter().flat_map(|f| of(&f).unwrap_or_else(|| vec![f])).collect();
        });
    }
    let flower = is(Lack::Flower, tree);
    if flower {
        said.push(
            "this kernel has no flower: u32 instead, which tries one filter after the other, and finds nobody behind a VLAN tag",
        );
    }
    let matchall = is(Lack::Matchall, tree);
    if flower || matchall {
        each(tree, &mut |queue| {
            for filter in &mut queue.filters {
                let conditions = match &filter.kind {
                    FilterKind::Flower(flower) => {
                        // u32 sees bits, and not whose they are.
                        filter.protocol = flower.family().unwrap_or(filter.protocol);
                        conditions(flower, filter.protocol)
                    }
                    FilterKind::Matchall(_) if matchall => Some(Vec::new()),
                    _ => None,
                };
                if let Some(conditions) = conditions {
                    *filter = Filter { kind: by_bits(conditions), handle: None, ..filter.clone() };
                }
            }
            spread(queue);
        });
    }
    said
}

/// Filters of one priority that u32 keeps in the order in which they were made: from the 2049th on it gives them numbers from below, and tries
/// them first (`gen_new_kid`, net/sched/cls_u32.c).
const MOST_U32: usize = 2048;

/// Spreads the filters of one priority over several, where they are more than u32 keeps in order: by the class that they name, so that one more
/// or one less moves no other. All of a priority are about different packets then (prefixes of one length), and what comes first does not matter.
fn spread(queue: &mut Queue) {
    let most = most_of_one_priority(queue);
    let parts = (most / (MOST_U32 / 2)).next_power_of_two() as u16;
    let last = queue.filters.iter().filter_map(|filter| filter.prio).max().unwrap_or(0);
    let all_named = queue.filters.iter().all(|filter| filter.prio.is_some());
    if most <= MOST_U32 || !all_named || last.checked_mul(parts).is_none() {
        return;
    }
    for filter in &mut queue.filters {
        let part = filter.class.map_or(0, |class| class.minor % parts);
        // Priority 0 is the kernel's to give.
        filter.prio = filter.prio.map(|prio| (prio - 1) * parts + part + 1);
    }
}

/// How many u32 filters the fullest priority has.
fn most_of_one_priority(queue: &Queue) -> usize {
    let mut counts = std::collections::BTreeMap::new();
    for filter in queue.filters.iter().filter(|f| matches!(f.kind, FilterKind::U32(_))) {
        *counts.entry(filter.prio).or_insert(0) += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

/// Where u32 stands for flower: how many filters of one priority there are, if they are more than it keeps in order.
pub fn too_many(tree: &mut Tree) -> Option<usize> {
    let mut most = 0;
    each(tree, &mut |queue| most = most.max(most_of_one_priority(queue)));
    (most > MOST_U32).then_some(most)
}

/// A filter by conditions on a packet's bits; by none every packet.
fn by_bits(mut conditions: Vec<Match>) -> FilterKind {
    if conditions.is_empty() {
        conditions.push(Match::Raw { width: 32, value: 0, mask: 0, at: 0 });
    }
    U32 { r#match: conditions }.into()
}

/// The first tier, where a filter is the program that finds them.
fn first_of(kind: &FilterKind) -> Option<Handle> {
    match kind {
        FilterKind::Bpf(Bpf { program: BpfProgram::Bytecode(code), .. }) => first_tier(code),
        _ => None,
    }
}

/// What u32 can ask for of what a policy does; none where it can't.
fn conditions(flower: &Flower, protocol: Protocol) -> Option<Vec<Match>> {
    let Flower { src_ip, dst_ip, ip_tos, .. } = flower.clone();
    if *flower != (Flower { src_ip, dst_ip, ip_tos, ..Flower::default() }) {
        return None;
    }
    let address = |source, prefix: Option<Prefix>| {
        prefix.filter(|p| p.length > 0).map(|prefix| Match::Address { source, prefix })
    };
    let v6 = protocol == Protocol::IPV6;
    let tos = ip_tos.map(|Masked { value, mask }| Match::Tos { v6, value, mask });
    Some([address(true, src_ip), address(false, dst_ip), tos].into_iter().flatten().collect())
}

/// Classes of HTB that are always within their rate take turns by their quanta, as DRR's do (`htb_dequeue_tree`, net/sched/sch_htb.c).
fn in_turn(queue: &mut Queue) {
    if !matches!(queue.qdisc, Qdisc::Drr(_)) {
        return;
    }
    let rest = queue.filters.iter().find(|filter| filter.is_catch_all());
    queue.qdisc = Htb { default: rest.and_then(|filter| filter.class), ..Htb::default() }.into();
    for class in &mut queue.classes {
        if let ClassKind::Drr(turn) = &class.kind {
            let mut htb = unbounded();
            htb.quantum = turn.quantum;
            class.kind = ClassKind::Htb(htb);
        }
    }
}

/// Calls a function for each queue of a tree, the outermost first.
fn each(tree: &mut Tree, what: &mut impl FnMut(&mut Queue)) {
    fn queue(at: &mut Queue, what: &mut impl FnMut(&mut Queue)) {
        what(at);
        at.classes.iter_mut().for_each(|below| class(below, what));
    }
    fn class(at: &mut Class, what: &mut impl FnMut(&mut Queue)) {
        if let Some(leaf) = &mut at.queue {
            queue(leaf, what);
        }
        at.classes.iter_mut().for_each(|below| class(below, what));
    }
    if let Some(root) = &mut tree.queue {
        queue(root, what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, HostFair, Tell, Tiers};
    use quell_units::Rate;

    fn trees() -> [Tree; 2] {
        let rate = Rate::from_bps(10_000_000);
        let addresses =
            vec!["192.0.2.7".parse().expect("IPv4"), "2001:db8::7".parse().expect("IPv6")];
        let host = Host { name: "a".into(), addresses };
        let fair = HostFair::new(rate).plan(&[host], Tell::Destination).expect("a plan");
        [Tiers::new(rate).plan().expect("a plan").tree, fair.tree]
    }

    #[test]
    fn whatever_a_kernel_lacks_the_tree_asks_for_none_of_it_and_fits_together() {
        let mut all = Lack::ALL.to_vec();
        for lacks in [vec![Lack::FqCodel], vec![Lack::Drr], vec![Lack::Bpf, Lack::Flower], {
            all.push(Lack::Sfq);
            all
        }] {
            for mut tree in trees() {
                let asked = lacks.iter().any(|lack| lack.is_asked_for(&mut tree));
                assert_eq!(!instead(&mut tree, &lacks).is_empty(), asked, "{lacks:?}");
                assert!(!lacks.iter().any(|lack| lack.is_asked_for(&mut tree)), "{lacks:?}");
                tree.plan().expect("handles and parents fit together");
            }
        }
        for mut tree in trees() {
            let before = tree.clone();
            assert!(instead(&mut tree, &[]).is_empty());
            assert_eq!(tree, before);
        }
    }

    /// A queue with so many filters of priority 7, and one of 8; each names a class.
    fn with_filters(count: u16, class: impl Fn(u16) -> u16) -> Tree {
        let [mut tiers, _] = trees();
        let root = tiers.queue.as_mut().expect("a root");
        let mut filter = by_fields(Handle::class(1, 1))[0].clone();
        let mut named = |prio, minor| {
            (filter.prio, filter.class) = (Some(prio), Some(Handle::class(1, minor)));
            filter.clone()
        };
        root.filters = (0..count).map(|n| named(7, class(n))).collect();
        root.filters.push(named(8, 1));
        instead(&mut tiers, &[Lack::Bpf, Lack::Flower]);
        tiers
    }

    #[test]
    fn more_prefixes_than_u32_keeps_in_order_are_spread_and_one_more_moves_none() {
        let prios = |count| -> Vec<u16> {
            let mut tree = with_filters(count, |n| n.wrapping_mul(7919) % 60_000);
            assert_eq!(too_many(&mut tree), None);
            tree.queue.expect("a root").filters.iter().filter_map(|f| f.prio).collect()
        };
        assert_eq!(prios(2048), [vec![7; 2048], vec![8]].concat(), "so many are kept in order");
        let (many, more) = (prios(10_000), prios(10_001));
        assert_eq!(many[..10_000], more[..10_000]);
        let last = many[..10_000].iter().max().expect("filters");
        assert!(last < &many[10_000], "a longer prefix still comes first");
        // All of one class: they can't be spread, and that is found out.
        let mut tree = with_filters(2049, |_| 1);
        assert_eq!(too_many(&mut tree), Some(2049));
    }

    #[test]
    fn bits_are_asked_for_as_fields_were() {
        let [_, mut fair] = trees();
        instead(&mut fair, &[Lack::Bpf, Lack::Flower, Lack::Matchall]);
        let mut filters = Vec::new();
        each(&mut fair, &mut |queue| filters.extend(queue.filters.clone()));
        let commands: Vec<String> = filters
            .iter()
            .filter_map(|filter| match &filter.kind {
                FilterKind::U32(u32) => Some(u32.r#match.iter().map(ToString::to_string).collect()),
                _ => None,
            })
            .collect();
        for wanted in ["ip dst 192.0.2.7/32", "ip6 dst 2001:db8::7/128", "ip tos 0xb8 0xfc"] {
            assert!(commands.iter().any(|c| c == wanted), "{wanted} in {commands:?}");
        }
        assert!(filters.iter().any(Filter::is_catch_all), "packets of strangers are not lost");
        let mut others = filters.iter().filter(|filter| !filter.is_catch_all());
        assert!(
            others.all(|f| f.protocol != Protocol::ALL),
            "bits alone do not say whose they are"
        );
    }
}
