//! Which kinds of queues and filters the running kernel has.

use quell_act::{kernel_has, kernel_takes};
use quell_classify::{Classifier, ClassifyError, Config, HostKey};
use quell_policy::{Lack, without_fq_codel};
use quell_tc::qdisc::{Drr, FqCodel, Htb, Sfq};
use quell_tc::{
    Action, Bpf, BpfProgram, Class, ClassKind, Filter, FilterKind, Flower, Fw, Handle, HtbClass,
    Ingress, Match, Matchall, Queue, Tree, U32,
};
use quell_units::Rate;

/// Puts what the kernel has in the place of fq_codel where it lacks that; what there is to say of it.
pub fn with_what_there_is(trees: &mut [&mut Tree]) -> Result<Vec<String>, String> {
    let lacks = lacking(trees)?;
    let said = trees.iter_mut().filter_map(|tree| lacks.stand_in(tree));
    // Both ways lack the same.
    Ok(said.last().into_iter().map(str::to_owned).collect())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeafLack {
    pub fq_codel: bool,
    pub sfq: bool,
}

impl LeafLack {
    pub fn stand_in(self, tree: &mut Tree) -> Option<&'static str> {
        if self.fq_codel { without_fq_codel(tree, !self.sfq) } else { None }
    }
}

/// What trees ask for and the kernel lacks, as far as something stands in for it.
pub fn lacking(trees: &mut [&mut Tree]) -> Result<LeafLack, String> {
    let lacks = lacks(trees);
    let modules: Vec<&str> =
        lacks.iter().filter(|lack| **lack != Lack::FqCodel).map(|lack| lack.module()).collect();
    if !modules.is_empty() {
        return Err(format!(
            "this kernel lacks what these queues need; load or build {}; --policy tiers or cake needs less",
            modules.join(", ")
        ));
    }
    let fq_codel = lacks.contains(&Lack::FqCodel);
    Ok(LeafLack { fq_codel, sfq: fq_codel && is_lacking(Lack::Sfq) })
}

pub fn lacks(trees: &mut [&mut Tree]) -> Vec<Lack> {
    let asked = |lack: &Lack| trees.iter_mut().any(|tree| lack.is_asked_for(tree));
    let all: Vec<Lack> = Lack::ALL.into_iter().filter(asked).collect();
    all.into_iter().filter(|lack| is_lacking(*lack)).collect()
}

/// Whether the kernel was asked, and has no such.
fn is_lacking(lack: Lack) -> bool {
    let takes = match lack {
        Lack::FqCodel => kernel_has(FqCodel::default().into()),
        Lack::Sfq => kernel_has(Sfq::default().into()),
        Lack::Drr => kernel_has(Drr::default().into()),
        Lack::Bpf => filters_by(nothing()),
        Lack::Flower => filters_by(Flower::default().into()),
        Lack::Matchall => filters_by(Matchall {}.into()),
    };
    takes == Some(false)
}

/// Whether a filter of ours can be a BPF program here; why not where it can't.
pub fn may_classify() -> Result<(), ClassifyError> {
    let config = Config::cake(HostKey::Src).expect("it is one that fits together");
    Classifier::load(&config)?;
    may_filter_by_program()
}

/// Whether the kernel takes a BPF program as a filter; why not where it was built without that, so that nobody's would serve.
pub fn may_filter_by_program() -> Result<(), ClassifyError> {
    if filters_by(nothing()) == Some(false) { Err(ClassifyError::NoFilter) } else { Ok(()) }
}

/// A program that finds no packet.
fn nothing() -> FilterKind {
    let program = BpfProgram::Bytecode(vec![[6, 0, 0, 0]]);
    Bpf { program, direct_action: false }.into()
}

/// Whether packets that come can be given the mark of their connection (tc's action `connmark`). None where that can't be tried.
pub fn has_connmark() -> Option<bool> {
    let any = Match::Raw { width: 32, value: 0, mask: 0, at: 0, next_header: false };
    let filter = Filter::new(U32 { r#match: vec![any] }, None);
    let takes = |filter: Filter| {
        let ingress = Some(Ingress { filters: vec![filter] });
        kernel_takes(&Tree { ingress, ..Tree::default() }.plan().ok()?.things())
    };
    // Without redirection nothing that comes is shaped at all.
    let redirect = || Action::Redirect("here".to_owned());
    takes(filter.clone().with_action(redirect())).filter(|takes| *takes)?;
    takes(filter.with_action(Action::Connmark).with_action(redirect()))
}

/// Whether the kernel has filters by firewall mark. None where that can't be tried.
pub fn filters_by_mark() -> Option<bool> {
    takes_filter(|class| {
        let mut filter = Filter::new(Fw::default(), Some(class));
        filter.handle = Some(1);
        filter
    })
}

fn filters_by(kind: FilterKind) -> Option<bool> {
    takes_filter(|class| Filter::new(kind, Some(class)))
}

fn takes_filter(filter: impl FnOnce(Handle) -> Filter) -> Option<bool> {
    let id = Handle::class(1, 1);
    let class = HtbClass { rate: Some(Rate::from_bps(1_000_000)), ..HtbClass::default() };
    let mut queue = Queue::from(Htb::default())
        .with_handle(Handle::qdisc(1))
        .with_class(Class::new(id, ClassKind::Htb(class)));
    // Without filters at all, or without HTB, nothing is known of this one.
    let takes = |queue: Queue| kernel_takes(&Tree::from(queue).plan().ok()?.things());
    takes(queue.clone()).filter(|takes| *takes)?;
    queue.filters.push(filter(id));
    takes(queue)
}
