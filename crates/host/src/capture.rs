//! Reading a host, in the calling thread's network namespace.

use crate::sockets::{Fold, Sockets};
use crate::{Device, QueueCounters, Reading, Snapshot, Texts, counters, settings};
use quell_hierarchy::{LiveDevice, Trouble, assemble, records_of};
use quell_netlink::core::Socket;
use quell_netlink::ethtool::{self, Ethtool};
use quell_netlink::link::Link;
use quell_netlink::sock_diag::{SockDiag, TcpFilter, TcpState};
use quell_netlink::{NetlinkError, Stack, tc};
use quell_tc::Handle;
use std::collections::BTreeMap;

/// Files that every host should have.
const FILES: [&str; 15] = [
    "/proc/net/softnet_stat",
    "/proc/net/sockstat",
    "/proc/net/sockstat6",
    "/proc/net/stat/nf_conntrack",
    "/proc/net/stat/arp_cache",
    "/proc/net/stat/ndisc_cache",
    "/proc/stat",
    "/proc/meminfo",
    "/proc/uptime",
    "/proc/cmdline",
    "/proc/modules",
    "/proc/interrupts",
    "/proc/self/status",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/smt/active",
];

/// Folders of settings, each of which is read whole but for what lies in folders within.
const SETTINGS: [&str; 4] = ["net/core", "net/ipv4", "net/netfilter", "net/ipv4/neigh/default"];
/// Single settings.
const SINGLE: [&str; 4] = [
    "kernel/osrelease",
    "net/ipv6/neigh/default/gc_thresh3",
    "net/ipv6/ip6frag_high_thresh",
    "net/ipv4/conf/all/rp_filter",
];
/// Files of a device on its bus.
const BUS: [&str; 6] = [
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "numa_node",
    "local_cpulist",
];
/// Most files of settings in one folder, and most devices of which the driver's counters are read.
const MOST_SETTINGS: usize = 1024;
const MOST_DRIVERS: usize = 256;
/// Most interrupts of a device that are looked at.
const MOST_INTERRUPTS: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    Full,
    /// What moves: counters, queues, sockets; no settings and no hardware.
    Moving,
}

