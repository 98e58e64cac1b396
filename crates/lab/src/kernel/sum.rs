//! Size and checksum of a kernel's file: whether the one in the cache is still what was built.
//!
//! CRC-32 is made against bits that flip and files that break off, not against malice: who can write the kernel can write its checksum.
//! Eight megabytes take a few milliseconds, each time that a kernel is looked for.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Size and checksum of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum {
    /// Bytes.
    pub size: u64,
    /// CRC-32 (IEEE).
    pub crc32: u32,
}

impl Sum {
    /// Reads the whole file.
    pub fn of(path: &Path) -> io::Result<Sum> {
        let mut file = File::open(path)?;
        let (mut size, mut crc) = (0, crc32fast::Hasher::new());
        let mut buffer = vec![0; 1 << 18];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(Sum { size, crc32: crc.finalize() }),
                Ok(count) => {
                    crc.update(&buffer[..count]);
                    size += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
