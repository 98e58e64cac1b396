//! Logs and the kernel as they are together, while others may change both.
//!
//! ```text
//!   nobody at work? ─► marks of the logs ─► look ─► nobody at work, and the same marks? ─► that is how things stand
//!        ▲ waits                                     └─ no: once more, until patience is over; then it is said who is at it
//!        └────────────────────────────────────────────────┘
//! ```
//!
//! Whoever looks keeps nobody from changing anything: of thousands of classes a look may take longer than who changes something waits.

use crate::{ActError, Lock};
use quell_sys::clock::monotonic_ns;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How long changes that are under way are waited for.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Who changed something during the last look and is done.
const SOMEBODY: &str = "another quell";

/// Looks at logs and the kernel in a moment in which nobody of ours changes anything. What was seen; and who changes something just now,
/// where there was no such moment for two seconds.
///
/// # Errors
/// The look's own, or the lock can't be looked at.
pub fn still<T, E: From<ActError>>(
    folder: &Path,
    namespace: u64,
    mut look: impl FnMut() -> Result<T, E>,
) -> Result<(T, Option<String>), E> {
    let until = monotonic_ns() + PATIENCE_NS;
    loop {
        let busy = Lock::at_work(folder, namespace, until)?;
        let before = marks(folder, namespace);
        let seen = look();
        if busy.is_some() {
            return Ok((seen?, busy));
        }
        let busy = Lock::at_work(folder, namespace, 0)?;
        if busy.is_none() && marks(folder, namespace) == before {
            return Ok((seen?, None));
        }
        if monotonic_ns() >= until {
            return Ok((seen?, Some(busy.unwrap_or_else(|| SOMEBODY.to_owned()))));
        }
    }
}

/// By what it is known whether a log was written: each change begins with that.
type Written = (std::ffi::OsString, u64, u64, i64, i64);

fn marks(folder: &Path, namespace: u64) -> Vec<Written> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let logs = entries.filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with(&format!("{namespace}-")) && name.ends_with(".undo")
    });
    let mut marks: Vec<Written> = logs
        .filter_map(|entry| {
            let meta = entry.metadata().ok()?;
            Some((entry.file_name(), meta.ino(), meta.len(), meta.ctime(), meta.ctime_nsec()))
        })
        .collect();
    marks.sort();
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_during_which_somebody_changed_something_is_taken_again() {
        let seen = || {
            let folder = tempfile::tempdir().unwrap();
            let log = folder.path().join("7-wan.undo");
            let mut looks = 0;
            let seen = still(folder.path(), 7, || {
                looks += 1;
                if looks == 1 {
                    // All of a change, from its beginning to its end.
                    let _lock = Lock::take(folder.path(), 7, "a change")?;
                    std::fs::write(&log, "begun").unwrap();
                }
                Ok::<_, ActError>(looks)
            });
            seen.unwrap()
        };
        // Who has no CPU for two seconds looks once.
        let once = (1, Some(SOMEBODY.to_owned()));
        let seen = (0..10).map(|_| seen()).find(|seen| *seen != once);
        assert_eq!(seen, Some((2, None)));
    }

    #[test]
    fn who_changes_something_for_longer_than_anybody_waits_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::take(folder.path(), 7, "`quell shape apply` (process 9)").unwrap();
        let look = || still(folder.path(), 7, || Ok::<_, ActError>(()));
        assert_eq!(look().unwrap().1.as_deref(), Some("`quell shape apply` (process 9)"));
        drop(lock);
        assert_eq!(look().unwrap().1, None);
    }
}
