//! Serde for types that travel as their text.

use serde::de::{self, Deserializer, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// Implements `Serialize` as `Display` and `Deserialize` as `FromStr`, bare numbers included.
macro_rules! serde_as_text {
    ($type:ty, $expecting:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::text_serde::deserialize(deserializer, $expecting)
            }
        }
    };
}
pub(crate) use serde_as_text;

pub(crate) fn deserialize<'de, D, T>(
    deserializer: D,
    expecting: &'static str,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let visitor = TextVisitor { expecting, value: PhantomData };
    // Compact formats do not say what comes next, and what we wrote was text.
    if deserializer.is_human_readable() {
        deserializer.deserialize_any(visitor)
    } else {
        deserializer.deserialize_str(visitor)
    }
}

struct TextVisitor<T> {
    expecting: &'static str,
    value: PhantomData<T>,
}

impl<T: FromStr<Err: fmt::Display>> TextVisitor<T> {
    /// A bare number means what its digits would mean as text, and is refused where they would be.
    fn parse<E: de::Error>(text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.expecting)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        Self::parse(text)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        Self::parse(&number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        Self::parse(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        // Display prints the shortest decimal that reads back as this number: what was in the file.
        Self::parse(&number.to_string())
    }
}
