//! The stack's tables: socket memory (`/proc/net/sockstat`), neighbours and conntrack (`/proc/net/stat/…`).

use crate::{Seen, Snapshot};
use std::collections::BTreeMap;

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
    /// A figure of `/proc/net/sockstat`, as "TCP.mem" (in pages).
    pub fn sockstat(&self, name: &str) -> Seen<u64> {
        let text = self.texts.get("/proc/net/sockstat")?;
        let found = sockstat(text).get(name).copied();
        found.ok_or_else(|| format!("/proc/net/sockstat has no {name}"))
    }

    /// A figure of a file of `/proc/net/stat`, as "nf_conntrack" and "insert_failed".
    pub fn stat(&self, file: &str, name: &str) -> Seen<u64> {
        let path = format!("/proc/net/stat/{file}");
        let found = per_cpu(self.texts.get(&path)?).get(name).copied();
        found.ok_or_else(|| format!("{path} has no {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
