//! Text of the other end, read so that it can be shown: see [`crate::text`].

use crate::text::printable;
use serde::de::{Deserialize, Deserializer};

const NAME: usize = 64;
/// Longest line of what a server printed.
const LINE: usize = 1000;

pub(super) fn word<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(|text| printable(&text, NAME)))
}

pub(super) fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(printable(&String::deserialize(from)?, NAME))
}

pub(super) fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let lines = |text: String| {
        let lines: Vec<_> = text.split('\n').map(|line| printable(line, LINE)).collect();
        lines.join("\n")
    };
    Ok(Option::<String>::deserialize(from)?.map(lines))
}
