//! Taking tables apart by hand.
//!
//! A queue's table holds both what every queue has (`handle`, `class`, `filter`) and what its kind has. serde's
//! `flatten` would do that, but forget to refuse unknown keys; so tables are read as maps, the common keys
//! taken out, and the rest must be the kind's own.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Reads all that is left as one typed value; an unknown key is an error that names `what`.
pub(crate) fn parse<T: DeserializeOwned>(
    what: &str,
    fields: Map<String, Value>,
) -> Result<T, String> {
    serde_json::from_value(Value::Object(fields)).map_err(|error| format!("{what}: {error}"))
}

/// Takes one key out, if it is there.
pub(crate) fn take<T: DeserializeOwned>(
    what: &str,
    fields: &mut Map<String, Value>,
    key: &str,
) -> Result<Option<T>, String> {
    fields
        .remove(key)
        .map(|value| {
            serde_json::from_value(value).map_err(|error| format!("{what}: {key}: {error}"))
        })
        .transpose()
}

/// Takes one key out that holds one table (or text) or a list of them.
pub(crate) fn take_list(fields: &mut Map<String, Value>, key: &str) -> Vec<Value> {
    match fields.remove(key) {
        None => Vec::new(),
        Some(Value::Array(items)) => items,
        Some(one) => vec![one],
    }
}

/// The table behind a value, or an error that says what was there instead.
pub(crate) fn table(what: &str, value: Value) -> Result<Map<String, Value>, String> {
    match value {
        Value::Object(map) => Ok(map),
        other => Err(format!("{what}: expected a table, found {other}")),
    }
}

/// A value's fields without those that were not given.
pub(crate) fn of<T: Serialize>(options: &T) -> Map<String, Value> {
    match serde_json::to_value(options) {
        Ok(Value::Object(map)) => map.into_iter().filter(|(_, value)| given(value)).collect(),
        _ => Map::new(),
    }
}

/// An option that was not given is null, or an empty list.
fn given(value: &Value) -> bool {
    !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
}

/// An unknown kind, with all that there are and the nearest.
pub(crate) fn unknown_kind(what: &str, kind: &str, known: &[&str]) -> String {
    let nearest = quell_units::nearest::nearest(kind, known);
    let hint = nearest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
    format!("unknown {what} kind `{kind}`{hint}; there are {}", known.join(", "))
}
