//! A file that a person named, opened for reading without waiting for somebody else.
//!
//! ```text
//!   a file, a device                        ──► as it is
//!   a pipe that somebody writes (`<(...)`)  ──► as it is: what comes is waited for
//!   a pipe that nobody writes               ──► an error: opened as usual, it would be waited for without end
//!   a folder                                ──► an error at once, not at the first read
//! ```
//!
//! What is read whole has an end that its reader gives: a device (`/dev/zero`), a file of holes or a pipe can have more than there is memory.

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Cursor, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

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

/// A file's bytes.
///
/// # Errors
/// As [`Input::open`]; [`ErrorKind::FileTooLarge`] where it has more than `most` bytes.
pub fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    whole(path, most, |_| Ok(()))
}

/// A file's text. What is none is known at its first piece that says so, and not when all of it has been read.
///
/// # Errors
/// As [`bytes`]; [`ErrorKind::InvalidData`] where it is not UTF-8, or has a zero byte.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    let no_text = || io::Error::new(ErrorKind::InvalidData, "this is not text in UTF-8");
    let look = |piece: &[u8]| if piece.contains(&0) { Err(no_text()) } else { Ok(()) };
    String::from_utf8(whole(path, most, look)?).map_err(|_| no_text())
}

/// What is read before it is looked at.
const PIECE: u64 = 64 * 1024;

fn whole(path: &Path, most: u64, look: impl Fn(&[u8]) -> io::Result<()>) -> io::Result<Vec<u8>> {
    let too_large = || {
        let why = format!("it has more than {most} bytes, which is the most that is read");
        Err(io::Error::new(ErrorKind::FileTooLarge, why))
    };
    let mut input = Input::open(path)?;
    // A file of holes costs nothing on the disk, and all in memory.
    if input.length() > most {
        return too_large();
    }
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        if (&mut input).take(PIECE).read_to_end(&mut bytes)? == 0 {
            return Ok(bytes);
        }
        if bytes.len() as u64 > most {
            return too_large();
        }
        look(&bytes[before..])?;
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
    #[test]
    fn a_file_is_read_whole_up_to_its_readers_end_and_no_further() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("file");
        let long = "a line of some length\n".repeat(10_000);
        std::fs::write(&place, &long).unwrap();
        assert_eq!(text(&place, long.len() as u64).unwrap(), long);
        assert_eq!(bytes(&place, long.len() as u64).unwrap(), long.as_bytes());
        let error = bytes(&place, long.len() as u64 - 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{error}");
        let holes = folder.path().join("holes");
        File::create(&holes).unwrap().set_len(20 << 30).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("link")).unwrap();
        for endless in [&holes, Path::new("/dev/zero"), &folder.path().join("link")] {
            let error = bytes(endless, 1 << 20).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{error}");
        }
        // Far from the end that it was given, which is more than there is memory.
        let error = text(Path::new("/dev/zero"), 1 << 50).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        std::fs::write(&place, b"gr\xfc\xdfe").unwrap();
        assert_eq!(text(&place, 100).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
