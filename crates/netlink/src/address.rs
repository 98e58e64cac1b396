//! Addresses of interfaces (`RTM_NEWADDR`).

use crate::core::{DecodeError, Message, NetlinkError, Reply, flags};
use crate::prefix::{self, Prefix};
use crate::stack::Stack;
use std::net::IpAddr;

const HEADER: usize = 8;

/// An address to be given to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewAddress {
    /// The address, and the network that is reached directly.
    pub prefix: Prefix,
    /// The other end's address on a point-to-point interface; then `prefix`'s length belongs to it.
    pub peer: Option<IpAddr>,
    pub no_prefix_route: bool,
}

impl NewAddress {
    /// An address with the route to its network.
    pub fn new(prefix: Prefix) -> Self {
        Self { prefix, peer: None, no_prefix_route: false }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    pub index: u32,
    /// The address and its network's length.
    pub prefix: Prefix,
    /// The other end's address, on point-to-point interfaces.
    pub peer: Option<IpAddr>,
    /// Still being checked for duplicates, so not usable yet.
    pub tentative: bool,
    /// When it was given, in hundredths of a second after the kernel's start.
    pub created_cs: Option<u32>,
}

impl Stack {
    /// Gives an interface an address. IPv6 addresses are usable at once: no duplicate address
    /// detection is done.
    ///
    /// Errors with `EEXIST` when the interface has it already.
    pub fn add_address(&mut self, index: u32, address: &NewAddress) -> Result<(), NetlinkError> {
        self.carry_out(&new_address(index, address))
    }

    /// The addresses of all interfaces of the namespace.
    pub fn addresses(&mut self) -> Result<Vec<Address>, NetlinkError> {
        let message =
            Message::with_header("list the addresses", libc::RTM_GETADDR, 0, &[0; HEADER]);
        let mut addresses = Vec::new();
        self.socket().dump(&message, |reply| {
            addresses.extend(Address::parse(reply)?);
            Ok(())
        })?;
        Ok(addresses)
    }
}

impl Address {
    /// `None` for what is neither IPv4 nor IPv6.
    pub(crate) fn parse(reply: &Reply) -> Result<Option<Self>, DecodeError> {
        let (header, attrs) = reply.split::<HEADER>()?;
        let of =
            |kind| attrs.find(kind).map(|attr| attr.and_then(|attr| prefix::address(attr.payload)));
        let (address, local) = (of(libc::IFA_ADDRESS)?, of(libc::IFA_LOCAL)?);
        let flags = match attrs.find(libc::IFA_FLAGS)? {
            Some(attr) => attr.u32()?,
            None => u32::from(header[2]),
        };
        // `struct ifa_cacheinfo`: two lifetimes, when it was given, when it was changed.
        let cache = attrs.find(libc::IFA_CACHEINFO)?;
        let created = cache.and_then(|attr| attr.payload.get(8..12)?.try_into().ok());
        let Some(own) = local.or(address) else { return Ok(None) };
        let Ok(prefix) = Prefix::new(own, header[1]) else { return Ok(None) };
        Ok(Some(Self {
            index: u32::from_ne_bytes([header[4], header[5], header[6], header[7]]),
            prefix,
            peer: address.filter(|&address| address != own),
            tentative: flags & libc::IFA_F_TENTATIVE != 0,
            created_cs: created.map(u32::from_ne_bytes),
        }))
    }
}

pub(crate) fn new_address(index: u32, address: &NewAddress) -> Message {
    let prefix = address.prefix;
    let mut set = if prefix.address().is_ipv6() { libc::IFA_F_NODAD } else { 0 };
    if address.no_prefix_route {
        set |= libc::IFA_F_NOPREFIXROUTE;
    }
    // The header has room for eight flags; with more of them it is the attribute that counts.
    let in_header = u8::try_from(set).unwrap_or(0);
    let tried = format!("give interface {index} the address {prefix}");
    let mut message = Message::with_header(
        tried,
        libc::RTM_NEWADDR,
        flags::CREATE | flags::EXCL,
        &header(prefix, in_header, index),
    );
    let own = prefix::octets(prefix.address());
    let other = address.peer.map_or_else(|| own.clone(), prefix::octets);
    let to = message.attrs();
    to.bytes(libc::IFA_LOCAL, &own);
    if set > u32::from(u8::MAX) {
        to.u32(libc::IFA_FLAGS, set);
    }
    to.bytes(libc::IFA_ADDRESS, &other);
    message
}

/// `struct ifaddrmsg`: family, prefix length, flags, scope (global), index.
fn header(prefix: Prefix, flags: u8, index: u32) -> [u8; HEADER] {
    let [a, b, c, d] = index.to_ne_bytes();
    [prefix::family(prefix.address()), prefix.length(), flags, 0, a, b, c, d]
}
