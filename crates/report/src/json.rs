//! The results of a run as JSON, for other programs.
//!
//! The keys are a promise: they may be joined by more, and don't go away. A value that does not apply is null.

use crate::analysis::{Clocks, EchoResult, OwnTime, PageResult, Results, Spread, StreamResult};
use quell_model::Manifest;
use serde_json::{Value, json};

/// Page loads: how many, and the means of those that came to their end.
fn pages(pages: &PageResult) -> Value {
    json!({
        "begun": pages.begun(),
        "loaded": pages.loaded,
        "doc_ms": pages.doc_ms,
        "paint_ms": pages.paint_ms,
        "fcp_ms": pages.fcp_ms,
        "lcp_ms": pages.lcp_ms,
        "load_ms": pages.load_ms,
        "load_sd_ms": pages.load_sd_ms,
        "each_load_ms": pages.loads.iter().map(|load| load.load_ms).collect::<Vec<_>>(),
        "protocols": pages.protocols(),
        "failed_requests": pages.failed_requests(),
    })
}

/// The other end's clock, where it is not ours.
fn clock_offset(clocks: &Clocks) -> Option<Value> {
    let Clocks::Apart { offset, at_ns } = clocks else { return None };
    Some(json!({
        "offset_ms": offset.at(*at_ns) as f64 / 1e6,
        "bound_ms": offset.bound_ns / 1e6,
        "drift_ppm": offset.drift_ppm(),
    }))
}

/// Quantiles; null of what is not known exactly.
fn quantiles(figure: impl Fn(fn(&Spread) -> f64) -> Option<f64>) -> Value {
    json!({
        "min": figure(|s| s.min),
        "mean": figure(|s| s.mean),
        "p50": figure(|s| s.p50),
        "p90": figure(|s| s.p90),
        "p99": figure(|s| s.p99),
        "max": figure(|s| s.max),
    })
}

fn spread(spread: Option<&Spread>) -> Option<Value> {
    spread.map(|s| quantiles(|of| Some(of(s))))
}

/// Round trips: those that are exact, the least and the most that they can be.
fn rtt(echo: &EchoResult) -> Option<[Value; 3]> {
    echo.rtt_ms.as_ref()?;
    let range = |of: fn(&Spread) -> f64| echo.rtt_range(of);
    Some([
        quantiles(|of| range(of).filter(|(least, most)| least == most).map(|(least, _)| least)),
        quantiles(|of| range(of).map(|(least, _)| least)),
        quantiles(|of| range(of).map(|(_, most)| most)),
    ])
}

fn row(result: &StreamResult) -> Value {
    let (echo, flow) = (result.echo(), result.flow());
    let part = flow.and_then(|f| match f.time {
        OwnTime::Part(from, to) => Some((from, to)),
        OwnTime::Whole | OwnTime::Never => None,
    });
    let (exact, last) = (echo.and_then(EchoResult::jitter_ms), result.jitter_last());
    let jitter_of = echo.filter(|_| exact.is_some()).map(|e| e.jitter_of);
    let [rtt, rtt_at_least, rtt_at_most] = echo.and_then(rtt).unwrap_or_default();
    let (lost, loss) = (result.lost_ways(), result.loss_range());
    let late = echo.map(|e| e.lateness).filter(|late| late.of > 0);
    let held_back = flow.and_then(|f| f.held_back);
    let counts = echo.map(|e| e.counts);
    json!({
        "scenario": result.cell.scenario,
        "probe": result.cell.probe,
        "stream": result.stream,
        "repeat": result.cell.repeat,
        "sent": result.sent(),
        "received": result.received(),
        "received_late": counts.map(|c| c.received_late),
        "loss_ratio": result.loss_ratio(),
        "jitter_ms": exact,
        "rtt_ms": rtt,
        "rtt_at_least_ms": rtt_at_least,
        "rtt_at_most_ms": rtt_at_most,
        "goodput_mbps": flow.and_then(|f| f.goodput_mbps),
        "share": flow.and_then(|f| f.share),
        "jitter_of": jitter_of.or(last.map(|(_, of)| of)).map(|of| of.name()),
        "jitter_up_ms": echo.and_then(|e| e.jitter_up_ms),
        "jitter_down_ms": echo.and_then(|e| e.jitter_down_ms),
        "jitter_rtt_ms": echo.and_then(|e| e.jitter_rtt_ms),
        "jitter_last_ms": last.map(|(ms, _)| ms),
        "way": flow.and_then(|f| f.way.as_deref()),
        "together_mbps": flow.and_then(|f| f.together_mbps),
        "carried_mbps": flow.and_then(|f| f.carried_mbps),
        "cpu_ms_per_mb": flow.and_then(|f| f.cpu_ms_per_mb),
        "flow_from_s": part.map(|(from, _)| from),
        "flow_to_s": part.map(|(_, to)| to),
        "delays_of_a_minority": counts.map(|c| c.minority().is_some()),
        "lost_up": lost.map(|(up, _)| up),
        "lost_down": lost.map(|(_, down)| down),
        "loss_at_least": loss.map(|(least, _)| least),
        "loss_at_most": loss.map(|(_, most)| most),
        "unsure": counts.map(|c| c.unsure),
        "not_sent": counts.map(|c| c.not_sent),
        "errors": counts.map(|c| c.errors),
        "duplicates": counts.map(|c| c.duplicates),
        "reordered_up": echo.and_then(|e| e.reordered_up),
        "reordered_down": echo.and_then(|e| e.reordered_down),
        "ipdv_ms": spread(echo.and_then(|e| e.ipdv_ms.as_ref())),
        "up_ms": spread(echo.and_then(|e| e.up_ms.as_ref())),
        "down_ms": spread(echo.and_then(|e| e.down_ms.as_ref())),
        "retransmits": flow.and_then(|f| f.retransmits),
        "held_back_packets": held_back.map(|h| h.packets),
        "held_back_s": held_back.map(|h| h.ns as f64 / 1e9),
        "clock_offset": echo.and_then(|e| clock_offset(&e.clocks)),
        "late": late.map(|late| json!({ "packets": late.late, "of": late.of, "worst_ms": late.worst_ns as f64 / 1e6 })),
        "pages": result.pages.as_deref().map(pages),
    })
}

