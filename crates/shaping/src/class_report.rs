//! Who had what of a shaped line: hosts, tiers or subscribers, by their names.
//!
//! ```text
//!   a class with a name ─► the queue in it ─► counters;  marks of all fq_codel below
//!   CAKE ─► its tins
//!   names: /etc/hosts, leases of dnsmasq;  hosts name themselves when they ask for a lease, so what is shown is cleaned
//! ```

use crate::{UndoLogs, ifb_of, policy_of_log};
use quell_act::{Goal, Log, Now};
use quell_classify::{ClassifyError, Config, HostId, HostRow, Layout, Tables};
use quell_netlink::Mac;
use quell_policy::LinePart;
use quell_sys::input;
use quell_tc::observed::{CakeTin, ExtraStats, ObservedQdisc, Snapshot};
use quell_tc::{Bpf, BpfProgram, FilterKind, Handle, classify};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

/// A class that a line is divided into, and what passed through it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LineClass {
    pub name: String,
    /// Of a tier that each host has, the host.
    pub host: Option<String>,
    /// The number of the slot, where hosts are found at run time.
    pub place: Option<u16>,
    pub addresses: Vec<IpAddr>,
    pub mac: Option<String>,
    /// Whether it is all that have an address of nobody's.
    pub strangers: bool,
    /// For how long nothing was heard of the host that has it.
    pub idle_s: Option<f64>,
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
pub fn parts(log: &Log, snapshot: &Snapshot, root: &ObservedQdisc) -> Vec<LineClass> {
    if let Some(ExtraStats::Cake(tins)) = &root.extra {
        // One tin is the whole queue.
        let tins = if tins.len() == TINS.len() { &tins[..] } else { &[] };
        return tins.iter().zip(TINS).map(|(tin, name)| of_tin(tin, name)).collect();
    }
    // What was applied without a recipe, or by a newer Quell, has no names.
    let all = policy_of_log(log).unwrap_or_default();
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
    let whose = |mut part: LineClass| {
        if let Some(occupant) = part.place.and_then(|place| held.get(&place)) {
            part.idle_s = Some(occupant.row.idle.nanos() as f64 / 1e9);
            part.mac = occupant.row.host.mac().map(|mac| Mac(mac).to_string());
            part.strangers = occupant.row.host == HostId::Strangers;
            part.addresses.clone_from(&occupant.addresses);
        }
        part
    };
    all.parts().into_iter().map(named).filter_map(part).map(whose).collect()
}

