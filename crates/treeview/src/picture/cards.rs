//! Which cards there are, what stands on them, and which filters lead to which.

use super::style::{FILTER, WRONG};
use crate::fold::{FilterItem, Folds, Item, name_of_more};
use crate::place::{View, sum, sum_rates};
use crate::words;
use quell_chart::{Tone, Type};
use quell_hierarchy::{Counters, Filter, Hook, PerSecond, Target};
use quell_units::fmt;
use std::collections::{BTreeMap, BTreeSet, HashMap};

const NAME: Type = Type { size: 12.0, bold: true, tone: Tone::Ink };
const WORDS: Type = Type { size: 10.0, bold: false, tone: Tone::Ink };
const SOFT: Type = Type { size: 10.0, bold: false, tone: Tone::Soft };
const LOST: Type = Type { size: 10.0, bold: true, tone: WRONG };
const ACTS: Type = Type { size: 9.5, bold: false, tone: FILTER };

const DEEPEST: usize = 4;
/// Between parts of a line that are kept whole.
pub(super) const PARTS: &str = " · ";

/// A line on a card, and what stands at its right end.
pub(super) struct CardRow {
    pub text: String,
    pub look: Type,
    pub beside: Option<(String, Type)>,
}

pub(super) struct Arrival {
    pub from: usize,
    pub text: String,
    pub filters: usize,
}

#[derive(Default)]
pub(super) struct Card {
    pub depth: usize,
    pub sections: Vec<Vec<CardRow>>,
    pub children: Vec<usize>,
    pub arrivals: Vec<Arrival>,
    pub default: bool,
    pub wrong: bool,
    pub folded: bool,
}

#[derive(Default)]
pub(super) struct Cards {
    /// Parents before children.
    pub list: Vec<Card>,
    pub roots: Vec<usize>,
    pub findings: Vec<String>,
    pub notes: Vec<String>,
}

fn line(text: impl Into<String>, look: Type) -> CardRow {
    CardRow { text: text.into(), look, beside: None }
}

impl Cards {
    pub(super) fn of(view: &View<'_>) -> Self {
        let mut making =
            Making { view, cards: Cards::default(), places: HashMap::new(), folds: HashMap::new() };
        let (own, bare) = view.devices();
        for device in &own {
            let roots = making.device(*device, 0, 0);
            making.cards.roots.extend(roots);
        }
        making.arrivals();
        let mut cards = making.cards;
        let shown: Vec<usize> = own.iter().flat_map(|at| view.hierarchy.only(*at)).collect();
        for at in &shown {
            let device = view.device(*at);
            let said = |words: &String| {
                if shown.len() > 1 { format!("{}: {words}", device.name) } else { words.clone() }
            };
            cards.findings.extend(device.findings.iter().map(|finding| said(&finding.words)));
        }
        if !bare.is_empty() {
            let names: Vec<&str> = bare.iter().map(|at| view.device(*at).name.as_str()).collect();
            cards.notes.push(format!("Without a queue: {}.", names.join(", ")));
        }
        let has = |what: fn(&Card) -> bool| cards.list.iter().any(what);
        let legend = [
            (
                has(|card| !card.arrivals.is_empty()),
                "a blue arrow leads where a filter sends what it matches",
            ),
            (has(|card| card.default), "a thick edge: the class for what no filter matches"),
            (
                has(|card| card.folded),
                "a dashed edge: several that are alike, their amounts added up",
            ),
            (has(|card| card.wrong), "an orange edge: see the remarks"),
        ];
        let legend: Vec<&str> =
            legend.into_iter().filter(|(is, _)| *is).map(|(_, words)| words).collect();
        if let Some(text) = (!legend.is_empty()).then(|| legend.join("; ")) {
            cards.notes.push(format!("{}{}.", text[..1].to_uppercase(), &text[1..]));
        }
        cards
    }
}

struct Making<'a, 'b> {
    view: &'b View<'a>,
    cards: Cards,
    places: HashMap<(usize, usize), usize>,
    folds: HashMap<usize, std::rc::Rc<Folds>>,
}

impl Making<'_, '_> {
    fn folds(&mut self, device: usize) -> std::rc::Rc<Folds> {
        let made = || std::rc::Rc::new(Folds::of(self.view.device(device)));
        self.folds.entry(device).or_insert_with(made).clone()
    }

    fn device(&mut self, device: usize, depth: usize, nested: usize) -> Vec<usize> {
        let here = self.view.device(device);
        let tops: Vec<usize> = here.tops.iter().chain(&here.adrift).copied().collect();
        let folds = self.folds(device);
        let mut roots = Vec::new();
        for item in folds.items(&tops, self.view.all) {
            let card = self.item(device, item, depth, nested, true);
            roots.push(card);
        }
        roots
    }

