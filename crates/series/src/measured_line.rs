//! A line that was measured, as `line.toml` holds it: of each property the value, the least and the most it can be, how it was measured and when; or
//! why it is unknown.
//!
//! ```toml
//! version = 1
//! measured = "2026-11-29T03:00:00Z"
//! to = "server.example.net"
//!
//! [up]
//! rate   = { value = "10.02 Mbit/s", low = "9.95 Mbit/s", high = "10.1 Mbit/s", how = "packets of 1400 bytes, more than it carries", when = "12 s" }
//! buffer = { value = "1000 packets", how = "what stood before packets of 100 and 1400 bytes", when = "12 s" }
//! grid   = { unknown = "no ping came back" }
//! ```

use crate::{LineSeries, SeriesError};
use quell_units::{Buffer, Bytes, Rate, Ratio, Span};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MeasuredLine {
    pub version: u32,
    /// When, as RFC 3339 has it.
    #[serde(default)]
    pub measured: String,
    /// The other end.
    #[serde(default)]
    pub to: String,
    #[serde(default)]
    pub up: MeasuredDirection,
    #[serde(default)]
    pub down: MeasuredDirection,
    #[serde(default)]
    pub both: MeasuredTogether,
}

/// A line, and of each direction what varies, whose file `series` names.
pub struct LineOverTime {
    pub line: MeasuredLine,
    pub up: Option<LineSeries>,
    pub down: Option<LineSeries>,
}

/// One direction. None is what nobody looked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct MeasuredDirection {
    /// Of the wire: IP packets with 14 bytes of Ethernet header, and the overhead where that is known.
    pub rate: Option<Property<Rate>>,
    /// Whether the rate stayed what it was while it was measured; if not, `rate` is its mean.
    pub stationary: Option<Property<bool>>,
    /// The file with the rate over time, where it varies; its folder is this file's.
    pub series: Option<String>,
    /// One way, of a packet that meets no queue, beyond the time that its bits take.
    pub delay: Option<Property<Span>>,
    pub loss: Option<Property<Ratio>>,
    pub buffer: Option<Property<Buffer>>,
    pub queue: Option<Property<QueueKind>>,
    /// What a thin flow beside a bulk one is kept apart by; where it is not, a ping sees the queue.
    pub fair: Option<Property<Fairness>>,
    pub police_rate: Option<Property<Rate>>,
    pub police_burst: Option<Property<Bytes>>,
    /// Bytes that each packet costs beyond its Ethernet frame.
    pub overhead: Option<Property<Bytes>>,
    /// Packets travel in cells of 48 bytes (ATM).
    pub cells: Option<Property<bool>>,
    /// A packet leaves only every so often.
    pub grid: Option<Property<Span>>,
    /// From which wait on packets are marked.
    pub ecn_marks_at: Option<Property<MarkingThreshold>>,
}

/// What holds of both directions together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct MeasuredTogether {
    /// They take turns: half duplex.
    pub shared: Option<Property<bool>>,
    /// Something on the way leaves out ACKs.
    pub thinned_acks: Option<Property<bool>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "PropertyFields<T>", into = "PropertyFields<T>")]
