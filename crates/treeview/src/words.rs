//! What is said of a queue, a class or a filter, whatever draws it.

use crate::place::View;
use quell_hierarchy::{Device, Filter, Node, Target};
use std::collections::HashMap;

/// Characters of a name that somebody gave.
const LONGEST: usize = 24;

/// The name: `htb 1:` of a queue, `1:10` of a class, `1:10 ann` of one that is known to be somebody's.
pub(crate) fn name(node: &Node) -> String {
    let name = handle(node);
    match &node.whose {
        Some(whose) if whose.chars().count() <= LONGEST => format!("{name} {whose}"),
        Some(whose) => format!("{name} {}…", whose.chars().take(LONGEST - 1).collect::<String>()),
        None => name,
    }
}

fn handle(node: &Node) -> String {
    match (node.class, node.handle.major) {
        (true, 0) => format!(":{:x}", node.handle.minor),
        (true, _) => node.handle.to_string(),
        // The kernel's own queues have no handle worth a word.
        (false, 0) => node.kind.clone(),
        (false, _) => format!("{} {}", node.kind, node.handle),
    }
}

pub(crate) fn settings(node: &Node, details: bool) -> Vec<String> {
    // A ceiling that is the rate says nothing.
    let rate = node.settings.iter().find(|s| s.name == "rate").map(|s| s.value.as_str());
    let plain = |name: &str, value: &str| name == "ceil" && Some(value) == rate;
    let chosen = node.settings.iter().filter(|s| details || !(s.usual || plain(&s.name, &s.value)));
    let one = |s: &quell_hierarchy::Setting| {
        if s.value.is_empty() { s.name.clone() } else { format!("{} {}", s.name, s.value) }
    };
    // What it gets stands first.
    let mut chosen: Vec<_> = chosen.collect();
    chosen.sort_by_key(|s| match s.name.as_str() {
        "rate" | "bandwidth" => 0,
        "ceil" => 1,
        _ => 2,
    });
    let default = node.default.map(|class| format!("default {class}"));
    default.into_iter().chain(chosen.into_iter().map(one)).collect()
}

/// What stands behind the name: default, flows with packets.
pub(crate) fn remarks(node: &Node) -> Vec<String> {
    let default = node.is_default.then(|| "default class".to_owned());
    let shared =
        (node.chosen_by.len() > 1).then(|| format!("{} filters lead here", node.chosen_by.len()));
    let flows = match node.flows {
        0 => None,
        1 => Some("1 active flow".to_owned()),
        n => Some(format!("{n} active flows")),
    };
    let implied = (node.implied && !node.class).then(|| "not in the input".to_owned());
    [implied, default, shared, flows].into_iter().flatten().collect()
}

pub(crate) fn matches(filter: &Filter) -> String {
    let protocol = match filter.protocol.as_str() {
        // The words say it already.
        "ip" | "ipv6"
            if filter.matches.iter().any(|m| m.starts_with("ip ") || m.starts_with("ip6 ")) =>
        {
            String::new()
        }
        "all" | "" => String::new(),
        other => format!("{other}: "),
    };
    let all = || if protocol.is_empty() { "every packet".to_owned() } else { "all".to_owned() };
    let what = if filter.matches.is_empty() { all() } else { filter.matches.join(", ") };
    let words = match filter.kind.as_str() {
        "u32" | "matchall" | "flower" => format!("{protocol}{what}"),
        kind if filter.matches.is_empty() => format!("{protocol}{kind}"),
        kind => format!("{protocol}{kind} {what}"),
    };
    let chain = (filter.chain != 0).then(|| format!("chain {}: ", filter.chain));
    let table = filter.table.as_ref().map(|table| format!("table {table}: "));
    let before = chain.unwrap_or_default() + &table.unwrap_or_default();
    before + &words
}

