//! A file that a person named, opened for reading without waiting for somebody else.
//!
//! ```text
//!   a file, a device                        ──► as it is
//!   a pipe that somebody writes (`<(...)`)  ──► as it is: what comes is waited for
//!   a pipe that nobody writes               ──► an error: opened as usual, it would be waited for without end
//!   a folder                                ──► an error at once, not at the first read
//! ```

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Cursor, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// A file that can be read.
#[derive(Debug)]
pub struct Input {
    /// What was read of a pipe to see whether somebody writes it.
    first: Cursor<Vec<u8>>,
    file: File,
    metadata: Metadata,
}

impl Input {
    /// Opens it.
    ///
    /// # Errors
    /// What the kernel answers; of a pipe that nobody writes [`ErrorKind::BrokenPipe`], of a folder [`ErrorKind::IsADirectory`].
    pub fn open(path: &Path) -> io::Result<Self> {
        // Without waiting for a pipe's writer (fifo(7)).
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        let mut first = Vec::new();
        if metadata.file_type().is_fifo() {
            let mut bytes = [0; 4096];
            match file.read(&mut bytes) {
                Ok(0) => {
                    let why = "it is a pipe, and nobody writes into it; start what writes first";
                    return Err(io::Error::new(ErrorKind::BrokenPipe, why));
                }
                Ok(count) => first.extend_from_slice(&bytes[..count]),
                // Somebody has it open, and takes his time.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        // From here on what comes is waited for.
        fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
        Ok(Self { first: Cursor::new(first), file, metadata })
    }

    /// How long it says it is: 0 of a pipe or a device.
    pub fn length(&self) -> u64 {
        self.metadata.len()
    }

    /// Its kind and rights.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.first.read(bytes)? {
            0 => self.file.read(bytes),
            count => Ok(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_pipe_is_read_whole_where_somebody_writes_it_and_refused_where_nobody_does() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("pipe");
        nix::unistd::mkfifo(&place, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = Input::open(&place).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{error}");
        // Both ends, so that opening it waits for nobody.
        let mut writer = OpenOptions::new().read(true).write(true).open(&place).unwrap();
        let mut input = Input::open(&place).unwrap();
        writer.write_all(b"what came later").unwrap();
        drop(writer);
        let mut text = String::new();
        input.read_to_string(&mut text).unwrap();
        assert_eq!(text, "what came later");
    }

    #[test]
    fn a_folder_is_refused_at_once_and_a_device_read() {
        let error = Input::open(Path::new("/")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
        let mut bytes = [1; 4];
        Input::open(Path::new("/dev/zero")).unwrap().read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [0; 4]);
    }
}
