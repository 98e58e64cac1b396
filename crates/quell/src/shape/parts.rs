//! Who had what of a shaped line: hosts, tiers or subscribers, by their names.
//!
//! ```text
//!   a class with a name ─► the queue in it ─► counters;  marks of all fq_codel below
//!   CAKE ─► its tins
//! ```

use super::state::asked_for;
use quell_act::Log;
use quell_classify::{ClassifyError, HostId, HostRow, Tables};
use quell_shaper::LinePart;
use quell_tc::observed::{CakeTin, ExtraStats, ObservedQdisc, Snapshot};
use quell_tc::{FilterKind, Handle};
use quell_units::Span;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One part of a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Whose it is.
    pub name: String,
    /// Of a tier that each host has, the host.
    pub host: Option<String>,
    /// The number of the place, where hosts are found at run time.
    pub place: Option<u16>,
    /// For how long nothing was heard of the host that has it.
    pub idle: Option<Span>,
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub dropped_packets: u64,
    pub marked_packets: u64,
    pub backlog_packets: u64,
    pub backlog_bytes: u64,
    /// How long packets waited lately; only CAKE tells.
    pub delay_us: Option<u64>,
}

/// The tins of CAKE's `diffserv3`, as it lists them.
const TINS: [&str; 3] = ["bulk", "best effort", "voice"];

/// The parts that the root queue of an interface divides a line into.
pub fn parts(log: &Log, snapshot: &Snapshot, root: &ObservedQdisc) -> Vec<Part> {
    if let Some(ExtraStats::Cake(cake)) = &root.extra {
        // One tin is the whole queue.
        let tins = if cake.tins.len() == TINS.len() { &cake.tins[..] } else { &[] };
        return tins.iter().zip(TINS).map(|(tin, name)| of_tin(tin, name)).collect();
    }
    // What was applied without a recipe, or by a newer Quell, has no names.
    let all = asked_for(log).unwrap_or_default();
    let mut by_parent: BTreeMap<Handle, &ObservedQdisc> = BTreeMap::new();
    let mut by_major: BTreeMap<u16, Vec<&ObservedQdisc>> = BTreeMap::new();
    for queue in &snapshot.qdiscs {
        by_parent.insert(queue.parent, queue);
        by_major.entry(queue.parent.major).or_default().push(queue);
    }
    let part = |part: LinePart| {
        let queue = by_parent.get(&part.class)?;
        // A leaf, or one that has its leaves right below it.
        let leaves = by_major.get(&queue.handle.major).map_or(&[][..], Vec::as_slice);
        Some(of_queue(queue, leaves, part))
    };
    let held = places(snapshot).map(|places| places.held).unwrap_or_default();
    let named = |mut part: LinePart| {
        if let Some(row) = part.place.and_then(|place| held.get(&place)) {
            let name = match row.host {
                HostId::Address(address) => address.to_string(),
                HostId::Neighbour(number) => format!("neighbour {number:#x}"),
                HostId::Mark(mark) => format!("mark {mark:#x}"),
                HostId::Vlan(vlan) => format!("VLAN {vlan}"),
            };
            match &mut part.host {
                Some(host) => *host = name,
                None => part.name = name,
            }
        }
        part
    };
    let idle = |mut part: Part| {
        part.idle = part.place.and_then(|place| held.get(&place)).map(|row| row.idle);
        part
    };
    all.parts().into_iter().map(named).filter_map(part).map(idle).collect()
}

/// The places of hosts that are found at run time.
#[derive(Debug, Default)]
pub struct Places {
    /// How many there are.
    pub count: u16,
    /// Who has which, counted from 1.
    pub held: BTreeMap<u16, HostRow>,
    /// Packets of hosts that had to share one.
    pub sharing: u64,
    /// Why it is not known who has which.
    pub unknown: Option<String>,
}

/// Those of an interface; none where a classifier is none of its filters.
pub fn places(snapshot: &Snapshot) -> Option<Places> {
    let (config, program) = snapshot.filters.iter().find_map(|seen| {
        match (&seen.filter.as_ref()?.kind, seen.program) {
            (FilterKind::Classify(config), Some(program)) => Some((config, program)),
            _ => None,
        }
    })?;
    let count = config.parts().hosts?.classes;
    let read = || {
        let tables = Tables::of_program(program)?;
        let held = tables.hosts()?.into_iter().map(|row| (row.class + 1, row)).collect();
        Ok::<_, ClassifyError>(Places { count, held, sharing: tables.sharing()?, unknown: None })
    };
    let unknown =
        |why: ClassifyError| Places { count, unknown: Some(why.to_string()), ..Places::default() };
    Some(read().unwrap_or_else(unknown))
}

