//! The runs under a folder, in short; those that can't be read too, with the reason.

use crate::error::StoreError;
use crate::layout::{JOURNALS, names};
use crate::run::{complete_cells, progress};
use nix::fcntl::{Flock, FlockArg};
use quell_model::Manifest;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A run in short.
#[derive(Debug)]
pub struct RunSummary {
    /// Its name: the folder's name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// How it stands.
    pub state: RunState,
    /// Its manifest, where it can be read.
    pub manifest: Option<Manifest>,
}

/// How a run stands.
#[derive(Debug)]
pub enum RunState {
    /// Every cell ran to its end.
    Complete,
    /// Some cell did not run to its end.
    Partial {
        /// How many did.
        complete: usize,
        /// How many there are.
        cells: usize,
    },
    /// It was stopped from outside, as by Ctrl-C, and holds what was measured until then.
    Stopped {
        /// How many cells ran to their end.
        complete: usize,
        /// How many there are.
        cells: usize,
    },
    /// A program is writing it.
    Running {
        /// How many cells ran to their end so far.
        complete: usize,
        /// How many there are.
        cells: usize,
    },
    /// It can't be read.
    Unreadable(StoreError),
}

/// The runs under a folder, oldest first. A folder that does not exist has none.
pub fn list(base: &Path) -> Result<Vec<RunSummary>, StoreError> {
    Ok(names(base)?.into_iter().map(|name| summary(base, name)).collect())
}

fn summary(base: &Path, name: String) -> RunSummary {
    let folder = base.join(&name);
    let (state, manifest) = match progress(&folder) {
        Err(error) => (RunState::Unreadable(error), None),
        Ok((manifest, files)) => {
            let (complete, cells) = (complete_cells(&manifest), manifest.cells.len());
            let state = match files {
                None if is_locked(&folder) => RunState::Running { complete, cells },
                Some(_) if manifest.complete => RunState::Complete,
                _ if manifest.was_stopped() => RunState::Stopped { complete, cells },
                _ => RunState::Partial { complete, cells },
            };
            (state, Some(manifest))
        }
    };
    RunSummary { name, folder, state, manifest }
}

fn is_locked(folder: &Path) -> bool {
    // A pipe of that name would be waited for.
    let folder_only = nix::libc::O_DIRECTORY | nix::libc::O_NOFOLLOW;
    let mut open = File::options();
    open.read(true).custom_flags(folder_only);
    let Ok(handle) = open.open(folder.join(JOURNALS)) else { return false };
    matches!(
        Flock::lock(handle, FlockArg::LockSharedNonblock),
        Err((_, nix::errno::Errno::EWOULDBLOCK))
    )
}
