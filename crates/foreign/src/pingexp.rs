//! Files of ping-exp (`-w`): pickles of Python 2 or 3, decoded as data (`serde-pickle`). Nothing in them is executed; what names functions is
//! refused.
//!
//! ```text
//!   {'experiments': {ID: {'responses': [(icmp_seq, ttl, ms), ...],
//!                         'summary': {'transmitted', 'received', 'packet_loss', 'time'}, 'host', 'qos'}},
//!    'start-time', 'end-time', 'ping_count', 'ping_interval'}
//! ```
//!
//! Numbers may also be texts: ping-exp took them from what `ping` printed.

use crate::bounds::{LONGEST, MOST_SAMPLES, MOST_SECONDS};
use crate::error::{ForeignError, TOO_MANY};
use crate::imported::{Imported, Stream, Tool};
use crate::replies::{self, PacketCounts, PingReply};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::cell::Cell;
use std::fmt;

/// ping-exp's own time between packets, for files that don't tell it.
const USUAL_INTERVAL_S: f64 = 0.2;

/// Values in values; ping-exp writes five.
const DEEPEST: u32 = 16;

/// Whether these bytes begin as a pickle of a dictionary does, in any protocol.
pub(crate) fn is_pickle(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80, 0..=5, ..] | [b'(', b'd', ..] | [b'}', b'q' | b'.', ..])
}

pub(crate) fn read(bytes: &[u8]) -> Result<Imported, ForeignError> {
    let left = Cell::new(8 * MOST_SAMPLES);
    let mut from = serde_pickle::Deserializer::new(bytes, serde_pickle::DeOptions::new());
    let whole = Bounded { left: &left, depth: 0 }.deserialize(&mut from).map_err(pickle)?;
    let Some(listed) = whole.get("experiments") else {
        return Err(wrong("`experiments`", "it is not there"));
    };
    let PickleValue::Dict(listed) = listed else {
        return Err(wrong("`experiments`", "it is no dictionary of streams"));
    };
    let number = |key| whole.get(key).and_then(PickleValue::number);
    let interval_s = number("ping_interval").filter(|s| (1e-6..=86_400.0).contains(s));
    let step_ns = (interval_s.unwrap_or(USUAL_INTERVAL_S) * 1e9).round() as i64;
    let planned = number("ping_count").and_then(count);
    let mut imported = Imported::new(Tool::PingExp);
    let mut left = MOST_SAMPLES;
    for (name, value) in listed {
        let name = name.words().ok_or_else(|| wrong("the name of a stream", "it is no text"))?;
        let stream = stream(name, value, planned, step_ns, &mut left)?;
        // Of a key that is there twice the later one counts, as in Python.
        imported.streams.retain(|other| other.name != stream.name);
        imported.streams.push(stream);
    }
    let sent = imported.streams.iter().filter_map(|s| s.packets.last()).map(|p| p.seq + 1).max();
    imported.window_ns = sent.and_then(|n| n.checked_mul(step_ns.unsigned_abs()));
    imported.started_s = number("start-time");
    let every = interval_s.unwrap_or(USUAL_INTERVAL_S);
    let whose = if interval_s.is_some() { "" } else { " (ping-exp's default; the file has none)" };
    imported.notes.push(format!(
        "ping-exp kept no sending times: packets stand in the order of their numbers, every {every} s{whose}."
    ));
    imported.notes.push(
        "It kept neither sizes nor the direction of loss; missing numbers count as lost.".into(),
    );
    Ok(imported)
}

fn stream(
    name: String,
    value: &PickleValue,
    planned: Option<u64>,
    step_ns: i64,
    left: &mut usize,
) -> Result<Stream, ForeignError> {
    let listed = match value.get("responses") {
        Some(PickleValue::List(listed)) => listed.as_slice(),
        // A host that never answered.
        None | Some(PickleValue::Other) => &[],
        Some(_) => return Err(wrong(&format!("`responses` of {name:?}"), "it is no list")),
    };
    let mut replies = Vec::with_capacity(listed.len());
    for (index, item) in listed.iter().enumerate() {
        replies.push(reply(item).ok_or_else(|| {
            let place = format!("`responses[{index}]` of {name:?}");
            wrong(&place, "it is not (icmp_seq, ttl, milliseconds), not negative")
        })?);
    }
    let counted = |key| value.get("summary")?.get(key)?.number().and_then(count);
    let sent = counted("transmitted").or(planned).unwrap_or(0);
    let text = |key| value.get(key).and_then(PickleValue::words);
    let mut facts: Vec<_> = text("host").map(|host| ("host", host)).into_iter().collect();
    facts.extend(text("qos").map(|tos| ("tos", tos)));
    let ttls = || replies.iter().filter_map(|r| r.ttl);
    if let Some((least, most)) = ttls().min().zip(ttls().max()) {
        let words = if least == most { least.to_string() } else { format!("{least} to {most}") };
        facts.push(("ttl", words));
    }
    for key in ["transmitted", "received"] {
        facts.extend(counted(key).map(|n| (key, n.to_string())));
    }
    let counts = PacketCounts { sent, ..PacketCounts::default() };
    let packets = replies::packets(&replies, &counts, step_ns, left)?;
    Ok(Stream { name, packets, facts, ..Stream::default() })
}

