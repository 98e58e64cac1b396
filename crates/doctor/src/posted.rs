//! What people post of a slow host, as the facts that checks read: outputs of programs in any order, in one text or several, with prose around.
//!
//! ```text
//!   netstat -s, nstat, /proc/net/snmp ──► counters ─┐
//!   /proc/net/softnet_stat, sysctl, uptime ─► files ─┼──► Snapshot now, and before where something stands there twice
//!   ip -s link, ethtool -S, dmesg ──────► devices ───┤   (posted_links)
//!   ss -tinm ───────────────────────────► sockets ───┤   (posted_sockets)
//!   tc -s qdisc, class, filter ► hierarchy ► queues ─┘
//! ```
//!
//! A counter that is not there is unknown: netstat and nstat leave out most that are zero, and people cut out others.

use crate::counters::COUNTERS;
use crate::posted_links::{figure, ifconfig, link, scaled};
use crate::posted_sockets::SocketTable;
use quell_hierarchy::{Hierarchy, stripped};
use quell_host::capture::troubles;
use quell_host::sockets::Sockets;
use quell_host::{Device, QueueCounters, Snapshot, Texts};
use quell_netlink::link::Link;
use quell_units::fmt::plural;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What a text held, and what would tell more.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PostedText {
    pub found: Vec<&'static str>,
    /// Commands whose output is not there.
    pub missing: Vec<&'static str>,
    /// What else is to be said of it.
    pub remarks: Vec<String>,
}

/// Outputs that are known, by what they tell.
const OUTPUTS: [(&str, &str); 7] = [
    ("counters", "nstat -az"),
    ("softnet", "cat /proc/net/softnet_stat"),
    ("links", "ip -s -s link"),
    ("queues", "tc -s qdisc"),
    ("connections", "ss -tinm"),
    ("drivers", "ethtool -S DEVICE"),
    ("settings", "sysctl -a"),
];

/// Groups of counters; one whose name begins as another's comes first.
const GROUPS: [&str; 9] =
    ["TcpExt", "IpExt", "MPTcpExt", "IcmpMsg", "UdpLite", "Icmp", "Tcp", "Udp", "Ip"];

/// A figure as it was first and last, each with the number of its section.
#[derive(Debug, Clone, Copy)]
struct Twice {
    first: (u32, u64),
    last: (u32, u64),
}

#[derive(Debug, Default)]
struct Gathered {
    /// How often each group's counters were told.
    groups: BTreeMap<String, u32>,
    counters: BTreeMap<String, Twice>,
    softnet: Vec<Vec<String>>,
    /// Each with the figures that stand there.
    links: Vec<(Link, BTreeSet<&'static str>)>,
    sockets: Vec<SocketTable>,
    drivers: Vec<(String, BTreeMap<String, u64>)>,
    settings: BTreeMap<String, String>,
    uptime: Option<f64>,
    carrier_changes: BTreeMap<String, u32>,
    conntrack_full: u64,
}

/// Reads texts, the earlier first. Errors with a sentence where there is nothing in them that is known.
pub fn read(texts: &[String]) -> Result<(Option<Snapshot>, Snapshot, PostedText), String> {
    let (mut all, mut queued) = (Gathered::default(), Vec::new());
    for text in texts {
        let text = text.trim_start_matches('\u{feff}');
        let lines: Vec<String> = text.lines().map(stripped).collect();
        all.take(&lines);
        queued.extend(queues(&lines));
    }
    all.finish(queued)
}

/// Where a line stands.
#[derive(Debug, Clone, PartialEq)]
enum Section {
    Prose,
    /// `netstat -s`, within a group.
    Netstat(String),
    Nstat,
    Softnet,
    /// `ip -s link`: the heads of the figures that come next.
    Link(Vec<String>),
    Driver,
    Socket,
}

impl Gathered {
    fn take(&mut self, lines: &[String]) {
        let mut section = Section::Prose;
        let mut device = None;
        for (at, raw) in lines.iter().enumerate() {
            let line = raw.trim();
            if let Some(named) = behind(line, "ethtool -S ") {
                let named = named.trim_end_matches([')', ':', ',', '`']).to_owned();
                self.drivers.push((named.clone(), BTreeMap::new()));
                (device, section) = (Some(named), Section::Driver);
                continue;
            }
            let next = lines.get(at + 1).map_or("", |next| next.trim());
            section = self.line(line, next, section, device.as_deref());
        }
    }

