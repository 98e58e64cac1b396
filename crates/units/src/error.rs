//! Why a text was refused, in words that say what to write instead.

use thiserror::Error;

/// How much of a refused text is repeated in the error.
const SHOWN_CHARS: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{input:?} is not {quantity}: {reason}; write {allowed}")]
pub struct UnitError {
    pub input: String,
    /// What was wanted, with its article: "a rate".
    pub quantity: &'static str,
    pub reason: Reason,
    /// The allowed forms, with an example.
    pub allowed: &'static str,
}

impl UnitError {
    pub(crate) fn new(
        input: &str,
        quantity: &'static str,
        reason: Reason,
        allowed: &'static str,
    ) -> Self {
        Self { input: shorten(input), quantity, reason, allowed }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    #[error("it is empty")]
    Empty,
    /// It does not start with decimal digits (this includes NaN and infinity).
    #[error("it does not start with a decimal number")]
    NotANumber,
    #[error("it is negative")]
    Negative,
    /// A number alone, where the unit decides the meaning.
    #[error("it has no unit")]
    MissingUnit,
    /// The number is followed by something that is no unit of this kind.
    #[error("{0:?} is not one of its units")]
    UnknownUnit(String),
    /// The unit means different things to different people.
    #[error("{unit:?} is read in two ways: {meanings}")]
    AmbiguousUnit { unit: String, meanings: &'static str },
    /// Above the largest value; the field says what that is.
    #[error("it is above {0}")]
    TooLarge(&'static str),
    /// Not a whole number of the smallest step; the field says what that is.
    #[error("it is not a whole number of {0}")]
    TooFine(&'static str),
    /// More digits than any value of any kind needs.
    #[error("it has too many digits")]
    TooManyDigits,
    #[error("it is zero")]
    Zero,
    #[error("it is neither a number nor a known name")]
    UnknownName,
}

/// Keeps an error readable when somebody hands over a whole file as a value.
pub(crate) fn shorten(text: &str) -> String {
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(SHOWN_CHARS).collect();
    if chars.next().is_some() { format!("{head}…") } else { head }
}
