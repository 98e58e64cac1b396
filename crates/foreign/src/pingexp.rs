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
use crate::order;
use quell_model::{EchoSample, EchoStatus};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::cell::Cell;
use std::fmt;

/// ping-exp's own time between packets, for files that don't tell it.
const USUAL_INTERVAL_S: f64 = 0.2;

/// Values in values; ping-exp writes five.
const DEEPEST: u32 = 16;

/// Numbers of packets in ICMP have 16 bits.
const WRAP: u64 = 1 << 16;

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

/// One reply: `icmp_seq` of ping, and the round-trip time in milliseconds.
struct PingReply {
    seq: u64,
    ttl: Option<u64>,
    rtt_ms: f64,
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
    let packets = packets(&replies, sent, step_ns, left)?;
    Ok(Stream { name, packets, facts, ..Stream::default() })
}

fn reply(item: &PickleValue) -> Option<PingReply> {
    let PickleValue::List(parts) = item else { return None };
    let [seq, ttl, ms] = &parts[..] else { return None };
    let rtt_ms = ms.number().filter(|ms| (0.0..=MOST_SECONDS * 1e3).contains(ms))?;
    Some(PingReply {
        seq: seq.number().and_then(count)?,
        ttl: ttl.number().and_then(count),
        rtt_ms,
    })
}

/// All packets in order of their numbers, further replies after the first: what has none was lost.
fn packets(
    replies: &[PingReply],
    sent: u64,
    step_ns: i64,
    left: &mut usize,
) -> Result<Vec<EchoSample>, ForeignError> {
    let numbers = numbers(replies, sent);
    let all = sent.max(numbers.iter().max().map_or(0, |n| n + 1));
    let rows = usize::try_from(all).unwrap_or(usize::MAX).saturating_add(replies.len());
    *left = left.checked_sub(rows).ok_or(ForeignError::TooMany)?;
    let mut replies: Vec<(u64, f64)> =
        numbers.into_iter().zip(replies.iter().map(|r| r.rtt_ms)).collect();
    // Stable: of several replies to one packet, the one that ping printed first is its answer.
    replies.sort_by_key(|(seq, _)| *seq);
    let mut replies = replies.into_iter().peekable();
    let mut packets = Vec::new();
    for seq in 0..all {
        let t_ns = i64::try_from(seq).unwrap_or(i64::MAX).saturating_mul(step_ns);
        let mut status = EchoStatus::Ok;
        while let Some((_, ms)) = replies.next_if(|(number, _)| *number == seq) {
            let rtt_ns = Some((ms * 1e6).round() as u64);
            packets.push(EchoSample { rtt_ns, ..EchoSample::new(t_ns, seq, 0, status) });
            status = EchoStatus::Duplicate;
        }
        if status == EchoStatus::Ok {
            packets.push(EchoSample::new(t_ns, seq, 0, EchoStatus::Lost));
        }
    }
    order::arrivals(&mut packets);
    Ok(packets)
}

/// Numbers of the replies from 0. `ping` counts from 1, and from 0 in old versions; a number beyond 16 bits begins anew.
fn numbers(replies: &[PingReply], sent: u64) -> Vec<u64> {
    let wraps = sent >= WRAP;
    let looked_at = if wraps { 1 } else { usize::MAX };
    let first = u64::from(!replies.iter().take(looked_at).any(|r| r.seq == 0));
    let (mut begun, mut last) = (0, 0);
    let number = |seq: u64| {
        if wraps && seq < WRAP {
            // Replies may overtake each other, but not by half of all numbers.
            if seq + WRAP / 2 < last {
                begun += WRAP;
            }
            last = seq;
        }
        (begun + seq).saturating_sub(first)
    };
    replies.iter().map(|r| r.seq).map(number).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn told(replies: &[(u64, f64)], sent: u64) -> String {
        let reply =
            |(seq, rtt_ms): &(u64, f64)| PingReply { seq: *seq, ttl: None, rtt_ms: *rtt_ms };
        let replies: Vec<_> = replies.iter().map(reply).collect();
        let packets = packets(&replies, sent, 1, &mut { MOST_SAMPLES }).expect("they fit");
        let one = |p: &EchoSample| match p.rtt_ns {
            Some(ns) => format!("{}:{} {}", p.seq, ns / 1_000_000, p.status.name()),
            None => format!("{}:lost", p.seq),
        };
        packets.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn missing_numbers_are_lost_up_to_the_last_packet_sent() {
        let replies = [(2, 20.0), (1, 21.0), (4, 22.0), (4, 30.0)];
        let wanted = "0:21 ok, 1:20 ok, 2:lost, 3:22 ok, 3:30 duplicate, 4:lost, 5:lost";
        assert_eq!(told(&replies, 6), wanted);
        assert_eq!(told(&[(0, 1.0), (2, 3.0)], 3), "0:1 ok, 1:lost, 2:3 ok", "of an old ping");
    }

    #[test]
    fn numbers_that_begin_anew_go_on() {
        let replies: Vec<(u64, f64)> =
            (1..=70_000_u64).filter(|n| n % 1000 != 0).map(|n| (n % WRAP, 1.0)).collect();
        let told = told(&replies, 70_000);
        let lost: Vec<u64> =
            told.split(", ").filter_map(|p| p.strip_suffix(":lost")?.parse().ok()).collect();
        assert_eq!(lost, (1..=70).map(|n| n * 1000 - 1).collect::<Vec<_>>());
    }
}