impl Places {
    /// In words.
    pub fn line(&self) -> String {
        let Places { count, held, sharing, unknown } = self;
        if let Some(why) = unknown {
            return format!("    who has which of {count} places is not known: {why}");
        }
        let shared = match sharing {
            0 => String::new(),
            packets => format!("; {packets} packets of hosts that share one"),
        };
        format!("    {} of {count} places for hosts taken{shared}", held.len())
    }

    /// For a program.
    pub fn document(&self) -> Value {
        json!({
            "places": self.count,
            "taken": self.unknown.is_none().then_some(self.held.len()),
            "shared_packets": self.unknown.is_none().then_some(self.sharing),
        })
    }
}

fn of_tin(tin: &CakeTin, name: &str) -> Part {
    Part {
        name: name.to_owned(),
        host: None,
        place: None,
        idle: None,
        sent_packets: tin.sent_packets.into(),
        sent_bytes: tin.sent_bytes,
        dropped_packets: tin.dropped_packets.into(),
        marked_packets: tin.ecn_marks.into(),
        backlog_packets: tin.backlog_packets.into(),
        backlog_bytes: tin.backlog_bytes.into(),
        delay_us: Some(tin.average_delay.nanos() / 1000),
    }
}

fn of_queue(queue: &ObservedQdisc, leaves: &[&ObservedQdisc], part: LinePart) -> Part {
    let stats = queue.stats;
    let marks = leaves.iter().chain([&queue]).map(|q| match &q.extra {
        Some(ExtraStats::FqCodel(fq_codel)) => u64::from(fq_codel.ecn_marks),
        _ => 0,
    });
    Part {
        name: part.name,
        host: part.host,
        place: part.place,
        idle: None,
        sent_packets: stats.packets,
        sent_bytes: stats.bytes,
        dropped_packets: stats.drops.into(),
        marked_packets: marks.sum(),
        backlog_packets: stats.backlog_packets.into(),
        backlog_bytes: stats.backlog_bytes.into(),
        delay_us: None,
    }
}

/// Characters of a name.
const NAME: usize = 30;

/// Parts that a person is shown: of thousands those that had most.
const SHOWN: usize = 20;

/// All that passed through a root queue, with the marks of all below it.
pub fn whole(snapshot: &Snapshot, root: &ObservedQdisc) -> Part {
    let leaves: Vec<&ObservedQdisc> = snapshot.qdiscs.iter().filter(|q| *q != root).collect();
    let (class, name) = (root.handle, "all".to_owned());
    let mut part = of_queue(root, &leaves, LinePart { class, name, host: None, place: None });
    if let Some(ExtraStats::Cake(cake)) = &root.extra {
        part.marked_packets = cake.tins.iter().map(|tin| u64::from(tin.ecn_marks)).sum();
    }
    part
}

/// A line for each part that something passed through; of hosts' tiers `--watch` and `--json` tell.
pub fn lines(parts: &[Part]) -> Vec<String> {
    let mut busy: Vec<&Part> =
        parts.iter().filter(|part| part.host.is_none() && part.is_busy()).collect();
    let left = busy.len().saturating_sub(SHOWN);
    if left > 0 {
        busy.sort_by_key(|part| std::cmp::Reverse(part.sent_bytes));
        busy.truncate(SHOWN);
    }
    let width = busy.iter().map(|part| part.name.chars().count()).max().unwrap_or(0).min(NAME + 1);
    let mut lines: Vec<String> = busy.iter().map(|part| part.line(width)).collect();
    if left > 0 {
        lines.push(format!("    … and {left} more, which had less (--json has all)"));
    }
    lines
}

impl Part {
    /// Whether something passed through it, or waits.
    pub fn is_busy(&self) -> bool {
        self.sent_packets + self.backlog_packets > 0
    }

    /// For a program.
    pub fn document(&self) -> Value {
        json!({
            "name": self.name,
            "host": self.host,
            "place": self.place,
            "idle_s": self.idle.map(|idle| idle.nanos() as f64 / 1e9),
            "sent_packets": self.sent_packets,
            "sent_bytes": self.sent_bytes,
            "dropped_packets": self.dropped_packets,
            "marked_packets": self.marked_packets,
            "backlog_packets": self.backlog_packets,
            "backlog_bytes": self.backlog_bytes,
            "delay_us": self.delay_us,
        })
    }

    fn line(&self, width: usize) -> String {
        let name = quell_wire::text::printable(&self.name, NAME);
        let sent = quell_treeview::bytes(self.sent_bytes);
        let delay = self.delay_us.map(|us| format!(", {} of waiting", Span::from_micros(us)));
        format!(
            "    {name:width$}  {} packets ({sent}), {} dropped, {} marked, {} waiting{}",
            self.sent_packets,
            self.dropped_packets,
            self.marked_packets,
            self.backlog_packets,
            delay.unwrap_or_default()
        )
    }
}
