//! Which kernel is meant, and the one that was found.

use super::Series;
use quell_sys::wait::Bell;
use std::path::PathBuf;
use std::sync::Arc;

/// Which kernel is meant, and how to build it.
#[derive(Debug, Clone, Default)]
pub struct KernelOptions {
    /// A source tree or tarball instead of Debian's package.
    pub source: Option<PathBuf>,
    /// The series of Debian's package; the usual one where absent.
    pub series: Option<Series>,
    /// A ready kernel: nothing is built.
    pub kernel_file: Option<PathBuf>,
    /// Build even if there is one.
    pub force: bool,
    /// Cache folder instead of `$QUELL_CACHE`, `$XDG_CACHE_HOME/quell` or `~/.cache/quell`.
    pub cache: Option<PathBuf>,
    /// How many compilers run side by side; by default one per CPU.
    pub jobs: Option<usize>,
    /// Ring it to end the build: within seconds its processes and files are gone.
    pub cancel: Option<Arc<Bell>>,
}

/// A kernel that guests can be booted with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Its file.
    pub path: PathBuf,
    /// Whether we built it, instead of somebody having named it.
    pub cached: bool,
}
