//! The undo log: what was there, on disk before the first step.
//!
//! ```text
//!   FOLDER/NAMESPACE-INTERFACE.undo      one file for each interface that is changed, frames of quell-model:
//!       Begun      what was there before, and before all that we ever did; who, when, in which boot and namespace
//!       Applied    all steps were taken and are in force; perhaps only until a time, unless they are confirmed
//!       Confirmed  they stay
//! ```
//!
//! A file is begun whole, beside its place, synced and renamed. What a later record was cut off in counts as not there. When all is as it
//! was before us the file goes.

use crate::{ActError, Before, kernel};
use quell_model::frame::{Decoder, encode};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The version of the records.
const VERSION: u32 = 1;

/// Who changes something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// The process.
    pub pid: u32,
    /// What was called, for people.
    pub command: String,
    /// When, in seconds since 1970.
    pub at: u64,
}

/// The first record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// The kernel's name for this boot; what was before another one is void.
    pub boot: String,
    /// The inode of the network namespace.
    pub namespace: u64,
    /// The interface, for people and for the file's name.
    pub device: String,
    /// Who began.
    pub who: Who,
    /// What is wanted, in words.
    pub wanted: String,
    /// What is wanted, as whoever asked can read it again; this crate does not.
    pub recipe: String,
    /// What was wanted before, in words, if something of ours is in force.
    pub earlier: Option<String>,
    /// What was there before this change.
    pub before: Before,
    /// What was there before the first of our changes that are in force, if that was another one.
    pub origin: Option<Before>,
    /// The steps, in words.
    pub steps: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Record {
    Begun(u32, Box<Begun>),
    /// Until when it is to be confirmed, on the monotonic clock.
    Applied(Option<u64>),
    Confirmed,
}

/// How a change stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It was begun, and perhaps some of its steps were taken.
    Unfinished,
    /// It is in force until this time of the monotonic clock, unless it is confirmed.
    Awaiting(u64),
    /// It is in force.
    Confirmed,
}

/// The log of one interface.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    path: PathBuf,
    /// What it begins with.
    pub begun: Begun,
    /// How things stand.
    pub standing: Standing,
}

/// The kernel's name for this boot.
pub(crate) fn boot() -> String {
    quell_netlink::sysctl::read("kernel/random/boot_id").unwrap_or_default()
}

impl Log {
    /// Writes the log of a change, in place of the one before. It is on disk when this returns.
    pub fn begin(folder: &Path, begun: Begun) -> Result<Self, ActError> {
        let path = folder.join(format!("{}-{}.undo", begun.namespace, begun.device));
        let failed =
            |why: String| ActError::NoLog(format!("could not write {}: {why}", path.display()));
        let bytes = encode(&Record::Begun(VERSION, Box::new(begun.clone())))
            .map_err(|e| failed(e.to_string()))?;
        kernel::put(&path, &bytes, 0o600).map_err(|e| failed(e.to_string()))?;
        sync(folder).map_err(|e| failed(e.to_string()))?;
        Ok(Log { path, begun, standing: Standing::Unfinished })
    }

