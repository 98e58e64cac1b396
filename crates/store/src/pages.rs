//! The pages of a Parquet file before they are unpacked: each says in its header how large it will be, and the library makes room for
//! that. A header that promises more than its bytes can hold is refused first.
//!
//! ```text
//!   column chunk ──► header (Thrift, compact) │ bytes ──► header │ bytes ──► …
//!                      2: size unpacked         Snappy makes of 3 bytes 64 at most
//!                      3: size of the bytes
//! ```

use crate::error::StoreError;
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaData;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Snappy copies at most 64 bytes for 3 of its own (format description, "copies").
const MOST: u64 = 22;

/// A page may be this large whatever it is packed into: what is before the packed part, and small pages.
const FREE: u64 = 64 * 1024;

/// Longest header of a page.
const HEADER: usize = 64 * 1024;

/// Largest page packed, and largest directory of pages; ours have about a megabyte.
const LARGEST: u64 = 64 << 20;

/// Refuses a file that does not begin and end as Parquet does (`PAR1`), or whose directory would be read into memory whatever it holds.
pub(crate) fn check_end(path: &Path, file: &File, length: u64) -> Result<(), StoreError> {
    let (mut first, mut last) = ([0; 4], [0; 8]);
    let read = file
        .read_exact_at(&mut first, 0)
        .and_then(|()| file.read_exact_at(&mut last, length.saturating_sub(8)));
    if read.is_err() || &first != b"PAR1" || &last[4..] != b"PAR1" {
        return Err(StoreError::damaged(path, "it is no Parquet file"));
    }
    let directory = u32::from_le_bytes([last[0], last[1], last[2], last[3]]);
    if u64::from(directory) > LARGEST.min(length) {
        let what = format!("it says that its last {directory} bytes describe it");
        return Err(StoreError::damaged(path, what));
    }
    Ok(())
}

/// Refuses a file with a page that promises more than it can hold, or that goes beyond its column.
pub(crate) fn check(
    path: &Path,
    file: &File,
    metadata: &ParquetMetaData,
) -> Result<(), StoreError> {
    let mut bytes = vec![0; HEADER];
    for column in metadata.row_groups().iter().flat_map(|g| g.columns()) {
        if !matches!(column.compression(), Compression::UNCOMPRESSED | Compression::SNAPPY) {
            let name = column.column_descr().name();
            let what = format!("{name} is compressed in another way than Snappy");
            return Err(StoreError::damaged(path, what));
        }
        let (start, length) = column.byte_range();
        let broken = || StoreError::damaged(path, "a column goes beyond its pages");
        let (mut at, end) = (start, start.saturating_add(length));
        while at < end {
            let part = usize::try_from(end - at).map_or(HEADER, |left| left.min(HEADER));
            file.read_exact_at(&mut bytes[..part], at).map_err(|_| broken())?;
            let mut header = Compact { rest: &bytes[..part] };
            let (unpacked, packed) = header.page().ok_or_else(broken)?;
            if unpacked > FREE && unpacked > packed.saturating_mul(MOST) {
                let what = format!("a page of {packed} bytes says that it unpacks to {unpacked}");
                return Err(StoreError::damaged(path, what));
            }
            if packed > LARGEST {
                let what = format!("a page of {packed} bytes, where {LARGEST} are most");
                return Err(StoreError::damaged(path, what));
            }
            at += (part - header.rest.len()) as u64 + packed;
        }
        if at > end {
            return Err(broken());
        }
    }
    Ok(())
}

/// Thrift's compact protocol, as far as the header of a page needs it.
struct Compact<'a> {
    rest: &'a [u8],
}

/// Deeper than any header.
const DEPTH: usize = 16;

impl Compact<'_> {
    /// Reads a page's header: its sizes unpacked and packed. Fields are `parquet.thrift`'s `PageHeader`.
    fn page(&mut self) -> Option<(u64, u64)> {
        let (mut unpacked, mut packed) = (None, None);
        let mut last = 0_i64;
        loop {
            let (id, kind) = self.field(last)?;
            last = id;
            match (id, kind) {
                (_, 0) => return Some((unpacked?, packed?)),
                (2, 5) => unpacked = u64::try_from(self.signed()?).ok(),
                (3, 5) => packed = u64::try_from(self.signed()?).ok(),
                _ => self.skip(kind, DEPTH)?,
            }
        }
    }

    /// The next field's number and type; type 0 ends a structure.
    fn field(&mut self, last: i64) -> Option<(i64, u8)> {
        let byte = self.byte()?;
        let kind = byte & 15;
        match (kind, byte >> 4) {
            (0, _) => Some((last, 0)),
            (_, 0) => Some((self.signed()?, kind)),
            (_, step) => Some((last.checked_add(i64::from(step))?, kind)),
        }
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            // A truth is told by the type alone.
            1 | 2 => {}
            3 => self.bytes(1)?,
            4..=6 => {
                self.number()?;
            }
            7 => self.bytes(8)?,
            8 => {
                let length = self.number()?;
                self.bytes(usize::try_from(length).ok()?)?;
            }
            9 | 10 => {
                let byte = self.byte()?;
                let count = match byte >> 4 {
                    15 => self.number()?,
                    count => u64::from(count),
                };
                for _ in 0..count {
                    match byte & 15 {
                        // In a list a truth is a byte.
                        1 | 2 => self.bytes(1)?,
                        kind => self.skip(kind, depth)?,
                    }
                }
            }
            12 => loop {
                match self.field(0)? {
                    (_, 0) => break,
                    (_, kind) => self.skip(kind, depth)?,
                }
            },
            _ => return None,
        }
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn bytes(&mut self, count: usize) -> Option<()> {
        self.rest = self.rest.get(count..)?;
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(value);
            }
        }
        None
    }

    /// Signs are in the lowest bit.
    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}
