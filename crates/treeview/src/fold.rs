//! What is alike becomes one.
//!
//! ```text
//!   2:1 ─ htb ─ 3 tiers ─ fq_codel        2:1 ─ htb ─ 3 tiers ─ fq_codel
//!   2:2 ─ htb ─ 3 tiers ─ fq_codel   ─►   255 more like 2:1, 2:2 … 2:100
//!   …
//! ```
//!
//! Two are alike when kind, options and all below them are the same, names left aside. Where that leaves too many siblings, those are alike that
//! differ in the options' values only.

use crate::words;
use quell_hierarchy::{Device, Node};
use std::collections::{BTreeSet, HashMap};

/// So many alike are shown one by one, if they are leaves.
const FEW: usize = 3;
const LARGE: usize = 6;
/// More siblings than this are not shown one by one, if they differ in values only.
const MANY: usize = 24;
/// Filters of one place that are shown one by one, of those that are alike.
const FILTERS: usize = 6;

pub(crate) enum Item {
    One(usize),
    /// Nodes that are like the first one, which was shown.
    More {
        like: usize,
        nodes: Vec<usize>,
        /// The options' values differ.
        loosely: bool,
    },
}

/// The shapes of a device's nodes: equal numbers, equal shapes.
pub(crate) struct Folds {
    exact: Vec<u32>,
    loose: Vec<u32>,
    sizes: Vec<usize>,
    bytes: Vec<u64>,
    filters: Vec<Vec<usize>>,
    /// Nodes and filters that findings are about.
    alarming: BTreeSet<(bool, usize)>,
    /// Filters look at what comes in and at what goes out.
    pub(crate) both_ways: bool,
}

#[derive(PartialEq, Eq, Hash)]
struct FoldShape<'a> {
    class: bool,
    kind: &'a str,
    options: Vec<String>,
    is_default: bool,
    filters: usize,
    chosen: bool,
    children: Vec<u32>,
}

impl Folds {
    pub(crate) fn of(device: &Device) -> Self {
        let mut filters = vec![Vec::new(); device.nodes.len()];
        for (number, filter) in device.filters.iter().enumerate() {
            filter.at.into_iter().for_each(|at| filters[at].push(number));
        }
        // Children before parents.
        let mut order = Vec::with_capacity(device.nodes.len());
        let mut open: Vec<usize> = device.tops.iter().chain(&device.adrift).copied().collect();
        while let Some(at) = open.pop() {
            order.push(at);
            open.extend(&device.nodes[at].children);
        }
        order.reverse();
        let shapes = |with_values: bool| {
            let mut seen: HashMap<FoldShape<'_>, u32> = HashMap::new();
            let mut shapes = vec![0; device.nodes.len()];
            for &at in &order {
                let node = &device.nodes[at];
                let option = |s: &quell_hierarchy::Setting| {
                    if with_values { format!("{} {}", s.name, s.value) } else { s.name.clone() }
                };
                let mut children: Vec<u32> =
                    node.children.iter().map(|child| shapes[*child]).collect();
                children.sort_unstable();
                if !with_values {
                    children.dedup();
                }
                let shape = FoldShape {
                    class: node.class,
                    kind: &node.kind,
                    options: node.settings.iter().map(option).collect(),
                    is_default: node.is_default,
                    filters: filters[at].len().min(2),
                    chosen: !node.chosen_by.is_empty(),
                    children,
                };
                let next = seen.len() as u32;
                shapes[at] = *seen.entry(shape).or_insert(next);
            }
            shapes
        };
        let (exact, loose) = (shapes(true), shapes(false));
        let about = |f: &quell_hierarchy::Finding| {
            [f.node.map(|at| (false, at)), f.filter.map(|at| (true, at))]
        };
        let alarming = device.findings.iter().flat_map(about).flatten().collect();
        let both_ways =
            device.filters.iter().any(|filter| filter.hook == Some(quell_hierarchy::Hook::Egress));
        let mut sizes = vec![1; device.nodes.len()];
        for &at in &order {
            sizes[at] += device.nodes[at].children.iter().map(|child| sizes[*child]).sum::<usize>();
        }
        let bytes = device
            .nodes
            .iter()
            .map(|node| node.counters.map_or(0, |counters| counters.bytes))
            .collect();
        Folds { exact, loose, sizes, bytes, filters, alarming, both_ways }
    }

