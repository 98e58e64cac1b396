//! What is settled of the packets of a cell that did not come to its end. Answers are told at once and losses after the waiting time, so
//! that up to the cut too many packets seem answered.
//!
//! ```text
//!   sent ──────────────┬── waits ──┤ the last that was told
//!    settled: counts   │  answered so far, lost perhaps: does not count
//! ```

use super::stream_facts::Facts;
use super::{EchoFold, EchoResult};
use quell_model::{CellRecord, CellStatus, EchoSample, Told};
use quell_store::EchoSeries;

/// The time up to which all packets of a stream are settled; none where all of them are, or where the run does not tell.
fn until_ns(record: &CellRecord, facts: &Facts, series: &EchoSeries) -> Option<i64> {
    if record.status == CellStatus::Complete {
        return None;
    }
    let waits = facts.told(&series.stream, &Told::Waits)?;
    let waits_ns = i64::try_from(waits.parse::<u64>().ok()?).unwrap_or(i64::MAX);
    let seen_ns = |s: &EchoSample| {
        let took =
            s.rtt_ns.map_or(s.up_ns.unwrap_or(0), |rtt| i64::try_from(rtt).unwrap_or(i64::MAX));
        s.t_ns.saturating_add(took)
    };
    let last_ns = series.samples.iter().map(seen_ns).max()?;
    // A one-way flow's gaps are seen when what was sent after them arrives.
    let one_way = series.samples.iter().filter(|s| s.rtt_ns.is_none()).filter_map(|s| s.up_ns);
    let noticed_ns = one_way.max().unwrap_or(0);
    Some(last_ns.saturating_sub(waits_ns).saturating_sub(noticed_ns))
}

pub(crate) fn counted(
    record: &CellRecord,
    facts: &Facts,
    series: &EchoSeries,
    result: EchoResult,
) -> EchoResult {
    let Some(until_ns) = until_ns(record, facts, series) else { return result };
    let settled = series.samples.iter().filter(|s| s.t_ns <= until_ns).cloned().collect();
    let settled = EchoFold::of(facts, &EchoSeries { samples: settled, ..series.clone() }).result();
    let EchoResult { counts, batches, batches_at_most, .. } = settled;
    EchoResult { counts, batches, batches_at_most, ..result }
}
