//! The file in /etc/sysctl.d, and those that come after it.

use crate::plan::Tuning;
use crate::proposal::{dotted, same};
use serde::Serialize;

/// Where it is, below the root.
pub const PLACE: &str = "etc/sysctl.d/60-quell-tune.conf";

/// The folders in which a system looks, those that go before first (sysctl.d(5)).
pub const FOLDERS: [&str; 5] =
    ["etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d", "lib/sysctl.d"];

/// By which the file is known to be ours.
pub const FIRST_LINE: &str = "# Written by `quell tune apply`; `quell tune revert` takes it away.";

/// The file for these settings, in a plan's words where it names them.
pub fn text(plan: &Tuning, settings: &[(String, String)]) -> String {
    let mut text = format!("{FIRST_LINE}\n# {}\n", plan.wish.words());
    for (key, value) in settings {
        let line = plan.lines.iter().find(|line| line.key == key);
        let (why, source) = line.map(|line| (line.why.as_str(), line.source)).unwrap_or_default();
        text += &format!("\n# {why}\n# {source}\n{} = {value}\n", dotted(key));
    }
    text
}

/// A setting that another file sets to something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Override {
    pub key: String,
    pub file: String,
    pub value: String,
}

/// One file: its name without folders, its path, its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfFile {
    /// As `99-sysctl.conf`.
    pub name: String,
    pub path: String,
    pub text: String,
}

/// The settings of ours that a file sets otherwise which comes later at boot; the last of several. Of files of one name only the first
/// counts: give them in the order of [`FOLDERS`]. /etc/sysctl.conf is read last by `sysctl --system`: give it as `~`, behind all others.
pub fn later(files: &[ConfFile], settings: &[(String, String)]) -> Vec<Override> {
    let own = PLACE.rsplit('/').next().unwrap_or_default();
    let mut counting: Vec<&ConfFile> = Vec::new();
    for file in files {
        if file.name.as_str() > own && !counting.iter().any(|other| other.name == file.name) {
            counting.push(file);
        }
    }
    counting.sort_by(|a, b| a.name.cmp(&b.name));
    let mut found = Vec::new();
    for (key, ours) in settings {
        let sets = |file: &&ConfFile| {
            let value = assignments(&file.text).filter(|(k, _)| k == key).last().map(|(_, v)| v)?;
            Some(Override { key: dotted(key), file: file.path.clone(), value })
        };
        let last = counting.iter().rev().find_map(sets);
        found.extend(last.filter(|other| !same(&other.value, ours)));
    }
    found
}

/// The settings of a file, keys with slashes (sysctl.d(5)): a `-` before a key says that its failure does not matter.
pub fn assignments(text: &str) -> impl Iterator<Item = (String, String)> {
    text.lines().filter_map(|line| {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            return None;
        }
        let (key, value) = line.trim_start_matches('-').split_once('=')?;
        let key = key.trim();
        // The first separator tells which of the two it is.
        let dots = key.find(['.', '/']).is_some_and(|at| key.as_bytes()[at] == b'.');
        let swap = |c| match c {
            '.' => '/',
            '/' => '.',
            other => other,
        };
        let key = if dots { key.chars().map(swap).collect() } else { key.to_owned() };
        Some((key, value.trim().to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Release, Role};
    use crate::plan::tests::{host, wish};

    #[test]
    fn the_file_reads_back_as_what_is_set_and_says_why() {
        let plan =
            Tuning::of(wish(Role::Measure), &host(Release::new(6, 1), 4 << 18)).expect("a plan");
        let set: Vec<(String, String)> =
            plan.settings().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let text = text(&plan, &set);
        assert_eq!(assignments(&text).collect::<Vec<_>>(), set);
        assert!(
            text.starts_with(FIRST_LINE) && text.contains("# measure, 10Gbit, 100ms"),
            "{text}"
        );
        assert!(text.contains("under way"), "{text}");
    }

    #[test]
    fn a_later_file_that_sets_the_same_otherwise_is_named() {
        let file = |name: &str, folder: &str, text: &str| ConfFile {
            name: name.into(),
            path: format!("/{folder}/{name}"),
            text: text.into(),
        };
        let ours = [
            ("net/ipv4/tcp_rmem".into(), "1 2 3".into()),
            ("net/core/rmem_max".into(), "7".into()),
        ];
        let files = [
            file("50-early.conf", "etc", "net.core.rmem_max=1\n"),
            file("70-same.conf", "etc", "# masks the one below /usr\n"),
            file("70-same.conf", "usr", "net.core.rmem_max=2\n"),
            file("80-equal.conf", "etc", "net.ipv4.tcp_rmem = 1\t2  3\n"),
            file("90-late.conf", "etc", "; x\n-net/core/rmem_max = 8\nnet.core.rmem_max=9\n"),
        ];
        let wanted = Override {
            key: "net.core.rmem_max".into(),
            file: "/etc/90-late.conf".into(),
            value: "9".into(),
        };
        assert_eq!(later(&files, &ours), [wanted]);
    }

    #[test]
    fn keys_are_read_as_sysctl_reads_them() {
        let read = |text: &str| assignments(text).map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!(read("net.ipv4.conf.eth0/7.rp_filter = 1"), ["net/ipv4/conf/eth0.7/rp_filter"]);
        assert_eq!(read("net/ipv4/conf/eth0.7/rp_filter=1"), ["net/ipv4/conf/eth0.7/rp_filter"]);
        assert_eq!(read("# a=b\nnonsense\n-x.y=1"), ["x/y"]);
    }
}
