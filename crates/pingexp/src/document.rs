//! What ping-exp measured, from the values of its pickle.
//!
//! ```text
//!   {'experiments': {ID: {'responses': [(icmp_seq, ttl, ms), ...],
//!                         'summary': {'transmitted', 'received', 'packet_loss', 'time'},
//!                         'rtt_summary': {'min', 'avg', 'max', 'mdev'}, 'host', 'qos'}},
//!    'start-time', 'end-time', 'ping_count', 'ping_interval'}
//! ```
//!
//! Numbers may also be texts: ping-exp took them from what `ping` printed.

use crate::value::{Id, Value, Values};
use crate::{MOST_PACKETS, PickleError};

/// A file of ping-exp.
#[derive(Debug, Clone, PartialEq)]
pub struct PingExp {
    /// The streams, in the file's order.
    pub experiments: Vec<Experiment>,
    /// When it started, in seconds since 1970 (UTC), where the file has a number there.
    pub started: Option<f64>,
    /// When it ended.
    pub ended: Option<f64>,
    /// Packets that each stream was to send.
    pub count: Option<u64>,
    /// Seconds between packets of a stream.
    pub interval_s: Option<f64>,
}

/// One stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Its name.
    pub id: String,
    /// The host that was asked.
    pub host: String,
    /// The TOS byte as it was given, where there was one.
    pub tos: Option<String>,
    /// The replies, in the order in which `ping` printed them.
    pub replies: Vec<Reply>,
    /// What `ping` printed at its end, where it did.
    pub summary: Option<Summary>,
}

/// One reply.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reply {
    /// `icmp_seq` of ping: from 0 or 1, by its version; 16 bits that begin anew.
    pub seq: u64,
    /// Time to live of the reply.
    pub ttl: Option<u8>,
    /// Round-trip time in milliseconds, finite and not negative.
    pub rtt_ms: f64,
}

/// Counts that `ping` printed at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Packets sent.
    pub transmitted: u64,
    /// Replies received.
    pub received: u64,
}

/// Takes a file's parts from its values.
pub(crate) fn of(values: &Values, root: Id) -> Result<PingExp, PickleError> {
    let top = Place { values, id: root, name: "the whole" };
    top.dict("a dictionary")?;
    let listed = top.get("experiments").ok_or_else(|| PickleError::Shape {
        place: "`experiments` of the whole".into(),
        wanted: "a dictionary of streams",
        found: "not there",
    })?;
    let mut left = MOST_PACKETS;
    let mut experiments: Vec<Experiment> = Vec::new();
    for (key, value) in listed.dict("a dictionary of streams")? {
        let name = words(values.get(*key)).filter(|name| name.len() <= LONGEST);
        let name = name.ok_or_else(|| PickleError::Shape {
            place: "the name of a stream".into(),
            wanted: "a text of at most 255 bytes",
            found: values.get(*key).kind(),
        })?;
        let read = experiment(values, *value, &name, &mut left)?;
        // Of a key that is there twice the later one counts, as in Python.
        match experiments.iter_mut().find(|e| e.id == name) {
            Some(known) => *known = read,
            None => experiments.push(read),
        }
    }
    let number = |key| top.get(key).and_then(|p| number(values.get(p.id)));
    Ok(PingExp {
        experiments,
        started: number("start-time"),
        ended: number("end-time"),
        count: number("ping_count").and_then(whole),
        interval_s: number("ping_interval").filter(|s| *s > 0.0),
    })
}

/// Most streams of one file: names are compared with each other.
const MOST_STREAMS: usize = 4096;

/// Longest name of a stream, a host or a TOS value. One text may be named by every stream, and each gets its own copy.
const LONGEST: usize = 255;

