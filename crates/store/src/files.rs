//! Files that are either there in full or not at all: written beside their place, synced, and renamed. And files of a folder that may
//! come from anybody: only regular ones are read, and no link is followed.

use crate::error::StoreError;
use nix::fcntl::{AT_FDCWD, AtFlags, FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::unistd::linkat;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file on its way. Dropped before [`AtomicFile::commit`], it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    place: PathBuf,
    temporary: PathBuf,
    out: Option<BufWriter<File>>,
    bytes: u64,
    crc: crc32fast::Hasher,
}

/// Size and checksum of a file, as the manifest keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Size in bytes.
    pub bytes: u64,
    /// CRC-32 (IEEE) of the content.
    pub crc32: u32,
}

/// Far above any table: 100 million packets come to some 2 GB.
const LARGEST: u64 = 4 << 30;

impl AtomicFile {
    /// Begins a file that will stand at `place`.
    pub fn create(place: &Path) -> Result<Self, StoreError> {
        let name = place.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
        let temporary = place.with_file_name(format!(".{name}.new"));
        // What a killed program left, or a link that somebody put there, goes; nothing is written through it.
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

    /// Where it will stand.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Puts the file in its place, on the disk and not only in memory.
    pub fn commit(mut self) -> Result<Sum, StoreError> {
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
        Ok(Sum { bytes: self.bytes, crc32: self.crc.clone().finalize() })
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

const LINK: &str = "it is a symbolic link, which is not followed";
const NO_FILE: &str = "it is no regular file";

/// A new file in the same folder, under a name that nobody has: neither another writer nor a link that somebody put there.
fn beside(place: &Path) -> io::Result<(PathBuf, File)> {
    unused(place, |path| fs::OpenOptions::new().write(true).create_new(true).open(path))
}

/// A new file in a folder, without a name: whatever ends the program meanwhile, nothing of it stays behind. Some file systems have none
/// (open(2), O_TMPFILE).
fn nameless(folder: &Path) -> Option<File> {
    fs::OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(folder).ok()
}

/// Gives a file without a name one beside its place.
fn named(file: &File, place: &Path) -> io::Result<PathBuf> {
    // As open(2) has it for who may not link by descriptor.
    let own = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let link = |path: &Path| {
        let follow = AtFlags::AT_SYMLINK_FOLLOW;
        linkat(AT_FDCWD, &own, AT_FDCWD, path, follow).map_err(io::Error::from)
    };
    unused(place, link).map(|(path, ())| path)
}

/// Makes something under a name beside a place that nothing has yet.
fn unused<T>(place: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(PathBuf, T)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = place.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = place.with_file_name(format!(".{name}.{}-{number}.new", std::process::id()));
        match make(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|made| (path, made)),
        }
    }
}

/// Writes a whole file into its place.
pub(crate) fn write(place: &Path, bytes: &[u8]) -> Result<Sum, StoreError> {
    let mut file = AtomicFile::create(place)?;
    file.write_all(bytes).map_err(StoreError::io("write", place))?;
    file.commit()
}

/// Writes a page, a figure or the like to where a person wants it: whole or not at all, so that a full disk leaves what was there before.
/// A link in that place is replaced and not followed. Pipes and devices (`/dev/stdout`) are written to as they are.
pub fn write_output(place: &Path, bytes: &[u8]) -> io::Result<()> {
    let before = fs::symlink_metadata(place).ok();
    let goes_on = |kind: fs::FileType| kind.is_fifo() || kind.is_char_device();
    if fs::metadata(place).is_ok_and(|m| goes_on(m.file_type())) {
        return opened(fs::OpenOptions::new().write(true), place)?.write_all(bytes);
    }
    let folder = folder_of(place);
    let fill = |file: &mut File| {
        if let Some(before) = before.as_ref().filter(|before| before.is_file()) {
            // Who may read it stays as it was.
            file.set_permissions(before.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()
    };
    let whole = nameless(folder).map(|mut file| fill(&mut file).and_then(|()| named(&file, place)));
    let temporary = match whole {
        Some(Ok(temporary)) => temporary,
        _ => {
            let (temporary, mut file) = beside(place)?;
            fill(&mut file).inspect_err(|_| {
                // The error is what counts.
                let _ = fs::remove_file(&temporary);
            })?;
            temporary
        }
    };
    put(&temporary, place)
}

/// A file for a person that grows: it has its name only when it is [kept](Growing::keep), so that what broke off leaves what was there before.
#[derive(Debug)]
pub struct Growing {
    place: PathBuf,
    file: File,
    /// Where the file system has no files without a name.
    temporary: Option<PathBuf>,
}

impl Growing {
    /// One that is to take this place.
    ///
    /// # Errors
    /// What the kernel answers, and where something else than a regular file is in that place.
    pub fn new(place: &Path) -> io::Result<Self> {
        match fs::symlink_metadata(place) {
            Ok(before) if before.is_symlink() => return Err(io::Error::other(LINK)),
            Ok(before) if !before.is_file() => return Err(io::Error::other(NO_FILE)),
            _ => {}
        }
        let (file, temporary) = match nameless(folder_of(place)) {
            Some(file) => (file, None),
            None => beside(place).map(|(temporary, file)| (file, Some(temporary)))?,
        };
        Ok(Self { place: place.to_owned(), file, temporary })
    }

    /// Another handle of it, to write to.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives it its name, when all of it is on the disk.
    ///
    /// # Errors
    /// What the kernel answers; then the place is as it was.
    pub fn keep(mut self) -> io::Result<()> {
        if let Ok(before) = fs::symlink_metadata(&self.place)
            && before.is_file()
        {
            // Who may read it stays as it was.
            self.file.set_permissions(before.permissions())?;
        }
        self.file.sync_all()?;
        let temporary = match self.temporary.take() {
            Some(temporary) => temporary,
            None => named(&self.file, &self.place)?,
        };
        put(&temporary, &self.place)
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // An error here has nobody to hear it.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// The folder of a place.
fn folder_of(place: &Path) -> &Path {
    place.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Gives a whole file its name.
fn put(temporary: &Path, place: &Path) -> io::Result<()> {
    fs::rename(temporary, place).inspect_err(|_| {
        let _ = fs::remove_file(temporary);
    })?;
    // The file is there; a folder that can't be synced is no reason to say it is not.
    let _ = File::open(folder_of(place)).and_then(|f| f.sync_all());
    Ok(())
}

/// Opens what a person wants lines added to, at its end; it is made where it is not there.
///
/// # Errors
/// What the kernel answers; of a pipe that nobody reads that this is so.
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

/// Opens a regular file for reading. What else may stand in its place, as a pipe or a device, would be waited for or never end; and a link
/// may lead to anywhere.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => io::Error::new(io::ErrorKind::InvalidData, LINK),
            _ => error,
        })?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, NO_FILE))
}

/// Refuses a link: it may lead to anywhere.
pub(crate) fn no_link(path: &Path) -> Result<(), StoreError> {
    match fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        true => Err(StoreError::io("open", path)(io::Error::new(io::ErrorKind::InvalidData, LINK))),
        false => Ok(()),
    }
}

