//! What can go wrong with a run folder, and what to do about it.

use quell_model::manifest::FORMAT_VERSION;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("could not {doing} {}: {source}; {}", path.display(), advice(source))]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    /// Finishing a run failed; everything that was measured is still in its journals.
    #[error(
        "{source}. Nothing is lost: the run {} can be read as it is, from its journals",
        run.display()
    )]
    Unfinished { run: PathBuf, source: Box<StoreError> },
    #[error("there is no run {wanted:?} under {}; {}", base.display(), nearest(near))]
    NoRun { wanted: String, base: PathBuf, near: Vec<String> },
    #[error("{wanted:?} fits {} runs under {}: {}; give more of the name", fit.len(), base.display(), first(fit))]
    Ambiguous { wanted: String, base: PathBuf, fit: Vec<String> },
    /// The folder has no manifest: not a run, or one whose program ended while it was creating it.
    #[error(
        "{} has no manifest.json: it is not a run, or the program ended before it wrote anything; such a folder can be removed",
        path.display()
    )]
    NoManifest { path: PathBuf },
    #[error(
        "{} has format {found}, and this program reads format {FORMAT_VERSION}; read it with the version of Quell that wrote it",
        path.display()
    )]
    Format { path: PathBuf, found: u64 },
    #[error("{} is damaged: {what}; restore it from a copy, or run the experiment again", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("the run can't be stored: {what}")]
    Unstorable { what: String },
}

impl StoreError {
    pub fn io(doing: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.as_ref().to_path_buf();
        move |source| StoreError::Io { doing, path, source }
    }

    /// Whether the disk has no room: what is on it stays as it is.
    pub fn is_full_disk(&self) -> bool {
        match self {
            Self::Io { source, .. } => is_full(source),
            Self::Unfinished { source, .. } => source.is_full_disk(),
            _ => false,
        }
    }

    pub fn damaged(path: impl AsRef<Path>, what: impl ToString) -> StoreError {
        StoreError::Damaged { path: path.as_ref().to_path_buf(), what: what.to_string() }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        _ if is_full(error) => "make room on that file system, or choose another with --out",
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
        [] => "`quell show --list` lists those that there are".to_owned(),
        names => format!("the nearest are {}", names.join(", ")),
    }
}
