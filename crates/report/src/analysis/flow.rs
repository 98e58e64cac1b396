//! Flows in figures: goodput at the receiver over the measurement, retransmissions, loss of datagrams.

use super::way::{Carried, Ways};
use super::window::{counter_at, payload_within, rate_mbps, window_ns};
use quell_model::{CellRecord, CellStatus, FlowSample, Side, Subject, Told};
use quell_stats::Batch;
use quell_store::{CellData, FlowSeries};

/// What one flow showed in one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowResult {
    /// Datagrams sent in the measurement; none for TCP. Of a run that did not tell how many were sent before: over the flow's whole
    /// life.
    pub sent: Option<u64>,
    /// Of these, received; none for TCP.
    pub received: Option<u64>,
    /// (sent − received) ÷ sent; none for TCP.
    pub loss_ratio: Option<f64>,
    /// Datagrams sent and lost by stretches of the measurement, as its two ends counted them; empty for TCP.
    pub batches: Vec<Batch>,
    /// Payload that the receiver got, in megabits (10⁶) per second of the flow's own time within the measurement; none when no receiver
    /// reported, or the flow had no time there.
    pub goodput_mbps: Option<f64>,
    /// The flow's own time within the measurement.
    pub time: OwnTime,
    /// The same payload in megabits per second of the whole measurement: what it took of the line.
    pub carried_mbps: Option<f64>,
    /// The line that it shares with others, as `dsl up`; none where that is not known.
    pub way: Option<String>,
    /// Its payload as a part of what all streams of the cell carried the same way; none where that is not known.
    pub share: Option<f64>,
    /// Segments that the sender sent again within the measurement; none for UDP.
    pub retransmits: Option<u64>,
    /// Where the sender's own queue was full: how it was held back.
    pub held_back: Option<HeldBack>,
}

/// Datagrams that waited until the own queue had room for them, over the flow's whole life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub struct HeldBack {
    /// How many.
    pub packets: u64,
    /// For how long in all, in nanoseconds.
    pub ns: u64,
}

impl FlowResult {
    /// What has to be said where the sender's own queue was full.
    pub(super) fn held_back(&self) -> Option<String> {
        let HeldBack { packets, ns } = self.held_back?;
        let seconds = ns as f64 / 1e9;
        Some(format!(
            "held back by its own host: the own queue was full, and {packets} datagrams waited for room, {seconds:.1} s in all; it sent \
             that much less than its rate says"
        ))
    }
}

/// When a flow ran, as seen from the measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OwnTime {
    /// All the time.
    Whole,
    /// From here to there, in seconds.
    Part(f64, f64),
    /// It was over before the measurement began, or began after it.
    Never,
}

impl OwnTime {
    /// What is to be said of it.
    pub fn said(self) -> Option<String> {
        match self {
            OwnTime::Whole => None,
            OwnTime::Part(from, to) => Some(format!(
                "ran from {from:.1} s to {to:.1} s; its goodput is of that time, its share of the whole measurement"
            )),
            OwnTime::Never => Some("did not run within the measurement".to_owned()),
        }
    }
}

/// A flow that lacks less than this part of the measurement ran all the time: connections take a moment to end.
const WHOLE: f64 = 0.02;

/// Stretches of the measurement in which losses are counted.
pub(crate) const BATCHES: i64 = 16;

/// From when to when a flow ran within the measurement, in nanoseconds: from the first report of either end, to the last of its
/// sender, or of its receiver where TCP still delivered; where TCP had delivered all, to that of its receiver, which ends with the last byte,
/// and the sender with the last ACK.
fn own_time(data: &CellData, stream: &str, end_ns: i64) -> Option<(i64, i64)> {
    let reports = |side| {
        let samples = &data.flow(stream, side)?.samples;
        samples.first().zip(samples.last())
    };
    let (sender, receiver) = (reports(Side::Sender), reports(Side::Receiver));
    let first = [sender, receiver].into_iter().flatten().map(|(first, _)| first.t_ns).min()?;
    let is_udp = [sender, receiver].into_iter().flatten().any(|(_, last)| last.packets > 0);
    let last = match (sender, receiver) {
        (Some((_, last)), _) if is_udp => last.t_ns,
        (Some((_, sent)), Some((_, got))) if is_delivered(sent, got) => got.t_ns,
        (sender, receiver) => {
            [sender, receiver].into_iter().flatten().map(|(_, last)| last.t_ns).max()?
        }
    };
    let (from, to) = (first.max(0), last.min(end_ns));
    (from < to).then_some((from, to))
}

/// Whether a sender's last report says that nothing of it is under way any more.
fn is_delivered(sent: &FlowSample, got: &FlowSample) -> bool {
    let is_idle = sent.tcp.is_some_and(|tcp| tcp.unacked == 0 && tcp.notsent_bytes == 0);
    is_idle && sent.bytes <= got.bytes
}

