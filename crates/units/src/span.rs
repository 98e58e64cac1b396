//! Stretches of time.

use crate::error::{Reason, UnitError};
use crate::number::{self, Unit};
use crate::text_serde::serde_as_text;
use std::fmt;
use std::ops::{Add, AddAssign};
use std::str::FromStr;
use std::time::Duration;

const ALLOWED: &str = "a number and ns, us, ms, s, min or h, such as 20ms";
const MAX_TEXT: &str = "18446744073709551615ns (584 years)";

const UNITS: &[Unit] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
];

/// Other spellings of the units; the first two are the micro sign and the Greek letter.
const ALIASES: &[Unit] = &[
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("usec", 1_000),
    ("msec", 1_000_000),
    ("sec", 1_000_000_000),
];

/// A stretch of time in whole nanoseconds, up to 584 years.
///
/// Written "20ms", "1.5s", "10us", "2min". Only zero may be written without a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Span {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(u64::MAX);

    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    pub const fn nanos(self) -> u64 {
        self.0
    }

    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The difference, zero if `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `count` times as long, at most [`Span::MAX`].
    pub const fn saturating_mul(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

/// Saturates at [`Span::MAX`].
impl Add for Span {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Saturates at [`Span::MAX`].
impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Duration::from_nanos(span.0)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.pad("0ms");
        }
        f.pad(&number::shortest(self.0, UNITS))
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text).map(Self).map_err(|reason| UnitError::new(text, "a time span", reason, ALLOWED))
    }
}

fn parse(text: &str) -> Result<u64, Reason> {
    let (number, unit) = number::split(text)?;
    if unit.is_empty() {
        return if number.is_zero() { Ok(0) } else { Err(Reason::MissingUnit) };
    }
    // "M" for minutes or mega and "m" for milli or minutes: case and shortening are left alone.
    let (_, size) = UNITS
        .iter()
        .chain(ALIASES)
        .find(|(name, _)| *name == unit)
        .ok_or_else(|| number::unknown_unit(unit))?;
    number.times(*size, "nanoseconds", u64::MAX, MAX_TEXT)
}

serde_as_text!(Span, "a time span such as \"20ms\"");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(text: &str) -> Reason {
        text.parse::<Span>().expect_err(text).reason
    }

    #[test]
    fn people_write_times_in_many_ways() {
        for (text, nanos) in [
            ("20ms", 20_000_000),
            ("1.5s", 1_500_000_000),
            ("10us", 10_000),
            ("10µs", 10_000),
            ("0ms", 0),
            ("0", 0),
            ("2min", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("20 ms", 20_000_000),
            ("0.1s", 100_000_000),
            ("18446744073709551615ns", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Span::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn the_shortest_exact_form_is_printed() {
        for (span, text) in [
            (Span::from_millis(20), "20ms"),
            (Span::from_millis(1500), "1.5s"),
            (Span::from_millis(100), "100ms"),
            (Span::from_micros(1500), "1.5ms"),
            (Span::from_secs(20), "20s"),
            (Span::from_secs(120), "120s"),
            (Span::from_secs(3600), "1h"),
            (Span::from_nanos(20_000_001), "20000001ns"),
            (Span::ZERO, "0ms"),
        ] {
            assert_eq!(span.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        assert_eq!(refusal(" "), Reason::Empty);
        assert_eq!(refusal("20"), Reason::MissingUnit);
        assert_eq!(refusal("20Mbit"), Reason::UnknownUnit("Mbit".into()));
        assert_eq!(refusal("20m"), Reason::UnknownUnit("m".into()));
        assert_eq!(refusal("-20ms"), Reason::Negative);
        assert_eq!(refusal("nan"), Reason::NotANumber);
        assert_eq!(refusal("ms"), Reason::NotANumber);
        assert_eq!(refusal("1,5s"), Reason::UnknownUnit(",5s".into()));
        assert_eq!(refusal("0.5ns"), Reason::TooFine("nanoseconds"));
        assert_eq!(refusal("600000000000s"), Reason::TooLarge(MAX_TEXT));
    }

    #[test]
    fn a_refusal_names_the_value_and_what_to_write() {
        assert_eq!(
            "20".parse::<Span>().expect_err("no unit").to_string(),
            "\"20\" is not a time span: it has no unit; \
             write a number and ns, us, ms, s, min or h, such as 20ms"
        );
    }

    #[test]
    fn a_whole_file_given_as_a_value_is_not_repeated_whole() {
        let error = "x".repeat(1_000_000).parse::<Span>().expect_err("no number").to_string();
        assert!(error.len() < 300, "{}", error.len());
        let error = format!("1{}", "x".repeat(1_000_000)).parse::<Span>().expect_err("no unit");
        assert!(error.to_string().len() < 300);
    }

    #[test]
    fn durations_go_both_ways_and_saturate() {
        assert_eq!(Span::from(Duration::from_millis(20)), Span::from_millis(20));
        assert_eq!(Duration::from(Span::from_millis(20)), Duration::from_millis(20));
        assert_eq!(Span::from(Duration::MAX), Span::MAX);
        assert_eq!(Span::from_secs(u64::MAX), Span::MAX);
        assert_eq!(Span::MAX + Span::from_nanos(1), Span::MAX);
        assert_eq!(Span::ZERO.saturating_sub(Span::from_nanos(1)), Span::ZERO);
        assert_eq!(Span::from_millis(1500).as_secs_f64(), 1.5);
    }

    #[test]
    fn serde_carries_the_text() {
        assert_eq!(serde_json::to_string(&Span::from_millis(20)).expect("a string"), "\"20ms\"");
        assert_eq!(serde_json::from_str::<Span>("\"1.5s\"").expect("ok"), Span::from_millis(1500));
        assert_eq!(serde_json::from_str::<Span>("0").expect("zero needs no unit"), Span::ZERO);
        assert!(serde_json::from_str::<Span>("20").is_err());
        assert!(serde_json::from_str::<Span>("-20").is_err());
        assert!(serde_json::from_str::<Span>("null").is_err());
    }

    proptest! {
        #[test]
        fn every_span_reads_back(nanos: u64, zeros in 0u32..16) {
            for nanos in [nanos, nanos / 10u64.pow(zeros) * 10u64.pow(zeros)] {
                let text = Span::from_nanos(nanos).to_string();
                prop_assert_eq!(text.parse(), Ok(Span::from_nanos(nanos)));
            }
        }

        #[test]
        fn whole_minutes_and_hours_read_back(minutes in 0u64..1_000_000) {
            let span = Span::from_secs(60 * minutes);
            prop_assert_eq!(span.to_string().parse(), Ok(span));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9.]{0,60}\\PC{0,4}") {
            let _ = text.parse::<Span>();
        }
    }
}