fn reply(item: &PickleValue) -> Option<PingReply> {
    let PickleValue::List(parts) = item else { return None };
    let [seq, ttl, ms] = &parts[..] else { return None };
    let rtt_ms = ms.number().filter(|ms| (0.0..=MOST_SECONDS * 1e3).contains(ms))?;
    let ttl = ttl.number().and_then(count);
    Some(PingReply { ttl, ..PingReply::answered(seq.number().and_then(count)?, rtt_ms) })
}

/// A value of a pickle, as far as ping-exp has use for it.
enum PickleValue {
    Number(f64),
    Text(String),
    List(Vec<PickleValue>),
    Dict(Vec<(PickleValue, PickleValue)>),
    Other,
}

impl PickleValue {
    /// The value of a key in a dictionary; the later one where it is there twice.
    fn get(&self, key: &str) -> Option<&PickleValue> {
        let PickleValue::Dict(pairs) = self else { return None };
        let is_key = |found: &PickleValue| matches!(found, PickleValue::Text(text) if text == key);
        pairs.iter().rev().find(|(found, _)| is_key(found)).map(|(_, value)| value)
    }

    fn number(&self) -> Option<f64> {
        match self {
            PickleValue::Number(number) => Some(*number),
            PickleValue::Text(text) => text.trim().trim_end_matches('%').parse().ok(),
            _ => None,
        }
        .filter(|number: &f64| number.is_finite())
    }

    fn words(&self) -> Option<String> {
        match self {
            PickleValue::Text(text) => Some(text.clone()).filter(|text| text.len() <= LONGEST),
            PickleValue::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }
}

fn count(value: f64) -> Option<u64> {
    (value >= 0.0 && value <= 2f64.powi(53) && value.fract() == 0.0).then_some(value as u64)
}

fn wrong(place: &str, why: &str) -> ForeignError {
    ForeignError::Value { place: place.to_owned(), why: why.to_owned() }
}

fn pickle(error: serde_pickle::Error) -> ForeignError {
    match error.to_string() {
        why if why.contains(TOO_MANY) => ForeignError::TooMany,
        why => ForeignError::Pickle { why: why.escape_debug().take(200).collect() },
    }
}

/// Reads a value, as many parts as are left and no deeper than [`DEEPEST`]: a pickle may name one list again and again.
#[derive(Clone, Copy)]
struct Bounded<'a> {
    left: &'a Cell<usize>,
    depth: u32,
}

impl Bounded<'_> {
    fn inside<E: Error>(self) -> Result<Self, E> {
        let left = self.left.get().checked_sub(1).filter(|_| self.depth < DEEPEST);
        self.left.set(left.ok_or_else(|| E::custom(TOO_MANY))?);
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = PickleValue;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<PickleValue, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = PickleValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain data")
    }

    fn visit_unit<E: Error>(self) -> Result<PickleValue, E> {
        Ok(PickleValue::Other)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<PickleValue, E> {
        Ok(PickleValue::Other)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<PickleValue, E> {
        Ok(PickleValue::Number(number as f64))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<PickleValue, E> {
        Ok(PickleValue::Number(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<PickleValue, E> {
        Ok(PickleValue::Text(text.to_owned()))
    }

    /// Python 2's texts: UTF-8, else Latin-1, which has a character for every byte.
    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<PickleValue, E> {
        let latin1 = || bytes.iter().copied().map(char::from).collect();
        Ok(PickleValue::Text(str::from_utf8(bytes).map_or_else(|_| latin1(), str::to_owned)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<PickleValue, A::Error> {
        let mut all = Vec::new();
        while let Some(value) = list.next_element_seed(self.inside()?)? {
            all.push(value);
        }
        Ok(PickleValue::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PickleValue, A::Error> {
        let mut all = Vec::new();
        while let Some(key) = map.next_key_seed(self.inside()?)? {
            all.push((key, map.next_value_seed(self.inside()?)?));
        }
        Ok(PickleValue::Dict(all))
    }
}
