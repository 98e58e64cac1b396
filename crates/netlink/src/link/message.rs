//! The words of rtnetlink's messages about interfaces.

/// `struct ifinfomsg`: family, padding, ARP type, index, flags, mask of flags to change.
pub(crate) fn header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&change.to_ne_bytes());
    header
}
