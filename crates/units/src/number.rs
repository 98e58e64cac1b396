//! Exact decimal numbers followed by a unit: the grammar shared by all quantities.
//!
//! `NUMBER [SPACE] [UNIT]`, where NUMBER is `digits`, `digits.digits` or `.digits`. Floating point is
//! not used anywhere on the way, so "0.1s" is 100,000,000 ns and not one less.

use crate::error::{Reason, shorten};

/// A unit's name and how many smallest steps it holds.
pub(crate) type Unit = (&'static str, u64);

/// A non-negative decimal number: `mantissa / 10^decimals`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    mantissa: u128,
    decimals: u32,
}

/// More fraction digits than any unit has steps for; also keeps `10^decimals` within u128.
const MAX_DECIMALS: usize = 24;

/// Splits "2.5 Mbit" into 2.5 and "Mbit"; the unit may be empty.
pub(crate) fn split(text: &str) -> Result<(Decimal, &str), Reason> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Reason::Empty);
    }
    if text.starts_with(['-', '\u{2212}']) {
        return Err(Reason::Negative);
    }
    let whole_len = digits_len(text);
    let (whole, rest) = text.split_at(whole_len);
    let (fraction, unit) = match rest.strip_prefix('.') {
        Some(after_point) => {
            let (fraction, unit) = after_point.split_at(digits_len(after_point));
            if fraction.is_empty() {
                return Err(Reason::NotANumber);
            }
            (fraction.trim_end_matches('0'), unit)
        }
        None if whole.is_empty() => return Err(Reason::NotANumber),
        None => ("", rest),
    };
    if fraction.len() > MAX_DECIMALS {
        return Err(Reason::TooManyDigits);
    }
    let mut mantissa: u128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        mantissa = mantissa
            .checked_mul(10)
            .and_then(|m| m.checked_add(u128::from(digit - b'0')))
            .ok_or(Reason::TooManyDigits)?;
    }
    Ok((Decimal { mantissa, decimals: fraction.len() as u32 }, unit.trim_start()))
}

fn digits_len(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

impl Decimal {
    /// The number times `unit`, when that is a whole number within `max`.
    pub(crate) fn times(
        self,
        unit: u64,
        step: &'static str,
        max: u64,
        max_text: &'static str,
    ) -> Result<u64, Reason> {
        let scaled =
            self.mantissa.checked_mul(u128::from(unit)).ok_or(Reason::TooLarge(max_text))?;
        let divisor = 10u128.pow(self.decimals);
        if scaled / divisor > u128::from(max) {
            return Err(Reason::TooLarge(max_text));
        }
        if scaled % divisor != 0 {
            return Err(Reason::TooFine(step));
        }
        u64::try_from(scaled / divisor).map_err(|_| Reason::TooLarge(max_text))
    }

    pub(crate) fn is_zero(self) -> bool {
        self.mantissa == 0
    }
}

/// A unit that is not known, shortened for the error.
pub(crate) fn unknown_unit(unit: &str) -> Reason {
    Reason::UnknownUnit(shorten(unit))
}

/// The shortest exact "NUMBER UNIT" for `value`, without a number below one (100ms, not 0.1s).
///
/// Of equally short forms the one without a fraction wins, then the one with the unit named first.
/// `units` starts with the smallest step.
pub(crate) fn shortest(value: u64, units: &[Unit]) -> String {
    units
        .iter()
        .filter(|(_, size)| *size == 1 || value >= *size)
        .map(|(name, size)| format!("{}{name}", exact_quotient(value, *size)))
        .min_by_key(|text| (text.chars().count(), text.contains('.')))
        .unwrap_or_else(|| value.to_string())
}

/// `value / size` written out in full. `size` has no prime factors but 2, 3 and 5; a quotient that
/// does not end (minutes, hours) is written too long to be chosen.
fn exact_quotient(value: u64, size: u64) -> String {
    let mut text = (value / size).to_string();
    let mut remainder = u128::from(value % size);
    if remainder > 0 {
        text.push('.');
    }
    let mut digits = 0;
    while remainder > 0 && digits < 60 {
        remainder *= 10;
        let digit = remainder / u128::from(size);
        text.push(char::from(b'0' + digit as u8));
        remainder %= u128::from(size);
        digits += 1;
    }
    text
}
