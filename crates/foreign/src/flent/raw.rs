//! A value of a series, as Flent stores it: of a ping, of a rate, or of a socket.

use crate::imported::{ImpossibleValues, from_s};
use crate::json::Number;
use serde::Deserialize;
use serde_json::Value;

/// So long before a run's zero nothing of it was measured.
pub(super) const EARLIEST_NS: i64 = 60_000_000_000;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Raw {
    pub(super) t: Number,
    pub(super) val: Number,
    pub(super) seq: Number,
    pub(super) dur: Number,
    pub(super) owd_up: Number,
    pub(super) owd_down: Number,
    pub(super) lost: Value,
    pub(super) lost_dir: Value,
    /// What `ss` told of the series' socket: segments, ms, Mbit/s twice.
    pub(super) tcp_cwnd: Number,
    pub(super) tcp_rtt: Number,
    pub(super) tcp_pacing_rate: Number,
    pub(super) tcp_delivery_rate: Number,
}

impl Raw {
    pub(super) fn is_lost(&self) -> bool {
        self.lost == Value::Bool(true)
    }

    pub(super) fn is_of_socket(&self) -> bool {
        let told = [self.tcp_cwnd, self.tcp_rtt, self.tcp_pacing_rate, self.tcp_delivery_rate];
        told.iter().any(|value| value.0.is_some())
    }

    /// Its time, as nanoseconds since the run's zero; none where it has none that can be.
    pub(super) fn since(
        &self,
        zero: f64,
        place: &str,
        impossible: &mut ImpossibleValues,
    ) -> Option<i64> {
        let t = self.t.0.unwrap_or(f64::NAN);
        let since = from_s(t - zero).filter(|ns| *ns >= -EARLIEST_NS);
        if since.is_none() {
            impossible.add("t", || format!("{t:?} at {place} is no time of this run"));
        }
        since
    }
}
