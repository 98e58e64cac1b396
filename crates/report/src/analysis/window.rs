//! The time over which rates are taken.

use quell_model::{CellRecord, Side};
use quell_store::CellData;

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
