//! The same for programs: one document at the end, or an object a line while it goes on.

use super::session::{Method, Session};
use super::tally::Tally;
use super::target::Target;
use quell_model::EchoSample;
use quell_report::analysis::{Clocks, LATE_NS};
use quell_stats::Summary;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What a kept run tells of a stream, so that it can be summed up again.
pub fn kept(session: &Session, target: &Target) -> Value {
    let mut value = stream(session, target);
    value["method"] = session.method.key().into();
    value["interval_ns"] = session.interval.nanos().into();
    value
}

/// First line of `--json=lines`: what is sent where.
pub fn start(session: &Session) -> Value {
    let streams: Vec<Value> = session.targets.iter().map(|t| stream(session, t)).collect();
    json!({
        "event": "start",
        "method": session.method.key(),
        "interval_ms": session.interval.nanos() as f64 / 1e6,
        "streams": streams,
    })
}

/// A line for a packet. Times in nanoseconds; what is not known is left out. One-way times are raw, as the two clocks tell them.
pub fn packet(stream: &str, sample: &EchoSample) -> Value {
    let mut line = json!({
        "event": "packet",
        "stream": stream,
        "seq": sample.seq,
        "t_ns": sample.t_ns,
        "status": sample.status.name(),
    });
    let numbers = [
        ("rtt_ns", sample.rtt_ns.map(Value::from)),
        ("up_raw_ns", sample.up_ns.map(Value::from)),
        ("down_raw_ns", sample.down_ns.map(Value::from)),
        ("seen_late_ns", sample.seen_late_ns.map(Value::from)),
        ("sent_late_ns", sample.sent_late_ns.map(Value::from)),
        ("queued_ns", sample.queued_ns.map(Value::from)),
    ];
    for (key, number) in numbers {
        if let Some(number) = number {
            line[key] = number;
        }
    }
    line
}

/// The whole result.
pub fn document(session: &Session, tallies: &[Tally], run: Option<&str>) -> Value {
    let streams: Vec<Value> = session
        .targets
        .iter()
        .zip(tallies)
        .map(|(target, tally)| {
            let mut value = stream(session, target);
            figures(&mut value, tally);
            value
        })
        .collect();
    json!({
        "method": session.method.key(),
        "interval_ms": session.interval.nanos() as f64 / 1e6,
        "run": run,
        "streams": streams,
    })
}

fn stream(session: &Session, target: &Target) -> Value {
    let mut value = json!({
        "stream": target.name,
        "host": target.host,
        "address": target.to.ip().to_string(),
        "tos": target.tos.byte(),
    });
    if session.method != Method::Icmp {
        value["port"] = target.to.port().into();
    }
    if session.method != Method::Tcp {
        value["bytes"] = target.size.into();
    }
    value
}

/// Counts and times of a stream.
pub fn figures(value: &mut Value, tally: &Tally) {
    let found = tally.fold.result();
    let counts = found.counts;
    for (key, count) in [
        ("sent", counts.sent),
        ("received", counts.received),
        ("received_late", counts.received_late),
        ("lost", counts.lost),
        ("lost_up_at_least", counts.lost_up),
        ("lost_down_at_least", counts.lost_down),
        ("errors", counts.errors),
        ("duplicates", counts.duplicates),
        ("reordered", found.reordered),
        ("unfinished", counts.unfinished),
        ("unsure", counts.unsure),
        ("left_unanswered_at_most", counts.unanswered),
        ("not_sent", counts.not_sent),
        ("answers_without_number", tally.numbered.gaps()),
    ] {
        value[key] = count.into();
    }
    value["lost_up"] = counts.lost_ways().map(|(up, _)| up).into();
    value["lost_down"] = counts.lost_ways().map(|(_, down)| down).into();
    let kinds: BTreeMap<&String, u64> = tally.kinds.iter().map(|(k, n)| (k, *n)).collect();
    value["errors_by_kind"] = json!(kinds);
    value["clock"] = tally.clock.clone().into();
    value["loss_ratio"] = counts.loss_ratio().into();
    value["loss_at_least"] = counts.loss_range().map(|(least, _)| least).into();
    value["loss_at_most"] = counts.loss_range().map(|(_, most)| most).into();
    value["rtt_ms"] = match found.rtt_at_most_ms {
        Some(most) => exact(spread(found.rtt_ms), &spread(Some(most))),
        None => spread(found.rtt_ms),
    };
    value["rtt_at_least_ms"] = spread(found.rtt_ms);
    value["rtt_at_most_ms"] = spread(found.rtt_at_most_ms.or(found.rtt_ms));
    value["up_ms"] = spread(found.up_ms);
    value["down_ms"] = spread(found.down_ms);
    value["clock_offset"] = match found.clocks {
        Clocks::Same | Clocks::Unsteady => Value::Null,
        Clocks::Apart { offset, .. } => json!({
            "offset_ms": offset.middle_ns() as f64 / 1e6,
            "bound_ms": offset.bound_ns / 1e6,
            "drift_ppm": offset.drift_ppm(),
        }),
    };
    value["jitter_ms"] = found.jitter_ms().into();
    value["jitter_rtt_ms"] = found.jitter_rtt_ms.into();
    value["jitter_up_ms"] = found.jitter_up_ms.into();
    value["jitter_down_ms"] = found.jitter_down_ms.into();
    value["answered_after_retry"] = tally.retried.map_or(Value::Null, |retried| {
        let ms = |ns: u64| (retried.count > 0).then_some(ns as f64 / 1e6);
        json!({
            "connects": retried.count, "min_ms": ms(retried.least_ns), "max_ms": ms(retried.most_ns),
            "unsure": retried.unsure,
        })
    });
    value["jitter_of"] = found.jitter_of.name().into();
    value["queued_ms"] = spread(found.queued_ms);
    value["left_late"] = json!({
        "packets": found.left.late,
        "more_than_ms": LATE_NS as f64 / 1e6,
        "max_ms": found.left.worst_ns as f64 / 1e6,
    });
    value["seen_late"] = json!({
        "replies": found.seen.late,
        "more_than_ms": LATE_NS as f64 / 1e6,
        "of": found.seen.of,
        "max_ms": (found.seen.of > 0).then(|| found.seen.worst_ns as f64 / 1e6),
    });
}

/// The figures that are the same in both; those that are not known exactly are null.
fn exact(mut least: Value, most: &Value) -> Value {
    for (key, value) in least.as_object_mut().into_iter().flatten() {
        if *value != most[key] {
            *value = Value::Null;
        }
    }
    least
}

fn spread(of: Option<Summary>) -> Value {
    let Some(of) = of else { return Value::Null };
    json!({
        "n": of.n, "min": of.min, "mean": of.mean, "p50": of.p50, "p90": of.p90, "p99": of.p99, "max": of.max, "sd": of.sd,
    })
}
