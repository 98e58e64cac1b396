//! The guest kernel: user-mode Linux with virtual time, built from source once, then found in the cache.
//!
//! ```text
//!   source (Debian's linux-source-6.1, or a tree)
//!      │ unpack ─ edit (../../kernel/edits) ─ configure (../../kernel/kernel.config) ─ make ─ strip ─ try
//!      ▼
//!   <cache>/kernel/<key>/linux ── find ──► guest::boot
//! ```
//!
//! A kernel appears in the cache in one step, when it is whole and has said that it can travel in time. Two builders don't
//! meet: the second waits for the first and takes what it built. Needs no root and no network.

mod build;
mod edit;
mod job;
mod offers;
mod place;
mod ready;
mod tools;

pub use build::{BuildError, build};
pub use edit::EditError;
pub use offers::{congestion_asked, congestion_controls};
pub use place::KernelSource;
pub use ready::{NotReady, Ready, inspect};
pub use tools::MissingTool;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Which kernel is meant, and how to build it.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A source tree or tarball instead of Debian's package.
    pub source: Option<PathBuf>,
    /// A ready kernel: nothing is built.
    pub kernel_file: Option<PathBuf>,
    /// Build even if there is one.
    pub force: bool,
    /// Cache folder instead of `$QUELL_CACHE`, `$XDG_CACHE_HOME/quell` or `~/.cache/quell`.
    pub cache: Option<PathBuf>,
    /// How many compilers run side by side; by default one per CPU.
    pub jobs: Option<usize>,
    /// Set it to end the build: within a second its processes and files are gone.
    pub cancel: Option<Arc<AtomicBool>>,
}

/// A kernel that guests can be booted with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Its file.
    pub path: PathBuf,
    /// Whether we built it, instead of somebody having named it.
    pub cached: bool,
}

/// How far a build is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// What is being done, in a word or two: `unpack`, `compile`.
    pub phase: String,
    /// How much of the whole is done, 0 to 1.
    pub fraction: f64,
    /// Since the build began, waiting for another builder not counted.
    pub elapsed: Duration,
    /// How much longer, once that can be told.
    pub left: Option<Duration>,
}

/// What is known of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// Its file.
    pub path: PathBuf,
    /// Its version, as it says itself.
    pub version: String,
    /// Bytes.
    pub size: u64,
    /// Whether its clock can jump.
    pub virtual_time: bool,
    /// Whether its randomness can be seeded: the same seed then gives the same bytes.
    pub seeded: bool,
    /// What it was built from; nothing for a kernel that somebody named.
    pub built: Option<Built>,
}

/// How a kernel was built.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// Key in the cache.
    pub key: String,
    /// The source.
    pub source: PathBuf,
    /// The compiler's own words.
    pub compiler: String,
    /// When it was ready, in seconds since 1970.
    pub at_unix_s: u64,
    /// How long it took, in seconds.
    pub took_s: f64,
    /// Files of edits that were applied.
    pub edits: Vec<String>,
    /// Options that were asked for and that this source has not.
    pub refused: Vec<String>,
    /// Every option that is on.
    pub options: Vec<String>,
}

impl std::fmt::Display for Info {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let yes = |b: bool| if b { "yes" } else { "no" };
        writeln!(f, "kernel        {}", self.path.display())?;
        writeln!(f, "version       {}", self.version)?;
        writeln!(f, "size          {:.1} MB", self.size as f64 / 1e6)?;
        writeln!(f, "virtual time  {}", yes(self.virtual_time))?;
        writeln!(f, "seeded        {}", yes(self.seeded))?;
        let Some(built) = &self.built else { return Ok(()) };
        writeln!(f, "source        {}", built.source.display())?;
        writeln!(f, "key           {}", built.key)?;
        writeln!(f, "compiler      {}", built.compiler)?;
        writeln!(f, "build took    {:.0} s", built.took_s)?;
        writeln!(f, "edits         {}", built.edits.join(", "))?;
        writeln!(f, "options       {} on", built.options.len())?;
        if !built.refused.is_empty() {
            writeln!(f, "not in source {}", built.refused.join(", "))?;
        }
        Ok(())
    }
}

/// Why there is no kernel to use.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// None was built yet.
    #[error("there is no lab kernel in {} yet", .folder.display())]
    NotBuilt {
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// Neither a cache nor a home folder is known.
    #[error("where to keep kernels? Set QUELL_CACHE or HOME to a folder")]
    NoCache,
    /// The named kernel can't be used.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// Its description can't be read.
    #[error("the kernel's description {}: {why}; build it again with `quell kernel build --force`", .path.display())]
    Info {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// The kernel that the options mean. A named one is asked whether it can travel in time; one of our own was asked when built.
pub fn find(options: &Options) -> Result<Kernel, NotFound> {
    if let Some(path) = &options.kernel_file {
        ready::inspect(path)?;
        return Ok(Kernel { path: path.clone(), cached: false });
    }
    let folder = place::folder(options).ok_or(NotFound::NoCache)?;
    let found = match KernelSource::of(options).key() {
        Some(key) => place::kernel_in(&folder.join(key)),
        None => None,
    };
    // Without a source to compare with, any kernel of our recipe is the one.
    let found = found.or_else(|| place::newest(&folder).filter(|_| options.source.is_none()));
    found.ok_or(NotFound::NotBuilt { folder })
}

/// What is known of a kernel that was found.
pub fn info(kernel: &Kernel) -> Result<Info, NotFound> {
    if !kernel.cached {
        let ready = ready::inspect(&kernel.path)?;
        let size = std::fs::metadata(&kernel.path).map_or(0, |m| m.len());
        let Ready { version, virtual_time, seeded } = ready;
        let path = kernel.path.clone();
        return Ok(Info { path, version, size, virtual_time, seeded, built: None });
    }
    let path = kernel.path.with_file_name("info.json");
    let failed = |why: String| NotFound::Info { path: path.clone(), why };
    let text = std::fs::read(&path).map_err(|e| failed(e.to_string()))?;
    let info: Info = serde_json::from_slice(&text).map_err(|e| failed(e.to_string()))?;
    // The cache may have been moved since.
    Ok(Info { path: kernel.path.clone(), ..info })
}
