//! A figure, with its unit and where it was read.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Its name where it was read, as "ListenOverflows".
    pub name: String,
    pub value: Value,
    /// Its unit; empty for counts and texts.
    pub unit: Cow<'static, str>,
    /// Where it was read, as "/proc/net/netstat".
    pub source: String,
    /// What a person is told of it, where name, value and unit don't say it; empty where the evidence before it tells it too.
    #[serde(rename = "says", default, skip_serializing_if = "says_nothing")]
    pub words: Option<String>,
}

fn says_nothing(words: &Option<String>) -> bool {
    words.as_ref().is_none_or(String::is_empty)
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Count(u64),
    Part { part: u64, of: u64 },
    Number(f64),
    Text(String),
}

impl Evidence {
    pub fn count(name: impl Into<String>, value: u64, source: impl Into<String>) -> Self {
        Self::of(name, Value::Count(value), "", source)
    }

    pub fn amount(
        name: impl Into<String>,
        value: u64,
        unit: &'static str,
        source: impl Into<String>,
    ) -> Self {
        Self::of(name, Value::Count(value), unit, source)
    }

    pub fn part(
        name: impl Into<String>,
        part: u64,
        of: u64,
        unit: &'static str,
        source: impl Into<String>,
    ) -> Self {
        Self::of(name, Value::Part { part, of }, unit, source)
    }

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
        Self { name: name.into(), value, unit: unit.into(), source: source.into(), words: None }
    }

    /// Tells it to a person in these words.
    #[must_use]
    pub fn in_words(mut self, words: impl Into<String>) -> Self {
        self.words = Some(words.into());
        self
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(words) = &self.words {
            return f.write_str(words);
        }
        write!(f, "{} {}", self.name, self.value)?;
        match &*self.unit {
            "" => Ok(()),
            unit => write!(f, " {unit}"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Part { part, of } => write!(f, "{part} of {of}"),
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
            Self::Part { part, of } => {
                let mut value = serializer.serialize_struct("Part", 2)?;
                value.serialize_field("part", part)?;
                value.serialize_field("of", of)?;
                value.end()
            }
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}