    /// Takes a line; gives the section that the next one stands in.
    fn line(
        &mut self,
        line: &str,
        next: &str,
        mut section: Section,
        device: Option<&str>,
    ) -> Section {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(group) = line.strip_suffix(':').filter(|group| GROUPS.contains(group)) {
            self.begin(group);
            return Section::Netstat(group.to_owned());
        }
        // The file itself: names over values.
        if let Some((group, names)) = line.split_once(": ")
            && GROUPS.contains(&group)
            && let Some(values) = next.strip_prefix(group).and_then(|rest| rest.strip_prefix(": "))
            && values.split_whitespace().all(|value| value.parse::<i64>().is_ok())
        {
            self.begin(group);
            for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
                self.counter(&format!("{group}.{name}"), value.parse().ok());
            }
            return Section::Prose;
        }
        let is_head = line == "#kernel" || line == "#extended" || line.contains("\"kernel\":");
        if is_head || is_of_nstat(&words) && (section != Section::Nstat || self.is_again(words[0]))
        {
            // Of its groups each is told whole.
            GROUPS.iter().for_each(|group| self.begin(group));
            self.begin("");
            section = Section::Nstat;
        }
        if let Some(link) = link(line) {
            self.links.push((link, BTreeSet::new()));
            return Section::Link(Vec::new());
        }
        if line == "NIC statistics:" {
            let device =
                device.map(str::to_owned).or_else(|| Some(self.links.last()?.0.name.clone()));
            self.drivers.push((device.unwrap_or_else(|| "the card".to_owned()), BTreeMap::new()));
            return Section::Driver;
        }
        if words.len() >= 9 && words.iter().all(|word| is_hex(word)) {
            match (&section, self.softnet.last_mut()) {
                (Section::Softnet, Some(block)) => block.push(line.to_owned()),
                _ => self.softnet.push(vec![line.to_owned()]),
            }
            return Section::Softnet;
        }
        if line.contains("Recv-Q") || self.sockets.is_empty() {
            self.sockets.push(SocketTable::default());
        }
        if self.sockets.last_mut().is_some_and(|sockets| sockets.begin(line)) {
            return Section::Socket;
        }
        self.single(line, &words);
        match section {
            Section::Socket if !line.is_empty() => {
                self.sockets.last_mut().into_iter().for_each(|sockets| sockets.details(line));
                Section::Socket
            }
            Section::Netstat(group) => {
                if let Some((name, value)) = netstat(&group, line) {
                    self.counter(&format!("{group}.{name}"), Some(value));
                }
                Section::Netstat(group)
            }
            Section::Nstat => {
                if let [name, value, _] = words[..] {
                    self.counter(&dotted(name), value.parse().ok());
                }
                for (name, value) in line.split(',').filter_map(json_counter) {
                    self.counter(&dotted(name), Some(value));
                }
                Section::Nstat
            }
            Section::Link(heads) => self.link_line(line, &words, heads),
            Section::Driver => match (line.rsplit_once(':'), self.drivers.last_mut()) {
                (Some((name, value)), Some((_, counters))) => {
                    if let Ok(value) = value.trim().parse() {
                        counters.insert(name.trim().to_owned(), value);
                    }
                    Section::Driver
                }
                _ => Section::Prose,
            },
            Section::Prose | Section::Softnet | Section::Socket => Section::Prose,
        }
    }

    fn begin(&mut self, group: &str) {
        *self.groups.entry(group.to_owned()).or_default() += 1;
    }

    /// Whether a counter of nstat stands in this output already.
    fn is_again(&self, name: &str) -> bool {
        let name = dotted(name);
        let section = name.split_once('.').and_then(|(group, _)| self.groups.get(group));
        self.counters.get(&name).is_some_and(|known| Some(&known.last.0) == section)
    }

    fn counter(&mut self, name: &str, value: Option<u64>) {
        let Some(value) = value else { return };
        let group = name.split_once('.').map_or("", |(group, _)| group);
        let section = self.groups.get(group).copied().unwrap_or(0);
        let one = (section, value);
        let known = self.counters.entry(name.to_owned()).or_insert(Twice { first: one, last: one });
        known.last = one;
    }

    /// Lines that tell something by themselves.
    fn single(&mut self, line: &str, words: &[&str]) {
        if let Some((key, value)) = line.split_once('=')
            && (key.starts_with("net.") || key.starts_with("kernel.osrelease"))
            && !key.trim().contains(char::is_whitespace)
        {
            self.settings.insert(key.trim().replace('.', "/"), value.trim().to_owned());
        }
        if let ["Linux", _, release, ..] = words
            && release.starts_with(|c: char| c.is_ascii_digit())
        {
            self.settings.insert("kernel/osrelease".to_owned(), (*release).to_owned());
        }
        self.uptime = uptime(line).or(self.uptime);
        if line.contains("nf_conntrack: table full") {
            self.conntrack_full += 1;
        }
        for change in ["Link is Down", "Link is Up", "Link is down", "Link is up"] {
            let before = line.split_once(change).map(|(before, _)| before);
            let device = before.and_then(|before| {
                before.split_whitespace().rev().find_map(|word| word.strip_suffix(':'))
            });
            if let Some(device) = device {
                *self.carrier_changes.entry(device.to_owned()).or_default() += 1;
            }
        }
    }

    /// Below a link's name: heads in one line, figures in the next.
    fn link_line(&mut self, line: &str, words: &[&str], heads: Vec<String>) -> Section {
        let named = words.join(" ").replace(':', " ");
        if self.links.last_mut().is_some_and(|(link, known)| ifconfig(&named, link, known)) {
            return Section::Link(Vec::new());
        }
        let is_head = ["RX", "TX"].iter().any(|way| line.starts_with(way)) && line.contains(':');
        if is_head {
            let way = &line[..2];
            let names = line.split_once(':').map_or("", |(_, names)| names);
            return Section::Link(names.split_whitespace().map(|n| format!("{way} {n}")).collect());
        }
        if let Some((link, known)) = self.links.last_mut().filter(|_| !heads.is_empty()) {
            for (head, word) in heads.iter().zip(words) {
                let Some((name, figure)) = figure(&mut link.stats, head) else { continue };
                if let Some(value) = scaled(word) {
                    *figure = value;
                    known.insert(name);
                }
            }
            return Section::Link(Vec::new());
        }
        if line.is_empty() { Section::Prose } else { Section::Link(heads) }
    }

