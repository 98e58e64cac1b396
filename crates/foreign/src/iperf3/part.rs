//! What iperf3 tells of a stream, in one line of its JSON.

use serde::Deserialize;

/// What one stream did in one interval, or in all.
#[derive(Default, Deserialize)]
pub(super) struct Part {
    pub socket: Option<i64>,
    pub start: f64,
    pub end: f64,
    pub bytes: f64,
    #[serde(default)]
    pub retransmits: Option<i64>,
    #[serde(default)]
    pub snd_cwnd: Option<i64>,
    #[serde(default)]
    pub rtt: Option<i64>,
    #[serde(default)]
    pub packets: Option<i64>,
    #[serde(default)]
    pub lost_packets: Option<i64>,
    #[serde(default)]
    pub jitter_ms: Option<f64>,
    #[serde(default)]
    pub out_of_order: Option<i64>,
    #[serde(default)]
    pub omitted: bool,
    #[serde(default)]
    pub sender: Option<bool>,
}
