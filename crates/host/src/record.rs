//! Snapshots as folders: each file as it was read, under its own path, and `facts.json` with what was no file.
//!
//! ```text
//!   folder/facts.json
//!   folder/unread.json          paths that could not be read, each with its reason
//!   folder/files/proc/net/snmp  …
//! ```

use crate::{Snapshot, Texts};
use quell_sys::input;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Most bytes of one of its files. A host of thousands of connections has a few megabytes of them.
const LARGEST: u64 = 64 << 20;

/// Why a folder could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{path}: {error}")]
    File { path: PathBuf, error: io::Error },
    /// A file that holds no facts.
    #[error("{path}: {error}")]
    Json { path: PathBuf, error: serde_json::Error },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> RecordError + '_ {
    move |error| RecordError::File { path: path.to_owned(), error }
}

fn json(path: &Path) -> impl FnOnce(serde_json::Error) -> RecordError + '_ {
    move |error| RecordError::Json { path: path.to_owned(), error }
}

/// Writes a snapshot into a folder, which is made.
pub fn write(snapshot: &Snapshot, folder: &Path) -> Result<(), RecordError> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    let facts = folder.join("facts.json");
    let text = serde_json::to_string_pretty(snapshot).map_err(json(&facts))?;
    fs::write(&facts, text).map_err(at(&facts))?;
    let mut unread = BTreeMap::new();
    for (path, text) in &snapshot.texts.0 {
        match text {
            Ok(text) => {
                let place = folder.join("files").join(path.trim_start_matches('/'));
                if let Some(parent) = place.parent() {
                    fs::create_dir_all(parent).map_err(at(parent))?;
                }
                fs::write(&place, text).map_err(at(&place))?;
            }
            Err(why) => {
                unread.insert(path, why);
            }
        }
    }
    let place = folder.join("unread.json");
    let text = serde_json::to_string_pretty(&unread).map_err(json(&place))?;
    fs::write(&place, text).map_err(at(&place))
}

/// A link in a folder that somebody sent may lead to anywhere here, and what it leads to would be told.
fn no_link(path: &Path) -> Result<(), RecordError> {
    match fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        true => {
            let error = io::Error::other("it is a symbolic link, which is not followed");
            Err(at(path)(error))
        }
        false => Ok(()),
    }
}

fn text(path: &Path) -> Result<String, RecordError> {
    no_link(path)?;
    input::text(path, LARGEST).map_err(at(path))
}

/// Reads a folder that [`write`] made, or somebody by hand: only `facts.json` has to be there.
pub fn read(folder: &Path) -> Result<Snapshot, RecordError> {
    let facts = folder.join("facts.json");
    no_link(folder)?;
    let read = text(&facts)?;
    let mut snapshot: Snapshot = serde_json::from_str(&read).map_err(json(&facts))?;
    let mut texts = Texts::default();
    let unread = folder.join("unread.json");
    no_link(&unread)?;
    if let Ok(read) = text(&unread) {
        let unread: BTreeMap<String, String> =
            serde_json::from_str(&read).map_err(json(&unread))?;
        texts.0.extend(unread.into_iter().map(|(path, why)| (path, Err(why))));
    }
    let files = folder.join("files");
    no_link(&files)?;
    if files.is_dir() {
        gather(&files, &files, &mut texts)?;
    }
    snapshot.texts = texts;
    Ok(snapshot)
}

fn gather(root: &Path, folder: &Path, texts: &mut Texts) -> Result<(), RecordError> {
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        no_link(&path)?;
        if path.is_dir() {
            gather(root, &path, texts)?;
        } else {
            let text = text(&path)?;
            let inside = path.strip_prefix(root).unwrap_or(&path);
            let parts = inside.components().filter_map(|part| match part {
                Component::Normal(part) => part.to_str(),
                _ => None,
            });
            let name: String = parts.map(|part| format!("/{part}")).collect();
            texts.0.insert(name, Ok(text));
        }
    }
    Ok(())
}
