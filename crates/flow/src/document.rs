//! A test as JSON: what was asked, what was found, and everything that was counted.

use crate::latency::{Method, RttSummary};
use crate::report::{Bdp, DirectionReport, HostReport};
use crate::{Amount, FlowError, FlowMeasurement, FlowPlan, FlowReport, LaneCounts, Senders};
use quell_finding::Finding;
use quell_grade::Assessment;
use quell_wire::iperf3::{Moment, Results};
use serde::Serialize;
use serde_json::{Value, json};
use std::net::SocketAddr;

#[derive(Debug, Serialize)]
pub struct FlowDocument<'a> {
    headline: String,
    grade: Option<&'a Assessment>,
    #[serde(flatten)]
    ends: FlowEnds<'a>,
    server_is_quell: bool,
    asked: FlowRequest,
    seconds: f64,
    up: Option<&'a DirectionReport>,
    down: Option<&'a DirectionReport>,
    findings: Vec<Finding>,
    latency: LatencyFigures<'a>,
    bdp: Option<Bdp>,
    here: &'a HostReport,
    there: Option<&'a HostReport>,
    doubts: &'a [String],
    intervals: Vec<IntervalFigures>,
    streams: Vec<Value>,
    results: EndResults<'a>,
    stopped: bool,
    error: Option<&'a str>,
}

/// Of a test in which no data flowed: what was asked, and why. Programs that read iperf3's find its `error` and no intervals.
#[derive(Debug, Serialize)]
pub struct FailedFlow<'a> {
    #[serde(flatten)]
    ends: FlowEnds<'a>,
    intervals: [(); 0],
    stopped: bool,
    error: String,
}

#[derive(Debug, Serialize)]
struct FlowEnds<'a> {
    host: &'a str,
    to: SocketAddr,
    control: SocketAddr,
    transport: &'static str,
    direction: &'static str,
}

#[derive(Debug, Serialize)]
struct FlowRequest {
    seconds: Option<f64>,
    bytes: Option<u64>,
    omit_s: f64,
    streams: u32,
    bits_per_second: Option<u64>,
    pacing_bits_per_second: Option<u64>,
    block_bytes: u64,
    window_bytes: Option<u64>,
    tos: u8,
}

#[derive(Debug, Serialize)]
struct LatencyFigures<'a> {
    method: Option<Method>,
    idle: Option<RttSummary>,
    loaded: Option<RttSummary>,
    added_ms: Option<f64>,
    added_up_ms: Option<f64>,
    added_down_ms: Option<f64>,
    note: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct IntervalFigures {
    start_s: f64,
    end_s: f64,
    omitted: bool,
    up_bits_per_second: Option<f64>,
    down_bits_per_second: Option<f64>,
    streams: Vec<Value>,
}

#[derive(Debug, Serialize)]
struct EndResults<'a> {
    here: &'a Results,
    there: Option<&'a Results>,
}