    fn finish(
        mut self,
        queues: Vec<Vec<QueueCounters>>,
    ) -> Result<(Option<Snapshot>, Snapshot, PostedText), String> {
        self.drivers.retain(|(_, counters)| !counters.is_empty());
        let sockets = SocketTable::readings(&self.sockets);
        let told = [
            !self.counters.is_empty(),
            !self.softnet.is_empty(),
            !self.links.is_empty() || !self.carrier_changes.is_empty(),
            !queues.is_empty(),
            !sockets.is_empty(),
            !self.drivers.is_empty(),
            !self.settings.is_empty(),
        ];
        let outputs = || OUTPUTS.iter().zip(told);
        let mut text = PostedText {
            found: outputs().filter(|(_, told)| *told).map(|((what, _), _)| *what).collect(),
            missing: outputs().filter(|(_, told)| !told).map(|((_, how), _)| *how).collect(),
            remarks: Vec::new(),
        };
        // Only what lists all counters has those that are zero.
        let is_whole =
            |(name, twice): (&String, &Twice)| name.starts_with("TcpExt.") && twice.last.1 == 0;
        if told[0] && !self.counters.iter().any(is_whole) {
            text.missing.insert(0, "nstat -az");
        }
        if told[2] && !self.links.iter().any(|(_, known)| known.contains("rx_crc_errors")) {
            text.missing.push("ip -s -s link");
        }
        if text.found.is_empty() && self.conntrack_full == 0 {
            return Err("nothing in it is known: it takes what netstat -s, nstat, ip -s -s link, tc -s qdisc, ss -tinm, ethtool -S, sysctl -a and dmesg \
                        print, and /proc/net/softnet_stat"
                .to_owned());
        }
        let named_ports: usize = self.sockets.iter().map(|sockets| sockets.named_ports).sum();
        if named_ports > 0 {
            text.remarks.push(format!(
                "{} could not be read, since ports stand there by name: ss -n prints numbers.",
                plural(named_ports, "socket")
            ));
        }
        if self.conntrack_full > 0 {
            text.remarks.push(format!(
                "The kernel's log says {} that the table of tracked connections is full (quell doctor --explain conntrack-full)",
                plural(self.conntrack_full, "time")
            ));
        }
        let is_twice = self.groups.values().any(|count| *count > 1)
            || self.softnet.len() > 1
            || self
                .links
                .iter()
                .any(|(a, _)| self.links.iter().filter(|(b, _)| b.name == a.name).count() > 1)
            || sockets.len() > 1
            || queues.len() > 1;
        let before = is_twice.then(|| self.snapshot(queues.first(), sockets.first(), true));
        Ok((before, self.snapshot(queues.last(), sockets.last(), false), text))
    }

    fn snapshot(
        &self,
        queues: Option<&Vec<QueueCounters>>,
        sockets: Option<&Sockets>,
        before: bool,
    ) -> Snapshot {
        let mut texts = Texts::default();
        let mut file = |path: &str, text: String| {
            texts.0.insert(path.to_owned(), Ok(text));
        };
        let counters = self.counters(before);
        for (path, groups) in FILES {
            let text: String = groups.iter().filter_map(|group| pair(group, &counters)).collect();
            if !text.is_empty() {
                file(path, text);
            }
        }
        let own = counters.iter().filter(|(name, _)| !name.contains('.'));
        let own: String = own.map(|(name, value)| format!("{name} {value}\n")).collect();
        if !own.is_empty() {
            file("/proc/net/snmp6", own);
        }
        let softnet = if before { self.softnet.first() } else { self.softnet.last() };
        if let Some(lines) = softnet {
            file("/proc/net/softnet_stat", lines.join("\n"));
        }
        for (key, value) in &self.settings {
            file(&format!("/proc/sys/{key}"), value.clone());
        }
        if let Some(seconds) = self.uptime {
            file("/proc/uptime", seconds.to_string());
        }
        let devices = self.devices(before);
        Snapshot {
            at_ns: 0,
            texts,
            first_address_cs: None,
            devices: if devices.is_empty() { not_there("ip -s link") } else { Ok(devices) },
            queues: queues.map_or(not_there("tc -s qdisc"), |queues| Ok(queues.clone())),
            hardware_unseen: vec!["ethtool is not in the text".to_owned()],
            sockets: sockets.map_or(not_there("ss -tinm"), |sockets| Ok(sockets.clone())),
        }
    }

    /// Counters as they were first or last.
    fn counters(&self, before: bool) -> BTreeMap<String, u64> {
        let one = |(name, twice): (&String, &Twice)| {
            let (section, value) = if before { twice.first } else { twice.last };
            // What is first told later was unknown before.
            (!before || section <= 1).then(|| (name.clone(), value))
        };
        self.counters.iter().filter_map(one).collect()
    }

    fn devices(&self, before: bool) -> BTreeMap<String, Device> {
        let new = |name: &str| Link {
            name: name.to_owned(),
            flags: libc::IFF_UP as u32,
            ..Link::default()
        };
        let links: Vec<_> = match before {
            true => self.links.iter().rev().collect(),
            false => self.links.iter().collect(),
        };
        let mut devices: BTreeMap<String, Device> = BTreeMap::new();
        let device = |link: Link, known: &BTreeSet<&'static str>| Device {
            link,
            hardware: Default::default(),
            counters: BTreeMap::new(),
            bus: BTreeMap::new(),
            known_stats: Some(known.iter().map(|name| (*name).to_owned()).collect()),
        };
        for (link, known) in links {
            devices.insert(link.name.clone(), device(link.clone(), known));
        }
        let names: BTreeSet<&String> =
            self.carrier_changes.keys().chain(self.drivers.iter().map(|(name, _)| name)).collect();
        for name in names {
            devices.entry(name.clone()).or_insert_with(|| device(new(name), &BTreeSet::new()));
        }
        for (name, count) in &self.carrier_changes {
            if let Some(device) = devices.get_mut(name).filter(|_| !before) {
                device.link.carrier_changes = Some(*count);
            }
        }
        let drivers: Vec<_> = match before {
            true => self.drivers.iter().rev().collect(),
            false => self.drivers.iter().collect(),
        };
        for (name, counters) in drivers {
            if let Some(device) = devices.get_mut(name) {
                device.counters.clone_from(counters);
                device.bus.insert("path".to_owned(), "ethtool".to_owned());
            }
        }
        devices
    }
}

fn not_there<T>(output: &str) -> Result<T, String> {
    Err(format!("{output} is not in the text"))
}

/// Groups by the file of the kernel that holds them.
const FILES: [(&str, &[&str]); 2] = [
    ("/proc/net/snmp", &["Ip", "Icmp", "Tcp", "Udp"]),
    ("/proc/net/netstat", &["TcpExt", "IpExt"]),
];

