//! Flows in figures: goodput at the receiver over the measurement, retransmissions, loss of datagrams.

use quell_model::{CellRecord, FlowSample, Side};
use quell_store::{CellData, FlowSeries};

/// What one flow showed in one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowResult {
    /// Datagrams sent over the flow's whole life, warm-up included; none for TCP.
    pub sent: Option<u64>,
    /// Datagrams received over the flow's whole life; none for TCP.
    pub received: Option<u64>,
    /// (sent − received) ÷ sent; none for TCP.
    pub loss_ratio: Option<f64>,
    /// Payload that the receiver got within the measurement, in megabits (10⁶) per second; none when no receiver reported.
    pub goodput_mbps: Option<f64>,
    /// Its goodput as a part of the goodput of all flows of the cell.
    pub share: Option<f64>,
    /// Segments that the sender sent again within the measurement; none for UDP.
    pub retransmits: Option<u64>,
}

/// The time over which rates are taken, in nanoseconds: from the start of the measurement to its planned end, or, where a cell did not
/// come to its end, to the last time at which anything was reported. None when that is before the start.
pub fn window_ns(record: &CellRecord, data: &CellData) -> Option<i64> {
    let senders = data.flows.iter().filter(|f| f.side == Side::Sender);
    let sent = senders
        .filter_map(|f| f.samples.last().map(|s| s.t_ns))
        .chain(data.echoes.iter().filter_map(|s| s.samples.last().map(|s| s.t_ns)))
        .max();
    let reported = data
        .flows
        .iter()
        .filter_map(|f| f.samples.last().map(|s| s.t_ns))
        .chain(data.queues.iter().filter_map(|q| q.points.last().map(|p| p.t_ns)))
        .max();
    let planned = record.window_ns.and_then(|ns| i64::try_from(ns).ok());
    let complete = record.status == quell_model::CellStatus::Complete;
    let end = match planned {
        Some(planned) if complete => planned,
        Some(planned) => planned.min(sent.max(reported)?),
        None => sent.or(reported)?,
    };
    (end > 0).then_some(end)
}

/// The value of a cumulative counter at a time: straight between the samples around it, nothing before the first, and the last after
/// the last.
pub(crate) fn counter_at(samples: &[FlowSample], t_ns: i64, of: fn(&FlowSample) -> u64) -> f64 {
    let after = samples.partition_point(|s| s.t_ns <= t_ns);
    let Some(before) = after.checked_sub(1).map(|i| &samples[i]) else { return 0.0 };
    let Some(next) = samples.get(after) else { return of(before) as f64 };
    let since = |later: i64, earlier: i64| (i128::from(later) - i128::from(earlier)) as f64;
    let part = since(t_ns, before.t_ns) / since(next.t_ns, before.t_ns);
    let (low, high) = (of(before) as f64, of(next) as f64);
    low + (high - low) * part
}

/// Payload rate between two times, in megabits per second.
pub(crate) fn rate_mbps(series: &FlowSeries, from_ns: i64, to_ns: i64) -> f64 {
    let bytes = counter_at(&series.samples, to_ns, |s| s.bytes)
        - counter_at(&series.samples, from_ns, |s| s.bytes);
    bytes * 8.0 * 1e3 / (to_ns - from_ns) as f64
}

/// The flows of a cell with their results, in order of their names.
pub fn results(record: &CellRecord, data: &CellData) -> Vec<(String, FlowResult)> {
    let window = window_ns(record, data);
    let goodput = |series: &FlowSeries| window.map(|end| rate_mbps(series, 0, end));
    let all: f64 = data.flows.iter().filter(|f| f.side == Side::Receiver).filter_map(goodput).sum();
    let mut names: Vec<&str> = data.flows.iter().map(|f| f.stream.as_str()).collect();
    names.dedup();
    names
        .into_iter()
        .map(|stream| {
            let sender = data.flow(stream, Side::Sender);
            let receiver = data.flow(stream, Side::Receiver);
            let goodput_mbps = receiver.and_then(goodput);
            let share = goodput_mbps.filter(|_| all > 0.0).map(|g| g / all);
            let datagrams =
                |end: Option<&FlowSeries>| end.and_then(|f| f.samples.last()).map(|s| s.packets);
            let is_udp = [sender, receiver].iter().any(|f| datagrams(*f).is_some_and(|n| n > 0));
            let sent = datagrams(sender).filter(|_| is_udp);
            let received = datagrams(receiver).filter(|_| is_udp);
            let loss_ratio = sent.zip(received).filter(|(sent, _)| *sent > 0);
            let retransmits = sender.zip(window).and_then(|(f, end)| {
                f.samples.last()?.tcp?;
                let of = |s: &FlowSample| s.tcp.map_or(0, |t| t.retransmits);
                let within = counter_at(&f.samples, end, of) - counter_at(&f.samples, 0, of);
                Some(within.round() as u64)
            });
            let result = FlowResult {
                sent,
                received,
                loss_ratio: loss_ratio
                    .map(|(sent, got)| sent.saturating_sub(got) as f64 / sent as f64),
                goodput_mbps,
                share,
                retransmits,
            };
            (stream.to_owned(), result)
        })
        .collect()
}
