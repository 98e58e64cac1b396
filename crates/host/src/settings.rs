//! Which file sets a kernel setting (sysctl.d(5)).
//!
//! Files of all folders are taken together and sorted by their names; a file hides those of its name in folders of less weight; of two that
//! set the same, the later counts. `sysctl --system` of procps reads `/etc/sysctl.conf` last; systemd-sysctl reads it only where a
//! distribution links it as `99-sysctl.conf`, which sorts almost last as well.

use crate::{Snapshot, Texts};

/// Folders, the most weighty first. The last is where systems without a merged /usr keep theirs.
pub const FOLDERS: [&str; 5] = [
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
];
/// The file of old.
pub const OLD: &str = "/etc/sysctl.conf";

/// A line of a file that sets something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetBy {
    pub file: String,
    /// Which line of it, from 1.
    pub line: usize,
    pub value: String,
}

/// The files that count, in the order in which they are applied.
pub fn order(texts: &Texts) -> Vec<&str> {
    let mut names: Vec<(&str, usize, &str)> = Vec::new();
    for path in texts.0.keys() {
        let Some((folder, name)) = path.rsplit_once('/') else { continue };
        let Some(weight) = FOLDERS.iter().position(|known| *known == folder) else { continue };
        match names.iter_mut().find(|(known, ..)| *known == name) {
            Some(known) if weight < known.1 => *known = (name, weight, path),
            Some(_) => {}
            None => names.push((name, weight, path)),
        }
    }
    names.sort();
    let old = texts.0.contains_key(OLD).then_some(OLD);
    names.into_iter().map(|(_, _, path)| path).chain(old).collect()
}

/// The line of a text that sets a key, the last that does.
pub fn line_of(text: &str, key: &str) -> Option<(usize, String)> {
    let slashed = |key: &str| {
        // The first separator decides which one it is (sysctl.d(5)).
        let first = key.find(['.', '/']).map(|at| key.as_bytes()[at]);
        if first == Some(b'.') { key.replace('.', "/") } else { key.to_owned() }
    };
    let sets = |(at, line): (usize, &str)| {
        let line = line.trim();
        let line = line.strip_prefix('-').unwrap_or(line);
        if line.starts_with(['#', ';']) {
            return None;
        }
        let (found, value) = line.split_once('=')?;
        (slashed(found.trim()) == key).then(|| (at + 1, value.trim().to_owned()))
    };
    text.lines().enumerate().filter_map(sets).last()
}

impl Snapshot {
    /// Which file sets a key, as "net/core/rmem_max": the one that counts.
    pub fn set_by(&self, key: &str) -> Option<SetBy> {
        let mut found = order(&self.texts).into_iter().filter_map(|file| {
            let (line, value) = line_of(self.texts.get(file).ok()?, key)?;
            Some(SetBy { file: file.to_owned(), line, value })
        });
        found.next_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(files: &[(&str, &str)]) -> Texts {
        Texts(files.iter().map(|(path, text)| ((*path).into(), Ok((*text).into()))).collect())
    }

    #[test]
    fn a_file_of_etc_hides_its_namesake_and_the_last_by_name_counts() {
        let texts = texts(&[
            ("/usr/lib/sysctl.d/50-a.conf", "net.core.rmem_max = 1"),
            ("/etc/sysctl.d/50-a.conf", "# nothing"),
            ("/run/sysctl.d/10-b.conf", "net.core.rmem_max=2"),
            ("/usr/lib/sysctl.d/90-c.conf", "-net/core/rmem_max = 3 "),
            ("/etc/hostname", "x"),
        ]);
        let order = order(&texts);
        assert_eq!(
            order,
            ["/run/sysctl.d/10-b.conf", "/etc/sysctl.d/50-a.conf", "/usr/lib/sysctl.d/90-c.conf"]
        );
        assert_eq!(line_of(texts.get(order[1]).unwrap(), "net/core/rmem_max"), None);
        let last = line_of(texts.get(order[2]).unwrap(), "net/core/rmem_max");
        assert_eq!(last, Some((1, "3".into())));
    }

    #[test]
    fn the_old_file_comes_last_and_of_two_lines_the_later_counts() {
        let texts = texts(&[
            ("/etc/sysctl.conf", "net.ipv4.tcp_sack=0\nnet.ipv4.tcp_sack=1\n;net.ipv4.tcp_sack=7"),
            ("/etc/sysctl.d/99-z.conf", "net.ipv4.tcp_sack=0"),
        ]);
        assert_eq!(order(&texts).last(), Some(&OLD));
        assert_eq!(line_of(texts.get(OLD).unwrap(), "net/ipv4/tcp_sack"), Some((2, "1".into())));
    }
}