/// Makes the names in a folder durable. File systems that can't sync a folder are no worse than before.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    let handle = File::open(folder).map_err(StoreError::io("open", folder))?;
    match handle.sync_all() {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput) => Ok(()),
        other => other.map_err(StoreError::io("sync", folder)),
    }
}

/// Reads a file of at most `most` bytes; none when there is no such file.
pub(crate) fn read(path: &Path, most: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(StoreError::io("open", path))?,
    };
    let large = || Err(StoreError::damaged(path, format!("it is larger than {most} bytes")));
    // A file of holes costs nothing on the disk, and all in memory.
    if file.metadata().map_err(StoreError::io("open", path))?.len() > most {
        return large();
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(StoreError::io("read", path))?;
    if bytes.len() as u64 > most {
        return large();
    }
    Ok(Some(bytes))
}

/// Opens a file that must have this size and checksum, and reads it through once without keeping it: a file of holes, which costs nothing
/// on the disk, costs no memory either. It stands at its beginning.
pub(crate) fn open_checked(path: &Path, sum: Sum) -> Result<File, StoreError> {
    let mut file = match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::damaged(path, "it is missing, and the manifest names it"));
        }
        file => file.map_err(StoreError::io("open", path))?,
    };
    let found = file.metadata().map_err(StoreError::io("open", path))?.len();
    let wrong = |found: u64| {
        let what = format!("it has {found} bytes where the manifest says {}", sum.bytes);
        Err(StoreError::damaged(path, what))
    };
    if found != sum.bytes {
        return wrong(found);
    }
    if found > LARGEST {
        return Err(StoreError::damaged(path, format!("it is larger than {LARGEST} bytes")));
    }
    let mut crc = crc32fast::Hasher::new();
    let mut part = vec![0; 1 << 16];
    let mut all = 0;
    loop {
        match file.read(&mut part) {
            Ok(0) => break,
            Ok(count) => {
                crc.update(&part[..count]);
                all += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(StoreError::io("read", path)(error)),
        }
    }
    if all != sum.bytes {
        return wrong(all);
    }
    if crc.finalize() != sum.crc32 {
        return Err(StoreError::damaged(path, "its content does not fit the manifest's checksum"));
    }
    file.rewind().map_err(StoreError::io("read", path))?;
    Ok(file)
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
