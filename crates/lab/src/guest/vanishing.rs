//! What programs leave in a guest's own folders, which end with it.

use std::path::{Path, PathBuf};

/// What lies over the host's /tmp: all that was written there.
pub(crate) const UPPER: &str = "/run/quell-tmp/upper";
/// Most entries that are looked at: who leaves so many has others to be told of.
const MOST: usize = 10_000;

/// A file that was left where it vanishes, as programs named it; none on a host's own kernel, where nothing does.
pub(crate) fn left_file() -> Option<PathBuf> {
    if !Path::new(UPPER).exists() {
        return None;
    }
    let in_tmp = file_in(Path::new(UPPER))
        .map(|file| Path::new("/tmp").join(file.strip_prefix(UPPER).unwrap_or(&file)));
    in_tmp.or_else(|| file_in(Path::new("/dev/shm")))
}

/// The first file with something in it.
fn file_in(folder: &Path) -> Option<PathBuf> {
    let (mut folders, mut looked_at) = (vec![folder.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            looked_at += 1;
            // What was removed stays as a device, and is nothing.
            match entry.metadata() {
                Ok(about) if about.is_dir() => folders.push(entry.path()),
                Ok(about) if about.is_file() && about.len() > 0 => return Some(entry.path()),
                _ if looked_at >= MOST => return None,
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_wherever_it_lies_and_empty_ones_are_no_loss() {
        let folder = std::env::temp_dir().join(format!("quell-vanishing-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("a/b")).expect("a folder");
        std::fs::write(folder.join("a/lock"), "").expect("a file");
        assert_eq!(file_in(&folder), None);
        let file = folder.join("a/b/trace.pcap");
        std::fs::write(&file, "packets").expect("a file");
        assert_eq!(file_in(&folder), Some(file));
        std::fs::remove_dir_all(folder).expect("it is ours");
    }
}