/// What filters match that lead to one place, a text for each kind of them (`ip dst 10.9.0.2 or 10.9.0.3 or 69 others`) and how many it stands for.
pub(crate) fn matches_of(filters: &[&Filter]) -> Vec<(String, usize)> {
    let mut groups: Vec<Vec<&Filter>> = Vec::new();
    let mut known = HashMap::new();
    for filter in filters {
        let group = *known.entry(pattern(filter)).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(filter);
    }
    groups.iter().map(|group| (matches_alike(group), group.len())).collect()
}

pub(crate) fn matches_alike(filters: &[&Filter]) -> String {
    const TOLD: usize = 3;
    let [first, others @ ..] = filters else { return String::new() };
    let words = matches(first);
    if others.is_empty() {
        return words;
    }
    // Only where a single value differs, the others can be told beside it.
    let differs: Vec<usize> = (0..first.matches.len())
        .filter(|at| others.iter().any(|other| other.matches[*at] != first.matches[*at]))
        .collect();
    let ([at], true) =
        (differs.as_slice(), differs.last().is_some_and(|at| at + 1 == first.matches.len()))
    else {
        return format!("{words} (and {} more of that kind)", others.len());
    };
    let value =
        |filter: &Filter| filter.matches[*at].rsplit(' ').next().unwrap_or_default().to_owned();
    let shown = if others.len() < TOLD { others.len() } else { TOLD - 1 };
    let mut all = vec![words];
    all.extend(others[..shown].iter().map(|other| value(other)));
    if others.len() > shown {
        all.push(format!("{} others", others.len() - shown));
    }
    all.join(" or ")
}

/// Where it leads, and what it does, without an arrow: `1:10`, `redirect to ifb0`.
pub(crate) fn outcome(filter: &Filter, device: &Device) -> String {
    let handle = |at: &usize| name(&device.nodes[*at]);
    let class = match &filter.target {
        Target::Class(class) => Some(handle(class)),
        Target::Spread(classes) => match classes.as_slice() {
            [] => None,
            [one] => Some(handle(one)),
            [first, .., last] => {
                Some(format!("one of {}: {} … {}", classes.len(), handle(first), handle(last)))
            }
        },
        Target::Flow => Some(format!(
            "flow {}",
            filter.class.map_or_else(|| "by hash".into(), |class| class.to_string())
        )),
        Target::Missing => Some(format!(
            "{} ({})",
            filter.class.map_or_else(|| "?".into(), |class| class.to_string()),
            match device.nodes.iter().any(|node| node.class && !node.implied) {
                true => "no such class",
                // A text can have filters alone.
                false => "no classes are shown",
            }
        )),
        Target::Opaque => Some("a class of its choice".into()),
        Target::None => filter.class.map(|class| class.to_string()),
    };
    let deeds = filter.deeds.iter().map(|deed| deed.words.clone());
    let all: Vec<String> = deeds.chain(class).collect();
    let does = if all.is_empty() { "goes on".into() } else { all.join(", then ") };
    match filter.hardware.is_empty() {
        true => does,
        false => format!("{does} ({})", filter.hardware.join(", ")),
    }
}

/// What makes filters of one place alike: all but the values they compare and the class they choose.
pub(crate) fn pattern(
    filter: &Filter,
) -> (String, String, Option<quell_hierarchy::Hook>, Vec<String>, Vec<String>, bool) {
    let head =
        |text: &String| text.rsplit_once(' ').map_or_else(String::new, |(head, _)| head.to_owned());
    let deeds = filter.deeds.iter().map(|deed| deed.words.clone()).collect();
    let special = filter.target == Target::Missing || !filter.feeds.is_empty() || !filter.is_met();
    (
        filter.kind.clone(),
        filter.protocol.clone(),
        filter.hook,
        deeds,
        filter.matches.iter().map(head).collect(),
        special,
    )
}

pub(crate) fn devices(view: &View<'_>) -> String {
    let (own, _) = view.devices();
    let names: Vec<&str> = own.iter().take(4).map(|at| view.device(*at).name.as_str()).collect();
    match own.len() {
        0 => "no queues".into(),
        n if n > 4 => format!("queues of {} and {} more devices", names.join(", "), n - 4),
        _ => format!("queues of {}", names.join(", ")),
    }
}
