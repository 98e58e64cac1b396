//! What a kernel may lack of what policies ask for. In the place of fq_codel stands sfq, or a plain queue; of all else the module is named.

use quell_tc::qdisc::{Pfifo, Sfq};
use quell_tc::{Bpf, BpfProgram, Class, FilterKind, Qdisc, Queue, Tree};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    FqCodel,
    /// Which would stand in the place of fq_codel.
    Sfq,
    Drr,
    /// Filters that are programs.
    Bpf,
    /// Filters by fields of a packet.
    Flower,
    Matchall,
}

impl Lack {
    /// All but sfq, which no policy asks for.
    pub const ALL: [Lack; 5] = [Lack::FqCodel, Lack::Drr, Lack::Bpf, Lack::Flower, Lack::Matchall];

    /// The kernel's module, with the option that builds it.
    pub fn module(self) -> &'static str {
        match self {
            Lack::FqCodel => "sch_fq_codel (CONFIG_NET_SCH_FQ_CODEL)",
            Lack::Sfq => "sch_sfq (CONFIG_NET_SCH_SFQ)",
            Lack::Drr => "sch_drr (CONFIG_NET_SCH_DRR)",
            Lack::Bpf => "cls_bpf (CONFIG_NET_CLS_BPF)",
            Lack::Flower => "cls_flower (CONFIG_NET_CLS_FLOWER)",
            Lack::Matchall => "cls_matchall (CONFIG_NET_CLS_MATCHALL)",
        }
    }

    pub fn name(self) -> &'static str {
        let module = self.module();
        module.split_once(' ').map_or(module, |(name, _)| name)
    }

    pub fn is_asked_for(self, tree: &mut Tree) -> bool {
        let mut found = false;
        each(tree, &mut |queue| {
            let filter = |is: fn(&FilterKind) -> bool| queue.filters.iter().any(|f| is(&f.kind));
            let bytecode = |kind: &FilterKind| {
                matches!(kind, FilterKind::Bpf(Bpf { program: BpfProgram::Bytecode(_), .. }))
            };
            found |= match self {
                Lack::FqCodel => matches!(queue.qdisc, Qdisc::FqCodel(_)),
                Lack::Sfq => matches!(queue.qdisc, Qdisc::Sfq(_)),
                Lack::Drr => matches!(queue.qdisc, Qdisc::Drr(_)),
                Lack::Bpf => filter(bytecode),
                Lack::Flower => filter(|kind| matches!(kind, FilterKind::Flower(_))),
                Lack::Matchall => filter(|kind| matches!(kind, FilterKind::Matchall(_))),
            };
        });
        found
    }
}

/// Puts sfq in the place of fq_codel, or a plain queue where there is no sfq either; what there is to say of that, if there was any. That queue is
/// short, since nothing else bounds what waits there: a tenth of what a flood may fill, which is 50 ms of the line and at least 10 packets.
pub fn without_fq_codel(tree: &mut Tree, has_sfq: bool) -> Option<&'static str> {
    let mut found = false;
    each(tree, &mut |queue| {
        if let Qdisc::FqCodel(fq_codel) = &queue.qdisc {
            found = true;
            queue.qdisc = match has_sfq {
                true => Sfq::default().into(),
                false => Pfifo { limit: fq_codel.limit.map(|packets| packets / 10) }.into(),
            };
        }
    });
    found.then_some(match has_sfq {
        true => {
            "this kernel has no fq_codel and no CAKE loaded, so nothing keeps delay short here: sfq instead, fair between flows. First try: modprobe sch_cake"
        }
        false => {
            "this kernel has no fq_codel, no CAKE and no sfq loaded: a plain queue of 50 ms instead, fair to no flow. First try: modprobe sch_cake"
        }
    })
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
    use crate::Tiers;
    use quell_units::Rate;

    #[test]
    fn a_tree_without_fq_codel_asks_for_none_and_fits_together() {
        for has_sfq in [true, false] {
            let tiers = Tiers::new(Rate::from_bps(10_000_000));
            let mut tree = tiers.plan().expect("a plan").tree;
            assert!(Lack::FqCodel.is_asked_for(&mut tree) && Lack::Bpf.is_asked_for(&mut tree));
            assert!(without_fq_codel(&mut tree, has_sfq).is_some());
            assert!(!Lack::FqCodel.is_asked_for(&mut tree));
            assert_eq!(Lack::Sfq.is_asked_for(&mut tree), has_sfq);
            assert_eq!(without_fq_codel(&mut tree, has_sfq), None);
            tree.plan().expect("handles and parents fit together");
        }
    }
}
