//! Who had what of a shaped line: hosts, tiers or subscribers, by their names.
//!
//! ```text
//!   a class with a name ─► the queue in it ─► counters;  marks of all fq_codel below
//!   CAKE ─► its tins
//! ```

use super::kept;
use super::names::Names;
use super::state::State;
use super::wanted::ifb_of;
use quell_act::Log;
use quell_classify::{ClassifyError, Config, HostId, HostRow, Layout, Tables};
use quell_netlink::Mac;
use quell_shaper::LinePart;
use quell_tc::observed::{CakeTin, ExtraStats, ObservedQdisc, Snapshot};
use quell_tc::{Bpf, BpfProgram, FilterKind, Handle, classify};
use quell_units::Span;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

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
    /// Addresses of that host that passed lately.
    pub addresses: Vec<IpAddr>,
    /// Its hardware address, where it is a neighbour.
    pub mac: Option<[u8; 6]>,
    /// Whether it is all that have an address of nobody's.
    pub strangers: bool,
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
    let all = kept::read(log).unwrap_or_default();
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
        if let Some(occupant) = part.place.and_then(|place| held.get(&place)) {
            let name = occupant.name.clone();
            match &mut part.host {
                Some(host) => *host = name,
                None => part.name = name,
            }
        }
        part
    };
    let whose = |mut part: Part| {
        if let Some(occupant) = part.place.and_then(|place| held.get(&place)) {
            part.idle = Some(occupant.row.idle);
            part.mac = occupant.row.host.mac();
            part.strangers = occupant.row.host == HostId::Strangers;
            part.addresses.clone_from(&occupant.addresses);
        }
        part
    };
    all.parts().into_iter().map(named).filter_map(part).map(whose).collect()
}

/// Who has a place.
#[derive(Debug)]
pub struct Occupant {
    row: HostRow,
    /// What it is called: by a name that this machine knows, or its address.
    name: String,
    addresses: Vec<IpAddr>,
}

impl Occupant {
    fn of(row: HostRow, of_neighbours: &BTreeMap<u64, Vec<IpAddr>>, names: &Names) -> Self {
        let addresses = match row.host {
            HostId::Address(address) => vec![address],
            HostId::Neighbour(number) => of_neighbours.get(&number).cloned().unwrap_or_default(),
            HostId::Mark(_) | HostId::Vlan(_) | HostId::Strangers => Vec::new(),
        };
        let mac = row.host.mac();
        let name = match (names.of(mac, &addresses), row.host) {
            (Some(name), _) => name.to_owned(),
            (_, HostId::Mark(mark)) => format!("mark {mark:#x}"),
            (_, HostId::Vlan(vlan)) => format!("VLAN {vlan}"),
            (_, HostId::Strangers) => "strangers".to_owned(),
            // IPv4 comes first in the order of addresses.
            _ => match (addresses.split_first(), mac) {
                (Some((first, [])), _) => first.to_string(),
                (Some((first, more)), _) => format!("{first} and {} more", more.len()),
                (None, Some(mac)) => Mac(mac).to_string(),
                (None, None) => "unknown".to_owned(),
            },
        };
        Occupant { row, name, addresses }
    }
}

/// Whose the classes of interfaces are, by what is in force in this namespace; nothing where that can't be read.
pub fn whose(state: &State) -> BTreeMap<(String, Handle), String> {
    let mut whose = BTreeMap::new();
    for log in state.logs().unwrap_or_default() {
        let own = &log.begun.device;
        for part in kept::read(&log).unwrap_or_default().parts() {
            // Who has a place is another matter each moment: `status` tells.
            if part.place.is_some() {
                continue;
            }
            let name = part.host.map_or(part.name.clone(), |host| format!("{host}, {}", part.name));
            let name = quell_wire::text::printable(&name, NAME);
            for device in [own.clone(), ifb_of(own)] {
                whose.insert((device, part.class), name.clone());
            }
        }
    }
    whose
}

/// The places of hosts that are found at run time.
#[derive(Debug, Default)]
pub struct Places {
    /// How many there are.
    pub count: u16,
    /// Who has which, counted from 1.
    pub held: BTreeMap<u16, Occupant>,
    /// Packets of hosts that had to share one.
    pub sharing: u64,
    /// Addresses that passed lately and are no machine's; all of them have one place.
    pub strangers: usize,
    /// Why it is not known who has which.
    pub unknown: Option<String>,
}

