//! A value of a series, as Flent stores it: of a ping, of a rate, or of a socket.

use serde::Deserialize;

/// One value; what it is of has some of these.
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
