//! A shared secret from its file, and the random bytes that go with it.

use crate::SysError;
use crate::input::Input;
use nix::errno::Errno;
use quell_wire::auth::{LONGEST, NONCE, Secret, SecretError};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretFileError {
    #[error("{0}")]
    System(#[from] SysError),
    /// Everybody on this host knows it.
    #[error(
        "every user of this host may read or write the secret in {}: run chmod 600 {}",
        .0.display(), .0.display()
    )]
    Open(PathBuf),
    #[error("{}: {why}", .file.display())]
    Content { file: PathBuf, why: SecretError },
}

/// Reads a secret: the whole file without white space at its end. Errors when others may read the file, or when it holds too little.
pub fn read(file: &Path) -> Result<Secret, SecretFileError> {
    let failed = |e| SysError::io(format!("read the secret in {}", file.display()), &e);
    let open = Input::open(file).map_err(failed)?;
    let mode = open.metadata().permissions().mode();
    if mode & 0o006 != 0 {
        return Err(SecretFileError::Open(file.to_owned()));
    }
    let mut content = Vec::new();
    // A byte more than the longest with its line end, to tell a secret from a file that never ends.
    open.take(LONGEST as u64 + 3).read_to_end(&mut content).map_err(failed)?;
    Secret::parse(&content).map_err(|why| SecretFileError::Content { file: file.to_owned(), why })
}

/// A nonce that nobody can foresee (getrandom(2)).
pub fn nonce() -> Result<[u8; NONCE], SysError> {
    let mut bytes = [0; NONCE];
    let mut got = 0;
    while got < bytes.len() {
        let rest = &mut bytes[got..];
        // SAFETY: the pointer and the length are those of a live slice.
        let result = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match Errno::result(result) {
            Ok(more) => got += more as usize,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(SysError::new("get random bytes", errno)),
        }
    }
    Ok(bytes)
}

/// A number that nobody can foresee.
pub fn number() -> Result<u64, SysError> {
    Ok(u64::from_be_bytes(nonce()?[..8].try_into().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};

    fn file(name: &str, content: &str, mode: u32) -> PathBuf {
        let path = std::env::temp_dir().join(format!("quell-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_secret_comes_from_a_file_that_only_its_owner_reads() {
        let good = file("good", "correct horse battery\n", 0o640);
        assert_eq!(read(&good), Ok(Secret::parse(b"correct horse battery").unwrap()));
        set_permissions(&good, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read(&good), Err(SecretFileError::Open(good.clone())));
        std::fs::remove_file(good).unwrap();
    }

    #[test]
    fn a_file_that_is_short_endless_or_not_there_is_refused_by_name() {
        let short = file("short", "12345\n", 0o600);
        let error = read(&short).unwrap_err().to_string();
        assert!(error.contains("5 bytes") && error.contains("-short"), "{error}");
        std::fs::remove_file(&short).unwrap();
        let error = read(&short).unwrap_err().to_string();
        assert!(error.contains("ENOENT") && error.contains("-short"), "{error}");
        let long = file("long", &"x".repeat(10_000), 0o600);
        assert!(matches!(
            read(&long),
            Err(SecretFileError::Content { why: SecretError::Long, .. })
        ));
        std::fs::remove_file(&long).unwrap();
    }

    #[test]
    fn nonces_differ() {
        assert_ne!(nonce().unwrap(), nonce().unwrap());
    }
}
