//! Files of `/proc`, `/sys` and `/etc` as they were, by their paths.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// Something that was read, or why it could not be.
pub type Reading<T> = Result<T, String>;

/// Most that is taken of a file: `/proc/interrupts` of a host with many CPUs is the longest.
pub const MOST: u64 = 4 << 20;

/// The texts of files, or why one could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Texts(pub BTreeMap<String, Reading<String>>);

impl Texts {
    /// Reads a file and keeps it under its path.
    pub fn read(&mut self, path: &str) {
        // Those of the network are the calling thread's, which may be in another namespace than the program's first.
        let place = path.strip_prefix("/proc/net/");
        let place = place.map_or(path.to_owned(), |file| format!("/proc/thread-self/net/{file}"));
        let text = read(Path::new(&place)).map_err(|error| format!("{path}: {error}"));
        self.0.insert(path.to_owned(), text);
    }

    /// The text of a file. Errors with the reason why it was not read.
    pub fn get(&self, path: &str) -> Reading<&str> {
        match self.0.get(path) {
            Some(Ok(text)) => Ok(text),
            Some(Err(why)) => Err(why.clone()),
            None => Err(format!("{path} was not read")),
        }
    }

    /// The value of a setting, as of "net/ipv4/tcp_sack".
    pub fn setting(&self, key: &str) -> Reading<&str> {
        self.get(&format!("/proc/sys/{key}")).map(str::trim)
    }

    /// A setting that is one number.
    pub fn number(&self, key: &str) -> Reading<u64> {
        let text = self.setting(key)?;
        text.parse().map_err(|_| format!("/proc/sys/{key} holds `{text}`, which is no number"))
    }

    /// A setting that is several numbers, as net/ipv4/tcp_rmem.
    pub fn numbers(&self, key: &str) -> Reading<Vec<u64>> {
        let text = self.setting(key)?;
        let numbers: Result<_, _> = text.split_whitespace().map(str::parse).collect();
        numbers.map_err(|_| format!("/proc/sys/{key} holds `{text}`, which are no numbers"))
    }

    /// Bytes of memory.
    pub fn memory(&self) -> Reading<u64> {
        let text = self.get("/proc/meminfo")?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.and_then(|kib| kib.checked_mul(1024))
            .ok_or_else(|| "/proc/meminfo has no MemTotal".to_owned())
    }

    /// `nr_free_buffer_pages` (mm/page_alloc.c): of the zones that the kernel itself uses, what is managed above the high watermark.
    pub fn buffer_pages(&self) -> Option<u64> {
        let (mut sum, mut ours, mut high) = (0u64, false, 0u64);
        let zones = self.get("/proc/zoneinfo").ok()?;
        for line in zones.lines() {
            let mut words = line.split_whitespace();
            match (words.next(), words.next()) {
                (Some("Node"), _) => {
                    let zone = line.rsplit(' ').next().unwrap_or_default();
                    ours = matches!(zone, "DMA" | "DMA32" | "Normal");
                }
                (Some("high"), Some(pages)) => high = pages.parse().ok()?,
                (Some("managed"), Some(pages)) if ours => {
                    sum = sum.checked_add(pages.parse::<u64>().ok()?.saturating_sub(high))?;
                }
                _ => {}
            }
        }
        (sum > 0).then_some(sum)
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MOST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_buffers_are_those_of_the_kernels_own_zones() {
        // Of a machine with 24 GB, shortened; a zone's high watermark stands before what it manages.
        let zones = "Node 0, zone      DMA\n  pages free     3840\n        high     16\n        managed  3840\n\
                     Node 0, zone    DMA32\n        high     3660\n        managed  772918\n\
                     Node 0, zone   Normal\n        high     63892\n        managed  5394160\n\
                     Node 0, zone  Movable\n        high     32\n        managed  99\n";
        let pages = |zones: &str| {
            Texts(BTreeMap::from([("/proc/zoneinfo".to_owned(), Ok(zones.to_owned()))]))
                .buffer_pages()
        };
        assert_eq!(pages(zones), Some(6_103_350));
        assert_eq!(pages(""), None);
    }
}
