//! A value of a series, as Flent stores it: of a ping, of a rate, or of a socket.

use crate::imported::from_s;
use serde::Deserialize;

/// So long before a run's zero nothing of it was measured.
pub(super) const EARLIEST_NS: i64 = 60_000_000_000;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Raw {
    pub(super) t: Option<f64>,
    pub(super) val: Option<f64>,
    pub(super) seq: Option<f64>,
    pub(super) dur: Option<f64>,
    pub(super) owd_up: Option<f64>,
    pub(super) owd_down: Option<f64>,
    pub(super) lost: Option<bool>,
    pub(super) lost_dir: Option<String>,
    /// What `ss` told of the series' socket: segments, ms, Mbit/s twice. Short, since there may be many.
    pub(super) tcp_cwnd: Option<f32>,
    pub(super) tcp_rtt: Option<f32>,
    pub(super) tcp_pacing_rate: Option<f32>,
    pub(super) tcp_delivery_rate: Option<f32>,
}

impl Raw {
    pub(super) fn is_of_socket(&self) -> bool {
        let told = [self.tcp_cwnd, self.tcp_rtt, self.tcp_pacing_rate, self.tcp_delivery_rate];
        told.iter().any(Option::is_some)
    }

    /// Its time, as nanoseconds since the run's zero.
    ///
    /// # Errors
    /// Where it has none that can be, in words.
    pub(super) fn since(&self, zero: f64) -> Result<i64, String> {
        let t = self.t.ok_or("a value without its time")?;
        let since = from_s(t - zero).filter(|ns| *ns >= -EARLIEST_NS);
        since.ok_or_else(|| format!("{t:?} is no time of this run"))
    }
}