#[serde(bound(
    serialize = "T: Clone + Serialize",
    deserialize = "T: PartialOrd + Deserialize<'de>"
))]
pub enum Property<T> {
    Measured(Estimate<T>),
    /// And why.
    Unknown(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Estimate<T> {
    pub value: T,
    pub low: Option<T>,
    pub high: Option<T>,
    pub how: String,
    /// So long after the measurement's start.
    pub when: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueKind {
    TailDrop,
    Codel,
    Pie,
    FqCodel,
    Cake,
    Dualpi2,
    /// No queue: what comes too fast is dropped.
    Policer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fairness {
    None,
    Flow,
    Host,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkingThreshold {
    Never,
    #[serde(untagged)]
    At(Span),
}

impl QueueKind {
    pub fn name(self) -> &'static str {
        match self {
            QueueKind::TailDrop => "tail-drop",
            QueueKind::Codel => "codel",
            QueueKind::Pie => "pie",
            QueueKind::FqCodel => "fq-codel",
            QueueKind::Cake => "cake",
            QueueKind::Dualpi2 => "dualpi2",
            QueueKind::Policer => "policer",
        }
    }
}

impl Fairness {
    pub fn name(self) -> &'static str {
        match self {
            Fairness::None => "none",
            Fairness::Flow => "flow",
            Fairness::Host => "host",
        }
    }
}

impl<T> Property<T> {
    pub fn unknown(why: impl Into<String>) -> Self {
        Property::Unknown(why.into())
    }

    pub fn estimate(&self) -> Option<&Estimate<T>> {
        match self {
            Property::Measured(estimate) => Some(estimate),
            Property::Unknown(_) => None,
        }
    }
}

/// What is known of a property that was looked for.
pub fn value<T: Copy>(property: &Option<Property<T>>) -> Option<T> {
    property.as_ref()?.estimate().map(|estimate| estimate.value)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PropertyFields<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
}

impl<T: PartialOrd> TryFrom<PropertyFields<T>> for Property<T> {
    type Error = &'static str;

    fn try_from(fields: PropertyFields<T>) -> Result<Self, Self::Error> {
        let PropertyFields { value, low, high, how, when, unknown } = fields;
        match (value, unknown) {
            (None, Some(why)) => Ok(Property::Unknown(why)),
            (Some(value), None) => {
                let is_above = |low: &T| *low <= value;
                if !low.as_ref().is_none_or(is_above) || high.as_ref().is_some_and(|h| *h < value) {
                    return Err("the value is not between low and high");
                }
                let (how, when) = (how.unwrap_or_default(), when.unwrap_or_default());
                Ok(Property::Measured(Estimate { value, low, high, how, when }))
            }
            _ => Err("a property has either a value or `unknown` with the reason"),
        }
    }
}

impl<T> From<Property<T>> for PropertyFields<T> {
    fn from(property: Property<T>) -> Self {
        match property {
            Property::Unknown(why) => Self {
                value: None,
                low: None,
                high: None,
                how: None,
                when: None,
                unknown: Some(why),
            },
            Property::Measured(Estimate { value, low, high, how, when }) => Self {
                value: Some(value),
                low,
                high,
                how: Some(how).filter(|how| !how.is_empty()),
                when: Some(when).filter(|when| !when.is_empty()),
                unknown: None,
            },
        }
    }
}

impl MeasuredLine {
    pub const VERSION: u32 = 1;
    /// Most bytes of such a file: a person can read it.
    pub const LONGEST: u64 = 1 << 20;

    /// Errors name the line.
    pub fn parse(text: &str) -> Result<Self, SeriesError> {
        let line: Self = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map(|before| before.matches('\n').count() as u64 + 1);
            SeriesError { line, what: error.message().to_owned() }
        })?;
        match line.version {
            Self::VERSION => Ok(line),
            version => Err(SeriesError::whole(format!(
                "its version is {version}; this Quell reads {}",
                Self::VERSION
            ))),
        }
    }
}

/// How a value stands in the file.
trait FileValue: Copy {
    fn text(self) -> String;
}

/// `10.02 Mbit/s`: exactly, in the largest of the units that it reaches. Those are powers of ten, ascending from 1.
fn scaled(number: u64, units: &[(&str, u64)]) -> String {
    let reached = units.iter().rev().find(|(_, size)| *size <= number);
    let (unit, size) = reached.copied().unwrap_or((units[0].0, 1));
    let digits = size.ilog10() as usize;
    let text = format!("{}.{:0digits$}", number / size, number % size);
    format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

const RATES: [(&str, u64); 4] =
    [("bit/s", 1), ("kbit/s", 1000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];
const SPANS: [(&str, u64); 4] = [("ns", 1), ("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const BYTES: [(&str, u64); 3] = [("B", 1), ("kB", 1000), ("MB", 1_000_000)];

macro_rules! file_value {
    ($($type:ty: $value:ident => $text:expr),* $(,)?) => {
        $(impl FileValue for $type {
            fn text(self) -> String {
                let $value = self;
                $text
            }
        })*
    };
}

file_value! {
    Rate: rate => scaled(rate.bps(), &RATES),
    Span: span => scaled(span.nanos(), &SPANS),
    Ratio: ratio => ratio.to_string().replace('%', " %"),
    Bytes: bytes => scaled(bytes.get(), &BYTES),
    bool: is => is.to_string(),
    QueueKind: kind => kind.name().into(),
    Fairness: fair => fair.name().into(),
    Buffer: buffer => match buffer {
        Buffer::Packets(count) => format!("{count} packets"),
        Buffer::Bytes(bytes) => bytes.text(),
    },
    MarkingThreshold: at => match at {
        MarkingThreshold::Never => "never".into(),
        MarkingThreshold::At(span) => span.text(),
    },
}

fn texts<T: FileValue>(property: &Property<T>) -> Property<String> {
    match property {
        Property::Unknown(why) => Property::Unknown(why.clone()),
        Property::Measured(Estimate { value, low, high, how, when }) => {
            Property::Measured(Estimate {
                value: value.text(),
                low: low.map(T::text),
                high: high.map(T::text),
                how: how.clone(),
                when: when.clone(),
            })
        }
    }
}

/// What was looked for, by its word in the file.
macro_rules! texts {
    ($of:expr, $($word:literal $field:ident),*) => {
        [$(($word, $of.$field.as_ref().map(texts))),*]
            .into_iter()
            .filter_map(|(word, property)| Some((word, property?)))
            .collect()
    };
}

impl MeasuredDirection {
    /// What passes in the long run: the line's rate, or that of a policer which lets through less.
    pub fn passes(&self) -> Option<Rate> {
        value(&self.rate).or(value(&self.police_rate))
    }

    /// What was looked for, by its word in the file, as text.
    pub fn texts(&self) -> Vec<(&'static str, Property<String>)> {
        texts!(
            self,
            "rate" rate,
            "stationary" stationary,
            "delay" delay,
            "loss" loss,
            "buffer" buffer,
            "queue" queue,
            "fair" fair,
            "police-rate" police_rate,
            "police-burst" police_burst,
            "overhead" overhead,
            "cells" cells,
            "grid" grid,
            "ecn-marks-at" ecn_marks_at
        )
    }
}

impl MeasuredTogether {
    /// See [`MeasuredDirection::texts`].
    pub fn texts(&self) -> Vec<(&'static str, Property<String>)> {
        texts!(self, "shared" shared, "thinned-acks" thinned_acks)
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn printed(property: &Property<String>) -> String {
    let text = |value: &String| match value.as_str() {
        "true" | "false" => value.clone(),
        value => quoted(value),
    };
    match property {
        Property::Unknown(why) => format!("unknown = {}", quoted(why)),
        Property::Measured(Estimate { value, low, high, how, when }) => {
            let some = |text: &String| Some(quoted(text)).filter(|_| !text.is_empty());
            let fields = [
                ("value", Some(text(value))),
                ("low", low.as_ref().map(text)),
                ("high", high.as_ref().map(text)),
                ("how", some(how)),
                ("when", some(when)),
            ];
            let fields = fields.into_iter().filter_map(|(name, text)| Some((name, text?)));
            fields.map(|(name, text)| format!("{name} = {text}")).collect::<Vec<_>>().join(", ")
        }
    }
}

/// As the file is written.
impl Display for MeasuredLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "version = {}", self.version)?;
        writeln!(f, "measured = {}", quoted(&self.measured))?;
        writeln!(f, "to = {}", quoted(&self.to))?;
        for (name, texts, series) in [
            ("up", self.up.texts(), &self.up.series),
            ("down", self.down.texts(), &self.down.series),
            ("both", self.both.texts(), &None),
        ] {
            if !texts.is_empty() || series.is_some() {
                writeln!(f, "\n[{name}]")?;
            }
            if let Some(file) = series {
                writeln!(f, "{:<12} = {}", "series", quoted(file))?;
            }
            for (word, property) in texts {
                writeln!(f, "{word:<12} = {{ {} }}", printed(&property))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"version = 1
measured = "2026-11-29T03:00:00Z"
to = "server.example.net"

[up]
series       = "line-up.csv"
rate         = { value = "10.02 Mbit/s", low = "9.95 Mbit/s", high = "10.1 Mbit/s", how = "packets of 1400 bytes, more than it carries", when = "12 s" }
stationary   = { value = false, how = "10 Mbit/s, then 5 Mbit/s", when = "34 s" }
delay        = { value = "10.02 ms" }
loss         = { value = "0.1 %" }
buffer       = { value = "1000 packets", low = "990 packets" }
queue        = { value = "fq-codel", how = "waits and losses" }
fair         = { value = "flow" }
police-rate  = { value = "1 Mbit/s" }
police-burst = { value = "256 kB" }
overhead     = { value = "22 B" }
cells        = { value = true }
grid         = { unknown = "no \"ping\" came back" }
ecn-marks-at = { value = "never" }

[down]
buffer       = { value = "256 kB" }
ecn-marks-at = { value = "5 ms" }

[both]
shared       = { value = false }
thinned-acks = { unknown = "no ACKs were counted" }
"#;

    #[test]
    fn what_is_written_is_what_was_read() {
        let line = MeasuredLine::parse(FILE).expect("a line");
        assert_eq!(value(&line.up.rate), Some(Rate::from_bps(10_020_000)));
        assert_eq!(value(&line.up.buffer), Some(Buffer::Packets(1000)));
        assert_eq!(value(&line.up.grid), None);
        assert_eq!(line.to_string(), FILE);
        let json = serde_json::to_string(&line).expect("JSON");
        assert_eq!(serde_json::from_str::<MeasuredLine>(&json).expect("the same"), line);
    }

    #[test]
    fn what_is_no_line_is_refused_where_it_stands() {
        for (old, new, why) in [
            ("10.02 Mbit/s", "10.02 Mbps", "line 7: "),
            ("9.95 Mbit/s", "11 Mbit/s", "line 7: the value is not between low and high"),
            ("value = \"fq-codel\"", "value = \"red\"", "line 12: unknown variant `red`"),
            ("value = \"flow\"", "how = \"x\"", "line 13: a property has either a value or"),
            ("version = 1", "version = 2", "its version is 2; this Quell reads 1"),
            ("grid   ", "grids  ", "line 18: unknown field `grids`"),
            ("[up]", "[up", "line 5: "),
        ] {
            let text = FILE.replacen(old, new, 1);
            let error = MeasuredLine::parse(&text).expect_err(new).to_string();
            assert!(error.starts_with(why), "{new}: {error}");
        }
    }
}
