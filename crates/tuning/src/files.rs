//! The files of `quell tune`: the record of what was there, and the settings for the next boot.

use crate::conf::{self, ConfFile, Override};
use crate::host::{Settings, release};
use crate::record::VERSION;
use crate::{CommandError, Folders};
use crate::{RECORD_PLACE, Setting, Tuning, TuningRecord, same};
use quell_act::{Before, FileGoal, Goal, Log, SysctlGoal};
use quell_sys::netns::NetNs;
use quell_sys::trusted::TrustedFolder;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// By this name the change is known in the undo log; no interface can be called so.
pub const CHANGE: &str = ":tune";

/// Whose files they are is plain to all.
const MODE: u32 = 0o644;

/// No file that somebody wrote for sysctl is longer.
const LARGEST: u64 = 1 << 20;

pub struct Files {
    root: PathBuf,
    /// What was there before.
    pub record: PathBuf,
    /// The settings for the next boot.
    pub conf: PathBuf,
}

impl Files {
    pub fn of(folders: &Folders) -> Self {
        // The watchdog stands in another folder.
        let root = std::path::absolute(&folders.root).unwrap_or_else(|_| folders.root.clone());
        Files { record: root.join(RECORD_PLACE), conf: root.join(conf::PLACE), root }
    }

    pub fn recorded(&self) -> Result<Option<TuningRecord>, CommandError> {
        let failed = |why: &dyn std::fmt::Display| {
            CommandError::system(format!("could not read {}: {why}", self.record.display()))
        };
        match TrustedFolder::open(&self.record)
            .map_err(io::Error::from)
            .and_then(|_| fs::read_to_string(&self.record))
        {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed(&e)),
            Ok(text) => TuningRecord::read(&text).map(Some).map_err(|e| failed(&e)),
        }
    }

    /// What is in the file for the next boot, if it is there.
    pub fn boot_text(&self) -> Option<String> {
        fs::read_to_string(&self.conf).ok()
    }

    /// Refuses a file of that name that somebody else wrote.
    pub fn refuse_foreign(&self) -> Result<(), CommandError> {
        match self.boot_text() {
            Some(text) if !text.starts_with(conf::FIRST_LINE) => Err(CommandError::check(format!(
                "{} is there, and Quell did not write it; nothing was changed: move it away first",
                self.conf.display()
            ))),
            _ => Ok(()),
        }
    }

    pub fn make_folders(&self) -> Result<(), CommandError> {
        for path in [&self.record, &self.conf] {
            let folder = path.parent().unwrap_or(Path::new("/"));
            TrustedFolder::make(folder, 0o755).map_err(|e| {
                CommandError::system(format!(
                    "could not make {}: {e}; nothing was changed. As root: sudo quell tune apply …; \
                     without files, until the next boot: --for-now",
                    folder.display()
                ))
            })?;
        }
        Ok(())
    }

    /// The goal of a record: its settings, and its files unless it is for now. The record comes first and goes last, so that at no
    /// instant the next boot sets what nobody can take back.
    pub fn goal(&self, record: &TuningRecord, earlier: Option<&TuningRecord>) -> Goal {
        let set = |s: &Setting| SysctlGoal { key: s.key.clone(), value: s.set.clone() };
        let mut sysctls: Vec<SysctlGoal> = record.settings.iter().map(set).collect();
        // What an earlier one set and this one does not is to be as it was.
        for old in earlier.iter().flat_map(|earlier| &earlier.settings) {
            if !sysctls.iter().any(|s| s.key == old.key) {
                sysctls.push(SysctlGoal { key: old.key.clone(), value: old.before.clone() });
            }
        }
        let file = |path: &Path, text: &str| FileGoal {
            path: path.to_owned(),
            content: Some((text.as_bytes().to_vec(), MODE)),
        };
        let files = match record.file.is_empty() {
            true => Vec::new(),
            false => vec![file(&self.record, &record.text()), file(&self.conf, &record.file)],
        };
        Goal { sysctls, files, ..Goal::default() }
    }

    /// What was there before all that Quell did, but for settings that are to stay.
    pub fn before(&self, record: &TuningRecord, log: Option<&Log>, stay: &[String]) -> Before {
        let was = |s: &Setting| SysctlGoal { key: s.key.clone(), value: s.before.clone() };
        let none = |path: &Path| FileGoal { path: path.to_owned(), content: None };
        let own = Before {
            sysctls: record.settings.iter().map(was).collect(),
            files: vec![none(&self.record), none(&self.conf)],
            ..Before::default()
        };
        let mut all = log.map_or(own.clone(), |log| own.and(log.origin()));
        all.sysctls.retain(|s| !stay.contains(&s.key));
        all
    }

    /// Settings that another file sets otherwise at boot.
    pub fn overridden(&self, record: &TuningRecord) -> Vec<Override> {
        let set: Vec<(String, String)> =
            record.settings.iter().map(|s| (s.key.clone(), s.set.clone())).collect();
        conf::later(&self.boot_files(), &set)
    }

    fn boot_files(&self) -> Vec<ConfFile> {
        let mut found = Vec::new();
        let mut read = |path: PathBuf, name: String| {
            let small =
                fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST);
            if let Some(text) = small.then(|| fs::read_to_string(&path).ok()).flatten() {
                let path = path.display().to_string();
                found.push(ConfFile { name, path, text });
            }
        };
        for folder in conf::FOLDERS {
            for entry in fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.ends_with(".conf") {
                    read(entry.path(), name);
                }
            }
        }
        read(self.root.join("etc/sysctl.conf"), "~".into());
        found
    }
}

/// The record of a plan: what was before is what an earlier record says, or what is now.
pub fn record(
    plan: &Tuning,
    earlier: Option<&TuningRecord>,
    now: &Settings,
    at: u64,
    keep: bool,
) -> TuningRecord {
    let settings = plan.settings().map(|(key, set)| {
        let before = earlier.and_then(|record| record.before(key)).map(str::to_owned);
        let before = before.or_else(|| now.get(key).cloned()).unwrap_or_default();
        Setting { key: key.to_owned(), before, set: set.to_owned() }
    });
    let settings: Vec<Setting> = settings.collect();
    let set: Vec<(String, String)> =
        settings.iter().map(|s| (s.key.clone(), s.set.clone())).collect();
    let file = if keep { conf::text(plan, &set) } else { String::new() };
    let (wanted, kernel) = (plan.wish.words(), release());
    let new = TuningRecord { version: VERSION, wanted, at, kernel, file, settings };
    match earlier {
        // The same again is no change.
        Some(old)
            if TuningRecord { at: old.at, kernel: old.kernel.clone(), ..new.clone() } == *old =>
        {
            old.clone()
        }
        _ => new,
    }
}

pub fn record_of_log(log: &Log) -> Option<TuningRecord> {
    TuningRecord::read(&log.begun.recipe).ok()
}

/// The log of this boot, if there is one.
pub fn log(folders: &Folders) -> Result<Option<Log>, CommandError> {
    let namespace = NetNs::current().map_err(CommandError::system)?.inode();
    let logs = quell_act::list(&folders.state, namespace)?;
    Ok(logs.into_iter().find(|log| log.begun.device == CHANGE))
}

/// The settings of a record that are neither as it set them nor as they were.
pub fn changed(record: &TuningRecord, now: &Settings) -> Vec<(String, String)> {
    let changed = |s: &Setting| {
        let there = now.get(&s.key)?;
        let known = same(there, &s.set) || same(there, &s.before);
        (!known).then(|| (s.key.clone(), there.clone()))
    };
    record.settings.iter().filter_map(changed).collect()
}
