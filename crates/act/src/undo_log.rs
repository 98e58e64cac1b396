//! The undo log: what was there, on disk before the first step.
//!
//! ```text
//!   FOLDER/NAMESPACE-INTERFACE.undo      one file for each interface that is changed, frames of quell-model:
//!       Begun      what was there before, and before all that we ever did; who, when, in which boot and namespace
//!       Applied    all steps were taken and are in force; perhaps only until a time, unless they are confirmed; what was made
//!       Confirmed  they stay
//!       Leaving    all of it is being taken off, down to what was there before all that we ever did
//!       Returning  what was not confirmed is being taken back
//! ```
//!
//! A file is begun whole, beside its place, synced and renamed. What a later record was cut off in counts as not there. When all is as it
//! was before us the file goes.

use crate::installed::Installed;
use crate::{ActError, Before, DynamicClasses, LinkNow, Now, kernel};
use quell_model::frame::{Decoder, encode};
use quell_sys::trusted::{self, TrustError, TrustedFolder};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub(crate) const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    pub pid: u32,
    pub command: String,
    /// When, in seconds since 1970.
    pub at: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// The kernel's name for this boot; what was before another one is void.
    pub boot: String,
    pub namespace: u64,
    /// The interface, for people and for the file's name.
    pub device: String,
    /// Its number, by which it is known also when it is renamed.
    pub index: Option<u32>,
    pub who: Who,
    pub wanted: String,
    /// What is wanted, as whoever asked can read it again; this crate does not.
    pub recipe: String,
    /// What was in force before, if something of ours was.
    pub earlier: Option<Earlier>,
    pub before: Before,
    /// What was there before the first of our changes that are in force, if that was another one.
    pub origin: Option<Before>,
}

/// An earlier change of ours that is in force again when a later one is undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    pub(crate) wanted: String,
    pub(crate) recipe: String,
    pub(crate) made: Vec<Installed>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum LogRecord {
    Begun(u32, Box<Begun>),
    /// Until when it is to be confirmed, on the monotonic clock.
    Applied(Option<u64>, Vec<Installed>),
    Confirmed,
    /// By whom, and what is to be there then.
    Leaving(Who, Box<Before>),
    Returning,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It was begun, and perhaps some of its steps were taken.
    Unfinished,
    /// It is in force until this time of the monotonic clock, unless it is confirmed.
    Awaiting(u64),
    Confirmed,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    path: PathBuf,
    pub begun: Begun,
    pub standing: Standing,
    /// What was there when all steps had been taken.
    pub(crate) made: Vec<Installed>,
}

/// The kernel's name for this boot.
pub(crate) fn boot() -> String {
    quell_netlink::sysctl::read("kernel/random/boot_id").unwrap_or_default()
}

impl Log {
    /// The log of a change that is to begin, in place of an earlier one about the same interface.
    pub fn new(folder: &Path, begun: Begun, earlier: Option<&Log>) -> Self {
        let path = match earlier {
            Some(log) => log.path.clone(),
            None => {
                let usual = folder.join(format!("{}-{}.undo", begun.namespace, begun.device));
                // There is one of another interface, which had this name once.
                let index = begun.index.unwrap_or(0);
                let other = format!("{}-{}-{index}.undo", begun.namespace, begun.device);
                if usual.exists() { folder.join(other) } else { usual }
            }
        };
        Log { path, begun, standing: Standing::Unfinished, made: Vec::new() }
    }

    /// Writes it, in place of the one before. It is on disk when this returns.
    pub fn begin(&self) -> Result<(), ActError> {
        self.replace(&[LogRecord::Begun(VERSION, Box::new(self.begun.clone()))])
    }

    /// Writes it whole, in place of the one before.
    fn replace(&self, records: &[LogRecord]) -> Result<(), ActError> {
        let failed = |why: String| {
            ActError::NoLog(format!("could not write {}: {why}", self.path.display()))
        };
        let bytes = records.iter().map(encode).collect::<Result<Vec<_>, _>>();
        let bytes = bytes.map_err(|e| failed(e.to_string()))?.concat();
        kernel::put(&self.path, &bytes, 0o600).map_err(|e| failed(e.to_string()))?;
        sync(self.folder()).map_err(|e| failed(e.to_string()))
    }

