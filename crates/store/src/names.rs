//! File names from names that people chose: no separators, no dots that join, no surprises.

use quell_model::CellId;
use std::fmt::Write;

/// Longest part of a file name in bytes; names are at most 255 in all on the usual file systems.
const LONGEST_PART: usize = 72;

/// A name as a part of a file name: letters, digits, `-` and `_` stay, every other byte becomes `%XX`. What is too long is cut, and a
/// checksum of the whole keeps it unique.
pub(crate) fn part(name: &str) -> String {
    let mut safe = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => safe.push(char::from(byte)),
            _ => {
                let _ = write!(safe, "%{byte:02X}");
            }
        }
    }
    if safe.len() > LONGEST_PART {
        safe.truncate(LONGEST_PART - 9);
        let _ = write!(safe, "~{:08x}", crc32fast::hash(name.as_bytes()));
    }
    safe
}

pub(crate) fn journal(cell: &CellId) -> String {
    format!("{}.{}.{}.events", part(&cell.scenario), part(&cell.probe), cell.repeat)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(scenario: &str, probe: &str) -> CellId {
        CellId { scenario: scenario.into(), probe: probe.into(), repeat: 0 }
    }

    #[test]
    fn plain_names_stay_as_they_are() {
        assert_eq!(journal(&cell("bulk-shaped", "ping")), "bulk-shaped.ping.0.events");
    }

    #[test]
    fn hostile_names_stay_within_the_folder() {
        assert_eq!(part("../../etc/passwd"), "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd");
        assert!(!part("a\0b\n").contains(['\0', '\n']));
    }

    #[test]
    fn names_that_differ_give_files_that_differ() {
        assert_ne!(journal(&cell("a.b", "c")), journal(&cell("a", "b.c")));
        let long = "x".repeat(300);
        assert_ne!(part(&(long.clone() + "1")), part(&(long + "2")));
    }

    #[test]
    fn long_names_fit_a_file_system() {
        assert!(journal(&cell(&"ü".repeat(500), &"/".repeat(500))).len() <= 255);
    }
}
