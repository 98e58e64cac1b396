//! Files beside a log: which is whose, by their names.
//!
//! ```text
//!   4026531840-eth0.7.undo                                  the log
//!   4026531840-eth0.7.0d3fb1c2a4958677-612345.annex         one of its annexes
//! ```

use std::path::{Path, PathBuf};

const ENDING: &str = "annex";

/// A file beside a log.
pub(crate) struct Beside {
    /// Where it is.
    pub path: PathBuf,
    /// Where its log is, or was.
    pub log: PathBuf,
    /// The annex' own name.
    pub name: String,
}

/// Where an annex of a log is.
pub(crate) fn place(log: &Path, name: &str) -> PathBuf {
    log.with_extension(format!("{name}.{ENDING}"))
}

/// All annexes of logs of a namespace.
pub(crate) fn annexes(folder: &Path, namespace: u64) -> Vec<Beside> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let annex = |path: PathBuf| {
        let file = path.file_name()?.to_str()?;
        // An interface's name may have dots in it, and an annex' has none.
        let (of, name) = file.strip_suffix(ENDING)?.strip_suffix('.')?.rsplit_once('.')?;
        let ours = of.starts_with(&format!("{namespace}-"));
        let (log, name) = (folder.join(format!("{of}.undo")), name.to_owned());
        ours.then_some(Beside { path, log, name })
    };
    entries.filter_map(|entry| annex(entry.path())).collect()
}
