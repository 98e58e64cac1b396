//! How the JSON of other programs is read: null is as if it were not there, objects keep their order, and a value that is no number takes no other
//! with it.

use crate::error::ForeignError;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;
use std::marker::PhantomData;

pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ForeignError> {
    serde_json::from_str(text).map_err(|e| ForeignError::json(&e))
}

/// A number where one is expected; NaN for what is none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Number(pub Option<f64>);

/// A whole number where one is expected; the least of all for what is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Integer(pub Option<i64>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = |text: &str| text.trim().trim_end_matches('%').parse().unwrap_or(f64::NAN);
        Ok(Number(match Value::deserialize(from)? {
            Value::Null => None,
            Value::Number(n) => n.as_f64(),
            Value::String(text) => Some(number(&text)),
            _ => Some(f64::NAN),
        }))
    }
}

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Integer(match Value::deserialize(from)? {
            Value::Null => None,
            other => Some(other.as_i64().unwrap_or(i64::MIN)),
        }))
    }
}

/// A text, or a number as one.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(n) => Some(n.to_string()),
        _ => None,
    }
}

pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}

pub(crate) fn in_order<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> Result<Vec<(String, T)>, D::Error> {
    struct Members<T>(PhantomData<T>);

    impl<'de, T: Default + Deserialize<'de>> Visitor<'de> for Members<T> {
        type Value = Vec<(String, T)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some((name, value)) = map.next_entry::<String, Option<T>>()? {
                all.push((name, value.unwrap_or_default()));
            }
            Ok(all)
        }
    }

    from.deserialize_any(Members(PhantomData))
}
