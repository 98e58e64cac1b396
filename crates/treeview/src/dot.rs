//! The hierarchy in Graphviz's language: `dot -Tsvg` lays it out.

use crate::fold::{FilterItem, Folds, Item, name_of_more};
use crate::place::{View, sum};
use crate::words;
use quell_hierarchy::{Counters, Target};
use quell_units::fmt;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The graph. Queues and classes are boxes, filters blue arrows with what they match, default classes have a double edge, dashed boxes stand for
/// several.
pub fn dot(view: &View<'_>) -> String {
    let mut out = String::from(
        "digraph queues {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\", fontsize=10];\n  \
         edge [fontname=\"sans-serif\", fontsize=9, color=\"#7d848c\"];\n",
    );
    let (own, _) = view.devices();
    let mut shown = BTreeSet::new();
    for at in own {
        for device in view.hierarchy.only(at) {
            if shown.insert(device) {
                one(view, device, &mut out);
            }
        }
    }
    for &from in &shown {
        for (number, filter) in view.device(from).filters.iter().enumerate() {
            for to in filter.feeds.iter().filter(|to| shown.contains(to)) {
                let place = filter.at.map_or_else(|| format!("d{from}"), |node| id(from, node));
                let label = quoted(&format!(
                    "{}\n{}",
                    words::matches(filter),
                    words::outcome(filter, view.device(from))
                ));
                // A `String` takes whatever is written.
                let _ = writeln!(
                    out,
                    "  {place} -> d{to} [label={label}, color=\"#0072b2\", fontcolor=\"#0072b2\"]; // filter {number}"
                );
            }
        }
    }
    out + "}\n"
}

fn id(device: usize, node: usize) -> String {
    format!("d{device}n{node}")
}

fn one(view: &View<'_>, device: usize, out: &mut String) {
    let here = view.device(device);
    let folds = Folds::of(here);
    let _ =
        writeln!(out, "  d{device} [label={}, shape=plaintext, fontsize=13];", quoted(&here.name));
    let tops: Vec<usize> = here.tops.iter().chain(&here.adrift).copied().collect();
    let mut drawn = BTreeSet::new();
    let mut open: Vec<(String, Vec<Item>)> =
        vec![(format!("d{device}"), folds.items(&tops, view.all))];
    while let Some((parent, items)) = open.pop() {
        for item in items {
            match item {
                Item::One(at) => {
                    drawn.insert(at);
                    let node = &here.nodes[at];
                    let mut lines = vec![words::name(node)];
                    lines.extend(words::settings(node, view.details));
                    lines.extend(words::remarks(node));
                    lines.extend(node.counters.as_ref().map(counted));
                    let style = if node.is_default { ", peripheries=2" } else { "" };
                    let _ = writeln!(
                        out,
                        "  {} [label={}{style}];",
                        id(device, at),
                        quoted(&lines.join("\n"))
                    );
                    let _ = writeln!(out, "  {parent} -> {};", id(device, at));
                    open.push((id(device, at), folds.items(&node.children, view.all)));
                }
                Item::More { like, nodes, loosely } => {
                    let (name, ranges) = name_of_more(here, like, &nodes, loosely);
                    let mut lines = vec![name];
                    lines.extend(ranges);
                    lines.extend(
                        sum(nodes.iter().map(|at| here.nodes[*at].counters)).as_ref().map(counted),
                    );
                    let own = format!("d{device}m{like}");
                    let _ = writeln!(
                        out,
                        "  {own} [label={}, style=\"rounded,dashed\"];",
                        quoted(&lines.join("\n"))
                    );
                    let _ = writeln!(out, "  {parent} -> {own};");
                }
            }
        }
    }
    for at in drawn.iter().copied() {
        for item in folds.filters(here, at, view.all) {
            let FilterItem::Some(numbers) = item else { continue };
            let filters: Vec<_> = numbers.iter().map(|number| &here.filters[*number]).collect();
            let (number, filter) = (numbers[0], filters[0]);
            let targets: &[usize] = match &filter.target {
                Target::Class(class) => std::slice::from_ref(class),
                Target::Spread(classes) => classes,
                _ => &[],
            };
            let label = quoted(&words::matches_alike(&filters));
            for class in targets.iter().filter(|class| drawn.contains(class)) {
                let _ = writeln!(
                    out,
                    "  {} -> {} [label={label}, color=\"#0072b2\", fontcolor=\"#0072b2\", constraint=false]; // filter {number}",
                    id(device, at),
                    id(device, *class)
                );
            }
        }
    }
}

fn counted(counters: &Counters) -> String {
    let marks = counters
        .marks
        .filter(|marks| *marks > 0)
        .map(|marks| format!(", {} marked", fmt::count(marks)));
    let drops = (counters.drops > 0).then(|| format!(", {} dropped", fmt::count(counters.drops)));
    format!(
        "{}{}{}",
        fmt::bytes(counters.bytes),
        drops.unwrap_or_default(),
        marks.unwrap_or_default()
    )
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\l"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    if text.contains('\n') {
        out.push_str("\\l");
    }
    out.push('"');
    out
}