pub fn take(depth: Depth) -> Snapshot {
    let mut texts = Texts::default();
    let files = counters::FILES.iter().chain(&FILES);
    files.for_each(|path| texts.read(path));
    if depth == Depth::Full {
        read_settings(&mut texts);
    }
    let links = Stack::open().and_then(|mut stack| stack.links());
    let addresses = Stack::open().and_then(|mut stack| stack.addresses()).unwrap_or_default();
    let mut unseen = Vec::new();
    let devices = links.map_err(|e| said(&e)).map(|links| devices(links, depth, &mut unseen));
    for name in
        devices.iter().flat_map(BTreeMap::keys).filter(|_| depth == Depth::Full).take(MOST_DRIVERS)
    {
        texts.read(&format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"));
        texts.read(&format!("/proc/sys/net/ipv6/conf/{name}/hop_limit"));
    }
    let queues = devices.as_ref().map_err(String::clone).and_then(queues);
    Snapshot {
        at_ns: quell_sys::clock::monotonic_ns(),
        texts,
        first_address_cs: addresses.iter().filter_map(|address| address.created_cs).min(),
        devices,
        queues,
        hardware_unseen: unseen,
        sockets: sockets(),
    }
}

fn said(error: &NetlinkError) -> String {
    error.to_string()
}

fn read_settings(texts: &mut Texts) {
    for folder in SETTINGS {
        let place = format!("/proc/sys/{folder}");
        for name in names(&place).into_iter().take(MOST_SETTINGS) {
            texts.read(&format!("{place}/{name}"));
        }
    }
    SINGLE.iter().for_each(|key| texts.read(&format!("/proc/sys/{key}")));
    for folder in settings::FOLDERS {
        let confs = names(folder).into_iter().filter(|name| name.ends_with(".conf"));
        confs.take(MOST_SETTINGS).for_each(|name| texts.read(&format!("{folder}/{name}")));
    }
    if std::path::Path::new(settings::OLD).exists() {
        texts.read(settings::OLD);
    }
}

/// The plain files of a folder; none where it can't be read.
fn names(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.path().is_file());
    let mut names: Vec<_> = files.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn devices(links: Vec<Link>, depth: Depth, unseen: &mut Vec<String>) -> BTreeMap<String, Device> {
    let mut hardware = BTreeMap::new();
    if depth == Depth::Full {
        match Ethtool::open() {
            Ok(mut ethtool) => {
                let (found, refused) = ethtool.all();
                hardware = found;
                unseen.extend(refused.iter().map(said));
            }
            Err(error) => unseen.push(said(&error)),
        }
    }
    let mut drivers = 0;
    let mut one = |link: Link| {
        let bus = bus(&link.name);
        let mut counters = BTreeMap::new();
        // A device without a bus is made of the kernel alone, and counts in rtnetlink all that it counts.
        if !bus.is_empty() && drivers < MOST_DRIVERS {
            drivers += 1;
            match link.name.parse().map(|name| ethtool::counters(&name)) {
                Ok(Ok(found)) => counters = found.into_iter().collect(),
                Ok(Err(error)) => unseen.push(format!("{}: {error}", link.name)),
                Err(_) => {}
            }
        }
        let hardware = hardware.remove(&link.name).unwrap_or_default();
        (link.name.clone(), Device { link, hardware, counters, bus, known_stats: None })
    };
    links.into_iter().map(&mut one).collect()
}

fn bus(device: &str) -> BTreeMap<String, String> {
    let folder = format!("/sys/class/net/{device}/device");
    let mut found = BTreeMap::new();
    // Without a bus there is no such folder.
    if device.contains('/') || !std::path::Path::new(&folder).exists() {
        return found;
    }
    found.insert("path".to_owned(), folder.clone());
    for name in BUS {
        if let Ok(text) = std::fs::read_to_string(format!("{folder}/{name}")) {
            found.insert(name.to_owned(), text.trim().to_owned());
        }
    }
    // Where its interrupts are served: hardware with one queue a CPU has as many.
    let interrupts = names(&format!("{folder}/msi_irqs"));
    let served = interrupts.iter().take(MOST_INTERRUPTS).filter_map(|number| {
        let place = format!("/proc/irq/{number}/effective_affinity_list");
        Some(std::fs::read_to_string(place).ok()?.trim().to_owned())
    });
    let served: std::collections::BTreeSet<String> = served.collect();
    if !served.is_empty() {
        let served: Vec<String> = served.into_iter().collect();
        found.insert("interrupt_cpus".to_owned(), served.join(","));
    }
    found
}

fn queues(devices: &BTreeMap<String, Device>) -> Reading<Vec<QueueCounters>> {
    let mut stack = Stack::open().map_err(|e| said(&e))?;
    let found = tc::dump_all_qdiscs(stack.socket()).map_err(|e| said(&e))?;
    let names: BTreeMap<u32, &str> =
        devices.values().map(|device| (device.link.index, device.link.name.as_str())).collect();
    let one = |queue: quell_tc::observed::ObservedQdisc| {
        let device = *names.get(&queue.ifindex)?;
        let classes =
            queue.parent == Handle::ROOT && matches!(queue.kind.as_str(), "htb" | "hfsc" | "drr");
        let troubles = match classes {
            true => classes_troubles(stack.socket(), queue.ifindex, device).unwrap_or_default(),
            false => Vec::new(),
        };
        Some(QueueCounters {
            device: device.to_owned(),
            parent: queue.parent.to_string(),
            root: queue.parent == Handle::ROOT,
            packets: queue.stats.packets,
            drops: queue.stats.drops.into(),
            backlog_packets: queue.stats.backlog_packets.into(),
            backlog_bytes: queue.stats.backlog_bytes.into(),
            marks: queue.extra.as_ref().map(|extra| extra.ecn_marks()),
            limit_drops: queue.extra.as_ref().and_then(|extra| extra.limit_drops()),
            options: queue.options.as_ref().map(|options| options.fields()),
            kind: queue.kind,
            troubles,
        })
    };
    Ok(found.into_iter().filter_map(one).collect())
}

/// What will go wrong in a device's classes; none where they can't be read.
fn classes_troubles(socket: &mut Socket, index: u32, name: &str) -> Option<Vec<String>> {
    let snapshot = tc::snapshot(socket, index).ok()?;
    let records = records_of(&LiveDevice { name, snapshot: &snapshot });
    let hierarchy = assemble(records, None, |_| false).ok()?;
    Some(hierarchy.devices.iter().flat_map(|device| troubles(&device.findings)).collect())
}

/// Of what `quell tree` says of a device, what costs packets or lets them pass unshaped.
pub fn troubles(findings: &[quell_hierarchy::Finding]) -> Vec<String> {
    let counts = |t| matches!(t, Trouble::Unshaped | Trouble::DropsUnmatched | Trouble::SmallBurst);
    let found = findings.iter().filter(|finding| counts(finding.trouble));
    found.map(|finding| finding.words.clone()).collect()
}

/// Bytes that wait in the queues of each device, of those that have any.
pub fn backlogs() -> BTreeMap<String, u64> {
    let read = || -> Result<BTreeMap<String, u64>, NetlinkError> {
        let mut stack = Stack::open()?;
        let mut found = BTreeMap::new();
        for queue in tc::dump_all_qdiscs(stack.socket())? {
            if queue.parent == Handle::ROOT && queue.stats.backlog_bytes > 0 {
                let device = stack.link_at(queue.ifindex)?.name;
                found.insert(device, queue.stats.backlog_bytes.into());
            }
        }
        Ok(found)
    };
    // A device that goes away meanwhile is no reason to stop looking.
    read().unwrap_or_default()
}

/// All states but TIME-WAIT, of which there can be very many; [`sockets`] looks at them where they may hold most local ports.
const STATES: u32 = TcpState::ALL & !TcpState::TimeWait.bit();

/// Reads the connections now, and no sockets of UDP: the kernel goes through a table of half a million places for each of the two, whatever
/// is in it.
pub fn connections() -> Reading<Sockets> {
    Ok(tcp()?.finish())
}

fn tcp() -> Reading<Fold> {
    let mut fold = Fold::default();
    let filter = TcpFilter { states: STATES, ..TcpFilter::ESTABLISHED };
    let mut diag = SockDiag::open().map_err(|e| said(&e))?;
    diag.each_tcp(&filter, |socket| fold.tcp(socket)).map_err(|e| said(&e))?;
    Ok(fold)
}

/// Whether there are half as many as local ports.
fn time_waits_may_fill_the_ports() -> Option<bool> {
    let mut texts = Texts::default();
    let (sockstat, range) = ("/proc/net/sockstat", "/proc/sys/net/ipv4/ip_local_port_range");
    [sockstat, range].iter().for_each(|path| texts.read(path));
    let waiting =
        texts.get(sockstat).ok().map(crate::counters::sockstat)?.get("TCP.tw").copied()?;
    let ports: Vec<u64> = texts.numbers("net/ipv4/ip_local_port_range").ok()?;
    let &[first, last] = ports.as_slice() else { return None };
    Some(waiting * 2 >= last.saturating_sub(first))
}

pub fn sockets() -> Reading<Sockets> {
    let mut fold = tcp()?;
    if time_waits_may_fill_the_ports() == Some(true) {
        let filter = TcpFilter { states: TcpState::TimeWait.bit(), ..TcpFilter::ESTABLISHED };
        let mut diag = SockDiag::open().map_err(|e| said(&e))?;
        diag.each_tcp(&filter, |socket| fold.tcp(socket)).map_err(|e| said(&e))?;
    }
    // After a refusal a new conversation is needed.
    let udp = SockDiag::open().and_then(|mut diag| diag.each_udp(|socket| fold.udp(socket)));
    Ok(Sockets { udp_unseen: udp.err().map(|e| said(&e)), ..fold.finish() })
}
