//! Which kinds of queues and filters the running kernel has.

use quell_classify::{Classifier, ClassifyError, Config, HostKey};
use quell_netlink::Stack;
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::VethEnd;
use quell_netlink::tc;
use quell_shaper::{Lack, instead, too_many};
use quell_sys::netns::NetNs;
use quell_tc::qdisc::{Drr, FqCodel, Htb, Sfq};
use quell_tc::{
    Action, Bpf, BpfProgram, Class, ClassKind, Filter, FilterKind, Flower, Fw, Handle, HtbClass,
    Ingress, Match, Matchall, Places, Qdisc, Queue, Step, Thing, Tree, U32,
};
use quell_units::Rate;

/// Whether the kernel has a kind of queue. None where that can't be tried.
pub fn kernel_has(qdisc: Qdisc) -> Option<bool> {
    // Bare, so without what a tree must have for packets to pass.
    takes(&[Thing::Step(Step::Qdisc { parent: Handle::ROOT, handle: Handle::qdisc(1), qdisc })])
}

/// Whether the kernel takes queues and filters; tried in a namespace of its own.
fn takes(things: &[Thing]) -> Option<bool> {
    NetNs::new().ok()?.run(|| try_on_a_cable(things)).ok()?
}

fn try_on_a_cable(things: &[Thing]) -> Option<bool> {
    let mut stack = Stack::open().ok()?;
    let end = |name: &str| Some(VethEnd::new(name.parse().ok()?));
    stack.create_veth(&end("here")?, &end("there")?).ok()?;
    let index = stack.index_of(&"here".parse().ok()?).ok()?;
    let mut socket = Socket::open(Protocol::Route).ok()?;
    Some(tc::lead_to(&mut socket, index, things, Places::ALL).is_ok())
}

/// Puts what the kernel has in the place of what it lacks. What there is to say of that; an error says why that can't be.
pub fn with_what_there_is(trees: &mut [&mut Tree]) -> Result<Vec<String>, String> {
    let lacks = lacking(trees);
    let mut said: Vec<String> = Vec::new();
    for tree in trees {
        said.extend(instead(tree, &lacks).into_iter().map(str::to_owned));
        if let Some(many) = too_many(tree).filter(|_| lacks.contains(&Lack::Flower)) {
            return Err(format!(
                "this kernel has no flower, and u32, which would stand for it, tells no {many} prefixes of one length apart: load \
                 the module cls_flower"
            ));
        }
    }
    // Both ways lack the same.
    let mut known = std::collections::BTreeSet::new();
    said.retain(|one| known.insert(one.clone()));
    Ok(said)
}

/// What trees ask for and the kernel lacks.
pub fn lacking(trees: &mut [&mut Tree]) -> Vec<Lack> {
    let mut lacks: Vec<Lack> = Vec::new();
    for lack in Lack::ALL {
        let asked = trees.iter_mut().any(|tree| lack.is_asked_for(tree));
        if asked && is_lacking(lack) {
            lacks.push(lack);
        }
    }
    if lacks.contains(&Lack::FqCodel) && is_lacking(Lack::Sfq) {
        lacks.push(Lack::Sfq);
    }
    let flower = Lack::Flower;
    if lacks.contains(&Lack::Bpf) && !lacks.contains(&flower) && is_lacking(flower) {
        lacks.push(flower);
    }
    lacks
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
    let any = Match::Raw { width: 32, value: 0, mask: 0, at: 0 };
    let filter = Filter::new(U32 { r#match: vec![any] }, None);
    let takes = |filter: Filter| {
        let ingress = Some(Ingress { filters: vec![filter] });
        takes(&Tree { ingress, ..Tree::default() }.plan().ok()?.things())
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
    let takes = |queue: Queue| takes(&Tree::from(queue).plan().ok()?.things());
    takes(queue.clone()).filter(|takes| *takes)?;
    queue.filters.push(filter(id));
    takes(queue)
}
