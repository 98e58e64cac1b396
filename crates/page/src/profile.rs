//! A browser's folder: for its user alone, and gone with the browser.
//!
//! In a guest it lies in /run: through /tmp a guest sees what lies in the machine's.

use crate::limits::LIMITS;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PREFIX: &str = "quell-page-";

#[derive(Debug)]
pub(crate) struct Profile(TempDir);

impl Profile {
    /// Where time is virtual, we are in a guest. Errors in words: nowhere is room for it, or the temporary folder's path is too long.
    pub fn new(is_virtual: bool) -> Result<Self, String> {
        let within: PathBuf = if is_virtual { "/run".into() } else { std::env::temp_dir() };
        if within.as_os_str().len() + 1 + PREFIX.len() + 6 > LIMITS.profile_path {
            return Err(format!(
                "the path of {} is too long for a browser's sockets: set TMPDIR to a shorter one, as /tmp",
                within.display()
            ));
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).permissions(PermissionsExt::from_mode(0o700));
        builder.tempdir_in(within).map(Self).map_err(|e| format!("making a folder for it: {e}"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        // A process that is killed ends what it has just begun, be it a new file.
        let gone = |_: &usize| match std::fs::remove_dir_all(self.path()) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        let _ = (0..LIMITS.profile_tries).find(gone);
    }
}
