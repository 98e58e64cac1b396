//! What will go wrong, told only where the kernel's own code says so.
//!
//! Where packets go that no filter matches (`net/sched/sch_*.c`, the functions named `*_classify`): htb to its default class, and past all classes
//! where there is none; hfsc to its default class, and nowhere without one; drr, and fq_codel, fq_pie and sfq with a filter attached, nowhere.

use crate::model::{Device, Filter, Finding, Node, Target, Trouble};
use crate::record::Hook;
use quell_tc::{Handle, Qdisc};
use quell_units::Rate;
use std::collections::{BTreeMap, BTreeSet, HashMap};

type Classes = BTreeMap<Handle, usize>;

pub(crate) fn of(devices: &[Device], index: usize) -> Vec<Finding> {
    let device = &devices[index];
    let mut found = Vec::new();
    let mut filters: HashMap<usize, Vec<&Filter>> = HashMap::new();
    for filter in device.filters.iter().filter(|filter| filter.hook.is_none()) {
        if let Some(at) = filter.at {
            filters.entry(at).or_default().push(filter);
        }
    }
    let classes: Classes = device
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.class)
        .map(|(at, node)| (node.handle, at))
        .collect();
    for (at, node) in device.nodes.iter().enumerate().filter(|(_, node)| !node.class) {
        let own = filters.get(&at).map_or(&[] as &[_], Vec::as_slice);
        // A queue that was not told of can't be judged.
        if node.implied {
            continue;
        }
        if own.is_empty() && !device.filters_told.contains(&node.handle) {
            found.extend(filters_missing(device, at, node));
            continue;
        }
        found.extend(unmatched(at, node, own));
        found.extend(default_class(device, &classes, at, node, own));
    }
    found.extend(small_bursts(device));
    found.extend(unreachable(device));
    found.extend(chains_without_way(device));
    found.extend(no_such_class(device));
    found.extend(nowhere_queued(devices, index));
    if let [first, ..] = device.adrift.as_slice() {
        let node = &device.nodes[*first];
        let others = match device.adrift.len() - 1 {
            0 => String::new(),
            n => format!(", and {n} more are alike"),
        };
        let words =
            format!("what {} {} hangs in is not in the input{others}", what(node), node.handle);
        found.push(Finding { trouble: Trouble::Adrift, node: Some(*first), filter: None, words });
    }
    found
}

/// A queue that loses or lets through what no filter matches, and whose filters nobody asked for.
fn filters_missing(device: &Device, at: usize, node: &Node) -> Option<Finding> {
    let qdisc = Qdisc::from_kind(&node.kind)?;
    let asks = qdisc.is_classful() && qdisc.drops_unmatched();
    let words = format!(
        "the filters of {} {} are not in the input: tc -s -d filter show dev {} parent {} shows them",
        node.kind, node.handle, device.name, node.handle
    );
    asks.then_some(Finding {
        trouble: Trouble::FiltersMissing,
        node: Some(at),
        filter: None,
        words,
    })
}

/// Chains that hold filters and to which no filter in force leads.
fn chains_without_way(device: &Device) -> Vec<Finding> {
    let place = |f: &Filter| (f.at, f.hook.map(|hook| hook as u8));
    let mut reached: BTreeSet<_> = device.filters.iter().map(|f| (place(f), 0)).collect();
    loop {
        let in_force = device.filters.iter().filter(|f| reached.contains(&(place(f), f.chain)));
        let to = |f: &Filter| f.deeds.iter().filter_map(|d| d.goto).collect::<Vec<_>>();
        let led: Vec<_> =
            in_force.flat_map(|f| to(f).into_iter().map(|to| (place(f), to))).collect();
        let before = reached.len();
        reached.extend(led);
        if reached.len() == before {
            break;
        }
    }
    let mut found = Vec::new();
    for (number, filter) in device.filters.iter().enumerate() {
        if reached.insert((place(filter), filter.chain)) {
            let words =
                format!("nothing leads to chain {}: its filters are not in force", filter.chain);
            let (trouble, filter) = (Trouble::Unreachable, Some(number));
            found.push(Finding { trouble, node: None, filter, words });
        }
    }
    found
}

fn what(node: &Node) -> String {
    format!("{} {}", if node.class { "class" } else { "queue" }, node.kind)
}