#[derive(Debug, Clone)]
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
pub fn classes_by_name(logs: &UndoLogs) -> BTreeMap<(String, Handle), String> {
    let mut whose = BTreeMap::new();
    for log in logs.all().unwrap_or_default() {
        let own = &log.begun.device;
        for part in policy_of_log(&log).unwrap_or_default().parts() {
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

#[derive(Debug, Clone, Default)]
pub struct HostSlots {
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
pub fn places(snapshot: &Snapshot) -> Option<HostSlots> {
    let (config, program) = classifier(snapshot)?;
    let hosts = config.parts().hosts?;
    let count = hosts.classes;
    let read = || {
        let tables = Tables::of_program(program)?;
        let (of_neighbours, names) = (tables.addresses()?, Names::read());
        let occupant = |row| Occupant::of(row, &of_neighbours, &names);
        let held = tables.hosts()?.into_iter().map(|row| (row.class + 1, occupant(row))).collect();
        let (sharing, strangers) = (tables.sharing()?, tables.strangers(hosts.idle)?);
        Ok::<_, ClassifyError>(HostSlots { count, held, sharing, strangers, unknown: None })
    };
    let unknown = |why: ClassifyError| HostSlots {
        count,
        unknown: Some(why.to_string()),
        ..HostSlots::default()
    };
    Some(read().unwrap_or_else(unknown))
}

impl Serialize for HostSlots {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct SlotCounts {
            places: u16,
            taken: Option<usize>,
            shared_packets: Option<u64>,
            stranger_addresses: Option<usize>,
        }
        let known = self.unknown.is_none();
        let counts = SlotCounts {
            places: self.count,
            taken: known.then_some(self.held.len()),
            shared_packets: known.then_some(self.sharing),
            stranger_addresses: known.then_some(self.strangers),
        };
        counts.serialize(serializer)
    }
}

/// The root queues of the interfaces of a change, with the interfaces' names and all that they have.
pub fn roots<'a>(log: &Log, now: &'a Now) -> Vec<(String, &'a Snapshot, &'a ObservedQdisc)> {
    let mut found = Vec::new();
    for device in Goal::from(&log.begun.before).devices {
        let target = now.target(&device);
        let by_name = || now.links.get(&device.name).map(|link| link.index);
        let index = target.as_ref().and_then(|t| t.index).or_else(by_name);
        let is_root = |q: &&ObservedQdisc| q.parent == Handle::ROOT && q.is_made();
        if let Some(snapshot) = index.and_then(|index| now.queues.get(&index))
            && let Some(root) = snapshot.qdiscs.iter().find(is_root)
        {
            found.push((device.name, snapshot, root));
        }
    }
    found
}

fn of_tin(tin: &CakeTin, name: &str) -> LineClass {
    LineClass {
        name: name.to_owned(),
        sent_packets: tin.sent_packets.into(),
        sent_bytes: tin.sent_bytes,
        dropped_packets: tin.dropped_packets.into(),
        marked_packets: tin.ecn_marks.into(),
        backlog_packets: tin.backlog_packets.into(),
        backlog_bytes: tin.backlog_bytes.into(),
        delay_us: Some(tin.average_delay.nanos() / 1000),
        ..LineClass::default()
    }
}

fn of_queue(queue: &ObservedQdisc, leaves: &[&ObservedQdisc], part: LinePart) -> LineClass {
    let stats = queue.stats;
    let marks = leaves.iter().chain([&queue]).filter_map(|q| q.extra.as_ref());
    LineClass {
        name: part.name,
        host: part.host,
        place: part.place,
        sent_packets: stats.packets,
        sent_bytes: stats.bytes,
        dropped_packets: stats.drops.into(),
        marked_packets: marks.map(ExtraStats::ecn_marks).sum(),
        backlog_packets: stats.backlog_packets.into(),
        backlog_bytes: stats.backlog_bytes.into(),
        ..LineClass::default()
    }
}

/// Characters of a name that are shown.
const NAME: usize = 30;

/// All that passed through a root queue, with the marks of all below it.
pub fn whole(snapshot: &Snapshot, root: &ObservedQdisc) -> LineClass {
    let leaves: Vec<&ObservedQdisc> = snapshot.qdiscs.iter().filter(|q| *q != root).collect();
    let (class, name) = (root.handle, "all".to_owned());
    of_queue(root, &leaves, LinePart { class, name, host: None, place: None })
}

/// Where dnsmasq keeps its leases: Debian, OpenWrt.
const LEASES: [&str; 2] = ["/var/lib/misc/dnsmasq.leases", "/tmp/dhcp.leases"];

/// No such file of a network is longer.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Default)]
struct Names {
    addresses: BTreeMap<IpAddr, String>,
    macs: BTreeMap<[u8; 6], String>,
}

impl Names {
    fn read() -> Self {
        let mut names = Names::default();
        names.hosts(&text(Path::new("/etc/hosts")));
        LEASES.iter().for_each(|file| names.leases(&text(Path::new(file))));
        names
    }

    /// That of a host with this hardware address and these addresses.
    fn of(&self, mac: Option<[u8; 6]>, addresses: &[IpAddr]) -> Option<&str> {
        let by_mac = mac.and_then(|mac| self.macs.get(&mac));
        let name = by_mac.or_else(|| addresses.iter().find_map(|a| self.addresses.get(a)));
        name.map(String::as_str)
    }

    fn hosts(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            if let (Some(Ok(address)), Some(name)) = (words.next().map(str::parse), words.next()) {
                self.addresses.entry(address).or_insert_with(|| name.to_owned());
            }
        }
    }

    fn leases(&mut self, text: &str) {
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, mac, address, name, ..] = words[..] else { continue };
            if name == "*" {
                continue;
            }
            if let Ok(address) = address.parse() {
                self.addresses.insert(address, name.to_owned());
            }
            // Of IPv6 a number of the client's own stands there.
            if let Some(mac) = hardware(mac) {
                self.macs.insert(mac, name.to_owned());
            }
        }
    }
}

fn hardware(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

fn text(path: &Path) -> String {
    // Where everybody may make files, a pipe may stand in its place.
    input::bytes(path, LARGEST)
        .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_by_its_lease_before_its_address_is_looked_up() {
        let mut names = Names::default();
        names.hosts("127.0.0.1 localhost\n192.0.2.7  printer printer.lan # upstairs\nnonsense\n");
        names.leases(
            "1795500000 02:00:00:00:00:07 192.0.2.9 laptop 01:02:00:00:00:00:07\n1795500000 02:00:00:00:00:08 192.0.2.10 * *\n\
             duid 00:01\n1795500000 123456 2001:db8::9 laptop 00:01:00\n",
        );
        let of = |mac: Option<u8>, addresses: &[&str]| {
            let mac = mac.map(|last| [2, 0, 0, 0, 0, last]);
            let addresses: Vec<IpAddr> = addresses.iter().map(|a| a.parse().unwrap()).collect();
            names.of(mac, &addresses).map(str::to_owned)
        };
        assert_eq!(of(None, &["192.0.2.7"]).as_deref(), Some("printer"));
        assert_eq!(of(Some(7), &["192.0.2.250"]).as_deref(), Some("laptop"));
        assert_eq!(of(None, &["2001:db8::1", "2001:db8::9"]).as_deref(), Some("laptop"));
        assert_eq!(of(Some(8), &["192.0.2.10"]), None, "who did not say is not called a star");
    }
}
