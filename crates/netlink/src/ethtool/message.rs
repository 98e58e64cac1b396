//! What all messages of ethtool's netlink family have in common (`include/uapi/linux/ethtool_netlink.h`): commands, the header that names a
//! device, sets of bits with names.

use crate::core::{Attr, AttrReader, DecodeError, Message};
use std::collections::BTreeSet;

/// `ETHTOOL_MSG_*`.
pub(crate) mod command {
    pub const LINKMODES_GET: u8 = 4;
    pub const FEATURES_GET: u8 = 11;
    pub const FEATURES_SET: u8 = 12;
    pub const RINGS_GET: u8 = 15;
    pub const CHANNELS_GET: u8 = 17;
    pub const COALESCE_GET: u8 = 19;
    pub const PAUSE_GET: u8 = 21;
    pub const FEC_GET: u8 = 29;
}

/// `ETHTOOL_A_BITSET_*`, and those of a bit.
pub(crate) mod bitset {
    pub const NO_MASK: u16 = 1;
    pub const BITS: u16 = 3;
    pub const BIT: u16 = 1;
    pub const NAME: u16 = 2;
    pub const VALUE: u16 = 3;
}

/// `ETHTOOL_A_HEADER_*`, in the first attribute of each message.
pub(crate) mod header {
    pub const ITSELF: u16 = 1;
    pub const NAME: u16 = 2;
    pub const FLAGS: u16 = 3;
}

/// Which device a question is about (none: all), and `ETHTOOL_FLAG_*`.
pub(crate) fn ask_about(message: &mut Message, device: Option<&str>, flags: u32) {
    message.attrs().nested(header::ITSELF, |to| {
        device.map(|name| to.str(header::NAME, name));
        if flags != 0 {
            to.u32(header::FLAGS, flags);
        }
    });
}

/// The names of a bitset's set bits. With a mask, a bit is set when it has a value; without one,
/// when it is listed.
pub(crate) fn names_in(set: &Attr<'_>) -> Result<BTreeSet<String>, DecodeError> {
    let all_listed = set.nested().find(bitset::NO_MASK)?.is_some();
    let mut names = BTreeSet::new();
    let bits = set.nested().find(bitset::BITS)?;
    for bit in bits.map_or(AttrReader::new(&[]), |bits| bits.nested()) {
        let bit = bit?.nested();
        let is_set = all_listed || bit.find(bitset::VALUE)?.is_some();
        if let (true, Some(name)) = (is_set, bit.find(bitset::NAME)?) {
            names.insert(name.str()?.to_owned());
        }
    }
    Ok(names)
}

/// The names of all bits that a bitset speaks of: those of its mask.
pub(crate) fn all_names_in(set: &Attr<'_>) -> Result<BTreeSet<String>, DecodeError> {
    let mut names = BTreeSet::new();
    let Some(bits) = set.nested().find(bitset::BITS)? else { return Ok(names) };
    for bit in bits.nested() {
        if let Some(name) = bit?.nested().find(bitset::NAME)? {
            names.insert(name.str()?.to_owned());
        }
    }
    Ok(names)
}
