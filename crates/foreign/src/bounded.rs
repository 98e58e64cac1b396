//! Lists out of JSON that end where a budget does, so that a short file can't become much memory.

use crate::error::TOO_MANY;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

/// How many more elements may be read.
#[derive(Debug)]
pub(crate) struct Budget(Cell<usize>);

impl Budget {
    pub fn new(most: usize) -> Self {
        Self(Cell::new(most))
    }

    fn take<E: Error>(&self) -> Result<(), E> {
        let left = self.0.get().checked_sub(1).ok_or_else(|| E::custom(TOO_MANY))?;
        self.0.set(left);
        Ok(())
    }
}

/// A list, as far as the budget goes; none where there stands null.
pub(crate) struct ListOf<'a, T>(pub &'a Budget, pub PhantomData<T>);

impl<'a, T> ListOf<'a, T> {
    pub fn new(budget: &'a Budget) -> Self {
        Self(budget, PhantomData)
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for ListOf<'_, T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Vec<T>, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListOf<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: Error>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(value) = list.next_element()? {
            self.0.take()?;
            all.push(value);
        }
        Ok(all)
    }
}

/// Lists by name, in the file's order; names and elements count.
pub(crate) struct ListsOf<'a, T>(pub &'a Budget, pub PhantomData<T>);

impl<'a, T> ListsOf<'a, T> {
    pub fn new(budget: &'a Budget) -> Self {
        Self(budget, PhantomData)
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for ListsOf<'_, T> {
    type Value = Vec<(String, Vec<T>)>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListsOf<'_, T> {
    type Value = Vec<(String, Vec<T>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lists by name")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(name) = map.next_key()? {
            self.0.take()?;
            all.push((name, map.next_value_seed(ListOf::new(self.0))?));
        }
        Ok(all)
    }
}

/// Values by name, at most so many; the rest of the file is refused with them.
#[derive(Debug)]
pub(crate) struct Few<T, const MOST: usize>(pub Vec<(String, T)>);

impl<T, const MOST: usize> Default for Few<T, MOST> {
    fn default() -> Self {
        Few(Vec::new())
    }
}

impl<T, const MOST: usize> Few<T, MOST> {
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Few<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visit<T, const MOST: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Visit<T, MOST> {
            type Value = Few<T, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("values by name")
            }

            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Few::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    if all.len() == MOST {
                        return Err(A::Error::custom(TOO_MANY));
                    }
                    all.push(pair);
                }
                Ok(Few(all))
            }
        }

        from.deserialize_any(Visit(PhantomData))
    }
}

/// A list of at most so many; the rest of the file is refused with more.
#[derive(Debug)]
pub(crate) struct AtMost<T, const MOST: usize>(pub Vec<T>);

impl<T, const MOST: usize> Default for AtMost<T, MOST> {
    fn default() -> Self {
        AtMost(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for AtMost<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        ListOf::new(&Budget::new(MOST)).deserialize(from).map(AtMost)
    }
}