/// Whether filters leave any packet over. `None`: they don't. Else in words which.
fn left_over(filters: &[&Filter]) -> Option<String> {
    let all: Vec<&str> = filters
        .iter()
        .filter(|filter| filter.is_catch_all())
        .map(|filter| filter.protocol.as_str())
        .collect();
    if all.contains(&"all") {
        return None;
    }
    // A program that nobody can read may choose for all.
    if filters
        .iter()
        .any(|filter| filter.matches_all.is_none() && filter.protocol == "all" && filter.is_met())
    {
        return None;
    }
    let caught: BTreeSet<&str> = all.into_iter().collect();
    if caught.is_empty() {
        return Some("packets that match none of its filters".into());
    }
    let arp = if caught.contains("arp") { "" } else { " (ARP, for one)" };
    let caught = caught.into_iter().collect::<Vec<_>>().join(" and ");
    Some(format!("packets other than {caught} that match no filter{arp}"))
}

fn unmatched(at: usize, node: &Node, filters: &[&Filter]) -> Option<Finding> {
    let qdisc = Qdisc::from_kind(&node.kind)?;
    // fq_codel and its like hash by themselves until a filter is attached; drr never does.
    if !qdisc.drops_unmatched() || (filters.is_empty() && !qdisc.is_classful()) {
        return None;
    }
    let lost = left_over(filters)?;
    let so_far = match node.counters.map_or(0, |counters| counters.drops) {
        0 => String::new(),
        drops => format!(" ({drops} dropped so far, for whatever reason)"),
    };
    let words = match filters.is_empty() {
        true => format!(
            "{} {} has no filter: every packet is dropped whose priority does not name a class{so_far}",
            node.kind, node.handle
        ),
        false => format!(
            "{} {} drops {lost}{so_far}; end its filters with: protocol all matchall classid …",
            node.kind, node.handle
        ),
    };
    Some(Finding { trouble: Trouble::DropsUnmatched, node: Some(at), filter: None, words })
}

fn default_class(
    device: &Device,
    classes: &Classes,
    at: usize,
    node: &Node,
    filters: &[&Filter],
) -> Option<Finding> {
    let trouble = match node.kind.as_str() {
        "htb" => Trouble::Unshaped,
        "hfsc" => Trouble::DropsUnmatched,
        _ => return None,
    };
    let lost = left_over(filters)?;
    let class = |handle| classes.get(&handle).copied();
    let so_far = match (trouble, node.counters.and_then(|counters| counters.direct_packets)) {
        (Trouble::Unshaped, Some(packets)) if packets > 0 => format!(" ({packets} did so far)"),
        _ => String::new(),
    };
    // Outputs without classes tell nothing of them.
    let told = classes
        .range(Handle::qdisc(node.handle.major)..=Handle { minor: u16::MAX, ..node.handle })
        .any(|(_, at)| !device.nodes[*at].implied);
    let why = match node.default {
        None => "it has no default class".to_owned(),
        Some(default) => match class(default) {
            None if !told => return None,
            None => format!("its default class {default} does not exist"),
            Some(class)
                if device.nodes[class].children.iter().any(|child| device.nodes[*child].class) =>
            {
                format!("its default class {default} is no leaf")
            }
            Some(_) => return None,
        },
    };
    // Without classes there is nothing to go past.
    if !told && node.children.is_empty() {
        return None;
    }
    let lost = if filters.is_empty() { "all packets".to_owned() } else { lost };
    let words = match trouble {
        Trouble::Unshaped => {
            format!("htb {} lets {lost} pass unshaped{so_far}: {why}", node.handle)
        }
        _ => format!("{} {} drops {lost}: {why}", node.kind, node.handle),
    };
    Some(Finding { trouble, node: Some(at), filter: None, words })
}

/// Ethernet's largest packet with its header.
const PACKET: u64 = 1514;

/// HTB's classes that save up less than one packet: beyond its bucket a class forgets what it has earned (`htb_accnt_tokens`,
/// net/sched/sch_htb.c), so that each timer that is late costs rate.
fn small_bursts(device: &Device) -> Option<Finding> {
    let burst = |node: &Node| {
        let value = |name: &str| node.settings.iter().find(|s| s.name == name).map(|s| &s.value);
        let burst: u64 = value("burst")?.trim_end_matches('B').parse().ok()?;
        // The kernel keeps whole microseconds of the rate.
        let rounding = value("rate")?.parse::<Rate>().ok()?.bytes_per_second() / 1_000_000;
        (burst + rounding < PACKET).then_some(burst)
    };
    let classes = device.nodes.iter().enumerate().filter(|(_, n)| n.class && n.kind == "htb");
    let mut small = classes.filter_map(|(at, node)| Some((at, node.handle, burst(node)?)));
    let (at, handle, burst) = small.next()?;
    let more = match small.count() {
        0 => String::new(),
        n => format!(" (and {n} more classes are like that)"),
    };
    let words = format!(
        "htb class {handle} has a burst of {burst} bytes, less than one packet of {PACKET}: it falls short of its rate; set burst 1600{more}"
    );
    Some(Finding { trouble: Trouble::SmallBurst, node: Some(at), filter: None, words })
}

