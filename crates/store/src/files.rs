//! Files that are either there in full or not at all: written beside their place, synced, and renamed.

use crate::error::StoreError;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file on its way. Dropped before [`AtomicFile::commit`], it leaves nothing behind.
#[derive(Debug)]
pub struct AtomicFile {
    place: PathBuf,
    temporary: PathBuf,
    out: Option<BufWriter<File>>,
    bytes: u64,
    crc: crc32fast::Hasher,
}

/// Size and CRC-32 (IEEE) of a file, as the manifest keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    pub bytes: u64,
    pub crc32: u32,
}

impl AtomicFile {
    pub fn create(place: &Path) -> Result<Self, StoreError> {
        let name = place.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
        let temporary = place.with_file_name(format!(".{name}.new"));
        // What a killed program left goes.
        let _ = fs::remove_file(&temporary);
        let file = File::create_new(&temporary).map_err(StoreError::io("create", &temporary))?;
        Ok(Self {
            place: place.to_path_buf(),
            temporary,
            out: Some(BufWriter::with_capacity(1 << 16, file)),
            bytes: 0,
            crc: crc32fast::Hasher::new(),
        })
    }

    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Puts the file in its place, on the disk and not only in memory.
    pub fn commit(mut self) -> Result<Checksum, StoreError> {
        if let Some(out) = self.out.take() {
            let file = out
                .into_inner()
                .map_err(io::IntoInnerError::into_error)
                .map_err(StoreError::io("write", &self.place))?;
            file.sync_all().map_err(StoreError::io("write", &self.place))?;
        }
        fs::rename(&self.temporary, &self.place).map_err(StoreError::io("rename", &self.place))?;
        if let Some(folder) = self.place.parent() {
            sync_folder(folder)?;
        }
        Ok(Checksum { bytes: self.bytes, crc32: self.crc.clone().finalize() })
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(out) = self.out.as_mut() else {
            return Err(io::Error::other("the file is closed"));
        };
        let written = out.write(bytes)?;
        self.crc.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        // After a commit the name is gone and this does nothing; an error here has nobody to hear it.
        let _ = fs::remove_file(&self.temporary);
        if let Some(out) = self.out.take() {
            // Without its buffer being flushed: the bytes belong to a file that is no more.
            let _ = out.into_parts();
        }
    }
}

pub fn write(place: &Path, bytes: &[u8]) -> Result<Checksum, StoreError> {
    let mut file = AtomicFile::create(place)?;
    file.write_all(bytes).map_err(StoreError::io("write", place))?;
    file.commit()
}

/// Writes a page, a figure or the like to where a person wants it: whole or not at all, so that a full disk leaves what was there before.
/// A link in that place is replaced and not followed. Pipes and devices (`/dev/stdout`) are written to as they are.
pub fn write_output(place: &Path, bytes: &[u8]) -> io::Result<()> {
    let goes_on = |kind: fs::FileType| kind.is_fifo() || kind.is_char_device();
    if fs::metadata(place).is_ok_and(|m| goes_on(m.file_type())) {
        return opened(fs::OpenOptions::new().write(true), place)?.write_all(bytes);
    }
    let growing = Growing::beside(place)?;
    (&growing.file).write_all(bytes)?;
    growing.keep()
}

/// A file for a person that grows: it has its name only when it is [kept](Growing::keep), so that what broke off leaves what was there before.
struct Growing {
    place: PathBuf,
    temporary: PathBuf,
    file: File,
}

impl Growing {
    /// In the same folder, under a name that nobody has.
    fn beside(place: &Path) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = place.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let new = format!(".{name}.{}-{number}.new", std::process::id());
            let temporary = place.with_file_name(new);
            match File::create_new(&temporary) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                file => return Ok(Self { file: file?, place: place.to_owned(), temporary }),
            }
        }
    }

    /// Gives it its name, when all of it is on the disk; on an error the place is as it was. Who may read what was there may read it.
    fn keep(self) -> io::Result<()> {
        let before = fs::symlink_metadata(&self.place).ok();
        if let Some(before) = before.filter(fs::Metadata::is_file) {
            self.file.set_permissions(before.permissions())?;
        }
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.place)?;
        // The file is there; a folder that can't be synced is no reason to say it is not.
        let folder = self.place.parent().filter(|p| !p.as_os_str().is_empty());
        let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|f| f.sync_all());
        Ok(())
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        // Once it is kept the name is gone.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Opens what a person wants lines added to, at its end; it is made where it is not there. A pipe that nobody reads is an error.
pub fn append_output(place: &Path) -> io::Result<File> {
    opened(fs::OpenOptions::new().append(true).create(true), place)
}

/// A pipe that nobody reads is an error, and nothing to wait for.
fn opened(options: &mut fs::OpenOptions, place: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = options.custom_flags(flags).open(place).map_err(|e| match e.raw_os_error() {
        Some(libc::ENXIO) => {
            io::Error::other("it is a pipe, and nobody reads it; start what reads first")
        }
        _ => e,
    })?;
    let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?) - OFlag::O_NONBLOCK;
    fcntl(&file, FcntlArg::F_SETFL(flags))?;
    Ok(file)
}

const NO_FILE: &str = "it is no regular file";

/// Opens a regular file for reading; a pipe in its place would be waited for.
pub fn open(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, NO_FILE)),
    }
}

/// Makes the names in a folder durable. File systems that can't sync a folder are no worse than before.
/// Puts the names in a folder on the disk, where the file system can.
pub fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    let handle = File::open(folder).map_err(StoreError::io("open", folder))?;
    match handle.sync_all() {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput) => Ok(()),
        other => other.map_err(StoreError::io("sync", folder)),
    }
}

/// Reads a whole file; none when there is no such file.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let mut file = match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(StoreError::io("open", path))?,
    };
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut file, &mut bytes).map_err(StoreError::io("read", path))?;
    Ok(Some(bytes))
}

pub(crate) fn read_checked(path: &Path, sum: Checksum) -> Result<Vec<u8>, StoreError> {
    let Some(bytes) = read(path)? else {
        return Err(StoreError::damaged(path, "it is missing, and the manifest names it"));
    };
    if bytes.len() as u64 != sum.bytes {
        let what = format!("it has {} bytes where the manifest says {}", bytes.len(), sum.bytes);
        return Err(StoreError::damaged(path, what));
    }
    if crc32fast::hash(&bytes) != sum.crc32 {
        return Err(StoreError::damaged(path, "its content does not fit the manifest's checksum"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_page_takes_the_place_of_a_link_and_leaves_what_the_link_led_to() {
        let folder = tempfile::tempdir().unwrap();
        let (place, other) = (folder.path().join("report.html"), folder.path().join("precious"));
        fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, &place).unwrap();
        write_output(&place, b"a page").unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"precious");
        assert_eq!(fs::read(&place).unwrap(), b"a page");
        assert!(fs::symlink_metadata(&place).unwrap().is_file());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "and nothing beside it");
    }

    #[test]
    fn a_page_that_only_its_owner_may_read_stays_so() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("view.html");
        fs::write(&place, "old").unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o600)).unwrap();
        write_output(&place, b"new").unwrap();
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_device_stays_what_it_is_and_a_pipe_that_nobody_reads_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("pipe");
        nix::unistd::mkfifo(&place, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = write_output(&place, b"a page").unwrap_err();
        assert!(error.to_string().contains("nobody reads it"), "{error}");
        write_output(Path::new("/dev/null"), b"a page").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
}
