//! An address with the length of its network part: 10.0.0.1/24.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use thiserror::Error;

/// An address and how many of its leading bits name the network. Host bits may be set: the same
/// type says which address an interface has, and (after [`Prefix::network`]) where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Text or numbers that are no prefix.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "\"{0}\" is no address with prefix length: write 10.0.0.1/24 (0 to 32) or fd00::1/64 (0 to 128)"
)]
pub struct BadPrefix(String);

impl Prefix {
    /// Everything in IPv4.
    pub const ALL_V4: Self = Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), length: 0 };
    /// Everything in IPv6.
    pub const ALL_V6: Self = Self { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), length: 0 };

    /// Errors when `length` is more than the address has bits.
    pub fn new(address: IpAddr, length: u8) -> Result<Self, BadPrefix> {
        if length > bits(address) {
            return Err(BadPrefix(format!("{address}/{length}")));
        }
        Ok(Self { address, length })
    }

    /// The address alone, with its full length.
    pub fn host(address: IpAddr) -> Self {
        Self { address, length: bits(address) }
    }

    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Whether an address lies in the network.
    pub fn holds(self, address: IpAddr) -> bool {
        let same_family = self.address.is_ipv4() == address.is_ipv4();
        same_family && Self { address, ..self }.network() == self.network()
    }

    /// The number of bits that name the network.
    pub fn length(self) -> u8 {
        self.length
    }

    /// The same with all host bits zero.
    #[must_use]
    pub fn network(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0);
                IpAddr::V4((address.to_bits() & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
                IpAddr::V6((address.to_bits() & mask).into())
            }
        };
        Self { address, ..self }
    }
}

impl FromStr for Prefix {
    type Err = BadPrefix;

    fn from_str(text: &str) -> Result<Self, BadPrefix> {
        let bad = || BadPrefix(text.to_owned());
        let (address, length) = text.split_once('/').ok_or_else(bad)?;
        let address = address.parse().map_err(|_| bad())?;
        Self::new(address, length.parse().map_err(|_| bad())?).map_err(|_| bad())
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// `AF_INET` or `AF_INET6`, as families' headers carry it.
pub(crate) fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

/// The address's bytes in network order.
pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The address that these bytes are, if they are 4 or 16.
pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_and_printed_as_people_write_them() {
        for text in ["10.0.0.1/24", "0.0.0.0/0", "fd00::1/64", "::/0", "::1/128"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for bad in ["10.0.0.1", "10.0.0.1/33", "fd00::1/129", "x/8", "10.0.0.1/-1", "/", ""] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_network_holds_its_own_addresses_and_none_of_the_other_family() {
        let holds = |network: &str, address: &str| {
            network.parse::<Prefix>().unwrap().holds(address.parse().unwrap())
        };
        assert!(holds("10.0.0.1/24", "10.0.0.255") && !holds("10.0.0.1/24", "10.0.1.0"));
        assert!(holds("0.0.0.0/0", "192.0.2.7") && !holds("0.0.0.0/0", "fd00::1"));
        assert!(holds("fd00::/64", "fd00::ffff") && !holds("::1/128", "::2"));
    }

    #[test]
    fn a_network_has_no_host_bits() {
        let network = |text: &str| text.parse::<Prefix>().unwrap().network().to_string();
        assert_eq!(network("10.1.2.3/24"), "10.1.2.0/24");
        assert_eq!(network("10.1.2.3/32"), "10.1.2.3/32");
        assert_eq!(network("10.1.2.3/0"), "0.0.0.0/0");
        assert_eq!(network("fd00:1:2:3:4::5/64"), "fd00:1:2:3::/64");
        assert_eq!(network("fd00::1/0"), "::/0");
    }
}
