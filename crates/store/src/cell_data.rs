//! What was measured in one cell, by stream: the form that analysis reads, whether it came from journals or from tables.

use quell_model::rows::latest;
use quell_model::{EchoSample, EchoStatus, Event, Fact, FlowSample, QueueSample, Side, Subject};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Everything that was measured in one cell. The series are in a fixed order (names, then kinds), and so are the samples in them, so that
/// the same events give the same data however they were interleaved.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CellData {
    /// Probe packets, by stream.
    pub echoes: Vec<EchoSeries>,
    pub flows: Vec<FlowSeries>,
    pub queues: Vec<QueueSeries>,
    /// What commands printed, in the order in which it came.
    pub outputs: Vec<OutputLine>,
    /// How the network was set up, in the order in which it came.
    pub facts: Vec<Fact>,
}

/// The packets of one echo stream, in order of sending.
#[derive(Debug, Clone, PartialEq)]
pub struct EchoSeries {
    pub stream: String,
    /// One a packet sent, one more for each duplicate.
    pub samples: Vec<EchoSample>,
}

/// The states of one flow as one of its ends saw it, in order of time.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSeries {
    /// The flow's name.
    pub stream: String,
    pub side: Side,
    pub samples: Vec<FlowSample>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct QueueSeries {
    /// `node:device`.
    pub device: String,
    pub handle: String,
    /// Kind, as `fq_codel`.
    pub kind: String,
    pub points: Vec<QueuePoint>,
}

/// The state of a queue at one time: [`QueueSample`] without the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePoint {
    pub t_ns: i64,
    pub backlog_bytes: u64,
    pub backlog_packets: u64,
    /// Packets dropped so far.
    pub drops: u64,
    /// Packets marked CE so far.
    pub marks: u64,
    pub packets: u64,
    /// Bytes sent on so far.
    pub bytes: u64,
}

impl From<&QueueSample> for QueuePoint {
    fn from(sample: &QueueSample) -> Self {
        Self {
            t_ns: sample.t_ns,
            backlog_bytes: sample.backlog_bytes,
            backlog_packets: sample.backlog_packets,
            drops: sample.drops,
            marks: sample.marks,
            packets: sample.packets,
            bytes: sample.bytes,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputLine {
    pub task: String,
    pub stderr: bool,
    pub line: String,
}

impl CellData {
    pub fn told(&self, subject: &Subject) -> Option<&str> {
        self.facts.iter().find(|fact| fact.subject == *subject).map(|fact| fact.value.as_str())
    }

    pub fn echo(&self, stream: &str) -> Option<&EchoSeries> {
        self.echoes.iter().find(|s| s.stream == stream)
    }

    pub fn flow(&self, stream: &str, side: Side) -> Option<&FlowSeries> {
        self.flows.iter().find(|s| s.stream == stream && s.side == side)
    }

    pub fn is_empty(&self) -> bool {
        self.echoes.is_empty() && self.flows.is_empty() && self.queues.is_empty()
    }
}

/// Collecting: rows are taken in any order, and brought into their fixed one by [`CellData::settle`], as often as that is wanted.
impl CellData {
    pub(crate) fn take(&mut self, event: Event) {
        match event {
            Event::Echo { stream, samples } => self.echoes_of(&stream).extend(samples),
            Event::Flow { stream, samples } => {
                for sample in samples {
                    self.take_flow(&stream, sample);
                }
            }
            Event::Queues { samples } => {
                for s in &samples {
                    self.take_queue(&s.device, &s.handle, &s.kind, s.into());
                }
            }
            Event::Output { task, stderr, line } => {
                self.outputs.push(OutputLine { task, stderr, line });
            }
            Event::Fact(fact) => self.facts.push(fact),
            _ => {}
        }
    }

    pub(crate) fn take_flow(&mut self, stream: &str, sample: FlowSample) {
        self.flows_of(stream, sample.side).push(sample);
    }

    fn flows_of(&mut self, stream: &str, side: Side) -> &mut Vec<FlowSample> {
        let order =
            |f: &FlowSeries| (&*f.stream, side_rank(f.side)).cmp(&(stream, side_rank(side)));
        let new = || FlowSeries { stream: stream.to_owned(), side, samples: Vec::new() };
        &mut find(&mut self.flows, order, new).samples
    }

    pub(crate) fn take_queue(&mut self, device: &str, handle: &str, kind: &str, point: QueuePoint) {
        self.queues_of(device, handle, kind).push(point);
    }

    fn queues_of(&mut self, device: &str, handle: &str, kind: &str) -> &mut Vec<QueuePoint> {
        let order =
            |q: &QueueSeries| (&*q.device, &*q.handle, &*q.kind).cmp(&(device, handle, kind));
        let new = || QueueSeries {
            device: device.to_owned(),
            handle: handle.to_owned(),
            kind: kind.to_owned(),
            points: Vec::new(),
        };
        &mut find(&mut self.queues, order, new).points
    }

    pub(crate) fn echoes_of(&mut self, stream: &str) -> &mut Vec<EchoSample> {
        let new = || EchoSeries { stream: stream.to_owned(), samples: Vec::new() };
        &mut find(&mut self.echoes, |s| (*s.stream).cmp(stream), new).samples
    }

    /// Brings everything into its fixed order. What is in it already costs little.
    pub(crate) fn settle(&mut self) {
        for series in &mut self.echoes {
            latest(&mut series.samples);
            series.samples.sort_by_key(echo_order);
        }
        for series in &mut self.flows {
            series.samples.sort_by_key(|s| (s.t_ns, s.bytes, s.packets));
        }
        for series in &mut self.queues {
            series.points.sort_by_key(|p| (p.t_ns, p.packets, p.bytes, p.drops));
        }
    }

    pub(crate) fn settled(mut self) -> Self {
        self.settle();
        self
    }
}

/// The series that is at its place in the order; a new one where there is none.
fn find<T>(
    series: &mut Vec<T>,
    order: impl FnMut(&T) -> Ordering,
    new: impl FnOnce() -> T,
) -> &mut T {
    let at = series.binary_search_by(order).unwrap_or_else(|at| {
        series.insert(at, new());
        at
    });
    &mut series[at]
}

fn side_rank(side: Side) -> u8 {
    match side {
        Side::Sender => 0,
        Side::Receiver => 1,
    }
}

/// The order of packets: by sending time and number; a packet before its duplicates, and these by arrival.
pub(crate) fn echo_order(s: &EchoSample) -> (i64, u64, usize, Option<u64>, Option<u64>) {
    let rank = EchoStatus::NAMES.iter().position(|(status, _)| *status == s.status).unwrap_or(0);
    (s.t_ns, s.seq, rank, s.down_order, s.rtt_ns)
}
