//! Explicit congestion notification: the two low bits of the TOS byte.

use crate::error::{Reason, UnitError};
use crate::text_serde::serde_as_text;
use std::fmt;
use std::str::FromStr;

const ALLOWED: &str = "not-ect, ect0, ect1 or ce, such as ect0";

/// The ECN field of an IP header (RFC 3168 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Ecn {
    /// 00: the transport does not take marks.
    #[default]
    NotEct,
    /// 10: ECN-capable, the classic codepoint.
    Ect0,
    /// 01: ECN-capable; L4S since RFC 9331.
    Ect1,
    /// 11: congestion experienced.
    Ce,
}

impl Ecn {
    pub const ALL: [Self; 4] = [Self::NotEct, Self::Ect0, Self::Ect1, Self::Ce];

    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }

    pub const fn from_bits(tos_byte: u8) -> Self {
        match tos_byte & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

impl fmt::Display for Ecn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotEct => "not-ect",
            Self::Ect0 => "ect0",
            Self::Ect1 => "ect1",
            Self::Ce => "ce",
        })
    }
}

impl FromStr for Ecn {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let reason = match text.trim().to_ascii_lowercase().as_str() {
            "not-ect" | "notect" => return Ok(Self::NotEct),
            "ect0" | "ect(0)" => return Ok(Self::Ect0),
            "ect1" | "ect(1)" => return Ok(Self::Ect1),
            "ce" => return Ok(Self::Ce),
            "" => Reason::Empty,
            _ => Reason::UnknownName,
        };
        Err(UnitError::new(text, "an ECN codepoint", reason, ALLOWED))
    }
}

serde_as_text!(Ecn, "an ECN codepoint such as \"ect0\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_have_the_bits_of_rfc_3168() {
        // RFC 3168 figure 1: 0 1 is ECT(1), 1 0 is ECT(0), 1 1 is CE.
        assert_eq!(Ecn::ALL.map(Ecn::bits), [0, 2, 1, 3]);
        for ecn in Ecn::ALL {
            assert_eq!(Ecn::from_bits(0xb8 | ecn.bits()), ecn);
            assert_eq!(ecn.to_string().parse(), Ok(ecn));
            let text = serde_json::to_string(&ecn).expect("a string");
            assert_eq!(serde_json::from_str::<Ecn>(&text).expect("ok"), ecn);
        }
        assert_eq!("ECT(1)".parse(), Ok(Ecn::Ect1));
    }

    #[test]
    fn what_is_no_codepoint_is_refused() {
        for text in ["", "1", "-1", "NaN", "ect", "20ms"] {
            let error = text.parse::<Ecn>().expect_err(text).to_string();
            assert!(
                error.contains(&format!("{text:?}")) && error.contains("such as ect0"),
                "{error}"
            );
        }
    }
}
