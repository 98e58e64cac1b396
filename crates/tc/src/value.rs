//! Values of options: as a number of the kernel's, and as `tc` writes them.
//!
//! ```text
//!   Span 20 ms ──number(Micros)──► 20000 ──► four bytes of an attribute
//!              ──text()──────────► "20ms"
//! ```

use quell_units::{Bytes, Rate, Ratio, Span};

use crate::Handle;

/// What a number of the kernel's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things, bytes, choices, or yes and no: 32 bits.
    Count,
    /// The same in 8 bits.
    Byte,
    /// Bits, which `tc` writes in hexadecimal.
    Mask,
    /// The logarithm to the base of 2.
    Log2,
    Seconds,
    Micros,
    Nanos,
    /// Ticks of 64 ns.
    Ticks,
    /// Bytes per second in 32 bits, all set for "no limit".
    Rate32,
    /// Bytes per second in 64 bits, none set for "no limit".
    Rate64,
    /// A share of 2³² − 1.
    Share,
    /// A share that `tc` writes as a fraction.
    Fraction,
}

impl Unit {
    /// How many bytes a number has.
    pub(crate) fn width(self) -> usize {
        match self {
            Unit::Byte => 1,
            Unit::Rate64 => 8,
            _ => 4,
        }
    }
}

/// What an option may hold.
pub(crate) trait Value: Sized {
    /// As a number; what takes more than one is written by its kind.
    fn number(&self, _: Unit) -> u64 {
        0
    }

    /// From a number; none where it says that there is nothing.
    fn of(_number: u64, _: Unit) -> Option<Self> {
        None
    }

    /// As `tc` writes it.
    fn text(&self, unit: Unit) -> String;
}

/// The place of an option in its kind's struct, given or not.
pub(crate) trait Cell {
    fn number(&self, unit: Unit) -> Option<u64>;
    fn set(&mut self, number: u64, unit: Unit);
    fn text(&self, unit: Unit) -> Option<String>;
}

impl<T: Value> Cell for Option<T> {
    fn number(&self, unit: Unit) -> Option<u64> {
        self.as_ref().map(|value| value.number(unit))
    }

    fn set(&mut self, number: u64, unit: Unit) {
        *self = T::of(number, unit);
    }

    fn text(&self, unit: Unit) -> Option<String> {
        self.as_ref().map(|value| value.text(unit))
    }
}

/// A list, which is in no one number; empty where it was not given.
impl<T: Value> Cell for Vec<T> {
    fn number(&self, _: Unit) -> Option<u64> {
        None
    }

    fn set(&mut self, _: u64, _: Unit) {}

    fn text(&self, unit: Unit) -> Option<String> {
        let words: Vec<String> = self.iter().map(|value| value.text(unit)).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}

/// Whole numbers; those with a sign travel in 32 bits.
macro_rules! whole {
    ($($type:ty, $wide:ty, $read:ty;)*) => {$(
        impl Value for $type {
            fn number(&self, unit: Unit) -> u64 {
                match unit {
                    Unit::Log2 => self.checked_ilog2().unwrap_or(0).into(),
                    _ => u64::from(<$wide>::from(*self) as u32),
                }
            }

            fn of(number: u64, unit: Unit) -> Option<Self> {
                match unit {
                    Unit::Log2 => <$type>::checked_shl(1, u32::try_from(number).ok()?),
                    _ => <$type>::try_from(number as $read).ok(),
                }
            }

            fn text(&self, unit: Unit) -> String {
                if unit == Unit::Mask { format!("{self:#x}") } else { self.to_string() }
            }
        }
    )*};
}

whole! {
    u8, u32, u64;
    u16, u32, u64;
    u32, u32, u64;
    i16, i32, i32;
    i32, i32, i32;
}

impl Value for bool {
    fn number(&self, _: Unit) -> u64 {
        (*self).into()
    }

    fn of(number: u64, _: Unit) -> Option<Self> {
        Some(number != 0)
    }

    fn text(&self, _: Unit) -> String {
        self.to_string()
    }
}

impl Value for Bytes {
    fn number(&self, _: Unit) -> u64 {
        saturate(self.get()).into()
    }

    fn of(number: u64, _: Unit) -> Option<Self> {
        Some(Bytes::new(number))
    }

    // Without a unit: tc's "kb" is 1024 bytes, people's is not.
    fn text(&self, _: Unit) -> String {
        self.get().to_string()
    }
}

impl Value for Span {
    fn number(&self, unit: Unit) -> u64 {
        saturate(self.nanos() / nanos_in(unit)).into()
    }

    fn of(number: u64, unit: Unit) -> Option<Self> {
        Some(Span::from_nanos(number.saturating_mul(nanos_in(unit))))
    }

    fn text(&self, unit: Unit) -> String {
        if unit == Unit::Seconds { self.number(unit).to_string() } else { time(*self) }
    }
}

fn nanos_in(unit: Unit) -> u64 {
    match unit {
        Unit::Seconds => 1_000_000_000,
        Unit::Micros => 1_000,
        Unit::Ticks => 64,
        _ => 1,
    }
}

impl Value for Rate {
    fn number(&self, unit: Unit) -> u64 {
        let rate = self.bytes_per_second();
        if unit == Unit::Rate32 { saturate(rate).into() } else { rate }
    }

    fn of(number: u64, unit: Unit) -> Option<Self> {
        let unlimited = if unit == Unit::Rate32 { u32::MAX.into() } else { 0 };
        (number != unlimited).then(|| rate(number))
    }

    fn text(&self, _: Unit) -> String {
        self.to_string()
    }
}

impl Value for Ratio {
    fn number(&self, _: Unit) -> u64 {
        self.to_u32_scaled().into()
    }

    fn of(number: u64, _: Unit) -> Option<Self> {
        Some(ratio(saturate(number)))
    }

    fn text(&self, unit: Unit) -> String {
        if unit == Unit::Fraction { self.as_f64().to_string() } else { self.to_string() }
    }
}

/// The minor: the major is the queue's own, which its kind's function knows.
impl Value for Handle {
    fn number(&self, _: Unit) -> u64 {
        self.minor.into()
    }

    fn text(&self, _: Unit) -> String {
        format!("{:x}", self.minor)
    }
}

/// At most what 32 bits hold.
pub(crate) fn saturate(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// A count of bytes in 32 bits; 0 where it is not given.
pub(crate) fn size(bytes: Option<Bytes>) -> u32 {
    bytes.map_or(0, |bytes| saturate(bytes.get()))
}

/// A rate from bytes per second.
pub(crate) fn rate(bytes_per_second: u64) -> Rate {
    Rate::from_bps(bytes_per_second.saturating_mul(8))
}

/// The share of 2³² − 1, rounded to what a [`Ratio`] holds.
pub(crate) fn ratio(scaled: u32) -> Ratio {
    let ppb = u128::from(scaled) * 1_000_000_000;
    let rounded = (ppb + u128::from(u32::MAX) / 2) / u128::from(u32::MAX);
    Ratio::from_ppb(rounded as u64).unwrap_or_default()
}

/// In the largest unit that tc has for it and that keeps it whole.
pub(crate) fn time(span: Span) -> String {
    let nanos = span.nanos();
    [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")]
        .into_iter()
        .find(|(size, _)| nanos > 0 && nanos.is_multiple_of(*size))
        .map_or_else(|| format!("{nanos}ns"), |(size, unit)| format!("{}{unit}", nanos / size))
}
