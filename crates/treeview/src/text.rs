//! The hierarchy as lines of a terminal: the tree on the left, what was counted on the right.
//!
//! ```text
//!   eth0                                          sent  packets  dropped  marked  waiting
//!   └ htb 1:  default 1:30                     211 kB      208        0       –        0
//!     ├▸ ip dst 10.9.0.7 → 1:20                             101
//!     └ 1:1  rate 2.3Mbit                      211 kB      208        0       –        0
//! ```
//!
//! Colour only repeats what signs say, and is blue and orange, which everybody tells apart.

use crate::fold::{FilterItem, Folds, Item, name_of_more};
use crate::place::{View, sum, sum_rates};
use crate::words;
use quell_hierarchy::{Counters, Filter, Hook, PerSecond};
use quell_units::fmt;
use std::collections::HashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub width: usize,
    /// Lines and arrows beyond ASCII.
    pub unicode: bool,
    pub colour: bool,
}

const CELLS: [usize; 5] = [10, 10, 9, 8, 9];
/// The least that the tree gets, however narrow the terminal.
const LEAST: usize = 24;
/// IFBs in IFBs; more would be a circle, or a joke.
const DEEPEST: usize = 4;

#[derive(Clone, Copy, PartialEq)]
enum Ink {
    Plain,
    Name,
    Soft,
    Filter,
    Alarm,
}

type Cells = [String; 5];

pub fn text(view: &View<'_>, look: &Look) -> Vec<String> {
    let mut page = Page { view, look, lines: Vec::new(), folds: HashMap::new() };
    let (own, bare) = view.devices();
    for device in &own {
        if !page.lines.is_empty() {
            page.lines.push(String::new());
        }
        page.heading(*device);
        page.device(*device, "", 0);
    }
    if !bare.is_empty() {
        let names: Vec<&str> = bare.iter().map(|at| view.device(*at).name.as_str()).collect();
        if !page.lines.is_empty() {
            page.lines.push(String::new());
        }
        let said = format!("no queue: {}", names.join(", "));
        page.paragraph("", &said, Ink::Soft);
    }
    if page.lines.is_empty() {
        page.lines.push("no queues".into());
    }
    page.findings();
    page.lines
}

struct Page<'a, 'b> {
    view: &'b View<'a>,
    look: &'b Look,
    lines: Vec<String>,
    folds: HashMap<usize, std::rc::Rc<Folds>>,
}