/// The classifier of an interface, and the kernel's number for it.
fn classifier(snapshot: &Snapshot) -> Option<(&Config, u32)> {
    snapshot.filters.iter().find_map(|seen| match (&seen.filter.as_ref()?.kind, seen.program) {
        (FilterKind::Classify(config), Some(program)) => Some((&**config, program)),
        _ => None,
    })
}

/// Whether the classifier of an interface is one that another version of Quell made, which this one can't look into.
pub fn is_of_another_version(snapshot: &Snapshot) -> bool {
    snapshot.filters.iter().any(|seen| match seen.filter.as_ref().map(|filter| &filter.kind) {
        Some(FilterKind::Bpf(Bpf { program: BpfProgram::Loaded { name, .. }, .. })) => {
            classify::is_of_another_version(name)
        }
        _ => false,
    })
}

/// What hosts are called that have a class of their own, by their class; nothing where that is not known.
pub fn hosts_by_class(snapshot: &Snapshot) -> BTreeMap<Handle, String> {
    let layout = classifier(snapshot).map(|(config, _)| config.parts().layout);
    let (Some(Layout::Classes { major, base, host_step, .. }), Some(places)) =
        (layout, places(snapshot))
    else {
        return BTreeMap::new();
    };
    let class = |place: u16| Handle::class(major, base + (place - 1) * host_step);
    let name = |occupant: Occupant| quell_wire::text::printable(&occupant.name, NAME);
    places.held.into_iter().map(|(place, occupant)| (class(place), name(occupant))).collect()
}

/// Those of an interface; none where a classifier is none of its filters.
pub fn places(snapshot: &Snapshot) -> Option<Places> {
    let (config, program) = classifier(snapshot)?;
    let hosts = config.parts().hosts?;
    let count = hosts.classes;
    let read = || {
        let tables = Tables::of_program(program)?;
        let (of_neighbours, names) = (tables.addresses()?, Names::read());
        let occupant = |row| Occupant::of(row, &of_neighbours, &names);
        let held = tables.hosts()?.into_iter().map(|row| (row.class + 1, occupant(row))).collect();
        let (sharing, strangers) = (tables.sharing()?, tables.strangers(hosts.idle)?);
        Ok::<_, ClassifyError>(Places { count, held, sharing, strangers, unknown: None })
    };
    let unknown =
        |why: ClassifyError| Places { count, unknown: Some(why.to_string()), ..Places::default() };
    Some(read().unwrap_or_else(unknown))
}

impl Places {
    /// In words.
    pub fn lines(&self) -> Vec<String> {
        let Places { count, held, sharing, strangers, unknown } = self;
        if let Some(why) = unknown {
            return vec![format!("    who has which of {count} places is not known: {why}")];
        }
        let shared = match sharing {
            0 => String::new(),
            packets => format!("; {packets} packets of hosts that share one"),
        };
        let taken = format!("    {} of {count} places for hosts taken{shared}", held.len());
        let strangers = match strangers {
            0 => None,
            1 => Some("    strangers: 1 address that no machine on this side has".to_owned()),
            many => Some(format!(
                "    strangers: {many} addresses that no machine on this side has, in one place"
            )),
        };
        std::iter::once(taken).chain(strangers).collect()
    }

    /// For a program.
    pub fn document(&self) -> Value {
        json!({
            "places": self.count,
            "taken": self.unknown.is_none().then_some(self.held.len()),
            "shared_packets": self.unknown.is_none().then_some(self.sharing),
            "stranger_addresses": self.unknown.is_none().then_some(self.strangers),
        })
    }
}

fn of_tin(tin: &CakeTin, name: &str) -> Part {
    Part {
        name: name.to_owned(),
        host: None,
        place: None,
        idle: None,
        addresses: Vec::new(),
        mac: None,
        strangers: false,
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
        addresses: Vec::new(),
        mac: None,
        strangers: false,
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

    /// The hardware address of the host, as people write it.
    pub fn mac(&self) -> Option<String> {
        self.mac.map(|mac| Mac(mac).to_string())
    }

    /// For a program.
    pub fn document(&self) -> Value {
        json!({
            "name": self.name,
            "host": self.host,
            "place": self.place,
            "addresses": self.addresses,
            "mac": self.mac(),
            "strangers": self.strangers,
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
