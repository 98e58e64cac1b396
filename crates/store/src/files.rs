//! Files that are either there in full or not at all: written beside their place, synced, and renamed.

use crate::error::StoreError;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

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

impl AtomicFile {
    /// Begins a file that will stand at `place`.
    pub fn create(place: &Path) -> Result<Self, StoreError> {
        let name = place.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
        let temporary = place.with_file_name(format!(".{name}.new"));
        let file = File::create(&temporary).map_err(StoreError::io("create", &temporary))?;
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

/// Writes a whole file into its place.
pub(crate) fn write(place: &Path, bytes: &[u8]) -> Result<Sum, StoreError> {
    let mut file = AtomicFile::create(place)?;
    file.write_all(bytes).map_err(StoreError::io("write", place))?;
    file.commit()
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
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(StoreError::io("open", path))?,
    };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(StoreError::io("read", path))?;
    if bytes.len() as u64 > most {
        return Err(StoreError::damaged(path, format!("it is larger than {most} bytes")));
    }
    Ok(Some(bytes))
}

/// Reads a file that must have this size and checksum.
pub(crate) fn read_checked(path: &Path, sum: Sum) -> Result<Vec<u8>, StoreError> {
    let Some(bytes) = read(path, u64::MAX - 1)? else {
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
