//! What can go wrong with a run folder, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why a run could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused an operation on a file.
    #[error("could not {doing} {}: {source}; {}", path.display(), advice(source))]
    Io {
        /// What was tried, as `write`.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel answered.
        source: io::Error,
    },
    /// Finishing a run failed; everything that was measured is still in its journals.
    #[error(
        "{source}. Nothing is lost: the run {} can be read as it is, from its journals",
        run.display()
    )]
    Unfinished {
        /// The run's folder.
        run: PathBuf,
        /// What failed.
        source: Box<StoreError>,
    },
    /// There is no such run.
    #[error("there is no run {wanted:?} under {}; {}", base.display(), nearest(near))]
    NoRun {
        /// What was asked for.
        wanted: String,
        /// Where runs lie.
        base: PathBuf,
        /// Runs with similar names.
        near: Vec<String>,
    },
    /// Several runs have that in their name.
    #[error("{wanted:?} fits {} runs under {}: {}; give more of the name", fit.len(), base.display(), first(fit))]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// Where runs lie.
        base: PathBuf,
        /// Those that it fits, the latest first.
        fit: Vec<String>,
    },
    /// The folder has no manifest: not a run, or one whose program ended while it was creating it.
    #[error(
        "{} has no manifest.json: it is not a run, or the program ended before it wrote anything; such a folder can be removed",
        path.display()
    )]
    NoManifest {
        /// The folder.
        path: PathBuf,
    },
    /// The folder was written by a newer program.
    #[error(
        "{} has format {found}, and this program knows formats up to {known}; read it with a newer Quell",
        path.display()
    )]
    Newer {
        /// The manifest.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format that is understood.
        known: u32,
    },
    /// A file does not hold what it should.
    #[error("{} is damaged: {what}; restore it from a copy, or run the experiment again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A manifest was handed in that can't be stored.
    #[error("the run can't be stored: {what}")]
    Unstorable {
        /// What is wrong with it.
        what: String,
    },
}

impl StoreError {
    /// An I/O error of an operation on a path, for `map_err`.
    pub(crate) fn io(
        doing: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.as_ref().to_path_buf();
        move |source| StoreError::Io { doing, path, source }
    }

    /// A file that does not hold what it should.
    pub(crate) fn damaged(path: impl AsRef<Path>, what: impl ToString) -> StoreError {
        StoreError::Damaged { path: path.as_ref().to_path_buf(), what: what.to_string() }
    }
}

/// What to do about an I/O error.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room on that file system, or choose another with --out"
        }
        io::ErrorKind::FileTooLarge => "raise the limit on file sizes (ulimit -f), or use another",
        io::ErrorKind::PermissionDenied => "choose a folder that you may write with --out",
        io::ErrorKind::ReadOnlyFilesystem => {
            "that file system is read-only; choose another with --out"
        }
        io::ErrorKind::NotFound => "it does not exist; was the run moved or removed?",
        io::ErrorKind::NotADirectory => "a part of that path is a file; choose another with --out",
        // What stands in the place of a file of the run.
        io::ErrorKind::InvalidData => "put the file itself there, or run the experiment again",
        _ => "check that file system, or choose another with --out",
    }
}

/// Some of the runs that fit.
fn first(fit: &[String]) -> String {
    const MOST: usize = 5;
    let names = fit.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
    match fit.len().checked_sub(MOST) {
        Some(more @ 1..) => format!("{names} and {more} more"),
        _ => names,
    }
}

fn nearest(near: &[String]) -> String {
    match near {
        [] => "`quell runs` lists those that there are".to_owned(),
        names => format!("the nearest are {}", names.join(", ")),
    }
}
