//! A stream from which records are taken, which knows how far it has come, and numbers whose bytes come in one of two orders.

use super::CaptureError;
use crate::time::Time;
use std::io::{BufReader, Read};

/// A stream, and the record that was read last.
#[derive(Debug)]
pub(super) struct Input<R> {
    reader: BufReader<R>,
    offset: u64,
    held: Vec<u8>,
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R) -> Self {
        Input { reader: BufReader::with_capacity(1 << 16, reader), offset: 0, held: Vec::new() }
    }

    /// How many bytes were taken so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The record that was read last.
    pub(super) fn held(&self) -> &[u8] {
        &self.held
    }

    /// Takes a record of `wanted` bytes; `None` if the stream ends before its first one.
    pub(super) fn record(
        &mut self,
        wanted: usize,
        what: &'static str,
    ) -> Result<Option<&[u8]>, CaptureError> {
        self.held.clear();
        let begun = self.offset;
        // Grows with what comes, not with what was promised.
        let read = (&mut self.reader).take(wanted as u64).read_to_end(&mut self.held);
        self.offset += self.held.len() as u64;
        read.map_err(|source| CaptureError::Io { offset: self.offset, source })?;
        match self.held.len() {
            0 if wanted > 0 => Ok(None),
            got if got < wanted => Err(CaptureError::Truncated {
                offset: begun,
                what,
                wanted: wanted as u64,
                got: got as u64,
            }),
            _ => Ok(Some(&self.held)),
        }
    }

    /// Takes a record that must be there, since what stands before it was.
    pub(super) fn rest(
        &mut self,
        wanted: usize,
        what: &'static str,
    ) -> Result<&[u8], CaptureError> {
        let offset = self.offset;
        match self.record(wanted, what)? {
            Some(held) => Ok(held),
            None => Err(CaptureError::Truncated { offset, what, wanted: wanted as u64, got: 0 }),
        }
    }

    /// Passes over bytes without keeping them.
    pub(super) fn skip(&mut self, wanted: u64, what: &'static str) -> Result<(), CaptureError> {
        let offset = self.offset;
        let mut rest = (&mut self.reader).take(wanted);
        let passed = std::io::copy(&mut rest, &mut std::io::sink());
        let passed = passed.map_err(|source| CaptureError::Io { offset, source })?;
        self.offset += passed;
        if passed < wanted {
            return Err(CaptureError::Truncated { offset, what, wanted, got: passed });
        }
        Ok(())
    }
}

/// Longest packet that is believed, in bytes. tcpdump cuts at 256 KiB; the largest that Linux hands to a capture (BIG TCP)
/// is 512 KiB.
pub const LONGEST_PACKET: u32 = 1 << 20;

/// What a format's reader knows of a frame, while its bytes lie in the input's buffer.
pub(super) struct CaptureRecord {
    pub(super) time: Option<Time>,
    pub(super) link: u32,
    pub(super) length: u32,
    /// Where in the buffer the packet lies.
    pub(super) place: std::ops::Range<usize>,
}

/// The order of the bytes in a file's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    pub(super) fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        }
    }

    pub(super) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        }
    }

    /// The 16-bit number at `at`, or nothing if the bytes end before it.
    pub(super) fn u16_at(self, bytes: &[u8], at: usize) -> Option<u16> {
        bytes.get(at..)?.first_chunk().map(|b| self.u16(*b))
    }

    /// The 32-bit number at `at`, or nothing if the bytes end before it.
    pub(super) fn u32_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        bytes.get(at..)?.first_chunk().map(|b| self.u32(*b))
    }
}