impl<'a> FlowDocument<'a> {
    pub fn of(headline: String, outcome: &'a FlowMeasurement, report: &'a FlowReport) -> Self {
        let plan = &outcome.plan;
        let (seconds, bytes) = match plan.amount {
            Amount::Time(time) => (Some(time.as_secs_f64()), None),
            Amount::Bytes(bytes) => (None, Some(bytes)),
        };
        let intervals = outcome.intervals.iter().map(|interval| IntervalFigures {
            start_s: interval.start_s,
            end_s: interval.end_s,
            omitted: interval.omitted,
            up_bits_per_second: interval.rate(true),
            down_bits_per_second: interval.rate(false),
            streams: interval.lanes.iter().map(|l| counts(l.id, l.sends, &l.mark)).collect(),
        });
        let streams = outcome.lanes.iter().map(|lane| {
            let mut value = counts(lane.id, lane.sends, &lane.mark);
            value["local"] = lane.local.to_string().into();
            value["remote"] = lane.remote.to_string().into();
            value["congestion"] = lane.congestion.clone().into();
            value["mss_bytes"] = lane.mss.into();
            value["send_buffer_bytes"] = lane.buffers.0.into();
            value["receive_buffer_bytes"] = lane.buffers.1.into();
            value["moments"] = lane.moments.iter().map(moment).collect();
            value
        });
        Self {
            headline,
            grade: report.grade.as_ref(),
            ends: FlowEnds::of(plan),
            server_is_quell: outcome.quell_server(),
            asked: FlowRequest {
                seconds,
                bytes,
                omit_s: plan.omit.as_secs_f64(),
                streams: plan.streams,
                bits_per_second: plan.rate,
                pacing_bits_per_second: plan.pacing,
                block_bytes: outcome.block,
                window_bytes: plan.window,
                tos: plan.tos,
            },
            seconds: outcome.seconds,
            up: report.up.as_ref(),
            down: report.down.as_ref(),
            findings: report.causes(outcome),
            latency: LatencyFigures {
                method: outcome.latency.method,
                idle: report.idle,
                loaded: report.loaded,
                added_ms: report.added_ms,
                added_up_ms: report.added_up_ms,
                added_down_ms: report.added_down_ms,
                note: outcome.latency.note.as_deref(),
            },
            bdp: report.bdp,
            here: &report.here,
            there: report.there.as_ref(),
            doubts: &report.doubts,
            intervals: intervals.collect(),
            streams: streams.collect(),
            results: EndResults { here: &outcome.ours, there: outcome.theirs.as_ref() },
            stopped: outcome.stopped,
            error: outcome.broke.as_deref(),
        }
    }
}

impl<'a> FailedFlow<'a> {
    pub fn of(plan: &'a FlowPlan, error: &FlowError) -> Self {
        let stopped = *error == FlowError::Stopped;
        let ends = FlowEnds::of(plan);
        Self { ends, intervals: [], stopped, error: error.to_string() }
    }
}

impl<'a> FlowEnds<'a> {
    fn of(plan: &'a FlowPlan) -> Self {
        let direction = match plan.direction {
            Senders::Up => "up",
            Senders::Down => "down",
            Senders::Both => "both",
        };
        let (to, control, transport) = (plan.to, plan.control, plan.transport.name());
        Self { host: &plan.host, to, control, transport, direction }
    }
}

/// A state's keys that have no unit in their name where two Quells tell it each other, those of bytes a second as bits.
const UNITS: [(&str, &str, u64); 10] = [
    ("delivery_rate", "delivery_bits_per_second", 8),
    ("pacing_rate", "pacing_bits_per_second", 8),
    ("pacing_limit", "pacing_limit_bits_per_second", 8),
    ("cwnd", "cwnd_bytes", 1),
    ("window", "window_bytes", 1),
    ("acked", "acked_bytes", 1),
    ("unsent", "unsent_bytes", 1),
    ("in_flight", "in_flight_bytes", 1),
    ("segment", "segment_bytes", 1),
    ("pmtu", "pmtu_bytes", 1),
];

fn moment(moment: &Moment) -> Value {
    let mut value = json!(moment);
    if let Some(keys) = value.as_object_mut() {
        for (plain, named, times) in UNITS {
            if let Some(number) = keys.remove(plain).and_then(|number| number.as_u64()) {
                keys.insert(named.into(), number.saturating_mul(times).into());
            }
        }
    }
    value
}

fn counts(id: u32, sends: bool, mark: &LaneCounts) -> Value {
    let mut value = moment(&mark.moment);
    value["id"] = id.into();
    value["direction"] = if sends { "up" } else { "down" }.into();
    value["jitter_ms"] = (mark.jitter_ns as f64 / 1e6).into();
    value["reordered"] = mark.reordered.into();
    value["duplicates"] = mark.duplicates.into();
    value["socket_dropped"] = mark.socket_dropped.into();
    value
}
