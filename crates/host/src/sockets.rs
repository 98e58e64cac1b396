//! The sockets of a host as a bounded fold: of a million the few are kept that a finding could be about; and the processes that hold
//! them (`/proc/PID/fd`).

use quell_netlink::sock_diag::{DiagSocket, TcpState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

/// Most connections that are kept, of which half at most are idle.
pub const KEPT: usize = 512;
/// Most listeners and UDP sockets that are kept, each.
const FEW: usize = 64;
/// Most destinations of which connections are counted.
const DESTINATIONS: usize = 65_536;

/// What was seen of all sockets.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sockets {
    /// How many there are, by state.
    pub states: BTreeMap<String, u64>,
    /// The connections that move or hold most, busiest first.
    pub tcp: Vec<DiagSocket>,
    /// The listeners with the longest queues.
    pub listeners: Vec<DiagSocket>,
    /// UDP sockets that hold or dropped most.
    pub udp: Vec<DiagSocket>,
    /// Connections to the destination that has most: its address and port, and how many.
    pub busiest_destination: Option<(String, u64)>,
    /// Why UDP sockets are missing, where they are.
    pub udp_unseen: Option<String>,
}

#[derive(Debug, Default)]
pub struct Fold {
    states: HashMap<TcpState, u64>,
    tcp: Few,
    listeners: Few,
    udp: Few,
    destinations: HashMap<(IpAddr, u16), u64>,
}

/// The sockets with the largest keys, of which the last part is a socket's own.
type Few = BTreeMap<(u8, u64, u64), DiagSocket>;

fn offer(few: &mut Few, most: usize, key: (u8, u64, u64), socket: DiagSocket) {
    few.insert(key, socket);
    if few.len() > most {
        few.pop_first();
    }
}

/// The largest first.
fn sockets(few: Few) -> Vec<DiagSocket> {
    few.into_values().rev().collect()
}

impl Fold {
    pub fn tcp(&mut self, socket: DiagSocket) {
        *self.states.entry(socket.state).or_default() += 1;
        if socket.state == TcpState::Listen {
            let key =
                (u8::from(socket.receive_queue > 0), socket.receive_queue.into(), socket.cookie);
            return offer(&mut self.listeners, FEW, key, socket);
        }
        if socket.remote.port() != 0 {
            let to = (socket.remote.ip(), socket.remote.port());
            let room = self.destinations.len() < DESTINATIONS;
            if room || self.destinations.contains_key(&to) {
                *self.destinations.entry(to).or_default() += 1;
            }
        }
        let Some(info) = socket.info else { return };
        let moved = info.bytes_acked.unwrap_or(0) + info.bytes_received.unwrap_or(0);
        let waits = socket.send_queue > 0 || socket.receive_queue > 0;
        let recent = info.last_data_sent.min(info.last_data_recv) < 2_000;
        let key = (2 * u8::from(waits) + u8::from(recent), moved, socket.cookie);
        offer(&mut self.tcp, KEPT, key, socket);
    }

    pub fn udp(&mut self, socket: DiagSocket) {
        let drops = socket.memory.map_or(0, |memory| memory.drops);
        if drops > 0 || socket.receive_queue > 0 {
            let key =
                (u8::from(drops > 0), u64::from(drops.max(socket.receive_queue)), socket.cookie);
            offer(&mut self.udp, FEW, key, socket);
        }
    }

    pub fn finish(self) -> Sockets {
        let most = self.destinations.into_iter().max_by_key(|(to, count)| (*count, *to));
        Sockets {
            states: self.states.into_iter().map(|(s, count)| (format!("{s:?}"), count)).collect(),
            tcp: sockets(self.tcp),
            listeners: sockets(self.listeners),
            udp: sockets(self.udp),
            busiest_destination: most.map(|((ip, port), count)| {
                (std::net::SocketAddr::new(ip, port).to_string(), count)
            }),
            udp_unseen: None,
        }
    }
}

/// A process that holds a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub pid: u32,
    pub name: String,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.pid)
    }
}

/// The owners of sockets with these inodes, as far as this process may see them: without root, one's own. It looks at each open file of
/// each process, and stops when all are found.
pub fn owners(inodes: &BTreeSet<u32>) -> BTreeMap<u32, Owner> {
    let mut found = BTreeMap::new();
    let mut left = inodes.clone();
    left.remove(&0);
    let processes = if left.is_empty() { None } else { std::fs::read_dir("/proc").ok() };
    for entry in processes.into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(files) = std::fs::read_dir(entry.path().join("fd")) else { continue };
        for file in files.flatten() {
            let Ok(target) = std::fs::read_link(file.path()) else { continue };
            let inode = target.to_str().and_then(|target| {
                target.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u32>().ok()
            });
            if let Some(inode) = inode.filter(|inode| left.remove(inode)) {
                let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
                let name: String = name.trim().chars().filter(|c| !c.is_control()).collect();
                found.insert(inode, Owner { pid, name });
            }
        }
        if left.is_empty() {
            break;
        }
    }
    found
}