    /// Another recipe is in force from now on, whose queues are those that are there. At one instant: before it the one before is.
    pub(crate) fn restate(
        &mut self,
        who: Who,
        wanted: String,
        recipe: String,
    ) -> Result<(), ActError> {
        let earlier = None;
        let begun = Begun { who, wanted, recipe, earlier, ..self.begun.clone() };
        let log = Log { begun, ..self.clone() };
        let applied = LogRecord::Applied(None, log.made.clone());
        log.replace(&[LogRecord::Begun(VERSION, Box::new(log.begun.clone())), applied])?;
        *self = log;
        Ok(())
    }

    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Reads a log. None where there is none, or none that was whole.
    pub fn read(path: &Path) -> Result<Option<Self>, ActError> {
        let failed =
            |why: String| ActError::Unread(format!("could not read {}: {why}", path.display()));
        let mut bytes = Vec::new();
        let read = trusted::file(path).map_err(std::io::Error::from);
        match read.and_then(|mut file| file.read_to_end(&mut bytes)) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|e| unread(path, &e))?,
        };
        // A log is begun whole: who cut it is not known, nor what is in force.
        let lost = |why: &str| {
            failed(format!(
                "{why}; what was there before Quell's queues is not known any more: look with `quell tree`, take off with \
                 `tc qdisc del` what is not to be there, and remove this file"
            ))
        };
        let mut decoder = Decoder::new();
        decoder.push(&bytes);
        let mut next = || decoder.next_value();
        let begun = match next() {
            Ok(Some(LogRecord::Begun(VERSION, begun))) => *begun,
            Ok(None) if bytes.is_empty() => return Err(lost("it is empty")),
            Ok(None) => return Err(lost("it is cut off")),
            Ok(_) => return Err(lost("it is no undo log of this version of Quell")),
            Err(e) => return Err(lost(&e.to_string())),
        };
        let (standing, made) = (Standing::Unfinished, Vec::new());
        let mut log = Log { path: path.to_owned(), begun, standing, made };
        // Behind a torn record is nothing.
        while let Ok(Some(record)) = next() {
            match record {
                LogRecord::Applied(until, made) => {
                    log.standing = until.map_or(Standing::Confirmed, Standing::Awaiting);
                    log.made = made;
                }
                LogRecord::Confirmed => log.standing = Standing::Confirmed,
                LogRecord::Leaving(who, before) => log.leaves(who, *before),
                LogRecord::Returning => log.standing = Standing::Unfinished,
                LogRecord::Begun(..) => return Err(lost("it begins twice")),
            }
        }
        Ok(Some(log))
    }

    pub fn again(&self) -> Result<Option<Self>, ActError> {
        Log::read(&self.path)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All steps are in force, until a time of the monotonic clock unless they are confirmed; and what they made.
    pub(crate) fn applied(
        &mut self,
        until: Option<u64>,
        made: Vec<Installed>,
    ) -> Result<(), ActError> {
        self.append(&LogRecord::Applied(until, made.clone()))?;
        self.made = made;
        self.standing = until.map_or(Standing::Confirmed, Standing::Awaiting);
        Ok(())
    }

    pub fn confirmed(&mut self) -> Result<(), ActError> {
        self.append(&LogRecord::Confirmed)?;
        self.standing = Standing::Confirmed;
        Ok(())
    }

    /// All of ours is to be taken off, down to `before`. Where the disk is full that can't be written: then it stands in no log, and has to
    /// be begun again should it be cut off.
    pub(crate) fn leaving(&mut self, who: Who, before: Before) -> Result<(), ActError> {
        let mut short = before.clone();
        // These the log has.
        short.devices.iter_mut().for_each(|device| device.ours.clear());
        let written = self.append(&LogRecord::Leaving(who.clone(), Box::new(short)));
        self.leaves(who, before);
        written
    }

    fn leaves(&mut self, who: Who, mut before: Before) {
        for device in &mut before.devices {
            let all = [Some(&self.begun.before), self.begun.origin.as_ref()];
            let ours = all.into_iter().flatten().flat_map(|b| &b.devices);
            let ours = ours.filter(|d| d.is(&device.name, device.index));
            device.ours = ours.flat_map(|d| &d.ours).cloned().collect();
        }
        let all = [Some(&self.begun.before), self.begun.origin.as_ref()].into_iter().flatten();
        let dynamic: BTreeSet<DynamicClasses> =
            all.flat_map(|b| b.dynamic.iter().chain(&b.our_dynamic)).cloned().collect();
        before.our_dynamic = dynamic.into_iter().collect();
        self.begun.before = before;
        (self.begun.origin, self.begun.earlier) = (None, None);
        self.begun.wanted = "nothing of Quell's".to_owned();
        self.begun.who = who;
        self.standing = Standing::Unfinished;
    }

    /// What was not confirmed is being taken back. Where that can't be written, whoever comes next begins with it again.
    pub(crate) fn returning(&mut self) {
        if matches!(self.standing, Standing::Awaiting(_))
            && self.append(&LogRecord::Returning).is_ok()
        {
            self.standing = Standing::Unfinished;
        }
    }

    fn append(&mut self, record: &LogRecord) -> Result<(), ActError> {
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
    /// `here` is what is there of all that is to be there then.
    pub(crate) fn undone(mut self, here: Vec<Installed>) -> Result<(), ActError> {
        match self.begun.origin.clone() {
            Some(origin) => {
                let Some(Earlier { wanted, recipe, made }) = self.begun.earlier.take() else {
                    return self.over();
                };
                self.begun = Begun { before: origin, origin: None, wanted, recipe, ..self.begun };
                self.begin()?;
                let made = here.into_iter().map(|here| here.of_those_in(&made)).collect();
                self.applied(None, made)
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
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        sync(self.folder()).map_err(failed)
    }

    /// What is in force, for a change that is to come.
    /// But for what is somebody else's by now.
    pub(crate) fn as_earlier(&self, but: impl Fn(&Installed) -> Installed) -> Earlier {
        let Begun { wanted, recipe, .. } = self.begun.clone();
        Earlier { wanted, recipe, made: self.made.iter().map(but).collect() }
    }

    /// Whether it is about the interface of this name. One that was renamed is known by its number.
    fn is_about(&self, name: &str, links: &BTreeMap<String, LinkNow>) -> bool {
        let index = self.begun.index;
        let renamed = links.iter().find(|(_, link)| Some(link.index) == index);
        renamed.map_or(self.begun.device.as_str(), |(name, _)| name) == name
    }

    /// What its interface is called now, where that is another name than it had.
    pub fn renamed_to<'a>(&self, now: &'a Now) -> Option<&'a str> {
        let index = self.begun.index?;
        let (name, _) = now.links.iter().find(|(_, link)| link.index == index)?;
        (*name != self.begun.device).then_some(name)
    }

    /// What was there before the first of our changes.
    pub fn origin(&self) -> &Before {
        self.begun.origin.as_ref().unwrap_or(&self.begun.before)
    }
}

/// The log of an interface, by the name that it has now.
pub fn log_of(
    folder: &Path,
    namespace: u64,
    name: &str,
    now: &Now,
) -> Result<Option<Log>, ActError> {
    let found = list(folder, namespace)?.into_iter().find(|log| log.is_about(name, &now.links));
    Ok(found.map(|mut log| {
        log.begun.before.without_the_gone(now);
        if let Some(origin) = &mut log.begun.origin {
            origin.without_the_gone(now);
        }
        log
    }))
}

/// What the interface is called now that had this name when something was put in force on it; none where it is still called so.
pub fn renamed(
    folder: &Path,
    namespace: u64,
    name: &str,
    now: &Now,
) -> Result<Option<String>, ActError> {
    if now.links.contains_key(name) {
        // Another one, which has nothing of ours.
        return Ok(None);
    }
    let logs = list(folder, namespace)?;
    let mut of = logs.iter().filter(|log| log.begun.device == name);
    Ok(of.find_map(|log| log.renamed_to(now)).map(str::to_owned))
}

impl Before {
    /// What interfaces had that are gone went with them. One of the same name that came since is another, which has nothing of ours: none of
    /// its places is meant. An IFB that is to be there again comes back with its number and all it had.
    pub(crate) fn without_the_gone(&mut self, now: &Now) {
        let links = &self.links;
        for device in &mut self.devices {
            let there = |index| now.links.values().any(|link| link.index == index);
            let comes_back = links.iter().any(|link| link.there && link.name == device.name);
            if device.index.is_some_and(|index| !there(index)) && !comes_back {
                device.index = None;
                device.things.clear();
                (device.root, device.ingress) = (false, false);
            }
        }
    }
}

fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The logs of a namespace, by interface. One of another boot, whose kernel is gone, is taken away.
pub fn list(folder: &Path, namespace: u64) -> Result<Vec<Log>, ActError> {
    let failed = |e: std::io::Error| unread(folder, &e);
    match TrustedFolder::open(folder) {
        Err(TrustError::System { error, .. }) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed(error));
        }
        Err(TrustError::System { .. }) => return Ok(Vec::new()),
        Err(stranger) => return Err(ActError::Unread(stranger.to_string())),
        Ok(_) => {}
    }
    let entries = std::fs::read_dir(folder).map_err(failed)?;
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

/// Why a log, a lock, or their folder can't be read.
pub(crate) fn unread(path: &Path, error: &std::io::Error) -> ActError {
    let todo = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            ", which is root's alone: put `sudo` before the same command"
        }
        _ => "",
    };
    ActError::Unread(format!("could not read {}: {error}{todo}", path.display()))
}

/// What outlives a boot.
fn only_files(before: &Before) -> Before {
    Before { files: before.files.clone(), ..Before::default() }
}
