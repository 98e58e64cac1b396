//! Fields at fixed places in bytes from somewhere.

/// The `N` bytes at `at`, if they are all there.
pub(crate) fn at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

pub(crate) fn be16(bytes: &[u8], offset: usize) -> Option<u16> {
    at(bytes, offset).map(u16::from_be_bytes)
}

pub(crate) fn be32(bytes: &[u8], offset: usize) -> Option<u32> {
    at(bytes, offset).map(u32::from_be_bytes)
}

pub(crate) fn be64(bytes: &[u8], offset: usize) -> Option<u64> {
    at(bytes, offset).map(u64::from_be_bytes)
}