fn experiment(
    values: &Values,
    id: Id,
    name: &str,
    left: &mut usize,
) -> Result<Experiment, PickleError> {
    let shape = |part: &str, wanted, found| PickleError::Shape {
        place: format!("{part} of the stream {}", shown(name)),
        wanted,
        found,
    };
    let place = Place { values, id, name };
    let fields = match values.get(id) {
        Value::Dict(_) => place,
        other => return Err(shape("the data", "a dictionary", other.kind())),
    };
    let listed = match fields.get("responses").map(|p| values.get(p.id)) {
        Some(Value::List(items) | Value::Tuple(items)) => items.as_slice(),
        // A host that never answered.
        None | Some(Value::None) => &[],
        Some(other) => return Err(shape("`responses`", "a list", other.kind())),
    };
    *left =
        left.checked_sub(listed.len() + MOST_PACKETS / MOST_STREAMS).ok_or(PickleError::TooMany)?;
    let mut replies = Vec::with_capacity(listed.len());
    for (index, item) in listed.iter().enumerate() {
        let item = values.get(*item);
        replies.push(reply(values, item).ok_or_else(|| {
            let wanted = "(icmp_seq, ttl, milliseconds), not negative";
            shape(&format!("`responses[{index}]`"), wanted, item.kind())
        })?);
    }
    let field = |key| {
        let words = fields.get(key).and_then(|p| words(values.get(p.id)));
        words.filter(|words| words.len() <= LONGEST)
    };
    let counted = fields.get("summary").and_then(|summary| {
        let count = |key| summary.get(key).and_then(|p| number(values.get(p.id))).and_then(whole);
        Some(Summary { transmitted: count("transmitted")?, received: count("received")? })
    });
    Ok(Experiment {
        id: name.to_owned(),
        host: field("host").unwrap_or_default(),
        tos: field("qos"),
        replies,
        summary: counted,
    })
}

fn reply(values: &Values, item: &Value) -> Option<Reply> {
    let (Value::Tuple(parts) | Value::List(parts)) = item else { return None };
    let [seq, ttl, ms] = parts[..] else { return None };
    let seq = number(values.get(seq)).and_then(whole)?;
    let rtt_ms = number(values.get(ms)).filter(|ms| (0.0..=MOST_MS).contains(ms))?;
    let ttl = number(values.get(ttl)).and_then(whole).and_then(|t| u8::try_from(t).ok());
    Some(Reply { seq, ttl, rtt_ms })
}

/// Longest round-trip time that is believed: a day.
const MOST_MS: f64 = 86_400_000.0;

/// A value in the data.
#[derive(Clone, Copy)]
struct Place<'a> {
    values: &'a Values,
    id: Id,
    name: &'a str,
}

impl<'a> Place<'a> {
    fn dict(&self, wanted: &'static str) -> Result<&'a [(Id, Id)], PickleError> {
        match self.values.get(self.id) {
            Value::Dict(pairs) => Ok(pairs),
            other => {
                Err(PickleError::Shape { place: self.name.to_owned(), wanted, found: other.kind() })
            }
        }
    }

    /// The value of a key in a dictionary; the later one where it is there twice.
    fn get(&self, key: &'a str) -> Option<Place<'a>> {
        let Value::Dict(pairs) = self.values.get(self.id) else { return None };
        let is_key = |id: Id| matches!(self.values.get(id), Value::Text(text) if text == key);
        let (_, id) = pairs.iter().rev().find(|(k, _)| is_key(*k))?;
        Some(Place { values: self.values, id: *id, name: key })
    }
}

/// A number, also one that is written as a text.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(i) => Some(*i as f64),
        Value::Float(f) => Some(*f),
        Value::Text(text) => text.trim().trim_end_matches('%').parse().ok(),
        _ => None,
    }
    .filter(|f: &f64| f.is_finite())
}

/// A whole number from 0; none for anything else.
fn whole(value: f64) -> Option<u64> {
    (value >= 0.0 && value <= 2f64.powi(53) && value.fract() == 0.0).then_some(value as u64)
}

/// A text or a number as a text; none for anything else.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Int(i) => Some(i.to_string()),
        Value::Float(f) => Some(f.to_string()),
        _ => None,
    }
}

/// A name as a message shows it.
fn shown(name: &str) -> String {
    format!("{:?}", name.chars().take(40).collect::<String>())
}
