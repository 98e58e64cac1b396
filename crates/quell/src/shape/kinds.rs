//! Which kinds of queue the running kernel has, and what is used instead of one that it lacks.

use quell_netlink::Stack;
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::VethEnd;
use quell_netlink::tc;
use quell_sys::netns::NetNs;
use quell_tc::qdisc::{FqCodel, Pfifo, Sfq};
use quell_tc::{Class, Places, Qdisc, Queue, Tree};

/// Whether the kernel has a kind of queue; tried in a namespace of its own. None where that can't be tried.
pub fn kernel_has(qdisc: Qdisc) -> Option<bool> {
    let things = Tree::from(Queue::from(qdisc)).plan().ok()?.things();
    NetNs::new().ok()?.run(|| try_on_a_cable(&things)).ok()?
}

fn try_on_a_cable(things: &[quell_tc::Thing]) -> Option<bool> {
    let mut stack = Stack::open().ok()?;
    let end = |name: &str| Some(VethEnd::new(name.parse().ok()?));
    stack.create_veth(&end("here")?, &end("there")?).ok()?;
    let index = stack.index_of(&"here".parse().ok()?).ok()?;
    let mut socket = Socket::open(Protocol::Route).ok()?;
    Some(tc::lead_to(&mut socket, index, things, Places::ALL).is_ok())
}

/// Puts another queue in the place of fq_codel, on a kernel that has none. What there is to say of that.
pub fn without_fq_codel(trees: &mut [&mut Tree]) -> Option<String> {
    let has = |qdisc: Qdisc| kernel_has(qdisc) != Some(false);
    if !trees.iter_mut().any(|tree| count(tree) > 0) || has(FqCodel::default().into()) {
        return None;
    }
    let sfq = has(Sfq::default().into());
    trees.iter_mut().for_each(|tree| replace(tree, sfq));
    Some(match sfq {
        true => "this kernel has no fq_codel: sfq instead, fair between flows too, but what waits waits longer".into(),
        false => "this kernel has neither fq_codel nor sfq: a plain queue instead, where a flow that sends much delays the others of its class".into(),
    })
}

fn count(tree: &mut Tree) -> usize {
    let mut found = 0;
    each(tree, &mut |qdisc| found += usize::from(matches!(qdisc, Qdisc::FqCodel(_))));
    found
}

fn replace(tree: &mut Tree, sfq: bool) {
    each(tree, &mut |qdisc| {
        if let Qdisc::FqCodel(FqCodel { limit, .. }) = qdisc {
            *qdisc = match sfq {
                true => Sfq::default().into(),
                false => Pfifo { limit: *limit }.into(),
            };
        }
    });
}

/// Calls a function for each queue of a tree.
fn each(tree: &mut Tree, what: &mut impl FnMut(&mut Qdisc)) {
    fn queue(at: &mut Queue, what: &mut impl FnMut(&mut Qdisc)) {
        what(&mut at.qdisc);
        at.classes.iter_mut().for_each(|below| class(below, what));
    }
    fn class(at: &mut Class, what: &mut impl FnMut(&mut Qdisc)) {
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
    use quell_shaper::Tiers;
    use quell_units::Rate;

    #[test]
    fn every_leaf_is_replaced_and_the_tree_is_one_that_a_kernel_takes() {
        for sfq in [true, false] {
            let mut tree = Tiers::new(Rate::from_bps(10_000_000)).plan().expect("a plan").tree;
            assert_eq!(count(&mut tree), 3);
            replace(&mut tree, sfq);
            assert_eq!(count(&mut tree), 0);
            tree.plan().expect("handles and parents fit together");
            let mut leaves = 0;
            each(&mut tree, &mut |qdisc| {
                leaves += usize::from(matches!((&*qdisc, sfq), (Qdisc::Sfq(_), true)));
                leaves += usize::from(
                    matches!((&*qdisc, sfq), (Qdisc::Pfifo(p), false) if p.limit.is_some()),
                );
            });
            assert_eq!(leaves, 3);
        }
    }
}