/// Counters that checks read beside those that are told to have moved.
const ALSO_READ: [&str; 12] = [
    "TcpExt.TCPOrigDataSent",
    "TcpExt.OfoPruned",
    "TcpExt.TCPReqQFullDoCookies",
    "TcpExt.TCPDSACKOfoRecv",
    "TcpExt.TCPSACKReneging",
    "TcpExt.TCPTSReorder",
    "TcpExt.TCPRenoReorder",
    "TcpExt.TCPAbortOnMemory",
    "TcpExt.TCPMTUPSuccess",
    "Tcp.ActiveOpens",
    "Icmp.InCsumErrors",
    "Ip.ReasmReqds",
];

/// A group as its file has it: names over values.
fn pair(group: &str, counters: &BTreeMap<String, u64>) -> Option<String> {
    let own = |(name, value): (&String, &u64)| {
        let name = name.strip_prefix(group)?.strip_prefix('.')?;
        Some((name.to_owned(), value.to_string()))
    };
    let (names, values): (Vec<_>, Vec<_>) = counters.iter().filter_map(own).unzip();
    let line = |words: &[String]| format!("{group}: {}\n", words.join(" "));
    (!names.is_empty()).then(|| line(&names) + &line(&values))
}

/// `TcpExtListenOverflows` becomes `TcpExt.ListenOverflows`; those of IPv6 have no group.
fn dotted(name: &str) -> String {
    let is_own = |group: &&&str| {
        name.strip_prefix(**group)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    match GROUPS.iter().find(is_own) {
        Some(group) => format!("{group}.{}", &name[group.len()..]),
        None => name.to_owned(),
    }
}

/// `"TcpRetransSegs":3456`, as `nstat -j` has it.
fn json_counter(part: &str) -> Option<(&str, u64)> {
    let (name, value) = part.rsplit_once(':')?;
    let value = value.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
    Some((name.rsplit('"').nth(1)?, value))
}

/// `TcpRetransSegs  3456  0.0`, as `grep` leaves it.
fn is_of_nstat(words: &[&str]) -> bool {
    let [name, value, rate] = words else { return false };
    dotted(name).contains('.') && value.parse::<u64>().is_ok() && rate.parse::<f64>().is_ok()
}

/// What follows a command at a prompt: its first word.
fn behind(line: &str, command: &str) -> Option<String> {
    let (_, rest) = line.split_once(command)?;
    rest.split_whitespace().next().map(str::to_owned)
}

fn is_hex(word: &str) -> bool {
    word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Seconds of `12:34:56 up 10 days,  3:04,  2 users`, or of /proc/uptime.
fn uptime(line: &str) -> Option<f64> {
    if let [first, second] = line.split_whitespace().collect::<Vec<_>>()[..]
        && first.contains('.')
        && second.contains('.')
    {
        return first.parse().ok().filter(|_| second.parse::<f64>().is_ok());
    }
    let (clock, rest) = line.split_once(" up ")?;
    clock.trim().split(':').all(|part| part.parse::<u8>().is_ok()).then_some(())?;
    let mut seconds = 0.0;
    for part in rest.split(',').map(str::trim) {
        if let Some((hours, minutes)) = part.split_once(':') {
            seconds += hours.parse::<f64>().ok()? * 3600.0 + minutes.parse::<f64>().ok()? * 60.0;
            break;
        }
        let (number, unit) = part.split_once(' ')?;
        let number: f64 = number.parse().ok()?;
        match unit {
            "day" | "days" => seconds += number * 86_400.0,
            "min" => seconds += number * 60.0,
            _ => break,
        }
    }
    (seconds > 0.0).then_some(seconds)
}

/// A line of `netstat -s`: a counter by its name, or in the words of net-tools (`statistics.c`).
fn netstat(group: &str, line: &str) -> Option<(&'static str, u64)> {
    let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
    let value = line.split_whitespace().find(is_number)?;
    let words: Vec<&str> =
        line.split_whitespace().map(|word| if word == value { "#" } else { word }).collect();
    let said = words.join(" ");
    let said = said.trim_end_matches('.');
    let known = PHRASES.iter().find(|(of, phrase, _)| *of == group && *phrase == said);
    let name = match (known, said.strip_suffix(": #")) {
        (Some((.., name)), _) => *name,
        (None, Some(name)) => by_name(group, name)?,
        _ => return None,
    };
    Some((name, value.parse().ok()?))
}

/// A counter that checks know, by its own name.
fn by_name(group: &str, name: &str) -> Option<&'static str> {
    let all = COUNTERS.iter().flat_map(|(_, names)| *names).copied().chain(ALSO_READ);
    all.filter_map(|known| known.split_once('.')).find(|known| *known == (group, name)).map(|k| k.1)
}

const PHRASES: [(&str, &str, &str); 44] = [
    ("Tcp", "# active connection openings", "ActiveOpens"),
    ("Tcp", "# active connections openings", "ActiveOpens"),
    ("Tcp", "# segments received", "InSegs"),
    ("Tcp", "# segments sent out", "OutSegs"),
    ("Tcp", "# segments send out", "OutSegs"),
    ("Tcp", "# segments retransmitted", "RetransSegs"),
    ("Tcp", "# segments retransmited", "RetransSegs"),
    ("Tcp", "# bad segments received", "InErrs"),
    ("Udp", "# packets received", "InDatagrams"),
    ("Udp", "# packets sent", "OutDatagrams"),
    ("Udp", "# packets to unknown port received", "NoPorts"),
    ("Udp", "# receive buffer errors", "RcvbufErrors"),
    ("Udp", "# send buffer errors", "SndbufErrors"),
    ("Ip", "# incoming packets discarded", "InDiscards"),
    ("Ip", "# outgoing packets dropped", "OutDiscards"),
    ("Ip", "# dropped because of missing route", "OutNoRoutes"),
    ("Ip", "# reassemblies required", "ReasmReqds"),
    ("Ip", "# packet reassemblies failed", "ReasmFails"),
    ("Ip", "# packet reassembles failed", "ReasmFails"),
    ("Ip", "# fragments failed", "FragFails"),
    (
        "TcpExt",
        "# packets pruned from receive queue because of socket buffer overrun",
        "PruneCalled",
    ),
    ("TcpExt", "# packets pruned from receive queue", "RcvPruned"),
    (
        "TcpExt",
        "# packets dropped from out-of-order queue because of socket buffer overrun",
        "OfoPruned",
    ),
    ("TcpExt", "# packets rejected in established connections because of timestamp", "PAWSEstab"),
    ("TcpExt", "# packets rejects in established connections because of timestamp", "PAWSEstab"),
    ("TcpExt", "# packetes rejected in established connections because of timestamp", "PAWSEstab"),
    ("TcpExt", "# delayed acks sent", "DelayedACKs"),
    ("TcpExt", "# times the listen queue of a socket overflowed", "ListenOverflows"),
    ("TcpExt", "# SYNs to LISTEN sockets dropped", "ListenDrops"),
    ("TcpExt", "# SYNs to LISTEN sockets ignored", "ListenDrops"),
    ("TcpExt", "# bad SACK blocks received", "TCPSACKReneging"),
    ("TcpExt", "Detected reordering # times using SACK", "TCPSACKReorder"),
    ("TcpExt", "Detected reordering # times using time stamp", "TCPTSReorder"),
    ("TcpExt", "Detected reordering # times using reno fast retransmit", "TCPRenoReorder"),
    ("TcpExt", "# fast retransmits", "TCPFastRetrans"),
    ("TcpExt", "# retransmits in slow start", "TCPSlowStartRetrans"),
    ("TcpExt", "# other TCP timeouts", "TCPTimeouts"),
    ("TcpExt", "# DSACKs received", "TCPDSACKRecv"),
    ("TcpExt", "# DSACKs for out of order packets received", "TCPDSACKOfoRecv"),
    ("TcpExt", "# packets collapsed in receive queue due to low socket buffer", "TCPRcvCollapsed"),
    ("TcpExt", "# connections aborted due to memory pressure", "TCPAbortOnMemory"),
    ("TcpExt", "TCP ran low on memory # times", "TCPMemoryPressures"),
    ("TcpExt", "TCPBacklogDrop #", "TCPBacklogDrop"),
    ("TcpExt", "TCP: # packets dropped by reverse path filter", "IPReversePathFilter"),
];

/// Queues of devices as `tc` told of them, the earlier reading first.
fn queues(lines: &[String]) -> Vec<Vec<QueueCounters>> {
    let (mut limits, mut queue) = (BTreeMap::new(), None);
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["qdisc", _, handle, "dev", device, ..] = words[..] {
            queue = Some((device.to_owned(), handle.to_owned()));
        }
        let limit = words.iter().position(|word| *word == "drop_overlimit");
        let count = limit.and_then(|at| words.get(at + 1)?.parse::<u64>().ok());
        if let (Some(queue), Some(count)) = (&queue, count) {
            limits.insert(queue.clone(), count);
        }
    }
    let Ok(read) = quell_hierarchy::read(&lines.join("\n"), None) else { return Vec::new() };
    let earlier = read.before.iter().map(|before| queues_of(before, &BTreeMap::new()));
    let all = earlier.chain([queues_of(&read.hierarchy, &limits)]);
    all.filter(|queues| !queues.is_empty()).collect()
}