    fn item(&mut self, device: usize, item: Item, depth: usize, nested: usize, top: bool) -> usize {
        let at = self.cards.list.len();
        self.cards.list.push(Card { depth, ..Card::default() });
        match item {
            Item::One(node) => self.one(device, node, at, nested, top),
            Item::More { like, nodes, loosely } => self.more(device, like, &nodes, loosely, at),
        }
        at
    }

    fn more(&mut self, device: usize, like: usize, nodes: &[usize], loosely: bool, card: usize) {
        let here = self.view.device(device);
        let (name, ranges) = name_of_more(here, like, nodes, loosely);
        let mut lines = vec![line(name, Type { size: 10.5, ..WORDS })];
        lines.extend(ranges.into_iter().map(|range| line(range, SOFT)));
        let counters = sum(nodes.iter().map(|at| here.nodes[*at].counters));
        let rates = sum_rates(nodes.iter().map(|at| self.view.rate(device, *at)));
        lines.extend(self.counted(counters.as_ref(), rates.as_ref()));
        let made = &mut self.cards.list[card];
        made.sections.push(lines);
        made.folded = true;
        self.places.extend(nodes.iter().map(|node| ((device, *node), card)));
    }

    fn one(&mut self, device: usize, node: usize, card: usize, nested: usize, top: bool) {
        let here = self.view.device(device);
        if top {
            let way = match here.nodes[node].kind.as_str() {
                "ingress" => ", coming in",
                "clsact" => ", coming in and going out",
                _ if here.nodes.iter().any(|n| matches!(n.kind.as_str(), "ingress" | "clsact")) => {
                    ", going out"
                }
                _ => "",
            };
            let title = CardRow {
                text: here.name.clone(),
                look: Type { size: 13.0, ..NAME },
                beside: None,
            };
            let mut lines = vec![title];
            if !way.is_empty() {
                lines.push(line(way.trim_start_matches(", "), SOFT));
            }
            self.cards.list[card].sections.push(lines);
        }
        // A class and the queue in it share a card.
        let mut inside = vec![node];
        if here.nodes[node].class {
            inside.extend(
                here.nodes[node]
                    .children
                    .iter()
                    .copied()
                    .filter(|child| !here.nodes[*child].class)
                    .take(1),
            );
        }
        let folds = self.folds(device);
        let depth = self.cards.list[card].depth + 1;
        let mut feeds = Vec::new();
        for &at in &inside {
            self.places.insert((device, at), card);
            let lines = self.node_lines(device, at, &folds);
            let made = &mut self.cards.list[card];
            made.sections.push(lines);
            made.default |= here.nodes[at].is_default;
            made.wrong |= folds.is_alarming(at);
            feeds.extend(
                here.filters
                    .iter()
                    .enumerate()
                    .filter(|(_, f)| f.at == Some(at) && !f.feeds.is_empty()),
            );
        }
        let mut children: Vec<usize> =
            inside.iter().flat_map(|at| &here.nodes[*at].children).copied().collect();
        children.retain(|child| !inside.contains(child));
        for item in folds.items(&children, self.view.all) {
            let child = self.item(device, item, depth, nested, false);
            self.cards.list[card].children.push(child);
        }
        for (number, filter) in feeds {
            let Some(fed) = self.view.fed_here(device, filter, number).filter(|_| nested < DEEPEST)
            else {
                continue;
            };
            let roots = self.device(fed, depth, nested + 1);
            for &root in &roots {
                let text = format!("{}: {}", words::matches(filter), words::outcome(filter, here));
                self.cards.list[root].arrivals.push(Arrival { from: card, text, filters: 1 });
            }
            self.cards.list[card].children.extend(roots);
        }
    }

