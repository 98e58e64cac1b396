//! The rules that a tree must keep, most of them learnt from what the kernel does when they are broken.

use std::ops::RangeInclusive;

use quell_units::Rate;

use crate::filter::FilterKind;
use crate::qdisc::{Ets, Netem, Sfq, Tbf};
use crate::{
    Class, ClassKind, Filter, Flow, FlowMode, Flower, Handle, Protocol, Qdisc, merge_keys,
};

/// Why a tree can't be put on an interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// `ingress` and `clsact` take the same place.
    #[error(
        "both `ingress` and `clsact` are given, but they take the same place: put the filters of `ingress` into `clsact`"
    )]
    IngressAndClsact,
    /// A queue's handle has a minor, or is one that the kernel keeps for itself.
    #[error("`{handle}` can't name a queue: use a major from 1 to fffe and no minor, like \"1:\"")]
    NotAQueueHandle {
        /// What was given.
        handle: Handle,
    },
    /// Two things have one name.
    #[error("`{handle}` is used twice: each queue needs its own major, each class its own id")]
    Duplicate {
        /// The name.
        handle: Handle,
    },
    /// A class id does not begin with its queue's major.
    #[error(
        "class `{class}` is in queue `{queue}`, so its id must be `{queue}` and a minor from 1 to ffff"
    )]
    WrongMajor {
        /// The class.
        class: Handle,
        /// Its queue.
        queue: Handle,
    },
    /// A filter names a class that is not there.
    #[error(
        "{filter}: its class `{class}` is not in queue `{queue}`: packets that match would not go there"
    )]
    UnknownClass {
        /// The filter.
        filter: String,
        /// The class it names.
        class: Handle,
        /// The queue it hangs on.
        queue: Handle,
    },
    /// A filter without a catch-all where the rest is dropped.
    #[error(
        "queue `{queue}`: {kind} drops each packet that no filter matches: add a last filter that matches \
         everything, like {{ kind = \"flow\", mode = \"hash\", keys = [\"src\", \"dst\", \"proto\", \"proto-src\", \
         \"proto-dst\"] }} or {{ kind = \"matchall\", class = … }}, on protocol all"
    )]
    NoCatchAll {
        /// The queue's kind.
        kind: &'static str,
        /// Its handle.
        queue: Handle,
    },
    /// An option of a queue is missing or out of range.
    #[error("queue `{queue}`: {problem}")]
    Queue {
        /// The queue.
        queue: Handle,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// An option of a class is missing or out of range.
    #[error("class `{class}`: {problem}")]
    Class {
        /// The class.
        class: Handle,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A filter makes no sense.
    #[error("{filter}: {problem}")]
    Filter {
        /// The filter.
        filter: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// More queues, classes or filters than there are numbers.
    #[error(
        "there are no handles left: at most 32767 queues, and 65535 classes and filters in each"
    )]
    NoHandleLeft,
}

/// Minors that exist without being written: bands, and the flow queues inside classless queues.
pub(crate) fn implicit_classes(qdisc: &Qdisc) -> Option<RangeInclusive<u16>> {
    let up_to = |count: u32| 1..=u16::try_from(count).unwrap_or(u16::MAX);
    Some(match qdisc {
        Qdisc::Prio(prio) => up_to(prio.band_count().into()),
        Qdisc::Ets(ets) => up_to(ets.band_count().into()),
        Qdisc::FqCodel(fq_codel) => up_to(fq_codel.flows.unwrap_or(1024)),
        Qdisc::FqPie(fq_pie) => up_to(fq_pie.flows.unwrap_or(1024)),
        Qdisc::Sfq(sfq) => up_to(sfq.divisor.unwrap_or(1024)),
        Qdisc::Tbf(_) | Qdisc::Netem(_) | Qdisc::Red(_) => 1..=1,
        Qdisc::Cake(_) => 1..=u16::MAX,
        _ => return None,
    })
}

