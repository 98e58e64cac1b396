//! Quell's JSON of a test: what was asked, what was found, and everything that was counted.

use quell_flow::{Amount, FlowError, FlowMeasurement, FlowPlan, FlowReport, LaneCounts, Senders};
use quell_wire::iperf3::Moment;
use serde_json::{Value, json};

/// The document.
pub fn document(outcome: &FlowMeasurement, findings: &FlowReport) -> Value {
    let plan = &outcome.plan;
    let (seconds, bytes) = match plan.amount {
        Amount::Time(time) => (Some(time.as_secs_f64()), None),
        Amount::Bytes(bytes) => (None, Some(bytes)),
    };
    let intervals = outcome.intervals.iter().map(|interval| {
        json!({
            "start_s": interval.start_s,
            "end_s": interval.end_s,
            "omitted": interval.omitted,
            "up_bits_per_second": interval.rate(true),
            "down_bits_per_second": interval.rate(false),
            "streams": interval.lanes.iter().map(|lane| {
                let mut value = mark(&lane.mark);
                value["id"] = lane.id.into();
                value["direction"] = direction(lane.sends).into();
                value
            }).collect::<Value>(),
        })
    });
    let streams = outcome.lanes.iter().map(|lane| {
        let mut value = mark(&lane.mark);
        value["id"] = lane.id.into();
        value["direction"] = direction(lane.sends).into();
        value["local"] = lane.local.to_string().into();
        value["remote"] = lane.remote.to_string().into();
        value["congestion"] = lane.congestion.clone().into();
        value["mss_bytes"] = lane.mss.into();
        value["send_buffer_bytes"] = lane.buffers.0.into();
        value["receive_buffer_bytes"] = lane.buffers.1.into();
        value["moments"] = lane.moments.iter().map(moment).collect();
        value
    });
    json!({
        "headline": super::text::headline(outcome, findings),
        "host": plan.host,
        "to": plan.to.to_string(),
        "control": plan.control.to_string(),
        "server_is_quell": outcome.quell_server(),
        "transport": plan.transport.name(),
        "direction": senders(plan.direction),
        "asked": {
            "seconds": seconds,
            "bytes": bytes,
            "omit_s": plan.omit.as_secs_f64(),
            "streams": plan.streams,
            "bits_per_second": plan.rate,
            "pacing_bits_per_second": plan.pacing,
            "block_bytes": outcome.block,
            "window_bytes": plan.window,
            "tos": plan.tos,
        },
        "seconds": outcome.seconds,
        "up": findings.up,
        "down": findings.down,
        "findings": findings.causes(outcome),
        "latency": {
            "method": outcome.latency.method,
            "idle": findings.idle,
            "loaded": findings.loaded,
            "added_ms": findings.added_ms,
            "added_up_ms": findings.added_up_ms,
            "added_down_ms": findings.added_down_ms,
            "note": outcome.latency.note,
        },
        "bdp": findings.bdp,
        "here": findings.here,
        "there": findings.there,
        "doubts": findings.doubts,
        "intervals": intervals.collect::<Value>(),
        "streams": streams.collect::<Value>(),
        "results": { "here": outcome.ours, "there": outcome.theirs },
        "stopped": outcome.stopped,
        "error": outcome.broke,
    })
}

/// Of a test in which no data flowed: what was asked, and why. Programs that read iperf3's find its `error` and no intervals.
pub fn nothing(plan: &FlowPlan, error: &FlowError) -> Value {
    json!({
        "host": plan.host,
        "to": plan.to.to_string(),
        "control": plan.control.to_string(),
        "transport": plan.transport.name(),
        "direction": senders(plan.direction),
        "up": null,
        "down": null,
        "intervals": [],
        "stopped": *error == FlowError::Stopped,
        "error": error.to_string(),
    })
}

fn senders(direction: Senders) -> &'static str {
    match direction {
        Senders::Up => "up",
        Senders::Down => "down",
        Senders::Both => "both",
    }
}

fn direction(sends: bool) -> &'static str {
    if sends { "up" } else { "down" }
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

/// A state with units in its keys.
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

fn mark(mark: &LaneCounts) -> Value {
    let mut value = moment(&mark.moment);
    value["jitter_ms"] = (mark.jitter_ns as f64 / 1e6).into();
    value["reordered"] = mark.reordered.into();
    value["duplicates"] = mark.duplicates.into();
    value["socket_dropped"] = mark.socket_dropped.into();
    value
}
