//! A mesh's folder a second time, elsewhere, for the day on which its disk is lost.
//!
//! ```text
//!   tables that changed ──► the journal ──► it is safe there ──► what of the journal is in tables goes there too
//! ```
//!
//! At each moment the copy is a mesh's folder itself. The program `rsync` carries it to a folder or a host, `rclone` to an object store: both know
//! how their users prove who they are.

use super::{FolderError, journal};
use nix::sys::signal::Signal;
use quell_sys::child::ends_with_us;
use quell_sys::wait::Bell;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("the copy {to} can't be reached or written: {program} says: {why}")]
    Program { program: &'static str, to: String, why: String },
    #[error(
        "the copy {to} has what {} lacks: another collector wrote to it; give an empty folder with --out, and it is filled from the copy",
        .folder.display()
    )]
    Ahead { to: String, folder: PathBuf },
}

pub struct FolderCopy {
    folder: PathBuf,
    program: &'static str,
    to: String,
    /// Below the folder; what is there as it is here is not among them.
    changed: BTreeSet<PathBuf>,
    /// Of the journal, those that are there.
    parts: BTreeSet<u64>,
}

impl FolderCopy {
    /// As `rsync` takes it, or after `rclone:` as `rclone` does. A folder that is empty is filled from it.
    pub fn open(folder: &Path, to: &str) -> Result<Self, CopyError> {
        let (program, to) = to.strip_prefix("rclone:").map_or(("rsync", to), |to| ("rclone", to));
        let (folder, to) = (folder.to_owned(), to.trim_end_matches('/').to_owned());
        let mut copy =
            Self { folder, program, to, changed: BTreeSet::new(), parts: BTreeSet::new() };
        let look = copy.folder.join("copy");
        let journal = look.join("journal");
        // What a killed collector had fetched is older than what is there.
        let _ = fs::remove_dir_all(&look);
        fs::create_dir_all(&journal).map_err(|error| copy.failed(error))?;
        // It is made there, so that what can't be read is not taken for what is not there.
        copy.carry(&[], &["mkdir"], &journal, "journal", "")?;
        copy.fetch("journal", &journal)?;
        copy.parts = journal::parts(&look)?.into_iter().collect();
        fs::remove_dir_all(&look).map_err(|error| copy.failed(error))?;
        let has_ours = copy.folder.join("journal").is_dir();
        let ours = if has_ours { journal::parts(&copy.folder)?.pop() } else { None };
        if copy.parts.last().copied() > ours {
            if ours.is_some() {
                return Err(CopyError::Ahead { to: copy.to, folder: copy.folder });
            }
            copy.fetch("", &copy.folder)?;
        }
        below(&copy.folder, Path::new(""), &mut copy.changed).map_err(|e| copy.failed(e))?;
        Ok(copy)
    }

    /// Brings all that is there, and then what it is told to, in a thread of its own that rings when it is done.
    pub fn in_thread(mut self, done: &Arc<Bell>) -> Result<Copier, CopyError> {
        self.bring(Vec::new())?;
        let (orders, ordered) = channel::<Vec<PathBuf>>();
        let (say, ends) = channel();
        let bell = Arc::clone(done);
        let thread = std::thread::spawn(move || {
            for changed in ordered {
                let _ = say.send(self.bring(changed));
                bell.ring();
            }
        });
        Ok(Copier { orders: Some(orders), ends, is_busy: false, thread: Some(thread) })
    }

