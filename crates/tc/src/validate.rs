//! The rules that a tree must keep, most of them learnt from what the kernel does when they are broken.

use crate::filter::FilterKind;
use crate::qdisc::need;
use crate::{
    Class, ClassKind, Filter, Flow, FlowMode, Flower, Handle, Protocol, Qdisc, merge_keys,
};

/// Why a tree can't be put on an interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    #[error(
        "both `ingress` and `clsact` are given, but they take the same place: put the filters of `ingress` into `clsact`"
    )]
    IngressAndClsact,
    #[error("`{handle}` can't name a queue: use a major from 1 to fffe and no minor, like \"1:\"")]
    NotAQueueHandle { handle: Handle },
    #[error("`{handle}` is used twice: each queue needs its own major, each class its own id")]
    Duplicate { handle: Handle },
    #[error(
        "class `{class}` is in queue `{queue}`, so its id must be `{queue}` and a minor from 1 to ffff"
    )]
    WrongMajor { class: Handle, queue: Handle },
    #[error(
        "{filter}: its class `{class}` is not in queue `{queue}`: packets that match would not go there"
    )]
    UnknownClass { filter: String, class: Handle, queue: Handle },
    #[error(
        "queue `{queue}`: {kind} drops each packet that no filter matches. Add a last filter that matches everything: {{ kind = \"flow\", mode = \"hash\", keys = [\"src\", \"dst\", \"proto\", \"proto-src\", \
         \"proto-dst\"] }} or {{ kind = \"matchall\", class = … }}, on protocol all"
    )]
    NoCatchAll { kind: &'static str, queue: Handle },
    #[error("queue `{queue}`: {problem}")]
    Queue { queue: Handle, problem: String },
    #[error("class `{class}`: {problem}")]
    Class { class: Handle, problem: String },
    #[error("{filter}: {problem}")]
    Filter { filter: String, problem: String },
    #[error(
        "there are no handles left: at most 32767 queues, and 65535 classes and filters in each"
    )]
    NoHandleLeft,
}

pub(crate) fn qdisc(queue: Handle, qdisc: &Qdisc) -> Result<(), TreeError> {
    qdisc.check().map_err(|problem| TreeError::Queue { queue, problem })
}

pub(crate) fn class(id: Handle, parent: &Qdisc, class: &Class) -> Result<(), TreeError> {
    let checked = check_class(id, parent, class);
    checked.map_err(|problem| TreeError::Class { class: id, problem })
}

fn check_class(id: Handle, parent: &Qdisc, class: &Class) -> Result<(), String> {
    let Some(wanted) = ClassKind::under(parent) else {
        return Err(format!("`{}` has no classes", parent.kind()));
    };
    need(
        wanted.name() == class.kind.name(),
        &format!("a {} class can't be in a queue of kind {}", class.kind.name(), parent.kind()),
    )?;
    need(
        class.queue.is_none() || class.classes.is_empty(),
        "a class with classes below it is no leaf and can't have a queue",
    )?;
    need(wanted.nests() || class.classes.is_empty(), "only classes of htb and hfsc hold classes")?;
    need(
        wanted.nests() || class.filters.is_empty(),
        "only classes of htb and hfsc have filters: put them on the queue",
    )?;
    if let ClassKind::Band = class.kind {
        let bands = parent.implicit_classes().unwrap_or(1..=1);
        let one = format!("there are bands {} to {} only", bands.start(), bands.end());
        need(bands.contains(&id.minor), &one)?;
    }
    class.kind.check()
}

/// HTB's and HFSC's default must be a leaf that is there.
pub(crate) fn default_class(
    qdisc: &Qdisc,
    queue: Handle,
    classes: &[Class],
) -> Result<(), TreeError> {
    let default = match qdisc {
        Qdisc::Htb(htb) => htb.default,
        Qdisc::Hfsc(hfsc) => hfsc.default,
        _ => None,
    };
    let Some(default) = default else { return Ok(()) };
    let mut below: Vec<&Class> = classes.iter().collect();
    while let Some(class) = below.pop() {
        if class.id == Some(default) && class.classes.is_empty() {
            return Ok(());
        }
        below.extend(&class.classes);
    }
    let problem = format!("its default class `{default}` is none of its leaf classes");
    Err(TreeError::Queue { queue, problem })
}

pub(crate) fn catch_all(qdisc: &Qdisc, queue: Handle, filters: &[Filter]) -> Result<(), TreeError> {
    // DRR has no way of its own to choose a class; the others only lose packets once a filter is attached.
    let exposed = !filters.is_empty() || matches!(qdisc, Qdisc::Drr(_));
    if !qdisc.drops_unmatched() || !exposed || filters.iter().any(Filter::is_catch_all) {
        return Ok(());
    }
    Err(TreeError::NoCatchAll { kind: qdisc.kind(), queue })
}

