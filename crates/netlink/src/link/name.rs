//! What an interface is called, and its hardware address.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// `IFNAMSIZ` without the terminating NUL.
const LONGEST_NAME: usize = 15;

/// An interface name that the kernel accepts (`dev_valid_name`): 1 to 15 bytes, no slash, colon or
/// white space, not "." or "..".
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkName(String);

/// A name that can't be an interface's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "\"{0}\" can't name an interface: 1 to 15 bytes without slash, colon and white space are allowed"
)]
pub struct BadLinkName(String);

impl LinkName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LinkName {
    type Err = BadLinkName;

    fn from_str(text: &str) -> Result<Self, BadLinkName> {
        let bad_char = |c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace();
        let good = (1..=LONGEST_NAME).contains(&text.len())
            && !text.contains(bad_char)
            && text != "."
            && text != "..";
        if good { Ok(Self(text.to_owned())) } else { Err(BadLinkName(text.to_owned())) }
    }
}

impl TryFrom<&str> for LinkName {
    type Error = BadLinkName;

    fn try_from(text: &str) -> Result<Self, BadLinkName> {
        text.parse()
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The locally administered unicast address (02:…) with this number in its lower 40 bits. The
    /// same number gives the same address, which a run that should repeat needs: the kernel's own
    /// choice is random.
    pub fn local(number: u64) -> Self {
        let [_, _, _, a, b, c, d, e] = number.to_be_bytes();
        Self([0x02, a, b, c, d, e])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_kernel_would_refuse_do_not_come_to_be() {
        for good in ["a", "eth0", "a0.5", "uplink-to-modem"] {
            assert_eq!(good.parse::<LinkName>().unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "a/b", "a b", "eth0:1", "sixteen-bytes-xx", "a\0"] {
            assert!(bad.parse::<LinkName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn numbered_addresses_are_local_unicast() {
        assert_eq!(Mac::local(0x01_0203).to_string(), "02:00:00:01:02:03");
        assert_eq!(Mac::local(u64::MAX).to_string(), "02:ff:ff:ff:ff:ff");
    }
}
