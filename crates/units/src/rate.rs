//! Data rates.

use crate::error::{Reason, UnitError};
use crate::number::{self, Unit};
use crate::text_serde::serde_as_text;
use crate::{Bytes, Span};
use std::fmt;
use std::str::FromStr;

const ALLOWED: &str = "a number and bit, kbit, Mbit, Gbit or Tbit (bits per second), or kBps, MBps, \
                       GBps (bytes per second), such as 2.5Mbit";
const MAX_TEXT: &str = "18446744073709551615bit";

/// In bits per second. As in tc (`suffixes` in iproute2's `lib/utils_math.c`): case does not count,
/// "bit" counts bits, "bps" counts bytes.
const UNITS: &[Unit] = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("tbit", 1_000_000_000_000),
    ("kibit", 1 << 10),
    ("mibit", 1 << 20),
    ("gibit", 1 << 30),
    ("tibit", 1 << 40),
    ("bps", 8),
    ("kbps", 8_000),
    ("mbps", 8_000_000),
    ("gbps", 8_000_000_000),
    ("tbps", 8_000_000_000_000),
    ("kibps", 8 << 10),
    ("mibps", 8 << 20),
    ("gibps", 8 << 30),
    ("tibps", 8 << 40),
];

const PRINTED: &[Unit] = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("Mbit", 1_000_000),
    ("Gbit", 1_000_000_000),
    ("Tbit", 1_000_000_000_000),
];

/// A data rate in whole bits per second.
///
/// Written as tc does: "2.5Mbit" or "8Mbit/s" counts bits; **"1MBps" or "1MB/s" counts bytes**. "1Mbps",
/// which tc reads as bytes and most people as bits, is refused. A rate of zero can be held (nothing arrived) but is
/// refused in text, because no link has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    pub const fn from_bps(bits_per_second: u64) -> Self {
        Self(bits_per_second)
    }

    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Whole bytes per second, rounded down.
    pub const fn bytes_per_second(self) -> u64 {
        self.0 / 8
    }

    /// How long `bytes` occupy a link of this rate, rounded down to the nanosecond as the kernel does
    /// (`packet_time_ns` in `net/sched/sch_netem.c`). At rate zero, or where the answer does not fit,
    /// [`Span::MAX`].
    pub const fn time_for(self, bytes: u64) -> Span {
        if self.0 == 0 {
            return if bytes == 0 { Span::ZERO } else { Span::MAX };
        }
        let nanos = bytes as u128 * 8_000_000_000 / self.0 as u128;
        if nanos > u64::MAX as u128 { Span::MAX } else { Span::from_nanos(nanos as u64) }
    }

    /// The bytes that a link of this rate carries in `span`, rounded down: with `span` as the round
    /// trip, the bandwidth-delay product.
    pub const fn bytes_in(self, span: Span) -> Bytes {
        let bytes = self.0 as u128 * span.nanos() as u128 / 8_000_000_000;
        Bytes::new(if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&number::shortest(self.0, PRINTED))
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text).map(Self).map_err(|reason| UnitError::new(text, "a rate", reason, ALLOWED))
    }
}

fn parse(text: &str) -> Result<u64, Reason> {
    let (number, unit) = number::split(text)?;
    if unit.is_empty() {
        return Err(if number.is_zero() { Reason::Zero } else { Reason::MissingUnit });
    }
    if unit.ends_with("bps") {
        // tc counts bytes here, most people mean bits: eight times apart.
        let meanings = "tc counts bytes, others bits; write Mbit or MBps";
        return Err(Reason::AmbiguousUnit { unit: unit.into(), meanings });
    }
    let size = unit_size(unit).ok_or_else(|| number::unknown_unit(unit))?;
    match number.times(size, "bits per second", u64::MAX, MAX_TEXT)? {
        0 => Err(Reason::Zero),
        bps => Ok(bps),
    }
}

fn unit_size(unit: &str) -> Option<u64> {
    // Per second is said twice over in "Mbit/s" (the same as "Mbit") and "MB/s" ("MBps"). "Mb/s" stays
    // unknown: tc would count bytes, its writer most likely meant bits.
    let wanted = match unit.strip_suffix("/s") {
        Some(stem) if stem.ends_with('B') => format!("{stem}ps"),
        Some(stem) if stem.to_ascii_lowercase().ends_with("bit") => stem.to_string(),
        Some(_) => return None,
        None => unit.to_string(),
    };
    UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(&wanted)).map(|(_, size)| *size)
}

