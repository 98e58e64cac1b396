//! A figure, with its unit and where it was read.

use serde::{Serialize, Serializer};
use std::fmt;

/// One thing that was seen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// Its name where it was read, as "ListenOverflows".
    pub name: String,
    /// Its value.
    pub value: Value,
    /// Its unit; empty for counts and texts.
    pub unit: &'static str,
    /// Where it was read, as "/proc/net/netstat".
    pub source: String,
}

/// The value of an [`Evidence`].
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Counted, exact.
    Count(u64),
    /// Measured or calculated.
    Number(f64),
    /// Anything else.
    Text(String),
}

impl Evidence {
    /// A count without a unit.
    pub fn count(name: impl Into<String>, value: u64, source: impl Into<String>) -> Self {
        Self::of(name, Value::Count(value), "", source)
    }

    /// A count with a unit.
    pub fn amount(
        name: impl Into<String>,
        value: u64,
        unit: &'static str,
        source: impl Into<String>,
    ) -> Self {
        Self::of(name, Value::Count(value), unit, source)
    }

    /// A measured or calculated number.
    pub fn number(
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        source: impl Into<String>,
    ) -> Self {
        Self::of(name, Value::Number(value), unit, source)
    }

    /// A text, as a setting's value.
    pub fn text(
        name: impl Into<String>,
        value: impl Into<String>,
        source: impl Into<String>,
    ) -> Self {
        Self::of(name, Value::Text(value.into()), "", source)
    }

    fn of(
        name: impl Into<String>,
        value: Value,
        unit: &'static str,
        source: impl Into<String>,
    ) -> Self {
        Self { name: name.into(), value, unit, source: source.into() }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.value)?;
        match self.unit {
            "" => Ok(()),
            unit => write!(f, " {unit}"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Number(number) if number.abs() >= 100.0 => write!(f, "{number:.0}"),
            Self::Number(number) if number.abs() >= 0.995 => write!(f, "{number:.1}"),
            Self::Number(number) => write!(f, "{number:.3}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u64(*count),
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}