    fn node_lines(&self, device: usize, at: usize, folds: &Folds) -> Vec<CardRow> {
        let here = self.view.device(device);
        let node = &here.nodes[at];
        let mut beside = Vec::new();
        if node.is_default {
            beside.push("default");
        }
        let mark = if folds.is_alarming(at) {
            Some(("!".to_owned(), Type { size: 12.0, ..LOST }))
        } else {
            None
        };
        let beside = mark.or_else(|| (!beside.is_empty()).then(|| (beside.join(" "), SOFT)));
        let mut lines = vec![CardRow { text: words::name(node), look: NAME, beside }];
        let settings = words::settings(node, self.view.details);
        if !settings.is_empty() {
            lines.push(line(settings.join(PARTS), WORDS));
        }
        if node.flows > 0 {
            let flows = if node.flows == 1 { "flow" } else { "flows" };
            lines.push(line(format!("{} active {flows}", node.flows), SOFT));
        }
        let rates = self.view.rate(device, at);
        lines.extend(self.counted(node.counters.as_ref(), rates.as_ref()));
        // Filters that lead to no card are told where they hang.
        for item in folds.filters(here, at, self.view.all) {
            match item {
                FilterItem::Some(numbers) => {
                    let filters: Vec<&Filter> =
                        numbers.iter().map(|number| &here.filters[*number]).collect();
                    let (number, filter) = (numbers[0], filters[0]);
                    // What feeds a device has an arrow of its own.
                    if leads(filter) || self.view.fed_here(device, filter, number).is_some() {
                        continue;
                    }
                    let look = if folds.is_alarming_filter(number) {
                        Type { tone: WRONG, ..ACTS }
                    } else {
                        ACTS
                    };
                    let way = match filter.hook {
                        Some(Hook::Egress) => "out: ",
                        Some(Hook::Ingress) if folds.both_ways => "in: ",
                        _ => "",
                    };
                    lines.push(line(
                        format!(
                            "{way}{} → {}",
                            words::matches_alike(&filters),
                            words::outcome(filter, here)
                        ),
                        look,
                    ));
                }
                FilterItem::More { like, filters } => {
                    let first = &here.filters[like];
                    if !leads(first) {
                        lines.push(line(
                            format!("{} more {} filters like that", filters.len(), first.kind),
                            ACTS,
                        ));
                    }
                }
            }
        }
        lines
    }

    fn counted(&self, counters: Option<&Counters>, rates: Option<&PerSecond>) -> Vec<CardRow> {
        let Some(counters) = counters else { return Vec::new() };
        let mut lines = Vec::new();
        let mut more = Vec::new();
        match (self.view.rates, rates) {
            (None, _) => {
                lines.push(line(
                    format!(
                        "{} · {} pkt",
                        fmt::bytes(counters.bytes),
                        fmt::count(counters.packets)
                    ),
                    SOFT,
                ));
                if counters.drops > 0 {
                    more.push((format!("{} dropped", fmt::count(counters.drops)), LOST));
                }
                if let Some(marks) = counters.marks.filter(|marks| *marks > 0) {
                    more.push((format!("{} marked", fmt::count(marks)), SOFT));
                }
            }
            (Some(_), None) => {}
            (Some(_), Some(rates)) => {
                lines.push(line(
                    format!(
                        "{}/s · {} pkt/s",
                        fmt::bits(rates.bits),
                        fmt::frequency(rates.packets)
                    ),
                    SOFT,
                ));
                if rates.drops > 0.0 {
                    more.push((format!("{} drops/s", fmt::frequency(rates.drops)), LOST));
                }
                if let Some(marks) = rates.marks.filter(|marks| *marks > 0.0) {
                    more.push((format!("{} marks/s", fmt::frequency(marks)), SOFT));
                }
            }
        }
        if counters.backlog_packets > 0 {
            more.push((format!("{} waiting", fmt::count(counters.backlog_packets)), WORDS));
        }
        lines.extend(more.into_iter().map(|(text, look)| line(text, look)));
        lines
    }

    /// Puts filters that lead to a class on its card.
    fn arrivals(&mut self) {
        let devices: BTreeSet<usize> = self.places.keys().map(|(device, _)| *device).collect();
        for device in devices {
            let here = self.view.device(device);
            let folds = self.folds(device);
            let mut nodes: Vec<(usize, usize)> = self
                .places
                .iter()
                .filter(|((d, _), _)| *d == device)
                .map(|((_, n), c)| (*n, *c))
                .collect();
            nodes.sort_unstable();
            for (node, from) in nodes {
                if self.cards.list[from].folded {
                    continue;
                }
                // What leads from here to each card.
                let mut leading: BTreeMap<usize, Vec<&Filter>> = BTreeMap::new();
                for filter in folds.at(node).iter().map(|number| &here.filters[*number]) {
                    let cards: BTreeSet<usize> = targets(filter)
                        .iter()
                        .filter_map(|class| self.places.get(&(device, *class)).copied())
                        .collect();
                    cards
                        .into_iter()
                        .for_each(|card| leading.entry(card).or_default().push(filter));
                }
                for (to, filters) in leading {
                    let texts = if self.view.all {
                        filters.iter().map(|filter| (words::matches(filter), 1)).collect()
                    } else {
                        words::matches_of(&filters)
                    };
                    for (text, filters) in texts {
                        self.cards.list[to].arrivals.push(Arrival { from, text, filters });
                    }
                }
            }
        }
    }
}

fn targets(filter: &Filter) -> &[usize] {
    match &filter.target {
        Target::Class(class) => std::slice::from_ref(class),
        Target::Spread(classes) => classes,
        _ => &[],
    }
}

fn leads(filter: &Filter) -> bool {
    !targets(filter).is_empty() && filter.deeds.is_empty()
}