impl Page<'_, '_> {
    fn sign(&self, sign: &str) -> &'static str {
        let at = match sign {
            "tee" => ("├ ", "|-"),
            "end" => ("└ ", "`-"),
            "bar" => ("│ ", "| "),
            "filter" => ("▸ ", "> "),
            "arrow" => ("→", "->"),
            "none" => ("–", "-"),
            _ => ("…", "..."),
        };
        if self.look.unicode { at.0 } else { at.1 }
    }

    fn heading(&mut self, device: usize) {
        let name = self.view.device(device).name.clone();
        let heads = match self.view.rates {
            Some(_) => ["bit/s", "packets/s", "drops/s", "marks/s", "waiting"],
            None => ["sent", "packets", "dropped", "marked", "waiting"],
        };
        self.row("", "", "", vec![(Ink::Name, name)], Some(heads.map(str::to_owned)), true);
    }

    fn folds(&mut self, device: usize) -> std::rc::Rc<Folds> {
        let made = || std::rc::Rc::new(Folds::of(self.view.device(device)));
        self.folds.entry(device).or_insert_with(made).clone()
    }

    fn device(&mut self, device: usize, rails: &str, depth: usize) {
        let here = self.view.device(device);
        let tops: Vec<usize> = here.tops.iter().chain(&here.adrift).copied().collect();
        let folds = self.folds(device);
        let items = folds.items(&tops, self.view.all);
        self.items(device, rails, items, depth);
    }

    fn items(&mut self, device: usize, rails: &str, items: Vec<Item>, depth: usize) {
        let last = items.len();
        for (number, item) in items.into_iter().enumerate() {
            let (branch, next) = if number + 1 == last { ("end", "  ") } else { ("tee", "bar") };
            let next = if next == "bar" { self.sign("bar") } else { next };
            let (branch, below) = (self.sign(branch), format!("{rails}{next}"));
            match item {
                Item::One(node) => self.node(device, node, rails, branch, &below, depth),
                Item::More { like, nodes, loosely } => {
                    self.more(device, like, &nodes, loosely, (rails, branch, &below))
                }
            }
        }
    }

    fn node(
        &mut self,
        device: usize,
        at: usize,
        rails: &str,
        branch: &str,
        below: &str,
        depth: usize,
    ) {
        let here = self.view.device(device);
        let node = &here.nodes[at];
        let mut parts = Vec::new();
        let folds = self.folds(device);
        if folds.is_alarming(at) {
            parts.push((Ink::Alarm, "!".to_owned()));
        }
        parts.push((Ink::Name, words::name(node)));
        parts.extend(words::settings(node, self.view.details).into_iter().map(|s| (Ink::Plain, s)));
        parts.extend(words::remarks(node).into_iter().map(|r| (Ink::Soft, format!("({r})"))));
        let cells = self.cells(node.counters.as_ref(), self.view.rate(device, at).as_ref());
        let filters = folds.filters(here, at, self.view.all);
        let items = folds.items(&node.children, self.view.all);
        let open = !filters.is_empty() || !items.is_empty();
        let next = format!("{below}{}", if open { self.sign("bar") } else { "  " });
        self.row(rails, branch, &next, parts, cells, false);
        let rest = filters.len() + usize::from(!items.is_empty());
        for (number, filter) in filters.into_iter().enumerate() {
            let end = number + 1 == rest;
            let (branch, next) =
                if end { (self.sign("end"), "  ") } else { (self.sign("tee"), self.sign("bar")) };
            let branch = format!("{}{}", branch.trim_end(), self.sign("filter"));
            self.filter(device, filter, below, &branch, &format!("{below}{next}"), depth);
        }
        self.items(device, below, items, depth);
    }

    fn filter(
        &mut self,
        device: usize,
        item: FilterItem,
        rails: &str,
        branch: &str,
        below: &str,
        depth: usize,
    ) {
        let here = self.view.device(device);
        let arrow = self.sign("arrow");
        let folds = self.folds(device);
        let way = |filter: &Filter| match filter.hook {
            Some(Hook::Egress) => "going out, ",
            Some(Hook::Ingress) if folds.both_ways => "coming in, ",
            _ => "",
        };
        let (number, parts, hits) = match item {
            FilterItem::Some(numbers) => {
                let filters: Vec<&Filter> = numbers.iter().map(|at| &here.filters[*at]).collect();
                let filter = filters[0];
                let alarm = numbers.iter().any(|number| folds.is_alarming_filter(*number));
                let mut parts = vec![(
                    Ink::Filter,
                    format!("{}{}", way(filter), words::matches_alike(&filters)),
                )];
                let ink = if alarm { Ink::Alarm } else { Ink::Filter };
                parts.push((
                    ink,
                    format!(
                        "{arrow} {}{}",
                        words::outcome(filter, here),
                        if alarm { " !" } else { "" }
                    ),
                ));
                let hits = filters
                    .iter()
                    .try_fold(0u64, |sum, filter| Some(sum.saturating_add(filter.hits?)));
                (Some(numbers[0]), parts, hits)
            }
            FilterItem::More { like, filters } => {
                let first = &here.filters[like];
                let hits = filters
                    .iter()
                    .try_fold(0u64, |sum, at| Some(sum.saturating_add(here.filters[*at].hits?)));
                let last = filters
                    .last()
                    .map_or(String::new(), |at| words::outcome(&here.filters[*at], here));
                let next = filters
                    .first()
                    .map_or(String::new(), |at| words::outcome(&here.filters[*at], here));
                let said = format!("{} more {} filters of that kind", filters.len(), first.kind);
                let to = format!("{arrow} {next} {} {last}", self.sign("dots"));
                (None, vec![(Ink::Filter, said), (Ink::Filter, to)], hits)
            }
        };
        let none = String::new;
        let cells = hits
            .filter(|_| self.view.rates.is_none())
            .map(|hits| [none(), fmt::count(hits), none(), none(), none()]);
        self.row(rails, branch, &format!("{below}  "), parts, cells, false);
        let fed =
            number.and_then(|number| self.view.fed_here(device, &here.filters[number], number));
        if let Some(fed) = fed.filter(|_| depth < DEEPEST) {
            let end = self.sign("end");
            let name = self.view.device(fed).name.clone();
            self.row(below, end, below, vec![(Ink::Name, name)], None, false);
            self.device(fed, &format!("{below}  "), depth + 1);
        }
    }

    fn more(
        &mut self,
        device: usize,
        like: usize,
        nodes: &[usize],
        loosely: bool,
        (rails, branch, below): (&str, &str, &str),
    ) {
        let here = self.view.device(device);
        let (name, ranges) = name_of_more(here, like, nodes, loosely);
        let counters = sum(nodes.iter().map(|at| here.nodes[*at].counters));
        let rates = sum_rates(nodes.iter().map(|at| self.view.rate(device, *at)));
        let mut parts = vec![(Ink::Soft, name)];
        parts.extend(ranges.into_iter().map(|range| (Ink::Soft, range)));
        let busiest = nodes.iter().filter_map(|at| {
            let amount = match self.view.rates {
                Some(_) => self.view.rate(device, *at)?.bits,
                None => here.nodes[*at].counters?.bytes as f64,
            };
            Some((amount, *at))
        });
        if let Some((amount, at)) =
            busiest.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(amount, _)| *amount > 0.0)
        {
            let amount = if self.view.rates.is_some() {
                format!("{}/s", fmt::bits(amount))
            } else {
                fmt::bytes(amount as u64)
            };
            parts.push((Ink::Soft, format!("(most: {} {amount})", words::name(&here.nodes[at]))));
        }
        let cells = self.cells(counters.as_ref(), rates.as_ref());
        self.row(rails, branch, &format!("{below}  "), parts, cells, false);
    }

    fn cells(&self, counters: Option<&Counters>, rates: Option<&PerSecond>) -> Option<Cells> {
        let none = || self.sign("none").to_owned();
        let counters = counters?;
        let waiting = fmt::count(counters.backlog_packets);
        if self.view.rates.is_none() {
            let marks = counters.marks.map_or_else(none, fmt::count);
            return Some([
                fmt::bytes(counters.bytes),
                fmt::count(counters.packets),
                fmt::count(counters.drops),
                marks,
                waiting,
            ]);
        }
        let Some(rates) = rates else { return Some([none(), none(), none(), none(), waiting]) };
        let marks = rates.marks.map_or_else(none, fmt::frequency);
        Some([
            fmt::bits(rates.bits),
            fmt::frequency(rates.packets),
            fmt::frequency(rates.drops),
            marks,
            waiting,
        ])
    }

    /// A line, and more where it is too long: `rails` and `branch` before the first, `next` before the others.
    fn row(
        &mut self,
        rails: &str,
        branch: &str,
        next: &str,
        parts: Vec<(Ink, String)>,
        cells: Option<Cells>,
        head: bool,
    ) {
        let total: usize = CELLS.iter().sum();
        let numbers = self.look.width.saturating_sub(total).max(LEAST);
        // Where no numbers stand there is room for words.
        let left = match &cells {
            None => self.look.width.max(numbers),
            Some(cells) if cells[0].is_empty() => numbers + CELLS[0],
            Some(_) => numbers,
        };
        let mut lines: Vec<Vec<(Ink, String)>> = vec![Vec::new()];
        let first = width(rails) + width(branch);
        let others = width(next) + 1;
        let mut used = first;
        for (ink, part) in parts {
            let mut rest = part.as_str();
            while !rest.is_empty() {
                let gap = lines
                    .last()
                    .and_then(|line| line.last())
                    .map_or(0, |before| gap_behind(before.0));
                let room = left.saturating_sub(used + gap);
                if width(rest) <= room {
                    used += gap + width(rest);
                    lines.last_mut().expect("it is never empty").push((ink, rest.to_owned()));
                    break;
                }
                let fresh = left.saturating_sub(others).max(8);
                if gap > 0 && (width(rest) <= fresh || room < 12) {
                    lines.push(Vec::new());
                    used = others;
                    continue;
                }
                // Longer than a line: broken where there is a space.
                let room = room.max(8);
                let cut = rest.char_indices().nth(room).map_or(rest.len(), |(at, _)| at);
                let at = rest[..cut].rfind(' ').filter(|at| *at > 0).unwrap_or(cut);
                lines.last_mut().expect("it is never empty").push((ink, rest[..at].to_owned()));
                rest = rest[at..].trim_start();
                if !rest.is_empty() {
                    lines.push(Vec::new());
                    used = others;
                }
            }
        }
        for (number, line) in lines.into_iter().enumerate() {
            let mut out = String::new();
            let before = if number == 0 { format!("{rails}{branch}") } else { format!("{next} ") };
            let mut used = width(&before);
            self.paint(&mut out, Ink::Soft, &before);
            for (at, (ink, part)) in line.iter().enumerate() {
                let gap = if at > 0 { gap_behind(line[at - 1].0) } else { 0 };
                out.push_str(&" ".repeat(gap));
                used += gap + width(part);
                self.paint(&mut out, *ink, part);
            }
            if let Some(cells) = cells.as_ref().filter(|_| number == 0) {
                out.push_str(&" ".repeat(left.saturating_sub(used)));
                let begin = usize::from(left > numbers);
                for (at, cell) in cells.iter().enumerate().skip(begin) {
                    let pad = CELLS[at].saturating_sub(width(cell));
                    out.push_str(&" ".repeat(pad));
                    let nothing = matches!(cell.as_str(), "0" | "–" | "-" | "0 B" | "0 bit");
                    let lost = at == 2 && !nothing && !head;
                    let ink = if head || nothing {
                        Ink::Soft
                    } else if lost {
                        Ink::Alarm
                    } else {
                        Ink::Plain
                    };
                    self.paint(&mut out, ink, cell);
                }
            }
            self.lines.push(out.trim_end().to_owned());
        }
    }

    fn paint(&self, out: &mut String, ink: Ink, text: &str) {
        let code = match ink {
            _ if !self.look.colour || text.trim().is_empty() => "",
            Ink::Plain => "",
            Ink::Name => "\x1b[1m",
            Ink::Soft => "\x1b[2m",
            Ink::Filter => "\x1b[34m",
            Ink::Alarm => "\x1b[1;33m",
        };
        out.push_str(code);
        out.push_str(text);
        if !code.is_empty() {
            out.push_str("\x1b[0m");
        }
    }

    fn paragraph(&mut self, mark: &str, text: &str, ink: Ink) {
        let indent = " ".repeat(width(mark));
        let room = self.look.width.saturating_sub(indent.len()).max(LEAST);
        let mut line = String::new();
        let mut first = true;
        let mut lines = Vec::new();
        for word in text.split_whitespace() {
            if !line.is_empty() && width(&line) + 1 + width(word) > room {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
        for line in lines {
            let mut out = String::new();
            let begin = if std::mem::replace(&mut first, false) { mark } else { indent.as_str() };
            self.paint(&mut out, Ink::Alarm, begin);
            self.paint(&mut out, ink, &line);
            self.lines.push(out);
        }
    }

    fn findings(&mut self) {
        let (own, _) = self.view.devices();
        let shown: Vec<usize> = own.iter().flat_map(|at| self.view.hierarchy.only(*at)).collect();
        let several = shown.len() > 1;
        let mut empty = true;
        for at in shown {
            let device = self.view.device(at);
            for finding in &device.findings {
                if std::mem::replace(&mut empty, false) {
                    self.lines.push(String::new());
                }
                let said = if several {
                    format!("{}: {}", device.name, finding.words)
                } else {
                    finding.words.clone()
                };
                self.paragraph("! ", &said, Ink::Plain);
            }
        }
    }
}

/// Blanks behind a part of a line: a mark stands close.
fn gap_behind(ink: Ink) -> usize {
    if ink == Ink::Alarm { 1 } else { 2 }
}

fn width(text: &str) -> usize {
    text.chars().count()
}
