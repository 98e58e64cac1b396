//! The stack's counters: `/proc/net/snmp`, `snmp6` and `netstat`.
//!
//! ```text
//!   Tcp: RetransSegs InSegs          Ip6InReceives   17
//!   Tcp: 77 1000                                             ──► "Tcp.RetransSegs" = 77, "Ip6InReceives" = 17
//! ```

use crate::{Seen, Snapshot};
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

impl Snapshot {
    /// A counter, as "TcpExt.ListenOverflows" or "Ip6ReasmFails". Errors where its file could not be read or does not have it.
    pub fn counter(&self, name: &str) -> Seen<u64> {
        let file = file_of(name);
        let text = self.texts.get(file)?;
        let counters = if name.contains('.') { pairs(text) } else { lines(text) };
        counters.get(name).copied().ok_or_else(|| format!("{file} of this kernel has no {name}"))
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
}
