//! Shares and probabilities.

use crate::error::{Reason, UnitError};
use crate::number;
use crate::text_serde::serde_as_text;
use std::fmt;
use std::str::FromStr;

const ALLOWED: &str = "a percentage from 0% to 100% such as 0.5%, or a fraction from 0 to 1 such as \
                       0.005";
const BILLION: u64 = 1_000_000_000;
/// One per cent, in parts per billion.
const PERCENT: u64 = 10_000_000;
const STEP: &str = "parts per billion (0.0000001%)";

/// A share from 0 to 1, in whole parts per billion.
///
/// Written "1%", "0.5%" or as a fraction: "0.01". Printed as a percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ratio(u64);

impl Ratio {
    pub const ZERO: Self = Self(0);
    pub const ONE: Self = Self(BILLION);

    /// A ratio from parts per billion; `None` above 1.
    pub const fn from_ppb(parts_per_billion: u64) -> Option<Self> {
        if parts_per_billion > BILLION { None } else { Some(Self(parts_per_billion)) }
    }

    pub const fn ppb(self) -> u64 {
        self.0
    }

    pub fn as_f64(self) -> f64 {
        self.0 as f64 / BILLION as f64
    }

    /// The ratio as the kernel's netem holds a probability: 2^32-1 is 1, rounded to the nearest
    /// (`get_percent` in tc's `q_netem.c`).
    pub const fn to_u32_scaled(self) -> u32 {
        ((self.0 * u32::MAX as u64 + BILLION / 2) / BILLION) as u32
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / PERCENT, self.0 % PERCENT);
        if rest == 0 {
            return f.pad(&format!("{whole}%"));
        }
        let fraction = format!("{rest:07}");
        f.pad(&format!("{whole}.{}%", fraction.trim_end_matches('0')))
    }
}

impl FromStr for Ratio {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text).map(Self).map_err(|reason| UnitError::new(text, "a ratio", reason, ALLOWED))
    }
}

fn parse(text: &str) -> Result<u64, Reason> {
    let (number, unit) = number::split(text)?;
    let size = match unit {
        "%" => PERCENT,
        "" => BILLION,
        unit => return Err(number::unknown_unit(unit)),
    };
    number.times(size, STEP, BILLION, "100%")
}

serde_as_text!(Ratio, "a ratio such as \"1%\" or 0.01");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(text: &str) -> Reason {
        text.parse::<Ratio>().expect_err(text).reason
    }

    #[test]
    fn a_ratio_is_a_percentage_or_a_fraction() {
        for (text, ppb, printed) in [
            ("1%", 10_000_000, "1%"),
            ("0.01", 10_000_000, "1%"),
            ("0.5%", 5_000_000, "0.5%"),
            ("100%", BILLION, "100%"),
            ("1", BILLION, "100%"),
            ("0", 0, "0%"),
            ("0.000000001", 1, "0.0000001%"),
            ("12.5 %", 125_000_000, "12.5%"),
        ] {
            let ratio: Ratio = text.parse().expect(text);
            assert_eq!((ratio.ppb(), ratio.to_string().as_str()), (ppb, printed), "{text}");
        }
    }

    #[test]
    fn the_kernel_scale_ends_at_all_ones() {
        assert_eq!(Ratio::ONE.to_u32_scaled(), u32::MAX);
        assert_eq!(Ratio::ZERO.to_u32_scaled(), 0);
        // 0.01 * 4,294,967,295 = 42,949,672.95, which tc sends as 42949673.
        assert_eq!("1%".parse::<Ratio>().expect("ok").to_u32_scaled(), 42_949_673);
        assert_eq!("0.25".parse::<Ratio>().expect("ok").as_f64(), 0.25);
    }

    #[test]
    fn what_is_no_ratio_is_refused() {
        assert_eq!(refusal(""), Reason::Empty);
        assert_eq!(refusal("-1%"), Reason::Negative);
        assert_eq!(refusal("NaN"), Reason::NotANumber);
        assert_eq!(refusal("101%"), Reason::TooLarge("100%"));
        assert_eq!(refusal("2"), Reason::TooLarge("100%"));
        assert_eq!(refusal("1.0000000001"), Reason::TooFine(STEP));
        assert_eq!(refusal("0.0000000001"), Reason::TooFine(STEP));
        assert_eq!(refusal("20ms"), Reason::UnknownUnit("ms".into()));
        assert_eq!(Ratio::from_ppb(BILLION + 1), None);
        let error = "2".parse::<Ratio>().expect_err("above 1").to_string();
        assert!(error.contains("\"2\"") && error.contains("such as 0.5%"), "{error}");
    }

    #[test]
    fn serde_takes_bare_fractions_too() {
        let one_percent: Ratio = "1%".parse().expect("ok");
        assert_eq!(serde_json::to_string(&one_percent).expect("a string"), "\"1%\"");
        assert_eq!(serde_json::from_str::<Ratio>("0.01").expect("ok"), one_percent);
        assert_eq!(serde_json::from_str::<Ratio>("\"1%\"").expect("ok"), one_percent);
        assert!(serde_json::from_str::<Ratio>("1.5").is_err());
        assert!(serde_json::from_str::<Ratio>("-0.5").is_err());
    }

    proptest! {
        #[test]
        fn every_ratio_reads_back(ppb in 0..=BILLION) {
            let ratio = Ratio::from_ppb(ppb).expect("within 1");
            prop_assert_eq!(ratio.to_string().parse(), Ok(ratio));
            prop_assert_eq!(serde_json::from_str::<Ratio>(&ratio.as_f64().to_string()).ok(), Some(ratio));
        }
    }
}