pub(crate) fn qdisc(queue: Handle, qdisc: &Qdisc) -> Result<(), TreeError> {
    let checked = match qdisc {
        Qdisc::Tbf(tbf) => check_tbf(tbf),
        Qdisc::Netem(netem) => check_netem(netem),
        Qdisc::Sfq(sfq) => check_sfq(sfq),
        Qdisc::Ets(ets) => check_ets(ets),
        Qdisc::Red(red) => {
            need(red.limit.is_some(), "red needs `limit`, the queue's length in bytes")
                .and_then(|()| {
                    need(
                        red.avpkt.is_some_and(|avpkt| avpkt.get() > 0),
                        "red needs `avpkt`, usually \"1000\"",
                    )
                })
                .and_then(|()| {
                    need(
                        red.nodrop != Some(true) || red.ecn == Some(true),
                        "`nodrop` needs ecn = true",
                    )
                })
        }
        Qdisc::Prio(prio) => need((2..=16).contains(&prio.band_count()), "prio has 2 to 16 bands")
            .and_then(|()| priomap(&prio.priomap, prio.band_count())),
        Qdisc::FqCodel(fq_codel) => flows(fq_codel.flows),
        Qdisc::FqPie(fq_pie) => flows(fq_pie.flows),
        Qdisc::Fq(fq) => need(
            fq.buckets.is_none_or(|n| n.is_power_of_two() && n <= 1 << 18),
            "`buckets` must be a power of two up to 262144",
        ),
        Qdisc::Cake(cake) => need(
            cake.overhead.is_none_or(|n| (-64..=256).contains(&n)),
            "`overhead` must be from -64 to 256",
        )
        .and_then(|()| need(cake.mpu.is_none_or(|n| n <= 256), "`mpu` must be at most 256"))
        .and_then(|()| nonzero(cake.bandwidth, "bandwidth")),
        Qdisc::Htb(htb) => need(htb.r2q != Some(0), "`r2q` must be at least 1"),
        _ => Ok(()),
    };
    checked.map_err(|problem| TreeError::Queue { queue, problem })
}

