//! The words of rtnetlink's messages about interfaces.

/// `struct ifinfomsg`: family, padding, ARP type, index, flags, mask of flags to change.
pub(crate) fn header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&change.to_ne_bytes());
    header
}

/// Attribute numbers of `include/uapi/linux/if_link.h`.
pub(crate) mod attr {
    pub const ADDRESS: u16 = 1;
    pub const IFNAME: u16 = 3;
    pub const MTU: u16 = 4;
    pub const LINK: u16 = 5;
    pub const QDISC: u16 = 6;
    pub const MASTER: u16 = 10;
    pub const TXQLEN: u16 = 13;
    pub const LINKINFO: u16 = 18;
    pub const STATS64: u16 = 23;
    pub const NET_NS_FD: u16 = 28;
    pub const NUM_TX_QUEUES: u16 = 31;
    pub const CARRIER: u16 = 33;
    pub const CARRIER_CHANGES: u16 = 35;
    pub const GSO_MAX_SEGS: u16 = 40;
    pub const GSO_MAX_SIZE: u16 = 41;
    pub const INFO_KIND: u16 = 1;
    pub const INFO_DATA: u16 = 2;
}

/// Message kinds of `include/uapi/linux/rtnetlink.h`.
pub(crate) mod kind_of_message {
    pub const NEW: u16 = 16;
    pub const DELETE: u16 = 17;
    pub const GET: u16 = 18;
}
