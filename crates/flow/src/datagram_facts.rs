//! Facts about the datagrams of one direction, from their receiver's counts and the pings before: whether a policer dropped them, of which rate and
//! burst, is a rule of the table of causes. Pure.

use crate::latency;
use crate::report::DatagramReport;
use crate::{FlowMeasurement, StreamMeasurement};
use quell_cause::{DatagramFacts, TokenBucket};
use quell_wire::iperf3::LossRecord;

/// Errors with why it is unknown. `by_filters`: this host's own filters dropped some.
pub(crate) fn policer(
    outcome: &FlowMeasurement,
    lanes: &[&StreamMeasurement],
    counted: &DatagramReport,
    by_filters: bool,
) -> Result<TokenBucket, &'static str> {
    let [lane] = lanes else { return Err("several streams shared the path (-P 1 is one)") };
    let told = outcome.their_part(lane.id).and_then(|part| part.losses.as_ref());
    let record = if lane.sends { told } else { lane.losses.as_ref() };
    if counted.reordered.is_some_and(|count| count > 0) {
        return Err("datagrams overtook each other");
    }
    let refused = counted.refused.filter(|_| !by_filters);
    if counted.socket_dropped.into_iter().chain(refused).any(|count| count > 0) {
        return Err("an end dropped datagrams itself");
    }
    let record = match record {
        Some(record) => record,
        None if lane.sends && !outcome.quell_server() => {
            return Err("the server does not tell when datagrams were lost");
        }
        None => &LossRecord::default(),
    };
    let pings =
        outcome.latency.loaded.iter().filter(|ping| ping.status.is_answered()).count() as u64;
    let header = if lane.remote.is_ipv4() { 28 } else { 48 };
    let seconds = |ns: u64| ns as f64 / 1e9;
    let behind: Vec<(f64, u64)> =
        record.behind.iter().map(|(ns, count)| (seconds(*ns), *count)).collect();
    let idle = outcome.latency.idle.iter().map(|ping| ping.t_ns);
    let quiet_ns = idle.clone().max().zip(idle.min());
    let apart = outcome.block.saturating_mul(8 * u64::from(outcome.plan.burst.max(1))) as f64;
    DatagramFacts {
        packet: (outcome.block + header) as f64,
        apart_s: outcome.plan.rate.map_or(0.0, |rate| apart / rate.max(1) as f64),
        lost: counted.lost,
        before: record.before,
        before_s: seconds(record.before_ns),
        behind: &behind,
        longer_s: record.longer_ns.map(|ns| ns as f64 / 1e9),
        jitter_s: counted.jitter_ms.unwrap_or(0.0) / 1e3,
        pings: (pings * (u64::from(latency::SIZE) + header)) as f64 / outcome.seconds.max(1e-3),
        quiet_s: quiet_ns.map_or(0.0, |(to, from)| to.saturating_sub(from) as f64 / 1e9),
    }
    .bucket()
}