    /// Brings these tables, and what was synced of the journal: then all that was appended before is safe.
    fn bring(&mut self, changed: Vec<PathBuf>) -> Result<(), CopyError> {
        let own = changed.iter().filter_map(|file| file.strip_prefix(&self.folder).ok());
        self.changed.extend(own.map(Path::to_owned));
        let journal = self.folder.join("journal");
        if !self.changed.is_empty() {
            self.changed.insert("plans.json".into());
            let there = self.changed.iter().filter(|file| self.folder.join(file).exists());
            let list: String = there.map(|file| format!("{}\n", file.display())).collect();
            let (rsync, rclone) = (["--fsync", "--files-from=-"], ["copy", "--files-from-raw=-"]);
            self.carry(&rsync, &rclone, &self.folder, "", &list)?;
            self.changed.clear();
        }
        let parts: BTreeSet<u64> = journal::parts(&self.folder)?.into_iter().collect();
        // It grows meanwhile; a batch of which only a part came is none.
        let rsync = ["--fsync", "--append", "--exclude=/lock"];
        let rclone = ["copy", "--local-no-check-updated", "--exclude=/lock"];
        self.carry(&rsync, &rclone, &journal, "journal", "")?;
        // By name: a folder that was emptied behind our back empties no copy.
        let gone = self.parts.difference(&parts);
        let gone: Vec<String> = gone.map(|part| format!("--include=/{part:09}.frames")).collect();
        if !gone.is_empty() {
            let rules = |first: &'static str, last: Option<&'static str>| -> Vec<&str> {
                [first].into_iter().chain(gone.iter().map(String::as_str)).chain(last).collect()
            };
            let rsync = rules("--delete", Some("--exclude=*"));
            self.carry(&rsync, &rules("delete", None), &journal, "journal", "")?;
        }
        self.parts = parts;
        Ok(())
    }

    /// Copies what is below a folder there to a folder here.
    fn fetch(&self, below: &str, into: &Path) -> Result<(), CopyError> {
        let there = format!("{}/{below}/", self.to);
        let mut command = Command::new(self.program);
        match self.program {
            "rsync" => command.args(["-a", "--timeout=60"]),
            _ => command.args(["copy", "--retries=1"]),
        };
        self.wait(command.arg(there).arg(into), "")
    }

    /// Copies what is below a folder here to a folder there; a list says what, or arguments do.
    fn carry(
        &self,
        rsync: &[&str],
        rclone: &[&str],
        from: &Path,
        below: &str,
        list: &str,
    ) -> Result<(), CopyError> {
        let mut command = Command::new(self.program);
        match self.program {
            "rsync" => command.args(["-a", "--mkpath", "--timeout=60"]).args(rsync),
            _ => command.args(rclone),
        };
        // rclone deletes there alone.
        if self.program == "rsync" || rclone[0] == "copy" {
            command.arg(format!("{}/", from.display()));
        }
        self.wait(command.arg(format!("{}/{below}", self.to)), list)
    }

    fn wait(&self, command: &mut Command, list: &str) -> Result<(), CopyError> {
        let failed = |error: io::Error| self.failed(error);
        if std::env::var_os("RSYNC_RSH").is_none() {
            // Nobody is there to type a password.
            command.env("RSYNC_RSH", "ssh -o BatchMode=yes");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        ends_with_us(command, Signal::SIGKILL);
        let mut child = command.spawn().map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that ended early says why.
            let _ = stdin.write_all(list.as_bytes());
        }
        let ended = child.wait_with_output().map_err(failed)?;
        // rclone: a folder without files is none in an object store.
        if ended.status.success() || (self.program, ended.status.code()) == ("rclone", Some(3)) {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        let why = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        Err(self.failed(quell_wire::text::printable(why, 300)))
    }

    fn failed(&self, why: impl ToString) -> CopyError {
        let (program, to) = (self.program, self.to.clone());
        CopyError::Program { program, to, why: why.to_string() }
    }
}

pub struct Copier {
    orders: Option<Sender<Vec<PathBuf>>>,
    ends: Receiver<Result<(), CopyError>>,
    is_busy: bool,
    thread: Option<JoinHandle<()>>,
}

impl Copier {
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    pub fn bring(&mut self, changed: Vec<PathBuf>) {
        self.is_busy = self.orders.as_ref().is_some_and(|orders| orders.send(changed).is_ok());
    }

    /// How it ended, once.
    pub fn ended(&mut self) -> Option<Result<(), CopyError>> {
        let end = self.ends.try_recv().ok()?;
        self.is_busy = false;
        Some(end)
    }
}

impl Drop for Copier {
    /// What is copied last is copied: who comes next may count on it.
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// All files below a folder but the journal.
fn below(root: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let (entry, path) = entry.map(|entry| (folder.join(entry.file_name()), entry))?;
        match path.file_type()?.is_dir() {
            true if entry != Path::new("journal") => below(root, &entry, found)?,
            true => {}
            false => drop(found.insert(entry)),
        }
    }
    Ok(())
}
