//! The runs under a folder, in short; those that can't be read too, with the reason.

use crate::error::StoreError;
use crate::layout::{JOURNALS, names};
use crate::run::{complete_cells, progress};
use nix::fcntl::{Flock, FlockArg};
use quell_model::Manifest;
use std::fs::File;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct RunSummary {
    /// Its name: the folder's name.
    pub name: String,
    pub folder: PathBuf,
    pub state: RunState,
    pub manifest: Option<Manifest>,
}

#[derive(Debug)]
pub enum RunState {
    /// Every cell ran to its end.
    Complete,
    /// Some cell did not run to its end.
    Partial {
        /// How many did.
        complete: usize,
        cells: usize,
    },
    /// It was stopped from outside, as by Ctrl-C, and holds what was measured until then.
    Stopped {
        /// How many cells ran to their end.
        complete: usize,
        cells: usize,
    },
    /// A program is writing it.
    Running {
        /// How many cells ran to their end so far.
        complete: usize,
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
    let Ok(handle) = File::open(folder.join(JOURNALS)) else { return false };
    matches!(
        Flock::lock(handle, FlockArg::LockSharedNonblock),
        Err((_, nix::errno::Errno::EWOULDBLOCK))
    )
}
