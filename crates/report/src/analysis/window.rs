//! The time over which rates are taken, and what flows carried between two times.

use quell_model::{CellRecord, FlowSample, Side};
use quell_store::{CellData, FlowSeries};

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
/// the last. A report that is due at a time comes some microseconds after it: one that is as near as the thousandth part of the time since
/// the report before is taken for it, so that nothing seems to have come after a border that came before.
pub(crate) fn counter_at(samples: &[FlowSample], t_ns: i64, of: fn(&FlowSample) -> u64) -> f64 {
    let after = samples.partition_point(|s| s.t_ns <= t_ns);
    let Some(before) = after.checked_sub(1).map(|i| &samples[i]) else { return 0.0 };
    let Some(next) = samples.get(after) else { return of(before) as f64 };
    let since = |later: i64, earlier: i64| (i128::from(later) - i128::from(earlier)) as f64;
    let part = since(t_ns, before.t_ns) / since(next.t_ns, before.t_ns);
    if part > 0.999 {
        return of(next) as f64;
    }
    let (low, high) = (of(before) as f64, of(next) as f64);
    low + (high - low) * part
}

/// Payload rate between two times, in megabits per second.
pub(crate) fn rate_mbps(series: &FlowSeries, from_ns: i64, to_ns: i64) -> f64 {
    payload_within(series, from_ns, to_ns) * 8e3 / (to_ns - from_ns) as f64
}

/// Payload bytes between two times.
pub(crate) fn payload_within(series: &FlowSeries, from_ns: i64, to_ns: i64) -> f64 {
    counter_at(&series.samples, to_ns, |s| s.bytes)
        - counter_at(&series.samples, from_ns, |s| s.bytes)
}
