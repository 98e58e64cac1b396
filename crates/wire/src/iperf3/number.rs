//! Numbers as iperf3 writes them: a whole number may come as a float, and -1 for "not known" as that in 64 bits without a sign.

use serde::de::{Deserialize, Deserializer, Error};

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Number {
    Whole(u64),
    Negative(i64),
    Float(f64),
    // Anything else, which is no number.
    Other(serde::de::IgnoredAny),
}

/// A whole number of at least zero.
///
/// Errors for what is none: it is not 0, but unknown.
pub(super) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    match Number::deserialize(from)? {
        Number::Whole(n) if n <= i64::MAX as u64 => Ok(n),
        Number::Float(f) if (0.0..i64::MAX as f64).contains(&f) => Ok(f as u64),
        _ => Err(D::Error::custom("this is no count")),
    }
}

/// A whole number, also below zero: 3.12 says -1 as 18446744073709551615. -1, which is "not known", for what is none.
pub(super) fn signed<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    Ok(match Number::deserialize(from)? {
        Number::Whole(n) => n.cast_signed(),
        Number::Negative(n) => n,
        Number::Float(f) if f >= i64::MAX as f64 => -1,
        Number::Float(f) => f as i64,
        Number::Other(_) => -1,
    })
}

/// The same, of few digits.
pub(super) fn small<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    signed(from).map(|n| i32::try_from(n).unwrap_or(0))
}

/// An amount: finite and at least zero.
///
/// Errors for what is none.
pub(super) fn amount<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    match Number::deserialize(from)? {
        Number::Whole(n) => Ok(n as f64),
        Number::Float(f) if f.is_finite() && f >= 0.0 => Ok(f),
        _ => Err(D::Error::custom("this is no amount")),
    }
}

/// The same; none for what is none.
pub(super) fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    Ok(match Number::deserialize(from)? {
        Number::Whole(n) => Some(n as f64),
        Number::Float(f) => Some(f).filter(|f| f.is_finite() && *f >= 0.0),
        Number::Negative(_) | Number::Other(_) => None,
    })
}
