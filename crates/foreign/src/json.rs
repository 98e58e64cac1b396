//! How the JSON of other programs is read: null is as if it were not there, and objects keep their order.

use crate::error::ForeignError;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ForeignError> {
    serde_json::from_str(text).map_err(|e| ForeignError::json(&e))
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
