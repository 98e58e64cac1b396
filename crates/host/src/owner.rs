//! Whose sockets: the processes that hold them, by inode (`/proc/PID/fd`).

use std::collections::{BTreeMap, BTreeSet};

/// A process that holds a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// Its name.
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