/// Leaf classes into which nothing leads.
fn unreachable(device: &Device) -> Vec<Finding> {
    // Where a filter's choice can't be read, or a priority is set, nobody can know.
    let unsure = |filter: &Filter| {
        filter.target == Target::Opaque
            || filter.deeds.iter().any(|deed| deed.words.contains("priority"))
    };
    if device.filters.iter().any(unsure) {
        return Vec::new();
    }
    let mut by_queue: HashMap<u16, Vec<usize>> = HashMap::new();
    let filtered: BTreeSet<u16> = device
        .filters
        .iter()
        .filter_map(|filter| {
            Some(device.nodes[filter.at.filter(|_| filter.hook.is_none())?].handle.major)
        })
        .collect();
    for (at, node) in device.nodes.iter().enumerate() {
        let leaf = !node.children.iter().any(|child| device.nodes[*child].class);
        let idle =
            node.counters.is_some_and(|counters| counters.packets == 0 && counters.drops == 0);
        let chooses = matches!(node.kind.as_str(), "htb" | "hfsc" | "drr");
        if node.class
            && chooses
            && leaf
            && idle
            && !node.is_default
            && node.chosen_by.is_empty()
            && filtered.contains(&node.handle.major)
        {
            by_queue.entry(node.handle.major).or_default().push(at);
        }
    }
    let mut found: Vec<Finding> = by_queue
        .into_values()
        .map(|classes| {
            let handle = |at: usize| device.nodes[at].handle.to_string();
            let some: Vec<String> = classes.iter().take(3).map(|at| handle(*at)).collect();
            let words = match classes.as_slice() {
                [one] => format!("nothing leads into class {}: no filter chooses it, and it is no default", handle(*one)),
                [.., last] if classes.len() > 3 => {
                    format!("nothing leads into {} classes, {} … {}: no filter chooses them, and they are no default", classes.len(), some.join(", "), handle(*last))
                }
                _ => format!("nothing leads into the classes {}: no filter chooses them, and they are no default", some.join(", ")),
            };
            Finding { trouble: Trouble::Unreachable, node: Some(classes[0]), filter: None, words }
        })
        .collect();
    found.sort_by_key(|finding| finding.node);
    found
}

fn no_such_class(device: &Device) -> Vec<Finding> {
    // Of an output without classes nobody knows which there are.
    let told: BTreeSet<u16> = device
        .nodes
        .iter()
        .filter(|node| node.class && !node.implied)
        .map(|node| node.handle.major)
        .collect();
    let missing = device.filters.iter().enumerate().filter_map(|(at, filter)| {
        let class = filter
            .class
            .filter(|class| filter.target == Target::Missing && told.contains(&class.major))?;
        let lost = filter.at.map(|node| device.nodes[node].kind.as_str());
        let fate = match lost {
            Some("htb") => "packets go to the default class, or past all classes",
            Some("hfsc") => "packets go to the default class, or are dropped",
            Some("drr") => "packets are dropped",
            Some("prio" | "ets") => "packets go to the band that the priority map names",
            _ => "what becomes of packets is the queue's choice",
        };
        Some((
            at,
            format!("a {} filter chooses class {class}, which does not exist: {fate}", filter.kind),
        ))
    });
    let mut missing: Vec<(usize, String)> = missing.collect();
    let more = missing.len().saturating_sub(3);
    missing.truncate(3);
    if let (Some((_, words)), true) = (missing.last_mut(), more > 0) {
        words.push_str(&format!(" (and {more} more filters are like that)"));
    }
    let one = |(filter, words)| Finding {
        trouble: Trouble::NoSuchClass,
        node: None,
        filter: Some(filter),
        words,
    };
    missing.into_iter().map(one).collect()
}

/// Redirects from the way in to a device on which nothing waits.
fn nowhere_queued(devices: &[Device], index: usize) -> Vec<Finding> {
    let mut told = BTreeSet::new();
    let device = &devices[index];
    let ingress =
        device.filters.iter().enumerate().filter(|(_, filter)| filter.hook == Some(Hook::Ingress));
    let one = |(at, filter): (usize, &Filter)| {
        let fed = filter
            .feeds
            .iter()
            .copied()
            .find(|fed| devices[*fed].ifb && devices[*fed].is_bare())?;
        let name = &devices[fed].name;
        told.insert(fed).then(|| {
            let words = format!("packets that come in are redirected to {name}, which has no queue: nothing shapes them");
            Finding { trouble: Trouble::NowhereQueued, node: None, filter: Some(at), words }
        })
    };
    ingress.filter_map(one).collect()
}
