//! The stack's counters: `/proc/net/snmp`, `snmp6` and `netstat`; socket memory (`sockstat`), neighbours and conntrack (`/proc/net/stat/…`).
//!
//! ```text
//!   Tcp: RetransSegs InSegs          Ip6InReceives   17
//!   Tcp: 77 1000                                             ──► "Tcp.RetransSegs" = 77, "Ip6InReceives" = 17
//! ```

use crate::{Reading, Snapshot};
use std::collections::BTreeMap;

/// The files that hold them.
pub const FILES: [&str; 3] = ["/proc/net/snmp", "/proc/net/netstat", "/proc/net/snmp6"];

/// Reads pairs of lines, names over values. Values below zero (`Tcp: MaxConn -1`) are left out.
pub fn pairs(text: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (Some((group, names)), Some((same, values))) =
            (names.split_once(':'), values.split_once(':'))
        else {
            continue;
        };
        if group != same {
            continue;
        }
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            if let Ok(value) = value.parse() {
                found.insert(format!("{group}.{name}"), value);
            }
        }
    }
    found
}

/// Reads lines of a name and a value.
pub fn lines(text: &str) -> BTreeMap<String, u64> {
    let one = |line: &str| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(one).collect()
}

/// The file that holds a counter, by its name.
pub fn file_of(name: &str) -> &'static str {
    match name.split_once('.') {
        Some(("TcpExt" | "IpExt" | "MPTcpExt", _)) => FILES[1],
        Some(_) => FILES[0],
        None => FILES[2],
    }
}

/// `TCP: inuse 5 orphan 0 …` becomes "TCP.inuse" = 5.
pub fn sockstat(text: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let Some((group, rest)) = line.split_once(':') else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        for pair in words.as_chunks::<2>().0 {
            if let Ok(value) = pair[1].parse() {
                found.insert(format!("{group}.{}", pair[0]), value);
            }
        }
    }
    found
}

/// Names in the first line, then a line a CPU, hexadecimal. `entries` is the same in each line, everything else is summed.
pub fn per_cpu(text: &str) -> BTreeMap<String, u64> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for line in lines {
        for (name, word) in names.iter().zip(line.split_whitespace()) {
            let Ok(value) = u64::from_str_radix(word, 16) else { continue };
            let sum = found.entry((*name).to_owned()).or_default();
            *sum = if *name == "entries" { value } else { sum.saturating_add(value) };
        }
    }
    found
}

impl Snapshot {
    /// A counter, as "TcpExt.ListenOverflows" or "Ip6ReasmFails". Errors where its file could not be read or does not have it.
    pub fn counter(&self, name: &str) -> Reading<u64> {
        let file = file_of(name);
        let text = self.texts.get(file)?;
        let counters = if name.contains('.') { pairs(text) } else { lines(text) };
        counters.get(name).copied().ok_or_else(|| format!("{file} has no {name}"))
    }

    /// A figure of `/proc/net/sockstat`, as "TCP.mem" (in pages).
    pub fn sockstat(&self, name: &str) -> Reading<u64> {
        let text = self.texts.get("/proc/net/sockstat")?;
        let found = sockstat(text).get(name).copied();
        found.ok_or_else(|| format!("/proc/net/sockstat has no {name}"))
    }

    /// A figure of a file of `/proc/net/stat`, as "nf_conntrack" and "insert_failed".
    pub fn stat(&self, file: &str, name: &str) -> Reading<u64> {
        let path = format!("/proc/net/stat/{file}");
        let found = per_cpu(self.texts.get(&path)?).get(name).copied();
        found.ok_or_else(|| format!("{path} has no {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_over_their_values() {
        let text = "Tcp: RtoMin MaxConn RetransSegs\nTcp: 200 -1 77\nUdp: InErrors\nUdp: 3\n";
        let found = pairs(text);
        assert_eq!(found.get("Tcp.RetransSegs"), Some(&77));
        assert_eq!(found.get("Tcp.MaxConn"), None);
        assert_eq!(found.get("Udp.InErrors"), Some(&3));
        assert_eq!(lines("Ip6ReasmFails   \t 4\nnoise\n").get("Ip6ReasmFails"), Some(&4));
    }

    #[test]
    fn torn_files_are_no_panic() {
        for text in ["", "Tcp:", "Tcp: a b\n", "Tcp: a b\nUdp: 1 2\n", "x\ny\n", ":\n:\n"] {
            assert!(pairs(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn pairs_of_name_and_value() {
        let text = "sockets: used 290\nTCP: inuse 5 orphan 0 tw 0 alloc 8 mem 3\nodd: a\n";
        let found = sockstat(text);
        assert_eq!((found["TCP.mem"], found["sockets.used"]), (3, 290));
        assert_eq!(found.len(), 6);
    }

    #[test]
    fn cpus_are_summed_but_entries_are_the_tables() {
        let text = "entries  allocs table_fulls\n00000010  0000000a 00000001\n00000010  00000001 00000002\n";
        let found = per_cpu(text);
        assert_eq!((found["entries"], found["allocs"], found["table_fulls"]), (16, 11, 3));
        assert!(per_cpu("").is_empty());
    }
}