/// A value to 12 digits, far finer than anything is measured: what is left of binary arithmetic (0.30000000000000004) goes.
fn tidy(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

/// All numbers that are not whole, tidied.
fn tidied(mut value: Value) -> Value {
    match &mut value {
        Value::Number(number) if number.is_f64() => {
            return number.as_f64().map_or(Value::Null, |v| tidy(v).into());
        }
        Value::Array(all) => all.iter_mut().for_each(|v| *v = tidied(v.take())),
        Value::Object(all) => all.values_mut().for_each(|v| *v = tidied(v.take())),
        _ => {}
    }
    value
}

/// The words of `quell show --list --json` for how a run came to its end.
fn state(manifest: &Manifest) -> &'static str {
    match manifest.complete {
        true => "complete",
        false if manifest.was_stopped() => "stopped",
        false => "partial",
    }
}

/// Some of the results, as they stand in [`document`]'s `results`.
pub fn rows<'a>(rows: impl Iterator<Item = &'a StreamResult>) -> Value {
    tidied(rows.map(row).collect())
}

pub fn document(manifest: &Manifest, results: &Results) -> Value {
    let expectation = |record: &quell_model::manifest::ExpectationRecord| json!({ "expect": record.claim, "held": record.held, "found": record.found });
    let hosts = crate::hosts::json(manifest);
    let warnings = results.warnings().into_iter().chain(crate::hosts::sentences(manifest).1);
    tidied(json!({
        "run": manifest.run,
        "experiment": manifest.experiment,
        "seed": manifest.seed,
        "complete": manifest.complete,
        "state": state(manifest),
        "kernel": {
            "backend": manifest.kernel.backend.name(),
            "version": manifest.kernel.version,
            "virtual_time": manifest.kernel.virtual_time,
        },
        "results": results.rows.iter().map(row).collect::<Vec<_>>(),
        "warnings": warnings.collect::<Vec<_>>(),
        "hosts": hosts,
        "wall_s": manifest.wall_s,
        "virtual_s": manifest.virtual_s,
        "expectations": manifest.expectations.iter().map(expectation).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::tidy;

    #[test]
    fn what_binary_arithmetic_leaves_behind_goes_and_nothing_else() {
        assert_eq!(tidy(0.1 + 0.2), 0.3);
        for value in [0.0, 20.000_032, 1e-9, 123_456.789_012, -0.5, 1.0 / 3.0] {
            assert!((tidy(value) - value).abs() <= value.abs() * 1e-11, "{value}");
        }
        assert!(tidy(f64::NAN).is_nan());
    }
}