/// The flows of a cell with their results, in order of their names.
pub fn results(record: &CellRecord, data: &CellData) -> Vec<(String, FlowResult)> {
    let window = window_ns(record, data);
    let (carried, ways) = (Carried::of(record, data), Ways::of(data));
    let mut names: Vec<&str> = data.flows.iter().map(|f| f.stream.as_str()).collect();
    names.dedup();
    names
        .into_iter()
        .map(|stream| {
            let sender = data.flow(stream, Side::Sender);
            let receiver = data.flow(stream, Side::Receiver);
            let own = window.and_then(|end| own_time(data, stream, end));
            let goodput_mbps = receiver.zip(own).map(|(f, (from, to))| rate_mbps(f, from, to));
            let bytes = receiver.zip(window).map(|(f, end)| payload_within(f, 0, end));
            let way = ways.there(stream);
            let retransmits = sender.zip(window).and_then(|(f, end)| {
                f.samples.last()?.tcp?;
                let of = |s: &FlowSample| s.tcp.map_or(0, |t| t.retransmits);
                let within = counter_at(&f.samples, end, of) - counter_at(&f.samples, 0, of);
                Some(within.round() as u64)
            });
            let (sent, received) = datagrams(record, data, stream);
            let loss = sent.zip(received).filter(|(sent, _)| *sent > 0);
            let result = FlowResult {
                sent,
                received,
                loss_ratio: loss.map(|(sent, got)| sent.saturating_sub(got) as f64 / sent as f64),
                batches: match (sender, receiver, window) {
                    (Some(sender), Some(receiver), Some(end)) if sent.is_some() => {
                        batches([sender, receiver], early(data, stream), end)
                    }
                    _ => Vec::new(),
                },
                goodput_mbps,
                time: time(own, window.unwrap_or(0)),
                carried_mbps: bytes.zip(window).map(|(bytes, end)| bytes * 8e3 / end as f64),
                share: bytes.and_then(|bytes| carried.share(way, bytes)),
                way: way.map(str::to_owned),
                retransmits,
                held_back: data
                    .told(&Subject::stream(stream, Told::HeldBack))
                    .and_then(|told| serde_json::from_str(told).ok()),
            };
            (stream.to_owned(), result)
        })
        .collect()
}

fn time(own: Option<(i64, i64)>, window_ns: i64) -> OwnTime {
    let Some((from, to)) = own else { return OwnTime::Never };
    let seconds = |ns: i64| ns as f64 / 1e9;
    match (window_ns - (to - from)) as f64 > window_ns as f64 * WHOLE {
        true => OwnTime::Part(seconds(from), seconds(to)),
        false => OwnTime::Whole,
    }
}

/// Datagrams of a flow that were sent in the measurement, and those of them that arrived, whenever they did; none for TCP, and where the
/// cell was cut off before the two ends told what was sent before: of what was under way then nobody knows.
fn datagrams(record: &CellRecord, data: &CellData, stream: &str) -> (Option<u64>, Option<u64>) {
    let told = |what| data.told(&Subject::stream(stream, what)).is_some();
    if record.status != CellStatus::Complete
        && !(told(Told::SentBefore) && told(Told::ReceivedBefore))
    {
        return (None, None);
    }
    let counts = |side| data.flow(stream, side).and_then(|f| f.samples.last()).map(|s| s.packets);
    let (sent, received) = (counts(Side::Sender), counts(Side::Receiver));
    if sent.max(received).unwrap_or(0) == 0 {
        return (None, None);
    }
    let early = early(data, stream);
    (sent.map(|n| n.saturating_sub(early[0])), received.map(|n| n.saturating_sub(early[1])))
}

/// Datagrams of a flow that were sent before the measurement, as its sender and its receiver counted them; nothing where one did not.
fn early(data: &CellData, stream: &str) -> [u64; 2] {
    let before = |what| data.told(&Subject::stream(stream, what))?.parse::<u64>().ok();
    let received = data.flow(stream, Side::Receiver).and_then(|f| f.samples.last());
    // What one end counted apart and the other did not can't be compared.
    match (before(Told::SentBefore), before(Told::ReceivedBefore)) {
        (Some(sent), Some(received)) => [sent, received],
        (Some(sent), None) if received.is_some_and(|last| last.packets == 0) => [sent, 0],
        _ => [0, 0],
    }
}

/// Losses by stretches of the measurement, from the counters of sender and receiver. What is under way at a border counts for one or
/// the other; at the first border and the last nothing is: both are between packets, whenever these arrive.
fn batches(ends: [&FlowSeries; 2], early: [u64; 2], end_ns: i64) -> Vec<Batch> {
    let counted = |series: &FlowSeries, early: u64, batch: i64| {
        let all = series.samples.last().map_or(0, |s| s.packets) as f64;
        let at = |n: i64| match n {
            0 => early as f64,
            BATCHES => all,
            _ => counter_at(&series.samples, end_ns / BATCHES * n, |s| s.packets),
        };
        at(batch + 1) - at(batch)
    };
    let batch = |n| {
        let [sent, received] = [0, 1].map(|end: usize| counted(ends[end], early[end], n));
        Batch { sent, lost: sent - received }
    };
    (0..BATCHES).map(batch).collect()
}