fn queues_of(
    hierarchy: &Hierarchy,
    limits: &BTreeMap<(String, String), u64>,
) -> Vec<QueueCounters> {
    let mut all = Vec::new();
    for device in &hierarchy.devices {
        for (at, node) in device.nodes.iter().enumerate().filter(|(_, n)| !n.class && !n.implied) {
            let Some(counters) = &node.counters else { continue };
            let root = device.tops.contains(&at);
            all.push(QueueCounters {
                device: device.name.clone(),
                kind: node.kind.clone(),
                parent: node.parent.map_or(String::new(), |at| device.nodes[at].handle.to_string()),
                root,
                packets: counters.packets,
                drops: counters.drops,
                backlog_packets: counters.backlog_packets,
                backlog_bytes: counters.backlog_bytes,
                marks: counters.marks,
                limit_drops: limits.get(&(device.name.clone(), node.handle.to_string())).copied(),
                options: None,
                troubles: if root { troubles(&device.findings) } else { Vec::new() },
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::of_unknown_time;
    use crate::{CheckOutcome, ConnectionLooks, Facts, examine, named};
    use quell_finding::{Evidence, Finding, Severity, Value};

    fn told(text: &str) -> (Option<Snapshot>, Snapshot, PostedText) {
        read(&[text.to_owned()]).expect("something is known")
    }

    #[test]
    fn a_mail_with_netstat_quoted_fenced_and_broken_by_prose_is_read() {
        let text = "Hi all,\r\n\r\n> ```\r\n> $ netstat -s\r\n> Tcp:\r\n>     1041128 active connection openings\r\n\
                    >     51063957 segments sent out\r\n>     14338 segments retransmitted\r\n> TcpExt:\r\n\
                    >     139 times the listen queue of a socket overflowed\r\n>     139 SYNs to LISTEN sockets dropped\r\n\
                    >     Detected reordering 3558 times using SACK\r\n>     TCPTimeouts: 37\r\n>     TCPOrigDataSent: 37648735\r\n> ```\r\n\r\n\
                    any ideas?\r\n 12:34:56 up 10 days,  3:04,  2 users,  load average: 0.00\r\n";
        let (before, now, posted) = told(text);
        let counter = |name: &str| now.counter(name);
        assert_eq!(counter("Tcp.RetransSegs"), Ok(14_338));
        assert_eq!(counter("TcpExt.ListenOverflows"), Ok(139));
        assert_eq!(counter("TcpExt.TCPSACKReorder"), Ok(3558));
        assert_eq!(counter("TcpExt.TCPTimeouts"), Ok(37));
        // What is not there was zero, or cut out.
        assert!(counter("TcpExt.TCPBacklogDrop").is_err() && before.is_none());
        assert_eq!(now.uptime(), Ok(10.0 * 86_400.0 + 3.0 * 3600.0 + 4.0 * 60.0));
        assert_eq!((&posted.found[..], posted.remarks.len()), (&["counters"][..], 0));
        assert!(posted.missing.contains(&"ip -s -s link"), "{posted:?}");
    }

    #[test]
    fn the_same_twice_tells_what_moved_between() {
        let first = "#kernel\nTcpRetransSegs                  77                 0.0\nUdpRcvbufErrors                 5                  0.0\n\
                     Ip6InReceives                   9                  0.0\n\n\
                     0319445e 00000001 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n\
                     032d3363 00000000 00000005 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n";
        let second = first.replace("77 ", "99 ").replace("0319445e 00000001", "0319545e 0000000c")
            + "#kernel\nTcpExtListenOverflows           3                  0.0\n";
        let (before, now, _) = read(&[first.to_owned(), second]).expect("both are known");
        let before = before.expect("there are two");
        assert_eq!(
            (before.counter("Tcp.RetransSegs"), now.counter("Tcp.RetransSegs")),
            (Ok(77), Ok(99))
        );
        assert_eq!(
            (before.counter("Ip6InReceives"), now.counter("Udp.RcvbufErrors")),
            (Ok(9), Ok(5))
        );
        assert!(before.counter("TcpExt.ListenOverflows").is_err(), "it is not there");
        let dropped =
            |of: &Snapshot| of.softnet().map(|cpus| cpus.iter().map(|c| c.dropped).sum::<u64>());
        assert_eq!((dropped(&before), dropped(&now)), (Ok(1), Ok(12)));
    }

    #[test]
    fn what_grep_left_of_nstat_and_ethtool_is_read() {
        let nstat =
            "$ nstat -az | grep Retrans\nTcpRetransSegs   77   0.0\nTcpExtTCPFastRetrans 3 0.0\n";
        let (before, now, _) = told(nstat);
        assert_eq!((before, now.counter("Tcp.RetransSegs")), (None, Ok(77)));
        let (before, now, _) = told(&(nstat.to_owned() + &nstat.replace("77", "99")));
        let counted = |of: &Snapshot| of.counter("Tcp.RetransSegs").ok();
        assert_eq!((before.as_ref().and_then(counted), counted(&now)), (Some(77), Some(99)));
        for driver in [
            "# ethtool -S eth0 | grep -v ': 0'\n     rx_out_of_buffer: 45678\n",
            "Statistics for eth0 (ethtool -S eth0):\n\n NIC statistics:\n rx_discards: 9\n rxbds_empty: 12\n",
        ] {
            let told = found(&["ring-missed"], &[driver]);
            assert_eq!((told.len(), &*told[0].subject), (1, "eth0"), "{driver}");
        }
    }

    #[test]
    fn links_drivers_queues_settings_and_the_log_are_read() {
        let text = "2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc fq_codel state UP mode DEFAULT group default qlen 1000\n    \
                    link/ether 52:54:00:12:34:56 brd ff:ff:ff:ff:ff:ff\n    \
                    RX:     bytes  packets errors dropped  missed   mcast           \n    \
                    1011210086185 37087141      7      5     3       0 \n    \
                    RX errors:      length    crc   frame    fifo overrun\n                         \
                    0      6       0       0       0 \n    \
                    TX:     bytes  packets errors dropped carrier collsns           \n    \
                    1011210086185 37087141      0       2       0       0 \n\
                    # ethtool -S eth0\nNIC statistics:\n     rx_missed_errors: 3\n     tx_packets: 5\n\n\
                    qdisc pfifo_fast 0: dev eth0 root refcnt 2 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1\n \
                    Sent 123456 bytes 1000 pkt (dropped 21, overlimits 0 requeues 3)\n backlog 0b 0p requeues 3\n\
                    net.ipv4.tcp_sack = 0\n\
                    [12345.6] e1000e 0000:00:19.0 eth0: NIC Link is Down\n[12349.6] e1000e 0000:00:19.0 eth0: NIC Link is Up 1000 Mbps\n\
                    [12350.0] nf_conntrack: nf_conntrack: table full, dropping packet\n";
        let (_, now, posted) = told(text);
        let device = &now.devices().expect("links")["eth0"];
        let stats = &device.link.stats;
        assert_eq!(
            (stats.rx_errors, stats.rx_crc_errors, stats.rx_missed_errors, stats.tx_dropped),
            (7, 6, 3, 2)
        );
        assert_eq!(
            (device.link.mtu, device.link.is_up(), device.link.carrier_changes),
            (1500, true, Some(2))
        );
        assert_eq!((device.counters["rx_missed_errors"], device.is_hardware()), (3, true));
        let queue = &now.queues().expect("queues")[0];
        assert_eq!((queue.kind.as_str(), queue.root, queue.drops), ("pfifo_fast", true, 21));
        assert_eq!(now.texts.setting("net/ipv4/tcp_sack"), Ok("0"));
        assert!(posted.remarks.iter().any(|said| said.contains("says 1 time that")), "{posted:?}");
        assert!(now.uptime().is_err(), "nobody says since when");
    }

    fn found(checks: &[&str], texts: &[&str]) -> Vec<Finding> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let (before, now, mut posted) = read(&texts).expect("something is known");
        let (looks, owners) = (ConnectionLooks::default(), BTreeMap::new());
        let facts = Facts {
            before: before.as_ref(),
            now: &now,
            looks: &looks,
            owners: &owners,
            quiet_switches: None,
            peer: None,
            drops: None,
            reported: &[],
        };
        let checks: Vec<_> = checks.iter().filter_map(|name| named(name)).collect();
        let verdicts = match now.uptime() {
            Ok(_) => examine(&facts, checks),
            Err(_) => of_unknown_time(&facts, &checks, &mut posted),
        };
        verdicts.iter().flat_map(|v| v.outcome.findings().to_vec()).collect()
    }

    #[test]
    fn a_share_of_what_was_sent_again_is_of_what_the_text_has() {
        let sent = |segments: u64, again: u64| {
            format!(
                "It is slow.\nTcp:\n  {segments} segments sent out\n  {again} segments retransmitted\n"
            )
        };
        let timers = "TcpExt:\n  TCPTimeouts: 91234\n";
        let all = format!("{timers}  TCPLossProbes: 1\n  TCPOrigDataSent: 24110000\n");
        let big = sent(80_000_000, 2_411_000);
        let without_base = format!("Tcp:\n  2411000 segments retransmitted\n{timers}");
        for (texts, share, sure) in [
            (&[&big, timers][..], Some(3.0), false),
            (&[&big, &all], Some(10.0), true),
            (&[&sent(1_000_000, 90_000)], Some(9.0), false),
            // Of two readings, that of what moved: 100,000 of 300,000.
            (&[&sent(1_000_000, 10_000), &sent(1_300_000, 110_000)], Some(33.3), false),
            (&[&without_base], None, true),
        ] {
            let found = found(&["fast-retransmit", "retransmission-timeout"], texts);
            let Some(share) = share else {
                assert_eq!(found, []);
                continue;
            };
            let evidence = &found[0].evidence;
            let is_it = |seen: &Evidence| match seen.value {
                Value::Number(value) => seen.name == "share" && (value - share).abs() < 0.1,
                _ => false,
            };
            assert!(evidence.iter().any(is_it) && found[0].sure == sure, "{found:#?}");
            assert!(evidence.iter().all(|seen| seen.value != Value::Count(0)), "{found:#?}");
        }
    }

    #[test]
    fn of_one_text_nothing_is_new_and_a_limit_that_was_reached_is_told() {
        let link = "2: eth0: <UP> mtu 1500 qdisc fq_codel state UP\n    RX: bytes packets errors dropped missed mcast\n    \
                    1000 100 70 0 0 0\n";
        let errors = found(&["device-errors"], &[link]);
        // Nobody knows in which time; once it is known, it is a rate.
        assert_eq!((errors[0].severity, errors[0].sure), (Severity::Note, false));
        for (uptime, count) in [("10:00:00 up 1:00", 1), ("10:00:00 up 900 days, 1:00", 0)] {
            let told = found(&["device-errors"], &[link, uptime]);
            assert_eq!(told.len(), count, "{uptime}: {told:#?}");
            assert!(told.iter().all(|one| one.severity == Severity::Warning && one.sure));
        }
        let source = |seen: &Evidence| (seen.unit.to_string(), seen.source.clone());
        let told = ("since the start".to_owned(), "ip -s -s link".to_owned());
        assert!(errors[0].evidence.iter().map(source).all(|seen| seen == told), "{errors:#?}");
        let queue = "qdisc fq_codel 0: dev eth0 root refcnt 2 limit 10240p flows 1024 quantum 1514 target 5ms interval 100ms memory_limit 32Mb ecn\n \
                     Sent 123456 bytes 1000 pkt (dropped 900000, overlimits 0 requeues 3)\n backlog 3028000b 2000p requeues 3\n  \
                     maxpacket 1514 drop_overlimit 900000 new_flow_count 5 ecn_mark 0\n";
        let limit = found(&["queue-drops"], &[queue]);
        assert_eq!(limit[0].evidence[0].value, Value::Count(900_000), "{limit:#?}");
        let unreached = queue.replace("drop_overlimit 900000", "drop_overlimit 0");
        assert_eq!(found(&["queue-drops"], &[&unreached]), []);
    }

    #[test]
    fn connections_of_ss_tell_who_waited() {
        let ss = |details: &str| {
            format!(
                "Hi,\n> $ ss -tinm\n> State  Recv-Q Send-Q Local Address:Port  Peer Address:Port Process\n\
                 > ESTAB  0      57920  10.0.0.2:5001       10.0.0.9:40422\n\
                 >      skmem:(r0,rb131072,t0,tb87040,f0,w80000,o0,bl0,d3) ts sack cubic wscale:7,7 rto:204 rtt:40.5/0.25 mss:1448 \
                 cwnd:10 bytes_acked:9000000 data_segs_out:6300 send 231Mbps delivery_rate 12.5Mbps busy:9000ms {details} minrtt:39.9\n\
                 > ESTAB  0      0      [::ffff:192.0.2.7]:22      192.0.2.8%eth0:50100\n\
                 >      cubic rtt:1/0.5 mss:1448 cwnd:10 minrtt:0.5\n\
                 > LISTEN 129    128    *:80                *:*\n"
            )
        };
        let (_, now, posted) = told(&ss("rwnd_limited:8000ms(88.9%)"));
        let sockets = now.sockets().expect("ss");
        let one = &sockets.tcp[0];
        let (info, memory) = (one.info.expect("details"), one.memory.expect("skmem"));
        assert_eq!((info.rtt, info.min_rtt, info.snd_cwnd), (40_500, Some(39_900), 10));
        assert_eq!((info.sndbuf_limited, info.delivery_rate), (Some(0), Some(1_562_500)));
        assert_eq!((memory.send_buffer, memory.queued, memory.drops), (87_040, 80_000, 3));
        assert_eq!(info.options, 1 | 2 | 4);
        // Buffers alone say nothing of a path; ss -u has no word of its protocol.
        let memory = "ESTAB 0 9 10.0.0.2:1 10.0.0.9:2\n  skmem:(r0,rb1,t0,tb1,f0,w0,o0,bl0,d0)\n";
        assert!(told(memory).1.sockets().expect("one").tcp.is_empty());
        let udp = "UNCONN 0 0 0.0.0.0:53 0.0.0.0:*\n  skmem:(r0,rb1,t0,tb1,f0,w0,o0,bl0,d77)\n";
        let (_, seen, _) = told(udp);
        let seen = seen.sockets().expect("one");
        assert_eq!((seen.udp[0].memory.map(|m| m.drops), &seen.udp_unseen), (Some(77), &None));
        assert_eq!((sockets.tcp.len(), sockets.listeners[0].receive_queue), (2, 129));
        assert_eq!(sockets.tcp[1].remote.to_string(), "192.0.2.8:50100");
        assert!(posted.found.contains(&"connections") && sockets.udp_unseen.is_some());
        let checks = ["receiver-window", "send-buffer", "path-queue"];
        for (details, id) in [
            ("rwnd_limited:8000ms(88.9%)", Some("receiver-window")),
            ("sndbuf_limited:7000ms(77.8%)", Some("send-buffer")),
            ("rwnd_limited:4000ms(44.4%) sndbuf_limited:4000ms(44.4%)", None),
        ] {
            let found = found(&checks, &[&ss(details)]);
            assert_eq!(found.first().map(|one| one.id.as_str()), id, "{details}: {found:#?}");
        }
    }

    #[test]
    fn connections_of_ss_tell_what_was_sent_again_and_dropped() {
        let ss = |state: &str, again: u32, twice: u32, drops: u32| {
            format!(
                "State Recv-Q Send-Q Local Address:Port Peer Address:Port\n{state} 0 0 10.0.0.2:5001 10.0.0.9:40422\n\t skmem:(r0,rb131072,t0,tb87040,f0,w0,o0,bl0,d{drops}) cubic rto:204 \
                 rtt:40/1 mss:1448 cwnd:10 bytes_acked:9000000 data_segs_out:6300 retrans:0/{again} dsack_dups:{twice} rcv_space:14480\n"
            )
        };
        let lost = "fast-retransmit";
        for (check, texts, count) in [
            (lost, &[ss("ESTAB", 300, 0, 0)][..], 1),
            (lost, &[ss("ESTAB", 30, 0, 0)], 0),
            // What came twice was not lost, and of two readings the later one is compared.
            (lost, &[ss("ESTAB", 300, 290, 0)], 0),
            (lost, &[ss("ESTAB", 300, 0, 0), ss("ESTAB", 300, 0, 0)], 0),
            (lost, &[ss("ESTAB", 300, 0, 0), "Tcp:\n  0 segments retransmitted\n".into()], 0),
            ("backlog-drops", &[ss("ESTAB", 0, 0, 40)], 1),
            ("backlog-drops", &[ss("ESTAB", 0, 0, 4)], 0),
            ("listen-overflow", &[ss("LISTEN", 0, 0, 40)], 1),
        ] {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let told = found(&[check], &texts);
            assert_eq!(told.len(), count, "{check}, {texts:?}: {told:#?}");
            assert!(told.iter().all(|one| !one.sure && one.subject.contains("10.0.0.2:5001")));
        }
    }

    #[test]
    fn what_a_text_has_not_is_unknown_and_not_zero() {
        let link = "2: eth0: <UP> mtu 1500 qdisc fq_codel state UP\n    link/ether 52:54:00:12:34:56 brd ff:ff:ff:ff:ff:ff\n";
        let once = format!(
            "{link}    RX: bytes packets errors dropped missed mcast\n    1000 100 0 0 0 0\n"
        );
        let qdisc = "$ tc -s qdisc\nqdisc htb 1: dev eth0 root refcnt 2 r2q 10 default 0 direct_packets_stat 9134\n \
                     Sent 12345678 bytes 12345 pkt (dropped 0, overlimits 77 requeues 0)\n backlog 0b 0p requeues 0\n";
        let classes = format!(
            "{qdisc}$ tc -s class show dev eth0\nclass htb 1:1 root rate 10Mbit ceil 10Mbit burst 1600b cburst 1600b\n \
                               Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)\n$ tc filter show dev eth0\n"
        );
        let outcome = |check: &str, text: &str| {
            let (_, now, _) = told(text);
            let (looks, owners) = (ConnectionLooks::default(), BTreeMap::new());
            let facts = Facts {
                before: None,
                now: &now,
                looks: &looks,
                owners: &owners,
                quiet_switches: None,
                peer: None,
                drops: None,
                reported: &[],
            };
            examine(&facts, named(check)).remove(0).outcome
        };
        let unknown =
            |check: &str, text: &str| matches!(outcome(check, text), CheckOutcome::CouldNotLook(_));
        for (check, text, is_unknown) in [
            ("device-errors", link, true),
            ("damaged-frames", link, true),
            ("drop-ratio", link, true),
            ("ring-missed", link, true),
            ("device-errors", &once, false),
            ("damaged-frames", &once, true),
            ("ring-missed", &once, false),
            ("queue-classes", qdisc, false),
        ] {
            assert_eq!(unknown(check, text), is_unknown, "{check}: {text}");
        }
        // Without classes and filters nobody can say what they do.
        assert_eq!(outcome("queue-classes", qdisc), CheckOutcome::Fine);
        let unshaped = outcome("queue-classes", &classes);
        assert!(unshaped.findings()[0].says.contains("unshaped"), "{unshaped:?}");
    }

    #[test]
    fn prose_alone_is_refused_with_what_is_taken() {
        let why = read(&["My internet is slow, 100 Mbit/s.".to_owned()]).expect_err("nothing");
        assert!(why.contains("netstat -s"), "{why}");
    }
}