fn need(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

fn nonzero(rate: Option<Rate>, what: &str) -> Result<(), String> {
    // Below 8 bit/s the kernel, which counts bytes, sees zero.
    need(rate.is_none_or(|rate| rate.bytes_per_second() > 0), &format!("`{what}` is zero"))
}

fn flows(flows: Option<u32>) -> Result<(), String> {
    need(flows.is_none_or(|n| (1..=65536).contains(&n)), "`flows` must be from 1 to 65536")
}

fn priomap(map: &[u8], bands: u8) -> Result<(), String> {
    need(
        map.is_empty() || map.len() == 16,
        "`priomap` must name a band for each of 16 priorities",
    )?;
    need(
        map.iter().all(|band| *band < bands),
        &format!(
            "`priomap` names a band beyond the last, {}: bands count from 0",
            bands.saturating_sub(1)
        ),
    )
}

fn check_tbf(tbf: &Tbf) -> Result<(), String> {
    need(tbf.rate.is_some(), "tbf needs `rate`")?;
    nonzero(tbf.rate, "rate")?;
    nonzero(tbf.peakrate, "peakrate")?;
    need(tbf.burst.is_some_and(|burst| burst.get() > 0), "tbf needs `burst`, at least one packet")?;
    need(tbf.limit.is_some() != tbf.latency.is_some(), "tbf needs one of `limit` and `latency`")?;
    need(tbf.peakrate.is_none() || tbf.mtu.is_some(), "`peakrate` needs `mtu`, at least one packet")
}

fn check_netem(netem: &Netem) -> Result<(), String> {
    need(
        netem.gemodel.is_none() || (netem.loss.is_none() && netem.loss_correlation.is_none()),
        "`loss` and `gemodel` are two ways to lose packets: give one",
    )?;
    need(netem.jitter.is_none() || netem.delay.is_some(), "`jitter` needs `delay`")?;
    need(netem.reorder.is_none() || netem.delay.is_some(), "`reorder` needs `delay`")?;
    need(netem.gap.is_none() || netem.reorder.is_some(), "`gap` needs `reorder`")?;
    for (name, whole, part) in [
        ("delay_correlation", netem.jitter.is_some(), netem.delay_correlation.is_some()),
        ("loss_correlation", netem.loss.is_some(), netem.loss_correlation.is_some()),
        ("duplicate_correlation", netem.duplicate.is_some(), netem.duplicate_correlation.is_some()),
        ("corrupt_correlation", netem.corrupt.is_some(), netem.corrupt_correlation.is_some()),
        ("reorder_correlation", netem.reorder.is_some(), netem.reorder_correlation.is_some()),
    ] {
        need(whole || !part, &format!("`{name}` has nothing to correlate"))?;
    }
    let framing = netem.packet_overhead.is_some()
        || netem.cell_size.is_some()
        || netem.cell_overhead.is_some();
    need(netem.rate.is_some() || !framing, "overhead and cells need `rate`")?;
    nonzero(netem.rate, "rate")
}

fn check_sfq(sfq: &Sfq) -> Result<(), String> {
    let seconds = sfq.perturb.is_none_or(|span| span.nanos() % 1_000_000_000 == 0);
    need(seconds, "`perturb` is in whole seconds")?;
    let fits = sfq.divisor.is_none_or(|n| n.is_power_of_two() && n <= 65536);
    need(fits, "`divisor` must be a power of two up to 65536")?;
    let red = sfq.min.is_some()
        || sfq.max.is_some()
        || sfq.avpkt.is_some()
        || sfq.burst.is_some()
        || sfq.probability.is_some()
        || sfq.ecn.is_some()
        || sfq.harddrop.is_some();
    need(sfq.redflowlimit.is_some() || !red, "RED in sfq needs `redflowlimit`")
}

fn check_ets(ets: &Ets) -> Result<(), String> {
    let bands = ets.band_count();
    need((1..=16).contains(&bands), "ets has 1 to 16 bands: give `bands`, `strict` or `quanta`")?;
    let named = usize::from(ets.strict.unwrap_or(0)) + ets.quanta.len();
    need(named <= usize::from(bands), "`strict` and `quanta` name more bands than there are")?;
    need(ets.quanta.iter().all(|quantum| quantum.get() > 0), "a quantum of zero")?;
    priomap(&ets.priomap, bands)
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
    match &class.kind {
        ClassKind::Htb(htb) => {
            need(htb.rate.is_some(), "an htb class needs `rate`")?;
            nonzero(htb.rate, "rate")?;
            nonzero(htb.ceil, "ceil")?;
            need(htb.ceil.is_none_or(|ceil| Some(ceil) >= htb.rate), "`ceil` is below `rate`")?;
            need(htb.prio.is_none_or(|prio| prio <= 7), "`prio` is from 0 to 7")
        }
        ClassKind::Hfsc(hfsc) => {
            need(hfsc.rt.is_some() || hfsc.ls.is_some(), "an hfsc class needs `rt` or `ls`")?;
            need(hfsc.ul.is_none() || hfsc.ls.is_some(), "`ul` needs `ls`")
        }
        ClassKind::Drr(drr) => {
            need(drr.quantum.is_none_or(|quantum| quantum.get() > 0), "`quantum` is zero")
        }
        ClassKind::Band => {
            let bands = implicit_classes(parent).unwrap_or(1..=1);
            need(
                bands.contains(&id.minor),
                &format!("there are bands {} to {} only", bands.start(), bands.end()),
            )
        }
    }
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

impl Ets {
    /// Bands after defaults.
    pub fn band_count(&self) -> u8 {
        let named = usize::from(self.strict.unwrap_or(0)) + self.quanta.len();
        self.bands.unwrap_or(u8::try_from(named).unwrap_or(u8::MAX))
    }
}

impl Filter {
    /// The classes that it names.
    pub(crate) fn targets(&self) -> Vec<Handle> {
        let base = match &self.kind {
            FilterKind::Flow(flow) => flow.baseclass,
            _ => None,
        };
        self.class.into_iter().chain(base).collect()
    }
}

/// Checks a filter on its own and beside those before it.
pub(crate) fn filter(filter: &Filter, before: &[Filter], on_queue: bool) -> Result<(), String> {
    need(filter.prio != Some(0), "`prio` is from 1 to 65535")?;
    for other in before.iter().filter(|other| other.prio == filter.prio) {
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
            check_flow(flow)?;
        }
        FilterKind::Flower(flower) => check_flower(flower, filter.protocol)?,
        FilterKind::Fw(_) | FilterKind::Matchall(_) | FilterKind::Bpf(_) => {}
    }
    let decides =
        matches!(filter.kind, FilterKind::Flow(_) | FilterKind::Bpf(_) | FilterKind::Fw(_));
    need(
        decides || filter.class.is_some() || !filter.actions.is_empty() || !on_queue,
        "it has neither `class` nor `action`, so it does nothing",
    )
}

fn check_flow(flow: &Flow) -> Result<(), String> {
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
    let family = prefixes
        .first()
        .map(|prefix| if prefix.address.is_ipv6() { Protocol::IPV6 } else { Protocol::IP });
    need(
        prefixes.iter().all(|p| Some(p.address.is_ipv6()) == family.map(|f| f == Protocol::IPV6)),
        "the addresses are of two families",
    )?;
    need(
        family.is_none_or(|family| family == protocol),
        "addresses need protocol = \"ip\" or \"ipv6\", as they are",
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
