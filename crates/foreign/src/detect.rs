//! Whose file it is: by the keys of the JSON's outermost object, read as far as it goes.

use crate::imported::Tool;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use std::cell::RefCell;
use std::fmt;

/// The program that writes such files; none where no known one does.
pub(crate) fn tool(text: &str) -> Option<Tool> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let keys = RefCell::new(Vec::new());
    // A file that breaks off has told enough by then.
    let _ = serde_json::Deserializer::from_str(text).deserialize_map(Keys(&keys));
    let keys = keys.into_inner();
    let has = |name: &str| keys.iter().any(|key| key == name);
    if has("round_trips") || has("system_info") && has("stats") {
        Some(Tool::Irtt)
    } else if has("raw_values") || has("x_values") || has("metadata") && has("results") {
        Some(Tool::Flent)
    } else if has("intervals")
        || has("start") && has("end")
        || has("event") && has("data")
        || has("start")
    {
        Some(Tool::Iperf3)
    } else {
        None
    }
}

/// Most keys that are looked at, and the longest that counts.
const MOST: usize = 64;

struct Keys<'a>(&'a RefCell<Vec<String>>);

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let mut keys = self.0.borrow_mut();
            if keys.len() < MOST && key.len() < MOST {
                keys.push(key);
            }
            drop(keys);
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}
