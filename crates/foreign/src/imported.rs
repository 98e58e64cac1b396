//! What was read, in the terms of runs.

use quell_model::{EchoSample, EchoStatus, FlowSample, Side};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeBounds;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Tool {
    /// `.flent.gz`.
    Flent,
    /// irtt's client, `-o`.
    Irtt,
    /// `-J` or `--json-stream`.
    Iperf3,
    /// ping-exp, `-w`.
    PingExp,
    /// What `ping` prints: of iputils, BusyBox, BSD and macOS.
    #[default]
    Ping,
    /// `mtr` with `--report`, `--json` or `--csv`.
    Mtr,
}

impl Tool {
    pub const ALL: [Tool; 6] =
        [Tool::Flent, Tool::Irtt, Tool::Iperf3, Tool::PingExp, Tool::Ping, Tool::Mtr];

    pub fn word(self) -> &'static str {
        match self {
            Tool::Flent => "flent",
            Tool::Irtt => "irtt",
            Tool::Iperf3 => "iperf3",
            Tool::PingExp => "pingexp",
            Tool::Ping => "ping",
            Tool::Mtr => "mtr",
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tool::Flent => "Flent",
            Tool::PingExp => "ping-exp",
            other => other.word(),
        })
    }
}

/// Which way a flow's data goes, as seen from who started the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowDirection {
    Up,
    Down,
}

impl FlowDirection {
    pub fn word(self) -> &'static str {
        match self {
            FlowDirection::Up => "up",
            FlowDirection::Down => "down",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Imported {
    pub tool: Tool,
    /// The test's name there, as `rrul_be`; empty where it has none.
    pub test: String,
    /// What it is called, in a line; empty where the file has no title.
    pub title: String,
    /// When it began, in seconds since 1970 (UTC).
    pub started_s: Option<f64>,
    /// How long it was planned to take, or took, in nanoseconds.
    pub window_ns: Option<u64>,
    /// The streams, in the file's order.
    pub streams: Vec<Stream>,
    /// What the file says of itself: key and value.
    pub about: Vec<(&'static str, String)>,
    /// How figures of this file are to be read, in sentences.
    pub notes: Vec<String>,
    /// What is in the file and not in the run, in sentences.
    pub left_out: Vec<String>,
    /// Why the test broke off, as the file says it.
    pub failed: Option<String>,
}

impl Imported {
    pub(crate) fn new(tool: Tool) -> Self {
        Self { tool, ..Self::default() }
    }

    pub(crate) fn tell(&mut self, key: &'static str, value: Option<String>) {
        let value = value.map(cut).filter(|value| !value.is_empty());
        self.about.extend(value.map(|value| (key, value)));
    }
}

/// What a stream holds, in numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamCounts {
    pub sent: usize,
    pub answered: usize,
    /// Of which nobody knows whether they were answered.
    pub unsure: usize,
    /// Answers that came once more.
    pub again: usize,
    pub bytes: u64,
    pub seconds: f64,
}

/// One stream: packets that were answered or lost, or a flow.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stream {
    pub name: String,
    /// Which way a flow goes; none of packets that are answered, and where nobody tells.
    pub way: Option<FlowDirection>,
    /// Packets, in the order of their numbers, further answers to one behind it.
    pub packets: Vec<EchoSample>,
    /// States of a flow, in the order of time for each side.
    pub flow: Vec<FlowSample>,
    pub two_clocks: bool,
    /// What else is told of it: key and value.
    pub facts: Vec<(&'static str, String)>,
}

impl Stream {
    pub fn counts(&self) -> StreamCounts {
        let count =
            |is: fn(EchoStatus) -> bool| self.packets.iter().filter(|p| is(p.status)).count();
        let again = count(|s| s == EchoStatus::Duplicate);
        let end = |side| self.flow.iter().rfind(|s| s.side == side);
        let last = end(Side::Receiver).or(end(Side::Sender));
        let first = self.flow.iter().map(|s| s.t_ns).min();
        let took = last.zip(first).map_or(0, |(last, first)| last.t_ns - first);
        StreamCounts {
            sent: self.packets.len() - again,
            answered: count(EchoStatus::is_answered),
            unsure: count(|s| s == EchoStatus::Unsure),
            again,
            bytes: last.map_or(0, |last| last.bytes),
            seconds: took as f64 / 1e9,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.flow.is_empty()
    }
}

/// Values that can't be: each is unknown, and named by what it is, with the first.
#[derive(Default)]
pub(crate) struct ImpossibleValues(BTreeMap<String, (String, usize)>);

impl ImpossibleValues {
    const NAMED: usize = 32;

    /// `first` says where it stands, and why it can't be.
    pub fn add(&mut self, what: &str, first: impl FnOnce() -> String) {
        if let Some((_, more)) = self.0.get_mut(what) {
            *more += 1;
        } else if self.0.len() < Self::NAMED {
            self.0.insert(cut(what.to_owned()), (first(), 0));
        }
    }

    /// The value, where there is one that can be.
    pub fn check<T: PartialOrd + fmt::Debug>(
        &mut self,
        value: Option<T>,
        range: impl RangeBounds<T>,
        what: &str,
        place: impl FnOnce() -> String,
    ) -> Option<T> {
        let value = value?;
        if range.contains(&value) {
            return Some(value);
        }
        self.add(what, || format!("{value:?} at {} can't be", place()));
        None
    }

    pub fn said(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|(what, (first, more))| match more {
            0 => format!("{what} is unknown: {first}."),
            _ => format!("{what} is unknown {} times: {first}, the first of them.", more + 1),
        })
    }
}

pub(crate) fn cut(mut text: String) -> String {
    let most = crate::bounds::LONGEST;
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// A name that no stream has yet, of streams with these names.
pub(crate) fn unused<'a>(
    names: impl ExactSizeIterator<Item = &'a str> + Clone,
    name: &str,
) -> String {
    let name = cut(name.to_owned());
    let taken = |name: &str| names.clone().any(|other| other == name);
    if !name.is_empty() && !taken(&name) {
        return name;
    }
    let stem = if name.is_empty() { "stream" } else { &*name };
    (names.len() + 1..)
        .map(|n| format!("{stem} ({n})"))
        .find(|name| !taken(name))
        .unwrap_or_default()
}

/// Milliseconds of a file as nanoseconds; none for what no time can be.
pub(crate) fn from_ms(ms: f64) -> Option<u64> {
    (0.0..=crate::bounds::MOST_SECONDS * 1e3).contains(&ms).then(|| (ms * 1e6).round() as u64)
}

/// Seconds since a moment of a file as nanoseconds; none for what no time can be.
pub(crate) fn from_s(s: f64) -> Option<i64> {
    let most = crate::bounds::MOST_SECONDS;
    (-most..=most).contains(&s).then(|| (s * 1e9).round() as i64)
}

/// Why one-way delays of both ways can't be of this round trip; none where they can. irtt defines them so that they make it together, whatever
/// the clocks show: what the server took is in neither. Clocks that tick coarsely, as 16 ms, are read four times.
pub(crate) fn delays_contradict(rtt_ns: u64, up_ns: i64, down_ns: i64) -> Option<String> {
    const COARSE_NS: i128 = 50_000_000;
    let (up, down) = (i128::from(up_ns), i128::from(down_ns));
    let rtt = i128::from(rtt_ns);
    let off = (up + down - rtt).abs();
    (off > COARSE_NS + rtt / 10)
        .then(|| format!("delays of {up} ns and {down} ns are not of a round trip of {rtt} ns"))
}