impl Filter {
    /// The classes that it names.
    pub(crate) fn targets(&self) -> Vec<Handle> {
        let base = match &self.kind {
            FilterKind::Flow(flow) => flow.baseclass,
            FilterKind::Classify(config) => return config.classes().collect(),
            _ => None,
        };
        self.class.into_iter().chain(base).collect()
    }
}

/// Checks a filter on its own and beside one of the same priority, which stands for all of that.
pub(crate) fn filter(
    filter: &Filter,
    beside: Option<&Filter>,
    on_queue: bool,
) -> Result<(), String> {
    need(filter.prio != Some(0), "`prio` is from 1 to 65535")?;
    if let Some(other) = beside {
        need(
            other.kind.name() == filter.kind.name() && other.protocol == filter.protocol,
            "filters of one `prio` must be of one kind and protocol",
        )?;
    }
    match &filter.kind {
        FilterKind::U32(u32) => {
            need(
                !u32.r#match.is_empty(),
                "u32 needs `match`; \"u32 0x0 0x0 at 0\" matches everything",
            )?;
            need(filter.handle.is_none(), "a u32 filter's handle is the kernel's to give")?;
            let keys = merge_keys(&u32.r#match);
            need(keys.is_some(), "two matches contradict each other: it would never match")?;
            need(keys.is_some_and(|keys| keys.len() <= 128), "more than 128 comparisons")?;
        }
        FilterKind::Flow(flow) => {
            need(filter.class.is_none(), "flow has `baseclass` instead of `class`")?;
            check_flow(flow, filter.handle.is_some_and(|handle| handle != 0))?;
        }
        FilterKind::Flower(flower) => check_flower(flower, filter.protocol)?,
        FilterKind::Classify(_) => {
            need(filter.class.is_none(), "classify has `base` instead of `class`")?;
            need(filter.actions.is_empty(), "classify has no `action`")?;
            need(filter.protocol == Protocol::ALL, "classify looks at every `protocol`")?;
            need(on_queue, "classify chooses a class, so it belongs on a queue")?;
        }
        FilterKind::Roster(_) => need(on_queue, "it chooses a class, so it belongs on a queue")?,
        FilterKind::Fw(_) | FilterKind::Matchall(_) | FilterKind::Bpf(_) => {}
    }
    let decides = matches!(
        filter.kind,
        FilterKind::Flow(_)
            | FilterKind::Bpf(_)
            | FilterKind::Fw(_)
            | FilterKind::Classify(_)
            | FilterKind::Roster(_)
    );
    need(
        decides || filter.class.is_some() || !filter.actions.is_empty() || !on_queue,
        "it has neither `class` nor `action`, so it does nothing",
    )
}

fn check_flow(flow: &Flow, named: bool) -> Result<(), String> {
    need(named, "flow needs a `handle` of its own, like 1: the kernel takes none without")?;
    need(!flow.keys.is_empty(), "flow needs `keys`, like [\"src\", \"dst\"]")?;
    let bits = [flow.and, flow.or, flow.xor].iter().flatten().count();
    need(bits <= 1, "give one of `and`, `or`, `xor`")?;
    match flow.mode {
        FlowMode::Map => {
            need(flow.keys.len() == 1, "a map has one key; several need mode = \"hash\"")?;
            need(flow.perturb.is_none(), "only a hash has `perturb`")
        }
        FlowMode::Hash => {
            let map_only = bits > 0 || flow.rshift.is_some() || flow.addend.is_some();
            need(!map_only, "a hash has no `rshift`, `addend`, `and`, `or`, `xor`")?;
            let seconds = flow.perturb.is_none_or(|span| span.nanos() % 1_000_000_000 == 0);
            need(seconds, "`perturb` is in whole seconds")
        }
    }
}

fn check_flower(flower: &Flower, protocol: Protocol) -> Result<(), String> {
    let prefixes: Vec<_> = [flower.src_ip, flower.dst_ip].into_iter().flatten().collect();
    let family = flower.family();
    need(
        prefixes.iter().all(|p| Some(p.address.is_ipv6()) == family.map(|f| f == Protocol::IPV6)),
        "the addresses are of two families",
    )?;
    need(
        family.is_none_or(|family| family == protocol || protocol == Protocol::ALL),
        "addresses need protocol = \"ip\" or \"ipv6\", as they are, or \"all\"",
    )?;
    let about_ip = flower.ip_proto.is_some() || flower.ip_tos.is_some();
    need(
        !about_ip || matches!(protocol, Protocol::IP | Protocol::IPV6),
        "`ip_proto` and `ip_tos` need protocol = \"ip\" or \"ipv6\"",
    )?;
    let ports = flower.src_port.is_some() || flower.dst_port.is_some();
    need(
        !ports || flower.ip_proto.is_some_and(|proto| proto.has_ports()),
        "ports need ip_proto = \"tcp\", \"udp\" or \"sctp\"",
    )
}
