//! Differentiated services codepoints: the six high bits of the TOS byte.

use crate::error::{Reason, UnitError};
use crate::number;
use crate::text_serde::serde_as_text;
use std::fmt;
use std::str::FromStr;

const ALLOWED: &str = "a name (CS0 to CS7, AF11 to AF43, EF, VA, LE, BE) or a number from 0 to 63, \
                       such as EF or 46";
const MAX: u8 = 63;

const NAMES: &[(&str, u8)] = &[
    ("CS0", 0), // RFC 2474
    ("BE", 0),
    ("default", 0),
    ("DF", 0), // RFC 4594
    ("CS1", 8),
    ("CS2", 16),
    ("CS3", 24),
    ("CS4", 32),
    ("CS5", 40),
    ("CS6", 48),
    ("CS7", 56),
    ("AF11", 10), // RFC 2597
    ("AF12", 12),
    ("AF13", 14),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("EF", 46), // RFC 3246
    ("VA", 44), // RFC 5865, VOICE-ADMIT
    ("VOICE-ADMIT", 44),
    ("LE", 1), // RFC 8622
];

/// A differentiated services codepoint, 0 to 63 (RFC 2474).
///
/// Written as a name in any case ("EF", "cs1", "AF41", "LE", "VA", "BE") or as a number ("46",
/// "0x2e"); this is the codepoint and not the TOS byte, which is four times as much. Values without a
/// name are printed as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Dscp(u8);

impl Dscp {
    /// Class selector 0: best effort, the default.
    pub const CS0: Self = Self(0);
    /// Class selector 1: background, in the older reading.
    pub const CS1: Self = Self(8);
    pub const CS5: Self = Self(40);
    /// Class selector 6: network control.
    pub const CS6: Self = Self(48);
    /// Expedited forwarding: voice (RFC 3246).
    pub const EF: Self = Self(46);
    /// Voice with admission control (RFC 5865).
    pub const VA: Self = Self(44);
    /// Lower effort: background (RFC 8622).
    pub const LE: Self = Self(1);

    pub const fn new(value: u8) -> Option<Self> {
        if value > MAX { None } else { Some(Self(value)) }
    }

    pub const fn from_tos_byte(tos_byte: u8) -> Self {
        Self(tos_byte >> 2)
    }

    pub const fn value(self) -> u8 {
        self.0
    }

    /// The TOS byte with this codepoint and no ECN bits.
    pub const fn tos_byte(self) -> u8 {
        self.0 << 2
    }

    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(_, value)| *value == self.0).map(|(name, _)| *name)
    }

    pub(crate) fn from_name(text: &str) -> Option<Self> {
        let text = text.trim();
        NAMES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text))
            .map(|(_, value)| Self(*value))
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => f.pad(&self.0.to_string()),
        }
    }
}

impl FromStr for Dscp {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if let Some(dscp) = Self::from_name(text) {
            return Ok(dscp);
        }
        byte_number(text, MAX, "63")
            .map(Self)
            .map_err(|reason| UnitError::new(text, "a DSCP", reason, ALLOWED))
    }
}

/// "16", "0x10", or "020" with a leading zero in octal, as iperf3, ping and fping read it (strtol(3), base 0); at most `max`. Anything that
/// does not start like a number is an unknown name.
pub(crate) fn byte_number(text: &str, max: u8, max_text: &'static str) -> Result<u8, Reason> {
    let text = text.trim();
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Reason::UnknownName);
        }
        return match u8::from_str_radix(digits, 16) {
            Ok(value) if value <= max => Ok(value),
            _ => Err(Reason::TooLarge(max_text)),
        };
    }
    if let Some(digits) =
        text.strip_prefix('0').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        && digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        if !digits.bytes().all(|byte| byte < b'8') {
            return Err(Reason::UnknownName);
        }
        return match u8::from_str_radix(digits, 8) {
            Ok(value) if value <= max => Ok(value),
            _ => Err(Reason::TooLarge(max_text)),
        };
    }
    match number::split(text) {
        Ok((number, "")) => {
            let value = number.times(1, "ones", u64::from(max), max_text)?;
            u8::try_from(value).map_err(|_| Reason::TooLarge(max_text))
        }
        Ok((_, unit)) => Err(number::unknown_unit(unit)),
        Err(Reason::NotANumber) => Err(Reason::UnknownName),
        Err(reason) => Err(reason),
    }
}

serde_as_text!(Dscp, "a DSCP such as \"EF\" or 46");

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Reason {
        text.parse::<Dscp>().expect_err(text).reason
    }

    #[test]
    fn names_have_the_values_of_their_rfcs() {
        for (text, value) in
            [("EF", 46), ("ef", 46), ("cs1", 8), ("AF41", 34), ("LE", 1), ("VA", 44), ("BE", 0)]
        {
            assert_eq!(text.parse::<Dscp>().expect(text).value(), value, "{text}");
        }
        // RFC 2597 section 6: class c and drop precedence d make the six bits c (3), d (2), 0.
        for class in 1..=4u8 {
            for drop in 1..=3u8 {
                let dscp: Dscp = format!("AF{class}{drop}").parse().expect("an AF class");
                assert_eq!(dscp.value(), class << 3 | drop << 1);
            }
        }
        for class in 0..=7u8 {
            let dscp: Dscp = format!("CS{class}").parse().expect("a class selector");
            assert_eq!(dscp.value(), class << 3);
        }
        assert_eq!(Dscp::EF.tos_byte(), 0xb8);
        assert_eq!(Dscp::from_tos_byte(0xbb), Dscp::EF);
    }

    #[test]
    fn every_codepoint_reads_back() {
        for value in 0..=MAX {
            let dscp = Dscp::new(value).expect("six bits");
            assert_eq!(dscp.to_string().parse(), Ok(dscp));
            assert_eq!(format!("{value:#x}").parse(), Ok(dscp));
            assert_eq!(serde_json::from_str::<Dscp>(&value.to_string()).expect("ok"), dscp);
        }
        assert_eq!(Dscp::CS0.to_string(), "CS0");
        assert_eq!(Dscp(5).to_string(), "5");
        assert_eq!(serde_json::to_string(&Dscp::EF).expect("a string"), "\"EF\"");
    }

    #[test]
    fn what_is_no_codepoint_is_refused() {
        assert_eq!(Dscp::new(64), None);
        assert_eq!(refusal(""), Reason::Empty);
        assert_eq!(refusal("64"), Reason::TooLarge("63"));
        assert_eq!(refusal("0xb8"), Reason::TooLarge("63"));
        assert_eq!(refusal("0x"), Reason::UnknownName);
        assert_eq!(refusal("0x+1"), Reason::UnknownName);
        assert_eq!(refusal("-1"), Reason::Negative);
        assert_eq!(refusal("1.5"), Reason::TooFine("ones"));
        assert_eq!(refusal("NaN"), Reason::UnknownName);
        assert_eq!(refusal("AF44"), Reason::UnknownName);
        assert_eq!(refusal("20ms"), Reason::UnknownUnit("ms".into()));
        let error = "AF44".parse::<Dscp>().expect_err("no such class").to_string();
        assert!(error.contains("\"AF44\"") && error.contains("such as EF"), "{error}");
    }
}
