//! The names of queues and classes: `major:minor`, both hexadecimal as `tc` prints them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A qdisc's handle (`1:`) or a class id (`1:10`); digits are hexadecimal, as `tc` has them.
///
/// The kernel keeps it as one number, major in the upper 16 bits (`include/uapi/linux/pkt_sched.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Handle {
    pub major: u16,
    /// Names the class in it; 0 is the qdisc itself.
    pub minor: u16,
}

/// Why a text is not a [`Handle`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a handle: write MAJOR:MINOR in hexadecimal, like \"1:10\", or \"1:\" for a qdisc"
)]
pub struct HandleError(String);

impl Handle {
    /// The place of a device's root qdisc (`TC_H_ROOT`).
    pub const ROOT: Handle = Handle { major: 0xffff, minor: 0xffff };
    /// The place of the ingress or clsact qdisc (`TC_H_INGRESS`, `TC_H_CLSACT`).
    pub const INGRESS: Handle = Handle { major: 0xffff, minor: 0xfff1 };
    /// The handle that the ingress and clsact qdiscs always have.
    pub const INGRESS_QDISC: Handle = Handle { major: 0xffff, minor: 0 };
    /// Where clsact's filters for incoming packets hang (`TC_H_MIN_INGRESS`).
    pub const CLSACT_INGRESS: Handle = Handle { major: 0xffff, minor: 0xfff2 };
    /// Where clsact's filters for outgoing packets hang (`TC_H_MIN_EGRESS`).
    pub const CLSACT_EGRESS: Handle = Handle { major: 0xffff, minor: 0xfff3 };

    /// A qdisc's handle, `major:`.
    pub const fn qdisc(major: u16) -> Self {
        Self { major, minor: 0 }
    }

    /// A class id, `major:minor`.
    pub const fn class(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// From the kernel's number.
    pub const fn from_u32(raw: u32) -> Self {
        Self { major: (raw >> 16) as u16, minor: raw as u16 }
    }

    pub const fn to_u32(self) -> u32 {
        ((self.major as u32) << 16) | self.minor as u32
    }

    /// True for a qdisc's handle, without a class.
    pub const fn is_qdisc(self) -> bool {
        self.minor == 0
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Handle::ROOT => f.write_str("root"),
            Handle { major, minor: 0 } => write!(f, "{major:x}:"),
            Handle { major, minor } => write!(f, "{major:x}:{minor:x}"),
        }
    }
}

impl FromStr for Handle {
    type Err = HandleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let part = |digits: &str| {
            let hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
            if hex { u16::from_str_radix(digits, 16).ok() } else { None }
        };
        let parsed = match text.split_once(':') {
            Some((major, "")) => part(major).map(Handle::qdisc),
            Some((major, minor)) => part(major).zip(part(minor)).map(|(a, b)| Handle::class(a, b)),
            None => None,
        };
        parsed.ok_or_else(|| HandleError(text.to_owned()))
    }
}

impl Serialize for Handle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Handle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_hexadecimal_as_tc_has_them() {
        assert_eq!("1:10".parse(), Ok(Handle::class(1, 0x10)));
        assert_eq!("ffff:".parse(), Ok(Handle::INGRESS_QDISC));
        assert_eq!(Handle::class(0x8001, 0xa).to_string(), "8001:a");
        assert_eq!(Handle::from_u32(0x0001_0010), Handle::class(1, 0x10));
    }

    #[test]
    fn what_is_not_a_handle_is_refused() {
        for text in ["", "1", ":10", "1:+1", "1:10:2", "10000:1", "x:1"] {
            assert!(text.parse::<Handle>().is_err(), "{text}");
        }
    }
}