    /// Reads a log. None where there is none, or none that was whole.
    pub fn read(path: &Path) -> Result<Option<Self>, ActError> {
        let failed =
            |why: String| ActError::Unread(format!("could not read {}: {why}", path.display()));
        let bytes = match std::fs::read(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|e| failed(e.to_string()))?,
        };
        let mut decoder = Decoder::new();
        decoder.push(&bytes);
        let begun = match decoder.next_value() {
            Ok(Some(Record::Begun(VERSION, begun))) => *begun,
            Ok(None) if bytes.is_empty() => return Ok(None),
            Ok(_) => return Err(failed("it is no undo log of this version of Quell".into())),
            Err(e) => return Err(failed(e.to_string())),
        };
        let mut standing = Standing::Unfinished;
        // Behind a torn record is nothing.
        while let Ok(Some(record)) = decoder.next_value() {
            standing = match record {
                Record::Applied(Some(until)) => Standing::Awaiting(until),
                Record::Applied(None) | Record::Confirmed => Standing::Confirmed,
                Record::Begun(..) => return Err(failed("it begins twice".into())),
            };
        }
        Ok(Some(Log { path: path.to_owned(), begun, standing }))
    }

    /// Reads it again.
    pub fn again(&self) -> Result<Option<Self>, ActError> {
        Log::read(&self.path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All steps are in force, until a time of the monotonic clock unless they are confirmed.
    pub fn applied(&mut self, until: Option<u64>) -> Result<(), ActError> {
        self.append(&Record::Applied(until))?;
        self.standing = until.map_or(Standing::Confirmed, Standing::Awaiting);
        Ok(())
    }

    /// They stay.
    pub fn confirmed(&mut self) -> Result<(), ActError> {
        self.append(&Record::Confirmed)?;
        self.standing = Standing::Confirmed;
        Ok(())
    }

    fn append(&mut self, record: &Record) -> Result<(), ActError> {
        let failed = |why: String| {
            ActError::System(format!("could not write to {}: {why}", self.path.display()))
        };
        let bytes = encode(record).map_err(|e| failed(e.to_string()))?;
        let write = || {
            let mut options = std::fs::OpenOptions::new();
            let options = options.append(true).custom_flags(nix::libc::O_NOFOLLOW);
            let mut file = options.open(&self.path)?;
            let before = file.metadata()?.len();
            // One that is cut off must not stand before a later one.
            let done = file.write_all(&bytes).and_then(|()| file.sync_all());
            done.inspect_err(|_| drop(file.set_len(before)))
        };
        write().map_err(|e: std::io::Error| failed(e.to_string()))
    }

    /// This change was undone: what was confirmed before it is in force again, or nothing of ours.
    pub fn undone(mut self) -> Result<(), ActError> {
        match self.begun.origin.clone() {
            Some(origin) => {
                let folder = self.path.parent().unwrap_or(Path::new("/")).to_owned();
                let wanted = self.begun.earlier.take().unwrap_or_default();
                let begun = Begun { before: origin, origin: None, wanted, ..self.begun };
                Log::begin(&folder, begun)?.applied(None)
            }
            None => self.over(),
        }
    }

    /// Nothing of ours is in force.
    pub fn over(self) -> Result<(), ActError> {
        let failed = |e: std::io::Error| {
            ActError::System(format!("could not remove {}: {e}", self.path.display()))
        };
        match std::fs::remove_file(&self.path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(failed(e)),
            _ => sync(self.path.parent().unwrap_or(Path::new("/"))).map_err(failed),
        }
    }

    /// What was there before the first of our changes.
    pub fn origin(&self) -> &Before {
        self.begun.origin.as_ref().unwrap_or(&self.begun.before)
    }
}

fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The logs of a namespace, by interface. One of another boot, whose kernel is gone, is taken away.
pub fn list(folder: &Path, namespace: u64) -> Result<Vec<Log>, ActError> {
    let failed =
        |e: std::io::Error| ActError::Unread(format!("could not read {}: {e}", folder.display()));
    let entries = match std::fs::read_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with(&format!("{namespace}-")) && name.ends_with(".undo") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut logs = Vec::new();
    for path in paths {
        let Some(mut log) = Log::read(&path)? else { continue };
        if log.begun.boot == boot() {
            logs.push(log);
        } else if log.origin().files.is_empty() {
            log.over()?;
        } else {
            log.begun.before = only_files(&log.begun.before);
            log.begun.origin = log.begun.origin.as_ref().map(only_files);
            logs.push(log);
        }
    }
    Ok(logs)
}

/// What outlives a boot.
fn only_files(before: &Before) -> Before {
    Before { files: before.files.clone(), ..Before::default() }
}
