//! The whole TOS byte (IPv4) or traffic class (IPv6).

use crate::dscp::byte_number;
use crate::error::UnitError;
use crate::text_serde::serde_as_text;
use crate::{Dscp, Ecn};
use std::fmt;
use std::str::FromStr;

const ALLOWED: &str = "a number from 0 to 255, a DSCP name, low-delay, throughput or reliability, \
                       such as 0x10 or EF";

/// RFC 1349 section 4, already in their place in the byte.
const OLD_NAMES: &[(&str, u8)] =
    &[("low-delay", 0x10), ("throughput", 0x08), ("reliability", 0x04)];

/// The TOS byte of IPv4 or the traffic class of IPv6: a DSCP above two ECN bits.
///
/// Written as a number of the whole byte ("16", "0x10", or in octal "020"), as the name of a DSCP ("EF", which is 0xb8),
/// or in the words of RFC 1349 ("low-delay", 0x10). Printed as the DSCP's name where the byte has one
/// and no ECN bits, and as a hexadecimal number otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tos(u8);

impl Tos {
    pub const fn from_byte(byte: u8) -> Self {
        Self(byte)
    }

    pub const fn byte(self) -> u8 {
        self.0
    }

    pub const fn dscp(self) -> Dscp {
        Dscp::from_tos_byte(self.0)
    }

    pub const fn ecn(self) -> Ecn {
        Ecn::from_bits(self.0)
    }

    pub const fn with_ecn(self, ecn: Ecn) -> Self {
        Self(self.0 & !0b11 | ecn.bits())
    }
}

impl From<Dscp> for Tos {
    fn from(dscp: Dscp) -> Self {
        Self(dscp.tos_byte())
    }
}

impl fmt::Display for Tos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dscp().name() {
            Some(name) if self.ecn() == Ecn::NotEct => f.pad(name),
            _ => f.pad(&format!("{:#04x}", self.0)),
        }
    }
}

impl FromStr for Tos {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if let Some(dscp) = Dscp::from_name(text) {
            return Ok(dscp.into());
        }
        let old = OLD_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim()));
        if let Some((_, byte)) = old {
            return Ok(Self(*byte));
        }
        byte_number(text, u8::MAX, "255")
            .map(Self)
            .map_err(|reason| UnitError::new(text, "a TOS byte", reason, ALLOWED))
    }
}

serde_as_text!(Tos, "a TOS byte such as \"0x10\", 16 or \"EF\"");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    #[test]
    fn one_byte_has_several_names() {
        for (text, byte) in [
            ("0x10", 0x10),
            ("16", 0x10),
            ("064", 0o64),
            ("0270", 0xb8),
            ("00", 0),
            ("low-delay", 0x10),
            ("throughput", 0x08),
            ("Reliability", 0x04),
            ("EF", 0xb8),
            ("be", 0x00),
            ("255", 0xff),
        ] {
            assert_eq!(text.parse(), Ok(Tos::from_byte(byte)), "{text}");
        }
        assert_eq!(Tos::from(Dscp::EF).byte(), 0xb8);
    }

    #[test]
    fn the_byte_is_a_codepoint_and_a_congestion_field() {
        let marked = Tos::from(Dscp::EF).with_ecn(Ecn::Ce);
        assert_eq!((marked.byte(), marked.dscp(), marked.ecn()), (0xbb, Dscp::EF, Ecn::Ce));
        assert_eq!(marked.to_string(), "0xbb");
        assert_eq!(Tos::from_byte(0x10).to_string(), "0x10");
        assert_eq!(Tos::from_byte(0xb8).to_string(), "EF");
    }

    #[test]
    fn every_byte_reads_back() {
        for byte in 0..=u8::MAX {
            let tos = Tos::from_byte(byte);
            assert_eq!(tos.to_string().parse(), Ok(tos));
            assert_eq!(serde_json::from_str::<Tos>(&byte.to_string()).expect("ok"), tos);
            let text = serde_json::to_string(&tos).expect("a string");
            assert_eq!(serde_json::from_str::<Tos>(&text).expect("ok"), tos);
        }
    }

    #[test]
    fn what_is_no_byte_is_refused() {
        let refusal = |text: &str| text.parse::<Tos>().expect_err(text).reason;
        assert_eq!(refusal(""), Reason::Empty);
        assert_eq!(refusal("256"), Reason::TooLarge("255"));
        assert_eq!(refusal("0400"), Reason::TooLarge("255"));
        assert_eq!(refusal("08"), Reason::UnknownName);
        assert_eq!(refusal("0x100"), Reason::TooLarge("255"));
        assert_eq!(refusal("-1"), Reason::Negative);
        assert_eq!(refusal("NaN"), Reason::UnknownName);
        assert_eq!(refusal("lowdelay"), Reason::UnknownName);
        assert_eq!(refusal("20ms"), Reason::UnknownUnit("ms".into()));
        let error = "256".parse::<Tos>().expect_err("nine bits").to_string();
        assert!(error.contains("\"256\"") && error.contains("such as 0x10"), "{error}");
    }
}
