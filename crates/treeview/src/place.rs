//! What is to be drawn, for all drawings.

use quell_hierarchy::{Counters, Device, Filter, Hierarchy, PerSecond};
use std::collections::BTreeSet;

/// Counters per second, by device and node.
pub type Rates = [Vec<Option<PerSecond>>];

#[derive(Clone, Copy)]
pub struct View<'a> {
    pub hierarchy: &'a Hierarchy,
    /// The device that is asked for, with what it feeds; all where absent.
    pub only: Option<usize>,
    /// Counters per second instead of since the beginning.
    pub rates: Option<&'a Rates>,
    pub all: bool,
    /// Name options that nobody chose, too.
    pub details: bool,
}

impl<'a> View<'a> {
    pub fn device(&self, at: usize) -> &'a Device {
        &self.hierarchy.devices[at]
    }

    pub fn rate(&self, device: usize, node: usize) -> Option<PerSecond> {
        *self.rates?.get(device)?.get(node)?
    }

    /// The devices that stand for themselves, in order, and those without a queue. An IFB stands below the first filter that feeds it.
    pub fn devices(&self) -> (Vec<usize>, Vec<usize>) {
        let shown: Vec<usize> = match self.only {
            Some(only) => return (vec![only], Vec::new()),
            None => (0..self.hierarchy.devices.len()).collect(),
        };
        let (bare, rest): (Vec<usize>, Vec<usize>) =
            shown.into_iter().partition(|at| self.device(*at).is_bare());
        let mut reached = BTreeSet::new();
        let mut own = Vec::new();
        // Those that nobody feeds first; then what only feeds itself in a circle.
        for pass in [true, false] {
            for &at in &rest {
                let fed = self.device(at).ifb && !self.device(at).fed_by.is_empty();
                if reached.contains(&at) || (pass && fed) {
                    continue;
                }
                own.push(at);
                reached.extend(self.hierarchy.only(at));
            }
        }
        own.sort_unstable();
        let bare = bare.into_iter().filter(|at| !reached.contains(at)).collect();
        (own, bare)
    }

    /// The IFB that a filter feeds and that is drawn below it: none where another filter has it already.
    pub fn fed_here(&self, device: usize, filter: &Filter, number: usize) -> Option<usize> {
        let fed = filter.feeds.iter().copied().find(|fed| self.device(*fed).ifb)?;
        (self.device(fed).fed_by.first() == Some(&(device, number))).then_some(fed)
    }
}

pub(crate) fn sum(counters: impl Iterator<Item = Option<Counters>>) -> Option<Counters> {
    counters.flatten().reduce(|a, b| Counters {
        bytes: a.bytes.saturating_add(b.bytes),
        packets: a.packets.saturating_add(b.packets),
        drops: a.drops.saturating_add(b.drops),
        overlimits: a.overlimits.saturating_add(b.overlimits),
        backlog_bytes: a.backlog_bytes.saturating_add(b.backlog_bytes),
        backlog_packets: a.backlog_packets.saturating_add(b.backlog_packets),
        marks: a.marks.map_or(b.marks, |m| Some(m.saturating_add(b.marks.unwrap_or(0)))),
        direct_packets: None,
    })
}

pub(crate) fn sum_rates(rates: impl Iterator<Item = Option<PerSecond>>) -> Option<PerSecond> {
    rates.flatten().reduce(|a, b| PerSecond {
        bits: a.bits + b.bits,
        packets: a.packets + b.packets,
        drops: a.drops + b.drops,
        marks: a.marks.map_or(b.marks, |m| Some(m + b.marks.unwrap_or(0.0))),
    })
}
