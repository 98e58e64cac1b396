//! Files of `/proc`, `/sys` and `/etc` as they were, by their paths.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// Something that was read, or why it could not be.
pub type Seen<T> = Result<T, String>;

/// Most that is taken of a file: `/proc/interrupts` of a host with many CPUs is the longest.
pub const MOST: u64 = 4 << 20;

/// The texts of files, or why one could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Texts(pub BTreeMap<String, Seen<String>>);

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
    pub fn get(&self, path: &str) -> Seen<&str> {
        match self.0.get(path) {
            Some(Ok(text)) => Ok(text),
            Some(Err(why)) => Err(why.clone()),
            None => Err(format!("{path} was not read")),
        }
    }

    /// The value of a setting, as of "net/ipv4/tcp_sack".
    pub fn setting(&self, key: &str) -> Seen<&str> {
        self.get(&format!("/proc/sys/{key}")).map(str::trim)
    }

    /// A setting that is one number.
    pub fn number(&self, key: &str) -> Seen<u64> {
        let text = self.setting(key)?;
        text.parse().map_err(|_| format!("/proc/sys/{key} holds `{text}`, which is no number"))
    }

    /// A setting that is several numbers, as net/ipv4/tcp_rmem.
    pub fn numbers(&self, key: &str) -> Seen<Vec<u64>> {
        let text = self.setting(key)?;
        let numbers: Result<_, _> = text.split_whitespace().map(str::parse).collect();
        numbers.map_err(|_| format!("/proc/sys/{key} holds `{text}`, which are no numbers"))
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MOST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
