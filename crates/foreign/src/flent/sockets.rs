//! What Flent's `--socket-stats` had `ss` tell of the socket that sends: the series' own values beside its rates, on the grid series of their own.
//!
//! ```text
//!   raw_values  "TCP upload": [{t, val, dur}, {t, tcp_cwnd, tcp_rtt, tcp_pacing_rate, tcp_delivery_rate} …]
//!   results     "TCP upload": […], "TCP upload::tcp_cwnd": […], "TCP upload::tcp_rtt": […] …
//! ```

use super::raw::Raw;
use crate::imported::from_s;
use crate::json::Number;
use quell_model::{FlowSample, Side, TcpState};

/// What stands between the name of a series and what is told of its socket.
const OF_SOCKET: &str = "::tcp_";

/// Whether a series of the grid is what was told of another's socket.
pub(super) fn is_told_of_one(name: &str) -> bool {
    name.contains(OF_SOCKET)
}

/// Puts what was told of sockets on the grid where it stands among raw values: with the series that the sockets are of.
pub(super) fn add(series: &mut [(String, Vec<Raw>)], x: &[Number], told: &[(String, Vec<Number>)]) {
    for (name, values) in series {
        let of = |key: &str| {
            let is_it = |(told, _): &&(String, Vec<Number>)| {
                told.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix(OF_SOCKET))
                    == Some(key)
            };
            told.iter().find(is_it).map(|(_, values)| values.as_slice()).unwrap_or_default()
        };
        let [cwnd, rtt, pacing, delivery] = ["cwnd", "rtt", "pacing_rate", "delivery_rate"].map(of);
        let at = |values: &[Number], i: usize| values.get(i).copied().unwrap_or_default();
        let most = [cwnd, rtt, pacing, delivery].map(<[_]>::len).into_iter().max().unwrap_or(0);
        let told = (0..most.min(x.len())).map(|i| Raw {
            t: x[i],
            tcp_cwnd: at(cwnd, i),
            tcp_rtt: at(rtt, i),
            tcp_pacing_rate: at(pacing, i),
            tcp_delivery_rate: at(delivery, i),
            ..Raw::default()
        });
        values.extend(told.filter(Raw::is_of_socket));
    }
}

/// The states of a series' socket, in the order of time. Its bytes are those of the series at that time, which were counted at the same end.
pub(super) fn states(values: &[Raw], zero: f64, rates: &[FlowSample]) -> Vec<FlowSample> {
    let mut states: Vec<FlowSample> = values
        .iter()
        .filter_map(|value| {
            let t_ns = from_s(value.t.0? - zero)?;
            let tcp = Some(state(value)?);
            let bytes = bytes_at(rates, t_ns);
            Some(FlowSample { t_ns, side: Side::Sender, bytes, packets: 0, tcp })
        })
        .collect();
    states.sort_by_key(|s| s.t_ns);
    states
}

/// What is told of the socket; none where nothing is.
fn state(value: &Raw) -> Option<TcpState> {
    // A value that can't be is one that is not told: conversions end at the ends of their types, and NaN is 0.
    let known = |value: Number, most: f64| value.0.filter(|v| (0.0..=most).contains(v));
    let cwnd = known(value.tcp_cwnd, 1e9);
    let rtt = known(value.tcp_rtt, 1e6);
    let pacing = known(value.tcp_pacing_rate, 1e9);
    let delivery = known(value.tcp_delivery_rate, 1e9);
    let is_told = [cwnd, rtt, pacing, delivery].iter().any(Option::is_some);
    let bytes = |mbps: f64| (mbps * 1e6 / 8.0).round() as u64;
    is_told.then(|| TcpState {
        retransmits: None,
        cwnd: cwnd.unwrap_or(0.0) as u32,
        srtt_us: (rtt.unwrap_or(0.0) * 1e3).round() as u32,
        delivery_rate: delivery.map_or(0, bytes),
        pacing_rate: pacing.map_or(u64::MAX, bytes),
        ..TcpState::default()
    })
}

/// The bytes at a time: straight between the values around it.
fn bytes_at(rates: &[FlowSample], t_ns: i64) -> u64 {
    let after = rates.partition_point(|s| s.t_ns <= t_ns);
    let before = after.checked_sub(1).map(|i| &rates[i]);
    match (before, rates.get(after)) {
        (None, _) => 0,
        (Some(last), None) => last.bytes,
        (Some(low), Some(high)) => {
            let since = |later: i64| (i128::from(later) - i128::from(low.t_ns)) as f64;
            let part = since(t_ns) / since(high.t_ns);
            low.bytes + ((high.bytes - low.bytes) as f64 * part) as u64
        }
    }
}
