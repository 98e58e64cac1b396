//! Neighbours: which hardware address belongs to an IP address (`RTM_NEWNEIGH`).
//!
//! With a permanent entry at both ends the first packet between two hosts is not held back by ARP
//! or neighbour discovery, and no later one by a re-check.

use crate::core::{Message, NetlinkError, flags};
use crate::link::Mac;
use crate::prefix;
use crate::stack::Stack;
use std::net::IpAddr;

impl Stack {
    /// Enters a neighbour that needs no resolving and does not age, in place of what was known of
    /// it.
    pub fn set_neighbour(
        &mut self,
        index: u32,
        address: IpAddr,
        mac: Mac,
    ) -> Result<(), NetlinkError> {
        self.carry_out(&permanent(index, address, mac))
    }
}

pub(crate) fn permanent(index: u32, address: IpAddr, mac: Mac) -> Message {
    // struct ndmsg: family, padding, index, state, flags, type.
    let mut header = [0; 12];
    header[0] = prefix::family(address);
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..10].copy_from_slice(&libc::NUD_PERMANENT.to_ne_bytes());
    let tried = format!("enter neighbour {address} at {mac} on interface {index}");
    let mut message =
        Message::with_header(tried, libc::RTM_NEWNEIGH, flags::CREATE | flags::REPLACE, &header);
    message.attrs().bytes(libc::NDA_DST, &prefix::octets(address)).bytes(libc::NDA_LLADDR, &mac.0);
    message
}