serde_as_text!(Rate, "a rate such as \"2.5Mbit\"");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(text: &str) -> Reason {
        text.parse::<Rate>().expect_err(text).reason
    }

    #[test]
    fn people_write_rates_in_many_ways() {
        for (text, bps) in [
            ("2.5Mbit", 2_500_000),
            ("8Mbit/s", 8_000_000),
            ("6500kbit", 6_500_000),
            ("1Gbit", 1_000_000_000),
            (" 100 mbit ", 100_000_000),
            ("1Mibit", 1_048_576),
            ("10MBps", 80_000_000),
            ("10MB/s", 80_000_000),
            ("1500Bps", 12_000),
            ("1bit", 1),
            ("0.001kbit", 1),
            ("18446744073709551615bit", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Rate::from_bps(bps)), "{text}");
        }
    }

    #[test]
    fn the_shortest_exact_form_is_printed() {
        for (bps, text) in [
            (2_500_000, "2.5Mbit"),
            (8_000_000, "8Mbit"),
            (1_500, "1500bit"),
            (999, "999bit"),
            (100_000, "100kbit"),
            (1_234_567, "1234567bit"),
            (0, "0bit"),
        ] {
            assert_eq!(Rate::from_bps(bps).to_string(), text);
        }
        assert_eq!(format!("[{:>9}]", Rate::from_bps(2_500_000)), "[  2.5Mbit]");
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        assert_eq!(refusal(""), Reason::Empty);
        assert_eq!(refusal("20"), Reason::MissingUnit);
        assert_eq!(refusal("20ms"), Reason::UnknownUnit("ms".into()));
        assert_eq!(refusal("2Mb/s"), Reason::UnknownUnit("Mb/s".into()));
        assert!(matches!(refusal("10Mbps"), Reason::AmbiguousUnit { .. }));
        assert_eq!(refusal("-1Mbit"), Reason::Negative);
        assert_eq!(refusal("NaN"), Reason::NotANumber);
        assert_eq!(refusal("inf"), Reason::NotANumber);
        assert_eq!(refusal("1.Mbit"), Reason::NotANumber);
        assert_eq!(refusal("1e6bit"), Reason::UnknownUnit("e6bit".into()));
        assert_eq!(refusal("0"), Reason::Zero);
        assert_eq!(refusal("0.0Mbit"), Reason::Zero);
        assert_eq!(refusal("0.5bit"), Reason::TooFine("bits per second"));
        assert_eq!(refusal("18446744073709551616bit"), Reason::TooLarge(MAX_TEXT));
        assert_eq!(refusal(&format!("{}Tbit", "9".repeat(25))), Reason::TooLarge(MAX_TEXT));
        assert_eq!(refusal(&format!("{}Tbit", "9".repeat(60))), Reason::TooManyDigits);
        assert_eq!(refusal(&format!("1.{}bit", "1".repeat(60))), Reason::TooManyDigits);
    }

    #[test]
    fn a_refusal_names_the_value_and_what_to_write() {
        let error = "20".parse::<Rate>().expect_err("no unit").to_string();
        assert!(
            error.starts_with("\"20\" is not a rate: it has no unit; write a number"),
            "{error}"
        );
        assert!(error.ends_with("such as 2.5Mbit"), "{error}");
    }

    #[test]
    fn a_packet_of_1500_bytes_takes_4_8_ms_on_the_home_uplink() {
        // 12,000 bits / 2,500,000 bit/s = 4.8 ms
        assert_eq!(Rate::from_bps(2_500_000).time_for(1500), Span::from_micros(4800));
        assert_eq!(Rate::from_bps(3).time_for(1), Span::from_nanos(2_666_666_666));
        assert_eq!(Rate::from_bps(0).time_for(1), Span::MAX);
        assert_eq!(Rate::from_bps(1).time_for(u64::MAX), Span::MAX);
    }

    #[test]
    fn a_window_for_100_mbit_and_20_ms_is_250_kilobytes() {
        // 100,000,000 bit/s * 0.02 s / 8 = 250,000 bytes
        let bdp = Rate::from_bps(100_000_000).bytes_in(Span::from_millis(20));
        assert_eq!(bdp, Bytes::new(250_000));
        assert_eq!(Rate::from_bps(u64::MAX).bytes_in(Span::MAX), Bytes::new(u64::MAX));
    }

    #[test]
    fn serde_carries_the_text() {
        let rate = Rate::from_bps(2_500_000);
        assert_eq!(serde_json::to_string(&rate).expect("a string"), "\"2.5Mbit\"");
        assert_eq!(serde_json::from_str::<Rate>("\"2500kbit\"").expect("a rate"), rate);
        let error = serde_json::from_str::<Rate>("2500").expect_err("bits? kilobits?").to_string();
        assert!(error.contains("it has no unit"), "{error}");
    }

    proptest! {
        #[test]
        fn every_rate_reads_back(bps in 1..=u64::MAX, zeros in 0u32..16) {
            for bps in [bps, bps / 10u64.pow(zeros) * 10u64.pow(zeros)] {
                prop_assume!(bps > 0);
                let text = Rate::from_bps(bps).to_string();
                prop_assert_eq!(text.parse(), Ok(Rate::from_bps(bps)));
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,40}") {
            let _ = text.parse::<Rate>();
        }
    }
}
