//! What every format has: records, and numbers whose bytes come in one of two orders.

use crate::time::Time;

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