    pub(crate) fn items(&self, children: &[usize], all: bool) -> Vec<Item> {
        if all {
            return children.iter().map(|child| Item::One(*child)).collect();
        }
        let groups = |shapes: &[u32]| {
            let mut groups: Vec<Vec<usize>> = Vec::new();
            let mut at: HashMap<u32, usize> = HashMap::new();
            for &child in children {
                let group = *at.entry(shapes[child]).or_insert(groups.len());
                if group == groups.len() {
                    groups.push(Vec::new());
                }
                groups[group].push(child);
            }
            groups
        };
        let exact = groups(&self.exact);
        let folds = |group: &[usize]| {
            group.len() > FEW || (group.len() > 1 && self.sizes[group[0]] > LARGE)
        };
        let shown = |groups: &[Vec<usize>]| {
            groups.iter().map(|group| if folds(group) { 2 } else { group.len() }).sum::<usize>()
        };
        let loosely = shown(&exact) > MANY;
        let groups = if loosely { groups(&self.loose) } else { exact };
        let mut items = Vec::new();
        for mut group in groups {
            if !folds(&group) {
                items.extend(group.into_iter().map(Item::One));
                continue;
            }
            let alike = group.iter().all(|at| self.exact[*at] == self.exact[group[0]]);
            // The one that has sent the most stands for all; of several the first.
            let most = group.iter().map(|at| self.bytes[*at]).max();
            let like = group
                .iter()
                .position(|at| Some(self.bytes[*at]) == most)
                .map_or(group[0], |at| group.remove(at));
            items.push(Item::One(like));
            items.push(Item::More { like, nodes: group, loosely: !alike });
        }
        items
    }
}

/// `499 more like 1:10, 1:11 … 1:1fd`, and between which rates.
pub(crate) fn name_of_more(
    device: &Device,
    like: usize,
    nodes: &[usize],
    loosely: bool,
) -> (String, Vec<String>) {
    let name = |at: usize| words::name(&device.nodes[at]);
    let span = match nodes {
        [] => String::new(),
        [first, last] => format!("{}, {}", name(*first), name(*last)),
        [first, .., last] => format!("{} … {}", name(*first), name(*last)),
        [one, ..] => name(*one),
    };
    let said = if device.nodes[like].handle.major == 0 && !device.nodes[like].class {
        format!("{} more {}", nodes.len(), name(like))
    } else {
        format!("{} more like {}: {span}", nodes.len(), name(like))
    };
    (said, if loosely { ranges(device, nodes) } else { Vec::new() })
}

/// Options of which the values differ: from the least to the largest, where they are rates, else how many there are.
fn ranges(device: &Device, nodes: &[usize]) -> Vec<String> {
    let Some(first) = nodes.first().map(|at| &device.nodes[*at]) else { return Vec::new() };
    let value = |node: &Node, name: &str| {
        node.settings.iter().find(|s| s.name == name).map(|s| s.value.clone())
    };
    let mut told = Vec::new();
    for setting in first.settings.iter().filter(|setting| !setting.usual) {
        let mut rates = Vec::new();
        let mut differ = false;
        for at in nodes {
            let Some(text) = value(&device.nodes[*at], &setting.name) else { continue };
            differ |= text != setting.value;
            rates.extend(text.parse::<quell_units::Rate>().ok());
        }
        match (rates.iter().min(), rates.iter().max()) {
            _ if !differ => {
                told.push(format!("{} {}", setting.name, setting.value).trim_end().to_owned())
            }
            (Some(low), Some(high)) => told.push(format!("{} {low} to {high}", setting.name)),
            _ => told.push(format!("{} differs", setting.name)),
        }
    }
    told
}

/// The filters of one place: those that are shown, and of those that are alike how many more there are.
pub(crate) enum FilterItem {
    /// Filters that differ in a value only and lead to the same place, as a rule one.
    Some(Vec<usize>),
    /// Filters like one that was shown, which lead elsewhere.
    More { like: usize, filters: Vec<usize> },
}

impl Folds {
    pub(crate) fn is_alarming(&self, node: usize) -> bool {
        self.alarming.contains(&(false, node))
    }

    pub(crate) fn is_alarming_filter(&self, filter: usize) -> bool {
        self.alarming.contains(&(true, filter))
    }

    pub(crate) fn at(&self, node: usize) -> &[usize] {
        &self.filters[node]
    }

    pub(crate) fn filters(&self, device: &Device, node: usize, all: bool) -> Vec<FilterItem> {
        let here = &self.filters[node];
        if all {
            return here.iter().map(|at| FilterItem::Some(vec![*at])).collect();
        }
        let mut rows: Vec<Vec<usize>> = Vec::new();
        let mut row_of = HashMap::new();
        for &at in here {
            let filter = &device.filters[at];
            let key = (words::pattern(filter), words::outcome(filter, device));
            let row = *row_of.entry(key).or_insert(rows.len());
            if row == rows.len() {
                rows.push(Vec::new());
            }
            rows[row].push(at);
        }
        let mut groups: Vec<Vec<Vec<usize>>> = Vec::new();
        let mut group_of = HashMap::new();
        for row in rows {
            let group =
                *group_of.entry(words::pattern(&device.filters[row[0]])).or_insert(groups.len());
            if group == groups.len() {
                groups.push(Vec::new());
            }
            groups[group].push(row);
        }
        let mut items = Vec::new();
        for mut group in groups {
            let rest = group.split_off(if group.len() > FILTERS { 1 } else { group.len() });
            let like = group[0][0];
            items.extend(group.into_iter().map(FilterItem::Some));
            if !rest.is_empty() {
                items.push(FilterItem::More { like, filters: rest.concat() });
            }
        }
        items
    }
}
