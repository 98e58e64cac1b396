//! Amounts of data.

use crate::error::{Reason, UnitError};
use crate::number::{self, Decimal, Unit};
use crate::text_serde::serde_as_text;
use std::fmt;
use std::str::FromStr;

const ALLOWED: &str =
    "a number and B, kB, MB, GB (thousands) or KiB, MiB, GiB (1024), such as 64KiB";
const MAX_TEXT: &str = "18446744073709551615B";

const UNITS: &[Unit] = &[
    ("B", 1),
    ("kB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
];

const ALIASES: &[Unit] = &[("byte", 1), ("bytes", 1), ("kiB", 1 << 10)];

/// An amount of data in whole bytes.
///
/// Written "1500", "1500B", "256kB" (256,000), "64KiB" (65,536), "1MB". Unlike in tc
/// (`get_size64` in iproute2's `lib/utils_math.c`), kB, MB and GB count in thousands; "kb" and "KB" are
/// refused, because people mean either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Bytes {
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&number::shortest(self.0, UNITS))
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let parsed = number::split(text).and_then(|(number, unit)| match unit {
            "" => with_unit(number, "B"),
            unit => with_unit(number, unit),
        });
        parsed.map_err(|reason| UnitError::new(text, "an amount of data", reason, ALLOWED))
    }
}

pub(crate) fn with_unit(number: Decimal, unit: &str) -> Result<Bytes, Reason> {
    let known = UNITS.iter().chain(ALIASES).find(|(name, _)| *name == unit);
    match known {
        Some((_, size)) => number.times(*size, "bytes", u64::MAX, MAX_TEXT).map(Bytes),
        None if ["kb", "KB", "Kb"].contains(&unit) => Err(Reason::AmbiguousUnit {
            unit: unit.to_string(),
            meanings: "kB is 1000 bytes, KiB is 1024 bytes",
        }),
        None => Err(number::unknown_unit(unit)),
    }
}

serde_as_text!(Bytes, "an amount of data such as 1500 or \"64KiB\"");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(text: &str) -> Reason {
        text.parse::<Bytes>().expect_err(text).reason
    }

    #[test]
    fn people_write_sizes_in_many_ways() {
        for (text, bytes) in [
            ("1500", 1500),
            ("1500B", 1500),
            ("1500 bytes", 1500),
            ("256kB", 256_000),
            ("64KiB", 65_536),
            ("1MB", 1_000_000),
            ("1.5MiB", 1_572_864),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Bytes::new(bytes)), "{text}");
        }
    }

    #[test]
    fn the_shortest_exact_form_is_printed() {
        for (bytes, text) in [
            (1500, "1500B"),
            (256_000, "256kB"),
            (262_144, "256KiB"),
            (65_536, "64KiB"),
            (1_000_000, "1MB"),
            (1_500_000, "1.5MB"),
            (0, "0B"),
        ] {
            assert_eq!(Bytes::new(bytes).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        assert_eq!(refusal(""), Reason::Empty);
        assert_eq!(refusal("-1"), Reason::Negative);
        assert_eq!(refusal("NaN"), Reason::NotANumber);
        assert_eq!(refusal("20ms"), Reason::UnknownUnit("ms".into()));
        assert_eq!(refusal("1Mbit"), Reason::UnknownUnit("Mbit".into()));
        assert_eq!(refusal("1.5"), Reason::TooFine("bytes"));
        assert_eq!(refusal("18446744073709551616"), Reason::TooLarge(MAX_TEXT));
        let error = "256kb".parse::<Bytes>().expect_err("1000 or 1024?").to_string();
        assert!(error.contains("kB is 1000 bytes, KiB is 1024 bytes"), "{error}");
    }

    #[test]
    fn serde_takes_bare_numbers_too() {
        assert_eq!(serde_json::to_string(&Bytes::new(65_536)).expect("a string"), "\"64KiB\"");
        assert_eq!(serde_json::from_str::<Bytes>("1500").expect("ok"), Bytes::new(1500));
        assert_eq!(serde_json::from_str::<Bytes>("\"64KiB\"").expect("ok"), Bytes::new(65_536));
        assert!(serde_json::from_str::<Bytes>("-1").is_err());
        assert!(serde_json::from_str::<Bytes>("1.5").is_err());
    }

    proptest! {
        #[test]
        fn every_size_reads_back(bytes: u64, zeros in 0u32..16, shift in 0u32..50) {
            let round = bytes / 10u64.pow(zeros) * 10u64.pow(zeros);
            for bytes in [bytes, round, bytes >> shift << shift] {
                prop_assert_eq!(Bytes::new(bytes).to_string().parse(), Ok(Bytes::new(bytes)));
            }
        }
    }
}
